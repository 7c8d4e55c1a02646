use serde_json::{Value, json};

use super::super::Limits;
use super::super::scripted_program::{Scripted, ScriptedRun};
use super::*;

const ALL: [&str; 4] = ["create", "delete", "list", "watch"];

struct Test {
    scripted: Scripted,
    inventory: Inventory,
    changes: broadcast::Receiver<ProviderChange>,
}

fn key(uid: &str) -> Key {
    Key::new("team", uid)
}

fn machine(uid: &str, state: &str) -> Value {
    json!({"machine": format!("m-{uid}"), "uid": uid, "state": state})
}

impl Test {
    fn new() -> Self {
        let scripted = Scripted::new(Limits::default());
        let (sender, changes) = broadcast::channel(64);
        let inventory = Inventory::follow(scripted.client.clone(), sender);
        Self { scripted, inventory, changes }
    }

    fn look(&self, uid: &str) -> Known<String> {
        self.inventory.look(uid, &key(uid), |report| Known::Is(report.state.to_string()))
    }

    /// Waits until a machine is seen so; only what is told of counts.
    async fn until(&mut self, uid: &str, expected: Known<&str>) {
        let waiting = async {
            loop {
                if self.look(uid).as_ref() == expected_owned(&expected).as_ref() {
                    return;
                }
                self.changes.recv().await.expect("it is told");
            }
        };
        tokio::time::timeout(Duration::from_secs(600), waiting).await.expect("it is told");
    }
}

fn expected_owned(expected: &Known<&str>) -> Known<String> {
    match expected {
        Known::Is(state) => Known::Is((*state).to_owned()),
        Known::Absent => Known::Absent,
        Known::Unknown => Known::Unknown,
    }
}

async fn answer_list(run: &mut ScriptedRun, machines: &[Value]) {
    let asked = run.request("list").await;
    run.ok(&asked, &json!({"machines": machines})).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_absent_before_the_list_is_complete() {
    let mut test = Test::new();
    assert!(test.look("a").is_unknown());
    let mut run = test.scripted.greet(&ALL).await;
    let first = run.request("list").await;
    assert!(first.get("next").is_none());
    run.ok(&first, &json!({"machines": [machine("a", "Running")], "next": "2"})).await;
    let second = run.request("list").await;
    assert_eq!(second["next"], "2");
    assert!(test.look("a").is_unknown() && test.look("c").is_unknown());
    run.ok(&second, &json!({"machines": [machine("b", "Pending")]})).await;
    test.until("a", Known::Is("Running")).await;
    assert_eq!(test.look("b"), Known::Is("Pending".to_owned()));
    assert_eq!(test.look("c"), Known::Absent);
}

#[tokio::test(start_paused = true)]
async fn events_are_told_of_those_whom_they_are_about() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&ALL).await;
    answer_list(&mut run, &[]).await;
    test.until("a", Known::Absent).await;
    run.event(&machine("stranger", "Running")).await;
    run.event(&machine("a", "Running")).await;
    assert_eq!(test.changes.recv().await, Ok(ProviderChange::Machine(key("a"))));
    assert_eq!(test.look("a"), Known::Is("Running".to_owned()));
    // The same again is no change.
    run.event(&machine("a", "Running")).await;
    run.event(&machine("a", "Missing")).await;
    assert_eq!(test.changes.recv().await, Ok(ProviderChange::Machine(key("a"))));
    assert_eq!(test.look("a"), Known::Absent);
}

