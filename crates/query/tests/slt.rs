//! Runs the text files in `tests/slt`: statements with the answers they must give, over real stores
//! on disk, with near-data processing off and on (with no threshold), and on in ways that storage
//! makes difficult, with the same answers.
//!
//! They run with little memory, too: a statement then has the same answer, or error 1038, and the same answer when
//! it is run again with more. `PERIGEE_MEMORY=all` does so with all files, otherwise some are chosen.
//!
//! A file is a list of records separated by empty lines:
//!
//! ```text
//! ok [affected [info]]    error 1146[/42S02] [text]       query [sort]
//! UPDATE t …              SELECT * FROM nope              SELECT …
//!                                                         ----
//!                                                         1|abc|NULL
//! ```
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

mod common;

use std::fmt::Write;

use common::{Fixture, Setup, explained_in_all_forms, rows_of};
use perigee_engine::EngineConfig;
use perigee_query::{Collected, Session, SqlError};

struct Record<'a> {
    line: usize,
    head: &'a str,
    sql: String,
    expected: Vec<&'a str>,
}

fn records(text: &str) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, head)) = lines.next() {
        if head.trim().is_empty() || head.starts_with('#') {
            continue;
        }
        let mut record = Record {
            line: number + 1,
            head,
            sql: String::new(),
            expected: Vec::new(),
        };
        let mut in_rows = false;
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
            if line == "----" {
                in_rows = true;
            } else if in_rows {
                record.expected.push(line);
            } else {
                let _ = writeln!(record.sql, "{line}");
            }
        }
        records.push(record);
    }
    records
}

/// Ways to run a file: what it is called, the variables to set, how storage and engine are set up.
fn modes() -> Vec<(&'static str, &'static str, Setup)> {
    let on = "SET ndp_mode = ON, ndp_min_pages = 0";
    let past_pool = EngineConfig {
        past_pool: true,
        ..EngineConfig::default()
    };
    let split = Setup {
        engine: EngineConfig {
            split_behind_scans: true,
            ..past_pool.clone()
        },
        ..Setup::default()
    };
    let hostile = Setup {
        engine: EngineConfig {
            all_ambiguous: true,
            interpret: true,
            ..past_pool
        },
        pages: perigee_page_store::Config {
            decline_every: Some(3),
            ..perigee_page_store::Config::default()
        },
        ..Setup::default()
    };
    // Joins filter scans even if all rows are expected to pass.
    let filtered = "SET ndp_mode = ON, ndp_min_pages = 0, ndp_max_filter_factor = 1";
    vec![
        ("NDP off", "SET ndp_mode = OFF", Setup::default()),
        ("NDP on", on, Setup::default()),
        ("NDP on, leaves split behind scans", filtered, split),
        ("NDP on, all ambiguous or declined", filtered, hostile),
    ]
}

/// A statement's outcome as the head of a record has it.
fn outcome_of(result: &Collected) -> String {
    match &result.ok {
        Some(ok) => format!("ok {} {} ", ok.affected_rows, ok.info),
        None => "ok ".to_owned(),
    }
}

/// Files that run with little memory in any case.
const LITTLE: [&str; 5] = ["select", "update", "upsert", "collations", "wide"];

/// Bytes that statements may use, where they have little.
const LITTLE_MEMORY: [u64; 3] = [1 << 20, 3 << 20, 64 << 20];

/// Runs a statement with little memory, and with more until that is enough. Some need more than there is.
async fn run_with_little(
    fixture: &Fixture,
    session: &mut Session,
    sql: &str,
) -> Result<Vec<Collected>, SqlError> {
    let mut outcome = Ok(Vec::new());
    for memory in LITTLE_MEMORY {
        // The warnings of the statement before stay, and so does the number of its rows.
        if !sql.starts_with("SHOW") && !sql.contains("ROW_COUNT") {
            let set = format!("SET query_memory_limit = {memory}");
            fixture.run(session, &set).await.unwrap();
        }
        outcome = fixture.run(session, sql).await;
        let lacks_memory =
            |error: &SqlError| (error.errno, error.sqlstate.as_str()) == (1038, "HY001");
        if !outcome.as_ref().is_err_and(lacks_memory) {
            break;
        }
    }
    outcome
}

