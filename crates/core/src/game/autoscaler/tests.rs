use jiff::tz::TimeZone;

use super::*;
use crate::schedule::Window;

fn at(seconds: i64) -> Timestamp {
    // A Friday, 17:46:40 in UTC.
    Timestamp::from_second(1_900_000_000 + seconds).expect("in range")
}

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

fn intent(min: u32, max: u32) -> AutoscalerIntent {
    AutoscalerIntent {
        enabled: true,
        min,
        max,
        classic: None,
        terms: Vec::new(),
        up_window: SignedDuration::ZERO,
        down_window: SignedDuration::ZERO,
    }
}

fn classic(min: u32, max: u32) -> AutoscalerIntent {
    let term = ClassicTerm { scale_in_percent: 60, scale_out_percent: 80, cool_down: MINUTE * 5 };
    AutoscalerIntent { classic: Some(term), ..intent(min, max) }
}

fn with(terms: &[ScalingTerm]) -> AutoscalerIntent {
    AutoscalerIntent { terms: terms.to_vec(), ..intent(0, 1_000) }
}

/// So many members of ten seats, with so many players in all.
fn seen(replicas: u32, players: u64) -> AutoscalerObserved<'static> {
    AutoscalerObserved {
        replicas,
        members: replicas,
        occupied: 0,
        players,
        max_players: Some(10),
        free_seats: u64::from(replicas) * 10 - players,
        waiting: 0,
        health: CollectionHealth::Healthy,
        pod_state: Some(PodState::Running),
        counters: &[],
        webhook: WebhookAnswer::Unknown,
    }
}

fn scaled(
    state: &AutoscalerState,
    intent: &AutoscalerIntent,
    seen: &AutoscalerObserved<'_>,
    now: Timestamp,
) -> Option<u32> {
    autoscale(state.clone(), intent, seen, now).replicas
}

// case: game S40, S41, S44, S45, S46, S49
#[test]
fn the_classic_term_moves_by_one_beyond_its_percentages_and_within_its_bounds() {
    let fresh = AutoscalerState::default();
    for (intent, seen, expected) in [
        (classic(1, 5), seen(1, 9), Some(2)),
        (classic(1, 5), seen(2, 10), Some(1)),
        (classic(1, 7), seen(7, 63), None),
        (classic(5, 7), seen(5, 25), None),
        (classic(1, 5), seen(2, 16), None),
        (classic(1, 5), seen(2, 12), None),
        (AutoscalerIntent { enabled: false, ..classic(1, 5) }, seen(1, 9), None),
        (intent(1, 5), seen(1, 9), None),
    ] {
        assert_eq!(scaled(&fresh, &intent, &seen, at(0)), expected, "{seen:?}");
    }
    let decided = autoscale(fresh, &classic(1, 5), &seen(1, 9), at(0));
    assert_eq!(decided.next.last_scale_time, Some(at(0)));
    let last = decided.next.last_decision.expect("it is on record");
    assert_eq!((last.from, last.to, &*last.term), (1, 2, "classic"));
    assert_eq!(last.inputs, "9 players of 10");
}

// case: game S42, S47
#[test]
fn after_a_change_it_rests_and_wakes_by_itself() {
    let rested = AutoscalerState { last_scale_time: Some(at(0)), ..AutoscalerState::default() };
    for (now, expected) in [(60, None), (300, None), (301, Some(2))] {
        let decided = autoscale(rested.clone(), &classic(1, 5), &seen(1, 9), at(now));
        assert_eq!(decided.replicas, expected, "after {now} s");
        let wake = if expected.is_none() { Wake::At(at(301)) } else { Wake::OnChange };
        assert_eq!(decided.wake, wake, "after {now} s");
    }
}

// case: game S51
#[test]
fn what_is_outside_of_the_bounds_is_brought_inside() {
    let fresh = AutoscalerState::default();
    assert_eq!(scaled(&fresh, &classic(5, 9), &seen(3, 21), at(0)), Some(5));
    assert_eq!(scaled(&fresh, &classic(1, 2), &seen(3, 21), at(0)), Some(2));
    assert_eq!(scaled(&fresh, &intent(5, 9), &seen(3, 21), at(0)), Some(5));
}

#[test]
fn only_a_healthy_collection_is_scaled_by_percentages_and_a_failed_one_by_nothing() {
    let fresh = AutoscalerState::default();
    let mut creating = seen(1, 9);
    creating.health = CollectionHealth::Creating;
    assert_eq!(scaled(&fresh, &classic(1, 5), &creating, at(0)), None);
    let buffer = [ScalingTerm::ReadyBuffer(Buffer::Count(3))];
    assert_eq!(scaled(&fresh, &with(&buffer), &creating, at(0)), Some(3));
    for health in [CollectionHealth::Failed, CollectionHealth::NeedsIntervention] {
        creating.health = health;
        assert_eq!(scaled(&fresh, &with(&buffer), &creating, at(0)), None, "{health:?}");
    }
}

