//! Random statements that assign to user variables, against MariaDB: the same rows, the same variables and ROW_COUNT()
//! behind them, with near-data processing off and on. And files that SELECT … INTO OUTFILE writes: byte for byte those of MariaDB, and read
//! back by both.
//!
//! `PERIGEE_ASSIGNED` sets the number of statements, `PERIGEE_SEED` the seed.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::path::Path;

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded, Rows};

/// Differences that are shown.
const SHOWN: usize = 20;

const TABLE: &str = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, g INT NOT NULL, p DECIMAL(10,2), n INT, \
    s VARCHAR(20), d DATETIME(2), f DOUBLE, b VARBINARY(20), y YEAR, e ENUM('a', 'b;c'))";

/// The variables, and what tells of their types.
const VARIABLES: &str = "SELECT @n, @s, @r, @g, @a, @b, @c, @n < '5', @a < '10', @c < '5', @r < '3', @s < 9.5, @a / 4, \
    CONCAT(@n, @r)";

/// The files of the statements of this server.
const OPTION: &str = "--secure-file-priv";

fn number_of(variable: &str, default: usize) -> usize {
    let text = std::env::var(variable).ok();
    text.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// A string with characters that mean something in a file.
fn text(rng: &mut Rng) -> String {
    const PARTS: [&str; 12] = [
        "a", "N", "\\\\", "\\n", "\\t", ",", ";", "\"", "''", "\\0", "ä", " ",
    ];
    (0..rng.between(0, 6))
        .map(|_| *rng.choose(&PARTS))
        .collect()
}

fn row(rng: &mut Rng, id: i64) -> String {
    let mut or_null = |value: String| {
        if rng.chance(6) {
            "NULL".to_owned()
        } else {
            value
        }
    };
    let mut own = Rng(id as u64 * 7919);
    let (string, bytes) = (text(&mut own), text(&mut own));
    let values = [
        or_null(format!(
            "{}.{:02}",
            own.between(-99, 99),
            own.between(0, 99)
        )),
        or_null(own.between(-5, 5).to_string()),
        or_null(format!("'{string}'")),
        or_null(format!(
            "'2020-0{}-1{} 01:02:03.4'",
            own.between(1, 9),
            own.between(0, 9)
        )),
        or_null(format!("{}e{}", own.between(-9, 9), own.between(-3, 20))),
        or_null(format!("'{bytes}'")),
        or_null(own.between(1901, 2155).to_string()),
        or_null("'b;c'".to_owned()),
    ];
    format!("({id}, {}, {})", own.between(1, 4), values.join(", "))
}

fn condition(rng: &mut Rng) -> &'static str {
    rng.choose::<&str>(&[
        "",
        "",
        " WHERE g <> 2",
        " WHERE n > 0",
        " WHERE id % 3 <> 1",
        " WHERE p IS NOT NULL",
    ])
}

fn order(rng: &mut Rng) -> &'static str {
    rng.choose::<&str>(&[
        " ORDER BY id",
        " ORDER BY id DESC",
        " ORDER BY g, id DESC",
        " ORDER BY n, id",
    ])
}

fn limit(rng: &mut Rng) -> &'static str {
    rng.choose::<&str>(&["", "", " LIMIT 5", " LIMIT 4 OFFSET 3", " LIMIT 0"])
}

/// A statement, which begins with `SELECT` if it has rows; the variables that it needs are set before it.
fn statement(rng: &mut Rng) -> (String, String) {
    let (by, start) = (rng.between(1, 9), rng.between(-3, 30));
    let (condition, order, limit) = (condition(rng), order(rng), limit(rng));
    let sql = match rng.between(0, 15) {
        0 => format!(
            "SELECT @n := @n + {by} AS n, id FROM t, (SELECT @n := {start}) i{condition}{order}{limit}"
        ),
        1 => format!("SELECT id, @s := @s + IFNULL(p, 0) AS s FROM t{condition}{order}{limit}"),
        2 => format!("SELECT id, @s := @s - n, @s FROM t{condition}{order}{limit}"),
        3 => format!(
            "SELECT id, g, @r := IF(@g = g, @r + 1, 1) AS r, @g := g FROM t{condition} ORDER BY g, id"
        ),
        4 => format!(
            "SELECT @a := id, @a + {by}, @b := @a * 2 - {start}, @b, @a FROM t{condition} ORDER BY id{limit}"
        ),
        5 => {
            "SELECT id, CASE WHEN g < 3 THEN @a := @a + 1 ELSE @b := @b + g END FROM t ORDER BY id"
                .to_owned()
        }
        6 => format!(
            "SELECT SUM(x), COUNT(*) FROM (SELECT @n := @n + {by} AS x FROM t{condition}) x"
        ),
        7 => format!("SELECT id, @n := @n + {by} FROM t{condition}"),
        8 => "SELECT id, @c := CONCAT_WS('-', @c, s) FROM t WHERE id < 6 ORDER BY id".to_owned(),
        9 => format!("SELECT id, @c := d, @c FROM t{condition} ORDER BY id{limit}"),
        10 => format!("UPDATE t SET n = (@n := @n + {by}){condition}{order} LIMIT 9"),
        11 => format!("UPDATE t SET n = @a := g + {by}, p = @a - id{condition}"),
        12 => format!(
            "SELECT n, p, s, f, y FROM t WHERE id = {} INTO @n, @s, @c, @a, @r",
            start.max(1)
        ),
        13 => format!(
            "SELECT MAX(d), SUM(p), COUNT(*), e FROM t WHERE id = {by} GROUP BY e INTO @c, @s, @n, @g"
        ),
        14 => format!("INSERT INTO u SELECT @n := @n + {by}, id FROM t{condition}{order}{limit}"),
        // Without a column the condition would be a constant for MariaDB, which is looked at before there are rows.
        _ => format!("DELETE FROM u WHERE (@n := @n + id) % 3 = 0 AND id > {by}"),
    };
    let before =
        format!("SET @n = {start}, @s = 0.00, @r = 0, @g = NULL, @a = {by}, @b = 100, @c = NULL");
    (before, sql)
}

