//! `watch`: changes as they happen, pulled from the table's ring by each watcher at its own pace.
//!
//! What goes wrong after the request was understood is told inside the stream, as an ERROR event:
//! clients re-list on an in-stream 410 and on nothing else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::json;
use tokio::sync::watch as signal;
use tokio::time::Instant;

use crate::field::{FieldError, Path};
use crate::json::Object;
use crate::respond::{self, Form};
use crate::selection::Selection;
use crate::serve::block_in_place;
use crate::serve::fairness::work::Work;
use crate::status::ApiError;
use crate::store::{ChangeEvent, Gone, StoredObject};
use crate::table::{self, ListMeta, View};

use super::Call;
use super::list::{self, parse_version};

const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// A last bookmark goes out this long before the watch ends.
const FINAL_BOOKMARK_LEAD: Duration = Duration::from_secs(2);
/// A watch without a timeout ends after this long, plus up to as long again.
const DEFAULT_TIMEOUT_SECS: u64 = 1_800;
/// Changes taken from the ring, and synthetic events written, in one go.
const MAX_BATCH_EVENTS: usize = 256;

pub(crate) fn watch(call: Call) -> Result<Response<Body>, ApiError> {
    let form = Form::negotiate(&call.headers, &call.query)?;
    let start = WatchStart::of(&call)?;
    let selection = Selection::of(&call)?;
    let watcher = WatchStream::new(call, form, selection, start)?;
    let stream = futures::stream::unfold(Some(watcher), |watcher| async move {
        let mut watcher = watcher?;
        let piece = watcher.next().await?;
        let rest = (!watcher.ended).then_some(watcher);
        Some((Ok::<_, std::convert::Infallible>(piece), rest))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

/// From where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchStart {
    /// Every object as ADDED, then changes.
    Everything,
    /// The same, then a bookmark that says so.
    EverythingThenBookmark(u64),
    /// Changes after this version.
    After(u64),
    /// Changes from now on.
    Now,
}

impl WatchStart {
    fn of(call: &Call) -> Result<Self, ApiError> {
        let query = &call.query;
        let version = query.text("resourceVersion");
        let matching = query.text("resourceVersionMatch");
        let initial = query.flag("sendInitialEvents");
        let mut errors = Vec::new();
        let at = Path::new("resourceVersionMatch");
        match initial {
            Some(_) if matching != "NotOlderThan" => {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(FieldError::forbidden(&at, why));
                if !matching.is_empty() {
                    let supported = ["NotOlderThan"];
                    errors.push(FieldError::not_supported(&at, &json!(matching), &supported));
                }
            }
            None if !matching.is_empty() => {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(&at, why));
            }
            _ => {}
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors));
        }
        let version = parse_version(version)?;
        Ok(match (initial, version) {
            (Some(true), version) => Self::EverythingThenBookmark(version.unwrap_or(0)),
            (Some(false), None | Some(0)) => Self::Now,
            (None, None | Some(0)) => Self::Everything,
            (_, Some(version)) => Self::After(version),
        })
    }
}

struct WatchStream {
    call: Call,
    form: Form,
    selection: Selection,
    /// Synthetic ADDED events that are still to be sent.
    initial: VecDeque<Arc<StoredObject>>,
    /// The bookmark after the initial events is still to be sent.
    announce: bool,
    last: u64,
    changes: signal::Receiver<u64>,
    shutdown: signal::Receiver<bool>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// A table's columns are described once.
    headers_sent: bool,
    /// An error to tell before the stream ends.
    failed: Option<ApiError>,
    ended: bool,
}

