//! Reviews by the thousand, from one thread: as fast as they are answered, or at a rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use tokio::runtime::Builder;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::connection::{Connection, Protocol, Target};
use super::review::Review;
use crate::number::count;

/// Reviews that are under way at once: on as many connections, or on one.
const CONCURRENT: usize = 32;

/// What is posted, each review in its turn, over and over.
#[derive(Clone)]
pub(crate) struct Reviews {
    all: Arc<[Review]>,
    next: Arc<AtomicUsize>,
}

impl Reviews {
    pub(crate) fn new(all: Vec<Review>) -> Self {
        Self { all: all.into(), next: Arc::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn next(&self) -> &Review {
        &self.all[self.next.fetch_add(1, Ordering::Relaxed) % self.all.len()]
    }
}

/// What a run answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) reviews: usize,
    pub(crate) took: Duration,
    /// Milliseconds from when each was due until its answer was there, where they were due at a time.
    pub(crate) latencies: Vec<f64>,
}

impl Answered {
    pub(crate) fn per_second(&self) -> f64 {
        count(self.reviews) / self.took.as_secs_f64()
    }
}

/// How reviews are posted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// The next when the last is answered, for so long.
    Closed(Duration),
    /// The same, so many in all.
    Times(usize),
    /// Each at its time, whatever became of those before it: so many per second, for so long.
    Open { rate: u32, during: Duration },
}

/// Posts reviews from a thread of its own.
pub(crate) async fn post(
    target: &Target,
    protocol: Protocol,
    reviews: &Reviews,
    pace: Pace,
) -> Result<Answered> {
    let (target, reviews) = (target.clone(), reviews.clone());
    let posting = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let connections = connect(&target, protocol).await.context("cannot connect")?;
            match pace {
                Pace::Closed(during) => closed(connections, reviews, usize::MAX, during).await,
                Pace::Times(times) => closed(connections, reviews, times, Duration::MAX).await,
                Pace::Open { rate, during } => open(connections, reviews, rate, during).await,
            }
        })
    });
    let joined = tokio::task::spawn_blocking(|| posting.join()).await?;
    joined.map_err(|_| anyhow!("the thread that posts reviews panicked"))?
}

async fn connect(target: &Target, protocol: Protocol) -> Result<Vec<Connection>> {
    let mut connections = vec![target.connect(protocol).await?];
    while connections.len() < CONCURRENT {
        let next = match connections[0].share() {
            Some(shared) => shared,
            None => target.connect(protocol).await?,
        };
        connections.push(next);
    }
    Ok(connections)
}

async fn closed(
    connections: Vec<Connection>,
    reviews: Reviews,
    times: usize,
    during: Duration,
) -> Result<Answered> {
    let begun = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut posting = JoinSet::new();
    for mut connection in connections {
        let (reviews, begun) = (reviews.clone(), begun.clone());
        posting.spawn(async move {
            let mut answered = 0;
            while started.elapsed() < during && begun.fetch_add(1, Ordering::Relaxed) < times {
                connection.ask(reviews.next()).await?;
                answered += 1;
            }
            anyhow::Ok(answered)
        });
    }
    let mut answered = 0;
    while let Some(joined) = posting.join_next().await {
        answered += joined??;
    }
    Ok(Answered { reviews: answered, took: started.elapsed(), latencies: Vec::new() })
}

async fn open(
    connections: Vec<Connection>,
    reviews: Reviews,
    rate: u32,
    during: Duration,
) -> Result<Answered> {
    let (give, take) = mpsc::unbounded_channel::<Instant>();
    let take = Arc::new(Mutex::new(take));
    let mut posting = JoinSet::new();
    for mut connection in connections {
        let (reviews, take) = (reviews.clone(), take.clone());
        posting.spawn(async move {
            let mut latencies = Vec::new();
            loop {
                let due = take.lock().await.recv().await;
                let Some(due) = due else { return anyhow::Ok(latencies) };
                connection.ask(reviews.next()).await?;
                latencies.push(due.elapsed().as_secs_f64() * 1e3);
            }
        });
    }
    let (started, interval) = (Instant::now(), Duration::from_secs(1) / rate);
    let mut due = started;
    while due < started + during {
        // A timer would be too coarse for a tenth of a millisecond.
        while due > Instant::now() {
            tokio::task::yield_now().await;
        }
        give.send(due).map_err(|_| anyhow!("nobody posts reviews any more"))?;
        due += interval;
    }
    drop(give);
    let mut latencies = Vec::new();
    while let Some(joined) = posting.join_next().await {
        latencies.extend(joined??);
    }
    Ok(Answered { reviews: latencies.len(), took: started.elapsed(), latencies })
}
