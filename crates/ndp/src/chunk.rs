//! One column of a batch in its wire form: narrow integers, strings with or without dictionary.
//!
//! `docs/format/ndp-batch.md` shows the bytes. Invariants of a [`Chunk`] (established by
//! [`Chunk::cut`], relied upon when Arrow arrays are made of it):
//! - `data` has exactly `rows` differences of `width` bytes;
//! - string lengths add up to the length of the string data;
//! - dictionary codes name entries of the dictionary.
//!
//! Whether strings are UTF-8 is not checked here: only who makes text of them needs it.

use bytes::Bytes;
use perigee_expr::{Lanes, Vector};
use perigee_types::DecodeError;

use crate::narrow::{self, Cutter};

const INT: u8 = 1;
const UINT: u8 = 2;
const WIDE: u8 = 3;
const DOUBLE: u8 = 4;
const FLOAT: u8 = 5;
const STRINGS: u8 = 6;
const DICTIONARY: u8 = 7;

/// Greatest number of entries of a dictionary: codes are single bytes.
const MAX_ENTRIES: usize = 256;
/// Below this number of rows a dictionary cannot save what it costs to look for one.
const MIN_ROWS_FOR_DICTIONARY: usize = 32;
/// So many rows are looked at before the whole column is, and given up if half are distinct.
const DICTIONARY_SAMPLE: usize = 64;

/// A decoded and checked, but not yet widened column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chunk {
    /// Bit `i` (least significant first) is 1 if row `i` is not NULL; `None` if none is.
    pub(crate) valid: Option<Bytes>,
    pub(crate) values: Values,
}

/// Values of a chunk; NULL rows hold anything.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    Int {
        width: u8,
        base: i64,
        data: Bytes,
    },
    UInt {
        width: u8,
        base: u64,
        data: Bytes,
    },
    Wide {
        width: u8,
        base: i128,
        data: Bytes,
    },
    Double(Bytes),
    Float(Bytes),
    Strings(Strings),
    Dictionary {
        entries: usize,
        strings: Strings,
        codes: Bytes,
    },
}

/// Strings one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strings {
    pub(crate) width: u8,
    pub(crate) base: u32,
    pub(crate) lengths: Bytes,
    pub(crate) data: Bytes,
}

/// Appends the wire form of a column.
pub(crate) fn put(out: &mut Vec<u8>, column: &Vector) {
    let valid = column.valid.as_deref().filter(|valid| valid.contains(&0));
    let kind_at = out.len();
    out.extend_from_slice(&[0, u8::from(valid.is_some())]);
    if let Some(valid) = valid {
        put_bitmap(out, valid);
    }
    out[kind_at] = match &column.lanes {
        Lanes::I64(values) => put_ints(out, values, valid),
        Lanes::U64(values) => put_uints(out, values, valid),
        Lanes::I128(values) => put_wides(out, values, valid),
        Lanes::F64(values) => put_doubles(out, values),
        Lanes::Bytes { ends, data } => put_strings(out, ends, data),
    };
}

fn put_bitmap(out: &mut Vec<u8>, valid: &[u8]) {
    let (octets, rest) = valid.as_chunks::<8>();
    let pack = |bits: &[u8]| {
        let packed = bits.iter().enumerate();
        packed.fold(0, |byte, (i, bit)| byte | (bit & 1) << i)
    };
    out.extend(octets.iter().map(|octet| pack(octet)));
    if !rest.is_empty() {
        out.push(pack(rest));
    }
}

/// Smallest and greatest value that is not NULL.
fn bounds<T: Copy + Ord + Default>(values: &[T], valid: Option<&[u8]>) -> (T, T) {
    let widen = |(min, max): (T, T), v: T| (min.min(v), max.max(v));
    match valid {
        None => {
            let first = values.first().copied().unwrap_or_default();
            values
                .iter()
                .fold((first, first), |bounds, v| widen(bounds, *v))
        }
        Some(valid) => {
            let not_null = values.iter().zip(valid).filter(|(_, valid)| **valid != 0);
            let mut not_null = not_null.map(|(v, _)| *v);
            let first = not_null.next().unwrap_or_default();
            not_null.fold((first, first), widen)
        }
    }
}

fn put_ints(out: &mut Vec<u8>, values: &[i64], valid: Option<&[u8]>) -> u8 {
    let (min, max) = bounds(values, valid);
    let width = narrow::width_of(max.wrapping_sub(min) as u64);
    out.push(width);
    out.extend_from_slice(&min.to_le_bytes());
    let differences = values.iter().map(|v| v.wrapping_sub(min) as u64);
    narrow::put(out, width, values.len(), differences);
    INT
}

fn put_uints(out: &mut Vec<u8>, values: &[u64], valid: Option<&[u8]>) -> u8 {
    let (min, max) = bounds(values, valid);
    let width = narrow::width_of(max - min);
    out.push(width);
    out.extend_from_slice(&min.to_le_bytes());
    let differences = values.iter().map(|v| v.wrapping_sub(min));
    narrow::put(out, width, values.len(), differences);
    UINT
}

