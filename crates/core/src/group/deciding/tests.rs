use super::super::effect::Effect;
use super::super::intent::{ForcedPolicy, Kept, Outcome};
use super::super::observed::Power;
use super::super::scene::{DAY, HOUR, MINUTE, Mode, SECOND, Scene, at, start};
use super::super::state::{Cause, Phase, RotationPhase, Tier};
use super::*;

mod age;
mod bounds;
mod hazard;
mod health;
mod history;
mod holding;
mod removal;
mod replacement;
mod stability;
mod totality;

const JUST: SignedDuration = SignedDuration::from_millis(1);
