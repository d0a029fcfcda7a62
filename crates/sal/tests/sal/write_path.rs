//! What is acknowledged when, and what happens when stores fail.

use std::time::Duration;

use crate::cluster::{Cluster, DB, Model, config, eventually};
use perigee_page_api::SliceKey;
use perigee_sal::{LATEST, Purpose, SalConfig, SalError};
use perigee_types::{Lsn, PageId, SliceId};
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_appended_can_be_read_at_every_lsn() {
    let cluster = Cluster::new(2);
    let sal = cluster.open().await;
    let mut model = Model::default();
    let mut history = Vec::new();
    for i in 1..=60 {
        // Up to five pages of one group, over several slices.
        let pages: Vec<_> = (0..1 + i % 5)
            .map(|n| 64 * (1 + (i * 7 + n) % 6) + i % 3)
            .collect();
        let lsn = model.write(&sal, &pages, i);
        assert_eq!(lsn, Lsn(i + 1), "L1: LSNs have no gaps");
        history.push((lsn, model.clone()));
    }
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    assert_eq!(sal.cv_lsn(), sal.last_lsn());
    for (lsn, model) in &history {
        model.check(&sal, *lsn).await;
    }
    model.check(&sal, LATEST).await;
    sal.shutdown().await.unwrap();
    assert_eq!(
        sal.wait_durable(Lsn(1)).await,
        Ok(()),
        "what is durable stays so"
    );
    let after = sal.append(Vec::new());
    assert_eq!(sal.wait_durable(after).await, Err(SalError::ShutDown));
}

#[tokio::test]
async fn a_commit_waits_for_the_log_store_only() {
    let cluster = Cluster::new(1);
    let sal = cluster.open().await;
    let mut model = Model::default();
    cluster.pages[0].faults.stop();
    let lsn = model.write(&sal, &[70], 1);
    sal.wait_durable(lsn).await.unwrap();
    let persistent = sal.wait_page_persistent(lsn);
    assert!(
        timeout(Duration::from_millis(30), persistent)
            .await
            .is_err()
    );
    assert!(
        sal.cv_lsn() < lsn && sal.persistent_lsn_of(PageId(70)) < lsn,
        "P9"
    );
    assert!(sal.unpersisted_bytes() > 0);
    cluster.pages[0].faults.go_on();
    sal.wait_page_persistent(lsn).await.unwrap();
    assert_eq!(sal.unpersisted_bytes(), 0);
    let slices = sal.slices();
    let id = sal.geometry().slice_of(PageId(70));
    let progress = slices.iter().find(|slice| slice.slice == id).unwrap();
    assert_eq!(progress.persistent, sal.persistent_lsn_of(PageId(70)));
    assert!(progress.persistent >= lsn);

    cluster.log.faults.stop();
    let lsn = model.write(&sal, &[70], 2);
    assert!(
        timeout(Duration::from_millis(30), sal.wait_durable(lsn))
            .await
            .is_err()
    );
    assert!(
        sal.durable_lsn() < lsn && sal.persistent_lsn_of(PageId(70)) < lsn,
        "L5"
    );
    cluster.log.faults.go_on();
    sal.wait_durable(lsn).await.unwrap();
}

#[tokio::test]
async fn the_cv_lsn_waits_for_the_slowest_slice() {
    let cluster = Cluster::new(2);
    let sal = cluster.open().await;
    let mut model = Model::default();
    // Extents 2 and 4 are in slice 0, extents 1 and 3 in slice 1, on another store.
    let slow = model.write(&sal, &[64], 1);
    sal.wait_page_persistent(slow).await.unwrap();
    cluster.pages[1].faults.stop();
    let both = model.write(&sal, &[65, 128], 2);
    sal.wait_durable(both).await.unwrap();
    let fast = model.write(&sal, &[129], 3);
    sal.wait_durable(fast).await.unwrap();
    eventually("the other slice goes on", || {
        sal.persistent_lsn_of(PageId(129)) >= fast
    })
    .await;
    assert_eq!(sal.cv_lsn(), slow, "CV moves by whole buffers");
    cluster.pages[1].faults.go_on();
    sal.wait_page_persistent(fast).await.unwrap();
    model.check(&sal, LATEST).await;
}

#[tokio::test]
async fn unavailable_stores_are_tried_again() {
    let cluster = Cluster::new(2);
    let sal = cluster.open().await;
    let mut model = Model::default();
    for i in 1..=30 {
        let faults = [
            &cluster.log.faults,
            &cluster.pages[0].faults,
            &cluster.pages[1].faults,
        ];
        let chosen = faults[i as usize % 3];
        if i % 2 == 0 {
            chosen.reject(2)
        } else {
            chosen.lose_answers(1)
        }
        let lsn = model.write(&sal, &[64 + i, 128 + i, 300], i);
        sal.wait_page_persistent(lsn).await.unwrap();
    }
    model.check(&sal, LATEST).await;
    let faults = [
        &cluster.log.faults,
        &cluster.pages[0].faults,
        &cluster.pages[1].faults,
    ];
    assert_eq!(faults.map(|f| f.pending()), [0; 3], "every fault happened");
}

