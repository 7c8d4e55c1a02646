use super::*;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DELIVERY: SignedDuration = SignedDuration::from_mins(1);

/// The notices and stages of a family that has nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Warning;

fn at(hours: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + HOUR * i32::try_from(hours).unwrap()
}

fn plan(warnings: u32) -> LadderPlan<'static, Warning, u8> {
    LadderPlan {
        kind: Warning,
        word: "end",
        stages: [0, 1, 2],
        warnings,
        interval: HOUR,
        due: at(1),
        measure: Measure::Wall,
        tick: HOUR,
    }
}

fn context(now: Timestamp) -> LadderContext<'static> {
    LadderContext { uid: "u", now, delivery: DELIVERY, channels_changed_at: None }
}

#[test]
fn every_warning_has_its_interval_and_then_the_action_comes_as_told() {
    let (mut ladder, mut outbox, plan) = (Ladder::<u8>::default(), Outbox::default(), plan(2));
    let mut now = at(1);
    let mut stages = Vec::new();
    let due = loop {
        let climb = climb(&mut ladder, &mut outbox, &plan, &context(now));
        stages.push(ladder.stage);
        if climb.is_due {
            break now;
        }
        // Whatever waits is delivered at once.
        for notice in &mut outbox.notices {
            if let Delivery::Waiting { .. } = notice.delivery {
                notice.delivery = Delivery::Delivered { at: now };
            }
        }
        now = climb.wake.at().expect("there is always something to wait for");
    };
    stages.dedup();
    assert_eq!(stages, [0, 1, 2]);
    let told: Vec<_> = outbox.notices.iter().map(|one| (one.alert, one.deadline)).collect();
    let deadline = Some(at(3) + DELIVERY);
    assert_eq!(told, [(Some((1, 2)), deadline), (Some((2, 2)), deadline)]);
    assert_eq!(Some(due), deadline, "as the owner was told");
}

#[test]
fn an_undelivered_warning_puts_the_action_off() {
    let (mut ladder, mut outbox, plan) = (Ladder::<u8>::default(), Outbox::default(), plan(1));
    climb(&mut ladder, &mut outbox, &plan, &context(at(1)));
    let late = climb(&mut ladder, &mut outbox, &plan, &context(at(20)));
    assert!(!late.is_due);
    assert_eq!(late.why, Some(LadderReason::WarningDue { alert: 1, of: 1 }));
    assert_eq!(ladder.deadline, Some(at(21) + DELIVERY), "an interval from when it is attempted");
}

#[test]
fn without_warnings_the_action_comes_at_its_time() {
    let (mut ladder, mut outbox, plan) = (Ladder::<u8>::default(), Outbox::default(), plan(0));
    let early = climb(&mut ladder, &mut outbox, &plan, &context(at(0)));
    assert_eq!(early.why, Some(LadderReason::NotDue { until: at(1) }));
    assert_eq!(early.upcoming, Some((LadderStep::Action, at(1))));
    let climb = climb(&mut ladder, &mut outbox, &plan, &context(at(1)));
    assert!(climb.is_due && climb.why.is_none());
    assert_eq!(outbox.notices.len(), 0);
}

#[test]
fn leaving_withdraws_what_was_not_sent() {
    let (mut ladder, mut outbox, plan) = (Ladder::<u8>::default(), Outbox::default(), plan(3));
    climb(&mut ladder, &mut outbox, &plan, &context(at(1)));
    leave(&mut ladder, 0, &mut outbox, |_| true, at(2));
    assert_eq!(ladder, Ladder::default());
    assert!(matches!(outbox.notices[0].delivery, Delivery::Waived { .. }));
}
