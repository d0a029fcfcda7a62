//! The table of groups: finds the number of the group that a row belongs to.
//!
//! Keys of at most 16 bytes are packed into a number; others are encoded to bytes. Either way two
//! rows belong to one group if and only if their codes are equal: NULL equals NULL, strings that
//! differ in trailing spaces are equal (unless their collation is binary), -0.0 equals 0.0.
//! Neighbours in key order mostly share their group, so the last group is tried first.

use perigee_expr::{Lanes, Vector};
use perigee_value::string;

use crate::aggregate::state::extend_validity;

/// How much a table may hold before it is flushed into the output as partial rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregateBudget {
    /// Greatest number of groups.
    pub groups: usize,
    /// Greatest number of bytes of keys and states; at least one group is kept whatever it takes.
    pub bytes: usize,
}

impl AggregateBudget {
    /// 65,536 groups and 8 MiB: a worker's share of a Page Store's memory, and about what the
    /// second-level cache of a core can still serve.
    pub const DEFAULT: Self = Self {
        groups: 1 << 16,
        bytes: 8 << 20,
    };
}

/// How the values of one key are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPart {
    /// Trailing spaces do not count.
    pub(crate) trim: bool,
    /// Bytes the value takes when packed, without the byte for its length or NULL; `None` if it
    /// has no small bound.
    pub(crate) packed: Option<u8>,
    /// Whether it can be NULL.
    pub(crate) nullable: bool,
}

/// True if keys of these parts fit the packed form.
fn can_pack(parts: &[KeyPart], keys: &[Vector]) -> bool {
    let sizes = parts.iter().zip(keys).map(|(part, key)| {
        let tag = part.nullable || matches!(key.lanes, Lanes::Bytes { .. });
        part.packed
            .map(|bytes| usize::from(bytes) + usize::from(tag))
    });
    sizes
        .sum::<Option<usize>>()
        .is_some_and(|total| total <= 16)
}

/// Codes of some rows or of all groups.
enum Codes {
    Packed(Vec<u128>),
    Encoded { ends: Vec<usize>, data: Vec<u8> },
}

/// Groups seen since the last flush.
pub(crate) struct GroupTable {
    parts: Vec<KeyPart>,
    budget: AggregateBudget,
    /// Key values of each group.
    keys: Vec<Vector>,
    /// Code of each group.
    groups: Codes,
    /// Code of each row of the current run.
    rows: Codes,
    /// Open addressing: 0, or the group's number + 1. A power of two long, at most half full.
    slots: Vec<u32>,
    len: usize,
    key_bytes: usize,
    /// Bytes a group takes beside its key.
    state_bytes: usize,
}

const MIN_SLOTS: usize = 64;

