//! A cluster that is deleted: its machines are left as they are, and so are copies that only we hold, unless
//! somebody wrote that they are to go with it.

use super::super::effect::Effect;
use super::super::machine::Stopped;
use super::super::power::Conditions;
use super::super::reason::Reason;
use super::announcing;
use super::builder::Builder;
use crate::known::Known;

pub(super) fn decide(builder: &mut Builder<'_>) {
    builder.because(Reason::Deleting);
    announcing::leave(builder);
    let was_told = builder.next.conditions == Some(Conditions::DELETED);
    builder.next.conditions = Some(Conditions::DELETED);
    builder.next.power_write = None;
    let records = builder.seen.records.as_ref();
    if builder.intent.preserve_on_delete || !builder.intent.has_finalizer {
        if records.is().is_some() {
            builder.because(Reason::RecordsKept);
            if !was_told {
                builder.effects.push(Effect::TellRecordsKept);
            }
        }
        if builder.intent.has_finalizer {
            builder.effects.push(Effect::RemoveFinalizer);
        }
        return;
    }
    match records {
        Known::Absent => builder.effects.push(Effect::RemoveFinalizer),
        Known::Is(_) => {
            builder.effects.push(Effect::RemoveRecords);
            builder.wake_at(builder.settings.retry.after_call(1, builder.now));
        }
        Known::Unknown => builder.wake_at(builder.settings.retry.after_call(1, builder.now)),
    }
}

/// Has the object held, or let go, as its spec says now.
pub(super) fn prepare(builder: &mut Builder<'_>) {
    let removes = builder.intent.stopped() == Some(Stopped::Removed);
    let wanted = removes && !builder.intent.preserve_on_delete;
    if builder.intent.observe || wanted == builder.intent.has_finalizer {
        return;
    }
    builder.effects.push(if wanted { Effect::AddFinalizer } else { Effect::RemoveFinalizer });
}
