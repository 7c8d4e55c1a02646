//! `examples/access/` shows a session that is requested, used, left alone and ends, within two minutes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::office::Session;
use crate::people::{Person, good};
use crate::process::Running;
use crate::stage::{Engine, Stage, assets};
use crate::wait::{eventually, within};

const NAMESPACE: &str = "emergency";
const EXAMPLE_TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn the_example_shows_a_session_that_idle_expires_within_two_minutes() {
    let Some(assets) = assets("the example") else { return };
    let Some(stage) = Stage::start(Engine::Embedded).await else { return };
    let started = Instant::now();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/access");
    // The configuration that allows such short times may come to be known after the escalation is asked about.
    eventually("the example is applied", async || {
        let mut apply = Command::new(assets.join("kubectl"));
        apply.args(["apply", "--server-side", "--force-conflicts", "--filename"]).arg(&example);
        apply.arg("--kubeconfig").arg(&stage.kubeconfig);
        (Running::start(apply).ended().code == Some(0)).then_some(())
    })
    .await;
    let (folder, web) = (stage.folder.path(), stage.web_url());
    let person = async |name: &str| {
        Person::of_account(&stage.kubeconfig, folder, NAMESPACE, name, &web).await
    };
    let (ada, ben) = (person("ada").await, person("ben").await);
    assert!(!ada.is_allowed().await);
    let asked = ["request", "--group", "ops-emergency", "--reason", "the shop is down"];
    let asked = Session(ada.gets(&asked));
    let name = asked.name();
    eventually("Ben sees it", async || {
        let waiting = ben.gets(&["sessions", "--state", "Pending"]);
        (waiting[0]["metadata"]["name"] == name).then_some(())
    })
    .await;
    let said = ben.asks(&["approve", name]);
    assert!(said.stderr.contains(&format!("{name} is Approved until 20")), "{}", said.stderr);
    good(said);
    eventually("Ada is allowed to", async || ada.is_allowed().await.then_some(())).await;
    let left = EXAMPLE_TIMEOUT.saturating_sub(started.elapsed());
    let ended = within(left, "it ended", async || {
        let found = stage.objects.get("BreakglassSession", NAMESPACE, name).await.map(Session)?;
        (found.state() == "IdleExpired").then_some(found)
    })
    .await;
    assert_eq!((ended.status("reasonEnded"), ended.count()), ("idleTimeout", 1), "{ended:#?}");
    assert!(!ada.is_allowed().await);
    stage.stop();
}
