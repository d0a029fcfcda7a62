//! No page is ever lost: random changes of rows and definitions, killed at random moments; then every page
//! is accounted for, by `perigee inspect space`.
//!
//! `PERIGEE_SPACE_ROUNDS` sets how often the server is killed at the least, `PERIGEE_SPACE_SECONDS` for
//! how long it goes on, `PERIGEE_SPACE_SEED` what happens. `PERIGEE_SPACE_MB` sets how large the table is that is updated
//! without end, `PERIGEE_SPACE_UPDATES` for how many seconds.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use perigee_testkit::Rng;
use perigee_workload::{Client, Embedded};
use serde_json::Value;
use support::{args, binary, perigee, stderr, stdout};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// What `perigee inspect space` tells, and what it complains of.
fn inspect(data: &Path) -> (Value, String) {
    let output = perigee(&["inspect", "space", data.to_str().unwrap(), "--json"]);
    let told = stdout(&output);
    let json = serde_json::from_str(&told);
    (
        json.unwrap_or_else(|e| panic!("{e}: {told}{}", stderr(&output))),
        stderr(&output),
    )
}

/// Rows as a file of lines; the last one repeats a key if the load is to fail.
fn lines(dir: &Path, rows: u64, fails: bool) -> String {
    let mut lines = String::new();
    for id in 1..=rows {
        writeln!(lines, "{id}\t{}\t{}", id * 7919 % 1009, "long ".repeat(2)).unwrap();
    }
    if fails {
        lines.push_str("1\t1\tagain\n");
    }
    let file = dir.join(format!("{rows}-{fails}.lines"));
    std::fs::write(&file, lines).unwrap();
    file.display().to_string()
}

/// A statement that may fail: tables come and go.
fn statement(rng: &mut Rng, dir: &Path) -> String {
    let table = format!("t{}", rng.between(0, 3));
    let key = rng.between(1, 4000);
    match rng.between(0, 20) {
        0..=1 => format!(
            "CREATE TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY, a INT, s LONGTEXT, KEY by_a (a))"
        ),
        2 => format!("DROP TABLE IF EXISTS {table}"),
        3 => format!("TRUNCATE TABLE {table}"),
        4 => format!("CREATE INDEX more ON {table} (a, id)"),
        5 => format!("DROP INDEX more ON {table}"),
        6 => format!("ALTER TABLE {table} MODIFY a BIGINT, ADD COLUMN b INT"),
        7 => format!("ALTER TABLE {table} DROP COLUMN b, ADD UNIQUE u (a)"),
        8 => format!("CREATE TABLE {table} AS SELECT id, a, s FROM t0 WHERE id < {key}"),
        9..=10 => {
            let file = lines(dir, rng.between(10, 3000) as u64, rng.chance(3));
            format!("LOAD DATA LOCAL INFILE '{file}' IGNORE INTO TABLE {table} (id, a, s)")
        }
        11 => {
            let file = lines(dir, rng.between(10, 3000) as u64, true);
            format!("LOAD DATA LOCAL INFILE '{file}' INTO TABLE {table} (id, a, s)")
        }
        12 => format!("DELETE FROM {table} WHERE id > {key}"),
        13 => {
            let long = "x".repeat(20 * key as usize);
            format!("UPDATE {table} SET a = a + 1, s = '{long}' WHERE id % 50 = 3")
        }
        14 => format!("INSERT IGNORE INTO {table} (id, a, s) SELECT id + 5000, a, s FROM t1"),
        15 => {
            let long = "y".repeat(50_000);
            format!("REPLACE INTO {table} (id, a, s) VALUES ({key}, 1, '{long}')")
        }
        16 => "ROLLBACK".to_owned(),
        17 => format!(
            "CREATE TEMPORARY TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY, a INT, s LONGTEXT, KEY by_a (a))"
        ),
        18 => format!("CREATE TEMPORARY TABLE {table} AS SELECT id, a, s FROM t1 WHERE id < {key}"),
        19 => format!("DROP TEMPORARY TABLE IF EXISTS {table}"),
        _ => "BEGIN".to_owned(),
    }
}

