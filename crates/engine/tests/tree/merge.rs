//! Trees that shrink: pages that removals leave small are merged, and used again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use perigee_engine::btree::{Inserted, KeySpan, RecordChange, Tree, Updated};
use perigee_engine::buffer::{Access, BufferPool};
use perigee_page::{PageKind, PageRef};
use perigee_redo::{Op, apply_change};
use perigee_types::{PAGE_SIZE, PageId, TrxId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::timeout;

use crate::database::*;

/// Long enough for what needs no storage.
const SHORT: Duration = Duration::from_millis(100);

/// A record of either kind of tree; variable keys are so long that inner pages have few children.
pub fn record(tree: &Tree, n: u32, len: usize) -> Vec<u8> {
    let value = vec![n as u8; len];
    match tree.spec().kind {
        PageKind::Clustered => fixed_record(n, TrxId(5), &value),
        _ => variable_record(&key(tree, n), &value),
    }
}

pub fn key(tree: &Tree, n: u32) -> Vec<u8> {
    let mut key = n.to_be_bytes().to_vec();
    if tree.spec().kind == PageKind::Secondary {
        key.resize(4 + 900 + n as usize % 1000, 7);
    }
    key
}

pub async fn insert(tree: &Tree, n: u32, len: usize) {
    let inserted = tree.insert(&record(tree, n, len), TrxId(5)).await.unwrap();
    assert!(matches!(inserted, Inserted::Done(_)), "{n}: {inserted:?}");
}

pub async fn remove(tree: &Tree, n: u32) {
    let remove = |_: &[u8]| RecordChange::Remove;
    let updated = tree.update(&key(tree, n), TrxId(5), remove).await.unwrap();
    assert!(matches!(updated, Updated::Done(_)), "{n}: {updated:?}");
}

pub fn shuffled(n: u32, seed: u64) -> Vec<u32> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut order: Vec<_> = (0..n).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
    order
}

/// Pages that the log knows.
async fn pages(database: &Database, pool: &BufferPool) -> BTreeSet<PageId> {
    let last = pool.sal().last_lsn();
    pool.sal().wait_durable(last).await.unwrap();
    let groups = database.groups().await;
    let changes = groups.iter().flat_map(|group| &group.changes);
    changes.map(|change| change.page).collect()
}

/// How often a page was made or freed.
async fn formats(database: &Database, pool: &BufferPool) -> usize {
    let last = pool.sal().last_lsn();
    pool.sal().wait_durable(last).await.unwrap();
    let groups = database.groups().await;
    let ops = groups.iter().flat_map(|group| &group.changes);
    let ops = ops.flat_map(|change| &change.ops);
    ops.filter(|op| matches!(op, Op::Format { .. })).count()
}

async fn trees(pool: &Arc<BufferPool>) -> [Tree; 2] {
    [fixed_tree(pool).await, variable_tree(pool).await]
}

#[tokio::test]
async fn a_tree_of_which_everything_is_removed_is_a_leaf_again() {
    for pages_of_pool in [8, 2000] {
        let database = Database::new();
        let pool = database.open(pages_of_pool).await;
        for tree in trees(&pool).await {
            let mut known = 0;
            for round in 0..5_u64 {
                let order = shuffled(600, round);
                for n in &order {
                    insert(&tree, *n, 100 + (*n as usize * 31) % 700).await;
                }
                let full = tree.verify().await.unwrap();
                assert!(full.leaf_pages > 15 && full.height > 1, "{full:?}");
                if tree.spec().kind == PageKind::Secondary {
                    assert!(full.height > 2, "{full:?}");
                }
                let order = match round {
                    0 => (0..600).collect(),
                    1 => (0..600).rev().collect(),
                    _ => shuffled(600, 100 + round),
                };
                for (at, n) in order.into_iter().enumerate() {
                    remove(&tree, n).await;
                    if at == 450 {
                        let quarter = tree.verify().await.unwrap();
                        let (now, then) = (quarter.leaf_pages, full.leaf_pages);
                        assert!(now < then * 3 / 4, "{now} leaves of {then}");
                    }
                }
                let empty = tree.verify().await.unwrap();
                assert_eq!((empty.height, empty.leaf_pages), (1, 1));
                let now = pages(&database, &pool).await.len();
                if round > 0 {
                    assert!(now <= known + 20, "round {round}: {known} pages, now {now}");
                }
                known = known.max(now);
            }
        }
        database.check_replay(&pool).await;
    }
}

