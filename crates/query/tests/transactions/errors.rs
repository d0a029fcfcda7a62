//! Definitions and rows beyond the limits: the error's number and state, and what is left of the
//! transaction in which it came.

use super::*;

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

/// Definitions that are refused.
fn definitions() -> Vec<(u16, &'static str, String)> {
    let columns = |count, ty: &str| list(count, |i| format!("c{i} {ty}"));
    let keys = |count, from| list(count, |i| format!("KEY k{i} (c{}, c{i})", from + i));
    let parts = list(17, |i| format!("c{i}"));
    vec![
        (
            1117,
            "HY000",
            format!(
                "CREATE TABLE x (id INT PRIMARY KEY, {})",
                columns(1017, "INT")
            ),
        ),
        (
            1069,
            "42000",
            format!(
                "CREATE TABLE x (id INT PRIMARY KEY, {}, {})",
                columns(130, "INT"),
                keys(64, 64)
            ),
        ),
        (
            1070,
            "42000",
            format!("CREATE TABLE x ({}, KEY ({parts}))", columns(17, "INT")),
        ),
        (
            1070,
            "42000",
            format!(
                "CREATE TABLE x ({}, PRIMARY KEY ({parts}))",
                columns(17, "INT NOT NULL")
            ),
        ),
        (
            1071,
            "42000",
            "CREATE TABLE x (id INT PRIMARY KEY, v VARCHAR(769), KEY (v))".into(),
        ),
        (
            1071,
            "42000",
            "CREATE TABLE x (v VARCHAR(700), w VARCHAR(69), PRIMARY KEY (v, w))".into(),
        ),
        (
            1118,
            "42000",
            "CREATE TABLE x (id INT PRIMARY KEY, v VARCHAR(10000), w VARCHAR(6400))".into(),
        ),
        (
            1118,
            "42000",
            format!(
                "CREATE TABLE x (id INT PRIMARY KEY, {})",
                columns(600, "DECIMAL(38, 2)")
            ),
        ),
        (1074, "42000", "CREATE TABLE x (v VARCHAR(16384))".into()),
        (
            1071,
            "42000",
            "ALTER TABLE t ADD COLUMN v VARCHAR(769), ADD KEY (v)".into(),
        ),
        (1071, "42000", "CREATE INDEX long_key ON t (w)".into()),
        (
            1117,
            "HY000",
            format!(
                "ALTER TABLE t {}",
                list(1014, |i| format!("ADD COLUMN c{i} INT"))
            ),
        ),
        (
            1069,
            "42000",
            format!(
                "ALTER TABLE t {}",
                list(63, |i| format!("ADD KEY k{i} (b, a)"))
            ),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_beyond_the_limits_are_refused_and_end_the_transaction_before() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("ALTER TABLE t ADD COLUMN w VARCHAR(1000)").await;
    for (number, (errno, state, sql)) in definitions().into_iter().enumerate() {
        let shown = &sql[..sql.len().min(100)];
        one.ok(&format!("BEGIN; UPDATE t SET b = {number} WHERE id = 1"))
            .await;
        let error = one.run(&sql).await.expect_err(shown);
        assert_eq!(
            (error.errno, error.sqlstate.as_str()),
            (errno, state),
            "{shown}: {error}"
        );
        // As any DDL, it committed what was before.
        assert!(!one.0.in_transaction());
        let b = two.rows("SELECT b FROM t WHERE id = 1").await;
        assert_eq!(b, number.to_string(), "{shown}");
        assert_eq!(two.errno("SELECT * FROM x").await, 1146, "{shown}");
    }
    assert_eq!(
        two.rows("SELECT COUNT(*), COUNT(w) FROM t").await,
        "4|0",
        "the table is as it was"
    );
    // What is just within the limits.
    for sql in [
        format!(
            "CREATE TABLE x (id INT PRIMARY KEY, {}, {})",
            list(16, |i| format!("c{i} INT")),
            list(63, |i| format!("KEY k{i} (c{}, c{})", i % 16, (i + 1) % 16))
        ),
        format!(
            "CREATE TABLE y ({}, KEY ({}))",
            list(16, |i| format!("c{i} INT")),
            list(16, |i| format!("c{i}"))
        ),
        "CREATE TABLE z (v VARCHAR(768) NOT NULL PRIMARY KEY, w VARCHAR(15614))".to_owned(),
    ] {
        one.ok(&sql).await;
    }
    one.ok("INSERT INTO x (id) VALUES (1); INSERT INTO y VALUES (); INSERT INTO z VALUES (RPAD('é', 768, 'é'), '')")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_beyond_the_limits_are_refused_and_the_transaction_goes_on() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok(
        "CREATE TABLE l (id INT PRIMARY KEY, v VARCHAR(4000), w VARCHAR(4000), x VARCHAR(4000))",
    )
    .await;
    one.ok("CREATE TABLE k (p VARCHAR(700) PRIMARY KEY, v VARCHAR(700), KEY (v))")
        .await;
    one.ok("BEGIN; INSERT INTO l VALUES (1, 'a', RPAD('b', 3000, 'b'), RPAD('c', 3000, 'c'))")
        .await;
    one.ok("INSERT INTO k VALUES ('a', 'b'); UPDATE t SET b = 1 WHERE id = 1")
        .await;
    for (errno, sql) in [
        (
            1118,
            "INSERT INTO l VALUES (2, 'a', '', ''), (3, RPAD('a', 4000, 'a'), RPAD('b', 4000, 'b'), RPAD('c', 4000, 'c'))",
        ),
        (
            1118,
            "INSERT INTO l SELECT id + 1, RPAD('a', 4000, 'a'), w, x FROM l",
        ),
        (1118, "UPDATE l SET v = RPAD('a', 4000, 'a')"),
        (
            1118,
            "REPLACE INTO l VALUES (1, RPAD('a', 4000, 'a'), RPAD('b', 4000, 'b'), RPAD('c', 4000, 'c'))",
        ),
        (
            1118,
            "INSERT INTO l (id) VALUES (1) ON DUPLICATE KEY UPDATE v = RPAD('a', 4000, 'a')",
        ),
        // With the columns of the primary key an entry is longer than a key may be.
        (
            1071,
            "INSERT INTO k VALUES ('b', 'b'), (RPAD('𝄞', 500, '𝄞'), RPAD('𝄢', 700, '𝄢'))",
        ),
        (
            1071,
            "UPDATE k SET p = RPAD('𝄞', 500, '𝄞'), v = RPAD('𝄢', 700, '𝄢')",
        ),
    ] {
        let error = one.run(sql).await.expect_err(sql);
        assert_eq!(
            (error.errno, error.sqlstate.as_str()),
            (errno, "42000"),
            "{sql}: {error}"
        );
        assert!(one.0.in_transaction(), "{sql}");
        assert_eq!(
            one.rows("SELECT id, v, LENGTH(w), LENGTH(x) FROM l").await,
            "1|a|3000|3000",
            "{sql}"
        );
        assert_eq!(one.rows("SELECT * FROM k").await, "a|b", "{sql}");
        assert_eq!(
            one.rows("SELECT * FROM k WHERE v = 'b'").await,
            "a|b",
            "{sql}"
        );
    }
    assert_eq!(two.rows("SELECT SUM(b) FROM t").await, "0");
    one.ok("COMMIT").await;
    assert_eq!(two.rows("SELECT SUM(b) FROM t").await, "1");
    assert_eq!(two.rows("SELECT COUNT(*) FROM l").await, "1");
}
