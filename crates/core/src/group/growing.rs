//! Machines that are missing.

use super::reason::Reason;
use super::roster::Roster;
use super::turn::Turn;

/// Reserves names for what the group lacks, as far as there is room for it.
pub(super) fn grow(roster: &mut Roster<'_>, turn: &mut Turn) {
    let intent = roster.intent;
    let missing = intent.size.saturating_sub(roster.ledger.staying);
    if missing == 0 {
        return;
    }
    turn.because(Reason::ScalesUp { by: missing });
    let most = roster.most_growing();
    for _ in 0..missing {
        if roster.ledger.total() >= most {
            turn.because(Reason::NoRoom { most });
            return;
        }
        if let Err(reason) = roster.can_make(turn) {
            turn.because(reason);
            return;
        }
        roster.reserve(None, turn);
    }
}
