//! Rights that end by themselves: at their time, and when nobody uses them.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::api_server::Asking;
use crate::office::{GROUP, NAMESPACE, Office, Session};
use crate::stage::{Engine, Stage};
use crate::wait::within;

/// So much later than its deadline a session may be seen to have ended, on a slow and busy machine.
const MAX_LATENESS: SignedDuration = SignedDuration::from_secs(15);
/// Far less than a session may be idle.
const BETWEEN_USES: SignedDuration = SignedDuration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn embedded_rights_end_at_their_time() {
    rights_end_at_their_time(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_rights_end_at_their_time() {
    rights_end_at_their_time(Engine::Real(Asking::ALWAYS)).await;
}

/// However much it is used.
async fn rights_end_at_their_time(engine: Engine) {
    let Some(mut stage) = Stage::start(engine).await else { return };
    let office = Office::open(&mut stage, &json!({"maxValidFor": "20s"})).await;
    let approved = office.approved(GROUP, &[]).await;
    let expires_at = approved.time("expiresAt");
    let mut uses = office.until_allowed().await;
    let (mut last_allowed, mut first_forbidden) = (Timestamp::now(), None);
    within(Duration::from_secs(40), "it ends", async || {
        let before = Timestamp::now();
        if office.ada.is_allowed().await {
            uses += 1;
            last_allowed = before;
            return None;
        }
        first_forbidden = Some(Timestamp::now());
        Some(())
    })
    .await;
    let first_forbidden = first_forbidden.expect("it ended");
    assert!(last_allowed < expires_at, "allowed at {last_allowed}, and ends at {expires_at}");
    assert!(first_forbidden >= expires_at, "forbidden at {first_forbidden}, ends at {expires_at}");
    let ended = office.until(approved.name(), "Expired").await;
    assert_eq!(ended.status("reasonEnded"), "timeExpired");
    assert!(ended.time("endedAt") >= expires_at, "{ended:#?}");
    office.until_counted(approved.name(), uses).await;
    drop(office);
    stage.stop();
}

// case: access 84, 85, 90
#[tokio::test(flavor = "multi_thread")]
async fn embedded_rights_that_nobody_uses_end() {
    rights_that_nobody_uses_end(Engine::Embedded).await;
}

// case: access 84, 85, 90
#[tokio::test(flavor = "multi_thread")]
async fn real_rights_that_nobody_uses_end() {
    rights_that_nobody_uses_end(Engine::Real(Asking::ALWAYS)).await;
}

/// One that was used for a while, and one that never was.
async fn rights_that_nobody_uses_end(engine: Engine) {
    let Some(mut stage) = Stage::start(engine).await else { return };
    let office =
        Office::open(&mut stage, &json!({"maxValidFor": "30m", "idleTimeout": "1m"})).await;
    // Nothing is bound to it, so nothing is a use of it.
    let unused = json!({"maxValidFor": "30m", "idleTimeout": "10m", "firstUseTimeout": "1m"});
    office.lend("spare", &unused).await;
    office.stage.objects.delete("RoleBinding", NAMESPACE, "spare").await;
    let never_used = office.approved("spare", &[]).await;
    let used = office.approved(GROUP, &[]).await;

    // Used for longer than it may be idle, it goes on.
    let mut uses = office.until_allowed().await;
    let began = Timestamp::now();
    let mut last_use = began;
    within(Duration::from_secs(90), "it is used for 65 s", async || {
        let now = Timestamp::now();
        if now.duration_since(last_use) >= BETWEEN_USES {
            last_use = now;
            assert!(office.ada.is_allowed().await, "it is in use");
            uses += 1;
        }
        (last_use.duration_since(began).as_secs() >= 65).then_some(())
    })
    .await;
    let recorded = office.until_counted(used.name(), uses).await;
    assert_eq!(recorded.state(), "Approved", "{recorded:#?}");
    never_used_has_ended(&office, never_used.name()).await;

    // Left alone, it ends; not before its minute is over.
    let ended = within(Duration::from_secs(120), "it ended", async || {
        let session = office.session(used.name()).await?;
        (session.state() != "Approved").then_some(session)
    })
    .await;
    let seen_at = Timestamp::now();
    assert_eq!((ended.state(), ended.status("reasonEnded")), ("IdleExpired", "idleTimeout"));
    let idle = ("True".to_owned(), "IdleTimeout".to_owned());
    assert_eq!(ended.condition("Idle"), idle, "{ended:#?}");
    let due = last_use.checked_add(SignedDuration::from_secs(60)).expect("in range");
    assert!(ended.time("idleExpiredAt") >= due, "used at {last_use}: {ended:#?}");
    let late = seen_at.duration_since(ended.time("idleDeadline"));
    assert!(late < MAX_LATENESS, "{late} late: {ended:#?}");
    assert!(ended.time("retainedUntil") > ended.time("idleExpiredAt"), "{ended:#?}");
    assert!(!office.ada.is_allowed().await);
    assert_eq!(office.until_counted(used.name(), uses).await.state(), "IdleExpired");
    drop(office);
    stage.stop();
}

async fn never_used_has_ended(office: &Office<'_>, name: &str) {
    let ended = office.until(name, "IdleExpired").await;
    assert_eq!((ended.status("reasonEnded"), ended.count()), ("neverUsed", 0), "{ended:#?}");
    let never = ("True".to_owned(), "NeverUsed".to_owned());
    assert_eq!(ended.condition("Idle"), never, "{ended:#?}");
    let given = ended.time("idleExpiredAt").duration_since(ended.time("activatedAt"));
    assert!(given.as_secs() >= 60, "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_time_in_which_nobody_could_see_is_not_idle() {
    time_in_which_nobody_could_see_is_not_idle(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_time_in_which_nobody_could_see_is_not_idle() {
    time_in_which_nobody_could_see_is_not_idle(Engine::Real(Asking::ALWAYS)).await;
}

/// Killed and started again, the operator knows what is on record, grants it, and counts on.
async fn time_in_which_nobody_could_see_is_not_idle(engine: Engine) {
    let Some(mut stage) = Stage::start(engine).await else { return };
    let terms = json!({"maxValidFor": "30m", "idleTimeout": "10m"});
    let office = Office::open(&mut stage, &terms).await;
    let approved = office.approved(GROUP, &[]).await;
    let name = approved.name();
    let uses = office.until_allowed().await;
    let healthy = ("True".to_owned(), "CanariesReturn".to_owned());
    let sees = |session: &Session| session.condition("ActivitySourceHealthy") == healthy;
    office.until_so(name, "seen", sees).await;
    let before = office.until_counted(name, uses).await;
    let idle = |session: &Session| {
        session.time("idleDeadline").duration_since(session.time("lastActivity"))
    };

    office.stage.kill();
    let killed = Instant::now();
    within(Duration::from_secs(20), "some time passes", async || {
        (killed.elapsed() >= Duration::from_secs(4)).then_some(())
    })
    .await;
    office.stage.start_again();
    let more = |session: &Session| sees(session) && idle(session) > idle(&before);
    let after = office.until_so(name, "given more time", more).await;
    assert_eq!(after.time("lastActivity"), before.time("lastActivity"), "{after:#?}");
    let added = idle(&after).as_secs() - idle(&before).as_secs();
    assert!((3..60).contains(&added), "{added} s: {after:#?}");
    assert_eq!(after.time("expiresAt"), before.time("expiresAt"), "{after:#?}");

    let uses = uses + office.until_allowed().await;
    assert_eq!(office.until_counted(name, uses).await.state(), "Approved");
    drop(office);
    stage.stop();
}
