use crate::config::{effective, parse};

use super::*;

fn read(text: &str) -> Result<AccessConfig, Vec<String>> {
    let data = BTreeMap::from([("access.yaml".to_owned(), text.to_owned())]);
    parse(&data).map_err(|problems| problems.0.iter().map(ToString::to_string).collect())
}

#[test]
fn every_option_of_the_family_can_be_written() {
    let text = r#"
clusters:
  eu-1: { authorizedTTL: 0s, caller: { commonName: "kube-apiserver:eu-1" } }
  eu-2: { caller: { tokenSecret: { name: callers, key: eu-2 } }, kubeconfigSecret: { name: eu-2 } }
  eu-3: { kubeconfigSecret: { name: eu, key: three } }
cluster: eu-1
issuer: example.org/issuer
email: example.org/email
groupPrefixes: ["oidc:"]
attribution: First
uses: { discovery: true, selfReviews: true }
allowedSystemGroups: ["system:monitoring"]
addresses: { users: { ada: ada@example.org }, groups: { admins: admins@example.org } }
retention: { min: 24h, max: 90d }
activityInterval: 5s
canaryInterval: 2s
enableNotifications: false
mailTemplateDir: /etc/sojourn/mail
mailConfigDir: /etc/sojourn/smtp
webhookURL: { name: hooks, key: url }
slackURL: { name: hooks, key: slack }
publicURL: https://access.example.org
allowedAddresses: [10.0.0.0/8]
trustedCAFile: /etc/sojourn/ca.pem
"#;
    let config = read(text).expect("all good");
    assert_eq!(config.authorized_ttl("eu-1"), SignedDuration::ZERO);
    assert_eq!(config.least_idle_timeout("eu-1"), SignedDuration::from_secs(30));
    assert_eq!(config.least_idle_timeout("eu-2"), SignedDuration::from_secs(630));
    assert_eq!(config.least_idle_timeout("elsewhere"), SignedDuration::from_secs(630));
    assert_eq!(config.attribution, Attribution::First);
    for (asked, kept) in [(1, 24), (720, 720), (8760, 2160)] {
        let kept = SignedDuration::from_hours(kept);
        assert_eq!(config.retention.bounded(SignedDuration::from_hours(asked)), kept);
    }
    let named: Vec<_> = config.secrets().into_iter().map(|(option, _)| option).collect();
    assert_eq!(
        named,
        [
            "webhookURL",
            "slackURL",
            "clusters.eu-2.caller.tokenSecret",
            "clusters.eu-2.kubeconfigSecret",
            "clusters.eu-3.kubeconfigSecret",
        ]
    );
    let further = config.further_clusters().map(|(name, _, secret)| (name, secret.key.as_str()));
    assert_eq!(further.collect::<Vec<_>>(), [("eu-2", "kubeconfig"), ("eu-3", "three")]);
    assert_eq!(config.address_of_user("ada"), Some("ada@example.org"));
    assert_eq!(config.address_of_user("bob@example.org"), Some("bob@example.org"));
    assert_eq!(config.address_of_user("bob"), None);
    assert_eq!(config.address_of_group("admins"), Some("admins@example.org"));

    // Every option there is, is in that text.
    let data = BTreeMap::from([("access.yaml".to_owned(), text.to_owned())]);
    let settings = effective(&data).expect("all good");
    let defaults = settings.iter().filter(|setting| setting.key == "access.yaml");
    let defaults = defaults.filter(|setting| setting.origin == crate::config::Origin::Default);
    assert_eq!(defaults.map(|setting| &setting.option).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(read("").map(|config| config.check()), Ok(Vec::new()));
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let found = read(
        r#"
clusters:
  EU: {}
  one: { caller: {} }
  two: { caller: { commonName: a, tokenSecret: { name: Callers, key: "" } } }
  three: { caller: { commonName: a } }
  four: { caller: { tokenSecret: { name: s, key: k } } }
  five: { caller: { tokenSecret: { name: s, key: k } } }
cluster: ""
issuer: " "
groupPrefixes: ["", "sys", "system:x"]
allowedSystemGroups: [admins]
addresses: { users: { ada: ada } }
retention: { min: 400d, max: 366d }
activityInterval: 31s
canaryInterval: 10ms
mailConfigDir: mail
publicURL: access
allowedAddresses: [everywhere]
"#,
    )
    .expect_err("bad");
    let paths: Vec<_> = found
        .iter()
        .map(|problem| {
            let path = problem.split(": ").next().unwrap_or_default();
            path.strip_prefix("data[access.yaml].").unwrap_or(path)
        })
        .collect();
    assert_eq!(
        paths,
        [
            "cluster",
            "clusters.EU",
            "clusters.four.caller.tokenSecret",
            "clusters.one.caller",
            "clusters.two.caller",
            "clusters.two.caller.tokenSecret.name",
            "clusters.two.caller.tokenSecret.key",
            "clusters.two.caller.commonName",
            "issuer",
            "groupPrefixes[0]",
            "groupPrefixes[0]",
            "groupPrefixes[1]",
            "groupPrefixes[2]",
            "allowedSystemGroups[0]",
            "activityInterval",
            "canaryInterval",
            "retention.max",
            "retention.min",
            "addresses.users.ada",
            "publicURL",
            "mailConfigDir",
            "allowedAddresses[0]",
        ]
    );
    for text in ["clusters: { a: { kubeconfigSecret: { name: a, file: b } } }", "attribution: Some"]
    {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn canaries_are_neither_a_flood_nor_too_rare() {
    for (interval, good) in [("999ms", false), ("1s", true), ("1m", true), ("61s", false)] {
        let found = read(&format!("canaryInterval: {interval}\n"));
        assert_eq!(found.is_ok(), good, "{interval}: {:?}", found.err());
    }
}

#[test]
fn a_kubeconfig_is_another_clusters_and_each_has_its_own() {
    let found = read(
        r#"
cluster: here
clusters:
  here: { kubeconfigSecret: { name: here } }
  one: { kubeconfigSecret: { name: same } }
  two: { kubeconfigSecret: { name: same } }
  three: { kubeconfigSecret: { name: same, key: another } }
  unnamed: { kubeconfigSecret: { name: "", key: "" } }
"#,
    );
    let paths: Vec<_> = found.expect_err("bad").into_iter().collect();
    let refused = |option: &str| paths.iter().filter(|path| path.contains(option)).count();
    assert_eq!(refused("clusters.here.kubeconfigSecret: must be left out"), 1, "{paths:?}");
    assert_eq!(refused("clusters.two.kubeconfigSecret: must not be another"), 1, "{paths:?}");
    assert_eq!(refused("clusters.unnamed.kubeconfigSecret.name"), 1, "{paths:?}");
    assert_eq!(refused("clusters.unnamed.kubeconfigSecret.key"), 1, "{paths:?}");
    assert_eq!(paths.len(), 4, "{paths:?}");

    let many = |count: usize| {
        let named =
            |number| format!("  c{number}: {{ kubeconfigSecret: {{ name: k{number} }} }}\n");
        format!("clusters:\n{}", (0..count).map(named).collect::<String>())
    };
    assert!(read(&many(MAX_FURTHER_CLUSTERS)).is_ok());
    assert_eq!(read(&many(MAX_FURTHER_CLUSTERS + 1)).expect_err("too many").len(), 1);
}

#[test]
fn groups_of_kubernetes_are_given_only_by_name_with_or_without_a_prefix() {
    let config = AccessConfig {
        allowed_system_groups: vec!["system:monitoring".to_owned()],
        group_prefixes: vec!["sys".to_owned(), "oidc:".to_owned()],
        ..AccessConfig::default()
    };
    for good in ["admins", "system:monitoring", "oidc:system:masters", "systems"] {
        assert!(config.allows_group(good), "{good}");
    }
    for bad in ["system:masters", "system:", "tem:masters"] {
        assert!(!config.allows_group(bad), "{bad}");
    }
}
