//! What an instance gets and can do: nothing of ours, nothing of others.

use super::*;

#[tokio::test]
async fn cookies_are_kept_apart() {
    let (backend, mut heads) = saying(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=1; Path=/; Domain=localhost\r\n\
         Set-Cookie: sojourn-7080=stolen; Path=/\r\nSet-Cookie: =sojourn-7080=stolen\r\n\
         Clear-Site-Data: \"cookies\"\r\n\r\nok",
    )
    .await;
    let served = served(backend, GatewayLimits::default()).await;
    let answer =
        served.get("/", "Cookie: sojourn-entry-7080=s; b=2\r\nCookie: __Host-sojourn=t\r\n").await;
    let cookies: Vec<&str> = answer.lines().filter(|line| line.starts_with("set-cookie")).collect();
    assert_eq!(cookies, ["set-cookie: a=1; Path=/"]);
    assert!(!answer.contains("clear-site-data"), "{answer}");
    let head = heads.recv().await.unwrap();
    assert!(head.contains("cookie: b=2\r\n") && !head.contains("sojourn-entry"), "{head}");
}

#[tokio::test]
async fn only_those_pass_whom_the_api_lets_pass() {
    let (backend, mut heads) = saying(OK).await;
    let served = served(backend, GatewayLimits::default()).await;
    served.cluster.forbid("access");
    for _ in 0..3 {
        assert_eq!(status(&served.get("/go/lab/ns/lab/shell/", HTML).await), "403");
        assert_eq!(status(&served.get("/waiting/lab/ns/lab/shell/", "").await), "403");
        assert_eq!(status(&served.get("/", HTML).await), "403");
    }
    assert_eq!(served.cluster.reviews.load(Ordering::SeqCst), 1, "a verdict is remembered");
    assert!(heads.try_recv().is_err());
    assert_eq!(served.cluster.activity(), 0);
}
