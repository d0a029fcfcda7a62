//! Changes of several catalog records that take place together or not at all.
//!
//! One change is one record of the tree, which is atomic by itself. Several are first written as
//! records of their own, the journal; then the record `j` says that they count, which is the moment
//! they take place; then they are made, and the journal is removed, `j` first. A start that finds
//! `j` makes them (again); without `j` what else is there of a journal does not count.
//!
//! ```text
//! "j"                          number of changes, 4 bytes
//! "j" number, 4 bytes BE       length of the name 2, name, 1 and the value or 0
//! ```

use std::collections::BTreeMap;

use perigee_types::{DecodeError, Lsn, Reader, Writer};

use super::pieces;
use super::store::{put, put_record, record, remove, unchecked_record};
use crate::EngineError;
use crate::btree::Tree;
use crate::txn::Pauses;

/// Bytes by which a journal's record may be longer than the one it speaks of: its own name, and
/// the length and the flag.
pub(super) const OVERHEAD: usize = 8;

/// The record that makes the others count.
const MARK: &[u8] = b"j";

/// Values of records by name; `None` removes one.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Values of records by name.
pub(super) type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn piece_key(number: u32) -> Vec<u8> {
    [MARK, &number.to_be_bytes()].concat()
}

fn piece(key: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let mut w = Writer::new();
    w.u16(key.len() as u16)
        .raw(key)
        .u8(u8::from(value.is_some()))
        .raw(value.unwrap_or_default());
    w.into_bytes()
}

fn decode_piece(bytes: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>), DecodeError> {
    let mut r = Reader::new(bytes, "journal of the catalog");
    let len = usize::from(r.u16()?);
    let key = r.raw(len)?.to_vec();
    let present = r.u8()? != 0;
    let value = r.raw(r.remaining())?.to_vec();
    Ok((key, present.then_some(value)))
}

/// Makes changes, all or none even if there is a crash; returns the LSN by which they are durable. Values may be
/// longer than records.
///
/// # Errors
/// [`EngineError::BadDefinition`] if a value is too long, then nothing is changed; or what storage
/// says.
pub(crate) async fn apply(tree: &Tree, changes: &Changes) -> Result<Lsn, EngineError> {
    let changes = &pieces::cut(tree, changes).await?;
    for (key, value) in changes {
        record(key, value.as_deref().unwrap_or_default())?;
    }
    if changes.len() <= 1 {
        return make(tree, changes).await;
    }
    for (number, (key, value)) in (0..).zip(changes) {
        let name = piece_key(number);
        let record = unchecked_record(&name, &piece(key, value.as_deref()));
        put_record(tree, &name, record).await?;
    }
    let count = changes.len() as u32;
    put(tree, MARK, &count.to_le_bytes()).await?;
    // From here on a start would make them; nobody may see them made in part before.
    let mut pauses = Pauses::default();
    loop {
        let made = match make(tree, changes).await {
            Ok(lsn) => clear(tree, count).await.map(|()| lsn),
            Err(e) => Err(e),
        };
        match made {
            Err(e) if e.is_transient() => {
                tracing::warn!("a change of the catalog goes on later: {e}");
                pauses.pause().await;
            }
            made => return made,
        }
    }
}

async fn make(tree: &Tree, changes: &Changes) -> Result<Lsn, EngineError> {
    let mut last = Lsn(0);
    for (key, value) in changes {
        let lsn = match value {
            Some(value) => Some(put(tree, key, value).await?),
            None => remove(tree, key).await?,
        };
        last = lsn.unwrap_or(last);
    }
    Ok(last)
}

async fn clear(tree: &Tree, count: u32) -> Result<(), EngineError> {
    remove(tree, MARK).await?;
    for number in 0..count {
        remove(tree, &piece_key(number)).await?;
    }
    Ok(())
}

/// Completes what a crash left in the tree, and takes the journal out of `entries`, the records of
/// the tree.
pub(super) async fn complete(tree: &Tree, entries: &mut Entries) -> Result<(), EngineError> {
    let (changes, names) = settle(entries)?;
    pieces::join(entries)?;
    make(tree, &changes).await?;
    // The mark is the first.
    for name in names {
        remove(tree, &name).await?;
    }
    Ok(())
}

