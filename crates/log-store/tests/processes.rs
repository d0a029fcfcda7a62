//! Real processes and a real full disk: kill -9 while appending, one process at a time, ENOSPC.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use perigee_log_api::{Append, LogError, LogStore, PlogKey};
use perigee_log_store::{Config, LogStoreService};
use perigee_types::{DbId, Lsn, PlogId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Tells the child below where to append.
const CHILD_DIR: &str = "PERIGEE_TEST_APPEND_TO";

/// PLogs are sealed at this length, so that a round sees several.
const SEAL_AT: u64 = 1 << 20;

fn open(dir: &Path) -> LogStoreService {
    LogStoreService::open(dir, Config::default()).unwrap()
}

fn key(db: u32, plog: u64) -> PlogKey {
    PlogKey {
        db: DbId(db),
        plog: PlogId(plog),
    }
}

/// What the append with this LSN holds: anybody can make it again.
fn payload(db: DbId, lsn: u64) -> Bytes {
    let mut random = StdRng::seed_from_u64(u64::from(db.0) << 40 | lsn);
    let len = match lsn % 10 {
        0 => random.random_range(60_000..400_000),
        1..4 => random.random_range(2000..20_000),
        _ => random.random_range(1..600),
    };
    let mut bytes = vec![0; len];
    random.fill(&mut bytes[..]);
    Bytes::from(bytes)
}

/// Appends to one database until the process ends, going on where its log ends.
async fn append_for_ever(store: LogStoreService, db: DbId) {
    let mut infos = store.list(db).await.unwrap();
    let mut lsn = infos.iter().map(|i| i.last_lsn.0).max().unwrap_or(0);
    if infos.last().is_none_or(|last| last.sealed) {
        let plog = key(db.0, infos.last().map_or(1, |last| last.plog.plog.0 + 1));
        store.create_plog(plog, 1).await.unwrap();
        infos = store.list(db).await.unwrap();
    }
    let last = infos.last().unwrap();
    let (mut plog, mut offset) = (last.plog, last.length);
    loop {
        lsn += 1;
        let append = Append {
            plog,
            epoch: 1,
            offset,
            first_lsn: Lsn(lsn),
            last_lsn: Lsn(lsn),
            payload: payload(db, lsn),
        };
        offset = store.append(append).await.unwrap();
        println!("ACK {} {lsn}", db.0);
        if offset >= SEAL_AT {
            assert_eq!(store.seal(plog, 1).await, Ok(offset));
            println!("SEALED {} {} {offset}", db.0, plog.plog.0);
            plog = key(db.0, plog.plog.0 + 1);
            store.create_plog(plog, 1).await.unwrap();
            offset = 0;
        }
    }
}

/// Not a test but the process that `nothing_acknowledged_is_lost_to_kill_9` kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "is run as a process of its own by another test"]
async fn child_appends() {
    let dir = std::env::var(CHILD_DIR).expect("this is run by another test, which says where");
    let store = open(Path::new(&dir));
    println!("OPEN");
    tokio::join!(
        append_for_ever(store.clone(), DbId(1)),
        append_for_ever(store, DbId(2))
    );
}

fn spawn_child(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_appends", "--ignored", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lines of the child up to its end; kills it some time after the first acknowledgement.
fn run_and_kill(dir: &Path, after: Duration) -> Vec<String> {
    let mut child = spawn_child(dir);
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    let mut killer = None;
    for line in out.lines() {
        let line = line.unwrap();
        if line.starts_with("ACK") && killer.is_none() {
            let id = i32::try_from(child.id()).unwrap();
            killer = Some(std::thread::spawn(move || {
                std::thread::sleep(after);
                // SAFETY: no memory is involved; the child is not waited for before this is done.
                unsafe { libc::kill(id, libc::SIGKILL) };
            }));
        }
        lines.push(line);
    }
    let Some(killer) = killer else {
        let output = child.wait_with_output().unwrap();
        panic!(
            "the child appended nothing: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    killer.join().unwrap();
    let status = child.wait().unwrap();
    assert!(
        !status.success() && status.code().is_none(),
        "it was killed: {status}"
    );
    lines
}

/// What the child said so far.
#[derive(Default)]
struct Acknowledged {
    lsn: BTreeMap<u32, u64>,
    sealed: BTreeMap<(u32, u64), u64>,
}

impl Acknowledged {
    fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| words[i].parse::<u64>().unwrap();
        match words[0] {
            "ACK" => {
                let db = number(1) as u32;
                let before = self.lsn.insert(db, number(2)).unwrap_or(0);
                assert!(before < number(2), "the log of db {db} went back");
            }
            "SEALED" => {
                self.sealed.insert((number(1) as u32, number(2)), number(3));
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_to_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(9);
    let mut acknowledged = Acknowledged::default();
    for round in 0..12 {
        let after = Duration::from_micros(random.random_range(0..150_000));
        for line in run_and_kill(dir.path(), after) {
            // A line cut by the kill names nothing; what it would have said is not promised.
            acknowledged.note(&line);
        }
        let store = open(dir.path());
        assert_eq!(store.damage(), vec![], "round {round}");
        for (&db, promised) in &mut acknowledged.lsn {
            let mut lsn = 0;
            for info in store.list(DbId(db)).await.unwrap() {
                if let Some(&length) = acknowledged.sealed.get(&(db, info.plog.plog.0)) {
                    assert!(
                        info.sealed && info.length == length,
                        "round {round}: {info:?}"
                    );
                }
                let mut offset = 0;
                while offset < info.length {
                    for entry in store.read(info.plog, offset, 4 << 20).await.unwrap() {
                        lsn += 1;
                        assert_eq!(entry.first_lsn, Lsn(lsn), "round {round}: {}", info.plog);
                        assert!(
                            entry.payload == payload(DbId(db), lsn),
                            "round {round}: {lsn}"
                        );
                        offset = entry.next_offset;
                    }
                }
            }
            // One append may have been on its way. Now that it was read it must stay.
            let allowed = *promised..=*promised + 1;
            assert!(
                allowed.contains(&lsn),
                "round {round}: {lsn} found, {allowed:?} expected"
            );
            *promised = lsn;
        }
    }
    let appends: u64 = acknowledged.lsn.values().sum();
    println!(
        "{appends} appends acknowledged over 12 kills, {} seals",
        acknowledged.sealed.len()
    );
    assert!(
        appends > 100,
        "only {appends} appends: the test tests nothing"
    );
}

#[tokio::test]
async fn a_directory_belongs_to_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn_child(dir.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap() == "OPEN"),
        "the child opens the store"
    );
    let refused = LogStoreService::open(dir.path(), Config::default()).map(drop);
    let holder = format!("is in use by process {}; ", child.id());
    assert!(
        matches!(&refused, Err(LogError::Unavailable(t)) if t.contains(&holder)),
        "{refused:?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        LogStoreService::open(dir.path(), Config::default()).is_ok(),
        "a dead holder lets go"
    );
}

/// A file system of a few MiB, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, megabytes: u32) -> Self {
        let status = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={megabytes}m"),
                "perigee-test",
            ])
            .arg(at)
            .status();
        assert!(
            status.as_ref().is_ok_and(|s| s.success()),
            "mounting a small tmpfs failed ({status:?}): this test needs to run as root"
        );
        Self(at.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_appends_until_there_is_room() {
    let parent = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(parent.path(), 4);
    let dir = parent.path().join("log");
    for (len, ballast) in [(3000, 1 << 20), (300_000, 2 << 20)] {
        let balloon = parent.path().join("balloon");
        std::fs::write(&balloon, vec![1; ballast]).unwrap();
        let store = open(&dir);
        let plog = key(len as u32, 1);
        store.create_plog(plog, 1).await.unwrap();
        let mut lsn = 0;
        let mut append = async |store: &LogStoreService| {
            let append = Append {
                plog,
                epoch: 1,
                offset: lsn * len,
                first_lsn: Lsn(lsn + 1),
                last_lsn: Lsn(lsn + 1),
                payload: Bytes::from(vec![lsn as u8 | 1; len as usize]),
            };
            let answer = store.append(append).await;
            lsn += u64::from(answer.is_ok());
            answer
        };
        let full = loop {
            if let Err(e) = append(&store).await {
                break e;
            }
        };
        assert!(
            matches!(&full, LogError::Full(t) if t.contains("No space left on device")),
            "{full}"
        );
        assert!(
            matches!(append(&store).await, Err(LogError::Full(_))),
            "still full"
        );
        // A start with a full disk works too, and what was acknowledged is there.
        drop(store);
        let store = open(&dir);
        assert_eq!(store.damage(), vec![]);
        std::fs::remove_file(&balloon).unwrap();
        append(&store).await.unwrap();
        append(&store).await.unwrap();
        drop(store);
        let store = open(&dir);
        let info = store.list(plog.db).await.unwrap()[0];
        assert_eq!((info.length, info.last_lsn), (lsn * len, Lsn(lsn)));
        let entries = store.read(plog, 0, u64::MAX).await.unwrap();
        for (i, entry) in entries.iter().enumerate() {
            assert!(entry.payload.iter().all(|b| *b == i as u8 | 1), "entry {i}");
        }
        assert_eq!(entries.len() as u64, lsn);
        store.seal(plog, 1).await.unwrap();
        store.delete(plog, 1).await.unwrap();
    }
    drop(disk);
}