/// Runs statements until the server goes away.
async fn work(mut client: Client, mut rng: Rng, dir: std::path::PathBuf) -> u64 {
    let mut done = 0;
    loop {
        let sql = statement(&mut rng, &dir);
        match client.execute(&sql).await {
            Ok(_) => done += 1,
            // It answers an error and goes on, or it is gone.
            Err(_) if client.query("SELECT 1").await.is_err() => return done,
            Err(_) => {}
        }
    }
}

/// Starts and stops the server until there is nothing left to be freed, and looks at the account then.
async fn settled(dir: &Path, when: &str) -> Value {
    let data = dir.join("serve");
    let mut last = String::new();
    for attempt in 0..20 {
        let mut server = start(dir);
        tokio::time::sleep(Duration::from_millis(300 * (attempt + 1))).await;
        server.stop().unwrap();
        let (space, trouble) = inspect(&data);
        let is_clean = trouble.is_empty() && space["being_freed"] == 0 && space["stray"] == 0;
        if is_clean {
            return space;
        }
        last = format!("{trouble}\n{space:#}");
    }
    panic!("pages are lost, {when}: {last}");
}

/// Small slices, so that there are several, and some come and go.
fn start(dir: &Path) -> Embedded {
    Embedded::start(&binary(), dir, &args(&["--slice-size", "2MiB"])).unwrap()
}

/// What a database takes on disk beside twice its pages (`docs/space.md`), in so many slices.
fn constant(slices: usize) -> u64 {
    (3 + slices as u64) << 20
}

/// How much longer than a slice has to be without pages until it is deleted.
const QUIET: Duration = Duration::from_secs(8);

