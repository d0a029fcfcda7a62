//! [`Numbers`]: what AUTO_INCREMENT hands out.
//!
//! Numbers are handed out in memory and never twice; what a statement does not use is lost. The catalog
//! keeps a number below which all that were handed out lie: before a row is written, it is raised to
//! some numbers ahead, if need be. Its log comes before the row's. So a restart goes on above all
//! numbers that rows had, be the rows deleted meanwhile; after a crash some are skipped. Those of temporary tables are
//! in memory only.
//!
//! The first use after the start looks for the greatest number in the index, too, as rows that DDL
//! copied were not counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perigee_value::{ColumnType, RecordView, ValueRef};
use tokio::sync::{Mutex, OnceCell};

use super::{AutoIncrement, Table, TableDef};
use crate::EngineError;
use crate::btree::KeySpan;
use crate::buffer::Access;
use crate::engine::Engine;

/// Most numbers that are reserved at once; a crash loses them.
const AHEAD: u64 = 1000;

/// Which numbers a session takes: `offset + n × increment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The variable `auto_increment_increment`.
    pub increment: u64,
    /// The variable `auto_increment_offset`.
    pub offset: u64,
}

impl Default for Step {
    fn default() -> Self {
        Self {
            increment: 1,
            offset: 1,
        }
    }
}

impl Step {
    /// The least of its numbers from `least` on.
    fn align(self, least: u64) -> u64 {
        // An offset above the increment is ignored, as in MySQL.
        let offset = if self.offset > self.increment {
            1
        } else {
            self.offset
        };
        let beyond = least.saturating_sub(offset);
        let steps = beyond.div_ceil(self.increment);
        steps
            .checked_mul(self.increment)
            .and_then(|n| n.checked_add(offset))
            .unwrap_or(u64::MAX)
    }
}

/// The numbers of one table.
#[derive(Debug)]
pub struct Numbers {
    /// The next one is at least this.
    next: AtomicU64,
    /// The greatest one the column holds.
    greatest: u64,
    /// Set once `next` lies above all numbers in the table.
    looked: OnceCell<()>,
    /// Numbers below this one may be in use, says the catalog.
    reserved: AtomicU64,
    /// Held by who writes `reserved` to the catalog.
    reserving: Mutex<()>,
}

impl Numbers {
    /// The numbers of a column, the first of which is at least that of the definition.
    pub(crate) fn new(def: &TableDef, auto: AutoIncrement) -> Self {
        let greatest = match def.columns[usize::from(auto.column)].ty {
            ColumnType::Int { bytes, unsigned } => ColumnType::int_range(bytes, unsigned).1 as u64,
            _ => i64::MAX as u64,
        };
        Self {
            next: AtomicU64::new(auto.start.clamp(1, greatest)),
            greatest,
            looked: OnceCell::new(),
            reserved: AtomicU64::new(0),
            reserving: Mutex::default(),
        }
    }

    /// Goes on at what the catalog says may be in use.
    pub(super) fn go_on_at(&self, reserved: u64) {
        self.next.fetch_max(reserved, Ordering::Relaxed);
        self.reserved.store(reserved, Ordering::Relaxed);
    }

    /// What the catalog is to keep for a table whose definition begins with `start`.
    pub(crate) fn kept(&self, start: u64) -> Option<u64> {
        let kept = self.next().max(self.reserved.load(Ordering::Relaxed));
        (kept > start).then_some(kept)
    }

    /// Numbers that are reserved at once: few of a type that has few.
    fn ahead(&self) -> u64 {
        (self.greatest / 1024).min(AHEAD)
    }

    /// What the next number is at least.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Takes a number. When there is none any more, the greatest one comes again and again (so that
    /// a row with it is a duplicate), but `None` if that is 2^64 - 1.
    #[must_use]
    pub fn take(&self, step: Step) -> Option<u64> {
        let after = |next: u64| {
            let number = step.align(next).min(self.greatest);
            let following = number.saturating_add(1).min(self.greatest);
            (number != u64::MAX).then_some((number, following))
        };
        let mut next = self.next();
        loop {
            let (number, following) = after(next)?;
            let swap = self.next.compare_exchange_weak(
                next,
                following,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match swap {
                Ok(_) => return Some(number),
                Err(now) => next = now,
            }
        }
    }

    /// Takes note of a number that a row was given: later ones are greater.
    pub fn raise(&self, number: u64) {
        let following = number.saturating_add(1).min(self.greatest);
        self.next.fetch_max(following, Ordering::Relaxed);
    }
}

/// The number in a value, if it is one that AUTO_INCREMENT counts from.
#[must_use]
pub fn positive(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int(v) => u64::try_from(v).ok().filter(|v| *v > 0),
        ValueRef::UInt(v) => Some(v).filter(|v| *v > 0),
        _ => None,
    }
}

