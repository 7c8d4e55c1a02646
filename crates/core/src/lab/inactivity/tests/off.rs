use super::*;

const DUE: SignedDuration = SignedDuration::from_mins(10 * 24 * 60 + 1);

// case: lab P1
#[test]
fn never_is_never() {
    let mut instance = TestInstance::stopped();
    instance.intent.inactivity.delete_after_stopped = Term::Never;
    instance.advance(DAY * 4000);
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.decision().wake, Wake::OnChange);
}

// case: lab P2
#[test]
fn what_remains_is_waited_for_and_the_margin_is_added() {
    let mut instance = TestInstance::stopped();
    instance.advance(DAY * 5);
    assert_eq!(instance.decision().wake, Wake::At(at(DUE)));
}

// case: lab P3
#[test]
fn without_notices_it_is_deleted_when_its_time_is_over() {
    let mut instance = TestInstance::stopped();
    instance.intent.inactivity.notify = false;
    instance.settle();
    instance.advance_to(at(DAY * 15));
    instance.settle();
    assert_eq!(instance.executed_effects(), [(DAY * 15, Effect::Delete)]);
    assert_eq!(instance.sent, []);
}

// case: lab P4
#[test]
fn half_its_time_is_not_all_of_it() {
    let mut instance = TestInstance::stopped();
    instance.intent.inactivity.delete_after_stopped = Term::Span(HOUR * 100);
    instance.intent.inactivity.notify = false;
    instance.advance(HOUR * 50);
    assert_eq!(instance.executed_effects(), []);
}

// case: lab P6, P7
#[test]
fn warned_like_the_other_ladder_and_told_when_it_is_gone() {
    let mut instance = TestInstance::stopped();
    instance.advance(DUE);
    assert_eq!(instance.state.ladder.alerts_sent, 1);
    assert_eq!(instance.state.ladder.stage, Stage::DestroyWarned);
    instance.advance(DAY * 2);
    assert_eq!(instance.state.ladder.stage, Stage::DestroyGrace);
    instance.advance(DAY);
    assert_eq!(
        instance.sent_notices(),
        [
            (DUE, NoticeKind::DeletionWarning),
            (DUE + DAY, NoticeKind::DeletionWarning),
            (DUE + DAY * 2, NoticeKind::DeletionWarning),
            (DUE + DAY * 3, NoticeKind::Deleted),
        ]
    );
    assert_eq!(instance.executed_effects(), [(DUE + DAY * 3, Effect::Delete)]);
}

// case: lab P7
#[test]
fn the_farewell_is_on_record_before_the_deletion() {
    let mut instance = TestInstance::stopped();
    instance.advance(DUE + DAY * 2);
    instance.advance_to(at(DUE + DAY * 3));
    let first = instance.decide();
    assert_eq!(first.effects, []);
    assert!(first.next.outbox.notices.iter().any(|one| one.kind == NoticeKind::Deleted));
    assert_eq!(instance.decide().effects, [Effect::Delete]);
}

// case: lab P8
#[test]
fn the_last_warning_gives_its_whole_interval_whatever_happens() {
    let mut instance = TestInstance::stopped();
    instance.advance(DUE + DAY * 2);
    assert_eq!(instance.state.ladder.alerts_sent, 3);
    for _ in 0..5 {
        assert_eq!(instance.settle().effects, []);
    }
    instance.advance(DAY - SECOND);
    assert_eq!(instance.executed_effects(), []);
}

// case: lab P9
#[test]
fn a_start_begins_everything_anew() {
    let mut instance = TestInstance::stopped();
    instance.advance(DUE + DAY);
    assert_eq!(instance.state.ladder.alerts_sent, 2);
    instance.intent.running = true;
    instance.settle();
    assert_eq!(instance.state.ladder, Ladder::default());
    instance.intent.running = false;
    instance.settle();
    let wake = instance.decision().wake;
    assert_eq!(wake, Wake::At(instance.now + DUE));
}

// case: lab P11
#[test]
fn who_opted_out_is_not_deleted_either() {
    let mut instance = TestInstance::stopped();
    instance.intent.inactivity.opted_out = true;
    instance.intent.inactivity.notify = false;
    instance.advance(DAY * 100);
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.state.ladder.stage, Stage::Stopped);
}

// case: lab P12
#[test]
fn the_number_of_warnings_is_the_template_s() {
    let mut instance = TestInstance::stopped();
    instance.intent.inactivity.max_alerts = 1;
    instance.advance(DAY * 20);
    assert_eq!(instance.executed_effects(), [(DUE + DAY, Effect::Delete)]);
    assert_eq!(instance.sent[0].1.alert, Some((1, 1)));
}

#[test]
fn darkness_does_not_matter_to_what_is_off() {
    let mut instance = TestInstance::stopped();
    instance.intent.inactivity.notify = false;
    instance.blind_sources();
    instance.advance(DAY * 11);
    assert_eq!(instance.executed_effects(), [(DUE, Effect::Delete)]);
}
