//! Programs that are one column: loops over its place and width, for projections.

use perigee_expr::{Lanes, Vector};

use crate::access::{ColumnAccess, NullBit, Slot, TextStart};

/// Appends the column's value of each record.
///
/// The caller has established J1 for `records` in `base`.
///
/// # Panics
/// If `out` is not of the column's type, or (J3) variable-length items leave the page.
pub(crate) fn gather(column: &ColumnAccess, base: &[u8], records: &[u16], out: &mut Vector) {
    let lanes = out.len();
    let nulls = column
        .null
        .map_or(0, |bit| gather_nulls(bit, base, records, lanes, out));
    if column.null.is_none()
        && let Some(valid) = &mut out.valid
    {
        valid.resize(lanes + records.len(), 1);
    }
    let page = Page { base, records };
    match (column.slot, &mut out.lanes) {
        (
            Slot::Integer {
                offset,
                bytes,
                unsigned,
                key,
            },
            Lanes::I64(v),
        ) => {
            page.integers(offset, (bytes, unsigned, key), v);
        }
        (
            Slot::Integer {
                offset,
                bytes,
                unsigned,
                key,
            },
            Lanes::U64(v),
        ) => {
            page.unsigned(offset, (bytes, unsigned, key), v);
        }
        (
            Slot::Integer {
                offset,
                bytes: 16,
                key: false,
                ..
            },
            Lanes::I128(v),
        ) => {
            page.each(offset, v, i128::from_le_bytes);
        }
        (
            Slot::Integer {
                offset,
                bytes: 16,
                key: true,
                ..
            },
            Lanes::I128(v),
        ) => {
            page.each(offset, v, |b| i128::from_be_bytes(b) ^ i128::MIN);
        }
        (Slot::Float { offset, bytes, key }, Lanes::F64(v)) => {
            page.floats(offset, (bytes, key), v);
        }
        (Slot::Text { start, end_offset }, Lanes::Bytes { ends, data }) => {
            page.texts(start, end_offset, ends, data);
        }
        (slot, lanes) => panic!("J2: {slot:?} in a vector of {lanes:?}"),
    }
    if nulls > 0 {
        zero_nulls(out, lanes);
    }
}

/// Appends the valid bytes; gives the number of NULL lanes.
fn gather_nulls(
    bit: NullBit,
    base: &[u8],
    records: &[u16],
    lanes: usize,
    out: &mut Vector,
) -> usize {
    let is_null =
        |record: &u16| base[usize::from(*record) + usize::from(bit.offset)] & bit.mask != 0;
    let nulls = records.iter().filter(|record| is_null(record)).count();
    if nulls > 0 || out.valid.is_some() {
        let valid = out.valid.get_or_insert_with(|| vec![1; lanes]);
        valid.extend(records.iter().map(|record| u8::from(!is_null(record))));
    }
    nulls
}

/// Makes the lanes of NULLs after the first `from` lanes zero; strings of NULLs are stored empty.
fn zero_nulls(out: &mut Vector, from: usize) {
    fn zero<T: Default>(lanes: &mut [T], valid: &[u8]) {
        for (lane, valid) in lanes.iter_mut().zip(valid) {
            if *valid == 0 {
                *lane = T::default();
            }
        }
    }
    let Some(valid) = &out.valid else { return };
    let valid = &valid[from..];
    match &mut out.lanes {
        Lanes::I64(v) => zero(&mut v[from..], valid),
        Lanes::U64(v) => zero(&mut v[from..], valid),
        Lanes::I128(v) => zero(&mut v[from..], valid),
        Lanes::F64(v) => zero(&mut v[from..], valid),
        Lanes::Bytes { .. } => {}
    }
}

/// Records in a page or alone.
struct Page<'a> {
    base: &'a [u8],
    records: &'a [u16],
}

