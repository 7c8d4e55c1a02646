use super::super::effect::Effect;
use super::super::intent::{self, Kept, Reply, ReplyOutcome};
use super::super::observed::{Health, Power, ProviderMachine};
use super::super::state::RotationPhase;
use super::super::test_group::{DAY, HOUR, MINUTE, SECOND, at, start};
use super::*;
use crate::decision::Wake;
use crate::term::Term;

const JUST: SignedDuration = SignedDuration::from_millis(1);

/// A machine of the name `m`, lent for a week, and its provider.
struct Lent {
    state: state::Machine,
    seen: ObservedMachine,
    intent: OnDemand,
    now: Timestamp,
    done: Vec<(Timestamp, Effect)>,
    there: bool,
}

impl Lent {
    fn new() -> Self {
        let machine = intent::Machine {
            name: "m".into(),
            uid: "u".into(),
            created_at: start(),
            deleting: false,
            template: "t".into(),
            kept: Kept::No,
            drain: None,
            reply: None,
        };
        let intent = OnDemand {
            machine,
            paused: false,
            observe: false,
            age: Term::Span(DAY * 7),
            max_age: Term::Span(DAY * 7),
            renewed_until: None,
            warn_before: SignedDuration::ZERO,
            registration_timeout: MINUTE * 5,
            drain_timeout: MINUTE * 5,
            ending: false,
            announced_end: None,
        };
        let seen = ObservedMachine { provider: Known::Absent, ..ObservedMachine::default() };
        let state = state::Machine::default();
        Self { state, seen, intent, now: start(), done: Vec::new(), there: true }
    }

    fn ready() -> Self {
        let mut lent = Self::new();
        lent.settle();
        lent
    }

    fn show(&mut self, power: Power) {
        let found = ProviderMachine { id: "vm".into(), power, interruption: None };
        self.seen.provider = Known::Is(found);
        self.seen.health = match power {
            Power::Running => Known::Is(Health::Ready),
            _ => Known::Unknown,
        };
    }

    fn decide(&mut self) -> MachineDecision {
        let decision = decide(self.state.clone(), &self.seen, &self.intent, self.now);
        self.state = decision.next.clone();
        self.seen.last_result = None;
        decision
    }

    fn settle(&mut self) -> MachineDecision {
        for _ in 0..20 {
            let before = self.state.clone();
            let decision = self.decide();
            for effect in &decision.effects {
                self.follow(effect);
            }
            let last_result = self.seen.last_result.is_some();
            if !self.there || self.state == before && decision.effects.is_empty() && !last_result {
                return decision;
            }
        }
        panic!("it does not come to rest: {:?}", self.state);
    }

    fn follow(&mut self, effect: &Effect) {
        self.done.push((self.now, effect.clone()));
        match effect {
            Effect::Provision { .. } => {
                self.show(Power::Running);
                self.seen.last_result = Some(OperationResult::Created { id: "vm".to_owned() });
            }
            Effect::Deprovision { .. } => {
                self.seen.provider = Known::Absent;
                self.seen.last_result = Some(OperationResult::Deleted);
            }
            Effect::Delete { .. } => self.intent.machine.deleting = true,
            Effect::RemoveFinalizer { .. } => self.there = false,
            Effect::Create { .. } | Effect::RemoveGroupFinalizer => panic!("it is never replaced"),
        }
    }

    fn wait(&mut self) -> Timestamp {
        let Wake::At(at) = self.settle().wake else { panic!("no timer") };
        self.now = at;
        at
    }

    fn phase(&self) -> Option<RotationPhase> {
        self.state.rotation.as_ref().map(|rotation| rotation.phase)
    }
}

/// Its object may be deleted late, so it deletes it itself; whoever paused it does not keep it.
#[test]
fn where_everything_goes_it_is_drained_and_deleted() {
    for paused in [false, true] {
        let mut lent = Lent::ready();
        lent.intent.ending = true;
        lent.intent.paused = paused;
        lent.settle();
        assert_eq!(lent.phase(), Some(RotationPhase::Draining));
        assert_eq!(lent.state.rotation.clone().unwrap().cause, Cause::Manual);
        lent.wait();
        lent.settle();
        assert!(!lent.there && lent.intent.machine.deleting);
    }
    let mut unborn = Lent::new();
    unborn.intent.ending = true;
    unborn.settle();
    assert!(!unborn.there);
    let made = |(_, effect): &(Timestamp, Effect)| matches!(effect, Effect::Provision { .. });
    assert!(!unborn.done.iter().any(made), "nothing can be made there any more");
}

