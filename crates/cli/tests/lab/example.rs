//! `examples/lab/` shows the whole ladder within two minutes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client;
use crate::cluster::apply;
use crate::fixture::assets;
use crate::folder::Folder;
use crate::objects::Objects;
use crate::process::{Running, command};
use crate::survivors::{self, Reaper};
use crate::wait::within;

const TWO_MINUTES: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn the_example_shows_the_whole_ladder_within_two_minutes() {
    let Some(assets) = assets("the example") else { return };
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let mut up = command(&["up", "--web", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--data"]);
    up.arg(folder.join("data")).args(["--pod-ports", "24000-24999"]);
    let up = Running::start(up);
    up.ready();
    let kubeconfig = up.kubeconfig();
    let objects = Objects(client::connect(&kubeconfig).await);
    let started = Instant::now();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab");
    apply(&assets.join("kubectl"), &kubeconfig, &example);
    let mut seen = BTreeMap::<String, Vec<String>>::new();
    let left = TWO_MINUTES.saturating_sub(started.elapsed());
    within(left, "every instance has gone the whole way", async || {
        let instances = objects.list_all("Instance").await;
        for instance in &instances {
            let name = instance["metadata"]["name"].as_str().expect("a name").to_owned();
            note(seen.entry(name).or_default(), &instance["status"]["lifecycle"]["stage"]);
        }
        (instances.is_empty() && !seen.is_empty()).then_some(())
    })
    .await;
    let whole = ["Active", "Warned", "Grace", "Stopped", "DestroyWarned", "DestroyGrace"];
    let ladder = seen.values().find(|stages| stages.iter().any(|stage| stage == "Stopped"));
    let ladder = ladder.unwrap_or_else(|| panic!("nothing was stopped: {seen:?}"));
    let ladder: Vec<_> = ladder.iter().filter(|stage| *stage != "Idle").collect();
    assert_eq!(ladder, whole);
    assert!(seen.len() >= 2, "one that keeps its data, and one that does not: {seen:?}");
    assert!(started.elapsed() < TWO_MINUTES);
    survivors::interrupt(up);
}

fn note(stages: &mut Vec<String>, stage: &Value) {
    let Some(stage) = stage.as_str() else { return };
    if stages.last().is_none_or(|last| last != stage) {
        stages.push(stage.to_owned());
    }
}
