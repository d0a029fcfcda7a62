//! Batch reads: complete at their LSN, whatever happens to the tree meanwhile (SPEC's N6).

use std::collections::BTreeSet;
use std::sync::Arc;

use perigee_engine::btree::{BatchRequest, KeySpan, LeafState, Tree};
use perigee_engine::buffer::{BufferPool, Page};
use perigee_page::PageRef;
use perigee_types::{Lsn, PAGE_SIZE, TrxId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::database::*;

/// Keys of a page in a span.
fn keys(page: PageRef<'_>, span: &KeySpan) -> Vec<u32> {
    (0..page.slot_count())
        .map(|slot| page.key(slot))
        .filter(|key| span.contains(key))
        .map(|key| u32::from_be_bytes(key.try_into().unwrap()))
        .collect()
}

fn copy(bytes: &[u8]) -> Page {
    let bytes: [u8; PAGE_SIZE] = bytes.try_into().unwrap();
    Page::new(Arc::new(bytes))
}

/// Scans `span` by batches, calling `between` after each batch was taken and before it is read.
async fn scan_batches(
    tree: &Tree,
    pool: &Arc<BufferPool>,
    span: KeySpan,
    reverse: bool,
    max_pages: usize,
    load: bool,
    mut between: impl AsyncFnMut(),
) -> (Vec<u32>, [usize; 3]) {
    let (mut found, mut states) = (Vec::new(), [0; 3]);
    let mut rest = Some(span);
    while let Some(span) = rest {
        let request = BatchRequest {
            span: &span,
            reverse,
            max_pages,
            load,
        };
        let pin = || (pool.sal().last_lsn(), ());
        let batch = tree.leaf_batch(request, pin).await.unwrap();
        assert!(!batch.leaves.is_empty() && batch.leaves.len() <= max_pages);
        between().await;
        let stored: Vec<_> = batch
            .leaves
            .iter()
            .filter(|leaf| matches!(leaf.state, LeafState::Stored))
            .map(|leaf| leaf.page)
            .collect();
        let mut answers = pool
            .sal()
            .read_pages(&stored, batch.lsn)
            .await
            .unwrap()
            .into_iter();
        for leaf in batch.leaves {
            let page = match leaf.state {
                LeafState::Resident(page) => {
                    states[0] += 1;
                    page
                }
                LeafState::Loading(load) => {
                    states[1] += 1;
                    load.land().await.unwrap()
                }
                LeafState::Stored => {
                    states[2] += 1;
                    copy(&answers.next().unwrap())
                }
            };
            assert_eq!(page.get().id(), leaf.page);
            let mut keys = keys(page.get(), &span);
            if reverse {
                keys.reverse();
            }
            found.extend(keys);
        }
        rest = batch.rest;
    }
    (found, states)
}

async fn insert(tree: &Tree, key: u32, len: usize) {
    tree.insert(&fixed_record(key, TrxId(5), &vec![9; len]), TrxId(5))
        .await
        .unwrap();
}

#[tokio::test]
async fn batches_cover_a_range_once() {
    let database = Database::new();
    let pool = database.open(40).await;
    let tree = fixed_tree(&pool).await;
    // One leaf, then several, then more than one level-1 page is not needed: 858 children fit.
    for (from, to) in [(0, 0), (0, 20), (20, 4000)] {
        for n in from..to {
            insert(&tree, n * 10, 400).await;
        }
        pool.sal()
            .wait_page_persistent(pool.sal().last_lsn())
            .await
            .unwrap();
        let bound = |n: u32| n.to_be_bytes().to_vec();
        for (lower, upper) in [
            (0, 50_000),
            (105, 1_005),
            (39_990, 39_991),
            (5, 6),
            (60_000, 70_000),
        ] {
            let span = KeySpan {
                lower: bound(lower),
                upper: Some(bound(upper)),
            };
            let mut expected: Vec<_> = (0..to)
                .map(|n| n * 10)
                .filter(|k| (lower..upper).contains(k))
                .collect();
            for (max_pages, load) in [(1, false), (7, true), (1000, false)] {
                for reverse in [false, true] {
                    let nothing = async || ();
                    let (found, _) = scan_batches(
                        &tree,
                        &pool,
                        span.clone(),
                        reverse,
                        max_pages,
                        load,
                        nothing,
                    )
                    .await;
                    if reverse {
                        expected.reverse();
                    }
                    assert_eq!(found, expected, "{lower}..{upper} reverse {reverse}");
                    if reverse {
                        expected.reverse();
                    }
                }
            }
        }
        let (found, _) =
            scan_batches(&tree, &pool, KeySpan::all(), false, 100, false, async || ()).await;
        assert_eq!(found.len(), to as usize);
    }
}

#[tokio::test]
async fn splits_between_request_and_answer_do_not_disturb_a_batch() {
    let database = Database::new();
    let pool = database.open(30).await;
    let tree = fixed_tree(&pool).await;
    let mut present = BTreeSet::new();
    for n in 0..3000 {
        insert(&tree, n * 100, 400).await;
        present.insert(n * 100);
    }
    pool.sal()
        .wait_page_persistent(pool.sal().last_lsn())
        .await
        .unwrap();
    let mut rng = StdRng::seed_from_u64(1);
    let mut total = [0; 3];
    for reverse in [false, true] {
        for load in [false, true] {
            let before = present.clone();
            let leaves = tree.verify().await.unwrap().leaf_pages;
            let between = async || {
                // Enough to split leaves all over the tree and to push pages out of the pool.
                for _ in 0..150 {
                    let key = rng.random_range(0..300_000);
                    if present.insert(key) {
                        insert(&tree, key, 1500).await;
                    }
                }
                pool.sal()
                    .wait_page_persistent(pool.sal().last_lsn())
                    .await
                    .unwrap();
            };
            let (mut found, states) =
                scan_batches(&tree, &pool, KeySpan::all(), reverse, 25, load, between).await;
            assert!(
                tree.verify().await.unwrap().leaf_pages > leaves + 10,
                "leaves were split"
            );
            total.iter_mut().zip(states).for_each(|(t, s)| *t += s);
            if reverse {
                found.reverse();
            }
            assert!(
                found.is_sorted_by(|a, b| a < b),
                "no key twice, all in order"
            );
            let found: BTreeSet<_> = found.into_iter().collect();
            assert!(found.is_superset(&before) && found.is_subset(&present));
        }
    }
    assert!(
        total.iter().all(|n| *n > 10),
        "every way to get a leaf was used: {total:?}"
    );
}

#[tokio::test]
async fn the_lsn_of_a_batch_is_the_last_one_assigned() {
    let database = Database::new();
    let pool = database.open(100).await;
    let tree = fixed_tree(&pool).await;
    for n in 0..50 {
        insert(&tree, n, 400).await;
    }
    let last = pool.sal().last_lsn();
    let span = KeySpan::all();
    let request = BatchRequest {
        span: &span,
        reverse: false,
        max_pages: 10,
        load: false,
    };
    let mut pinned = Vec::new();
    let batch = tree
        .leaf_batch(request, || (last, pinned.push(last)))
        .await
        .unwrap();
    assert_eq!((batch.lsn, pinned), (last, vec![last]));
    assert!(last > Lsn(50));
}
