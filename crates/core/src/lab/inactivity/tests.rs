use jiff::SignedDuration;

use super::super::effect::Effect;
use super::super::reason::Reason;
use super::super::scene::{DAY, HOUR, MINUTE, Mail, Scene, at, start};
use super::super::state::{Action, Ladder, NoticeKind, Stage, StopReason};
use crate::activity::{Seen, Source};
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

/// A scene with one warning given five minutes ago, alert `n` of three.
fn warned(n: u32) -> Scene {
    let mut scene = Scene::new();
    scene.pass(IDLE + DAY * i32::try_from(n - 1).unwrap());
    assert_eq!(scene.state.ladder.alerts_sent, n);
    scene.pass(MINUTE * 5);
    scene
}
