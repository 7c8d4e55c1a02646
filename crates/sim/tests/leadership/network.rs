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
pub(crate) enum Weather {
    #[default]
    Fair,
    /// They fail at once.
    Cut,
    /// They are never answered and never arrive.
    Silent,
    /// They arrive late, even when nobody waits for them any more, and the answer is late, too.
    Slow { there: Duration, back: Duration },
    /// They arrive, and the answer is lost.
    Deaf,
}

/// One replica's connection. What it wrote is noted when it arrives.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    weather: Mutex<Weather>,
    arrivals: Mutex<Vec<Instant>>,
}

impl Wire {
    pub(crate) fn set(&self, weather: Weather) {
        *self.weather.lock().expect("no panic inside") = weather;
    }

    fn weather(&self) -> Weather {
        *self.weather.lock().expect("no panic inside")
    }

    /// When something arrived that only a leader may write.
    pub(crate) fn arrivals(&self) -> Vec<Instant> {
        self.arrivals.lock().expect("no panic inside").clone()
    }

    pub(crate) fn client(self: &Arc<Self>, inner: Client) -> Client {
        Client::new(Wired { inner, wire: self.clone() }, "default")
    }
}

#[derive(Clone)]
struct Wired {
    inner: Client,
    wire: Arc<Wire>,
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
        let Self { inner, wire } = self.clone();
        Box::pin(async move {
            let weather = wire.weather();
            let (there, back) = match weather {
                Weather::Fair | Weather::Deaf => (Duration::ZERO, Duration::ZERO),
                Weather::Slow { there, back } => (there, back),
                Weather::Cut => return Err("connection refused".into()),
                Weather::Silent => return std::future::pending().await,
            };
            // What was sent arrives, whether or not somebody still waits for the answer.
            let arrived = tokio::spawn(async move {
                tokio::time::sleep(there).await;
                if request.uri().path().contains("/configmaps") {
                    wire.arrivals.lock().expect("no panic inside").push(Instant::now());
                }
                inner.send(request).await
            });
            let answer = arrived.await??;
            tokio::time::sleep(back).await;
            match weather {
                Weather::Deaf => Err("connection reset".into()),
                _ => Ok(answer),
            }
        })
    }
}
