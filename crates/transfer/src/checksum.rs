//! Checksums of rows: one number a row, added up, so that the order in which rows come does not matter.
//!
//! The tool computes them itself, over values in the form of [`crate::kind`], because no SQL expression means the same to all
//! servers and covers all types. They find changed, lost and doubled rows; they do not resist somebody who wants collisions.

/// Factors of the steps: digits of the golden ratio and of √2, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const END: u64 = 0x6a09_e667_f3bc_c909;

/// Count and checksum of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Rows.
    pub rows: u64,
    /// Sum of the rows' hashes.
    pub sum: u64,
}

impl Tally {
    /// Adds a row.
    pub(crate) fn add(&mut self, row: RowHash) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(row.finish());
    }

    /// Adds other rows.
    pub(crate) fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// The hash of a row, value by value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowHash(u64);

impl RowHash {
    pub(crate) fn new() -> Self {
        Self(END)
    }

    /// Goes on with a value. Its length is part of it, so that values do not flow into each other.
    pub(crate) fn value(&mut self, value: Option<&[u8]>) {
        let Some(bytes) = value else {
            self.word(u64::MAX);
            return;
        };
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(last));
        }
    }

    fn word(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, STEP).wrapping_add(word.rotate_left(32));
    }

    fn finish(self) -> u64 {
        fold(self.0, END)
    }
}

/// Both halves of a product, one over the other.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(row: &[Option<&[u8]>]) -> u64 {
        let mut hash = RowHash::new();
        row.iter().for_each(|value| hash.value(*value));
        hash.finish()
    }

    #[test]
    fn rows_that_differ_have_other_hashes() {
        let rows: [&[Option<&[u8]>]; 9] = [
            &[],
            &[None],
            &[Some(b"")],
            &[Some(b"a")],
            &[Some(b"a"), Some(b"b")],
            &[Some(b"ab"), Some(b"")],
            &[Some(b"a\0")],
            &[Some(b"b"), Some(b"a")],
            &[Some(b"12345678"), None],
        ];
        for (i, a) in rows.iter().enumerate() {
            for b in &rows[..i] {
                assert_ne!(hash(a), hash(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_order_of_rows_does_not_matter_and_their_number_does() {
        let tally = |values: &[&[u8]]| {
            let mut tally = Tally::default();
            for value in values {
                let mut row = RowHash::new();
                row.value(Some(value));
                tally.add(row);
            }
            tally
        };
        assert_eq!(tally(&[b"x", b"y", b"z"]), tally(&[b"z", b"x", b"y"]));
        assert_ne!(tally(&[b"x", b"y"]), tally(&[b"x", b"y", b"y"]));
        let mut parts = tally(&[b"x"]);
        parts.merge(tally(&[b"y"]));
        assert_eq!(parts, tally(&[b"x", b"y"]));
    }
}
