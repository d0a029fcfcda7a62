//! Slices come with their first page and go with their last one.

use std::time::Duration;

use bytes::Bytes;
use perigee_log_api::LogStore;
use perigee_page_api::{Fragment, PageError, PageStore, SliceKey};
use perigee_redo::{Change, Op};
use perigee_sal::{LATEST, Sal, SalConfig};
use perigee_types::{Lsn, PageId, SliceId};

use crate::cluster::{Cluster, DB, Model, config};

/// Slices go at once; PLogs are short.
fn hasty() -> SalConfig {
    SalConfig {
        empty_slice_after: Duration::from_millis(1),
        plog_bytes: 300,
        log_buffer_bytes: 300,
        ..config()
    }
}

fn key(slice: u32) -> SliceKey {
    SliceKey {
        db: DB,
        slice: SliceId(slice),
    }
}

/// Pages of slice 4, on store 1 of 3; of slice 1 on the same; of slice 5.
const GOING: [u64; 3] = [450, 451, 452];
const STAYING: u64 = 64;
const OTHER: u64 = 520;

/// Frees pages.
pub fn free(model: &mut Model, sal: &Sal, pages: &[u64]) -> Lsn {
    let change = |page: &u64| Change {
        page: PageId(*page),
        ops: vec![Op::Free],
    };
    pages.iter().for_each(|page| {
        model.0.remove(&PageId(*page));
    });
    sal.append(pages.iter().map(change).collect())
}

