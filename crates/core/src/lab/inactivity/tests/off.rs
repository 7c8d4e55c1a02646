use super::*;

const DUE: SignedDuration = SignedDuration::from_mins(10 * 24 * 60 + 1);

// case: lab P1
#[test]
fn never_is_never() {
    let mut scene = Scene::stopped();
    scene.intent.inactivity.delete_after_stopped = Term::Never;
    scene.pass(DAY * 4000);
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.ask().wake, Wake::OnChange);
}

// case: lab P2
#[test]
fn what_remains_is_waited_for_and_the_margin_is_added() {
    let mut scene = Scene::stopped();
    scene.pass(DAY * 5);
    assert_eq!(scene.ask().wake, Wake::At(at(DUE)));
}

// case: lab P3
#[test]
fn without_notices_it_is_deleted_when_its_time_is_over() {
    let mut scene = Scene::stopped();
    scene.intent.inactivity.notify = false;
    scene.settle();
    scene.go_to(at(DAY * 15));
    scene.settle();
    assert_eq!(scene.acts(), [(DAY * 15, Effect::Delete)]);
    assert_eq!(scene.sent, []);
}

// case: lab P4
#[test]
fn half_its_time_is_not_all_of_it() {
    let mut scene = Scene::stopped();
    scene.intent.inactivity.delete_after_stopped = Term::Span(HOUR * 100);
    scene.intent.inactivity.notify = false;
    scene.pass(HOUR * 50);
    assert_eq!(scene.acts(), []);
}

// case: lab P6, P7
#[test]
fn warned_like_the_other_ladder_and_told_when_it_is_gone() {
    let mut scene = Scene::stopped();
    scene.pass(DUE);
    assert_eq!(scene.state.ladder.alerts_sent, 1);
    assert_eq!(scene.state.ladder.stage, Stage::DestroyWarned);
    scene.pass(DAY * 2);
    assert_eq!(scene.state.ladder.stage, Stage::DestroyGrace);
    scene.pass(DAY);
    assert_eq!(
        scene.told(),
        [
            (DUE, NoticeKind::DeletionWarning),
            (DUE + DAY, NoticeKind::DeletionWarning),
            (DUE + DAY * 2, NoticeKind::DeletionWarning),
            (DUE + DAY * 3, NoticeKind::Deleted),
        ]
    );
    assert_eq!(scene.acts(), [(DUE + DAY * 3, Effect::Delete)]);
}

// case: lab P7
#[test]
fn the_farewell_is_on_record_before_the_deletion() {
    let mut scene = Scene::stopped();
    scene.pass(DUE + DAY * 2);
    scene.go_to(at(DUE + DAY * 3));
    let first = scene.decide();
    assert_eq!(first.effects, []);
    assert!(first.next.outbox.notices.iter().any(|one| one.kind == NoticeKind::Deleted));
    assert_eq!(scene.decide().effects, [Effect::Delete]);
}

// case: lab P8
#[test]
fn the_last_warning_gives_its_whole_interval_whatever_happens() {
    let mut scene = Scene::stopped();
    scene.pass(DUE + DAY * 2);
    assert_eq!(scene.state.ladder.alerts_sent, 3);
    for _ in 0..5 {
        assert_eq!(scene.settle().effects, []);
    }
    scene.pass(DAY - SECOND);
    assert_eq!(scene.acts(), []);
}

// case: lab P9
#[test]
fn a_start_begins_everything_anew() {
    let mut scene = Scene::stopped();
    scene.pass(DUE + DAY);
    assert_eq!(scene.state.ladder.alerts_sent, 2);
    scene.intent.running = true;
    scene.settle();
    assert_eq!(scene.state.ladder, Ladder::default());
    scene.intent.running = false;
    scene.settle();
    let wake = scene.ask().wake;
    assert_eq!(wake, Wake::At(scene.now + DUE));
}

// case: lab P11
#[test]
fn who_opted_out_is_not_deleted_either() {
    let mut scene = Scene::stopped();
    scene.intent.inactivity.opted_out = true;
    scene.intent.inactivity.notify = false;
    scene.pass(DAY * 100);
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.state.ladder.stage, Stage::Stopped);
}

// case: lab P12
#[test]
fn the_number_of_warnings_is_the_template_s() {
    let mut scene = Scene::stopped();
    scene.intent.inactivity.max_alerts = 1;
    scene.pass(DAY * 20);
    assert_eq!(scene.acts(), [(DUE + DAY, Effect::Delete)]);
    assert_eq!(scene.sent[0].1.alert, Some((1, 1)));
}

#[test]
fn darkness_does_not_matter_to_what_is_off() {
    let mut scene = Scene::stopped();
    scene.intent.inactivity.notify = false;
    scene.turn_blind();
    scene.pass(DAY * 11);
    assert_eq!(scene.acts(), [(DUE, Effect::Delete)]);
}
