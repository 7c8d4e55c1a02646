use proptest::prelude::*;

use super::*;

fn user(name: &str) -> Arc<str> {
    name.into()
}

impl Scheduler {
    #[track_caller]
    fn runs(&mut self, level: Level, name: &str, width: usize) -> u64 {
        match self.arrive(level, &user(name), width, Queueing::Bounded) {
            Arrival::Runs(id) => id,
            other => panic!("{name} does not run: {other:?}"),
        }
    }

    #[track_caller]
    fn waits(&mut self, level: Level, name: &str, width: usize) -> u64 {
        match self.arrive(level, &user(name), width, Queueing::Bounded) {
            Arrival::Waits { id, evicted: None } => id,
            other => panic!("{name} does not wait: {other:?}"),
        }
    }

    /// Takes seats as `name` until there are none for them; returns who holds them.
    fn fill(&mut self, level: Level, name: &str) -> Vec<u64> {
        let mut held = Vec::new();
        loop {
            match self.arrive(level, &user(name), 1, Queueing::Bounded) {
                Arrival::Runs(id) => held.push(id),
                Arrival::Waits { id, .. } => {
                    assert_eq!(self.leave(id), [0; 0]);
                    return held;
                }
                Arrival::Refused => panic!("the queue is empty"),
            }
        }
    }
}

#[test]
fn one_user_has_half_of_what_their_level_can_get() {
    let mut scheduler = Scheduler::new(600);
    // 600 without the 60 that are kept for the reserved level.
    assert_eq!(scheduler.fill(Level::Workload, "greedy").len(), 270);
    scheduler.runs(Level::Workload, "other", 75);
    scheduler.runs(Level::Reserved, "node", 1);
}

#[test]
fn half_of_a_levels_seats_are_never_lent() {
    let mut scheduler = Scheduler::new(600);
    let taken: usize =
        ["a", "b", "c"].map(|name| scheduler.fill(Level::Workload, name).len()).iter().sum();
    assert_eq!(taken, 540);
    for _ in 0..60 {
        scheduler.runs(Level::Reserved, "node", 1);
    }
    scheduler.waits(Level::Reserved, "node", 1);
}

#[test]
fn lent_seats_are_taken_back_as_they_free() {
    let mut scheduler = Scheduler::new(600);
    let mut lent = scheduler.fill(Level::Workload, "a");
    lent.extend(scheduler.fill(Level::Workload, "b"));
    let own = scheduler.fill(Level::Reserved, "node");
    assert_eq!((lent.len(), own.len()), (540, 60));
    let greedy = scheduler.waits(Level::Workload, "c", 1);
    for _ in 0..60 {
        let waiting = scheduler.waits(Level::Reserved, "node", 1);
        let end = lent.pop().unwrap();
        assert_eq!(scheduler.leave(end), [waiting]);
    }
    // Both have what is theirs.
    scheduler.waits(Level::Reserved, "node", 1);
    assert_eq!(scheduler.occupancy(Level::Reserved).seats, 120);
    assert_eq!(scheduler.leave(lent.pop().unwrap()), [greedy]);
}

#[test]
fn users_take_turns_and_each_users_requests_keep_their_order() {
    let mut scheduler = Scheduler::new(2);
    let mut running = scheduler.runs(Level::Workload, "a", 1);
    let mut expected = Vec::new();
    let a: Vec<u64> = (0..3).map(|_| scheduler.waits(Level::Workload, "a", 1)).collect();
    let b: Vec<u64> = (0..3).map(|_| scheduler.waits(Level::Workload, "b", 1)).collect();
    for (a, b) in a.iter().zip(&b) {
        expected.extend([*b, *a]);
    }
    let mut order = Vec::new();
    while let [next] = scheduler.leave(running)[..] {
        order.push(next);
        running = next;
    }
    assert_eq!(order, expected, "b came later, and had nothing yet");
}

#[test]
fn a_wide_request_gets_its_seats_although_narrow_ones_keep_coming() {
    let mut scheduler = Scheduler::new(80);
    let mut narrow = scheduler.fill(Level::Workload, "a");
    narrow.extend(scheduler.fill(Level::Workload, "b"));
    assert_eq!(narrow.len(), 72);
    let wide = scheduler.waits(Level::Workload, "wide", 1_000);
    let mut ran = false;
    for id in narrow {
        scheduler.waits(Level::Workload, "c", 1);
        ran |= scheduler.leave(id).contains(&wide);
        if ran {
            break;
        }
    }
    assert!(ran, "{scheduler:?}");
}

#[test]
fn a_users_queue_is_short_and_another_users_place_is_not_taken_by_it() {
    let mut scheduler = Scheduler::new(2);
    scheduler.runs(Level::Workload, "a", 1);
    for _ in 0..MAX_QUEUED_PER_USER {
        scheduler.waits(Level::Workload, "a", 1);
    }
    let full = scheduler.arrive(Level::Workload, &user("a"), 1, Queueing::Bounded);
    assert_eq!(full, Arrival::Refused);
    scheduler.waits(Level::Workload, "b", 1);
    // What has begun is not refused.
    let piece = scheduler.arrive(Level::Workload, &user("a"), 1, Queueing::Unbounded);
    assert!(matches!(piece, Arrival::Waits { .. }), "{piece:?}");
}

