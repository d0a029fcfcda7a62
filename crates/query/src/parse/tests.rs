//! Tests of parsing.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn parse(text: &str) -> Result<Statement> {
    let script = Script::new(text)?;
    let pieces: Vec<_> = script.pieces().collect();
    assert_eq!(pieces.len(), 1, "{text}");
    pieces[0].parse()
}

#[test]
fn scripts_are_split_at_semicolons() {
    let script = Script::new("SELECT ';'; ; /* ; */ SELECT 2;\n-- x;\n").unwrap();
    assert_eq!(script.pieces().len(), 2);
    assert_eq!(Script::new("  ; ").unwrap().pieces().len(), 0);
}

#[test]
fn errors_show_where() {
    for (text, near, line) in [
        ("SELEC 1", "SELEC 1", 1),
        ("SELECT (1", "", 1),
        ("SET x 5", "5", 1),
        ("SHOW TABLES LIKE 5", "5", 1),
        ("SELECT 'abc", "'abc", 1),
        ("SELECT 1 2", "2", 1),
        ("SELECT 1 FROM\n WHERE", "WHERE", 2),
        ("SELECT 1 FROM t WHERE", "", 1),
        ("SELECT FROM t", "FROM t", 1),
        ("SELECT a, FROM t", "FROM t", 1),
        ("SELECT a b c FROM t", "c FROM t", 1),
        ("SELECT 1 AS where", "where", 1),
        ("SELECT a FROM t AS order", "order", 1),
        ("SELECT a FROM t GROUP a", "GROUP a", 1),
        ("SELECT a FROM t ORDER BY", "", 1),
        ("SELECT a FROM t LIMIT 1 1", "1", 1),
        ("SELECT a FROM t WHERE a = 1 garbage", "garbage", 1),
        ("SELECT a FROM 'table'", "'table'", 1),
        ("SELECT * FROM select", "select", 1),
        ("SELECT a + FROM t", "FROM t", 1),
        (
            "WITH order AS (SELECT 1) SELECT 2",
            "order AS (SELECT 1) SELECT 2",
            1,
        ),
        ("INSERT INTO group VALUES (1)", "group VALUES (1)", 1),
        ("INSERT INTO t (key) VALUES (1)", "key) VALUES (1)", 1),
        ("INSERT INTO t VALUES (1) 2", "2", 1),
        ("CREATE TABLE index (a INT)", "index (a INT)", 1),
        ("CREATE TABLE t (from INT)", "from INT)", 1),
        ("CREATE TABLE t (a INT) garbage", "garbage", 1),
        ("DROP TABLE table", "table", 1),
        ("DROP TABLE t u", "u", 1),
        ("USE select", "select", 1),
        ("CREATE DATABASE where", "where", 1),
        ("DESCRIBE from", "from", 1),
        ("SHOW COLUMNS FROM where", "where", 1),
        ("EXPLAIN", "", 1),
        ("EXPLAIN SELECT", "", 1),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error, SqlError::syntax(near, line), "{text}");
    }
}

#[test]
fn unsupported_statements_are_named() {
    for text in [
        "LOAD DATA CONCURRENT INFILE 'x' INTO TABLE t",
        "GRANT PROXY ON x TO y",
        "LOCK INSTANCE FOR BACKUP",
        "FLUSH TABLES t FOR EXPORT",
        "HANDLER t OPEN",
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.errno, 1235, "{text}: {error}");
    }
}

