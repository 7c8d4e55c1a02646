//! The invariants of lab, which must hold in every run.

use crate::event_log::invariants;

invariants! {
    /// What must hold of instances in every run.
    Invariant {
        /// No stop or deletion comes earlier than the last deadline that was announced for it.
        DeadlineKept,
        /// Every interval between two warnings, and between the last one and the action, is given in
        /// full, from when the notice was accepted; of inactivity, in time that was really observed.
        IntervalGiven,
        /// Nothing is taken without the warnings that the policy asks for.
        Warned,
        /// Nothing counts as unused with less than the timeout of time in which every required source
        /// could see and saw nothing, and nothing is taken within the timeout of a use that one saw.
        IdleWasObserved,
        /// Nothing is stopped or deleted for not being used while a required source has been blind for
        /// longer than it takes to notice.
        NotWhileBlind,
        /// Nothing is deleted before it has been stopped, or has lived, for as long as the policy says.
        TermIsOver,
        /// No two notices say the same of the same deadline, and none is accepted twice unless the first
        /// answer was lost.
        NoticeOnce,
        /// What counts as delivered was accepted by somebody.
        DeliveredMeansAccepted,
        /// Every notice that was written down is accepted in the end, or does not hold any more.
        NoticeNotLost,
        /// Nothing of a namespace that opted out is taken.
        OptOutHolds,
        /// Nothing that is paused is taken.
        PauseHolds,
        /// Nothing is taken before the end of what its owner was given.
        KeepHolds,
        /// An exam is ended only when it has ended.
        TerminationConfirmed,
        /// Every stop that its owner did not ask for has a reason.
        ActionsHaveReasons,
        /// Every request to hand in is accepted once: its attempts have one key, and nothing is sent again
        /// that was known to be accepted.
        SubmittedOnce,
        /// Every request to hand in is accepted in the end, unless it failed for good, which is told.
        SubmissionNotLost,
        /// Nothing is deleted while something of it is to be handed in.
        NothingLostMidSubmission,
        /// Once nothing fails any more, what is due is done within a bound.
        Liveness,
        /// Objects are not looked at all the time.
        NoHotLoop,
        /// No task of the operator ends by itself, and no observer is cut off.
        NothingBreaks,
    }
}
