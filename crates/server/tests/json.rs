//! JSON against MariaDB: random documents in normal form, the same questions, the same answers.
//!
//! MariaDB keeps JSON as the text that it was given, does not know its order, and takes some texts
//! and paths that MySQL refuses; the questions are those in which it agrees with MySQL.
#![allow(clippy::unwrap_used, reason = "test code")]

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded};

/// Rows of the table.
const ROWS: usize = 60;

/// Questions about it.
const QUESTIONS: usize = 400;

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A scalar in normal form.
fn scalar(rng: &mut Rng) -> String {
    match rng.between(0, 6) {
        0 | 1 => rng.between(-3, 12).to_string(),
        2 => format!("{}.5", rng.between(0, 4)),
        3 => (*rng.choose(&["true", "false", "null"])).to_owned(),
        4 => "1234567890123".to_owned(),
        _ => text(rng),
    }
}

fn text(rng: &mut Rng) -> String {
    let texts = [
        "a",
        "b",
        "ab",
        "é",
        "x y",
        "",
        "B",
        "10",
        "\\\"q\\\"",
        "\\\\",
    ];
    format!("\"{}\"", rng.choose(&texts))
}

/// A document in normal form, `depth` levels deep at most.
fn document(rng: &mut Rng, depth: usize) -> String {
    match rng.between(0, 5) {
        _ if depth == 0 => scalar(rng),
        0 | 1 => scalar(rng),
        2 | 3 => {
            let count = rng.between(0, 4);
            let elements: Vec<_> = (0..count).map(|_| document(rng, depth - 1)).collect();
            format!("[{}]", elements.join(", "))
        }
        _ => object(rng, depth),
    }
}

fn object(rng: &mut Rng, depth: usize) -> String {
    let mut members = Vec::new();
    for name in ["a", "b", "c", "é", "x y"] {
        if rng.chance(2) {
            members.push(format!("\"{name}\": {}", document(rng, depth - 1)));
        }
    }
    format!("{{{}}}", members.join(", "))
}

/// An object with members of one type each: `n` a number, `s` a text.
fn row(rng: &mut Rng) -> String {
    let mut members = Vec::new();
    if !rng.chance(5) {
        members.push(format!("\"d\": {}", document(rng, 3)));
    }
    if !rng.chance(5) {
        let number = match rng.chance(3) {
            true => format!("{}.5", rng.between(0, 9)),
            false => rng.between(-5, 15).to_string(),
        };
        members.push(format!("\"n\": {number}"));
    }
    if !rng.chance(5) {
        members.push(format!("\"s\": {}", text(rng)));
    }
    format!("{{{}}}", members.join(", "))
}

fn path(rng: &mut Rng, wild: bool) -> String {
    // Without `**`, which does not go into arrays there.
    let mut path = "$.d".to_owned();
    for _ in 0..rng.between(0, 3) {
        path.push_str(match rng.between(0, if wild { 7 } else { 5 }) {
            0 | 1 => ".a",
            2 => ".b",
            3 => ".\"x y\"",
            4 => "[0]",
            5 => "[1]",
            6 => ".*",
            _ => "[*]",
        });
    }
    path
}