impl WatchStream {
    fn new(
        call: Call,
        form: Form,
        selection: Selection,
        start: WatchStart,
    ) -> Result<Self, ApiError> {
        let timeout = match call.query.int("timeoutSeconds")? {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
            _ => default_timeout(&call),
        };
        let now = Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or(now + Duration::from_secs(86_400));
        let changes = call.endpoint.resource.table.subscribe();
        let shutdown = call.engine.shutdown.subscribe();
        let bookmarks = call.query.flag("allowWatchBookmarks").unwrap_or(false);
        let mut watcher = Self {
            call,
            form,
            selection,
            initial: VecDeque::new(),
            announce: false,
            last: 0,
            changes,
            shutdown,
            bookmarks,
            next_bookmark: now + BOOKMARK_INTERVAL.min(timeout.saturating_sub(FINAL_BOOKMARK_LEAD)),
            deadline,
            headers_sent: false,
            failed: None,
            ended: false,
        };
        watcher.begin(start);
        Ok(watcher)
    }

    fn begin(&mut self, start: WatchStart) {
        let (objects, version) = list::newest(&self.call);
        self.last = version;
        match start {
            WatchStart::Now => {}
            WatchStart::Everything => {
                self.queue_initial(&objects);
                self.announce = self.bookmarks;
            }
            WatchStart::EverythingThenBookmark(asked) if asked <= version => {
                self.queue_initial(&objects);
                self.announce = self.bookmarks;
            }
            WatchStart::After(asked) if asked <= version => self.last = asked,
            WatchStart::EverythingThenBookmark(asked) | WatchStart::After(asked) => {
                // A version from the future (a restored backup): waiting for it would leave the
                // client blind, so it is told to list anew.
                self.failed = Some(ApiError::expired(format!(
                    "Too large resource version: {asked}, current: {version}"
                )));
            }
        }
    }

    fn queue_initial(&mut self, objects: &crate::store::Objects) {
        let found = list::range(objects, self.call.namespace(), None);
        self.initial = found.filter(|o| self.selection.matches(o)).cloned().collect();
    }

