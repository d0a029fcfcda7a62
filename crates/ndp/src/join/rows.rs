//! The columns of a join table besides its key, as joined records have them.

use bytes::Bytes;
use perigee_expr::{Lanes, Type};
use perigee_types::DecodeError;
use perigee_value::ColumnType;

use super::MAX_JOIN_STRINGS;
use crate::chunk::{Chunk, Strings, Values};
use crate::narrow;

/// Rows in the form of records: the fixed columns of each one after the other, and where its strings are.
#[derive(Debug)]
pub(super) struct Rows {
    /// Bytes of a row's fixed columns.
    fixed_len: usize,
    fixed: Vec<u8>,
    /// Columns of a row that may be NULL,
    nullable: usize,
    /// and whether each is.
    nulls: Vec<bool>,
    /// Strings of a row,
    items: usize,
    /// and where each begins and ends in `data`.
    places: Vec<(u32, u32)>,
    data: Vec<u8>,
}

/// What of a row a column is.
struct Target {
    /// Where in the fixed columns it begins; the number of the string, if it is one.
    at: usize,
    width: Option<usize>,
    /// Its number among those that may be NULL.
    null: Option<usize>,
}

impl Rows {
    /// Bytes of memory that so many rows take without what is in strings.
    pub(super) fn memory(columns: &[(ColumnType, bool)], rows: usize) -> usize {
        let width = |(ty, nullable): &(ColumnType, bool)| {
            let place = size_of::<(u32, u32)>();
            usize::from(*nullable) + ty.stored_width().map_or(place, usize::from)
        };
        rows * columns.iter().map(width).sum::<usize>()
    }

    /// Rows whose columns are yet to be loaded.
    pub(super) fn new(columns: &[(ColumnType, bool)], rows: usize) -> Self {
        let widths = columns.iter().filter_map(|(ty, _)| ty.stored_width());
        let fixed_len = widths.map(usize::from).sum();
        let items = columns.iter().filter(|(ty, _)| ty.is_string()).count();
        let nullable = columns.iter().filter(|(_, nullable)| *nullable).count();
        Self {
            fixed_len,
            fixed: vec![0; rows * fixed_len],
            nullable,
            nulls: vec![false; rows * nullable],
            items,
            places: vec![(0, 0); rows * items],
            data: Vec::new(),
        }
    }

    /// Loads the columns, each read by `next`.
    pub(super) fn load(
        &mut self,
        columns: &[(ColumnType, bool)],
        rows: usize,
        mut next: impl FnMut() -> Result<Chunk, DecodeError>,
    ) -> Result<(), DecodeError> {
        let (mut fixed, mut item, mut null) = (0, 0, 0);
        for (ty, nullable) in columns {
            let width = ty.stored_width().map(usize::from);
            let target = Target {
                at: if width.is_some() { fixed } else { item },
                width,
                null: nullable.then_some(null),
            };
            fixed += width.unwrap_or(0);
            item += usize::from(width.is_none());
            null += usize::from(*nullable);
            self.column(*ty, &target, rows, &next()?)?;
        }
        let long = |row: &[(u32, u32)]| {
            let bytes = row.iter().map(|(start, end)| (end - start) as usize);
            bytes.sum::<usize>() > MAX_JOIN_STRINGS
        };
        match self.items > 0 && self.places.chunks(self.items).any(long) {
            true => Err(DecodeError::new("join table: strings of a row")),
            false => Ok(()),
        }
    }

    fn column(
        &mut self,
        ty: ColumnType,
        target: &Target,
        rows: usize,
        chunk: &Chunk,
    ) -> Result<(), DecodeError> {
        let is_null = |row: usize| {
            let valid = chunk.valid.as_ref();
            valid.is_some_and(|valid| valid[row / 8] >> (row % 8) & 1 == 0)
        };
        match target.null {
            Some(null) => (0..rows).for_each(|row| {
                self.nulls[row * self.nullable + null] = is_null(row);
            }),
            None if (0..rows).any(is_null) => {
                return Err(DecodeError::new("join table: NULL in a column without"));
            }
            None => {}
        }
        match target.width {
            Some(width) => self.numbers(ty, (target.at, width), rows, &chunk.values, is_null),
            None => self.strings(target.at, rows, &chunk.values, is_null),
        }
    }

