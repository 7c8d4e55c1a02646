//! The options of the family, in `group.yaml`.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use sojourn_core::term::Term;

use super::expiry::OUT_OF_ORDER;
use crate::config::FamilyConfig;
use crate::config::value::{span, term};
use crate::grammar::AGE_MESSAGE;
use crate::problem::{Problem, Report};

/// What holds where a group says nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GroupConfig {
    pub expiry: ExpiryDefaults,
    #[serde(with = "span")]
    pub default_drain_timeout: SignedDuration,
    /// How long one machine of a template that is not proven is ready before others follow it.
    #[serde(with = "span")]
    pub trial: SignedDuration,
    /// How many rotations may be open in all groups together that began by themselves.
    pub max_rotations: u32,
}

/// The ages of an installation; without any, nothing ever expires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ExpiryDefaults {
    #[serde(with = "term")]
    pub eligible_age: Term,
    #[serde(with = "term")]
    pub forced_age: Term,
    #[serde(with = "term")]
    pub ondemand_age: Term,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            expiry: ExpiryDefaults::default(),
            default_drain_timeout: SignedDuration::from_mins(5),
            trial: SignedDuration::from_secs(30),
            max_rotations: 100,
        }
    }
}

impl Default for ExpiryDefaults {
    fn default() -> Self {
        Self { eligible_age: Term::Never, forced_age: Term::Never, ondemand_age: Term::Never }
    }
}

impl FamilyConfig for GroupConfig {
    const KEY: &'static str = "group.yaml";

    fn check(&self) -> Vec<Problem> {
        let mut report = Report::default();
        let ExpiryDefaults { eligible_age, forced_age, ondemand_age } = self.expiry;
        let ages = [
            ("eligibleAge", eligible_age),
            ("forcedAge", forced_age),
            ("ondemandAge", ondemand_age),
        ];
        for (option, age) in ages {
            if age == Term::ZERO {
                report.note(format!("expiry.{option}"), AGE_MESSAGE);
            }
        }
        if !eligible_age.is_never() && eligible_age >= forced_age {
            report.note("expiry.eligibleAge", OUT_OF_ORDER);
        }
        if self.max_rotations == 0 {
            report
                .note("maxRotations", "must be at least 1; freeze a group to begin nothing in it");
        }
        report.into_problems()
    }
}
