//! WebSockets and other protocols: spliced, noticed, ended.

use super::*;

const HANDSHAKE: &str = "GET /ws HTTP/1.1\r\nHost: shell-lab-x.localhost:7080\r\n\
    Origin: http://shell-lab-x.localhost:7080\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Cookie: sojourn-7080=secret; theirs=1\r\n\r\n";

/// Agrees and echoes until the other side ends.
async fn echo() -> Backend {
    environment(|head, mut stream| async move {
        assert!(head.starts_with("GET /ws HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("connection: upgrade\r\n"), "{head}");
        assert!(head.contains("upgrade: websocket\r\n"), "{head}");
        assert!(head.contains("sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), "{head}");
        assert!(head.contains("cookie: theirs=1\r\n"), "{head}");
        assert!(head.contains("origin: http://shell-lab-x.localhost:7080\r\n"), "{head}");
        let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
            Upgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        stream.write_all(agreed.as_bytes()).await.unwrap();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            if stream.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    })
    .await
}

async fn opened(served: &Served) -> BufReader<TcpStream> {
    let mut stream = served.connect().await;
    stream.write_all(HANDSHAKE.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert!(head.contains("connection: upgrade\r\n"), "{head}");
    assert!(head.contains("upgrade: websocket\r\n"), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
    stream
}

async fn is_echoed(stream: &mut BufReader<TcpStream>, bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    let mut back = vec![0; bytes.len()];
    within_limit(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, bytes);
}

#[tokio::test]
async fn what_is_said_on_a_websocket_is_passed_on_both_ways() {
    let served =
        served(echo().await, GatewayLimits { per_instance: 1, ..GatewayLimits::default() }).await;
    let mut stream = opened(&served).await;
    // A masked frame that says "hi".
    is_echoed(&mut stream, &[0x81, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2]).await;
    is_echoed(&mut stream, &[9; 2000]).await;
    let answer = served.get("/", "").await;
    assert_eq!(status(&answer), "503", "the one place is taken: {answer}");
    stream.get_mut().shutdown().await.unwrap();
    assert_eq!(within_limit(stream.read(&mut [0; 1])).await.unwrap(), 0);
    let free = async {
        while served.gateway.acquire(&lent()).is_none() {
            tokio::task::yield_now().await;
        }
    };
    within_limit(free).await;
    assert!(served.cluster.activity() >= 1);
}

#[tokio::test]
async fn silence_ends_a_websocket_and_closing_ends_all() {
    let limits =
        GatewayLimits { idle_upgraded: Duration::from_millis(300), ..GatewayLimits::default() };
    let silent = served(echo().await, limits).await;
    let mut stream = opened(&silent).await;
    assert_eq!(within_limit(stream.read(&mut [0; 1])).await.unwrap_or(0), 0);

    let closed = served(echo().await, GatewayLimits::default()).await;
    let mut stream = opened(&closed).await;
    is_echoed(&mut stream, b"x").await;
    closed.gateway.close();
    assert_eq!(within_limit(stream.read(&mut [0; 1])).await.unwrap_or(0), 0);
}

#[tokio::test(start_paused = true)]
async fn who_may_no_longer_is_cut_off() {
    let served = served(echo().await, GatewayLimits::default()).await;
    let mut stream = opened(&served).await;
    is_echoed(&mut stream, b"x").await;
    served.cluster.forbid("access");
    let ended = tokio::time::timeout(Duration::from_secs(120), stream.read(&mut [0; 1])).await;
    assert_eq!(ended.expect("within two minutes").unwrap_or(0), 0);
    assert_eq!(served.cluster.reviews.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn signing_out_ends_websockets() {
    let served = served(echo().await, GatewayLimits::default()).await;
    let mut stream = opened(&served).await;
    is_echoed(&mut stream, b"x").await;
    served.signed_out.cancel();
    assert_eq!(within_limit(stream.read(&mut [0; 1])).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_refused_upgrade_is_an_answer() {
    let (backend, _heads) =
        saying("HTTP/1.1 426 Upgrade Required\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nno").await;
    let served = served(backend, GatewayLimits::default()).await;
    let mut stream = served.connect().await;
    stream.write_all(HANDSHAKE.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 426"), "{head}");
    let mut body = [0; 2];
    within_limit(stream.read_exact(&mut body)).await.unwrap();
    assert_eq!(&body, b"no");
}

#[tokio::test]
async fn http_2_is_not_tunnelled() {
    let (backend, mut heads) = saying(OK).await;
    let served = served(backend, GatewayLimits::default()).await;
    let answer =
        served.get("/", "Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n").await;
    assert_eq!(status(&answer), "200", "{answer}");
    let head = heads.recv().await.unwrap();
    assert!(!head.contains("h2c") && !head.contains("http2-settings"), "{head}");
}
