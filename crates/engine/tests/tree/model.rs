//! Trees against a `BTreeMap`, with a tiny pool, crashes, and the verifier after each step.

use std::collections::BTreeMap;
use std::sync::Arc;

use perigee_engine::btree::{Inserted, KeySpan, RecordChange, Tree, Updated};
use perigee_engine::buffer::BufferPool;
use perigee_page::RecordFlags;
use perigee_types::{Lsn, TrxId};
use proptest::prelude::*;

use crate::database::*;

/// Two kinds of trees behind one face.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Fixed,
    Variable,
}

impl Keys {
    fn key(self, n: u16) -> Vec<u8> {
        match self {
            Self::Fixed => u32::from(n).to_be_bytes().to_vec(),
            // Long common prefixes and keys that are prefixes of others; up to a kilobyte, so that
            // inner pages split too.
            Self::Variable => {
                let mut key = vec![b'k'; usize::from(n % 4) * 330];
                key.extend(format!("{:x}", n / 4).bytes());
                key
            }
        }
    }

    fn record(self, n: u16, trx: u64, value_len: u16) -> Vec<u8> {
        let value = vec![trx as u8; usize::from(value_len)];
        match self {
            Self::Fixed => fixed_record(u32::from(n), TrxId(trx), &value),
            Self::Variable => variable_record(&self.key(n), &value),
        }
    }

