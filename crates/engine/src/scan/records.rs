//! Copies of records, one behind the other.

/// Records in the order they were added. Cleared and used again, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    /// Where each record ends.
    ends: Vec<usize>,
}

impl Records {
    /// Forgets all records.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a copy of a record.
    pub fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
    }

    /// Forgets all but the first records.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A record.
    ///
    /// # Panics
    /// If there is no such record.
    #[must_use]
    pub fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    /// All records.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|at| self.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_order() {
        let mut records = Records::default();
        let all: [&[u8]; 4] = [b"ab", b"", b"c", b"def"];
        for _ in 0..2 {
            records.clear();
            assert!(records.is_empty());
            all.iter().for_each(|record| records.push(record));
            assert!(records.iter().eq(all));
            assert_eq!((records.len(), records.get(0)), (4, &b"ab"[..]));
        }
        records.truncate(3);
        records.push(b"x");
        assert!(records.iter().eq([&b"ab"[..], b"", b"c", b"x"]));
    }
}
