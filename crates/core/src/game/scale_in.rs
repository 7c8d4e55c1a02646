//! Which members go when there are too many. Those that go are marked: they take no new players, and end when they
//! are empty.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::server::Server;
use crate::spread::hash;

/// So many members to mark, those that nobody misses first: not ready, empty, of an old template, on the emptiest node,
/// with the fewest players. Which of equals goes depends on the generation, so that it is not always the same one.
pub fn victims<'a>(
    members: &[&'a Server],
    count: usize,
    revision: &str,
    generation: i64,
    now: Timestamp,
) -> Vec<&'a Server> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for node in members.iter().filter_map(|member| member.node.as_deref()) {
        *on_node.entry(node).or_default() += 1;
    }
    let generation = generation.to_string();
    let order = |member: &&Server| {
        (
            member.is_available(),
            !member.is_empty(now),
            member.revision == revision,
            // One that has no node yet is on the emptiest.
            member.node.as_deref().and_then(|node| on_node.get(node)).copied().unwrap_or(0),
            member.active_players.unwrap_or(0),
            hash(&[&member.uid, &generation]),
        )
    };
    let mut candidates: Vec<&Server> =
        members.iter().copied().filter(|member| !member.marked_for_deletion).collect();
    candidates.sort_by_cached_key(order);
    candidates.truncate(count);
    candidates
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::game::server::{SdkState, ServerHealth};
    use crate::game::test_server::{REVISION, ready_server as ready};

    fn names(members: &[Server], count: usize, generation: i64) -> Vec<&str> {
        let members: Vec<&Server> = members.iter().collect();
        let chosen = victims(&members, count, REVISION, generation, Timestamp::UNIX_EPOCH);
        chosen.iter().map(|one| one.name.as_str()).collect()
    }

    // case: game S10, A07, A08, A10
    #[test]
    fn those_that_nobody_misses_go_first() {
        let mut starting = ready("starting", "a", 0);
        starting.health = ServerHealth::Creating;
        let unscheduled = Server { node: None, ..starting.clone() };
        let unscheduled = Server { name: "unscheduled".to_owned(), ..unscheduled };
        let mut old = ready("old", "a", 0);
        "old".clone_into(&mut old.revision);
        let mut allocated = ready("allocated", "b", 0);
        allocated.sdk_state = Some(SdkState::Allocated);
        let mut reserved = ready("reserved", "a", 0);
        reserved.reserved_until = Some(Timestamp::MAX);
        let members = [
            ready("nine", "a", 9),
            allocated,
            reserved,
            ready("five", "a", 5),
            ready("lonely", "c", 0),
            ready("empty", "a", 0),
            old,
            starting,
            unscheduled,
        ];
        let order = names(&members, 9, 1);
        assert_eq!(order[..5], ["unscheduled", "starting", "old", "lonely", "empty"]);
        assert_eq!(order[5], "allocated", "its node has fewer");
        assert_eq!(order[6..], ["reserved", "five", "nine"]);
        assert_eq!(names(&members, 100, 1).len(), 9, "all of them, and it ends");
    }

    // case: game S04, S05
    #[test]
    fn of_equals_another_goes_with_every_change() {
        let members = [ready("a", "n", 0), ready("b", "n", 0)];
        let chosen: BTreeSet<_> =
            (0..20).map(|generation| names(&members, 1, generation)).collect();
        assert_eq!(chosen.len(), 2, "{chosen:?}");
        assert_eq!(names(&members, 2, 7).len(), 2);
    }
}
