//! The configuration and all that it names, read live: what is made from them is made anew when they
//! change, and notices that nobody accepted are attempted at once.
//!
//! | what | how a change is noticed |
//! |---|---|
//! | the family's options in the ConfigMap | watched |
//! | Secrets with URLs | watched, while the configuration names one |
//! | files: mail settings, templates, passwords, authorities | looked at every few seconds, where there are any |

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use sojourn_api::name::shared;
use tokio::sync::{Notify, watch};

use super::{DriverConfig, DriverFactory, DriverOptions, Drivers};
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::frame::{Cache, Tasks, WatchSettings};

/// How often files are looked at. A volume of a Secret is up to a minute behind the Secret anyway.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// What is needed to follow the configuration.
pub(crate) struct ConfigWatcher<T> {
    pub(crate) client: Client,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Arc<Configuration<T>>,
    pub(crate) drivers: Arc<Drivers>,
    pub(crate) factory: Arc<dyn DriverFactory>,
    /// Wakes every object of the family: the configuration concerns all of them.
    pub(crate) wake_all: Arc<dyn Fn() + Send + Sync>,
}

/// Whom changes are told to.
pub(crate) struct ConfigChanges {
    pub(crate) reconfigured: Arc<Notify>,
    pub(crate) public_url: watch::Receiver<Option<String>>,
}

impl<T: DriverOptions> ConfigWatcher<T> {
    /// Follows everything, and waits until it is known what is configured.
    pub(crate) async fn start(self, watching: WatchSettings, tasks: &mut Tasks) -> ConfigChanges {
        let changed = Arc::new(Notify::new());
        {
            let (client, config, changed) =
                (self.client.clone(), self.config.clone(), changed.clone());
            tasks.spawn("configuration", async move {
                config.follow(&client, watching, || changed.notify_one()).await;
            });
        }
        self.config.until_ready().await;
        // Notifications until now concern what is read below; a start is no change of the drivers.
        let _ = changed.notified().now_or_never();
        let config = self.driver_config();
        let seen = FileVersions::of(&self.factory.files(&config));
        self.drivers.build(&self.client, &config, self.factory.as_ref(), None).await;
        let reconfigured = Arc::new(Notify::new());
        let (told, public_url) = watch::channel(self.config.current().public_url().cloned());
        let this = Arc::new(self);
        {
            let (this, changed) = (this.clone(), changed.clone());
            tasks.spawn("secrets", async move { this.follow_secrets(watching, &changed).await });
        }
        let collector = reconfigured.clone();
        tasks.spawn("reconfiguration", async move {
            this.follow(seen, &changed, &collector, &told).await;
        });
        ConfigChanges { reconfigured, public_url }
    }

    async fn follow(
        &self,
        mut seen: FileVersions,
        changed: &Notify,
        collector: &Notify,
        public_url: &watch::Sender<Option<String>>,
    ) {
        loop {
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = self.files_change(&seen) => {}
            }
            let config = self.driver_config();
            // Taken before the files are read, so that a change meanwhile is noticed.
            seen = FileVersions::of(&self.factory.files(&config));
            let now = Some(self.clock.now());
            self.drivers.build(&self.client, &config, self.factory.as_ref(), now).await;
            public_url.send_if_modified(|known| {
                let config = self.config.current();
                let other = known.as_ref() != config.public_url();
                *known = config.public_url().cloned();
                other
            });
            collector.notify_one();
            (self.wake_all)();
        }
    }

    /// Ends when one of the files is not the one that was `seen`; never, where there are none.
    async fn files_change(&self, seen: &FileVersions) {
        let files = self.factory.files(&self.driver_config());
        if files.is_empty() {
            return std::future::pending().await;
        }
        while FileVersions::of(&files) == *seen {
            tokio::time::sleep(FILE_CHECK_INTERVAL).await;
        }
    }

    /// Notifies `changed` of changes of the Secrets that the configuration names. Secrets are not watched
    /// before it names one.
    async fn follow_secrets(&self, watching: WatchSettings, changed: &Notify) {
        while self.secrets().is_empty() {
            self.drivers.rebuilt().await;
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), shared::NAMESPACE);
        let versions: Cache<Option<String>> = Cache::default();
        let version = |secret: Secret| secret.metadata.resource_version;
        versions
            .follow(api, watching.everything(), version, |change| {
                let named = self.secrets().iter().any(|name| **name == *change.key.name);
                // The objects of the first list were read already.
                if named && versions.is_ready() {
                    changed.notify_one();
                }
            })
            .await;
    }

    fn driver_config(&self) -> DriverConfig {
        self.config.current().driver_config()
    }

    /// The names of the Secrets that the configuration names.
    fn secrets(&self) -> Vec<String> {
        let config = self.driver_config();
        let named = [&config.webhook_url, &config.slack_url];
        named.into_iter().flatten().map(|reference| reference.name.clone()).collect()
    }
}

/// Which files there are, and of when.
#[derive(Debug, PartialEq, Eq)]
struct FileVersions(Vec<Option<(u64, u64, i64, i64)>>);

impl FileVersions {
    fn of(files: &[PathBuf]) -> Self {
        let one = |file: &PathBuf| {
            let found = fs::metadata(file).ok()?;
            Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
        };
        Self(files.iter().map(one).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_comes_changes_or_goes_is_noticed() {
        let folder = std::env::temp_dir().join(format!("sojourn-stamp-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let files = [folder.join("one"), folder.join("two")];
        let versions = || FileVersions::of(&files);
        let none = versions();
        assert_eq!(none, versions());
        fs::write(&files[1], "first").expect("a file");
        let first = versions();
        assert_ne!(first, none);
        assert_eq!(first, versions());
        // As volumes of Secrets change: another file takes the place of the first.
        fs::write(folder.join("new"), "other").expect("another file");
        fs::rename(folder.join("new"), &files[1]).expect("its place");
        assert_ne!(versions(), first);
        fs::remove_dir_all(&folder).expect("all of it");
        assert_eq!(versions(), none);
    }
}
