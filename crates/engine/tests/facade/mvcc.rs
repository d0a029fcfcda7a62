//! Transactions against a model: random changes by several at once, each of which must see its
//! snapshot and its own changes, in any access path, with and without near-data processing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type};
use futures::TryStreamExt;
use perigee_engine::catalog::Table;
use perigee_engine::scan::{
    CancelToken, KeyBatches, KeySpan, KeySpans, LookupRequest, Records, ShortRead,
};
use perigee_engine::txn::{
    Isolation, LockMode, LockWait, ReadView, RowLock, Savepoint, Transaction, TransactionOptions,
    Written,
};
use perigee_engine::{Engine, EngineConfig, EngineError};
use perigee_value::{Datum, RecordView, key};

use super::{definition, ids, live, open, request, run};

type Rows = BTreeMap<i64, i64>;

/// Rows are pairs of id and amount; the note has a length of its own.
pub(super) fn values(id: i64, amount: i64) -> Vec<Datum> {
    let note = "n".repeat((amount % 90) as usize).into_bytes();
    vec![
        Datum::Int(id),
        Datum::Decimal(i128::from(amount)),
        Datum::String(note),
    ]
}

pub(super) fn key_of(table: &Table, id: i64) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key(&table.clustered().layout, &[Datum::Int(id)], &mut out).unwrap();
    out
}

fn options(isolation: Isolation, timeout: u64) -> TransactionOptions {
    TransactionOptions {
        isolation,
        lock_timeout: Duration::from_millis(timeout),
        ..TransactionOptions::default()
    }
}

/// What a view shows of a table, by an access path; short reads must say the same.
pub(super) async fn seen(
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    view: Arc<ReadView>,
    path: u64,
) -> Rows {
    let by_short_reads = seen_by_short_reads(engine, table, &view, path as usize % 2).await;
    let batches = match path % 4 {
        ndp @ (0 | 1) => {
            let mut request = request(engine, table, ndp == 1);
            (request.view, request.ordered) = (view, path % 8 < 4);
            run(engine, request).await
        }
        fetch => {
            let request = LookupRequest {
                table: table.clone(),
                index: 1,
                fetch: fetch == 2,
                key_columns: 1,
                key_batches: KeyBatches::Never,
                projection: if fetch == 2 { vec![0, 1] } else { vec![1, 0] },
                predicate: None,
                view,
                cancel: CancelToken::new(),
            };
            let lookups = engine.lookups(request).unwrap();
            let range = lookups.spans(&KeySpans::all(), path % 8 < 4);
            range.try_collect().await.unwrap()
        }
    };
    let mut rows = Rows::new();
    for batch in &batches {
        let ids = batch.column(0).as_primitive::<Int32Type>();
        let amounts = batch.column(1).as_primitive::<Decimal128Type>();
        for (id, amount) in ids.values().iter().zip(amounts.values()) {
            let before = rows.insert(i64::from(*id), *amount as i64);
            assert!(before.is_none(), "row {id} comes twice by path {path}");
        }
    }
    assert_eq!(rows, by_short_reads, "short reads of index {}", path % 2);
    rows
}

/// As [`seen`], by short reads of an index; those of fewer rows must begin in the same way.
async fn seen_by_short_reads(
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    view: &ReadView,
    index: usize,
) -> Rows {
    let mut all = Vec::new();
    for rows in [usize::MAX, 1, 7] {
        let read = ShortRead {
            table,
            index,
            spans: &KeySpans::all(),
            rows,
        };
        let mut records = Records::default();
        assert!(engine.read_short(&read, view, &mut records).await.unwrap());
        let row = |record| {
            let record = RecordView::new(&table.clustered().layout, record);
            (record.i64(0), record.i128(1) as i64)
        };
        let found: Vec<_> = records.iter().map(row).collect();
        if rows == usize::MAX {
            all = found;
        } else {
            assert_eq!(found, all[..rows.min(all.len())]);
        }
    }
    let rows: Rows = all.iter().copied().collect();
    assert_eq!(rows.len(), all.len(), "a row comes twice: {all:?}");
    rows
}