    /// The next piece of the stream; `None` when it is over.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        loop {
            if *self.shutdown.borrow() {
                return None;
            }
            if let Some(error) = self.failed.take() {
                self.ended = true;
                write_event(&mut out, "ERROR", error.to_value().to_string().as_bytes());
                return Some(out.into());
            }
            if !self.initial.is_empty() {
                self.write_initial(&mut out).await;
                return Some(out.into());
            }
            if self.announce {
                self.announce = false;
                self.write_bookmark(&mut out, self.last, true);
                return Some(out.into());
            }
            // The store's version is read before the ring: a bookmark may not skip a change.
            let current = self.call.engine.store.version();
            self.changes.mark_unchanged();
            match self.call.endpoint.resource.table.events_after(self.last, MAX_BATCH_EVENTS) {
                Err(Gone) => {
                    let (last, oldest) = (self.last, self.call.endpoint.resource.table.oldest());
                    let why = format!("too old resource version: {last} ({oldest})");
                    self.failed = Some(ApiError::expired(why));
                    continue;
                }
                Ok(events) if events.is_empty() => self.last = self.last.max(current),
                Ok(events) => {
                    for event in &events {
                        self.write_change(&mut out, event);
                        self.last = event.version;
                    }
                    if out.is_empty() {
                        continue;
                    }
                    return Some(out.into());
                }
            }
            let wake =
                if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
            let over = tokio::select! {
                changed = self.changes.changed() => changed.is_err(),
                down = self.shutdown.changed() => down.is_err() || *self.shutdown.borrow(),
                () = tokio::time::sleep_until(wake) => Instant::now() >= self.deadline,
            };
            if over {
                return None;
            }
            let now = Instant::now();
            if self.bookmarks && now >= self.next_bookmark {
                self.schedule_bookmark(now);
                self.write_bookmark(&mut out, self.last, false);
                return Some(out.into());
            }
        }
    }

    /// A piece of the first events, which are work like a list is.
    async fn write_initial(&mut self, out: &mut Vec<u8>) {
        let count = self.initial.len().min(MAX_BATCH_EVENTS);
        let batch: Vec<_> = self.initial.drain(..count).collect();
        let bytes = batch.iter().map(|object| object.len()).sum();
        let work = Work::writing(self.form, bytes, count);
        // A first batch that is all there is costs no more than a small list.
        let work = if self.initial.is_empty() { work } else { work.as_chunk() };
        let _seat = self.call.engine.fairness.admit_chunk(&self.call.identity, work).await;
        block_in_place::run(work.is_heavy(), || {
            for object in &batch {
                self.write(out, "ADDED", object);
            }
        });
    }

    fn schedule_bookmark(&mut self, now: Instant) {
        let last = self.deadline.checked_sub(FINAL_BOOKMARK_LEAD).unwrap_or(now);
        let regular = now + BOOKMARK_INTERVAL;
        self.next_bookmark =
            if regular >= last && now < last { last } else { regular.min(self.deadline) };
    }

    /// What a change means to this watcher: entering its selection is ADDED, leaving it DELETED.
    fn write_change(&mut self, out: &mut Vec<u8>, event: &ChangeEvent) {
        if !self.in_namespace(&event.object) {
            return;
        }
        let before = event.previous.as_ref().is_some_and(|p| self.selection.matches(p));
        let after = !event.removed && self.selection.matches(&event.object);
        match (before, after) {
            (false, true) => self.write(out, "ADDED", &event.object),
            (true, true) => self.write(out, "MODIFIED", &event.object),
            (true, false) if event.removed => self.write(out, "DELETED", &event.object),
            (true, false) => {
                if let Some(previous) = &event.previous {
                    self.write(out, "DELETED", &previous.at_version(event.version));
                }
            }
            (false, false) => {}
        }
    }

    fn in_namespace(&self, object: &StoredObject) -> bool {
        let namespace = self.call.namespace();
        namespace.is_empty() || namespace == object.namespace()
    }

    fn write(&mut self, out: &mut Vec<u8>, kind: &str, object: &StoredObject) {
        let start = open_event(out, kind);
        let written = match self.form {
            Form::Json => {
                respond::write_object(&self.call, object, out);
                Ok(())
            }
            Form::Partial { version, .. } => respond::write_partial(object, version, out),
            Form::Table { .. } => {
                let object = self.call.endpoint.to_object(object);
                self.write_table(out, &object);
                Ok(())
            }
        };
        match written {
            Ok(()) => out.extend_from_slice(b"}\n"),
            Err(error) => {
                out.truncate(start);
                self.failed = Some(error);
            }
        }
    }

    fn write_table(&mut self, out: &mut Vec<u8>, object: &Object) {
        let Form::Table { version, include } = self.form else { return };
        let view = View { version, include, headers: !self.headers_sent, now: self.call.now() };
        self.headers_sent = true;
        let printer = self.call.endpoint.printer();
        out.extend(table::render(printer, &view, &ListMeta::of_object(object), [object]));
    }

    fn write_bookmark(&mut self, out: &mut Vec<u8>, version: u64, initial_end: bool) {
        let endpoint = &self.call.endpoint;
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = json!({
            "kind": endpoint.resource.kind,
            "apiVersion": endpoint.version().api_version,
            "metadata": metadata,
        });
        endpoint.shape_bookmark(&mut object);
        open_event(out, "BOOKMARK");
        match self.form {
            Form::Json => out.extend_from_slice(object.to_string().as_bytes()),
            Form::Partial { version, .. } => {
                let object = crate::json::into_object(object);
                table::partial_metadata(&object, version, out);
            }
            Form::Table { .. } => self.write_table(out, &crate::json::into_object(object)),
        }
        out.extend_from_slice(b"}\n");
    }
}

fn default_timeout(call: &Call) -> Duration {
    let mut spread = [0_u8; 2];
    // This only spreads load: without random numbers every watch ends after the same time.
    let _ = call.engine.entropy.fill(&mut spread);
    let spread = u64::from(u16::from_le_bytes(spread)) % DEFAULT_TIMEOUT_SECS;
    Duration::from_secs(DEFAULT_TIMEOUT_SECS + spread)
}

/// Begins an event's line; where it began is returned.
fn open_event(out: &mut Vec<u8>, kind: &str) -> usize {
    let start = out.len();
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(br#"","object":"#);
    start
}

fn write_event(out: &mut Vec<u8>, kind: &str, object: &[u8]) {
    open_event(out, kind);
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
}
