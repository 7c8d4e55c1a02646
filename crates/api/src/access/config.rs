//! The options of the family, in `access.yaml`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::value::{SecretKey, span};
use crate::config::{FamilyConfig, check};
use crate::grammar::{CLUSTER, EMAIL, PRINCIPAL};
use crate::problem::{Problem, Report};

/// How groups begin that Kubernetes gives a meaning.
pub const SYSTEM: &str = "system:";
/// How long an API server keeps a decision unless its flags say otherwise.
pub const AUTHORIZED_TTL: SignedDuration = SignedDuration::from_mins(5);
/// A use is stored at the latest so long after it.
const STORED_WITHIN: SignedDuration = SignedDuration::from_secs(30);
const SECOND: SignedDuration = SignedDuration::from_secs(1);
/// The shortest idle timeout: of a session that may be unused for so long, it must be known whether it was used.
const MAX_CANARY_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// What both kinds allow.
const MAX_RETENTION: SignedDuration = SignedDuration::from_hours(365 * 24);
/// So many clusters beside our own are watched: each costs every replica four watches, and what is on record
/// of all of them has to fit into one ConfigMap.
pub const MAX_FURTHER_CLUSTERS: usize = 32;
/// Where a kubeconfig is in its Secret, unless the option says otherwise.
const KUBECONFIG_KEY: &str = "kubeconfig";

/// Everything that can be set for the whole family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AccessConfig {
    /// The clusters that ask whether something is allowed, by the names that escalations and sessions have
    /// for them.
    pub clusters: BTreeMap<String, ClusterConfig>,
    /// The name of the cluster that we run on; it needs no entry.
    pub cluster: String,
    /// The extra of a user that says who vouched for them. A session that was asked for with it grants only
    /// to whoever has the same.
    pub issuer: Option<String>,
    /// The extra of a user that holds their address; left out, a user name that is one.
    pub email: Option<String>,
    /// What stands before the names of groups in role bindings.
    pub group_prefixes: Vec<String>,
    pub attribution: Attribution,
    /// What counts as use, beside requests for objects.
    pub uses: UsesConfig,
    /// Groups that begin with `system:` and may be given all the same.
    pub allowed_system_groups: Vec<String>,
    pub addresses: AddressesConfig,
    /// How long sessions stay on record after their end, whatever their escalations say.
    pub retention: RetentionConfig,
    /// How often each replica writes down what it saw of a session.
    #[serde(with = "span")]
    pub activity_interval: SignedDuration,
    /// How often it is looked whether uses are seen.
    #[serde(with = "span")]
    pub canary_interval: SignedDuration,

    pub enable_notifications: bool,
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
    /// Addresses, besides public ones, that notices may be sent to.
    pub allowed_addresses: Vec<String>,
    /// Authorities, besides the system's, that are trusted.
    #[serde(rename = "trustedCAFile")]
    pub trusted_ca_file: Option<String>,
}

/// A cluster whose API server asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// `--authorization-webhook-cache-authorized-ttl` of its API server, or `authorizedTTL` of its
    /// configuration file; `0s` is off. Uses that it answers itself are not seen.
    #[serde(rename = "authorizedTTL", with = "span")]
    pub authorized_ttl: SignedDuration,
    /// How its API server shows who it is. Left out, nobody asks for it over the network.
    pub caller: Option<CallerConfig>,
    /// The Secret with the kubeconfig by which its roles and bindings are read. Left out, it is the cluster
    /// that we run on.
    #[serde(deserialize_with = "kubeconfig_secret")]
    pub kubeconfig_secret: Option<SecretKey>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self { authorized_ttl: AUTHORIZED_TTL, caller: None, kubeconfig_secret: None }
    }
}

/// A reference whose key may be left out.
fn kubeconfig_secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SecretKey>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct KubeconfigSecret {
        name: String,
        key: Option<String>,
    }
    let named = Option::<KubeconfigSecret>::deserialize(from)?;
    Ok(named.map(|KubeconfigSecret { name, key }| SecretKey {
        name,
        key: key.unwrap_or_else(|| KUBECONFIG_KEY.to_owned()),
    }))
}

/// A client certificate or a token: one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CallerConfig {
    /// The common name of its client certificate.
    pub common_name: Option<String>,
    /// The Secret with its token.
    pub token_secret: Option<SecretKey>,
}

/// Which of the sessions that allow a request are used by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attribution {
    /// All of them.
    #[default]
    All,
    /// The one that was activated first; of several, the one with the smallest uid.
    First,
}

/// What counts as use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UsesConfig {
    /// Asking which kinds there are, or how the server is.
    pub discovery: bool,
    /// Asking what one may do.
    pub self_reviews: bool,
}

