//! The configuration of a family, read live from the API.
//!
//! A bad one is refused at admission. One that got in anyway changes nothing: the last good values
//! stay in force, and whoever asks is told what is wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use sojourn_api::config::{FamilyConfig, parse};
use sojourn_api::name::shared;
use sojourn_core::key::Key;

use crate::frame::{Cache, WatchSettings};

/// The options of one family that are in force.
#[derive(Debug)]
pub struct Configuration<T> {
    current: RwLock<ActiveConfig<T>>,
    cache: Cache<BTreeMap<String, String>>,
}

#[derive(Debug)]
struct ActiveConfig<T> {
    config: Arc<T>,
    problem: Option<String>,
}

impl<T: FamilyConfig> Default for Configuration<T> {
    fn default() -> Self {
        let state = ActiveConfig { config: Arc::new(T::default()), problem: None };
        Self { current: RwLock::new(state), cache: Cache::default() }
    }
}

impl<T: FamilyConfig + PartialEq> Configuration<T> {
    pub fn current(&self) -> Arc<T> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// What is wrong with what the API holds, if it is not in force.
    pub fn problem(&self) -> Option<String> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    /// Waits until it is known what the API holds.
    pub async fn until_ready(&self) {
        self.cache.until_ready().await;
    }

    /// Follows the API until the end of the program; `changed` is called when other values are in
    /// force, or when there is something new to say about bad ones.
    pub async fn follow(&self, client: &Client, watching: WatchSettings, changed: impl Fn()) {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), shared::NAMESPACE);
        let selection =
            watching.everything().fields(&format!("metadata.name={}", shared::CONFIG_MAP));
        let data = |map: ConfigMap| map.data.unwrap_or_default();
        self.cache
            .follow(api, selection, data, |change| {
                if change.key == &Key::new(shared::NAMESPACE, shared::CONFIG_MAP)
                    && self.update(change.now)
                {
                    changed();
                }
            })
            .await;
    }

    /// Whether anything is different now.
    fn update(&self, data: Option<&BTreeMap<String, String>>) -> bool {
        let none = BTreeMap::new();
        let parsed = parse::<T>(data.unwrap_or(&none));
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        match parsed {
            Ok(config) => {
                let same = *current.config == config && current.problem.is_none();
                *current = ActiveConfig { config: Arc::new(config), problem: None };
                !same
            }
            Err(problems) => {
                let problem = problems.to_string();
                tracing::error!(
                    key = T::KEY,
                    problem,
                    "the configuration is bad; the last good one stays"
                );
                let same = current.problem.as_ref() == Some(&problem);
                current.problem = Some(problem);
                !same
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use sojourn_api::lab::LabConfig;

    use super::*;

    fn data(text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("lab.yaml".to_owned(), text.to_owned())])
    }

    #[test]
    fn a_bad_configuration_keeps_the_last_good_values_and_says_so() {
        let configuration = Configuration::<LabConfig>::default();
        assert!(configuration.update(Some(&data("margin: 5m"))));
        assert!(!configuration.update(Some(&data("margin: 300s"))), "the same values");
        assert!(configuration.update(Some(&data("margin: soon"))));
        assert_eq!(configuration.current().margin, SignedDuration::from_mins(5));
        assert!(configuration.problem().expect("a problem").contains("margin"));
        assert!(configuration.update(None), "without a ConfigMap the defaults are in force");
        assert_eq!(configuration.current().margin, SignedDuration::from_mins(1));
        assert_eq!(configuration.problem(), None);
    }
}
