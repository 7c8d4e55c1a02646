//! What becomes of members that failed. Too many in a while, and nothing more is done until somebody has looked.

use jiff::{SignedDuration, Timestamp};

use super::server::Server;
use crate::moment::{ceil_second, saturating_add, saturating_sub};

/// So many failures are remembered; a larger limit counts as this one.
pub const MAX_REMEMBERED: usize = 100;
/// So much is remembered of why a member failed.
pub const MAX_REASON_CHARS: usize = 200;

/// What is done with a member that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailBehavior {
    /// It leaves the collection, and stays for somebody to look at.
    #[default]
    Remove,
    Delete,
    /// The same server, with the same ports, begins again.
    Restart,
}

/// How many failures a collection takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePolicy {
    pub behavior: FailBehavior,
    /// One more than so many within the window, and somebody has to look.
    pub max_failures: u32,
    pub window: SignedDuration,
}

/// One failure of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub at: Timestamp,
    /// Which life of which member ended ([`Server::life`]).
    pub life: String,
    /// What that member is called.
    pub server: String,
    /// Why it failed, in its words; empty, if nobody knows.
    pub reason: String,
}

impl Failure {
    /// That a member was seen to have failed.
    pub fn of(server: &Server, at: Timestamp) -> Self {
        let words = server.failure.as_ref().map(|failure| {
            let said = [failure.reason.as_str(), failure.message.as_str()];
            let said: Vec<&str> = said.into_iter().filter(|words| !words.is_empty()).collect();
            said.join(": ")
        });
        Self {
            at: ceil_second(at),
            life: server.life(),
            server: server.name.clone(),
            reason: words.unwrap_or_default().chars().take(MAX_REASON_CHARS).collect(),
        }
    }
}

/// What a collection remembers of failures. One is remembered before anything is done about it, so that it counts
/// once, whatever is interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailureRecord {
    /// Oldest first.
    pub failures: Vec<Failure>,
    /// Since when somebody has to look.
    pub tripped_at: Option<Timestamp>,
    /// The failure that found the limit reached; it is not among those that count.
    pub tripped_by: Option<Failure>,
    /// What was acknowledged last.
    pub acknowledged: Option<String>,
}

/// What to do about one failed member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureAction {
    /// It is counted now, and handled when that is on record.
    Count,
    /// It was counted before.
    Handle,
    /// It stays as it is, and a member.
    Leave,
}

impl FailureRecord {
    /// How many members failed within the window.
    pub fn times_failed(&self) -> u32 {
        u32::try_from(self.failures.len()).unwrap_or(u32::MAX)
    }

    /// Forgets what is older than the window; nothing, while somebody has to look at it.
    pub fn forget(&mut self, window: SignedDuration, now: Timestamp) {
        if self.tripped_at.is_some() {
            return;
        }
        let since = saturating_sub(now, window);
        self.failures.retain(|failure| failure.at > since);
    }

    /// Somebody has looked: failures are counted from none. Answers whether that was news.
    pub fn acknowledge(&mut self, word: &str) -> bool {
        if self.acknowledged.as_deref() == Some(word) {
            return false;
        }
        *self = Self { acknowledged: Some(word.to_owned()), ..Self::default() };
        true
    }

    /// One life of a member ended in a failure. One by one: whatever comes after the one that trips is left as it is.
    pub fn fails(&mut self, failure: Failure, policy: &FailurePolicy) -> FailureAction {
        self.forget(policy.window, failure.at);
        if self.failures.iter().any(|known| known.life == failure.life) {
            return FailureAction::Handle;
        }
        if self.tripped_at.is_some() {
            return FailureAction::Leave;
        }
        let limit = usize::try_from(policy.max_failures).unwrap_or(usize::MAX).min(MAX_REMEMBERED);
        if self.failures.len() >= limit {
            self.tripped_at = Some(failure.at);
            self.tripped_by = Some(failure);
            return FailureAction::Leave;
        }
        self.failures.push(failure);
        FailureAction::Count
    }