/// Bounds on the time for which a session stays on record after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RetentionConfig {
    #[serde(with = "span")]
    pub min: SignedDuration,
    #[serde(with = "span")]
    pub max: SignedDuration,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self { min: SignedDuration::ZERO, max: MAX_RETENTION }
    }
}

impl RetentionConfig {
    /// How long a session is kept whose escalation asks for so long.
    pub fn bounded(self, asked: SignedDuration) -> SignedDuration {
        asked.min(self.max).max(self.min)
    }

    fn check(self, report: &mut Report) {
        if self.max > MAX_RETENTION {
            report.note("retention.max", "must be at most 365d");
        }
        if self.min > self.max {
            report.note("retention.min", "must not be longer than retention.max");
        }
    }
}

/// Where people and groups get mail whose names are no addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AddressesConfig {
    pub users: BTreeMap<String, String>,
    pub groups: BTreeMap<String, String>,
}

impl Default for AccessConfig {
    fn default() -> Self {
        Self {
            clusters: BTreeMap::new(),
            cluster: "local".to_owned(),
            issuer: None,
            email: None,
            group_prefixes: Vec::new(),
            attribution: Attribution::default(),
            uses: UsesConfig::default(),
            allowed_system_groups: Vec::new(),
            addresses: AddressesConfig::default(),
            retention: RetentionConfig::default(),
            activity_interval: STORED_WITHIN,
            canary_interval: SignedDuration::from_secs(10),
            enable_notifications: true,
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

impl AccessConfig {
    /// How long the API server of a cluster keeps a decision.
    pub fn authorized_ttl(&self, cluster: &str) -> SignedDuration {
        self.clusters.get(cluster).map_or(AUTHORIZED_TTL, |cluster| cluster.authorized_ttl)
    }

    /// A shorter idle timeout could end a session of the cluster that is in use: a use that the API server
    /// answers itself is not seen, and one that is seen is stored a little later.
    pub fn least_idle_timeout(&self, cluster: &str) -> SignedDuration {
        self.authorized_ttl(cluster).saturating_mul(2).saturating_add(STORED_WITHIN)
    }

    /// Whether a group may be given at all: neither it, nor it with one of the prefixes, is one of
    /// Kubernetes' own that is not allowed by name.
    pub fn allows_group(&self, group: &str) -> bool {
        let names = self.group_prefixes.iter().map(|prefix| format!("{prefix}{group}"));
        let allowed = |name: &String| self.allowed_system_groups.contains(name);
        names.chain([group.to_owned()]).all(|name| !name.starts_with(SYSTEM) || allowed(&name))
    }

    /// Where a user gets mail: their name, if it is an address, or the address that is written down.
    pub fn address_of_user<'a>(&'a self, user: &'a str) -> Option<&'a str> {
        if EMAIL.check(user).is_ok() {
            return Some(user);
        }
        self.addresses.users.get(user).map(String::as_str)
    }

    pub fn address_of_group(&self, group: &str) -> Option<&str> {
        self.addresses.groups.get(group).map(String::as_str)
    }

    /// Whether a name stands for the cluster that we run on: it is its name, or has an entry without a kubeconfig.
    pub fn is_own_cluster(&self, name: &str) -> bool {
        let entry = self.clusters.get(name);
        name == self.cluster || entry.is_some_and(|entry| entry.kubeconfig_secret.is_none())
    }

    /// The clusters beside the one that we run on, each with the Secret that holds its kubeconfig.
    pub fn further_clusters(&self) -> impl Iterator<Item = (&str, &ClusterConfig, &SecretKey)> {
        let others = self.clusters.iter().filter(|(name, _)| **name != self.cluster);
        others.filter_map(|(name, cluster)| {
            Some((name.as_str(), cluster, cluster.kubeconfig_secret.as_ref()?))
        })
    }

    const fn named_secrets(&self) -> [check::Named<'_, SecretKey>; 2] {
        [("webhookURL", &self.webhook_url), ("slackURL", &self.slack_url)]
    }

    fn check_clusters(&self, report: &mut Report) {
        report.take("cluster", CLUSTER.check(&self.cluster));
        let (mut names, mut tokens) = (BTreeSet::new(), BTreeSet::new());
        for (name, cluster) in &self.clusters {
            let path = format!("clusters.{name}");
            report.take(&path, CLUSTER.check(name));
            self.check_kubeconfig(report, name, cluster);
            let Some(caller) = &cluster.caller else { continue };
            let path = format!("{path}.caller");
            if caller.common_name.is_some() == caller.token_secret.is_some() {
                report.note(&path, "must have one of commonName and tokenSecret");
            }
            check::secrets(report, [(&format!("{path}.tokenSecret"), &caller.token_secret)]);
            if let Some(common_name) = &caller.common_name {
                let path = format!("{path}.commonName");
                report.take(&path, PRINCIPAL.check(common_name));
                if !names.insert(common_name) {
                    report.note(path, "must not be another cluster's: it says which one asks");
                }
            }
            if let Some(SecretKey { name, key }) = &caller.token_secret
                && !tokens.insert((name, key))
            {
                let message = "must not be another cluster's: it says which one asks";
                report.note(format!("{path}.tokenSecret"), message);
            }
        }
    }

    fn check_kubeconfig(&self, report: &mut Report, name: &str, cluster: &ClusterConfig) {
        let Some(secret) = &cluster.kubeconfig_secret else { return };
        let path = format!("clusters.{name}.kubeconfigSecret");
        check::secrets(report, [(&path, &cluster.kubeconfig_secret)]);
        if *name == self.cluster {
            report.note(&path, "must be left out: it is the cluster that we run on (`cluster`)");
        }
        let mut further = self.further_clusters().enumerate();
        let Some((index, _)) = further.find(|(_, (other, ..))| *other == name) else { return };
        if index >= MAX_FURTHER_CLUSTERS {
            let message = format!("must be one of at most {MAX_FURTHER_CLUSTERS} further clusters");
            report.note(&path, message);
        }
        let before = self.further_clusters().take(index);
        if before.into_iter().any(|(_, _, other)| other == secret) {
            let message = "must not be another cluster's: each has roles and bindings of its own";
            report.note(path, message);
        }
    }

    fn check_groups(&self, report: &mut Report) {
        for (index, prefix) in self.group_prefixes.iter().enumerate() {
            let path = format!("groupPrefixes[{index}]");
            report.take(&path, PRINCIPAL.check(prefix));
            if SYSTEM.starts_with(prefix.as_str()) || prefix.starts_with(SYSTEM) {
                let message = format!("must not make a group that begins with {SYSTEM}");
                report.note(path, message);
            }
        }
        for (index, group) in self.allowed_system_groups.iter().enumerate() {
            if !group.starts_with(SYSTEM) {
                let message = format!("must begin with {SYSTEM}; other groups need not be here");
                report.note(format!("allowedSystemGroups[{index}]"), message);
            }
        }
    }

    fn check_addresses(&self, report: &mut Report) {
        let AddressesConfig { users, groups } = &self.addresses;
        for (part, addresses) in [("users", users), ("groups", groups)] {
            for (name, address) in addresses {
                report.take(&format!("addresses.{part}.{name}"), EMAIL.check(address));
            }
        }
        check::urls(report, [("publicURL", &self.public_url)]);
        let files = [
            ("mailTemplateDir", &self.mail_template_dir),
            ("mailConfigDir", &self.mail_config_dir),
            ("trustedCAFile", &self.trusted_ca_file),
        ];
        check::files(report, files);
        check::secrets(report, self.named_secrets());
        check::ranges(report, "allowedAddresses", &self.allowed_addresses);
    }
}

impl FamilyConfig for AccessConfig {
    const KEY: &'static str = "access.yaml";

    fn secrets(&self) -> Vec<(String, SecretKey)> {
        let token = |(name, cluster): (&String, &ClusterConfig)| {
            let secret = cluster.caller.as_ref()?.token_secret.clone()?;
            Some((format!("clusters.{name}.caller.tokenSecret"), secret))
        };
        let kubeconfig = |(name, cluster): (&String, &ClusterConfig)| {
            let secret = cluster.kubeconfig_secret.clone()?;
            Some((format!("clusters.{name}.kubeconfigSecret"), secret))
        };
        let tokens = self.clusters.iter().filter_map(token);
        let kubeconfigs = self.clusters.iter().filter_map(kubeconfig);
        let notices = check::named_secrets(self.named_secrets()).into_iter();
        notices.chain(tokens).chain(kubeconfigs).collect()
    }

    fn check(&self) -> Vec<Problem> {
        let mut report = Report::default();
        self.check_clusters(&mut report);
        for (option, key) in [("issuer", &self.issuer), ("email", &self.email)] {
            if key.as_ref().is_some_and(|key| key.trim().is_empty()) {
                report.note(option, "must be the name of an extra, or left out");
            }
        }
        self.check_groups(&mut report);
        if self.activity_interval < SECOND || self.activity_interval > STORED_WITHIN {
            let message = "must be from 1s to 30s: whoever decides waits for a use no longer";
            report.note("activityInterval", message);
        }
        if self.canary_interval < SECOND || self.canary_interval > MAX_CANARY_INTERVAL {
            report.note("canaryInterval", "must be from 1s to 1m: what is known is as old as that");
        }
        self.retention.check(&mut report);
        self.check_addresses(&mut report);
        report.into_problems()
    }
}

#[cfg(test)]
mod tests;
