//! Joins in storage: a small side of a join, or one that was aggregated before, comes to the scan of the other side as a
//! [`JoinTable`] (ColumnBurst, sections 2 and 3; `docs/format/join-table.md`).
//!
//! A table has each key once, so a record joins one row at most, and the joined row is a record of more columns: those
//! that the rest of the query needs of the scan, and behind them those of the table. Such records are written in a layout
//! of their own ([`Join::layout`]), over which conditions, projections and aggregations run as over any record.
//!
//! A [`Join`] is part of a descriptor and names its table by a hash. Who runs the descriptor needs the table: a Page
//! Store without it declines the pages, and the frontend, which made it, joins them.

mod build;
mod joiner;
mod keys;
mod rows;
mod table;

use perigee_expr::{Program, Type};
use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::{ColumnType, RowLayout};

use crate::NdpError;
use crate::filter::MAX_FILTER_COLUMNS;
pub use build::{JoinTableBuilder, TableRefused};
pub(crate) use joiner::{Joined, Joiner};
pub use table::{JOIN_TABLE_VERSION, JoinTable, MAX_JOIN_TABLE_LEN, MAX_JOIN_TABLE_MEMORY};

/// Most columns of a table besides its key.
pub const MAX_JOIN_COLUMNS: usize = 64;

/// Most bytes of strings of a row of a table: a joined record stays far below what 16-bit offsets address.
pub const MAX_JOIN_STRINGS: usize = 8 << 10;

/// Which records a join lets through, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Records with a row of the table, and that row.
    Inner,
    /// All records, with NULLs where the table has no row.
    Left,
    /// Records with a row of the table, and nothing of it.
    Semi,
    /// Records without a row of the table. A record whose key is NULL has none.
    Anti,
}

/// A join of a scan's records with a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// Which records come through.
    pub kind: JoinKind,
    /// Names the table: [`JoinTable::name`].
    pub table: u64,
    /// Columns of the scan's layout that make the key, in the order of the table's key.
    pub on: Vec<u16>,
    /// Columns of the scan's layout that joined records have, each once.
    pub columns: Vec<u16>,
    /// Types and nullability of the table's columns, which joined records have behind those.
    pub payload: Vec<(ColumnType, bool)>,
    /// A Bool program over joined records; those for which it is not true are left out.
    pub condition: Option<Program>,
}

impl Join {
    /// Number of the first column in joined records that comes from somewhere: the one before is their key, which
    /// every layout needs and which says nothing.
    pub const FIRST_COLUMN: u16 = 1;

    /// Number of a column of the table in joined records.
    #[must_use]
    pub fn payload_column(&self, number: usize) -> u16 {
        Self::FIRST_COLUMN + (self.columns.len() + number) as u16
    }

    /// The layout of joined records.
    ///
    /// # Errors
    /// [`NdpError::Descriptor`] if the scan's layout lacks a column, or if such records would be too long.
    pub fn layout(&self, scan: &RowLayout) -> Result<RowLayout, NdpError> {
        let key = ColumnType::Int {
            bytes: 1,
            unsigned: true,
        };
        let mut columns = vec![(key, false)];
        for (place, number) in self.columns.iter().enumerate() {
            let column = scan.columns.get(usize::from(*number));
            let column = column.filter(|column| !column.ty.is_long());
            // Once, so that the strings of a joined record are no longer than those of a page's.
            let known = self.columns[..place].contains(number);
            let Some(column) = column.filter(|_| !known) else {
                return invalid(format!("column {number} cannot be in joined records"));
            };
            columns.push((column.ty, column.null_bit.is_some()));
        }
        let padded = self.kind == JoinKind::Left;
        let payload = self.payload.iter();
        columns.extend(payload.map(|(ty, nullable)| (*ty, *nullable || padded)));
        RowLayout::clustered(&columns, &[0]).or_else(|e| invalid(format!("joined records: {e}")))
    }