/// Puts the log, or the pages, out of order in one way or another; and mends it.
type Fault = (&'static str, fn(&Cluster), fn(&Cluster));

const FAULTS: [Fault; 6] = [
    (
        "log store away",
        |c| c.log.faults.reject(1_000_000),
        |c| c.log.faults.reject(0),
    ),
    (
        "log store stopped",
        |c| c.log.faults.stop(),
        |c| c.log.faults.go_on(),
    ),
    (
        "log store's disk broken",
        |c| c.log.faults.break_disk(),
        |c| c.log.faults.mend_disk(),
    ),
    (
        "log store's disk full",
        |c| c.log.faults.fill_disk(),
        |c| c.log.faults.mend_disk(),
    ),
    (
        "page store's disk broken",
        |c| c.pages[0].faults.break_disk(),
        |c| c.pages[0].faults.mend_disk(),
    ),
    (
        "page store's disk full",
        |c| c.pages[0].faults.fill_disk(),
        |c| c.pages[0].faults.mend_disk(),
    ),
];

#[tokio::test]
async fn an_outage_ends_by_itself_and_reads_go_on_meanwhile() {
    for (fault, breaks, mends) in FAULTS {
        let cluster = Cluster::new(1);
        let config = SalConfig {
            call_timeout: Duration::from_millis(20),
            read_timeout: Duration::from_millis(50),
            throttle_timeout: Duration::from_millis(50),
            ..config()
        };
        let sal = cluster.open_with(config).await.unwrap();
        let mut model = Model::default();
        let before = model.write(&sal, &[70], 1);
        sal.wait_page_persistent(before).await.unwrap();
        let known = model.clone();
        breaks(&cluster);
        let lsn = model.write(&sal, &[70], 2);
        // Far beyond every time limit of the configuration.
        let waited = timeout(Duration::from_millis(300), sal.wait_page_persistent(lsn)).await;
        assert!(waited.is_err(), "{fault}: nothing is acknowledged");
        assert_eq!(sal.check(), Ok(()), "{fault}: the layer goes on");
        let outages = sal.outages();
        assert_eq!(outages.len(), 1, "{fault}: {outages:?}");
        assert!(outages[0].error.is_transient(), "{fault}: {outages:?}");
        assert!(outages[0].since.elapsed() > Duration::from_millis(100));
        known.check(&sal, before).await;
        mends(&cluster);
        sal.wait_page_persistent(lsn).await.unwrap();
        assert!(sal.outages().is_empty(), "{fault}");
        model.check(&sal, LATEST).await;
        drop(sal);
        model.check(&*cluster.open().await, LATEST).await;
    }
}

#[tokio::test]
async fn memory_is_bounded_while_the_log_cannot_be_written() {
    for (fault, breaks, mends) in &FAULTS[..4] {
        let cluster = Cluster::new(1);
        let config = SalConfig {
            max_unpersisted_bytes: 2000,
            call_timeout: Duration::from_millis(20),
            throttle_timeout: Duration::from_millis(100),
            ..config()
        };
        let sal = cluster.open_with(config).await.unwrap();
        let mut model = Model::default();
        breaks(&cluster);
        let mut appended = 0;
        let refused = loop {
            match sal.throttle(Purpose::Grow).await {
                Ok(()) => drop(model.write(&sal, &[70 + appended % 3], 1 + appended)),
                Err(error) => break error,
            }
            appended += 1;
            assert!(appended < 1000, "{fault}: writers are never throttled");
        };
        let text = refused.to_string();
        assert!(refused.is_transient() && text.contains("the log"), "{text}");
        assert_eq!(refused.is_disk_full(), fault.contains("full"), "{text}");
        let began = std::time::Instant::now();
        sal.throttle(Purpose::Grow).await.unwrap_err();
        assert!(
            began.elapsed() < Duration::from_millis(90),
            "{fault}: nobody else waits for what is known to be away"
        );
        mends(&cluster);
        sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
        sal.throttle(Purpose::Grow).await.unwrap();
        model.check(&sal, LATEST).await;
    }
}

#[tokio::test]
async fn what_no_repetition_can_mend_stops_the_layer() {
    let cluster = Cluster::new(1);
    let old = cluster.open().await;
    let mut model = Model::default();
    let lsn = model.write(&old, &[70], 1);
    old.wait_page_persistent(lsn).await.unwrap();
    let new = cluster.open().await;
    let lost = model.write(&old, &[70], 2);
    let why = old.stopped().await;
    assert!(matches!(why, SalError::Stopped(_)), "{why}");
    for refused in [
        old.wait_durable(lost).await,
        old.wait_page_persistent(lost).await,
        old.throttle(Purpose::Grow).await,
        old.read_pages(&[PageId(1)], LATEST).await.map(drop),
    ] {
        assert_eq!(refused, Err(why.clone()), "nothing is acknowledged");
    }
    assert_eq!(new.check(), Ok(()));
}

#[tokio::test]
async fn writers_wait_while_page_stores_are_behind() {
    let cluster = Cluster::new(1);
    let config = SalConfig {
        max_unpersisted_bytes: 2000,
        ..config()
    };
    let sal = cluster.open_with(config).await.unwrap();
    let mut model = Model::default();
    cluster.pages[0].faults.stop();
    let mut appended = 0;
    let refused = loop {
        match sal.throttle(Purpose::Grow).await {
            Ok(()) => drop(model.write(&sal, &[70 + appended % 3], 1 + appended)),
            Err(error) => break error,
        }
        appended += 1;
        assert!(appended < 1000, "writers are never throttled");
    };
    assert!(
        refused.is_transient() && refused.to_string().contains("no page store"),
        "{refused}"
    );
    assert!(appended > 3);
    cluster.pages[0].faults.go_on();
    sal.throttle(Purpose::Grow).await.unwrap();
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    model.check(&sal, LATEST).await;
}

#[tokio::test]
async fn a_later_frontend_locks_out_the_one_before() {
    let cluster = Cluster::new(1);
    let old = cluster.open().await;
    let mut model = Model::default();
    let lsn = model.write(&old, &[70], 1);
    old.wait_page_persistent(lsn).await.unwrap();
    let kept = model.clone();
    let new = cluster.open().await;
    assert!(new.epoch() > old.epoch());
    let lost = model.write(&old, &[70], 2);
    let refused = old.wait_durable(lost).await;
    assert!(
        matches!(refused, Err(SalError::Stopped(_))),
        "S7: {refused:?}"
    );
    kept.check(&new, LATEST).await;
}

#[tokio::test]
async fn frontends_that_write_nothing_have_epochs_of_their_own() {
    let cluster = Cluster::new(2);
    let old = cluster.open().await;
    let mut model = Model::default();
    let lsn = model.write(&old, &[70, 130], 1);
    old.wait_page_persistent(lsn).await.unwrap();
    drop(old);
    let mut open = Vec::new();
    for _ in 0..3 {
        let next = cluster.open().await;
        model.check(&next, LATEST).await;
        open.push(next);
    }
    let epochs: Vec<_> = open.iter().map(|sal| sal.epoch()).collect();
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
    let last = open.pop().unwrap();
    for old in open {
        // A page is refused whether it has learned it or not; and it learns it though it asks nothing.
        let refused = old.read_pages(&[PageId(70)], LATEST).await.unwrap_err();
        assert!(refused.is_fenced(), "S7: {refused}");
        eventually("it is told", || old.check().is_err()).await;
        let stopped = old.check().unwrap_err();
        assert!(stopped.is_fenced() && !stopped.is_transient(), "{stopped}");
    }
    last.check().unwrap();
    model.write(&last, &[70], 2);
    last.wait_page_persistent(last.last_lsn()).await.unwrap();
    model.check(&last, LATEST).await;
}

#[tokio::test]
async fn a_frontend_that_does_nothing_learns_that_it_was_replaced() {
    let cluster = Cluster::new(1);
    let old = cluster.open().await;
    let new = cluster.open().await;
    eventually("it is told", || old.check().is_err()).await;
    assert!(old.check().unwrap_err().is_fenced());
    new.check().unwrap();
}

#[tokio::test]
async fn plogs_follow_each_other_and_go_when_no_store_needs_them() {
    let cluster = Cluster::new(2);
    let config = SalConfig {
        plog_bytes: 4000,
        log_buffer_bytes: 600,
        ..config()
    };
    let sal = cluster.open_with(config.clone()).await.unwrap();
    let mut model = Model::default();
    // Slice 1 gets a record once and is idle from then on.
    model.write(&sal, &[64], 1);
    for i in 1..=400 {
        model.write(&sal, &[130 + i % 7], i);
        if i % 50 == 0 {
            sal.wait_durable(sal.last_lsn()).await.unwrap();
        }
    }
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    let list = || async {
        perigee_log_api::LogStore::list(&*cluster.log, DB)
            .await
            .unwrap()
    };
    for _ in 0..1000 {
        if list().await.len() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let left = list().await;
    assert_eq!(
        left.len(),
        1,
        "the log is truncated to its last PLog: {left:?}"
    );
    assert!(
        left[0].plog.plog.0 > 3 && left[0].first_lsn > Lsn(1),
        "{left:?}"
    );
    drop(sal);

    let sal = cluster.open_with(config.clone()).await.unwrap();
    model.check(&sal, LATEST).await;
    drop(sal);
    let slice = SliceKey {
        db: DB,
        slice: SliceId(1),
    };
    cluster.pages[1].store.lose_slice(slice);
    perigee_page_api::PageStore::create_slice(&*cluster.pages[1], slice, 1)
        .await
        .unwrap();
    let refused = cluster.open_with(config).await.map(drop).unwrap_err();
    assert!(
        refused.to_string().contains("slice:1") && refused.to_string().contains("P6"),
        "{refused}"
    );
}
