//! Random values around the days on which clocks are set, in random time zones, against MariaDB: the same errors, rows and
//! answers, as text and prepared, with near-data processing off and on, with an index and without.
//!
//! What TIMESTAMP does not reach is not compared in CONVERT_TZ and
//! UNIX_TIMESTAMP, where MySQL goes on and MariaDB does not.
//!
//! `PERIGEE_ZONES` sets the number of statements, `PERIGEE_SEED` the seed. Zones with names are compared if the rules of
//! the system's time zone database can be loaded into MariaDB, otherwise offsets alone. MariaDB has no indexes, since what
//! it finds by one for a name that comes twice is not what it finds without.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded, Rows, WorkloadError};

/// Statements in one zone.
const PER_ZONE: usize = 6;

/// Differences that are shown.
const SHOWN: usize = 20;

/// Offsets, as far as MariaDB has them. It takes some for each other, -01:15 for -12:59 among them.
const OFFSETS: [&str; 5] = ["+00:00", "+05:30", "-12:59", "+13:00", "-02:30"];

const NAMED: [&str; 4] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
];

/// Hours since 1970 near which values lie: changes of clocks in the zones with names, and the ends of TIMESTAMP.
const NEAR: [i64; 9] = [
    475_515, 480_555, 475_010, 480_721, 475_682, 480_050, 474_000, 2, 596_522,
];

const TABLE: &str = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, s TIMESTAMP NULL, f TIMESTAMP(3) NULL, \
    d DATETIME(3), v VARCHAR(40))";

/// Things that are asked of a row.
const EXPRESSIONS: [&str; 21] = [
    "s",
    "f",
    "s + 0",
    "CONCAT(f)",
    "UNIX_TIMESTAMP(s)",
    "IF(YEAR(d) = 2024, UNIX_TIMESTAMP(d), d)",
    "UNIX_TIMESTAMP(f)",
    "FROM_UNIXTIME(UNIX_TIMESTAMP(s))",
    "CAST(s AS DATE)",
    "CAST(f AS TIME(3))",
    "CAST(s AS DATETIME)",
    "CAST(f AS CHAR)",
    "HOUR(s) * 100 + MINUTE(f)",
    "s + INTERVAL 3 HOUR",
    "TIMESTAMPDIFF(MINUTE, s, d)",
    "COALESCE(s, d)",
    "IF(id % 2, s, f)",
    "CASE WHEN s < d THEN s ELSE v END",
    "LEFT(s, 13)",
    "IF(YEAR(d) = 2024, CONVERT_TZ(d, 'ZONE', '+00:00'), d)",
    "IF(YEAR(d) = 2024, CONVERT_TZ(d, '+00:00', 'ZONE'), d)",
];

/// Queries of all rows; `C` is a condition.
const QUERIES: [&str; 9] = [
    "SELECT id, E FROM t WHERE C ORDER BY id",
    "SELECT id, E FROM t WHERE C ORDER BY id",
    "SELECT COUNT(*), MIN(s), MAX(f), COUNT(DISTINCT s) FROM t WHERE C",
    "SELECT DATE(s) AS k, COUNT(*), MAX(d) FROM t WHERE C GROUP BY DATE(s) ORDER BY k",
    "SELECT s, COUNT(*) FROM t WHERE C GROUP BY s ORDER BY s, 2",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.s = b.f WHERE a.id < 12 ORDER BY 1, 2",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.s = b.d WHERE a.id < 12 ORDER BY 1, 2",
    "SELECT id FROM t WHERE s IN (SELECT d FROM t WHERE C) ORDER BY id",
    "SELECT s FROM t WHERE C UNION ALL SELECT d FROM t WHERE id < 5 ORDER BY 1",
];

const COMPARISONS: [&str; 6] = ["=", "<", "<=", ">", ">=", "<>"];

/// Seconds since 1970 near one of the times.
fn near(rng: &mut Rng) -> i64 {
    const QUARTER: i64 = 900;
    let hour = *rng.choose(&NEAR);
    hour * 3600 + rng.between(-16, 16) * QUARTER - rng.between(0, 1)
}

/// A date and time, perhaps with a fraction.
fn moment(rng: &mut Rng) -> String {
    let seconds = near(rng);
    let mut text = String::new();
    let fsp = if rng.chance(4) { 3 } else { 0 };
    let micros = seconds * 1_000_000 + if fsp == 3 { 250_000 } else { 0 };
    perigee_value::date::format_micros(micros, fsp, &mut text);
    text
}

