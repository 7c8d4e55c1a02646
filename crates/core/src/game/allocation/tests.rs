use proptest::prelude::*;

use super::*;
use crate::game::server::ServerHealth;
use crate::game::test_server::ready_server;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + seconds).expect("in range")
}

fn key(name: &str) -> Key {
    Key::new("play", name)
}

fn candidate(name: &str, node: &str, players: u32) -> Candidate {
    Candidate {
        server: ready_server(name, node, players),
        labels: BTreeMap::new(),
        counters: BTreeMap::new(),
        collection: "arena".into(),
        max_players: 10,
        takes_grants: true,
    }
}

fn index(candidates: impl IntoIterator<Item = Candidate>) -> AllocationIndex {
    let mut index = AllocationIndex::default();
    for one in candidates {
        let key = key(&one.server.name);
        index.upsert(&key, Some(one), at(0));
    }
    index
}

fn whole(request_id: &str) -> AllocationRequest {
    AllocationRequest {
        request_id: request_id.to_owned(),
        namespace: "play".to_owned(),
        collection: Some("arena".to_owned()),
        ..AllocationRequest::default()
    }
}

fn seats(request_id: &str, seats: u32) -> AllocationRequest {
    AllocationRequest { seats: Some(seats), ..whole(request_id) }
}

fn ask(index: &mut AllocationIndex, request: &AllocationRequest) -> Result<String, Misses> {
    let id = format!("grant-{}", request.request_id);
    index.allocate(request, &id, at(60), at(0)).map(|given| given.server.name.to_string())
}

// case: game S69, A21, A25
#[test]
fn no_server_is_given_twice_and_nothing_is_given_when_none_is_left() {
    let mut index = index((0..100).map(|n| candidate(&format!("s{n:03}"), "n", 0)));
    let given: BTreeSet<String> =
        (0..100).map(|n| ask(&mut index, &whole(&n.to_string())).expect("one is left")).collect();
    assert_eq!(given.len(), 100);
    let misses = Misses { servers: 100, occupied: 100, ..Misses::default() };
    assert_eq!(ask(&mut index, &whole("late")), Err(misses));
}

#[test]
fn the_same_request_is_given_the_same_until_its_lease_ends() {
    let mut index = index([candidate("a", "n", 0), candidate("b", "n", 0)]);
    let first = index.allocate(&whole("r"), "g1", at(60), at(0)).expect("one is free");
    let again = index.allocate(&whole("r"), "g2", at(90), at(30)).expect("it is the same");
    assert_eq!((again.repeated, &again.grant), (true, &first.grant));
    let elsewhere = AllocationRequest { namespace: "other".to_owned(), ..whole("r") };
    assert!(index.allocate(&elsewhere, "g3", at(60), at(0)).is_err(), "ids are a namespace's own");
    let later = index.allocate(&whole("r"), "g4", at(120), at(60)).expect("one is free");
    assert!(!later.repeated);
}

// case: game A22, A23
#[test]
fn the_first_selector_that_finds_one_decides() {
    let labelled = |name: &str, track: &str| {
        let mut one = candidate(name, "n", 0);
        one.labels.insert("track".to_owned(), track.to_owned());
        one
    };
    let mut index =
        index([labelled("a", "stable"), labelled("b", "canary"), labelled("c", "stable")]);
    let track = |track: &str| Selector {
        labels: [("track".to_owned(), track.to_owned())].into(),
        ..Selector::default()
    };
    let request = |id: &str| AllocationRequest {
        selectors: vec![track("canary"), track("stable")],
        ..whole(id)
    };
    let given: Vec<_> = (0..3).map(|n| ask(&mut index, &request(&n.to_string()))).collect();
    assert_eq!(given, ["b", "a", "c"].map(|name| Ok(name.to_owned())));
}

// case: game A23
#[test]
fn seats_fill_a_server_before_another_is_opened_and_never_more_than_it_has() {
    let mut index = index([candidate("empty", "a", 0), candidate("busy", "b", 7)]);
    assert_eq!(ask(&mut index, &seats("1", 2)), Ok("busy".to_owned()));
    assert_eq!(ask(&mut index, &seats("2", 2)), Ok("empty".to_owned()), "one seat is left");
    assert_eq!(ask(&mut index, &seats("3", 1)), Ok("busy".to_owned()));
    assert_eq!(ask(&mut index, &seats("4", 8)), Ok("empty".to_owned()));
    let misses = Misses { servers: 2, occupied: 2, ..Misses::default() };
    assert_eq!(ask(&mut index, &seats("5", 1)), Err(misses));
    assert_eq!(ask(&mut index, &whole("6")), Err(misses));
}

