//! The keys that pass a filter: any, those of a list, or those that a Bloom filter does not exclude.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use perigee_types::{DecodeError, Reader, Writer};

use super::MAX_LISTED_KEYS;
use super::bloom::Bloom;
use super::form::{KeyForm, hash_bytes, hash_number, number};

/// Which keys pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Members {
    /// All.
    Any,
    /// These.
    List(List),
    /// These, and a few others.
    Bloom(Bloom),
}

impl Members {
    /// True if a packed key passes.
    #[inline]
    pub(crate) fn has_number(&self, key: u64) -> bool {
        match self {
            Self::Any => true,
            Self::List(list) => list.numbers.contains(&key),
            Self::Bloom(bloom) => bloom.may_have(hash_number(key)),
        }
    }

    /// True if a key of bytes passes.
    #[inline]
    pub(crate) fn has_bytes(&self, key: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::List(list) => list.texts.contains(key),
            Self::Bloom(bloom) => bloom.may_have(hash_bytes(key)),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Any => 0,
            Self::List(list) => list.bytes(),
            Self::Bloom(bloom) => bloom.bytes(),
        }
    }
}

/// Keys one by one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct List {
    /// In ascending order, all different.
    keys: Vec<Vec<u8>>,
    /// The same, to look packed ones up.
    numbers: HashSet<u64, BuildHasherDefault<KeyHasher>>,
    /// The same, to look others up.
    texts: HashSet<Vec<u8>, BuildHasherDefault<KeyHasher>>,
}

/// Memory of a key besides its bytes, which are there twice.
const KEY_BYTES: usize = 64;

impl List {
    /// A list of keys, in any order.
    pub(crate) fn of(form: KeyForm, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        let (numbers, texts) = match form {
            KeyForm::Packed { .. } => (
                keys.iter().map(|key| number(key)).collect(),
                HashSet::default(),
            ),
            KeyForm::Bytes => (HashSet::default(), keys.iter().cloned().collect()),
        };
        Self {
            keys,
            numbers,
            texts,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn bytes(&self) -> usize {
        self.keys.iter().map(|key| KEY_BYTES + 2 * key.len()).sum()
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.keys.len() as u32);
        for key in &self.keys {
            w.bytes(key);
        }
    }

    pub(crate) fn decode(form: KeyForm, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.u32()? as usize;
        if count > MAX_LISTED_KEYS {
            return Err(DecodeError::new("filter: number of listed keys"));
        }
        let keys = (0..count)
            .map(|_| form.decode_key(r))
            .collect::<Result<Vec<_>, _>>()?;
        if !keys.is_sorted_by(|a, b| a < b) {
            return Err(DecodeError::new("filter: order of listed keys"));
        }
        Ok(Self::of(form, keys))
    }
}

/// The hashes of keys, for the tables of lists.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 ^= hash_bytes(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = hash_number(number);
    }

    fn write_usize(&mut self, _: usize) {
        // The length of a slice, which its hash has in it.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
