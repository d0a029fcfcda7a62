//! Opening after a crash at any point, and refusing storage that does not fit together.

use std::sync::Arc;

use crate::cluster::{Cluster, DB, Model, config};
use crate::slices::free;
use perigee_log_api::{LogStore, PlogKey};
use perigee_page_api::{PageStore, SliceKey};
use perigee_sal::{LATEST, Sal, SalConfig, SalError};
use perigee_testkit::{Faulty, MemoryLogStore};
use perigee_types::{Lsn, PlogId, SliceId};
use proptest::prelude::*;

#[tokio::test]
async fn a_frontend_on_an_empty_machine_finds_the_database() {
    let cluster = Cluster::new(3);
    let sal = cluster.open().await;
    let (geometry, epoch) = (sal.geometry(), sal.epoch());
    assert_eq!(
        (geometry.width, geometry.stores, geometry.slice_pages),
        (3, 3, 128)
    );
    let mut model = Model::default();
    let lsn = model.write(&sal, &[64, 128, 192, 1000], 7);
    sal.wait_durable(lsn).await.unwrap();
    drop(sal);
    // Its own settings for new databases do not matter.
    let other = SalConfig {
        slice_pages: 640,
        width: 1,
        ..config()
    };
    let sal = cluster.open_with(other).await.unwrap();
    assert_eq!(sal.geometry(), geometry);
    assert!(sal.epoch() > epoch && sal.last_lsn() == lsn && sal.cv_lsn() == lsn);
    model.check(&sal, LATEST).await;
    let next = model.write(&sal, &[64], 8);
    assert_eq!(next, lsn.next(), "L1: LSNs go on across writers");
    sal.wait_page_persistent(next).await.unwrap();
    model.check(&sal, LATEST).await;
}

#[tokio::test]
async fn the_geometry_is_found_in_the_log_before_it_reaches_a_page() {
    let cluster = Cluster::new(2);
    let sal = cluster.open().await;
    drop(sal);
    cluster.pages[0].store.lose_slice(SliceKey {
        db: DB,
        slice: SliceId(0),
    });
    let sal = cluster.open().await;
    assert_eq!(sal.geometry().stores, 2);
    sal.read_pages(&[perigee_sal::SUPERBLOCK], LATEST)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_slice_that_lost_its_log_gets_it_again() {
    let cluster = Cluster::new(2);
    let sal = cluster.open().await;
    let mut model = Model::default();
    for i in 1..=20 {
        model.write(&sal, &[64 + i, 128 + i], i);
    }
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    drop(sal);
    cluster.pages[1].store.lose_slice(SliceKey {
        db: DB,
        slice: SliceId(1),
    });
    let slice = SliceKey {
        db: DB,
        slice: SliceId(1),
    };
    cluster.pages[1].create_slice(slice, 1).await.unwrap();
    let sal = cluster.open().await;
    model.check(&sal, LATEST).await;
}

#[tokio::test]
async fn lost_log_is_noticed() {
    let mut cluster = Cluster::new(1);
    let sal = cluster.open().await;
    let lsn = Model::default().write(&sal, &[64, 65], 1);
    sal.wait_page_persistent(lsn).await.unwrap();
    drop(sal);
    cluster.log = Arc::new(Faulty::new(MemoryLogStore::default()));
    let refused = cluster.open_with(config()).await.map(drop).unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, SalError::Inconsistent(_)), "{text}");
    assert!(
        text.contains("log was lost") && text.contains("slice:0"),
        "{text}"
    );
}

#[tokio::test]
async fn a_hole_in_the_log_is_noticed() {
    let cluster = Cluster::new(1);
    let config = SalConfig {
        plog_bytes: 100,
        log_buffer_bytes: 100,
        ..config()
    };
    // Nothing is truncated while the Page Store is away.
    let sal = cluster.open_with(config.clone()).await.unwrap();
    cluster.pages[0].faults.stop();
    let mut model = Model::default();
    for i in 1..=20 {
        let lsn = model.write(&sal, &[64], i);
        sal.wait_durable(lsn).await.unwrap();
    }
    let epoch = sal.epoch();
    drop(sal);
    cluster.pages[0].faults.go_on();
    let plogs = cluster.log.list(DB).await.unwrap();
    assert!(plogs.len() > 4, "{plogs:?}");
    let middle = plogs[plogs.len() / 2];
    cluster.log.store.delete(middle.plog, epoch).await.unwrap();
    let refused = cluster.open_with(config).await.map(drop).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("log is missing") && text.contains("L1"),
        "{text}"
    );
}

