//! The providers that templates may name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sojourn_api::group::convert::pod_template;
use sojourn_api::group::template::MachineTemplate;
use sojourn_api::name::group::POD_PROVIDER;
use sojourn_api::problem::Problem;

/// What is wrong with a template's config, each in a sentence with its path.
type Check = Arc<dyn Fn(&Value) -> Vec<String> + Send + Sync>;

/// The providers that there are, each with a look at what it would make machines from. The provider
/// `pod` is always there.
#[derive(Clone, Default)]
pub struct Providers {
    others: BTreeMap<String, Check>,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entry(&POD_PROVIDER).entries(self.others.keys()).finish()
    }
}

impl Providers {
    /// The same providers and this one, whose `check` finds what is wrong with a template's `config`.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        check: impl Fn(&Value) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.others.insert(name.into(), Arc::new(check));
        self
    }

    /// What is wrong with a template; paths begin at it.
    pub(in crate::admission) fn check(&self, template: &MachineTemplate) -> Vec<Problem> {
        if template.provider == POD_PROVIDER {
            return pod_template(template).err().into_iter().collect();
        }
        let Some(check) = self.others.get(&template.provider) else {
            let known: Vec<_> =
                [POD_PROVIDER].into_iter().chain(self.others.keys().map(String::as_str)).collect();
            let message =
                format!("is no provider that is registered; there is {}", known.join(", "));
            return vec![Problem::new("provider", message)];
        };
        let problems = check(template.config.as_ref().unwrap_or(&Value::Null));
        problems.into_iter().map(|problem| Problem::new("config", problem)).collect()
    }
}
