use serde_json::json;

use super::*;

fn problem(line: &str) -> String {
    Message::read(line.as_bytes()).expect_err(line).to_string()
}

fn answered(line: &str) -> (u64, Result<Value, Answered>) {
    match Message::read(line.as_bytes()) {
        Ok(Message::Answer { id, result }) => (id, result),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_request_has_what_its_operation_needs() {
    let config = json!({"image": "v1"});
    let request = Request {
        uid: Some("u-1"),
        name: Some("web-1"),
        config: Some(&config),
        ..Request::new(Operation::Create)
    };
    let line = request.text().expect("it is short").with_id(7);
    let text = String::from_utf8(line).expect("text");
    let expected = concat!(
        r#"{"id":7,"op":"create","uid":"u-1","name":"web-1","account":{},"#,
        r#""config":{"image":"v1"}}"#,
        "\n"
    );
    assert_eq!(text, expected);
    let account = crate::actuator::Account::new([("token".to_owned(), "t".to_owned())]);
    let account = Some(&account);
    let listed = Request { infra_id: Some("i"), account, ..Request::new(Operation::List) };
    assert!(!format!("{listed:?}").contains(r#""t""#), "it is in no log");
    let line = listed.text().expect("it is short").with_id(u64::MAX);
    let read: Value = serde_json::from_slice(&line).expect("JSON");
    let id = u64::MAX;
    let expected = json!({"id": id, "op": "list", "infraID": "i", "account": {"token": "t"}});
    assert_eq!(read, expected);
}

#[test]
fn a_request_that_is_too_long_is_not_written() {
    let config = json!("x".repeat(MAX_LINE_BYTES - 100));
    let with = |config| Request { config: Some(config), ..Request::new(Operation::Create) };
    let line = with(&config).text().expect("it fits").with_id(u64::MAX);
    assert!(line.len() <= MAX_LINE_BYTES + 1);
    assert!(with(&json!("x".repeat(MAX_LINE_BYTES))).text().is_none());
}

#[test]
fn answers_and_events_are_told_apart() {
    let (id, result) = answered(r#"{"id":7,"ok":{"machine":"i-1"}}"#);
    assert_eq!((id, created(&result.expect("ok"))), (7, Ok("i-1".to_owned())));
    let (_, result) = answered(r#"{"id":7,"ok":null}"#);
    assert!(result.expect("ok").is_null());
    for line in [
        "",
        "hello",
        "[]",
        "{}",
        r#"{"id":7}"#,
        r#"{"ok":{}}"#,
        r#"{"id":-1,"ok":{}}"#,
        r#"{"id":7,"ok":{},"error":{"class":"Refused"}}"#,
        r#"{"id":7,"event":"relist"}"#,
        r#"{"event":"list"}"#,
        r#"{"event":{"machine":"","state":"Running"}}"#,
        r#"{"event":{"machine":"m"}}"#,
    ] {
        assert!(problem(line).starts_with("it wrote what is no message"), "{line}");
    }
    assert!(!problem("\u{1b}[31m").contains('\u{1b}'), "nothing reaches a terminal");
    let event = Message::read(br#"{"event":"relist"}"#);
    assert!(matches!(event, Ok(Message::Event(Event::Relist))));
}

#[test]
fn an_error_has_a_class_that_is_known() {
    let error = |line| answered(line).1.expect_err("no answer");
    let line = r#"{"id":1,"error":{"class":"Throttled","message":"slow\ndown","retryAfter":5}}"#;
    let Answered::Error(throttled) = error(line) else { panic!("it is known") };
    assert_eq!(throttled.class, ErrorClass::Throttled);
    assert_eq!(throttled.message, "slow\u{fffd}down");
    assert_eq!(throttled.retry_after, Some(Duration::from_secs(5)));
    let line = r#"{"id":1,"error":{"class":"Quota","message":"m","retryAfter":1e300}}"#;
    let Answered::Error(quota) = error(line) else { panic!("it is known") };
    assert_eq!(quota.retry_after, Some(MAX_RETRY_AFTER));
    for line in [r#"{"id":1,"error":{"class":"Tired","message":"m"}}"#, r#"{"id":1,"error":{}}"#] {
        assert!(matches!(error(line), Answered::Unclear(_)), "{line}");
    }
}

#[test]
fn a_report_has_states_that_nobody_knows_as_they_are() {
    let whole = json!({
        "machine": "i-1", "uid": "u", "infraID": "c", "state": "Stopped", "ready": false,
        "spot": true, "nodeName": "n", "addresses": ["10.0.0.1"], "else": 1,
        "interruption": "2026-11-18T09:00:00Z",
    });
    let report = MachineReport::read(whole).expect("good");
    assert_eq!(
        (report.state, report.spot, report.ready),
        (MachineState::Stopped, true, Some(false))
    );
    assert!(report.interruption.is_some());
    let least = MachineReport::read(json!({"machine": "i", "state": "napping"})).expect("good");
    assert_eq!(least.state, MachineState::Unknown("napping".to_owned()));
    let nulls = json!({"machine": "i", "state": "Running", "spot": null, "addresses": null});
    MachineReport::read(nulls).expect("nothing is said");
    let many = vec!["a"; MAX_ADDRESSES + 1];
    MachineReport::read(json!({"machine": "i", "state": "Running", "addresses": many}))
        .expect_err("too many");
    MachineReport::read(json!({"machine": "a\nb", "state": "Running"})).expect_err("two lines");
}

#[test]
fn the_first_word_has_the_version() {
    let hello = Hello::read(br#"{"protocol":1,"can":["list","fly"],"schema":{}}"#).expect("good");
    assert_eq!(hello.can().collect::<Vec<_>>(), [Operation::List]);
    let other = Hello::read(br#"{"protocol":2}"#).expect_err("another version");
    assert_eq!(other.to_string(), "it speaks version 2 of the protocol, and this is version 1");
    Hello::read(b"hello").expect_err("no message");
}

#[test]
fn a_config_names_its_program() {
    let config = json!({"name": "folder", "config": {"a": 1}});
    let named = NamedConfig::read(&config).expect("good");
    assert_eq!((named.name, named.config), ("folder", &json!({"a": 1})));
    for wrong in [json!(null), json!({}), json!({"name": 1}), json!({"name": "a", "path": "/b"})] {
        NamedConfig::read(&wrong).expect_err("it names none");
    }
}
