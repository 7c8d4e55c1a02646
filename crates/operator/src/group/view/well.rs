//! Whether a machine was seen to be well and nothing was heard of it since. Whenever something
//! happens to one machine of a large group, nothing has happened to thousands of others.

use std::sync::atomic::{AtomicU8, Ordering};

/// What is known of a machine since it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct Well(AtomicU8);

/// It has to be looked at.
const UNKNOWN: u8 = 0;
/// Somebody looks at it, and nothing was heard of it since.
const LOOKED_AT: u8 = 1;
/// It was well when it was looked at, and nothing was heard of it since.
const WELL: u8 = 2;

impl Well {
    pub(crate) fn holds(&self) -> bool {
        self.0.load(Ordering::Acquire) == WELL
    }

    /// Before it is looked at.
    pub(crate) fn begin(&self) {
        self.0.store(LOOKED_AT, Ordering::Release);
    }

    /// It was found well. That counts only if nothing was heard of it meanwhile.
    pub(crate) fn found(&self) {
        let _ = self.0.compare_exchange(LOOKED_AT, WELL, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Something was heard of it.
    pub(crate) fn stir(&self) {
        self.0.store(UNKNOWN, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_during_a_look_counts() {
        let well = Well::default();
        well.found();
        assert!(!well.holds(), "nobody looked");
        well.begin();
        well.stir();
        well.found();
        assert!(!well.holds());
        well.begin();
        well.found();
        assert!(well.holds());
        well.stir();
        assert!(!well.holds());
    }

    /// Whoever stands for itself since a moment ago may still be looked at as its group's.
    #[test]
    fn of_two_looks_the_one_that_found_something_counts() {
        for well_first in [true, false] {
            let well = Well::default();
            well.begin();
            well.stir();
            well.begin();
            let ends: [&dyn Fn(); 2] = [&|| well.found(), &|| well.stir()];
            ends[usize::from(!well_first)]();
            ends[usize::from(well_first)]();
            assert!(!well.holds(), "well first: {well_first}");
        }
    }
}
