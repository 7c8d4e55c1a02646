use jiff::SignedDuration;
use proptest::prelude::*;
use sojourn_core::lab::source;
use sojourn_core::notice::OnUndeliverable;

use super::*;
use crate::lab::LabConfig;

fn data(text: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("lab.yaml".to_owned(), text.to_owned())])
}

fn lab(text: &str) -> Result<LabConfig, Vec<String>> {
    parse(&data(text)).map_err(|problems| problems.0.iter().map(ToString::to_string).collect())
}

#[test]
fn nothing_written_means_the_defaults() {
    for text in ["", "  \n", "# only a comment\n", "{}", "null"] {
        assert_eq!(lab(text), Ok(LabConfig::default()), "{text:?}");
    }
    assert_eq!(parse::<LabConfig>(&BTreeMap::new()), Ok(LabConfig::default()));
    assert!(LabConfig::default().check().is_empty());
}

#[test]
fn every_option_of_the_family_can_be_written() {
    let text = r#"
enableInstanceInactiveTermination: false
enableInstanceExpiration: false
enableInstanceTermination: false
enableInstanceSubmission: false
enableInactivityNotifications: false
enableExpirationNotifications: false
inactiveTerminationMaxNumberOfAlerts: 2
inactiveTerminationNotificationInterval: 10s
expirationNotificationInterval: 1d12h
margin: 0s
mailTemplateDir: /etc/sojourn/mail
mailConfigDir: /etc/sojourn/smtp
prometheusURL: http://prometheus.monitoring:9090
queryNginxAvailable: sum(up{job="nginx"})
queryBastionSSHAvailable: sum(up{job="bastion"})
queryWebSSHAvailable: ""
queryNginxData: nginx_requests
queryBastionSSHData: bastion_ssh_connections
queryWebSSHData: ""
queryStep: 15s
activityInterval: 5s
activityLabels: { ip: pod_ip }
lookBack: 2h
namespaceSelector: { matchLabels: { lab: "yes" } }
onUndeliverable: ProceedAfter(72h)
publicURL: https://labs.example.org
gateway: { domain: apps.example.net }
allowedAddresses: [10.0.0.0/8, "::1"]
trustedCAFile: /etc/sojourn/ca.pem
submitImage: registry.example.org/sojourn:1
ingressService: sojourn-system/sojourn-web:8443
ingressAnnotations: { example.org/backend-protocol: HTTPS }
ingressClassName: nginx
ingressHost: labs.example.org
webhookURL: { name: hooks, key: url }
slackURL: { name: hooks, key: slack }
"#;
    let config = lab(text).expect("all good");
    assert_eq!(config.margin, SignedDuration::ZERO);
    assert_eq!(config.expiration_notification_interval, SignedDuration::from_hours(36));
    let patience = SignedDuration::from_hours(72);
    assert_eq!(config.on_undeliverable, OnUndeliverable::ProceedAfter(patience));
    assert!(config.queries(source::NGINX).is_some());
    assert_eq!(config.queries(source::WEB_SSH), None);
    assert_eq!(config.queries(source::GATEWAY), None);
    let labels = |value: &str| BTreeMap::from([("lab".to_owned(), value.to_owned())]);
    assert!(config.covers(&labels("yes")));
    assert!(!config.covers(&labels("no")));
    assert!(LabConfig::default().covers(&BTreeMap::new()));

    // Every option there is, is in that text.
    let settings = effective(&data(text)).expect("all good");
    let settings: Vec<_> = settings.into_iter().filter(|s| s.key == "lab.yaml").collect();
    assert_eq!(settings.len(), 36);
    for setting in settings {
        assert_eq!(setting.origin, Origin::ConfigMap, "{}", setting.option);
    }
}

