//! Random changes have MariaDB's outcomes.

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded, Rows};

use super::tables::{TABLES, change, create};

/// Statements over one set of tables.
const PER_SCHEMA: usize = 60;

/// Differences that are shown.
const SHOWN: usize = 10;

/// MariaDB's error for a CHECK constraint, and MySQL's.
const CHECK: (u16, u16) = (4025, 3819);

/// A number from the environment.
pub fn number_of(variable: &str, default: usize) -> usize {
    let text = std::env::var(variable).ok();
    text.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// The number of the error that a server answered with, as MySQL has it.
pub fn errno(error: &perigee_workload::WorkloadError) -> u16 {
    let code = error.code();
    let number = code.unwrap_or_else(|| panic!("no answer of a server: {error}"));
    if number == CHECK.0 { CHECK.1 } else { number }
}

async fn mariadb_client(mariadb: &MariaDb) -> Client {
    let mut client = Client::connect_socket(&mariadb.socket(), None)
        .await
        .unwrap();
    for set in [
        "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    ] {
        client.execute(set).await.unwrap();
    }
    client
}

async fn everything(client: &mut Client) -> Vec<Rows> {
    let mut all = Vec::new();
    for (table, key) in TABLES {
        let sql = format!("SELECT * FROM {table} ORDER BY {key}");
        all.push(client.query(&sql).await.unwrap());
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_changes_of_related_tables_have_mariadbs_outcomes() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(&dir.path().join("mariadb"), &[]).unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let ours = Embedded::start(&binary, &dir.path().join("ours"), &[]).unwrap();
    let mut there = mariadb_client(&mariadb).await;
    let mut here = ours.client(None).await.unwrap();
    let count = number_of("PERIGEE_FOREIGN_KEYS", 1_200);
    let first = number_of("PERIGEE_SEED", 1);
    let (mut same, mut refused, mut wrong) = (0, 0, Vec::new());
    for seed in first..first + count.div_ceil(PER_SCHEMA) {
        let mut rng = Rng(seed as u64);
        let schema = format!("s{seed}");
        let mut log = vec![format!("CREATE DATABASE {schema}"), format!("USE {schema}")];
        log.extend(create(&mut rng));
        for sql in &log {
            here.execute(sql).await.unwrap();
            there.execute(sql).await.unwrap();
        }
        for _ in 0..PER_SCHEMA {
            let sql = match rng.chance(8) {
                true => {
                    let control = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a"];
                    (*rng.choose(&control)).to_owned()
                }
                false => change(&mut rng),
            };
            log.push(sql.clone());
            let mine = here.execute(&sql).await.map_err(|e| errno(&e));
            let theirs = there.execute(&sql).await.map_err(|e| errno(&e));
            refused += usize::from(theirs.is_err());
            let (one, other) = (everything(&mut here).await, everything(&mut there).await);
            if mine == theirs && one == other {
                same += 1;
                continue;
            }
            let at = one.iter().zip(&other).position(|(one, other)| one != other);
            let rows = at.map(|at| format!("{:?}\n{:?}", one[at], other[at]));
            let rows = rows.unwrap_or_default();
            let text = log.join(";\n");
            wrong.push(format!("{text}\nhere {mine:?}, there {theirs:?}\n{rows}"));
            break;
        }
        here.execute("ROLLBACK").await.unwrap();
        there.execute("ROLLBACK").await.unwrap();
    }
    println!(
        "{same} outcomes equal, {refused} refused, {} wrong",
        wrong.len()
    );
    for text in wrong.iter().take(SHOWN) {
        println!("\n{text}");
    }
    assert!(wrong.is_empty(), "{} sets of tables differ", wrong.len());
    assert!(
        refused > same / 10 && refused < same,
        "both kinds are there"
    );
}
