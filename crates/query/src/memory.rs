//! The memory that clients make a process take: commands that arrive, their syntax trees, what statements hold
//! and what is kept for sessions.
//!
//! Each statement has a limit of its own (`query_memory_limit`), which bounds one statement but not many. So
//! all of them, and all that lives longer than a statement, share one [`ProcessMemory`]. What does not fit is
//! refused, or spilled; nobody waits for memory of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Result, SqlError};

/// Memory of all connections of a process.
#[derive(Debug)]
pub struct ProcessMemory {
    limit: usize,
    used: AtomicUsize,
}

impl ProcessMemory {
    /// At most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
        })
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
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
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
            bytes: 0,
        };
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// What is said when it does not have so many bytes.
    pub(crate) fn refusal(&self, bytes: usize) -> String {
        let (used, limit) = (self.used(), self.limit);
        format!(
            "{bytes} bytes are needed, and all connections hold {used} of {limit} (query_memory_total)"
        )
    }
}

/// Bytes that are taken from the process's memory until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    memory: Arc<ProcessMemory>,
    bytes: usize,
}

impl Charge {
    /// Takes more.
    ///
    /// # Errors
    /// 1038.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<()> {
        if !self.memory.try_take(bytes) {
            return Err(SqlError::process_out_of_memory(self.memory.refusal(bytes)));
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Takes more or gives some back.
    ///
    /// # Errors
    /// 1038; it is what it was then.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.memory.give_back(self.bytes - bytes);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
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
        assert_eq!((error.errno, error.sqlstate), (1038, "HY001"));
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
        drop(charge);
        assert_eq!(memory.used(), 0);
        assert!(!memory.try_take(usize::MAX));
    }
}
