use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;
use crate::game::census::CollectionHealth;
use crate::game::test_server::{REVISION, ready_server};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + seconds).expect("in range")
}

const NO_LIMITS: CollectionLimits = CollectionLimits { creation_batch: 1_000, max_pending: 1_000 };

fn intent(replicas: u32) -> CollectionIntent {
    CollectionIntent {
        replicas,
        revision: REVISION.to_owned(),
        generation: 1,
        failure_policy: FailurePolicy {
            behavior: FailBehavior::Remove,
            max_failures: 5,
            window: SignedDuration::from_hours(1),
        },
        update_strategy: UpdateStrategy::Rolling,
        acknowledge: None,
        deleting: false,
    }
}

fn server(name: &str, players: u32) -> Server {
    ready_server(name, "n", players)
}

fn servers(count: usize, players: u32) -> Vec<Server> {
    (0..count).map(|n| server(&format!("s{n:02}"), players)).collect()
}

fn decided(intent: &CollectionIntent, members: &[Server]) -> CollectionDecision {
    among(intent, members, &[], 0)
}

fn among(
    intent: &CollectionIntent,
    members: &[Server],
    draining: &[Server],
    unseen: u32,
) -> CollectionDecision {
    let seen = CollectionObserved { members, draining, unseen, limits: NO_LIMITS };
    decide(FailureRecord::default(), intent, &seen, at(0))
}

