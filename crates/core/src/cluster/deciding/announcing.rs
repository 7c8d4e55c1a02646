//! Hibernations and resumes that come by themselves, and their announcement to contacts.
//!
//! What was announced never comes earlier, but by the owner's own edit of the spec: then the announcement is void,
//! and the earlier time is announced in its turn.

use jiff::Timestamp;

use super::super::due::{self, Due, Timer};
use super::super::effect::Effect;
use super::super::operation::Trigger;
use super::super::power::Wanted;
use super::super::reason::Reason;
use super::super::state::{Action, AnnouncementStage, Firing, NoticeKind};
use super::builder::Builder;
use super::power_write::{Written, ask};
use super::steering::sync_gate;
use crate::decision::Wake;
use crate::ladder::{self, LadderContext, LadderPlan, LadderStep, Measure};
use crate::moment::saturating_sub;

/// Takes in which firings have come since the last look.
pub(super) fn remember_schedules(builder: &mut Builder<'_>, written: Written) {
    let schedules = &builder.intent.schedules;
    let memory = &builder.next.schedule;
    let same = memory.written.len() == schedules.len()
        && memory.written.iter().zip(schedules).all(|(text, schedule)| *text == schedule.text);
    let now = builder.now;
    let (Some(seen_until), true) = (memory.seen_until, same) else {
        // What a schedule would have said before it was written was never said.
        let texts = schedules.iter().map(|schedule| schedule.text.clone()).collect();
        let memory = &mut builder.next.schedule;
        memory.written = texts;
        memory.seen_until = (!schedules.is_empty()).then_some(now);
        memory.pending = None;
        return;
    };
    if let Some(firing) = due::latest_firing(schedules, seen_until, now) {
        let manual = is_overridden(builder, firing, written);
        let memory = &mut builder.next.schedule;
        memory.seen_until = Some(firing.at);
        memory.pending = (!manual).then_some(firing);
    }
    let wanted = builder.intent.wanted;
    let written_at = builder.intent.wanted_written_at;
    builder.next.schedule.pending.take_if(|firing| {
        firing.to == wanted || written_at.is_some_and(|written_at| written_at > firing.at)
    });
}

/// Whether somebody wrote another power state after that: it holds until the next firing. If nobody knows when it
/// was written, a power state that changed since the last look counts as written after.
fn is_overridden(builder: &Builder<'_>, firing: Firing, written: Written) -> bool {
    if let Some(written_at) = builder.intent.wanted_written_at {
        return written_at > firing.at;
    }
    let by_us = match written {
        Written::Yes(_) => true,
        Written::No | Written::Overtaken(_) => false,
    };
    let before = builder
        .next
        .operation_under_way()
        .map(|operation| operation.direction.wanted())
        .or_else(|| builder.next.settled());
    !by_us && before.is_some_and(|before| before != builder.intent.wanted)
}

/// What comes by itself, and what is due of it.
pub(super) fn decide(builder: &mut Builder<'_>) {
    match builder.intent.wanted {
        Wanted::Running => hibernation(builder),
        Wanted::Hibernating => {
            leave(builder);
            resumption(builder);
        }
    }
}

/// A resume comes without a warning: it takes nothing from anybody.
fn resumption(builder: &mut Builder<'_>) {
    let now = builder.now;
    if let Some(Firing { at, to: Wanted::Running }) = builder.next.schedule.pending {
        let why = Reason::Scheduled { at, to: Wanted::Running };
        if builder.intent.observe {
            return builder.foresee(Action::Resume, now, why);
        }
        return ask(builder, Wanted::Running, Trigger::Schedule, why);
    }
    if let Some(Firing { at, to }) =
        due::next_firing(&builder.intent.schedules, Wanted::Running, now)
    {
        builder.wake_at(at);
        builder.foresee(Action::Resume, at, Reason::ScheduledFor { at, to });
    }
}

fn hibernation(builder: &mut Builder<'_>) {
    let Some(mut due) = earliest_due(builder) else { return leave(builder) };
    if let Some(until) = sync_gate(builder) {
        due.at = due.at.max(until);
    }
    if let Some(until) = builder.next.keep.active_until(builder.now) {
        builder.because(Reason::KeptUntil(until));
        if due.at < until {
            due = Due { at: until, why: Reason::KeptUntil(until), ..due };
        }
    }
    void_by_edit(builder, due.at);
    let Some(at) = time_to_act(builder, &due) else {
        return;
    };
    if at > builder.now || builder.intent.observe {
        let at = at.max(builder.now);
        if at > builder.now {
            builder.wake_at(at);
        }
        return builder.foresee(Action::Hibernate, at, due.why);
    }
    ask(builder, Wanted::Hibernating, due.trigger, due.why);
}

