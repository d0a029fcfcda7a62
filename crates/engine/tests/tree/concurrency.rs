//! Writers and readers at once, on several threads, with a small pool.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use perigee_engine::btree::{
    BatchRequest, Inserted, KeySpan, LeafState, RecordChange, Tree, Updated,
};
use perigee_engine::buffer::{Access, Page};
use perigee_page::PageRef;
use perigee_types::TrxId;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::timeout;

use crate::database::*;
use crate::merge::{insert, record, remove};

const WRITERS: u32 = 4;
const EACH: u32 = 1500;

/// A writer's keys are those equal to its number modulo the writers, in a random order.
async fn write(tree: Tree, writer: u32, done: Arc<[AtomicU32]>) {
    let mut rng = StdRng::seed_from_u64(u64::from(writer));
    let mut order: Vec<_> = (0..EACH).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
    // Halfway in order, so that both split points are used.
    order[EACH as usize / 2..].sort_unstable();
    for (count, n) in order.into_iter().enumerate() {
        let key = n * WRITERS + writer;
        let value = vec![writer as u8; rng.random_range(10..400)];
        let trx = TrxId(u64::from(writer) + 1);
        let inserted = tree
            .insert(&fixed_record(key, trx, &value), trx)
            .await
            .unwrap();
        assert!(matches!(inserted, Inserted::Done(_)), "{inserted:?}");
        if count % 5 == 0 {
            let again = tree
                .insert(&fixed_record(key, trx, b""), trx)
                .await
                .unwrap();
            assert!(matches!(again, Inserted::Duplicate(_)));
        }
        if count % 7 == 0 {
            let longer = fixed_record(key, trx, &vec![writer as u8; 900]);
            let change = |_: &[u8]| RecordChange::Replace(longer.clone());
            let updated = tree.update(&key.to_be_bytes(), trx, change).await.unwrap();
            assert!(matches!(updated, Updated::Done(_)));
        }
        done[writer as usize].store(count as u32 + 1, Ordering::SeqCst);
    }
}

