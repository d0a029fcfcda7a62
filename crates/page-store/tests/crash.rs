//! `kill -9` in the middle of `write_logs`: what was acknowledged is there.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use perigee_page_api::PageStore;
use perigee_types::Lsn;
use support::{Model, SLICE, open, settle, small, tempdir};

const DIRECTORY: &str = "PERIGEE_TEST_CRASH_DIRECTORY";

/// The pages of fragment `n`, which is all that decides what is in it.
fn pages(n: u64) -> Vec<u64> {
    let mut pages = vec![1, 2 + n % 5, 100 + n];
    pages.extend((0..n % 20).map(|i| 10 + i));
    pages
}

/// Writes fragments until it is killed; says which are acknowledged.
#[tokio::test]
async fn child() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let store = open(&dir, small());
    store.create_slice(SLICE, 1).await.unwrap();
    let mut model = Model::new(SLICE);
    let have = store.slice_status(SLICE).await.unwrap().sequence;
    for n in 1..=have {
        model.touch(&pages(n));
    }
    for n in have + 1.. {
        store.write_logs(model.touch(&pages(n))).await.unwrap();
        println!("acknowledged {n}");
        if n % 16 == 0 {
            store.set_recycle_lsn(SLICE.db, Lsn(n - 8)).await.unwrap();
        }
    }
}

/// Runs the child for a while, kills it, returns the last fragment it acknowledged.
fn run_child(dir: &Path, life: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reader = std::thread::spawn(move || {
        let number = |line: std::io::Result<String>| {
            line.ok()?
                .rsplit_once("acknowledged ")?
                .1
                .parse::<u64>()
                .ok()
        };
        lines.filter_map(number).last().unwrap_or(0)
    });
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[tokio::test]
async fn what_is_acknowledged_survives_kill_9() {
    let dir = tempdir();
    let mut model = Model::new(SLICE);
    let (mut acknowledged, mut rounds_with_progress) = (0, 0);
    for round in 0..8_u64 {
        let before = acknowledged;
        let life = Duration::from_millis(400 + round * 37 % 200);
        acknowledged = acknowledged.max(run_child(dir.path(), life));
        rounds_with_progress += u32::from(acknowledged > before);
        let store = open(dir.path(), small());
        let Ok(status) = store.slice_status(SLICE).await else {
            assert_eq!(acknowledged, 0, "the slice is lost");
            continue;
        };
        assert!(
            status.sequence >= acknowledged,
            "{acknowledged} was acknowledged, the store has {}",
            status.sequence
        );
        while model.sequence < status.sequence {
            let n = model.sequence + 1;
            model.touch(&pages(n));
        }
        assert_eq!(status.persistent_lsn, model.lsn);
        model.check_newest(&store).await;
        settle(&store, SLICE).await;
        model.check_newest(&store).await;
    }
    assert!(
        rounds_with_progress >= 4,
        "only {rounds_with_progress} rounds wrote anything"
    );
}
