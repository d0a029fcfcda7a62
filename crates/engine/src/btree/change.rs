//! Changing records: insert, and a change of the record with a given key.

use perigee_page::PageRef;
use perigee_redo::Op;
use perigee_types::{Lsn, TrxId};

use super::descend::{Stop, Target};
use super::merge::{is_worth_a_look, used};
use super::split::Insertion;
use super::{MAX_KEY_LEN, MAX_RECORD_LEN, SLOT_LEN, Tree};
use crate::EngineError;
use crate::mtr::Mtr;

/// What became of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in the tree; the LSN of its log group.
    Done(Lsn),
    /// A record with this key is there; the record.
    Duplicate(Vec<u8>),
}

/// What to do about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// Nothing.
    Keep,
    /// Insert this record; there is none with the key.
    Insert(Vec<u8>),
    /// Remove the record.
    Remove,
    /// Overwrite its header.
    SetHeader(Vec<u8>),
    /// Put this one with the same key in its place.
    Replace(Vec<u8>),
}

/// What a tree has of a key, seen under its leaf's latch.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// The record with the key.
    pub record: Option<&'p [u8]>,
    /// LSN of the leaf's last change; rises with each change of what the tree has of the key.
    pub lsn: Lsn,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    /// The record was changed; the LSN of the log group.
    Done(Lsn),
    /// The record was left as it is.
    Kept,
    /// There is no record with this key.
    NotFound,
}

/// What a write did.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// LSN of the log group if something was changed.
    lsn: Option<Lsn>,
    /// The leaf got so small that merging it is worth a try.
    shrinks: bool,
}

impl Tree {
    /// Inserts a record; `trx` raises the leaf's largest transaction id.
    ///
    /// # Errors
    /// As [`Tree::write`].
    ///
    /// # Panics
    /// If `record` is not one record of the tree's leaf shape.
    pub async fn insert(&self, record: &[u8], trx: TrxId) -> Result<Inserted, EngineError> {
        self.check_record(record)?;
        let mut duplicate = None;
        let key = self.spec.shape.key(record);
        let written = self.write(key, trx, |place| {
            duplicate = place.record.map(<[u8]>::to_vec);
            match place.record {
                None => RecordChange::Insert(record.to_vec()),
                Some(_) => RecordChange::Keep,
            }
        });
        Ok(match written.await? {
            Some(lsn) => Inserted::Done(lsn),
            None => Inserted::Duplicate(duplicate.expect("else it is inserted")),
        })
    }

    /// Changes the record with this key as `decide` says; see [`Tree::write`].
    ///
    /// # Errors
    /// As [`Tree::write`].
    pub async fn update(
        &self,
        key: &[u8],
        trx: TrxId,
        mut decide: impl FnMut(&[u8]) -> RecordChange + Send,
    ) -> Result<Updated, EngineError> {
        let mut found = false;
        let written = self.write(key, trx, |place| {
            found = place.record.is_some();
            place.record.map_or(RecordChange::Keep, &mut decide)
        });
        Ok(match written.await? {
            Some(lsn) => Updated::Done(lsn),
            None if found => Updated::Kept,
            None => Updated::NotFound,
        })
    }

    /// Changes what the tree has of a key as `decide` says, which may be called more than once (the
    /// last time counts) and runs under the leaf's latch. `trx` raises the leaf's largest
    /// transaction id. Returns the LSN of the log group if something was changed.
    ///
    /// # Errors
    /// [`EngineError::RowTooLong`] and [`EngineError::KeyTooLong`] beyond [`MAX_RECORD_LEN`] and
    /// [`MAX_KEY_LEN`]; otherwise what storage says.
    ///
    /// # Panics
    /// If the decision does not fit: an insert where there is a record, a record with another key or
    /// of another shape.
    pub async fn write(
        &self,
        key: &[u8],
        trx: TrxId,
        mut decide: impl FnMut(Place<'_>) -> RecordChange + Send,
    ) -> Result<Option<Lsn>, EngineError> {
        self.pool.admit().await?;
        let written = self.run(|| match self.write_in_leaf(key, trx, &mut decide)? {
            Some(done) => Ok(done),
            None => self.write_and_split(key, trx, &mut decide),
        });
        let written = written.await?;
        if written.shrinks {
            // The record is gone, whatever becomes of this.
            if let Err(e) = self.condense(key).await {
                tracing::warn!("{} is not condensed: {e}", self.spec.index);
            }
        }
        Ok(written.lsn)
    }

    /// The record with this key.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.look(key, |record| record.map(<[u8]>::to_vec)).await
    }

    /// What `see`, which runs under the leaf's latch, makes of the record with this key, if there is
    /// one.
    pub async fn look<T>(
        &self,
        key: &[u8],
        see: impl Fn(Option<&[u8]>) -> T + Send,
    ) -> Result<T, EngineError> {
        self.run(|| {
            let _tree = self.latch.read();
            let path = self.descend(Target::At(key), 0)?;
            path.last().reference();
            Ok(path
                .last()
                .read(|page| see(page.search(key).ok().map(|slot| page.record(slot)))))
        })
        .await
    }

