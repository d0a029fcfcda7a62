//! Filters over the records of a scan: keys are read from many records at a time, and the records whose
//! key does not pass are left out.
//!
//! The loops are the same for compiled and for interpreted programs. Every offset handed in begins a
//! record that the layout's shape accepts; loads are bounds-checked all the same.

use std::sync::Arc;

use perigee_value::{Place, RowLayout};

use super::Filter;
use super::best::BestKeys;
use super::form::{KeyForm, hash_number};
use super::members::Members;
use super::record_key::RecordKey;
use crate::{JoinTable, NdpError};

/// What requests of a scan bring along: filters, each bound to the layout of its records, and the table of its join.
/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Filters {
    bound: Arc<[Bound]>,
    table: Option<Arc<JoinTable>>,
    /// So many leading variable-length items of a record are read.
    pub(crate) items_read: usize,
}

struct Bound {
    filter: Arc<Filter>,
    key: RecordKey,
    /// It is about the record's key, which is the same in all its versions.
    is_of_key: bool,
}

/// What a run has done with its filters.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Records that each left out.
    pub dropped: Vec<u64>,
    /// The best keys of each that asks for some; of none if the run does not remember any.
    best: Vec<Option<BestKeys>>,
}

/// Memory that is used again from page to page.
#[derive(Default)]
pub(crate) struct Scratch {
    numbers: Vec<u64>,
    key: Vec<u8>,
}

impl Filters {
    /// Filters for records of a layout.
    ///
    /// # Errors
    /// [`NdpError::Filter`] if the layout lacks a column of one of them.
    pub fn bind(layout: &RowLayout, filters: &[Arc<Filter>]) -> Result<Self, NdpError> {
        let bind = |filter: &Arc<Filter>| {
            filter.check(layout)?;
            let columns = filter.columns.iter().map(|(c, _)| *c);
            Ok(Bound {
                filter: filter.clone(),
                is_of_key: columns.clone().all(|c| layout.key.contains(&c)),
                key: RecordKey::new(layout, columns),
            })
        };
        let items = filters
            .iter()
            .flat_map(|filter| &filter.columns)
            .map(|(c, _)| {
                match layout
                    .columns
                    .get(usize::from(*c))
                    .map(|column| column.place)
                {
                    Some(Place::Var { item }) => usize::from(item) + 1,
                    _ => 0,
                }
            });
        Ok(Self {
            items_read: items.max().unwrap_or(0),
            table: None,
            bound: filters.iter().map(bind).collect::<Result<_, NdpError>>()?,
        })
    }

    /// The same, with the table that the scan's records are joined with.
    #[must_use]
    pub fn with_table(self, table: Option<Arc<JoinTable>>) -> Self {
        Self { table, ..self }
    }

    /// The table that the scan's records are joined with.
    pub(crate) fn table(&self) -> Option<&Arc<JoinTable>> {
        self.table.as_ref()
    }

    /// Number of filters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bound.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// The beginning of a run, which remembers the best keys or does not.
    pub(crate) fn begin(&self, remembers: bool) -> Progress {
        let best = self.bound.iter().map(|bound| {
            let best = bound.filter.best.filter(|_| remembers)?;
            Some(BestKeys::new(best, bound.filter.form))
        });
        Progress {
            dropped: vec![0; self.bound.len()],
            best: best.collect(),
        }
    }

    /// Removes the records that do not pass, one filter after the other, and counts how many each left out.
    pub(crate) fn retain(
        &self,
        base: &[u8],
        records: &mut Vec<u16>,
        scratch: &mut Scratch,
        progress: &mut Progress,
    ) {
        let Progress { dropped, best } = progress;
        for ((bound, dropped), best) in self.bound.iter().zip(dropped).zip(best) {
            let before = records.len();
            bound.retain(base, records, scratch, best.as_ref());
            *dropped += (before - records.len()) as u64;
        }
    }