/// Takes the journal out of `entries` and makes its changes in them, if it counts. Returns the changes, and
/// the names of the journal's records.
pub(super) fn settle(entries: &mut Entries) -> Result<(Changes, Vec<Vec<u8>>), EngineError> {
    let mut journal = entries.split_off(MARK);
    let end = journal.keys().find(|name| !name.starts_with(MARK)).cloned();
    if let Some(end) = end {
        entries.append(&mut journal.split_off(&end));
    }
    let mut changes = Changes::new();
    if let Some(mark) = journal.get(MARK) {
        changes =
            decode(mark, &journal).map_err(|e| EngineError::Corrupt(format!("catalog: {e}")))?;
        for (key, value) in &changes {
            match value {
                Some(value) => entries.insert(key.clone(), value.clone()),
                None => entries.remove(key),
            };
        }
    }
    Ok((changes, journal.into_keys().collect()))
}

/// The changes of a journal that counts.
fn decode(mark: &[u8], journal: &Entries) -> Result<Changes, DecodeError> {
    let count = Reader::new(mark, "mark of the journal").u32()?;
    let piece = |number| {
        let piece = journal.get(&piece_key(number));
        decode_piece(piece.ok_or_else(|| DecodeError::new("journal: piece"))?)
    };
    (0..count).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_back_and_damage_is_survived() {
        for value in [None, Some(b"".to_vec()), Some(b"value".to_vec())] {
            let bytes = piece(b"name", value.as_deref());
            assert_eq!(decode_piece(&bytes), Ok((b"name".to_vec(), value)));
            for cut in 0..7 {
                assert!(decode_piece(&bytes[..cut]).is_err());
            }
        }
        assert!(decode_piece(&[9, 0, b'x']).is_err());
        assert!(decode(&[2, 0, 0, 0], &Entries::new()).is_err());
    }

    async fn open(dir: &std::path::Path) -> std::sync::Arc<crate::Engine> {
        let log = perigee_log_store::LogStoreService::open(dir.join("log"), Default::default());
        let pages = perigee_page_store::PageStoreService::open(dir.join("p"), Default::default());
        let config = perigee_sal::SalConfig::new(perigee_types::DbId(1));
        let log = std::sync::Arc::new(log.expect("a log store"));
        let pages: Vec<std::sync::Arc<dyn perigee_page_api::PageStore>> =
            vec![std::sync::Arc::new(pages.expect("a page store"))];
        let sal = perigee_sal::Sal::open(config, log, pages).await;
        let engine = crate::Engine::open(sal.expect("storage"), crate::EngineConfig::default());
        engine.await.expect("an engine")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_crash_left_is_completed_if_it_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        for counts in [false, true] {
            let engine = open(dir.path()).await;
            let tree = engine.catalog.tree();
            if !counts {
                engine.create_schema("before").await.expect("it is new");
            }
            // Pieces of a longer journal that did not come to count are no part of this one.
            let changes = [
                ("sa", true),
                ("sb", true),
                ("sbefore", false),
                ("sstray", true),
            ];
            for (number, (name, present)) in (0..).zip(changes) {
                let value = present.then_some(&b""[..]);
                let key = piece_key(number);
                let record = unchecked_record(&key, &piece(name.as_bytes(), value));
                put_record(&tree, &key, record).await.expect("storage");
            }
            if counts {
                let mark = put(&tree, MARK, &3_u32.to_le_bytes()).await;
                mark.expect("storage");
            }
            engine.shutdown().await.expect("storage");
            drop((tree, engine));
            for _ in 0..2 {
                let engine = open(dir.path()).await;
                let expected: &[&str] = if counts { &["a", "b"] } else { &["before"] };
                assert_eq!(engine.schemas(), expected);
                engine.shutdown().await.expect("storage");
            }
        }
    }

    #[test]
    fn a_piece_is_little_longer_than_its_record() {
        let direct = unchecked_record(b"name", b"value").len();
        let piece = unchecked_record(&piece_key(0), &piece(b"name", Some(b"value"))).len();
        assert_eq!(piece, direct + OVERHEAD);
    }
}