#[tokio::test(start_paused = true)]
async fn an_event_during_a_list_is_newer_than_the_list() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&ALL).await;
    let asked = run.request("list").await;
    run.event(&machine("gone", "Running")).await;
    run.event(&machine("gone", "Missing")).await;
    run.event(&machine("new", "Running")).await;
    run.event(&machine("moved", "Running")).await;
    let stale = [machine("gone", "Running"), machine("moved", "Pending")];
    run.ok(&asked, &json!({"machines": stale})).await;
    test.until("gone", Known::Absent).await;
    assert_eq!(test.look("new"), Known::Is("Running".to_owned()));
    assert_eq!(test.look("moved"), Known::Is("Running".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn after_an_end_everything_is_unknown_until_the_next_list() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&ALL).await;
    answer_list(&mut run, &[machine("a", "Running")]).await;
    test.until("a", Known::Is("Running")).await;
    assert_eq!(test.look("b"), Known::Absent);
    drop(run);
    let mut state = test.scripted.client.state();
    state.wait_for(|state| *state != super::super::ProgramState::Up).await.expect("it goes on");
    assert!(test.look("a").is_unknown() && test.look("b").is_unknown());
    let mut run = test.scripted.greet(&ALL).await;
    test.scripted.up().await;
    assert!(test.look("a").is_unknown() && test.look("b").is_unknown());
    answer_list(&mut run, &[machine("b", "Running")]).await;
    test.until("b", Known::Is("Running")).await;
    assert_eq!(test.look("a"), Known::Absent);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_leaves_everything_unknown_and_is_asked_for_again() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&ALL).await;
    answer_list(&mut run, &[machine("a", "Running")]).await;
    test.until("a", Known::Is("Running")).await;
    run.event(&json!("relist")).await;
    let asked = run.request("list").await;
    // What was seen is the latest that is known; what was not seen may be there by now.
    assert_eq!(test.look("a"), Known::Is("Running".to_owned()));
    assert!(test.look("b").is_unknown());
    run.error(&asked, "Transient").await;
    let asked = run.request("list").await;
    assert!(test.look("a").is_unknown());
    // A list that never goes on is none.
    run.ok(&asked, &json!({"machines": [], "next": "1"})).await;
    let asked = run.request("list").await;
    run.ok(&asked, &json!({"machines": [], "next": "1"})).await;
    let asked = run.request("list").await;
    assert!(asked.get("next").is_none(), "it begins anew");
    assert!(test.look("a").is_unknown());
    run.ok(&asked, &json!({"machines": [{"machine": "m"}]})).await;
    answer_list(&mut run, &[]).await;
    test.until("a", Known::Absent).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_by_us_shows_at_once_and_what_is_made_when_it_is_told() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&ALL).await;
    answer_list(&mut run, &[]).await;
    test.until("a", Known::Absent).await;
    // The answer may be seen after the events that follow it, so it says nothing by itself.
    test.inventory.created();
    assert_eq!(test.look("a"), Known::Absent);
    run.event(&machine("a", "Running")).await;
    test.until("a", Known::Is("Running")).await;
    test.inventory.deleted("a");
    assert_eq!(test.look("a"), Known::Is("Deleting".to_owned()));
    run.event(&machine("a", "Missing")).await;
    test.until("a", Known::Absent).await;
    test.inventory.deleted("a");
    assert_eq!(test.look("a"), Known::Absent);
}

#[tokio::test(start_paused = true)]
async fn a_program_that_cannot_watch_is_asked_again_and_again() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&["create", "delete", "list"]).await;
    answer_list(&mut run, &[machine("a", "Running")]).await;
    test.until("a", Known::Is("Running")).await;
    let at = Instant::now();
    answer_list(&mut run, &[machine("a", "Stopping")]).await;
    assert_eq!(at.elapsed().as_secs(), 30);
    test.until("a", Known::Is("Stopping")).await;
    let at = Instant::now();
    answer_list(&mut run, &[machine("a", "Stopped")]).await;
    assert_eq!(at.elapsed().as_secs(), 5, "something is on its way");
    test.until("a", Known::Is("Stopped")).await;
    let at = Instant::now();
    test.inventory.created();
    run.request("list").await;
    assert_eq!(at.elapsed().as_secs(), 1, "something was made");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_relists_is_one_list_a_second() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&ALL).await;
    let began = Instant::now();
    for _ in 0..10 {
        run.event(&json!("relist")).await;
        answer_list(&mut run, &[]).await;
    }
    assert!(began.elapsed() >= 8 * MIN_RETRY, "{:?}", began.elapsed());
    test.until("a", Known::Absent).await;
}

#[tokio::test(start_paused = true)]
async fn a_program_of_clusters_alone_has_no_machines() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&["list", "stop", "start"]).await;
    test.scripted.up().await;
    assert_eq!(test.look("a"), Known::Absent);
    tokio::select! {
        request = run.read() => panic!("nobody asks for {request:?}"),
        () = tokio::time::sleep(Duration::from_secs(3600)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn two_machines_of_one_uid_are_the_same_one_each_time() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&ALL).await;
    let two = [
        json!({"machine": "z", "uid": "a", "state": "Running"}),
        json!({"machine": "b", "uid": "a", "state": "Stopped"}),
        json!({"machine": "nobody's", "state": "Running"}),
    ];
    answer_list(&mut run, &two).await;
    test.until("a", Known::Is("Stopped")).await;
}

#[tokio::test(start_paused = true)]
async fn who_drops_it_ends_the_program() {
    let mut test = Test::new();
    let mut run = test.scripted.greet(&ALL).await;
    answer_list(&mut run, &[]).await;
    let Test { scripted, inventory, .. } = test;
    drop(scripted);
    drop(inventory);
    assert_eq!(run.read().await, None);
}
