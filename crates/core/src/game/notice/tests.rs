use std::collections::BTreeMap;

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;
use crate::game::failure::Failure;
use crate::notice::{Delivery, DeliveryFailure};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + seconds).expect("in range")
}

fn tripped(seconds: i64, acknowledged: Option<&str>) -> FailureRecord {
    let failure = Failure {
        at: at(seconds),
        life: "u/0".to_owned(),
        server: "arena-1".to_owned(),
        reason: "Error".to_owned(),
    };
    FailureRecord {
        failures: Vec::new(),
        tripped_at: Some(at(seconds)),
        tripped_by: Some(failure),
        acknowledged: acknowledged.map(str::to_owned),
    }
}

fn recipients(addresses: &[&str]) -> Vec<NoticeRecipient> {
    let address = |address: &&str| NoticeRecipient::Address((*address).to_owned());
    addresses.iter().map(address).chain([NoticeRecipient::Webhooks]).collect()
}

const fn seen(recipients: &[NoticeRecipient]) -> NoticeObserved<'_> {
    let (outcomes, channels_changed_at) = (&[], None);
    NoticeObserved { uid: "u-1", recipients, outcomes, channels_changed_at, held: false }
}

fn told(decision: &NoticeDecision) -> Vec<&str> {
    decision.due.iter().map(|due| due.recipient.as_str()).collect()
}

fn outcome(due: &DueNotice, seconds: i64, result: Result<(), DeliveryFailure>) -> DeliveryOutcome {
    DeliveryOutcome { id: due.notice.id.clone(), at: at(seconds), result }
}

#[test]
fn everybody_is_told_once_after_it_is_on_record() {
    let (failures, both) = (tripped(0, None), recipients(&["ada@example.org"]));
    let recorded = tell(&Outbox::default(), &failures, &seen(&both), at(0));
    assert_eq!((told(&recorded), recorded.next.notices.len()), (vec![], 2), "it is recorded first");
    assert_eq!(recorded.wake, Wake::At(at(0)), "and sent as soon as that is done");
    let sent = tell(&recorded.next, &failures, &seen(&both), at(1));
    assert_eq!(told(&sent), ["ada@example.org", ""]);
    let [ada, hooks] = &sent.due[..] else { panic!("{sent:?}") };
    assert_ne!(ada.notice.id, hooks.notice.id);
    let outcomes = [
        outcome(ada, 2, Ok(())),
        outcome(hooks, 2, Err(DeliveryFailure::Refused("answered 500".to_owned()))),
    ];
    let settled =
        tell(&sent.next, &failures, &NoticeObserved { outcomes: &outcomes, ..seen(&both) }, at(2));
    assert_eq!(told(&settled), Vec::<&str>::new());
    assert_eq!(settled.wake, Wake::At(at(31)), "whoever did not take it is tried again");
    let again = tell(&settled.next, &failures, &seen(&both), at(31));
    assert_eq!(told(&again), [""], "and nobody else");
    assert_eq!(again.due[0].notice.id, hooks.notice.id, "under the same id");
    let outcomes = [outcome(&again.due[0], 32, Ok(()))];
    let done = NoticeObserved { outcomes: &outcomes, ..seen(&both) };
    let done = tell(&again.next, &failures, &done, at(32));
    assert_eq!((told(&done), done.wake), (vec![], Wake::OnChange));
    let later = tell(&done.next, &failures, &seen(&both), at(100_000));
    assert_eq!((told(&later), later.wake), (vec![], Wake::OnChange));
}

#[test]
fn one_that_was_acknowledged_and_trips_again_is_told_again_even_in_the_same_second() {
    let all = recipients(&[]);
    let first = tell(&Outbox::default(), &tripped(0, None), &seen(&all), at(0));
    let first = tell(&first.next, &tripped(0, None), &seen(&all), at(0));
    let outcomes = [outcome(&first.due[0], 0, Ok(()))];
    let observed = NoticeObserved { outcomes: &outcomes, ..seen(&all) };
    let looked = tell(&first.next, &FailureRecord::default(), &observed, at(0));
    assert_eq!(looked.wake, Wake::OnChange);
    let again = tripped(0, Some("looked"));
    let second = tell(&looked.next, &again, &seen(&all), at(0));
    let second = tell(&second.next, &again, &seen(&all), at(0));
    assert_eq!(told(&second), [""]);
    assert_ne!(second.due[0].notice.id, first.due[0].notice.id);
    assert_eq!(second.next.notices.len(), 2, "the first stays on record");
}

#[test]
fn what_somebody_has_looked_at_is_not_pursued_and_what_got_through_is_on_record() {
    let all = recipients(&["ada@example.org"]);
    let recorded = tell(&Outbox::default(), &tripped(0, None), &seen(&all), at(0));
    let sent = tell(&recorded.next, &tripped(0, None), &seen(&all), at(0));
    let none = FailureRecord { acknowledged: Some("a".to_owned()), ..FailureRecord::default() };
    let outcomes = [outcome(&sent.due[0], 5, Ok(()))];
    let looked =
        tell(&sent.next, &none, &NoticeObserved { outcomes: &outcomes, ..seen(&all) }, at(5));
    let deliveries: Vec<Delivery> = looked.next.notices.iter().map(|one| one.delivery).collect();
    assert_eq!(deliveries, [Delivery::Delivered { at: at(5) }, Delivery::Waived { at: at(5) }]);
    assert_eq!((told(&looked), looked.wake), (vec![], Wake::OnChange));
}

