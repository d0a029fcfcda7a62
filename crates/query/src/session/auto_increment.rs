//! AUTO_INCREMENT: numbers for the rows of a statement, and LAST_INSERT_ID().

use std::sync::Arc;

use perigee_engine::catalog::{Numbers, Step, Table, positive};
use perigee_sql_bind::Modes;
use perigee_value::{ColumnType, Datum};

use super::Session;
use crate::error::{Result, SqlError};

/// Numbers the rows that one statement inserts into a table.
#[derive(Default)]
pub(super) struct Generator {
    /// `None` if the table has no such column.
    counted: Option<Counted>,
    /// First number that was generated for a row that was inserted.
    first: Option<u64>,
    /// First number of rows that are about to be inserted.
    pending: Option<u64>,
    /// Last number that was given.
    given: Option<u64>,
}

struct Counted {
    column: usize,
    ty: ColumnType,
    numbers: Arc<Numbers>,
    step: Step,
    /// sql_mode has NO_AUTO_VALUE_ON_ZERO: only NULL asks for a number.
    zero_is_a_value: bool,
}

impl Generator {
    pub(super) async fn new(session: &Session, table: &Table) -> Result<Self> {
        let Some(numbers) = session.frontend.engine.numbers(table).await? else {
            return Ok(Self::default());
        };
        let zero_is_a_value = session.modes().has(Modes::NO_AUTO_VALUE_ON_ZERO);
        let step = Step {
            increment: session.variables.integer("auto_increment_increment"),
            offset: session.variables.integer("auto_increment_offset"),
        };
        let counted = table.def.auto_increment.map(|auto| Counted {
            column: usize::from(auto.column),
            ty: table.def.columns[usize::from(auto.column)].ty,
            numbers,
            step,
            zero_is_a_value,
        });
        Ok(Self {
            counted,
            ..Self::default()
        })
    }

    /// The column that is numbered.
    pub(super) fn column(&self) -> Option<usize> {
        self.counted.as_ref().map(|counted| counted.column)
    }

    /// Type of that column.
    pub(super) fn ty(&self) -> Option<ColumnType> {
        self.counted.as_ref().map(|counted| counted.ty)
    }

    /// Puts a number into a row, given as values of the table's columns, that asks for one.
    ///
    /// # Errors
    /// 1467 if there is none left.
    pub(super) fn fill(&mut self, row: &mut [Datum]) -> Result<()> {
        match self.column() {
            Some(column) => self.fill_value(&mut row[column]),
            None => Ok(()),
        }
    }

    /// As [`Generator::fill`], with the value of the column alone.
    pub(super) fn fill_value(&mut self, value: &mut Datum) -> Result<()> {
        let Some(counted) = &self.counted else {
            return Ok(());
        };
        let asks = match value {
            Datum::Null => true,
            Datum::Int(0) | Datum::UInt(0) => !counted.zero_is_a_value,
            _ => false,
        };
        if !asks {
            if let Some(number) = positive(value.as_ref()) {
                counted.numbers.raise(number);
                self.given = Some(number);
            }
            return Ok(());
        }
        let number = counted.numbers.take(counted.step);
        let number = number.ok_or_else(SqlError::numbers_exhausted)?;
        *value = match counted.ty {
            ColumnType::Int { unsigned: true, .. } => Datum::UInt(number),
            _ => Datum::Int(number as i64), // at most the greatest of the column's type
        };
        self.pending.get_or_insert(number);
        Ok(())
    }

    /// First number that was generated for a row that was inserted.
    pub(super) fn first(&self) -> Option<u64> {
        self.first
    }

    /// The rows that were numbered last are inserted, or not (another was in their way).
    pub(super) fn done(&mut self, inserted: bool) {
        let first = self.pending.take().filter(|_| inserted);
        self.first = self.first.or(first);
    }
}

impl Session {
    /// Remembers what LAST_INSERT_ID() is after a statement that succeeded; returns what its OK
    /// tells: the first number that was generated, otherwise the last one that was given.
    pub(super) fn note_numbers(&mut self, generator: &mut Generator) -> u64 {
        generator.done(true);
        if let Some(first) = generator.first {
            self.last_insert_id = first;
        }
        generator.first.or(generator.given).unwrap_or(0)
    }
}
