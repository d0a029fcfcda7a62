//! `kill -9` in the middle of each kind of DDL: its tables are as before or as after it, with every
//! tree sound and every index in agreement with its table; what was acknowledged took place.
//!
//! `PERIGEE_CRASH_ROUNDS` sets how often each kind is killed.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use perigee_engine::{Engine, EngineConfig};
use perigee_log_store::LogStoreService;
use perigee_page_store::PageStoreService;
use perigee_sal::{Sal, SalConfig};
use perigee_types::DbId;
use perigee_workload::{Client, Embedded};
use support::{args, binary};

/// Rows of the large table: its trees have some hundred pages.
const ROWS: u64 = 12_000;
/// Rows of the small one.
const FEW: u64 = 300;

/// A statement and those that take it back; `{long}` stands for a text that makes a definition of several records.
struct Kind {
    sql: &'static str,
    back: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        sql: "CREATE INDEX by_a ON t (a)",
        back: &["DROP INDEX by_a ON t"],
    },
    Kind {
        sql: "DROP INDEX by_s ON t",
        back: &["CREATE INDEX by_s ON t (s)"],
    },
    Kind {
        sql: "ALTER TABLE t ADD COLUMN d INT NOT NULL DEFAULT 7 AFTER a, ADD UNIQUE u (a, id)",
        back: &["ALTER TABLE t DROP COLUMN d, DROP KEY u"],
    },
    Kind {
        sql: "ALTER TABLE t MODIFY a BIGINT, DROP PRIMARY KEY, ADD PRIMARY KEY (a, id), ADD KEY k (id)",
        back: &["ALTER TABLE t DROP PRIMARY KEY, DROP KEY k, MODIFY a INT, ADD PRIMARY KEY (id)"],
    },
    Kind {
        sql: "ALTER TABLE t RENAME COLUMN s TO r, ALTER a SET DEFAULT 5, RENAME INDEX by_s TO by_r",
        back: &[
            "ALTER TABLE t RENAME COLUMN r TO s, ALTER a DROP DEFAULT, RENAME INDEX by_r TO by_s",
        ],
    },
    Kind {
        sql: "RENAME TABLE t TO tmp, few TO t, tmp TO few",
        back: &["RENAME TABLE t TO tmp, few TO t, tmp TO few"],
    },
    Kind {
        sql: "TRUNCATE TABLE few",
        back: &["INSERT INTO few SELECT id, a, s FROM copy"],
    },
    Kind {
        sql: "DROP TABLE few, other.x",
        back: &[
            "CREATE TABLE few LIKE copy",
            "INSERT INTO few SELECT id, a, s FROM copy",
            "CREATE TABLE other.x LIKE copy",
        ],
    },
    Kind {
        sql: "CREATE TABLE new (id INT PRIMARY KEY, a INT UNIQUE, KEY (a, id))",
        back: &["DROP TABLE new"],
    },
    Kind {
        sql: "CREATE TABLE new (id INT PRIMARY KEY, a INT, CHECK (a > 0), \
              FOREIGN KEY (a) REFERENCES copy (id) ON DELETE CASCADE)",
        back: &["DROP TABLE new"],
    },
    Kind {
        sql: "ALTER TABLE few ADD FOREIGN KEY (id) REFERENCES copy (id), ADD CHECK (a >= 0)",
        back: &["ALTER TABLE few DROP FOREIGN KEY few_ibfk_1, DROP CHECK few_chk_1"],
    },
    // Those that refer to them follow.
    Kind {
        sql: "RENAME TABLE copy TO renamed, kept TO copy",
        back: &["RENAME TABLE copy TO kept, renamed TO copy"],
    },
    Kind {
        sql: "ALTER TABLE copy RENAME COLUMN id TO number, RENAME TO renamed",
        back: &["ALTER TABLE renamed RENAME COLUMN number TO id, RENAME TO copy"],
    },
    Kind {
        sql: "CREATE OR REPLACE VIEW seen AS SELECT id, a + 1 AS b FROM copy WHERE a > 5",
        back: &["CREATE OR REPLACE VIEW seen AS SELECT * FROM copy"],
    },
    Kind {
        sql: "CREATE OR REPLACE VIEW seen AS SELECT id, '{long}' AS b FROM copy",
        back: &["CREATE OR REPLACE VIEW seen AS SELECT * FROM copy"],
    },
    Kind {
        sql: "DROP VIEW seen, other.seen",
        back: &[
            "CREATE VIEW seen AS SELECT * FROM copy",
            "CREATE VIEW other.seen AS SELECT * FROM copy",
        ],
    },
    Kind {
        sql: "RENAME TABLE seen TO tmp, few TO seen, tmp TO few",
        back: &["RENAME TABLE seen TO tmp, few TO seen, tmp TO few"],
    },
    Kind {
        sql: "ALTER PROCEDURE does COMMENT 'other'",
        back: &["ALTER PROCEDURE does COMMENT ''"],
    },
    Kind {
        sql: "DROP PROCEDURE does",
        back: &[
            "CREATE PROCEDURE does() SELECT COUNT(*) FROM copy",
            "GRANT EXECUTE ON PROCEDURE does TO user",
        ],
    },
    Kind {
        sql: "DROP ROLE role",
        back: &[
            "CREATE ROLE role",
            "GRANT SELECT (id, a) ON copy TO role",
            "GRANT role TO user",
            "SET DEFAULT ROLE role TO user",
        ],
    },
    Kind {
        sql: "GRANT other TO user, role",
        back: &["REVOKE other FROM user, role"],
    },
    Kind {
        sql: "GRANT SELECT (s), UPDATE (a, s) ON copy TO role, user",
        back: &["REVOKE SELECT (s), UPDATE (a, s) ON copy FROM role, user"],
    },
    Kind {
        sql: "CREATE TRIGGER fires AFTER DELETE ON copy FOR EACH ROW FOLLOWS first SET @long = '{long}'",
        back: &["DROP TRIGGER fires"],
    },
    Kind {
        sql: "DROP TRIGGER first",
        back: &["CREATE TRIGGER first AFTER DELETE ON copy FOR EACH ROW SET @a = OLD.id"],
    },
    Kind {
        sql: "DROP DATABASE other",
        back: &[
            "CREATE DATABASE other",
            "CREATE TABLE other.x LIKE copy",
            "CREATE VIEW other.seen AS SELECT * FROM copy",
        ],
    },
];

