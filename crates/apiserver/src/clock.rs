//! Where time and chance come from. The engine is told both, so that a test on a virtual clock
//! with a seed gives the same bytes every time.

use std::fmt::Debug;
use std::sync::Mutex;

use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};

/// What time it is. Timers are tokio's; this is only the time that is written into objects.
pub trait Clock: Send + Sync + Debug {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that moves with tokio's: under paused time, timers and timestamps agree.
#[derive(Debug)]
pub struct TokioClock {
    epoch: Timestamp,
    started: tokio::time::Instant,
}

impl TokioClock {
    /// Starts at `epoch`. Must be called inside the runtime whose clock it follows.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, started: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed = self.started.elapsed();
        self.epoch.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

/// The operating system gave no random numbers. Whatever needed them does not take place: uids and
/// tokens that can be guessed are worse than none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random numbers")]
pub struct NoRandomness;

/// The source of uids, name suffixes and token bytes.
pub trait Entropy: Send + Sync + Debug {
    /// Fills all of `bytes`, or fails.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness>;

    /// A random (version 4) UUID.
    fn uid(&self) -> Result<String, NoRandomness> {
        let mut b = [0_u8; 16];
        self.fill(&mut b)?;
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let h = hex::encode(b);
        Ok(format!("{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..]))
    }

    /// Five characters for `generateName`, from upstream's alphabet without vowels.
    fn suffix(&self) -> Result<String, NoRandomness> {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut b = [0_u8; 5];
        self.fill(&mut b)?;
        Ok(b.iter().map(|x| char::from(ALPHABET[usize::from(*x) % ALPHABET.len()])).collect())
    }
}

/// The operating system's random numbers.
#[derive(Debug)]
pub struct SystemEntropy(SystemRandom);

impl Default for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
    fn default() -> Self {
        Self(SystemRandom::new())
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        self.0.fill(bytes).map_err(|_| NoRandomness)
    }
}

/// A repeatable sequence (SplitMix64): never for anything that must be secret.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    pub const fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = *state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            chunk.copy_from_slice(&z.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let (a, b) = (SeededEntropy::new(7), SeededEntropy::new(7));
        assert_eq!(a.uid(), b.uid());
        assert_eq!(a.suffix(), b.suffix());
        assert_ne!(a.uid(), a.uid());
        let uid = a.uid().unwrap();
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
    }

    /// A machine whose random numbers have run out.
    #[derive(Debug)]
    struct NoEntropy;

    impl Entropy for NoEntropy {
        fn fill(&self, _: &mut [u8]) -> Result<(), NoRandomness> {
            Err(NoRandomness)
        }
    }

    #[tokio::test]
    async fn without_random_numbers_nothing_is_made() {
        assert_eq!((NoEntropy.uid(), NoEntropy.suffix()), (Err(NoRandomness), Err(NoRandomness)));
        assert_eq!(crate::auth::token::Token::generate(&NoEntropy), Err(NoRandomness));
        let opened = crate::Engine::open(crate::Config::in_memory().entropy(NoEntropy)).await;
        assert!(matches!(opened, Err(crate::OpenError::NoRandomness(_))), "{opened:?}");
    }
}
