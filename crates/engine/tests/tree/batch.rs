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
use crate::merge::{insert as insert_any, remove, shuffled};

/// Keys of a page in a span.
fn keys(page: PageRef<'_>, span: &KeySpan) -> Vec<u32> {
    (0..page.slot_count())
        .map(|slot| page.key(slot))
        .filter(|key| span.contains(key))
        .map(|key| u32::from_be_bytes(key[..4].try_into().unwrap()))
        .collect()
}

fn copy(bytes: &[u8]) -> Page {
    let bytes: [u8; PAGE_SIZE] = bytes.try_into().unwrap();
    Page::new(Arc::new(bytes))
}

/// Scans `span` by batches, calling `between` after each batch was taken and before it is read.
pub async fn scan_batches(
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
            range: &span,
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

/// The parts of a span: they follow each other, cover it, and none is empty.
async fn parts(tree: &Tree, span: &KeySpan, most: usize) -> usize {
    let parts = tree.partition(span, most).await.unwrap();
    assert!((1..=most).contains(&parts.len()));
    assert_eq!(parts[0].lower, span.lower);
    assert_eq!(parts[parts.len() - 1].upper, span.upper);
    for pair in parts.windows(2) {
        assert_eq!(pair[0].upper.as_ref(), Some(&pair[1].lower));
    }
    assert!(parts.len() == 1 || parts.iter().all(|part| !part.is_empty()));
    parts.len()
}

#[tokio::test]
async fn a_range_is_cut_at_separators() {
    let database = Database::new();
    let pool = database.open(400).await;
    let tree = fixed_tree(&pool).await;
    assert_eq!(
        parts(&tree, &KeySpan::all(), 8).await,
        1,
        "a leaf is not cut"
    );
    // Four records a leaf, so that there are some level-1 pages in the end.
    for n in 0..8000 {
        insert(&tree, n * 10, 3500).await;
        if n == 1000 {
            let parts = parts(&tree, &KeySpan::all(), 100).await;
            assert!((8..=32).contains(&parts), "{parts} parts of 32 leaves each");
        }
    }
    let span = |lower: u32, upper: u32| KeySpan {
        lower: lower.to_be_bytes().to_vec(),
        upper: Some(upper.to_be_bytes().to_vec()),
    };
    let stats = tree.verify().await.unwrap();
    assert!(stats.height > 2, "{stats:?}");
    for most in [1, 2, 3, 16] {
        assert_eq!(parts(&tree, &KeySpan::all(), most).await, most);
        assert_eq!(parts(&tree, &span(15, 70_005), most).await, most);
    }
    assert_eq!(parts(&tree, &span(100, 110), 16).await, 1);
    assert_eq!(parts(&tree, &span(90_000, 99_000), 16).await, 1, "no keys");
    // Every part has its share of the leaves.
    let spans = tree.partition(&KeySpan::all(), 4).await.unwrap();
    for part in spans {
        let nothing = async || ();
        let (found, _) = scan_batches(&tree, &pool, part, false, 1000, true, nothing).await;
        assert!(
            (1000..3500).contains(&found.len()),
            "{} records",
            found.len()
        );
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
        range: &span,
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

/// Removes a tree's records, and inserts others on the pages that this frees.
async fn replace_all(tree: &Tree, present: &mut BTreeSet<u32>, new: impl Iterator<Item = u32>) {
    for n in std::mem::take(present) {
        remove(tree, n).await;
    }
    assert_eq!(tree.verify().await.unwrap().height, 1, "the root is a leaf");
    for n in new {
        insert_any(tree, n, 800).await;
        present.insert(n);
    }
}

#[tokio::test]
async fn a_batch_is_as_of_its_lsn_when_its_pages_were_freed_and_used_again() {
    const RECORDS: u32 = 2500;
    let database = Database::new();
    let pool = database.open(8).await;
    let tree = fixed_tree(&pool).await;
    let (mut present, mut total) = (BTreeSet::new(), [0; 3]);
    replace_all(&tree, &mut present, 0..RECORDS).await;
    let pages = tree.verify().await.unwrap().leaf_pages;
    for (round, (reverse, load)) in [(false, false), (true, false), (false, true), (true, true)]
        .into_iter()
        .enumerate()
    {
        let sal = pool.sal().clone();
        sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
        let expected: Vec<_> = present.iter().copied().collect();
        let mut batches = 0;
        let from = (round as u32 + 1) * 10_000;
        let between = async || {
            batches += 1;
            let order = shuffled(RECORDS, round as u64);
            replace_all(&tree, &mut present, order.into_iter().map(|n| from + n)).await;
            sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
        };
        let (mut found, states) =
            scan_batches(&tree, &pool, KeySpan::all(), reverse, 1000, load, between).await;
        if reverse {
            found.reverse();
        }
        assert!(found == expected, "{} of {}", found.len(), expected.len());
        assert_eq!(batches, 1, "all leaves are read at once");
        total.iter_mut().zip(states).for_each(|(t, s)| *t += s);
    }
    assert!(
        total.iter().all(|n| *n > 10),
        "every way to get a leaf was used: {total:?}"
    );
    let used = database.replay().await.len() as u64;
    assert!(
        used < 2 * pages,
        "{used} pages in all: {pages} leaves were used again"
    );
    database.check_replay(&pool).await;
}

#[tokio::test]
async fn merges_between_batches_neither_lose_nor_repeat_a_record() {
    let database = Database::new();
    let pool = database.open(8).await;
    let mut rng = StdRng::seed_from_u64(8);
    for tree in [fixed_tree(&pool).await, variable_tree(&pool).await] {
        let is_stable = |n: &u32| n.is_multiple_of(100);
        let (mut present, mut heights) = (BTreeSet::new(), BTreeSet::new());
        for n in (0..3000).filter(is_stable) {
            insert_any(&tree, n, 100).await;
            present.insert(n);
        }
        for scan in 0..8 {
            let (reverse, load, max_pages) = (scan % 2 == 0, scan % 4 < 2, 3 + scan * 4);
            let mut ever = present.clone();
            let between = async || {
                let from = rng.random_range(0..3000);
                let keys = from..from + rng.random_range(1..1500);
                let grows = rng.random_bool(0.5);
                for n in keys.filter(|n| !is_stable(n)) {
                    if grows && n % 3 == 0 && present.insert(n) {
                        insert_any(&tree, n, 300 + n as usize % 500).await;
                        ever.insert(n);
                    } else if !grows && present.remove(&n) {
                        remove(&tree, n).await;
                    }
                }
                heights.insert(tree.verify().await.unwrap().height);
                let sal = pool.sal();
                sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
            };
            let (mut found, _) = scan_batches(
                &tree,
                &pool,
                KeySpan::all(),
                reverse,
                max_pages,
                load,
                between,
            )
            .await;
            if reverse {
                found.reverse();
            }
            assert!(
                found.is_sorted_by(|a, b| a < b),
                "no key twice, all in order"
            );
            let found: BTreeSet<_> = found.into_iter().collect();
            assert!((0..3000).filter(is_stable).all(|n| found.contains(&n)));
            assert!(found.is_subset(&ever));
        }
        assert!(heights.len() > 1, "the tree's height changed: {heights:?}");
    }
    database.check_replay(&pool).await;
}
