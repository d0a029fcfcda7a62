//! The memory of one statement.
//!
//! - Sorts and aggregations can spill; they share a quarter of the memory evenly, or three quarters if
//!   nothing is sorted.
//! - A sort that makes room, or reads back what it spilled, merges. The first takes about as much as
//!   the sort holds; the second takes all it is given. So merges share half evenly.
//! - The rest, and what those do not use, is for whatever comes first: hash tables of joins, say.
//! - Merging the partitions of a sort holds a batch of each, whatever their size, and is neither limited nor
//!   charged to the process: batches share strings, which are counted again for each.
//!
//! A sort thus does not fail because another one, or another partition of it, was faster.
//!
//! All that a statement takes is taken from the process's memory, too; a statement that could have more by its own
//! limit spills, or fails, when that is used up.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result as DfResult, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

use crate::memory::ProcessMemory;

/// The memory of a statement.
#[derive(Debug)]
pub(super) struct StatementMemory {
    limit: usize,
    process: Arc<ProcessMemory>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Consumers that can spill, and those that merge.
    spillers: usize,
    mergers: usize,
    /// Bytes of those that can spill, and of all others.
    spillable: usize,
    fixed: usize,
}

/// What DataFusion calls the consumers that merge for sorts.
const MERGER: &str = "ExternalSorterMerge";

/// What it calls the one that merges partitions.
const LAST_MERGER: &str = "SortPreservingMergeExec";

fn is_merger(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(MERGER)
}

/// True for the one that merges partitions, whose figures say little.
fn is_last_merger(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(LAST_MERGER)
}

impl StatementMemory {
    /// Memory of at most `limit` bytes of the process's.
    pub(super) fn new(limit: usize, process: &Arc<ProcessMemory>) -> Self {
        Self {
            limit,
            process: process.clone(),
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
        let consumer = reservation.consumer();
        let free = limit.saturating_sub(self.fixed + self.spillable);
        let share = if consumer.can_spill() {
            let quarters = if self.mergers == 0 { 3 } else { 1 };
            limit / 4 * quarters / self.spillers.max(1)
        } else if is_merger(consumer) {
            limit / 2 / self.mergers.max(1)
        } else if is_last_merger(consumer) {
            return usize::MAX;
        } else {
            return free;
        };
        free.min(share.saturating_sub(reservation.size()))
    }
}

impl MemoryPool for StatementMemory {
    fn name(&self) -> &str {
        "statement"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        let mut state = self.state.lock();
        state.spillers += usize::from(consumer.can_spill());
        state.mergers += usize::from(is_merger(consumer));
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut state = self.state.lock();
        state.spillers -= usize::from(consumer.can_spill());
        state.mergers -= usize::from(is_merger(consumer));
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        *self.state.lock().used(reservation) += additional;
        if !is_last_merger(reservation.consumer()) {
            self.process.take(additional);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        *self.state.lock().used(reservation) -= shrink;
        if !is_last_merger(reservation.consumer()) {
            self.process.give_back(shrink);
        }
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
        let charged = !is_last_merger(reservation.consumer());
        if charged && !self.process.try_take(additional) {
            let name = reservation.consumer().name();
            let refusal = self.process.refusal(additional);
            return Err(resources_datafusion_err!("{name}: {refusal}"));
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

    use super::*;

    #[test]
    fn nobody_takes_what_another_needs() {
        let all = ProcessMemory::new(4000);
        let pool: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(1600, &all));
        let consumer = |name: &str, spill| MemoryConsumer::new(name).with_can_spill(spill);
        let sorts = [(); 2].map(|()| consumer("ExternalSorter[0]", true).register(&pool));
        let merges = [(); 2].map(|()| consumer("ExternalSorterMerge[0]", false).register(&pool));
        let join = consumer("HashJoinInput", false).register(&pool);
        for sort in &sorts {
            sort.try_grow(200).unwrap();
            let text = sort.try_grow(1).unwrap_err().to_string();
            let wanted = "ExternalSorter[0] holds 200 bytes and needs 1 more; 0 of 1600 are left";
            assert!(text.contains(wanted), "{text}");
        }
        for merge in &merges {
            merge.try_grow(400).unwrap();
            assert!(merge.try_grow(1).is_err());
        }
        join.try_grow(400).unwrap();
        assert!(join.try_grow(1).is_err());
        let last = consumer("SortPreservingMergeExec[0]", false).register(&pool);
        last.try_grow(10_000).unwrap();
        drop(last);
        // Without sorts there is more for others.
        let other: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(1600, &all));
        let aggregate = consumer("FinalHashAggregateStream[0]", true).register(&other);
        aggregate.try_grow(1200).unwrap();
        assert!(aggregate.try_grow(1).is_err());
        let both = pool.reserved() + other.reserved();
        assert_eq!(all.used(), both);
        drop(aggregate);
        // What is not used is for all, in their shares.
        merges[0].free();
        join.try_grow(300).unwrap();
        assert!(merges[0].try_grow(101).is_err());
        merges[0].try_grow(100).unwrap();
        drop((sorts, merges, join));
        assert_eq!(pool.reserved(), 0);
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn statements_share_what_the_process_has() {
        let all = ProcessMemory::new(1000);
        let pools =
            [(); 2].map(|()| -> Arc<dyn MemoryPool> { Arc::new(StatementMemory::new(800, &all)) });
        let [one, other] = pools
            .each_ref()
            .map(|pool| MemoryConsumer::new("HashJoinInput").register(pool));
        one.try_grow(700).unwrap();
        let text = other.try_grow(301).unwrap_err().to_string();
        assert!(
            text.contains("HashJoinInput: 301 bytes are needed"),
            "{text}"
        );
        other.try_grow(300).unwrap();
        drop(one);
        other.try_grow(500).unwrap();
        assert_eq!(all.used(), 800);
        drop(other);
        assert_eq!(all.used(), 0);
    }
}
