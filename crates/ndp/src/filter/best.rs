//! The first keys of an order: a filter may ask for so many rows and no more of them.
//!
//! Who sorts rows and keeps the first so many needs none that as many others come before. A run over pages
//! remembers the best keys among the rows that it has given out, and leaves out later rows that all of them come
//! before. Rows with the same key as the last of them pass: the caller's order may go on with other columns.
//! Which rows a run leaves out depends on what else it sees, and what the caller keeps does not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::ColumnType;

use super::Filter;
use super::form::{KeyForm, number};

/// Most rows that a filter may ask for.
pub const MAX_BEST: u32 = 10_000;

/// Longer keys are not remembered, so that ten megabytes are the most that a run remembers.
const LONGEST: usize = 1 << 10;

/// Memory of a key besides its bytes.
const KEY_BYTES: usize = size_of::<Vec<u8>>();

/// How many rows are wanted, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    /// So many, at most [`MAX_BEST`].
    pub rows: u32,
    /// Those with the greatest keys, instead of the least.
    pub greatest: bool,
}

impl Best {
    pub(crate) fn encode(best: Option<Self>, w: &mut Writer) {
        match best {
            None => w.u8(0),
            Some(Self { rows, greatest }) => w.u8(1 + u8::from(greatest)).u32(rows),
        };
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let greatest = match r.u8()? {
            0 => return Ok(None),
            1 => false,
            2 => true,
            _ => return Err(DecodeError::new("filter: order of the best keys")),
        };
        match r.u32()? {
            rows @ 1..=MAX_BEST => Ok(Some(Self { rows, greatest })),
            _ => Err(DecodeError::new("filter: number of the best keys")),
        }
    }
}

/// The best keys that a run has seen.
#[derive(Debug)]
pub(crate) struct BestKeys {
    best: Best,
    kept: Kept,
}

/// The worst of them first.
#[derive(Debug)]
enum Kept {
    /// Packed keys; their complements if the greatest are best.
    Numbers(BinaryHeap<u64>),
    Least(BinaryHeap<Vec<u8>>),
    Greatest(BinaryHeap<Reverse<Vec<u8>>>),
}

impl BestKeys {
    pub(crate) fn new(best: Best, form: KeyForm) -> Self {
        let kept = match (form, best.greatest) {
            (KeyForm::Packed { .. }, _) => Kept::Numbers(BinaryHeap::new()),
            (KeyForm::Bytes, false) => Kept::Least(BinaryHeap::new()),
            (KeyForm::Bytes, true) => Kept::Greatest(BinaryHeap::new()),
        };
        Self { best, kept }
    }

    fn is_full(&self) -> bool {
        let kept = match &self.kept {
            Kept::Numbers(keys) => keys.len(),
            Kept::Least(keys) => keys.len(),
            Kept::Greatest(keys) => keys.len(),
        };
        kept >= self.best.rows as usize
    }

    /// True if rows with NULL are still wanted: NULL comes before all keys.
    pub(crate) fn wants_null(&self) -> bool {
        !self.best.greatest || !self.is_full()
    }

    /// The least and the greatest packed key that is still wanted.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        match &self.kept {
            Kept::Numbers(keys) if self.is_full() => {
                let worst = keys.peek().copied().unwrap_or(u64::MAX);
                match self.best.greatest {
                    true => (!worst, u64::MAX),
                    false => (0, worst),
                }
            }
            _ => (0, u64::MAX),
        }
    }

    /// True if a key of bytes is still wanted.
    pub(crate) fn wants(&self, key: &[u8]) -> bool {
        if !self.is_full() {
            return true;
        }
        match &self.kept {
            Kept::Least(keys) => keys.peek().is_none_or(|worst| *key <= **worst),
            Kept::Greatest(keys) => keys.peek().is_none_or(|worst| *key >= *worst.0),
            Kept::Numbers(_) => true,
        }
    }

    /// Notes the packed key of a row that was given out.
    pub(crate) fn note_number(&mut self, key: u64) {
        let (rows, greatest) = (self.best.rows as usize, self.best.greatest);
        if let Kept::Numbers(keys) = &mut self.kept {
            push(keys, rows, if greatest { !key } else { key });
        }
    }

    /// Notes the key of a row that was given out.
    pub(crate) fn note(&mut self, key: &[u8]) {
        if key.len() > LONGEST || !self.wants(key) {
            return;
        }
        let rows = self.best.rows as usize;
        match &mut self.kept {
            Kept::Least(keys) => push(keys, rows, key.to_vec()),
            Kept::Greatest(keys) => push(keys, rows, Reverse(key.to_vec())),
            Kept::Numbers(_) => {}
        }
    }
}

