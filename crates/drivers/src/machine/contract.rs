//! What every provider does alike, as one suite that each provider's test calls.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use sojourn_core::group::observed::Power;
use sojourn_core::known::Known;

use super::{CreateRequest, Provider, ProviderChange, ProviderStatus};

/// Anything must be visible within this time.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(600);

/// A provider with what is around it.
pub trait ContractHarness: Sync {
    fn provider(&self) -> &dyn Provider;

    /// A config from which a machine can be made.
    fn good(&self) -> Value;

    /// One that the provider does not accept.
    fn bad(&self) -> Value;

    /// A request for a machine of this name that nobody sent before. The same name again is
    /// another machine.
    fn request<'a>(&'a self, name: &'a str) -> BoxFuture<'a, CreateRequest>;

    /// Takes the machine away, as hardware does.
    fn lose<'a>(&'a self, request: &'a CreateRequest) -> BoxFuture<'a, ()>;

    /// How many machines there really are.
    fn count(&self) -> BoxFuture<'_, usize>;
}

/// Runs the suite. Time may be paused.
///
/// # Panics
/// If the provider does not keep the contract.
pub async fn suite(harness: &dyn ContractHarness) {
    a_config_is_judged_before_it_is_used(harness);
    what_was_never_made_is_absent_and_deleted(harness).await;
    a_request_sent_twice_makes_one_machine(harness).await;
    a_request_that_was_dropped_can_be_sent_again(harness).await;
    a_machine_is_of_its_object_and_not_of_its_name(harness).await;
    what_vanishes_is_told(harness).await;
    assert_eq!(harness.count().await, 0, "every machine of the suite was deleted");
}

fn a_config_is_judged_before_it_is_used(harness: &dyn ContractHarness) {
    let provider = harness.provider();
    assert_eq!(provider.check(&harness.good()), [""; 0]);
    let problems = provider.check(&harness.bad());
    assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.is_empty()));
}

async fn what_was_never_made_is_absent_and_deleted(harness: &dyn ContractHarness) {
    let provider = harness.provider();
    let request = harness.request("never").await;
    assert_eq!(provider.status(request.machine()), Known::Absent);
    assert_eq!(provider.delete(request.machine()).await, Ok(()));
    assert_eq!(provider.status(request.machine()), Known::Absent);
}

async fn a_request_sent_twice_makes_one_machine(harness: &dyn ContractHarness) {
    let provider = harness.provider();
    let request = harness.request("twice").await;
    let before = harness.count().await;
    let id = provider.create(&request).await.expect("the order is good");
    assert_eq!(provider.create(&request).await, Ok(id.clone()));
    assert_eq!(harness.count().await, before + 1);
    let status = until(provider, &request, |seen| power(seen) == Some(Power::Running)).await;
    assert_eq!(status.is().map(|status| status.machine.id.to_string()), Some(id.clone()));
    assert_eq!(provider.create(&request).await, Ok(id), "and so it does while it runs");
    delete_and_wait(provider, &request).await;
    assert_eq!(provider.delete(request.machine()).await, Ok(()), "what is gone is deleted");
}

async fn a_request_that_was_dropped_can_be_sent_again(harness: &dyn ContractHarness) {
    let provider = harness.provider();
    let request = harness.request("dropped").await;
    let before = harness.count().await;
    for polls in 0..4 {
        let mut dropped = provider.create(&request);
        for _ in 0..polls {
            if dropped.as_mut().now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    provider.create(&request).await.expect("it is the same order");
    assert_eq!(harness.count().await, before + 1);
    drop(provider.delete(request.machine()));
    delete_and_wait(provider, &request).await;
}

/// An object that was deleted and made again has the name of the old one, and not its machine.
async fn a_machine_is_of_its_object_and_not_of_its_name(harness: &dyn ContractHarness) {
    let provider = harness.provider();
    let first = harness.request("same").await;
    provider.create(&first).await.expect("the order is good");
    until(provider, &first, |seen| power(seen) == Some(Power::Running)).await;
    let second = harness.request("same").await;
    assert_ne!(first.uid, second.uid);
    assert_eq!(provider.status(second.machine()), Known::Absent);
    assert_eq!(provider.delete(second.machine()).await, Ok(()), "there is none of that object");
    assert_eq!(power(&provider.status(first.machine())), Some(Power::Running));
    delete_and_wait(provider, &first).await;
}

async fn what_vanishes_is_told(harness: &dyn ContractHarness) {
    let provider = harness.provider();
    let request = harness.request("lost").await;
    provider.create(&request).await.expect("the order is good");
    until(provider, &request, |seen| power(seen) == Some(Power::Running)).await;
    let mut changes = provider.changes();
    harness.lose(&request).await;
    let told = async {
        while let Some(change) = changes.next().await {
            if change == ProviderChange::Machine(request.key.clone())
                || change == ProviderChange::All
            {
                return;
            }
        }
        panic!("the provider is gone");
    };
    tokio::time::timeout(VISIBILITY_TIMEOUT, told).await.expect("a loss is told");
    until(provider, &request, |seen| !matches!(power(seen), Some(Power::Running))).await;
    delete_and_wait(provider, &request).await;
}

fn power(seen: &Known<ProviderStatus>) -> Option<Power> {
    seen.as_ref().is().map(|status| status.machine.power)
}

/// Waits until it is as it should; only what is told of counts.
async fn until(
    provider: &dyn Provider,
    request: &CreateRequest,
    is: impl Fn(&Known<ProviderStatus>) -> bool,
) -> Known<ProviderStatus> {
    let mut changes = provider.changes();
    let waiting = async {
        loop {
            let seen = provider.status(request.machine());
            if is(&seen) {
                return seen;
            }
            changes.next().await.expect("the provider is there");
        }
    };
    match tokio::time::timeout(VISIBILITY_TIMEOUT, waiting).await {
        Ok(seen) => seen,
        Err(_) => panic!("nobody told: {:?}", provider.status(request.machine())),
    }
}

async fn delete_and_wait(provider: &dyn Provider, request: &CreateRequest) {
    assert_eq!(provider.delete(request.machine()).await, Ok(()));
    until(provider, request, Known::is_absent).await;
}
