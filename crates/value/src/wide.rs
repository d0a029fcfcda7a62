//! The stored form of decimals of 39 to 65 digits, which rows, keys and batches share: units of
//! 10^-scale in 28 bytes, big-endian, two's complement with the sign bit flipped. So bytes order as
//! the numbers do, and copying is all that storage does with them. [`Units`] computes.

use std::fmt;

use crate::Units;

/// Units of a wide decimal. Compares as the numbers of one scale do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wide([u8; Wide::WIDTH]);

/// The bit that is flipped.
const SIGN: u8 = 0x80;

impl Wide {
    /// Bytes of the stored form: 65 digits take 216 bits, and the sign one more.
    pub const WIDTH: usize = 28;

    /// Zero.
    pub const ZERO: Self = {
        let mut bytes = [0; Self::WIDTH];
        bytes[0] = SIGN;
        Self(bytes)
    };

    /// What stored bytes stand for; any are a number, perhaps one of more digits than a type has.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::WIDTH]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::WIDTH] {
        &self.0
    }

    /// The number of two's complement in little-endian bytes; `None` if it is too long.
    #[must_use]
    pub fn from_le_bytes(bytes: [u8; 32]) -> Option<Self> {
        let (low, high) = bytes.split_at(Self::WIDTH);
        let mut stored = [0; Self::WIDTH];
        stored.copy_from_slice(low);
        stored.reverse();
        let fill = if stored[0] & SIGN == 0 { 0 } else { 0xff };
        stored[0] ^= SIGN;
        high.iter()
            .all(|byte| *byte == fill)
            .then_some(Self(stored))
    }

    /// Two's complement in little-endian bytes, as many as a 256-bit integer has.
    #[must_use]
    pub fn to_le_bytes(self) -> [u8; 32] {
        let fill = if self.0[0] & SIGN == 0 { 0xff } else { 0 };
        let mut bytes = [fill; 32];
        let low = &mut bytes[..Self::WIDTH];
        low.copy_from_slice(&self.0);
        low[0] ^= SIGN;
        low.reverse();
        bytes
    }

    /// The number, to compute with.
    #[must_use]
    pub fn units(self) -> Units {
        Units::from_le_bytes(self.to_le_bytes())
    }
}

impl From<i128> for Wide {
    fn from(value: i128) -> Self {
        let fill = if value < 0 { 0xff } else { 0 };
        let mut bytes = [fill; 32];
        bytes[..16].copy_from_slice(&value.to_le_bytes());
        Self::from_le_bytes(bytes).expect("28 bytes are more than 16")
    }
}

impl fmt::Debug for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.units(), f)
    }
}