    /// Checks it against the layout of the scan's records; returns that of the joined ones.
    pub(crate) fn validate(&self, scan: &RowLayout) -> Result<RowLayout, NdpError> {
        if self.on.is_empty() || self.on.len() > MAX_FILTER_COLUMNS {
            return invalid(format!("a join on {} columns", self.on.len()));
        }
        let is_key = |number: &u16| {
            let column = scan.columns.get(usize::from(*number));
            column.is_some_and(|column| !column.ty.is_long())
        };
        if let Some(column) = self.on.iter().find(|number| !is_key(number)) {
            return invalid(format!("a join on column {column}"));
        }
        if !is_payload(&self.payload) {
            return invalid("a join with columns that no join table has".to_owned());
        }
        if matches!(self.kind, JoinKind::Semi | JoinKind::Anti) && !self.payload.is_empty() {
            return invalid("a semi-join with columns of its table".to_owned());
        }
        let joined = self.layout(scan)?;
        let Some(condition) = &self.condition else {
            return Ok(joined);
        };
        condition
            .check(&joined)
            .or_else(|e| invalid(e.to_string()))?;
        match condition.result_type() {
            Type::Bool => Ok(joined),
            _ => invalid("the condition of its join is not a truth value".to_owned()),
        }
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u8(match self.kind {
            JoinKind::Inner => 1,
            JoinKind::Left => 2,
            JoinKind::Semi => 3,
            JoinKind::Anti => 4,
        });
        w.u64(self.table);
        for columns in [&self.on, &self.columns] {
            w.u16(columns.len() as u16);
            for column in columns {
                w.u16(*column);
            }
        }
        encode_columns(&self.payload, w);
        w.u8(u8::from(self.condition.is_some()));
        if let Some(condition) = &self.condition {
            condition.encode(w);
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = match r.u8()? {
            1 => JoinKind::Inner,
            2 => JoinKind::Left,
            3 => JoinKind::Semi,
            4 => JoinKind::Anti,
            _ => return Err(DecodeError::new("descriptor: kind of join")),
        };
        let table = r.u64()?;
        let mut numbers = || {
            let count = r.u16()?;
            (0..count).map(|_| r.u16()).collect::<Result<Vec<_>, _>>()
        };
        let (on, columns) = (numbers()?, numbers()?);
        let payload = decode_columns(r)?;
        let condition = match r.u8()? {
            0 => None,
            1 => Some(Program::decode(r)?),
            _ => return Err(DecodeError::new("descriptor: condition of the join")),
        };
        Ok(Self {
            kind,
            table,
            on,
            columns,
            payload,
            condition,
        })
    }
}

/// True if a table may have these columns.
fn is_payload(columns: &[(ColumnType, bool)]) -> bool {
    let is_one =
        |(ty, _): &(ColumnType, bool)| !ty.is_long() && !ty.is_wide() && ty.check().is_ok();
    columns.len() <= MAX_JOIN_COLUMNS && columns.iter().all(is_one)
}

/// True if a table can have a column of this type.
#[must_use]
pub fn joins_column(ty: ColumnType) -> bool {
    is_payload(&[(ty, true)])
}

fn encode_columns(columns: &[(ColumnType, bool)], w: &mut Writer) {
    w.u16(columns.len() as u16);
    for (ty, nullable) in columns {
        ty.encode(w);
        w.u8(u8::from(*nullable));
    }
}

fn decode_columns(r: &mut Reader<'_>) -> Result<Vec<(ColumnType, bool)>, DecodeError> {
    let count = usize::from(r.u16()?);
    if count > MAX_JOIN_COLUMNS {
        return Err(DecodeError::new("join: number of columns"));
    }
    let column = |r: &mut Reader<'_>| {
        let ty = ColumnType::decode(r)?;
        match r.u8()? {
            0 => Ok((ty, false)),
            1 => Ok((ty, true)),
            _ => Err(DecodeError::new("join: a column that may be NULL")),
        }
    };
    (0..count).map(|_| column(r)).collect()
}

fn invalid<T>(what: String) -> Result<T, NdpError> {
    Err(NdpError::Descriptor { what })
}