impl Page<'_> {
    /// Appends what `read` makes of the `N` bytes at `offset` of each record.
    #[inline(always)]
    fn each<const N: usize, T>(&self, offset: u16, out: &mut Vec<T>, read: impl Fn([u8; N]) -> T) {
        let offset = usize::from(offset);
        out.extend(self.records.iter().map(|record| {
            let at = usize::from(*record) + offset;
            debug_assert!(at + N <= self.base.len(), "J1: columns lie inside the page");
            // SAFETY: by J1, which the caller of `gather` has established, `N` bytes of the page
            // lie at `at`.
            read(unsafe {
                self.base
                    .as_ptr()
                    .add(at)
                    .cast::<[u8; N]>()
                    .read_unaligned()
            })
        }));
    }

    fn integers(&self, offset: u16, (bytes, unsigned, key): (u8, bool, bool), out: &mut Vec<i64>) {
        assert!(!unsigned, "J2: unsigned integers have lanes of their own");
        match (bytes, key) {
            (1, false) => self.each(offset, out, |b| i64::from(i8::from_le_bytes(b))),
            (2, false) => self.each(offset, out, |b| i64::from(i16::from_le_bytes(b))),
            (4, false) => self.each(offset, out, |b| i64::from(i32::from_le_bytes(b))),
            (8, false) => self.each(offset, out, i64::from_le_bytes),
            (1, true) => self.each(offset, out, |b| i64::from(i8::from_be_bytes(b) ^ i8::MIN)),
            (2, true) => self.each(offset, out, |b| i64::from(i16::from_be_bytes(b) ^ i16::MIN)),
            (4, true) => self.each(offset, out, |b| i64::from(i32::from_be_bytes(b) ^ i32::MIN)),
            (8, true) => self.each(offset, out, |b| i64::from_be_bytes(b) ^ i64::MIN),
            _ => panic!("J2: an integer of {bytes} bytes in 64 bits"),
        }
    }

    fn unsigned(&self, offset: u16, (bytes, unsigned, key): (u8, bool, bool), out: &mut Vec<u64>) {
        assert!(unsigned, "J2: signed integers have lanes of their own");
        match (bytes, key) {
            (1, _) => self.each(offset, out, |[b]| u64::from(b)),
            (2, false) => self.each(offset, out, |b| u64::from(u16::from_le_bytes(b))),
            (4, false) => self.each(offset, out, |b| u64::from(u32::from_le_bytes(b))),
            (8, false) => self.each(offset, out, u64::from_le_bytes),
            (2, true) => self.each(offset, out, |b| u64::from(u16::from_be_bytes(b))),
            (4, true) => self.each(offset, out, |b| u64::from(u32::from_be_bytes(b))),
            (8, true) => self.each(offset, out, u64::from_be_bytes),
            _ => panic!("J2: an integer of {bytes} bytes in 64 bits"),
        }
    }

    fn floats(&self, offset: u16, (bytes, key): (u8, bool), out: &mut Vec<f64>) {
        match (bytes, key) {
            (4, false) => self.each(offset, out, |b| f64::from(f32::from_le_bytes(b))),
            (8, false) => self.each(offset, out, f64::from_le_bytes),
            (4, true) => self.each(offset, out, |b| {
                let bits = u32::from_be_bytes(b);
                let positive = bits >> 31 == 1;
                let bits = if positive { bits ^ 1 << 31 } else { !bits };
                f64::from(f32::from_bits(bits))
            }),
            (8, true) => self.each(offset, out, |b| {
                let bits = u64::from_be_bytes(b);
                let positive = bits >> 63 == 1;
                f64::from_bits(if positive { bits ^ 1 << 63 } else { !bits })
            }),
            _ => panic!("J2: a float of {bytes} bytes"),
        }
    }

    fn texts(&self, start: TextStart, end_offset: u16, ends: &mut Vec<u32>, data: &mut Vec<u8>) {
        ends.reserve(self.records.len());
        for record in self.records {
            let record = &self.base[usize::from(*record)..];
            let end = |at: u16| {
                let at = usize::from(at);
                usize::from(u16::from_le_bytes([record[at], record[at + 1]]))
            };
            let from = match start {
                TextStart::Constant(at) => usize::from(at),
                TextStart::EndAt(at) => end(at),
            };
            let text = record.get(from..end(end_offset));
            data.extend_from_slice(text.expect("J3: variable-length items lie inside the page"));
            ends.push(end_of(data));
        }
    }
}

fn end_of(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("strings of one vector are below 4 GiB")
}

/// Appends strings that compiled code gave as address and length.
pub(crate) fn append_strings(parts: &[[usize; 2]], ends: &mut Vec<u32>, data: &mut Vec<u8>) {
    ends.reserve(parts.len());
    for [start, len] in parts {
        let start = std::ptr::with_exposed_provenance::<u8>(*start);
        // SAFETY: compiled code gives parts of the record, which it checked to lie in the page,
        // or of constants, which the evaluator owns; both outlive this call.
        data.extend_from_slice(unsafe { std::slice::from_raw_parts(start, *len) });
        ends.push(end_of(data));
    }
}
