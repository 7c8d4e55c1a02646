//! Makes the drivers of a family. Whoever starts the controllers chooses real or scripted ones.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use sojourn_drivers::dial::Dial;
use sojourn_drivers::guard::Allow;
use sojourn_drivers::metrics::Metrics;
use sojourn_drivers::metrics::prometheus::{Address, Prometheus};
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::{HttpProbe, Probe};

use super::DriverConfig;
use crate::kubeconfig::{self, ClientProblem};
use crate::notice::{ChannelFiles, ChannelSecrets};

/// Makes drivers from the configuration, each time that it changes.
pub trait DriverFactory: Send + Sync + Debug {
    /// The metrics server, if one is configured.
    fn metrics(&self, config: &DriverConfig) -> Result<Option<Arc<dyn Metrics>>, String>;

    /// The channels for notices. Without any, Events are written instead.
    fn channels(
        &self,
        config: &DriverConfig,
        secrets: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String>;

    /// The time zone that notices are written in.
    fn zone(&self, config: &DriverConfig) -> Result<Zone, String>;

    fn probe(&self, config: &DriverConfig) -> Result<Arc<dyn Probe>, String>;

    /// A client of another cluster than the one that we run on.
    fn cluster_client(&self, config: kube::Config) -> Result<kube::Client, kube::Error> {
        kube::Client::try_from(config)
    }

    /// A client of a cluster whose kubeconfig a tenant wrote: it reaches allowed addresses only.
    fn target_client(
        &self,
        config: &kube::Config,
        allow: &Allow,
    ) -> Result<kube::Client, ClientProblem> {
        kubeconfig::guarded_client(config, allow)
    }

    /// The files that all of these are made from: when one changes, they are made anew.
    fn files(&self, _: &DriverConfig) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Makes drivers that reach real servers.
#[derive(Debug, Clone)]
pub struct SystemDriverFactory {
    /// How instances are reached.
    pub dial: Arc<dyn Dial>,
}

impl DriverFactory for SystemDriverFactory {
    fn metrics(&self, config: &DriverConfig) -> Result<Option<Arc<dyn Metrics>>, String> {
        let Some(url) = &config.prometheus_url else { return Ok(None) };
        let address =
            Address { url: url.clone(), token_file: None, ca_file: config.trusted_ca_file.clone() };
        let client = Prometheus::new(address).map_err(|error| error.to_string())?;
        Ok(Some(Arc::new(client)))
    }

    fn channels(
        &self,
        config: &DriverConfig,
        secrets: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        channel_files(config).channels(config.templates, secrets)
    }

    fn zone(&self, config: &DriverConfig) -> Result<Zone, String> {
        channel_files(config).zone()
    }

    fn probe(&self, config: &DriverConfig) -> Result<Arc<dyn Probe>, String> {
        let allow = Allow::parse(&config.allowed_addresses).map_err(|error| error.to_string())?;
        let probe = HttpProbe::new(allow).map_err(|error| error.to_string())?;
        Ok(Arc::new(probe.dialing(self.dial.clone())))
    }

    fn files(&self, config: &DriverConfig) -> Vec<PathBuf> {
        channel_files(config).files(config.templates)
    }
}

fn channel_files(config: &DriverConfig) -> ChannelFiles<'_> {
    ChannelFiles {
        mail_config_dir: config.mail_config_dir.as_deref(),
        mail_template_dir: config.mail_template_dir.as_deref(),
        trusted_ca_file: config.trusted_ca_file.as_deref(),
    }
}
