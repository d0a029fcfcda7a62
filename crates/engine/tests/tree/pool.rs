//! The buffer pool: what stays, what goes, what is read once.

use std::sync::Arc;
use std::time::Duration;

use perigee_engine::EngineError;
use perigee_engine::btree::{KeySpan, Tree};
use perigee_engine::buffer::{Access, BufferPool};
use perigee_types::{PageId, TrxId};
use tokio::time::timeout;

use crate::database::*;

async fn fill(tree: &Tree, records: u32) {
    for n in 0..records {
        let record = fixed_record(n, TrxId(1), &[3; 500]);
        tree.insert(&record, TrxId(1)).await.unwrap();
    }
}

async fn leaves(tree: &Tree) -> Vec<PageId> {
    let mut cursor = tree.range(KeySpan::all(), false, Access::Scan);
    let mut ids = Vec::new();
    while let Some(run) = cursor.next().await.unwrap() {
        ids.push(run.page.get().id());
    }
    ids
}

#[tokio::test]
async fn a_scan_does_not_push_out_what_is_used_often() {
    let database = Database::new();
    let pool = database.open(300).await;
    let tree = fixed_tree(&pool).await;
    fill(&tree, 30_000).await;
    pool.sal()
        .wait_page_persistent(pool.sal().last_lsn())
        .await
        .unwrap();
    let ids = leaves(&tree).await;
    assert!(ids.len() > 900);
    let hot = &ids[..100];
    for _ in 0..3 {
        pool.fetch_many(hot, Access::Point).await.unwrap();
    }
    let resident = |pool: &BufferPool, ids: &[PageId]| {
        ids.iter()
            .filter(|id| pool.get_resident(**id, Access::Scan).is_some())
            .count()
    };
    for _ in 0..3 {
        for id in &ids[100..] {
            pool.fetch(*id, Access::Scan).await.unwrap();
        }
        assert!(
            resident(&pool, hot) >= 90,
            "{} of 100 hot pages stay",
            resident(&pool, hot)
        );
        pool.fetch_many(hot, Access::Point).await.unwrap();
    }
    let counters = pool.counters();
    assert!(
        counters.resident <= 300 && counters.hits > 0 && counters.misses > 900,
        "{counters:?}"
    );
    let index = tree.spec().index;
    assert!(pool.resident(index) < counters.resident);
}