struct Open {
    transaction: Transaction,
    /// What had been committed at the first read, and the number of that commit.
    snapshot: Option<(Rows, u64)>,
    own: BTreeMap<i64, Option<i64>>,
    savepoint: Option<(Savepoint, BTreeMap<i64, Option<i64>>)>,
}

struct World {
    engine: Arc<Engine>,
    table: Arc<Table>,
    committed: Rows,
    commits: u64,
    changed: BTreeMap<i64, u64>,
    open: Vec<Open>,
    random: u64,
}

impl World {
    fn next(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    /// What transaction `t` finds if it writes.
    fn current(&self, t: usize, id: i64) -> Option<i64> {
        let own = self.open[t].own.get(&id).copied();
        own.unwrap_or_else(|| self.committed.get(&id).copied())
    }

    fn visible(&self, t: usize) -> Rows {
        let open = &self.open[t];
        let mut rows = match &open.snapshot {
            Some((rows, _)) => rows.clone(),
            None => self.committed.clone(),
        };
        for (id, amount) in &open.own {
            match amount {
                Some(amount) => drop(rows.insert(*id, *amount)),
                None => drop(rows.remove(id)),
            }
        }
        rows
    }

    /// What must become of a write of `id` by `t` before it depends on the row.
    fn obstacle(&self, t: usize, id: i64) -> Option<&'static str> {
        let others = self
            .open
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != t);
        if others
            .into_iter()
            .any(|(_, open)| open.own.contains_key(&id))
        {
            return Some("locked");
        }
        let (snapshot, own) = (&self.open[t].snapshot, &self.open[t].own);
        let changed = self.changed.get(&id).copied().unwrap_or(0);
        let stale = snapshot
            .as_ref()
            .is_some_and(|(_, commit)| changed > *commit);
        (stale && !own.contains_key(&id)).then_some("changed")
    }

    async fn step(&mut self) {
        if self.open.len() < 4 && self.next(4) == 0 {
            let options = options(Isolation::RepeatableRead, 0);
            self.open.push(Open {
                transaction: self.engine.begin(options),
                snapshot: None,
                own: BTreeMap::new(),
                savepoint: None,
            });
        }
        if self.open.is_empty() {
            return;
        }
        let t = self.next(self.open.len() as u64) as usize;
        match self.next(20) {
            0 => {
                let open = self.open.remove(t);
                open.transaction.commit().await.unwrap();
                self.commits += 1;
                for (id, amount) in open.own {
                    self.changed.insert(id, self.commits);
                    match amount {
                        Some(amount) => drop(self.committed.insert(id, amount)),
                        None => drop(self.committed.remove(&id)),
                    }
                }
            }
            1 => {
                let open = self.open.remove(t);
                open.transaction.rollback().await.unwrap();
            }
            2 => {
                let open = &mut self.open[t];
                open.savepoint = Some((open.transaction.savepoint(), open.own.clone()));
            }
            3 => {
                let open = &mut self.open[t];
                if let Some((savepoint, own)) = open.savepoint.clone() {
                    open.transaction.rollback_to(&savepoint).await.unwrap();
                    open.own = own;
                }
            }
            4..6 => {
                let (committed, commits) = (self.committed.clone(), self.commits);
                let view = self.open[t].transaction.view();
                self.open[t].snapshot.get_or_insert((committed, commits));
                let (expected, path) = (self.visible(t), self.next(8));
                let found = seen(&self.engine, &self.table, view, path).await;
                assert_eq!(found, expected, "path {path}");
            }
            6 => {
                let path = self.next(8);
                let view = self.engine.read_view();
                let found = seen(&self.engine, &self.table, view, path).await;
                assert_eq!(found, self.committed, "path {path}");
            }
            kind => self.write(t, kind).await,
        }
    }

    async fn write(&mut self, t: usize, kind: u64) {
        let (id, amount) = (self.next(60) as i64, self.next(40) as i64);
        let obstacle = self.obstacle(t, id);
        let current = self.current(t, id);
        let key = key_of(&self.table, id);
        let table = self.table.clone();
        let transaction = &mut self.open[t].transaction;
        let (written, expected, after) = match kind {
            7..11 => (
                transaction.insert_row(&table, &values(id, amount)).await,
                current.map_or(Written::Done, |_| Written::Missing),
                Some(amount),
            ),
            11..16 => (
                transaction
                    .update_row(&table, &key, &values(id, amount))
                    .await,
                match current {
                    None => Written::Missing,
                    Some(same) if same == amount => Written::Unchanged,
                    Some(_) => Written::Done,
                },
                Some(amount),
            ),
            _ => (
                transaction.delete_row(&table, &key).await,
                current.map_or(Written::Missing, |_| Written::Done),
                None,
            ),
        };
        match (obstacle, written) {
            (Some("locked"), Err(EngineError::LockTimeout)) => {}
            // Another one's row is in the way even if it is not to be seen.
            (Some("changed"), Ok(Written::Duplicate(_))) if current.is_some() => {}
            (Some("changed"), Err(EngineError::RecordChanged { .. })) => {
                let open = self.open.remove(t);
                open.transaction.rollback().await.unwrap();
            }
            (None, Ok(Written::Duplicate(row))) => {
                assert_eq!((row.index, row.key, expected), (0, key, Written::Missing));
            }
            (None, Ok(written)) => {
                assert_eq!(written, expected, "kind {kind}");
                if written == Written::Done {
                    self.open[t].own.insert(id, after);
                }
            }
            (obstacle, written) => panic!("kind {kind}: {obstacle:?}, but {written:?}"),
        }
    }

    /// Ends everything, waits for purge, and looks at what is left.
    async fn finish(mut self) {
        for open in self.open.drain(..) {
            open.transaction.rollback().await.unwrap();
        }
        assert_clean(&self.engine, &self.table, self.committed.len() as u64).await;
    }
}