async fn exists(cluster: &Cluster, slice: u32) -> bool {
    let store = &cluster.pages[slice as usize % cluster.pages.len()].store;
    match store.slice_status(key(slice)).await {
        Ok(_) => true,
        Err(PageError::NotFound(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Waits until a slice is gone. The frontend needs nothing of the past meanwhile.
async fn goes(cluster: &Cluster, sal: &Sal, slice: u32) {
    for _ in 0..2000 {
        sal.set_recycle_lsn(sal.cv_lsn());
        if !exists(cluster, slice).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("slice {slice} stays");
}

fn is_listed(sal: &Sal, slice: u32) -> bool {
    sal.slices().iter().any(|s| s.slice == SliceId(slice))
}

#[tokio::test]
async fn a_slice_goes_with_its_last_page_and_comes_again() {
    for stores in [1, 3] {
        let cluster = Cluster::new(stores);
        let going = if stores == 3 { 4 } else { 3 };
        let mut model = Model::default();
        let mut sal = cluster.open_with(hasty()).await.unwrap();
        for round in 1..=4 {
            model.write(&sal, &GOING, round);
            model.write(&sal, &[STAYING, OTHER], round);
            sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
            assert!(exists(&cluster, going).await, "round {round}");
            model.check(&sal, LATEST).await;
            free(&mut model, &sal, &GOING[..2]);
            sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
            sal.set_recycle_lsn(sal.cv_lsn());
            tokio::time::sleep(Duration::from_millis(30)).await;
            assert!(exists(&cluster, going).await, "one page is there");
            free(&mut model, &sal, &GOING[2..]);
            goes(&cluster, &sal, going).await;
            let gone = sal.read_pages(&[PageId(GOING[0])], LATEST).await;
            assert!(gone.is_err(), "a page of a slice that is gone is read");
            model.check(&sal, LATEST).await;
            if round % 2 == 0 {
                // The log has all of the slice's life; or the end of it.
                drop(sal);
                sal = cluster.open_with(hasty()).await.unwrap();
                model.check(&sal, LATEST).await;
                assert!(!exists(&cluster, going).await, "it comes back");
            }
        }
    }
}

#[tokio::test]
async fn what_is_old_may_be_read_until_the_slice_goes() {
    let cluster = Cluster::new(3);
    let sal = cluster.open_with(hasty()).await.unwrap();
    let mut model = Model::default();
    let before = model.write(&sal, &GOING, 1);
    sal.wait_page_persistent(before).await.unwrap();
    // Somebody reads as of this.
    sal.set_recycle_lsn(before);
    let old = model.clone();
    free(&mut model, &sal, &GOING);
    for stamp in 0..20 {
        model.write(&sal, &[STAYING], stamp);
        sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    assert!(exists(&cluster, 4).await);
    old.check(&sal, before).await;
    goes(&cluster, &sal, 4).await;
}

/// A frontend that has asked a store to delete slice 4, and does not know whether it did.
async fn begun(cluster: &Cluster, model: &mut Model) -> std::sync::Arc<Sal> {
    let sal = cluster.open_with(hasty()).await.unwrap();
    model.write(&sal, &GOING, 1);
    model.write(&sal, &[STAYING, OTHER], 1);
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    free(model, &sal, &GOING);
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    sal
}

#[tokio::test]
async fn a_store_that_is_away_while_a_slice_should_go_learns_it_later() {
    for dies in [false, true] {
        let cluster = Cluster::new(3);
        let mut model = Model::default();
        let mut sal = begun(&cluster, &mut model).await;
        cluster.pages[1].faults.stop();
        sal.set_recycle_lsn(sal.cv_lsn());
        for stamp in 2..60 {
            // Slices of the others go on, and the log with them.
            let lsn = model.write(&sal, &[OTHER], stamp);
            sal.wait_durable(lsn).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(exists(&cluster, 4).await);
        if dies {
            drop(sal);
            cluster.pages[1].faults.go_on();
            sal = cluster.open_with(hasty()).await.unwrap();
            assert!(is_listed(&sal, 4), "it is there still");
        }
        cluster.pages[1].faults.go_on();
        goes(&cluster, &sal, 4).await;
        model.check(&sal, LATEST).await;
        drop(sal);
        let sal = cluster.open_with(hasty()).await.unwrap();
        model.check(&sal, LATEST).await;
    }
}

#[tokio::test]
async fn answers_that_are_lost_do_no_harm() {
    for lost in 1..12 {
        let cluster = Cluster::new(3);
        let mut model = Model::default();
        let sal = begun(&cluster, &mut model).await;
        cluster.pages[1].faults.lose_answers(lost);
        goes(&cluster, &sal, 4).await;
        // Needed while nobody knows whether it is gone.
        model.write(&sal, &GOING, 7);
        model.write(&sal, &[STAYING], 7);
        sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
        model.check(&sal, LATEST).await;
        drop(sal);
        let sal = cluster.open_with(hasty()).await.unwrap();
        model.check(&sal, LATEST).await;
    }
}

#[tokio::test]
async fn log_of_a_slice_that_is_gone_is_not_sent_again() {
    let cluster = Cluster::new(3);
    let mut model = Model::default();
    // The log stays: all of the slice's life is in it.
    let config = SalConfig {
        plog_bytes: 1 << 20,
        ..hasty()
    };
    let sal = cluster.open_with(config.clone()).await.unwrap();
    model.write(&sal, &GOING, 1);
    model.write(&sal, &[STAYING, OTHER], 1);
    free(&mut model, &sal, &GOING);
    goes(&cluster, &sal, 4).await;
    // The next life begins, and its frontend dies between making the slice and telling it where it begins.
    cluster.pages[1].faults.break_disk();
    let lsn = model.write(&sal, &[GOING[0]], 2);
    sal.wait_durable(lsn).await.unwrap();
    while !exists(&cluster, 4).await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(sal);
    cluster.pages[1].faults.mend_disk();
    assert_eq!(cluster.log.list(DB).await.unwrap()[0].first_lsn, Lsn(1));
    let sal = cluster.open_with(config).await.unwrap();
    model.check(&sal, LATEST).await;
    let freed = sal.read_pages(&[PageId(GOING[1])], LATEST).await;
    assert!(freed.is_err(), "a page comes back");
}

#[tokio::test]
async fn a_frontend_that_wakes_up_late_brings_no_slice_back() {
    let cluster = Cluster::new(3);
    let mut model = Model::default();
    let sal = begun(&cluster, &mut model).await;
    let late = sal.epoch();
    drop(sal);
    let sal = cluster.open_with(hasty()).await.unwrap();
    goes(&cluster, &sal, 4).await;
    let store = &cluster.pages[1].store;
    let made = store.create_slice(key(4), late).await;
    assert!(matches!(made, Err(PageError::Fenced(_))), "{made:?}");
    model.write(&sal, &GOING, 3);
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    model.check(&sal, LATEST).await;
}

/// One that had not been deleted, and got some of the log from an earlier frontend after the next one had
/// looked.
#[tokio::test]
async fn a_slice_that_an_earlier_frontend_made_at_last_goes_on() {
    let cluster = Cluster::new(3);
    let mut model = Model::default();
    let sal = cluster.open_with(hasty()).await.unwrap();
    let lsn = model.write(&sal, &[STAYING], 1);
    sal.wait_page_persistent(lsn).await.unwrap();
    let store = &cluster.pages[1].store;
    store.create_slice(key(4), sal.epoch()).await.unwrap();
    let nothing = Fragment {
        slice: key(4),
        epoch: sal.epoch(),
        sequence: 1,
        prev_lsn: Lsn(0),
        first_lsn: Lsn(1),
        last_lsn: lsn,
        groups: Bytes::new(),
    };
    store.write_logs(nothing).await.unwrap();
    model.write(&sal, &GOING, 2);
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    model.check(&sal, LATEST).await;
}
