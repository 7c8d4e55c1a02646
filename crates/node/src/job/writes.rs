//! Writes that are under way, and what the watches told meanwhile.
//!
//! An answer is a picture of an object at the moment of the write. It may come after the watches have
//! told that the object is gone, which they do once: taken for news, it would show for ever what is
//! not there, and a Job would wait for a Pod that nobody has.

use std::collections::{BTreeSet, HashMap};

/// A write that was sent and not answered yet. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write(u64);

#[derive(Debug, Default)]
pub(super) struct Writes {
    /// How many there have been.
    sent: u64,
    open: BTreeSet<Write>,
    /// What went, by uid, while the writes up to this one were under way or answered. It is forgotten
    /// with the last of them.
    gone: HashMap<String, Write>,
    /// The last write that was sent before a list began.
    before_list: Option<Write>,
}

impl Writes {
    pub(super) fn begin(&mut self) -> Write {
        self.sent += 1;
        let write = Write(self.sent);
        self.open.insert(write);
        write
    }

    /// Something is gone: an event told of it, or a list did not show it.
    pub(super) fn record_deletion(&mut self, uid: &str) {
        if !self.open.is_empty() {
            self.gone.insert(uid.to_owned(), Write(self.sent));
        }
    }

    /// From here on a list is read. What it does not show may have been made and have gone before.
    pub(super) fn begin_list(&mut self) {
        self.before_list = Some(Write(self.sent));
    }

    /// Whether the watches know more of this object than the answer of that write.
    pub(super) fn is_overtaken(&self, write: Write, uid: &str) -> bool {
        self.before_list.is_some_and(|last| write <= last)
            || self.gone.get(uid).is_some_and(|last| write <= *last)
    }

    pub(super) fn end(&mut self, write: Write) {
        self.open.remove(&write);
        match self.open.first() {
            None => self.gone.clear(),
            Some(oldest) => self.gone.retain(|_, last| *last >= *oldest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_is_remembered_as_long_as_an_answer_may_speak_of_it() {
        let mut writes = Writes::default();
        writes.record_deletion("before");
        let first = writes.begin();
        writes.record_deletion("a");
        let second = writes.begin();
        assert!(writes.is_overtaken(first, "a") && !writes.is_overtaken(second, "a"));
        assert!(!writes.is_overtaken(first, "before"), "no answer can speak of it any more");
        writes.record_deletion("b");
        writes.end(first);
        assert!(!writes.gone.contains_key("a") && writes.is_overtaken(second, "b"));
        writes.end(second);
        assert!(writes.gone.is_empty() && writes.open.is_empty());
    }

    #[test]
    fn a_list_is_newer_than_every_write_before_it() {
        let mut writes = Writes::default();
        let before = writes.begin();
        writes.begin_list();
        let after = writes.begin();
        assert!(writes.is_overtaken(before, "x") && !writes.is_overtaken(after, "x"));
    }
}