/// What is due first.
fn earliest_due(builder: &mut Builder<'_>) -> Option<Due> {
    let timer = match due::timer(&builder.next, builder.intent) {
        Timer::Off => None,
        Timer::Unclaimed => {
            builder.because(Reason::Unclaimed);
            None
        }
        Timer::NoBase => {
            builder.because(Reason::NoTimerBase);
            None
        }
        Timer::Due(due) => Some(due),
    };
    let scheduled = |at, why| Due { at, trigger: Trigger::Schedule, why };
    let pending = builder.next.schedule.pending.filter(|firing| firing.to == Wanted::Hibernating);
    let schedules = &builder.intent.schedules;
    let schedule = match pending {
        Some(Firing { at, to }) => Some(scheduled(at, Reason::Scheduled { at, to })),
        None => due::next_firing(schedules, Wanted::Hibernating, builder.now)
            .map(|Firing { at, to }| scheduled(at, Reason::ScheduledFor { at, to })),
    };
    [timer, schedule].into_iter().flatten().min_by_key(|due| due.at)
}

/// Takes back what was announced, if the owner has written a spec since by which it comes earlier.
fn void_by_edit(builder: &mut Builder<'_>, due: Timestamp) {
    let generation = builder.intent.generation;
    let announcement = &mut builder.next.announcement;
    if std::mem::replace(&mut announcement.generation, generation) == generation {
        return;
    }
    let told = builder.next.outbox.notices.iter().map(|notice| notice.deadline);
    if told.fold(announcement.ladder.deadline, Option::max).is_some_and(|told| due < told) {
        announcement.ladder = ladder::Ladder::default();
        builder.next.outbox.forget(|notice| notice.deadline.is_some_and(|told| due < told));
    }
}

/// When it hibernates, if that is foreseen: not before contacts were told, and had their time.
fn time_to_act(builder: &mut Builder<'_>, due: &Due) -> Option<Timestamp> {
    let (now, settings) = (builder.now, builder.settings);
    let lead = settings.announce_before;
    if !builder.intent.has_contacts || builder.intent.observe {
        leave(builder);
        return Some(due.at);
    }
    let starts = saturating_sub(saturating_sub(due.at, lead), settings.delivery);
    if now < starts {
        leave(builder);
        builder.wake_at(starts);
        builder.foresee(Action::Hibernate, due.at, due.why.clone());
        return None;
    }
    let plan = LadderPlan {
        kind: NoticeKind::Hibernation,
        word: "hibernation",
        stages: [AnnouncementStage::Waiting, AnnouncementStage::Told, AnnouncementStage::Told],
        warnings: 1,
        interval: lead,
        due: due.at,
        measure: Measure::Wall,
        tick: settings.delivery,
    };
    let context = LadderContext {
        uid: &builder.intent.uid,
        now,
        delivery: settings.delivery,
        channels_changed_at: builder.seen.channels_changed_at,
    };
    let next = &mut builder.next;
    let climb = ladder::climb(&mut next.announcement.ladder, &mut next.outbox, &plan, &context);
    let deadline = next.announcement.ladder.deadline;
    if let Wake::At(at) = climb.wake {
        builder.wake_at(at);
    }
    if let Some(why) = climb.why {
        builder.because(why.into());
    }
    if climb.is_due {
        return Some(due.at);
    }
    let at = match climb.upcoming {
        Some((LadderStep::Action, at)) => at,
        Some((LadderStep::Warning, _)) | None => deadline.unwrap_or(due.at),
    };
    builder.foresee(Action::Hibernate, at.max(due.at).max(now), due.why.clone());
    None
}

/// Nothing is announced any more.
pub(super) fn leave(builder: &mut Builder<'_>) {
    let ladder = &mut builder.next.announcement.ladder;
    if ladder.stage != AnnouncementStage::Quiet || ladder.deadline.is_some() {
        let kinds = |kind: &NoticeKind| match kind {
            NoticeKind::Hibernation => true,
        };
        let outbox = &mut builder.next.outbox;
        ladder::leave(ladder, AnnouncementStage::Quiet, outbox, kinds, builder.now);
    }
}

/// Has what waits attempted, if it is on record and it is time.
pub(super) fn send(builder: &mut Builder<'_>) {
    if !builder.next.outbox.waits() || builder.intent.observe {
        return;
    }
    let (now, changed) = (builder.now, builder.seen.channels_changed_at);
    let outbox = &mut builder.next.outbox;
    let due = builder.stored.outbox.as_ref();
    let due = due.map(|stored| outbox.attempt(stored, changed, now, |_| true)).unwrap_or_default();
    let wake = outbox.wake(builder.settings.on_undeliverable, changed, |_| true);
    builder.effects.extend(due.into_iter().map(Effect::Notify));
    if let Wake::At(at) = wake {
        builder.wake_at(at);
    }
}