/// Rows whose numbers have no zeros at their ends: MariaDB gives decimals of variables 38 digits behind the point.
fn trimmed(mut rows: Rows) -> Rows {
    for cell in rows.iter_mut().flatten().flatten() {
        let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
        if cell.contains('.') && cell.bytes().all(is_part) {
            *cell = cell.trim_end_matches('0').trim_end_matches('.').to_owned();
        }
    }
    rows
}

/// What a connection says of a statement, of the rows that it changed, and of the variables behind it.
async fn outcome(client: &mut Client, before: &str, sql: &str) -> (Result<Rows, u16>, [Rows; 2]) {
    let code = |error: perigee_workload::WorkloadError| error.code().unwrap_or_default();
    client.execute(before).await.unwrap();
    let rows = match sql.starts_with("SELECT") {
        true => client.query(sql).await.map_err(code),
        false => {
            let affected = client.execute(sql).await.map_err(code);
            affected.map(|rows| vec![vec![Some(rows.to_string())]])
        }
    };
    let count = client.query("SELECT ROW_COUNT()").await.unwrap();
    let variables = client.query(VARIABLES).await.unwrap();
    (rows.map(trimmed), [count, trimmed(variables)])
}

struct Sides {
    ours: Client,
    theirs: Client,
    _mariadb: MariaDb,
    _server: Embedded,
}

async fn sides(dir: &Path, files: &Path) -> Sides {
    let mariadb = MariaDb::start(&dir.join("mariadb"), &[]).unwrap();
    let mut theirs = Client::connect_socket(&mariadb.socket(), None)
        .await
        .unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let args = [OPTION.to_owned(), files.display().to_string()];
    let server = Embedded::start(&binary, &dir.join("plain"), &args).unwrap();
    let mut ours = server.client(None).await.unwrap();
    for client in [&mut ours, &mut theirs] {
        for sql in [
            "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "USE d",
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
            "SET sql_mode = 'STRICT_TRANS_TABLES'",
            TABLE,
            "CREATE TABLE u (v INT, id INT, KEY (v))",
        ] {
            client.execute(sql).await.unwrap();
        }
    }
    Sides {
        ours,
        theirs,
        _mariadb: mariadb,
        _server: server,
    }
}

