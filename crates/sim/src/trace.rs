//! A fingerprint of everything that was written, notified and uploaded. Two runs of a seed have the same.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// The fingerprint so far. Clones share it.
///
/// The order of independent tasks within one instant is not drawn from the seed. So events are added up
/// with their times instead of being chained, and uids and resource versions, which are given in that
/// order, are left out.
#[derive(Debug, Clone)]
pub struct Trace {
    begin: Instant,
    sum: Arc<AtomicU64>,
}

impl Trace {
    /// Times are counted from now.
    pub fn starting_now() -> Self {
        Self { begin: Instant::now(), sum: Arc::default() }
    }

    pub fn add(&self, text: &str) {
        let mut hasher = DefaultHasher::new();
        self.begin.elapsed().hash(&mut hasher);
        without_ids(text).hash(&mut hasher);
        self.sum.fetch_add(hasher.finish(), Ordering::Relaxed);
    }

    pub fn fingerprint(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }
}

/// A text without uids, digests and versions of objects.
fn without_ids(text: &str) -> String {
    const VERSION: &str = "\"resourceVersion\":\"";
    const MIN_ID_LENGTH: usize = 16;
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let drawn = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c) || c == '-';
        let end = rest.find(|c| !drawn(c)).unwrap_or(rest.len());
        if end < MIN_ID_LENGTH && !kept.ends_with(VERSION) {
            kept.push_str(&rest[..end]);
        }
        let next = rest[end..].find(drawn).map_or(rest.len(), |at| end + at);
        kept.push_str(&rest[end..next]);
        rest = &rest[next..];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_and_versions_are_left_out_and_nothing_else() {
        let uid = "0b0e8f0c-1111-4222-8333-444455556666";
        let text = format!(r#"{{"uid":"{uid}","resourceVersion":"71","at":"2030-01-02","n":71}}"#);
        let expected = r#"{"uid":"","resourceVersion":"","at":"2030-01-02","n":71}"#;
        assert_eq!(without_ids(&text), expected);
        assert_eq!(without_ids("one.0123456789abcdef é"), "one. é");
        assert_eq!(without_ids(""), "");
    }

    #[tokio::test(start_paused = true)]
    async fn it_tells_what_happened_when_and_not_in_which_order() {
        let run = |first: &'static str, second: &'static str, pause: u64| async move {
            let trace = Trace::starting_now();
            trace.add(first);
            tokio::time::sleep(std::time::Duration::from_secs(pause)).await;
            trace.add(second);
            trace.fingerprint()
        };
        assert_eq!(run("a", "b", 0).await, run("b", "a", 0).await);
        assert_ne!(run("a", "b", 1).await, run("b", "a", 1).await);
        assert_ne!(run("a", "b", 1).await, run("a", "b", 2).await);
    }
}
