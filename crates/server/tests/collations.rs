//! Collations against MariaDB: random strings of characters in which collations differ, the same questions with
//! near-data processing off and on, the same answers.
#![allow(clippy::unwrap_used, reason = "test code")]

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded, WorkloadError};

/// Rows of each table.
const ROWS: usize = 150;

/// Questions about each collation.
const QUESTIONS: usize = 150;

/// Collations that MariaDB has, and the characters of their strings.
const COLLATIONS: &[(&str, &[&str])] = &[
    ("utf8mb4_bin", UNICODE),
    ("utf8mb4_general_ci", UNICODE),
    ("utf8mb4_unicode_ci", UNICODE),
    ("utf8mb4_unicode_520_ci", UNICODE),
    ("utf8mb3_unicode_ci", PLANE),
    ("latin1_swedish_ci", WESTERN),
    ("latin1_general_ci", WESTERN),
    ("latin1_bin", WESTERN),
    ("ascii_general_ci", &["a", "A", "b", "B", " ", "", "_", "0"]),
];

const UNICODE: &[&str] = &[
    "a",
    "A",
    "á",
    "b",
    "B",
    "e",
    "e\u{301}",
    "É",
    "s",
    "ss",
    "ß",
    "ﬁ",
    "fi",
    "ø",
    "o",
    "Ö",
    "я",
    "Я",
    "α",
    "ά",
    "中",
    "豈",
    "가",
    "😀",
    "🚀",
    "\u{10ffff}",
    " ",
    " ",
    "\u{a0}",
    "",
    "_",
    "0",
    "\u{301}",
];
const PLANE: &[&str] = &[
    "a", "A", "á", "b", "ss", "ß", "ﬁ", "ø", "o", "я", "Я", "中", " ", "", "0", "\u{301}",
];
const WESTERN: &[&str] = &[
    "a", "A", "á", "ä", "å", "b", "s", "ss", "ß", "ü", "y", "Ø", "ö", "€", "ÿ", " ", "", "0",
];

fn text(rng: &mut Rng, alphabet: &[&str]) -> String {
    let pieces = (0..rng.between(0, 3)).map(|_| *rng.choose(alphabet));
    pieces.collect::<Vec<_>>().concat()
}

fn literal(rng: &mut Rng, alphabet: &[&str]) -> String {
    format!("'{}'", text(rng, alphabet))
}

fn pattern(rng: &mut Rng, alphabet: &[&str]) -> String {
    let pieces = (0..rng.between(1, 4)).map(|_| match rng.between(0, 5) {
        0 | 1 => "%".to_owned(),
        2 => "_".to_owned(),
        _ => (*rng.choose(alphabet)).to_owned(),
    });
    format!("'{}'", pieces.collect::<Vec<_>>().concat())
}

/// The statements that make the tables of a collation.
fn tables(rng: &mut Rng, collation: &str, alphabet: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for (table, key) in [("t", "KEY (v)"), ("s", "KEY (c, id)")] {
        all.push(format!("DROP TABLE IF EXISTS {table}"));
        all.push(format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(20) COLLATE {collation}, \
             c CHAR(20) COLLATE {collation}, x TEXT COLLATE {collation}, {key})"
        ));
        let rows = (0..ROWS).map(|id| {
            let texts = [0; 3].map(|_| match rng.chance(12) {
                true => "NULL".to_owned(),
                false => literal(rng, alphabet),
            });
            format!("({id}, {})", texts.join(", "))
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        all.push(format!("INSERT INTO {table} VALUES {rows}"));
    }
    all.push("DROP TABLE IF EXISTS u".to_owned());
    all.push(format!(
        "CREATE TABLE u (k VARCHAR(20) COLLATE {collation} PRIMARY KEY)"
    ));
    all
}