// case: group 37, 40
#[test]
fn h4_after_its_time_it_is_drained_deleted_and_not_replaced() {
    let mut lent = Lent::ready();
    assert_eq!(lent.state.phase, Phase::Ready);
    assert_eq!(lent.wait(), at(DAY * 7 + JUST));
    lent.now = at(DAY * 7);
    lent.settle();
    assert_eq!(lent.phase(), None);
    lent.now = at(DAY * 7 + JUST);
    lent.settle();
    assert_eq!(lent.phase(), Some(RotationPhase::Draining));
    let rotation = lent.state.rotation.clone().unwrap();
    assert_eq!((rotation.cause, rotation.replacement), (Cause::OnDemand, None));
    assert_eq!(lent.wait(), at(DAY * 7 + MINUTE * 5 + SECOND));
    lent.settle();
    assert!(!lent.there);
    let name = || "m".to_owned();
    let effects: Vec<Effect> = lent.done.into_iter().map(|(_, effect)| effect).collect();
    assert_eq!(
        effects,
        [
            Effect::Provision { name: name() },
            Effect::Delete { name: name() },
            Effect::Deprovision { name: name() },
            Effect::RemoveFinalizer { name: name() },
        ]
    );
}

// case: group 39
#[test]
fn each_has_a_timer_of_its_own_and_none_waits_for_another() {
    let mut overdue: Vec<Lent> = (0..5).map(|_| Lent::ready()).collect();
    for lent in &mut overdue {
        lent.now = at(DAY * 8);
        lent.settle();
        assert_eq!(lent.phase(), Some(RotationPhase::Draining));
    }
}

#[test]
fn it_can_be_renewed_up_to_its_longest_age() {
    let mut lent = Lent::ready();
    lent.intent.renewed_until = Some(at(DAY * 30));
    // Not renewable unless somebody made it so.
    assert_eq!(lent.wait(), at(DAY * 7 + JUST));
    lent.now = at(DAY);
    lent.intent.max_age = Term::Span(DAY * 14);
    assert_eq!(expires_at(&lent.state, &lent.intent), Some(at(DAY * 14)));
    assert_eq!(lent.wait(), at(DAY * 14 + JUST));
    lent.intent.renewed_until = Some(at(DAY * 3));
    assert_eq!(expires_at(&lent.state, &lent.intent), Some(at(DAY * 7)));
}

#[test]
fn a_warning_is_given_in_full_and_does_not_come_earlier() {
    let mut lent = Lent::ready();
    lent.intent.warn_before = DAY;
    assert_eq!(lent.wait(), at(DAY * 6));
    lent.settle();
    assert_eq!(lent.state.warned, Some(ExpiryWarning { at: at(DAY * 6), deadline: at(DAY * 7) }));
    // A shorter age does not break what was announced.
    lent.intent.age = Term::Span(DAY);
    lent.intent.max_age = Term::Span(DAY);
    assert_eq!(lent.wait(), at(DAY * 7 + JUST));
    lent.settle();
    assert_eq!(lent.phase(), Some(RotationPhase::Draining));

    // Whoever hears late has as long.
    let mut lent = Lent::ready();
    lent.intent.warn_before = DAY;
    lent.now = at(DAY * 9);
    lent.settle();
    assert_eq!(lent.phase(), None);
    assert_eq!(lent.state.warned, Some(ExpiryWarning { at: at(DAY * 9), deadline: at(DAY * 10) }));
    assert_eq!(lent.wait(), at(DAY * 10 + JUST));

    // Renewed, it is warned about again.
    let mut lent = Lent::ready();
    lent.intent.warn_before = DAY;
    lent.intent.max_age = Term::Never;
    lent.now = at(DAY * 6 + HOUR);
    lent.settle();
    lent.intent.renewed_until = Some(at(DAY * 20));
    lent.settle();
    assert_eq!(lent.state.warned, None);
    assert_eq!(lent.wait(), at(DAY * 19));
}

#[test]
fn without_an_age_there_is_no_timer() {
    let mut lent = Lent::ready();
    lent.intent.age = Term::Never;
    assert_eq!(lent.settle().wake, Wake::OnChange);
}

// case: group 57, 66
#[test]
fn somebody_who_deletes_it_waits_for_the_drain_and_no_longer() {
    let mut lent = Lent::ready();
    lent.intent.machine.deleting = true;
    lent.settle();
    assert_eq!(lent.phase(), Some(RotationPhase::Draining));
    let id = lent.state.rotation.clone().unwrap().id;
    let reply = Reply { id, outcome: ReplyOutcome::Done, message: String::new() };
    lent.intent.machine.reply = Some(reply);
    // Nothing is there any more: that is as good as deleted.
    lent.seen.provider = Known::Absent;
    lent.settle();
    assert!(!lent.there);
    assert!(!lent.done.iter().any(|(_, effect)| matches!(effect, Effect::Deprovision { .. })));
}

