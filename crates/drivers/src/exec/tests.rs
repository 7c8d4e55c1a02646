use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};
use sojourn_core::cluster::ErrorClass;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use super::client::ProgramEvent::{Down, Machine, Up};
use super::message::Request;
use super::scripted_program::{Scripted, ScriptedRun};
use super::*;

const ALL: [&str; 6] = ["create", "delete", "list", "watch", "stop", "start"];
const SECOND: Duration = Duration::from_secs(1);

async fn call(client: &Client, uid: &str) -> Result<Value, CallError> {
    client.call(&Request { uid: Some(uid), ..Request::new(Operation::Create) }).await
}

fn is_unknown(answer: &Result<Value, CallError>) -> bool {
    matches!(answer, Err(CallError::Unknown(why)) if !why.is_empty())
}

/// Why the program does not run.
fn down(client: &Client) -> String {
    match &*client.state().borrow() {
        ProgramState::Down(why) => why.to_string(),
        ProgramState::Up => panic!("it is up"),
    }
}

/// A program that is up, with a request that it has read and not answered.
async fn under_way() -> (Scripted, ScriptedRun, tokio::task::JoinHandle<Result<Value, CallError>>) {
    let mut scripted = Scripted::new(Limits::default());
    let mut run = scripted.greet(&ALL).await;
    scripted.up().await;
    let client = scripted.client.clone();
    let waiting = tokio::spawn(async move { call(&client, "u-1").await });
    run.request("create").await;
    (scripted, run, waiting)
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_in_any_order() {
    let mut scripted = Scripted::new(Limits::default());
    let mut run = scripted.greet(&ALL).await;
    scripted.up().await;
    let client = &scripted.client;
    let program = async {
        let mut asked = Vec::new();
        for _ in 0..3 {
            asked.push(run.request("create").await);
        }
        for request in asked.iter().rev() {
            run.ok(request, &json!({"machine": request["uid"]})).await;
        }
    };
    let (one, two, three, ()) =
        tokio::join!(call(client, "a"), call(client, "b"), call(client, "c"), program);
    for (answer, uid) in [(one, "a"), (two, "b"), (three, "c")] {
        assert_eq!(answer, Ok(json!({"machine": uid})));
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_keeps_its_class_and_ends_nothing() {
    let (scripted, mut run, waiting) = under_way().await;
    run.error(&json!({"id": 2}), "Quota").await;
    let answer = waiting.await.expect("no panic");
    let Err(CallError::Answered(error)) = answer else { panic!("{answer:?}") };
    assert_eq!((error.class, error.message.as_str()), (ErrorClass::Quota, "words"));
    assert_eq!(*scripted.client.state().borrow(), ProgramState::Up);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_nobodys_id_is_left_alone() {
    let (scripted, mut run, waiting) = under_way().await;
    run.ok(&json!({"id": 77}), &json!({})).await;
    run.ok(&json!({"id": 1}), &json!({})).await;
    run.ok(&json!({"id": 2}), &json!({"machine": "m"})).await;
    assert_eq!(waiting.await.expect("no panic"), Ok(json!({"machine": "m"})));
    assert_eq!(*scripted.client.state().borrow(), ProgramState::Up);
}

#[tokio::test(start_paused = true)]
async fn garbage_ends_the_run_and_leaves_the_outcome_unknown() {
    for garbage in ["Traceback (most recent call last):\n", "{\"id\":2}\n", "\u{0}\n", "[]\n"] {
        let (mut scripted, mut run, waiting) = under_way().await;
        run.write_text(garbage).await;
        assert!(is_unknown(&waiting.await.expect("no panic")), "{garbage:?}");
        assert!(down(&scripted.client).contains("no message"), "{garbage:?}");
        // It is told to go, and started again.
        assert_eq!(run.read().await, None);
        let _run = scripted.greet(&ALL).await;
        scripted.up().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_long_ends_the_run() {
    let (scripted, mut run, waiting) = under_way().await;
    run.write_text(&"x".repeat(MAX_LINE_BYTES + 2)).await;
    assert!(is_unknown(&waiting.await.expect("no panic")));
    assert!(down(&scripted.client).contains("more than 1048576 bytes"));
}

#[tokio::test(start_paused = true)]
async fn the_longest_line_is_read() {
    let (_scripted, mut run, waiting) = under_way().await;
    let head = r#"{"id":2,"ok":{"machine":"m","note":""#;
    let note = "x".repeat(MAX_LINE_BYTES - head.len() - 3);
    run.write_text(&format!("{head}{note}\"}}}}\n")).await;
    assert_eq!(waiting.await.expect("no panic").expect("ok")["machine"], "m");
}

#[tokio::test(start_paused = true)]
async fn an_exit_leaves_the_outcome_unknown() {
    let (mut scripted, run, waiting) = under_way().await;
    drop(run);
    assert!(is_unknown(&waiting.await.expect("no panic")));
    let _run = scripted.greet(&ALL).await;
    scripted.up().await;
}

#[tokio::test(start_paused = true)]
async fn silence_leaves_the_outcome_unknown_and_ends_the_run() {
    let (scripted, mut run, waiting) = under_way().await;
    let began = Instant::now();
    // Another answer and an event are no answer to this one.
    run.ok(&json!({"id": 9}), &json!({})).await;
    run.event(&json!("relist")).await;
    assert!(is_unknown(&waiting.await.expect("no panic")));
    assert_eq!(began.elapsed().as_secs(), 60);
    assert!(down(&scripted.client).contains("did not answer a request within 60 s"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_dropped_still_counts() {
    let (scripted, mut run, waiting) = under_way().await;
    waiting.abort();
    assert!(waiting.await.is_err());
    let client = scripted.client.clone();
    let next = tokio::spawn(async move { call(&client, "u-2").await });
    let second = run.request("create").await;
    run.ok(&json!({"id": 2}), &json!({"machine": "late"})).await;
    run.ok(&second, &json!({"machine": "m"})).await;
    assert_eq!(next.await.expect("no panic"), Ok(json!({"machine": "m"})));
    // One that is never answered ends the run, although nobody waits for it.
    let (scripted, _run, waiting) = under_way().await;
    waiting.abort();
    let mut state = scripted.client.state();
    state.wait_for(|state| *state != ProgramState::Up).await.expect("the client goes on");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_says_nothing_at_first_is_ended() {
    let mut scripted = Scripted::new(Limits::default());
    let began = Instant::now();
    let mut run = scripted.start().await;
    assert_eq!(run.read().await, Some(json!({"protocol": 1})));
    assert_eq!(run.read().await, None, "its input is closed");
    assert_eq!(began.elapsed().as_secs(), 10);
    let refused = call(&scripted.client, "u").await;
    let said = matches!(&refused, Err(CallError::NotRunning { why, .. }) if why.contains("10 s"));
    assert!(said, "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn another_version_or_a_schema_that_nobody_knows_is_refused() {
    for (hello, why) in [
        (json!({"protocol": 2, "can": []}), "version 2"),
        (json!({"can": []}), "no message"),
        (json!({"protocol": 1, "schema": {"$ref": "x"}}), "schema.$ref"),
    ] {
        let mut scripted = Scripted::new(Limits::default());
        let mut run = scripted.start().await;
        run.write(&hello).await;
        let failed =
            |state: &ProgramState| matches!(state, ProgramState::Down(told) if told.contains(why));
        scripted.client.state().wait_for(failed).await.expect("the client goes on");
        assert_eq!(scripted.client.abilities(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn restarts_wait_longer_each_time_and_anew_after_a_good_run() {
    let mut scripted = Scripted::failing(Limits::default(), 3);
    let began = Instant::now();
    drop(scripted.start().await);
    assert_eq!(began.elapsed().as_secs(), 1 + 2 + 4);
    let mut waits = Vec::new();
    for _ in 0..4 {
        let began = Instant::now();
        drop(scripted.start().await);
        waits.push(began.elapsed().as_secs());
    }
    assert_eq!(waits, [8, 16, 32, 60]);
    let run = scripted.greet(&["list"]).await;
    scripted.up().await;
    tokio::time::sleep(60 * SECOND).await;
    drop(run);
    let began = Instant::now();
    scripted.start().await;
    assert_eq!(began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_it_cannot_do_is_not_sent() {
    let mut scripted = Scripted::new(Limits::default());
    let _run = scripted.greet(&["list"]).await;
    scripted.up().await;
    let refused = call(&scripted.client, "u").await;
    assert!(matches!(refused, Err(CallError::CannotDo { .. })), "{refused:?}");
    let config = json!("x".repeat(MAX_LINE_BYTES));
    let long = Request { config: Some(&config), ..Request::new(Operation::List) };
    assert_eq!(scripted.client.call(&long).await, Err(CallError::TooLong));
}

#[tokio::test(start_paused = true)]
async fn requests_under_way_are_bounded() {
    let limits = Limits { requests: 2, answer: 600 * SECOND, ..Limits::default() };
    let mut scripted = Scripted::new(limits);
    let mut run = scripted.greet(&ALL).await;
    scripted.up().await;
    let calls = ["a", "b", "c"].map(|uid| {
        let client = scripted.client.clone();
        tokio::spawn(async move { call(&client, uid).await })
    });
    let first = run.request("create").await;
    let second = run.request("create").await;
    tokio::time::sleep(SECOND).await;
    assert!(run.read().now_or_never().is_none(), "the third one waits");
    run.ok(&second, &json!({"machine": "b"})).await;
    let third = run.request("create").await;
    run.ok(&third, &json!({"machine": "c"})).await;
    run.ok(&first, &json!({"machine": "a"})).await;
    for answered in calls {
        answered.await.expect("no panic").expect("ok");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_events_is_read_slowly_and_keeps_no_answer_away_for_ever() {
    let (scripted, mut run, waiting) = under_way().await;
    let mut events = scripted.client.events();
    let began = Instant::now();
    for _ in 0..10_000 {
        run.event(&json!("relist")).await;
    }
    run.ok(&json!({"id": 2}), &json!({"machine": "m"})).await;
    assert_eq!(waiting.await.expect("no panic"), Ok(json!({"machine": "m"})));
    let seconds = began.elapsed().as_secs();
    assert!((9..=10).contains(&seconds), "{seconds} s for 10,000 events");
    let lagged = events.recv().await.expect_err("who is slow is told so");
    assert!(matches!(lagged, tokio::sync::broadcast::error::RecvError::Lagged(_)));
}

#[tokio::test(start_paused = true)]
async fn a_flood_on_stderr_holds_nothing_up() {
    let (_scripted, mut run, waiting) = under_way().await;
    let line = format!("{}\n", "warning ".repeat(1000));
    for _ in 0..2000 {
        run.errors.write_all(line.as_bytes()).await.expect("it is read");
    }
    run.ok(&json!({"id": 2}), &json!({"machine": "m"})).await;
    assert_eq!(waiting.await.expect("no panic"), Ok(json!({"machine": "m"})));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_cannot_watch_after_all_is_started_again() {
    let mut scripted = Scripted::new(Limits::default());
    let mut run = scripted.start().await;
    run.read().await;
    run.write(&json!({"protocol": 1, "can": ["list", "watch"], "schema": {}})).await;
    let asked = run.request("watch").await;
    run.error(&asked, "Auth").await;
    let told = |state: &ProgramState| matches!(state, ProgramState::Down(why) if why.contains("it cannot watch: Auth"));
    scripted.client.state().wait_for(told).await.expect("the client goes on");
}

#[tokio::test(start_paused = true)]
async fn ends_and_beginnings_are_told_in_order() {
    let mut scripted = Scripted::new(Limits::default());
    let mut events = scripted.client.events();
    let mut run = scripted.greet(&ALL).await;
    run.event(&json!({"machine": "m", "uid": "u", "state": "Running"})).await;
    run.write_text("garbage\n").await;
    let _run = scripted.greet(&ALL).await;
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(events.recv().await.expect("it is told"));
    }
    assert!(matches!(told.as_slice(), [Up, Machine(_), Down, Up]), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_program_is_asked_to_end_and_may_still_answer() {
    let (scripted, mut run, waiting) = under_way().await;
    let client = scripted.client.clone();
    let stopping = tokio::spawn(async move { client.stop().await });
    assert_eq!(run.read().await, None, "the end of its input");
    run.ok(&json!({"id": 2}), &json!({"machine": "m"})).await;
    assert_eq!(waiting.await.expect("no panic"), Ok(json!({"machine": "m"})));
    drop(run);
    stopping.await.expect("no panic");
    assert!(matches!(call(&scripted.client, "u").await, Err(CallError::NotRunning { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_does_not_end_is_not_waited_for() {
    let (scripted, _run, waiting) = under_way().await;
    let began = Instant::now();
    scripted.client.stop().await;
    assert_eq!(began.elapsed().as_secs(), 5);
    assert!(is_unknown(&waiting.await.expect("no panic")));
}
