//! The system that says whether an exam goes on: what `statusCheck.url` leads to. Programs in Pods
//! can ask it, too.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::fixture::OUTSIDE;

#[derive(Debug)]
struct ExamState {
    status: StatusCode,
    body: String,
    /// What was asked for, oldest first.
    asked: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Exam {
    address: SocketAddr,
    state: Arc<Mutex<ExamState>>,
    serving: JoinHandle<()>,
}

impl Exam {
    /// It goes on.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((OUTSIDE, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = ExamState { status: StatusCode::OK, body: "{}".to_owned(), asked: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let serving = tokio::spawn(serve(listener, state.clone()));
        Self { address, state, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/exam/7", self.address)
    }

    /// What it answers from now on.
    pub(crate) fn answer(&self, status: StatusCode, body: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.status = status;
        body.clone_into(&mut state.body);
    }

    /// How often it was asked so far.
    pub(crate) fn asked(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).asked.len()
    }

    /// What was asked for so far: path and query.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).asked.clone()
    }
}

impl Drop for Exam {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<ExamState>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let state = state.clone();
        let answer = service_fn(move |request: Request<Incoming>| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.asked.push(request.uri().to_string());
            let body = Full::new(Bytes::from(state.body.clone()));
            let answer = Response::builder().status(state.status).body(body).expect("a response");
            async { Ok::<_, Infallible>(answer) }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
    }
}
