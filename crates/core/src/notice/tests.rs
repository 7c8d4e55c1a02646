use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Warning,
    Farewell,
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn id(text: &str) -> NoticeId {
    NoticeId::stored(text)
}

fn waiting(name: &str) -> Outbox<Kind> {
    let mut outbox = Outbox::default();
    outbox.record(id(name), Kind::Warning, Some((1, 3)), Some(at(1000)), at(0));
    outbox
}

fn outcome(name: &str, seconds: i64, result: Result<(), &str>) -> DeliveryOutcome {
    let result = result.map_err(|words| DeliveryFailure::Refused(words.to_owned()));
    DeliveryOutcome { id: id(name), at: at(seconds), result }
}

fn delivery(outbox: &Outbox<Kind>) -> Delivery {
    outbox.notices[0].delivery
}

#[test]
fn an_id_names_the_object_the_stage_and_the_deadline() {
    assert_eq!(NoticeId::new("u1", "inactivity-2", at(77)).as_str(), "u1.inactivity-2.77");
}

#[test]
fn only_what_is_on_record_is_attempted_and_only_with_that_deadline() {
    let mut next = waiting("a");
    assert_eq!(next.attempt(&Outbox::default(), None, at(0), |_| true), []);
    let stored = next.clone();
    next.notices[0].deadline = Some(at(2000));
    assert_eq!(next.attempt(&stored, None, at(0), |_| true), []);
    let stored = next.clone();
    assert_eq!(next.attempt(&stored, None, at(0), |_| false), [], "not ready");
    let due = next.attempt(&stored, None, at(0), |_| true);
    assert_eq!(due.len(), 1);
    assert_eq!((due[0].attempts, due[0].deadline), (1, Some(at(2000))));
}

#[test]
fn attempts_are_further_and_further_apart_up_to_an_hour() {
    let mut outbox = waiting("a");
    let mut times = Vec::new();
    for second in 0..30_000 {
        let stored = outbox.clone();
        if !outbox.attempt(&stored, None, at(second), |_| true).is_empty() {
            times.push(second);
        }
    }
    let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps[..8], [30, 60, 120, 240, 480, 960, 1920, 3600]);
    assert!(gaps[8..].iter().all(|gap| *gap == 3600));
    assert_eq!(back_off(u32::MAX), SignedDuration::from_hours(1));
}

#[test]
fn what_was_accepted_stays_delivered() {
    let mut outbox = waiting("a");
    outbox.settle(&[outcome("a", 5, Err("down")), outcome("other", 5, Ok(()))]);
    assert_eq!(delivery(&outbox), Delivery::Waiting { next: at(0) });
    assert_eq!(outbox.notices[0].error.as_deref(), Some("down"));
    outbox.settle(&[
        outcome("a", 7, Ok(())),
        outcome("a", 9, Err("late")),
        outcome("a", 9, Ok(())),
    ]);
    assert_eq!(delivery(&outbox), Delivery::Delivered { at: at(7) });
    assert_eq!(outbox.notices[0].error, None);
    let stored = outbox.clone();
    assert_eq!(outbox.attempt(&stored, None, at(100), |_| true), []);
}

#[test]
fn what_nobody_heard_the_answer_to_is_tried_again_at_once() {
    let lost = |seconds| DeliveryOutcome {
        id: id("a"),
        at: at(seconds),
        result: Err(DeliveryFailure::Lost),
    };
    let mut outbox = waiting("a");
    assert_eq!(outbox.notices[0].unanswered_since(), None, "nobody tried");
    let stored = outbox.clone();
    assert_eq!(outbox.attempt(&stored, None, at(10), |_| true).len(), 1);
    assert_eq!(outbox.notices[0].unanswered_since(), Some(at(10)));
    outbox.settle(&[lost(12)]);
    assert_eq!(delivery(&outbox), Delivery::Waiting { next: at(0) });
    let stored = outbox.clone();
    assert_eq!(outbox.attempt(&stored, None, at(12), |_| true)[0].attempts, 2);
    assert_eq!(outbox.notices[0].unanswered_since(), Some(at(12)));
    outbox.settle(&[outcome("a", 13, Err("down"))]);
    assert_eq!(outbox.notices[0].unanswered_since(), None, "somebody answered");
    outbox.settle(&[outcome("a", 14, Ok(())), lost(15)]);
    assert_eq!(delivery(&outbox), Delivery::Delivered { at: at(14) });
}

