//! Changing records: insert, and a change of the record with a given key.

use bytes::Bytes;
use perigee_redo::Op;
use perigee_types::{Lsn, TrxId};

use super::descend::{Stop, Target};
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

/// What to do with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// Nothing.
    Keep,
    /// Remove it.
    Remove,
    /// Overwrite its header.
    SetHeader(Vec<u8>),
    /// Put this one with the same key in its place.
    Replace(Vec<u8>),
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

impl Tree {
    /// Inserts a record; `trx` raises the leaf's largest transaction id.
    ///
    /// # Errors
    /// [`EngineError::RowTooLong`] and [`EngineError::KeyTooLong`] beyond [`MAX_RECORD_LEN`] and
    /// [`MAX_KEY_LEN`]; otherwise what storage says.
    ///
    /// # Panics
    /// If `record` is not one record of the tree's leaf shape.
    pub async fn insert(&self, record: &[u8], trx: TrxId) -> Result<Inserted, EngineError> {
        self.check_record(record)?;
        self.pool.admit().await?;
        self.run(|| match self.insert_into_leaf(record, trx)? {
            Some(done) => Ok(done),
            None => self.insert_and_split(record, trx),
        })
        .await
    }

    /// Changes the record with this key as `decide` says, which may be called more than once and
    /// runs under the leaf's latch.
    ///
    /// # Errors
    /// As [`Tree::insert`].
    ///
    /// # Panics
    /// If a replacement has another key or is not one record.
    pub async fn update(
        &self,
        key: &[u8],
        trx: TrxId,
        mut decide: impl FnMut(&[u8]) -> RecordChange + Send,
    ) -> Result<Updated, EngineError> {
        self.pool.admit().await?;
        self.run(|| match self.update_in_leaf(key, trx, &mut decide)? {
            Some(done) => Ok(done),
            None => self.update_and_split(key, trx, &mut decide),
        })
        .await
    }

    /// The record with this key.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.run(|| {
            let _tree = self.latch.read();
            let path = self.descend(Target::At(key), 0)?;
            path.last().reference();
            let record = |slot, page: perigee_page::PageRef<'_>| page.record(slot).to_vec();
            Ok(path
                .last()
                .read(|page| page.search(key).ok().map(|slot| record(slot, page))))
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

    /// The common case: the record fits its leaf. `None` if it does not.
    fn insert_into_leaf(&self, record: &[u8], trx: TrxId) -> Result<Option<Inserted>, Stop> {
        let _tree = self.latch.read();
        let key = self.spec.shape.key(record);
        let path = self.descend(Target::At(key), 0)?;
        path.last().reference();
        let mut mtr = Mtr::new(&self.pool);
        let leaf = mtr.latch(path.last());
        let slot = match mtr.page(leaf).search(key) {
            Ok(slot) => {
                return Ok(Some(Inserted::Duplicate(
                    mtr.page(leaf).record(slot).to_vec(),
                )));
            }
            Err(slot) => slot,
        };
        if mtr.page(leaf).free_space() < record.len() + SLOT_LEN {
            return Ok(None);
        }
        path.last().note_insert(slot);
        let records = Bytes::copy_from_slice(record);
        mtr.apply(leaf, Op::Insert { slot, trx, records });
        Ok(Some(Inserted::Done(mtr.commit())))
    }

    fn insert_and_split(&self, record: &[u8], trx: TrxId) -> Result<Inserted, Stop> {
        let _tree = self.latch.write();
        let key = self.spec.shape.key(record);
        let path = self.descend(Target::At(key), 0)?;
        let (found, ascending) = path.last().read(|page| {
            let found = page.search(key).map(|slot| page.record(slot).to_vec());
            let last = found == Err(page.slot_count());
            (found, last.then(|| page.next().is_none()))
        });
        let slot = match found {
            Ok(record) => return Ok(Inserted::Duplicate(record)),
            Err(slot) => slot,
        };
        // Follows the insert before, at the end of its page: the next ones will follow it too.
        let follows = path.last().note_insert(slot);
        let ascending = ascending.is_some_and(|end_of_tree| end_of_tree || follows);
        let record = Bytes::copy_from_slice(record);
        let insertion = Insertion {
            slot,
            record,
            trx,
            ascending,
            replaces: false,
            divides: false,
        };
        Ok(Inserted::Done(self.insert_at(&path, insertion)?))
    }

    fn update_in_leaf(
        &self,
        key: &[u8],
        trx: TrxId,
        decide: &mut impl FnMut(&[u8]) -> RecordChange,
    ) -> Result<Option<Updated>, Stop> {
        let _tree = self.latch.read();
        let path = self.descend(Target::At(key), 0)?;
        path.last().reference();
        let mut mtr = Mtr::new(&self.pool);
        let leaf = mtr.latch(path.last());
        let page = mtr.page(leaf);
        let Ok(slot) = page.search(key) else {
            return Ok(Some(Updated::NotFound));
        };
        let op = match decide(page.record(slot)) {
            RecordChange::Keep => return Ok(Some(Updated::Kept)),
            RecordChange::Remove => Op::Remove {
                slot,
                count: 1,
                trx,
            },
            RecordChange::SetHeader(header) => Op::SetHeader {
                slot,
                trx,
                header: header.into(),
            },
            RecordChange::Replace(record) => {
                self.check_record(&record)?;
                if record.len() > page.free_space() + page.record(slot).len() {
                    return Ok(None);
                }
                Op::Replace {
                    slot,
                    trx,
                    record: record.into(),
                }
            }
        };
        mtr.apply(leaf, op);
        Ok(Some(Updated::Done(mtr.commit())))
    }

    fn update_and_split(
        &self,
        key: &[u8],
        trx: TrxId,
        decide: &mut impl FnMut(&[u8]) -> RecordChange,
    ) -> Result<Updated, Stop> {
        let _tree = self.latch.write();
        let path = self.descend(Target::At(key), 0)?;
        let decided = path.last().read(|page| {
            let slot = page.search(key).ok()?;
            Some((slot, decide(page.record(slot))))
        });
        let Some((slot, change)) = decided else {
            return Ok(Updated::NotFound);
        };
        let RecordChange::Replace(record) = change else {
            // The record is another one than a moment ago, and so is the decision.
            return Err(Stop::Again);
        };
        self.check_record(&record)?;
        assert_eq!(
            self.spec.shape.key(&record),
            key,
            "a replacement has the same key"
        );
        let record = record.into();
        let insertion = Insertion {
            slot,
            record,
            trx,
            ascending: false,
            replaces: true,
            divides: false,
        };
        Ok(Updated::Done(self.insert_at(&path, insertion)?))
    }
}