// case: game A27, A28, S54
#[test]
fn buffers_and_seats_are_sized_in_one_step() {
    let fresh = AutoscalerState::default();
    let occupied = |occupied| AutoscalerObserved { occupied, ..seen(50, 0) };
    let buffer = with(&[ScalingTerm::ReadyBuffer(Buffer::Count(20))]);
    assert_eq!(scaled(&fresh, &buffer, &occupied(40), at(0)), Some(60));
    let bounded = |min, max| AutoscalerIntent { min, max, ..buffer.clone() };
    assert_eq!(scaled(&fresh, &bounded(65, 100), &occupied(40), at(0)), Some(65));
    assert_eq!(scaled(&fresh, &bounded(0, 55), &occupied(40), at(0)), Some(55));
    let percent = with(&[ScalingTerm::ReadyBuffer(Buffer::Percent(20))]);
    assert_eq!(scaled(&fresh, &percent, &occupied(50), at(0)), Some(63));
    let seats = with(&[ScalingTerm::FreeSeats(25)]);
    assert_eq!(scaled(&fresh, &seats, &seen(10, 100), at(0)), Some(13), "three more for 25");
    assert_eq!(scaled(&fresh, &seats, &seen(10, 40), at(0)), Some(7), "35 seats too many");
}

#[test]
fn requests_that_wait_scale_from_zero() {
    let none = AutoscalerObserved {
        waiting: 2,
        health: CollectionHealth::Idle,
        pod_state: None,
        ..seen(0, 0)
    };
    let demand = with(&[ScalingTerm::PendingDemand]);
    assert_eq!(scaled(&AutoscalerState::default(), &demand, &none, at(0)), Some(2));
}

// case: game A30
#[test]
fn a_window_that_is_closed_abstains_and_wakes_when_it_opens() {
    let window = Window {
        cron: "0 18 * * *".parse().expect("a cron line"),
        duration: SignedDuration::from_hours(2),
        zone: TimeZone::UTC,
    };
    let evening = with(&[ScalingTerm::Schedule { window, replicas: 8 }]);
    let fresh = AutoscalerState::default();
    let closed = autoscale(fresh.clone(), &evening, &seen(3, 0), at(0));
    assert_eq!((closed.replicas, closed.wake), (None, Wake::At(at(800))));
    let open = autoscale(fresh, &evening, &seen(3, 0), at(800));
    assert_eq!((open.replicas, open.wake), (Some(8), Wake::At(at(8_000))));
}

// case: game A31
#[test]
fn a_term_that_cannot_tell_takes_nothing_away() {
    let terms = [ScalingTerm::Webhook, ScalingTerm::ReadyBuffer(Buffer::Count(2))];
    let fresh = AutoscalerState::default();
    assert_eq!(scaled(&fresh, &with(&terms), &seen(5, 0), at(0)), None);
    assert_eq!(scaled(&fresh, &with(&terms), &seen(1, 0), at(0)), Some(2), "more are made");
    for (answer, expected) in
        [(WebhookAnswer::Abstains, Some(2)), (WebhookAnswer::Replicas(4), Some(4))]
    {
        let told = AutoscalerObserved { webhook: answer, ..seen(5, 0) };
        assert_eq!(scaled(&fresh, &with(&terms), &told, at(0)), expected, "{answer:?}");
    }
}

#[test]
fn what_changes_its_mind_within_a_window_is_not_followed() {
    let intent = AutoscalerIntent {
        down_window: MINUTE * 5,
        up_window: MINUTE,
        ..with(&[ScalingTerm::ReadyBuffer(Buffer::Count(2))])
    };
    let occupied = |occupied| AutoscalerObserved { occupied, ..seen(10, 0) };
    let first = autoscale(AutoscalerState::default(), &intent, &occupied(8), at(0));
    assert_eq!(first.replicas, None);
    let fewer = autoscale(first.next, &intent, &occupied(3), at(10));
    assert_eq!((fewer.replicas, fewer.wake), (None, Wake::At(at(310))));
    let peak = autoscale(fewer.next, &intent, &occupied(6), at(100));
    assert_eq!(peak.replicas, None);
    let again = autoscale(peak.next, &intent, &occupied(3), at(110));
    let later = autoscale(again.next, &intent, &occupied(3), at(310));
    assert_eq!(later.replicas, Some(8), "the most of the last five minutes");
    let more = autoscale(later.next, &intent, &occupied(20), at(320));
    assert_eq!((more.replicas, more.wake), (None, Wake::At(at(380))));
    let settled = autoscale(more.next, &intent, &occupied(20), at(380));
    assert_eq!(settled.replicas, Some(22));
}

#[test]
fn what_counts_seats_abstains_where_nobody_has_said_how_many_there_are() {
    let fresh = AutoscalerState::default();
    let seats = with(&[ScalingTerm::FreeSeats(5), ScalingTerm::ReadyBuffer(Buffer::Count(1))]);
    for intent in [classic(1, 50), seats] {
        let unsaid = AutoscalerObserved { max_players: None, free_seats: 0, ..seen(3, 30) };
        let decided = autoscale(fresh.clone(), &intent, &unsaid, at(0));
        assert_eq!(decided.replicas, None, "neither more of them nor fewer: {}", decided.why);
        assert!(decided.why.contains("cannot tell"), "{}", decided.why);
    }
}
