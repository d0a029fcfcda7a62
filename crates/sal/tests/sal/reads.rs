//! Reads over slices: order, LSNs of idle slices, recycling, parts of NDP answers.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, DB, Model, config, eventually};
use bytes::Bytes;
use futures::StreamExt;
use perigee_page::PageRef;
use perigee_page_api::{NdpItem, PageError};
use perigee_sal::{LATEST, NdpWork, SalConfig, SalError};
use perigee_types::{Lsn, PageId};

#[tokio::test]
async fn pages_come_in_the_order_asked_for() {
    let cluster = Cluster::new(3);
    let sal = cluster.open().await;
    let mut model = Model::default();
    let ids: Vec<_> = (64..64 + 400).step_by(7).collect();
    let lsn = model.write(&sal, &ids, 1);
    sal.wait_page_persistent(lsn).await.unwrap();
    let mut wanted: Vec<_> = ids.iter().map(|id| PageId(*id)).collect();
    wanted.reverse();
    wanted.push(PageId(64));
    let pages = sal.read_pages(&wanted, LATEST).await.unwrap();
    let found: Vec<_> = pages
        .iter()
        .map(|p| PageRef::new(p).unwrap().id())
        .collect();
    assert_eq!(found, wanted);
    assert!(sal.read_pages(&[], LATEST).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_page_that_is_not_there_is_named() {
    let cluster = Cluster::new(1);
    let sal = cluster.open().await;
    for page in [PageId(50), PageId(5000)] {
        let missing = sal
            .read_pages(&[PageId(1), page], LATEST)
            .await
            .unwrap_err();
        assert!(
            matches!(missing, SalError::Page(PageError::NotFound(_))),
            "{missing}"
        );
        assert!(missing.to_string().contains(&page.to_string()), "{missing}");
    }
}

#[tokio::test]
async fn an_idle_slice_answers_after_its_versions_were_recycled() {
    let cluster = Cluster::new(2);
    let sal = cluster.open().await;
    let mut model = Model::default();
    let idle = model.write(&sal, &[64], 1);
    sal.wait_page_persistent(idle).await.unwrap();
    for i in 2..50 {
        model.write(&sal, &[128], i);
    }
    let last = sal.last_lsn();
    sal.wait_page_persistent(last).await.unwrap();
    assert!(sal.persistent_lsn_of(PageId(64)) >= idle);
    model.check(&sal, last).await;
    sal.set_recycle_lsn(Lsn(last.0 - 3));
    let passed = |store: usize| cluster.pages[store].store.recycle_lsn(DB) == Lsn(last.0 - 3);
    eventually("the recycle LSN arrives", || passed(0) && passed(1)).await;
    model.check(&sal, LATEST).await;
    model.check(&sal, last).await;
    let gone = sal.read_pages(&[PageId(128)], idle).await.unwrap_err();
    assert!(gone.to_string().contains("at"), "P8: {gone}");
    sal.set_recycle_lsn(Lsn(1_000_000));
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(
        cluster.pages[0].store.recycle_lsn(DB) <= sal.cv_lsn(),
        "never beyond the CV-LSN"
    );
    model.check(&sal, LATEST).await;
}

#[tokio::test]
async fn versions_and_log_go_while_one_slice_is_idle_and_another_never() {
    let cluster = Cluster::new(2);
    let config = SalConfig {
        plog_bytes: 4000,
        log_buffer_bytes: 600,
        ..config()
    };
    let sal = cluster.open_with(config).await.unwrap();
    let mut model = Model::default();
    model.write(&sal, &[64], 1);
    let recycled = || cluster.pages[0].store.recycle_lsn(DB);
    let (end, mut i) = (Instant::now() + Duration::from_secs(20), 0);
    let (mut moves, mut first_lsn) = (std::collections::BTreeSet::new(), Lsn(1));
    while moves.len() < 5 || first_lsn == Lsn(1) {
        i += 1;
        model.write(&sal, &[130 + i % 7], i);
        sal.wait_durable(sal.last_lsn()).await.unwrap();
        sal.set_recycle_lsn(sal.cv_lsn());
        moves.insert(recycled());
        let plogs = perigee_log_api::LogStore::list(&*cluster.log, DB).await;
        first_lsn = plogs.unwrap()[0].first_lsn;
        assert!(
            i < 10_000 && Instant::now() < end,
            "after {i} writes: recycle LSNs {moves:?}, the log begins with {first_lsn}"
        );
    }
    sal.wait_page_persistent(sal.last_lsn()).await.unwrap();
    model.check(&sal, LATEST).await;
}

/// Work that no store takes.
fn unknown() -> NdpWork {
    NdpWork {
        descriptor: Bytes::from_static(b"?"),
        ..NdpWork::default()
    }
}

#[tokio::test]
async fn ndp_parts_say_which_pages_of_the_request_they_mean() {
    let cluster = Cluster::new(3);
    let sal = cluster.open().await;
    let mut model = Model::default();
    let ids: Vec<_> = (64..64 + 500).step_by(11).collect();
    let lsn = model.write(&sal, &ids, 1);
    sal.wait_page_persistent(lsn).await.unwrap();
    cluster.pages[2].faults.reject(2);
    let wanted: Vec<_> = ids.iter().rev().map(|id| PageId(*id)).collect();
    let mut parts = sal.ndp_read(&wanted, lsn, &unknown()).unwrap();
    let mut seen = vec![0; wanted.len()];
    while let Some(part) = parts.next().await {
        for item in part.reply.unwrap().items {
            let NdpItem::Declined { index, page, .. } = item else {
                panic!("declined")
            };
            let at = part.pages[index as usize] as usize;
            assert_eq!(PageRef::new(&page).unwrap().id(), wanted[at]);
            seen[at] += 1;
        }
    }
    assert!(
        seen.iter().all(|n| *n == 1),
        "each page is covered once: {seen:?}"
    );

    cluster.pages[1].faults.reject(1_000_000);
    let parts = sal.ndp_read(&wanted, lsn, &unknown()).unwrap();
    let parts: Vec<_> = parts.collect().await;
    for part in &parts {
        let page = wanted[part.pages[0] as usize];
        let away = sal.geometry().store_of(sal.geometry().slice_of(page)) == 1;
        assert_eq!(
            part.reply.is_err(),
            away,
            "one store is away, the others answer"
        );
        assert!(part.reply.as_ref().err().is_none_or(SalError::is_transient));
    }
    assert!(parts.iter().any(|p| p.reply.is_err()) && parts.iter().any(|p| p.reply.is_ok()));
}
