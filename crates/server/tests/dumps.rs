//! Dumps by `mariadb-dump`: what it writes of a database comes back in another Perigee and in MariaDB, and a dump of that
//! one in Perigee; beside transactions it is of one moment.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use perigee_testkit::{MariaDb, Rng};
use perigee_workload::{Client, Embedded};

/// Schemas with columns of all types, names and texts that need quotes, foreign keys to tables that come later, numbers
/// of AUTO_INCREMENT that are 0.
const SCHEMA: &str = r#"
CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE DATABASE e CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
USE d;
CREATE TABLE parent (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL, UNIQUE KEY n (name))
    AUTO_INCREMENT = 100 COMMENT = 'it''s; a "comment" \\ -- /* x */';
CREATE TABLE a_child (p INT, q INT, r INT DEFAULT 7, KEY (p), CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id)
    ON DELETE CASCADE ON UPDATE CASCADE, CONSTRAINT positive CHECK (q > 0));
CREATE TABLE tree (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, up BIGINT UNSIGNED, FOREIGN KEY (up) REFERENCES tree (id));
CREATE TABLE numbers (id INT PRIMARY KEY, ti TINYINT, tu TINYINT UNSIGNED, si SMALLINT, mi MEDIUMINT, bi BIGINT,
    bu BIGINT UNSIGNED NOT NULL DEFAULT 5, f FLOAT, d DOUBLE, dc DECIMAL(10,3) DEFAULT '-1.500', wd DECIMAL(60,20), b BOOLEAN);
CREATE TABLE times (id INT PRIMARY KEY, dt DATE, tm DATETIME(6), ts TIMESTAMP(3) NULL, t TIME(2), y YEAR,
    made DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, seen TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP);
CREATE TABLE texts (id INT PRIMARY KEY, c CHAR(5) NOT NULL DEFAULT 'it''s', v VARCHAR(100) CHARACTER SET latin1,
    g VARCHAR(300) COLLATE utf8mb4_general_ci, tt TINYTEXT, tx TEXT, mt MEDIUMTEXT, lt LONGTEXT,
    e ENUM('a','it''s','ä,b') DEFAULT 'a', j JSON, s SET('x','it''s','ä') NOT NULL DEFAULT 'ä,x', KEY (g), KEY both_columns (c, v), KEY tx (tx(10), id DESC), UNIQUE KEY lt (lt(200)));
CREATE TABLE bytes (id INT PRIMARY KEY, vb VARBINARY(300), tb TINYBLOB, b BLOB, mb MEDIUMBLOB, lb LONGBLOB,
    bt BIT(20) DEFAULT b'1010', KEY (bt), KEY (vb(2) DESC, b(300)));
CREATE TABLE `select` (`from` INT, `a``b` VARCHAR(10) DEFAULT '' COMMENT 'x\'y', `käse` INT, KEY `k ey` (`käse`));
CREATE TABLE nothing (id INT PRIMARY KEY);
CREATE TABLE e.more (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, t TEXT);
INSERT INTO parent (name) VALUES ('x'), ('y'), ('z\\\'"\n\r\t\0\Z%_');
INSERT INTO a_child (p, q) VALUES (100, 1), (102, NULL), (NULL, 3);
INSERT INTO tree VALUES (9, NULL), (1, 9), (2, 1), (18446744073709551615, 2);
INSERT INTO numbers VALUES
    (1, -128, 255, -32768, 8388607, -9223372036854775808, 18446744073709551615, 1.5, 1e300, 1234567.891, 12345678901234567890.12345678901234567891, TRUE),
    (2, 127, 0, 32767, -8388608, 9223372036854775807, 0, -0.25, -2.5e-300, -0.001, -0.00000000000000000001, FALSE);