#[test]
fn load_data_options() {
    let Statement::Load(load) = parse(
        "LOAD DATA LOCAL INFILE 'x.tbl' INTO TABLE db.t CHARACTER SET utf8mb4 FIELDS TERMINATED BY '|' \
         OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '|\\n' IGNORE 2 LINES (A, b)",
    )
    .unwrap() else {
        panic!("not a LOAD");
    };
    let fields = Fields {
        terminated: b"|".to_vec(),
        enclosed: Some(b'"'),
        optionally: true,
        escaped: None,
    };
    assert_eq!(
        (load.fields, load.lines.terminated.as_slice()),
        (fields, &b"|\n"[..])
    );
    assert_eq!(
        (load.ignore_lines, load.columns.unwrap()),
        (
            2,
            vec![Field::Column("a".into()), Field::Column("b".into())]
        )
    );
    assert_eq!(load.table.to_string(), "db.t");
    assert_eq!(load.existing, Existing::Refused);
    let Statement::Load(load) =
        parse("LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE t (a, @X) SET b = @x + 1, c = NOW()")
            .unwrap()
    else {
        panic!("not a LOAD");
    };
    assert_eq!(load.existing, Existing::Replaced);
    let fields = vec![Field::Column("a".into()), Field::Variable("x".into())];
    assert_eq!((load.columns, load.assignments.len()), (Some(fields), 2));
    for wrong in [
        "LOAD DATA LOCAL INFILE 'x' REPLACE IGNORE INTO TABLE t",
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE t SET",
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE t SET a = 1,",
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE t SET a = 1 LINES",
    ] {
        assert_eq!(parse(wrong).unwrap_err().errno, 1064, "{wrong}");
    }
}

#[test]
fn settings() {
    let Statement::Set(set) = parse(
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin, @@session.sql_mode='', GLOBAL ndp_mode = ON, \
         autocommit=1, @x := 5 + 1, character_set_results = NULL, wait_timeout = DEFAULT",
    )
    .unwrap() else {
        panic!("not a SET");
    };
    let targets: Vec<Target> = set.iter().map(|a| a.target.clone()).collect();
    let system = |scope, name: &str| Target::System(scope, name.to_owned());
    assert_eq!(
        targets,
        [
            Target::Names {
                collation: Some("utf8mb4_bin".into())
            },
            system(Scope::Session, "sql_mode"),
            system(Scope::Global, "ndp_mode"),
            system(Scope::Session, "autocommit"),
            Target::User("x".into()),
            system(Scope::Session, "character_set_results"),
            system(Scope::Session, "wait_timeout"),
        ]
    );
    assert_eq!(set[2].value, Value::Text("ON".into()));
    assert_eq!(set[6].value, Value::Default);
    for text in [
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION TRANSACTION READ ONLY",
    ] {
        assert!(parse(text).is_ok(), "{text}");
    }
}

#[test]
fn statements_by_hand() {
    for text in [
        "SHOW FULL TABLES FROM `x` LIKE 'a%'",
        "SHOW COLUMNS FROM t FROM db WHERE Field = 'a'",
        "SHOW INDEX IN db.t",
        "SHOW GLOBAL STATUS LIKE 'ndp%'",
        "SHOW COUNT(*) WARNINGS",
        "SHOW CREATE TABLE t",
        "KILL QUERY 5",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        "ROLLBACK WORK",
        "CREATE DATABASE IF NOT EXISTS x DEFAULT CHARACTER SET = utf8mb4 COLLATE utf8mb4_bin",
        "DROP SCHEMA IF EXISTS x",
        "DESC t",
        "DESCRIBE db.t col",
        "EXPLAIN SELECT 1",
        "EXPLAIN FORMAT=TREE SELECT 1",
        "EXPLAIN ANALYZE WITH x AS (SELECT 1) SELECT * FROM x",
        "use `My DB`",
        "DROP TABLE IF EXISTS a, b.c",
        "/* c */ INSERT INTO t VALUES (1, DEFAULT)",
        "SELECT `from`, t.order, LEFT(a, 2), IF(a, b, c), CURRENT_DATE FROM `select` t",
        "SELECT 1 AS 'from', 2 \"where\", 3 `group`, NULL, TRUE FROM dual",
        "SELECT name, value, count, status, date, year, type, text, timestamp, offset FROM user",
        "INSERT INTO db.table (`key`, t) VALUES (DEFAULT, NULL)",
        "CREATE TABLE t (`key` INT DEFAULT NULL, name CHAR(5), date DATE, KEY `index` (name))",
        "SELECT RANK() OVER (ORDER BY a), COUNT(DISTINCT a), CAST(a AS CHAR) FROM t",
    ] {
        parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}
