//! Clients at the same time: as fast as they are answered, or once a second each.

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep_until};

use super::client::Client;
use super::ledger::{Given, Ledger};
use crate::number::{count, percentile};

const SECOND: Duration = Duration::from_secs(1);

/// How each client asks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// The next when the last is answered, so often.
    Times(usize),
    /// The same, for so long.
    During(Duration),
    /// Once a second for so long, whatever became of the last one.
    EverySecond(Duration),
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) took: Duration,
    /// Milliseconds; where a request is due at a time, from then on.
    latencies: Vec<f64>,
    given: Vec<Given>,
}

impl Answered {
    pub(crate) fn requests(&self) -> usize {
        self.latencies.len()
    }

    pub(crate) fn per_second(&self) -> f64 {
        count(self.requests()) / self.took.as_secs_f64()
    }

    pub(crate) fn latency(&self, share: f64) -> Option<f64> {
        percentile(&self.latencies, share)
    }

    /// A second run of the same, after the first one.
    pub(crate) fn add(&mut self, other: Self) {
        self.took += other.took;
        self.latencies.extend(other.latencies);
        self.given.extend(other.given);
    }

    pub(crate) fn note_in(&self, ledger: &mut Ledger) {
        self.given.iter().for_each(|given| ledger.note(given));
    }
}

/// All of them at once.
pub(crate) async fn run(clients: Vec<Client>, pace: Pace) -> Result<Answered> {
    let (started, many) = (Instant::now(), clients.len());
    let mut asking = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        // Those that ask once a second do not all ask at the same moment.
        let offset = SECOND.mul_f64(count(number) / count(many));
        asking.spawn(ask(client, pace, started, offset));
    }
    let (mut latencies, mut given) = (Vec::new(), Vec::new());
    while let Some(joined) = asking.join_next().await {
        let (theirs, answers) = joined??;
        latencies.extend(theirs);
        given.extend(answers);
    }
    Ok(Answered { took: started.elapsed(), latencies, given })
}

async fn ask(
    mut client: Client,
    pace: Pace,
    started: Instant,
    offset: Duration,
) -> Result<(Vec<f64>, Vec<Given>)> {
    let (mut latencies, mut given) = (Vec::new(), Vec::new());
    let mut due = started + offset;
    loop {
        let begun = match pace {
            Pace::Times(times) if latencies.len() == times => break,
            Pace::During(during) if started.elapsed() >= during => break,
            Pace::EverySecond(during) if due >= started + during => break,
            Pace::Times(_) | Pace::During(_) => Instant::now(),
            Pace::EverySecond(_) => {
                sleep_until(due).await;
                due
            }
        };
        given.extend(client.next().await?);
        latencies.push(begun.elapsed().as_secs_f64() * 1e3);
        due += SECOND;
    }
    Ok((latencies, given))
}
