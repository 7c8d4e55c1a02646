//! The family toy from one end to the other: the binary, kubectl, people and a browser; on `sojourn up` and on
//! a real control plane.
//!
//! | variable of the environment | meaning                                                    |
//! |-----------------------------|------------------------------------------------------------|
//! | `KUBEBUILDER_ASSETS`        | folder of kubectl and the programs of a real control plane |
//! | `SOJOURN_REQUIRE_KUBE`      | `1`: fail rather than skip without those                   |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]
#![expect(clippy::print_stdout, reason = "what was skipped")]

#[path = "../group/admission.rs"]
mod admission;
#[path = "../pods/case_cluster.rs"]
mod case_cluster;
#[path = "../it/client.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod client;
#[path = "../lab/cluster.rs"]
mod cluster;
#[path = "../../../apiserver/tests/conformance/control_plane.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod control_plane;
#[path = "../lab/fixture.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod fixture;
#[path = "../it/folder.rs"]
mod folder;
#[path = "../../../apiserver/tests/conformance/identity.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod identity;
#[path = "../lab/objects.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod objects;
mod page_server;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "the tests of the binary, whose it is, use all of it")]
mod process;
#[path = "../pods/real.rs"]
#[allow(dead_code, reason = "the tests of Pods, whose it is, use all of it")]
mod real;
#[path = "../lab/scheduler.rs"]
mod scheduler;
#[path = "../pods/survivors.rs"]
#[allow(dead_code, reason = "the tests of Pods, whose it is, use all of it")]
mod survivors;
#[path = "../../../apiserver/tests/conformance/target.rs"]
#[allow(dead_code, reason = "the conformance suite, whose it is, uses all of it")]
mod target;
#[path = "../lab/tool.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod tool;
#[path = "../lab/visitor.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod visitor;
#[path = "../lab/wait.rs"]
#[allow(dead_code, reason = "the tests of the lab, whose it is, use all of it")]
mod wait;

use std::path::Path;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use sojourn_api::toy::{Phase, Toy};

use crate::admission::with_admission;
use crate::cluster::{apply, good};
use crate::fixture::{Engine, Fixture, assets};
use crate::page_server::PageServer;
use crate::process::Ended;
use crate::wait::eventually;

/// Where the example has its toys.
const NURSERY: &str = "nursery";

// case: toy 7
#[tokio::test(flavor = "multi_thread")]
async fn embedded_toys_live_are_played_with_and_end() {
    let Some(stage) = Fixture::start(Engine::Embedded, &json!({})).await else { return };
    let Some(nursery) = Nursery::open(&stage) else { return };
    nursery.lives().await;
    nursery.is_visited().await;
    nursery.refuses().await;
    nursery.commands_tell_and_do_what_they_should().await;
    nursery.ends().await;
    drop(nursery);
    stage.stop();
}

// case: toy 8
#[tokio::test(flavor = "multi_thread")]
async fn real_toys_live_are_played_with_and_end() {
    let Some(mut stage) = Fixture::start(Engine::Real, &json!({})).await else { return };
    let operator = with_admission(&mut stage);
    let Some(nursery) = Nursery::open(&stage) else { return };
    nursery.lives().await;
    nursery.refuses().await;
    nursery.commands_tell_and_do_what_they_should().await;
    nursery.ends().await;
    operator.into_iter().for_each(survivors::interrupt);
    drop(nursery);
    stage.stop();
}

/// The toys of `examples/toy/`, and what people do there.
struct Nursery<'a> {
    stage: &'a Fixture,
    toys: Api<Toy>,
}

impl<'a> Nursery<'a> {
    /// Nothing without kubectl, with which the example is applied.
    fn open(stage: &'a Fixture) -> Option<Self> {
        let kubectl = assets("the example")?.join("kubectl");
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/toy");
        apply(&kubectl, &stage.kubeconfig, &example);
        Some(Self { stage, toys: Api::namespaced(stage.objects.0.clone(), NURSERY) })
    }

    fn asks(&self, words: &[&str]) -> Ended {
        self.stage.sojourn(NURSERY, words)
    }

    async fn make(&self, name: &str, spec: &Value) -> Result<Toy, kube::Error> {
        self.toys.create(&PostParams::default(), &toy(name, spec)).await
    }

    /// Waits until a toy is in a phase.
    async fn until(&self, name: &str, phase: Phase) -> Toy {
        eventually(&format!("{name} is {phase:?}"), async || {
            let toy = self.toys.get_opt(name).await.ok()??;
            (toy.status.as_ref()?.phase == Some(phase)).then_some(toy)
        })
        .await
    }

    /// The status says how it is and what comes next.
    async fn lives(&self) {
        let bear = self.until("bear", Phase::Alive).await;
        let status = bear.status.expect("it has one");
        assert_eq!(status.observed_generation, bear.metadata.generation);
        let next = status.next.expect("something comes");
        assert_eq!(next.action, Some(sojourn_api::toy::Action::Warn));
        assert!(next.why.starts_with("its lifespan ends at 20"), "{next:?}");
        let accepted = status.conditions.iter().find(|one| one.type_ == "Accepted");
        assert_eq!(accepted.expect("a condition").status, "True");
    }

