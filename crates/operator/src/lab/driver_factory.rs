//! Makes the drivers that the family uses: metrics queries, channels for notices, probes of status
//! checks. Whoever starts the controllers chooses real or scripted ones.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sojourn_api::lab::LabConfig;
use sojourn_drivers::dial::Dial;
use sojourn_drivers::guard::Allow;
use sojourn_drivers::metrics::Metrics;
use sojourn_drivers::metrics::prometheus::{Address, Prometheus};
use sojourn_drivers::notify::settings::{self, Settings};
use sojourn_drivers::notify::smtp::Smtp;
use sojourn_drivers::notify::template::Templates;
use sojourn_drivers::notify::webhook::{Form, Webhook};
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::{HttpProbe, Probe};
use sojourn_drivers::trust::trust;

/// Makes drivers from the configuration, each time that it changes.
pub trait DriverFactory: Send + Sync + Debug {
    /// The metrics server, if one is configured.
    fn metrics(&self, config: &LabConfig) -> Result<Option<Arc<dyn Metrics>>, String>;

    /// The channels for notices. Without any, Events are written instead.
    fn channels(
        &self,
        config: &LabConfig,
        secrets: &Secrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String>;

    /// The time zone that notices are written in.
    fn zone(&self, config: &LabConfig) -> Result<Zone, String>;

    fn probe(&self, config: &LabConfig) -> Result<Arc<dyn Probe>, String>;

    /// The files that all of these are made from: when one changes, they are made anew.
    fn files(&self, _: &LabConfig) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// What the configuration keeps in Secrets, read.
#[derive(Clone, Default)]
pub struct Secrets {
    pub webhook_url: Option<String>,
    pub slack_url: Option<String>,
}

impl Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Makes drivers that reach real servers.
#[derive(Debug, Clone)]
pub struct SystemDriverFactory {
    /// How instances are reached.
    pub dial: Arc<dyn Dial>,
}

impl DriverFactory for SystemDriverFactory {
    fn metrics(&self, config: &LabConfig) -> Result<Option<Arc<dyn Metrics>>, String> {
        let Some(url) = &config.prometheus_url else { return Ok(None) };
        let address = Address {
            url: url.clone(),
            token_file: None,
            ca_file: config.trusted_ca_file.as_ref().map(Into::into),
        };
        let client = Prometheus::new(address).map_err(|error| error.to_string())?;
        Ok(Some(Arc::new(client)))
    }

    fn channels(
        &self,
        config: &LabConfig,
        secrets: &Secrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        let words = |error: &dyn std::error::Error| error.to_string();
        let settings = mail_settings(config)?;
        let zone = zone_of(settings.as_ref());
        let folder = config.mail_template_dir.as_ref().map(Path::new);
        let templates = Templates::load(folder, zone).map_err(|error| words(&error))?;
        let templates = Arc::new(templates);
        let mut channels: Vec<Arc<dyn Channel>> = Vec::new();
        if let Some(settings) = settings {
            let smtp = Smtp::new(settings, templates.clone()).map_err(|error| words(&error))?;
            channels.push(Arc::new(smtp));
        }
        let hooks = [(Form::Json, &secrets.webhook_url), (Form::Slack, &secrets.slack_url)];
        for (form, url) in hooks {
            let Some(url) = url else { continue };
            let authority = config.trusted_ca_file.as_ref().map(Path::new);
            let tls = trust(authority).map_err(|error| words(&error))?;
            let hook = Webhook::new(form, url, tls, templates.clone()).map_err(|e| words(&e))?;
            channels.push(Arc::new(hook));
        }
        Ok(channels)
    }

    fn zone(&self, config: &LabConfig) -> Result<Zone, String> {
        Ok(zone_of(mail_settings(config)?.as_ref()))
    }

    fn probe(&self, config: &LabConfig) -> Result<Arc<dyn Probe>, String> {
        let allow = Allow::parse(&config.allowed_addresses).map_err(|error| error.to_string())?;
        let probe = HttpProbe::new(allow).map_err(|error| error.to_string())?;
        Ok(Arc::new(probe.dialing(self.dial.clone())))
    }

    fn files(&self, config: &LabConfig) -> Vec<PathBuf> {
        let mut files = Vec::new();
        if let Some(folder) = &config.mail_config_dir {
            files.extend(settings::files(Path::new(folder)));
        }
        if let Some(folder) = &config.mail_template_dir {
            files.extend(Templates::files(Path::new(folder)));
        }
        files.extend(config.trusted_ca_file.as_ref().map(PathBuf::from));
        files
    }
}

fn mail_settings(config: &LabConfig) -> Result<Option<Settings>, String> {
    let settings = config.mail_config_dir.as_ref().map(|folder| Settings::read(Path::new(folder)));
    settings.transpose().map_err(|error| error.to_string())
}

fn zone_of(settings: Option<&Settings>) -> Zone {
    settings.map_or_else(Zone::utc, |settings| settings.zone().clone())
}
