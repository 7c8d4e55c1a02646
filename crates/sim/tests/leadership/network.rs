//! The way of one replica to the API: slow, cut, or silent.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::Service;

/// What becomes of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum NetworkState {
    #[default]
    Healthy,
    /// They fail at once.
    Cut,
    /// They are never answered and never arrive.
    Silent,
    /// They arrive late, even when nobody waits for them any more, and the answer is late, too.
    Slow { there: Duration, back: Duration },
    /// They arrive, and the answer is lost.
    AnswersLost,
}

/// One replica's connection. What it wrote is noted when it arrives.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    state: Mutex<NetworkState>,
    arrivals: Mutex<Vec<Instant>>,
}

impl Connection {
    pub(crate) fn set(&self, state: NetworkState) {
        *self.state.lock().expect("no panic inside") = state;
    }

    fn state(&self) -> NetworkState {
        *self.state.lock().expect("no panic inside")
    }

    /// When something arrived that only a leader may write.
    pub(crate) fn arrivals(&self) -> Vec<Instant> {
        self.arrivals.lock().expect("no panic inside").clone()
    }

    pub(crate) fn client(self: &Arc<Self>, inner: Client) -> Client {
        Client::new(Wired { inner, connection: self.clone() }, "default")
    }
}

#[derive(Clone)]
struct Wired {
    inner: Client,
    connection: Arc<Connection>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Service<Request<Body>> for Wired {
    type Response = Response<Body>;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Response<Body>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, connection } = self.clone();
        Box::pin(async move {
            let state = connection.state();
            let (there, back) = match state {
                NetworkState::Healthy | NetworkState::AnswersLost => {
                    (Duration::ZERO, Duration::ZERO)
                }
                NetworkState::Slow { there, back } => (there, back),
                NetworkState::Cut => return Err("connection refused".into()),
                NetworkState::Silent => return std::future::pending().await,
            };
            // What was sent arrives, whether or not somebody still waits for the answer.
            let arrived = tokio::spawn(async move {
                tokio::time::sleep(there).await;
                if request.uri().path().contains("/configmaps") {
                    connection.arrivals.lock().expect("no panic inside").push(Instant::now());
                }
                inner.send(request).await
            });
            let answer = arrived.await??;
            tokio::time::sleep(back).await;
            match state {
                NetworkState::AnswersLost => Err("connection reset".into()),
                _ => Ok(answer),
            }
        })
    }
}