fn literal(rng: &mut Rng) -> String {
    let moment = moment(rng);
    match rng.between(0, 7) {
        0 => "NULL".to_owned(),
        1 => format!("TIMESTAMP'{moment}'"),
        2 => {
            let digits = moment.chars().filter(char::is_ascii_digit);
            digits.take(14).collect()
        }
        3 => format!("'{}'", &moment[..10]),
        _ => format!("'{moment}'"),
    }
}

fn change(rng: &mut Rng) -> String {
    let id = rng.between(1, 60);
    let column = *rng.choose(&["s", "f", "d", "v"]);
    match rng.between(0, 9) {
        0..=4 => format!(
            "REPLACE INTO t (id, s, f, d, v) VALUES ({id}, {}, {}, {}, {})",
            literal(rng),
            literal(rng),
            literal(rng),
            literal(rng)
        ),
        5 => format!("UPDATE t SET s = f, d = s WHERE id = {id}"),
        6 => format!("UPDATE t SET {column} = d, v = s WHERE id = {id}"),
        7 => format!("REPLACE INTO t (id, s, f, d) SELECT id + 1, d, s, f FROM t WHERE id = {id}"),
        _ => format!("UPDATE t SET {column} = {} WHERE id = {id}", literal(rng)),
    }
}

fn constant(rng: &mut Rng) -> String {
    loop {
        match literal(rng) {
            null if null == "NULL" => {}
            literal => return literal,
        }
    }
}

fn condition(rng: &mut Rng) -> String {
    let column = *rng.choose(&["s", "f"]);
    let comparison = *rng.choose(&COMPARISONS);
    match rng.between(0, 7) {
        0 => format!("{column} BETWEEN {} AND {}", constant(rng), constant(rng)),
        1 => format!("{column} IN ({}, {})", constant(rng), constant(rng)),
        2 => format!("{column} {comparison} d"),
        3 => format!("s {comparison} f"),
        4 => format!("{column} IS NOT NULL"),
        5 => format!("{} {comparison} {column}", constant(rng)),
        _ => format!("{column} {comparison} {}", constant(rng)),
    }
}

fn query(rng: &mut Rng, zone: &str) -> String {
    let (query, expression) = (*rng.choose(&QUERIES), *rng.choose(&EXPRESSIONS));
    let query = query.replace(" E ", &format!(" {expression} "));
    let condition = format!("WHERE {} ", condition(rng));
    let query = format!("{query} ").replace("WHERE C ", &condition);
    query
        .replace("WHERE C)", &format!("{})", condition.trim()))
        .replace("ZONE", zone)
}

fn errno(error: &WorkloadError) -> u16 {
    let code = error.code();
    code.unwrap_or_else(|| panic!("no answer of a server: {error}"))
}

async fn answer(client: &mut Client, sql: &str) -> Result<Rows, u16> {
    client.query(sql).await.map_err(|error| errno(&error))
}

/// What a change did: an error or the rows after it.
async fn changed(client: &mut Client, sql: &str) -> (Result<(), u16>, Rows) {
    let done = client.execute(sql).await.map(drop);
    let rows = client.query("SELECT * FROM t ORDER BY id").await.unwrap();
    (done.map_err(|error| errno(&error)), rows)
}

/// Answers with a number as a parameter, over the binary protocol.
async fn by_number(client: &mut Client, comparison: &str, number: i64) -> Result<Rows, u16> {
    let sql = format!("SELECT id, s, f, d FROM t WHERE s {comparison} ? ORDER BY id");
    let answer = client.prepared(&sql, &[number]).await;
    answer.map(|(rows, _)| rows).map_err(|error| errno(&error))
}

