use serde_json::json;

use super::*;

fn word(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("JSON")
}

#[test]
fn states_and_reasons_have_the_words_of_the_decision() {
    for state in domain::State::ALL {
        assert_eq!(word(State::from(state)), state.as_str());
    }
    use domain::ReasonEnded as Ended;
    let all = [
        Ended::TimeExpired,
        Ended::ApprovalTimeout,
        Ended::Canceled,
        Ended::Dropped,
        Ended::Withdrawn,
        Ended::Rejected,
        Ended::DuplicateCleanup,
        Ended::IdleTimeout,
        Ended::NeverUsed,
        Ended::MissingScheduledStartTime,
    ];
    for reason in all {
        assert_eq!(word(ReasonEnded::from(reason)), reason.as_str());
    }
}

#[test]
fn a_bad_field_costs_that_field_only() {
    let status = json!({
        "state": "Sleeping", "expiresAt": "2030-01-01T00:00:00Z", "activityCount": -1,
        "approvals": [{ "user": 7, "at": "2030-01-01T00:00:00Z" }, { "user": "ada" }],
        "activityByReplica": { "a": { "count": 2 }, "b": "many", "c": null },
        "ofANewerVersion": true,
    });
    let status: BreakglassSessionStatus = serde_json::from_value(status).expect("lenient");
    assert_eq!((status.state, status.activity_count), (None, 0));
    assert!(status.expires_at.is_some());
    let users: Vec<_> = status.approvals.iter().map(|one| one.user.as_str()).collect();
    assert_eq!(users, ["", "ada"]);
    assert_eq!(status.activity_by_replica["a"].as_ref().map(|entry| entry.count), Some(2));
    assert!(!status.activity_by_replica.contains_key("b"));
}
