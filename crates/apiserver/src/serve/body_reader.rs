//! Reading request bodies: how many, how many bytes and how slowly, bounded by user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::future::poll_immediate;
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::metrics::Rejection;
use crate::status::ApiError;

use super::fairness::{Fairness, Flow};

/// How long a body may take to arrive, as upstream.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long nothing of a body may arrive.
const BODY_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Bodies of one user that are being read.
pub(super) const MAX_BODIES_PER_USER: usize = 128;
/// Bodies up to this size are bounded by how many requests of a user have a seat or wait for one.
const MAX_UNCOUNTED_BYTES: usize = 64 << 10;
/// Bytes of one user's larger bodies, from when they arrive until the request is answered.
const MAX_BYTES_PER_USER: usize = 64 << 20;
/// The same of all users together. Whoever has less than one body of the largest size may go on.
const MAX_BYTES: usize = 256 << 20;

/// What is being read, and what was read for requests that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct BodyReader(Mutex<BodyUsage>);

#[derive(Debug, Default)]
struct BodyUsage {
    bytes: usize,
    users: HashMap<Arc<str>, UserUsage>,
}

#[derive(Debug, Default)]
struct UserUsage {
    bodies: usize,
    bytes: usize,
    /// Permits that name this user.
    requests: usize,
}

impl BodyReader {
    /// Reads a body of `limit` bytes at most. What it holds is given back with the permit.
    pub(super) async fn read(
        self: &Arc<Self>,
        fairness: &Fairness,
        flow: &Flow,
        mut body: Body,
        limit: usize,
    ) -> Result<(Bytes, Option<BodyPermit>), ApiError> {
        let too_large =
            || ApiError::too_large(format!("Request entity too large: limit is {limit}"));
        if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
            return Err(too_large());
        }
        let refused = || fairness.refuse(flow, Rejection::Bodies);
        let mut permit = None;
        let mut chunks = BodyChunks::default();
        let mut deadline = None;
        loop {
            let frame = match poll_immediate(body.frame()).await {
                Some(frame) => frame,
                None => {
                    let permit = permit.get_or_insert_with(|| self.register(flow));
                    permit.begin().ok_or_else(refused)?;
                    let now = Instant::now();
                    let deadline = *deadline.get_or_insert(now + BODY_TIMEOUT);
                    let until = deadline.min(now + BODY_STALL_TIMEOUT);
                    let frame = tokio::time::timeout_at(until, body.frame()).await;
                    frame.map_err(|_| timed_out())?
                }
            };
            let data = match frame {
                None => break,
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    let why = format!("cannot read the request body: {error}");
                    return Err(ApiError::bad_request(why));
                }
            };
            let length = chunks.len() + data.len();
            if length > limit {
                return Err(too_large());
            }
            if length > MAX_UNCOUNTED_BYTES {
                let permit = permit.get_or_insert_with(|| self.register(flow));
                permit.grow(length, limit).ok_or_else(refused)?;
            }
            chunks.push(data);
        }
        if let Some(permit) = &mut permit {
            permit.end();
        }
        Ok((chunks.joined(), permit))
    }

    fn register(self: &Arc<Self>, flow: &Flow) -> BodyPermit {
        self.lock().users.entry(flow.user.clone()).or_default().requests += 1;
        BodyPermit { reader: self.clone(), flow: flow.clone(), reading: false, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, BodyUsage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has come of a body. Most come in one piece, which is used as it is.
#[derive(Default)]
struct BodyChunks {
    first: Bytes,
    joined: BytesMut,
}

impl BodyChunks {
    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        self.joined.extend_from_slice(&data);
    }

    fn joined(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
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
pub(super) struct BodyPermit {
    reader: Arc<BodyReader>,
    flow: Flow,
    reading: bool,
    bytes: usize,
}

impl BodyPermit {
    /// The body is waited for.
    fn begin(&mut self) -> Option<()> {
        if self.reading {
            return Some(());
        }
        let mut state = self.reader.lock();
        let usage = state.users.entry(self.flow.user.clone()).or_default();
        if usage.bodies >= MAX_BODIES_PER_USER && !self.flow.level.is_exempt() {
            return None;
        }
        usage.bodies += 1;
        self.reading = true;
        Some(())
    }

    /// `length` bytes of the body have arrived.
    fn grow(&mut self, length: usize, one_body: usize) -> Option<()> {
        let bytes = length - self.bytes;
        let mut state = self.reader.lock();
        let all = state.bytes + bytes;
        let usage = state.users.entry(self.flow.user.clone()).or_default();
        let own = usage.bytes + bytes;
        let fits = own <= MAX_BYTES_PER_USER.max(one_body)
            && (all <= MAX_BYTES || own <= one_body || !self.flow.level.is_workload());
        if !fits && !self.flow.level.is_exempt() {
            return None;
        }
        usage.bytes = own;
        state.bytes = all;
        self.bytes += bytes;
        Some(())
    }

    /// The body has arrived.
    fn end(&mut self) {
        let mut state = self.reader.lock();
        if let Some(usage) = state.users.get_mut(&self.flow.user) {
            usage.bodies -= usize::from(self.reading);
        }
        self.reading = false;
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        self.end();
        let mut state = self.reader.lock();
        state.bytes -= self.bytes;
        let Some(usage) = state.users.get_mut(&self.flow.user) else { return };
        usage.bytes -= self.bytes;
        usage.requests -= 1;
        if usage.requests == 0 {
            state.users.remove(&self.flow.user);
        }
    }
}