fn marked(decision: &CollectionDecision) -> Vec<&str> {
    let names = decision.effects.iter().filter_map(|effect| match effect {
        CollectionEffect::Mark { name, .. } => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}

// case: game S01, S02, S17, S22
#[test]
fn what_is_missing_is_made_once() {
    let made = decided(&intent(5), &[]);
    assert_eq!(made.effects, [CollectionEffect::Create { count: 5 }]);
    assert_eq!(made.next.census.health, CollectionHealth::Creating);
    assert_eq!(
        decided(&intent(10), &servers(5, 0)).effects,
        [CollectionEffect::Create { count: 5 }]
    );
    assert_eq!(
        decided(&intent(5), &servers(4, 0)).effects,
        [CollectionEffect::Create { count: 1 }]
    );
    assert_eq!(among(&intent(5), &[], &[], 5).effects, [], "they were made a moment ago");
    assert_eq!(
        among(&intent(10), &servers(5, 0), &[], 3).effects,
        [CollectionEffect::Create { count: 2 }]
    );
}

// case: game A05, A06
#[test]
fn so_many_are_made_at_a_time_and_so_many_are_on_their_way() {
    let mut one = servers(1, 0);
    let create = |members: &[Server], limits| {
        let seen = CollectionObserved { members, draining: &[], unseen: 0, limits };
        decide(FailureRecord::default(), &intent(30), &seen, at(0)).effects
    };
    let limits = CollectionLimits { creation_batch: 3, max_pending: 1_000 };
    assert_eq!(create(&one, limits), [CollectionEffect::Create { count: 3 }]);
    for name in ["p1", "p2"] {
        let mut pending = server(name, 0);
        pending.health = ServerHealth::Creating;
        one.push(pending);
    }
    let limits = CollectionLimits { creation_batch: 10, max_pending: 3 };
    assert_eq!(create(&one, limits), [CollectionEffect::Create { count: 1 }]);
}

// case: game S04, S06, S10
#[test]
fn what_is_too_much_is_marked_and_the_empty_go_first() {
    let marks = decided(&intent(7), &servers(10, 2));
    assert_eq!((marked(&marks).len(), marks.effects.len()), (3, 3));
    assert_eq!(marked(&decided(&intent(0), &servers(5, 0))).len(), 5);
    let members = [server("nine", 9), server("empty", 0), server("five", 5)];
    assert_eq!(marked(&decided(&intent(2), &members)), ["empty"]);
}

// case: game S12
#[test]
fn what_drains_is_taken_back_before_anything_is_made() {
    let mut draining = server("d", 3);
    draining.marked_for_deletion = true;
    let mut old = server("old", 9);
    "r0".clone_into(&mut old.revision);
    let decision = among(&intent(3), &servers(1, 0), &[old, draining], 0);
    assert_eq!(
        decision.effects,
        [
            CollectionEffect::TakeBack { name: "d".to_owned(), uid: "uid-d".to_owned() },
            CollectionEffect::Create { count: 1 },
        ]
    );
}

#[test]
fn one_that_was_marked_leaves_the_count_and_is_replaced() {
    let mut members = servers(3, 0);
    members[1].marked_for_deletion = true;
    let decision = decided(&intent(3), &members);
    assert_eq!(marked(&decision), ["s01"]);
    assert_eq!(decision.effects[1..], [CollectionEffect::Create { count: 1 }]);
}

// case: game S19, S29, S30, S31, S32
#[test]
fn failures_are_handled_one_by_one_until_there_are_too_many() {
    let mut members = servers(4, 0);
    members[1].health = ServerHealth::Failed;
    members[3].health = ServerHealth::Failed;
    let strict = CollectionIntent {
        failure_policy: FailurePolicy { max_failures: 1, ..intent(4).failure_policy },
        ..intent(4)
    };
    let handled_with = |intent: &CollectionIntent, failures: FailureRecord, seconds| {
        let seen =
            CollectionObserved { members: &members, draining: &[], unseen: 0, limits: NO_LIMITS };
        decide(failures, intent, &seen, at(seconds))
    };
    let counted = decided(&intent(4), &members);
    assert_eq!(counted.effects, [CollectionEffect::Create { count: 2 }], "it is recorded first");
    assert_eq!(counted.next.failures.times_failed(), 2);
    assert_eq!(counted.wake, Wake::At(at(0)));
    let handled = handled_with(&intent(4), counted.next.failures, 1);
    assert_eq!(
        handled.effects,
        [
            CollectionEffect::Quarantine { name: "s01".to_owned(), uid: "uid-s01".to_owned() },
            CollectionEffect::Quarantine { name: "s03".to_owned(), uid: "uid-s03".to_owned() },
            CollectionEffect::Create { count: 2 },
        ]
    );
    assert_eq!(handled.next.failures.times_failed(), 2, "each counts once");
    let tripped = decided(&strict, &members);
    assert_eq!(tripped.effects, [], "nothing is made");
    assert_eq!(tripped.next.census.health, CollectionHealth::NeedsIntervention);
    assert_eq!(tripped.next.failures.times_failed(), 1);
    let first = handled_with(&strict, tripped.next.failures.clone(), 1);
    assert_eq!(first.effects.len(), 1, "the one before the limit is handled, the other stays");
    let acknowledged = CollectionIntent { acknowledge: Some("now".to_owned()), ..intent(4) };
    let resumed = handled_with(&acknowledged, tripped.next.failures, 60);
    assert!(resumed.why.contains(&CollectionReason::Acknowledged));
    assert_eq!(resumed.next.failures.times_failed(), 2, "both are counted anew, from none");
    assert_eq!(resumed.wake, Wake::At(at(60)), "what is counted is handled next");
}

#[test]
fn a_server_that_begins_again_is_not_replaced_as_well() {
    let mut members = servers(2, 0);
    members[0].health = ServerHealth::Failed;
    let restart = CollectionIntent {
        failure_policy: FailurePolicy {
            behavior: FailBehavior::Restart,
            ..intent(2).failure_policy
        },
        ..intent(2)
    };
    let counted = decided(&restart, &members);
    assert_eq!((counted.effects.len(), counted.next.failures.times_failed()), (0, 1));
    let seen =
        CollectionObserved { members: &members, draining: &[], unseen: 0, limits: NO_LIMITS };
    let again = decide(counted.next.failures, &restart, &seen, at(1));
    let (name, uid) = ("s00".to_owned(), "uid-s00".to_owned());
    assert_eq!(again.effects, [CollectionEffect::Restart { name, uid, restarts: 1 }]);
}

// case: game S20
#[test]
fn members_of_a_deleted_collection_drain() {
    let deleting = CollectionIntent { deleting: true, ..intent(3) };
    let decision = decided(&deleting, &servers(3, 4));
    assert_eq!(marked(&decision).len(), 3);
    assert_eq!(decision.effects.len(), 3, "nothing is made or deleted");
}

fn of_revision(revision: &str, mut members: Vec<Server>) -> Vec<Server> {
    for member in &mut members {
        revision.clone_into(&mut member.revision);
    }
    members
}

// case: game S21, A32
#[test]
fn a_new_template_replaces_a_quarter_at_a_time_and_nobody_who_plays() {
    let full = of_revision("r0", servers(8, 3));
    let decision = decided(&intent(8), &full);
    assert_eq!(decision.effects, [CollectionEffect::Create { count: 2 }]);
    let empty = of_revision("r0", servers(8, 0));
    let decision = decided(&intent(8), &empty);
    assert_eq!(marked(&decision).len(), 2, "six are left to play on");
    let mut too_few = of_revision("r0", servers(6, 0));
    too_few.extend(
        (0..2).map(|n| Server { health: ServerHealth::Creating, ..server(&format!("new{n}"), 0) }),
    );
    assert_eq!(marked(&decided(&intent(8), &too_few)), [""; 0], "the new ones are not ready");
    let recreate = CollectionIntent { update_strategy: UpdateStrategy::Recreate, ..intent(8) };
    let mut mixed = of_revision("r0", servers(8, 0));
    mixed[3].active_players = Some(1);
    assert_eq!(marked(&decided(&recreate, &mixed)).len(), 7);
}

/// A world in which what is decided happens, and players come and go.
#[derive(Debug)]
struct World {
    members: Vec<Server>,
    draining: Vec<Server>,
    made: u32,
    failures: FailureRecord,
}

impl World {
    fn step(&mut self, intent: &CollectionIntent) -> usize {
        let seen = CollectionObserved {
            members: &self.members,
            draining: &self.draining,
            unseen: 0,
            limits: NO_LIMITS,
        };
        let decision = decide(self.failures.clone(), intent, &seen, at(0));
        self.failures = decision.next.failures;
        let effects = decision.effects.len();
        for effect in decision.effects {
            match effect {
                CollectionEffect::Create { count } => {
                    for _ in 0..count {
                        self.made += 1;
                        let mut new = server(&format!("m{}", self.made), 0);
                        intent.revision.clone_into(&mut new.revision);
                        self.members.push(new);
                    }
                }
                CollectionEffect::Mark { uid, .. } => self.detach(&uid, true),
                CollectionEffect::Quarantine { uid, .. } => self.detach(&uid, false),
                CollectionEffect::TakeBack { uid, .. } => {
                    let index = self.draining.iter().position(|one| one.uid == uid);
                    let mut back = self.draining.remove(index.expect("it drains"));
                    back.marked_for_deletion = false;
                    self.members.push(back);
                }
                CollectionEffect::Delete { uid, .. } => {
                    self.members.retain(|one| one.uid != uid);
                }
                CollectionEffect::Restart { uid, .. } => {
                    let one = self.members.iter_mut().find(|one| one.uid == uid);
                    let one = one.expect("a member");
                    (one.health, one.restarts) = (ServerHealth::Healthy, one.restarts + 1);
                }
            }
        }
        self.draining.retain(|one| !one.is_empty(at(0)));
        effects
    }

    fn detach(&mut self, uid: &str, marks: bool) {
        let index = self.members.iter().position(|one| one.uid == uid).expect("a member");
        let mut one = self.members.remove(index);
        one.marked_for_deletion = true;
        if marks {
            self.draining.push(one);
        }
    }
}

proptest! {
    /// Whatever is asked for and whoever plays: nobody who plays is deleted, and in the end there are as many as asked
    /// for, of the present template, as soon as everybody has left.
    #[test]
    fn a_collection_comes_to_what_is_asked_for_and_takes_nothing_from_anybody(
        players in prop::collection::vec(0_u32..3, 0..12),
        wanted in prop::collection::vec((0_u32..12, 0_u8..3), 1..6),
        strategy in prop_oneof![
            Just(UpdateStrategy::Rolling), Just(UpdateStrategy::OnEmpty), Just(UpdateStrategy::Recreate)
        ],
    ) {
        let members = players.iter().enumerate().map(|(n, players)| server(&format!("s{n}"), *players));
        let mut world = World {
            members: members.collect(),
            draining: Vec::new(),
            made: 0,
            failures: FailureRecord::default(),
        };
        let mut asked = intent(0);
        for (replicas, revision) in wanted {
            asked = CollectionIntent {
                replicas,
                revision: format!("r{revision}"),
                generation: asked.generation + 1,
                update_strategy: strategy,
                ..asked
            };
            let playing: Vec<String> = world
                .members
                .iter()
                .chain(&world.draining)
                .filter(|one| !one.is_empty(at(0)))
                .map(|one| one.uid.clone())
                .collect();
            for _ in 0..30 {
                world.step(&asked);
                let surge = (replicas * SURGE_PERCENT).div_ceil(100).max(1);
                let count = u32::try_from(world.members.len()).unwrap();
                prop_assert!(count <= replicas + surge, "{count} of {replicas}");
            }
            for uid in playing {
                let there = world.members.iter().chain(&world.draining).any(|one| one.uid == uid);
                prop_assert!(there, "{uid} was taken from its players");
            }
        }
        for one in world.members.iter_mut().chain(&mut world.draining) {
            one.active_players = Some(0);
        }
        let settles = (0..100).any(|_| world.step(&asked) == 0);
        prop_assert!(settles, "it never rests");
        prop_assert_eq!(u32::try_from(world.members.len()).unwrap(), asked.replicas);
        prop_assert!(world.members.iter().all(|one| one.revision == asked.revision));
    }
}