/// True for one query that looks at nothing that another statement leaves behind.
fn is_plain_query(sql: &str) -> bool {
    let upper = sql.trim_start().to_uppercase();
    let begins = ["SELECT", "WITH", "TABLE"]
        .iter()
        .any(|word| upper.starts_with(word));
    let looks = ["@", "ROW_COUNT", "FOUND_ROWS", "SLEEP", "STATUS"];
    begins
        && !sql.trim_end().trim_end_matches(';').contains(';')
        && !looks.iter().any(|word| upper.contains(word))
}

async fn run_file(name: &str, text: &str, mode: &str, set: &str, setup: Setup, little: bool) {
    let fixture = Fixture::new(setup).await;
    let mut session = fixture.session();
    fixture.run(&mut session, set).await.unwrap();
    fixture
        .run(&mut session, "CREATE DATABASE test; USE test")
        .await
        .unwrap();
    let mut failures = String::new();
    for Record {
        line,
        head,
        sql,
        expected,
    } in records(text)
    {
        if mode == "NDP on" && head.starts_with("query") && is_plain_query(&sql) {
            explained_in_all_forms(&fixture, &mut session, &sql).await;
        }
        let outcome = match little {
            true => run_with_little(&fixture, &mut session, &sql).await,
            false => fixture.run(&mut session, &sql).await,
        };
        let got = match (&outcome, head.split_whitespace().next()) {
            (Ok(results), Some("ok")) => {
                let got = outcome_of(results.last().unwrap());
                if got.starts_with(&format!("{head} ")) {
                    continue;
                }
                got
            }
            (Err(e), Some("error")) => {
                let mut words = head.splitn(3, ' ').skip(1);
                let number = words.next().unwrap_or_default();
                let text = words.next().unwrap_or_default();
                let (errno, state) = number
                    .split_once('/')
                    .unwrap_or((number, e.sqlstate.as_str()));
                let is_it = errno == e.errno.to_string() && state == e.sqlstate.as_str();
                if is_it && e.message.contains(text) {
                    continue;
                }
                format!("{e}")
            }
            (Err(e), _) => format!("{e}"),
            (Ok(results), _) => {
                let mut rows = rows_of(results.last().unwrap());
                let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
                // Some cells have several lines.
                rows = rows
                    .iter()
                    .flat_map(|row| row.split('\n'))
                    .map(str::to_owned)
                    .collect();
                if head.ends_with("sort") {
                    rows.sort();
                    expected.sort();
                }
                if rows == expected && head.starts_with("query") {
                    continue;
                }
                rows.join("\n")
            }
        };
        let _ = writeln!(failures, "{name}:{line} ({mode}): {sql}{got}\n");
    }
    assert!(failures.is_empty(), "\n{failures}");
}

macro_rules! files {
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let text = include_str!(concat!("slt/", stringify!($name), ".slt"));
                for (mode, set, setup) in modes() {
                    run_file(stringify!($name), text, mode, set, setup, false).await;
                }
                let all = std::env::var("PERIGEE_MEMORY").is_ok_and(|files| files == "all");
                if all || LITTLE.contains(&stringify!($name)) {
                    let (_, set, setup) = modes().swap_remove(1);
                    run_file(stringify!($name), text, "little memory", set, setup, true).await;
                }
            }
        )*
    };
}