async fn fill(sides: &mut Sides, rng: &mut Rng, rows: i64) {
    let rows: Vec<String> = (1..=rows).map(|id| row(rng, id)).collect();
    let insert = format!("INSERT INTO t VALUES {}", rows.join(", "));
    for client in [&mut sides.ours, &mut sides.theirs] {
        client.execute("DELETE FROM t").await.unwrap();
        client.execute("DELETE FROM u").await.unwrap();
        client.execute(&insert).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_are_assigned_as_in_mariadb() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    fs::create_dir(&files).unwrap();
    let mut sides = sides(dir.path(), &files).await;
    let mut rng = Rng(number_of("PERIGEE_SEED", 1) as u64);
    let (mut equal, mut wrong) = (0, Vec::new());
    for number in 0..number_of("PERIGEE_ASSIGNED", 400) {
        if number % 20 == 0 {
            fill(&mut sides, &mut rng, 40).await;
            let mode = ["OFF", "ON"][number / 20 % 2];
            let set = format!("SET ndp_mode = {mode}, ndp_min_pages = 0");
            sides.ours.execute(&set).await.unwrap();
        }
        let (before, sql) = statement(&mut rng);
        let ours = outcome(&mut sides.ours, &before, &sql).await;
        let theirs = outcome(&mut sides.theirs, &before, &sql).await;
        let mut tables = Vec::new();
        for client in [&mut sides.ours, &mut sides.theirs] {
            let rows = client.query("SELECT id, n, p FROM t ORDER BY id").await;
            let others = client.query("SELECT v, id FROM u ORDER BY v, id").await;
            tables.push((rows.unwrap(), others.unwrap()));
        }
        match ours == theirs && tables[0] == tables[1] {
            true => equal += 1,
            false => wrong.push(format!(
                "{before}; {sql}\n  here  {ours:?}\n  there {theirs:?}"
            )),
        }
    }
    println!("{equal} equal, {} wrong", wrong.len());
    for text in wrong.iter().take(SHOWN) {
        println!("\n{text}");
    }
    assert!(wrong.is_empty(), "{} outcomes differ", wrong.len());
}

/// Random FIELDS and LINES that LOAD DATA reads back.
fn format(rng: &mut Rng) -> String {
    let fields = rng.choose(&[
        "",
        " FIELDS TERMINATED BY ','",
        " FIELDS TERMINATED BY ',' ENCLOSED BY '\"'",
        " FIELDS TERMINATED BY ';' OPTIONALLY ENCLOSED BY '\"'",
        " FIELDS TERMINATED BY '||' OPTIONALLY ENCLOSED BY '''' ESCAPED BY '^'",
        " FIELDS ESCAPED BY '|'",
    ]);
    let lines = rng.choose(&[
        "",
        " LINES TERMINATED BY '\\r\\n'",
        " LINES STARTING BY '> ' TERMINATED BY '\\n'",
        " LINES TERMINATED BY '~~'",
    ]);
    format!("{fields}{lines}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_those_of_mariadb() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    fs::create_dir(&files).unwrap();
    let mut sides = sides(dir.path(), &files).await;
    let mut rng = Rng(number_of("PERIGEE_SEED", 1) as u64);
    let copy = "CREATE TABLE r LIKE t";
    sides.ours.execute(copy).await.unwrap();
    sides.theirs.execute(copy).await.unwrap();
    for round in 0..25 {
        fill(&mut sides, &mut rng, 60).await;
        let format = format(&mut rng);
        let mut written = Vec::new();
        for (name, client) in [("ours", &mut sides.ours), ("theirs", &mut sides.theirs)] {
            let file = files.join(format!("{name}{round}")).display().to_string();
            let sql = format!("SELECT * FROM t ORDER BY id INTO OUTFILE '{file}'{format}");
            assert_eq!(client.execute(&sql).await.unwrap(), 60);
            written.push(fs::read(&file).unwrap());
        }
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(shown(&written[0]), shown(&written[1]), "{format}");
        assert_eq!(written[0], written[1], "{format}");
        // Each reads what the other has written.
        let mut read = Vec::new();
        for (name, client) in [("theirs", &mut sides.ours), ("ours", &mut sides.theirs)] {
            client.execute("DELETE FROM r").await.unwrap();
            let file = files.join(format!("{name}{round}")).display().to_string();
            let sql =
                format!("LOAD DATA INFILE '{file}' INTO TABLE r CHARACTER SET utf8mb4{format}");
            assert_eq!(client.execute(&sql).await.unwrap(), 60, "{format}");
            let select = "SELECT id, g, p, n, s, d, f, HEX(b), y, e FROM r ORDER BY id";
            read.push(client.query(select).await.unwrap());
            read.push(
                client
                    .query(&select.replace("FROM r", "FROM t"))
                    .await
                    .unwrap(),
            );
        }
        assert!(read.iter().all(|rows| *rows == read[0]), "{format}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_need_a_directory_and_a_privilege() {
    let dir = tempfile::tempdir().unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let server = Embedded::start(&binary, &dir.path().join("plain"), &[]).unwrap();
    let mut client = server.client(None).await.unwrap();
    let code = |outcome: Result<u64, perigee_workload::WorkloadError>| outcome.unwrap_err().code();
    let select = "SELECT 1 INTO OUTFILE 'x'";
    assert_eq!(code(client.execute(select).await), Some(1290));
    let rows = client.query("SELECT @@secure_file_priv").await.unwrap();
    assert_eq!(rows, [[None]]);
    client
        .execute("CREATE DATABASE d; USE d; CREATE TABLE t (a INT)")
        .await
        .unwrap();
    let load = "LOAD DATA INFILE '/etc/passwd' INTO TABLE t";
    assert_eq!(code(client.execute(load).await), Some(1290));
    client
        .execute("REVOKE FILE ON *.* FROM root@localhost")
        .await
        .unwrap();
    assert_eq!(code(client.execute(select).await), Some(1045));
    assert_eq!(code(client.execute(load).await), Some(1045));
}