/// Waits until purge has nothing left to do; then every tree is sound and has nothing deleted.
pub(super) async fn assert_clean(engine: &Arc<Engine>, table: &Arc<Table>, rows: u64) {
    let mut left = Vec::new();
    for _ in 0..200 {
        left = engine.verify_table(table).await.unwrap();
        if left
            .iter()
            .all(|tree| tree.records == rows && tree.deleted == 0)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{rows} rows, but the trees have {left:?}");
}

fn model(seed: u64, steps: u32, config: EngineConfig) {
    let dir = tempfile::tempdir().unwrap();
    let (committed, unfinished) = live(async {
        let engine = open(dir.path(), config.clone()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        let mut world = World {
            engine,
            table,
            committed: Rows::new(),
            commits: 0,
            changed: BTreeMap::new(),
            open: Vec::new(),
            random: seed,
        };
        for _ in 0..steps {
            world.step().await;
        }
        let committed = world.committed.clone();
        if seed.is_multiple_of(2) {
            world.finish().await;
            return (committed, Vec::new());
        }
        let lsn = world.engine.sal().last_lsn();
        world.engine.sal().wait_durable(lsn).await.unwrap();
        (committed, world.open)
    });
    // Without a runtime nothing is rolled back: as if the process died here.
    drop(unfinished);
    live(async {
        let engine = open(dir.path(), config).await;
        let table = engine.table("test", "t").unwrap();
        for path in 0..8 {
            let view = engine.read_view();
            assert_eq!(seen(&engine, &table, view, path).await, committed);
        }
        assert_clean(&engine, &table, committed.len() as u64).await;
    });
}

#[test]
fn transactions_see_their_snapshots_and_their_own_changes() {
    for seed in 1..7 {
        model(seed * 7919, 1500, EngineConfig::default());
    }
}

#[test]
fn and_so_they_do_if_storage_decides_on_no_record() {
    let config = EngineConfig {
        all_ambiguous: true,
        past_pool: true,
        ..EngineConfig::default()
    };
    for seed in 1..3 {
        model(seed * 104_729, 800, config.clone());
    }
}

/// An engine with a table of the rows 0 to 9, each with the amount 5.
pub(super) async fn ten_rows(dir: &std::path::Path) -> (Arc<Engine>, Arc<Table>) {
    let engine = open(dir, EngineConfig::default()).await;
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    let mut transaction = engine.begin(TransactionOptions::default());
    let rows: Vec<_> = (0..10).map(|id| values(id, 5)).collect();
    transaction.insert(&table, &rows).await.unwrap();
    transaction.commit().await.unwrap();
    (engine, table)
}

#[test]
fn writers_wait_for_each_other_and_deadlocks_end() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let (engine, table) = ten_rows(dir.path()).await;
        let options = options(Isolation::ReadCommitted, 10_000);
        let (mut a, mut b) = (engine.begin(options), engine.begin(options));
        a.update_row(&table, &key_of(&table, 1), &values(1, 6))
            .await
            .unwrap();
        b.update_row(&table, &key_of(&table, 2), &values(2, 7))
            .await
            .unwrap();
        let (one, two) = (key_of(&table, 1), key_of(&table, 2));
        let (to_one, to_two) = (values(1, 8), values(2, 9));
        let (first, second) = tokio::join!(a.update_row(&table, &two, &to_two), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let circle = b.update_row(&table, &one, &to_one).await;
            b.rollback().await.unwrap();
            circle
        });
        assert!(matches!(second, Err(EngineError::Deadlock)), "{second:?}");
        assert_eq!(first.unwrap(), Written::Done);
        a.commit().await.unwrap();
        let rows = seen(&engine, &table, engine.read_view(), 2).await;
        assert_eq!((rows[&1], rows[&2], rows[&3]), (6, 9, 5));
    });
}

