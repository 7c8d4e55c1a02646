//! What was given to whom: no server may be somebody's twice.

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context as _, Result};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// One answer to a matchmaker.
#[derive(Debug)]
pub(crate) struct Given {
    server: String,
    grant_id: String,
    lease_expires: Timestamp,
}

impl Given {
    pub(crate) fn read(answer: &Value) -> Result<Self> {
        let text = |name: &str| {
            let found = answer[name].as_str().filter(|text| !text.is_empty());
            found.with_context(|| format!("no {name} in {answer}"))
        };
        text("address")?;
        Ok(Self {
            server: text("server")?.to_owned(),
            grant_id: text("grantId")?.to_owned(),
            lease_expires: text("leaseExpires")?.parse()?,
        })
    }
}

/// Every answer, and how many of them are wrong.
#[derive(Debug)]
pub(crate) struct Ledger {
    lease: SignedDuration,
    grants: HashSet<String>,
    /// When the leases of each server end. A lease begins when the one before it is over, so two ends lie at least a
    /// lease apart, in whatever order the answers arrived.
    ends: HashMap<String, BTreeSet<Timestamp>>,
    twice: usize,
}

impl Ledger {
    /// Of leases that are this long, in whole seconds.
    pub(crate) fn new(lease: SignedDuration) -> Self {
        Self { lease, grants: HashSet::new(), ends: HashMap::new(), twice: 0 }
    }

    pub(crate) fn note(&mut self, given: &Given) {
        let is_new = self.grants.insert(given.grant_id.clone());
        let ends = self.ends.entry(given.server.clone()).or_default();
        let (at, lease) = (given.lease_expires, self.lease);
        let before = ends.range(..=at).next_back().is_some_and(|one| *one + lease > at);
        let after = ends.range(at..).next().is_some_and(|one| at + lease > *one);
        ends.insert(at);
        if !is_new || before || after {
            self.twice += 1;
        }
    }

    /// Answers that gave what was somebody's.
    pub(crate) const fn twice(&self) -> usize {
        self.twice
    }
}
