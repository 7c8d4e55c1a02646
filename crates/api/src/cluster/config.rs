//! The options of the family, in `cluster.yaml`.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use sojourn_core::cluster::{Poll, RetryPolicy, Settings, Timeouts};
use sojourn_core::notice::OnUndeliverable;
use sojourn_core::term::Term;

use crate::config::value::{SecretKey, span, term, undeliverable};
use crate::config::{FamilyConfig, check};
use crate::grammar::AGE_MESSAGE;
use crate::problem::{Problem, Report};

const SECOND: SignedDuration = SignedDuration::from_secs(1);
/// More calls at a time than this no provider takes from one account.
const MAX_PARALLEL_CALLS: u32 = 1_000;

/// Everything that can be set for the whole family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// How often machines are listed while they start or stop.
    pub machine_poll: PollConfig,
    /// How often nodes are read while they come back, and CSRs with them.
    pub node_poll: PollConfig,
    /// How often operators and workloads are read while they settle down.
    pub operator_poll: PollConfig,
    /// How often an API is probed that could not be reached.
    pub probe_poll: PollConfig,
    /// How often one is probed that could.
    #[serde(with = "span")]
    pub probe_interval: SignedDuration,
    /// How often machines of a settled cluster are listed.
    #[serde(with = "span")]
    pub drift_interval: SignedDuration,
    pub retry: RetryConfig,
    /// So long a call of an operation that was toggled may take to show.
    #[serde(with = "span")]
    pub call_visibility: SignedDuration,
    /// So long a provider may take to answer one call.
    #[serde(with = "span")]
    pub call_timeout: SignedDuration,
    /// So many calls about machines are under way at a time, for each account.
    pub parallel_calls: u32,
    /// So long after its installation a cluster waits for its first sync before it hibernates.
    #[serde(with = "span")]
    pub sync_grace: SignedDuration,
    /// Between nodes that are ready and the first look at operators.
    #[serde(with = "span")]
    pub settle: SignedDuration,
    /// When nodes are read again after spot machines were replaced.
    #[serde(with = "span")]
    pub replacement_wait: SignedDuration,
    /// So long after it became ready CSRs of a cluster are still approved.
    #[serde(with = "span")]
    pub csr_window: SignedDuration,
    /// What holds where a cluster says nothing else.
    pub timeouts: TimeoutDefaults,

    /// So long before a hibernation that comes by itself contacts are told.
    #[serde(with = "span")]
    pub announce_before: SignedDuration,
    /// Is added for the delivery, before what contacts were told counts.
    #[serde(with = "span")]
    pub delivery: SignedDuration,
    #[serde(with = "undeliverable")]
    pub on_undeliverable: OnUndeliverable,
    /// Files that replace the built-in mail templates.
    pub mail_template_dir: Option<String>,
    /// Where `smtp-config.yaml` is. Without it, notices are Events.
    pub mail_config_dir: Option<String>,
    #[serde(rename = "webhookURL")]
    pub webhook_url: Option<SecretKey>,
    #[serde(rename = "slackURL")]
    pub slack_url: Option<SecretKey>,
    /// Where people reach the web listener, for links in mails.
    #[serde(rename = "publicURL")]
    pub public_url: Option<String>,
    /// Addresses, besides public ones, at which APIs of clusters and providers may be.
    pub allowed_addresses: Vec<String>,
    /// Authorities, besides the system's, that are trusted.
    #[serde(rename = "trustedCAFile")]
    pub trusted_ca_file: Option<String>,
}

/// How often to look while something moves: soon at first, ever later, and never later than `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PollConfig {
    #[serde(with = "span")]
    pub min: SignedDuration,
    #[serde(with = "span")]
    pub max: SignedDuration,
}

/// How long calls wait for each other that failed, or of which nothing came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RetryConfig {
    /// After the first failure; twice as long after each further one.
    #[serde(with = "span")]
    pub min: SignedDuration,
    #[serde(with = "span")]
    pub max: SignedDuration,
    /// After the provider did not accept who we are.
    #[serde(with = "span")]
    pub auth: SignedDuration,
    /// After a call that was accepted and of which nothing came.
    #[serde(with = "span")]
    pub accepted: SignedDuration,
}

/// How long a hibernation and a resume may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TimeoutDefaults {
    #[serde(with = "term")]
    pub stop: Term,
    #[serde(with = "term")]
    pub resume: Term,
}

impl Default for TimeoutDefaults {
    fn default() -> Self {
        Self {
            stop: Term::Span(SignedDuration::from_mins(20)),
            resume: Term::Span(SignedDuration::from_mins(30)),
        }
    }
}

