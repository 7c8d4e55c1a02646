//! Whether a machine was seen healthy and nothing was heard of it since. Whenever something
//! happens to one machine of a large group, nothing has happened to thousands of others.

use std::sync::atomic::{AtomicU8, Ordering};

/// What is known of a machine since it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct SeenHealthy(AtomicU8);

/// It has to be looked at.
const UNKNOWN: u8 = 0;
/// Somebody looks at it, and nothing was heard of it since.
const CHECKING: u8 = 1;
/// It was healthy when it was looked at, and nothing was heard of it since.
const HEALTHY: u8 = 2;

impl SeenHealthy {
    pub(crate) fn is_valid(&self) -> bool {
        self.0.load(Ordering::Acquire) == HEALTHY
    }

    /// Before it is looked at.
    pub(crate) fn begin_check(&self) {
        self.0.store(CHECKING, Ordering::Release);
    }

    /// It was found healthy. That counts only if nothing was heard of it meanwhile.
    pub(crate) fn confirm(&self) {
        let _ = self.0.compare_exchange(CHECKING, HEALTHY, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Something was heard of it.
    pub(crate) fn invalidate(&self) {
        self.0.store(UNKNOWN, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_during_a_look_counts() {
        let seen_healthy = SeenHealthy::default();
        seen_healthy.confirm();
        assert!(!seen_healthy.is_valid(), "nobody looked");
        seen_healthy.begin_check();
        seen_healthy.invalidate();
        seen_healthy.confirm();
        assert!(!seen_healthy.is_valid());
        seen_healthy.begin_check();
        seen_healthy.confirm();
        assert!(seen_healthy.is_valid());
        seen_healthy.invalidate();
        assert!(!seen_healthy.is_valid());
    }

    /// A machine whose group has just gone may still be looked at as one of that group.
    #[test]
    fn of_two_looks_the_one_that_found_something_counts() {
        for well_first in [true, false] {
            let seen_healthy = SeenHealthy::default();
            seen_healthy.begin_check();
            seen_healthy.invalidate();
            seen_healthy.begin_check();
            let ends: [&dyn Fn(); 2] = [&|| seen_healthy.confirm(), &|| seen_healthy.invalidate()];
            ends[usize::from(!well_first)]();
            ends[usize::from(well_first)]();
            assert!(!seen_healthy.is_valid(), "well first: {well_first}");
        }
    }
}