#[tokio::test]
async fn a_queue_needs_few_pages() {
    for ascending in [true, false] {
        let database = Database::new();
        let pool = database.open(64).await;
        for tree in trees(&pool).await {
            let at = |n: u32| if ascending { n } else { 1_000_000 - n };
            let before = pages(&database, &pool).await;
            for n in 0..6000 {
                insert(&tree, at(n), 100 + n as usize % 200).await;
                if n >= 100 {
                    remove(&tree, at(n - 100)).await;
                }
                if n % 1000 == 0 {
                    tree.verify().await.unwrap();
                }
            }
            let stats = tree.verify().await.unwrap();
            assert_eq!(stats.records, 100);
            let all = pages(&database, &pool).await;
            // A hundred records of two kilobytes at most are thirteen pages, half filled twenty-six.
            let used = all.difference(&before).count();
            assert!(used < 60, "ascending {ascending}: {used} pages, {stats:?}");
        }
        database.check_replay(&pool).await;
    }
}

#[tokio::test]
async fn what_is_left_of_many_records_lies_close() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = fixed_tree(&pool).await;
    for n in 0..5000 {
        insert(&tree, n, 200).await;
    }
    let full = tree.verify().await.unwrap();
    for n in shuffled(5000, 3).into_iter().filter(|n| n % 10 != 0) {
        remove(&tree, n).await;
    }
    let stats = tree.verify().await.unwrap();
    let share = stats.record_bytes as f64 / (stats.leaf_pages * 16384) as f64;
    assert_eq!(stats.records, 500);
    assert!(
        share > 0.35 && stats.leaf_pages < full.leaf_pages / 4,
        "{stats:?}: {share}"
    );
    let left = scan(&tree, KeySpan::all(), false).await.unwrap();
    let expected = (0..5000_u32).step_by(10).map(|n| n.to_be_bytes().to_vec());
    assert!(left.into_iter().map(|(key, _)| key).eq(expected));
}

#[tokio::test]
async fn splits_and_merges_do_not_alternate() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = fixed_tree(&pool).await;
    for n in 0..2000 {
        insert(&tree, 2 * n, 300).await;
    }
    let made = formats(&database, &pool).await;
    let mut rng = StdRng::seed_from_u64(5);
    // At the end, where a page was just begun or is full, and anywhere.
    for round in 0..400 {
        let last = 4000 + round;
        insert(&tree, last, 300).await;
        for _ in 0..5 {
            remove(&tree, last).await;
            insert(&tree, last, 300).await;
        }
        let n = 2 * rng.random_range(0..2000) + 1;
        for _ in 0..5 {
            insert(&tree, n, 300).await;
            remove(&tree, n).await;
        }
    }
    let made = formats(&database, &pool).await - made;
    // Every full page may be split once by the inserts anywhere.
    let leaves = tree.verify().await.unwrap().leaf_pages as usize;
    assert!(
        made < leaves + 10,
        "{made} pages made or freed, {leaves} leaves"
    );
}

#[tokio::test]
async fn freed_pages_are_used_again_after_they_left_the_pool() {
    let database = Database::new();
    let pool = database.open(8).await;
    let [other, tree] = trees(&pool).await;
    for n in 0..4000 {
        insert(&other, n, 500).await;
    }
    for n in 0..800 {
        insert(&tree, n, 100).await;
    }
    let filled = pages(&database, &pool).await;
    for n in shuffled(800, 1) {
        remove(&tree, n).await;
    }
    let last = pool.sal().last_lsn();
    pool.sal().wait_page_persistent(last).await.unwrap();
    assert_eq!(
        scan(&other, KeySpan::all(), false).await.unwrap().len(),
        4000
    );
    assert!(
        pool.resident(tree.spec().index) < 20,
        "most are out of the pool"
    );
    for n in 0..800 {
        insert(&tree, n, 100).await;
    }
    assert_eq!(tree.verify().await.unwrap().records, 800);
    let again = pages(&database, &pool).await;
    assert!(
        again.len() <= filled.len() + 3,
        "{} of {}",
        again.len(),
        filled.len()
    );
    database.check_replay(&pool).await;
}

#[tokio::test]
async fn merged_leaves_keep_the_largest_transaction() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = variable_tree(&pool).await;
    for n in 0..40 {
        let (record, trx) = (record(&tree, n, 600), TrxId(u64::from(n) + 10));
        tree.insert(&record, trx).await.unwrap();
    }
    let remove = |_: &[u8]| RecordChange::Remove;
    for n in (0..40).filter(|n| n % 13 != 0) {
        tree.update(&key(&tree, n), TrxId(0), remove).await.unwrap();
    }
    let stats = tree.verify().await.unwrap();
    assert_eq!((stats.height, stats.records), (1, 4));
    let root = pool.fetch(tree.spec().root, Access::Point).await.unwrap();
    assert_eq!(root.read(|page| page.max_trx()), TrxId(49));
    for n in (0..40).filter(|n| n % 13 == 0) {
        tree.update(&key(&tree, n), TrxId(0), remove).await.unwrap();
    }
    assert_eq!(
        root.read(|page| (page.slot_count(), page.max_trx())),
        (0, TrxId(49))
    );
}

