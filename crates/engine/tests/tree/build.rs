//! Trees built from sorted records.

use perigee_engine::EngineError;
use perigee_engine::btree::{Inserted, KeySpan, MAX_RECORD_LEN, Tree};
use perigee_types::TrxId;

use crate::database::*;

fn record(n: u32) -> Vec<u8> {
    fixed_record(n, TrxId(4), &vec![n as u8; 100 + (n % 60) as usize])
}

async fn build(tree: &Tree, records: u32, sixteenths: usize) -> perigee_engine::btree::Built {
    let mut builder = tree.build(TrxId(4), sixteenths);
    for n in 0..records {
        builder.push(&record(2 * n)).await.unwrap();
    }
    builder.finish().await.unwrap()
}

#[tokio::test]
async fn a_built_tree_is_like_any_other() {
    for records in [0, 1, 100, 5000, 110_000] {
        let database = Database::new();
        let pool = database.open(20).await;
        let tree = fixed_tree(&pool).await;
        let built = build(&tree, records, 15).await;
        let stats = tree.verify().await.unwrap();
        assert_eq!(
            (built.records, stats.records),
            (u64::from(records), u64::from(records))
        );
        assert_eq!(
            (built.leaf_pages, built.height),
            (stats.leaf_pages, stats.height)
        );
        assert_eq!(built.pages, stats.leaf_pages + stats.inner_pages);
        assert_eq!(
            stats.height,
            [1, 1, 1, 2, 3][[0, 1, 100, 5000, 110_000]
                .iter()
                .position(|r| *r == records)
                .unwrap()]
        );
        if records == 110_000 {
            continue;
        }
        for n in 0..300 {
            let key = (n * 37 % (2 * records + 10)) | 1;
            let inserted = tree.insert(&record(key), TrxId(9)).await.unwrap();
            assert!(matches!(
                inserted,
                Inserted::Done(_) | Inserted::Duplicate(_)
            ));
        }
        tree.verify().await.unwrap();
        let found = scan(&tree, KeySpan::all(), false).await.unwrap();
        assert!(found.iter().filter(|(k, _)| k[3] % 2 == 0).count() as u32 == records);
        database.check_replay(&pool).await;
        let spec = *tree.spec();
        let expected = found;
        pool.sal()
            .wait_durable(pool.sal().last_lsn())
            .await
            .unwrap();
        drop((tree, pool));
        let pool = database.open(20).await;
        let tree = reopen(&pool, &spec);
        assert_eq!(scan(&tree, KeySpan::all(), false).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn pages_are_filled_as_asked() {
    for (sixteenths, least, most) in [(16, 0.97, 1.0), (15, 0.91, 0.94), (8, 0.46, 0.51)] {
        let database = Database::new();
        let pool = database.open(64).await;
        let tree = fixed_tree(&pool).await;
        build(&tree, 20_000, sixteenths).await;
        let stats = tree.verify().await.unwrap();
        let bytes = stats.record_bytes + 2 * stats.records;
        let share = bytes as f64 / (stats.leaf_pages * (16384 - 72)) as f64;
        assert!(
            (least..=most).contains(&share),
            "{sixteenths}/16: {share} of {stats:?}"
        );
    }
}

#[tokio::test]
async fn leaves_lie_together() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = fixed_tree(&pool).await;
    build(&tree, 40_000, 15).await;
    let mut cursor = tree.range(KeySpan::all(), false, perigee_engine::buffer::Access::Scan);
    let (mut jumps, mut leaves, mut last) = (0, 0, None);
    while let Some(run) = cursor.next().await.unwrap() {
        let id = run.page.get().id().0;
        jumps += u32::from(last.is_some_and(|last| last + 1 != id));
        (leaves, last) = (leaves + 1, Some(id));
    }
    assert!(
        leaves > 300 && jumps <= leaves / 64 + 1,
        "{jumps} jumps over {leaves} leaves"
    );
}

#[tokio::test]
async fn a_build_that_is_given_up_leaves_the_tree_empty() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = fixed_tree(&pool).await;
    let mut builder = tree.build(TrxId(4), 15);
    for n in 0..20_000 {
        builder.push(&record(n)).await.unwrap();
    }
    let long = fixed_record(30_000, TrxId(4), &vec![1; MAX_RECORD_LEN]);
    let refused = builder.push(&long).await;
    assert!(
        matches!(refused, Err(EngineError::RowTooLong { .. })),
        "{refused:?}"
    );
    drop(builder);
    assert_eq!(tree.verify().await.unwrap().records, 0);
    tree.insert(&record(1), TrxId(4)).await.unwrap();
    assert_eq!(tree.verify().await.unwrap().records, 1);
    database.check_replay(&pool).await;
}

#[tokio::test]
async fn a_build_fails_when_storage_does() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = fixed_tree(&pool).await;
    let mut builder = tree.build(TrxId(4), 15);
    database.pages[1].faults.break_disk();
    let mut failed = Ok(());
    for n in 0..60_000 {
        failed = builder.push(&record(n)).await;
        if failed.is_err() {
            break;
        }
    }
    let failed = match failed {
        Ok(()) => builder.finish().await.map(drop),
        error => error,
    };
    assert!(matches!(failed, Err(EngineError::Storage(_))), "{failed:?}");
}
