//! Random log, read at random LSNs, with consolidation, recycling and restarts in between: every
//! page must be, byte for byte, what a replay from empty gives (P2, P3, P4, P8).
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::time::Duration;

use perigee_page::{PageKind, PageRef};
use perigee_page_api::PageStore;
use perigee_page_store::Config;
use perigee_redo::{Group, Op};
use perigee_types::{Lsn, TrxId};
use proptest::prelude::*;
use support::{Model, SHAPE, SLICE, format_op, lazy, open, record, settle, small, tempdir};

#[derive(Clone, Debug)]
enum Step {
    /// A fragment of groups; each changes some pages.
    Write(Vec<Vec<(u64, Change)>>),
    /// Reads a page at a share of the LSNs that may be read.
    Read(u64, u8),
    /// Moves the recycle LSN to a share of what is left.
    Recycle(u8),
    /// Waits until everything is consolidated.
    Settle,
    /// Opens the store anew, with one of the configurations.
    Reopen(u8),
    /// Sends the last fragment again.
    Repeat,
}

#[derive(Clone, Debug)]
enum Change {
    Put { key: u32, len: usize },
    Remove { key: u32 },
    Format,
    Links(u64),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => (0..40_u32, 0..1500_usize).prop_map(|(key, len)| Change::Put { key, len }),
        3 => (0..40_u32).prop_map(|key| Change::Remove { key }),
        1 => Just(Change::Format),
        1 => (1..9_u64).prop_map(Change::Links),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few pages, so that they get long chains; some, so that they are not always hot.
    let page = prop_oneof![3 => 1..4_u64, 1 => 1..200_u64];
    let group = prop::collection::vec((page.clone(), change()), 1..4);
    let step = prop_oneof![
        12 => prop::collection::vec(group, 1..12).prop_map(Step::Write),
        8 => (page, any::<u8>()).prop_map(|(page, at)| Step::Read(page, at)),
        2 => any::<u8>().prop_map(Step::Recycle),
        1 => Just(Step::Settle),
        2 => any::<u8>().prop_map(Step::Reopen),
        1 => Just(Step::Repeat),
    ];
    prop::collection::vec(step, 1..60)
}

fn config(n: u8) -> Config {
    match n % 4 {
        0 => small(),
        1 => lazy(),
        // Nothing stays in memory.
        2 => Config {
            pool_bytes: 0,
            log_cache_bytes: 0,
            ..small()
        },
        // Consolidates all the time, in the smallest files.
        _ => Config {
            consolidate_above: 0,
            consolidate_idle: Duration::ZERO,
            log_segment_bytes: 4096,
            page_segment_bytes: 100_000,
            ..small()
        },
    }
}

/// The operations of a change on the page as it is.
fn ops(model_db: perigee_types::DbId, image: Option<PageRef<'_>>, change: &Change) -> Vec<Op> {
    let Some(page) = image else {
        return vec![format_op(model_db, PageKind::Clustered)];
    };
    match change {
        Change::Format => vec![format_op(model_db, PageKind::Clustered)],
        Change::Links(to) => vec![links(*to)],
        Change::Remove { key } => match page.search(&key.to_be_bytes()) {
            Ok(slot) => vec![Op::Remove {
                slot,
                count: 1,
                trx: TrxId(5),
            }],
            Err(_) => vec![links(3)],
        },
        Change::Put { key, len } => {
            let bytes = record(*key, &vec![*key as u8; *len], 7);
            let trx = TrxId(7);
            match page.search(&key.to_be_bytes()) {
                Ok(slot) if page.free_space() > bytes.len() => vec![Op::Replace {
                    slot,
                    trx,
                    record: bytes.into(),
                }],
                Err(slot) if page.free_space() > bytes.len() + 2 => vec![Op::Insert {
                    slot,
                    trx,
                    records: bytes.into(),
                }],
                _ => vec![format_op(model_db, PageKind::Clustered), links(4)],
            }
        }
    }
}

fn links(to: u64) -> Op {
    Op::SetLinks {
        prev: perigee_types::PageId(to),
        next: perigee_types::PageId(to + 1),
    }
}

/// The LSN at a share of those from the recycle LSN to the newest.
fn at(model: &Model, share: u8) -> Lsn {
    let span = model.lsn.0 - model.recycle.0;
    Lsn(model.recycle.0 + span * u64::from(share) / 255)
}

