//! A watch that runs in the background while a scenario goes on.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::scenario::Condition;
use crate::target::BoxError;

/// Reads events as they come; ends the request when dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    events: mpsc::UnboundedReceiver<Value>,
    reader: JoinHandle<()>,
}

#[derive(Debug)]
pub(crate) struct TakenEvents {
    pub(crate) events: Vec<Value>,
    /// The server ended the watch.
    pub(crate) ended: bool,
    /// What was asked for did not come in time.
    pub(crate) late: bool,
}

impl Watch {
    pub(crate) fn new(body: UnsyncBoxBody<Bytes, BoxError>) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self { events, reader: tokio::spawn(read(body, sender)) }
    }

    /// The next `count` events, or those up to the first for which `until` holds, or all up to the
    /// end of the watch.
    pub(crate) async fn take(
        &mut self,
        count: Option<usize>,
        until: Option<&Condition>,
        timeout: Duration,
    ) -> TakenEvents {
        let deadline = Instant::now() + timeout;
        let mut taken = TakenEvents { events: Vec::new(), ended: false, late: false };
        while count != Some(taken.events.len()) {
            match tokio::time::timeout_at(deadline, self.events.recv()).await {
                Ok(Some(event)) => {
                    let last = until.is_some_and(|condition| condition.holds(None, &event));
                    taken.events.push(event);
                    if last {
                        break;
                    }
                }
                Ok(None) => {
                    taken.ended = true;
                    taken.late = count.is_some() || until.is_some();
                    break;
                }
                Err(_) => {
                    taken.late = true;
                    break;
                }
            }
        }
        taken
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Splits the body into lines, one event each. A line that is not JSON is passed on as text.
async fn read(mut body: UnsyncBoxBody<Bytes, BoxError>, sender: mpsc::UnboundedSender<Value>) {
    let mut pending = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let text = || Value::from(String::from_utf8_lossy(&line).trim_end().to_owned());
            let event = serde_json::from_slice(&line).unwrap_or_else(|_| text());
            if sender.send(event).is_err() {
                return;
            }
        }
    }
}
