//! The options of the family, in `lab.yaml`.

use sojourn_core::lab::source;
use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde::{Deserialize, Serialize};
use sojourn_core::activity::Source;
use sojourn_core::notice::OnUndeliverable;

use crate::config::value::{SecretKey, span, undeliverable};
use crate::config::{FamilyConfig, check};
use crate::grammar::{NAMESPACE, REFERENCE};
use crate::problem::{Problem, Report};

/// More warnings than this are no help to anybody.
pub const MAX_ALERTS: u32 = 100;
/// A label of 63 letters and a dot stand before it.
const MAX_DOMAIN_BYTES: usize = 253 - 64;
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Everything that can be set for the whole family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LabConfig {
    pub enable_instance_inactive_termination: bool,
    pub enable_instance_expiration: bool,
    pub enable_instance_termination: bool,
    pub enable_instance_submission: bool,
    pub enable_inactivity_notifications: bool,
    pub enable_expiration_notifications: bool,

    /// Warnings before a stop or a deletion, where neither template nor annotation says otherwise.
    pub inactive_termination_max_number_of_alerts: u32,
    #[serde(with = "span")]
    pub inactive_termination_notification_interval: SignedDuration,
    #[serde(with = "span")]
    pub expiration_notification_interval: SignedDuration,
    /// Is added before an action, never taken off.
    #[serde(with = "span")]
    pub margin: SignedDuration,
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

    #[serde(rename = "prometheusURL")]
    pub prometheus_url: Option<String>,
    pub query_nginx_available: String,
    #[serde(rename = "queryBastionSSHAvailable")]
    pub query_bastion_ssh_available: String,
    #[serde(rename = "queryWebSSHAvailable")]
    pub query_web_ssh_available: String,
    pub query_nginx_data: String,
    #[serde(rename = "queryBastionSSHData")]
    pub query_bastion_ssh_data: String,
    #[serde(rename = "queryWebSSHData")]
    pub query_web_ssh_data: String,
    /// How the series of these queries name an Instance.
    pub activity_labels: ActivityLabels,
    #[serde(with = "span")]
    pub query_step: SignedDuration,
    /// How often the sources are looked at.
    #[serde(with = "span")]
    pub activity_interval: SignedDuration,
    /// How far back the very first look goes.
    #[serde(with = "span")]
    pub look_back: SignedDuration,

    /// The namespaces whose Instances are looked after; all, if left out.
    pub namespace_selector: LabelSelector,
    /// Where people reach the web listener, for links in mails.
    #[serde(rename = "publicURL")]
    pub public_url: Option<String>,
    pub gateway: GatewayConfig,
    /// Addresses, besides public ones, that status checks and submissions may connect to.
    pub allowed_addresses: Vec<String>,
    /// Authorities, besides the system's, that status checks and submissions trust.
    #[serde(rename = "trustedCAFile")]
    pub trusted_ca_file: Option<String>,
    /// The image of the Jobs that hand in data; it holds this very binary.
    pub submit_image: Option<String>,
    /// The Service of the gateway, as `NAMESPACE/NAME` or `NAMESPACE/NAME:PORT`: with it, Ingresses are
    /// made, and lead there.
    pub ingress_service: Option<String>,
    pub ingress_class_name: Option<String>,
    pub ingress_host: Option<String>,
    pub ingress_annotations: BTreeMap<String, String>,
}

/// The Service that Ingresses lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayService {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

impl GatewayService {
    fn parse(text: &str) -> Option<Self> {
        let (namespace, rest) = text.split_once('/')?;
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0)?),
            None => (rest, 443),
        };
        let good = NAMESPACE.check(namespace).is_ok() && NAMESPACE.check(name).is_ok();
        good.then(|| Self { namespace: namespace.to_owned(), name: name.to_owned(), port })
    }
}

/// How instances are reached through the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GatewayConfig {
    /// Every environment has an origin of its own below this name.
    pub domain: Option<String>,
}

/// The labels by which series name an Instance: that of its Service, or its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ActivityLabels {
    pub service_namespace: String,
    pub service: String,
    pub ip: String,
    pub port: String,
}

impl Default for ActivityLabels {
    fn default() -> Self {
        Self {
            service_namespace: "exported_namespace".to_owned(),
            service: "exported_service".to_owned(),
            ip: "destination_ip".to_owned(),
            port: "destination_port".to_owned(),
        }
    }
}