#[test]
fn rows_that_are_locked_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let (engine, table) = ten_rows(dir.path()).await;
        let options = options(Isolation::RepeatableRead, 30);
        let (mut a, mut b) = (engine.begin(options), engine.begin(options));
        let (present, absent) = (key_of(&table, 4), key_of(&table, 44));
        let (x, s) = (LockMode::Exclusive, LockMode::Shared);
        let locked = a
            .lock_row(&table, &present, s, LockWait::Wait)
            .await
            .unwrap();
        assert!(matches!(locked, RowLock::Locked(Some(_))));
        let locked = a
            .lock_row(&table, &absent, x, LockWait::Wait)
            .await
            .unwrap();
        assert_eq!(locked, RowLock::Locked(None));
        assert!(
            b.lock_row(&table, &present, s, LockWait::NoWait)
                .await
                .is_ok()
        );
        let skipped = b
            .lock_row(&table, &present, x, LockWait::Skip)
            .await
            .unwrap();
        assert_eq!(skipped, RowLock::Skipped);
        let refused = b.lock_row(&table, &absent, s, LockWait::NoWait).await;
        assert!(matches!(refused, Err(EngineError::LockedNoWait)));
        let late = b.insert_row(&table, &values(44, 1)).await;
        assert!(matches!(late, Err(EngineError::LockTimeout)));
        let late = b.delete_row(&table, &present).await;
        assert!(matches!(late, Err(EngineError::LockTimeout)));
        a.commit().await.unwrap();
        assert_eq!(b.delete_row(&table, &present).await.unwrap(), Written::Done);
        assert_eq!(
            b.insert_row(&table, &values(44, 1)).await.unwrap(),
            Written::Done
        );
        b.commit().await.unwrap();
    });
}

