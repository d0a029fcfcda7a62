//! The keys of a join table, in ascending order, and how a record's key is found among them.

use std::cmp::Ordering;

use perigee_expr::{Lanes, Vector};
use perigee_types::DecodeError;

use crate::chunk::{Chunk, Values};
use crate::filter::KeyForm;
use crate::narrow;

/// Keys are looked up by their place if they are at least one in so many of the numbers between the least and the greatest.
const DENSE: u64 = 4;

/// Memory of a packed key: itself, and its part of the places.
const NUMBER_BYTES: usize = size_of::<u64>() + DENSE as usize * size_of::<u32>();

/// No row.
pub(super) const NONE: u32 = u32::MAX;

/// Keys in ascending order, each once; a key's place is the number of its row.
#[derive(Debug)]
pub(super) enum Keys {
    Numbers {
        numbers: Vec<u64>,
        /// The row of each number from the least on, if the numbers are dense.
        rows: Vec<u32>,
    },
    Bytes {
        ends: Vec<u32>,
        data: Vec<u8>,
    },
}

impl Keys {
    /// Bytes of memory that so many keys take without what is in strings.
    pub(super) fn memory(form: KeyForm, rows: usize) -> usize {
        match form {
            KeyForm::Packed { .. } => rows * NUMBER_BYTES,
            KeyForm::Bytes => rows * size_of::<u32>(),
        }
    }

    /// The column that keys are written as.
    pub(super) fn column(form: KeyForm) -> Vector {
        let lanes = match form {
            KeyForm::Packed { .. } => Lanes::U64(Vec::new()),
            KeyForm::Bytes => Lanes::Bytes {
                ends: Vec::new(),
                data: Vec::new(),
            },
        };
        Vector { lanes, valid: None }
    }

    /// Reads a column of keys.
    pub(super) fn load(form: KeyForm, rows: usize, chunk: &Chunk) -> Result<Self, DecodeError> {
        if chunk.valid.is_some() {
            return Err(DecodeError::new("join table: a key is NULL"));
        }
        match (form, &chunk.values) {
            (
                KeyForm::Packed { width },
                Values::UInt {
                    width: narrow,
                    base,
                    data,
                },
            ) => {
                let mut numbers = Vec::with_capacity(rows);
                narrow::for_each(*narrow, rows, data, |d| numbers.push(base.wrapping_add(d)));
                Self::numbers(width, numbers)
            }
            (KeyForm::Bytes, Values::Strings(strings)) => {
                let mut ends = Vec::with_capacity(rows);
                strings.for_each(rows, |_, end| ends.push(end as u32));
                let data = strings.data.to_vec();
                let keys = Self::Bytes { ends, data };
                let ascend = (1..rows).all(|row| keys.bytes(row - 1) < keys.bytes(row));
                match ascend {
                    true => Ok(keys),
                    false => Err(DecodeError::new("join table: order of keys")),
                }
            }
            _ => Err(DecodeError::new("join table: form of keys")),
        }
    }

    fn numbers(width: usize, numbers: Vec<u64>) -> Result<Self, DecodeError> {
        if !numbers.is_sorted_by(|a, b| a < b) {
            return Err(DecodeError::new("join table: order of keys"));
        }
        let (Some(&least), Some(&most)) = (numbers.first(), numbers.last()) else {
            let rows = Vec::new();
            return Ok(Self::Numbers { numbers, rows });
        };
        if width < size_of::<u64>() && most >> (8 * width) != 0 {
            return Err(DecodeError::new("join table: width of keys"));
        }
        let mut rows = Vec::new();
        if most - least < DENSE * numbers.len() as u64 {
            rows.resize((most - least) as usize + 1, NONE);
            for (row, number) in (0_u32..).zip(&numbers) {
                rows[(number - least) as usize] = row;
            }
        }
        Ok(Self::Numbers { numbers, rows })
    }

    fn bytes(&self, row: usize) -> &[u8] {
        let Self::Bytes { ends, data } = self else {
            panic!("N1: packed keys are numbers");
        };
        let start = row.checked_sub(1).map_or(0, |before| ends[before] as usize);
        &data[start..ends[row] as usize]
    }

    /// The row of a packed key, or [`NONE`]. `near` is where the search begins, and where it ended.
    #[inline]
    pub(super) fn row_of_number(&self, key: u64, near: &mut usize) -> u32 {
        let Self::Numbers { numbers, rows } = self else {
            panic!("N1: keys of bytes are not numbers");
        };
        if let (Some(least), false) = (numbers.first(), rows.is_empty()) {
            let place = key.wrapping_sub(*least);
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            return rows.get(place).copied().unwrap_or(NONE);
        }
        search(numbers.len(), near, |row| numbers[row].cmp(&key))
    }

    /// The row of a key of bytes, or [`NONE`].
    pub(super) fn row_of_bytes(&self, key: &[u8], near: &mut usize) -> u32 {
        let Self::Bytes { ends, .. } = self else {
            panic!("N1: packed keys are not bytes");
        };
        search(ends.len(), near, |row| self.bytes(row).cmp(key))
    }
}

/// Finds what `compare` calls equal among so many that ascend. The search begins where the last one ended and looks
/// twice as far with each step, so that keys that come in order, as an index may deliver them, are merged.
fn search(len: usize, near: &mut usize, compare: impl Fn(usize) -> Ordering) -> u32 {
    if len == 0 {
        return NONE;
    }
    let begin = (*near).min(len - 1);
    let (mut low, mut high) = (begin, begin);
    let mut step = 1;
    match compare(begin) {
        Ordering::Equal => return begin as u32,
        // All below `low` are less, and so is what is at `low - 1`.
        Ordering::Less => {
            high = len;
            while low + step < len {
                match compare(low + step) {
                    Ordering::Less => low += step,
                    Ordering::Equal | Ordering::Greater => {
                        high = low + step + 1;
                        break;
                    }
                }
                step *= 2;
            }
        }
        Ordering::Greater => {
            low = 0;
            while high > step {
                match compare(high - step) {
                    Ordering::Greater => high -= step,
                    Ordering::Equal | Ordering::Less => {
                        low = high - step;
                        break;
                    }
                }
                step *= 2;
            }
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(middle) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => {
                *near = middle;
                return middle as u32;
            }
        }
    }
    *near = low;
    NONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_wherever_the_search_begins() {
        for len in 0..20_u64 {
            let numbers: Vec<_> = (0..len).map(|n| 3 * n + 1).collect();
            for begin in 0..22 {
                for key in 0..64 {
                    let mut near = begin;
                    let row = search(numbers.len(), &mut near, |row| numbers[row].cmp(&key));
                    let expected = numbers.binary_search(&key);
                    let expected = expected.map_or(NONE, |row| row as u32);
                    assert_eq!(row, expected, "{key} among {len} from {begin}");
                }
            }
        }
    }

    #[test]
    fn dense_and_sparse_numbers_are_found() {
        for gap in [1, 3, 1000] {
            let numbers: Vec<u64> = (1..50).map(|n| gap * n).collect();
            let keys = Keys::numbers(4, numbers.clone()).expect("they ascend");
            let mut near = 0;
            for key in 0..=gap * 60 {
                let expected = numbers.binary_search(&key);
                let expected = expected.map_or(NONE, |row| row as u32);
                assert_eq!(keys.row_of_number(key, &mut near), expected, "{key}");
            }
        }
    }
}
