//! The drivers of a family: channels for notices, the metrics server, the probe of status checks.
//!
//! | file | holds |
//! |---|---|
//! | `factory` | makes them from a [`DriverConfig`]; real or scripted |
//! | `current` | those that are in use |
//! | `config_watcher` | makes them anew when a family's options, or the files and Secrets that these name, change |

mod config_watcher;
mod current;
mod factory;

use std::path::PathBuf;

use sojourn_api::config::FamilyConfig;
use sojourn_api::config::value::SecretKey;
use sojourn_drivers::notify::TemplateSet;

pub(crate) use self::config_watcher::{ConfigChanges, ConfigWatcher};
pub(crate) use self::current::Drivers;
pub use self::factory::{DriverFactory, SystemDriverFactory};

/// What drivers are made from, as the options of a family have it.
#[derive(Debug, Clone)]
pub struct DriverConfig {
    /// Of the family's notices.
    pub templates: &'static TemplateSet,
    /// Whether notices are sent at all.
    pub sends_notices: bool,
    /// Its files replace the family's built-in templates.
    pub mail_template_dir: Option<PathBuf>,
    /// Where `smtp-config.yaml` is.
    pub mail_config_dir: Option<PathBuf>,
    pub webhook_url: Option<SecretKey>,
    pub slack_url: Option<SecretKey>,
    pub prometheus_url: Option<String>,
    /// Addresses, besides public ones, that status checks may connect to.
    pub allowed_addresses: Vec<String>,
    /// The authorities that are trusted.
    pub trusted_ca_file: Option<PathBuf>,
}

/// The options of a family that uses drivers.
pub(crate) trait DriverOptions: FamilyConfig + PartialEq + Send + Sync + 'static {
    fn driver_config(&self) -> DriverConfig;

    /// Where people reach us, if they say so.
    fn public_url(&self) -> Option<&String>;
}
