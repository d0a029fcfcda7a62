//! [`JoinTableBuilder`]: the rows of a join's small side on their way to a table, in bounded memory.

use bytes::Bytes;
use perigee_expr::{Lanes, Type, Vector};
use perigee_value::{ColumnType, ValueRef};

use super::keys::Keys;
use super::{JoinTable, MAX_JOIN_STRINGS, is_payload};
use crate::NdpError;
use crate::batch::MAX_ROWS;
use crate::filter::{KeyForm, MAX_FILTER_COLUMNS, number};

/// Why rows do not become a table: the join is done without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableRefused {
    /// Two rows have the same key.
    Duplicate,
    /// They take more memory than they may.
    TooLarge,
    /// A value is not valid for its column.
    Value,
}

/// Rows in the order in which they come.
pub struct JoinTableBuilder {
    key: Vec<ColumnType>,
    payload: Vec<(ColumnType, bool)>,
    form: KeyForm,
    keys: Vector,
    columns: Vec<Vector>,
    /// Two rows with the same key are one, not refused.
    dedups: bool,
    /// Bytes of memory that the rows take, and that they may take.
    bytes: usize,
    budget: usize,
}

impl JoinTableBuilder {
    /// No rows of tables with a key and other columns of these types, in at most so many bytes of memory; `None` if
    /// storage does not join by such keys, or if a table has no such columns.
    #[must_use]
    pub fn new(key: &[ColumnType], payload: &[(ColumnType, bool)], budget: usize) -> Option<Self> {
        let count = key.len();
        if count == 0 || count > MAX_FILTER_COLUMNS || key.iter().any(|ty| ty.is_long()) {
            return None;
        }
        if !is_payload(payload) {
            return None;
        }
        let form = KeyForm::of(key.iter().copied());
        let columns = payload.iter().map(|(ty, _)| Vector::new(Type::of(*ty)));
        Some(Self {
            key: key.to_vec(),
            payload: payload.to_vec(),
            form,
            keys: Keys::column(form),
            columns: columns.collect(),
            dedups: false,
            bytes: 0,
            budget,
        })
    }

    /// The same, for joins that ask only whether there is a key: it may come more than once.
    ///
    /// # Panics
    /// If the table has other columns.
    #[must_use]
    pub fn deduplicating(self) -> Self {
        assert!(
            self.payload.is_empty(),
            "N1: rows that differ in other columns are different"
        );
        Self {
            dedups: true,
            ..self
        }
    }

