//! A server that has one page.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(crate) struct PageServer {
    pub(crate) address: SocketAddr,
    _serving: JoinSet<()>,
}

impl PageServer {
    /// Serves the page on any free port, until it is dropped.
    pub(crate) async fn start(page: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(answer(connection, page));
            }
        });
        Self { address, _serving: serving }
    }
}

/// Answers one request without a body. Whoever goes meanwhile gets no answer.
async fn answer(mut connection: TcpStream, page: &str) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match connection.read_buf(&mut request).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let length = page.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{page}"
    );
    drop(connection.write_all(answer.as_bytes()).await);
}
