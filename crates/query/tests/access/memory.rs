//! Joins that do not fit into the memory of a statement: the right answer or 1038, never another one.

use super::*;

/// 400 rows whose strings are long enough that joins of some of them exceed small limits.
async fn with_strings() -> (Fixture, Session) {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE k (id INT NOT NULL PRIMARY KEY, s VARCHAR(60) NOT NULL, n INT, KEY by_n (n));
        SET ndp_min_pages = 0";
    fixture.run(&mut session, create).await.unwrap();
    let rows: Vec<_> = (0..400)
        .map(|id| {
            let n = (id % 7 != 0).then(|| (id * 37 % 100).to_string());
            let s = format!("{:-<50}", id * 7919 % 400);
            format!("({id}, '{s}', {})", n.unwrap_or("NULL".to_owned()))
        })
        .collect();
    let insert = format!("INSERT INTO k VALUES {}", rows.join(","));
    fixture.run(&mut session, &insert).await.unwrap();
    (fixture, session)
}

/// Each with a nested-loop join over an input that is large, is a join itself, or is repartitioned.
const JOINS: [&str; 9] = [
    "SELECT COUNT(*) FROM k a, k b, k c WHERE a.s<>b.s AND c.s>a.s AND c.id<20",
    "SELECT COUNT(*), MIN(x.s), MAX(y.id) FROM (SELECT s, id FROM k UNION ALL SELECT s, n FROM k) x \
     JOIN (SELECT s, id FROM k) y ON x.s < y.s",
    "SELECT COUNT(*), COUNT(c.id) FROM (SELECT a.s AS s, b.id AS id FROM k a, k b WHERE a.s<>b.s) x \
     LEFT JOIN k c ON c.s > x.s AND c.id < 10",
    "SELECT COUNT(*), COUNT(x.id) FROM k c RIGHT JOIN \
     (SELECT a.s AS s, b.id AS id FROM k a, k b WHERE a.s<>b.s) x ON c.s > x.s AND c.id < 10",
    "SELECT COUNT(*) FROM (SELECT a.s AS s, b.id AS id FROM k a, k b WHERE a.s<>b.s) x \
     WHERE EXISTS (SELECT 1 FROM k c WHERE c.s > x.s AND c.id < 10)",
    "SELECT COUNT(*) FROM (SELECT a.s AS s, b.id AS id FROM k a, k b WHERE a.s<>b.s) x \
     WHERE NOT EXISTS (SELECT 1 FROM k c WHERE c.s > x.s AND c.id < 10)",
    "SELECT COUNT(*), SUM(g.m) FROM (SELECT s, n, MAX(id) AS m FROM k GROUP BY s, n) g \
     JOIN k b ON b.s > g.s JOIN k c ON c.id > b.id + 390",
    "SELECT COUNT(*) FROM (SELECT a.s AS s, b.n AS n FROM k a JOIN k b ON a.n = b.n) x \
     JOIN k c ON c.s > x.s AND c.n + x.n > 20",
    "SELECT x.s, COUNT(*) FROM k x JOIN k y ON x.s < y.s JOIN k z ON z.s < y.s AND z.id < 5 \
     GROUP BY x.s ORDER BY x.s LIMIT 3",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_beyond_the_memory_have_the_right_answer_or_1038() {
    let (fixture, mut session) = with_strings().await;
    let mut low = 0;
    for join in JOINS {
        let all = "SET query_memory_limit = 4294967296, parallel_default_dop = 1";
        fixture.run(&mut session, all).await.unwrap();
        let expected = fixture.run(&mut session, join).await.unwrap();
        let expected = rows_of(&expected[0]);
        for (dop, mode) in [(1, "OFF"), (2, "ON")] {
            let mut limit: u64 = 1 << 20;
            loop {
                let set = format!(
                    "SET query_memory_limit = {limit}, parallel_default_dop = {dop}, ndp_mode = {mode}"
                );
                fixture.run(&mut session, &set).await.unwrap();
                match fixture.run(&mut session, join).await {
                    Ok(results) => {
                        assert_eq!(rows_of(&results[0]), expected, "{join}\n{set}");
                        low += usize::from(limit < 16 << 20);
                        if limit >= 16 << 20 {
                            break;
                        }
                    }
                    Err(error) => {
                        let what = (error.errno, error.sqlstate.as_str());
                        assert_eq!(what, (1038, "HY001"), "{join}\n{set}\n{error}");
                        assert!(limit < 256 << 20, "{join}\n{set}\n{error}");
                    }
                }
                limit = limit * 5 / 2;
            }
        }
    }
    // Most go on with little memory instead of giving up.
    assert!(low >= 2 * JOINS.len(), "{low}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_a_batch_are_bounded() {
    let (fixture, mut session) = with_strings().await;
    let sum = async |session: &mut Session, chars: u64| {
        let sql = format!("SELECT COUNT(*), SUM(LENGTH(LPAD(s, {chars}, 'x'))) FROM k");
        let results = fixture.run(session, &sql).await;
        results.map(|results| rows_of(&results[0]))
    };
    let fits = sum(&mut session, 2000).await.unwrap();
    assert_eq!(fits, ["400|800000"]);
    let error = sum(&mut session, 1 << 20).await.unwrap_err();
    assert_eq!(
        (error.errno, error.sqlstate.as_str()),
        (1038, "HY001"),
        "{error}"
    );
    // Longer than a text may be.
    let long = "SELECT COUNT(*), COUNT(LPAD(s, 100000000, 'x')), COUNT(CONCAT(s, s)) FROM k";
    let results = fixture.run(&mut session, long).await.unwrap();
    assert_eq!(rows_of(&results[0]), ["400|0|400"]);
}
