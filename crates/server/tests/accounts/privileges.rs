//! What accounts may do and see, compared with MariaDB, and what changes of it do to sessions that are open.

use std::io::Write as _;
use std::process::{Command, Stdio};

use perigee_testkit::MariaDb;

use crate::{Served, answer, number_of};

/// Schemas, tables and accounts, for both servers.
const SETUP: &str = "
CREATE DATABASE d; CREATE DATABASE e; CREATE DATABASE hidden;
CREATE TABLE d.t (a INT PRIMARY KEY, b INT); CREATE TABLE d.u (a INT PRIMARY KEY);
CREATE TABLE e.w (a INT PRIMARY KEY, b INT); CREATE TABLE hidden.x (a INT);
INSERT INTO d.t VALUES (1, 10), (2, 20); INSERT INTO e.w VALUES (1, 1);
CREATE USER ann@localhost IDENTIFIED BY 'secret';
CREATE USER writer@localhost IDENTIFIED BY 'secret';
CREATE USER maker@localhost IDENTIFIED BY 'secret';
GRANT SELECT ON d.t TO ann@localhost;
GRANT INSERT, UPDATE, DELETE ON e.* TO writer@localhost;
GRANT CREATE, ALTER, INSERT, DROP, SELECT ON e.* TO maker@localhost;
GRANT SELECT ON d.* TO maker@localhost WITH GRANT OPTION;
CREATE USER scratch@localhost IDENTIFIED BY 'secret';
GRANT SELECT, CREATE TEMPORARY TABLES ON d.* TO scratch@localhost;
CREATE DATABASE v; INSERT INTO hidden.x VALUES (1), (2);
CREATE VIEW v.shown AS SELECT a FROM hidden.x;
CREATE SQL SECURITY INVOKER VIEW v.own AS SELECT a FROM hidden.x;
CREATE VIEW v.over AS SELECT a FROM v.own;
GRANT SELECT, UPDATE ON v.shown TO ann@localhost; GRANT SELECT ON v.own TO ann@localhost;
GRANT SELECT ON v.over TO ann@localhost; GRANT CREATE VIEW, DROP, SELECT ON v.* TO maker@localhost;
";