    async fn tree(self, pool: &Arc<BufferPool>) -> Tree {
        match self {
            Self::Fixed => fixed_tree(pool).await,
            Self::Variable => variable_tree(pool).await,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u16>, u16),
    Ascend(u16, u16),
    Remove(Vec<u16>),
    /// All keys from one to another, in the order of the first number.
    Clear(u16, u16, u16),
    Replace(u16, u16),
    Mark(u16),
    Keep(u16),
    Range(u16, u16, bool),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..1200_u16;
    // Mostly short values, now and then half a page.
    let len = || prop_oneof![4 => 0..60_u16, 2 => 60..900_u16, 1 => 5000..6500_u16];
    prop_oneof![
        5 => (prop::collection::vec(key(), 1..30), len()).prop_map(|(k, l)| Step::Insert(k, l)),
        2 => (key(), len()).prop_map(|(k, l)| Step::Ascend(k, l)),
        2 => prop::collection::vec(key(), 1..20).prop_map(Step::Remove),
        2 => (0..3_u16, key(), key()).prop_map(|(o, a, b)| Step::Clear(o, a.min(b), a.max(b))),
        2 => (key(), len()).prop_map(|(k, l)| Step::Replace(k, l)),
        1 => key().prop_map(Step::Mark),
        1 => key().prop_map(Step::Keep),
        2 => (key(), key(), any::<bool>()).prop_map(|(a, b, r)| Step::Range(a, b, r)),
        1 => Just(Step::Crash),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Run {
    database: Database,
    keys: Keys,
    pool: Arc<BufferPool>,
    tree: Tree,
    model: Model,
    trx: u64,
}

impl Run {
    async fn new(keys: Keys, pages: usize) -> Self {
        let database = Database::new();
        let pool = database.open(pages).await;
        let tree = keys.tree(&pool).await;
        Self {
            database,
            keys,
            pool,
            tree,
            model: Model::new(),
            trx: 1,
        }
    }

    async fn insert(&mut self, n: u16, len: u16) {
        self.trx += 1;
        let (key, record) = (self.keys.key(n), self.keys.record(n, self.trx, len));
        let inserted = self.tree.insert(&record, TrxId(self.trx)).await.unwrap();
        match self.model.get(&key) {
            None => {
                assert!(matches!(inserted, Inserted::Done(_)));
                self.model.insert(key, record);
            }
            Some(there) => assert_eq!(inserted, Inserted::Duplicate(there.clone())),
        }
    }

    async fn update(&mut self, n: u16, change: RecordChange) {
        let key = self.keys.key(n);
        let there = self.model.get(&key).cloned();
        let trx = TrxId(self.trx);
        let updated = self.tree.update(&key, trx, |record| {
            assert_eq!(Some(record), there.as_deref());
            change.clone()
        });
        let updated = updated.await.unwrap();
        let Some(mut record) = there else {
            assert_eq!(updated, Updated::NotFound);
            return;
        };
        assert_eq!(updated == Updated::Kept, change == RecordChange::Keep);
        match change {
            RecordChange::Keep => return,
            RecordChange::Remove => return drop(self.model.remove(&key)),
            RecordChange::SetHeader(header) => record[..header.len()].copy_from_slice(&header),
            RecordChange::Replace(new) => record = new,
            RecordChange::Insert(_) => unreachable!("only existing records are updated"),
        }
        self.model.insert(key, record);
    }

    async fn step(&mut self, step: Step, pages: usize) {
        match step {
            Step::Insert(keys, len) => {
                for n in keys {
                    self.insert(n, len).await;
                }
            }
            Step::Ascend(from, len) => {
                for n in from..from + 40 {
                    self.insert(n, len).await;
                }
            }
            Step::Remove(keys) => {
                for n in keys {
                    self.update(n, RecordChange::Remove).await;
                }
            }
            Step::Clear(order, from, to) => {
                let mut keys: Vec<_> = (from..=to).collect();
                match order {
                    0 => {}
                    1 => keys.reverse(),
                    _ => keys.sort_by_key(|n| u32::from(*n) * 7919 % 1201),
                }
                for n in keys {
                    self.update(n, RecordChange::Remove).await;
                }
            }
            Step::Replace(n, len) => {
                self.trx += 1;
                let record = self.keys.record(n, self.trx, len);
                self.update(n, RecordChange::Replace(record)).await;
            }
            Step::Mark(n) => {
                let key = self.keys.key(n);
                if let Some(record) = self.model.get(&key) {
                    let len = usize::from(self.tree.spec().shape.header_len);
                    let mut header = record[..len].to_vec();
                    header[0] ^= RecordFlags::DELETED;
                    self.update(n, RecordChange::SetHeader(header)).await;
                }
            }
            Step::Keep(n) => {
                self.update(n, RecordChange::Keep).await;
                let found = self.tree.get(&self.keys.key(n)).await.unwrap();
                assert_eq!(found.as_ref(), self.model.get(&self.keys.key(n)));
            }
            Step::Range(a, b, reverse) => self.range(a, b, reverse).await,
            Step::Crash => self.crash(pages).await,
        }
    }

    async fn range(&self, a: u16, b: u16, reverse: bool) {
        let span = KeySpan {
            lower: self.keys.key(a),
            upper: Some(self.keys.key(b)),
        };
        let mut expected: Vec<_> = self
            .model
            .iter()
            .filter(|(k, _)| span.contains(k))
            .map(pair)
            .collect();
        let first = self.tree.first_in(span.clone()).await.unwrap();
        assert_eq!(first.as_ref(), expected.first().map(|(_, record)| record));
        if reverse {
            expected.reverse();
        }
        assert_eq!(scan(&self.tree, span, reverse).await.unwrap(), expected);
    }

    async fn crash(&mut self, pages: usize) {
        let last = self.pool.sal().last_lsn();
        self.pool.sal().wait_durable(last).await.unwrap();
        let spec = *self.tree.spec();
        self.pool = self.database.open(pages).await;
        assert_eq!(self.pool.sal().last_lsn(), last);
        self.tree = reopen(&self.pool, &spec);
    }

    async fn verify(&self) {
        let stats = self.tree.verify().await.unwrap();
        assert_eq!(stats.records, self.model.len() as u64);
        let deleted = self
            .model
            .values()
            .filter(|r| RecordFlags(r[0]).is_deleted())
            .count();
        assert_eq!(stats.deleted, deleted as u64);
    }

    async fn check_all(&self) {
        let expected: Vec<_> = self.model.iter().map(pair).collect();
        assert_eq!(
            scan(&self.tree, KeySpan::all(), false).await.unwrap(),
            expected
        );
        let mut backwards = scan(&self.tree, KeySpan::all(), true).await.unwrap();
        backwards.reverse();
        assert_eq!(backwards, expected);
    }
}

fn pair((key, record): (&Vec<u8>, &Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    (key.clone(), record.clone())
}

fn run(keys: Keys, pages: usize, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut run = Run::new(keys, pages).await;
        for step in steps {
            run.step(step, pages).await;
            run.verify().await;
        }
        run.check_all().await;
        run.database.check_replay(&run.pool).await;
        run.crash(pages).await;
        run.check_all().await;
        assert!(run.pool.sal().last_lsn() > Lsn(1));
        run.step(Step::Clear(2, 0, 1300), pages).await;
        let stats = run.tree.verify().await.unwrap();
        assert_eq!((stats.records, stats.height), (0, 1), "nothing is left");
        run.database.check_replay(&run.pool).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn clustered_tree_is_a_map(steps in prop::collection::vec(step(), 1..40)) {
        run(Keys::Fixed, 8, steps);
    }

    #[test]
    fn tree_with_variable_keys_is_a_map(steps in prop::collection::vec(step(), 1..40)) {
        run(Keys::Variable, 8, steps);
    }

    #[test]
    fn tree_in_a_large_pool_is_a_map(steps in prop::collection::vec(step(), 1..40)) {
        run(Keys::Variable, 4000, steps);
    }
}

#[tokio::test]
async fn ascending_inserts_fill_pages() {
    let mut run = Run::new(Keys::Fixed, 64).await;
    for n in 0..3000 {
        run.insert(n, 100).await;
    }
    run.verify().await;
    let stats = run.tree.verify().await.unwrap();
    let share = stats.record_bytes as f64 / (stats.leaf_pages * 16384) as f64;
    assert!(share > 0.95, "{stats:?}: {share}");
}

#[tokio::test]
async fn descending_and_random_inserts_fill_pages_halfway_at_least() {
    for step in [2999, 1237] {
        let mut run = Run::new(Keys::Fixed, 64).await;
        for i in 0..3000_u32 {
            run.insert((i * step % 3000) as u16, 100).await;
        }
        run.verify().await;
        let stats = run.tree.verify().await.unwrap();
        assert_eq!(stats.records, 3000);
        let share = stats.record_bytes as f64 / (stats.leaf_pages * 16384) as f64;
        assert!(share > 0.45, "{stats:?}: {share}");
    }
}

#[tokio::test]
async fn secondary_pages_keep_the_largest_transaction_through_splits() {
    let database = Database::new();
    let pool = database.open(64).await;
    let tree = variable_tree(&pool).await;
    let record = |n: u32| variable_record(format!("{n:08}").as_bytes(), &[7; 300]);
    tree.insert(&record(500), TrxId(77)).await.unwrap();
    for n in (0..1000).filter(|n| *n != 500) {
        tree.insert(&record(n), TrxId(3)).await.unwrap();
    }
    let mut cursor = tree.range(KeySpan::all(), false, perigee_engine::buffer::Access::Scan);
    let mut with_record = None;
    while let Some(run) = cursor.next().await.unwrap() {
        let page = run.page.get();
        assert!(page.max_trx() >= TrxId(3));
        if page.search(b"00000500").is_ok() {
            with_record = Some(page.max_trx());
        }
    }
    assert_eq!(with_record, Some(TrxId(77)));
}
