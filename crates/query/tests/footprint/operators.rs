//! Each operator that holds rows, with some times as many as fit: the peak stays near the limit, and the answer is
//! right or 1038.

use std::fmt::Write;

use perigee_query::{Session, SqlError};

use super::{ALLOCATOR, Fixture, Ordering, Setup, TURN, rows_of};

/// What a statement may hold.
const LIMIT: usize = 12 << 20;

/// What it may take: what it holds, copies while parts of that are put together, and what is under way between
/// operators.
const MOST: usize = 3 * LIMIT + (24 << 20);

/// 90,000 rows with texts of 240 bytes: 22 MB, and 16 bytes of numbers each.
const ROWS: &str =
    "(SELECT a.id AS i, b.id AS j, a.id * 300 + b.id AS n, CONCAT(a.s, b.s) AS c FROM k a, k b)";

/// Statements over `@`, which is [`ROWS`], by what holds the rows. Each holds some times the limit.
const STATEMENTS: [(&str, &str); 27] = [
    (
        "hash join",
        "SELECT COUNT(*) FROM @ x JOIN @ y ON x.c = y.c",
    ),
    (
        "hash join of numbers",
        "SELECT COUNT(*) FROM @ x JOIN @ y ON x.n = y.n JOIN @ z ON y.n = z.n",
    ),
    (
        "outer join",
        "SELECT COUNT(*), COUNT(y.i) FROM @ x LEFT JOIN @ y ON x.c = y.c AND y.i < x.j",
    ),
    (
        "nested-loop join",
        "SELECT COUNT(*) FROM @ x JOIN k ON x.c < k.s AND k.id < 3",
    ),
    (
        "cross join",
        "SELECT COUNT(*), MAX(x.c) FROM @ x, @ y WHERE y.n < 4 AND LENGTH(x.c) + y.n > 0",
    ),
    (
        "IN",
        "SELECT COUNT(*) FROM @ x WHERE c IN (SELECT c FROM @ y)",
    ),
    (
        "NOT IN",
        "SELECT COUNT(*) FROM @ x WHERE c NOT IN (SELECT c FROM @ y)",
    ),
    (
        "EXISTS",
        "SELECT COUNT(*) FROM @ x WHERE EXISTS (SELECT 1 FROM @ y WHERE y.c = x.c AND y.i >= x.i)",
    ),
    (
        "sort",
        "SELECT MAX(n) FROM (SELECT c, n FROM @ x ORDER BY c, n LIMIT 80000, 10) d",
    ),
    (
        "sort of all",
        "SELECT COUNT(m) FROM (SELECT RANK() OVER (ORDER BY c) AS m FROM @ x) d",
    ),
    (
        "the first of an order",
        "SELECT MAX(n) FROM (SELECT c, n FROM @ x ORDER BY c LIMIT 50000) d",
    ),
    (
        "groups",
        "SELECT COUNT(*), SUM(e) FROM (SELECT c, COUNT(*) AS e FROM @ x GROUP BY c) d",
    ),
    (
        "groups of numbers",
        "SELECT COUNT(*), MAX(e) FROM (SELECT n, MIN(c) AS e FROM @ x GROUP BY n) d",
    ),
    (
        "different values",
        "SELECT COUNT(DISTINCT c), COUNT(DISTINCT n) FROM @ x",
    ),
    (
        "different rows",
        "SELECT COUNT(*) FROM (SELECT DISTINCT c, n FROM @ x) d",
    ),
    (
        "UNION",
        "SELECT COUNT(*) FROM (SELECT c FROM @ x UNION SELECT c FROM @ y) d",
    ),
    (
        "window of all rows",
        "SELECT COUNT(m), MAX(c) FROM (SELECT MAX(n) OVER () AS m, c FROM @ x) d",
    ),
    (
        "texts over a window",
        "SELECT COUNT(m) FROM (SELECT MAX(c) OVER () AS m FROM @ x) d",
    ),
    (
        "window of partitions",
        "SELECT SUM(m), MAX(c) FROM (SELECT COUNT(*) OVER (PARTITION BY i) AS m, c FROM @ x) d",
    ),
    (
        "window of small partitions",
        "SELECT SUM(m) FROM (SELECT SUM(i) OVER (PARTITION BY c ORDER BY j) AS m FROM @ x) d",
    ),
    (
        "window in an order",
        "SELECT SUM(m), MAX(c) FROM (SELECT SUM(i) OVER (ORDER BY n) AS m, c FROM @ x) d",
    ),
    (
        "long texts beside a window in an order",
        "SELECT SUM(m), MAX(c) FROM (SELECT SUM(i) OVER (ORDER BY n) AS m, c \
         FROM (SELECT i, n, CONCAT(c, c, c, c) AS c FROM @ x) y) d",
    ),
    (
        "window of equal rows",
        "SELECT SUM(m), MAX(c) FROM (SELECT SUM(i) OVER (ORDER BY i - i) AS m, c FROM @ x) d",
    ),
    (
        "window of many rows before",
        "SELECT SUM(m), MAX(c) FROM (SELECT SUM(i) OVER \
         (ORDER BY n ROWS BETWEEN 80000 PRECEDING AND CURRENT ROW) AS m, c FROM @ x) d",
    ),
    (
        "window of a range before",
        "SELECT SUM(m), MAX(c) FROM (SELECT SUM(i) OVER \
         (ORDER BY n RANGE BETWEEN 80000 PRECEDING AND CURRENT ROW) AS m, c FROM @ x) d",
    ),
    (
        "a CTE that is read twice",
        "WITH d AS (SELECT DISTINCT c, n FROM @ x) SELECT COUNT(*) FROM d e JOIN d f ON e.n = f.n",
    ),
    (
        "long texts",
        "SELECT SUM(LENGTH(CONCAT(c, c, c, c, c, c, c, c))) FROM @ x",
    ),
];