#[tokio::test]
async fn a_page_that_no_page_store_has_stays() {
    let database = Database::new();
    let pool = database.open(8).await;
    let tree = fixed_tree(&pool).await;
    fill(&tree, 5000).await;
    pool.sal()
        .wait_page_persistent(pool.sal().last_lsn())
        .await
        .unwrap();
    let ids = leaves(&tree).await;
    database.pages.iter().for_each(|p| p.faults.stop());
    // Changes a leaf that no Page Store gets to know about.
    let record = fixed_record(1_000_000, TrxId(1), b"new");
    tree.insert(&record, TrxId(1)).await.unwrap();
    let dirty = *ids.last().unwrap();
    let others = pool.fetch_many(&ids[..ids.len() - 1], Access::Scan);
    assert!(
        timeout(Duration::from_millis(50), others).await.is_err(),
        "stores are stopped"
    );
    assert!(pool.get_resident(dirty, Access::Scan).is_some(), "P9");
    database.pages.iter().for_each(|p| p.faults.go_on());
    for round in 0..3 {
        for id in &ids {
            pool.fetch(*id, Access::Scan).await.unwrap();
        }
        let found = tree.get(&1_000_000_u32.to_be_bytes()).await.unwrap();
        assert_eq!(found, Some(record.clone()), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_page_is_read_once_for_all_who_want_it() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = fixed_tree(&pool).await;
    fill(&tree, 3000).await;
    pool.sal()
        .wait_page_persistent(pool.sal().last_lsn())
        .await
        .unwrap();
    let ids: Arc<[PageId]> = leaves(&tree).await.into();
    let spec = *tree.spec();
    drop((tree, pool));
    let pool = database.open(1000).await;
    reopen(&pool, &spec).verify().await.unwrap();
    let pool = database.open(1000).await;
    let before = pool.counters().misses;
    let readers: Vec<_> = (0..20)
        .map(|i| {
            let (pool, ids) = (pool.clone(), ids.clone());
            tokio::spawn(async move {
                let mut wanted = ids.to_vec();
                wanted.rotate_left(i * 3 % ids.len());
                // Some give up halfway; the others must not wait for them for ever.
                if i % 4 == 0 {
                    drop(pool.load(&wanted, Access::Scan));
                    let _ = timeout(Duration::ZERO, pool.fetch_many(&wanted, Access::Scan)).await;
                    return;
                }
                let frames = pool.fetch_many(&wanted, Access::Scan).await.unwrap();
                assert!(frames.iter().map(|f| f.id()).eq(wanted));
            })
        })
        .collect();
    for reader in readers {
        timeout(Duration::from_secs(30), reader)
            .await
            .expect("no reader hangs")
            .unwrap();
    }
    assert_eq!(
        pool.counters().misses - before,
        ids.len() as u64,
        "single flight"
    );
}

#[tokio::test]
async fn failed_reads_are_tried_again_by_the_next_reader() {
    let database = Database::new();
    let pool = database.open(64).await;
    let missing = pool.fetch(PageId(70), Access::Point).await.unwrap_err();
    assert!(matches!(missing, EngineError::Storage(_)) && missing.to_string().contains("page:70"));
    let tree = fixed_tree(&pool).await;
    let root = tree.spec().root;
    pool.sal()
        .wait_page_persistent(pool.sal().last_lsn())
        .await
        .unwrap();
    let other = database.open(64).await;
    assert!(other.fetch(PageId(99_999), Access::Point).await.is_err());
    other.fetch(root, Access::Point).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_keeps_its_version() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = fixed_tree(&pool).await;
    fill(&tree, 5).await;
    let frame = pool.fetch(tree.spec().root, Access::Point).await.unwrap();
    let (before, lsn) = (frame.page(), frame.page().get().lsn());
    tree.insert(&fixed_record(99, TrxId(1), b"later"), TrxId(1))
        .await
        .unwrap();
    assert_eq!((before.get().slot_count(), before.get().lsn()), (5, lsn));
    assert_eq!(frame.page().get().slot_count(), 6);
}

#[tokio::test]
async fn leaves_of_many_keys_are_fetched_together() {
    let database = Database::new();
    let pool = database.open(1000).await;
    let tree = fixed_tree(&pool).await;
    fill(&tree, 5000).await;
    pool.sal()
        .wait_page_persistent(pool.sal().last_lsn())
        .await
        .unwrap();
    let spec = *tree.spec();
    drop((tree, pool));
    let pool = database.open(1000).await;
    let tree = reopen(&pool, &spec);
    let keys: Vec<_> = (0..5000_u32)
        .step_by(97)
        .map(|n| n.to_be_bytes().to_vec())
        .collect();
    let spans: Vec<_> = keys.iter().map(|key| KeySpan::prefix(key)).collect();
    tree.prefetch(&spans).await.unwrap();
    let misses = pool.counters().misses;
    for key in &keys {
        assert!(tree.get(key).await.unwrap().is_some());
    }
    let mut finder = tree.finder();
    for (key, span) in keys.iter().zip(spans) {
        let mut rest = span.clone();
        let run = finder.next(&mut rest).await.unwrap().unwrap();
        assert_eq!(run.page.get().key(run.slots.start), key.as_slice());
        assert_eq!(run.slots.len(), 1);
        assert!(finder.next(&mut rest).await.unwrap().is_none());
        assert!(finder.get(key).await.unwrap().is_some());
    }
    assert_eq!(pool.counters().misses, misses, "nothing is read one by one");
    assert!(misses > 40);
}

#[tokio::test]
async fn shares_of_ranges_are_estimated_from_inner_pages() {
    let database = Database::new();
    let pool = database.open(1000).await;
    let tree = fixed_tree(&pool).await;
    assert_eq!(tree.estimate_share(&KeySpan::all()), 1.0);
    fill(&tree, 5000).await;
    let span = |lower: u32, upper: u32| KeySpan {
        lower: lower.to_be_bytes().to_vec(),
        upper: Some(upper.to_be_bytes().to_vec()),
    };
    let exact = |lower: u32, upper: u32| f64::from(upper - lower) / 5000.0;
    for (lower, upper) in [(0, 5000), (1000, 2000), (4990, 5000), (17, 18), (300, 300)] {
        let (found, exact) = (
            tree.estimate_share(&span(lower, upper)),
            exact(lower, upper),
        );
        assert!(
            (found - exact).abs() < 0.01,
            "{lower}..{upper}: {found}, exactly {exact}"
        );
    }
    pool.sal()
        .wait_page_persistent(pool.sal().last_lsn())
        .await
        .unwrap();
    let spec = *tree.spec();
    drop((tree, pool));
    let pool = database.open(1000).await;
    let tree = reopen(&pool, &spec);
    pool.fetch(spec.root, Access::Point).await.unwrap();
    let (misses, found) = (
        pool.counters().misses,
        tree.estimate_share(&span(1000, 2000)),
    );
    assert!((found - 0.2).abs() < 0.02, "from the root alone: {found}");
    assert_eq!(pool.counters().misses, misses);
}