/// Scans see everything that was inserted before they began, in order and once.
async fn read(tree: Tree, reverse: bool, done: Arc<[AtomicU32]>) -> u32 {
    let mut scans = 0;
    loop {
        let before: Vec<_> = done.iter().map(|d| d.load(Ordering::SeqCst)).collect();
        let mut found = scan(&tree, KeySpan::all(), reverse).await.unwrap();
        if reverse {
            found.reverse();
        }
        assert!(found.is_sorted_by(|a, b| a.0 < b.0));
        for (writer, before) in before.iter().enumerate() {
            let mine = found.iter().filter(|(key, record)| {
                let n = u32::from_be_bytes(key[..].try_into().unwrap());
                assert!(
                    record[20..].iter().all(|b| u32::from(*b) == n % WRITERS),
                    "torn record"
                );
                n % WRITERS == writer as u32
            });
            assert!(mine.count() as u32 >= *before);
        }
        scans += 1;
        if before.iter().all(|d| *d == EACH) {
            return scans;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_and_readers_do_not_disturb_each_other() {
    for pages in [24, 2000] {
        let database = Database::new();
        let pool = database.open(pages).await;
        let tree = fixed_tree(&pool).await;
        let done: Arc<[AtomicU32]> = (0..WRITERS).map(|_| AtomicU32::new(0)).collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| tokio::spawn(write(tree.clone(), w, done.clone())))
            .collect();
        let readers: Vec<_> = [false, true]
            .map(|r| tokio::spawn(read(tree.clone(), r, done.clone())))
            .into();
        let all = async {
            for writer in writers {
                writer.await.unwrap();
            }
            for reader in readers {
                assert!(reader.await.unwrap() > 0);
            }
        };
        timeout(Duration::from_secs(120), all)
            .await
            .expect("no deadlock");
        let stats = tree.verify().await.unwrap();
        assert_eq!(stats.records, u64::from(WRITERS * EACH));
        assert!(stats.height > 1 && stats.leaf_pages > 50);
        database.check_replay(&pool).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_trees_grow_at_once() {
    let database = Database::new();
    let pool = database.open(64).await;
    let (fixed, variable) = (fixed_tree(&pool).await, variable_tree(&pool).await);
    let grow = |tree: Tree, n: u32| async move {
        let record = |i: u32| match tree.spec().shape.key_len {
            0 => variable_record(format!("{:05}", i * 7919 % 2000).as_bytes(), &[1; 200]),
            _ => fixed_record(i, TrxId(2), &[1; 200]),
        };
        for i in 0..n {
            tree.insert(&record(i), TrxId(2)).await.unwrap();
        }
        tree.verify().await.unwrap()
    };
    let fixed = tokio::spawn(grow(fixed, 2000));
    let variable = tokio::spawn(grow(variable, 2000));
    for stats in [fixed.await.unwrap(), variable.await.unwrap()] {
        assert_eq!(stats.records, 2000);
    }
    database.check_replay(&pool).await;
    // Every page belongs to one tree: leaves of both are apart.
    let replayed = database.replay().await;
    assert!(replayed.len() > 60);
    assert!(
        pool.get_resident(perigee_sal::SUPERBLOCK, Access::Scan)
            .is_some()
    );
}

const CHURNED: u32 = 700;

/// These are never removed.
fn is_stable(n: u32) -> bool {
    (n / WRITERS).is_multiple_of(20)
}

/// Inserts and removes runs of the keys that are this writer's, in both directions, and removes all
/// but the stable ones in the end.
async fn churn(tree: Tree, writer: u32, rounds: u32) {
    let mut rng = StdRng::seed_from_u64(100 + u64::from(writer));
    let mut present = BTreeSet::new();
    for round in 0..=rounds {
        let at_end = round == rounds;
        let from = rng.random_range(0..CHURNED);
        let run = from..CHURNED.min(from + rng.random_range(1..CHURNED / 2));
        let mut run: Vec<_> = if at_end { 0..CHURNED } else { run }.collect();
        if rng.random_bool(0.5) {
            run.reverse();
        }
        let grows = !at_end && rng.random_bool(0.5);
        let width = rng.random_range(10..1200);
        let keys = run.into_iter().map(|n| n * WRITERS + writer);
        for n in keys.filter(|n| !is_stable(*n)) {
            if grows && present.insert(n) {
                insert(&tree, n, rng.random_range(0..width)).await;
            } else if !grows && present.remove(&n) {
                remove(&tree, n).await;
            }
        }
    }
}

/// Checks what a scan found: in order, each once, whole, and what was there all the time.
fn check(tree: &Tree, mut found: Vec<Vec<u8>>, reverse: bool) {
    if reverse {
        found.reverse();
    }
    let shape = tree.spec().shape;
    let key = |record: &[u8]| shape.key(record).to_vec();
    assert!(found.is_sorted_by(|a, b| key(a) < key(b)));
    let mut stable = 0;
    for whole in found {
        let n = u32::from_be_bytes(key(&whole)[..4].try_into().unwrap());
        let empty = record(tree, n, 0).len();
        assert!(whole == record(tree, n, whole.len() - empty), "{n} is torn");
        stable += u32::from(is_stable(n));
    }
    let expected = (0..CHURNED * WRITERS).filter(|n| is_stable(*n)).count();
    assert_eq!(stable as usize, expected);
}

/// Scans with a cursor and by batches until writing ends.
async fn scan_while(tree: Tree, reverse: bool, ends: Arc<AtomicBool>) -> u32 {
    let mut scans = 0;
    while !ends.load(Ordering::SeqCst) || scans < 3 {
        let by_cursor = scan(&tree, KeySpan::all(), reverse).await.unwrap();
        check(
            &tree,
            by_cursor.into_iter().map(|(_, r)| r).collect(),
            reverse,
        );
        for load in [false, true] {
            let max_pages = 1 + scans as usize % 40;
            let found = scan_by_batches(&tree, reverse, load, max_pages).await;
            check(&tree, found, reverse);
        }
        scans += 1;
    }
    scans
}

async fn scan_by_batches(tree: &Tree, reverse: bool, load: bool, max_pages: usize) -> Vec<Vec<u8>> {
    let (sal, mut found) = (tree.pool().sal(), Vec::new());
    let all = KeySpan::all();
    let mut rest = Some(all.clone());
    while let Some(span) = rest {
        let request = BatchRequest {
            range: &all,
            span: &span,
            reverse,
            max_pages,
            load,
        };
        let pin = || (sal.last_lsn(), ());
        let batch = tree.leaf_batch(request, pin).await.unwrap();
        for leaf in batch.leaves {
            let page = match leaf.state {
                LeafState::Resident(page) => page,
                LeafState::Loading(load) => load.land().await.unwrap(),
                LeafState::Stored => {
                    sal.wait_page_persistent(batch.lsn).await.unwrap();
                    let stored = sal.read_pages(&[leaf.page], batch.lsn).await.unwrap();
                    Page::copy_of(PageRef::new(&stored[0]).unwrap())
                }
            };
            let page = page.get();
            let slots = 0..page.slot_count();
            let in_span = slots.filter(|slot| {
                let wanted = span.contains(page.key(*slot));
                assert!(wanted || leaf.shared, "{:?} of {span:?}", page.key(*slot));
                wanted
            });
            let mut records: Vec<_> = in_span.map(|slot| page.record(slot).to_vec()).collect();
            if reverse {
                records.reverse();
            }
            found.extend(records);
        }
        rest = batch.rest;
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn merges_do_not_disturb_readers_and_writers() {
    for (pages, rounds) in [(8, 12), (2000, 20)] {
        let database = Database::new();
        let pool = database.open(pages).await;
        for tree in [fixed_tree(&pool).await, variable_tree(&pool).await] {
            for n in (0..CHURNED * WRITERS).filter(|n| is_stable(*n)) {
                insert(&tree, n, 100).await;
            }
            let ends = Arc::new(AtomicBool::new(false));
            let readers =
                [false, true].map(|r| tokio::spawn(scan_while(tree.clone(), r, ends.clone())));
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| tokio::spawn(churn(tree.clone(), writer, rounds)))
                .collect();
            let all = async {
                for writer in writers {
                    writer.await.unwrap();
                }
                ends.store(true, Ordering::SeqCst);
                for reader in readers {
                    assert!(reader.await.unwrap() >= 3);
                }
            };
            timeout(Duration::from_secs(240), all)
                .await
                .expect("no deadlock");
            let stats = tree.verify().await.unwrap();
            assert_eq!(stats.records, u64::from(CHURNED * WRITERS / 20));
            let fullest = CHURNED * WRITERS / 20 * 2000 / 16384;
            assert!(stats.leaf_pages < 4 * u64::from(fullest), "{stats:?}");
        }
        database.check_replay(&pool).await;
    }
}
