//! Random stored procedures and triggers against MariaDB: the same errors, and the same rows in the table that they write
//! what they do to.
//!
//! `PERIGEE_PROGRAMS` sets their number, `PERIGEE_SEED` the seed.
#![allow(clippy::unwrap_used, reason = "test code")]

mod triggers;
mod writer;

use std::fmt::Write;

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded, WorkloadError};
use writer::Writer;

/// Differences that are shown.
const SHOWN: usize = 10;

/// A procedure.
fn procedure(rng: &mut Rng) -> String {
    let mut writer = Writer {
        rng,
        text: String::new(),
        labels: Vec::new(),
        last: 0,
        integers: 2,
        row: &[],
        changes_row: false,
    };
    writer.steps(0);
    writer.steps(0);
    writer.log("end");
    // Few programs come to their end without one.
    let handler = match writer.rng.chance(4) {
        true => "",
        false => {
            "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION INSERT INTO log (what) VALUES ('at last');\n"
        }
    };
    format!(
        "CREATE PROCEDURE p(p INT, INOUT io INT)\nBEGIN\nDECLARE i0 INT DEFAULT 1;\nDECLARE i1 SMALLINT;\n\
         DECLARE t VARCHAR(12) DEFAULT 'x';\n{handler}{}SET io = i0;\nEND",
        writer.text
    )
}

const SET_UP: [&str; 6] = [
    "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "USE d",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "CREATE TABLE d (k INT PRIMARY KEY, v INT, s VARCHAR(12))",
    "CREATE TABLE log (n INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20), v INT, t VARCHAR(12))",
    "CREATE PROCEDURE called(a INT, INOUT b INT) BEGIN IF a > 60 THEN SIGNAL SQLSTATE '45000' \
     SET MYSQL_ERRNO = 1001; END IF; SET b = a - b; INSERT INTO log (what, v) VALUES ('called', a); END",
];

/// What a statement comes to.
async fn outcome(client: &mut Client, sql: &str) -> Result<(), Option<u16>> {
    match client.execute(sql).await {
        Ok(_) => Ok(()),
        Err(error @ WorkloadError::Client { .. }) => Err(error.code()),
        Err(error) => panic!("{error}\n{sql}"),
    }
}

/// The rows of queries.
async fn shown(client: &mut Client, queries: &[&str]) -> String {
    let mut left = String::new();
    for sql in queries {
        let rows = client.query(sql).await.unwrap();
        for row in rows {
            let cells: Vec<_> = row
                .iter()
                .map(|cell| cell.as_deref().unwrap_or("NULL"))
                .collect();
            let _ = writeln!(left, "{}", cells.join("|"));
        }
    }
    left
}

/// What a call comes to: its error, and what it left.
async fn called(client: &mut Client, argument: i64) -> (Result<(), Option<u16>>, String) {
    for sql in [
        "DELETE FROM d",
        "TRUNCATE TABLE log",
        "INSERT INTO d VALUES (1, 10, 'one'), (2, NULL, 'two'), (5, 50, NULL), (9, -4, 'nine 9')",
        "SET @u = NULL, @io = 7",
    ] {
        client.execute(sql).await.unwrap();
    }
    let outcome = outcome(client, &format!("CALL p({argument}, @io)")).await;
    let queries = [
        "SELECT what, v, t FROM log ORDER BY n",
        "SELECT * FROM d ORDER BY k",
        "SELECT @u, @io",
    ];
    let left = shown(client, &queries).await;
    (outcome, left)
}

/// A number that the environment may set.
fn number(name: &str, otherwise: usize) -> usize {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |text| text.parse().unwrap())
}

/// A MariaDB, a server of ours, and a client of each, set up alike.
struct Both {
    _mariadb: MariaDb,
    server: Embedded,
    theirs: Client,
    ours: Client,
}

impl Both {
    async fn start(dir: &std::path::Path) -> Self {
        let args = ["--innodb-buffer-pool-size=32M"];
        let mariadb = MariaDb::start(&dir.join("mariadb"), &args).unwrap();
        let socket = mariadb.socket();
        let theirs = Client::connect_socket(&socket, None);
        let mut theirs = theirs.await.unwrap();
        let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
        let server = Embedded::start(&binary, &dir.join("plain"), &[]).unwrap();
        let mut ours = server.client(None).await.unwrap();
        let mode = "SET sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE'";
        for client in [&mut theirs, &mut ours] {
            client.execute(mode).await.unwrap();
            for sql in SET_UP {
                client.execute(sql).await.unwrap();
            }
        }
        Self {
            _mariadb: mariadb,
            server,
            theirs,
            ours,
        }
    }

    /// Has both run a statement that works.
    async fn run(&mut self, sql: &str) {
        for client in [&mut self.theirs, &mut self.ours] {
            let done = client.execute(sql).await;
            done.unwrap_or_else(|e| panic!("{e}\n{sql}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_programs_do_what_mariadbs_do() {
    let dir = tempfile::tempdir().unwrap();
    let mut both = Both::start(dir.path()).await;
    let (count, seed) = (number("PERIGEE_PROGRAMS", 60), number("PERIGEE_SEED", 1));
    let mut rng = Rng(seed as u64 | 1);
    let (mut wrong, mut failed, mut calls) = (Vec::new(), 0, 0);
    for _ in 0..count {
        let text = procedure(&mut rng);
        both.run(&text).await;
        for argument in [3, rng.between(-9, 70)] {
            calls += 1;
            let expected = called(&mut both.theirs, argument).await;
            let found = called(&mut both.ours, argument).await;
            failed += usize::from(expected.0.is_err());
            if expected != found {
                wrong.push(format!(
                    "{text}\nCALL p({argument}, @io)\nhere {:?}\n{}\nthere {:?}\n{}",
                    found.0, found.1, expected.0, expected.1
                ));
            }
        }
        both.run("DROP PROCEDURE p").await;
    }
    println!(
        "{calls} calls, {failed} of which fail; {} differ",
        wrong.len()
    );
    for text in wrong.iter().take(SHOWN) {
        println!("\n{text}");
    }
    both.server.stop().unwrap();
    assert!(wrong.is_empty(), "{} outcomes differ", wrong.len());
    assert!(failed * 2 < calls, "most calls succeed");
}