/// A question whose answer is the same whichever of several equal strings is shown.
fn question(rng: &mut Rng, alphabet: &[&str]) -> String {
    let column = *rng.choose(&["v", "c", "x"]);
    let other = *rng.choose(&["v", "c", "x"]);
    let op = *rng.choose(&["=", "<>", "<", "<=", ">", ">="]);
    let (a, b, c) = (
        literal(rng, alphabet),
        literal(rng, alphabet),
        literal(rng, alphabet),
    );
    let like = pattern(rng, alphabet);
    match rng.between(0, 13) {
        0 | 1 => format!("SELECT id FROM t WHERE {column} {op} {a} ORDER BY id"),
        2 => format!("SELECT id FROM t WHERE {column} IN ({a}, {b}, {c}) ORDER BY id"),
        3 => format!("SELECT id FROM t WHERE {column} BETWEEN {a} AND {b} ORDER BY id"),
        4 | 5 => format!("SELECT id FROM t WHERE {column} LIKE {like} ORDER BY id"),
        6 => format!("SELECT id FROM t WHERE {column} {op} {other} ORDER BY id"),
        7 => format!(
            "SELECT id FROM t WHERE {column} NOT LIKE {like} AND {other} {op} {a} ORDER BY id"
        ),
        8 => format!("SELECT COUNT(*), MIN(id), MAX(id) FROM t GROUP BY {column} ORDER BY MIN(id)"),
        9 => {
            format!("SELECT COUNT(DISTINCT {column}), COUNT(DISTINCT v, c) FROM t WHERE id {op} 70")
        }
        10 => format!(
            "SELECT t.id, s.id FROM t JOIN s ON t.{column} = s.{other} WHERE t.id < 60 ORDER BY 1, 2"
        ),
        11 => format!(
            "SELECT id FROM t WHERE {column} IN (SELECT {other} FROM s WHERE id < 40) ORDER BY id"
        ),
        12 => format!("SELECT id FROM t WHERE {column} IS NOT NULL ORDER BY {column}, id LIMIT 40"),
        _ => format!("SELECT id FROM t ORDER BY {column} DESC, id LIMIT 30"),
    }
}

/// True if a statement was done, false if it was refused for a duplicate.
fn is_done(outcome: Result<u64, WorkloadError>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) if error.to_string().contains("1062") => false,
        Err(error) => panic!("{error}"),
    }
}

struct Servers {
    ours: Client,
    theirs: Client,
    wrong: Vec<String>,
    values: usize,
}

impl Servers {
    async fn ask(&mut self, collation: &str, sql: &str) {
        let there = self.theirs.query(sql).await.unwrap();
        self.values += there.iter().flatten().flatten().count();
        for mode in ["OFF", "ON"] {
            let set = format!("SET ndp_mode = {mode}, ndp_min_pages = 0");
            self.ours.execute(&set).await.unwrap();
            match self.ours.query(sql).await {
                Ok(here) if here == there => {}
                Ok(here) => self.wrong.push(format!(
                    "{collation}, NDP {mode}: {sql}\n    {here:?}\n    {there:?}"
                )),
                Err(error) => self.wrong.push(format!("{collation}: {sql}\n    {error}")),
            }
        }
    }

    async fn check(&mut self, rng: &mut Rng, collation: &str, alphabet: &[&str]) {
        for statement in tables(rng, collation, alphabet) {
            self.theirs.execute(&statement).await.unwrap();
            self.ours.execute(&statement).await.unwrap();
        }
        for _ in 0..QUESTIONS {
            self.ask(collation, &question(rng, alphabet)).await;
        }
        for _ in 0..60 {
            let insert = format!("INSERT INTO u VALUES ({})", literal(rng, alphabet));
            let theirs = is_done(self.theirs.execute(&insert).await);
            let ours = is_done(self.ours.execute(&insert).await);
            if ours != theirs {
                self.wrong
                    .push(format!("{collation}: {insert}: {ours} {theirs}"));
            }
        }
        self.ask(collation, "SELECT k FROM u ORDER BY k").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collations_have_mariadbs_answers() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(&dir.path().join("mariadb"), &[]);
    let mariadb = mariadb.expect("MariaDB is needed for this test");
    let theirs = Client::connect_socket(&mariadb.socket(), None)
        .await
        .unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let mut server = Embedded::start(&binary, &dir.path().join("perigee"), &[]).unwrap();
    let ours = server.client(None).await.unwrap();
    let mut servers = Servers {
        ours,
        theirs,
        wrong: Vec::new(),
        values: 0,
    };
    let begin = [
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        "CREATE DATABASE collations",
        "USE collations",
    ];
    for statement in begin {
        servers.theirs.execute(statement).await.unwrap();
        servers.ours.execute(statement).await.unwrap();
    }
    let mut rng = Rng(1);
    for (collation, alphabet) in COLLATIONS {
        servers.check(&mut rng, collation, alphabet).await;
    }
    let Servers {
        ours,
        wrong,
        values,
        ..
    } = servers;
    ours.close().await.unwrap();
    server.stop().unwrap();
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
    assert!(values > 10 * QUESTIONS, "answers are not empty");
}
