//! Each way in which a Node is emptied, and laws that hold for all of them.

mod law;

use std::collections::BTreeMap;

use super::*;

/// When the drain began.
const START: Timestamp = Timestamp::constant(1_893_456_000, 0);
/// When the drain of these tests ends.
const DEADLINE: Timestamp = Timestamp::constant(1_893_456_300, 0);
const ID: &str = "drain-1";

fn at(second: i64) -> Timestamp {
    saturating_add(START, SignedDuration::from_secs(second))
}

fn drain() -> Drain {
    Drain { id: ID.to_owned(), deadline: DEADLINE }
}

fn plain_node() -> Node {
    Node { unschedulable: false, excluded: false, ready: true, shut_down: false, mark: None }
}

/// One that was cordoned when the drain began.
fn cordoned() -> Node {
    let changed = NodeChanges { cordoned: true, excluded: true };
    let mark = Mark { drain: ID.to_owned(), since: START, changed };
    Node { unschedulable: true, excluded: true, mark: Some(mark), ..plain_node() }
}

fn pod(name: &str) -> Pod {
    Pod {
        key: Key::new("shop", name),
        uid: format!("uid-{name}"),
        of_daemon_set: false,
        mirror: false,
        finished: false,
        tolerations: Vec::new(),
        grace: SignedDuration::from_secs(30),
        leaves_at: None,
    }
}

/// What is there, and what was tried.
#[derive(Debug)]
struct TestNode {
    node: Option<Node>,
    pods: Vec<Pod>,
    volumes: Vec<Volume>,
    attempts: BTreeMap<String, EvictionAttempts>,
    known: bool,
}

impl TestNode {
    fn of(pods: impl IntoIterator<Item = Pod>) -> Self {
        Self {
            node: Some(cordoned()),
            pods: pods.into_iter().collect(),
            volumes: Vec::new(),
            attempts: BTreeMap::new(),
            known: true,
        }
    }

    fn plan(&self, drain: &Drain, second: i64) -> Plan {
        let seen = DrainObservation {
            node: self.node.as_ref().into(),
            known: self.known,
            pods: Known::Is(&self.pods),
            volumes: Known::Is(&self.volumes),
            attempts: &self.attempts,
        };
        plan(drain, &seen, at(second))
    }

    fn record_attempt(&mut self, uid: &str, forced: bool, refusal: Option<&str>, second: i64) {
        let before = self.attempts.get(uid);
        let attempts =
            EvictionAttempts::after(before, uid, forced, refusal.map(str::to_owned), at(second));
        self.attempts.insert(uid.to_owned(), attempts);
    }
}

fn evict(name: &str) -> Step {
    Step::Evict { pod: Key::new("shop", name), uid: format!("uid-{name}") }
}

fn delete(name: &str, grace: i64) -> Step {
    let grace = SignedDuration::from_secs(grace);
    Step::Delete { pod: Key::new("shop", name), uid: format!("uid-{name}"), grace }
}

// case: group 59
#[test]
fn without_a_node_there_is_nothing_to_do() {
    let test_node = TestNode { node: None, ..TestNode::of([]) };
    let plan = test_node.plan(&drain(), 0);
    assert!(plan.done && plan.steps.is_empty(), "{plan:?}");
    assert_eq!(plan.message, "The cluster has no Node for it any more.");
    // Who never saw its Node does not know whether it is drained.
    let plan = TestNode { known: false, ..test_node }.plan(&drain(), 0);
    assert!(plan.refused && !plan.done && plan.steps.is_empty(), "{plan:?}");
}

#[test]
fn what_is_not_known_is_not_absent() {
    let none = BTreeMap::new();
    let node = cordoned();
    for (node, pods, volumes) in [
        (Known::Unknown, Known::Unknown, Known::Unknown),
        (Known::Is(&node), Known::Unknown, Known::Is(&[][..])),
        (Known::Is(&node), Known::Is(&[][..]), Known::Unknown),
    ] {
        let seen = DrainObservation { node, known: true, pods, volumes, attempts: &none };
        let plan = plan(&drain(), &seen, at(299));
        assert!(!plan.done && plan.steps.is_empty(), "{plan:?}");
    }
}

