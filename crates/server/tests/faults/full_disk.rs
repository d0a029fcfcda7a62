//! A disk that gets full under a store: statements that add data fail and say so, those that free space
//! go on, a restart works, and once there is room everything goes on by itself.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use perigee_workload::{Client, Cluster, Embedded, Role};

use crate::support::{args, binary, options};

const ROWS: u64 = 500;
const WIDTH: usize = 1000;

/// Length of a disk that is to get full.
const MEBIBYTES: u32 = 128;

/// How soon everything goes on when there is room.
const IN_TIME: Duration = Duration::from_secs(30);

/// Little room for the data of one role: a file system of its own where that may be mounted (as
/// root), else a limit on the length of its files.
struct SmallDisk {
    data: PathBuf,
    /// The binary, or a script that limits it.
    binary: PathBuf,
    limit: Option<PathBuf>,
}

impl SmallDisk {
    /// For the data of `role` in `dir/name`.
    fn new(dir: &Path, role: &str, name: &str, mebibytes: u32) -> Self {
        let data = dir.join(name);
        fs::create_dir(&data).unwrap();
        // SAFETY: asks for a number.
        let root = unsafe { libc::geteuid() } == 0;
        if root {
            mount(&data, &format!("size={mebibytes}m"));
            return Self {
                data,
                binary: binary(),
                limit: None,
            };
        }
        let (script, limit) = (dir.join("limited"), dir.join("limit"));
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = {role} ] && [ -e '{}' ]; then\n\
             trap '' XFSZ\nulimit -f {}\nfi\nexec '{}' \"$@\"\n",
            limit.display(),
            mebibytes * 2048,
            binary().display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&limit, "").unwrap();
        Self {
            data,
            binary: script,
            limit: Some(limit),
        }
    }

    /// Makes enough room; a store that is limited notices when it is started anew.
    fn grow(&self) {
        match &self.limit {
            Some(limit) => fs::remove_file(limit).unwrap(),
            None => mount(&self.data, "remount,size=512m"),
        }
    }
}

fn mount(place: &Path, options: &str) {
    let done = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(place)
        .status();
    assert!(done.unwrap().success(), "mounting {}", place.display());
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.limit.is_none() {
            drop(Command::new("umount").arg("-l").arg(&self.data).status());
        }
    }
}

async fn create(client: &mut Client) {
    for sql in [
        "CREATE DATABASE f",
        "CREATE TABLE f.t (id BIGINT NOT NULL, n BIGINT NOT NULL, v VARCHAR(1000) NOT NULL, \
         PRIMARY KEY (id), KEY (n))",
        "CREATE TABLE f.l (id BIGINT NOT NULL, v VARCHAR(1000) NOT NULL, PRIMARY KEY (id))",
    ] {
        client.execute(sql).await.unwrap();
    }
}

async fn insert(client: &mut Client, n: u64) -> Result<(), String> {
    let text = "x".repeat(WIDTH);
    let rows: Vec<_> = (0..ROWS)
        .map(|i| format!("({}, {n}, '{text}')", n * ROWS + i))
        .collect();
    let sql = format!("INSERT INTO f.t VALUES {}", rows.join(", "));
    let done = client.execute(&sql).await;
    done.map(drop).map_err(|e| e.to_string())
}

/// Inserts from number `first` on until a statement fails; returns how many were acknowledged and why it failed.
async fn insert_until_full(client: &mut Client, first: u64) -> (u64, String) {
    for n in 0..200 {
        if let Err(error) = insert(client, first + n).await {
            return (n, error);
        }
    }
    panic!("the disk does not get full");
}

/// Everything acknowledged is there, nothing is there in part, and it can be written again.
async fn check(client: &mut Client, told: u64) {
    let rows = client.number("SELECT COUNT(*) FROM f.t").await.unwrap() as u64;
    // The one that failed may have been durable before its answer failed.
    assert!(
        rows == told * ROWS || rows == (told + 1) * ROWS,
        "{rows} rows, {told} statements were acknowledged"
    );
    for n in [0, told / 2, told - 1] {
        let by_index = format!("SELECT COUNT(v) FROM f.t WHERE n = {n}");
        assert_eq!(client.number(&by_index).await.unwrap() as u64, ROWS);
    }
    insert(client, told + 1).await.unwrap();
    let more = client.number("SELECT COUNT(*) FROM f.t").await.unwrap() as u64;
    assert_eq!(more, rows + ROWS);
}

fn assert_says_full(error: &str) {
    assert!(error.contains("1021"), "{error}");
}

/// Fills a disk with other things than a store's, to its last byte or but for some.
fn fill(disk: &SmallDisk, but_for: usize) {
    let ballast = disk.data.join("lost+found");
    let mut file = fs::File::create(&ballast).unwrap();
    let block = vec![1; 4096];
    while file.write_all(&block).is_ok() {}
    drop(file);
    if but_for > 0 {
        let file = fs::File::options().write(true).open(&ballast).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(len.saturating_sub(but_for as u64)).unwrap();
    }
}