#[test]
fn every_problem_is_told_with_its_path() {
    let found = lab("
marign: 5m
margin: 60
activityInterval: never
queryStep: 0s
enableInstanceExpiration: maybe
onUndeliverable: Give up
frobnicate: 1
")
    .unwrap_err();
    assert_eq!(
        found,
        [
            "data[lab.yaml].activityInterval: must be a span such as 30s or 24h; `never` is not one",
            "data[lab.yaml].enableInstanceExpiration: invalid type: string \"maybe\", expected a boolean",
            "data[lab.yaml].frobnicate: is no option that Sojourn knows",
            "data[lab.yaml].margin: \"60\" has no unit; add one of w, d, h, m, s, ms",
            "data[lab.yaml].marign: is no option that Sojourn knows; margin is one",
            "data[lab.yaml].onUndeliverable: \"Give up\" is neither Hold nor ProceedAfter with a span, as in ProceedAfter(72h)",
        ]
    );
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let found = lab(r#"
queryStep: 0s
inactiveTerminationMaxNumberOfAlerts: 1000
prometheusURL: localhost:9090
mailConfigDir: mail
allowedAddresses: [10.0.0.0/33, everywhere]
queryNginxData: ""
activityLabels: { ip: "", port: 1st }
webhookURL: { name: Bad Name, key: "" }
namespaceSelector: { matchExpressions: [{ key: a, operator: Maybe }] }
"#)
    .unwrap_err();
    let paths: Vec<_> = found.iter().map(|text| text.split(": ").next().unwrap_or("")).collect();
    assert_eq!(
        paths,
        [
            "data[lab.yaml].queryStep",
            "data[lab.yaml].prometheusURL",
            "data[lab.yaml].mailConfigDir",
            "data[lab.yaml].webhookURL.name",
            "data[lab.yaml].webhookURL.key",
            "data[lab.yaml].allowedAddresses[0]",
            "data[lab.yaml].allowedAddresses[1]",
            "data[lab.yaml].queryNginxData",
            "data[lab.yaml].activityLabels.ip",
            "data[lab.yaml].activityLabels.port",
            "data[lab.yaml].inactiveTerminationMaxNumberOfAlerts",
            "data[lab.yaml].namespaceSelector",
        ]
    );
}

/// A cookie reaches whatever is below the name that it was set for.
#[test]
fn instances_are_neither_above_nor_below_our_own_name() {
    let with = |url: &str, domain: &str| {
        lab(&format!("publicURL: {url}\ngateway: {{ domain: \"{domain}\" }}"))
    };
    let ours = "https://labs.example.org:8443/x";
    for domain in ["apps.example.org", "apps.example.net", "xlabs.example.org"] {
        assert!(with(ours, domain).is_ok(), "{domain}");
    }
    for domain in ["labs.example.org", "example.org", "org", "apps.labs.example.org"] {
        let found = with(ours, domain).unwrap_err();
        assert!(found[0].starts_with("data[lab.yaml].gateway.domain: must be"), "{found:?}");
    }
    let long = format!("{}.net", ["a".repeat(62).as_str(); 3].join("."));
    for domain in
        ["net", "Apps.example.net", "a..net", ".net", "a b.net", "10.0.0.1", "x.localhost", &long]
    {
        let found = with(ours, domain).unwrap_err();
        assert!(found.iter().any(|one| one.contains("a DNS name")), "{domain}: {found:?}");
    }
    for url in ["http://labs.example.org", "null"] {
        let found = with(url, "apps.example.net").unwrap_err();
        assert!(found[0].contains("needs a publicURL that begins with https://"), "{found:?}");
    }
    assert!(lab("gateway: { domian: apps.example.net }").unwrap_err()[0].contains("domian"));
}

#[test]
fn what_is_no_mapping_is_refused_in_a_line() {
    let documents = "margin: 5m\n---\nmargin: 6m";
    for text in ["- a", "just words", "a: [", "a: 1\na: 2", documents] {
        let found = lab(text).unwrap_err();
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        assert!(found[0].starts_with("data[lab.yaml]: ") && !found[0].contains('\n'), "{found:?}");
    }
    let long = format!("margin: 1m # {}", "x".repeat(MAX_TEXT_BYTES));
    assert!(lab(&long).unwrap_err()[0].contains("must not be longer"));
}

#[test]
fn a_slip_within_a_value_is_not_passed_over() {
    assert_eq!(
        lab("namespaceSelector: { matchLabls: { lab: yes } }").unwrap_err(),
        ["data[lab.yaml].namespaceSelector.matchLabls: is no name that Sojourn knows"]
    );
    let expressions =
        "namespaceSelector: { matchExpressions: [{ key: a, operator: Exists, vals: [] }] }";
    assert_eq!(
        lab(expressions).unwrap_err(),
        [
            "data[lab.yaml].namespaceSelector.matchExpressions[0].vals: is no name that Sojourn knows"
        ]
    );
    assert!(lab("webhookURL: { name: a, key: b, kee: c }").unwrap_err()[0].contains("kee"));
}

#[test]
fn a_bomb_is_refused() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (before, after) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let again = vec![format!("*{before}"); 10].join(", ");
        text.push_str(&format!("{after}: &{after} [{again}]\n"));
    }
    let found = lab(&text).unwrap_err();
    assert!(found.len() == 1 && found[0].starts_with("data[lab.yaml]: is not YAML"), "{found:?}");
}

#[test]
fn a_family_that_nobody_knows_is_refused() {
    let mut map = data("margin: 5m");
    assert!(check(&map).is_empty());
    map.insert("lab.yml".to_owned(), String::new());
    map.insert("zzz".to_owned(), String::new());
    let found: Vec<_> = check(&map).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "data[lab.yml]: is no family that Sojourn knows; lab.yaml is one",
            "data[zzz]: is no family that Sojourn knows",
        ]
    );
}

#[test]
fn what_is_in_force_says_where_it_comes_from() {
    let settings = effective(&data("margin: 90s\nprometheusURL: null")).expect("all good");
    let find = |option: &str| {
        let one = settings.iter().find(|setting| setting.option == option).expect("an option");
        (one.key, one.value.as_str(), one.origin)
    };
    assert_eq!(find("margin"), ("lab.yaml", "1m30s", Origin::ConfigMap));
    assert_eq!(find("activityInterval"), ("lab.yaml", "30s", Origin::Default));
    assert_eq!(find("prometheusURL"), ("lab.yaml", "", Origin::Default));
    assert_eq!(find("onUndeliverable"), ("lab.yaml", "Hold", Origin::Default));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = check(&data(&text));
    }
}
