//! One look at one source: from where the last one got to, up to now.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sojourn_core::activity::Source;
use sojourn_core::coverage::Coverage;
use sojourn_drivers::metrics::{Answer, Metrics, QueryError, Window};

use super::TickStats;
use super::chunk::{CarriedValues, Chunk, ChunkResult, Point, points};
use super::directory::Directory;
use super::options::{Options, Polled};
use crate::tracker::Tracker;

/// How many points a series may have in one answer. Servers refuse more than 11,000.
const MAX_POINTS: usize = 10_000;
/// The fewest points worth asking for: what was, and what is.
const MIN_POINTS: usize = 2;
/// How many queries one look may make; the next one goes on where it stopped.
const MAX_QUERIES: usize = 48;
/// How far back a look goes at most. What nobody looked at for longer stays unseen.
const MAX_LOOK_BACK: SignedDuration = SignedDuration::from_hours(31 * 24);
/// How far before the stored end a new process begins. Use that was found but not written lies after
/// that end; whether it is a change only shows next to what was before, at whatever step.
const RESTART_OVERLAP: SignedDuration = SignedDuration::from_mins(10);
/// How long a query may take, whatever stands behind it.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// A source, and where looking at it has got to.
#[derive(Debug)]
pub(super) struct PolledSource {
    polled: Polled,
    /// Where the next look begins. `None` in a new process: where the stored coverage ends.
    resume: Option<Timestamp>,
    /// Growth up to here was counted.
    counted: Timestamp,
    /// How many points of data the server was last willing to answer at once.
    limit: usize,
    carried: CarriedValues,
    /// Why the last look did not get through.
    pub(super) trouble: Option<Arc<str>>,
}

impl PolledSource {
    pub(super) fn new(polled: Polled) -> Self {
        Self {
            polled,
            resume: None,
            counted: Timestamp::MIN,
            limit: MAX_POINTS,
            carried: CarriedValues::default(),
            trouble: None,
        }
    }

    pub(super) const fn source(&self) -> Source {
        self.polled.source
    }
}

/// Why a look stopped before it had got to now.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error("cannot ask whether {asked} can see: {error}")]
    AskAvailable { asked: Source, error: QueryError },
    #[error("cannot ask for the use that {asked} saw: {error}")]
    AskData { asked: Source, error: QueryError },
    #[error("the answer about {asked} is not whole: {warning}")]
    Partial { asked: Source, warning: String },
    #[error("{asked} has much to catch up with; the next look goes on")]
    Unfinished { asked: Source },
}

/// Everything that one look needs.
pub(super) struct Look<'a> {
    pub(super) now: Timestamp,
    pub(super) options: &'a Options,
    pub(super) metrics: &'a dyn Metrics,
    pub(super) directory: &'a dyn Directory,
    pub(super) tracker: &'a Tracker,
    pub(super) coverage: Coverage,
    pub(super) stats: TickStats,
}