fn rounds() -> usize {
    let rounds = std::env::var("PERIGEE_CRASH_ROUNDS");
    rounds.map_or(1, |rounds| rounds.parse().unwrap())
}

/// A moment in a span; a failure prints it.
fn moment(within: Duration) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let mut random = now.unwrap().as_nanos() as u64 | 1;
    for shift in [13, 7, 17] {
        random ^= random << shift;
        random ^= random >> 7;
    }
    within.mul_f64((random % 1000) as f64 / 1000.0)
}

async fn create(client: &mut Client, dir: &Path) {
    let columns = "(id INT NOT NULL AUTO_INCREMENT, a INT, s VARCHAR(100), PRIMARY KEY (id), \
                   KEY by_s (s))";
    for sql in ["CREATE DATABASE c", "CREATE DATABASE other", "USE c"] {
        client.execute(sql).await.unwrap();
    }
    for table in ["t", "few", "copy", "other.x"] {
        let sql = format!("CREATE TABLE {table} {columns}");
        client.execute(&sql).await.unwrap();
    }
    let kept = "CREATE TABLE kept (id INT PRIMARY KEY, a INT, \
                FOREIGN KEY (id) REFERENCES copy (id) ON UPDATE CASCADE)";
    client.execute(kept).await.unwrap();
    for sql in [
        "CREATE VIEW seen AS SELECT * FROM copy",
        "CREATE VIEW other.seen AS SELECT * FROM copy",
        "CREATE PROCEDURE does() SELECT COUNT(*) FROM copy",
        "CREATE TRIGGER first AFTER DELETE ON copy FOR EACH ROW SET @a = OLD.id",
        "CREATE USER user",
        "CREATE ROLE role, other",
        "GRANT EXECUTE ON PROCEDURE does TO user",
        "GRANT SELECT (id, a) ON copy TO role",
        "GRANT role TO user",
        "SET DEFAULT ROLE role TO user",
    ] {
        client.execute(sql).await.unwrap();
    }
    for (table, rows) in [("t", ROWS), ("few", FEW), ("copy", FEW)] {
        let mut lines = String::new();
        for id in 1..=rows {
            let (a, s) = (id * 7919 % 10_007, "text ".repeat(id as usize % 17));
            writeln!(lines, "{id}\t{a}\t{s}{a}").unwrap();
        }
        let file = dir.join(format!("{table}.lines"));
        std::fs::write(&file, lines).unwrap();
        let sql = format!(
            "LOAD DATA LOCAL INFILE '{}' INTO TABLE {table}",
            file.display()
        );
        client.execute(&sql).await.unwrap();
    }
}

