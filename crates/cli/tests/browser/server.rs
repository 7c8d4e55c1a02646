//! Somebody else's web server, as far as the tests need one.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::response::Html;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::wait::EVENTUALLY_TIMEOUT;

/// Serves one page at every address, and keeps the JSON that is posted there.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    posted: watch::Receiver<Vec<Value>>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(page: String) -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(any).await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (heard, posted) = watch::channel(Vec::new());
        let served = Router::new().fallback(async move |body: String| {
            if let Ok(value) = serde_json::from_str(&body) {
                heard.send_modify(|all: &mut Vec<Value>| all.push(value));
            }
            Html(page.clone())
        });
        let task = tokio::spawn(async move {
            axum::serve(listener, served).await.expect("it serves until it is dropped");
        });
        Self { port, posted, task }
    }

    /// The first JSON that was posted and fits.
    pub(crate) async fn posted(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut posted = self.posted.clone();
        let found = posted.wait_for(|all| all.iter().any(&fits));
        let found = tokio::time::timeout(EVENTUALLY_TIMEOUT, found).await;
        let all = found.unwrap_or_else(|_| panic!("not posted: {what}")).expect("it serves");
        all.iter().find(|one| fits(one)).expect("it was waited for").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