/// A database whose log does not go back to the first group, and what is in it: slices 0 and 1.
async fn truncated(cluster: &Cluster, config: &SalConfig) -> Model {
    let sal = cluster.open_with(config.clone()).await.unwrap();
    let mut model = Model::default();
    for i in 1..=20 {
        let lsn = model.write(&sal, &[64, 130], i);
        sal.wait_durable(lsn).await.unwrap();
    }
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    for _ in 0..1000 {
        let plogs = cluster.log.list(DB).await.unwrap();
        if plogs[0].first_lsn > Lsn(1) {
            return model;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the log is not truncated");
}

fn short_plogs() -> SalConfig {
    SalConfig {
        plog_bytes: 100,
        log_buffer_bytes: 100,
        ..config()
    }
}

#[tokio::test]
async fn a_slice_that_was_made_and_got_nothing_before_a_crash_is_filled() {
    let cluster = Cluster::new(1);
    let mut model = truncated(&cluster, &short_plogs()).await;
    let sal = cluster.open_with(short_plogs()).await.unwrap();
    // From now on slices can be made, and get nothing.
    cluster.pages[0].faults.break_disk();
    let lsn = model.write(&sal, &[64, 260], 21);
    sal.wait_durable(lsn).await.unwrap();
    let new = SliceKey {
        db: DB,
        slice: SliceId(2),
    };
    while cluster.pages[0].slice_status(new).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    drop(sal);
    let status = cluster.pages[0].slice_status(new).await.unwrap();
    assert_eq!(status.persistent_lsn, Lsn(0));
    cluster.pages[0].faults.mend_disk();

    let sal = cluster.open_with(short_plogs()).await.unwrap();
    assert_eq!(sal.last_lsn(), lsn);
    model.check(&sal, LATEST).await;
    model.write(&sal, &[260, 64], 22);
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    model.check(&sal, LATEST).await;
}

#[tokio::test]
async fn a_slice_that_lost_what_the_log_no_longer_has_is_noticed() {
    for later in [false, true] {
        let cluster = Cluster::new(1);
        let mut model = truncated(&cluster, &short_plogs()).await;
        let lost = SliceKey {
            db: DB,
            slice: SliceId(1),
        };
        if later {
            // The log has changes of its pages, and a page that is new, but not all.
            let sal = cluster.open_with(short_plogs()).await.unwrap();
            cluster.pages[0].faults.break_disk();
            let lsn = model.write(&sal, &[131, 130], 21);
            sal.wait_durable(lsn).await.unwrap();
            drop(sal);
            cluster.pages[0].faults.mend_disk();
        }
        cluster.pages[0].store.lose_slice(lost);
        cluster.pages[0].create_slice(lost, 1).await.unwrap();
        let refused = cluster.open_with(short_plogs()).await.map(drop);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("slice:1") && text.contains("P6"), "{text}");
    }
}

/// Writes until the frontend dies between making a PLog and its first append.
async fn die_with_an_empty_plog(cluster: &Cluster, config: &SalConfig, model: &Model) {
    let sal = cluster.open_with(config.clone()).await.unwrap();
    cluster.log.faults.break_disk();
    model.clone().write(&sal, &[64, 130], 99);
    loop {
        let plogs = cluster.log.list(DB).await.unwrap();
        let last = plogs.last().unwrap();
        if last.length == 0 && !last.sealed {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    drop(sal);
    cluster.log.faults.mend_disk();
}

#[tokio::test]
async fn an_empty_plog_at_its_end_does_not_make_an_idle_frontend_forget_the_log() {
    let cluster = Cluster::new(2);
    let mut model = truncated(&cluster, &short_plogs()).await;
    let mut last = Lsn(0);
    for round in 0..3 {
        die_with_an_empty_plog(&cluster, &short_plogs(), &model).await;
        let sal = cluster.open_with(short_plogs()).await.unwrap();
        assert!(sal.last_lsn() >= last, "round {round}");
        last = sal.last_lsn();
        model.check(&sal, LATEST).await;
        // The empty PLog goes, the one with the end of the log stays.
        let lengths = || async {
            let plogs = cluster.log.list(DB).await.unwrap();
            plogs.iter().map(|p| p.length > 0).collect::<Vec<_>>()
        };
        for _ in 0..1000 {
            if lengths().await.len() == 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(lengths().await, [true], "round {round}");
        sal.shutdown().await.unwrap();
    }
    let sal = cluster.open_with(short_plogs()).await.unwrap();
    assert_eq!(model.write(&sal, &[64, 130], 21), last.next());
    sal.wait_page_persistent(last.next()).await.unwrap();
    model.check(&sal, LATEST).await;
}

/// Deletes every PLog that has log in it, as earlier versions did.
async fn delete_all_log(cluster: &Cluster) {
    let plogs = cluster.log.list(DB).await.unwrap();
    let epoch = cluster.log.begin_epoch(DB).await.unwrap();
    for plog in plogs {
        cluster.log.store.seal(plog.plog, epoch).await.unwrap();
        if plog.length > 0 {
            cluster.log.store.delete(plog.plog, epoch).await.unwrap();
        }
    }
}

/// Waits until the slices have been told that there is no more log for them.
async fn pass_to_the_end(cluster: &Cluster, sal: &Sal) {
    let last = sal.last_lsn();
    for store in &cluster.pages {
        while (store.status().await.unwrap().slices.iter()).any(|(_, s)| s.persistent_lsn < last) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test]
async fn a_log_that_was_deleted_to_its_end_goes_on() {
    for stores in [1, 2] {
        let cluster = Cluster::new(stores);
        let mut model = truncated(&cluster, &short_plogs()).await;
        die_with_an_empty_plog(&cluster, &short_plogs(), &model).await;
        let sal = cluster.open_with(short_plogs()).await.unwrap();
        let last = sal.last_lsn();
        pass_to_the_end(&cluster, &sal).await;
        drop(sal);
        die_with_an_empty_plog(&cluster, &short_plogs(), &model).await;
        delete_all_log(&cluster).await;
        // Idle, stopped in order, and with writes.
        for _ in 0..2 {
            let sal = cluster.open_with(short_plogs()).await.unwrap();
            assert_eq!((sal.last_lsn(), sal.cv_lsn()), (last, last));
            model.check(&sal, LATEST).await;
            sal.shutdown().await.unwrap();
        }
        let sal = cluster.open_with(short_plogs()).await.unwrap();
        assert_eq!(model.write(&sal, &[64, 260], 21), last.next());
        sal.wait_page_persistent(last.next()).await.unwrap();
        drop(sal);
        let sal = cluster.open_with(short_plogs()).await.unwrap();
        assert_eq!(sal.last_lsn(), last.next());
        model.check(&sal, LATEST).await;
    }
}

#[tokio::test]
async fn a_log_that_was_lost_is_not_taken_for_a_deleted_one() {
    // The youngest PLog may come from a change of PLogs, before which nothing was sent; or not all
    // slices have the end of the log.
    for change in [true, false] {
        let cluster = Cluster::new(1);
        let model = truncated(&cluster, &short_plogs()).await;
        die_with_an_empty_plog(&cluster, &short_plogs(), &model).await;
        let sal = cluster.open_with(short_plogs()).await.unwrap();
        pass_to_the_end(&cluster, &sal).await;
        drop(sal);
        // From here on idle slices are told nothing.
        let config = SalConfig {
            maintenance_interval: std::time::Duration::from_secs(3600),
            ..short_plogs()
        };
        let sal = cluster.open_with(config.clone()).await.unwrap();
        if !change {
            let lsn = model.clone().write(&sal, &[64], 21);
            sal.wait_page_persistent(lsn).await.unwrap();
        }
        drop(sal);
        if change {
            let plogs = cluster.log.list(DB).await.unwrap();
            let next = PlogKey {
                db: DB,
                plog: PlogId(plogs.last().unwrap().plog.plog.0 + 5),
            };
            let epoch = cluster.log.begin_epoch(DB).await.unwrap();
            assert!(epoch < next.plog.0);
            cluster.log.store.create_plog(next, epoch).await.unwrap();
        } else {
            die_with_an_empty_plog(&cluster, &config, &model).await;
        }
        delete_all_log(&cluster).await;
        let refused = cluster.open_with(short_plogs()).await.map(drop);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("log was lost"), "{text}");
    }
}

#[tokio::test]
async fn page_stores_belong_to_the_database_in_their_order() {
    let cluster = Cluster::new(2);
    let sal = cluster.open().await;
    let lsn = Model::default().write(&sal, &[64, 128], 1);
    sal.wait_page_persistent(lsn).await.unwrap();
    drop(sal);
    let open = |stores| Sal::open(config(), cluster.log.clone() as Arc<dyn LogStore>, stores);
    let mut swapped = cluster.stores();
    swapped.reverse();
    let mut fewer = cluster.stores();
    fewer.pop();
    for (stores, word) in [
        (swapped, "order"),
        (fewer, "made with 2 page stores"),
        (vec![], "needs"),
    ] {
        let refused = open(stores).await.map(drop).unwrap_err();
        assert!(matches!(refused, SalError::Incompatible(_)), "{refused}");
        assert!(refused.to_string().contains(word), "{refused}");
    }
}

#[tokio::test]
async fn opening_waits_for_stores_and_gives_up_in_the_end() {
    let cluster = Cluster::new(2);
    cluster.log.faults.reject(3);
    cluster.pages[1].faults.reject(3);
    drop(cluster.open().await);
    cluster.pages[1].faults.reject(1_000_000);
    let refused = cluster.open_with(config()).await.map(drop).unwrap_err();
    assert!(refused.is_transient(), "{refused}");
}

#[derive(Clone, Debug)]
enum Step {
    /// Append a group with changes of these pages.
    Write(Vec<u64>),
    /// Free all pages from the first of these to the second.
    Free(u64, u64),
    /// Wait until the last group is durable.
    Commit,
    /// Wait until Page Stores have it, and need nothing of what was before.
    Settle,
    /// A Page Store stops or goes on.
    Toggle(usize),
    /// The frontend dies and another one starts.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::btree_set(64_u64..700, 1..4)
            .prop_map(|p| Step::Write(p.into_iter().collect())),
        1 => (64_u64..700, 1_u64..400).prop_map(|(from, n)| Step::Free(from, from + n)),
        2 => Just(Step::Commit),
        1 => Just(Step::Settle),
        2 => (0..3_usize).prop_map(Step::Toggle),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// What was acknowledged is there after every crash, and what was not is there as a whole or
    /// not at all, up to one LSN.
    #[test]
    fn nothing_acknowledged_is_lost(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let cluster = Cluster::new(3);
            let config = SalConfig {
                plog_bytes: 2000,
                log_buffer_bytes: 200,
                empty_slice_after: std::time::Duration::ZERO,
                maintenance_interval: std::time::Duration::from_millis(1),
                ..config()
            };
            let mut sal = cluster.open_with(config.clone()).await.unwrap();
            // The model after each LSN; the superblock has LSN 1.
            let mut history = vec![Model::default(); 2];
            let mut stopped = [false; 3];
            let mut committed = Lsn(1);
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Write(pages) => {
                        let mut model = history.last().unwrap().clone();
                        let lsn = model.write(&sal, &pages, i as u64 + 1);
                        assert_eq!(lsn, Lsn(history.len() as u64));
                        history.push(model);
                    }
                    Step::Free(from, to) => {
                        let mut model = history.last().unwrap().clone();
                        let pages: Vec<_> = model.0.keys().map(|page| page.0).collect();
                        let pages: Vec<_> = pages.into_iter().filter(|p| (from..to).contains(p)).collect();
                        if !pages.is_empty() {
                            free(&mut model, &sal, &pages);
                            history.push(model);
                        }
                    }
                    Step::Settle => {
                        cluster.pages.iter().for_each(|p| p.faults.go_on());
                        stopped = [false; 3];
                        committed = sal.last_lsn();
                        sal.wait_page_persistent(committed).await.unwrap();
                        sal.set_recycle_lsn(committed);
                        tokio::time::sleep(std::time::Duration::from_millis(4)).await;
                    }
                    Step::Commit => {
                        committed = sal.last_lsn();
                        sal.wait_durable(committed).await.unwrap();
                    }
                    Step::Toggle(store) => {
                        stopped[store] = !stopped[store];
                        let faults = &cluster.pages[store].faults;
                        if stopped[store] { faults.stop() } else { faults.go_on() }
                    }
                    Step::Crash => {
                        drop(sal);
                        cluster.pages.iter().for_each(|p| p.faults.go_on());
                        stopped = [false; 3];
                        sal = cluster.open_with(config.clone()).await.unwrap();
                        let last = sal.last_lsn();
                        assert!(last >= committed && last.0 < history.len() as u64);
                        history.truncate(last.0 as usize + 1);
                        history.last().unwrap().check(&sal, LATEST).await;
                        assert_eq!(sal.cv_lsn(), last);
                    }
                }
            }
            cluster.pages.iter().for_each(|p| p.faults.go_on());
            sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
            history.last().unwrap().check(&sal, LATEST).await;
        });
    }
}