INSERT INTO numbers (id) VALUES (3);
INSERT INTO times (id, dt, tm, ts, t, y, seen) VALUES
    (1, '1000-01-01', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.999', '-838:59:59', 1901, NULL),
    (2, '2024-02-29', '2024-02-29 00:00:00.000001', '1970-01-01 00:00:01', '12:34:56.78', 2155, '2024-01-01 10:00:00'),
    (3, NULL, NULL, NULL, NULL, 1970, NULL);
INSERT INTO `select` VALUES (1, 'a`b', 2), (NULL, NULL, NULL);
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
INSERT INTO e.more VALUES (0, 'zero'), (7, 'seven');
ALTER TABLE times ADD zero DATE NOT NULL DEFAULT '0000-00-00', ADD zt DATETIME(2);
UPDATE times SET zt = '0000-00-00' WHERE id = 2;
SET sql_mode = DEFAULT;
"#;

const TABLES: [&str; 10] = [
    "d.parent",
    "d.a_child",
    "d.tree",
    "d.numbers",
    "d.times",
    "d.texts",
    "d.bytes",
    "d.`select`",
    "d.nothing",
    "e.more",
];

/// A server that the command lines reach.
enum Served {
    Perigee(Embedded),
    MariaDb(MariaDb),
}

impl Served {
    fn perigee(dir: &std::path::Path) -> Self {
        Self::Perigee(Embedded::start(&support::binary(), dir, &[]).unwrap())
    }

    async fn client(&self) -> Client {
        match self {
            Self::Perigee(server) => server.client(None).await.unwrap(),
            Self::MariaDb(server) => Client::connect_socket(&server.socket(), None)
                .await
                .unwrap(),
        }
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(["--no-defaults", "--user=root"]);
        match self {
            Self::Perigee(server) => {
                let port = server.address().port();
                command.args(["--host=127.0.0.1".to_owned(), format!("--port={port}")])
            }
            Self::MariaDb(server) => command.arg(format!("--socket={}", server.socket().display())),
        };
        command
            .arg("--default-character-set=utf8mb4")
            .args(arguments);
        command.env_remove("MYSQL_PWD").stdin(Stdio::null());
        command
    }

    /// What `mariadb-dump` writes.
    fn dump(&self, options: &[&str]) -> Vec<u8> {
        let output = self.command("mariadb-dump", options).output().unwrap();
        succeeded(&output, &format!("mariadb-dump {options:?}"));
        output.stdout
    }

    /// Runs a dump.
    fn load(&self, dir: &std::path::Path, dump: &[u8], schema: Option<&str>) {
        let file = dir.join("dump.sql");
        std::fs::write(&file, dump).unwrap();
        let mut command = self.command("mariadb", schema.as_slice());
        command.stdin(std::fs::File::open(file).unwrap());
        succeeded(&command.output().unwrap(), "the load");
    }
}

fn succeeded(output: &Output, what: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.is_empty(), "{what}: {text}");
}

/// All bytes, alone, in pairs and as they are not in UTF-8, in columns of bytes and, where they are, of texts.
async fn fill(client: &mut Client) {
    let mut rng = Rng(7);
    let hex = |bytes: &[u8]| -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("x'{digits}'")
    };
    for id in 0..40 {
        let bytes: Vec<u8> = match id {
            0 => (1..=255).collect(),
            1 => Vec::new(),
            2 => b"\\'\"\0\n\r\x1a\\\\''".to_vec(),
            3 => b"\xff\\".to_vec(),
            4 => b"'\xfe'\xc3".to_vec(),
            _ => (0..rng.between(0, 200))
                .map(|_| rng.between(0, 255) as u8)
                .collect(),
        };
        let value = hex(&bytes);
        let sql = format!(
            "INSERT INTO d.bytes VALUES ({id}, {value}, {value}, {value}, {value}, {value}, {})",
            ["DEFAULT", "NULL", "1048575", "0x2700", "0x05270a", "255"][id % 6],
        );
        client.execute(&sql).await.unwrap();
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let short: String = text.chars().filter(|c| *c < '\u{80}').take(5).collect();
        let long = format!("{text}\u{20ac}\u{1f600}").repeat(1 + id % 7 * 20);
        let tiny: String = text.chars().take(60).collect();
        let latin: String = text
            .chars()
            .filter(|c| !('\u{80}'..'\u{a0}').contains(c))
            .take(100)
            .collect();
        let [short, text, tiny, latin, long] = [&short, &text, &tiny, &latin, &long]
            .map(|text| format!("_utf8mb4 {}", hex(text.as_bytes())));
        let json = format!("JSON_OBJECT('a', {id}, 'it''s \"', JSON_ARRAY(1, NULL, 'ä\\\\n'))");
        let sql = format!(
            "INSERT INTO d.texts VALUES ({id}, {short}, {latin}, {text}, {tiny}, {text}, {long}, {long}, {}, {json}, {})",
            ["'a'", "NULL", "'it''s'", "3"][id % 4],
            ["''", "'ä,it''s'", "DEFAULT", "7"][id % 4],
        );
        client.execute(&sql).await.unwrap();
    }
    let sql = "INSERT INTO d.bytes (id, lb) VALUES (99, REPEAT(x'00ff2700', 400000))";
    client.execute(sql).await.unwrap();
}

