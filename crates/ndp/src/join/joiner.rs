//! [`Joiner`]: finds the rows that records join, and writes the joined records.

use perigee_page::RecordShape;
use perigee_value::{ColumnType, Place, RowLayout};

use super::keys::NONE;
use super::{Join, JoinKind, JoinTable};
use crate::NdpError;
use crate::expression::{Backend, Expression};
use crate::filter::{KeyForm, RecordKey};
use crate::gather::Gather;

/// Joined records are written in pieces that begin below this: 16-bit offsets address all of a piece, since a record
/// is shorter (its parts are: that of the scan below 16 KiB, fixed columns below 8 KiB, strings of the table at most
/// [`super::MAX_JOIN_STRINGS`]).
const PIECE: usize = 30 << 10;

/// A join made ready to run over the records of a layout.
pub(crate) struct Joiner {
    kind: JoinKind,
    table: u64,
    types: Vec<ColumnType>,
    payload: Vec<(ColumnType, bool)>,
    key: RecordKey,
    columns: Vec<Copied>,
    /// Where in joined records the fixed columns of the table begin.
    fixed_at: usize,
    /// Of each column of the table that may be NULL in joined records its bit there, and its number among those that
    /// may be NULL in the table.
    nulls: Vec<(u16, Option<usize>)>,
    null_offset: usize,
    /// Strings of joined records that come from the scan.
    items: usize,
    shape: RecordShape,
    condition: Option<Expression>,
}

/// A column of the scan's records on its way to joined ones.
struct Copied {
    how: Copy,
    /// Offset of the byte and mask of the bit that is set if it is NULL, there and here.
    null: Option<((usize, u8), (usize, u8))>,
}

enum Copy {
    /// So many bytes as they are.
    Bytes {
        from: usize,
        to: usize,
        width: usize,
    },
    /// So many bytes in key encoding.
    Key {
        ty: ColumnType,
        from: usize,
        to: usize,
        width: usize,
    },
    /// A string.
    Item(Gather),
}

/// Records of a page, or of a buffer, that are joined.
#[derive(Default)]
pub(crate) struct Joined {
    /// Joined records, one after the other.
    pub(crate) buffer: Vec<u8>,
    /// Where each begins,
    pub(crate) offsets: Vec<u16>,
    /// and the offset of the record that it was made of.
    pub(crate) origins: Vec<u16>,
    /// The row of each record that is to be joined.
    rows: Vec<u32>,
    /// Where the last row was found.
    near: usize,
    numbers: Vec<u64>,
    key: Vec<u8>,
    /// Offsets of the records that gave rows.
    pub(crate) given: Vec<u16>,
}

impl Joiner {
    /// A valid join of records of `scan` to records of `joined`.
    pub(crate) fn new(join: &Join, scan: &RowLayout, joined: &RowLayout, backend: Backend) -> Self {
        let first = usize::from(Join::FIRST_COLUMN);
        let (own, table) = joined.columns[first..].split_at(join.columns.len());
        let places = join.columns.iter().zip(own);
        let columns: Vec<_> = places
            .map(|(number, to)| Copied::new(scan, *number, joined, to))
            .collect();
        let fixed_at = table.iter().find_map(|column| match column.place {
            Place::Fixed { offset } => Some(usize::from(offset)),
            Place::Key { .. } | Place::Var { .. } => None,
        });
        let mut nullable = 0..;
        let nulls = table.iter().zip(&join.payload);
        let nulls = nulls.filter_map(|(column, (_, in_table))| {
            let number = in_table.then(|| nullable.next()).flatten();
            Some((column.null_bit?, number))
        });
        let condition = join.condition.as_ref();
        Self {
            kind: join.kind,
            table: join.table,
            types: join
                .on
                .iter()
                .map(|c| scan.columns[usize::from(*c)].ty)
                .collect(),
            payload: join.payload.clone(),
            key: RecordKey::new(scan, join.on.iter().copied()),
            fixed_at: fixed_at.unwrap_or(0),
            nulls: nulls.collect(),
            null_offset: usize::from(joined.null_offset),
            items: own.iter().filter(|column| column.ty.is_string()).count(),
            shape: joined.shape,
            columns,
            condition: condition.map(|program| Expression::new(program, joined, backend)),
        }
    }