/// Adds a key to the best so many.
fn push<K: Ord>(keys: &mut BinaryHeap<K>, most: usize, key: K) {
    if keys.len() < most {
        keys.push(key);
        return;
    }
    if let Some(mut worst) = keys.peek_mut()
        && key < *worst
    {
        *worst = key;
    }
}

/// The best keys among the rows that a sort has got so far; the worst of them is the threshold of later rows.
#[derive(Debug)]
pub struct TopKeys {
    types: Vec<ColumnType>,
    best: Best,
    keys: BestKeys,
    form: KeyForm,
}

impl TopKeys {
    /// No key yet, of columns of these types; `None` if storage cannot compare one of them.
    ///
    /// # Panics
    /// If more rows are wanted than [`MAX_BEST`], or none.
    #[must_use]
    pub fn new(types: &[ColumnType], best: Best) -> Option<Self> {
        let columns: Vec<_> = (0..).zip(types.iter().copied()).collect();
        Filter::top(&columns, best, None)?;
        let form = KeyForm::of(types.iter().copied());
        Some(Self {
            types: types.to_vec(),
            best,
            keys: BestKeys::new(best, form),
            form,
        })
    }

    /// Adds the key of a row: its parts encoded as [`perigee_value::key::encode_part`] does for columns that are not
    /// nullable. True if the threshold may have changed.
    pub fn insert(&mut self, key: &[u8]) -> bool {
        match self.form {
            KeyForm::Packed { .. } => {
                let (key, (least, most)) = (number(key), self.keys.numbers());
                self.keys.note_number(key);
                least <= key && key <= most
            }
            KeyForm::Bytes => {
                let wanted = self.keys.wants(key);
                self.keys.note(key);
                wanted
            }
        }
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.keys.kept {
            Kept::Numbers(keys) => keys.len() * size_of::<u64>(),
            Kept::Least(keys) => keys.iter().map(|key| KEY_BYTES + key.len()).sum(),
            Kept::Greatest(keys) => keys.iter().map(|key| KEY_BYTES + key.0.len()).sum(),
        }
    }

    /// The filter over these columns of a layout, which have the types of the keys. A run that `remembers` leaves out
    /// rows that others of it come before, too: where each row that the filter is run over gets to the sort. `None`
    /// if it would let everything pass.
    ///
    /// # Panics
    /// If there are not as many columns as types.
    #[must_use]
    pub fn filter(&self, columns: &[u16], remembers: bool) -> Option<Filter> {
        assert_eq!(
            columns.len(),
            self.types.len(),
            "N1: each column has a type"
        );
        let threshold = self.threshold();
        if threshold.is_none() && !remembers {
            return None;
        }
        let columns: Vec<_> = columns.iter().copied().zip(self.types.clone()).collect();
        let mut filter = Filter::top(&columns, self.best, threshold.as_deref())?;
        if !remembers {
            filter.best = None;
        }
        Some(filter)
    }

    /// A key that as many rows as are wanted come before or have.
    fn threshold(&self) -> Option<Vec<u8>> {
        if !self.keys.is_full() {
            return None;
        }
        match (&self.keys.kept, self.form) {
            (Kept::Numbers(keys), KeyForm::Packed { width }) => {
                let worst = keys.peek()?;
                let worst = if self.best.greatest { !worst } else { *worst };
                Some(worst.to_be_bytes()[size_of::<u64>() - width..].to_vec())
            }
            (Kept::Least(keys), _) => keys.peek().cloned(),
            (Kept::Greatest(keys), _) => keys.peek().map(|key| key.0.clone()),
            (Kept::Numbers(_), KeyForm::Bytes) => None,
        }
    }
}