async fn run(steps: Vec<Step>) {
    assert_eq!(SHAPE.key_len, 4);
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let mut store = open(dir.path(), config(0));
    store.create_slice(SLICE, 1).await.unwrap();
    let (mut last, mut is_lazy) = (None, false);
    for step in steps {
        match step {
            Step::Write(groups) => {
                let prev = model.lsn;
                let groups: Vec<Group> = groups
                    .into_iter()
                    .map(|mut group| {
                        group.sort_by_key(|(page, _)| *page);
                        group.dedup_by_key(|(page, _)| *page);
                        let pages: Vec<u64> = group.iter().map(|(page, _)| *page).collect();
                        let mut changes = group.iter().map(|(_, change)| change);
                        let db = model.slice.db;
                        model.group(&pages, |_, image| ops(db, image, changes.next().unwrap()))
                    })
                    .collect();
                let fragment = model.fragment(prev, &groups);
                let status = store.write_logs(fragment.clone()).await.unwrap();
                assert_eq!(status.persistent_lsn, model.lsn, "P1");
                last = Some(fragment);
            }
            Step::Read(page, share) => model.check(&store, page, at(&model, share)).await,
            Step::Recycle(share) => {
                model.recycle = at(&model, share);
                store
                    .set_recycle_lsn(SLICE.db, model.recycle)
                    .await
                    .unwrap();
            }
            Step::Settle if is_lazy => {}
            Step::Settle => drop(settle(&store, SLICE).await),
            Step::Reopen(n) => {
                drop(store);
                store = open(dir.path(), config(n));
                is_lazy = n % 4 == 1;
                let status = store.slice_status(SLICE).await.unwrap();
                assert_eq!(
                    (status.sequence, status.persistent_lsn),
                    (model.sequence, model.lsn),
                    "P1: nothing acknowledged is lost"
                );
            }
            Step::Repeat => {
                if let Some(fragment) = last.clone() {
                    let status = store.write_logs(fragment).await.unwrap();
                    assert_eq!(status.persistent_lsn, model.lsn, "P5");
                }
            }
        }
    }
    model.check_newest(&store).await;
    for share in (0..=255).step_by(51) {
        for page in 1..5 {
            model.check(&store, page, at(&model, share)).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_read_is_a_replay(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}

/// Reads at all LSNs go on while log arrives, is consolidated, collected and recycled.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn readers_and_writers_at_the_same_time() {
    let dir = tempdir();
    let store = std::sync::Arc::new(open(
        dir.path(),
        Config {
            pool_bytes: 1 << 20,
            log_cache_bytes: 100_000,
            // Longer than a busy machine takes to run all of a round's writes.
            hole_wait: Duration::from_secs(10),
            ..config(3)
        },
    ));
    store.create_slice(SLICE, 1).await.unwrap();
    let mut model = Model::new(SLICE);
    let mut readers = tokio::task::JoinSet::new();
    for round in 0..150_u64 {
        let pages = [1, 2, 3, 4 + round % 50];
        let fragments: Vec<_> = (0..5).map(|_| model.touch(&pages)).collect();
        let newest = model.lsn;
        // All at once and in the wrong order: the store puts them in theirs.
        let writes = fragments.into_iter().rev().map(|f| {
            let store = store.clone();
            async move { store.write_logs(f).await.unwrap() }
        });
        futures::future::join_all(writes).await;
        if round % 10 == 9 {
            model.recycle = Lsn(newest.0 - 20);
            store
                .set_recycle_lsn(SLICE.db, model.recycle)
                .await
                .unwrap();
        }
        for _ in 0..4 {
            let page = 1 + (round * 7 + readers.len() as u64) % 5;
            let lsn = Lsn(newest.0 - (round * 13 + page) % 20.min(newest.0));
            if lsn < model.recycle {
                continue;
            }
            let (expected, store) = (model.page(page, lsn), store.clone());
            readers.spawn(async move {
                match (support::read(&*store, SLICE, &[page], lsn).await, expected) {
                    (Ok(found), Some(expected)) => assert!(found == [expected], "P2: {page} {lsn}"),
                    // The writer may have gone on meanwhile.
                    (Err(perigee_page_api::PageError::Recycled(_)), _) => {}
                    (Err(perigee_page_api::PageError::NotFound(_)), None) => {}
                    (found, _) => panic!("page {page} at {lsn}: {found:?}"),
                }
            });
        }
        while let Some(done) = readers.try_join_next() {
            done.unwrap();
        }
    }
    while let Some(done) = readers.join_next().await {
        done.unwrap();
    }
    settle(&*store, SLICE).await;
    model.check_newest(&*store).await;
}
