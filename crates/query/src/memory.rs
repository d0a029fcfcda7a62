//! The memory that clients make a process take: commands that arrive, their syntax trees, what statements hold
//! and what is kept for sessions.
//!
//! Each statement has a limit of its own (`query_memory_limit`), which bounds one statement but not many. So
//! all of them, and all that lives longer than a statement, share one [`ProcessMemory`]. What does not fit is
//! refused, or spilled; nobody waits for memory of others.
//!
//! What is told is not all that a process takes: an allocator keeps what was freed a moment ago, and an estimate is one. So
//! somebody who knows what the system says tells that, too ([`ProcessMemory::note_untold`]), and where it is much, less is given out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Result, SqlError};

/// Memory of all connections of a process.
#[derive(Debug)]
pub struct ProcessMemory {
    limit: usize,
    used: AtomicUsize,
    /// What is not given out because of what nobody told.
    held_back: AtomicUsize,
}

/// Memory that nobody told, as a part of the limit, that changes nothing.
const UNTOLD_SHARE: usize = 2;

/// So much of the limit is given out in any case.
const LEAST_SHARE: usize = 4;

impl ProcessMemory {
    /// At most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            held_back: AtomicUsize::new(0),
        })
    }

    /// Takes note of how many bytes the process has beside those that are taken from here and its pools.
    pub fn note_untold(&self, bytes: usize) {
        let excess = bytes.saturating_sub(self.limit / UNTOLD_SHARE);
        let most = self.limit - self.limit / LEAST_SHARE;
        self.held_back.store(excess.min(most), Ordering::Relaxed);
    }

    /// Most bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that are taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes some bytes if they are left.
    #[must_use]
    pub fn try_take(&self, bytes: usize) -> bool {
        let limit = self.limit - self.held_back.load(Ordering::Relaxed);
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        bytes == 0 || self.used.fetch_update(set, get, more).is_ok()
    }

    /// Takes bytes that are in use already.
    pub fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives bytes back.
    pub fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes bytes until the charge is dropped.
    ///
    /// # Errors
    /// 1038.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge> {
        let mut charge = Charge {
            memory: self.clone(),
            bytes: AtomicUsize::new(0),
        };
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// What is said when it does not have so many bytes.
    pub(crate) fn refusal(&self, bytes: usize) -> String {
        let (used, limit) = (self.used(), self.limit);
        let untold = match self.held_back.load(Ordering::Relaxed) {
            0 => String::new(),
            held_back => {
                format!(", of which {held_back} are held back for what the process takes beside")
            }
        };
        format!(
            "{bytes} bytes are needed, and all connections hold {used} of {limit} (query_memory_total){untold}"
        )
    }
}

/// Bytes that are taken from the process's memory until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    memory: Arc<ProcessMemory>,
    bytes: AtomicUsize,
}

impl Charge {
    /// Bytes that are taken.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Holds what another charge of the same memory held, too.
    pub(crate) fn absorb(&self, mut other: Self) {
        let bytes = std::mem::take(other.bytes.get_mut());
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes more.
    ///
    /// # Errors
    /// 1038.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<()> {
        if !self.memory.try_take(bytes) {
            return Err(SqlError::process_out_of_memory(self.memory.refusal(bytes)));
        }
        *self.bytes.get_mut() += bytes;
        Ok(())
    }

    /// Takes more or gives some back.
    ///
    /// # Errors
    /// 1038; it is what it was then.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<()> {
        let held = self.bytes();
        if bytes > held {
            return self.grow(bytes - held);
        }
        self.memory.give_back(held - bytes);
        *self.bytes.get_mut() = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let memory = ProcessMemory::new(100);
        let mut charge = memory.charge(60).unwrap();
        let error = memory.charge(41).unwrap_err();
        assert_eq!((error.errno, error.sqlstate.as_str()), (1038, "HY001"));
        assert!(error.message.contains("41 bytes are needed"), "{error}");
        assert!(
            error.message.contains("60 of 100 (query_memory_total)"),
            "{error}"
        );
        assert_eq!(charge.resize(101).unwrap_err().errno, 1038);
        charge.resize(100).unwrap();
        assert!(!memory.try_take(1));
        charge.resize(10).unwrap();
        assert!(memory.try_take(90));
        memory.give_back(90);
        charge.absorb(memory.charge(90).unwrap());
        assert_eq!((charge.bytes(), memory.used()), (100, 100));
        drop(charge);
        assert_eq!(memory.used(), 0);
        assert!(!memory.try_take(usize::MAX));
    }

    #[test]
    fn less_is_given_out_where_the_process_takes_more_than_it_told() {
        let memory = ProcessMemory::new(100);
        memory.note_untold(50);
        let charge = memory.charge(100).unwrap();
        drop(charge);
        memory.note_untold(80);
        let error = memory.charge(71).unwrap_err();
        assert!(error.message.contains("30 are held back"), "{error}");
        let charge = memory.charge(70).unwrap();
        // A quarter is there in any case; who has more keeps it.
        memory.note_untold(usize::MAX);
        assert!(!memory.try_take(1));
        drop(charge);
        let charge = memory.charge(25).unwrap();
        assert!(!memory.try_take(1));
        memory.note_untold(0);
        assert!(memory.try_take(75));
        memory.give_back(75);
        drop(charge);
    }
}
