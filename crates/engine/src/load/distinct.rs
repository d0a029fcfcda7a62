//! Estimating the number of different values with little memory: HyperLogLog over 4,096 registers,
//! standard error 1.6 %.

/// log2 of the number of registers.
const BITS: u32 = 12;

/// A sketch of a set of hashes.
#[derive(Clone, Debug)]
pub struct Distinct {
    registers: Box<[u8; 1 << BITS]>,
}

impl Default for Distinct {
    fn default() -> Self {
        Self {
            registers: Box::new([0; 1 << BITS]),
        }
    }
}

impl Distinct {
    /// Adds the value whose hash this is.
    pub fn add(&mut self, hash: u64) {
        let register = &mut self.registers[(hash >> (64 - BITS)) as usize];
        let rank = (hash << BITS | 1 << (BITS - 1)).leading_zeros() as u8 + 1;
        *register = (*register).max(rank);
    }

    /// Adds everything the other sketch has seen.
    pub fn merge(&mut self, other: &Self) {
        for (mine, other) in self.registers.iter_mut().zip(other.registers.iter()) {
            *mine = (*mine).max(*other);
        }
    }

    /// The estimate.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let m = f64::from(1_u32 << BITS);
        let sum: f64 = self
            .registers
            .iter()
            .map(|rank| 0.5_f64.powi(i32::from(*rank)))
            .sum();
        let raw = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        let empty = self.registers.iter().filter(|rank| **rank == 0).count();
        if raw <= 2.5 * m && empty > 0 {
            (m * (m / empty as f64).ln()).round() as u64 // linear counting is better for few values
        } else {
            raw.round() as u64
        }
    }
}

/// Hash of a value's bytes, mixed well enough for [`Distinct`].
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = mix(state ^ u64::from_le_bytes(word));
    }
    state
}

/// The finalizer of SplitMix64: each input bit changes each output bit with probability one half.
pub(super) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_close() {
        for n in [1_u64, 10, 1_000, 20_000, 300_000] {
            let (mut a, mut b) = (Distinct::default(), Distinct::default());
            for i in 0..n {
                let hash = hash(&i.to_le_bytes());
                a.add(hash);
                if i % 2 == 0 { a.add(hash) } else { b.add(hash) }
            }
            a.merge(&b);
            let error = (a.estimate() as f64 / n as f64 - 1.0).abs();
            assert!(error < 0.06, "{n} values are estimated as {}", a.estimate());
        }
    }
}
