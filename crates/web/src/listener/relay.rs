//! A listener that leads somewhere else: what comes in is passed on, byte by byte, to whichever
//! replica serves people at the moment. TLS ends there, and sessions are there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::{Bound, CONNECTIONS, accept};

/// How long a connection waits while nobody serves: a lease that is not renewed is free after 15 s.
const LEADER_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Whoever serves people now, if anybody does.
pub type Leader = watch::Receiver<Option<SocketAddr>>;

/// A relay that runs. Dropping it ends it, with every connection that it passes on.
#[derive(Debug)]
pub struct Relay {
    accepting: JoinHandle<()>,
}

impl Bound {
    /// Passes on whatever comes in, until the answer is dropped. Whoever comes then waits until
    /// somebody serves.
    pub fn relay(&self, leader: Leader) -> Relay {
        Relay { accepting: tokio::spawn(run(self.listener.clone(), leader)) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn run(listener: Arc<TcpListener>, leader: Leader) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = accept(&listener), if connections.len() < CONNECTIONS => {
                if let Some((stream, _)) = accepted {
                    connections.spawn(relay_connection(stream, leader.clone()));
                }
            }
        }
    }
}

async fn relay_connection(mut from: TcpStream, mut leader: Leader) {
    let known = tokio::time::timeout(LEADER_TIMEOUT, leader.wait_for(Option::is_some)).await;
    let address = known.ok().and_then(|known| known.ok().and_then(|address| *address));
    let Some(address) = address else {
        return tracing::warn!("nobody serves people; a connection is closed");
    };
    let mut to = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(Ok(to)) => to,
        Ok(Err(error)) => return tracing::warn!(%error, %address, "cannot reach who serves people"),
        Err(_) => return tracing::warn!(%address, "who serves people does not answer"),
    };
    for stream in [&from, &to] {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
    }
    // Each side may close its half; who serves has timeouts for those that say nothing.
    if let Err(error) = copy_bidirectional(&mut from, &mut to).await {
        tracing::debug!(%error, "a connection ended early");
    }
}
