//! Random statements in random modes of `sql_mode` against MariaDB: the same errors, affected rows, kinds of warnings and
//! rows, with near-data processing off and on.
//!
//! `PERIGEE_MODES` sets the number of statements, `PERIGEE_SEED` the seed. Not compared: which of several numbers a
//! warning about a value has, since MySQL and MariaDB differ, and how often it is said; LIKE with NO_BACKSLASH_ESCAPES,
//! where MySQL has no escape character and MariaDB the backslash.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded, Rows, WorkloadError};

/// Statements in one set of modes.
const PER_MODE: usize = 8;

/// Differences that are shown.
const SHOWN: usize = 20;

/// The modes that may be set, each by itself.
const MODES: [&str; 10] = [
    "STRICT_TRANS_TABLES",
    "STRICT_ALL_TABLES",
    "ERROR_FOR_DIVISION_BY_ZERO",
    "NO_ZERO_DATE",
    "ANSI_QUOTES",
    "PIPES_AS_CONCAT",
    "NO_BACKSLASH_ESCAPES",
    "HIGH_NOT_PRECEDENCE",
    "NO_UNSIGNED_SUBTRACTION",
    "NO_AUTO_VALUE_ON_ZERO",
];

const TABLE: &str = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, i TINYINT, u INT UNSIGNED NOT NULL, \
    d DECIMAL(5,2), s VARCHAR(3), c CHAR(2) NOT NULL, e ENUM('a','b'), n INT NOT NULL DEFAULT 7, f DOUBLE, \
    dt DATE, tm DATETIME, t TIME, KEY (i), KEY (dt))";

/// A column and values for it, of which many do not fit.
const COLUMNS: [(&str, &[&str]); 11] = [
    (
        "i",
        &[
            "1", "-128", "300", "-300", "'12abc'", "'abc'", "NULL", "3.5", "''", "1/0", "5 % 0",
        ],
    ),
    (
        "u",
        &[
            "1",
            "-1",
            "4294967296",
            "NULL",
            "'7x'",
            "1e20",
            "'-5'",
            "DEFAULT",
        ],
    ),
    (
        "d",
        &[
            "1.005", "1000", "-1000", "'1.5x'", "'x'", "NULL", "99.999", "7 DIV 0",
        ],
    ),
    (
        "s",
        &[
            "'abc'",
            "'abcd'",
            "'äöüß'",
            "NULL",
            "12345",
            "'a  '",
            "'a\\\\b'",
            "'1' || '0'",
        ],
    ),
    ("c", &["'ab'", "'abc'", "NULL", "''", "123", "DEFAULT"]),
    ("e", &["'a'", "'z'", "NULL", "2", "7", "''"]),
    (
        "n",
        &[
            "1",
            "NULL",
            "'x'",
            "99999999999",
            "DEFAULT",
            "NOT 1 BETWEEN -5 AND 5",
        ],
    ),
    ("f", &["1.5", "'1e400'", "'x'", "NULL", "1/0e0", "'1.5z'"]),
    (
        "dt",
        &[
            "'2024-02-29'",
            "'2023-02-29'",
            "'abc'",
            "'0000-00-00'",
            "NULL",
            "20240131",
            "'2024-01-15abc'",
            "0",
        ],
    ),
    (
        "tm",
        &[
            "'2024-02-29 10:11:12'",
            "'2024-02-30 10:11:12'",
            "'0000-00-00'",
            "'x'",
            "NULL",
            "'2024-01-15 25:00:00'",
        ],
    ),
    (
        "t",
        &[
            "'10:11:12'",
            "'900:00:00'",
            "'-900:00:00'",
            "'abc'",
            "NULL",
            "101112",
        ],
    ),
];

/// Expressions whose meaning modes change.
const EXPRESSIONS: [&str; 11] = [
    "1 || 0",
    "'a' || 'b' || 'c' = 'abc'",
    "NOT 0 = 0",
    "NOT 1 BETWEEN -5 AND 5",
    "CAST(3 AS UNSIGNED) - 5",
    "u - 10",
    "LENGTH('a\\\\b')",
    "\"s\"",
    "i / 0",
    "id MOD 0",
    "YEAR(dt) + MONTH(tm)",
];

const CONDITIONS: [&str; 8] = [
    "id < 20",
    "i > 0 OR u > 0",
    "dt < '2024-01-01'",
    "dt = '2024-02-29'",
    "tm IS NULL",
    "s || 'x' <> ''",
    "YEAR(dt) = 0",
    "NOT i = 1",
];