// case: group 69
#[test]
fn a_delete_that_fails_is_tried_again_ever_more_slowly() {
    let mut lent = Lent::ready();
    lent.intent.machine.deleting = true;
    lent.settle();
    lent.now = at(HOUR);
    let mut waits = Vec::new();
    for _ in 0..40 {
        let decision = lent.decide();
        let failed = OperationResult::Failed { message: "busy".to_owned() };
        lent.seen.last_result = match decision.effects[..] {
            [] => None,
            [_, ..] => Some(failed),
        };
        if let Wake::At(next) = decision.wake
            && next > lent.now
        {
            waits.push(next.duration_since(lent.now).as_secs());
            lent.now = next;
        }
    }
    assert!(lent.there);
    assert_eq!(lent.state.error.as_deref(), Some("busy"));
    for (wait, min) in waits.iter().zip([5, 10, 20, 40, 80, 120, 120]) {
        assert!(*wait >= min && *wait <= min + min / 4 + 1, "{waits:?}");
    }
    assert!(waits.len() >= 7, "{waits:?}");
}

#[test]
fn what_the_provider_refuses_stays_to_be_seen_and_is_not_tried_again() {
    let mut lent = Lent::new();
    lent.decide();
    lent.decide();
    lent.seen.last_result = Some(OperationResult::Refused { message: "quota".to_owned() });
    let decision = lent.settle();
    assert_eq!(lent.state.phase, Phase::Failed);
    assert_eq!(lent.state.error.as_deref(), Some("quota"));
    assert_eq!(decision.effects, []);
    assert!(decision.why.contains(&Reason::CannotBeMade { machine: "m".to_owned() }));
    assert_eq!(decision.wake, Wake::At(at(DAY * 7 + JUST)));
    lent.intent.machine.deleting = true;
    lent.settle();
    assert!(!lent.there);
}

// case: group 80
#[test]
fn what_never_registers_is_deleted_at_the_provider_and_stays_to_be_seen() {
    let mut lent = Lent::new();
    lent.decide();
    lent.show(Power::Pending);
    lent.seen.last_result = Some(OperationResult::Created { id: "vm".to_owned() });
    assert_eq!(lent.wait(), at(MINUTE * 5));
    lent.settle();
    assert_eq!(lent.state.phase, Phase::Failed);
    assert_eq!(lent.done, [(at(MINUTE * 5), Effect::Deprovision { name: "m".to_owned() })]);
    assert!(lent.there);
}

#[test]
fn one_that_is_gone_is_removed_and_one_that_is_unhealthy_or_unknown_stays() {
    let mut lent = Lent::ready();
    lent.seen.health = Known::Is(Health::Unhealthy { observed: DAY });
    lent.settle();
    assert_eq!(lent.phase(), None);
    lent.seen.provider = Known::Unknown;
    lent.settle();
    assert_eq!(lent.phase(), None);
    lent.seen.provider = Known::Absent;
    lent.settle();
    assert!(!lent.there);
}

#[test]
fn paused_or_observed_it_stays_and_an_open_drain_ends() {
    for observe in [false, true] {
        let mut lent = Lent::ready();
        (lent.intent.paused, lent.intent.observe) = (!observe, observe);
        lent.now = at(DAY * 8);
        assert_eq!(lent.settle().wake, Wake::OnChange);
        assert_eq!(lent.phase(), None);
        (lent.intent.paused, lent.intent.observe) = (false, false);
        lent.settle();
        assert_eq!(lent.phase(), Some(RotationPhase::Draining));
        (lent.intent.paused, lent.intent.observe) = (!observe, observe);
        assert_eq!(lent.wait(), at(DAY * 8 + MINUTE * 5));
        lent.settle();
        assert!(!lent.there);
    }
}

// case: group 82
#[test]
fn an_interruption_is_a_drain_once() {
    let mut lent = Lent::ready();
    let found =
        ProviderMachine { id: "vm".into(), power: Power::Running, interruption: Some(at(HOUR)) };
    lent.seen.provider = Known::Is(found);
    lent.settle();
    let rotation = lent.state.rotation.clone().unwrap();
    assert_eq!(rotation.cause, Cause::Interrupted);
    lent.now = at(MINUTE);
    lent.settle();
    assert_eq!(lent.state.rotation, Some(rotation));
}

#[test]
fn the_end_that_its_owner_was_told_of_holds_when_the_group_is_gone() {
    let mut lent = Lent::ready();
    let told = expires_at(&lent.state, &lent.intent).unwrap();
    // Its group is gone, and with it every age; nobody can renew it any more.
    (lent.intent.age, lent.intent.max_age) = (Term::Never, Term::Never);
    lent.intent.announced_end = Some(told);
    lent.intent.renewed_until = Some(at(DAY * 30));
    assert_eq!(expires_at(&lent.state, &lent.intent), Some(told));
    lent.now = told;
    let decision = lent.settle();
    assert_eq!(decision.wake, Wake::At(told + JUST));
    lent.now = told + JUST;
    lent.settle();
    let rotation = lent.state.rotation.as_ref().expect("it goes");
    assert_eq!((rotation.cause, rotation.phase), (Cause::OnDemand, RotationPhase::Draining));
    // One that was lent for as long as it is wanted stays.
    let mut lent = Lent::ready();
    (lent.intent.age, lent.intent.max_age) = (Term::Never, Term::Never);
    lent.now = at(DAY * 400);
    lent.settle();
    assert!(lent.state.rotation.is_none());
}