/// Those that hold more than the limit and cannot spill.
const REFUSED: [&str; 5] = [
    "window of all rows",
    "texts over a window",
    "window of equal rows",
    "window of many rows before",
    "window of a range before",
];

/// Runs a statement; its answer, and the most bytes that were taken beyond those before.
async fn measured(
    fixture: &Fixture,
    session: &mut Session,
    sql: &str,
) -> (Result<Vec<String>, SqlError>, usize) {
    let before = ALLOCATOR.used.load(Ordering::Relaxed);
    ALLOCATOR.most.store(before, Ordering::Relaxed);
    let outcome = fixture.run(session, sql).await;
    let peak = ALLOCATOR.most.load(Ordering::Relaxed) - before;
    (outcome.map(|results| rows_of(&results[0])), peak)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_stay_within_the_limit() {
    let _turn = TURN.lock().await;
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE k (id INT NOT NULL PRIMARY KEY, s VARCHAR(200) NOT NULL)";
    fixture.run(&mut session, create).await.unwrap();
    let rows: Vec<_> = (0..300)
        .map(|id| format!("({id}, '{:-<120}')", id * 7919 % 300))
        .collect();
    let insert = format!("INSERT INTO k VALUES {}", rows.join(","));
    fixture.run(&mut session, &insert).await.unwrap();
    let only = std::env::var("PERIGEE_FOOTPRINT_ONLY").unwrap_or_default();
    let mut wrong = String::new();
    for (name, sql) in STATEMENTS {
        if !name.contains(&only) {
            continue;
        }
        let sql = sql.replace('@', ROWS);
        let set = "SET query_memory_limit = 2147483648, parallel_default_dop = 2";
        fixture.run(&mut session, set).await.unwrap();
        let (expected, all) = measured(&fixture, &mut session, &sql).await;
        let expected = expected.unwrap_or_else(|error| panic!("{name}: {error}"));
        for dop in [1, 2] {
            let set = format!("SET query_memory_limit = {LIMIT}, parallel_default_dop = {dop}");
            fixture.run(&mut session, &set).await.unwrap();
            let (outcome, peak) = measured(&fixture, &mut session, &sql).await;
            let (right, shown) = match outcome {
                Ok(rows) => (
                    rows == expected && !REFUSED.contains(&name),
                    rows.join("; "),
                ),
                Err(error) => (
                    (error.errno, error.sqlstate.as_str()) == (1038, "HY001"),
                    error.to_string(),
                ),
            };
            let line = format!(
                "{name}, {dop}: {} kB, without a limit {} kB: {shown:.150}\n",
                peak >> 10,
                all >> 10
            );
            print!("{line}");
            if !right || peak > MOST {
                let _ = write!(wrong, "{line}");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