impl Engine {
    /// The numbers that AUTO_INCREMENT hands out for a table; `None` if it has no such column.
    ///
    /// # Errors
    /// If storage fails.
    pub async fn numbers(&self, table: &Table) -> Result<Option<Arc<Numbers>>, EngineError> {
        let (Some(auto), Some(numbers)) = (table.def.auto_increment, table.numbers()) else {
            return Ok(None);
        };
        let look = async || {
            if let Some(greatest) = self.greatest(table, auto.column).await? {
                numbers.raise(greatest);
            }
            Ok::<_, EngineError>(())
        };
        numbers.looked.get_or_try_init(look).await?;
        Ok(Some(numbers.clone()))
    }

    /// Has the catalog say that all numbers handed out so far may be in use. To be called before
    /// they are written anywhere.
    pub(crate) async fn reserve_numbers(&self, table: &Table) -> Result<(), EngineError> {
        let Some(numbers) = table.numbers().filter(|_| !table.def.is_temporary()) else {
            return Ok(());
        };
        let is_reserved = || numbers.next() <= numbers.reserved.load(Ordering::Relaxed);
        if is_reserved() {
            return Ok(());
        }
        let _reserving = numbers.reserving.lock().await;
        if is_reserved() {
            return Ok(());
        }
        let limit = numbers.next().saturating_add(numbers.ahead());
        self.keep_number(table, limit.min(numbers.greatest)).await
    }

    /// At an end in good order: has the next start skip no numbers.
    pub(crate) async fn keep_numbers(&self) -> Result<(), EngineError> {
        let schemas = self.schemas();
        for table in schemas.iter().flat_map(|schema| self.tables(schema)) {
            let Some(numbers) = table.numbers() else {
                continue;
            };
            let _reserving = numbers.reserving.lock().await;
            let next = numbers.next();
            if next < numbers.reserved.load(Ordering::Relaxed) {
                self.keep_number(&table, next).await?;
            }
        }
        Ok(())
    }

    async fn keep_number(&self, table: &Table, limit: u64) -> Result<(), EngineError> {
        self.pool.admit().await?;
        self.catalog.store_number(table, limit).await?;
        if let Some(numbers) = table.numbers() {
            numbers.reserved.store(limit, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The greatest positive value of a column that an index begins with. Rows that are deleted
    /// count as long as they are in the index.
    async fn greatest(&self, table: &Table, column: u16) -> Result<Option<u64>, EngineError> {
        let leads = |index: &&super::Index| {
            let position = index.position(column);
            position.is_some() && index.layout.key.first().copied() == position
        };
        let Some(index) = table.indexes.iter().find(leads) else {
            return Ok(None);
        };
        let mut last = self.tree(index).range(KeySpan::all(), true, Access::Point);
        let Some(run) = last.next().await? else {
            return Ok(None);
        };
        let record = RecordView::new(&index.layout, run.page.get().record(run.slots.end - 1));
        let position = index.position(column).expect("the index begins with it");
        Ok(positive(record.value(usize::from(position))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(next: u64, greatest: u64) -> Numbers {
        Numbers {
            next: AtomicU64::new(next),
            greatest,
            looked: OnceCell::new(),
            reserved: AtomicU64::new(0),
            reserving: Mutex::default(),
        }
    }

    #[test]
    fn numbers_follow_each_other_and_what_rows_were_given() {
        let numbers = numbers(1, 127);
        let take = || numbers.take(Step::default());
        assert_eq!([take(), take()], [Some(1), Some(2)]);
        numbers.raise(2);
        numbers.raise(10);
        assert_eq!(numbers.take(Step::default()), Some(11));
        numbers.raise(126);
        assert_eq!(numbers.take(Step::default()), Some(127));
        assert_eq!(numbers.take(Step::default()), Some(127), "it comes again");
    }

    #[test]
    fn the_greatest_of_all_numbers_is_never_taken() {
        let numbers = numbers(u64::MAX - 1, u64::MAX);
        assert_eq!(numbers.take(Step::default()), Some(u64::MAX - 1));
        assert_eq!(numbers.take(Step::default()), None);
    }

    #[test]
    fn sessions_step() {
        let step = |increment, offset| Step { increment, offset };
        let aligned = |s: Step, from: u64| s.align(from);
        assert_eq!(aligned(step(10, 5), 1), 5);
        assert_eq!(aligned(step(10, 5), 5), 5);
        assert_eq!(aligned(step(10, 5), 6), 15);
        assert_eq!(aligned(step(2, 7), 4), 5, "the offset is ignored");
        let numbers = numbers(1, 1000);
        assert_eq!(numbers.take(step(10, 5)), Some(5));
        assert_eq!(numbers.take(step(10, 5)), Some(15));
    }
}
