//! Random documents in JSON_TABLE against MariaDB: the same rows, for documents of a table and alone. Columns of documents
//! with words are strings, since MariaDB makes numbers of words.
//!
//! `PERIGEE_JSON_TABLES` sets the number of queries, `PERIGEE_SEED` the seed. Defaults are numbers, which both write the same
//! way; other differences are in `docs/sql.md`.
#![allow(clippy::unwrap_used, reason = "test code")]

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded};

/// Differences that are shown.
const SHOWN: usize = 10;

/// Documents in the table.
const DOCUMENTS: i64 = 30;

fn number_of(variable: &str, default: usize) -> usize {
    let text = std::env::var(variable).ok();
    text.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// A JSON value with few names, perhaps with words.
fn value(rng: &mut Rng, words: bool, depth: i64) -> String {
    match rng.between(0, if depth > 0 { 7 } else { 3 }) {
        0 => "null".to_owned(),
        1 => rng.between(-9, 99).to_string(),
        3 if words => format!("\"{}\"", rng.choose(&["x", "yz", "ä", "long text"])),
        2 | 3 => format!("\"{}\"", rng.between(0, 999)),
        4 | 5 => {
            let values: Vec<String> = (0..rng.between(0, 3))
                .map(|_| value(rng, words, depth - 1))
                .collect();
            format!("[{}]", values.join(", "))
        }
        _ => {
            let mut members = Vec::new();
            for name in ["a", "b", "c"] {
                if rng.chance(2) {
                    members.push(format!("\"{name}\": {}", value(rng, words, depth - 1)));
                }
            }
            format!("{{{}}}", members.join(", "))
        }
    }
}

fn path(rng: &mut Rng) -> &'static str {
    rng.choose::<&str>(&["$", "$.a", "$.b", "$.c", "$.a.b", "$[0]", "$.b[1]"])
}

/// A list of columns, whose names begin with a number.
fn columns(rng: &mut Rng, names: &mut usize, ty: &str, depth: i64) -> String {
    let mut columns = Vec::new();
    for _ in 0..rng.between(1, 3) {
        *names += 1;
        let name = format!("c{names}");
        columns.push(match rng.between(0, 6) {
            0 => format!("{name} FOR ORDINALITY"),
            1 => format!("{name} INT EXISTS PATH '{}'", path(rng)),
            2 if depth > 0 => {
                let rows = rng.choose(&["$[*]", "$.a[*]", "$.b[*]", "$.*", "$.c"]);
                format!(
                    "NESTED PATH '{rows}' COLUMNS ({})",
                    columns_below(rng, names, ty, depth)
                )
            }
            3 => format!(
                "{name} {ty} PATH '{}' DEFAULT '7' ON EMPTY DEFAULT '8' ON ERROR",
                path(rng)
            ),
            4 => format!(
                "{name} VARCHAR(20) PATH '{}' DEFAULT '9' ON EMPTY",
                path(rng)
            ),
            5 => format!("{name} VARCHAR(20) PATH '{}'", path(rng)),
            _ => format!("{name} {ty} PATH '{}'", path(rng)),
        });
    }
    columns.join(", ")
}

fn columns_below(rng: &mut Rng, names: &mut usize, ty: &str, depth: i64) -> String {
    columns(rng, names, ty, depth - 1)
}

fn query(rng: &mut Rng) -> String {
    let rows = rng.choose(&["$", "$[*]", "$.a[*]", "$.a", "$.*"]);
    let words = rng.chance(2);
    let (table, ty) = match words {
        true => ("w", "VARCHAR(20)"),
        false => ("n", "INT"),
    };
    let columns = columns(rng, &mut 0, ty, 2);
    match rng.chance(3) {
        true => {
            let document = value(rng, words, 4);
            format!("SELECT * FROM JSON_TABLE('{document}', '{rows}' COLUMNS ({columns})) t")
        }
        false => {
            let join = rng.choose(&[
                "FROM TABLE d JOIN JSON_TABLE(d.j, ROWS) t",
                "FROM TABLE d LEFT JOIN JSON_TABLE(d.j, ROWS) t ON 1 = 1",
            ]);
            let rows = format!("'{rows}' COLUMNS ({columns})");
            let from = join.replace("TABLE d", &format!("{table} d"));
            format!("SELECT d.id, t.* {}", from.replace("ROWS", &rows))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_documents_are_those_of_mariadb() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(&dir.path().join("mariadb"), &[]).unwrap();
    let mut theirs = Client::connect_socket(&mariadb.socket(), None)
        .await
        .unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let server = Embedded::start(&binary, &dir.path().join("plain"), &[]).unwrap();
    let mut ours = server.client(None).await.unwrap();
    let mut rng = Rng(number_of("PERIGEE_SEED", 1) as u64);
    let inserts = [("n", false), ("w", true)].map(|(table, words)| {
        let rows = (1..=DOCUMENTS).map(|id| match id % 10 {
            0 => format!("({id}, NULL)"),
            _ => format!("({id}, '{}')", value(&mut rng, words, 4)),
        });
        let rows: Vec<String> = rows.collect();
        format!("INSERT INTO {table} VALUES {}", rows.join(", "))
    });
    for client in [&mut ours, &mut theirs] {
        for sql in [
            "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "USE d",
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
            "CREATE TABLE n (id INT PRIMARY KEY, j LONGTEXT)",
            "CREATE TABLE w LIKE n",
            &inserts[0],
            &inserts[1],
        ] {
            client.execute(sql).await.unwrap();
        }
    }
    let (mut equal, mut wrong) = (0, Vec::new());
    for _ in 0..number_of("PERIGEE_JSON_TABLES", 400) {
        let sql = query(&mut rng);
        let code = |error: perigee_workload::WorkloadError| error.code().unwrap_or_default();
        let mut both = [
            ours.query(&sql).await.map_err(code),
            theirs.query(&sql).await.map_err(code),
        ];
        if sql.contains("JOIN") {
            // The rows of a table come in any order.
            both.iter_mut().flatten().for_each(|rows| rows.sort());
        }
        let [here, there] = both;
        match here == there {
            true => equal += 1,
            false => wrong.push(format!("{sql}\n  here  {here:?}\n  there {there:?}")),
        }
    }
    println!("{equal} equal, {} wrong", wrong.len());
    for text in wrong.iter().take(SHOWN) {
        println!("\n{text}");
    }
    assert!(wrong.is_empty(), "{} answers differ", wrong.len());
}
