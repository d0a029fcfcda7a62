//! Privileges of columns, compared with MariaDB.

use perigee_testkit::MariaDb;

use crate::{Served, answer, number_of};

const SETUP: &str = "
CREATE DATABASE d;
CREATE TABLE d.t (a INT PRIMARY KEY, b INT, c INT); CREATE TABLE d.u (a INT PRIMARY KEY, b INT);
INSERT INTO d.t VALUES (1, 10, 100), (2, 20, 200); INSERT INTO d.u VALUES (1, 5), (2, 6);
CREATE USER ann@localhost IDENTIFIED BY 'secret'; CREATE USER bob@localhost IDENTIFIED BY 'secret';
GRANT SELECT (a, b), UPDATE (b), INSERT (a, b) ON d.t TO ann@localhost;
GRANT SELECT (a), REFERENCES (a) ON d.u TO ann@localhost;
GRANT CREATE, CREATE VIEW ON d.* TO bob@localhost; GRANT SELECT (a, b) ON d.t TO bob@localhost;
GRANT INSERT (a), UPDATE, DELETE ON d.u TO bob@localhost;
CREATE VIEW d.v AS SELECT a, c FROM d.t; GRANT SELECT (a) ON d.v TO ann@localhost;
CREATE SQL SECURITY INVOKER VIEW d.own AS SELECT a, c FROM d.t; GRANT SELECT ON d.own TO ann@localhost;
";

const STATEMENTS: &[(&str, &str)] = &[
    ("ann", "SELECT a, b FROM d.t ORDER BY a"),
    ("ann", "SELECT b FROM d.t WHERE a = 1"),
    ("ann", "SELECT * FROM d.t WHERE a = 1"),
    ("ann", "SELECT t.* FROM d.t"),
    ("ann", "SELECT c FROM d.t WHERE a = 1"),
    ("ann", "SELECT d.t.c FROM d.t"),
    ("ann", "SELECT a FROM d.t WHERE c = 1"),
    ("ann", "SELECT a FROM d.t ORDER BY c"),
    ("ann", "SELECT COUNT(*) FROM d.t GROUP BY c"),
    ("ann", "SELECT a FROM d.t GROUP BY a HAVING MAX(c) > 1"),
    ("ann", "SELECT SUM(c + 1) FROM d.t"),
    ("ann", "SELECT x.c FROM d.t AS x"),
    ("ann", "SELECT COUNT(*) FROM d.t"),
    ("ann", "SELECT 1 FROM d.t"),
    (
        "ann",
        "SELECT COUNT(*) FROM d.u WHERE EXISTS (SELECT 1 FROM d.t WHERE t.c = u.a)",
    ),
    (
        "ann",
        "SELECT a FROM d.u WHERE EXISTS (SELECT 1 FROM d.t WHERE t.b = u.b)",
    ),
    ("ann", "SELECT COUNT(*) FROM d.t JOIN d.u USING (a)"),
    ("ann", "SELECT COUNT(*) FROM d.t JOIN d.u USING (b)"),
    ("ann", "SELECT COUNT(*) FROM d.t NATURAL JOIN d.u"),
    ("ann", "SELECT COUNT(*) FROM d.t JOIN d.u ON t.a = u.b"),
    ("ann", "WITH x AS (SELECT c FROM d.t) SELECT 1 FROM x"),
    ("ann", "SELECT * FROM (SELECT a, b FROM d.t) x ORDER BY a"),
    ("ann", "INSERT INTO d.t (a, b) VALUES (3, 30)"),
    ("ann", "INSERT INTO d.t SET a = 4, b = 40"),
    ("ann", "INSERT INTO d.t (a, c) VALUES (5, 50)"),
    ("ann", "INSERT INTO d.t VALUES (5, 50, 500)"),
    ("ann", "INSERT INTO d.t SELECT a, a, a FROM d.u"),
    ("ann", "INSERT INTO d.t (a) SELECT b FROM d.u"),
    ("ann", "INSERT INTO d.t (a) SELECT a + 100 FROM d.u"),
    ("ann", "REPLACE INTO d.t (a, b) VALUES (3, 30)"),
    (
        "ann",
        "INSERT INTO d.t (a, b) VALUES (3, 30) ON DUPLICATE KEY UPDATE b = 31",
    ),
    (
        "ann",
        "INSERT INTO d.t (a, b) VALUES (3, 30) ON DUPLICATE KEY UPDATE c = 31",
    ),
    (
        "ann",
        "INSERT INTO d.t (a, b) VALUES (3, 30) ON DUPLICATE KEY UPDATE b = t.b + t.a",
    ),
    (
        "ann",
        "INSERT INTO d.t (a, b) VALUES (3, 30) ON DUPLICATE KEY UPDATE b = t.a + t.c",
    ),
    ("ann", "UPDATE d.t SET b = 11 WHERE a = 1"),
    ("ann", "UPDATE d.t SET c = 11 WHERE a = 1"),
    ("ann", "UPDATE d.t SET b = c WHERE a = 1"),
    ("ann", "UPDATE d.t SET b = 1 WHERE c = 1"),
    ("ann", "UPDATE d.t SET b = b + 1"),
    ("ann", "UPDATE d.t, d.u SET t.b = 1 WHERE t.a = u.a"),
    ("ann", "UPDATE d.t, d.u SET t.b = u.b WHERE t.a = u.a"),
    ("ann", "UPDATE d.u SET a = 9"),
    ("ann", "DELETE FROM d.t WHERE a = 1"),
    ("ann", "SHOW COLUMNS FROM d.t"),
    ("ann", "SHOW COLUMNS FROM d.u"),
    (
        "ann",
        "SELECT TABLE_NAME, COLUMN_NAME, PRIVILEGES FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME IN ('t', 'u') ORDER BY 1, 2",
    ),
    ("ann", "SHOW TABLES FROM d"),
    ("ann", "SHOW CREATE TABLE d.t"),
    (
        "ann",
        "SELECT TABLE_NAME, COLUMN_NAME, PRIVILEGE_TYPE FROM information_schema.COLUMN_PRIVILEGES ORDER BY 1, 2, 3",
    ),
    ("ann", "SELECT a FROM d.v WHERE a < 3 ORDER BY a"),
    ("ann", "SELECT c FROM d.v"),
    ("ann", "SELECT * FROM d.v"),
    ("ann", "SELECT a FROM d.own WHERE a < 3 ORDER BY a"),
    ("ann", "GRANT SELECT (a) ON d.t TO bob@localhost"),
    ("bob", "INSERT INTO d.u (a) VALUES (7)"),
    ("bob", "INSERT INTO d.u (a, b) VALUES (8, 8)"),
    ("bob", "UPDATE d.u SET b = 1"),
    ("bob", "DELETE FROM d.u"),
    ("bob", "CREATE VIEW d.w AS SELECT a, b FROM d.t"),
    ("bob", "CREATE VIEW d.x AS SELECT a, c FROM d.t"),
    ("bob", "CREATE TABLE d.n SELECT c FROM d.t"),
];

