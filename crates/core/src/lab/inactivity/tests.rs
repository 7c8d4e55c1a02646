use jiff::SignedDuration;

use super::super::effect::Effect;
use super::super::reason::Reason;
use super::super::state::{Action, Ladder, NoticeKind, Stage, StopReason};
use super::super::test_instance::{DAY, HOUR, MINUTE, Mail, TestInstance, at, start};
use crate::activity::ActivityReport;
use crate::decision::Wake;
use crate::notice::{Delivery, OnUndeliverable};
use crate::term::Term;

mod darkness;
mod off;
mod promises;
mod running;

const SECOND: SignedDuration = SignedDuration::from_secs(1);
/// When a fresh, unused instance is known to be idle: T, and the margin.
const IDLE: SignedDuration = SignedDuration::from_mins(14 * 24 * 60 + 1);

/// An instance with one warning given five minutes ago, alert `n` of three.
fn warned(n: u32) -> TestInstance {
    let mut instance = TestInstance::new();
    instance.advance(IDLE + DAY * i32::try_from(n - 1).unwrap());
    assert_eq!(instance.state.ladder.alerts_sent, n);
    instance.advance(MINUTE * 5);
    instance
}