impl From<TimeoutDefaults> for Timeouts {
    fn from(timeouts: TimeoutDefaults) -> Self {
        Self { stop: timeouts.stop, resume: timeouts.resume }
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        let RetryPolicy { min, max, auth, accepted } = Settings::DEFAULT.retry;
        Self { min, max, auth, accepted }
    }
}

impl From<Poll> for PollConfig {
    fn from(poll: Poll) -> Self {
        Self { min: poll.min, max: poll.max }
    }
}

impl From<PollConfig> for Poll {
    fn from(poll: PollConfig) -> Self {
        Self { min: poll.min, max: poll.max }
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        let settings = Settings::DEFAULT;
        Self {
            machine_poll: settings.machine_poll.into(),
            node_poll: settings.node_poll.into(),
            operator_poll: settings.operator_poll.into(),
            probe_poll: settings.probe_poll.into(),
            probe_interval: settings.probe_interval,
            drift_interval: settings.drift_interval,
            retry: RetryConfig::default(),
            call_visibility: settings.call_visibility,
            call_timeout: SignedDuration::from_mins(1),
            parallel_calls: 10,
            sync_grace: settings.sync_grace,
            settle: settings.settle,
            replacement_wait: settings.replacement_wait,
            csr_window: settings.csr_window,
            timeouts: TimeoutDefaults::default(),
            announce_before: settings.announce_before,
            delivery: settings.delivery,
            on_undeliverable: settings.on_undeliverable,
            mail_template_dir: None,
            mail_config_dir: None,
            webhook_url: None,
            slack_url: None,
            public_url: None,
            allowed_addresses: Vec::new(),
            trusted_ca_file: None,
        }
    }
}

impl ClusterConfig {
    /// What decisions are made by.
    pub fn settings(&self) -> Settings {
        let RetryConfig { min, max, auth, accepted } = self.retry;
        Settings {
            machine_poll: self.machine_poll.into(),
            node_poll: self.node_poll.into(),
            operator_poll: self.operator_poll.into(),
            retry: RetryPolicy { min, max, auth, accepted },
            call_visibility: self.call_visibility,
            sync_grace: self.sync_grace,
            settle: self.settle,
            replacement_wait: self.replacement_wait,
            drift_interval: self.drift_interval,
            probe_interval: self.probe_interval,
            probe_poll: self.probe_poll.into(),
            csr_window: self.csr_window,
            announce_before: self.announce_before,
            delivery: self.delivery,
            on_undeliverable: self.on_undeliverable,
        }
    }

    const fn named_secrets(&self) -> [check::Named<'_, SecretKey>; 2] {
        [("webhookURL", &self.webhook_url), ("slackURL", &self.slack_url)]
    }

    fn check_times(&self, report: &mut Report) {
        let polls = [
            ("machinePoll", self.machine_poll.min, self.machine_poll.max),
            ("nodePoll", self.node_poll.min, self.node_poll.max),
            ("operatorPoll", self.operator_poll.min, self.operator_poll.max),
            ("probePoll", self.probe_poll.min, self.probe_poll.max),
            ("retry", self.retry.min, self.retry.max),
        ];
        for (option, min, max) in polls {
            if min < SECOND {
                report.note(format!("{option}.min"), "must be at least 1s");
            }
            if max < min {
                report.note(format!("{option}.max"), "must not be shorter than min");
            }
        }
        let spans = [
            ("probeInterval", self.probe_interval),
            ("driftInterval", self.drift_interval),
            ("retry.auth", self.retry.auth),
            ("retry.accepted", self.retry.accepted),
            ("callTimeout", self.call_timeout),
        ];
        for (option, span) in spans {
            if span < SECOND {
                report.note(option, "must be at least 1s");
            }
        }
        for (option, term) in
            [("timeouts.stop", self.timeouts.stop), ("timeouts.resume", self.timeouts.resume)]
        {
            if term == Term::ZERO {
                report.note(option, AGE_MESSAGE);
            }
        }
    }
}

impl FamilyConfig for ClusterConfig {
    const KEY: &'static str = "cluster.yaml";

    fn secrets(&self) -> Vec<(String, SecretKey)> {
        check::named_secrets(self.named_secrets())
    }

