//! Machines that are missing.

use super::decision_builder::DecisionBuilder;
use super::reason::Reason;
use super::roster::Roster;

/// Reserves names for what the group lacks, as far as there is room for it.
pub(super) fn scale_up(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    let intent = roster.intent;
    let missing = intent.size.saturating_sub(roster.counts.staying);
    if missing == 0 {
        return;
    }
    builder.add_reason(Reason::ScalesUp { by: missing });
    let max = roster.max_total();
    for _ in 0..missing {
        if roster.counts.total() >= max {
            builder.add_reason(Reason::NoRoom { max });
            return;
        }
        if let Err(reason) = roster.can_create(builder) {
            builder.add_reason(reason);
            return;
        }
        roster.reserve(None, builder);
    }
}
