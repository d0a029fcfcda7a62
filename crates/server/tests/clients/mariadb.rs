//! The `mariadb` command line.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::{Served, output, text};

impl Served {
    /// The command line as a script uses it.
    fn mariadb(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("mariadb");
        command
            .args(["--no-defaults", "--host=127.0.0.1", "--user=root"])
            .arg(format!("--port={}", self.port()))
            .arg("--default-character-set=utf8mb4")
            .args(arguments)
            .env_remove("MYSQL_PWD")
            .stdin(Stdio::null());
        command
    }

    /// What it prints; it must succeed.
    fn run(&self, arguments: &[&str]) -> String {
        succeeded(&output(&mut self.mariadb(arguments)))
    }

    /// What it complains of; it must fail.
    fn fail(&self, arguments: &[&str]) -> String {
        let output = output(&mut self.mariadb(arguments));
        assert!(!output.status.success(), "{}", text(&output.stdout));
        text(&output.stderr).to_owned()
    }

    /// Runs it with `script` as its input.
    fn feed(&self, arguments: &[&str], script: &str) -> Output {
        let mut command = self.mariadb(arguments);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(script.as_bytes()).unwrap();
        drop(input);
        child.wait_with_output().unwrap()
    }
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn a_client_that_compresses() {
    let served = Served::start();
    let options = ["--compress", "--batch", "--skip-column-names"];
    let client = |sql: &str| succeeded(&served.feed(&options, sql));
    // A short statement travels as it is, a long one compressed; the answers are long and short.
    assert_eq!(client("SELECT 1 + 1"), "2\n");
    let long = "abc ".repeat(100_000);
    assert_eq!(client(&format!("SELECT LENGTH('{long}')")), "400000\n");
    let many = format!("SELECT '{long}', '{long}'");
    assert_eq!(client(&many).len(), 2 * 400_000 + 2);
    let several = "SELECT 1; SELECT 2; SELECT NoSuchColumn";
    let failed = served.fail(&["--compress", "--batch", "-e", several]);
    assert!(failed.contains("1054"), "{failed}");
}

#[test]
fn a_script_in_batch_mode() {
    let served = Served::start();
    let script = "
-- A comment of one line, # another one
CREATE DATABASE m;
USE m
# a comment with 'a quote
CREATE TABLE t (
  id INT NOT NULL,   -- the key
  name VARCHAR(20) COMMENT 'a; b',
  price DECIMAL(10,2),
  PRIMARY KEY (id), KEY (name)
) /* all on
two lines */ ENGINE=Perigee;
/*!40101 SET NAMES utf8mb4 */;
INSERT INTO t VALUES (1, 'naïve', 1.5), (2, NULL, -0.25),
  (3, 'a\\tb\\nc\\\\d', 1000), (4, 'it''s \"x\"', NULL);
SELECT * FROM t ORDER BY id;
SELECT /* within */ COUNT(*) AS n, SUM(price) `the sum` FROM t;
delimiter //
SELECT 'semi;colon'; SELECT 2//
delimiter ;
SELECT name, price FROM t WHERE id = 1\\G
select database(), user() FROM t WHERE id > 5;
";
    let shown = succeeded(&served.feed(&["--batch"], script));
    let expected = "id\tname\tprice\n\
        1\tna\u{ef}ve\t1.50\n\
        2\tNULL\t-0.25\n\
        3\ta\\tb\\nc\\\\d\t1000.00\n\
        4\tit's \"x\"\tNULL\n\
        n\tthe sum\n\
        4\t1001.25\n\
        semi;colon\nsemi;colon\n2\n2\n\
        *************************** 1. row ***************************\n \
        name: na\u{ef}ve\nprice: 1.50\n";
    assert_eq!(shown, expected);
}

#[test]
fn tables_vertical_rows_and_verbose_counts() {
    let served = Served::start();
    served.run(&[
        "-e",
        "CREATE DATABASE m; CREATE TABLE m.t (a INT, b CHAR(3))",
    ]);
    let insert = "INSERT INTO t VALUES (1, 'x'), (2, NULL), (30, 'zz')";
    let shown = served.run(&["m", "-vv", "-e", insert]);
    assert!(shown.contains("Query OK, 3 rows affected"), "{shown}");
    assert!(
        shown.contains("Records: 3  Duplicates: 0  Warnings: 0"),
        "{shown}"
    );
    let shown = served.run(&["m", "--table", "-e", "SELECT * FROM t ORDER BY a"]);
    let expected = "+------+------+\n\
        | a    | b    |\n\
        +------+------+\n\
        |    1 | x    |\n\
        |    2 | NULL |\n\
        |   30 | zz   |\n\
        +------+------+\n";
    assert_eq!(shown, expected);
    let shown = served.run(&["m", "-E", "-e", "SELECT * FROM t WHERE a > 1 ORDER BY a"]);
    let expected = "*************************** 1. row ***************************\n\
        a: 2\nb: NULL\n\
        *************************** 2. row ***************************\n\
        a: 30\nb: zz\n";
    assert_eq!(shown, expected);
    assert_eq!(
        served.run(&["m", "-N", "--raw", "-e", "SELECT 'a\\tb'"]),
        "a\tb\n"
    );
    let shown = served.run(&["m", "-X", "-e", "SELECT 1 AS x"]);
    assert!(shown.contains("<field name=\"x\">1</field>"), "{shown}");
}

#[test]
fn definitions_and_what_there_is() {
    let served = Served::start();
    let create = "CREATE DATABASE m; USE m; \
        CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR(5) DEFAULT 'x', d DATE, \
        PRIMARY KEY (a), UNIQUE KEY u (b, a), KEY (d))";
    assert_eq!(served.run(&["-e", create]), "");
    let shown = served.run(&["-e", "SHOW DATABASES LIKE 'm'; SHOW TABLES FROM m"]);
    assert_eq!(shown, "Database (m)\nm\nTables_in_m\nt\n");
    let columns = "Field\tType\tNull\tKey\tDefault\tExtra\n\
        a\tbigint\tNO\tPRI\tNULL\t\n\
        b\tvarchar(5)\tYES\tMUL\tx\t\n\
        d\tdate\tYES\tMUL\tNULL\t\n";
    assert_eq!(served.run(&["m", "-e", "SHOW COLUMNS FROM t"]), columns);
    assert_eq!(served.run(&["m", "-e", "DESCRIBE t"]), columns);
    assert_eq!(served.run(&["m", "-e", "DESC m.t"]), columns);
    let shown = served.run(&["m", "--raw", "-N", "-e", "SHOW CREATE TABLE t"]);
    let expected = "t\tCREATE TABLE `t` (\n  \
        `a` bigint NOT NULL,\n  \
        `b` varchar(5) COLLATE utf8mb4_bin DEFAULT 'x',\n  \
        `d` date DEFAULT NULL,\n  \
        PRIMARY KEY (`a`),\n  \
        UNIQUE KEY `u` (`b`,`a`),\n  \
        KEY `d` (`d`)\n\
        ) ENGINE=Perigee DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin\n";
    assert_eq!(shown, expected);
    // What was shown makes the same table again.
    let again = expected.trim_start_matches("t\t").replace("`t`", "`t2`");
    served.run(&["m", "-e", &again]);
    assert_eq!(
        served.run(&["m", "--raw", "-N", "-e", "SHOW CREATE TABLE t2"]),
        expected.replace("t\tCREATE TABLE `t`", "t2\tCREATE TABLE `t2`")
    );
    let shown = served.run(&[
        "-N",
        "-e",
        "SHOW VARIABLES LIKE 'collation_server'; SELECT @@ndp_mode",
    ]);
    assert_eq!(shown, "collation_server\tutf8mb4_bin\nON\n");
    let shown = served.run(&["-N", "-e", "SHOW GLOBAL STATUS LIKE 'Threads_connected'"]);
    assert_eq!(shown, "Threads_connected\t1\n");
    let shown = served.run(&["-N", "-e", "SELECT VERSION()"]);
    assert_eq!(shown, "8.0.43-perigee-0.1.0\n");
    assert_eq!(
        served.run(&["m", "-e", "DROP TABLE t, t2; SHOW TABLES"]),
        ""
    );
    assert_eq!(
        served.run(&["-e", "DROP DATABASE m; SHOW DATABASES LIKE 'm'"]),
        ""
    );
}

#[test]
fn plans() {
    let served = Served::start();
    let create = "CREATE DATABASE m; USE m; CREATE TABLE t (a INT PRIMARY KEY, b INT); \
        INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)";
    served.run(&["-e", create]);
    let plan = served.run(&["m", "-e", "EXPLAIN SELECT SUM(b) FROM t WHERE b > 10"]);
    let lines: Vec<_> = plan.lines().collect();
    let heading = "id\tselect_type\ttable\tpartitions\ttype\tpossible_keys\tkey\tkey_len\tref\t\
        rows\tfiltered\tExtra";
    assert_eq!(lines[0], heading);
    assert_eq!(lines.len(), 2, "{plan}");
    assert!(lines[1].starts_with("1\tSIMPLE\tt\t"), "{plan}");
    // Too few pages; EXPLAIN says so.
    assert!(lines[1].contains("ndp_min_pages"), "{plan}");
    let pushed = "SET ndp_min_pages = 0; EXPLAIN SELECT SUM(b) FROM t WHERE b > 10";
    let plan = served.run(&["m", "-N", "-e", pushed]);
    assert!(plan.contains("Using pushed NDP condition"), "{plan}");
    assert!(plan.contains("Using pushed NDP aggregate"), "{plan}");
    let tree = served.run(&[
        "m",
        "-N",
        "--raw",
        "-e",
        "EXPLAIN ANALYZE SELECT SUM(b) FROM t WHERE b > 10",
    ]);
    assert!(tree.contains("scan on t"), "{tree}");
}

#[test]
fn mysqldumpslow_reads_the_slow_log() {
    let served = Served::start();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.log");
    let file = path.display();
    let on = format!(
        "SET GLOBAL slow_query_log_file = '{file}'; SET GLOBAL slow_query_log = ON; SET GLOBAL long_query_time = 0; \
         CREATE DATABASE m; USE m; CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 10), (2, 20)"
    );
    served.run(&["-e", &on]);
    for least in [5, 15] {
        served.run(&[
            "m",
            "-e",
            &format!("SELECT SUM(b) FROM t WHERE b > {least} AND 'x' = 'x'"),
        ]);
    }
    let rotated = dir.path().join("rotated.log");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let written = |path: &std::path::Path, what: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.contains(what)
    };
    while !written(&path, "b > 15") {
        assert!(std::time::Instant::now() < deadline, "nothing is logged");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // MariaDB's program knows only MariaDB's form of the time, not MySQL's.
    let log = std::fs::read_to_string(&path).unwrap();
    let lines = log.lines().filter(|line| !line.starts_with("# Time: "));
    let untimed = dir.path().join("untimed.log");
    std::fs::write(
        &untimed,
        lines.map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
    let summary = Command::new("mysqldumpslow")
        .arg(&untimed)
        .output()
        .unwrap();
    let summary = succeeded(&summary);
    // Two statements that differ in a literal, each of which sent a row.
    let line = summary
        .lines()
        .find(|line| line.contains("SELECT SUM(b) FROM t WHERE b > N AND 'S' = 'S'"));
    assert!(line.is_some(), "{summary}");
    let head = summary.lines().find(|line| line.starts_with("Count: 2 "));
    let head = head.unwrap_or_else(|| panic!("{summary}"));
    assert!(
        head.contains("Rows=1.0 (2)") || head.contains("Rows_sent=1.0 (2)"),
        "{head}"
    );
    assert!(head.contains("root[root]@"), "{head}");
    let log = std::fs::read_to_string(&path).unwrap();
    assert!(
        log.contains("use m;") && log.contains("NDP_bytes_saved: "),
        "{log}"
    );
    // What comes behind FLUSH SLOW LOGS is in a new file.
    std::fs::rename(&path, &rotated).unwrap();
    served.run(&["m", "-e", "FLUSH SLOW LOGS; SELECT 'behind'"]);
    while !written(&path, "'behind'") {
        assert!(
            std::time::Instant::now() < deadline,
            "nothing is logged anew"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    served.run(&["-e", "SET GLOBAL slow_query_log = OFF"]);
}

#[test]
fn errors_end_a_script_unless_it_goes_on_by_force() {
    let served = Served::start();
    let failures = [
        (
            "SELECT * FROM nosuch.t",
            "ERROR 1049 (42000) at line 1: Unknown database 'nosuch'",
        ),
        (
            "SELECT * FROM t",
            "ERROR 1046 (3D000) at line 1: No database selected",
        ),
        (
            "SELEC 1",
            "ERROR 1064 (42000) at line 1: You have an error in your SQL syntax",
        ),
        (
            "LOCK INSTANCE FOR BACKUP",
            "ERROR 1235 (42000) at line 1: This version of Perigee doesn't yet support 'LOCK INSTANCE'",
        ),
        (
            "SELECT nosuch()",
            "ERROR 1235 (42000) at line 1: This version of Perigee doesn't yet support 'the function NOSUCH'",
        ),
        (
            "SET @@nosuch = 1",
            "ERROR 1193 (HY000) at line 1: Unknown system variable 'nosuch'",
        ),
        (
            "CREATE DATABASE c COLLATE latin2_bin",
            "ERROR 1273 (HY000) at line 1: Unknown collation: 'latin2_bin'",
        ),
    ];
    for (sql, complaint) in failures {
        let shown = served.fail(&["-e", sql]);
        assert!(shown.contains(complaint), "{sql}: {shown}");
    }
    let script = "SELECT 1;\nSELECT * FROM nosuch.t;\nSELECT 2;\n";
    let stopped = served.feed(&["-N"], script);
    assert_eq!(text(&stopped.stdout), "1\n");
    assert_eq!(stopped.status.code(), Some(1));
    let complaint = "ERROR 1049 (42000) at line 2: Unknown database 'nosuch'\n";
    assert!(
        text(&stopped.stderr).ends_with(complaint),
        "{}",
        text(&stopped.stderr)
    );
    let forced = served.feed(&["-N", "--force"], script);
    assert_eq!(text(&forced.stdout), "1\n2\n");
}

#[test]
fn warnings() {
    let served = Served::start();
    let script = "CREATE DATABASE m; USE m; DROP TABLE IF EXISTS nosuch; SHOW WARNINGS; \
        SHOW COUNT(*) WARNINGS; CREATE TABLE t (a INT) ENGINE=InnoDB; SHOW WARNINGS; SELECT 1; \
        SHOW WARNINGS";
    let shown = served.run(&["-N", "-e", script]);
    let expected = "Note\t1051\tUnknown table 'm.nosuch'\n1\n\
        Warning\t1266\tUsing storage engine Perigee for table 't'\n1\n";
    assert_eq!(shown, expected);
    let arguments = [
        "-vv",
        "--show-warnings",
        "-e",
        "DROP TABLE IF EXISTS m.nosuch",
    ];
    let shown = served.run(&arguments);
    assert!(
        shown.contains("Query OK, 0 rows affected, 1 warning"),
        "{shown}"
    );
    assert!(
        shown.contains("Note (Code 1051): Unknown table 'm.nosuch'"),
        "{shown}"
    );
}

#[test]
fn transactions_are_rolled_back() {
    let served = Served::start();
    let script = "CREATE DATABASE m; USE m; CREATE TABLE t (a INT PRIMARY KEY); \
        BEGIN; INSERT INTO t VALUES (1); ROLLBACK; SHOW WARNINGS; \
        START TRANSACTION; INSERT INTO t VALUES (2); COMMIT; SHOW WARNINGS; \
        BEGIN; SELECT COUNT(*) FROM t; ROLLBACK; SHOW WARNINGS; \
        SET autocommit = 0; INSERT INTO t VALUES (3); ROLLBACK; SHOW WARNINGS; \
        SET autocommit = 1; INSERT INTO t VALUES (4); ROLLBACK; SHOW WARNINGS; \
        SELECT a FROM t ORDER BY a";
    let shown = served.run(&["-N", "-e", script]);
    assert_eq!(shown, "1\n2\n4\n");
}

#[test]
fn files_of_the_client() {
    let served = Served::start();
    let create = "CREATE DATABASE m; USE m; \
        CREATE TABLE t (id INT NOT NULL, day DATE, s VARCHAR(20), PRIMARY KEY (id), KEY (day))";
    served.run(&["-e", create]);
    let lines: String = (0..50_000)
        .map(|i| format!("{i}\t1998-12-{:02}\trow {i}\n", i % 31 + 1))
        .collect();
    let path = served.file("t.tsv", &format!("id\tday\ts\n{lines}"));
    let load = format!("LOAD DATA LOCAL INFILE '{path}' INTO TABLE t IGNORE 1 LINES");
    let refused = served.fail(&["m", "--local-infile=0", "-e", &load]);
    assert!(refused.contains("ERROR 3948 (42000)"), "{refused}");
    let shown = served.run(&["m", "--local-infile=1", "-vv", "-e", &load]);
    assert!(shown.contains("Query OK, 50000 rows affected"), "{shown}");
    assert!(
        shown.contains("Records: 50000  Deleted: 0  Skipped: 0  Warnings: 0"),
        "{shown}"
    );
    let sum = "SELECT COUNT(*), SUM(id), MIN(day), MAX(s) FROM t";
    assert_eq!(
        served.run(&["m", "-N", "-e", sum]),
        "50000\t1249975000\t1998-12-01\trow 9999\n"
    );
    let path = served.file(
        "bad.csv",
        "60001,1998-01-01,a\n60002,1998-01-02,b\n60003,x,c\n",
    );
    let load =
        format!("LOAD DATA LOCAL INFILE '{path}' INTO TABLE t FIELDS TERMINATED BY ','; SELECT 1");
    let refused = served.fail(&["m", "--local-infile=1", "-e", &load]);
    let complaint = "ERROR 1292 (22007) at line 1: \
        Incorrect date value: 'x' for column 'day' at row 3\n";
    assert!(refused.ends_with(complaint), "{refused}");
    assert_eq!(
        served.run(&["m", "-N", "-e", "SELECT COUNT(*) FROM t WHERE id > 60000"]),
        "0\n"
    );
    let missing = "LOAD DATA LOCAL INFILE '/no/such/file' INTO TABLE t";
    let refused = served.fail(&["m", "--local-infile=1", "-e", missing]);
    assert!(refused.contains("/no/such/file"), "{refused}");
}

#[test]
fn the_status_command_and_use() {
    let served = Served::start();
    served.run(&["-e", "CREATE DATABASE m"]);
    let script = "status\nuse m\nstatus\nuse nosuch\nSELECT DATABASE();\n";
    let output = served.feed(&["--force"], script);
    let shown = text(&output.stdout);
    let value = |name: &str| {
        let prefix = format!("{name}:");
        let lines = shown
            .lines()
            .filter_map(move |line| line.strip_prefix(&prefix));
        lines.map(|v| v.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(value("Current database"), ["", "m"], "{shown}");
    assert_eq!(value("Server version"), ["8.0.43-perigee-0.1.0 Perigee"; 2]);
    assert_eq!(value("Server characterset"), ["utf8mb4"; 2]);
    assert_eq!(value("Conn.  characterset"), ["utf8mb4"; 2]);
    assert_eq!(value("Protocol version"), ["10"; 2]);
    assert_eq!(value("TCP port"), [served.port(), served.port()]);
    assert!(shown.contains("\nUptime:"), "{shown}");
    assert!(shown.contains("Threads: 1  Questions: "), "{shown}");
    assert!(shown.ends_with("DATABASE()\nm\n"), "{shown}");
    let complaint = text(&output.stderr);
    assert!(
        complaint.contains("ERROR 1049 (42000) at line 4: Unknown database 'nosuch'"),
        "{complaint}"
    );
}

#[test]
fn large_results_come_whole_and_row_by_row() {
    let served = Served::start();
    served.run(&[
        "-e",
        "CREATE DATABASE m; CREATE TABLE m.t (id INT PRIMARY KEY, s CHAR(10))",
    ]);
    let lines: String = (0..100_000).map(|i| format!("{i}\ts{i}\n")).collect();
    let path = served.file("t.tsv", &lines);
    let load = format!("LOAD DATA LOCAL INFILE '{path}' INTO TABLE t");
    served.run(&["m", "--local-infile=1", "-e", &load]);
    for arguments in [&["m", "-N"][..], &["m", "-N", "--quick"]] {
        let select = ["-e", "SELECT * FROM t ORDER BY id"];
        let shown = served.run(&[arguments, &select].concat());
        assert!(shown == lines, "{arguments:?}");
    }
}
