//! `tcpSocket`: whether somebody takes a connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::ProbeOutcome;
use crate::dial::PodRoute;

/// Connects, and hangs up.
pub(super) async fn probe(
    route: &PodRoute,
    address: SocketAddr,
    timeout: Duration,
) -> ProbeOutcome {
    let connecting = route.connect(address.port(), address);
    match tokio::time::timeout(timeout, connecting).await {
        Ok(Ok(_)) => ProbeOutcome::Success,
        Ok(Err(error)) => ProbeOutcome::Failure(dial_error(address, &error)),
        Err(_) => ProbeOutcome::Failure(format!("dial tcp {address}: i/o timeout")),
    }
}

/// What a kubelet says when nobody answers, so that whoever knows it finds the cause.
pub(super) fn dial_error(address: SocketAddr, error: &io::Error) -> String {
    format!("dial tcp {address}: connect: {}", error.kind())
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn somebody_listens_or_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(
            probe(&PodRoute::Machine, address, CONNECT_TIMEOUT).await,
            ProbeOutcome::Success
        );
        drop(listener);
        let refused = format!("dial tcp {address}: connect: connection refused");
        assert_eq!(
            probe(&PodRoute::Machine, address, CONNECT_TIMEOUT).await,
            ProbeOutcome::Failure(refused)
        );
    }

    #[tokio::test]
    async fn patience_ends() {
        // A backlog that is full takes nobody else: the connection hangs.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        let short = Duration::from_millis(50);
        let message = loop {
            assert!(waiting.len() < 100, "a backlog of one takes everybody");
            match tokio::time::timeout(short, TcpStream::connect(address)).await {
                Ok(stream) => waiting.push(stream.unwrap()),
                Err(_) => break probe(&PodRoute::Machine, address, short).await,
            }
        };
        assert_eq!(message, ProbeOutcome::Failure(format!("dial tcp {address}: i/o timeout")));
    }
}
