//! Bounds: places, silence.

use super::*;

#[tokio::test]
async fn an_environment_that_says_nothing_is_given_up() {
    let backend = environment(|_, stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let limits = GatewayLimits { idle: Duration::from_millis(300), ..GatewayLimits::default() };
    let served = served(backend, limits).await;
    let answer = served.get("/", HTML).await;
    assert_eq!(status(&answer), "504", "{answer}");
    assert!(served.gateway.acquire(&lent()).is_some());
}

#[tokio::test]
async fn an_answer_that_stops_moving_is_cut() {
    let backend = environment(|_, mut stream| async move {
        let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
        stream.write_all(half.as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let limits = GatewayLimits { idle: Duration::from_millis(300), ..GatewayLimits::default() };
    let served = served(backend, limits).await;
    let mut stream = served.connect().await;
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    drop(within_limit(stream.read_to_end(&mut answer)).await);
    assert!(answer.ends_with(b"\r\n\r\nhalf"));
}

#[tokio::test]
async fn no_more_than_so_many_at_a_time() {
    let backend = environment(|_, mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        // Until the visitor leaves.
        drop(stream.read(&mut [0; 1]).await);
    })
    .await;
    let served =
        served(backend, GatewayLimits { per_instance: 2, ..GatewayLimits::default() }).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = served.connect().await;
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        read_head(&mut stream).await;
        open.push(stream);
    }
    let answer = served.get("/", "").await;
    assert_eq!(status(&answer), "503", "{answer}");
    assert!(answer.contains("retry-after: 5\r\n"), "{answer}");
    drop(open);
    let free = async {
        while served.gateway.acquire(&lent()).is_none() {
            tokio::task::yield_now().await;
        }
    };
    within_limit(free).await;
}

#[tokio::test]
async fn fetching_ahead_is_nobodys_activity() {
    let (backend, _heads) = saying(OK).await;
    let served = served(backend, GatewayLimits::default()).await;
    let answer = served.get("/", "Sec-Purpose: prefetch;prerender\r\n").await;
    assert_eq!(status(&answer), "200");
    assert_eq!(served.cluster.activity(), 0);
}