/// Waits until a statement succeeds.
async fn in_time(client: &mut Client, n: u64) {
    let begun = Instant::now();
    while let Err(error) = insert(client, n).await {
        assert!(begun.elapsed() < IN_TIME, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A cluster with a role on a small file system, and a client; `None` if such a file system cannot be mounted.
async fn start_on(
    dir: &Path,
    word: &str,
    name: &str,
    mebibytes: u32,
) -> Option<(SmallDisk, Cluster, Client)> {
    let disk = SmallDisk::new(dir, word, name, mebibytes);
    if disk.limit.is_some() {
        eprintln!("SKIPPED: a small file system can only be mounted by root");
        return None;
    }
    let mut options = options(dir, 1, &[]);
    options.binary.clone_from(&disk.binary);
    let cluster = Cluster::start(options).unwrap();
    let mut client = cluster.client(None).await.unwrap();
    create(&mut client).await;
    Some((disk, cluster, client))
}

/// A role's disk gets full, by rows that are inserted or by others that leave only so much.
async fn a_disk_gets_full(role: Role, word: &str, name: &str, others_leave: Option<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let Some((disk, mut cluster, mut client)) = start_on(dir.path(), word, name, MEBIBYTES).await
    else {
        return;
    };
    let drop_later = "INSERT INTO f.l VALUES (1, 'to be dropped')";
    client.execute(drop_later).await.unwrap();
    insert(&mut client, 1000).await.unwrap();
    if let Some(bytes) = others_leave {
        fill(&disk, bytes);
    }
    let (told, error) = insert_until_full(&mut client, 0).await;
    assert_says_full(&error);
    // Whoever comes now is told the same, at once. Only what a Page Store recycles may have made room for some more.
    let mut other = cluster.client(None).await.unwrap();
    if role == Role::LogStore {
        let begun = Instant::now();
        assert_says_full(&insert(&mut other, told).await.unwrap_err());
        assert!(begun.elapsed() < Duration::from_secs(5));
    } else {
        assert_says_full(&insert_until_full(&mut other, 3000).await.1);
    }
    // Reads go on, and what frees space.
    let count = |n| format!("SELECT COUNT(v) FROM f.t WHERE n = {n}");
    assert_eq!(client.number(&count(1000)).await.unwrap() as u64, ROWS);
    let delete = "DELETE FROM f.t WHERE n = 1000";
    assert_eq!(client.execute(delete).await.unwrap(), ROWS);
    client.execute("DROP TABLE f.l").await.unwrap();
    // A restart with a full disk works.
    cluster.kill(Role::Frontend).unwrap();
    cluster.stop(role).unwrap();
    cluster.restart(role).unwrap();
    cluster.restart(Role::Frontend).unwrap();
    client = cluster.client(None).await.unwrap();
    // What a Page Store recycles may have made room for some more.
    if role == Role::LogStore {
        assert_says_full(&insert_soon_full(&mut client, told).await);
    }
    // And everything goes on when there is room, without another restart.
    disk.grow();
    in_time(&mut client, 2000).await;
    insert(&mut client, 2001).await.unwrap();
    for n in 0..told {
        assert_eq!(
            client.number(&count(n)).await.unwrap() as u64,
            ROWS,
            "{n} of {told}"
        );
    }
    assert_eq!(client.number(&count(1000)).await.unwrap(), 0.0);
    assert!(client.number("SELECT COUNT(*) FROM f.l").await.is_err());
}

/// Why inserts fail soon after the disk was filled.
async fn insert_soon_full(client: &mut Client, n: u64) -> String {
    for k in 0..5 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        if let Err(error) = insert(client, n + 10 + k).await {
            return error;
        }
    }
    panic!("the disk is not full any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_others_fill_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let Some((disk, mut cluster, mut client)) =
        start_on(dir.path(), "log-store", "log-store", 32).await
    else {
        return;
    };
    insert(&mut client, 0).await.unwrap();
    fill(&disk, 0);
    // Statements that are under way when it happens may wait; soon all are refused.
    let error = insert_soon_full(&mut client, 1).await;
    assert_says_full(&error);
    assert_eq!(
        client.number("SELECT COUNT(v) FROM f.t").await.unwrap() as u64 % ROWS,
        0
    );
    fs::remove_file(disk.data.join("lost+found")).unwrap();
    in_time(&mut client, 20).await;
    cluster.stop(Role::Frontend).unwrap();
    cluster.restart(Role::Frontend).unwrap();
    in_time(&mut cluster.client(None).await.unwrap(), 21).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_the_log_store_is_survived() {
    // Between the whole reserve, an eighth of the disk, and its half.
    let left = 12 << 20;
    a_disk_gets_full(Role::LogStore, "log-store", "log-store", Some(left)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_a_page_store_is_survived() {
    a_disk_gets_full(Role::PageStore(0), "page-store", "page-store-0", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_meets_a_full_disk_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::new(dir.path(), "serve", "serve", 16);
    let start = || Embedded::start(&disk.binary, dir.path(), &args(&[])).unwrap();
    let server = start();
    let mut client = server.client(None).await.unwrap();
    create(&mut client).await;
    insert(&mut client, 0).await.unwrap();
    let (file, rows) = (dir.path().join("rows"), 20_000);
    let text = "y".repeat(WIDTH);
    let lines: String = (0..rows).map(|i| format!("{i}\t{text}\n")).collect();
    fs::write(&file, lines).unwrap();
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE f.l", file.display());
    let error = client.execute(&load).await.unwrap_err().to_string();
    assert_says_full(&error);
    disk.grow();
    // Like kill -9.
    drop((client, server));
    let mut server = start();
    let mut client = server.client(None).await.unwrap();
    let loaded = client.number("SELECT COUNT(*) FROM f.l").await.unwrap();
    assert_eq!(loaded as u64, 0, "a part of the load is there");
    check(&mut client, 1).await;
    assert_eq!(client.execute(&load).await.unwrap(), rows);
    let loaded = client.number("SELECT COUNT(v) FROM f.l").await.unwrap();
    assert_eq!(loaded as u64, rows);
    client.close().await.unwrap();
    server.stop().unwrap();
}
