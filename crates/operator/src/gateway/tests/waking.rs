//! Stopped instances: who starts them, and what everybody sees meanwhile.

use super::*;

fn stopped() -> Backend {
    Backend::Stopped { can_wake: true, why: String::new() }
}

#[tokio::test]
async fn a_visit_starts_it_and_the_page_turns_into_it() {
    let served = served(stopped(), GatewayLimits::default()).await;
    let answer = served.get("/go/lab/ns/lab/shell/a?b=c", VISIT).await;
    assert_eq!(status(&answer), "503", "{answer}");
    assert!(answer.contains("retry-after: 5\r\n"), "{answer}");
    assert!(answer.contains("is starting"), "{answer}");
    let patch =
        json!({"metadata": {"uid": "u1", "resourceVersion": "7"}, "spec": {"running": true}});
    assert_eq!(*served.cluster.patches.lock().unwrap(), [patch]);
    assert_eq!(served.cluster.activity(), 1);

    // Who waits is told at once, and waiting is no activity.
    let waiting = "/waiting/lab/ns/lab/shell/a?b=c";
    let (backend, _heads) = saying(OK).await;
    let (polled, ()) = tokio::join!(served.get(waiting, "Accept: application/json\r\n"), async {
        tokio::task::yield_now().await;
        served.cluster.backend.send_replace(backend);
    });
    assert!(polled.ends_with("{\"state\":\"ready\"}"), "{polled}");
    let answer = served.get(waiting, VISIT).await;
    assert_eq!(status(&answer), "303", "{answer}");
    assert!(answer.contains("location: /go/lab/ns/lab/shell/a?b=c\r\n"), "{answer}");
    assert_eq!(served.cluster.activity(), 1);
    assert_eq!(status(&served.get("/go/lab/ns/lab/shell/a?b=c", VISIT).await), "303");
    assert_eq!(served.cluster.activity(), 1);
    assert_eq!(status(&served.get("/a?b=c", VISIT).await), "200");
    assert_eq!(served.cluster.activity(), 2);
}

#[tokio::test]
async fn a_program_starts_it_and_is_told_when_to_come_back() {
    let served = served(stopped(), GatewayLimits::default()).await;
    let answer = served.get("/go/lab/ns/lab/shell/", "Accept: application/json\r\n").await;
    assert_eq!(status(&answer), "503", "{answer}");
    assert!(answer.contains("retry-after: 5\r\n") && answer.contains("text/plain"), "{answer}");
    assert_eq!(served.cluster.patches.lock().unwrap().len(), 1);
    let again = served.get("/go/lab/ns/lab/shell/", "").await;
    assert_eq!(status(&again), "503", "{again}");
    assert_eq!(served.cluster.patches.lock().unwrap().len(), 1);
    assert_eq!(served.cluster.activity(), 1, "waiting is no activity");
}

/// A page that is still open somewhere asks by itself, and a browser fetches ahead: neither is
/// somebody who wants the instance back.
#[tokio::test]
async fn what_nobody_asked_for_starts_nothing() {
    let served = served(stopped(), GatewayLimits::default()).await;
    for headers in [
        "Sec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n".to_owned(),
        "Sec-Fetch-Mode: websocket\r\nConnection: upgrade\r\nUpgrade: websocket\r\n".to_owned(),
        format!("{VISIT}Sec-Purpose: prefetch\r\n"),
    ] {
        let answer = served.get("/go/lab/ns/lab/shell/", &headers).await;
        assert_eq!(status(&answer), "503", "{headers}: {answer}");
    }
    let answer = served.get("/waiting/lab/ns/lab/shell/", VISIT).await;
    assert_eq!(status(&answer), "503", "{answer}");
    assert!(answer.contains("Start it"), "{answer}");
    assert!(served.cluster.patches.lock().unwrap().is_empty());
    assert_eq!(served.cluster.activity(), 0);
}