fn put_wides(out: &mut Vec<u8>, values: &[i128], valid: Option<&[u8]>) -> u8 {
    let (min, max) = bounds(values, valid);
    let width = narrow::wide_width_of(max.wrapping_sub(min) as u128);
    out.push(width);
    out.extend_from_slice(&min.to_le_bytes());
    let differences = values.iter().map(|v| v.wrapping_sub(min) as u128);
    narrow::put_wide(out, width, values.len(), differences);
    WIDE
}

fn put_doubles(out: &mut Vec<u8>, values: &[f64]) -> u8 {
    let exact = |v: &f64| f64::from(*v as f32).to_bits() == v.to_bits();
    if values.iter().all(exact) {
        let bits = values.iter().map(|v| u64::from((*v as f32).to_bits()));
        narrow::put(out, 4, values.len(), bits);
        FLOAT
    } else {
        narrow::put(out, 8, values.len(), values.iter().map(|v| v.to_bits()));
        DOUBLE
    }
}

/// Start and end of each string.
fn spans(ends: &[u32]) -> impl Iterator<Item = (usize, usize)> + Clone + '_ {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts
        .zip(ends)
        .map(|(start, &end)| (start as usize, end as usize))
}

fn put_strings(out: &mut Vec<u8>, ends: &[u32], data: &[u8]) -> u8 {
    let plain = plain_size(spans(ends).map(|(start, end)| end - start));
    if let Some(dictionary) = Dictionary::find(ends, data, plain) {
        out.extend_from_slice(&(dictionary.entries.len() as u16).to_le_bytes());
        let lengths = dictionary.entries.iter().map(|entry| entry.string.len());
        put_lengths(out, lengths);
        let total: usize = dictionary
            .entries
            .iter()
            .map(|entry| entry.string.len())
            .sum();
        out.extend_from_slice(&(total as u32).to_le_bytes());
        for entry in &dictionary.entries {
            out.extend_from_slice(entry.string);
        }
        out.extend_from_slice(&dictionary.codes);
        return DICTIONARY;
    }
    put_lengths(out, spans(ends).map(|(start, end)| end - start));
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(data);
    STRINGS
}

fn put_lengths(out: &mut Vec<u8>, lengths: impl Iterator<Item = usize> + Clone) {
    let (n, min, max) = length_bounds(lengths.clone());
    let width = narrow::width_of((max - min) as u64);
    out.push(width);
    out.extend_from_slice(&(min as u32).to_le_bytes());
    narrow::put(out, width, n, lengths.map(|len| (len - min) as u64));
}

fn length_bounds(lengths: impl Iterator<Item = usize>) -> (usize, usize, usize) {
    let (n, min, max) = lengths.fold((0, usize::MAX, 0), |(n, min, max), len| {
        (n + 1, len.min(min), len.max(max))
    });
    (n, min.min(max), max)
}

/// Bytes that strings of these lengths take without a dictionary.
fn plain_size(lengths: impl Iterator<Item = usize> + Clone) -> usize {
    let (n, min, max) = length_bounds(lengths.clone());
    n * usize::from(narrow::width_of((max - min) as u64)) + lengths.sum::<usize>()
}

/// The distinct strings of a column and the number of each row's string among them.
struct Dictionary<'a> {
    entries: Vec<Entry<'a>>,
    codes: Vec<u8>,
}

/// A string with its length and its first and last eight bytes, which are all of it if it has at
/// most 16; comparing these first saves a call per comparison.
#[derive(Clone, Copy)]
struct Entry<'a> {
    head: u64,
    tail: u64,
    string: &'a [u8],
}