impl GroupTable {
    /// An empty table. `keys` are empty vectors of the keys' forms.
    pub(crate) fn new(
        parts: Vec<KeyPart>,
        keys: Vec<Vector>,
        state_bytes: usize,
        budget: AggregateBudget,
    ) -> Self {
        let codes = || {
            if can_pack(&parts, &keys) {
                Codes::Packed(Vec::new())
            } else {
                Codes::Encoded {
                    ends: Vec::new(),
                    data: Vec::new(),
                }
            }
        };
        Self {
            groups: codes(),
            rows: codes(),
            parts,
            budget,
            keys,
            slots: vec![0; MIN_SLOTS],
            len: 0,
            key_bytes: 0,
            state_bytes,
        }
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Begins a run of rows with these keys.
    pub(crate) fn load(&mut self, keys: &[Vector], rows: usize) {
        match &mut self.rows {
            Codes::Packed(codes) => pack(&self.parts, keys, rows, codes),
            Codes::Encoded { ends, data } => encode(&self.parts, keys, rows, ends, data),
        }
    }

    /// Puts the groups of the loaded rows from `from` on into `out`, adding new ones. Stops before
    /// a row whose group exceeds the budget; returns the first row not done.
    pub(crate) fn assign(
        &mut self,
        keys: &[Vector],
        from: usize,
        rows: usize,
        out: &mut Vec<u32>,
    ) -> usize {
        out.clear();
        let mut last: Option<u32> = None;
        for row in from..rows {
            if let Some(last) = last
                && self.is_code_of(last, row)
            {
                out.push(last);
                continue;
            }
            let Some(group) = self.find_or_add(keys, row) else {
                return row;
            };
            last = Some(group);
            out.push(group);
        }
        rows
    }

    #[inline]
    fn is_code_of(&self, group: u32, row: usize) -> bool {
        match (&self.groups, &self.rows) {
            (Codes::Packed(groups), Codes::Packed(rows)) => groups[group as usize] == rows[row],
            (groups, rows) => groups.bytes(group as usize) == rows.bytes(row),
        }
    }

    #[inline]
    fn find_or_add(&mut self, keys: &[Vector], row: usize) -> Option<u32> {
        let mut slot = self.rows.hash(row) as usize & (self.slots.len() - 1);
        loop {
            match self.slots[slot] {
                0 => return self.add(keys, row, slot),
                group if self.is_code_of(group - 1, row) => return Some(group - 1),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    #[cold]
    fn add(&mut self, keys: &[Vector], row: usize, slot: usize) -> Option<u32> {
        let row_bytes =
            self.rows.code_len(row) + keys.iter().map(|key| lane_bytes(key, row)).sum::<usize>();
        let bytes = self.key_bytes + row_bytes + (self.len + 1) * self.state_bytes;
        if self.len > 0 && (self.len >= self.budget.groups || bytes > self.budget.bytes) {
            return None;
        }
        let group = self.len as u32;
        self.slots[slot] = group + 1;
        self.len += 1;
        self.key_bytes += row_bytes;
        match (&mut self.groups, &self.rows) {
            (Codes::Packed(groups), Codes::Packed(rows)) => groups.push(rows[row]),
            (Codes::Encoded { ends, data }, rows) => {
                data.extend_from_slice(rows.bytes(row));
                ends.push(data.len());
            }
            _ => panic!("N1: rows and groups have codes of one form"),
        }
        for ((own, key), part) in self.keys.iter_mut().zip(keys).zip(&self.parts) {
            push_lane(own, key, row, part.trim);
        }
        if 2 * self.len > self.slots.len() {
            self.grow();
        }
        Some(group)
    }

    fn grow(&mut self) {
        let mask = 2 * self.slots.len() - 1;
        self.slots = vec![0; mask + 1];
        for group in 0..self.len {
            let mut slot = self.groups.hash(group) as usize & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = group as u32 + 1;
        }
    }

    /// The key values of every group; the table keeps them until [`GroupTable::clear`].
    pub(crate) fn keys(&self) -> &[Vector] {
        &self.keys
    }

    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.key_bytes = 0;
        self.slots.clear();
        self.slots.resize(MIN_SLOTS, 0);
        self.keys.iter_mut().for_each(Vector::clear);
        match &mut self.groups {
            Codes::Packed(codes) => codes.clear(),
            Codes::Encoded { ends, data } => {
                ends.clear();
                data.clear();
            }
        }
    }
}

impl Codes {
    fn bytes(&self, i: usize) -> &[u8] {
        match self {
            Self::Packed(_) => panic!("N1: packed codes have no bytes"),
            Self::Encoded { ends, data } => {
                let start = if i == 0 { 0 } else { ends[i - 1] };
                &data[start..ends[i]]
            }
        }
    }

    fn code_len(&self, i: usize) -> usize {
        match self {
            Self::Packed(_) => 16,
            Self::Encoded { .. } => self.bytes(i).len() + size_of::<usize>(),
        }
    }

    #[inline]
    fn hash(&self, i: usize) -> u64 {
        match self {
            Self::Packed(codes) => fold(codes[i] as u64, (codes[i] >> 64) as u64),
            Self::Encoded { .. } => {
                let bytes = self.bytes(i);
                let (words, rest) = bytes.as_chunks::<8>();
                let mut tail = [0; 8];
                tail[..rest.len()].copy_from_slice(rest);
                let seed = fold(u64::from_le_bytes(tail), bytes.len() as u64);
                words
                    .iter()
                    .fold(seed, |hash, word| fold(u64::from_le_bytes(*word), hash))
            }
        }
    }
}

/// Mixes two words: the halves of a 128-bit product, folded.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(b ^ 0x8bb8_4b93_962e_acc9);
    (product >> 64) as u64 ^ product as u64
}

/// Packed code: the parts one after the other, each with a leading byte if it is a string (its
/// length + 1, 0 for NULL) or can be NULL (0 or 1).
fn pack(parts: &[KeyPart], keys: &[Vector], rows: usize, codes: &mut Vec<u128>) {
    codes.clear();
    codes.resize(rows, 0);
    for (part, key) in parts.iter().zip(keys) {
        let bits = 8 * u32::from(part.packed.expect("every part of a packed key is small"));
        let mask = (1_u128 << bits) - 1;
        let valid = key.valid.as_deref();
        let mut push = |row: usize, value: u128, tag: u128| {
            let null = valid.is_some_and(|valid| valid[row] == 0);
            let (value, tag) = if null { (0, 0) } else { (value & mask, tag) };
            codes[row] = if part.nullable || tag > 1 {
                codes[row] << (bits + 8) | tag << bits | value
            } else {
                codes[row] << bits | value
            };
        };
        match &key.lanes {
            Lanes::I64(lanes) => {
                lanes
                    .iter()
                    .enumerate()
                    .for_each(|(row, v)| push(row, *v as u128, 1));
            }
            Lanes::U64(lanes) => {
                lanes
                    .iter()
                    .enumerate()
                    .for_each(|(row, v)| push(row, (*v).into(), 1));
            }
            Lanes::F64(lanes) => {
                lanes
                    .iter()
                    .enumerate()
                    .for_each(|(row, v)| push(row, canonical(*v).into(), 1));
            }
            Lanes::I128(_) => panic!("N1: wide numbers are not packed"),
            Lanes::Bytes { ends, data } => pack_strings(part, ends, data, push),
        }
    }
}

fn pack_strings(
    part: &KeyPart,
    ends: &[u32],
    data: &[u8],
    mut push: impl FnMut(usize, u128, u128),
) {
    let mut start = 0;
    for (row, &end) in ends.iter().enumerate() {
        let string = &data[start..end as usize];
        let string = if part.trim {
            string::trim_end(string)
        } else {
            string
        };
        let value = match data.get(start..start + 16) {
            // The bytes behind the string are masked away.
            Some(window) if string.len() < 16 => {
                let window = u128::from_le_bytes(window.try_into().expect("sixteen bytes"));
                window & ((1_u128 << (8 * string.len())) - 1)
            }
            _ => {
                let mut value = [0; 16];
                let len = string.len().min(16);
                value[..len].copy_from_slice(&string[..len]);
                u128::from_le_bytes(value)
            }
        };
        // Tag 1 is the empty string, so that 0 is left for NULL; +1 keeps it above a mere flag.
        push(row, value, string.len().min(0xfd) as u128 + 2);
        start = end as usize;
    }
}

/// The bits of a number, the same for both zeros.
fn canonical(value: f64) -> u64 {
    if value == 0.0 { 0 } else { value.to_bits() }
}

/// Encoded code: per part a byte that tells NULL apart, then eight or sixteen bytes, or a length
/// and the string.
fn encode(
    parts: &[KeyPart],
    keys: &[Vector],
    rows: usize,
    ends: &mut Vec<usize>,
    data: &mut Vec<u8>,
) {
    ends.clear();
    data.clear();
    for row in 0..rows {
        for (part, key) in parts.iter().zip(keys) {
            if key.valid.as_deref().is_some_and(|valid| valid[row] == 0) {
                data.push(0);
                continue;
            }
            data.push(1);
            match &key.lanes {
                Lanes::I64(lanes) => data.extend_from_slice(&lanes[row].to_le_bytes()),
                Lanes::U64(lanes) => data.extend_from_slice(&lanes[row].to_le_bytes()),
                Lanes::I128(lanes) => data.extend_from_slice(&lanes[row].to_le_bytes()),
                Lanes::F64(lanes) => data.extend_from_slice(&canonical(lanes[row]).to_le_bytes()),
                Lanes::Bytes {
                    ends,
                    data: strings,
                } => {
                    let start = if row == 0 { 0 } else { ends[row - 1] as usize };
                    let string = &strings[start..ends[row] as usize];
                    let string = if part.trim {
                        string::trim_end(string)
                    } else {
                        string
                    };
                    data.extend_from_slice(&(string.len() as u32).to_le_bytes());
                    data.extend_from_slice(string);
                }
            }
        }
        ends.push(data.len());
    }
}

/// Bytes that the value of `row` takes in a vector.
fn lane_bytes(vector: &Vector, row: usize) -> usize {
    1 + match &vector.lanes {
        Lanes::I64(_) | Lanes::U64(_) | Lanes::F64(_) => 8,
        Lanes::I128(_) => 16,
        Lanes::Bytes { ends, .. } => {
            let start = if row == 0 { 0 } else { ends[row - 1] };
            (ends[row] - start) as usize + 4
        }
    }
}

/// Appends the value of `row` in `from`; strings that are compared without trailing spaces are
/// given out without them, so that partial rows of one group carry one and the same key.
pub(crate) fn push_lane(to: &mut Vector, from: &Vector, row: usize, trim: bool) {
    match (&mut to.lanes, &from.lanes) {
        (Lanes::I64(to), Lanes::I64(from)) => to.push(from[row]),
        (Lanes::U64(to), Lanes::U64(from)) => to.push(from[row]),
        (Lanes::I128(to), Lanes::I128(from)) => to.push(from[row]),
        (Lanes::F64(to), Lanes::F64(from)) => {
            to.push(if from[row] == 0.0 { 0.0 } else { from[row] })
        }
        (
            Lanes::Bytes {
                ends: to_ends,
                data: to,
            },
            Lanes::Bytes { ends, data },
        ) => {
            let start = if row == 0 { 0 } else { ends[row - 1] as usize };
            let string = &data[start..ends[row] as usize];
            to.extend_from_slice(if trim {
                string::trim_end(string)
            } else {
                string
            });
            to_ends.push(to.len() as u32);
        }
        _ => panic!("N1: values of one key have one form"),
    }
    let valid = from.valid.as_deref().map_or(1, |valid| valid[row]);
    extend_validity(to, &mut vec![valid]);
}
