//! Choices that can be made again: the same seed gives the same ones.

use std::hash::{BuildHasher as _, RandomState};

/// A sequence of numbers that look random (SplitMix64).
#[derive(Debug)]
pub(crate) struct Rng(u64);

/// A seed that differs from run to run.
pub(crate) fn seed() -> u64 {
    // Short enough to be typed again.
    RandomState::new().hash_one(0) % 1_000_000
}

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another sequence, which nobody else draws from.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn choose<T: Copy>(&mut self, among: &[T]) -> T {
        let index = self.below(among.len().try_into().expect("small"));
        among[usize::try_from(index).expect("small")]
    }
}