#[test]
fn a_notice_is_recorded_once_and_taken_up_again_only_if_it_was_waived() {
    let mut outbox = waiting("a");
    outbox.record(id("a"), Kind::Warning, Some((2, 3)), Some(at(5)), at(50));
    assert_eq!(outbox, waiting("a"));
    outbox.withdraw(|_| true, at(60));
    assert_eq!(delivery(&outbox), Delivery::Waived { at: at(60) });
    assert!(!outbox.waits());
    outbox.record(id("a"), Kind::Warning, Some((1, 3)), Some(at(1000)), at(70));
    assert_eq!(delivery(&outbox), Delivery::Waiting { next: at(70) });
    assert_eq!(outbox.notices.len(), 1);
}

#[test]
fn what_was_withdrawn_and_got_through_all_the_same_is_known_to_have() {
    let mut outbox = waiting("a");
    outbox.withdraw(|notice| notice.kind == Kind::Farewell, at(60));
    assert!(outbox.waits());
    outbox.withdraw(|notice| notice.kind == Kind::Warning, at(60));
    outbox.settle(&[outcome("a", 61, Ok(()))]);
    assert_eq!(delivery(&outbox), Delivery::Delivered { at: at(61) });
}

#[test]
fn patience_ends_only_where_the_policy_has_an_end_and_something_was_tried() {
    let day = SignedDuration::from_hours(24);
    let mut outbox = waiting("a");
    outbox.expire(OnUndeliverable::ProceedAfter(day), at(100_000));
    assert!(outbox.waits(), "nobody tried yet");
    let stored = outbox.clone();
    outbox.attempt(&stored, None, at(0), |_| true);
    outbox.expire(OnUndeliverable::Hold, at(100_000));
    outbox.expire(OnUndeliverable::ProceedAfter(day), at(86_399));
    assert!(outbox.waits());
    outbox.expire(OnUndeliverable::ProceedAfter(day), at(86_400));
    assert_eq!(delivery(&outbox), Delivery::Waived { at: at(86_400) });
    assert_eq!(delivery(&outbox).given_at(), Some(at(86_400)));
}

#[test]
fn it_wakes_for_the_next_attempt_or_the_end_of_patience_of_what_is_ready() {
    let mut outbox = waiting("a");
    let stored = outbox.clone();
    outbox.attempt(&stored, None, at(0), |_| true);
    assert_eq!(outbox.wake(OnUndeliverable::Hold, None, |_| true), Wake::At(at(30)));
    let soon = OnUndeliverable::ProceedAfter(SignedDuration::from_secs(20));
    assert_eq!(outbox.wake(soon, None, |_| true), Wake::At(at(20)));
    assert_eq!(outbox.wake(soon, None, |_| false), Wake::OnChange);
}

#[test]
fn what_was_repaired_is_tried_at_once_and_once() {
    let mut outbox = waiting("a");
    let stored = outbox.clone();
    let early = Some(at(-5));
    assert_eq!(outbox.wake(OnUndeliverable::Hold, Some(at(9)), |_| true), Wake::At(at(0)));
    assert_eq!(outbox.attempt(&stored, early, at(0), |_| true).len(), 1);
    assert_eq!(outbox.wake(OnUndeliverable::Hold, early, |_| true), Wake::At(at(30)), "before");
    // In the second of the attempt, of which nothing smaller is known: in the next one.
    let channels_changed_at = Some(at(10) + SignedDuration::from_millis(300));
    assert_eq!(outbox.attempt(&stored, channels_changed_at, at(10), |_| true), []);
    assert_eq!(outbox.wake(OnUndeliverable::Hold, channels_changed_at, |_| true), Wake::At(at(11)));
    let again = outbox.attempt(&stored, channels_changed_at, at(11), |_| true);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].attempts, 2);
    assert_eq!(outbox.attempt(&stored, channels_changed_at, at(12), |_| true), []);
    assert_eq!(outbox.wake(OnUndeliverable::Hold, channels_changed_at, |_| true), Wake::At(at(71)));
}

#[test]
fn the_oldest_that_was_given_goes_first_and_what_waits_stays() {
    let mut outbox = waiting("waits");
    for n in 0..40 {
        let name = format!("n{n}");
        outbox.record(id(&name), Kind::Farewell, None, None, at(n));
        outbox.settle(&[outcome(&name, n, Ok(()))]);
    }
    assert_eq!(outbox.notices.len(), MAX_NOTICES);
    assert!(outbox.find(&id("waits")).is_some());
    assert!(outbox.find(&id("n39")).is_some());
    assert!(outbox.find(&id("n0")).is_none());
    outbox.forget(|notice| notice.kind == Kind::Warning);
    assert!(!outbox.waits());
}
