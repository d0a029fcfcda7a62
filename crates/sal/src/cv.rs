//! Which database log buffers are on the Page Stores as a whole: the source of the CV-LSN.
//!
//! A buffer has records for some slices, and a fragment holds records of several buffers; this
//! tracks that many-to-many relation (taurus-2020 section 3.5). Buffers may complete in any order;
//! the CV-LSN advances only over the unbroken run of complete ones.

use std::collections::VecDeque;

use perigee_types::Lsn;

/// Number of a database log buffer, counted from the opening of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BufferNumber(u64);

#[derive(Debug)]
struct Entry {
    last: Lsn,
    bytes: usize,
    waiting: usize,
}

/// Buffers that were sent to slices and are not complete, or follow one that is not.
#[derive(Debug, Default)]
pub(crate) struct CvTracker {
    first: u64,
    entries: VecDeque<Entry>,
}

impl CvTracker {
    /// Adds a buffer of `bytes` bytes that ends with `last` and has records for `slices` slices.
    pub fn add(&mut self, last: Lsn, bytes: usize, slices: usize) -> BufferNumber {
        assert!(
            self.entries.back().is_none_or(|e| e.last < last),
            "L1: buffers in LSN order"
        );
        self.entries.push_back(Entry {
            last,
            bytes,
            waiting: slices,
        });
        BufferNumber(self.first + self.entries.len() as u64 - 1)
    }

    /// One of its slices has the buffer's records.
    pub fn done(&mut self, buffer: BufferNumber) {
        let at = buffer
            .0
            .checked_sub(self.first)
            .expect("P9: a buffer completes once");
        let entry = &mut self.entries[at as usize];
        entry.waiting = entry
            .waiting
            .checked_sub(1)
            .expect("P9: one answer a slice");
    }

    /// Takes complete buffers off the front: the LSN of the last of them and their bytes.
    pub fn advance(&mut self) -> Option<(Lsn, usize)> {
        let mut advanced = None;
        while self.entries.front().is_some_and(|e| e.waiting == 0) {
            let entry = self.entries.pop_front().expect("there is a front");
            self.first += 1;
            let bytes = advanced.map_or(0, |(_, bytes)| bytes);
            advanced = Some((entry.last, bytes + entry.bytes));
        }
        advanced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unbroken_run_of_buffers_counts() {
        let mut cv = CvTracker::default();
        let a = cv.add(Lsn(5), 50, 2);
        let b = cv.add(Lsn(7), 20, 1);
        let c = cv.add(Lsn(9), 9, 1);
        cv.done(b);
        cv.done(a);
        assert_eq!(cv.advance(), None);
        cv.done(a);
        assert_eq!(cv.advance(), Some((Lsn(7), 70)));
        assert_eq!(cv.advance(), None);
        cv.done(c);
        assert_eq!(cv.advance(), Some((Lsn(9), 9)));
    }

    #[test]
    fn a_buffer_without_slices_is_complete() {
        let mut cv = CvTracker::default();
        cv.add(Lsn(3), 30, 0);
        assert_eq!(cv.advance(), Some((Lsn(3), 30)));
        let d = cv.add(Lsn(4), 1, 1);
        cv.done(d);
        assert_eq!(cv.advance(), Some((Lsn(4), 1)));
    }

    #[test]
    #[should_panic(expected = "P9")]
    fn a_slice_answers_once() {
        let mut cv = CvTracker::default();
        let a = cv.add(Lsn(3), 30, 1);
        cv.done(a);
        cv.done(a);
    }
}
