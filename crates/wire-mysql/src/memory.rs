//! Memory of what clients send: long commands, and values of parameters that are sent in parts. All
//! connections share it, so that many long commands at a time do not add up.

use std::fmt;
use std::sync::Arc;

/// Bytes of a connection that are not worth counting.
const LITTLE: usize = 256 * 1024;

/// Memory that connections share with what their statements do.
pub trait Memory: Send + Sync {
    /// Takes some bytes if they are left.
    fn try_take(&self, bytes: usize) -> bool;
    /// Gives some back.
    fn give_back(&self, bytes: usize);
}

/// What a connection has taken; given back when this is dropped.
pub(crate) struct Held {
    memory: Option<Arc<dyn Memory>>,
    bytes: usize,
}

impl Held {
    /// Nothing, of an unlimited memory if there is none.
    pub(crate) fn new(memory: Option<Arc<dyn Memory>>) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Nothing, of the same memory.
    pub(crate) fn of_same(&self) -> Self {
        Self::new(self.memory.clone())
    }

    /// True if it is worth counting.
    pub(crate) fn is_much(&self) -> bool {
        self.bytes > 0
    }

    /// Takes more or gives some back, so that it is `bytes`; false, and nothing changes, if they are not left.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let bytes = if bytes > LITTLE { bytes } else { 0 };
        if let Some(memory) = &self.memory {
            if bytes > self.bytes && !memory.try_take(bytes - self.bytes) {
                return false;
            }
            memory.give_back(self.bytes.saturating_sub(bytes));
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A memory of so many bytes.
    pub(crate) struct Bytes(pub(crate) AtomicUsize);

    impl Memory for Bytes {
        fn try_take(&self, bytes: usize) -> bool {
            let less = |left: usize| left.checked_sub(bytes);
            let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
            self.0.fetch_update(set, get, less).is_ok()
        }

        fn give_back(&self, bytes: usize) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_is_held_is_given_back() {
        let memory = Arc::new(Bytes(AtomicUsize::new(10 * LITTLE)));
        let left = || memory.0.load(Ordering::Relaxed);
        let mut held = Held::new(Some(memory.clone()));
        assert!(held.resize(LITTLE) && left() == 10 * LITTLE, "it is little");
        assert!(held.resize(6 * LITTLE) && left() == 4 * LITTLE);
        let mut other = held.of_same();
        assert!(!other.resize(5 * LITTLE) && left() == 4 * LITTLE);
        assert!(held.resize(2 * LITTLE) && left() == 8 * LITTLE);
        assert!(other.resize(5 * LITTLE));
        drop((held, other));
        assert_eq!(left(), 10 * LITTLE);
        let mut unlimited = Held::new(None);
        assert!(unlimited.resize(usize::MAX) && unlimited.is_much());
    }
}
