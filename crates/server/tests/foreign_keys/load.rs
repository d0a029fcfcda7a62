//! LOAD DATA honours foreign keys and CHECK constraints, into an empty table, too.

use perigee_testkit::tested_binary;
use perigee_workload::Embedded;

use super::random::errno;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_adds_no_row_that_a_constraint_forbids() {
    let dir = tempfile::tempdir().unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let server = Embedded::start(&binary, &dir.path().join("serve"), &[]).unwrap();
    let mut client = server.client(None).await.unwrap();
    for sql in [
        "CREATE DATABASE l",
        "USE l",
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "INSERT INTO p VALUES (1), (2)",
        "CREATE TABLE c (id INT PRIMARY KEY CHECK (id < 40), pid INT, \
         FOREIGN KEY (pid) REFERENCES p (id))",
    ] {
        client.execute(sql).await.unwrap();
    }
    let load = |lines: &str| {
        let file = dir.path().join("lines");
        std::fs::write(&file, lines).unwrap();
        format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE c", file.display())
    };
    // The table is empty, then it is not.
    for before in [0, 3] {
        for (lines, error) in [("4\t1\n5\t9\n", 1452), ("6\t1\n50\t1\n", 3819)] {
            let outcome = client.execute(&load(lines)).await;
            assert_eq!(outcome.map_err(|e| errno(&e)), Err(error), "{lines}");
            let rows = client.query("SELECT * FROM c").await.unwrap();
            assert_eq!(rows.len(), before);
        }
        if before == 0 {
            let good = load("1\t1\n2\t2\n3\t\\N\n");
            assert_eq!(client.execute(&good).await.unwrap(), 3);
        }
    }
    client.execute("SET foreign_key_checks = 0").await.unwrap();
    let loaded = client.execute(&load("4\t1\n5\t9\n")).await;
    assert_eq!(loaded.unwrap(), 2);
}
