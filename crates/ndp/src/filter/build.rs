//! [`KeySet`]: the keys of a join's build side on their way to a filter, in bounded memory.

use std::collections::HashSet;

use perigee_value::ColumnType;

use super::bloom::Bloom;
use super::bounds::Bounds;
use super::form::{KeyForm, hash_bytes, hash_number, number};
use super::members::{List, Members};
use super::{Filter, MAX_FILTER_COLUMNS, MAX_LISTED_KEYS};

/// Bytes of a list, beyond which its keys become a Bloom filter.
const LIST_BYTES: usize = 64 << 10;

/// Greatest bounds that are kept: a longer key passes every filter without bounds.
const BOUND_BYTES: usize = 1 << 10;

/// Keys of some columns: all of them while they are few, then their hashes, then their bounds only.
#[derive(Debug)]
pub struct KeySet {
    types: Vec<ColumnType>,
    form: KeyForm,
    /// The least and the greatest key.
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    /// False once a key was too long to be a bound.
    bounded: bool,
    /// All keys while they are few.
    listed: Option<HashSet<Vec<u8>>>,
    listed_bytes: usize,
    /// The hash of each key, some of them more than once; none once there are too many.
    hashes: Option<Vec<u64>>,
    /// So many hashes are looked through for equal ones.
    enough: usize,
    /// So many different ones are kept.
    most: usize,
}

impl KeySet {
    /// No keys of columns of these types; `None` if storage cannot compare one of them.
    #[must_use]
    pub fn new(types: &[ColumnType]) -> Option<Self> {
        let count = types.len();
        if count == 0 || count > MAX_FILTER_COLUMNS || types.iter().any(|ty| ty.is_long()) {
            return None;
        }
        Some(Self {
            types: types.to_vec(),
            form: KeyForm::of(types.iter().copied()),
            bounds: None,
            bounded: true,
            listed: Some(HashSet::new()),
            listed_bytes: 0,
            hashes: Some(Vec::new()),
            enough: 2 * MAX_LISTED_KEYS,
            most: Bloom::MAX_KEYS,
        })
    }

    /// The same, which keeps at most so many keys: of more, their bounds only.
    #[must_use]
    pub fn limited_to(self, keys: usize) -> Self {
        Self {
            most: keys.min(Bloom::MAX_KEYS),
            ..self
        }
    }

    /// Types of the columns.
    #[must_use]
    pub fn types(&self) -> &[ColumnType] {
        &self.types
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let hashes = self.hashes.as_ref().map_or(0, Vec::capacity) * size_of::<u64>();
        hashes + 2 * self.listed_bytes
    }

    /// Adds a key: its parts encoded as [`perigee_value::key::encode_part`] does for columns that are not
    /// nullable. Keys with a NULL are not added, for they are equal to none.
    pub fn insert(&mut self, key: &[u8]) {
        self.widen(key);
        if let Some(listed) = &mut self.listed
            && !listed.contains(key)
        {
            self.listed_bytes += size_of::<Vec<u8>>() + key.len();
            listed.insert(key.to_vec());
            if listed.len() > MAX_LISTED_KEYS || self.listed_bytes > LIST_BYTES {
                (self.listed, self.listed_bytes) = (None, 0);
            }
        }
        let hash = match self.form {
            KeyForm::Packed { .. } => hash_number(number(key)),
            KeyForm::Bytes => hash_bytes(key),
        };
        self.insert_hash(hash);
    }

    fn insert_hash(&mut self, hash: u64) {
        let Some(hashes) = &mut self.hashes else {
            return;
        };
        hashes.push(hash);
        if hashes.len() < self.enough {
            return;
        }
        different(hashes);
        if hashes.len() > self.most {
            self.hashes = None;
        } else {
            self.enough = (2 * hashes.len()).max(self.enough);
        }
    }

    fn widen(&mut self, key: &[u8]) {
        if !self.bounded {
            return;
        }
        if key.len() > BOUND_BYTES {
            (self.bounded, self.bounds) = (false, None);
            return;
        }
        match &mut self.bounds {
            None => self.bounds = Some((key.to_vec(), key.to_vec())),
            Some((least, _)) if *key < **least => key.clone_into(least),
            Some((_, most)) if *key > **most => key.clone_into(most),
            Some(_) => {}
        }
    }

    /// Adds the keys of another set over the same types.
    ///
    /// # Panics
    /// If its types are others.
    pub fn merge(&mut self, other: Self) {
        assert_eq!(
            self.types, other.types,
            "N1: keys are compared with their like"
        );
        for key in other.bounds.iter().flat_map(|(least, most)| [least, most]) {
            self.widen(key);
        }
        if !other.bounded {
            (self.bounded, self.bounds) = (false, None);
        }
        match (&mut self.listed, other.listed) {
            (Some(own), Some(others)) => {
                own.extend(others);
                self.listed_bytes = own.iter().map(|key| size_of::<Vec<u8>>() + key.len()).sum();
                if own.len() > MAX_LISTED_KEYS || self.listed_bytes > LIST_BYTES {
                    (self.listed, self.listed_bytes) = (None, 0);
                }
            }
            (own, _) => (*own, self.listed_bytes) = (None, 0),
        }
        match other.hashes {
            Some(hashes) => hashes.into_iter().for_each(|hash| self.insert_hash(hash)),
            None => self.hashes = None,
        }
    }

    /// Gives up on all but the bounds, to be rid of its memory.
    pub fn keep_bounds_only(&mut self) {
        (self.listed, self.listed_bytes, self.hashes) = (None, 0, None);
    }

    /// Gives up on everything: there will be no filter.
    pub fn give_up(&mut self) {
        self.keep_bounds_only();
        (self.bounded, self.bounds) = (false, None);
    }

    /// The filter over these columns of a layout, which have the types of the set; `None` if it would let
    /// everything pass.
    ///
    /// # Panics
    /// If there are not as many columns as types.
    #[must_use]
    pub fn filter(mut self, columns: &[u16]) -> Option<Filter> {
        assert_eq!(
            columns.len(),
            self.types.len(),
            "N1: each column has a type"
        );
        let members = match (self.listed.take(), self.hashes.take()) {
            (Some(listed), _) => Members::List(List::of(self.form, listed)),
            (None, Some(mut hashes)) => {
                different(&mut hashes);
                match hashes.len() <= self.most {
                    true => Members::Bloom(Bloom::of(&hashes)),
                    false => Members::Any,
                }
            }
            (None, None) => Members::Any,
        };
        if members == Members::Any && self.bounds.is_none() {
            return None;
        }
        Some(Filter {
            columns: columns.iter().copied().zip(self.types).collect(),
            form: self.form,
            bounds: match self.bounds {
                None => Bounds::default(),
                Some((least, most)) => Bounds {
                    least: Some(least),
                    most: Some(most),
                },
            },
            members,
            nulls: false,
            best: None,
        })
    }
}

fn different(hashes: &mut Vec<u64>) {
    hashes.sort_unstable();
    hashes.dedup();
}