impl Look<'_> {
    /// Looks. What it got to see is in the coverage, also when it did not get to the end.
    pub(super) async fn run(mut self, watched: &mut PolledSource) -> (Coverage, TickStats) {
        let source = watched.source();
        if watched.resume.is_none() {
            watched.counted = self.coverage.until();
        }
        let outcome = self.catch_up(watched).await;
        watched.limit = watched.limit.saturating_mul(2).min(MAX_POINTS);
        let trouble = outcome.err().map(|stopped| stopped.to_string());
        if let Some(trouble) = &trouble
            && watched.trouble.as_deref() != Some(trouble)
        {
            tracing::warn!(%source, trouble, "what this source sees is not known");
        }
        watched.trouble = trouble.map(Arc::from);
        (self.coverage, self.stats)
    }

    async fn catch_up(&mut self, watched: &mut PolledSource) -> Result<(), PollError> {
        let earliest = before(self.now, MAX_LOOK_BACK);
        let claimed = watched.resume.unwrap_or_else(|| self.coverage.last_seen()).max(earliest);
        let mut start = match watched.resume {
            Some(_) => claimed,
            None => before(claimed, RESTART_OVERLAP.max(self.options.step)),
        };
        if start >= self.now {
            // The clock was set back: this time was looked at before.
            return Ok(());
        }
        loop {
            let window = window(start, self.now, self.options.step);
            let answer = self.available(watched, window).await?;
            let points = points(window, &answer);
            self.data(watched, &points, claimed).await?;
            if window.end >= on_grid(self.now, self.options.step) {
                return Ok(());
            }
            start = window.end;
        }
    }

    /// Whether the source could see, at every point of the window.
    async fn available(
        &mut self,
        watched: &PolledSource,
        window: Window,
    ) -> Result<Answer, PollError> {
        let asked = watched.source();
        let answer = self.ask(asked, &watched.polled.available, window).await?;
        let answer = answer.map_err(|error| PollError::AskAvailable { asked, error })?;
        match answer.warnings.first() {
            Some(warning) => Err(PollError::Partial { asked, warning: warning.clone() }),
            None => Ok(answer),
        }
    }

    /// The use of all objects at these points, in as many chunks as the server wants. Each that was
    /// answered is kept, whatever becomes of the next.
    async fn data(
        &mut self,
        watched: &mut PolledSource,
        points: &[Point],
        claimed: Timestamp,
    ) -> Result<(), PollError> {
        let asked = watched.source();
        let mut rest = points;
        while rest.len() >= MIN_POINTS {
            let chunk = &rest[..rest.len().min(watched.limit)];
            let window = Window {
                start: chunk[0].at,
                end: chunk[chunk.len() - 1].at,
                step: self.options.step,
            };
            let answer = match self.ask(asked, &watched.polled.data, window).await? {
                Ok(answer) => answer,
                Err(QueryError::TooMuch { .. }) if chunk.len() > MIN_POINTS => {
                    // Both halves have the point between them.
                    watched.limit = chunk.len().div_ceil(2).max(MIN_POINTS);
                    continue;
                }
                Err(error) => return Err(PollError::AskData { asked, error }),
            };
            let found = self.take(watched, chunk, &answer);
            if let Some(warning) = answer.warnings.first() {
                return Err(PollError::Partial { asked, warning: warning.clone() });
            }
            self.cover(watched, chunk, claimed);
            watched.carried.go_on(chunk, &found);
            rest = &rest[chunk.len() - 1..];
        }
        Ok(())
    }

    /// What objects were used for.
    fn take(&mut self, watched: &PolledSource, points: &[Point], answer: &Answer) -> ChunkResult {
        let chunk = Chunk {
            source: watched.source(),
            identity: &watched.polled.identity,
            points,
            carried: &watched.carried,
            counted: watched.counted,
        };
        let found = chunk.report(&answer.series, self.directory, self.tracker);
        self.stats.matched += found.matched;
        self.stats.unmatched += found.unmatched;
        found
    }

    /// What the source observed after `claimed`: time between two points at which it could see. The
    /// newest step is left out, because not all of it has been scraped; that it was blind is said at
    /// once.
    fn cover(&mut self, watched: &mut PolledSource, points: &[Point], claimed: Timestamp) {
        let settled = before(self.now, self.options.step);
        for pair in points.windows(2) {
            let [from, to] = [pair[0], pair[1]];
            let begin = from.at.max(claimed);
            if from.available && to.available {
                self.coverage.mark_observed(begin, to.at.min(settled));
            } else {
                self.coverage.mark_blind(begin, to.at);
            }
        }
        let Some(last) = points.last() else { return };
        watched.resume = Some(last.at.min(settled));
        watched.counted = watched.counted.max(last.at);
    }

    /// One query; an error only if there were too many.
    async fn ask(
        &mut self,
        asked: Source,
        query: &str,
        window: Window,
    ) -> Result<Result<Answer, QueryError>, PollError> {
        if self.stats.queries == MAX_QUERIES {
            return Err(PollError::Unfinished { asked });
        }
        self.stats.queries += 1;
        let asking = self.metrics.range(query, window);
        Ok(match tokio::time::timeout(QUERY_TIMEOUT, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(QueryError::TimedOut {
                server: "behind the collector".to_owned(),
                seconds: QUERY_TIMEOUT.as_secs(),
            }),
        })
    }
}

/// The points from the one at or before `start` to the newest, unless that is too many. They are the
/// same for every look, multiples of the step: a change between two of them always shows at the
/// same one.
fn window(start: Timestamp, now: Timestamp, step: SignedDuration) -> Window {
    let start = on_grid(start, step);
    let most = i32::try_from(MAX_POINTS - 1).unwrap_or(i32::MAX);
    let full = start.checked_add(step.saturating_mul(most)).unwrap_or(Timestamp::MAX);
    Window { start, end: on_grid(now, step).min(full), step }
}

/// The newest point that is not after `at`.
fn on_grid(at: Timestamp, step: SignedDuration) -> Timestamp {
    let (millis, step) = (i128::from(at.as_millisecond()), step.as_millis());
    let point = i64::try_from(millis - millis.rem_euclid(step)).unwrap_or(i64::MIN);
    Timestamp::from_millisecond(point).unwrap_or(at)
}

fn before(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}
