//! Bodies on their way in: how many, how much and how slowly, by user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::metrics::Rejection;
use crate::status::ApiError;

use super::fairness::{Fairness, Flow};

/// How long a body may take to arrive, as upstream.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a body may stand still.
const BODY_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Bodies of one user that are being read.
pub(super) const MAX_BODIES_PER_USER: usize = 128;
/// Bytes of one user's bodies, from when they arrive until the request is answered.
const MAX_BYTES_PER_USER: usize = 64 << 20;
/// The same of all users together. Whoever has less than one body of the largest size may go on.
const MAX_BYTES: usize = 256 << 20;

/// What is being read, and what was read for requests that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Intake(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    users: HashMap<Arc<str>, Held>,
}

#[derive(Debug, Default)]
struct Held {
    bodies: usize,
    bytes: usize,
    /// Guards that name this user.
    requests: usize,
}

impl Intake {
    /// Reads a body of `limit` bytes at most. What it holds is given back with the guard.
    pub(super) async fn read(
        self: &Arc<Self>,
        fairness: &Fairness,
        flow: &Flow,
        mut body: Body,
        limit: usize,
    ) -> Result<(Bytes, Guard), ApiError> {
        let mut guard = self.enter(flow);
        let too_large =
            || ApiError::too_large(format!("Request entity too large: limit is {limit}"));
        if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
            return Err(too_large());
        }
        if body.is_end_stream() {
            return Ok((Bytes::new(), guard));
        }
        let refused = || fairness.refuse(flow, Rejection::Bodies);
        guard.begin().ok_or_else(refused)?;
        let deadline = Instant::now() + BODY_TIMEOUT;
        let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
        loop {
            let until = deadline.min(Instant::now() + BODY_STALL_TIMEOUT);
            let frame = match tokio::time::timeout_at(until, body.frame()).await {
                Ok(None) => break,
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    let why = format!("cannot read the request body: {error}");
                    return Err(ApiError::bad_request(why));
                }
                Err(_) => return Err(timed_out()),
            };
            let Ok(data) = frame.into_data() else { continue };
            if first.len() + rest.len() + data.len() > limit {
                return Err(too_large());
            }
            guard.grow(data.len(), limit).ok_or_else(refused)?;
            // Most bodies come in one piece, which is used as it is.
            if first.is_empty() {
                first = data;
            } else {
                if rest.is_empty() {
                    rest.extend_from_slice(&first);
                    first.clear();
                }
                rest.extend_from_slice(&data);
            }
        }
        guard.end();
        let bytes = if rest.is_empty() { first } else { rest.freeze() };
        Ok((bytes, guard))
    }

    fn enter(self: &Arc<Self>, flow: &Flow) -> Guard {
        self.lock().users.entry(flow.user.clone()).or_default().requests += 1;
        Guard { intake: self.clone(), flow: flow.clone(), reading: false, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn timed_out() -> ApiError {
    ApiError::new(
        StatusCode::GATEWAY_TIMEOUT,
        "Timeout",
        "Timeout: request did not complete within the requested timeout - context deadline \
         exceeded",
    )
}

/// A request's part in what is being read and held.
#[derive(Debug)]
pub(super) struct Guard {
    intake: Arc<Intake>,
    flow: Flow,
    reading: bool,
    bytes: usize,
}

impl Guard {
    fn begin(&mut self) -> Option<()> {
        let mut state = self.intake.lock();
        let held = state.users.entry(self.flow.user.clone()).or_default();
        if held.bodies >= MAX_BODIES_PER_USER && !self.flow.level.is_exempt() {
            return None;
        }
        held.bodies += 1;
        self.reading = true;
        Some(())
    }

    fn grow(&mut self, bytes: usize, one_body: usize) -> Option<()> {
        let mut state = self.intake.lock();
        let all = state.bytes + bytes;
        let held = state.users.entry(self.flow.user.clone()).or_default();
        let own = held.bytes + bytes;
        let fits = own <= MAX_BYTES_PER_USER.max(one_body)
            && (all <= MAX_BYTES || own <= one_body || !self.flow.level.is_workload());
        if !fits && !self.flow.level.is_exempt() {
            return None;
        }
        held.bytes = own;
        state.bytes = all;
        self.bytes += bytes;
        Some(())
    }

    /// The body is here.
    fn end(&mut self) {
        let mut state = self.intake.lock();
        if let Some(held) = state.users.get_mut(&self.flow.user) {
            held.bodies -= usize::from(self.reading);
        }
        self.reading = false;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
        let mut state = self.intake.lock();
        state.bytes -= self.bytes;
        let Some(held) = state.users.get_mut(&self.flow.user) else { return };
        held.bytes -= self.bytes;
        held.requests -= 1;
        if held.requests == 0 {
            state.users.remove(&self.flow.user);
        }
    }
}