/// Everything there is: definitions, and a digest of the rows of each table by its clustered index
/// and by each other one.
async fn describe(client: &mut Client) -> String {
    let mut out = String::new();
    let schemas = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA \
                   WHERE SCHEMA_NAME NOT IN ('information_schema', 'mysql', 'performance_schema') ORDER BY 1";
    let routines =
        "SELECT ROUTINE_NAME, ROUTINE_DEFINITION, ROUTINE_COMMENT FROM information_schema.ROUTINES";
    let triggers = "SELECT TRIGGER_NAME, ACTION_ORDER, ACTION_STATEMENT FROM information_schema.TRIGGERS ORDER BY 1";
    let accounts = [
        "user",
        "procs_priv",
        "columns_priv",
        "role_edges",
        "default_roles",
    ];
    let accounts = accounts.map(|name| format!("SELECT * FROM mysql.{name}"));
    let programs = [routines, triggers].map(str::to_owned);
    for sql in programs.into_iter().chain(accounts) {
        for row in client.query(&sql).await.unwrap() {
            writeln!(out, "{row:?}").unwrap();
        }
    }
    for schema in column(client, schemas, 0).await {
        for table in column(client, &format!("SHOW TABLES FROM {schema}"), 0).await {
            let name = format!("{schema}.{table}");
            let shown = column(client, &format!("SHOW CREATE TABLE {name}"), 1).await;
            // Where numbering goes on is in memory, too.
            let shown = shown[0]
                .split(" AUTO_INCREMENT=")
                .next()
                .unwrap()
                .to_owned();
            let all = format!("SELECT * FROM {name} ORDER BY 1");
            let rows = match client.query(&all).await {
                Ok(rows) => rows,
                // A view whose table has another name.
                Err(error) if error.code() == Some(1356) => {
                    writeln!(out, "{name}: {error}\n{shown}").unwrap();
                    continue;
                }
                Err(error) => panic!("{all}: {error}"),
            };
            let digest = rows.iter().flatten().flatten().fold(0_u64, |digest, cell| {
                cell.bytes().fold(digest, |digest, byte| {
                    digest.wrapping_mul(1_099_511_628_211) ^ u64::from(byte)
                })
            });
            writeln!(out, "{name}: {} rows, {digest:x}\n{shown}", rows.len()).unwrap();
        }
    }
    out
}

async fn column(client: &mut Client, sql: &str, column: usize) -> Vec<String> {
    let rows = client.query(sql).await.unwrap();
    rows.into_iter()
        .map(|mut row| row.swap_remove(column).unwrap())
        .collect()
}

/// Every tree of every table is sound, and all trees of a table have as many records.
async fn verify(data: &Path, when: &str) {
    let log = LogStoreService::open(data.join("log"), Default::default()).unwrap();
    let pages = PageStoreService::open(data.join("pages"), Default::default()).unwrap();
    let sal = Sal::open(
        SalConfig::new(DbId(1)),
        Arc::new(log),
        vec![Arc::new(pages)],
    );
    let engine = Engine::open(sal.await.unwrap(), EngineConfig::default());
    let engine = engine.await.unwrap();
    for schema in engine.schemas() {
        for table in engine.tables(&schema) {
            let trees = engine.verify_table(&table).await.unwrap();
            let same = trees.iter().all(|tree| tree.records == trees[0].records);
            assert!(same, "{}: {trees:?}; {when}", table.def.name);
        }
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_is_the_old_one_or_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Embedded::start(&binary(), dir.path(), &args(&[])).unwrap();
    let mut server = start();
    let mut client = server.client(None).await.unwrap();
    create(&mut client, dir.path()).await;
    let old = describe(&mut client).await;
    let (mut seen_old, mut seen_new) = (0, 0);
    for Kind { sql, back } in KINDS {
        let whole = sql.replace("{long}", &"long ".repeat(8000));
        client.execute("USE c").await.unwrap();
        let begin = Instant::now();
        client.execute(&whole).await.unwrap();
        let usual = begin.elapsed();
        let new = describe(&mut client).await;
        assert_ne!(old, new, "{sql}");
        take_back(&mut client, back).await;
        assert_eq!(old, describe(&mut client).await, "{back:?}");
        for _ in 0..rounds() {
            client.execute("USE c").await.unwrap();
            let moment = moment(usual.mul_f64(1.2));
            let whole = whole.clone();
            let changing = tokio::spawn(async move { client.execute(&whole).await.is_ok() });
            tokio::time::sleep(moment).await;
            // Dropping it is kill -9.
            drop(server);
            let acknowledged = changing.await.unwrap();
            let when = format!("{sql}, killed after {moment:?} of {usual:?}");
            verify(&dir.path().join("serve"), &when).await;
            server = start();
            client = server.client(Some("c")).await.unwrap();
            let found = describe(&mut client).await;
            if found == new {
                seen_new += 1;
                take_back(&mut client, back).await;
            } else {
                assert!(!acknowledged, "it was acknowledged: {when}");
                assert_eq!(found, old, "neither old nor new: {when}");
                seen_old += 1;
            }
        }
        println!("{sql}: {usual:?}, {seen_old} old and {seen_new} new so far");
    }
}

async fn take_back(client: &mut Client, back: &[&str]) {
    for sql in back {
        client
            .execute(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}