/// The zones that both servers know.
fn zones(mariadb: &MariaDb) -> Vec<&'static str> {
    let load = |name: &str| -> std::io::Result<()> {
        let file = format!("/usr/share/zoneinfo/{name}");
        fs::metadata(&file)?;
        let output = Command::new("mariadb-tzinfo-to-sql")
            .args([&file, name])
            .output()?;
        let mut client = mariadb
            .client()
            .arg("mysql")
            .stdin(Stdio::piped())
            .spawn()?;
        client.stdin.take().unwrap().write_all(&output.stdout)?;
        client.wait().map(drop)
    };
    let mut zones = OFFSETS.to_vec();
    for name in NAMED {
        let known = load(name).and_then(|()| {
            let sql = format!("SELECT CONVERT_TZ('2024-01-01', '{name}', '+00:00') IS NOT NULL");
            mariadb.query("", &sql)
        });
        match known {
            Ok(known) if known.trim() == "1" => zones.push(name),
            _ => println!("{name} is not known to MariaDB"),
        }
    }
    zones
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_zones_mean_what_they_mean_in_mariadb() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--innodb-buffer-pool-size=32M"];
    let mariadb = MariaDb::start(&dir.path().join("mariadb"), &args).unwrap();
    let zones = zones(&mariadb);
    let mut theirs = Client::connect_socket(&mariadb.socket(), None)
        .await
        .unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let args = ["--default-time-zone", "asia/kolkata"].map(str::to_owned);
    let mut server = Embedded::start(&binary, &dir.path().join("plain"), &args).unwrap();
    let mut ours = server.client(None).await.unwrap();
    let known = ours.query("SELECT @@time_zone, @@global.time_zone").await;
    assert_eq!(known.unwrap(), [vec![Some("Asia/Kolkata".to_owned()); 2]]);
    ours.execute("SET ndp_min_pages = 0").await.unwrap();
    let schema = "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
    let names = "SET NAMES utf8mb4 COLLATE utf8mb4_bin";
    let mode = "SET sql_mode = 'STRICT_TRANS_TABLES'";
    for client in [&mut theirs, &mut ours] {
        for sql in [schema, "USE d", names, mode, TABLE] {
            client.execute(sql).await.unwrap();
        }
    }
    let index = "CREATE INDEX s ON t (s)";
    ours.execute(index).await.unwrap();
    let number = |name: &str, otherwise: usize| {
        let given = std::env::var(name).ok();
        given.map_or(otherwise, |text| text.parse().unwrap())
    };
    let (count, seed) = (number("PERIGEE_ZONES", 300), number("PERIGEE_SEED", 1));
    let mut rng = Rng(seed as u64);
    let (mut wrong, mut failed, mut zone) = (Vec::new(), 0, "");
    for at in 0..count {
        if at % PER_ZONE == 0 {
            zone = *rng.choose(&zones);
            for client in [&mut theirs, &mut ours] {
                let sql = format!("SET time_zone = '{zone}'");
                client.execute(&sql).await.unwrap();
            }
        }
        let sql = change(&mut rng);
        let expected = changed(&mut theirs, &sql).await;
        let found = changed(&mut ours, &sql).await;
        failed += usize::from(expected.0.is_err());
        if expected != found {
            wrong.push(format!("{zone}\n{sql}\nhere {found:?}\nthere {expected:?}"));
            for client in [&mut theirs, &mut ours] {
                client.execute("DELETE FROM t").await.unwrap();
            }
        }
        let sql = query(&mut rng, zone);
        let comparison = *rng.choose(&COMPARISONS);
        let constant = moment(&mut rng);
        let digits: String = constant
            .chars()
            .filter(char::is_ascii_digit)
            .take(14)
            .collect();
        let digits = digits.parse().unwrap();
        let expected = answer(&mut theirs, &sql).await;
        let numbered = by_number(&mut theirs, comparison, digits).await;
        let prepare = format!("PREPARE p FROM '{}'", sql.replace('\'', "''"));
        for ndp in ["OFF", "ON"] {
            ours.execute(&format!("SET ndp_mode = {ndp}"))
                .await
                .unwrap();
            let found = answer(&mut ours, &sql).await;
            if found != expected {
                wrong.push(format!(
                    "{zone}\n{sql}\nNDP {ndp}: here {found:?}\nthere {expected:?}"
                ));
            }
            let executed = match ours.execute(&prepare).await {
                Ok(_) => answer(&mut ours, "EXECUTE p").await,
                Err(error) => Err(errno(&error)),
            };
            if executed != found {
                wrong.push(format!("{zone}\n{sql}\nprepared {executed:?}"));
            }
            let found = by_number(&mut ours, comparison, digits).await;
            if found != numbered {
                wrong.push(format!(
                    "{zone}\ns {comparison} {digits}\nhere {found:?}\nthere {numbered:?}"
                ));
            }
        }
    }
    println!(
        "{count} statements in {} zones, {failed} of which fail; {} differ",
        zones.len(),
        wrong.len()
    );
    for text in wrong.iter().take(SHOWN) {
        println!("\n{text}");
    }
    server.stop().unwrap();
    assert!(wrong.is_empty(), "{} outcomes differ", wrong.len());
    assert!(failed * 2 < count, "most statements succeed");
}