/// All rows of a table, each value in hexadecimal digits of its text.
async fn rows(client: &mut Client, table: &str) -> Vec<String> {
    let (schema, name) = table.split_once('.').unwrap();
    let columns = format!(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{}' \
         ORDER BY ORDINAL_POSITION",
        name.trim_matches('`')
    );
    let columns = client.query(&columns).await.unwrap();
    assert!(!columns.is_empty(), "{table} is missing");
    let values = columns.iter().map(|row| {
        let name = row[0].as_ref().unwrap().replace('`', "``");
        format!("HEX(CONCAT(`{name}`))")
    });
    let values: Vec<_> = values.collect();
    let found = client
        .query(&format!("SELECT {} FROM {table}", values.join(", ")))
        .await;
    let line = |row: &Vec<Option<String>>| {
        let cells = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL"));
        cells.collect::<Vec<_>>().join("|")
    };
    let mut lines: Vec<_> = found.unwrap().iter().map(line).collect();
    lines.sort();
    lines
}

/// Statements that make the schemas and their tables.
async fn definitions(client: &mut Client) -> Vec<String> {
    let mut found = Vec::new();
    for schema in ["d", "e"] {
        let rows = client
            .query(&format!("SHOW CREATE DATABASE {schema}"))
            .await;
        found.extend(rows.unwrap().remove(0).remove(1));
    }
    for table in TABLES {
        let rows = client.query(&format!("SHOW CREATE TABLE {table}")).await;
        found.extend(rows.unwrap().remove(0).remove(1));
    }
    found
}

async fn forget(client: &mut Client) {
    for schema in ["d", "e"] {
        let sql = format!("DROP DATABASE IF EXISTS {schema}");
        client.execute(&sql).await.unwrap();
    }
}

