//! A WebSocket, as RFC 6455 has it: short text messages, one frame each.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::wait::EVENTUALLY_TIMEOUT;

/// The key of the standard's own example, and the answer to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// A client must mask what it sends; with what is its own affair.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const TEXT: u8 = 0x81;
/// Longer ones have another form.
const SHORT: usize = 125;
const HEAD_LIMIT: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct WebSocket(TcpStream);

impl WebSocket {
    pub(super) async fn open(
        site: SocketAddr,
        host: &str,
        path: &str,
        cookies: Option<String>,
    ) -> Self {
        let mut stream = TcpStream::connect(site).await.expect("a connection");
        let cookies = cookies.map(|cookies| format!("Cookie: {cookies}\r\n")).unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\nOrigin: http://{host}\r\n\
             Sec-Fetch-Site: same-origin\r\n{cookies}\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("it can be sent");
        let head = tokio::time::timeout(EVENTUALLY_TIMEOUT, read_head(&mut stream))
            .await
            .expect("an answer");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let accepted = head.lines().any(|line| {
            line.split_once(':').is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("Sec-WebSocket-Accept") && value.trim() == ACCEPT
            })
        });
        assert!(accepted, "{head}");
        Self(stream)
    }

    /// Says something, and hears what comes back.
    pub(crate) async fn ask(&mut self, text: &str) -> String {
        assert!(text.len() <= SHORT, "a longer message than these tests need");
        let length = u8::try_from(text.len()).expect("it is short");
        let mut frame = vec![TEXT, 0x80 | length];
        frame.extend(MASK);
        frame.extend(text.bytes().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).await.expect("it can be sent");
        let answer = tokio::time::timeout(EVENTUALLY_TIMEOUT, self.hear()).await;
        answer.expect("an answer")
    }

    async fn hear(&mut self) -> String {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).await.expect("a frame");
        assert_eq!(head[0], TEXT, "a whole text");
        assert!(usize::from(head[1]) <= SHORT, "servers do not mask, and it is short");
        let mut text = vec![0; usize::from(head[1])];
        self.0.read_exact(&mut text).await.expect("a frame");
        String::from_utf8(text).expect("text")
    }
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
        assert!(head.len() < HEAD_LIMIT, "no end of headers");
    }
    String::from_utf8(head).expect("text")
}
