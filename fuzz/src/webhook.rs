//! Any body that is posted to the authorization webhook by an API server that is known.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use sojourn_operator::access::webhook::fuzz::FuzzedWebhook;
use tokio::runtime::{Builder, Runtime};

struct Target {
    runtime: Runtime,
    webhook: FuzzedWebhook,
}

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(|body: &[u8]| {
    let target = TARGET.get_or_init(|| Target {
        runtime: Builder::new_current_thread().enable_time().build().expect("a runtime"),
        webhook: FuzzedWebhook::default(),
    });
    target.runtime.block_on(target.webhook.post(body));
});
