//! What the API holds of one kind, kept in memory as a controller needs it.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use sojourn_core::key::Key;
use tokio::sync::watch;
use tokio::time::Instant;

const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// How the API is watched.
#[derive(Debug, Clone, Copy)]
pub struct WatchSettings {
    /// After how many seconds a watch is opened anew: a connection that died is noticed then.
    pub timeout_seconds: u32,
    /// Whether the server says now and then how far it is, so that little is listed anew after a
    /// watch that broke.
    pub bookmarks: bool,
}

impl WatchSettings {
    /// Everything of a kind, watched like this.
    pub(crate) fn everything(self) -> watcher::Config {
        let config = watcher::Config::default().timeout(self.timeout_seconds);
        if self.bookmarks { config } else { config.disable_bookmarks() }
    }
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self { timeout_seconds: 290, bookmarks: true }
    }
}

/// The objects of one kind, each as what `project` made of it.
#[derive(Debug)]
pub struct Cache<V> {
    objects: RwLock<HashMap<Key, Entry<V>>>,
    ready: watch::Sender<bool>,
    watch_health: watch::Sender<WatchHealth>,
    recovery: Recovery,
    /// While everything is listed: what we created meanwhile, which the list may not have.
    admitted: Mutex<Option<HashSet<Key>>>,
}

/// How a watch that failed goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    /// From where it was, if the server still knows.
    Resumes,
    /// Everything is listed anew, for callers that must know since when the API is really followed
    /// again, which a silent watch does not show.
    Lists,
}

/// Whether the watch works, as far as can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchHealth {
    /// Nothing was missed since then.
    Healthy { since: Instant },
    /// Every attempt failed since then.
    Lost { since: Instant },
}

#[derive(Debug)]
struct Entry<V> {
    version: u64,
    value: Arc<V>,
}

impl<V> Entry<V> {
    /// Whether it is of that version or of a newer one.
    const fn is_at(&self, version: u64) -> bool {
        version > 0 && self.version >= version
    }
}

/// A version as a number, by which versions of one object are compared; zero, if it is none.
fn number(version: Option<&str>) -> u64 {
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// What to do with an object that is not in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfAbsent {
    Insert,
    Skip,
}

/// A change, as the callbacks of a cache are told.
#[derive(Debug)]
pub struct Change<'a, V> {
    pub key: &'a Key,
    pub before: Option<&'a V>,
    pub now: Option<&'a V>,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Self {
            objects: RwLock::default(),
            ready: watch::Sender::new(false),
            watch_health: watch::Sender::new(WatchHealth::Lost { since: Instant::now() }),
            recovery: Recovery::Resumes,
            admitted: Mutex::default(),
        }
    }
}

impl<V> Cache<V> {
    /// A cache that lists everything anew after a watch that failed, so that its [`WatchHealth`] is
    /// exact.
    pub fn relisting_after_failure() -> Self {
        Self { recovery: Recovery::Lists, ..Self::default() }
    }

    /// Whether the watch works, now and whenever that changes.
    pub fn watch_health(&self) -> watch::Receiver<WatchHealth> {
        self.watch_health.subscribe()
    }

    fn mark_watch_healthy(&self) {
        self.watch_health.send_if_modified(|watch_health| {
            let found = matches!(watch_health, WatchHealth::Lost { .. });
            if found {
                *watch_health = WatchHealth::Healthy { since: Instant::now() };
            }
            found
        });
    }

    fn mark_watch_lost(&self) {
        self.watch_health.send_if_modified(|watch_health| {
            let lost = matches!(watch_health, WatchHealth::Healthy { .. });
            if lost {
                *watch_health = WatchHealth::Lost { since: Instant::now() };
            }
            lost
        });
    }

