//! Times on the wire, which knows whole seconds only.
//!
//! They are rounded up: a deadline, an interval or an idle time that is read back is never shorter
//! than it was, so nothing happens earlier than announced because it was written down.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sojourn_core::moment::ceil_second;

pub(crate) fn written(at: Option<Timestamp>) -> Option<Time> {
    at.map(|at| Time(ceil_second(at)))
}

pub(crate) fn read(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| ceil_second(time.0))
}