    /// Admission refuses what the options do not allow, and what no schema can tell.
    async fn refuses(&self) {
        for (spec, words) in [
            (json!({"lifespan": "2h"}), "must not be longer than maxLifespan, which is 1h"),
            (json!({"lifespan": "5m"}), "spec.warnBefore: must be shorter than lifespan"),
            (json!({"lifespan": "1h", "address": "192.0.2.1:80"}), "an address of this machine"),
        ] {
            // An API server comes to know a webhook a moment after it was registered.
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let refused = eventually(words, async || {
                self.toys.create(&params, &toy("refused", &spec)).await.err()
            });
            let refused = refused.await.to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }

    async fn commands_tell_and_do_what_they_should(&self) {
        let printed = good(self.asks(&["plan", "toy/bear", "--output", "json"]));
        let plan: Vec<Value> = serde_json::from_str(&printed).expect("JSON");
        let actions: Vec<_> = plan.iter().map(|row| row["action"].as_str()).collect();
        assert_eq!(actions, [Some("Warn"), Some("End")], "{plan:?}");
        let all = good(self.asks(&["plan"]));
        assert!(all.contains("toy/bear"), "{all}");
        let why = good(self.asks(&["why", "ty/bear"]));
        assert!(why.starts_with("ty/bear is Alive"), "{why}");

        let said = self.asks(&["keep", "toy/bear", "--for", "10m"]).stderr;
        assert!(said.contains("toy/bear is kept until 20"), "{said}");
        self.until("bear", Phase::Kept).await;
        let why = good(self.asks(&["why", "toy/bear"]));
        assert!(why.contains("kept until"), "{why}");

        // Playing voids a warning: it lives as long again.
        let spec = json!({"lifespan": "40s", "warnBefore": "35s"});
        self.make("kite", &spec).await.expect("it is good");
        let warned = self.until("kite", Phase::Warned).await.status.expect("a status");
        let said = self.asks(&["play", "toy/kite"]).stderr;
        assert!(said.contains("toy/kite lives on from 20"), "{said}");
        let next = eventually("kite is warned anew", async || {
            let status = self.toys.get_opt("kite").await.ok()??.status?;
            let later = status.warned_of > warned.warned_of && status.warned_at > warned.warned_at;
            later.then_some(status.next?)
        });
        let next = next.await;
        assert_eq!(next.action, Some(sojourn_api::toy::Action::End), "{next:?}");
        let refused = self.asks(&["play", "namespace/nursery"]);
        assert_ne!(refused.code, Some(0), "{}", refused.stderr);
    }

    /// Its owner is told by an Event, and it ends as told, and not before.
    async fn ends(&self) {
        let events: Api<Event> = Api::namespaced(self.stage.objects.0.clone(), NURSERY);
        let told = eventually("the owner of top is told", async || {
            let all = events.list(&ListParams::default()).await.ok()?.items;
            let warns = |event: &Event| {
                event.reason.as_deref() == Some("EndsSoon")
                    && event.involved_object.name.as_deref() == Some("top")
            };
            all.into_iter().find(warns)
        });
        let told_at = told.await.first_timestamp.expect("it says when").0;
        eventually("top has ended", async || {
            self.toys.get_opt("top").await.ok()?.is_none().then_some(())
        })
        .await;
        let early = told_at.checked_add(SignedDuration::from_secs(5)).expect("in range");
        assert!(Timestamp::now() >= early, "its owner was told at {told_at}");
        self.until("bear", Phase::Kept).await;
    }

    /// A browser is led to where a toy answers, if its user may.
    async fn is_visited(&self) {
        let server = PageServer::start("a toy says hello").await;
        let spec = json!({"lifespan": "1h", "address": server.address.to_string()});
        self.make("page", &spec).await.expect("it is good");
        self.until("page", Phase::Alive).await;
        let address = "/go/toy/nursery/page/main/";
        // The link that signs in does so once.
        let mut visitor = self.stage.visitor().await;
        let page = visitor.open(address).await;
        assert_eq!((page.status, page.text.as_str()), (StatusCode::OK, "a toy says hello"));
        assert!(!page.address.contains("/go/"), "it has an origin of its own: {}", page.address);
        let missing = visitor.open("/go/toy/nursery/nobody/main/").await;
        assert_ne!(missing.status, StatusCode::OK, "{missing:?}");
        let stranger = self.stage.stranger().open(address).await;
        assert_ne!(stranger.text, "a toy says hello", "{stranger:?}");
    }
}

fn toy(name: &str, spec: &Value) -> Toy {
    let object = json!({
        "apiVersion": "toy.sojourn.dev/v1alpha1", "kind": "Toy",
        "metadata": {"name": name, "namespace": NURSERY}, "spec": spec,
    });
    serde_json::from_value(object).expect("a toy")
}