/// Options of dumps that have all of both schemas.
const WHOLE: [&[&str]; 8] = [
    &["--databases", "d", "e"],
    &["--single-transaction", "--databases", "d", "e"],
    &["--lock-all-tables", "--hex-blob", "--databases", "d", "e"],
    &[
        "--skip-lock-tables",
        "--routines",
        "--triggers",
        "--events",
        "--databases",
        "d",
        "e",
    ],
    &[
        "--skip-extended-insert",
        "--complete-insert",
        "--order-by-primary",
        "--hex-blob",
        "--databases",
        "d",
        "e",
    ],
    &[
        "--skip-add-locks",
        "--skip-disable-keys",
        "--replace",
        "--add-drop-database",
        "--databases",
        "d",
        "e",
    ],
    &[
        "--insert-ignore",
        "--skip-quick",
        "--skip-add-drop-table",
        "--skip-tz-utc",
        "--databases",
        "d",
        "e",
    ],
    &["--all-databases", "--single-transaction", "--hex-blob"],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dumps_come_back_in_perigee_and_in_mariadb() {
    let dir = tempfile::tempdir().unwrap();
    let from = Served::perigee(&dir.path().join("from"));
    let to = Served::perigee(&dir.path().join("to"));
    let args = ["--innodb-buffer-pool-size=32M", "--max-allowed-packet=64M"];
    let theirs = MariaDb::start(&dir.path().join("mariadb"), &args).unwrap();
    let theirs = Served::MariaDb(theirs);
    from.load(dir.path(), SCHEMA.as_bytes(), None);
    let mut source = from.client().await;
    fill(&mut source).await;
    let expected_definitions = definitions(&mut source).await;
    let mut expected = Vec::new();
    for table in TABLES {
        expected.push(rows(&mut source, table).await);
    }
    for options in WHOLE {
        let dump = from.dump(options);
        for target in [&to, &theirs] {
            let mut client = target.client().await;
            client.execute("SET time_zone = '+00:00'").await.unwrap();
            target.load(dir.path(), &dump, None);
            for (table, expected) in TABLES.iter().zip(&expected) {
                let found = rows(&mut client, table).await;
                assert_eq!(found.len(), expected.len(), "{table} by {options:?}");
                assert_eq!(found, *expected, "{table} by {options:?}");
            }
            if let Served::Perigee(_) = target {
                assert_eq!(
                    definitions(&mut client).await,
                    expected_definitions,
                    "{options:?}"
                );
                // Numbers go on behind those that there were.
                client
                    .execute("INSERT INTO d.parent (name) VALUES ('new')")
                    .await
                    .unwrap();
                let next = client.query("SELECT MAX(id) FROM d.parent").await.unwrap();
                assert_eq!(next[0][0].as_deref(), Some("103"));
            }
            forget(&mut client).await;
        }
    }
    // Definitions alone.
    to.load(
        dir.path(),
        &from.dump(&["--no-data", "--databases", "d", "e"]),
        None,
    );
    let mut client = to.client().await;
    assert_eq!(definitions(&mut client).await, expected_definitions);
    assert!(rows(&mut client, "d.texts").await.is_empty());
    // Rows alone, of one schema and some of a table.
    to.load(
        dir.path(),
        &from.dump(&["--no-create-info", "d"]),
        Some("d"),
    );
    let rest = from.dump(&[
        "--no-create-info",
        "--single-transaction",
        "--where=id > 0",
        "e",
    ]);
    to.load(dir.path(), &rest, Some("e"));
    for (table, expected) in TABLES
        .iter()
        .zip(&expected)
        .filter(|(table, _)| table.starts_with("d."))
    {
        assert_eq!(rows(&mut client, table).await, *expected, "{table}");
    }
    assert_eq!(rows(&mut client, "e.more").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_beside_transactions_is_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let from = Served::perigee(&dir.path().join("from"));
    let to = Served::perigee(&dir.path().join("to"));
    let mut client = from.client().await;
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.one (id INT PRIMARY KEY, money INT NOT NULL)",
        "CREATE TABLE d.two (id INT PRIMARY KEY, money INT NOT NULL)",
        "INSERT INTO d.one VALUES (1, 1000), (2, 1000), (3, 1000)",
        "INSERT INTO d.two VALUES (1, 1000), (2, 1000), (3, 1000)",
    ] {
        client.execute(sql).await.unwrap();
    }
    let ended = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let ended = ended.clone();
        async move {
            let (mut rng, mut count) = (Rng(3), 0);
            while !ended.load(Ordering::Relaxed) {
                let (a, b) = (rng.between(1, 3), rng.between(1, 3));
                for sql in [
                    "BEGIN".to_owned(),
                    format!("UPDATE d.one SET money = money - 1 WHERE id = {a}"),
                    format!("UPDATE d.two SET money = money + 1 WHERE id = {b}"),
                    "COMMIT".to_owned(),
                ] {
                    client.execute(&sql).await.unwrap();
                }
                count += 1;
            }
            count
        }
    });
    let mut target = to.client().await;
    for option in ["--lock-tables", "--single-transaction", "--lock-all-tables"] {
        for _ in 0..3 {
            to.load(dir.path(), &from.dump(&[option, "--databases", "d"]), None);
            let sum = "SELECT (SELECT SUM(money) FROM d.one) + (SELECT SUM(money) FROM d.two)";
            let sum = target.query(sum).await.unwrap();
            assert_eq!(sum[0][0].as_deref(), Some("6000"), "{option}");
        }
    }
    ended.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 0, "nothing was written meanwhile");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dumps_of_mariadb_come_back_in_perigee() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = MariaDb::start(
        &dir.path().join("mariadb"),
        &["--innodb-buffer-pool-size=32M"],
    );
    let theirs = Served::MariaDb(theirs.unwrap());
    let to = Served::perigee(&dir.path().join("to"));
    theirs.load(dir.path(), SCHEMA.as_bytes(), None);
    let mut source = theirs.client().await;
    source.execute("SET time_zone = '+00:00'").await.unwrap();
    fill(&mut source).await;
    for options in [
        &["--databases", "d", "e"][..],
        &[
            "--single-transaction",
            "--hex-blob",
            "--databases",
            "d",
            "e",
        ],
    ] {
        to.load(dir.path(), &theirs.dump(options), None);
        let mut client = to.client().await;
        for table in TABLES {
            let (found, expected) = (
                rows(&mut client, table).await,
                rows(&mut source, table).await,
            );
            assert_eq!(found, expected, "{table} by {options:?}");
        }
        forget(&mut client).await;
    }
}