/// Who says what.
const STATEMENTS: &[(&str, &str)] = &[
    // One table to read.
    ("ann", "SELECT * FROM d.t WHERE a = 1"),
    ("ann", "SELECT SUM(b) FROM d.t"),
    ("ann", "SELECT a FROM d.t WHERE a = 1 LOCK IN SHARE MODE"),
    ("ann", "SELECT * FROM d.u"),
    ("ann", "SELECT * FROM d.u WHERE a = 1"),
    ("ann", "SELECT 1 FROM d.t WHERE a IN (SELECT a FROM d.u)"),
    ("ann", "WITH u AS (SELECT 1 AS a) SELECT * FROM u"),
    (
        "ann",
        "SELECT * FROM d.u, (WITH u AS (SELECT 1) SELECT * FROM u) v",
    ),
    ("ann", "SELECT * FROM hidden.nothing"),
    ("ann", "INSERT INTO d.t VALUES (3, 3)"),
    ("ann", "UPDATE d.t SET b = 1 WHERE a = 1"),
    ("ann", "DELETE FROM d.t WHERE a = 1"),
    ("ann", "REPLACE INTO d.t VALUES (1, 1)"),
    ("ann", "CREATE TABLE d.n (a INT)"),
    ("ann", "DROP TABLE d.t"),
    ("ann", "ALTER TABLE d.t ADD COLUMN c INT"),
    ("ann", "CREATE INDEX i ON d.t (b)"),
    ("ann", "TRUNCATE TABLE d.t"),
    ("ann", "RENAME TABLE d.t TO d.s"),
    ("ann", "CREATE DATABASE mine"),
    ("ann", "DROP DATABASE d"),
    ("ann", "USE d"),
    ("ann", "USE hidden"),
    ("ann", "USE nosuch"),
    ("ann", "SHOW TABLES FROM d"),
    ("ann", "SHOW TABLES FROM hidden"),
    ("ann", "SHOW DATABASES LIKE 'hid%'"),
    ("ann", "SHOW CREATE TABLE hidden.x"),
    ("ann", "SHOW COLUMNS FROM hidden.x"),
    ("ann", "DESCRIBE d.u"),
    (
        "ann",
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ('d', 'e', 'hidden')",
    ),
    ("ann", "SELECT User FROM mysql.user"),
    ("ann", "CREATE USER other"),
    ("ann", "DROP USER writer@localhost"),
    ("ann", "ALTER USER writer@localhost IDENTIFIED BY 'x'"),
    ("ann", "GRANT SELECT ON d.t TO writer@localhost"),
    ("ann", "FLUSH PRIVILEGES"),
    ("ann", "SET GLOBAL max_allowed_packet = 1048576"),
    ("ann", "EXPLAIN SELECT * FROM d.u"),
    ("ann", "PREPARE s FROM 'SELECT * FROM d.u'"),
    (
        "ann",
        "PREPARE s FROM 'SELECT a FROM d.t WHERE a = 2'; EXECUTE s",
    ),
    // Views with the rights of their definer, and of whoever names them.
    ("ann", "SELECT * FROM v.shown"),
    ("ann", "SELECT * FROM v.own"),
    ("ann", "SELECT * FROM v.over"),
    ("ann", "UPDATE v.shown SET a = 3 WHERE a = 2"),
    ("ann", "SELECT a FROM v.shown WHERE a > 1"),
    ("ann", "DELETE FROM v.shown"),
    ("ann", "INSERT INTO v.shown VALUES (5)"),
    ("ann", "SHOW CREATE VIEW v.shown"),
    ("ann", "CREATE VIEW v.n AS SELECT 1"),
    ("ann", "DROP VIEW v.shown"),
    ("maker", "CREATE VIEW v.n AS SELECT a FROM d.t"),
    ("maker", "CREATE VIEW v.h AS SELECT a FROM hidden.x"),
    ("maker", "CREATE OR REPLACE VIEW v.n AS SELECT b FROM d.t"),
    ("maker", "SELECT * FROM v.n ORDER BY b"),
    ("maker", "DROP VIEW v.n"),
    // Everything but reading.
    ("writer", "INSERT INTO e.w VALUES (2, 2), (3, 3)"),
    ("writer", "UPDATE e.w SET b = 7"),
    ("writer", "UPDATE e.w SET b = 7 WHERE a = 1"),
    ("writer", "UPDATE e.w SET b = b + 1"),
    ("writer", "DELETE FROM e.w WHERE a = 1"),
    ("writer", "DELETE FROM e.w LIMIT 1"),
    ("writer", "INSERT INTO e.w SELECT * FROM d.t"),
    (
        "writer",
        "INSERT INTO e.w VALUES (5, 5) ON DUPLICATE KEY UPDATE b = 1",
    ),
    (
        "writer",
        "INSERT INTO e.w VALUES (5, 5) ON DUPLICATE KEY UPDATE b = w.b + 1",
    ),
    ("writer", "SELECT * FROM e.w"),
    // Temporary tables: whoever may make one may do anything with it.
    ("ann", "CREATE TEMPORARY TABLE d.n (a INT)"),
    ("ann", "DROP TEMPORARY TABLE d.t"),
    ("maker", "CREATE TEMPORARY TABLE e.n (a INT)"),
    ("scratch", "CREATE TEMPORARY TABLE e.n (a INT)"),
    ("scratch", "CREATE TABLE d.n (a INT)"),
    (
        "scratch",
        "CREATE TEMPORARY TABLE d.n (a INT PRIMARY KEY, b INT); INSERT INTO d.n VALUES (1, 1), (2, 2); \
         UPDATE d.n SET b = b + 1 WHERE a = 1; DELETE FROM d.n WHERE a = 2; REPLACE INTO d.n VALUES (3, 3); \
         SELECT * FROM d.n ORDER BY a; ALTER TABLE d.n ADD c INT; CREATE INDEX i ON d.n (b); \
         SELECT b FROM d.n WHERE a = 3 FOR UPDATE; INSERT INTO d.n (a) VALUES (3) ON DUPLICATE KEY UPDATE c = n.a; \
         SELECT SUM(c) FROM d.n; TRUNCATE TABLE d.n; SELECT COUNT(*) FROM d.n; DROP TABLE d.n",
    ),
    (
        "scratch",
        "CREATE TEMPORARY TABLE d.n SELECT * FROM d.t; SELECT COUNT(*) FROM d.n",
    ),
    ("scratch", "CREATE TEMPORARY TABLE d.n SELECT * FROM e.w"),
    ("scratch", "CREATE TEMPORARY TABLE d.n LIKE hidden.x"),
    (
        "scratch",
        "CREATE TEMPORARY TABLE d.t (a INT); INSERT INTO d.t VALUES (1); DROP TABLE d.t; DROP TABLE d.t",
    ),
    (
        "scratch",
        "CREATE TEMPORARY TABLE d.t (a INT); CREATE TABLE d.t (a INT)",
    ),
    (
        "scratch",
        "CREATE TEMPORARY TABLE d.t (a INT); DROP TEMPORARY TABLE d.t; INSERT INTO d.t VALUES (7, 7)",
    ),
    (
        "scratch",
        "CREATE TEMPORARY TABLE d.t (a INT); CREATE VIEW d.w AS SELECT 1",
    ),
    (
        "scratch",
        "CREATE TEMPORARY TABLE d.t (a INT); ALTER TABLE d.t RENAME TO e.t",
    ),
    // Definitions in one schema, and what may be granted.
    ("maker", "CREATE TABLE e.n (a INT)"),
    ("maker", "CREATE TABLE e.c SELECT * FROM d.t"),
    ("maker", "CREATE TABLE e.l LIKE hidden.x"),
    ("maker", "ALTER TABLE e.n ADD COLUMN b INT"),
    ("maker", "ALTER TABLE e.n RENAME TO e.m"),
    ("maker", "RENAME TABLE e.m TO d.m"),
    ("maker", "CREATE INDEX i ON e.m (a)"),
    ("maker", "TRUNCATE TABLE e.m"),
    ("maker", "DROP TABLE e.m"),
    ("maker", "UPDATE e.w SET b = 1"),
    ("maker", "GRANT SELECT ON d.u TO ann@localhost"),
    ("maker", "GRANT INSERT ON d.u TO ann@localhost"),
    ("maker", "GRANT SELECT ON e.w TO ann@localhost"),
    ("ann", "SELECT COUNT(*) FROM d.u"),
    ("maker", "REVOKE SELECT ON d.u FROM ann@localhost"),
    ("ann", "SELECT COUNT(*) FROM d.u"),
];