fn columns_and_values(rng: &mut Rng) -> (Vec<&'static str>, Vec<&'static [&'static str]>) {
    let chosen = COLUMNS.iter().filter(|_| rng.between(0, 2) == 0);
    let chosen: Vec<_> = chosen.copied().collect();
    chosen.into_iter().unzip()
}

fn insert(rng: &mut Rng) -> String {
    let verb = *rng.choose(&["INSERT", "INSERT", "INSERT IGNORE", "REPLACE"]);
    let (names, values) = columns_and_values(rng);
    let row = |rng: &mut Rng| {
        let mut row = rng.between(1, 40).to_string();
        for values in &values {
            row = format!("{row}, {}", rng.choose(values));
        }
        row
    };
    let names: String = names.iter().map(|name| format!(", {name}")).collect();
    let rows = match rng.between(0, 3) {
        0 => {
            let row = row(rng).replace("DEFAULT", "1");
            format!("SELECT {row}")
        }
        count => {
            let rows: Vec<_> = (0..count).map(|_| format!("({})", row(rng))).collect();
            format!("VALUES {}", rows.join(", "))
        }
    };
    format!("{verb} INTO t (id{names}) {rows}")
}

fn update(rng: &mut Rng) -> String {
    let ignore = rng.choose::<&str>(&["", "IGNORE "]);
    let (name, values) = *rng.choose(&COLUMNS);
    let value = *rng.choose(values);
    format!(
        "UPDATE {ignore}t SET {name} = {value} WHERE id = {}",
        rng.between(1, 40)
    )
}

fn statement(rng: &mut Rng) -> String {
    match rng.between(0, 9) {
        0..=5 => insert(rng),
        6..=8 => update(rng),
        _ => format!("DELETE FROM t WHERE id = {}", rng.between(1, 40)),
    }
}

fn query(rng: &mut Rng) -> String {
    let (expression, condition) = (*rng.choose(&EXPRESSIONS), *rng.choose(&CONDITIONS));
    format!("SELECT id, {expression} FROM t WHERE {condition} ORDER BY id")
}

fn errno(error: &WorkloadError) -> u16 {
    let code = error.code();
    code.unwrap_or_else(|| panic!("no answer of a server: {error}"))
}

/// What kinds of warnings there are; those about values are one kind.
async fn warnings(client: &mut Client) -> BTreeSet<String> {
    let rows = client.query("SHOW WARNINGS").await.unwrap();
    let kinds = rows
        .iter()
        .filter(|row| row[0].as_deref() == Some("Warning"));
    let kind = |row: &Vec<Option<String>>| match row[1].as_deref() {
        Some("1264" | "1265" | "1292" | "1366") => "value".to_owned(),
        other => other.unwrap_or_default().to_owned(),
    };
    kinds.map(kind).collect()
}

/// What became of a statement.
#[derive(Debug, PartialEq)]
struct Outcome {
    affected: Result<u64, u16>,
    warnings: BTreeSet<String>,
    rows: Rows,
}

async fn change(client: &mut Client, sql: &str) -> Outcome {
    let affected = client.execute(sql).await.map_err(|error| errno(&error));
    let warnings = match affected {
        Ok(_) => warnings(client).await,
        Err(_) => BTreeSet::new(),
    };
    Outcome {
        affected,
        warnings,
        rows: client.query("SELECT * FROM t ORDER BY id").await.unwrap(),
    }
}

async fn answer(client: &mut Client, sql: &str) -> Result<Rows, u16> {
    client.query(sql).await.map_err(|error| errno(&error))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_modes_mean_what_they_mean_in_mariadb() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--innodb-buffer-pool-size=32M"];
    let mariadb = MariaDb::start(&dir.path().join("mariadb"), &args).unwrap();
    let mut theirs = Client::connect_socket(&mariadb.socket(), None)
        .await
        .unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let mut server = Embedded::start(&binary, &dir.path().join("plain"), &[]).unwrap();
    let mut ours = server.client(None).await.unwrap();
    ours.execute("SET ndp_min_pages = 0").await.unwrap();
    let names = "SET NAMES utf8mb4 COLLATE utf8mb4_bin";
    theirs.execute(names).await.unwrap();
    let schema = "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
    for client in [&mut theirs, &mut ours] {
        for sql in [schema, "USE d", TABLE] {
            client.execute(sql).await.unwrap();
        }
    }
    let number = |name: &str, otherwise: usize| {
        let given = std::env::var(name).ok();
        given.map_or(otherwise, |text| text.parse().unwrap())
    };
    let (count, seed) = (number("PERIGEE_MODES", 400), number("PERIGEE_SEED", 1));
    let mut rng = Rng(seed as u64);
    let (mut wrong, mut failed) = (Vec::new(), 0);
    for at in 0..count {
        let mut mode = String::new();
        if at % PER_MODE == 0 {
            let modes: Vec<_> = MODES
                .iter()
                .filter(|_| rng.between(0, 2) == 0)
                .copied()
                .collect();
            mode = format!("SET sql_mode = '{}'", modes.join(","));
            theirs.execute(&mode).await.unwrap();
            ours.execute(&mode).await.unwrap();
        }
        let sql = statement(&mut rng);
        let (expected, found) = (
            change(&mut theirs, &sql).await,
            change(&mut ours, &sql).await,
        );
        failed += usize::from(expected.affected.is_err());
        if expected != found {
            wrong.push(format!("{mode}\n{sql}\nhere {found:?}\nthere {expected:?}"));
            // They go on from the same rows.
            for client in [&mut theirs, &mut ours] {
                client.execute("DELETE FROM t").await.unwrap();
            }
        }
        let sql = query(&mut rng);
        let expected = answer(&mut theirs, &sql).await;
        for ndp in ["OFF", "ON"] {
            ours.execute(&format!("SET ndp_mode = {ndp}"))
                .await
                .unwrap();
            let found = answer(&mut ours, &sql).await;
            if found != expected {
                wrong.push(format!(
                    "{mode}\n{sql}\nNDP {ndp}: here {found:?}\nthere {expected:?}"
                ));
            }
        }
    }
    println!(
        "{count} statements, {failed} of which fail; {} differ",
        wrong.len()
    );
    for text in wrong.iter().take(SHOWN) {
        println!("\n{text}");
    }
    server.stop().unwrap();
    assert!(wrong.is_empty(), "{} outcomes differ", wrong.len());
    assert!(failed * 2 < count, "most statements succeed");
}
