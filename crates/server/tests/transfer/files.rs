//! CSV and Parquet files, in and out.

use std::fs;

use super::*;

/// All types, of which each has its ends and NULL.
const SCHEMA: [&str; 11] = [
    "CREATE DATABASE d",
    "CREATE TABLE d.numbers (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, ti TINYINT, tu TINYINT UNSIGNED, si SMALLINT, mu MEDIUMINT UNSIGNED, bi BIGINT,
        bu BIGINT UNSIGNED, f FLOAT, d DOUBLE, dc DECIMAL(10,3), wd DECIMAL(60,20), b1 BIT(1), bt BIT(20), y YEAR)",
    "INSERT INTO d.numbers VALUES
        (1, -128, 255, -32768, 16777215, -9223372036854775808, 18446744073709551615, 16777217, 1e300, 1234567.891, 12345678901234567890.12345678901234567891, 1, 0x0a27, 1901),
        (2, 127, 0, 32767, 0, 9223372036854775807, 0, 0.1, -2.5e-300, -0.001, -0.00000000000000000001, 0, 1048575, '0000')",
    "INSERT INTO d.numbers (id) VALUES (3)",
    "SET sql_mode = ''",
    "CREATE TABLE d.times (id INT PRIMARY KEY, dt DATE, tm DATETIME(6), t0 DATETIME, ts TIMESTAMP(3) NULL, t TIME(2))",
    "INSERT INTO d.times VALUES (1, '1000-01-01', '9999-12-31 23:59:59.999999', '2024-02-29 01:02:03', '2038-01-19 03:14:07.999', '-838:59:59'),
        (2, '0000-00-00', '0000-00-00 00:00:00', '0000-00-00', '1970-01-01 00:00:01', '12:34:56.78'), (3, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE d.texts (c CHAR(5), v VARCHAR(100) COLLATE utf8mb4_general_ci, tx TEXT, e ENUM('A','it''s'), s SET('x','y'), j JSON,
        vb VARBINARY(300), lb LONGBLOB, g INT GENERATED ALWAYS AS (LENGTH(vb)) STORED)",
    "INSERT INTO d.texts (c, v, tx, e, s, j, vb, lb) VALUES ('ab ', 'ä\\n\"x\",\\\\N', '', 'A', 'x,y', '{\"b\": 1.50, \"a\": [null]}', x'00ff0a0d2c22', REPEAT(x'00ff2709', 50000)),
        ('\\\\N', 'NULL', '\\r\\n', 'it''s', '', '\"x\"', '', 'x'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE d.`a.b/ä` (x INT)",
    "SET sql_mode = DEFAULT",
];

const TABLES: [&str; 4] = ["numbers", "times", "texts", "a.b/ä"];

async fn fill(client: &mut Client) {
    for sql in SCHEMA {
        client.execute(sql).await.unwrap();
    }
    for table in TABLES {
        client
            .query(&format!("ANALYZE TABLE d.`{table}`"))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_exported_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let ours = serve(&dir.path().join("ours"));
    let mut client = ours.client(None).await.unwrap();
    fill(&mut client).await;
    for (number, format) in ["parquet", "csv"].into_iter().enumerate() {
        let to = dir.path().join(format);
        let to = to.to_str().unwrap();
        let text = run(&["export", &into(&ours, "d"), "--to", to, "--format", format]);
        assert!(
            text.contains(&format!("numbers.{format}: 3 rows")),
            "{text}"
        );
        let schema = format!("copy{number}");
        let files = format!("{to}/d");
        assert!(
            !fs::read_dir(&files)
                .unwrap()
                .any(|file| file.unwrap().path().extension().unwrap() == "partial")
        );
        let text = run(&["import", &files, "--into", &into(&ours, &schema)]);
        assert_eq!(text.matches(" equal\n").count(), TABLES.len(), "{text}");
        for table in TABLES {
            let expected = rows(&mut client, "d", table).await;
            assert_eq!(
                rows(&mut client, &schema, table).await,
                expected,
                "{table} by {format}"
            );
            let definition = async |client: &mut Client, schema: &str| {
                let found = client
                    .query(&format!("SHOW CREATE TABLE {schema}.`{table}`"))
                    .await;
                found.unwrap().remove(0).remove(1)
            };
            assert_eq!(
                definition(&mut client, &schema).await,
                definition(&mut client, "d").await
            );
        }
        // Files that are there stay, unless that is said.
        let refused = fail(&["export", &into(&ours, "d"), "--to", to, "--format", format]);
        assert!(refused.contains("--overwrite"), "{refused}");
        run(&[
            "export",
            &into(&ours, "d"),
            "--to",
            to,
            "--format",
            format,
            "--overwrite",
            "--tables",
            "times,texts",
        ]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_result_of_a_query_is_exported_and_makes_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let ours = serve(&dir.path().join("ours"));
    let mut client = ours.client(None).await.unwrap();
    fill(&mut client).await;
    let file = dir.path().join("result.parquet");
    let query = "SELECT id, f, dc * 2 AS twice, wd, bt FROM numbers WHERE id < 3";
    run(&[
        "export",
        &into(&ours, "d"),
        "--query",
        query,
        "--to",
        file.to_str().unwrap(),
    ]);
    let text = run(&[
        "import",
        file.to_str().unwrap(),
        "--into",
        &into(&ours, "q"),
    ]);
    assert_eq!(text.matches(" equal\n").count(), 1, "{text}");
    let sum = client
        .query("SELECT COUNT(*), SUM(twice), MAX(wd), SUM(bt) FROM q.result")
        .await
        .unwrap();
    let expected = client
        .query("SELECT COUNT(*), SUM(dc * 2), MAX(wd), SUM(bt + 0) FROM d.numbers WHERE id < 3")
        .await
        .unwrap();
    assert_eq!(sum, expected);
    let wrong = fail(&[
        "export",
        &into(&ours, "d"),
        "--query",
        "SELECT nothing",
        "--to",
        dir.path().join("x.csv").to_str().unwrap(),
    ]);
    assert!(wrong.contains("1054"), "{wrong}");
    assert!(!dir.path().join("x.csv").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csv_files_have_quotes_nulls_and_bad_lines() {
    let dir = tempfile::tempdir().unwrap();
    let ours = serve(&dir.path().join("ours"));
    let mut client = ours.client(None).await.unwrap();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.orders (id INT PRIMARY KEY, note VARCHAR(20), total DECIMAL(8,2) DEFAULT 5)",
    ] {
        client.execute(sql).await.unwrap();
    }
    let file = dir.path().join("orders.csv");
    let (path, to) = (file.to_str().unwrap().to_owned(), into(&ours, "d"));
    // Each bad file names the line, and leaves nothing.
    for (text, expected) in [
        (
            "id,note\n1,\"a\nb\"\n2,x,y\n",
            "orders.csv: line 4: 3 fields, and there are 2 columns",
        ),
        ("id,note\n1,\"a\nb\"\n\nx,\"c\"\n", "orders.csv, line 5"),
        (
            "id,note\n1,a\n2,\"b\n",
            "orders.csv: line 3: a quote is opened and not closed",
        ),
        ("id,note\n1,a\n1,b\n", "1062"),
        ("id,nothing\n1,a\n", "has no column nothing"),
        ("", "is empty"),
    ] {
        fs::write(&file, text).unwrap();
        let said = fail(&["import", &path, "--into", &to]);
        assert!(said.contains(expected), "{text:?}: {said}");
        assert_eq!(
            client
                .number("SELECT COUNT(*) FROM d.orders")
                .await
                .unwrap(),
            0.0,
            "{text:?}"
        );
    }
    fs::write(&file, "\u{feff}NOTE,id,total\r\n\"say \"\"hi\"\", ok\",1,1e2\r\n\\N,2,\\N\r\n\"\\N\",3,\"1.5\"\r\n\"\",4,0\r\n").unwrap();
    let text = run(&["import", &path, "--into", &to]);
    assert!(text.contains(" equal\n"), "{text}");
    let found = client
        .query("SELECT note, total FROM d.orders ORDER BY id")
        .await
        .unwrap();
    let cell = |text: &str| Some(text.to_owned());
    let expected = [
        vec![cell("say \"hi\", ok"), cell("100.00")],
        vec![None, None],
        vec![cell("\\N"), cell("1.50")],
        vec![cell(""), cell("0.00")],
    ];
    assert_eq!(found, expected);
    // Rows that are there are not touched, are added to, or are replaced.
    fs::write(&file, "7;;x\n8;NULL;3\n").unwrap();
    let refused = fail(&["import", &path, "--into", &to]);
    assert!(
        refused.contains("--append") && refused.contains("--replace"),
        "{refused}"
    );
    fs::write(&file, "7;;1\n8;NULL;3\n").unwrap();
    let options = [
        "import",
        &path,
        "--into",
        &to,
        "--no-header",
        "--delimiter",
        ";",
        "--null",
        "NULL",
    ];
    run(&[options.as_slice(), &["--append"]].concat());
    assert_eq!(
        client
            .number("SELECT COUNT(*) FROM d.orders")
            .await
            .unwrap(),
        6.0
    );
    assert_eq!(
        client
            .number("SELECT COUNT(*) FROM d.orders WHERE note IS NULL")
            .await
            .unwrap(),
        2.0
    );
    run(&[options.as_slice(), &["--replace"]].concat());
    assert_eq!(
        client
            .number("SELECT COUNT(*) FROM d.orders")
            .await
            .unwrap(),
        2.0
    );
    nothing_noted(&mut client).await;
}