    /// Removes ambiguous records that no filter of the key lets pass, whichever version of them is visible.
    pub(crate) fn retain_ambiguous(
        &self,
        base: &[u8],
        records: &mut Vec<u16>,
        scratch: &mut Scratch,
        progress: &mut Progress,
    ) {
        for (bound, dropped) in self.bound.iter().zip(&mut progress.dropped) {
            if bound.is_of_key && !records.is_empty() {
                let before = records.len();
                bound.retain(base, records, scratch, None);
                *dropped += (before - records.len()) as u64;
            }
        }
    }

    /// Remembers the keys of records that passed and were given out.
    pub(crate) fn note(
        &self,
        base: &[u8],
        records: &[u16],
        scratch: &mut Scratch,
        progress: &mut Progress,
    ) {
        for (bound, best) in self.bound.iter().zip(&mut progress.best) {
            if let Some(best) = best {
                bound.note(base, records, scratch, best);
            }
        }
    }
}

impl Bound {
    fn retain(
        &self,
        base: &[u8],
        records: &mut Vec<u16>,
        scratch: &mut Scratch,
        best: Option<&BestKeys>,
    ) {
        let has_nulls = self.key.has_nulls;
        let nulls_pass = self.filter.nulls && best.is_none_or(BestKeys::wants_null);
        if has_nulls && !nulls_pass {
            keep(records, |_, at| !self.key.is_null(base, at));
        }
        let or_null = |at| has_nulls && nulls_pass && self.key.is_null(base, at);
        match self.filter.form {
            KeyForm::Packed { .. } => {
                self.retain_numbers(base, records, &mut scratch.numbers, best, or_null);
            }
            KeyForm::Bytes => keep(records, |_, at| {
                // A string that is not text is none of the keys' either; it is left to who looks closer.
                or_null(at)
                    || !self.key.key(base, at, &mut scratch.key)
                    || (self.filter.passes(&scratch.key)
                        && best.is_none_or(|best| best.wants(&scratch.key)))
            }),
        }
    }

    fn retain_numbers(
        &self,
        base: &[u8],
        records: &mut Vec<u16>,
        keys: &mut Vec<u64>,
        best: Option<&BestKeys>,
        or_null: impl Fn(u16) -> bool,
    ) {
        self.key.numbers(base, records, keys);
        let (mut least, mut most) = self.filter.bounds.numbers();
        if let Some((from, to)) = best.map(BestKeys::numbers) {
            (least, most) = (least.max(from), most.min(to));
        }
        if (least, most) != (0, u64::MAX) {
            let mut kept = 0;
            for i in 0..records.len() {
                (records[kept], keys[kept]) = (records[i], keys[i]);
                let passes = (least <= keys[i] && keys[i] <= most) || or_null(records[i]);
                kept += usize::from(passes);
            }
            records.truncate(kept);
        }
        match &self.filter.members {
            Members::Any => {}
            Members::Bloom(bloom) => keep(records, |i, at| {
                bloom.may_have(hash_number(keys[i])) || or_null(at)
            }),
            members => keep(records, |i, at| members.has_number(keys[i]) || or_null(at)),
        }
    }

    fn note(&self, base: &[u8], records: &[u16], scratch: &mut Scratch, best: &mut BestKeys) {
        let counts = |at| !self.key.has_nulls || !self.key.is_null(base, at);
        match self.filter.form {
            KeyForm::Packed { .. } => {
                self.key.numbers(base, records, &mut scratch.numbers);
                let keys = records.iter().zip(&scratch.numbers);
                keys.filter(|(at, _)| counts(**at))
                    .for_each(|(_, key)| best.note_number(*key));
            }
            KeyForm::Bytes => {
                for at in records.iter().copied().filter(|at| counts(*at)) {
                    if self.key.key(base, at, &mut scratch.key) {
                        best.note(&scratch.key);
                    }
                }
            }
        }
    }
}

/// Keeps the records for which a test, given their place and offset, is true, without a branch for each.
#[inline(always)]
fn keep(records: &mut Vec<u16>, mut test: impl FnMut(usize, u16) -> bool) {
    let mut kept = 0;
    for i in 0..records.len() {
        let at = records[i];
        records[kept] = at;
        kept += usize::from(test(i, at));
    }
    records.truncate(kept);
}