/// Runs the server without work, until the disk has no more than twice what is in the pages, and no slice
/// that has none; a minute at most.
async fn small_disk(dir: &Path, when: &str) {
    let data = dir.join("serve");
    let begun = Instant::now();
    loop {
        let mut server = start(dir);
        tokio::time::sleep(QUIET).await;
        server.stop().unwrap();
        let (space, trouble) = inspect(&data);
        assert_eq!(trouble, "", "{when}");
        let number = |name: &str| space[name].as_u64().unwrap();
        let slices = space["slices"].as_array().unwrap();
        let empty = slices.iter().filter(|s| s["pages"] == 0).count();
        let (live, disk) = (
            number("stored") * number("page_bytes"),
            number("disk_bytes"),
        );
        println!(
            "{when}: {live} bytes live, {disk} on disk, {} slices",
            slices.len()
        );
        if empty == 0 && disk <= 2 * live + constant(slices.len()) {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{when}: {space:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_is_lost_by_kills() {
    let dir = tempfile::tempdir().unwrap();
    let rounds = setting("PERIGEE_SPACE_ROUNDS", 3);
    let time = Duration::from_secs(setting("PERIGEE_SPACE_SECONDS", 0));
    let seed = setting("PERIGEE_SPACE_SEED", 7);
    let (mut done, begun) = (0, Instant::now());
    let mut all = 0;
    for round in (0..).take_while(|round| *round < rounds || begun.elapsed() < time) {
        let server = start(dir.path());
        let mut client = server.client(None).await.unwrap();
        client
            .execute("CREATE DATABASE IF NOT EXISTS space")
            .await
            .unwrap();
        let mut workers = Vec::new();
        for worker in 0..3 {
            let client = server.client(Some("space")).await.unwrap();
            let rng = Rng(seed.wrapping_mul(1_000_003) + 31 * round + worker + 1);
            workers.push(tokio::spawn(work(client, rng, dir.path().to_owned())));
        }
        let millis = 1200 + 977 * (seed + round) % 1500;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        // Dropping it is kill -9.
        drop(server);
        for worker in workers {
            done += worker.await.unwrap();
        }
        let when = format!("seed {seed}, round {round}, killed after {millis} ms");
        // Also killed while it frees what the first kill left.
        drop(start(dir.path()));
        settled(dir.path(), &when).await;
        all = round + 1;
    }
    println!("{done} statements in {all} rounds");
    assert!(done > 5 * all, "only {done} statements succeed");
    small_disk(dir.path(), "at the end").await;
    // Everything dropped is everything given back.
    let mut server = start(dir.path());
    let mut client = server.client(None).await.unwrap();
    client.execute("DROP DATABASE space").await.unwrap();
    server.stop().unwrap();
    let space = settled(dir.path(), "all is dropped").await;
    // Undo keeps a page or two for each transaction that ran at a time.
    assert!(space["in_use"].as_u64().unwrap() < 40, "{space:#}");
    assert_eq!(space["stored"], space["in_use"], "{space:#}");
    small_disk(dir.path(), "all is dropped").await;
}

/// Waits until the live bytes are no more than this.
async fn shrinks_to(client: &mut Client, most: f64, when: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let live = "SHOW STATUS LIKE 'perigee_page_store_live_bytes'";
        let live = client.number(live).await.unwrap();
        if live <= most {
            return;
        }
        assert!(
            Instant::now() < end,
            "{live} live bytes, {most} expected {when}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_gives_its_space_back_while_the_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Embedded::start(&binary(), dir.path(), &args(&[])).unwrap();
    let mut client = server.client(None).await.unwrap();
    client.execute("CREATE DATABASE space").await.unwrap();
    client.execute("USE space").await.unwrap();
    let file = lines(dir.path(), 6_000, false);
    let load = format!("LOAD DATA LOCAL INFILE '{file}' INTO TABLE t");
    // System pages, catalog, and a page or two of undo for each transaction that ran at a time.
    let little = 30.0 * 16384.0;
    for round in 0..2 {
        let create = "CREATE TABLE t (id INT PRIMARY KEY, a INT, s LONGTEXT, KEY by_a (a))";
        client.execute(create).await.unwrap();
        client.execute(&load).await.unwrap();
        // The session keeps what it made of such statements.
        let long = "z".repeat(100_000);
        for sql in [
            &*format!("INSERT INTO t VALUES (30000, 1, '{long}')"),
            "UPDATE t SET a = 7 WHERE id = 9",
            "DELETE FROM t WHERE id = 8",
        ] {
            client.execute(sql).await.unwrap();
        }
        client.query("SELECT a FROM t WHERE id = 7").await.unwrap();
        client.execute("TRUNCATE TABLE t").await.unwrap();
        shrinks_to(&mut client, little, &format!("after TRUNCATE {round}")).await;
        client.execute(&load).await.unwrap();
        client.execute("DELETE FROM t").await.unwrap();
        shrinks_to(&mut client, little, &format!("after DELETE {round}")).await;
        client.execute(&load).await.unwrap();
        client.query("SELECT a FROM t WHERE id = 7").await.unwrap();
        client.execute("DROP TABLE t").await.unwrap();
        shrinks_to(&mut client, little, &format!("after DROP {round}")).await;
    }
    client.close().await.unwrap();
    server.stop().unwrap();
    let (space, trouble) = inspect(&dir.path().join("serve"));
    assert_eq!(trouble, "");
    assert_eq!(space["stray"], 0, "{space:#}");
    let disk = space["disk_bytes"].as_u64().unwrap();
    println!("{disk} bytes on disk");
}

/// Bytes of the files below a directory.
fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        // It was deleted meanwhile.
        return 0;
    };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => disk_bytes(&entry.path()),
        #[cfg(unix)]
        Ok(data) => 512 * std::os::unix::fs::MetadataExt::blocks(&data),
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(bytes).sum()
}

/// What the disk may have under endless updates beside twice what is live (`docs/space.md`): log that waits, in each
/// slice and in the Log Store.
fn under_way(live: u64, slices: u64) -> u64 {
    constant(slices as usize) + slices * (2 << 20) + live / 8
}

/// Looks at the disk twice a second for some time; the greatest share of what is allowed, and of what is live.
async fn watched(client: &mut Client, data: &Path, slices: u64, time: Duration) -> (f64, f64) {
    let (begun, mut most) = (Instant::now(), (0.0_f64, 0.0_f64));
    while begun.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let live = "SHOW STATUS LIKE 'perigee_page_store_live_bytes'";
        let live = client.number(live).await.unwrap();
        let disk = disk_bytes(data) as f64;
        let allowed = 2.0 * live + under_way(live as u64, slices) as f64;
        most = (most.0.max(disk / allowed), most.1.max(disk / live));
    }
    most
}

/// Updates rows here and there until the server goes.
async fn update_without_end(mut client: Client, mut rng: Rng, rows: u64) {
    loop {
        let first = rng.between(1, rows as i64);
        let (a, last) = (rng.between(0, 1000), first + rng.between(1, 50));
        let sql = format!(
            "UPDATE t SET a = {a}, s = CONCAT(SUBSTRING(s, 2), '{a}') WHERE id BETWEEN {first} AND {last}"
        );
        // Another one may have changed the row first.
        if client.execute(&sql).await.is_err() && client.query("SELECT 1").await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_has_twice_what_is_live_under_endless_updates() {
    let megabytes = setting("PERIGEE_SPACE_MB", 6);
    let time = Duration::from_secs(setting("PERIGEE_SPACE_UPDATES", 6));
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("serve");
    let slice = (megabytes / 4).max(2);
    let options = args(&["--slice-size", &format!("{slice}MiB")]);
    let mut server = Embedded::start(&binary(), dir.path(), &options).unwrap();
    let mut client = server.client(None).await.unwrap();
    for sql in [
        "CREATE DATABASE space",
        "USE space",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(400), KEY by_a (a))",
    ] {
        client.execute(sql).await.unwrap();
    }
    let rows = megabytes * 4000;
    let mut text = String::new();
    for id in 1..=rows {
        writeln!(text, "{id}\t{}\t{}", id * 7919 % 1009, "long ".repeat(42)).unwrap();
    }
    let file = dir.path().join("rows");
    std::fs::write(&file, text).unwrap();
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE t", file.display());
    client.execute(&load).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    // The index takes half as much as the rows, undo some more.
    let slices = 2 + 2 * megabytes / slice;
    for worker in 0..2 {
        let client = server.client(Some("space")).await.unwrap();
        tokio::spawn(update_without_end(client, Rng(worker + 1), rows));
    }
    let (allowed, live) = watched(&mut client, &data, slices, time).await;
    println!("under updates: at most {allowed:.2} of what is allowed, {live:.2} of what is live");
    assert!(allowed <= 1.0, "{allowed} of what is allowed under updates");
    let mut reader = server.client(Some("space")).await.unwrap();
    let snapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
    reader.execute(snapshot).await.unwrap();
    let sum = "SELECT SUM(a) FROM t";
    let before = reader.number(sum).await.unwrap();
    let (allowed, live) = watched(&mut client, &data, slices, time).await;
    println!("beside an old snapshot: {allowed:.2} of what is allowed, {live:.2} of what is live");
    assert!(
        allowed <= 1.0,
        "{allowed} of what is allowed beside a snapshot"
    );
    assert_eq!(
        reader.number(sum).await.unwrap(),
        before,
        "the snapshot changed"
    );
    reader.execute("COMMIT").await.unwrap();
    let (allowed, _) = watched(&mut client, &data, slices, time).await;
    assert!(
        allowed <= 1.0,
        "{allowed} of what is allowed after the snapshot"
    );
    server.stop().unwrap();
    small_disk(dir.path(), "after endless updates").await;
}