const PROCEDURES: &str = r"
CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
USE d;
CREATE TABLE log (what VARCHAR(20));
DELIMITER //
CREATE PROCEDURE `counts; up`(IN `to` INT, OUT done INT)
    MODIFIES SQL DATA
    COMMENT 'it''s //'
BEGIN
    DECLARE i INT DEFAULT 0; -- how far it is
    WHILE i < `to` DO
        SET i = i + 1; /* next; */
        INSERT INTO log VALUES (CONCAT('n''', i));
    END WHILE;
    SET done = i;
END//
CREATE PROCEDURE shows() SQL SECURITY INVOKER SELECT COUNT(*) FROM log//
CREATE TRIGGER `sees; it` BEFORE INSERT ON log FOR EACH ROW
BEGIN
    -- No row is as it was.
    SET NEW.what = CONCAT(NEW.what, ';');
    SET @sees = 'it''s //';
END//
CREATE TRIGGER first BEFORE INSERT ON log FOR EACH ROW PRECEDES `sees; it` SET NEW.what = CONCAT(NEW.what, '1')//
DELIMITER ;
INSERT INTO log VALUES ('kept');
";

/// What makes the procedures and triggers.
async fn procedures(client: &mut Client) -> Vec<String> {
    let mut found = Vec::new();
    for name in ["`counts; up`", "shows"] {
        let rows = client
            .query(&format!("SHOW CREATE PROCEDURE d.{name}"))
            .await;
        let text = rows.unwrap().remove(0).remove(2).unwrap();
        // Who defined it has another host in MariaDB.
        found.push(text[text.find(" PROCEDURE ").unwrap()..].to_owned());
    }
    let triggers = "SELECT TRIGGER_NAME, ACTION_ORDER, ACTION_TIMING, EVENT_MANIPULATION, ACTION_STATEMENT \
                    FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'd' ORDER BY ACTION_ORDER";
    for row in client.query(triggers).await.unwrap() {
        found.extend(row.into_iter().flatten());
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn procedures_and_triggers_come_back_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut one = Served::perigee(&dir.path().join("one"));
    let theirs = MariaDb::start(&dir.path().join("mariadb"), &[]).unwrap();
    let theirs = Served::MariaDb(theirs);
    one.load(dir.path(), PROCEDURES.as_bytes(), None);
    let expected = procedures(&mut one.client().await).await;
    for target in [theirs, Served::perigee(&dir.path().join("two"))] {
        let dump = one.dump(&["--routines", "--databases", "d"]);
        target.load(dir.path(), &dump, None);
        let mut client = target.client().await;
        assert_eq!(procedures(&mut client).await, expected);
        client
            .execute("CALL d.`counts; up`(3, @done)")
            .await
            .unwrap();
        let found = client.query("SELECT @done, COUNT(*), MIN(what), MAX(what) FROM d.log");
        let found = found.await.unwrap();
        assert_eq!(found[0][1].as_deref(), Some("4"));
        // The row of the dump came before the triggers.
        assert_eq!(found[0][2].as_deref(), Some("kept1;"));
        assert_eq!(found[0][3].as_deref(), Some("n'31;"));
        let rest = "DELETE FROM d.log WHERE what LIKE 'n%'";
        client.execute(rest).await.unwrap();
        // The next dump is that of this one.
        one = target;
    }
}