    /// Structure of joined records.
    pub(crate) fn shape(&self) -> &RecordShape {
        &self.shape
    }

    /// The condition on joined records.
    pub(crate) fn condition(&self) -> Option<&Expression> {
        self.condition.as_ref()
    }

    /// Checks that a table is the one that the join names.
    ///
    /// # Errors
    /// [`NdpError::JoinTable`] if it is not, or has other columns.
    pub(crate) fn check(&self, table: &JoinTable) -> Result<(), NdpError> {
        let what = if table.name() != self.table {
            format!("{:016x} is not {:016x}", table.name(), self.table)
        } else if table.key() != self.types || table.payload() != self.payload {
            format!("{:016x} has other columns", self.table)
        } else {
            return Ok(());
        };
        Err(NdpError::JoinTable { what })
    }

    /// The error of a run without the table.
    pub(crate) fn missing(&self) -> NdpError {
        let what = format!("{:016x} is missing", self.table);
        NdpError::JoinTable { what }
    }

    /// Finds the rows of records, which lie inside `base` as a whole.
    pub(crate) fn find(&self, table: &JoinTable, base: &[u8], records: &[u16], out: &mut Joined) {
        let Joined {
            rows,
            near,
            numbers,
            key,
            ..
        } = out;
        rows.clear();
        let is_null = |at: u16| self.key.has_nulls && self.key.is_null(base, at);
        match self.key.form {
            KeyForm::Packed { .. } => {
                self.key.numbers(base, records, numbers);
                rows.extend(records.iter().zip(&*numbers).map(|(&at, &number)| {
                    match is_null(at) {
                        true => NONE,
                        false => table.keys.row_of_number(number, near),
                    }
                }));
            }
            KeyForm::Bytes => rows.extend(records.iter().map(|&at| {
                // A string that is not text equals no key.
                match !is_null(at) && self.key.key(base, at, key) {
                    true => table.keys.row_of_bytes(key, near),
                    false => NONE,
                }
            })),
        }
    }

    /// Writes the next joined records, beginning with the one of record number `from` among those whose rows were
    /// found; returns the number of the record to go on with.
    pub(crate) fn write(
        &self,
        table: &JoinTable,
        base: &[u8],
        records: &[u16],
        from: usize,
        out: &mut Joined,
    ) -> usize {
        out.buffer.clear();
        out.offsets.clear();
        out.origins.clear();
        for (number, &at) in records.iter().enumerate().skip(from) {
            if out.buffer.len() > PIECE {
                return number;
            }
            let row = out.rows[number];
            if self.lets_through(row != NONE) {
                out.offsets.push(out.buffer.len() as u16);
                out.origins.push(at);
                let row = (row != NONE).then_some(row as usize);
                self.record(table, base, at, row, &mut out.buffer);
            }
        }
        records.len()
    }

    fn lets_through(&self, has_row: bool) -> bool {
        match self.kind {
            JoinKind::Inner | JoinKind::Semi => has_row,
            JoinKind::Left => true,
            JoinKind::Anti => !has_row,
        }
    }

    /// Appends a joined record.
    fn record(
        &self,
        table: &JoinTable,
        base: &[u8],
        at: u16,
        row: Option<usize>,
        buffer: &mut Vec<u8>,
    ) {
        let begin = buffer.len();
        buffer.resize(begin + self.shape.var_data_offset(), 0);
        let mut ends = begin + usize::from(self.shape.fixed_len);
        let mut end = |buffer: &mut Vec<u8>| {
            let len = (buffer.len() - begin) as u16;
            buffer[ends..ends + 2].copy_from_slice(&len.to_le_bytes());
            ends += 2;
        };
        for column in &self.columns {
            if column.copy(base, at, begin, buffer) {
                end(buffer);
            }
        }
        self.null_row(table, row, &mut buffer[begin..]);
        match row {
            Some(row) => {
                let fixed = table.rows.fixed(row);
                let to = begin + self.fixed_at;
                buffer[to..to + fixed.len()].copy_from_slice(fixed);
                for string in table.rows.strings_of(row) {
                    buffer.extend_from_slice(string);
                    end(buffer);
                }
            }
            None => {
                for _ in self.items..usize::from(self.shape.var_count) {
                    end(buffer);
                }
            }
        }
    }

