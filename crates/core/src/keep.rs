//! What owners are given when they ask to keep something for a while.
//!
//! A request is given at most [`MAX_KEEP_DURATION`] ahead, and [`MAX_KEEPS`] requests are given in the
//! life of an object: what is asked for beyond that is ignored, and said. A request never takes back
//! what an earlier one was given, and one that asks for no more than that costs nothing.

use jiff::{SignedDuration, Timestamp};

use crate::moment::{ceil_second, saturating_add};

/// So many requests are given per object.
pub const MAX_KEEPS: u32 = 3;
/// No request is given for longer.
pub const MAX_KEEP_DURATION: SignedDuration = SignedDuration::from_hours(36);

/// What the owner was given when asking to keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    pub used: u32,
    pub until: Option<Timestamp>,
    /// The request that was last applied, as it was written.
    pub asked: Option<Timestamp>,
}

/// The owner has used up every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowanceUsedUp;

impl Keep {
    /// Until when it is kept, if it is.
    pub fn active_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|until| now < *until)
    }

    /// Takes the owner's request in, as it stands in the object.
    pub fn apply_request(
        &mut self,
        request: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), AllowanceUsedUp> {
        if request == self.asked {
            return Ok(());
        }
        let Some(asked) = request else {
            // The owner took the request back.
            self.asked = None;
            self.until = None;
            return Ok(());
        };
        if asked <= now {
            return Ok(());
        }
        let given = ceil_second(asked).min(saturating_add(now, MAX_KEEP_DURATION));
        if self.active_until(now).is_some_and(|until| given <= until) {
            self.asked = request;
        } else if self.used >= MAX_KEEPS {
            return Err(AllowanceUsedUp);
        } else {
            self.used += 1;
            self.asked = request;
            self.until = Some(given);
        }
        Ok(())
    }
}
