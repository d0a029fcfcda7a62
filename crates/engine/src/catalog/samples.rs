//! [`Answers`]: what looking at a table's pages said of conditions, kept as long as its statistics are.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Most answers of a kind that are kept of a table. A statement asks for one a table; what prepared statements with
/// changing constants ask for pushes out the oldest ones.
const MOST: usize = 256;

/// What some leaf pages of an index say of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Pages that were looked at.
    pub pages: u64,
    /// Those of them that have a row for which the condition is true.
    pub matching_pages: u64,
    /// Rows on them, in the range that was asked for.
    pub rows: u64,
    /// Rows for which the condition is true.
    pub matching_rows: u64,
}

/// Answers by what was asked, the oldest first.
#[derive(Debug)]
pub(crate) struct Answers<T> {
    known: Mutex<VecDeque<(Box<[u8]>, T)>>,
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
        }
    }
}

impl<T: Clone> Answers<T> {
    /// What was said.
    pub fn get(&self, asked: &[u8]) -> Option<T> {
        let known = self.known.lock();
        let mut found = known.iter().filter(|(key, _)| **key == *asked);
        found.next().map(|(_, answer)| answer.clone())
    }

    /// Keeps what was said.
    pub fn keep(&self, asked: &[u8], answer: T) {
        let mut known = self.known.lock();
        known.retain(|(key, _)| **key != *asked);
        if known.len() == MOST {
            known.pop_front();
        }
        known.push_back((asked.into(), answer));
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.known.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_kept_as_there_is_room_for() {
        let samples = Answers::default();
        let sample = |rows| Sample {
            rows,
            ..Sample::default()
        };
        for asked in 0..=MOST as u64 {
            samples.keep(&asked.to_le_bytes(), sample(asked));
        }
        assert_eq!(samples.get(&0_u64.to_le_bytes()), None);
        for asked in 1..=MOST as u64 {
            assert_eq!(samples.get(&asked.to_le_bytes()), Some(sample(asked)));
        }
        // Another answer takes the place of the one before, and pushes out none.
        samples.keep(&5_u64.to_le_bytes(), sample(7));
        assert_eq!(samples.get(&5_u64.to_le_bytes()), Some(sample(7)));
        assert_eq!(samples.get(&1_u64.to_le_bytes()), Some(sample(1)));
        samples.clear();
        assert_eq!(samples.get(&5_u64.to_le_bytes()), None);
    }
}