    /// Sets the bits of the table's columns that are NULL.
    fn null_row(&self, table: &JoinTable, row: Option<usize>, record: &mut [u8]) {
        let nulls = row.map(|row| table.rows.nulls(row));
        for (bit, number) in &self.nulls {
            let is_null = match (nulls, number) {
                (Some(nulls), Some(number)) => nulls[*number],
                (Some(_), None) => false,
                (None, _) => true,
            };
            let byte = self.null_offset + usize::from(bit / 8);
            record[byte] |= u8::from(is_null) << (bit % 8);
        }
    }
}

impl Copied {
    fn new(
        scan: &RowLayout,
        number: u16,
        joined: &RowLayout,
        to: &perigee_value::ColumnLayout,
    ) -> Self {
        let column = &scan.columns[usize::from(number)];
        let width = usize::from(column.ty.stored_width().unwrap_or(0));
        let how = match (column.place, to.place) {
            (Place::Fixed { offset: from }, Place::Fixed { offset: to }) => Copy::Bytes {
                from: from.into(),
                to: to.into(),
                width,
            },
            (Place::Key { offset: from }, Place::Fixed { offset: to }) => Copy::Key {
                ty: column.ty,
                from: from.into(),
                to: to.into(),
                width,
            },
            (Place::Var { .. }, Place::Var { .. }) => Copy::Item(Gather::new(scan, number)),
            places => panic!("N1: a column cannot be copied from and to {places:?}"),
        };
        let bit = |layout: &RowLayout, bit: u16| {
            let byte = usize::from(layout.null_offset) + usize::from(bit / 8);
            (byte, 1 << (bit % 8))
        };
        let null = column.null_bit.zip(to.null_bit);
        Self {
            how,
            null: null.map(|(from, to)| (bit(scan, from), bit(joined, to))),
        }
    }

    /// Copies the column of a record; true if it is a string, whose bytes are appended.
    fn copy(&self, base: &[u8], at: u16, begin: usize, buffer: &mut Vec<u8>) -> bool {
        let record = &base[usize::from(at)..];
        if let Some(((from, mask), (to, bit))) = self.null
            && record[from] & mask != 0
        {
            buffer[begin + to] |= bit;
            return matches!(self.how, Copy::Item(_));
        }
        match &self.how {
            Copy::Bytes { from, to, width } => {
                buffer[begin + to..begin + to + width]
                    .copy_from_slice(&record[*from..from + width]);
                false
            }
            Copy::Key {
                ty,
                from,
                to,
                width,
            } => {
                let out = &mut buffer[begin + to..begin + to + width];
                from_key(*ty, &record[*from..from + width], out);
                false
            }
            Copy::Item(gather) => {
                if let Some((start, end)) = gather.item(base, at) {
                    buffer.extend_from_slice(&base[start..end]);
                }
                true
            }
        }
    }
}

/// The stored bytes of a value in key encoding.
fn from_key(ty: ColumnType, key: &[u8], out: &mut [u8]) {
    // Wide decimals are stored as they are encoded.
    if ty.is_wide() {
        return out.copy_from_slice(key);
    }
    for (out, byte) in out.iter_mut().zip(key.iter().rev()) {
        *out = *byte;
    }
    let Some(last) = out.last_mut() else { return };
    let is_float = matches!(ty, ColumnType::Float | ColumnType::Double);
    match *last & 0x80 {
        _ if ty.is_unsigned() => {}
        // A negative number was inverted.
        0 if is_float => out.iter_mut().for_each(|byte| *byte = !*byte),
        _ => *last ^= 0x80,
    }
}