#[test]
fn when_too_many_wait_the_longest_queue_gives_up_its_last() {
    let mut scheduler = Scheduler::new(2);
    scheduler.runs(Level::Workload, "first", 1);
    let mut last = 0;
    for number in 0..MAX_QUEUED / MAX_QUEUED_PER_USER {
        for _ in 0..MAX_QUEUED_PER_USER {
            last = scheduler.waits(Level::Workload, &format!("u{number}"), 1);
        }
    }
    let arrival = scheduler.arrive(Level::Workload, &user("late"), 1, Queueing::Bounded);
    let Arrival::Waits { evicted: Some(evicted), .. } = arrival else { panic!("{arrival:?}") };
    assert_eq!(evicted, last);
    assert_eq!(scheduler.occupancy(Level::Workload).queued, MAX_QUEUED);
}

#[derive(Debug, Clone)]
enum Step {
    Arrive {
        level: Level,
        user: u8,
        width: usize,
    },
    /// Ends or gives up the request that is this far along.
    Leave(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let level = prop_oneof![Just(Level::Reserved), Just(Level::Workload)];
    let arrive = (level, 0..6_u8, 1..20_usize).prop_map(|(level, user, width)| Step::Arrive {
        level,
        user,
        width,
    });
    let leave = any::<prop::sample::Index>().prop_map(Step::Leave);
    prop::collection::vec(prop_oneof![3 => arrive, 2 => leave], 1..300)
}

/// What must hold whenever nobody is in the middle of a change.
fn check(scheduler: &mut Scheduler, running: &[u64], waiting: &[u64]) {
    assert_eq!(scheduler.requests.len(), running.len() + waiting.len());
    let mut in_use = [0, 0];
    for id in running {
        assert!(scheduler.requests[id].runs, "{id} was told to run");
        in_use[scheduler.requests[id].level.index()] += scheduler.requests[id].width;
    }
    for id in waiting {
        assert!(!scheduler.requests[id].runs, "{id} runs and was not told");
    }
    for level in Level::ALL {
        let state = scheduler.level(level);
        assert_eq!(state.in_use, in_use[level.index()], "a seat was lost");
        let of_flows: usize = state.flows.values().map(|flow| flow.in_use).sum();
        assert_eq!(state.in_use, of_flows);
        let queued: usize = state.flows.values().map(|flow| flow.queue.len()).sum();
        assert_eq!(state.queued, queued);
        assert!(state.flows.values().all(|flow| flow.queue.len() <= MAX_QUEUED_PER_USER));
        assert!(state.flows.values().all(|flow| flow.in_use + flow.queue.len() > 0));
        let other = scheduler.level(level.other());
        assert!(state.in_use.max(state.never_lent()) + other.in_use <= scheduler.seats);
    }
    assert_eq!(scheduler.run_waiting(), [0; 0], "seats are free and somebody waits for them");
}

proptest! {
    #[test]
    fn no_seat_is_lost_and_nobody_waits_for_ever(seats in 1..120_usize, steps in steps()) {
        let mut scheduler = Scheduler::new(seats);
        let (mut running, mut waiting) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Arrive { level, user: number, width } => {
                    let name = user(&format!("u{number}"));
                    match scheduler.arrive(level, &name, width, Queueing::Bounded) {
                        Arrival::Runs(id) => running.push(id),
                        Arrival::Waits { id, .. } => waiting.push(id),
                        Arrival::Refused => {}
                    }
                }
                Step::Leave(index) => {
                    let all: Vec<u64> = running.iter().chain(&waiting).copied().collect();
                    if all.is_empty() {
                        continue;
                    }
                    let id = *index.get(&all);
                    running.retain(|other| *other != id);
                    waiting.retain(|other| *other != id);
                    let woken = scheduler.leave(id);
                    waiting.retain(|other| !woken.contains(other));
                    running.extend(woken);
                }
            }
            check(&mut scheduler, &running, &waiting);
        }
        // Whoever runs ends one day: then everybody who waits has run.
        while let Some(id) = running.pop() {
            let woken = scheduler.leave(id);
            waiting.retain(|other| !woken.contains(other));
            running.extend(woken);
            check(&mut scheduler, &running, &waiting);
        }
        prop_assert!(waiting.is_empty(), "{waiting:?} still wait in {scheduler:?}");
        prop_assert!(scheduler.levels.iter().all(|level| level.flows.is_empty()));
    }

    /// However much others ask for, who arrives waits for one request of each of them at most.
    #[test]
    fn a_newcomer_waits_for_one_request_of_every_user(
        users in 1..20_usize,
        widths in prop::collection::vec(1..80_usize, 1..200),
    ) {
        let mut scheduler = Scheduler::new(80);
        let mut running = Vec::new();
        for (number, width) in widths.iter().cycle().take(1_000).enumerate() {
            let name = user(&format!("u{}", number % users));
            if let Arrival::Runs(id) =
                scheduler.arrive(Level::Workload, &name, *width, Queueing::Bounded)
            {
                running.push(id);
            }
        }
        let mine = match scheduler.arrive(Level::Workload, &user("me"), 1, Queueing::Bounded) {
            Arrival::Runs(_) => return Ok(()),
            Arrival::Waits { id, .. } => id,
            Arrival::Refused => panic!("the newcomer has nothing in the queue"),
        };
        let mut before = 0;
        'ended: loop {
            prop_assert!(!running.is_empty());
            for id in scheduler.leave(running.remove(0)) {
                if id == mine {
                    break 'ended;
                }
                before += 1;
                running.push(id);
            }
        }
        prop_assert!(before <= users, "{before} of {users} users went first");
    }
}
