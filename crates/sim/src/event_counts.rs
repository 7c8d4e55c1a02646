//! How much happened, so that a run in which nothing did is noticed.

use std::fmt;
use std::ops::AddAssign;

/// Declares what is counted, once: the field, and its name for people.
macro_rules! event_counts {
    ($($(#[$doc:meta])* $field:ident: $words:literal,)*) => {
        /// What is counted, by the simulation and not by the operator.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct EventCounts {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl EventCounts {
            /// Nothing.
            pub const fn none() -> Self {
                Self { $($field: 0,)* }
            }

            /// Everything that is counted, by name.
            const fn by_name(&self) -> [(&'static str, u64); [$($words),*].len()] {
                [$(($words, self.$field)),*]
            }

            /// So much of it as a number of runs has of another number.
            #[must_use]
            pub const fn share(&self, runs: u64, of: u64) -> Self {
                Self { $($field: self.$field * runs / of,)* }
            }
        }

        impl AddAssign for EventCounts {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

event_counts! {
    uses: "uses",
    notices: "notices",
    refused_notices: "refused notices",
    idle_stops: "stops for inactivity",
    /// What was stopped for inactivity, and is started again.
    wakes: "wakes",
    idle_deletes: "deletions for inactivity",
    expired: "expiries",
    /// Exams that were ended.
    terminated: "terminations",
    submitted: "submissions",
    /// Uploads that the server had already.
    sent_again: "submissions sent again",
    /// Machines whose guests were asked to leave.
    drains: "drains",
    /// Machines that went, of a group that goes on.
    rotations: "rotations",
    /// Clusters that came to sleep.
    hibernations: "hibernations",
    /// Clusters that came to run again.
    resumes: "resumes",
    /// Servers, or seats of one, that somebody was given.
    grants: "grants",
    /// Servers whose processes crashed.
    failures: "failures",
    /// Ends of an operator's process.
    kills: "kills",
    /// Another replica acts than the one that did.
    takeovers: "takeovers",
    /// Whole hours in which something that must be known of everybody's use was not.
    blind_hours: "blind hours",
}

impl EventCounts {
    /// What there is less of than there should be, in words.
    pub fn short_of(&self, least: &Self) -> Vec<String> {
        let both = self.by_name().into_iter().zip(least.by_name());
        both.filter(|((_, is), (_, least))| is < least)
            .map(|((name, is), (_, least))| format!("{is} {name}, of {least} at least"))
            .collect()
    }
}

impl fmt::Display for EventCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let happened = self.by_name().into_iter().filter(|(_, count)| *count > 0);
        let words: Vec<String> = happened.map(|(name, count)| format!("{count} {name}")).collect();
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_named() {
        let least = EventCounts { expired: 30, takeovers: 4, ..EventCounts::default() };
        let mut all = EventCounts { expired: 20, takeovers: 3, uses: 7, ..EventCounts::default() };
        let short = ["20 expiries, of 30 at least", "3 takeovers, of 4 at least"];
        assert_eq!(all.short_of(&least), short);
        assert_eq!(all.short_of(&least.share(3, 4)), ["20 expiries, of 22 at least"]);
        all += EventCounts { expired: 10, takeovers: 1, ..EventCounts::default() };
        assert_eq!(all.short_of(&least), Vec::<String>::new());
        assert_eq!(all.to_string(), "7 uses, 30 expiries, 4 takeovers");
    }
}
