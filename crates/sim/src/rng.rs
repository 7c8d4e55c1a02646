//! A seeded random number generator.

/// A small generator (SplitMix64), split by name so that a new use does not move the others.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for `what`: the same, whatever was rolled in between.
    #[must_use]
    pub fn split(&self, what: &str) -> Self {
        let mut seed = self.0 ^ 0x5851_f42d_4c95_7f2d;
        for byte in what.bytes() {
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(seed)
    }

    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True so many times in a thousand.
    pub const fn permille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    /// One of several.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(from.len() as u64)).expect("below a length");
        &from[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_splits_do_not_depend_on_what_was_rolled() {
        let mut one = Rng::new(7);
        let other = Rng::new(7);
        let before = one.split("mail").next_u64();
        assert_eq!(before, other.split("mail").next_u64());
        assert_ne!(before, other.split("nail").next_u64());
        let rolled: Vec<u64> = (0..3).map(|_| one.below(10)).collect();
        let mut again = Rng::new(7);
        assert_eq!(rolled, (0..3).map(|_| again.below(10)).collect::<Vec<_>>());
        assert!((0..100).all(|_| (3..=5).contains(&one.between(3, 5))));
    }
}