#[test]
fn nobody_is_told_while_it_is_held_and_everybody_after() {
    let all = recipients(&["ada@example.org"]);
    let held = NoticeObserved { held: true, ..seen(&all) };
    let recorded = tell(&Outbox::default(), &tripped(0, None), &held, at(0));
    let kept = tell(&recorded.next, &tripped(0, None), &held, at(600));
    assert_eq!((told(&kept), kept.wake), (vec![], Wake::OnChange));
    let released = tell(&kept.next, &tripped(0, None), &seen(&all), at(700));
    assert_eq!(told(&released).len(), 2);
}

#[test]
fn without_anybody_to_tell_nothing_is_recorded_and_who_is_named_later_is_told_then() {
    let nobody = tell(&Outbox::default(), &tripped(0, None), &seen(&[]), at(0));
    assert_eq!((nobody.next, nobody.wake), (Outbox::default(), Wake::OnChange));
    let (ada, grace) = (recipients(&["ada@example.org"]), recipients(&["grace@example.org"]));
    let first = tell(&Outbox::default(), &tripped(0, None), &seen(&ada), at(60));
    let sent = tell(&first.next, &tripped(0, None), &seen(&ada), at(60));
    assert_eq!(told(&sent), ["ada@example.org", ""]);
    let other = tell(&sent.next, &tripped(0, None), &seen(&grace), at(61));
    let other = tell(&other.next, &tripped(0, None), &seen(&grace), at(61));
    assert_eq!(told(&other), ["grace@example.org"], "the webhook waits for its turn");
}

#[test]
fn notices_of_one_time_fit_into_an_outbox_beside_those_of_an_earlier_one() {
    let addresses: Vec<String> = (0..MAX_ADDRESSES).map(|n| format!("p{n}@example.org")).collect();
    let all = recipients(&addresses.iter().map(String::as_str).collect::<Vec<_>>());
    let mut outbox = Outbox::default();
    for round in 0..4 {
        let failures = tripped(round * 100, Some(&round.to_string()));
        let mut sent = Vec::new();
        for seconds in 0..3 {
            let decided = tell(&outbox, &failures, &seen(&all), at(round * 100 + seconds));
            sent.extend(decided.due.iter().map(|due| due.recipient.as_str().to_owned()));
            let outcomes: Vec<_> = decided.due.iter().map(|due| outcome(due, 0, Ok(()))).collect();
            outbox = decided.next;
            outbox.settle(&outcomes);
        }
        assert_eq!(sent.len(), MAX_ADDRESSES + 1, "in round {round}");
    }
}

/// What happens between two looks.
#[derive(Debug, Clone)]
enum Turn {
    /// Attempts are accepted, refused, or their answer is lost with the process.
    Attempts(u8),
    /// What was decided is never written down.
    Killed,
    /// Somebody looks; then it trips again.
    Acknowledged,
    Passes(i64),
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        4 => (0_u8..3).prop_map(Turn::Attempts),
        1 => Just(Turn::Killed),
        1 => Just(Turn::Acknowledged),
        2 => (1_i64..5_000).prop_map(Turn::Passes),
    ];
    prop::collection::vec(turn, 1..60)
}

proptest! {
    /// Whatever is refused, lost or killed: nobody who was told, and whose answer is on record, is told of that time
    /// again; and whoever can be told is told of the last time in the end.
    #[test]
    fn each_is_told_once_of_each_time(turns in turns()) {
        let all = recipients(&["ada@example.org", "grace@example.org"]);
        let (mut stored, mut failures, mut now) = (Outbox::default(), tripped(0, None), 0);
        let (mut waiting, mut times): (Vec<DeliveryOutcome>, usize) = (Vec::new(), 1);
        let mut accepted: BTreeMap<String, u32> = BTreeMap::new();
        // In the end everything is accepted.
        let rest = (0..20).flat_map(|_| [Turn::Attempts(0), Turn::Passes(3_600)]);
        for turn in turns.into_iter().chain(rest) {
            match turn {
                Turn::Passes(seconds) => now += seconds,
                Turn::Acknowledged => {
                    failures = tripped(now, Some(&times.to_string()));
                    times += 1;
                }
                Turn::Killed => {
                    tell(&stored, &failures, &seen(&all), at(now));
                    waiting.clear();
                }
                Turn::Attempts(how) => {
                    let observed = NoticeObserved { outcomes: &waiting, ..seen(&all) };
                    let decided = tell(&stored, &failures, &observed, at(now));
                    stored = decided.next;
                    waiting.clear();
                    for due in decided.due {
                        if how == 0 {
                            *accepted.entry(due.notice.id.to_string()).or_default() += 1;
                            // The answer is written down with the next look, unless that is lost.
                            waiting.push(outcome(&due, now, Ok(())));
                        } else if how == 1 {
                            let refused = DeliveryFailure::Refused("no".to_owned());
                            waiting.push(outcome(&due, now, Err(refused)));
                        }
                    }
                }
            }
            let known = |id: &str| stored.notices.iter().filter(|one| one.id.as_str() == id).count();
            prop_assert!(stored.notices.iter().all(|one| known(one.id.as_str()) == 1));
        }
        let tripped_at = failures.tripped_at.expect("it tripped");
        for recipient in &all {
            let id = notice_id("u-1", &failures, recipient, tripped_at);
            let found = stored.find(&id).expect("it is on record");
            prop_assert!(matches!(found.delivery, Delivery::Delivered { .. }), "{found:?}");
            prop_assert!(accepted[id.as_str()] >= 1);
        }
        let settled = SignedDuration::from_hours(24);
        let again = tell(&stored, &failures, &seen(&all), at(now) + settled);
        prop_assert!(again.due.is_empty() && again.wake == Wake::OnChange);
    }
}