fn question(rng: &mut Rng) -> String {
    let single = quoted(&path(rng, false));
    let any = quoted(&path(rng, true));
    let candidate = quoted(&match rng.chance(2) {
        true => scalar(rng),
        false => document(rng, 1),
    });
    let number = rng.between(-5, 15);
    let word = text(rng).trim_matches('"').replace('\\', "");
    let comparison = *rng.choose(&["=", "<>", "<", "<=", ">", ">="]);
    match rng.between(0, 13) {
        0 => format!("SELECT id, JSON_EXTRACT(j, {any}) FROM t ORDER BY id"),
        1 => format!("SELECT id, JSON_UNQUOTE(JSON_EXTRACT(j, {single})) FROM t ORDER BY id"),
        2 => format!("SELECT id, JSON_TYPE(JSON_EXTRACT(j, {single})) FROM t ORDER BY id"),
        3 => format!("SELECT id, JSON_LENGTH(j, {single}), JSON_DEPTH(j) FROM t ORDER BY id"),
        4 => format!("SELECT id, JSON_KEYS(j, {single}) FROM t ORDER BY id"),
        // Of a path that leads nowhere MariaDB says 0, MySQL NULL.
        5 => format!(
            "SELECT id, JSON_CONTAINS(j, {candidate}, {single}) FROM t \
             WHERE JSON_CONTAINS_PATH(j, 'one', {single}) ORDER BY id"
        ),
        6 => format!(
            "SELECT id, JSON_CONTAINS_PATH(j, 'one', {any}, '$.s'), \
             JSON_CONTAINS_PATH(j, 'all', {any}, '$.s') FROM t ORDER BY id"
        ),
        7 => format!(
            "SELECT id FROM t WHERE JSON_EXTRACT(j, '$.n') {comparison} {number} ORDER BY id"
        ),
        8 => format!(
            "SELECT id FROM t WHERE JSON_EXTRACT(j, '$.s') {comparison} '{word}' ORDER BY id"
        ),
        9 => format!(
            "SELECT id, JSON_EXTRACT(JSON_SET(j, {single}, {number}), {single}), \
             JSON_LENGTH(JSON_INSERT(j, '$.n', 1, '$.m', 2)), \
             JSON_EXTRACT(JSON_REPLACE(j, '$.s', {candidate}), '$.s') FROM t ORDER BY id"
        ),
        10 => "SELECT id, JSON_LENGTH(JSON_REMOVE(j, '$.n', '$.d')) FROM t ORDER BY id".to_owned(),
        11 => format!(
            "SELECT SUM(JSON_EXTRACT(j, '$.n')), COUNT(JSON_EXTRACT(j, {single})) FROM t \
             WHERE JSON_EXTRACT(j, '$.n') > {number} AND id % 2 = 0"
        ),
        12 => format!(
            "SELECT id, JSON_ARRAY(id, JSON_UNQUOTE(JSON_EXTRACT(j, '$.s')), NULL, 1.5), \
             JSON_OBJECT('a', id, 'b', '{word}') FROM t ORDER BY id"
        ),
        _ => format!(
            "SELECT id, JSON_QUOTE(JSON_UNQUOTE(JSON_EXTRACT(j, '$.s'))), \
             CAST(JSON_EXTRACT(j, '$.n') AS SIGNED) FROM t \
             WHERE JSON_EXTRACT(j, '$.n') = {number} ORDER BY id"
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_has_mariadbs_answers() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(&dir.path().join("mariadb"), &[]);
    let mariadb = mariadb.expect("MariaDB is needed for this test");
    let mut theirs = Client::connect_socket(&mariadb.socket(), None)
        .await
        .unwrap();
    let set = "SET NAMES utf8mb4 COLLATE utf8mb4_bin";
    theirs.execute(set).await.unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let mut server = Embedded::start(&binary, &dir.path().join("perigee"), &[]).unwrap();
    let mut ours = server.client(None).await.unwrap();
    let set = "SET ndp_mode = ON, ndp_min_pages = 0";
    ours.execute(set).await.unwrap();
    let mut rng = Rng(1);
    let rows: Vec<_> = (0..ROWS)
        .map(|id| format!("({id}, {})", quoted(&row(&mut rng))))
        .collect();
    for statement in [
        "CREATE DATABASE json".to_owned(),
        "USE json".to_owned(),
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON)".to_owned(),
        format!("INSERT INTO t VALUES {}", rows.join(", ")),
    ] {
        theirs.execute(&statement).await.unwrap();
        ours.execute(&statement).await.unwrap();
    }
    let whole = "SELECT id, j FROM t ORDER BY id";
    assert_eq!(
        ours.query(whole).await.unwrap(),
        theirs.query(whole).await.unwrap()
    );
    let mut wrong = Vec::new();
    let mut values = 0;
    for _ in 0..QUESTIONS {
        let sql = question(&mut rng);
        let there = theirs.query(&sql).await.unwrap();
        let here = match ours.query(&sql).await {
            Ok(rows) => rows,
            Err(error) => {
                wrong.push(format!("{sql}\n    {error}"));
                continue;
            }
        };
        values += here.iter().flatten().flatten().count();
        let mut pairs = here.iter().zip(&there).filter(|(a, b)| a != b);
        if here.len() != there.len() {
            wrong.push(format!(
                "{sql}\n    {} and {} rows",
                here.len(),
                there.len()
            ));
        } else if let Some((a, b)) = pairs.next() {
            wrong.push(format!("{sql}\n    {a:?}\n    {b:?}"));
        }
    }
    ours.close().await.unwrap();
    server.stop().unwrap();
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(values > 10 * QUESTIONS, "answers are not empty");
}