#[test]
fn locked_ranges_have_no_phantoms() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let (engine, table) = ten_rows(dir.path()).await;
        let mut reader = engine.begin(options(Isolation::Serializable, 10_000));
        let quick = options(Isolation::ReadCommitted, 30);
        let locker = reader.locker(LockMode::Shared, LockWait::Wait);
        let mut five = Vec::new();
        let amount = &table.indexes[1];
        key::encode_key(&amount.layout, &[Datum::Decimal(5)], &mut five).unwrap();
        let range = KeySpan::prefix(&five).into();
        let mut writer = engine.begin(quick);
        let written = writer
            .update_row(&table, &key_of(&table, 3), &values(3, 4))
            .await;
        assert_eq!(written.unwrap(), Written::Done);
        // The lock waits for the change that is under way in the range.
        let (view, ()) = tokio::join!(locker.lock(&table, 1, &range), async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            writer.commit().await.unwrap();
        });
        let rows = seen(&engine, &table, view.unwrap(), 2).await;
        assert_eq!(rows.values().filter(|amount| **amount == 5).count(), 9);
        for (id, amount) in [(70, 5), (3, 5), (4, 5), (5, 6)] {
            let mut writer = engine.begin(quick);
            let written = match rows.contains_key(&id) {
                true if rows[&id] == amount => writer.delete_row(&table, &key_of(&table, id)).await,
                true => {
                    writer
                        .update_row(&table, &key_of(&table, id), &values(id, amount))
                        .await
                }
                false => writer.insert_row(&table, &values(id, amount)).await,
            };
            assert!(
                matches!(written, Err(EngineError::LockTimeout)),
                "{id}: {written:?}"
            );
        }
        let mut writer = engine.begin(quick);
        assert_eq!(
            writer.insert_row(&table, &values(71, 8)).await.unwrap(),
            Written::Done
        );
        writer.commit().await.unwrap();
        reader.commit().await.unwrap();
        let mut writer = engine.begin(quick);
        assert_eq!(
            writer.insert_row(&table, &values(70, 5)).await.unwrap(),
            Written::Done
        );
        writer.commit().await.unwrap();
    });
}

/// Changes row 3 to what `change` makes of its amount, while another transaction commits 77 to it
/// right after it was read; gives what became of it and what is there then.
fn change_that_meets_another(change: fn(i64) -> (i64, i64)) -> (Written, Rows) {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let (engine, table) = ten_rows(dir.path()).await;
        let options = options(Isolation::ReadCommitted, 10_000);
        let mut transaction = engine.begin(options);
        let (mut met, key) = (false, key_of(&table, 3));
        let changed = transaction.change_row(&table, &key, |row| {
            let amount = RecordView::new(&table.clustered().layout, row).i128(1) as i64;
            if !std::mem::replace(&mut met, true) {
                let other = async {
                    let mut other = engine.begin(options);
                    let written = other.update_row(&table, &key, &values(3, 77)).await;
                    assert_eq!(written.unwrap(), Written::Done);
                    other.commit().await.unwrap();
                };
                tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(other));
            }
            let (id, amount) = change(amount);
            Some(values(id, amount))
        });
        let written = changed.await.unwrap().unwrap();
        transaction.commit().await.unwrap();
        let rows = seen(&engine, &table, engine.read_view(), 0).await;
        (written, rows)
    })
}

#[test]
fn a_change_is_of_the_version_that_it_replaces() {
    // What would have changed nothing in the version before.
    let (written, rows) = change_that_meets_another(|_| (3, 5));
    assert_eq!((written, rows[&3]), (Written::Done, 5));
    // An update in place, and one that moves the row.
    let (written, rows) = change_that_meets_another(|amount| (3, amount + 1));
    assert_eq!((written, rows[&3]), (Written::Done, 78));
    let (written, rows) = change_that_meets_another(|amount| (30, amount + 1));
    assert_eq!((written, rows[&30]), (Written::Done, 78));
    assert!(!rows.contains_key(&3));
}

#[test]
fn a_row_can_move() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let (engine, table) = ten_rows(dir.path()).await;
        let view = engine.read_view();
        let mut transaction = engine.begin(TransactionOptions::default());
        let moved = transaction
            .update_row(&table, &key_of(&table, 3), &values(30, 5))
            .await;
        assert_eq!(moved.unwrap(), Written::Done);
        let taken = transaction
            .update_row(&table, &key_of(&table, 4), &values(7, 5))
            .await;
        assert!(matches!(taken.unwrap(), Written::Duplicate(_)));
        transaction.commit().await.unwrap();
        let mut expected: Vec<i32> = (0..10).collect();
        let mut before = request(&engine, &table, true);
        before.view = view;
        assert_eq!(ids(&run(&engine, before).await), expected);
        expected.retain(|id| *id != 3);
        expected.push(30);
        assert_eq!(
            ids(&run(&engine, request(&engine, &table, true)).await),
            expected
        );
    });
}