impl ActivityLabels {
    fn check(&self, report: &mut Report) {
        let all = [
            ("serviceNamespace", &self.service_namespace),
            ("service", &self.service),
            ("ip", &self.ip),
            ("port", &self.port),
        ];
        for (option, label) in all {
            let first =
                label.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
            if !first || !label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                let message = "must be the name of a Prometheus label, such as destination_ip";
                report.note(format!("activityLabels.{option}"), message);
            }
        }
    }
}

/// Requests by service and by who counted them: a counter that begins anew must not hide in a sum.
const NGINX_DATA: &str =
    "sum by (exported_namespace, exported_service, instance) (nginx_ingress_controller_requests)";

/// A target that is down hides its own traffic, so all must be up; and all the time, since a value
/// outlives the last scrape by minutes.
fn every_target_is_up(selector: &str) -> String {
    format!("min(min_over_time(up{{{selector}}}[2m]))")
}

/// Connections that were opened, and those that are open.
fn connections(prefix: &str) -> String {
    format!(r#"{{__name__=~"{prefix}_connections|{prefix}_open_connections"}}"#)
}

impl Default for LabConfig {
    fn default() -> Self {
        Self {
            enable_instance_inactive_termination: true,
            enable_instance_expiration: true,
            enable_instance_termination: true,
            enable_instance_submission: true,
            enable_inactivity_notifications: true,
            enable_expiration_notifications: true,
            inactive_termination_max_number_of_alerts: 3,
            inactive_termination_notification_interval: SignedDuration::from_hours(24),
            expiration_notification_interval: SignedDuration::from_hours(24),
            margin: SignedDuration::from_mins(1),
            on_undeliverable: OnUndeliverable::Hold,
            mail_template_dir: None,
            mail_config_dir: None,
            webhook_url: None,
            slack_url: None,
            prometheus_url: None,
            query_nginx_available: every_target_is_up(
                r#"service="ingress-nginx-external-controller-metrics""#,
            ),
            query_bastion_ssh_available: every_target_is_up(r#"container="bastion-operator""#),
            query_web_ssh_available: every_target_is_up(r#"container="webssh""#),
            query_nginx_data: NGINX_DATA.to_owned(),
            query_bastion_ssh_data: connections("bastion_ssh"),
            query_web_ssh_data: connections("bastion_web_ssh"),
            activity_labels: ActivityLabels::default(),
            query_step: SignedDuration::from_secs(30),
            activity_interval: SignedDuration::from_secs(30),
            look_back: SignedDuration::from_hours(6),
            namespace_selector: LabelSelector::default(),
            public_url: None,
            gateway: GatewayConfig::default(),
            allowed_addresses: Vec::new(),
            trusted_ca_file: None,
            submit_image: None,
            ingress_service: None,
            ingress_class_name: None,
            ingress_host: None,
            ingress_annotations: BTreeMap::new(),
        }
    }
}

impl LabConfig {
    /// The Service that Ingresses lead to, if there are to be any.
    pub fn gateway_service(&self) -> Option<GatewayService> {
        GatewayService::parse(self.ingress_service.as_deref()?)
    }

    /// The availability and data queries of a source, if it is asked through Prometheus at all:
    /// an empty query takes its source out.
    pub fn queries(&self, source: Source) -> Option<(&str, &str)> {
        self.prometheus_url.as_ref()?;
        let (available, data) = if source == source::NGINX {
            (&self.query_nginx_available, &self.query_nginx_data)
        } else if source == source::BASTION_SSH {
            (&self.query_bastion_ssh_available, &self.query_bastion_ssh_data)
        } else if source == source::WEB_SSH {
            (&self.query_web_ssh_available, &self.query_web_ssh_data)
        } else {
            return None;
        };
        (!available.trim().is_empty() && !data.trim().is_empty()).then_some((available, data))
    }

    /// Whether the family looks after a namespace with these labels.
    pub fn covers(&self, labels: &std::collections::BTreeMap<String, String>) -> bool {
        // One that cannot be read is refused when the configuration is.
        Selector::try_from(self.namespace_selector.clone())
            .is_ok_and(|selector| kube::core::SelectorExt::matches(&selector, labels))
    }
}

impl FamilyConfig for LabConfig {
    const KEY: &'static str = "lab.yaml";

    fn secrets(&self) -> Vec<(String, SecretKey)> {
        check::named_secrets(self.named_secrets())
    }

    fn check(&self) -> Vec<Problem> {
        let mut report = Report::default();
        self.check_times(&mut report);
        self.check_addresses(&mut report);
        self.check_queries(&mut report);
        self.activity_labels.check(&mut report);
        if self.inactive_termination_max_number_of_alerts > MAX_ALERTS {
            let message = format!("must be a number from 0 to {MAX_ALERTS}");
            report.note("inactiveTerminationMaxNumberOfAlerts", message);
        }
        if let Err(error) = Selector::try_from(self.namespace_selector.clone()) {
            report.note("namespaceSelector", format!("is no label selector: {error}"));
        }
        report.into_problems()
    }
}

impl LabConfig {
    const fn named_secrets(&self) -> [check::Named<'_, SecretKey>; 2] {
        [("webhookURL", &self.webhook_url), ("slackURL", &self.slack_url)]
    }

    fn check_times(&self, report: &mut Report) {
        let spans = [
            (
                "inactiveTerminationNotificationInterval",
                self.inactive_termination_notification_interval,
            ),
            ("expirationNotificationInterval", self.expiration_notification_interval),
            ("queryStep", self.query_step),
            ("activityInterval", self.activity_interval),
            ("lookBack", self.look_back),
        ];
        for (option, span) in spans {
            if span < SECOND {
                report.note(option, "must be at least 1s");
            }
        }
    }

    fn check_addresses(&self, report: &mut Report) {
        let public = ("publicURL", &self.public_url);
        check::urls(report, [("prometheusURL", &self.prometheus_url), public]);
        if let Some(domain) = &self.gateway.domain {
            self.check_domain(domain, report);
        }
        let files = [
            ("mailTemplateDir", &self.mail_template_dir),
            ("mailConfigDir", &self.mail_config_dir),
            ("trustedCAFile", &self.trusted_ca_file),
        ];
        check::files(report, files);
        check::secrets(report, self.named_secrets());
        check::ranges(report, "allowedAddresses", &self.allowed_addresses);
        if let Some(service) = &self.ingress_service {
            if GatewayService::parse(service).is_none() {
                report.note("ingressService", "must be NAMESPACE/NAME or NAMESPACE/NAME:PORT");
            }
            if self.gateway.domain.is_none() {
                report.note("ingressService", "needs gateway.domain, below which Instances are");
            }
        }
        if let Some(host) = &self.ingress_host {
            report.take("ingressHost", REFERENCE.check(host));
        }
        if let Some(class) = &self.ingress_class_name {
            report.take("ingressClassName", NAMESPACE.check(class));
        }
        if self.submit_image.as_ref().is_some_and(|image| image.trim().is_empty()) {
            report.note("submitImage", "must not be empty");
        }
    }

    /// The name below which instances are. Cookies reach whatever is below the name that set them,
    /// so it has nothing to do with our own.
    fn check_domain(&self, domain: &str, report: &mut Report) {
        const OPTION: &str = "gateway.domain";
        let is_name = domain.split('.').all(|label| NAMESPACE.check(label).is_ok())
            && domain.contains('.')
            && domain.parse::<IpAddr>().is_err();
        if !is_name || domain.len() > MAX_DOMAIN_BYTES || is_at_or_below(domain, "localhost") {
            let words = "must be a DNS name of at least two labels, such as apps.example.net";
            report.note(OPTION, words);
        }
        let public = self.public_url.as_deref().and_then(|url| url.strip_prefix("https://"));
        let Some(public) = public else {
            return report.note(OPTION, "needs a publicURL that begins with https://");
        };
        let host = public.split(['/', ':', '?', '#']).next().unwrap_or_default();
        let host = host.to_ascii_lowercase();
        if is_at_or_below(&host, domain) || is_at_or_below(domain, &host) {
            let words = format!("must be neither above nor below publicURL's host {host}");
            report.note(OPTION, words);
        }
    }

    /// One half of a source's queries is no use without the other.
    fn check_queries(&self, report: &mut Report) {
        let pairs = [
            ("queryNginx", &self.query_nginx_available, &self.query_nginx_data),
            ("queryBastionSSH", &self.query_bastion_ssh_available, &self.query_bastion_ssh_data),
            ("queryWebSSH", &self.query_web_ssh_available, &self.query_web_ssh_data),
        ];
        for (name, available, data) in pairs {
            match (available.trim().is_empty(), data.trim().is_empty()) {
                (true, false) => report.note(
                    format!("{name}Available"),
                    format!("must not be empty unless {name}Data is empty, too"),
                ),
                (false, true) => report.note(
                    format!("{name}Data"),
                    format!("must not be empty unless {name}Available is empty, too"),
                ),
                (true, true) | (false, false) => {}
            }
        }
    }
}

fn is_at_or_below(name: &str, other: &str) -> bool {
    name.strip_suffix(other).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