#[tokio::test]
async fn a_removal_is_done_when_its_merge_waits_or_is_given_up() {
    let database = Database::new();
    let pool = database.open(8).await;
    let [other, tree] = trees(&pool).await;
    for n in 0..400 {
        insert(&tree, n, 100).await;
    }
    for n in 0..4000 {
        insert(&other, n, 500).await;
    }
    let last = pool.sal().last_lsn();
    pool.sal().wait_page_persistent(last).await.unwrap();
    scan(&other, KeySpan::all(), false).await.unwrap();
    // This leaf comes into the pool, its neighbours do not.
    assert!(tree.get(&key(&tree, 200)).await.unwrap().is_some());
    database.pages.iter().for_each(|store| store.faults.stop());
    let (mut removed, mut given_up) = (0, 0);
    for n in 200..210 {
        let is_near = timeout(SHORT, tree.get(&key(&tree, n))).await;
        if is_near.is_err() {
            break;
        }
        given_up += u32::from(timeout(SHORT, remove(&tree, n)).await.is_err());
        removed += 1;
    }
    database.pages.iter().for_each(|store| store.faults.go_on());
    assert!(given_up > 0, "{removed} removals wait for no neighbour");
    assert_eq!(tree.verify().await.unwrap().records, 400 - removed);
    for n in (0..400).filter(|n| !(200..200 + removed as u32).contains(n)) {
        remove(&tree, n).await;
    }
    assert_eq!(tree.verify().await.unwrap().height, 1);
    database.check_replay(&pool).await;
}

/// Leaves below a page and their keys, in order.
fn walk(pages: &Pages, id: PageId, leaves: &mut Vec<PageId>, keys: &mut Vec<Vec<u8>>) {
    let page = PageRef::new(&pages[&id][..]).unwrap();
    page.verify().unwrap();
    if page.level() == 0 {
        leaves.push(id);
        keys.extend((0..page.slot_count()).map(|slot| page.key(slot).to_vec()));
    } else {
        assert!(page.slot_count() > 0, "{id} is an empty inner page");
        for slot in 0..page.slot_count() {
            let child = PageRef::new(&pages[&page.child(slot)][..]).unwrap();
            assert_eq!(child.level() + 1, page.level());
            walk(pages, page.child(slot), leaves, keys);
        }
    }
}

/// Panics unless these pages are a tree with linked leaves, none of them twice.
fn check_tree(pages: &Pages, root: PageId) -> usize {
    let (mut leaves, mut keys) = (Vec::new(), Vec::new());
    walk(pages, root, &mut leaves, &mut keys);
    assert!(keys.is_sorted_by(|a, b| a < b));
    let links = |id: &PageId| {
        let page = PageRef::new(&pages[id][..]).unwrap();
        (page.prev(), page.next())
    };
    for (at, id) in leaves.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| leaves[at]);
        assert_eq!(links(id), (before, leaves.get(at + 1).copied()), "{id}");
    }
    leaves.len()
}

type Pages = BTreeMap<PageId, Box<[u8; PAGE_SIZE]>>;

#[tokio::test]
async fn a_crash_at_any_moment_leaves_a_good_tree() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = variable_tree(&pool).await;
    for round in 0..3 {
        for n in shuffled(250, round) {
            insert(&tree, n, 400).await;
        }
        for n in shuffled(250, 10 + round) {
            remove(&tree, n).await;
        }
    }
    let last = pool.sal().last_lsn();
    pool.sal().wait_durable(last).await.unwrap();
    let (mut pages, mut sizes) = (Pages::new(), BTreeSet::new());
    for group in database.groups().await {
        for change in &group.changes {
            let page = pages
                .entry(change.page)
                .or_insert_with(|| Box::new([0; PAGE_SIZE]));
            assert!(apply_change(page, group.lsn, change).unwrap());
        }
        if pages.contains_key(&tree.spec().root) {
            sizes.insert(check_tree(&pages, tree.spec().root));
        }
    }
    assert!(sizes.contains(&1) && sizes.len() > 20, "{sizes:?}");
}
