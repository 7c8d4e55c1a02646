//! What is said about a drain: short, and the same for as long as nothing changes.

use std::collections::BTreeMap;

use super::observed::{EvictionAttempts, Pod, Volume};

pub(super) const NODE_UNKNOWN: &str = "It is not known yet whether the cluster has its Node.";
pub(super) const NODE_ABSENT: &str = "The cluster has no Node for it any more.";
pub(super) const NODE_NEVER_SEEN: &str =
    "No Node of this cluster was ever seen to be it: is this agent meant for another cluster?";
pub(super) const SHUT_DOWN: &str = "Its machine is shut down, and its Node is not ready.";
pub(super) const CORDONING: &str = "The Node is being cordoned.";
pub(super) const PODS_UNKNOWN: &str = "It is not known yet which Pods the Node has.";
pub(super) const SETTLING: &str = "The Node is empty, and was cordoned a moment ago.";
pub(super) const VOLUMES_UNKNOWN: &str =
    "All Pods are gone. It is not known yet which volumes are attached.";

/// So many Pods or volumes are named.
const MAX_NAMED: usize = 3;
/// So much of a refusal is repeated, in characters.
const MAX_REFUSAL_CHARS: usize = 160;

/// Which Pods are waited for; those that were refused come first.
pub(super) fn pods(to_go: &[&Pod], attempts: &BTreeMap<String, EvictionAttempts>) -> String {
    let refusal =
        |pod: &Pod| attempts.get(&pod.uid).and_then(|attempts| attempts.refusal.as_deref());
    let mut named: Vec<(bool, String)> = to_go
        .iter()
        .map(|pod| match refusal(pod).filter(|_| pod.leaves_at.is_none()) {
            Some(refusal) => (false, format!("{} ({})", pod.key, cut(refusal))),
            None if pod.leaves_at.is_some() => (true, format!("{} (leaving)", pod.key)),
            None => (true, pod.key.to_string()),
        })
        .collect();
    named.sort();
    let named = named.into_iter().map(|(_, name)| name).collect();
    format!("Waits for {}: {}.", count(to_go.len(), "Pod"), list(named))
}

pub(super) fn volumes(attached: &[&Volume]) -> String {
    let named = attached.iter().map(|volume| volume.name.clone()).collect();
    let count = count(attached.len(), "attached volume");
    format!("All Pods are gone. Waits for {count}: {}.", list(named))
}

/// What is said at the end.
pub(super) fn emptied(attached: &[&Volume]) -> String {
    if attached.is_empty() {
        return "All Pods are gone, and no volume is attached.".to_owned();
    }
    let named = attached.iter().map(|volume| volume.name.clone()).collect();
    format!("All Pods are gone. Still attached at the deadline: {}.", list(named))
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn list(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join("; ")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_REFUSAL_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
