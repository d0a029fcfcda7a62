//! The store against the reference model: random calls and restarts, the same answers.

#![allow(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use perigee_log_api::conformance::MemoryLogStore;
use perigee_log_api::{Append, LogEntry, LogError, LogStore, PlogKey};
use perigee_log_store::{Config, LogStoreService};
use perigee_types::{DbId, Lsn, PlogId};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Call {
    Create {
        plog: PlogKey,
        epoch: u64,
    },
    Append {
        plog: PlogKey,
        epoch: u64,
        at: At,
        skip: u64,
        groups: u64,
        len: usize,
        fill: u8,
    },
    Read {
        plog: PlogKey,
        nth: usize,
        inside: u64,
        max_bytes: u64,
    },
    Seal {
        plog: PlogKey,
        epoch: u64,
    },
    List {
        db: DbId,
    },
    Delete {
        plog: PlogKey,
        epoch: u64,
    },
    Reopen,
}

/// Where an append goes.
#[derive(Clone, Copy, Debug)]
enum At {
    /// The end of the PLog.
    End,
    /// The place of the last append to the store, as a repeat of it.
    Repeat,
    Wrong(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let plog = || {
        (1..3_u32, 1..4_u64).prop_map(|(db, plog)| PlogKey {
            db: DbId(db),
            plog: PlogId(plog),
        })
    };
    // Mostly the first epoch, or nothing would be accepted after a few calls.
    let epoch = || prop_oneof![20 => Just(1_u64), 1 => 0..4_u64];
    let at = prop_oneof![
        10 => Just(At::End), 2 => Just(At::Repeat), 1 => (0..5000_u64).prop_map(At::Wrong)
    ];
    let len = prop_oneof![20 => 1..2000_usize, 3 => 60_000..150_000_usize, 1 => Just(0)];
    let skip = prop_oneof![20 => Just(0_u64), 1 => 1..3_u64];
    let create = (plog(), epoch()).prop_map(|(plog, epoch)| Call::Create { plog, epoch });
    let append = (plog(), epoch(), at, skip, 0..5_u64, len, any::<u8>()).prop_map(
        |(plog, epoch, at, skip, groups, len, fill)| Call::Append {
            plog,
            epoch,
            at,
            skip,
            groups,
            len,
            fill,
        },
    );
    let inside = prop_oneof![10 => Just(0_u64), 1 => 1..3_u64];
    let read =
        (plog(), 0..20_usize, inside, 0..300_000_u64).prop_map(|(plog, nth, inside, max_bytes)| {
            Call::Read {
                plog,
                nth,
                inside,
                max_bytes,
            }
        });
    let seal = (plog(), epoch()).prop_map(|(plog, epoch)| Call::Seal { plog, epoch });
    let list = (1..4_u32).prop_map(|db| Call::List { db: DbId(db) });
    let delete = (plog(), epoch()).prop_map(|(plog, epoch)| Call::Delete { plog, epoch });
    let call = prop_oneof![
        4 => create, 30 => append, 12 => read, 1 => seal, 4 => list, 1 => delete, 2 => Just(Call::Reopen)
    ];
    proptest::collection::vec(call, 1..80)
}

/// Equal answers, or errors of one kind.
#[track_caller]
fn assert_agree<T: PartialEq + std::fmt::Debug>(
    store: &Result<T, LogError>,
    model: &Result<T, LogError>,
    call: &Call,
) {
    let agree = match (store, model) {
        (Ok(a), Ok(b)) => a == b,
        (Err(a), Err(b)) => std::mem::discriminant(a) == std::mem::discriminant(b),
        _ => false,
    };
    assert!(
        agree,
        "{call:?}: the store says {store:?}, the model {model:?}"
    );
}

/// The append that `call` means, given what the model holds.
async fn build_append(model: &MemoryLogStore, call: &Call, last: Option<&Append>) -> Append {
    let Call::Append {
        plog,
        epoch,
        at,
        skip,
        groups,
        len,
        fill,
    } = call
    else {
        panic!("{call:?} is no append")
    };
    let info = model
        .list(plog.db)
        .await
        .unwrap()
        .into_iter()
        .find(|i| i.plog == *plog);
    let (end, last_lsn) = info.map_or((0, 0), |i| (i.length, i.last_lsn.0));
    let first_lsn = last_lsn + 1 + skip;
    let append = Append {
        plog: *plog,
        epoch: *epoch,
        offset: end,
        first_lsn: Lsn(first_lsn),
        last_lsn: Lsn(first_lsn + groups),
        payload: Bytes::from(vec![*fill; *len]),
    };
    match (at, last) {
        (At::Wrong(offset), _) => Append {
            offset: *offset,
            ..append
        },
        (At::Repeat, Some(last)) => last.clone(),
        _ => append,
    }
}

async fn check_read(store: &LogStoreService, model: &MemoryLogStore, call: &Call) {
    let Call::Read {
        plog,
        nth,
        inside,
        max_bytes,
    } = call
    else {
        panic!("{call:?} is no read")
    };
    let all = model.read(*plog, 0, u64::MAX).await.unwrap_or_default();
    let offset = all.get(*nth).or(all.last()).map_or(0, |e| e.offset) + inside;
    let from_store = store.read(*plog, offset, *max_bytes).await;
    let from_model = model.read(*plog, offset, *max_bytes).await;
    let (Ok(found), Ok(expected)) = (&from_store, &from_model) else {
        return assert_agree(&from_store, &from_model, call);
    };
    // A store may give fewer entries than it could, but not none.
    assert!(
        expected.starts_with(found),
        "{call:?}: {found:?} instead of {expected:?}"
    );
    assert_eq!(found.is_empty(), expected.is_empty(), "{call:?}");
}

async fn check_everything(store: &LogStoreService, model: &MemoryLogStore) {
    for db in [DbId(1), DbId(2), DbId(3)] {
        let plogs = model.list(db).await.unwrap();
        assert_eq!(store.list(db).await.as_ref(), Ok(&plogs));
        for info in plogs {
            let mut found: Vec<LogEntry> = Vec::new();
            loop {
                let offset = found.last().map_or(0, |e| e.next_offset);
                let entries = store.read(info.plog, offset, 100_000).await.unwrap();
                if entries.is_empty() {
                    break;
                }
                found.extend(entries);
            }
            assert_eq!(Ok(found), model.read(info.plog, 0, u64::MAX).await);
        }
    }
}

async fn run(calls: Vec<Call>, cache_bytes: usize) {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        cache_bytes,
        ..Config::default()
    };
    let open = || LogStoreService::open(dir.path(), config).unwrap();
    let mut store = open();
    let model = MemoryLogStore::default();
    let mut last: Option<Append> = None;
    for call in &calls {
        match call {
            Call::Create { plog, epoch } => {
                let expected = model.create_plog(*plog, *epoch).await;
                assert_agree(&store.create_plog(*plog, *epoch).await, &expected, call);
            }
            Call::Append { .. } => {
                let append = build_append(&model, call, last.as_ref()).await;
                let expected = model.append(append.clone()).await;
                assert_agree(&store.append(append.clone()).await, &expected, call);
                last = Some(append);
            }
            Call::Read { .. } => check_read(&store, &model, call).await,
            Call::Seal { plog, epoch } => {
                let expected = model.seal(*plog, *epoch).await;
                assert_agree(&store.seal(*plog, *epoch).await, &expected, call);
            }
            Call::List { db } => {
                assert_agree(&store.list(*db).await, &model.list(*db).await, call);
            }
            Call::Delete { plog, epoch } => {
                let expected = model.delete(*plog, *epoch).await;
                assert_agree(&store.delete(*plog, *epoch).await, &expected, call);
            }
            Call::Reopen => {
                drop(store);
                store = open();
                assert_eq!(store.damage(), vec![]);
            }
        }
    }
    check_everything(&store, &model).await;
    drop(store);
    check_everything(&open(), &model).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_store_answers_as_the_model(
        calls in calls(),
        cache_bytes in prop_oneof![Just(0), 0..200_000_usize, Just(64 << 20)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(calls, cache_bytes));
    }
}