// case: group K24
#[test]
fn a_node_is_cordoned_and_leaves_load_balancers_before_anything_is_evicted() {
    let mut test_node = TestNode::of([pod("a")]);
    test_node.node = Some(plain_node());
    let plan = test_node.plan(&drain(), 7);
    let changed = NodeChanges { cordoned: true, excluded: true };
    let mark = Mark { drain: ID.to_owned(), since: at(7), changed };
    assert_eq!(plan.steps, [Step::Cordon(mark.clone())]);
    assert!(!plan.done);
    test_node.node =
        Some(Node { unschedulable: true, excluded: true, mark: Some(mark), ..plain_node() });
    assert_eq!(test_node.plan(&drain(), 7).steps, [evict("a")]);
}

#[test]
fn what_somebody_else_changed_is_not_taken_back() {
    let mut test_node = TestNode::of([]);
    let mut node = Node { unschedulable: true, ..plain_node() };
    test_node.node = Some(node.clone());
    let steps = test_node.plan(&drain(), 0).steps;
    let [Step::Cordon(mark)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(mark.changed, NodeChanges { cordoned: false, excluded: true });
    node.mark = Some(mark.clone());
    node.excluded = true;
    assert_eq!(plan_restore(&node), Some(Step::Restore(mark.changed)));
    assert_eq!(plan_restore(&plain_node()), None, "one that carries no mark is not touched");
}

#[test]
fn a_mark_that_is_not_of_this_drain_is_written_anew() {
    let mine = cordoned();
    let mark = mine.mark.clone().expect("it has one");
    let other = Mark { drain: "drain-0".to_owned(), ..mark.clone() };
    let future = Mark { since: at(3600), ..mark.clone() };
    for (what, node, since) in [
        ("of an earlier drain", Node { mark: Some(other), ..mine.clone() }, at(100)),
        ("from the future", Node { mark: Some(future), ..mine.clone() }, at(100)),
        ("uncordoned by somebody", Node { unschedulable: false, ..mine.clone() }, at(100)),
        ("without its label", Node { excluded: false, ..mine.clone() }, START),
    ] {
        let test_node = TestNode { node: Some(node), ..TestNode::of([pod("a")]) };
        let changed = NodeChanges { cordoned: true, excluded: true };
        let mark = Mark { drain: ID.to_owned(), since, changed };
        assert_eq!(test_node.plan(&drain(), 100).steps, [Step::Cordon(mark)], "{what}");
    }
}

// case: group K13
#[test]
fn skipped_pods_are_neither_evicted_nor_waited_for() {
    let exists = Toleration { exists: true, ..Toleration::default() };
    let named = Toleration {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Toleration::default()
    };
    let tolerant = |toleration: Toleration| Pod { tolerations: vec![toleration], ..pod("a") };
    for (stay, staying) in [
        (SkipReason::DaemonSet, Pod { of_daemon_set: true, ..pod("a") }),
        (SkipReason::Mirror, Pod { mirror: true, ..pod("a") }),
        (SkipReason::Finished, Pod { finished: true, ..pod("a") }),
        (SkipReason::Tolerates, tolerant(exists.clone())),
        (SkipReason::Tolerates, tolerant(named.clone())),
        (SkipReason::Tolerates, tolerant(Toleration { exists: true, ..named.clone() })),
    ] {
        assert_eq!(staying.skip_reason(), Some(stay));
        let plan = TestNode::of([staying]).plan(&drain(), 60);
        assert!(plan.done && plan.steps.is_empty(), "{stay:?}: {plan:?}");
    }
    for toleration in [
        Toleration::default(),
        Toleration { limited: true, ..exists.clone() },
        Toleration { effect: "NoExecute".to_owned(), ..exists },
        Toleration { value: "x".to_owned(), ..named.clone() },
        Toleration { key: "node.kubernetes.io/not-ready".to_owned(), ..named },
    ] {
        let test_node = TestNode::of([tolerant(toleration.clone())]);
        assert_eq!(test_node.plan(&drain(), 60).steps, [evict("a")], "{toleration:?}");
    }
}

// case: group 70, K14
#[test]
fn a_refused_eviction_is_tried_again_until_the_last_call() {
    let mut test_node = TestNode::of([pod("a"), pod("b")]);
    assert_eq!(test_node.plan(&drain(), 0).steps, [evict("a"), evict("b")]);
    test_node.record_attempt(
        "uid-a",
        false,
        Some("The disruption budget web needs 2 healthy pods"),
        0,
    );
    test_node.record_attempt("uid-b", false, None, 0);
    let refused = test_node.plan(&drain(), 0);
    assert_eq!(refused.steps, []);
    assert_eq!(
        refused.message,
        "Waits for 2 Pods: shop/a (The disruption budget web needs 2 healthy pods); shop/b."
    );
    let mut now = START;
    let mut count = 1;
    let mut pauses = Vec::new();
    test_node.pods.pop();
    loop {
        let seen = DrainObservation {
            node: test_node.node.as_ref().into(),
            known: true,
            pods: Known::Is(&test_node.pods),
            volumes: Known::Is(&[]),
            attempts: &test_node.attempts,
        };
        let plan = plan(&drain(), &seen, now);
        match &plan.steps[..] {
            [] => {
                let wake = plan.wake.at().expect("a timer");
                assert!(wake > now, "it does not spin");
                pauses.push(wake.duration_since(now));
                now = wake;
            }
            [Step::Evict { .. }] => {
                count += 1;
                let attempts = EvictionAttempts::after(
                    test_node.attempts.get("uid-a"),
                    "uid-a",
                    false,
                    Some("no".to_owned()),
                    now,
                );
                test_node.attempts.insert("uid-a".to_owned(), attempts);
            }
            [Step::Delete { grace, .. }] => {
                assert_eq!((now, *grace), (at(270), SignedDuration::from_secs(30)));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(count > 270 / 10, "it was asked {count} times");
    assert!(pauses.iter().all(|pause| *pause <= SignedDuration::from_secs(10)), "{pauses:?}");
}

// case: group K16
#[test]
fn a_pod_is_told_to_go_when_only_its_grace_is_left() {
    for (grace, last, given) in [(30, 270, 30), (1, 299, 1), (0, 299, 1), (600, 0, 300)] {
        let grace = SignedDuration::from_secs(grace);
        let mut test_node = TestNode::of([Pod { grace, ..pod("a") }]);
        if last > 0 {
            let before = test_node.plan(&drain(), last - 1);
            assert_eq!((before.steps, before.wake), (vec![evict("a")], Wake::At(at(last))));
        }
        // Whatever its budget said a moment ago.
        test_node.record_attempt("uid-a", false, Some("no"), last);
        assert_eq!(test_node.plan(&drain(), last).steps, [delete("a", given)]);
        test_node.record_attempt("uid-a", true, None, last);
        let after = test_node.plan(&drain(), last);
        assert_eq!(after.steps, [], "once is enough for a while");
        assert!(after.wake.at().is_some_and(|wake| wake > at(last)), "{after:?}");
    }
    let late = TestNode::of([pod("a")]);
    assert_eq!(late.plan(&drain(), 290).steps, [delete("a", 10)], "what is left of it");
    assert_eq!(late.plan(&drain(), 400).steps, [delete("a", 1)], "never at once");
}

// case: group K16
#[test]
fn of_two_ends_the_earlier_counts() {
    let leaving = |at| Pod { leaves_at: Some(at), ..pod("a") };
    let early = TestNode::of([leaving(at(280))]);
    assert_eq!(early.plan(&drain(), 275).steps, [], "it has its own time");
    let overdue = early.plan(&drain(), 290);
    assert_eq!((overdue.steps, overdue.done), (vec![], false), "and is awaited until it is gone");
    let late = TestNode::of([leaving(at(310))]);
    assert_eq!(late.plan(&drain(), 280).steps, [delete("a", 20)]);
    let later = late.plan(&drain(), 200);
    assert_eq!((later.steps, later.wake), (vec![], Wake::At(at(270))), "it is not asked twice");
}

// case: group K18
#[test]
fn an_empty_node_is_looked_at_again_before_it_is_called_done() {
    let test_node = TestNode::of([]);
    let early = test_node.plan(&drain(), 4);
    assert_eq!((early.done, early.wake), (false, Wake::At(at(5))));
    assert!(test_node.plan(&drain(), 5).done);
}

// case: group K19
#[test]
fn attached_volumes_are_awaited_until_the_deadline() {
    let volume = |name: &str, in_use| Volume { name: name.to_owned(), in_use };
    let mut test_node = TestNode::of([]);
    test_node.volumes = vec![volume("pvc-1", false), volume("pvc-2", true)];
    let waiting = test_node.plan(&drain(), 100);
    assert_eq!((waiting.done, waiting.wake), (false, Wake::At(DEADLINE)));
    assert_eq!(waiting.message, "All Pods are gone. Waits for 1 attached volume: pvc-1.");
    let over = test_node.plan(&drain(), 300);
    assert!(over.done);
    assert_eq!(over.message, "All Pods are gone. Still attached at the deadline: pvc-1.");
    test_node.volumes.remove(0);
    let detached = test_node.plan(&drain(), 100);
    assert!(detached.done, "what a Pod that stays uses is not awaited: {detached:?}");
}

// case: group K20
#[test]
fn a_machine_that_is_gone_ends_its_drain_unless_its_node_still_answers() {
    let mut test_node = TestNode::of([pod("a")]);
    for (ready, shut_down, done) in
        [(true, true, false), (false, false, false), (true, false, false), (false, true, true)]
    {
        test_node.node = Some(Node { ready, shut_down, ..cordoned() });
        let plan = test_node.plan(&drain(), 10);
        assert_eq!(plan.done, done, "ready: {ready}, shut down: {shut_down}");
        assert_eq!(plan.steps.is_empty(), done, "otherwise it is kept at");
    }
}

#[test]
fn messages_are_short_and_stay_the_same() {
    let mut test_node = TestNode::of((0..50).map(|n| pod(&format!("web-{n:02}"))));
    test_node.record_attempt("uid-web-49", false, Some(&"é".repeat(5000)), 0);
    test_node.record_attempt("uid-web-48", false, Some("no"), 0);
    let words = test_node.plan(&drain(), 0).message;
    assert!(words.starts_with("Waits for 50 Pods: shop/web-48 (no); shop/web-49 (ééé"), "{words}");
    assert!(words.ends_with("…); shop/web-00; 47 more."), "{words}");
    assert!(words.chars().count() < 300, "{words}");
    test_node.record_attempt("uid-web-48", false, Some("no"), 9);
    assert_eq!(test_node.plan(&drain(), 9).message, words, "another attempt is no news");
}

#[test]
fn pauses_grow_and_differ() {
    let pause = |attempts: &EvictionAttempts, from: i64| attempts.retry_at.duration_since(at(from));
    let mut attempts: Option<EvictionAttempts> = None;
    for longest in [2, 4, 8, 10, 10, 10] {
        let next = EvictionAttempts::after(attempts.as_ref(), "uid", false, None, at(0));
        let (pause, longest) = (pause(&next, 0), SignedDuration::from_secs(longest));
        assert!(pause >= longest / 2 && pause <= longest, "{pause:?} of {longest:?}");
        attempts = Some(next);
    }
    let first = |uid: &str| EvictionAttempts::after(None, uid, false, None, at(0)).retry_at;
    let mut firsts: Vec<_> = (0..100).map(|n| first(&n.to_string())).collect();
    firsts.sort();
    firsts.dedup();
    assert!(firsts.len() > 50, "{} of 100 differ", firsts.len());
    let forced = EvictionAttempts::after(attempts.as_ref(), "uid", true, None, at(0));
    assert_eq!(forced.count, 1, "being told to go begins anew");
}
