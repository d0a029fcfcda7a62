//! The table of groups: finds the number of the group that a row belongs to.
//!
//! Two open-addressing indexes share the groups: one over packed codes, one over codes that are
//! too long to be packed. Which of them a key is in depends on the key alone.

use std::ops::Range;

use perigee_expr::Vector;

use crate::aggregate::keys::{KeyPart, KeyValues, RowCodes};
use crate::aggregate::memory::Held;

/// Groups seen since the last flush.
pub(crate) struct GroupTable {
    parts: Vec<KeyPart>,
    /// Greatest number of groups.
    most: usize,
    held: Held,
    /// Key values of each group.
    keys: Vec<Vector>,
    rows: RowCodes,
    packed: Slots,
    packed_codes: Vec<PackedCode>,
    long: Slots,
    long_codes: Vec<LongCode>,
    /// The long codes, one after the other.
    long_bytes: Vec<u8>,
    key_bytes: usize,
    /// Bytes a group takes beside its key.
    state_bytes: usize,
    /// Bytes that states have taken beside that.
    heap_bytes: usize,
}

struct PackedCode {
    code: u128,
    group: u32,
}

struct LongCode {
    end: usize,
    group: u32,
}

/// Open addressing: 0, or the number of an entry + 1. A power of two long, at most half full.
struct Slots {
    slots: Vec<u32>,
    len: usize,
}

const MIN_SLOTS: usize = 64;

impl GroupTable {
    /// An empty table. `keys` are empty vectors of the keys' forms.
    pub(crate) fn new(
        parts: Vec<KeyPart>,
        keys: Vec<Vector>,
        state_bytes: usize,
        most: usize,
        held: Held,
    ) -> Self {
        Self {
            parts,
            most,
            held,
            keys,
            rows: RowCodes::default(),
            packed: Slots::new(),
            packed_codes: Vec::new(),
            long: Slots::new(),
            long_codes: Vec::new(),
            long_bytes: Vec::new(),
            key_bytes: 0,
            state_bytes,
            heap_bytes: 0,
        }
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.packed_codes.len() + self.long_codes.len()
    }

    /// The key values of every group, until [`GroupTable::clear`].
    pub(crate) fn keys(&self) -> &[Vector] {
        &self.keys
    }