#[test]
fn one_that_keeps_itself_for_somebody_or_comes_to_its_end_is_given_no_seats() {
    let with = |change: fn(&mut Server)| {
        let mut one = candidate("a", "n", 1);
        change(&mut one.server);
        index([one])
    };
    for mut index in [
        with(|server| server.sdk_state = Some(SdkState::Reserved)),
        with(|server| server.reserved_until = Some(at(30))),
        with(|server| server.sdk_state = Some(SdkState::Shutdown)),
        with(|server| server.state = ServerState::PostMatch),
    ] {
        let misses = Misses { servers: 1, occupied: 1, ..Misses::default() };
        assert_eq!(ask(&mut index, &seats("r", 1)), Err(misses));
    }
    let mut allocated = with(|server| server.sdk_state = Some(SdkState::Allocated));
    assert_eq!(ask(&mut allocated, &seats("r", 1)), Ok("a".to_owned()));
}

#[test]
fn what_could_not_be_written_down_is_free_again() {
    let mut index = index([candidate("a", "n", 0)]);
    let given = index.allocate(&whole("r"), "g", at(60), at(0)).expect("it is free");
    assert!(ask(&mut index, &whole("other")).is_err());
    index.cancel(&given.server, "g", at(0));
    let again = index.allocate(&whole("r"), "g2", at(60), at(0)).expect("it is free");
    assert!(!again.repeated);
}

#[test]
fn what_is_being_written_down_is_not_given_again_by_an_older_version() {
    let mut index = index([candidate("a", "n", 0)]);
    let given = index.allocate(&whole("r"), "g", at(60), at(0)).expect("it is free");
    index.upsert(&given.server, Some(candidate("a", "n", 0)), at(0));
    assert!(ask(&mut index, &whole("other")).is_err());
    assert!(index.allocate(&whole("r"), "g2", at(60), at(0)).expect("the same").repeated);
    index.confirm(&given.server, "g");
    index.upsert(&given.server, Some(candidate("a", "n", 0)), at(0));
    assert_eq!(ask(&mut index, &whole("other")), Ok("a".to_owned()), "its grant has ended");
    assert_eq!(index.by_request.len(), 1);
    let mut another = candidate("a", "n", 0);
    "uid-new".clone_into(&mut another.server.uid);
    index.upsert(&given.server, Some(another), at(0));
    assert_eq!(ask(&mut index, &whole("third")), Ok("a".to_owned()), "one of the same name");
}

#[test]
fn a_grant_of_which_nobody_knows_whether_it_was_written_is_its_requests_until_its_lease_ends() {
    let mut index = index([candidate("a", "n", 0), candidate("b", "n", 0)]);
    let given = index.allocate(&whole("r"), "g", at(60), at(0)).expect("one is free");
    let again = index.allocate(&whole("r"), "g2", at(90), at(30)).expect("the same");
    assert_eq!((&again.server, &*again.grant.id), (&given.server, "g"));
    assert!(again.repeated && !again.written, "nobody may be told before it is on record");
    let mut stored = candidate(&given.server.name, "n", 0);
    stored.server.grants.push(given.grant.clone());
    index.upsert(&given.server, Some(stored), at(30));
    assert!(index.allocate(&whole("r"), "g3", at(90), at(30)).expect("the same").written);
    index.cancel(&given.server, "g", at(30));
    let again = index.allocate(&whole("r"), "g4", at(90), at(30)).expect("the same");
    assert_eq!(again.server, given.server, "what is on record stays");
}

#[test]
fn what_nobody_wrote_down_by_the_end_of_its_lease_is_free_again() {
    let mut index = index([candidate("a", "n", 0)]);
    index.allocate(&whole("r"), "g", at(60), at(0)).expect("it is free");
    assert!(index.allocate(&whole("other"), "g2", at(90), at(59)).is_err());
    let given = index.allocate(&whole("other"), "g3", at(120), at(60)).expect("it has lapsed");
    assert!(!given.repeated);
}

