//! The channels by which a family's notices reach people, made from its configuration.
//!
//! | here | elsewhere |
//! |---|---|
//! | which channels there are | how a channel works (`drivers::notify`) |
//! | Events as a channel | the words and templates of a notice (the family) |
//! | what a wrong configuration means | when a notice is sent (`outbox`) |

use std::fmt;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use kube::{Api, Client};
use sojourn_api::config::value::SecretKey;
use sojourn_api::name::shared;
use sojourn_core::key::Key;
use sojourn_drivers::notify::settings::{self, Settings};
use sojourn_drivers::notify::smtp::Smtp;
use sojourn_drivers::notify::template::Templates;
use sojourn_drivers::notify::webhook::{Form, Webhook};
use sojourn_drivers::notify::{Channel, Notice, ObjectName, SendError, TemplateSet, Zone};
use sojourn_drivers::trust::trust;

use crate::event::{Events, Severity};

/// The texts of a family: for each name a file in `templates/`, beside the file that calls this, as text and as HTML.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(sojourn_drivers::notify::BuiltIn {
            name: $name,
            text: include_str!(concat!("templates/", $name, ".txt")),
            html: include_str!(concat!("templates/", $name, ".html")),
            names_object: true,
        }),*]
    };
}
pub(crate) use built_in;

/// What the configuration keeps in files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChannelFiles<'a> {
    pub(crate) mail_config_dir: Option<&'a Path>,
    /// Its files replace the family's built-in templates.
    pub(crate) mail_template_dir: Option<&'a Path>,
    /// The only authorities that webhooks trust, instead of the machine's.
    pub(crate) trusted_ca_file: Option<&'a Path>,
}

impl ChannelFiles<'_> {
    /// The channels for notices of the family that has these templates.
    pub(crate) fn channels(
        &self,
        set: &'static TemplateSet,
        secrets: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        let words = |error: &dyn std::error::Error| error.to_string();
        let settings = self.mail_settings()?;
        let zone = zone_of(settings.as_ref());
        let templates =
            Templates::load(set, self.mail_template_dir, zone).map_err(|error| words(&error))?;
        let templates = Arc::new(templates);
        let mut channels: Vec<Arc<dyn Channel>> = Vec::new();
        if let Some(settings) = settings {
            let smtp = Smtp::new(settings, templates.clone()).map_err(|error| words(&error))?;
            channels.push(Arc::new(smtp));
        }
        let hooks = [(Form::Json, &secrets.webhook_url), (Form::Slack, &secrets.slack_url)];
        for (form, url) in hooks {
            let Some(url) = url else { continue };
            let tls = trust(self.trusted_ca_file).map_err(|error| words(&error))?;
            let hook = Webhook::new(form, url, tls, templates.clone()).map_err(|e| words(&e))?;
            channels.push(Arc::new(hook));
        }
        Ok(channels)
    }

    /// The time zone that notices are written in.
    pub(crate) fn zone(&self) -> Result<Zone, String> {
        Ok(zone_of(self.mail_settings()?.as_ref()))
    }

    /// The files that the channels are made from: when one changes, they are made anew.
    pub(crate) fn files(&self, set: &TemplateSet) -> Vec<PathBuf> {
        let mut files = Vec::new();
        files.extend(self.mail_config_dir.into_iter().flat_map(settings::files));
        files.extend(self.mail_template_dir.into_iter().flat_map(|dir| Templates::files(set, dir)));
        files.extend(self.trusted_ca_file.map(Path::to_owned));
        files
    }

    fn mail_settings(&self) -> Result<Option<Settings>, String> {
        self.mail_config_dir.map(Settings::read).transpose().map_err(|error| error.to_string())
    }
}

fn zone_of(settings: Option<&Settings>) -> Zone {
    settings.map_or_else(Zone::utc, |settings| settings.zone().clone())
}

/// What the configuration keeps in Secrets, read.
#[derive(Clone, Default)]
pub struct ChannelSecrets {
    pub webhook_url: Option<String>,
    pub slack_url: Option<String>,
}

impl ChannelSecrets {
    /// Reads the Secrets that the configuration names. For each that cannot be read there is a channel
    /// that says so.
    pub(crate) async fn read(
        client: &Client,
        webhook: Option<&SecretKey>,
        slack: Option<&SecretKey>,
    ) -> (Self, Vec<BrokenChannel>) {
        let (mut secrets, mut broken) = (Self::default(), Vec::new());
        let named = [
            ("webhook", webhook, &mut secrets.webhook_url),
            ("slack", slack, &mut secrets.slack_url),
        ];
        for (name, reference, url) in named {
            let Some(reference) = reference else { continue };
            match read_secret(client, reference).await {
                Ok(read) => *url = Some(read),
                Err(problem) => {
                    broken.push(BrokenChannel { name, is_addressed: false, problem });
                }
            }
        }
        (secrets, broken)
    }
}

impl fmt::Debug for ChannelSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelSecrets").finish_non_exhaustive()
    }
}

async fn read_secret(client: &Client, reference: &SecretKey) -> Result<String, String> {
    let api: Api<Secret> = Api::namespaced(client.clone(), shared::NAMESPACE);
    let named = format!("{}/{}", shared::NAMESPACE, reference.name);
    let secret = api.get(&reference.name).await.map_err(|e| format!("cannot read {named}: {e}"))?;
    let value = secret.data.as_ref().and_then(|data| data.get(&reference.key));
    let value = value.ok_or_else(|| format!("{named} has no key {}", reference.key))?;
    String::from_utf8(value.0.clone())
        .map(|text| text.trim().to_owned())
        .map_err(|_| format!("{named} is no text at {}", reference.key))
}

/// A channel that is configured and cannot work: every attempt says why.
#[derive(Debug)]
pub(crate) struct BrokenChannel {
    pub(crate) name: &'static str,
    /// Whether it would take each notice to a person.
    pub(crate) is_addressed: bool,
    pub(crate) problem: String,
}

impl Channel for BrokenChannel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_addressed(&self) -> bool {
        self.is_addressed
    }

    fn send<'a>(&'a self, _: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(ready(Err(SendError::Transient(self.problem.clone()))))
    }
}

type FindReference = dyn Fn(&ObjectName) -> Option<ObjectReference> + Send + Sync;

/// Events as a channel: the summary of a notice, about its object.
pub(crate) struct EventChannel {
    events: Events,
    find_reference: Box<FindReference>,
}

impl EventChannel {
    /// `find_reference` gives the reference by which Events find an object, while it is known.
    pub(crate) fn new(
        events: Events,
        find_reference: impl Fn(&ObjectName) -> Option<ObjectReference> + Send + Sync + 'static,
    ) -> Self {
        Self { events, find_reference: Box::new(find_reference) }
    }
}

impl fmt::Debug for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventChannel").finish_non_exhaustive()
    }
}

impl Channel for EventChannel {
    fn name(&self) -> &'static str {
        "Event"
    }

    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(async move {
            let object = &notice.facts.object;
            let Some(about) = (self.find_reference)(object) else {
                let key = Key::new(object.namespace.clone(), object.name.clone());
                return Err(SendError::Transient(format!("{key} is not there to be spoken of")));
            };
            let summary = &notice.summary;
            let severity = if summary.warning { Severity::Warning } else { Severity::Normal };
            self.events
                .tell(&about, severity, summary.reason, &summary.sentence, &notice.id)
                .await
                .map_err(|error| SendError::Transient(format!("cannot write the Event: {error}")))
        })
    }
}

#[cfg(test)]
mod tests;
