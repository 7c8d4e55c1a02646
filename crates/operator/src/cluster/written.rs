//! What was written into a cluster beside the controller, and what people are told of it: what was done, never what
//! was only decided.

use sojourn_core::cluster::{Approval, Reason, Replacement, some_names};
use sojourn_core::key::Key;

use super::memory::Memories;
use super::question::Way;
use super::target::{Approved, Replaced};
use super::{transition, words};
use crate::event::{Transition, normal, warning};

/// What came of writing the same into several objects of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// The names of those that we changed.
    done: Vec<String>,
    /// How many were not changed that should have been, and why the first of them was not.
    failed: usize,
    why: String,
}

impl Written {
    /// Nobody has said in time what came of it.
    pub(super) fn unknown() -> Self {
        Self::failed_at_all(1, "nothing came of it in time")
    }

    fn failed_at_all(failed: usize, why: &str) -> Self {
        Self { done: Vec::new(), failed, why: words(why) }
    }

    fn add(&mut self, name: &str, is_done: Result<bool, String>) {
        match is_done {
            Ok(true) => self.done.push(name.to_owned()),
            // Somebody else has, or it is gone.
            Ok(false) => {}
            Err(why) => {
                self.failed += 1;
                if self.why.is_empty() {
                    self.why = words(&format!("{name}: {why}"));
                }
            }
        }
    }
}

/// Approves CSRs. One that fails is pending still when it is looked at next.
pub(super) async fn approve(way: Way, csrs: Vec<Approval>) -> Written {
    let client = match way.client().await {
        Ok(client) => client,
        Err(why) => return Written::failed_at_all(csrs.len(), &why),
    };
    let mut written = Written::default();
    for csr in &csrs {
        let approved = client.approve(csr).await;
        written.add(&csr.name, approved.map(|approved| approved == Approved::Now));
    }
    written
}

/// Has Machines made anew. One that fails is asked for again when it is looked at next.
pub(super) async fn replace(way: Way, machines: Vec<Replacement>) -> Written {
    let client = match way.client().await {
        Ok(client) => client,
        Err(why) => return Written::failed_at_all(machines.len(), &why),
    };
    let mut written = Written::default();
    for machine in &machines {
        let replaced = client.replace(machine).await;
        written.add(&machine.name, replaced.map(|replaced| replaced == Replaced::Now));
    }
    written
}

/// What people read of one kind of writing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    /// The reasons of Events.
    done: &'static str,
    failed: &'static str,
    /// How sentences begin.
    were: &'static str,
    cannot: &'static str,
}

pub(super) const APPROVALS: Words = Words {
    done: "CSRsApproved",
    failed: "CSRsNotApproved",
    were: "CSRs were approved",
    cannot: "CSRs cannot be approved",
};
pub(super) const REPLACEMENTS: Words = Words {
    done: "MachinesReplaced",
    failed: "MachinesNotReplaced",
    were: "Machines were deleted, so that the cluster makes others",
    cannot: "Machines cannot be replaced",
};

/// Takes in what came of it: what a decision is told, and what people are told once that is on record. The same failure
/// is told once.
pub(super) fn hear(
    memories: &Memories,
    key: &Key,
    words: Words,
    written: &Written,
) -> Result<(), String> {
    let Written { done, failed, why } = written;
    if !done.is_empty() {
        let message = format!("{}: {}.", words.were, some_names(done));
        memories.tell_later(key, normal(words.done, message));
    }
    let result = match failed {
        0 => Ok(()),
        1 => Err(format!("{}: {why}", words.cannot)),
        more => Err(format!("{}: {why}, and {} more", words.cannot, more - 1)),
    };
    let failure: Vec<String> = result.clone().err().into_iter().collect();
    if memories.is_news(key, words.failed, &failure) {
        failure.into_iter().for_each(|failure| {
            tracing::warn!(cluster = %key, "{failure}");
            memories.tell_later(key, warning(words.failed, failure));
        });
    }
    result
}

/// Warnings about CSRs that were looked at and are not approved, each once.
pub(super) fn refusals(memories: &Memories, key: &Key, why: &[Reason]) -> Vec<Transition> {
    let refused: Vec<_> = why.iter().filter_map(transition::of_refusal).collect();
    let mut told = Vec::new();
    for reason in transition::REFUSALS {
        let found = refused.iter().find(|refusal| refusal.transition.reason == reason);
        let names = found.map_or(&[][..], |found| &found.names);
        if memories.is_news(key, reason, names) {
            told.extend(found.map(|found| found.transition.clone()));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn memories() -> (Memories, Key) {
        let (memories, key) = (Memories::default(), Key::new("a", "blue"));
        memories.look(&key, "u-1", &[], Timestamp::UNIX_EPOCH);
        (memories, key)
    }

    fn reasons(told: &[Transition]) -> Vec<&'static str> {
        told.iter().map(|one| one.reason).collect()
    }

    #[test]
    fn what_was_done_is_told_and_a_failure_is_told_once() {
        let (memories, key) = memories();
        let mut written = Written::default();
        written.add("csr-1", Ok(true));
        written.add("csr-2", Ok(false));
        written.add("csr-3", Err("forbidden".to_owned()));
        written.add("csr-4", Err("no route".to_owned()));
        let failed = hear(&memories, &key, APPROVALS, &written).expect_err("not all");
        assert_eq!(failed, "CSRs cannot be approved: csr-3: forbidden, and 1 more");
        let told = memories.take_untold(&key);
        assert_eq!(reasons(&told), ["CSRsApproved", "CSRsNotApproved"]);
        assert_eq!(told[0].message, "CSRs were approved: csr-1.");
        assert_eq!(memories.take_untold(&key), []);

        written.done.clear();
        assert!(hear(&memories, &key, APPROVALS, &written).is_err());
        assert_eq!(memories.take_untold(&key), [], "it was said");
        assert_eq!(hear(&memories, &key, APPROVALS, &Written::default()), Ok(()));
        assert!(hear(&memories, &key, APPROVALS, &written).is_err());
        assert_eq!(reasons(&memories.take_untold(&key)), ["CSRsNotApproved"], "it is so again");
        assert!(hear(&memories, &key, REPLACEMENTS, &Written::unknown()).is_err());
        assert_eq!(reasons(&memories.take_untold(&key)), ["MachinesNotReplaced"]);
    }

    #[test]
    fn refused_csrs_are_named_once_and_again_with_another() {
        let (memories, key) = memories();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let refused = |of: &[&str]| vec![Reason::CsrsRefused { names: names(of) }];
        let told = |why: &[Reason]| reasons(&refusals(&memories, &key, why));
        assert_eq!(told(&refused(&["a"])), ["CSRsRefused"]);
        assert_eq!(told(&refused(&["a"])), [""; 0]);
        assert_eq!(told(&refused(&["a", "b"])), ["CSRsRefused"]);
        assert_eq!(told(&refused(&["b"])), [""; 0]);
        for pending in [104, 105] {
            let why = Reason::TooManyCsrs { pending, limit: 103 };
            let expected: &[&str] = if pending == 104 { &["TooManyCSRs"] } else { &[] };
            assert_eq!(told(&[why]), expected);
        }
        assert_eq!(told(&[]), [""; 0]);
        assert_eq!(told(&refused(&["b"])), ["CSRsRefused"], "they were not there meanwhile");
    }
}
