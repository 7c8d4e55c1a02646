//! Rights that somebody gets, uses and gives back, or that are taken from them.

use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sojourn_api::access::BreakglassSession;

use crate::api_server::Asking;
use crate::office::{GROUP, NAMESPACE, Office, Session};
use crate::people::good;
use crate::stage::{Engine, Stage};

// case: access 39, 50, 52, 66
#[tokio::test(flavor = "multi_thread")]
async fn embedded_rights_come_by_approval_and_go_by_drop_and_cancel() {
    rights_come_by_approval_and_go_by_drop_and_cancel(Engine::Embedded).await;
}

// case: access 39, 50, 52, 66
#[tokio::test(flavor = "multi_thread")]
async fn real_rights_come_by_approval_and_go_by_drop_and_cancel() {
    rights_come_by_approval_and_go_by_drop_and_cancel(Engine::Real(Asking::ALWAYS)).await;
}

async fn rights_come_by_approval_and_go_by_drop_and_cancel(engine: Engine) {
    let Some(mut stage) = Stage::start_without_log(engine).await else { return };
    let terms = json!({
        "maxValidFor": "30m", "idleTimeout": "10m", "extension": {"max": 1, "step": "10m"},
    });
    let office = Office::open(&mut stage, &terms).await;
    let dropped = used_and_dropped(&office).await;
    let canceled = used_and_canceled(&office).await;
    refused_requests_give_nothing(&office).await;
    nobody_else_writes_sessions(&office, &dropped).await;
    commands_tell(&office, &dropped, &canceled).await;
    let uid = office.session(&dropped).await.expect("it is on record").0["metadata"]["uid"].clone();
    let (ada, ben) = (office.ada.user.clone(), office.ben.user.clone());
    drop(office);
    let said = stage.stop();
    let told = |line: &Value| line["uid"] == uid && line["to"].is_string();
    let lines: Vec<Value> = audit_lines(&said).into_iter().filter(told).collect();
    for (from, to, actor, reason) in [
        ("", "Pending", &ada, "the shop is down"),
        ("Pending", "Approved", &ben, "go on"),
        ("Approved", "Expired", &ada, "dropped"),
    ] {
        let line = lines.iter().find(|line| line["to"] == to);
        let line = line.unwrap_or_else(|| panic!("no line about {to} in {lines:#?}"));
        let named = ["from", "actor", "reason"].map(|name| line[name].as_str().unwrap_or_default());
        assert_eq!(named, [from, actor, reason], "{line:#}");
        let time = line["time"].as_str().map(str::parse::<Timestamp>);
        assert!(matches!(time, Some(Ok(_))), "{line:#}");
    }
}