    fn check(&self) -> Vec<Problem> {
        let mut report = Report::default();
        self.check_times(&mut report);
        if !(1..=MAX_PARALLEL_CALLS).contains(&self.parallel_calls) {
            report.note("parallelCalls", format!("must be from 1 to {MAX_PARALLEL_CALLS}"));
        }
        check::urls(&mut report, [("publicURL", &self.public_url)]);
        let files = [
            ("mailTemplateDir", &self.mail_template_dir),
            ("mailConfigDir", &self.mail_config_dir),
            ("trustedCAFile", &self.trusted_ca_file),
        ];
        check::files(&mut report, files);
        check::secrets(&mut report, self.named_secrets());
        check::ranges(&mut report, "allowedAddresses", &self.allowed_addresses);
        report.into_problems()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn parse(text: &str) -> Result<ClusterConfig, Vec<String>> {
        let data = BTreeMap::from([(ClusterConfig::KEY.to_owned(), text.to_owned())]);
        crate::config::parse(&data)
            .map_err(|problems| problems.0.into_iter().map(|problem| problem.path).collect())
    }

    #[test]
    fn without_options_decisions_are_made_by_the_defaults() {
        let config = parse("").expect("options");
        assert_eq!(config, ClusterConfig::default());
        assert_eq!(config.settings(), Settings::DEFAULT);
        assert_eq!(config.check(), []);
    }

    #[test]
    fn every_interval_can_be_set_and_reaches_decisions() {
        let text = "machinePoll: {min: 1s, max: 2s}\nnodePoll: {min: 3s, max: 4s}\noperatorPoll: {min: 5s, max: 6s}\n\
                    probePoll: {min: 7s, max: 8s}\nprobeInterval: 9s\ndriftInterval: 10s\n\
                    retry: {min: 11s, max: 12s, auth: 13s, accepted: 14s}\ncallVisibility: 15s\nsyncGrace: 16s\n\
                    settle: 0s\nreplacementWait: 18s\ncsrWindow: 19s\nannounceBefore: 20s\ndelivery: 21s\n\
                    onUndeliverable: Hold\ntimeouts: {stop: 22s, resume: never}\n";
        let config = parse(text).expect("options");
        let secs = SignedDuration::from_secs;
        let poll = |min, max| Poll { min: secs(min), max: secs(max) };
        let settings = Settings {
            machine_poll: poll(1, 2),
            node_poll: poll(3, 4),
            operator_poll: poll(5, 6),
            retry: RetryPolicy { min: secs(11), max: secs(12), auth: secs(13), accepted: secs(14) },
            call_visibility: secs(15),
            sync_grace: secs(16),
            settle: SignedDuration::ZERO,
            replacement_wait: secs(18),
            drift_interval: secs(10),
            probe_interval: secs(9),
            probe_poll: poll(7, 8),
            csr_window: secs(19),
            announce_before: secs(20),
            delivery: secs(21),
            on_undeliverable: OnUndeliverable::Hold,
        };
        assert_eq!(config.settings(), settings);
        let timeouts = Timeouts { stop: Term::Span(secs(22)), resume: Term::Never };
        assert_eq!(Timeouts::from(config.timeouts), timeouts);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_name() {
        for (text, path) in [
            ("machinePoll: {min: 0s, max: 1s}", "machinePoll.min"),
            ("nodePoll: {min: 2s, max: 1s}", "nodePoll.max"),
            ("operatorPoll: {min: 2s}", "operatorPoll"),
            ("retry: {min: 10m}", "retry.max"),
            ("retry: {auth: 0s}", "retry.auth"),
            ("driftInterval: 500ms", "driftInterval"),
            ("probeInterval: never", "probeInterval"),
            ("callTimeout: 0s", "callTimeout"),
            ("timeouts: {stop: 0s}", "timeouts.stop"),
            ("parallelCalls: 0", "parallelCalls"),
            ("parallelCalls: 1001", "parallelCalls"),
            ("publicURL: here", "publicURL"),
            ("mailConfigDir: mail", "mailConfigDir"),
            ("trustedCAFile: ca.pem", "trustedCAFile"),
            ("allowedAddresses: [10.0.0.0/8, there]", "allowedAddresses[1]"),
            ("slackURL: {name: \"No\", key: url}", "slackURL.name"),
            ("settlee: 1s", "settlee"),
        ] {
            let path = format!("data[cluster.yaml].{path}");
            assert_eq!(parse(text), Err(vec![path]), "{text}");
        }
    }

    #[test]
    fn secrets_that_are_named_are_known() {
        let config = parse("webhookURL: {name: hooks, key: url}").expect("options");
        let secrets = config.secrets();
        assert_eq!((secrets.len(), secrets[0].0.as_str()), (1, "webhookURL"));
    }
}
