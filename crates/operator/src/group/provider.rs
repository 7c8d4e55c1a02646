//! The providers that this process knows, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sojourn_api::group::template::MachineTemplate;
use sojourn_api::problem::Problem;
use sojourn_drivers::machine::Provider;

use crate::admission;

/// Providers by the name that templates call them.
#[derive(Debug, Clone, Default)]
pub struct Providers(BTreeMap<&'static str, Arc<dyn Provider>>);

impl Providers {
    /// With one more.
    #[must_use]
    pub fn with(mut self, provider: Arc<dyn Provider>) -> Self {
        self.0.insert(provider.name(), provider);
        self
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Provider>> {
        self.0.get(name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.0.values()
    }

    /// The same, for whoever refuses templates that nobody can use.
    pub fn for_admission(&self) -> admission::Providers {
        let mut judged = admission::Providers::default();
        for (name, provider) in &self.0 {
            let provider = provider.clone();
            judged = judged.with(*name, move |config| provider.check(config));
        }
        judged
    }

    /// What is wrong with a template as far as its provider can tell; paths begin at the template.
    pub fn check(&self, template: &MachineTemplate) -> Vec<Problem> {
        let Some(provider) = self.get(&template.provider) else {
            let known: Vec<&str> = self.0.keys().copied().collect();
            let message = format!("is not known here; the providers are {}", known.join(", "));
            return vec![Problem::new("provider", message)];
        };
        let field = if template.pod.is_some() { "pod" } else { "config" };
        let found = provider.check(&config_of(template));
        found.into_iter().map(|words| Problem::new(field, words)).collect()
    }
}

/// What the provider makes a machine from.
pub(crate) fn config_of(template: &MachineTemplate) -> Value {
    template.pod.clone().or_else(|| template.config.clone()).unwrap_or(Value::Null)
}