/// The lines of JSON among what the program said on stderr.
fn audit_lines(stderr: &str) -> Vec<Value> {
    let lines = stderr.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// Ada asks, Ben approves, Ada uses it, has it end later, and gives it back.
async fn used_and_dropped(office: &Office<'_>) -> String {
    let Office { ada, ben, eve, .. } = office;
    assert!(!ada.is_allowed().await, "nobody gave her anything");
    let pending = office.requested(GROUP, &["--reason", "the shop is down"]).await;
    let name = pending.name();
    assert_eq!(pending.0["spec"]["reason"], "the shop is down");
    assert!(!ada.is_allowed().await, "nobody approved it");
    let waiting = ben.gets(&["sessions", "--state", "Pending"]);
    assert_eq!(waiting[0]["metadata"]["name"], name, "{waiting}");
    for (person, who) in [(ada, "the requester"), (eve, "somebody else")] {
        let said = person.is_refused(&["approve", name]);
        assert!(said.contains(&format!("cannot approve {name}: ")), "{who}: {said}");
    }

    let approved = Session(ben.gets(&["approve", name, "--reason", "go on"]));
    assert_eq!(approved.state(), "Approved");
    let approval = &approved.0["status"]["approvals"][0];
    assert_eq!((&approval["user"], &approval["reason"]), (&json!(ben.user), &json!("go on")));
    assert_eq!(approved.0["status"]["approvals"][0]["at"], approved.status("approvedAt"));
    let valid = approved.time("expiresAt").duration_since(approved.time("approvedAt"));
    assert_eq!(valid.as_secs(), 30 * 60);
    let mut uses = office.until_allowed().await;
    for _ in 0..5 {
        assert!(ada.is_allowed().await);
        uses += 1;
    }
    assert!(!eve.is_allowed().await, "it is Ada's");
    // Whoever asks whether she may is told by which session; that counts, as every decision does.
    let reviewed = office.review(&ada.user).await;
    uses += 1;
    assert!(reviewed.allowed, "{reviewed:?}");
    let reason = reviewed.reason.as_deref().unwrap_or_default();
    assert!(reason.contains(&format!("{NAMESPACE}/{name} (uid ")), "{reason}");
    let before = Timestamp::now();
    assert!(ada.is_allowed().await);
    uses += 1;
    let used = office.until_counted(name, uses).await;
    let last = used.time("lastActivity").duration_since(before).as_secs();
    assert!((-1..=5).contains(&last), "used at {before}: {used:#?}");
    assert!(used.time("lastActivity") >= used.time("firstActivity"), "{used:#?}");
    assert!(used.time("idleDeadline") > used.time("lastActivity"), "{used:#?}");

    let said = eve.is_refused(&["extend", &format!("bgs/{name}")]);
    assert!(said.contains("cannot extend"), "{said}");
    let said = ada.asks(&["extend", &format!("bgs/{name}")]).stderr;
    assert!(said.contains(&format!("{name} is Approved until 20")), "{said}");
    let extended = office.session(name).await.expect("it is there");
    let longer = extended.time("expiresAt").duration_since(approved.time("expiresAt"));
    assert_eq!(longer.as_secs(), 10 * 60, "{extended:#?}");
    assert_eq!(extended.count(), uses, "that is no use: {extended:#?}");
    let said = ada.is_refused(&["extend", &format!("bgs/{name}")]);
    assert!(said.contains("as often as it can be"), "{said}");

    let gone = Session(ada.gets(&["drop", name]));
    assert_eq!((gone.state(), gone.status("reasonEnded")), ("Expired", "dropped"));
    uses += office.until_forbidden().await;
    assert_eq!(office.until_counted(name, uses).await.state(), "Expired");
    ada.is_refused(&["drop", name]);
    name.to_owned()
}

/// What Ben approved, Ben can take back.
async fn used_and_canceled(office: &Office<'_>) -> String {
    let Office { ada, ben, eve, .. } = office;
    let approved = office.approved(GROUP, &[]).await;
    let name = approved.name();
    let mut uses = office.until_allowed().await;
    for person in [ada, eve] {
        person.is_refused(&["cancel", name]);
    }
    let gone = Session(ben.gets(&["cancel", name]));
    assert_eq!((gone.state(), gone.status("reasonEnded")), ("Expired", "canceled"));
    assert_eq!(gone.status("endedBy"), ben.user);
    uses += office.until_forbidden().await;
    office.until_counted(name, uses).await;
    name.to_owned()
}

/// What is withdrawn or rejected never gives anything.
async fn refused_requests_give_nothing(office: &Office<'_>) {
    let Office { ada, ben, .. } = office;
    let asked = office.requested(GROUP, &[]).await;
    let withdrawn = Session(ada.gets(&["withdraw", asked.name()]));
    assert_eq!(withdrawn.state(), "Withdrawn");
    let said = ben.is_refused(&["approve", withdrawn.name()]);
    assert!(said.contains("the session is Withdrawn already"), "{said}");
    assert!(!ada.is_allowed().await);
    let asked = office.requested(GROUP, &[]).await;
    let rejected = Session(ben.gets(&["reject", asked.name(), "--reason", "not now"]));
    assert_eq!((rejected.state(), rejected.status("endedBecause")), ("Rejected", "not now"));
    assert!(!ada.is_allowed().await);
    let asked = office.requested(GROUP, &[]).await;
    let dropped = Session(ada.gets(&["drop", asked.name()]));
    assert_eq!(dropped.state(), "Withdrawn");
}

/// Not even an administrator makes a session, or writes what became of one.
async fn nobody_else_writes_sessions(office: &Office<'_>, dropped: &str) {
    let sessions: Api<BreakglassSession> =
        Api::namespaced(office.stage.objects.0.clone(), NAMESPACE);
    let ended = sessions.get(dropped).await.expect("it is there");
    let mut forged = BreakglassSession::new("forged", ended.spec.clone());
    forged.spec.user = office.eve.user.clone();
    let refused = sessions.create(&PostParams::default(), &forged).await;
    refused.expect_err("only the operator makes sessions");
    for status in [
        json!({"state": "Approved", "expiresAt": "2099-01-01T00:00:00Z"}),
        json!({"activityCount": 1000}),
        json!({"activityCount": 0}),
        json!(null),
    ] {
        let forged = json!({ "status": status });
        let patched =
            sessions.patch_status(dropped, &PatchParams::default(), &Patch::Merge(&forged)).await;
        patched.expect_err("only the operator writes their status");
    }
    let spec = json!({"spec": {"user": office.eve.user}});
    let patched = sessions.patch(dropped, &PatchParams::default(), &Patch::Merge(&spec)).await;
    patched.expect_err("what was asked for never changes");
    assert!(!office.ada.is_allowed().await && !office.eve.is_allowed().await);
}

/// What an administrator sees with the commands for every kind, and people with their own.
async fn commands_tell(office: &Office<'_>, dropped: &str, canceled: &str) {
    let administrator = |words: &[&str]| {
        let mut asked = crate::process::command(words);
        asked.args(["--namespace", NAMESPACE, "--kubeconfig"]).arg(&office.stage.kubeconfig);
        crate::process::Running::start(asked).ended()
    };
    let named = format!("bgs/{dropped}");
    let why = good(administrator(&["why", &named]));
    assert!(why.starts_with(&format!("{named} is Expired")), "{why}");
    assert!(why.contains("  ended      dropped, at 20"), "{why}");
    assert!(why.contains(" times in all"), "{why}");
    let kept = administrator(&["keep", &named]);
    assert_eq!(kept.code, Some(2), "{}", kept.stderr);
    assert!(kept.stderr.contains(&format!("sojourn extend {named}")), "{}", kept.stderr);

    let pending = office.requested(GROUP, &[]).await;
    let printed =
        good(administrator(&["plan", &format!("bgs/{}", pending.name()), "--output", "json"]));
    let plan: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(plan[0]["action"], "TimeOut", "{plan:#}");
    office.ada.gets(&["withdraw", pending.name()]);

    let listed = good(office.ada.asks(&["sessions"]));
    let lines = |word: &str| listed.lines().filter(|line| line.contains(word)).count();
    assert!(listed.starts_with("NAME "), "{listed}");
    assert_eq!((lines(dropped), lines(canceled)), (1, 1), "{listed}");
    let nothing = good(office.eve.asks(&["sessions", "--output", "name"]));
    assert_eq!(nothing, "", "none is hers");
    let names = good(office.ben.asks(&["sessions", "--state", "rejected", "--output", "name"]));
    assert_eq!(names.lines().count(), 1, "{names}");
}
