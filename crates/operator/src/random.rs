//! Random numbers of the operating system, for keys and for names that nobody else has.

use ring::rand::{SecureRandom as _, SystemRandom};

/// The operating system gave no random numbers. Nothing stands in for them: a key that can be guessed
/// is worse than none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random numbers")]
pub struct NoRandomness;

/// Fills all of `bytes`, or fails.
#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
pub(crate) fn system_random(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    SystemRandom::new().fill(bytes).map_err(|_| NoRandomness)
}
