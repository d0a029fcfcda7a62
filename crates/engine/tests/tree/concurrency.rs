//! Writers and readers at once, on several threads, with a small pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use perigee_engine::btree::{Inserted, KeySpan, RecordChange, Tree, Updated};
use perigee_engine::buffer::Access;
use perigee_types::TrxId;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::database::*;

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
        tokio::time::timeout(Duration::from_secs(120), all)
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