    /// How the keys are told apart.
    pub(crate) fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Begins a run of rows with these keys.
    pub(crate) fn load(&mut self, keys: &[KeyValues<'_>], rows: usize) {
        self.rows.load(&self.parts, keys, rows);
    }

    /// Says how many bytes the states take beside what is counted for each group.
    pub(crate) fn set_heap_bytes(&mut self, bytes: usize) {
        self.heap_bytes = bytes;
    }

    /// Puts the groups of the loaded rows from `from` on into `out`, adding new ones. Stops before
    /// a row whose group exceeds the budget; returns the first row not done.
    pub(crate) fn assign(
        &mut self,
        keys: &[KeyValues<'_>],
        from: usize,
        rows: usize,
        out: &mut Vec<u32>,
    ) -> usize {
        out.clear();
        out.resize(rows - from, 0);
        let mut row = from;
        loop {
            row += self.assign_known(row..rows, &mut out[row - from..]);
            if row == rows {
                return rows;
            }
            let group = match self.rows.packed(row) {
                Some(code) => self.find_or_add_packed(keys, row, code),
                None => self.find_or_add_long(keys, row),
            };
            let Some(group) = group else {
                out.truncate(row - from);
                return row;
            };
            out[row - from] = group;
            row += 1;
        }
    }

    /// Puts the groups of rows into `out` up to the first one that is not known, or whose code is long;
    /// returns the number of rows done. Most rows are: the loop does nothing else.
    fn assign_known(&self, rows: Range<usize>, out: &mut [u32]) -> usize {
        let (slots, codes) = (&self.packed, &self.packed_codes);
        let n = rows.len();
        for (done, (row, out)) in rows.zip(out).enumerate() {
            let known = self.rows.packed(row).and_then(|code| {
                let found = slots.find(hash_packed(code), |i| codes[i].code == code);
                found.ok()
            });
            let Some(known) = known else { return done };
            *out = codes[known as usize].group;
        }
        n
    }

    fn find_or_add_packed(
        &mut self,
        keys: &[KeyValues<'_>],
        row: usize,
        code: u128,
    ) -> Option<u32> {
        let codes = &self.packed_codes;
        match self
            .packed
            .find(hash_packed(code), |i| codes[i].code == code)
        {
            Ok(i) => Some(codes[i as usize].group),
            Err(slot) => self.add_packed(keys, row, code, slot),
        }
    }

    #[cold]
    fn add_packed(
        &mut self,
        keys: &[KeyValues<'_>],
        row: usize,
        code: u128,
        slot: usize,
    ) -> Option<u32> {
        let group = self.add(keys, row, size_of::<PackedCode>())?;
        let codes = &mut self.packed_codes;
        self.packed.put(slot, codes.len() as u32);
        codes.push(PackedCode { code, group });
        self.packed.grow(|i| hash_packed(codes[i].code));
        Some(group)
    }

    fn find_or_add_long(&mut self, keys: &[KeyValues<'_>], row: usize) -> Option<u32> {
        let Self {
            rows,
            parts,
            long,
            long_bytes,
            long_codes,
            ..
        } = self;
        let code = rows.bytes(parts, keys, row);
        let found = long.find(hash_bytes(code), |i| {
            long_code(long_bytes, long_codes, i) == code
        });
        let slot = match found {
            Ok(i) => return Some(self.long_codes[i as usize].group),
            Err(slot) => slot,
        };
        let len = code.len();
        let group = self.add(keys, row, len + size_of::<LongCode>())?;
        let Self {
            rows,
            parts,
            long,
            long_bytes,
            long_codes,
            ..
        } = self;
        long_bytes.extend_from_slice(rows.bytes(parts, keys, row));
        long.put(slot, long_codes.len() as u32);
        long_codes.push(LongCode {
            end: long_bytes.len(),
            group,
        });
        long.grow(|i| hash_bytes(long_code(long_bytes, long_codes, i)));
        Some(group)
    }

    /// Keeps the key of a new group, if the budget allows it; its code is up to the caller.
    fn add(&mut self, keys: &[KeyValues<'_>], row: usize, code_bytes: usize) -> Option<u32> {
        // A key takes about as much as its code.
        let bytes = self.key_bytes + 2 * code_bytes + (self.len() + 1) * self.state_bytes;
        let fits = self.len() < self.most && self.held.may_hold(bytes + self.heap_bytes);
        if self.len() > 0 && !fits {
            return None;
        }
        self.key_bytes += 2 * code_bytes;
        for ((own, key), part) in self.keys.iter_mut().zip(keys).zip(&self.parts) {
            key.push(part, row, own);
        }
        Some(self.len() as u32)
    }

    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.keys.iter_mut().for_each(Vector::clear);
        self.packed.clear();
        self.packed_codes.clear();
        self.long.clear();
        self.long_bytes.clear();
        self.long_codes.clear();
        self.key_bytes = 0;
        self.heap_bytes = 0;
    }
}

fn long_code<'a>(bytes: &'a [u8], codes: &[LongCode], i: usize) -> &'a [u8] {
    let start = if i == 0 { 0 } else { codes[i - 1].end };
    &bytes[start..codes[i].end]
}

impl Slots {
    fn new() -> Self {
        Self {
            slots: vec![0; MIN_SLOTS],
            len: 0,
        }
    }

    /// The entry with this hash for which `is` holds, or the slot where it belongs.
    #[inline]
    fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return Err(slot),
                entry if is(entry as usize - 1) => return Ok(entry - 1),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn put(&mut self, slot: usize, entry: u32) {
        self.slots[slot] = entry + 1;
        self.len += 1;
    }

    /// Doubles the slots if they are more than half full; `hash` gives the hash of an entry.
    fn grow(&mut self, hash: impl Fn(usize) -> u64) {
        if 2 * self.len <= self.slots.len() {
            return;
        }
        let mask = 2 * self.slots.len() - 1;
        self.slots = vec![0; mask + 1];
        for entry in 0..self.len {
            let mut slot = hash(entry) as usize & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = entry as u32 + 1;
        }
    }

    fn clear(&mut self) {
        self.len = 0;
        // As many groups may come again.
        self.slots.fill(0);
    }
}

#[inline]
fn hash_packed(code: u128) -> u64 {
    fold(code as u64, (code >> 64) as u64)
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut tail = [0; 8];
    tail[..rest.len()].copy_from_slice(rest);
    let seed = fold(u64::from_le_bytes(tail), bytes.len() as u64);
    words
        .iter()
        .fold(seed, |hash, word| fold(u64::from_le_bytes(*word), hash))
}

/// Mixes two words: the halves of a 128-bit product, folded.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(b ^ 0x8bb8_4b93_962e_acc9);
    (product >> 64) as u64 ^ product as u64
}
