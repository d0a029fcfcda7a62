//! Random views over tables and over each other, and random statements that name them, against MariaDB: the same
//! answers, affected rows and errors, and the same rows of the tables after each statement.
//!
//! `PERIGEE_VIEWS` sets the number of statements, `PERIGEE_SEED` the first seed.
#![allow(clippy::unwrap_used, reason = "test code")]

mod statements;

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded, Rows, WorkloadError};
use statements::{Shape, TABLES, create, statement, view};

/// Statements over one set of views.
const PER_SCHEMA: usize = 25;

/// Differences that are shown.
const SHOWN: usize = 10;

/// What is not supported.
const NOT_SUPPORTED: u16 = 1235;

/// Of several things that are wrong with a statement, or with a view that it changes, MariaDB tells another one first.
const WRONG: [u16; 9] = [1048, 1062, 1288, 1369, 1393, 1394, 1395, 1423, 1471];

fn number_of(variable: &str, default: usize) -> usize {
    let text = std::env::var(variable).ok();
    text.and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn errno(error: &WorkloadError) -> u16 {
    let code = error.code();
    code.unwrap_or_else(|| panic!("no answer of a server: {error}"))
}

/// What came of a statement.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Rows(Rows),
    Changed(u64),
    Failed(u16),
}

impl Outcome {
    fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failed(one), Self::Failed(other)) if WRONG.contains(one) => {
                WRONG.contains(other)
            }
            (one, other) => one == other,
        }
    }
}

async fn outcome(client: &mut Client, sql: &str) -> Outcome {
    if sql.starts_with("SELECT") {
        return match client.query(sql).await {
            Ok(mut rows) => {
                rows.sort();
                Outcome::Rows(rows)
            }
            Err(error) => Outcome::Failed(errno(&error)),
        };
    }
    match client.execute(sql).await {
        Ok(changed) => Outcome::Changed(changed),
        Err(error) => Outcome::Failed(errno(&error)),
    }
}

/// All rows of the tables.
async fn everything(client: &mut Client) -> Vec<Outcome> {
    let mut all = Vec::new();
    for table in TABLES {
        all.push(outcome(client, &format!("SELECT * FROM {}", table.0)).await);
    }
    all
}

/// Two servers that run the same statements.
struct Contest {
    here: Client,
    there: Client,
    log: Vec<String>,
    same: usize,
    failed: usize,
    unsupported: usize,
    wrong: Vec<String>,
}

impl Contest {
    /// Runs a statement; none if the outcomes differ.
    async fn run(&mut self, sql: String) -> Option<Outcome> {
        let mine = outcome(&mut self.here, &sql).await;
        if mine == Outcome::Failed(NOT_SUPPORTED) {
            self.unsupported += 1;
            return Some(mine);
        }
        let theirs = outcome(&mut self.there, &sql).await;
        self.log.push(sql);
        self.failed += usize::from(matches!(theirs, Outcome::Failed(_)));
        if !mine.is_as(&theirs) {
            self.differs(format!("here {mine:?}, there {theirs:?}"));
            return None;
        }
        self.same += 1;
        Some(mine)
    }

    /// Compares the rows of the tables; false if they differ.
    async fn compare(&mut self) -> bool {
        let mine = everything(&mut self.here).await;
        let theirs = everything(&mut self.there).await;
        let is_same = mine == theirs;
        if !is_same {
            self.differs(format!("here {mine:?}\nthere {theirs:?}"));
        }
        is_same
    }

    fn differs(&mut self, what: String) {
        let log = self.log.join(";\n");
        self.wrong.push(format!("{log}\n{what}"));
    }

    /// Random statements over random views of one schema, until outcomes differ.
    async fn of_schema(&mut self, seed: usize) -> Option<()> {
        let mut rng = Rng(seed as u64);
        self.log.clear();
        for sql in create(&mut rng, &format!("views{seed}")) {
            self.run(sql).await?;
        }
        let tables = TABLES
            .iter()
            .map(|(name, columns)| Shape::new(name, columns));
        let mut shapes: Vec<Shape> = tables.collect();
        for number in 0..rng.between(2, 5) {
            let (sql, shape) = view(&mut rng, &shapes, number);
            if let Outcome::Changed(_) = self.run(sql).await? {
                shapes.push(shape);
            }
        }
        for _ in 0..PER_SCHEMA {
            let sql = statement(&mut rng, &shapes);
            self.run(sql).await?;
            if !self.compare().await {
                return None;
            }
        }
        Some(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_views_have_mariadbs_outcomes() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(&dir.path().join("mariadb"), &[]).unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let ours = Embedded::start(&binary, &dir.path().join("ours"), &[]).unwrap();
    let mut there = Client::connect_socket(&mariadb.socket(), None)
        .await
        .unwrap();
    for set in [
        "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    ] {
        there.execute(set).await.unwrap();
    }
    let mut contest = Contest {
        here: ours.client(None).await.unwrap(),
        there,
        log: Vec::new(),
        same: 0,
        failed: 0,
        unsupported: 0,
        wrong: Vec::new(),
    };
    let count = number_of("PERIGEE_VIEWS", 1_000);
    let first = number_of("PERIGEE_SEED", 1);
    for seed in first..first + count.div_ceil(PER_SCHEMA) {
        contest.of_schema(seed).await;
    }
    let (same, failed, unsupported) = (contest.same, contest.failed, contest.unsupported);
    let wrong = contest.wrong;
    println!(
        "{same} outcomes equal, {failed} of them errors, {unsupported} not supported, {} wrong",
        wrong.len()
    );
    for text in wrong.iter().take(SHOWN) {
        println!("\n{text}");
    }
    assert!(wrong.is_empty(), "{} sets of views differ", wrong.len());
    assert!(
        same > 2 * failed && same > 20 * unsupported,
        "most statements succeed"
    );
}
