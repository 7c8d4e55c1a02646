//! The options of the family, in `game.yaml`.

use std::net::SocketAddr;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use sojourn_core::game::notice::{MAX_ADDRESSES, NoticeRecipient};

use crate::config::value::{SecretKey, span};
use crate::config::{FamilyConfig, check};
use crate::grammar::EMAIL;
use crate::problem::{Problem, Report};

/// Everything that can be set for the whole family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GameConfig {
    /// So many servers of a collection are made at a time.
    pub creation_batch: u32,
    /// So many servers of a collection may be on their way.
    pub max_pending: u32,
    /// So long somebody who was given a server has to come.
    #[serde(with = "span")]
    pub grant_lease: SignedDuration,
    /// Nodes are added when Pods wait: ports that no node has are granted all the same.
    pub node_autoscaler: bool,
    /// Addresses, besides public ones, that the webhooks of autoscalers may be at.
    pub allowed_addresses: Vec<String>,
    /// How servers are heard on a cluster.
    pub sdk: SdkConfig,
    /// Who is told when somebody has to look at a collection.
    pub notify: NotifyConfig,
}

/// How servers are heard on a cluster: by a sidecar in the Pod of each, which speaks to the operator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SdkConfig {
    /// The image with this program that sidecars are made of. Without it there are none.
    pub image: String,
    /// Where sidecars reach `sojourn operator --sdk`.
    pub url: String,
    /// Who signed the certificate there, in PEM. Without it, those whom the image trusts.
    pub ca_bundle: String,
}

/// Who is told, and by what. Nobody, unless somebody is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NotifyConfig {
    /// Where mail goes; each gets one of its own.
    pub addresses: Vec<String>,
    /// Where `smtp-config.yaml` is.
    pub mail_config_dir: Option<String>,
    /// Files that replace the built-in mail templates.
    pub mail_template_dir: Option<String>,
    #[serde(rename = "webhookURL")]
    pub webhook_url: Option<SecretKey>,
    #[serde(rename = "slackURL")]
    pub slack_url: Option<SecretKey>,
    /// Where people reach the web listener, for links to pages.
    #[serde(rename = "publicURL")]
    pub public_url: Option<String>,
    /// Authorities, instead of the machine's, that webhooks trust.
    #[serde(rename = "trustedCAFile")]
    pub trusted_ca_file: Option<String>,
}

impl NotifyConfig {
    /// Everybody who is told.
    pub fn recipients(&self) -> Vec<NoticeRecipient> {
        let addresses = self.addresses.iter().cloned().map(NoticeRecipient::Address);
        let hooks = self.webhook_url.is_some() || self.slack_url.is_some();
        addresses.chain(hooks.then_some(NoticeRecipient::Webhooks)).collect()
    }

    const fn named_secrets(&self) -> [check::Named<'_, SecretKey>; 2] {
        [("notify.webhookURL", &self.webhook_url), ("notify.slackURL", &self.slack_url)]
    }

    fn check(&self, report: &mut Report) {
        for (index, address) in self.addresses.iter().enumerate() {
            report.take(&format!("notify.addresses[{index}]"), EMAIL.check(address));
        }
        if self.addresses.len() > MAX_ADDRESSES {
            let message = format!("must be at most {MAX_ADDRESSES}; a mailing list reaches more");
            report.note("notify.addresses", message);
        }
        if self.addresses.is_empty() != self.mail_config_dir.is_none() {
            let message =
                "must be there together with mailConfigDir: mail goes to addresses, by a server";
            report.note("notify.addresses", message);
        }
        check::urls(report, [("notify.publicURL", &self.public_url)]);
        let files = [
            ("notify.mailConfigDir", &self.mail_config_dir),
            ("notify.mailTemplateDir", &self.mail_template_dir),
            ("notify.trustedCAFile", &self.trusted_ca_file),
        ];
        check::files(report, files);
        check::secrets(report, self.named_secrets());
    }
}

impl Default for GameConfig {
    fn default() -> Self {
        Self {
            creation_batch: 64,
            max_pending: 1_000,
            grant_lease: SignedDuration::from_secs(60),
            node_autoscaler: false,
            allowed_addresses: Vec::new(),
            sdk: SdkConfig::default(),
            notify: NotifyConfig::default(),
        }
    }
}

impl FamilyConfig for GameConfig {
    const KEY: &'static str = "game.yaml";

    fn secrets(&self) -> Vec<(String, SecretKey)> {
        check::named_secrets(self.notify.named_secrets())
    }

    fn check(&self) -> Vec<Problem> {
        let mut report = Report::default();
        for (option, number) in
            [("creationBatch", self.creation_batch), ("maxPending", self.max_pending)]
        {
            if number == 0 {
                report.note(option, "must be at least 1: nothing could be made");
            }
        }
        if self.grant_lease < SignedDuration::from_secs(1) {
            report.note("grantLease", "must be at least 1s");
        }
        check::ranges(&mut report, "allowedAddresses", &self.allowed_addresses);
        self.sdk.check(&mut report);
        self.notify.check(&mut report);
        report.into_problems()
    }
}

