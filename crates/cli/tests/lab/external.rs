//! All external services of the tests, and the options that lead to them.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::prometheus::{Exporter, Job, Prometheus};
use crate::smtp::{Encryption, Smtp};
use crate::tool::Tools;

/// The interval between warnings, in milliseconds.
pub(crate) const INTERVAL: i64 = 4_000;

#[derive(Debug)]
pub(crate) struct ExternalServices {
    pub(crate) tools: Tools,
    pub(crate) smtp: Smtp,
    pub(crate) exporter: Exporter,
    pub(crate) prometheus: Prometheus,
}

impl ExternalServices {
    /// Nothing where a program is missing.
    pub(crate) async fn start(encryption: Encryption) -> Option<Self> {
        Self::start_with(encryption, None).await
    }

    /// With metrics of a bastion host from elsewhere.
    pub(crate) async fn start_with(
        encryption: Encryption,
        bastion: Option<SocketAddr>,
    ) -> Option<Self> {
        let tools = Tools::find()?;
        let exporter = Exporter::start().await;
        let prometheus = Prometheus::start_with(&tools, &exporter, bastion).await;
        let smtp = Smtp::start(&tools, encryption);
        Some(Self { tools, smtp, exporter, prometheus })
    }

    /// Options of the family with short intervals.
    pub(crate) fn options(&self) -> Value {
        json!({
            "inactiveTerminationNotificationInterval": format!("{INTERVAL}ms"),
            "expirationNotificationInterval": format!("{INTERVAL}ms"),
            "margin": "1s",
            "activityInterval": "1s",
            "queryStep": "1s",
            "lookBack": "1m",
            "prometheusURL": self.prometheus.url(),
            "queryNginxAvailable": Job::Nginx.available(),
            "queryBastionSSHAvailable": Job::Bastion.available(),
            "queryWebSSHAvailable": Job::WebSsh.available(),
            "mailConfigDir": self.smtp.settings(),
            "allowedAddresses": ["127.0.0.0/8"],
        })
    }
}