    /// Numbers, each in the bytes that records have of it.
    fn numbers(
        &mut self,
        ty: ColumnType,
        (at, width): (usize, usize),
        rows: usize,
        values: &Values,
        is_null: impl Fn(usize) -> bool,
    ) -> Result<(), DecodeError> {
        let mut row = 0;
        let mut put = |bytes: &[u8]| {
            if !is_null(row) {
                let at = row * self.fixed_len + at;
                self.fixed[at..at + width].copy_from_slice(&bytes[..width]);
            }
            row += 1;
        };
        match (Lanes::for_type(Type::of(ty)), values) {
            (Lanes::I64(_), Values::Int { width, base, data }) => {
                narrow::for_each(*width, rows, data, |d| {
                    put(&base.wrapping_add(d as i64).to_le_bytes());
                });
            }
            (Lanes::U64(_), Values::UInt { width, base, data }) => {
                narrow::for_each(*width, rows, data, |d| {
                    put(&base.wrapping_add(d).to_le_bytes());
                });
            }
            (Lanes::I128(_), Values::Wide { width, base, data }) => {
                narrow::for_each_wide(*width, rows, data, |d| {
                    put(&base.wrapping_add(d as i128).to_le_bytes());
                });
            }
            (Lanes::F64(_), Values::Double(data)) if width == 8 => {
                narrow::for_each(8, rows, data, |bits| put(&bits.to_le_bytes()));
            }
            (Lanes::F64(_), Values::Float(data)) => narrow::for_each(4, rows, data, |bits| {
                let value = f32::from_bits(bits as u32);
                match width {
                    4 => put(&value.to_le_bytes()),
                    _ => put(&f64::from(value).to_le_bytes()),
                }
            }),
            _ => return Err(DecodeError::new("join table: form of a column")),
        }
        Ok(())
    }

    fn strings(
        &mut self,
        item: usize,
        rows: usize,
        values: &Values,
        is_null: impl Fn(usize) -> bool,
    ) -> Result<(), DecodeError> {
        let places = match values {
            Values::Strings(strings) => self.append(strings, rows),
            Values::Dictionary {
                entries,
                strings,
                codes,
            } => {
                let entries = self.append(strings, *entries);
                codes
                    .iter()
                    .map(|code| entries[usize::from(*code)])
                    .collect()
            }
            _ => return Err(DecodeError::new("join table: form of a column")),
        };
        for (row, place) in places.into_iter().enumerate() {
            if !is_null(row) {
                self.places[row * self.items + item] = place;
            }
        }
        Ok(())
    }

    /// Takes the bytes of strings in; returns where each is.
    fn append(&mut self, strings: &Strings, count: usize) -> Vec<(u32, u32)> {
        let begin = self.data.len();
        let bytes: &Bytes = &strings.data;
        self.data.extend_from_slice(bytes);
        let mut places = Vec::with_capacity(count);
        strings.for_each(count, |start, end| {
            places.push(((begin + start) as u32, (begin + end) as u32));
        });
        places
    }

    /// The fixed columns of a row.
    #[inline]
    pub(super) fn fixed(&self, row: usize) -> &[u8] {
        &self.fixed[row * self.fixed_len..(row + 1) * self.fixed_len]
    }

    /// Which of a row's columns that may be NULL are.
    #[inline]
    pub(super) fn nulls(&self, row: usize) -> &[bool] {
        &self.nulls[row * self.nullable..(row + 1) * self.nullable]
    }

    /// The strings of a row; that of a NULL is empty.
    #[inline]
    pub(super) fn strings_of(&self, row: usize) -> impl Iterator<Item = &[u8]> {
        let places = &self.places[row * self.items..(row + 1) * self.items];
        places
            .iter()
            .map(|(start, end)| &self.data[*start as usize..*end as usize])
    }
}