#[tokio::test]
async fn an_environments_own_origin_starts_nothing() {
    for backend in [stopped(), Backend::Starting { trouble: None }] {
        let served = served(backend, GatewayLimits::default()).await;
        let answer = served.get("/a?b=c", VISIT).await;
        assert_eq!(status(&answer), "303", "{answer}");
        let ours = "location: http://127.0.0.1:7080/go/lab/ns/lab/shell/a?b=c\r\n";
        assert!(answer.contains(ours), "{answer}");
        for headers in ["", HTML, "Sec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n"] {
            let answer = served.get("/a?b=c", headers).await;
            assert_eq!(status(&answer), "503", "{answer}");
        }
        assert!(served.cluster.patches.lock().unwrap().is_empty());
        assert_eq!(served.cluster.activity(), 0);
    }
}

#[tokio::test]
async fn who_may_not_start_it_is_told_so() {
    let served = served(stopped(), GatewayLimits::default()).await;
    served.cluster.forbid("update");
    let answer = served.get("/go/lab/ns/lab/shell/", VISIT).await;
    assert_eq!(status(&answer), "403", "{answer}");
    assert!(answer.contains("you may not start it"), "{answer}");
    assert!(served.cluster.patches.lock().unwrap().is_empty());
    assert_eq!(served.cluster.activity(), 0);
}

/// Although whoever watches has not seen it yet.
#[tokio::test]
async fn what_has_ended_or_is_being_handed_in_stays_off() {
    let entry = |state: &str| json!({"submission": [{"environment": "web", "state": state}]});
    for (status_of, words) in [
        (json!({"ended": {"at": "2026-11-16T04:00:00Z", "reason": "Terminated"}}), "it has ended"),
        (json!({"stopReason": "Terminated"}), "it has ended"),
        (entry("Waiting"), "being handed in"),
        (entry("Running"), "being handed in"),
    ] {
        let served = served(stopped(), GatewayLimits::default()).await;
        served.cluster.instance.lock().unwrap()["status"] = status_of;
        let answer = served.get("/go/lab/ns/lab/shell/", VISIT).await;
        assert_eq!(status(&answer), "409", "{answer}");
        assert!(answer.contains(words), "{answer}");
        assert!(served.cluster.patches.lock().unwrap().is_empty());
    }
    // What was skipped or has failed keeps nobody out.
    for state in ["Skipped", "Failed", "Done", "Waived"] {
        let served = served(stopped(), GatewayLimits::default()).await;
        served.cluster.instance.lock().unwrap()["status"] = entry(state);
        served.get("/go/lab/ns/lab/shell/", VISIT).await;
        assert_eq!(served.cluster.patches.lock().unwrap().len(), 1, "{state}");
    }
    let why = "exam \"<1>\" is over".to_owned();
    let served = served(Backend::Stopped { can_wake: false, why }, GatewayLimits::default()).await;
    let answer = served.get("/go/lab/ns/lab/shell/", VISIT).await;
    assert_eq!(status(&answer), "409", "{answer}");
    assert!(answer.contains("&lt;1&gt;"), "{answer}");
    assert_eq!(served.cluster.reviews.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_question_that_waits_is_answered_in_time() {
    let limits = GatewayLimits { poll: Duration::from_millis(200), ..GatewayLimits::default() };
    let served = served(Backend::Starting { trouble: None }, limits).await;
    let polled = served.get("/waiting/lab/ns/lab/shell/", "").await;
    assert!(polled.ends_with("{\"state\":\"waiting\"}"), "{polled}");
    let trouble = Some("</p>no \"program\"".to_owned());
    served.cluster.backend.send_replace(Backend::Starting { trouble });
    let polled = served.get("/waiting/lab/ns/lab/shell/", "").await;
    let said = r#"{"state":"waiting","trouble":"It has trouble: </p>no \"program\"."}"#;
    assert!(polled.ends_with(said), "{polled}");
    let shown = served.get("/go/lab/ns/lab/shell/", VISIT).await;
    assert!(shown.contains("It has trouble: &lt;&#x2f;p&gt;no &quot;program&quot;."), "{shown}");
    served.cluster.backend.send_replace(Backend::Failed { why: "no image".to_owned() });
    let polled = served.get("/waiting/lab/ns/lab/shell/", "").await;
    assert!(polled.ends_with("{\"state\":\"other\"}"), "{polled}");
    let shown = served.get("/waiting/lab/ns/lab/shell/", VISIT).await;
    assert_eq!(status(&shown), "502");
    assert!(shown.contains("failed: no image."), "{shown}");
}
