//! Random choices that a seed repeats.

/// SplitMix64.
pub(super) struct Rng(u64);

impl Rng {
    /// The choices of one connection.
    pub fn new(seed: u64, connection: u32) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ (u64::from(connection) << 40))
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    /// True once in `n` times.
    pub fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