fn outcome(answer: Result<String, String>) -> String {
    match answer {
        Ok(text) => text,
        Err(error) => number_of(&error),
    }
}

#[test]
fn accounts_may_do_what_mariadbs_may() {
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
        outcome(answer(&mut client))
    };
    let mut different = Vec::new();
    for (user, sql) in STATEMENTS {
        let ours = outcome(served.try_as(user, "secret", sql));
        let expected = match *sql {
            // MySQL's numbers, where MariaDB has others.
            "CREATE USER other"
            | "DROP USER writer@localhost"
            | "ALTER USER writer@localhost IDENTIFIED BY 'x'" => "1227 (42000)".to_owned(),
            // MariaDB wants SELECT for columns that are only assigned.
            "INSERT INTO e.w VALUES (5, 5) ON DUPLICATE KEY UPDATE b = 1" => String::new(),
            sql => theirs(user, sql),
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
fn rows_are_locked_for_a_change_only_by_those_who_may_change_them() {
    let served = Served::start(&[]);
    served.root(SETUP);
    for sql in [
        "SELECT b FROM d.t WHERE a = 1 FOR UPDATE",
        "SELECT SUM(b) FROM d.t FOR UPDATE",
        "PREPARE s FROM 'SELECT b FROM d.t WHERE a = 1 FOR UPDATE'; EXECUTE s",
    ] {
        let denied = served.try_as("ann", "secret", sql).unwrap_err();
        assert_eq!(number_of(&denied), "1142 (42000)", "{sql}");
    }
    for privilege in ["UPDATE", "DELETE"] {
        served.root(&format!("GRANT {privilege} ON d.t TO ann@localhost"));
        let sql = "SELECT b FROM d.t WHERE a = 1 FOR UPDATE";
        assert_eq!(served.try_as("ann", "secret", sql), Ok("10\n".into()));
        served.root(&format!("REVOKE {privilege} ON d.t FROM ann@localhost"));
    }
}

#[test]
fn what_is_granted_and_revoked_holds_in_open_sessions() {
    let served = Served::start(&[]);
    served.root(SETUP);
    let mut client = served.mariadb("ann", "secret", &["--force", "--unbuffered"]);
    client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut client = client.spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    let mut say = |sql: &str| {
        input.write_all(sql.as_bytes()).unwrap();
        input.flush().unwrap();
        // The client runs it.
        std::thread::sleep(std::time::Duration::from_millis(400));
    };
    let by_key = "SELECT b FROM d.t WHERE a = 1;\n";
    say(by_key);
    served.root("REVOKE SELECT ON d.t FROM ann@localhost");
    say(by_key);
    served.root("GRANT SELECT ON `d%`.* TO ann@localhost");
    say(by_key);
    served.root("DROP USER ann@localhost");
    say(by_key);
    drop(input);
    let output = client.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "10\n10\n");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(errors.matches("ERROR 1142 (42000)").count(), 2, "{errors}");
}

#[test]
fn connections_of_others_are_not_seen_and_not_killed() {
    let served = Served::start(&[]);
    served.root(SETUP);
    let mut sleeper = served.mariadb("writer", "secret", &["-e", "SELECT SLEEP(100)"]);
    let mut sleeper = sleeper
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let find = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'writer'";
    let id = loop {
        let id = served.root(find);
        if !id.is_empty() {
            break id.trim().to_owned();
        }
    };
    let own = served.try_as("ann", "secret", "SHOW PROCESSLIST").unwrap();
    assert!(own.contains("ann") && !own.contains("writer"), "{own}");
    assert_eq!(served.try_as("ann", "secret", find), Ok(String::new()));
    let kill = format!("KILL {id}");
    let error = served.try_as("ann", "secret", &kill).unwrap_err();
    assert_eq!(number_of(&error), "1095 (HY000)");
    let admin = |command: &str| {
        let mut client = Command::new("mariadb-admin");
        client
            .args([
                "--no-defaults",
                "--host=127.0.0.1",
                "--user=ann",
                "--password=secret",
            ])
            .arg(format!("--port={}", served.port()))
            .args(["kill", command]);
        answer(&mut client)
    };
    assert!(
        admin(&id).is_err(),
        "the command of the protocol is checked, too"
    );
    assert!(sleeper.try_wait().unwrap().is_none());
    served.root("GRANT CONNECTION_ADMIN, PROCESS ON *.* TO ann@localhost");
    let all = served.try_as("ann", "secret", "SHOW PROCESSLIST").unwrap();
    assert!(all.contains("writer"), "{all}");
    served.try_as("ann", "secret", &kill).unwrap();
    assert!(!sleeper.wait().unwrap().success());
}

#[test]
fn privileges_are_shown_in_the_views() {
    let served = Served::start(&[]);
    served.root(SETUP);
    let ask = |user: &str, password: &str, sql: &str| served.try_as(user, password, sql).unwrap();
    let tables = "SELECT GRANTEE, TABLE_SCHEMA, TABLE_NAME, PRIVILEGE_TYPE, IS_GRANTABLE \
                  FROM information_schema.TABLE_PRIVILEGES WHERE TABLE_SCHEMA = 'd'";
    let expected = "'ann'@'localhost'\td\tt\tSELECT\tNO\n";
    assert_eq!(ask("root", "", tables), expected);
    assert_eq!(ask("ann", "secret", tables), expected);
    assert_eq!(ask("writer", "secret", tables), "", "others' are not shown");
    let schemas = "SELECT TABLE_SCHEMA, PRIVILEGE_TYPE, IS_GRANTABLE \
                   FROM information_schema.SCHEMA_PRIVILEGES WHERE GRANTEE = '''maker''@''localhost''' \
                   AND TABLE_SCHEMA = 'd'";
    assert_eq!(ask("maker", "secret", schemas), "d\tSELECT\tYES\n");
    let users = "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES";
    assert_eq!(ask("ann", "secret", users), "USAGE\n");
    let schemata = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA ORDER BY 1";
    let shown = ask("ann", "secret", schemata);
    assert_eq!(shown, "d\ninformation_schema\nperformance_schema\nv\n");
    let locked = "SELECT User, account_locked, password_expired FROM mysql.user WHERE User = 'ann'";
    assert_eq!(ask("root", "", locked), "ann\tN\tN\n");
    let grants = ask("maker", "secret", "SHOW GRANTS FOR CURRENT_USER");
    let expected = "GRANT USAGE ON *.* TO `maker`@`localhost`\n\
                    GRANT SELECT ON `d`.* TO `maker`@`localhost` WITH GRANT OPTION\n\
                    GRANT SELECT, INSERT, CREATE, DROP, ALTER ON `e`.* TO `maker`@`localhost`\n\
                    GRANT SELECT, DROP, CREATE VIEW ON `v`.* TO `maker`@`localhost`\n";
    assert_eq!(grants, expected);
    let error = served
        .try_as("maker", "secret", "SHOW GRANTS FOR ann@localhost")
        .unwrap_err();
    assert_eq!(number_of(&error), "1044 (42000)");
}

#[test]
fn procedures_have_the_rights_of_their_definers_or_callers() {
    let served = Served::start(&[]);
    served.root(
        "CREATE DATABASE d; CREATE TABLE d.t (a INT); INSERT INTO d.t VALUES (1), (2); CREATE DATABASE v; \
         CREATE USER ann IDENTIFIED BY 'x', maker IDENTIFIED BY 'x'; GRANT CREATE ROUTINE ON v.* TO maker; \
         GRANT SELECT ON d.* TO maker",
    );
    served.root(
        "CREATE PROCEDURE v.as_root() SELECT COUNT(*), CURRENT_USER(), USER() LIKE 'root%' FROM d.t; \
         CREATE PROCEDURE v.as_caller() SQL SECURITY INVOKER SELECT COUNT(*), CURRENT_USER() FROM d.t",
    );
    let number = |user: &str, sql: &str| number_of(&served.try_as(user, "x", sql).unwrap_err());
    // Without EXECUTE nothing is called, and whether there is such a procedure is not told.
    for name in ["as_root", "as_caller", "none"] {
        let sql = format!("CALL v.{name}()");
        assert_eq!(number("ann", &sql), "1370 (42000)");
    }
    served.root("GRANT EXECUTE ON PROCEDURE v.as_root TO ann");
    let called = served.try_as("ann", "x", "CALL v.as_root()").unwrap();
    assert_eq!(called, "2\troot@localhost\t0\n");
    assert_eq!(number("ann", "CALL v.as_caller()"), "1370 (42000)");
    served.root("REVOKE EXECUTE ON PROCEDURE v.as_root FROM ann; GRANT EXECUTE ON v.* TO ann");
    let called = served.try_as("ann", "x", "CALL v.as_root()").unwrap();
    assert_eq!(called, "2\troot@localhost\t0\n");
    assert_eq!(number("ann", "CALL v.as_caller()"), "1142 (42000)");
    // The rights are the caller's again afterwards.
    let both = "CALL v.as_root(); SELECT * FROM d.t";
    assert_eq!(number("ann", both), "1142 (42000)");
    served.root("GRANT SELECT ON d.* TO ann");
    let called = served.try_as("ann", "x", "CALL v.as_caller()").unwrap();
    assert_eq!(called, "2\tann@%\n");
    assert_eq!(number("ann", "CALL v.none()"), "1305 (42000)");
    for sql in [
        "CREATE PROCEDURE v.p() SELECT 1",
        "CREATE PROCEDURE d.p() SELECT 1",
    ] {
        assert_eq!(number("ann", sql), "1044 (42000)");
    }
    assert_eq!(number("ann", "DROP PROCEDURE v.as_root"), "1370 (42000)");
    // Who made one may call and drop it; to make one for others takes SUPER.
    let made = "CREATE PROCEDURE v.own() SELECT COUNT(*) FROM d.t; CALL v.own(); SHOW CREATE PROCEDURE v.own";
    let made = served.try_as("maker", "x", made).unwrap();
    assert!(
        made.starts_with("2\n") && made.contains("`maker`@`%`"),
        "{made}"
    );
    let grants = served.try_as("maker", "x", "SHOW GRANTS").unwrap();
    let own = "GRANT EXECUTE, ALTER ROUTINE ON PROCEDURE `v`.`own` TO `maker`@`%`";
    assert!(grants.contains(own), "{grants}");
    let again = "DROP PROCEDURE v.own; SHOW GRANTS";
    let grants = served.try_as("maker", "x", again).unwrap();
    assert!(!grants.contains("`own`"), "{grants}");
    served.root("SET GLOBAL automatic_sp_privileges = OFF");
    let sql = "CREATE PROCEDURE v.own() SELECT COUNT(*) FROM d.t; CALL v.own()";
    assert_eq!(number("maker", sql), "1370 (42000)");
    served.root("SET GLOBAL automatic_sp_privileges = ON; DROP PROCEDURE v.own");
    let made = "CREATE PROCEDURE v.own() SELECT COUNT(*) FROM d.t";
    served.try_as("maker", "x", made).unwrap();
    let other = "CREATE DEFINER = root@localhost PROCEDURE v.other() SELECT 1";
    assert_eq!(number("maker", other), "1227 (42000)");
    assert_eq!(number("maker", "DROP PROCEDURE v.as_root"), "1370 (42000)");
    let seen = "SELECT GROUP_CONCAT(ROUTINE_NAME ORDER BY 1) FROM information_schema.ROUTINES";
    let nothing = "REVOKE EXECUTE ON v.* FROM ann";
    served.root(nothing);
    assert_eq!(served.try_as("ann", "x", seen).unwrap(), "NULL\n");
    served.root("DROP USER maker");
    assert!(
        served
            .try_as("root", "", "CALL v.own()")
            .unwrap_err()
            .contains("1449")
    );
    served.root("DROP PROCEDURE v.own");
}

#[test]
fn triggers_have_the_rights_of_their_definers() {
    let served = Served::start(&[]);
    served.root(
        "CREATE DATABASE d; CREATE TABLE d.t (a INT, b INT); CREATE TABLE d.log (a INT); \
         CREATE USER ann IDENTIFIED BY 'x', maker IDENTIFIED BY 'x'; GRANT INSERT ON d.t TO ann; \
         GRANT TRIGGER, SELECT ON d.t TO maker; GRANT INSERT ON d.log TO maker",
    );
    let number = |user: &str, sql: &str| number_of(&served.try_as(user, "x", sql).unwrap_err());
    let own =
        "CREATE TRIGGER d.own BEFORE INSERT ON d.t FOR EACH ROW INSERT INTO d.log VALUES (NEW.a)";
    assert_eq!(number("ann", own), "1142 (42000)");
    served.try_as("maker", "x", own).unwrap();
    let other = "CREATE DEFINER = root@localhost TRIGGER d.other BEFORE INSERT ON d.t FOR EACH ROW SET NEW.b = 1";
    assert_eq!(number("maker", other), "1227 (42000)");
    // Who inserts needs nothing of what the trigger needs.
    let insert = "INSERT INTO d.t VALUES (1, 2)";
    served.try_as("ann", "x", insert).unwrap();
    let count = "SELECT COUNT(*) FROM d.log";
    assert_eq!(served.try_as("root", "", count).unwrap(), "1\n");
    // What is taken from the definer is missing, here and in the table that is written to.
    served.root("REVOKE INSERT ON d.log FROM maker");
    assert_eq!(number("ann", insert), "1142 (42000)");
    served.root("GRANT INSERT ON d.log TO maker; REVOKE TRIGGER ON d.t FROM maker");
    assert_eq!(number("ann", insert), "1142 (42000)");
    assert_eq!(number("maker", "DROP TRIGGER d.own"), "1142 (42000)");
    assert_eq!(number("maker", "SHOW CREATE TRIGGER d.own"), "1360 (HY000)");
    let seen = "SELECT COUNT(*) FROM information_schema.TRIGGERS";
    assert_eq!(served.try_as("maker", "x", seen).unwrap(), "0\n");
    assert_eq!(served.try_as("root", "", seen).unwrap(), "1\n");
    // Without a definer nothing is inserted.
    served.root("DROP USER maker");
    assert_eq!(number("ann", insert), "1449 (HY000)");
    served.root("DROP TRIGGER d.own");
    served.try_as("ann", "x", insert).unwrap();
}