#[test]
fn a_server_whose_seats_come_free_with_time_alone_is_in_the_order_once() {
    let mut index = index([candidate("a", "n", 7), candidate("b", "n", 0)]);
    let given = index.allocate(&seats("r", 2), "g", at(60), at(0)).expect("three seats are free");
    let mut stored = candidate("a", "n", 7);
    stored.server.grants.push(given.grant);
    let free_seats = |index: &AllocationIndex| -> Vec<(u32, String)> {
        let held = index.seats.values().flatten();
        held.map(|(free, (_, name))| (*free, name.to_string())).collect()
    };
    index.upsert(&key("a"), Some(stored.clone()), at(0));
    assert_eq!(free_seats(&index), [(1, "a".to_owned()), (10, "b".to_owned())]);
    index.upsert(&key("a"), Some(stored.clone()), at(60));
    assert_eq!(free_seats(&index), [(3, "a".to_owned()), (10, "b".to_owned())]);
    // It is full, and would not be at the time at which it goes.
    stored.server.grants[0].seats = None;
    stored.server.grants[0].lease_expires = at(120);
    index.upsert(&key("a"), Some(stored), at(60));
    assert_eq!(free_seats(&index), [(10, "b".to_owned())]);
    index.upsert(&key("a"), None, at(120));
    assert_eq!((free_seats(&index), index.len()), (vec![(10, "b".to_owned())], 1));
}

#[test]
fn servers_that_take_nobody_are_told_by_why() {
    let mut marked = candidate("marked", "n", 0);
    marked.server.marked_for_deletion = true;
    let mut starting = candidate("starting", "n", 0);
    starting.server.health = ServerHealth::Creating;
    let mut nowhere = candidate("nowhere", "n", 0);
    nowhere.server.address = None;
    let old = Candidate { takes_grants: false, ..candidate("old", "n", 0) };
    let mut index = index([
        marked,
        starting,
        nowhere,
        old,
        candidate("busy", "n", 3),
        candidate("free", "n", 0),
    ]);
    let named = Selector { name: Some("nobody".to_owned()), ..Selector::default() };
    let request = AllocationRequest { selectors: vec![named], ..whole("r") };
    let expected = Misses {
        servers: 6,
        marked: 1,
        not_ready: 2,
        old_template: 1,
        occupied: 1,
        not_selected: 1,
    };
    assert_eq!(ask(&mut index, &request), Err(expected));
}

#[derive(Debug, Clone)]
enum Step {
    Ask { request: u8, seats: Option<u32> },
    Cancel { request: u8 },
    Players { server: u8, players: u32 },
    Gone { server: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ask = (0_u8..40, prop::option::of(1_u32..6));
    let step = prop_oneof![
        6 => ask.prop_map(|(request, seats)| Step::Ask { request, seats }),
        1 => (0_u8..40).prop_map(|request| Step::Cancel { request }),
        2 => (0_u8..6, 0_u32..11).prop_map(|(server, players)| Step::Players { server, players }),
        1 => (0_u8..6).prop_map(|server| Step::Gone { server }),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    /// Whatever happens in whatever order, no server is given beyond what it has.
    #[test]
    fn nothing_is_given_twice(steps in steps()) {
        let mut index = index((0..6).map(|n| candidate(&n.to_string(), "n", 0)));
        for step in steps {
            match step {
                Step::Ask { request, seats: wanted } => {
                    let request = AllocationRequest { seats: wanted, ..whole(&request.to_string()) };
                    let held = index.candidates.iter();
                    let before: HashMap<Key, Candidate> =
                        held.map(|(key, held)| (key.clone(), held.candidate.clone())).collect();
                    if let Ok(given) = index.allocate(&request, &request.request_id, at(60), at(0))
                        && !given.repeated
                    {
                        let was = &before[&given.server];
                        match given.grant.seats {
                            None => prop_assert!(was.server.is_empty(at(0)), "{was:?}"),
                            Some(seats) => {
                                prop_assert!(was.server.free_seats(10, at(0)) >= seats, "{was:?}");
                            }
                        }
                    }
                }
                Step::Cancel { request } => {
                    let id = request.to_string();
                    let holder = index.by_request.get(&("play".to_owned(), id.clone())).cloned();
                    if let Some((key, grant)) = holder {
                        index.cancel(&key, &grant, at(0));
                    }
                }
                Step::Players { server, players } => {
                    let key = key(&server.to_string());
                    if let Some(held) = index.candidates.get(&key) {
                        let mut one = held.candidate.clone();
                        one.server.active_players = Some(players);
                        index.upsert(&key, Some(one), at(0));
                    }
                }
                Step::Gone { server } => index.upsert(&key(&server.to_string()), None, at(0)),
            }
            let held: usize = index.whole.values().map(BTreeSet::len).sum();
            let candidates = index.candidates.values().map(|held| &held.candidate);
            let free = candidates.filter(|one| is_whole(one, at(0))).count();
            prop_assert_eq!(held, free);
            let counted: u32 = index.counts.values().map(|one| one.servers).sum();
            prop_assert_eq!(usize::try_from(counted).unwrap(), index.len());
        }
    }
}
