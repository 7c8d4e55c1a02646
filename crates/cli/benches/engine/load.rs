//! Load on a server: many clients at once, lists, and watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::{Body, Call, Client};
use super::workload::{WATCHED, config_maps, create_config_map};
use crate::number::count;

/// What ends a run of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    Elapsed(Duration),
    Count(usize),
}

/// What a run of requests came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) requests: usize,
    pub(crate) took: Duration,
}

impl Done {
    pub(crate) fn per_second(self) -> f64 {
        count(self.requests) / self.took.as_secs_f64()
    }
}

/// Sends requests from so many clients, each its next one when the last is answered. `call` makes
/// the request of a number; no number is used twice.
pub(crate) async fn run(
    client: &Client,
    clients: usize,
    until: Until,
    call: impl Fn(usize) -> Call + Send + Sync + 'static,
) -> Result<Done> {
    let call = Arc::new(call);
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut running = JoinSet::new();
    for lane in 0..clients {
        let (client, call, next) = (client.clone(), call.clone(), next.clone());
        running.spawn(async move {
            let mut requests = 0;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let over = match until {
                    Until::Elapsed(limit) => started.elapsed() >= limit,
                    Until::Count(limit) => number >= limit,
                };
                if over {
                    return anyhow::Ok(requests);
                }
                client.finish(lane, call(number)).await?;
                requests += 1;
            }
        });
    }
    let mut requests = 0;
    while let Some(ended) = running.join_next().await {
        requests += ended.context("a client panicked")??;
    }
    Ok(Done { requests, took: started.elapsed() })
}

/// Lists a namespace in one answer; returns its length in bytes.
pub(crate) async fn list(client: &Client, namespace: &str) -> Result<usize> {
    client.finish(0, Call::get(config_maps(namespace))).await
}

/// Lists a namespace page by page; returns how many pages there were.
pub(crate) async fn list_paged(client: &Client, namespace: &str, page: usize) -> Result<usize> {
    let first = format!("{}?limit={page}", config_maps(namespace));
    let mut path = first.clone();
    let mut pages = 0;
    loop {
        let answer = client.send(0, Call::get(path)).await?.into_body().collect().await;
        let answer = answer.map_err(anyhow::Error::from_boxed)?.to_bytes();
        pages += 1;
        match continuation(&answer) {
            Some(token) => path = format!("{first}&continue={token}"),
            None => return Ok(pages),
        }
    }
}

/// The token for the next page. Reading all of the page would cost the client, which has the same
/// processors, more than it costs some servers to answer.
fn continuation(list: &[u8]) -> Option<String> {
    const FIELD: &[u8] = br#""continue":""#;
    // It is in the list's own metadata, which is before the items or after them.
    let [head, tail] = [&list[..list.len().min(400)], &list[list.len().saturating_sub(400)..]];
    let text = [head, tail].into_iter().find_map(|part| {
        let start = part.windows(FIELD.len()).position(|window| window == FIELD)? + FIELD.len();
        Some(&part[start..])
    })?;
    let end = text.iter().position(|byte| *byte == b'"')?;
    let token = std::str::from_utf8(&text[..end]).ok()?;
    (!token.is_empty()).then(|| token.to_owned())
}

/// Lets so many watchers follow a namespace, creates objects in it one by one, and returns how long
/// each took from the request's start until the last watcher had it.
pub(crate) async fn fan_out(
    client: &Client,
    watchers: usize,
    events: usize,
    name: &str,
) -> Result<Vec<Duration>> {
    let listed = client.json(Call::get(format!("{}?limit=1", config_maps(WATCHED)))).await?;
    let version = listed["metadata"]["resourceVersion"].as_str().context("a list's version")?;
    let path = format!("{}?watch=true&resourceVersion={version}", config_maps(WATCHED));
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let mut watching = JoinSet::new();
    for lane in 0..watchers {
        let body = client.send(lane, Call::get(&path)).await?.into_body();
        watching.spawn(follow(body, arrived.clone()));
    }
    drop(arrived);
    let mut took = Vec::with_capacity(events);
    for event in 0..events {
        let call = create_config_map(WATCHED, &format!("{name}-{event}"));
        let started = Instant::now();
        let everybody = async {
            for _ in 0..watchers {
                arrivals.recv().await.context("a watch ended early")?;
            }
            Ok(started.elapsed())
        };
        let (_, elapsed) = tokio::try_join!(client.finish(0, call), everybody)?;
        took.push(elapsed);
    }
    watching.shutdown().await;
    Ok(took)
}

/// Reports every event of a watch, which is a line each.
async fn follow(mut body: Body, arrived: mpsc::UnboundedSender<()>) {
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        for _ in data.iter().filter(|byte| **byte == b'\n') {
            if arrived.send(()).is_err() {
                return;
            }
        }
    }
}