    /// When the oldest failure is forgotten, which changes what is shown.
    pub fn next_change(&self, window: SignedDuration) -> Option<Timestamp> {
        if self.tripped_at.is_some() {
            return None;
        }
        self.failures.first().map(|failure| saturating_add(failure.at, window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::game::server::ServerFailure;

    const POLICY: FailurePolicy = FailurePolicy {
        behavior: FailBehavior::Remove,
        max_failures: 2,
        window: SignedDuration::from_hours(1),
    };

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + 60 * minutes).expect("in range")
    }

    fn failure(life: &str, minute: i64) -> Failure {
        let (life, server, reason) = (life.to_owned(), life.to_owned(), "Error".to_owned());
        Failure { at: at(minute), life, server, reason }
    }

    fn failed_at(minute: i64) -> FailureRecord {
        FailureRecord { failures: vec![failure("first", minute)], ..FailureRecord::default() }
    }

    // case: game S29, S30, S31, S35
    #[test]
    fn the_failure_that_finds_the_limit_reached_trips_and_is_not_counted() {
        let mut record = failed_at(0);
        assert_eq!(record.fails(failure("a", 1), &POLICY), FailureAction::Count);
        assert_eq!((record.times_failed(), record.tripped_at), (2, None));
        assert_eq!(
            record.fails(failure("a", 1), &POLICY),
            FailureAction::Handle,
            "it is on record"
        );
        assert_eq!(record.fails(failure("b", 2), &POLICY), FailureAction::Leave);
        assert_eq!((record.times_failed(), record.tripped_at), (2, Some(at(2))));
        assert_eq!(
            record.fails(failure("c", 90), &POLICY),
            FailureAction::Leave,
            "until somebody looks"
        );
        let mut two = failed_at(0);
        let both = [two.fails(failure("a", 1), &POLICY), two.fails(failure("b", 1), &POLICY)];
        assert_eq!(both, [FailureAction::Count, FailureAction::Leave]);
        assert_eq!(two.tripped_at, Some(at(1)));
        assert_eq!(two.tripped_by, Some(failure("b", 1)));
    }

    #[test]
    fn what_somebody_has_to_look_at_is_kept_until_they_have() {
        let mut record = failed_at(0);
        for life in ["a", "b"] {
            record.fails(failure(life, 1), &POLICY);
        }
        let tripped = record.clone();
        record.forget(POLICY.window, at(600));
        assert_eq!((&record, record.next_change(POLICY.window)), (&tripped, None));
        assert!(record.acknowledge("seen"));
        assert_eq!((record.times_failed(), record.tripped_by), (0, None));
    }

    #[test]
    fn a_failure_is_told_in_the_words_of_the_member_that_failed() {
        let mut server = Server {
            name: "arena-1".to_owned(),
            uid: "u".to_owned(),
            failure: Some(ServerFailure {
                reason: "Error".to_owned(),
                message: "exit code 1".to_owned(),
                at: at(0),
            }),
            ..Server::default()
        };
        let seen_at = at(1) + SignedDuration::from_millis(20);
        let told = Failure::of(&server, seen_at);
        assert_eq!((told.server.as_str(), told.reason.as_str()), ("arena-1", "Error: exit code 1"));
        assert_eq!(told.at, at(1) + SignedDuration::from_secs(1), "as it is read back");
        server.failure.as_mut().expect("it failed").message = "x".repeat(1_000);
        assert_eq!(Failure::of(&server, at(0)).reason.chars().count(), MAX_REASON_CHARS);
        server.failure = None;
        assert_eq!(Failure::of(&server, at(0)).reason, "");
    }

    // case: game S32, S34, S37
    #[test]
    fn failures_are_forgotten_after_the_window_and_when_somebody_looked() {
        let mut record = FailureRecord::default();
        for minute in [0, 30, 61, 91] {
            let action = record.fails(failure(&minute.to_string(), minute), &POLICY);
            assert_eq!(action, FailureAction::Count, "{minute}");
        }
        assert_eq!(record.times_failed(), 2);
        assert_eq!(record.fails(failure("e", 92), &POLICY), FailureAction::Leave);
        assert!(record.acknowledge("2026-11-18"));
        assert!(!record.acknowledge("2026-11-18"), "the same word is no news");
        assert_eq!((record.times_failed(), record.tripped_at), (0, None));
        assert_eq!(record.fails(failure("e", 93), &POLICY), FailureAction::Count);
    }
}