#[test]
fn columns_may_be_used_as_in_mariadb() {
    let served = Served::start(&[]);
    served.root(SETUP);
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(dir.path(), &[]).unwrap();
    mariadb.query("", SETUP).unwrap();
    let theirs = |user: &str, sql: &str| {
        let mut client = mariadb.client();
        client
            .args(["--batch", "--raw", "-N", "--password=secret"])
            .arg(format!("--user={user}"))
            .args(["-e", sql]);
        answer(&mut client)
    };
    let outcome = |answer: Result<String, String>| match answer {
        Ok(text) => text,
        Err(error) => number_of(&error),
    };
    let mut different = Vec::new();
    for (user, sql) in STATEMENTS {
        let ours = outcome(served.try_as(user, "secret", sql));
        let expected = match *sql {
            // MySQL looks at the columns that a join has in common.
            "SELECT COUNT(*) FROM d.t JOIN d.u USING (b)"
            | "SELECT COUNT(*) FROM d.t NATURAL JOIN d.u" => "1143 (42000)".to_owned(),
            // UPDATE of what is assigned and SELECT of what is read are enough for MySQL.
            "INSERT INTO d.t (a, b) VALUES (3, 30) ON DUPLICATE KEY UPDATE b = 31"
            | "INSERT INTO d.t (a, b) VALUES (3, 30) ON DUPLICATE KEY UPDATE b = t.b + t.a" => {
                String::new()
            }
            // MySQL 8 shows no width of integers.
            sql => outcome(theirs(user, sql)).replace("int(11)", "int"),
        };
        if ours != expected {
            different.push(format!(
                "{user}: {sql}\n  ours: {ours}\n  expected: {expected}"
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn what_is_said_of_a_column_names_it() {
    let served = Served::start(&[]);
    served.root(SETUP);
    let error = |sql: &str| served.try_as("ann", "secret", sql).unwrap_err();
    for (sql, expected) in [
        (
            "SELECT x.c FROM d.t x",
            "SELECT command denied to user 'ann'@'127.0.0.1' for column 'c' in table 't'",
        ),
        (
            "UPDATE d.t SET c = 1",
            "UPDATE command denied to user 'ann'@'127.0.0.1' for column 'c' in table 't'",
        ),
        (
            "INSERT INTO d.t (a, c) VALUES (1, 1)",
            "INSERT command denied to user 'ann'@'127.0.0.1' for column 'c' in table 't'",
        ),
        (
            "SELECT * FROM d.t",
            "SELECT command denied to user 'ann'@'127.0.0.1' for table 't'",
        ),
    ] {
        assert!(error(sql).contains(expected), "{}", error(sql));
    }
}

#[test]
fn a_view_shows_what_its_definer_may_read_of_single_columns() {
    let served = Served::start(&[]);
    served.root(SETUP);
    let made = "CREATE VIEW d.w AS SELECT a, b FROM d.t WHERE a < 3";
    served.try_as("bob", "secret", made).unwrap();
    served.root("GRANT SELECT ON d.w TO ann@localhost");
    let read = || served.try_as("ann", "secret", "SELECT SUM(b) FROM d.w");
    assert_eq!(read(), Ok("30\n".into()));
    served.root("REVOKE SELECT (b) ON d.t FROM bob@localhost");
    assert_eq!(number_of(&read().unwrap_err()), "1356 (HY000)");
    // What it takes of the invoker.
    let own = served.try_as("ann", "secret", "SELECT a FROM d.own");
    assert_eq!(number_of(&own.unwrap_err()), "1356 (HY000)");
}

#[test]
fn privileges_of_columns_hold_in_prepared_statements_and_outlive_a_kill() {
    let mut served = Served::start(&[]);
    served.root(SETUP);
    served.restart();
    let prepared = "PREPARE s FROM 'SELECT b FROM d.t WHERE a = ?'; SET @a = 1; EXECUTE s USING @a";
    assert_eq!(served.try_as("ann", "secret", prepared), Ok("10\n".into()));
    let prepared = "PREPARE s FROM 'SELECT c FROM d.t WHERE a = ?'; SET @a = 1; EXECUTE s USING @a";
    let error = served.try_as("ann", "secret", prepared).unwrap_err();
    assert_eq!(number_of(&error), "1143 (42000)");
}
