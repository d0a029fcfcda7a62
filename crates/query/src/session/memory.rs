//! The memory of one statement.
//!
//! Sorts and aggregations can spill; they share a third of the memory evenly. The rest is for what
//! cannot: hash tables of joins, and merging what was sorted or spilled. A sort that has to make room
//! merges what it has, which takes about as much as it holds. With twice that for it, a sort never
//! fails because another one, or another partition of it, was faster.

use std::fmt;

use datafusion::common::{Result as DfResult, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

/// The memory of a statement.
#[derive(Debug)]
pub(super) struct StatementMemory {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Consumers that can spill.
    spillers: usize,
    /// Bytes of those.
    spillable: usize,
    /// Bytes of the others.
    fixed: usize,
}

impl StatementMemory {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            state: Mutex::default(),
        }
    }
}

impl State {
    fn used(&mut self, reservation: &MemoryReservation) -> &mut usize {
        if reservation.consumer().can_spill() {
            &mut self.spillable
        } else {
            &mut self.fixed
        }
    }

    /// Bytes by which a reservation may still grow.
    fn room(&self, reservation: &MemoryReservation, limit: usize) -> usize {
        let left = limit.saturating_sub(self.fixed);
        if reservation.consumer().can_spill() {
            let share = left.min(limit / 3) / self.spillers.max(1);
            share.saturating_sub(reservation.size())
        } else {
            left.saturating_sub(self.spillable)
        }
    }
}

impl MemoryPool for StatementMemory {
    fn name(&self) -> &str {
        "statement"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.state.lock().spillers += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.state.lock().spillers -= usize::from(consumer.can_spill());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        *self.state.lock().used(reservation) += additional;
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        *self.state.lock().used(reservation) -= shrink;
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> DfResult<()> {
        let mut state = self.state.lock();
        let room = state.room(reservation, self.limit);
        if additional > room {
            let (limit, held) = (self.limit, reservation.size());
            return Err(resources_datafusion_err!(
                "{} holds {held} bytes and needs {additional} more; \
                 {room} of {limit} are left for it",
                reservation.consumer().name()
            ));
        }
        *state.used(reservation) += additional;
        Ok(())
    }

    fn reserved(&self) -> usize {
        let state = self.state.lock();
        state.spillable + state.fixed
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl fmt::Display for StatementMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.limit)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_third_is_for_those_that_spill() {
        let pool: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(1200));
        let consumer = |name: &str, spill| MemoryConsumer::new(name).with_can_spill(spill);
        let first = consumer("first", true).register(&pool);
        let second = consumer("second", true).register(&pool);
        let merge = consumer("merge", false).register(&pool);
        first.try_grow(200).unwrap();
        second.try_grow(200).unwrap();
        let text = first.try_grow(1).unwrap_err().to_string();
        assert!(
            text.contains("first holds 200 bytes and needs 1 more; 0 of 1200 are left"),
            "{text}"
        );
        merge.try_grow(800).unwrap();
        assert!(merge.try_grow(1).is_err());
        // What cannot spill may have what others do not use, and they make room.
        first.free();
        merge.try_grow(200).unwrap();
        assert!(first.try_grow(101).is_err());
        first.try_grow(100).unwrap();
        drop(second);
        first.try_grow(100).unwrap();
        drop((first, merge));
        assert_eq!(pool.reserved(), 0);
    }
}