files!(
    assignments,
    files,
    hints,
    json_table,
    ddl,
    delete,
    digests,
    errors,
    explain,
    insert,
    joins,
    locking,
    sql_modes,
    time_zones,
    zero_dates,
    row_alias,
    select,
    session,
    set_type,
    transactions,
    types,
    update,
    system_views,
    upsert,
    alter,
    long,
    analyze,
    auto_increment,
    binary,
    bit,
    checks,
    collations,
    charsets,
    collations_unicode,
    strict,
    temporal,
    clock,
    unify,
    wide,
    json,
    dumps,
    enums,
    lists,
    signs,
    foreign_keys,
    functions,
    generated_columns,
    prefix_keys,
    procedures,
    triggers,
    functional_keys,
    invisible,
    descending_keys,
    windows,
    between,
    lateral,
    sets,
    subqueries,
    table_locks,
    temporary_tables,
    rollup,
    withs,
    views,
    view_changes,
    accounts,
    aggregates,
    json_functions,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_have_times_and_years() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let table = "CREATE DATABASE test; USE test; \
                 CREATE TABLE t (a TIME(1), s TIMESTAMP, y YEAR)";
    fixture.run(&mut session, table).await.unwrap();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t";
    let file = "-1 01:02:03.25\t20200229120000\t94\n\\N\t\\N\t\\N\n1112\t70-1-2\t0\n";
    let loaded = fixture.run_with(&mut session, load, file.into());
    assert_eq!(
        loaded.await.unwrap()[0].ok.as_ref().unwrap().affected_rows,
        3
    );
    let select = "SELECT * FROM t ORDER BY a";
    let results = fixture.run(&mut session, select).await.unwrap();
    let rows = [
        "NULL|NULL|NULL",
        "-25:02:03.3|2020-02-29 12:00:00|1994",
        "00:11:12.0|1970-01-02 00:00:00|2000",
    ];
    assert_eq!(rows_of(&results[0]), rows);
    for (line, errno) in [
        ("839:00:00\t\\N\t\\N\n", 1292),
        ("\\N\t1970-01-01\t\\N\n", 1292),
        ("\\N\t\\N\t1900\n", 1264),
    ] {
        let loaded = fixture.run_with(&mut session, load, line.into()).await;
        assert_eq!(loaded.unwrap_err().errno, errno, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_have_wide_decimals() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let table = "CREATE DATABASE test; USE test; \
                 CREATE TABLE t (a DECIMAL(65,30), b DECIMAL(39) NOT NULL, KEY (b))";
    fixture.run(&mut session, table).await.unwrap();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t";
    let nines = "9".repeat(35);
    let file = format!("-{nines}.5\t1\n\\N\t-1{}\n1e-30\t1.5\n", "0".repeat(38));
    let loaded = fixture.run_with(&mut session, load, file.into());
    assert_eq!(
        loaded.await.unwrap()[0].ok.as_ref().unwrap().affected_rows,
        3
    );
    let select = "SELECT * FROM t ORDER BY b";
    let results = fixture.run(&mut session, select).await.unwrap();
    let rows = [
        format!("NULL|-1{}", "0".repeat(38)),
        format!("-{nines}.5{}|1", "0".repeat(29)),
        format!("0.{}1|2", "0".repeat(29)),
    ];
    assert_eq!(rows_of(&results[0]), rows);
    for (line, errno) in [
        (format!("1{}\t0\n", "0".repeat(35)), 1264),
        (format!("0\t1{}\n", "0".repeat(39)), 1264),
        ("x\t0\n".to_owned(), 1366),
        ("0\t\\N\n".to_owned(), 1048),
    ] {
        let loaded = fixture.run_with(&mut session, load, line.clone().into());
        assert_eq!(loaded.await.unwrap_err().errno, errno, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_files_are_numbered_in_their_order() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let table = "CREATE DATABASE test; USE test; \
                 CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)";
    fixture.run(&mut session, table).await.unwrap();
    let mut load = async |columns: &str, file: String| {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE t {columns}");
        let results = fixture.run_with(&mut session, &sql, file.into_bytes());
        results.await.unwrap()[0].ok.clone().unwrap()
    };
    // Several blocks of lines.
    let rows = 400_000;
    let lines: String = (1..=rows).map(|v| format!("{v}         \n")).collect();
    let ok = load("(v)", lines).await;
    assert_eq!((ok.affected_rows, ok.last_insert_id), (rows, 1));
    let given = "\\N\t-1\n500000\t-2\n0\t-3\n\\N\t-4\n".to_owned();
    let ok = load("", given).await;
    assert_eq!((ok.affected_rows, ok.last_insert_id), (4, rows + 1));
    for (sql, expected) in [
        (
            "SELECT COUNT(*), SUM(id = v) FROM t WHERE v > 0",
            "400000|400000",
        ),
        ("SELECT id FROM t WHERE v = -1", "400001"),
        ("SELECT id FROM t WHERE v = -2", "500000"),
        ("SELECT id FROM t WHERE v = -3", "500001"),
        ("SELECT id FROM t WHERE v = -4", "500002"),
        ("SELECT LAST_INSERT_ID()", "400001"),
    ] {
        let results = fixture.run(&mut session, sql).await.unwrap();
        assert_eq!(rows_of(&results[0]), [expected], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_have_json() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let table = "CREATE DATABASE test; USE test; CREATE TABLE t (id INT PRIMARY KEY, j JSON)";
    fixture.run(&mut session, table).await.unwrap();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t";
    let long = "x".repeat(20_000);
    let file = format!("1\t{{\"b\":[1,2],\"a\":\"{long}\"}}\n2\t\\N\n3\t \"c\\\\t\" \n");
    let loaded = fixture.run_with(&mut session, load, file.into());
    let loaded = loaded.await.unwrap()[0].ok.clone().unwrap();
    assert_eq!(loaded.affected_rows, 3);
    let select = "SELECT id, j FROM t ORDER BY id";
    let results = fixture.run(&mut session, select).await.unwrap();
    let rows = [
        format!("1|{{\"a\": \"{long}\", \"b\": [1, 2]}}"),
        "2|NULL".to_owned(),
        "3|\"c\\t\"".to_owned(),
    ];
    assert_eq!(rows_of(&results[0]), rows);
    let bad = fixture.run_with(&mut session, load, "4\t[1\n".into());
    let error = bad.await.unwrap_err();
    assert_eq!((error.errno, error.sqlstate.as_str()), (3140, "22032"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_has_the_results_of_its_queries_and_one_of_its_own() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let sql = "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY); \
               CREATE PROCEDURE p(n INT) BEGIN SELECT n; INSERT INTO t VALUES (n), (n + 1); SELECT COUNT(*) FROM t; \
               DELETE FROM t WHERE id = n; END; CREATE PROCEDURE q() BEGIN CALL p(3); SELECT 'q'; CALL p(5); END";
    fixture.run(&mut session, sql).await.unwrap();
    let results = fixture.run(&mut session, "CALL q(); SELECT 1").await;
    let shown = |result: &Collected| match &result.ok {
        Some(ok) => format!("ok {}", ok.affected_rows),
        None => rows_of(result).join(";"),
    };
    let shown: Vec<_> = results.unwrap().iter().map(shown).collect();
    assert_eq!(shown, ["3", "2", "q", "5", "3", "ok 1", "1"]);
    // What was sent before an error stays sent.
    fixture.run(&mut session, "CALL p(10)").await.unwrap();
    let failed = fixture.run(&mut session, "CALL p(5)").await;
    assert_eq!(failed.unwrap_err().errno, 1062);
    let names = "SELECT n FROM (SELECT 1 AS n) t";
    fixture.run(&mut session, names).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_loaded_row_by_row() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let table = "CREATE DATABASE test; USE test; \
                 CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(5) NOT NULL DEFAULT 'd', \
                 g INT AS (v * 2), b VARBINARY(4), CHECK (v < 1000))";
    fixture.run(&mut session, table).await.unwrap();
    let all = "SELECT id, v, s, g, HEX(b) FROM t ORDER BY id";
    // What LOAD DATA is given, a file, what comes of it, and the rows that are there then.
    type Outcome<'a> = Result<(u64, &'a str), u16>;
    let cases: &[(&str, &str, Outcome<'_>, &[&str])] = &[
        (
            "INTO TABLE t (id, @v, s) SET v = @v + id, b = REVERSE(s)",
            "1\t10\tab\n2\t-3\t\n",
            Ok((2, "Records: 2  Deleted: 0  Skipped: 0  Warnings: 0")),
            &["1|11|ab|22|6261", "2|-1||-2|"],
        ),
        (
            "REPLACE INTO TABLE t (id, v)",
            "2\t5\n3\t\\N\n",
            Ok((3, "Records: 2  Deleted: 1  Skipped: 0  Warnings: 0")),
            &["1|11|ab|22|6261", "2|5|d|10|NULL", "3|NULL|d|NULL|NULL"],
        ),
        // Of the lines that are no rows only what is wrong is told.
        (
            "IGNORE INTO TABLE t (id, v, s)",
            "1\t1\tx\n4\t12x\ttoo long\n5\t5000\ty\n6\n7\t7\tz\tmore\n",
            Ok((3, "Records: 5  Deleted: 0  Skipped: 2  Warnings: 7")),
            &["4|12|too l|24|NULL", "6|NULL|d|NULL|NULL", "7|7|z|14|NULL"],
        ),
        // Nothing is left of a statement that fails.
        (
            "INTO TABLE t (id, @v) SET v = @v",
            "8\t1\n1\t1\n",
            Err(1062),
            &[],
        ),
        (
            "INTO TABLE t (id, @v) SET v = @v",
            "8\t1\n9\n",
            Err(1261),
            &[],
        ),
        (
            "INTO TABLE t (id, @v) SET v = @v",
            "8\t1\n9\t1\t2\n",
            Err(1262),
            &[],
        ),
        (
            "INTO TABLE t (id, @v) SET v = @v",
            "8\t1\n9\tx\n",
            Err(1366),
            &[],
        ),
        (
            "INTO TABLE t (id, v) SET v = v * 1000",
            "8\t1\n",
            Err(3819),
            &[],
        ),
        ("INTO TABLE t (id, v) SET w = 1", "8\t1\n", Err(1054), &[]),
        ("INTO TABLE t (id, v) SET g = 1", "8\t1\n", Err(3105), &[]),
        (
            "INTO TABLE t (id, v) SET s = nothing",
            "8\t1\n",
            Err(1054),
            &[],
        ),
        // A column that is assigned to has its field until then; a subquery is a value as any other.
        (
            "INTO TABLE t FIELDS TERMINATED BY ',' (id, v, @x, @x) SET v = -v, s = (SELECT MAX(s) FROM t WHERE id < 3)",
            "10,-4,1,2\n11,0.5,,last\n",
            Ok((2, "Records: 2  Deleted: 0  Skipped: 0  Warnings: 0")),
            &["10|4|d|8|NULL", "11|-1|d|-2|NULL"],
        ),
    ];
    let mut rows: Vec<String> = Vec::new();
    for (what, file, outcome, changed) in cases {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' {what}");
        let loaded = fixture.run_with(&mut session, &sql, (*file).into()).await;
        let found = match &loaded {
            Ok(results) => {
                let ok = results[0].ok.as_ref().unwrap();
                Ok((ok.affected_rows, ok.info.as_str()))
            }
            Err(error) => Err(error.errno),
        };
        assert_eq!(found, *outcome, "{what}");
        let id = |row: &String| row.split('|').next().unwrap().parse::<u32>().unwrap();
        rows.retain(|row| changed.iter().all(|new| id(row) != id(&(*new).to_owned())));
        rows.extend(changed.iter().map(|row| (*row).to_owned()));
        rows.sort_by_key(id);
        let results = fixture.run(&mut session, all).await.unwrap();
        assert_eq!(rows_of(&results[0]), rows, "{what}");
    }
    let last = fixture.run(&mut session, "SELECT @x").await.unwrap();
    assert_eq!(rows_of(&last[0]), ["last"]);
    // A name in quotes of that mode; more warnings than any session keeps are counted.
    for sql in [
        "SET sql_mode = 'ANSI_QUOTES', max_error_count = 3",
        "CREATE TABLE \"select\" (id INT PRIMARY KEY)",
    ] {
        fixture.run(&mut session, sql).await.unwrap();
    }
    let load = "LOAD DATA LOCAL INFILE 'f' IGNORE INTO TABLE \"select\" (\"id\")";
    let lines = "7\n".repeat(70_001);
    let loaded = fixture.run_with(&mut session, load, lines.into()).await;
    let info = &loaded.unwrap()[0].ok.as_ref().unwrap().info.clone();
    assert_eq!(
        info,
        "Records: 70001  Deleted: 0  Skipped: 70000  Warnings: 70000"
    );
    let shown = fixture.run(&mut session, "SHOW WARNINGS").await.unwrap();
    assert_eq!(rows_of(&shown[0]).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_is_a_part_of_its_transaction() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let begin = "CREATE DATABASE test; USE test; CREATE TABLE t (id INT PRIMARY KEY, v INT); \
                 BEGIN; INSERT INTO t VALUES (0, 0)";
    fixture.run(&mut session, begin).await.unwrap();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t";
    let lines: String = (1..=20_000).map(|id| format!("{id}\t{id}\n")).collect();
    let loaded = fixture.run_with(&mut session, load, lines.into()).await;
    assert_eq!(
        loaded.unwrap()[0].ok.as_ref().unwrap().affected_rows,
        20_000
    );
    // Of a statement that fails nothing is left; of the transaction all.
    let failed = fixture.run_with(&mut session, load, "30000\t1\n5\t1\n".into());
    assert_eq!(failed.await.unwrap_err().errno, 1062);
    let count = "SELECT COUNT(*), MAX(id) FROM t";
    let results = fixture.run(&mut session, count).await.unwrap();
    assert_eq!(rows_of(&results[0]), ["20001|20000"]);
    let results = fixture
        .run(&mut session, "ROLLBACK; SELECT COUNT(*) FROM t")
        .await;
    assert_eq!(rows_of(results.unwrap().last().unwrap()), ["0"]);
    let read_only = "START TRANSACTION READ ONLY";
    fixture.run(&mut session, read_only).await.unwrap();
    let refused = fixture.run_with(&mut session, load, "1\t1\n".into()).await;
    assert_eq!(refused.unwrap_err().errno, 1792);
}

/// Both ways of LOAD DATA read TIMESTAMPs in the time zone of the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_loaded_in_the_time_zone() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let table = "CREATE DATABASE test; USE test; SET time_zone = 'Europe/Berlin'; \
                 CREATE TABLE t (id INT PRIMARY KEY, s TIMESTAMP NULL, d DATETIME AS (s) STORED)";
    fixture.run(&mut session, table).await.unwrap();
    for (what, file) in [
        ("INTO TABLE t (id, s)", "1\t2024-06-01 12:00:00\n2\t\\N\n"),
        ("IGNORE INTO TABLE t (id, s)", "3\t2024-06-01 12:00:00\n"),
    ] {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' {what}");
        let loaded = fixture.run_with(&mut session, &sql, file.into()).await;
        loaded.unwrap();
    }
    let skipped = "4\t2024-03-31 02:30:00\n";
    let sql = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t (id, s)";
    let refused = fixture.run_with(&mut session, sql, skipped.into()).await;
    assert_eq!(refused.unwrap_err().errno, 1292);
    let all = "SET time_zone = 'UTC'; SELECT * FROM t ORDER BY id";
    let results = fixture.run(&mut session, all).await.unwrap();
    let rows = [
        "1|2024-06-01 10:00:00|2024-06-01 12:00:00",
        "2|NULL|NULL",
        "3|2024-06-01 10:00:00|2024-06-01 12:00:00",
    ];
    assert_eq!(rows_of(results.last().unwrap()), rows);
}

/// A constant beside a TIMESTAMP is compared in storage, in whatever zone it was written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_a_zone_are_compared_in_storage() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let table = "CREATE DATABASE test; USE test; SET ndp_mode = ON, ndp_min_pages = 0; \
                 CREATE TABLE t (id INT PRIMARY KEY, s TIMESTAMP NULL)";
    fixture.run(&mut session, table).await.unwrap();
    let rows: Vec<String> = (1..2000)
        .map(|id| format!("({id}, FROM_UNIXTIME({id} * 60))"))
        .collect();
    let insert = format!("INSERT INTO t VALUES {}; ANALYZE TABLE t", rows.join(","));
    fixture.run(&mut session, &insert).await.unwrap();
    let mut plans = Vec::new();
    for (zone, constant) in [("+00:00", "05:00:00"), ("+02:00", "07:00:00")] {
        let sql = format!(
            "SET time_zone = '{zone}'; \
             EXPLAIN FORMAT=ENGINE SELECT id FROM t WHERE s < '1970-01-01 {constant}'"
        );
        let results = fixture.run(&mut session, &sql).await.unwrap();
        plans.push(rows_of(results.last().unwrap()).concat());
    }
    assert!(plans[0].contains("< 18000000000"), "{}", plans[0]);
    assert!(plans[0].contains("filter=true"), "{}", plans[0]);
    assert_eq!(plans[0], plans[1]);
}
