//! Imports that are killed at any moment, and sources that go away or change.

use std::process::Stdio;
use std::time::Duration;

use perigee_testkit::Rng;

use super::*;

/// Tables that take a while: with integers as key, with others, without one.
const SCHEMA: &str = "CREATE DATABASE d; USE d;
CREATE TABLE ints (id INT NOT NULL, sub INT NOT NULL, text VARCHAR(200), PRIMARY KEY (id, sub), KEY (text(20)));
INSERT INTO ints SELECT seq * 7, seq % 3, REPEAT(MD5(seq), 4) FROM seq_1_to_40000;
CREATE TABLE words (w VARCHAR(40) PRIMARY KEY, n INT);
INSERT INTO words SELECT MD5(seq), seq FROM seq_1_to_10000;
CREATE TABLE no_key (a INT, b VARCHAR(60));
INSERT INTO no_key SELECT seq % 100, MD5(seq % 50) FROM seq_1_to_20000;";

const TABLES: [&str; 3] = ["ints", "words", "no_key"];

async fn expect_equal(theirs: &MariaDb, ours: &Embedded) {
    let mut source = Client::connect_socket(&theirs.socket(), None)
        .await
        .unwrap();
    let mut target = ours.client(None).await.unwrap();
    for table in TABLES {
        let expected = rows(&mut source, "d", table).await;
        assert!(
            rows(&mut target, "d", table).await == expected,
            "{table} differs"
        );
    }
    nothing_noted(&mut target).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_is_killed_goes_on_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = mariadb(&dir.path().join("mariadb"));
    theirs.query("", SCHEMA).unwrap();
    theirs
        .query("d", "ANALYZE TABLE ints, words, no_key")
        .unwrap();
    let ours = serve(&dir.path().join("ours"));
    let (from, to) = (url(&theirs, "root", "d"), into(&ours, ""));
    // Units so small that there are many.
    let args = [
        "import", &from, "--into", &to, "--unit", "1MiB", "--jobs", "2",
    ];
    let rounds = std::env::var("PERIGEE_IMPORT_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap());
    let mut rng = Rng(17);
    let mut client = ours.client(None).await.unwrap();
    for round in 0..rounds {
        let (mut kills, mut resumed) = (0, false);
        loop {
            // Later and later, so that it comes to its end.
            let millis = rng.between(20, 300) + kills * 60;
            let mut child = command(&args)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            tokio::time::sleep(Duration::from_millis(millis as u64)).await;
            let ended = child.try_wait().unwrap().is_some();
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            resumed |= stdout(&output).contains("goes on");
            if ended {
                assert!(
                    output.status.success(),
                    "{}{}",
                    stdout(&output),
                    stderr(&output)
                );
                break;
            }
            kills += 1;
        }
        println!("round {round}: {kills} kills");
        assert!(kills > 0 && resumed, "nothing was resumed");
        expect_equal(&theirs, &ours).await;
        client.execute("DROP DATABASE d").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_goes_away_is_told_of_and_the_import_goes_on_later() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("mariadb");
    let theirs = mariadb(&place);
    theirs.query("", SCHEMA).unwrap();
    // A table that takes long to read.
    theirs
        .query("d", "CREATE TABLE slow (id INT PRIMARY KEY, x LONGBLOB); INSERT INTO slow SELECT seq, REPEAT('x', 200000) FROM seq_1_to_600")
        .unwrap();
    let ours = serve(&dir.path().join("ours"));
    let (from, to) = (url(&theirs, "root", "d"), into(&ours, ""));
    let child = command(&["import", &from, "--into", &to])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut client = ours.client(None).await.unwrap();
    // Its tables are there, so that rows are on their way.
    let is_begun =
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'LOAD DATA%slow%'";
    while client.number(is_begun).await.unwrap() == 0.0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    drop(theirs);
    let text = said(&child.wait_with_output().unwrap(), &["the import"]);
    assert!(
        text.contains("table d.") && text.contains("run the same command again"),
        "{text}"
    );
    let found = client.number("SELECT COUNT(*) FROM d.slow").await.unwrap();
    assert!(found == 0.0 || found == 600.0, "{found} rows");
    let theirs = mariadb(&place);
    let text = run(&["import", &from, "--into", &to]);
    assert!(text.contains("goes on"), "{text}");
    assert_eq!(
        client.number("SELECT COUNT(*) FROM d.slow").await.unwrap(),
        600.0
    );
    expect_equal(&theirs, &ours).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_changed_between_two_runs_is_a_difference() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = mariadb(&dir.path().join("mariadb"));
    let sql = "CREATE DATABASE d; USE d; CREATE TABLE parent (id INT PRIMARY KEY, x INT); INSERT INTO parent VALUES (1, 1), (2, 2);
        CREATE TABLE child (p INT, FOREIGN KEY (p) REFERENCES parent (id)); SET foreign_key_checks = 0;
        INSERT INTO child VALUES (1), (3);";
    theirs.query("", sql).unwrap();
    let ours = serve(&dir.path().join("ours"));
    let (from, to) = (url(&theirs, "root", "d"), into(&ours, ""));
    // A row refers to nothing: the target does not take the key.
    let text = fail(&["import", &from, "--into", &to]);
    assert!(
        text.contains("refuses foreign key") && text.contains("1452"),
        "{text}"
    );
    let mut client = ours.client(None).await.unwrap();
    // Units whose notes did not come any more are recognised by their rows.
    client
        .execute("UPDATE perigee_import.units SET done = FALSE")
        .await
        .unwrap();
    client
        .execute("INSERT INTO d.parent VALUES (3, 3)")
        .await
        .unwrap();
    theirs
        .query("d", "INSERT INTO parent VALUES (3, 3)")
        .unwrap();
    theirs
        .query("d", "UPDATE parent SET x = 5 WHERE id = 2")
        .unwrap();
    let text = fail(&["import", &from, "--into", &to]);
    assert!(
        text.contains("DIFFERENT") && text.contains("d.parent"),
        "{text}"
    );
    client
        .execute("UPDATE d.parent SET x = 5 WHERE id = 2")
        .await
        .unwrap();
    run(&["import", &from, "--into", &to]);
    nothing_noted(&mut client).await;
}
