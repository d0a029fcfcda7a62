//! Collations of character sets of one byte: a character weighs a byte, which is a character of the form.
//!
//! The weights are facts, taken from MariaDB, whose collations of these names are MySQL's
//! (`WEIGHT_STRING(CONVERT(UNHEX(…) USING latin1) COLLATE …)` of every byte); `tests/mariadb.rs` asks again.

use super::latin1;

/// The weights of the bytes of a character set.
#[derive(Debug)]
pub struct Single {
    weights: [u8; 256],
    /// For each byte the first one with its weight: it stands for it in LIKE.
    alike: [u8; 256],
}

/// `latin1_bin` and `ascii_bin`.
pub static BIN: Single = Single::new(weights(&[]));
/// `latin1_swedish_ci`.
pub static LATIN1_SWEDISH_CI: Single = Single::new(capitals(weights(&[
    (0xc0, &SWEDISH),
    (0xe0, &SWEDISH),
    (0xf7, &[0xf7]),
    (0xff, &[0xff]),
])));
/// `latin1_general_ci`.
pub static LATIN1_GENERAL_CI: Single = Single::new(weights(&[
    (0x41, &GENERAL),
    (0x61, &GENERAL),
    (0x5b, &[0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8]),
    (0x7b, &[0xb9, 0xba, 0xbb, 0xbc]),
    (0x7f, &GENERAL_ABOVE),
    (0xc0, &GENERAL_HIGH),
    (0xe0, &GENERAL_HIGH),
    (0xd7, &[0xbd]),
    (0xf7, &[0xbe]),
    (0xdf, &[0x97]),
    (0xff, &[0xae]),
]));
/// `ascii_general_ci`.
pub static ASCII_GENERAL_CI: Single = Single::new(capitals(weights(&[])));

/// Weights of the bytes from c0 on, and from e0 on.
const SWEDISH: [u8; 32] = [
    0x41, 0x41, 0x41, 0x41, 0x5c, 0x5b, 0x5c, 0x43, 0x45, 0x45, 0x45, 0x45, 0x49, 0x49, 0x49,
    0x49, //
    0x44, 0x4e, 0x4f, 0x4f, 0x4f, 0x4f, 0x5d, 0xd7, 0xd8, 0x55, 0x55, 0x55, 0x59, 0x59, 0xde, 0xdf,
];

/// Weights of the letters of ASCII.
const GENERAL: [u8; 26] = [
    0x41, 0x51, 0x53, 0x57, 0x5b, 0x65, 0x67, 0x69, 0x6b, 0x75, 0x77, 0x79, 0x7b, 0x7d, 0x81,
    0x8f, //
    0x91, 0x93, 0x95, 0x98, 0x9a, 0xa4, 0xa6, 0xa8, 0xaa, 0xaf,
];

/// Weights of the bytes from 7f to bf.
const GENERAL_ABOVE: [u8; 65] = {
    let mut weights = [0; 65];
    let mut at = 0;
    while at < 65 {
        weights[at] = 0xbf + at as u8;
        at += 1;
    }
    weights
};

/// Weights of the bytes from c0 on, and from e0 on.
const GENERAL_HIGH: [u8; 32] = [
    0x43, 0x45, 0x47, 0x49, 0x4b, 0x4d, 0x4f, 0x55, 0x5d, 0x5f, 0x61, 0x63, 0x6d, 0x6f, 0x71,
    0x73, //
    0x59, 0x7f, 0x83, 0x85, 0x87, 0x89, 0x8b, 0xbd, 0x8d, 0x9c, 0x9e, 0xa0, 0xa2, 0xac, 0xb1, 0x97,
];

/// Every byte weighs itself, but for runs of other weights from a byte on.
const fn weights(runs: &[(u8, &[u8])]) -> [u8; 256] {
    let mut weights = [0; 256];
    let mut at = 0;
    while at < 256 {
        weights[at] = at as u8;
        at += 1;
    }
    let mut run = 0;
    while run < runs.len() {
        let (first, own) = runs[run];
        let mut at = 0;
        while at < own.len() {
            weights[first as usize + at] = own[at];
            at += 1;
        }
        run += 1;
    }
    weights
}

/// Letters of ASCII weigh as capitals.
const fn capitals(mut weights: [u8; 256]) -> [u8; 256] {
    let mut letter = b'a';
    while letter <= b'z' {
        weights[letter as usize] = letter - b'a' + b'A';
        letter += 1;
    }
    weights
}

impl Single {
    const fn new(weights: [u8; 256]) -> Self {
        let mut alike = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut first = 0;
            while weights[first] != weights[at] {
                first += 1;
            }
            alike[at] = first as u8;
            at += 1;
        }
        Self { weights, alike }
    }

    /// The weight of a character; one that the character set does not have is above all others.
    #[inline]
    #[must_use]
    pub fn weight(&self, char: char) -> char {
        match latin1::byte_of(char) {
            Some(byte) => char::from(self.weights[usize::from(byte)]),
            // U+0080 and its like are no characters of latin1 either.
            None if u32::from(char) < 0x100 => char::MAX,
            None => char,
        }
    }

    /// The character that stands for all that LIKE takes for this one.
    #[must_use]
    pub fn alike(&self, char: char) -> char {
        match latin1::byte_of(char) {
            Some(byte) => latin1::char_of(self.alike[usize::from(byte)]),
            None => char,
        }
    }
}