impl SdkConfig {
    fn check(&self, report: &mut Report) {
        match (self.image.is_empty(), self.url.is_empty()) {
            (true, true) => {}
            (true, false) => {
                report.note("sdk.image", "must be given with url: it is what speaks to it");
            }
            (false, true) => {
                report.note("sdk.url", "must be given with image: nobody would be heard");
            }
            (false, false) => {}
        }
        if !self.url.is_empty() && !is_private_way(&self.url) {
            let words = "must be https://HOST[:PORT]; without TLS only an address of loopback, for tokens go there";
            report.note("sdk.url", words);
        }
        let begins = "-----BEGIN CERTIFICATE-----";
        if !self.ca_bundle.is_empty() && !self.ca_bundle.contains(begins) {
            report.note("sdk.caBundle", "must be one or more certificates in PEM");
        }
    }
}

/// Whether what goes there is seen by nobody else. There is nothing after the port.
fn is_private_way(url: &str) -> bool {
    let (host, tls) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(host), _) => (host, true),
        (None, Some(host)) => (host, false),
        (None, None) => return false,
    };
    let host = host.strip_suffix('/').unwrap_or(host);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(plain) {
        return false;
    }
    let address = host.parse::<SocketAddr>().map(|address| address.ip());
    tls || address.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_nothing_could_be_made_with_is_refused_by_its_name() {
        let config = GameConfig {
            creation_batch: 0,
            grant_lease: SignedDuration::ZERO,
            allowed_addresses: vec!["10.0.0.0/8".to_owned(), "here".to_owned()],
            ..GameConfig::default()
        };
        let paths: Vec<String> = config.check().into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["creationBatch", "grantLease", "allowedAddresses[1]"]);
        assert_eq!(GameConfig::default().check(), []);
    }

    #[test]
    fn sidecars_need_an_image_and_a_private_way_to_the_operator() {
        let paths = |image: &str, url: &str, ca_bundle: &str| -> Vec<String> {
            let sdk = SdkConfig {
                image: image.to_owned(),
                url: url.to_owned(),
                ca_bundle: ca_bundle.to_owned(),
            };
            let config = GameConfig { sdk, ..GameConfig::default() };
            config.check().into_iter().map(|problem| problem.path).collect()
        };
        let none: [&str; 0] = [];
        for url in [
            "https://sojourn-sdk.sojourn-system.svc:7444",
            "https://[fd00::1]:7444/",
            "http://127.0.0.1:7444",
        ] {
            assert_eq!(paths("sojourn:1", url, ""), none, "{url}");
        }
        for url in [
            "http://sojourn-sdk:7444",
            "http://10.0.0.1:80",
            "https://",
            "sojourn-sdk",
            "https://a/b",
            "https://a@b",
        ] {
            assert_eq!(paths("sojourn:1", url, ""), ["sdk.url"], "{url}");
        }
        assert_eq!(paths("sojourn:1", "", ""), ["sdk.url"]);
        assert_eq!(paths("", "https://sojourn-sdk", ""), ["sdk.image"]);
        assert_eq!(paths("sojourn:1", "https://sojourn-sdk", "a CA"), ["sdk.caBundle"]);
    }

    fn checked(notify: NotifyConfig) -> Vec<String> {
        let config = GameConfig { notify, ..GameConfig::default() };
        config.check().into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn whom_nobody_could_tell_is_refused_by_its_name() {
        let secret = |name: &str| Some(SecretKey { name: name.to_owned(), key: "url".to_owned() });
        let mail = NotifyConfig {
            addresses: vec!["ops@example.org".to_owned()],
            mail_config_dir: Some("/etc/mail".to_owned()),
            ..NotifyConfig::default()
        };
        assert_eq!(checked(mail.clone()), Vec::<String>::new());
        let chat = NotifyConfig { slack_url: secret("chat"), ..NotifyConfig::default() };
        assert_eq!(checked(chat), Vec::<String>::new());
        for (wrong, path) in [
            (NotifyConfig { mail_config_dir: None, ..mail.clone() }, "notify.addresses"),
            (NotifyConfig { addresses: Vec::new(), ..mail.clone() }, "notify.addresses"),
            (
                NotifyConfig { addresses: vec!["ops".to_owned()], ..mail.clone() },
                "notify.addresses[0]",
            ),
            (
                NotifyConfig { addresses: vec![mail.addresses[0].clone(); 11], ..mail.clone() },
                "notify.addresses",
            ),
            (
                NotifyConfig { mail_template_dir: Some("mail".to_owned()), ..mail.clone() },
                "notify.mailTemplateDir",
            ),
            (
                NotifyConfig { public_url: Some("here".to_owned()), ..mail.clone() },
                "notify.publicURL",
            ),
            (NotifyConfig { webhook_url: secret("No"), ..mail }, "notify.webhookURL.name"),
        ] {
            assert_eq!(checked(wrong.clone()), [path], "{wrong:?}");
        }
    }

    #[test]
    fn everybody_who_is_named_is_told_and_their_secrets_are_known() {
        let text = "notify:\n  addresses: [ops@example.org]\n  mailConfigDir: /etc/mail\n  webhookURL: {name: hooks, key: url}\n";
        let data = BTreeMap::from([(GameConfig::KEY.to_owned(), text.to_owned())]);
        let config: GameConfig = crate::config::parse(&data).expect("options");
        let address = NoticeRecipient::Address("ops@example.org".to_owned());
        assert_eq!(config.notify.recipients(), [address, NoticeRecipient::Webhooks]);
        let secrets = config.secrets();
        assert_eq!((secrets.len(), secrets[0].0.as_str()), (1, "notify.webhookURL"));
        assert_eq!(GameConfig::default().notify.recipients(), []);
    }
}
