//! Somebody who plays: one line to a server over UDP, and its answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;

use crate::arena::Server;
use crate::wait::eventually;

/// How long a server may take that waits for its own endpoint.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_ANSWER_BYTES: usize = 8 << 10;

/// Says one line, once. Nothing, if nobody answers.
pub(crate) async fn say(server: SocketAddr, line: &str) -> Option<String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    socket.connect(server).await.expect("an address");
    socket.send(line.as_bytes()).await.ok()?;
    let mut buffer = [0; MAX_ANSWER_BYTES];
    let answered = tokio::time::timeout(ANSWER_TIMEOUT, socket.recv(&mut buffer)).await;
    let length = answered.ok()?.ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned())
}

/// Says it until it is done. It must not matter how often it is said.
pub(crate) async fn tell(server: &Server, line: &str) -> String {
    let (name, address) = (server.name(), server.address());
    eventually(&format!("{name} at {address} does {line:?}"), async || {
        say(address, line).await.filter(|answer| answer.starts_with("OK "))
    })
    .await
}

/// Says it once; somebody must answer. What they say.
pub(crate) async fn ask(server: &Server, line: &str) -> String {
    let answer = say(server.address(), line).await;
    answer.unwrap_or_else(|| panic!("{} does not answer {line}", server.name()))
}

/// Says it once, and it must be done. For what ends the server: its port may soon be another's.
pub(crate) async fn order(server: &Server, line: &str) {
    let answer = ask(server, line).await;
    assert!(answer.starts_with("OK "), "{} does not {line}: {answer}", server.name());
}
