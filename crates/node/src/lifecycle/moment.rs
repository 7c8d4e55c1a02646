//! Times as a status writes them, and sums of times that cannot overflow.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// So many seconds later; at the end of time where there is no such moment.
pub(super) fn after(start: Timestamp, seconds: i64) -> Timestamp {
    let end_of_time = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    start.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(end_of_time)
}

/// The API knows whole seconds only: a status must equal what comes back of it.
pub(super) fn whole_seconds(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}

/// How Go prints a duration, which messages of the kubelet contain: `40s`, `1m20s`, `5m0s`.
pub(super) fn go_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}
