//! A power state that we write ourselves: on record first, then written, then found in the spec.

use super::super::effect::Effect;
use super::super::operation::Trigger;
use super::super::power::Wanted;
use super::super::reason::Reason;
use super::super::state::PowerWrite;
use super::builder::Builder;

/// What became of a power state that was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// There was none, or it is still to be written.
    No,
    /// The spec has it.
    Yes(Trigger),
    /// Somebody wrote another spec first.
    Overtaken(Trigger),
}

/// Has what is on record written, until the spec has it or somebody wrote another one.
pub(super) fn settle(builder: &mut Builder<'_>) -> Written {
    let Some(write) = builder.stored.power_write else { return Written::No };
    if builder.intent.wanted == write.to {
        builder.next.power_write = None;
        return Written::Yes(write.trigger);
    }
    if builder.intent.generation != write.generation {
        builder.next.power_write = None;
        return Written::Overtaken(write.trigger);
    }
    if builder.intent.observe || is_kept(builder, write) {
        builder.next.power_write = None;
        return Written::No;
    }
    let PowerWrite { to, trigger, generation } = write;
    builder.effects.push(Effect::WritePowerState { to, trigger, generation });
    builder.wake_at(builder.settings.retry.after_call(1, builder.now));
    Written::No
}

/// Whether the owner asked, just in time, to keep what was to hibernate by itself.
fn is_kept(builder: &Builder<'_>, write: PowerWrite) -> bool {
    let by_itself = match write.trigger {
        Trigger::Timer | Trigger::Schedule => true,
        Trigger::User
        | Trigger::RollBack
        | Trigger::Drift
        | Trigger::Adopted
        | Trigger::Unpaused => false,
    };
    by_itself
        && write.to == Wanted::Hibernating
        && builder.next.keep.active_until(builder.now).is_some()
}

/// Writes down that a power state is to be written.
pub(super) fn ask(builder: &mut Builder<'_>, to: Wanted, trigger: Trigger, why: Reason) {
    builder.because(why);
    let generation = builder.intent.generation;
    builder.next.power_write = Some(PowerWrite { to, trigger, generation });
    builder.wake_now();
}
