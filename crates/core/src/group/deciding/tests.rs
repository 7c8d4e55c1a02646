use super::super::effect::Effect;
use super::super::intent::{ForcedPolicy, Kept, ReplyOutcome};
use super::super::observed::Power;
use super::super::state::{Cause, Phase, RotationPhase, Tier};
use super::super::test_group::{DAY, HOUR, MINUTE, Mode, SECOND, TestGroup, at, start};
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