impl<'a> Entry<'a> {
    #[inline]
    fn new(data: &'a [u8], start: usize, end: usize) -> Self {
        let string = &data[start..end];
        let (head, tail) = match (string.first_chunk(), string.last_chunk()) {
            (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
            _ => {
                let word = match data[start..].first_chunk() {
                    Some(window) => u64::from_le_bytes(*window),
                    None => {
                        let mut window = [0; 8];
                        window[..string.len()].copy_from_slice(string);
                        u64::from_le_bytes(window)
                    }
                };
                (word & ((1 << (8 * string.len())) - 1), 0)
            }
        };
        Self { head, tail, string }
    }

    #[inline]
    fn is(&self, other: &Self) -> bool {
        let len = self.string.len();
        (self.head, self.tail, len) == (other.head, other.tail, other.string.len())
            && (len <= 16 || self.string == other.string)
    }

    #[inline]
    fn hash(&self) -> u64 {
        let mixed = (self.head ^ self.tail.rotate_left(29)).wrapping_add(self.string.len() as u64);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl<'a> Dictionary<'a> {
    /// A dictionary that takes fewer bytes than `plain`, if there is one.
    fn find(ends: &[u32], data: &'a [u8], plain: usize) -> Option<Self> {
        let rows = ends.len();
        if rows < MIN_ROWS_FOR_DICTIONARY || plain <= rows {
            return None;
        }
        let mut found = Self {
            entries: Vec::new(),
            codes: Vec::with_capacity(rows),
        };
        let mut table = [0_u16; 4 * MAX_ENTRIES];
        let mut entry_bytes = 0;
        for (row, (start, end)) in spans(ends).enumerate() {
            let entry = Entry::new(data, start, end);
            let code = found.code(&mut table, &entry)?;
            if usize::from(code) == found.entries.len() {
                entry_bytes += entry.string.len() + 4;
                if entry_bytes + rows >= plain {
                    return None;
                }
                found.entries.push(entry);
            }
            found.codes.push(code);
            if row + 1 == DICTIONARY_SAMPLE && found.entries.len() > DICTIONARY_SAMPLE / 2 {
                return None;
            }
        }
        Some(found)
    }

    /// Number of a string; the number of entries if it is new; `None` if there is no room.
    #[inline]
    fn code(&self, table: &mut [u16; 4 * MAX_ENTRIES], entry: &Entry<'_>) -> Option<u8> {
        let mut at = (entry.hash() >> 54) as usize;
        loop {
            match table[at] {
                0 if self.entries.len() == MAX_ENTRIES => return None,
                0 => {
                    table[at] = self.entries.len() as u16 + 1;
                    return Some(self.entries.len() as u8);
                }
                taken if self.entries[usize::from(taken) - 1].is(entry) => {
                    return Some((taken - 1) as u8);
                }
                _ => at = (at + 1) % table.len(),
            }
        }
    }
}

impl Chunk {
    /// Reads a column of `rows` rows, checking the invariants.
    pub(crate) fn cut(cutter: &mut Cutter, rows: usize) -> Result<Self, DecodeError> {
        let kind = cutter.u8("batch: chunk kind")?;
        let valid = match cutter.u8("batch: chunk validity")? {
            0 => None,
            1 => Some(cutter.cut(rows.div_ceil(8), "batch: validity bitmap")?),
            _ => return Err(DecodeError::new("batch: chunk validity")),
        };
        let values = match kind {
            INT => {
                let width = cutter.width(8, "batch: width")?;
                let base = i64::from_le_bytes(cutter.array("batch: base")?);
                Values::Int {
                    width,
                    base,
                    data: cut_differences(cutter, rows, width)?,
                }
            }
            UINT => {
                let width = cutter.width(8, "batch: width")?;
                let base = u64::from_le_bytes(cutter.array("batch: base")?);
                Values::UInt {
                    width,
                    base,
                    data: cut_differences(cutter, rows, width)?,
                }
            }
            WIDE => {
                let width = cutter.width(16, "batch: width")?;
                let base = i128::from_le_bytes(cutter.array("batch: base")?);
                Values::Wide {
                    width,
                    base,
                    data: cut_differences(cutter, rows, width)?,
                }
            }
            DOUBLE => Values::Double(cut_differences(cutter, rows, 8)?),
            FLOAT => Values::Float(cut_differences(cutter, rows, 4)?),
            STRINGS => Values::Strings(Strings::cut(cutter, rows)?),
            DICTIONARY => {
                let entries = u16::from_le_bytes(cutter.array("batch: dictionary size")?);
                let entries = usize::from(entries);
                let strings = Strings::cut(cutter, entries)?;
                let codes = cutter.cut(rows, "batch: dictionary codes")?;
                if codes.iter().any(|&code| usize::from(code) >= entries) {
                    return Err(DecodeError::new("batch: dictionary code"));
                }
                Values::Dictionary {
                    entries,
                    strings,
                    codes,
                }
            }
            _ => return Err(DecodeError::new("batch: chunk kind")),
        };
        Ok(Self { valid, values })
    }
}

fn cut_differences(cutter: &mut Cutter, rows: usize, width: u8) -> Result<Bytes, DecodeError> {
    cutter.cut(rows * usize::from(width), "batch: values")
}

impl Strings {
    fn cut(cutter: &mut Cutter, n: usize) -> Result<Self, DecodeError> {
        let width = cutter.width(4, "batch: string lengths")?;
        let base = u32::from_le_bytes(cutter.array("batch: string lengths")?);
        let lengths = cut_differences(cutter, n, width)?;
        let data_len = u32::from_le_bytes(cutter.array("batch: string data")?);
        let data = cutter.cut(data_len as usize, "batch: string data")?;
        // Cannot overflow: fewer than 2^32 numbers below 2^33.
        let mut total = n as u64 * u64::from(base);
        narrow::for_each(width, n, &lengths, |difference| total += difference);
        if total != u64::from(data_len) {
            return Err(DecodeError::new("batch: string lengths"));
        }
        Ok(Self {
            width,
            base,
            lengths,
            data,
        })
    }

    /// Calls `each` with start and end of each of the `n` strings.
    #[inline]
    pub(crate) fn for_each(&self, n: usize, mut each: impl FnMut(usize, usize)) {
        let mut start = 0;
        narrow::for_each(self.width, n, &self.lengths, |difference| {
            let end = start + (u64::from(self.base) + difference) as usize;
            each(start, end);
            start = end;
        });
    }
}
