//! Keeps admission registered: without its registration an API server asks nobody, and what needs
//! `hold` is free to all.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use sojourn_api::name::shared;
use sojourn_operator::admission::{NAME, Target, configuration};
use sojourn_operator::clock::Clock;
use sojourn_operator::frame::Cache;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{CertificateResolver, Pair, Store};

const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// How often the registration is reconciled although no event came.
const RESYNC_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Replicas of different versions that run side by side want different things. Until one is gone,
/// each has its way now and then.
const MIN_CORRECTION_INTERVAL: Duration = Duration::from_secs(30);

/// Has the API server ask this replica. Where each has an address of its own, the registration may
/// name one that is gone: whoever leads from now on is there.
#[derive(Clone)]
pub(in crate::commands) struct ReplicaTarget {
    registrations: Api<ValidatingWebhookConfiguration>,
    target: Target,
    store: Store,
}

impl ReplicaTarget {
    pub(in crate::commands) async fn register(&self) -> anyhow::Result<()> {
        // While the Secret is gone, whoever makes it again registers as well.
        let Some((pair, _)) = self.store.read().await? else { return Ok(()) };
        register(&self.registrations, &self.target, &pair).await
    }
}

async fn register(
    registrations: &Api<ValidatingWebhookConfiguration>,
    target: &Target,
    pair: &Pair,
) -> anyhow::Result<()> {
    let requested = configuration(target, pair.authorities.as_bytes());
    let params = PatchParams::apply(shared::MANAGER).force();
    registrations
        .patch(NAME, &params, &Patch::Apply(&requested))
        .await
        .map(drop)
        .context("cannot register the admission webhook")
}

pub(super) struct RegistrationController {
    pub(super) client: Client,
    pub(super) target: Target,
    pub(super) store: Store,
    pub(super) resolver: Arc<CertificateResolver>,
    pub(super) clock: Arc<dyn Clock>,
    /// The certificate that is shown.
    pub(super) pair: Pair,
}

impl RegistrationController {
    /// Tells the API server where admission is.
    pub(super) async fn register(&self) -> anyhow::Result<()> {
        self.register_with(&self.pair).await
    }

    async fn register_with(&self, pair: &Pair) -> anyhow::Result<()> {
        register(&self.registrations(), &self.target, pair).await
    }

    fn registrations(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    /// What it takes to have this replica asked.
    pub(super) fn replica_target(&self) -> ReplicaTarget {
        let (registrations, target) = (self.registrations(), self.target.clone());
        ReplicaTarget { registrations, target, store: self.store.clone() }
    }

    /// Reconciles whenever the registration or the Secret changed, for ever.
    pub(super) async fn run(mut self) {
        let changed = Arc::new(Notify::new());
        let watching = tokio::spawn(watch(
            self.registrations(),
            self.store.api.clone(),
            self.store.name.clone(),
            changed.clone(),
        ));
        // Ends with this future.
        let _watching = AbortOnDrop(watching.abort_handle());
        let (mut retry, mut corrected) = (MIN_RETRY_DELAY, None);
        loop {
            let pause = match self.reconcile(&mut corrected).await {
                Ok(pause) => {
                    retry = MIN_RETRY_DELAY;
                    pause
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "admission may not be registered; trying again");
                    let pause = retry;
                    retry = (retry * 2).min(MAX_RETRY_DELAY);
                    pause
                }
            };
            tokio::select! {
                () = changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Makes registration and certificate as they should be; answers when to reconcile again.
    pub(super) async fn reconcile(
        &mut self,
        corrected: &mut Option<Instant>,
    ) -> anyhow::Result<Duration> {
        let now = self.clock.now();
        let there = match self.store.read().await? {
            Some((pair, version)) if pair.is_due(now) => {
                tracing::info!("the certificate of admission is renewed");
                self.store.renew(&pair, version, now).await?
            }
            Some((pair, _)) => pair,
            None => {
                tracing::warn!(secret = self.store.name, "the Secret is gone; it is made again");
                self.store.create(&self.pair).await?
            }
        };
        if there != self.pair {
            // Who shows a certificate must be believed by then.
            self.register_with(&there).await?;
            self.resolver.set(&there)?;
            self.pair = there;
        }
        let requested = configuration(&self.target, self.pair.authorities.as_bytes());
        match self.registrations().get_opt(NAME).await.context("cannot read the registration")? {
            None => {
                tracing::warn!("the registration of admission is gone; it is made again");
                self.register().await?;
            }
            Some(found) if differs(&found, &requested) => {
                let due = corrected.map_or(Duration::ZERO, |at: Instant| {
                    MIN_CORRECTION_INTERVAL.saturating_sub(at.elapsed())
                });
                if !due.is_zero() {
                    return Ok(due);
                }
                tracing::warn!("the registration of admission was changed; it is put right");
                *corrected = Some(Instant::now());
                self.register().await?;
            }
            Some(_) => {}
        }
        Ok(RESYNC_INTERVAL)
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells of every change of the two objects, by their names.
async fn watch(
    registrations: Api<ValidatingWebhookConfiguration>,
    secrets: Api<Secret>,
    secret: String,
    changed: Arc<Notify>,
) {
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    let (seen_registrations, seen_secrets) = (Cache::<()>::default(), Cache::<()>::default());
    let notify = |_: &sojourn_operator::frame::Change<'_, ()>| changed.notify_one();
    tokio::join!(
        seen_registrations.follow(registrations, named(NAME), |_| (), notify),
        seen_secrets.follow(secrets, named(&secret), |_| (), notify),
    );
}

/// Whether an API server is asked about something else than it should be. Where it asks is not
/// compared: replicas that are reached by different addresses each have registered their own.
fn differs(
    found: &ValidatingWebhookConfiguration,
    requested: &ValidatingWebhookConfiguration,
) -> bool {
    let found = found.webhooks.as_deref().unwrap_or_default();
    let requested = requested.webhooks.as_deref().unwrap_or_default();
    found.len() != requested.len()
        || found.iter().zip(requested).any(|(found, requested)| {
            found.name != requested.name
                || found.failure_policy != requested.failure_policy
                || found.rules != requested.rules
                || found.match_conditions != requested.match_conditions
        })
}
