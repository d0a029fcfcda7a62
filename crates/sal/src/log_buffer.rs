//! The database log buffer: gives each log group its LSN and collects groups for the flusher.
//!
//! Invariant L1: LSNs increase by one from group to group, and buffers leave in LSN order.

use std::collections::VecDeque;

use bytes::Bytes;
use perigee_types::Lsn;

/// A database log buffer: whole log groups, written and made visible together.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub first: Lsn,
    pub last: Lsn,
    pub groups: Bytes,
}

/// Groups that are not yet written.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    last: Lsn,
    limit: usize,
    open: Vec<u8>,
    open_first: Lsn,
    closed: VecDeque<Buffer>,
    /// Set by a failure: LSNs are still given out, but there is nowhere to write to.
    discard: bool,
}

impl LogBuffer {
    /// A buffer that goes on after `last` and is closed when it would exceed `limit` bytes.
    pub fn new(last: Lsn, limit: usize) -> Self {
        let (open, closed) = (Vec::new(), VecDeque::new());
        Self {
            last,
            limit,
            open,
            open_first: last.next(),
            closed,
            discard: false,
        }
    }

    /// LSN of the last group.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// True if the first group that is not closed is at or below `lsn`.
    pub fn holds(&self, lsn: Lsn) -> bool {
        !self.open.is_empty() && self.open_first <= lsn
    }

    /// True if nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.closed.is_empty()
    }

    /// True if a group of `len` bytes would close the open buffer.
    pub fn is_full(&self, len: usize) -> bool {
        !self.open.is_empty() && self.open.len() + len > self.limit
    }

    /// Adds the group with this encoded body and returns its LSN.
    pub fn append(&mut self, body: &[u8]) -> Lsn {
        self.last = self.last.next();
        if self.discard {
            return self.last;
        }
        let len = size_of::<u64>() + body.len();
        if self.is_full(len) {
            self.close(Lsn(self.last.0 - 1));
        }
        if self.open.is_empty() {
            self.open_first = self.last;
            self.open.reserve(len);
        }
        self.open.extend_from_slice(&self.last.0.to_le_bytes());
        self.open.extend_from_slice(body);
        self.last
    }

    /// The next buffer to write: a closed one or, if `also_open`, the one being filled.
    pub fn take(&mut self, also_open: bool) -> Option<Buffer> {
        if self.closed.is_empty() && also_open && !self.open.is_empty() {
            self.close(self.last);
        }
        self.closed.pop_front()
    }

    /// Drops what is there and what comes.
    pub fn discard(&mut self) {
        self.discard = true;
        self.open = Vec::new();
        self.closed.clear();
    }

    fn close(&mut self, last: Lsn) {
        let groups = Bytes::from(std::mem::take(&mut self.open));
        self.closed.push_back(Buffer {
            first: self.open_first,
            last,
            groups,
        });
        self.open_first = last.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_whole_groups_in_order() {
        let mut log = LogBuffer::new(Lsn(10), 40);
        for (i, len) in [20, 10, 100, 4, 4].into_iter().enumerate() {
            assert_eq!(log.append(&vec![i as u8; len]), Lsn(11 + i as u64));
        }
        assert!(log.holds(Lsn(14)) && !log.holds(Lsn(13)));
        let mut seen = Vec::new();
        while let Some(b) = log.take(true) {
            seen.push((b.first.0, b.last.0, b.groups.len()));
        }
        assert_eq!(
            seen,
            [(11, 11, 28), (12, 12, 18), (13, 13, 108), (14, 15, 24)]
        );
        assert!(log.is_empty() && log.take(true).is_none());
        assert_eq!(log.append(&[1]), Lsn(16));
        assert!(log.take(false).is_none());
    }

    #[test]
    fn after_a_failure_lsns_go_on_and_nothing_is_kept() {
        let mut log = LogBuffer::new(Lsn(0), 40);
        log.append(&[0; 10]);
        log.discard();
        assert_eq!(log.append(&[0; 10]), Lsn(2));
        assert!(log.is_empty());
    }
}