    fn check_record(&self, record: &[u8]) -> Result<(), EngineError> {
        let shape = &self.spec.shape;
        assert_eq!(
            shape.record_len(record),
            Some(record.len()),
            "one record of the leaf shape"
        );
        if record.len() > MAX_RECORD_LEN {
            return Err(EngineError::RowTooLong {
                bytes: record.len(),
                limit: MAX_RECORD_LEN,
            });
        }
        let bytes = shape.key(record).len();
        if bytes > MAX_KEY_LEN {
            return Err(EngineError::KeyTooLong {
                bytes,
                limit: MAX_KEY_LEN,
            });
        }
        Ok(())
    }

    /// The common case: the leaf has room. `None` if it has not.
    fn write_in_leaf(
        &self,
        key: &[u8],
        trx: TrxId,
        decide: &mut impl FnMut(Place<'_>) -> RecordChange,
    ) -> Result<Option<Written>, Stop> {
        let _tree = self.latch.read();
        let path = self.descend(Target::At(key), 0)?;
        path.last().reference();
        let mut mtr = Mtr::new(&self.pool);
        let leaf = mtr.latch(path.last());
        let page = mtr.page(leaf);
        let found = page.search(key);
        let Some(change) = self.decide(page, found, key, decide)? else {
            return Ok(Some(Written::default()));
        };
        let used = used(page);
        let room = page.free_space();
        let op = match (change, found) {
            (RecordChange::Insert(record), Err(slot)) => {
                if room < record.len() + SLOT_LEN {
                    return Ok(None);
                }
                path.last().note_insert(slot);
                let records = record.into();
                Op::Insert { slot, trx, records }
            }
            (RecordChange::Replace(record), Ok(slot)) => {
                if room + page.record(slot).len() < record.len() {
                    return Ok(None);
                }
                let record = record.into();
                Op::Replace { slot, trx, record }
            }
            (RecordChange::Remove, Ok(slot)) => Op::Remove {
                slot,
                count: 1,
                trx,
            },
            (RecordChange::SetHeader(header), Ok(slot)) => {
                let header = header.into();
                Op::SetHeader { slot, trx, header }
            }
            (change, found) => panic!("B3: {change:?} does not fit a key at {found:?}"),
        };
        let removes = matches!(op, Op::Remove { .. });
        mtr.apply(leaf, op);
        let has_neighbours = path.frames.len() > 1;
        let shrinks =
            removes && has_neighbours && is_worth_a_look(used, self::used(mtr.page(leaf)));
        let lsn = Some(mtr.commit());
        Ok(Some(Written { lsn, shrinks }))
    }

    fn write_and_split(
        &self,
        key: &[u8],
        trx: TrxId,
        decide: &mut impl FnMut(Place<'_>) -> RecordChange,
    ) -> Result<Written, Stop> {
        let _tree = self.latch_structure();
        let path = self.descend(Target::At(key), 0)?;
        let leaf = path.last();
        let (found, change, at_end, end_of_tree) = leaf.read(|page| {
            let found = page.search(key);
            let change = self.decide(page, found, key, decide)?;
            let at_end = found == Err(page.slot_count());
            Ok::<_, Stop>((found, change, at_end, page.next().is_none()))
        })?;
        let insertion = match (change, found) {
            (None, _) => return Ok(Written::default()),
            (Some(RecordChange::Insert(record)), Err(slot)) => {
                // Follows the insert before, at the end of its page: the next ones will follow it
                // too.
                let follows = leaf.note_insert(slot);
                Insertion {
                    slot,
                    record: record.into(),
                    trx,
                    ascending: at_end && (end_of_tree || follows),
                    replaces: false,
                    divides: false,
                }
            }
            (Some(RecordChange::Replace(record)), Ok(slot)) => Insertion {
                slot,
                record: record.into(),
                trx,
                ascending: false,
                replaces: true,
                divides: false,
            },
            // What is there is another record than a moment ago, and so is the decision.
            (Some(_), _) => return Err(Stop::Again),
        };
        let lsn = Some(self.insert_at(&path, insertion)?);
        Ok(Written {
            lsn,
            shrinks: false,
        })
    }

    /// Asks what to do about a key, and checks a record that is to be written; `None` for nothing.
    fn decide(
        &self,
        page: PageRef<'_>,
        found: Result<u16, u16>,
        key: &[u8],
        decide: &mut impl FnMut(Place<'_>) -> RecordChange,
    ) -> Result<Option<RecordChange>, EngineError> {
        let record = found.ok().map(|slot| page.record(slot));
        let lsn = page.lsn();
        let change = decide(Place { record, lsn });
        match &change {
            RecordChange::Keep => return Ok(None),
            RecordChange::Insert(record) | RecordChange::Replace(record) => {
                self.check_record(record)?;
                let same = self.spec.shape.key(record) == key;
                assert!(same, "B3: a record is written under its own key");
            }
            RecordChange::Remove | RecordChange::SetHeader(_) => {}
        }
        Ok(Some(change))
    }
}
