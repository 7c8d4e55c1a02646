//! An operation that takes longer than it may.

use super::super::intent::OnTimeout;
use super::super::operation::{ErrorKind, LastError, Operation, Trigger};
use super::super::reason::Reason;
use super::super::state::Action;
use super::builder::Builder;
use super::power_write::ask;
use crate::moment::{ceil_second, saturating_add};

pub(super) fn check(builder: &mut Builder<'_>, operation: &mut Operation) {
    let Some(deadline) = operation.deadline else { return };
    let policy = match builder.intent.on_timeout {
        OnTimeout::RollBack if !operation.trigger.may_roll_back() => OnTimeout::Report,
        OnTimeout::Retry | OnTimeout::RollBack if builder.intent.observe => OnTimeout::Report,
        policy @ (OnTimeout::Report | OnTimeout::Retry | OnTimeout::RollBack) => policy,
    };
    if builder.now < deadline {
        builder.wake_at(deadline);
        let why = Reason::TimedOut { deadline };
        match policy {
            OnTimeout::Report => {}
            OnTimeout::Retry => builder.foresee(Action::Retry, deadline, why),
            OnTimeout::RollBack => builder.foresee(Action::RollBack, deadline, why),
        }
        return;
    }
    operation.last_error.get_or_insert_with(|| LastError {
        kind: ErrorKind::Timeout,
        message: Reason::TimedOut { deadline }.to_string(),
        count: 1,
        retry_at: deadline,
    });
    match policy {
        OnTimeout::Report => builder.because(Reason::TimedOut { deadline }),
        OnTimeout::Retry => retry(builder, operation),
        OnTimeout::RollBack if builder.next.power_write.is_some() => {}
        OnTimeout::RollBack => {
            let to = operation.direction.wanted().opposite();
            ask(builder, to, Trigger::RollBack, Reason::RolledBack { deadline });
        }
    }
}

/// Begins anew: every machine that is not there yet is called at once.
fn retry(builder: &mut Builder<'_>, operation: &mut Operation) {
    let timeout = builder.intent.timeouts.of(operation.direction).span();
    builder.because(match operation.deadline {
        Some(deadline) => Reason::RetriedAfter { deadline },
        None => return,
    });
    operation.attempt = operation.attempt.saturating_add(1);
    operation.deadline = timeout.map(|span| {
        // Even a span of nothing leaves a moment to try.
        let span = span.max(builder.settings.machine_poll.min);
        ceil_second(saturating_add(builder.now, span))
    });
    for machine in &mut operation.machines {
        machine.failures = 0;
        machine.retry_at = None;
    }
    builder.wake_now();
}
