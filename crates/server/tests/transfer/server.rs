//! Databases of MariaDB, with all types and with what Perigee does not know.

use perigee_testkit::Rng;
use perigee_workload::Client;

use super::*;

const SCHEMA: &str = r#"
CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE DATABASE e CHARACTER SET latin1;
USE d;
CREATE TABLE parent (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL, UNIQUE KEY n (name))
    AUTO_INCREMENT = 100 ROW_FORMAT = COMPACT COMMENT = 'it''s; a "comment", (x) /* x */';
CREATE TABLE a_child (p INT, q INT DEFAULT 7, KEY (p), CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id)
    ON DELETE CASCADE, CONSTRAINT positive CHECK (q > 0));
CREATE TABLE numbers (a INT NOT NULL, b BIGINT UNSIGNED NOT NULL, ti TINYINT, tu TINYINT UNSIGNED, mi MEDIUMINT,
    z INT(8) UNSIGNED ZEROFILL, f FLOAT, d DOUBLE, dc DECIMAL(10,3) DEFAULT -1.500, wd DECIMAL(60,20), bt BIT(20),
    PRIMARY KEY (a, b));
CREATE TABLE times (id INT PRIMARY KEY, dt DATE, tm DATETIME(6), ts TIMESTAMP(3) NULL, t TIME(2), y YEAR,
    made DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE texts (id INT PRIMARY KEY, c CHAR(5), v VARCHAR(100) CHARACTER SET latin1, w VARCHAR(50) CHARACTER SET utf16,
    tx TEXT, lt LONGTEXT, e ENUM('a','it''s','ä,b'), s SET('x','it''s','ä'), j JSON, FULLTEXT KEY words (tx), KEY tx (tx(10)));
CREATE TABLE bytes (id VARBINARY(20) PRIMARY KEY, fb BINARY(8), vb VARBINARY(300), lb LONGBLOB);
CREATE TABLE no_key (x INT, y VARCHAR(20));
CREATE TABLE computed (id INT PRIMARY KEY, twice INT GENERATED ALWAYS AS (id * 2) VIRTUAL, text VARCHAR(20));
CREATE TABLE parts (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3;
CREATE TABLE `käse ``x` (`from` INT PRIMARY KEY, `a``b` VARCHAR(10) COMMENT 'x\'y');
CREATE TABLE empty (id INT PRIMARY KEY, t TEXT);
CREATE TABLE e.more (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, t VARCHAR(20));
CREATE VIEW a_view AS SELECT name, n FROM z_view JOIN parent USING (id);
"#;

const REST: &str = r#"
USE d;
INSERT INTO parent (name) VALUES ('x'), ('y'), ('z\\\'"\n\r\t\0\Z%_');
INSERT INTO a_child (p, q) VALUES (100, 1), (102, NULL), (NULL, 3);
INSERT INTO numbers VALUES
    (-2147483648, 0, -128, 255, 8388607, 12, 16777217, 1e300, 1234567.891, 12345678901234567890.12345678901234567891, b'1010'),
    (1, 18446744073709551615, 127, 0, -8388608, 0, 0.1, -2.5e-300, -0.001, -0.00000000000000000001, 0x0a2700);
INSERT INTO numbers (a, b) VALUES (2147483647, 1);
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
INSERT INTO times VALUES
    (1, '1000-01-01', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.999', '-838:59:59', 1901, '2024-01-01 10:00:00'),
    (2, '0000-00-00', '0000-00-00 00:00:00', '1970-01-01 00:00:01', '12:34:56.78', 2155, '0000-00-00 00:00:00'),
    (3, NULL, NULL, NULL, NULL, 0, '2024-02-29 01:02:03');
INSERT INTO no_key VALUES (1, 'a'), (1, 'a'), (NULL, NULL), (2, '\\N'), (3, '');
INSERT INTO computed (id, text) VALUES (1, 'one'), (-4, NULL);
INSERT INTO parts VALUES (1), (2), (3), (400);
INSERT INTO `käse ``x` VALUES (1, 'a`b'), (2, NULL);
INSERT INTO e.more VALUES (0, 'zero'), (7, 'seven');
DELIMITER //
CREATE PROCEDURE adds(IN x INT) BEGIN INSERT INTO no_key VALUES (x, 'by it'); END//
CREATE FUNCTION doubled(x INT) RETURNS INT DETERMINISTIC RETURN 2 * x//
CREATE TRIGGER strict BEFORE INSERT ON empty FOR EACH ROW SET NEW.t = 'x'//
DELIMITER ;
"#;

const TABLES: [&str; 11] = [
    "parent",
    "a_child",
    "numbers",
    "times",
    "texts",
    "bytes",
    "no_key",
    "computed",
    "parts",
    "käse ``x",
    "empty",
];

/// Runs a script, as the client does for people.
fn script(server: &MariaDb, dir: &Path, text: &str) {
    let file = dir.join("script.sql");
    std::fs::write(&file, text).unwrap();
    let output = server
        .client()
        .stdin(std::fs::File::open(file).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

fn fill(server: &MariaDb, dir: &Path) {
    let view = "CREATE VIEW z_view AS SELECT id, COUNT(*) AS n FROM parent GROUP BY id;\n";
    let schema = SCHEMA.replace("CREATE VIEW a_view", &format!("{view}CREATE VIEW a_view"));
    script(server, dir, &format!("{schema}{REST}"));
    let mut rng = Rng(11);
    let hex = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("x'{digits}'")
    };
    let mut rows = String::from("SET sql_mode = '';\n");
    for id in 0..60 {
        let bytes: Vec<u8> = match id {
            0 => (0..=255).collect(),
            1 => Vec::new(),
            2 => b"\\'\"\0\n\r\x1a\\\\''\t\\N".to_vec(),
            _ => (0..rng.between(0, 200))
                .map(|_| rng.between(0, 255) as u8)
                .collect(),
        };
        let key = format!("{id}\0\\\t");
        let short = &bytes[..bytes.len().min(8)];
        rows.push_str(&format!(
            "INSERT INTO d.bytes VALUES ({}, {}, {}, {});\n",
            hex(key.as_bytes()),
            hex(short),
            hex(&bytes),
            ["NULL".to_owned(), hex(&bytes.repeat(9))][id % 2],
        ));
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let latin: String = text
            .chars()
            .filter(|c| !('\u{80}'..'\u{a0}').contains(c))
            .take(100)
            .collect();
        let ascii: String = text
            .chars()
            .filter(|c| *c < '\u{80}' && *c != '\0')
            .take(5)
            .collect();
        let long = format!("{text}\u{20ac}\u{1f600}");
        let [latin, ascii, text, long, wide] = [
            latin,
            ascii,
            text,
            long.repeat(1 + id % 5 * 30),
            long.chars().take(50).collect::<String>(),
        ]
        .map(|text| format!("_utf8mb4 {}", hex(text.as_bytes())));
        rows.push_str(&format!(
            "INSERT INTO d.texts VALUES ({id}, {ascii}, {latin}, {wide}, {text}, {long}, {}, {}, {});\n",
            ["'a'", "NULL", "'it''s'", "'ä,b'"][id % 4],
            ["''", "'ä,it''s'", "NULL", "'x'"][id % 4],
            ["NULL", "'{\"b\": [1, 2.50], \"a\": \"ä\\\\n\"}'", "'[]'"][id % 3],
        ));
    }
    rows.push_str("INSERT INTO d.bytes (id, lb) VALUES ('long', REPEAT(x'00ff2709', 400000));\n");
    script(server, dir, &rows);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_mariadb_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = mariadb(&dir.path().join("mariadb"));
    fill(&theirs, dir.path());
    let ours = serve(&dir.path().join("ours"));
    let (from, to) = (url(&theirs, "root", "d,e"), into(&ours, ""));
    let mut client = ours.client(None).await.unwrap();
    let dry = run(&["import", &from, "--into", &to, "--dry-run"]);
    assert!(
        dry.contains("CREATE TABLE IF NOT EXISTS `d`.`numbers`"),
        "{dry}"
    );
    assert!(
        client
            .query("SHOW DATABASES LIKE 'd'")
            .await
            .unwrap()
            .is_empty(),
        "a dry run makes a schema"
    );

    let text = run(&["import", &from, "--into", &to]);
    for named in [
        "left out: function doubled",
        "left out: trigger strict",
        "the FULLTEXT key `words` is left out",
        "PARTITION BY is left out",
        "ROW_FORMAT=COMPACT is left out",
        "binary(8) becomes varbinary(8)",
        "ZEROFILL is left out",
    ] {
        assert!(text.contains(named), "{named} is not in\n{text}");
    }
    assert_eq!(text.matches(" equal\n").count(), TABLES.len() + 1, "{text}");
    nothing_noted(&mut client).await;
    let mut source = Client::connect_socket(&theirs.socket(), None)
        .await
        .unwrap();
    source.execute("SET time_zone = '+00:00'").await.unwrap();
    for table in TABLES {
        let name = table.replace("``", "`");
        let expected = rows(&mut source, "d", &name).await;
        let found = rows(&mut client, "d", &name).await;
        assert!(found == expected, "{table} differs");
    }
    assert_eq!(
        rows(&mut client, "e", "more").await,
        rows(&mut source, "e", "more").await
    );
    check_what_is_around(&mut client).await;

    // What is there already is not touched, unless that is said.
    let refused = fail(&["import", &from, "--into", &to]);
    assert!(
        refused.contains("table d.parent") && refused.contains("--replace"),
        "{refused}"
    );
    assert_eq!(
        client
            .number("SELECT COUNT(*) FROM d.no_key")
            .await
            .unwrap(),
        6.0
    );
    run(&["import", &from, "--into", &to, "--replace"]);
    assert_eq!(
        client
            .number("SELECT COUNT(*) FROM d.no_key")
            .await
            .unwrap(),
        5.0
    );

    // One schema under another name.
    run(&[
        "import",
        &url(&theirs, "root", "e"),
        "--into",
        &into(&ours, "other"),
    ]);
    assert_eq!(
        client
            .number("SELECT COUNT(*) FROM other.more")
            .await
            .unwrap(),
        2.0
    );
}

/// Views, procedures, foreign keys, checks and numbers work.
async fn check_what_is_around(client: &mut Client) {
    assert_eq!(
        client.number("SELECT SUM(n) FROM d.a_view").await.unwrap(),
        3.0
    );
    client.execute("CALL d.adds(9)").await.unwrap();
    assert_eq!(
        client
            .number("SELECT COUNT(*) FROM d.no_key WHERE y = 'by it'")
            .await
            .unwrap(),
        1.0
    );
    client
        .execute("INSERT INTO d.parent (name) VALUES ('new')")
        .await
        .unwrap();
    assert_eq!(
        client.number("SELECT MAX(id) FROM d.parent").await.unwrap(),
        103.0
    );
    let orphan = client
        .execute("INSERT INTO d.a_child VALUES (99, 1)")
        .await
        .unwrap_err();
    assert_eq!(orphan.code(), Some(1452));
    let checked = client
        .execute("INSERT INTO d.a_child VALUES (100, 0)")
        .await
        .unwrap_err();
    assert_eq!(checked.code(), Some(3819));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_copy_is_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = mariadb(&dir.path().join("mariadb"));
    let ours = serve(&dir.path().join("ours"));
    script(
        &theirs,
        dir.path(),
        "CREATE DATABASE d; USE d; CREATE TABLE one (id INT PRIMARY KEY, money INT); CREATE TABLE two LIKE one;
         INSERT INTO one SELECT seq, 1000 FROM seq_1_to_5000; INSERT INTO two SELECT * FROM one;",
    );
    let socket = theirs.socket();
    let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = tokio::spawn({
        let ended = ended.clone();
        async move {
            let mut client = Client::connect_socket(&socket, Some("d")).await.unwrap();
            let (mut rng, mut count) = (Rng(5), 0);
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                let (a, b) = (rng.between(1, 5000), rng.between(1, 5000));
                for sql in [
                    "BEGIN".to_owned(),
                    format!("UPDATE one SET money = money - 1 WHERE id = {a}"),
                    format!("UPDATE two SET money = money + 1 WHERE id = {b}"),
                    "COMMIT".to_owned(),
                ] {
                    client.execute(&sql).await.unwrap();
                }
                count += 1;
            }
            count
        }
    });
    let mut client = ours.client(None).await.unwrap();
    for _ in 0..3 {
        run(&[
            "import",
            &url(&theirs, "root", "d"),
            "--into",
            &into(&ours, ""),
            "--replace",
        ]);
        let sum = "SELECT (SELECT SUM(money) FROM d.one) + (SELECT SUM(money) FROM d.two)";
        assert_eq!(client.number(sum).await.unwrap(), 10_000_000.0);
    }
    ended.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(writer.await.unwrap() > 0, "nothing was written meanwhile");
    // Without the privilege it is said that the copy may be of several moments.
    script(
        &theirs,
        dir.path(),
        "CREATE USER reader@localhost IDENTIFIED BY 'r'; GRANT SELECT, SHOW VIEW ON d.* TO reader@localhost;",
    );
    let text = run(&[
        "import",
        &url(&theirs, "reader:r", "d"),
        "--into",
        &into(&ours, ""),
        "--replace",
    ]);
    assert!(
        text.contains("may not be consistent") && text.contains("RELOAD"),
        "{text}"
    );
}