    pub fn get(&self, key: &Key) -> Option<Arc<V>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(key).map(|entry| entry.value.clone())
    }

    pub fn len(&self) -> usize {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn keys(&self) -> Vec<Key> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Looks at every object, in no order.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&V)) {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.values().for_each(|entry| look(&entry.value));
    }

    /// Whether everything that there is has been listed once: before, absence means nothing.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    pub async fn until_ready(&self) {
        let mut ready = self.ready.subscribe();
        // The sender is ours, so this ends only by becoming true.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// Stores the object that a write of our own returned, so that the next look sees it; the watch
    /// may be behind. An object that the watch has seen go stays gone.
    pub fn put(
        &self,
        key: &Key,
        version: Option<&str>,
        value: V,
        changed: impl Fn(&Change<'_, V>),
    ) {
        self.store(key, version, value, IfAbsent::Skip, changed);
    }

    /// Stores an object that we have created and that cannot be gone by now, before the watch
    /// reports it.
    pub fn admit(
        &self,
        key: &Key,
        version: Option<&str>,
        value: V,
        changed: impl Fn(&Change<'_, V>),
    ) {
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(admitted) = &mut *admitted {
            admitted.insert(key.clone());
        }
        drop(admitted);
        self.store(key, version, value, IfAbsent::Insert, changed);
    }

    /// Removes an object that the API says is gone, before the watch reports that.
    pub fn evict(&self, key: &Key, changed: impl Fn(&Change<'_, V>)) {
        self.remove(key, changed);
    }

    /// Stores an object as if the watch had reported it.
    #[cfg(test)]
    pub(crate) fn insert(&self, key: &Key, value: V, changed: impl Fn(&Change<'_, V>)) {
        self.store(key, None, value, IfAbsent::Insert, changed);
    }

    /// Stores an object unless the cached one is as new.
    fn store(
        &self,
        key: &Key,
        version: Option<&str>,
        value: V,
        absent: IfAbsent,
        changed: impl Fn(&Change<'_, V>),
    ) {
        let version = number(version);
        let value = Arc::new(value);
        let before = {
            let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
            match objects.get(key) {
                Some(entry) if entry.is_at(version) => return,
                None if absent == IfAbsent::Skip => return,
                Some(_) | None => {}
            }
            objects.insert(key.clone(), Entry { version, value: value.clone() })
        };
        let before = before.as_ref().map(|entry| &*entry.value);
        changed(&Change { key, before, now: Some(&value) });
    }

    fn remove(&self, key: &Key, changed: impl Fn(&Change<'_, V>)) {
        let before = self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        if let Some(before) = before {
            changed(&Change { key, before: Some(&before.value), now: None });
        }
    }

    /// Follows the API until the end of the program. Errors are retried; the cache stays as it is
    /// meanwhile.
    pub async fn follow<K>(
        &self,
        api: Api<K>,
        selection: watcher::Config,
        project: impl Fn(K) -> V,
        changed: impl Fn(&Change<'_, V>),
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let open = || watcher::watcher(api.clone(), selection.clone()).boxed();
        let mut stream = open();
        let mut listed: HashSet<Key> = HashSet::new();
        let mut retry = FIRST_RETRY_DELAY;
        while let Some(event) = stream.next().await {
            match event {
                Ok(Event::Init) => {
                    listed.clear();
                    self.set_listing(true);
                }
                Ok(Event::InitApply(object)) => {
                    let key = key_of(&object);
                    listed.insert(key.clone());
                    self.apply(&key, object, &project, &changed);
                }
                Ok(Event::InitDone) => {
                    listed.extend(self.set_listing(false));
                    for key in self.keys() {
                        if !listed.contains(&key) {
                            self.remove(&key, &changed);
                        }
                    }
                    listed = HashSet::new();
                    self.ready.send_replace(true);
                    self.mark_watch_healthy();
                    retry = FIRST_RETRY_DELAY;
                }
                Ok(Event::Apply(object)) => {
                    self.mark_watch_healthy();
                    self.apply(&key_of(&object), object, &project, &changed);
                    retry = FIRST_RETRY_DELAY;
                }
                Ok(Event::Delete(object)) => {
                    self.mark_watch_healthy();
                    self.remove(&key_of(&object), &changed);
                }
                Err(error) => {
                    self.mark_watch_lost();
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        retry_ms = retry.as_millis(),
                        "a watch failed"
                    );
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(MAX_RETRY_DELAY);
                    if is_too_old(&error) || self.recovery == Recovery::Lists {
                        stream = open();
                    }
                }
            }
        }
    }

    /// Returns what was admitted since the list began.
    fn set_listing(&self, listing: bool) -> HashSet<Key> {
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *admitted, listing.then(HashSet::new)).unwrap_or_default()
    }

    fn apply<K: Resource>(
        &self,
        key: &Key,
        object: K,
        project: impl Fn(K) -> V,
        changed: impl Fn(&Change<'_, V>),
    ) {
        let version = object.meta().resource_version.clone();
        // Most changes that a watch reports are our own writes, which are here already.
        let known = {
            let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
            objects.get(key).is_some_and(|entry| entry.is_at(number(version.as_deref())))
        };
        if !known {
            self.store(key, version.as_deref(), project(object), IfAbsent::Insert, changed);
        }
    }
}

/// Whether a watch cannot go on from where it was: everything has to be listed again. The watcher
/// sees to that itself when it is told within a watch, but not when it is told instead of one.
fn is_too_old(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else { return false };
    status.code == 410
}

pub(crate) fn key_of<K: Resource>(object: &K) -> Key {
    Key::new(object.meta().namespace.clone().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
mod tests;