    /// Bytes of memory that the rows take, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row: its key, whose parts are encoded as [`perigee_value::key::encode_part`] does for columns that are
    /// not nullable, and its other columns. Rows with a NULL in their key are not added: no record joins them.
    ///
    /// # Errors
    /// Why the rows become no table.
    pub fn push<'a>(
        &mut self,
        key: &[u8],
        values: impl Iterator<Item = ValueRef<'a>>,
    ) -> Result<(), TableRefused> {
        if self.keys.len() >= MAX_ROWS {
            return Err(TableRefused::TooLarge);
        }
        self.bytes += size_of::<u64>() + key.len();
        match self.form {
            KeyForm::Packed { .. } => self.keys.push(ValueRef::UInt(number(key))),
            KeyForm::Bytes => self.keys.push(ValueRef::String(key)),
        }
        let mut strings = 0;
        let columns = self.columns.iter_mut().zip(&self.payload);
        for ((column, (ty, nullable)), value) in columns.zip(values) {
            if !accepts((*ty, *nullable), value) {
                return Err(TableRefused::Value);
            }
            self.bytes += usize::from(ty.stored_width().unwrap_or(8));
            if let ValueRef::String(text) = value {
                self.bytes += text.len();
                strings += text.len();
            }
            column.push(value);
        }
        match self.bytes > self.budget || strings > MAX_JOIN_STRINGS {
            true => Err(TableRefused::TooLarge),
            false => Ok(()),
        }
    }

    /// The table, and its wire form.
    ///
    /// # Errors
    /// Why the rows become no table.
    pub fn finish(self) -> Result<(JoinTable, Bytes), TableRefused> {
        let order = self.order()?;
        let ty = match self.form {
            KeyForm::Packed { .. } => Type::UInt,
            KeyForm::Bytes => Type::String,
        };
        let keys = taken(&self.keys, ty, &order);
        let columns = self.columns.iter().zip(&self.payload);
        let columns: Vec<_> = columns
            .map(|(column, (of, _))| taken(column, Type::of(*of), &order))
            .collect();
        let bytes = JoinTable::encode(&self.key, &self.payload, &keys, &columns);
        match JoinTable::decode(&bytes) {
            Ok(table) => Ok((table, bytes)),
            Err(NdpError::JoinTable { .. }) => Err(TableRefused::TooLarge),
            Err(error) => panic!("N1: what was just encoded: {error}"),
        }
    }

    /// Numbers of the rows in the order of their keys, each key once.
    fn order(&self) -> Result<Vec<u32>, TableRefused> {
        let mut order: Vec<u32> = (0..self.keys.len() as u32).collect();
        let (before, after) = (order.len(), &mut order);
        match &self.keys.lanes {
            Lanes::U64(numbers) => {
                after.sort_unstable_by_key(|row| numbers[*row as usize]);
                after.dedup_by_key(|row| numbers[*row as usize]);
            }
            _ => {
                let key = |row: u32| match self.keys.get(row as usize, Type::String) {
                    ValueRef::String(key) => key,
                    value => panic!("N1: {value:?} is no key"),
                };
                after.sort_unstable_by(|a, b| key(*a).cmp(key(*b)));
                after.dedup_by(|a, b| key(*a) == key(*b));
            }
        }
        match order.len() < before && !self.dedups {
            true => Err(TableRefused::Duplicate),
            false => Ok(order),
        }
    }
}

/// The lanes with these numbers.
fn taken(column: &Vector, ty: Type, order: &[u32]) -> Vector {
    let mut out = Vector::new(ty);
    for row in order {
        out.push(column.get(*row as usize, ty));
    }
    out
}

/// True if a column can have the value, as it is stored.
fn accepts((ty, nullable): (ColumnType, bool), value: ValueRef<'_>) -> bool {
    let in_range = |value: i128, (least, most): (i128, i128)| least <= value && value <= most;
    match (ty, value) {
        (_, ValueRef::Null) => nullable,
        (
            ColumnType::Int {
                bytes,
                unsigned: false,
            },
            ValueRef::Int(v),
        ) => in_range(v.into(), ColumnType::int_range(bytes, false)),
        (
            ColumnType::Int {
                bytes,
                unsigned: true,
            },
            ValueRef::UInt(v),
        ) => in_range(v.into(), ColumnType::int_range(bytes, true)),
        (ColumnType::Year, ValueRef::UInt(v)) => u16::try_from(v).is_ok(),
        (ColumnType::Bit { bits }, ValueRef::UInt(v)) => v <= perigee_value::bits::greatest(bits),
        (ColumnType::Decimal { precision, .. }, ValueRef::Decimal(v)) => {
            v.unsigned_abs() < 10_u128.pow(precision.into())
        }
        (ColumnType::Float, ValueRef::Double(v)) => f64::from(v as f32).to_bits() == v.to_bits(),
        (ColumnType::Double, ValueRef::Double(_)) | (ColumnType::Date, ValueRef::Date(_)) => true,
        (ColumnType::DateTime { .. } | ColumnType::Timestamp { .. }, ValueRef::DateTime(_)) => true,
        (ColumnType::Time { .. }, ValueRef::Time(_)) => true,
        (ColumnType::Char { .. } | ColumnType::Varchar { .. }, ValueRef::String(_)) => true,
        _ => false,
    }
}
