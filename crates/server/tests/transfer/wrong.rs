//! What a user gets wrong, and what the machine does.

use std::fs;
use std::process::Command;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_told_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = mariadb(&dir.path().join("mariadb"));
    let sql = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); CREATE USER ann@localhost IDENTIFIED BY 'right'; \
               GRANT ALL ON *.* TO ann@localhost;";
    theirs.query("", sql).unwrap();
    let ours = serve(&dir.path().join("ours"));
    let to = into(&ours, "");
    let right = url(&theirs, "ann:right", "d");
    for (args, expected) in [
        (
            vec!["import", &url(&theirs, "ann:wrong", "d"), "--into", &to],
            "1045",
        ),
        (
            vec![
                "import",
                &url(&theirs, "ann:right", "nothing"),
                "--into",
                &to,
            ],
            "there is no schema nothing",
        ),
        (
            vec!["import", &url(&theirs, "ann:right", ""), "--into", &to],
            "names no schema",
        ),
        (
            vec!["import", &right, "--into", &url(&theirs, "root", "")],
            "is not Perigee",
        ),
        (
            vec!["import", &right, "--into", "mysql://root@127.0.0.1:1"],
            "connect to 127.0.0.1:1",
        ),
        (
            vec!["import", "none.csv", "--into", &into(&ours, "d")],
            "open none.csv",
        ),
        (vec!["import", "none.csv", "--into", &to], "names"),
        (
            vec!["import", "Cargo.toml", "--into", &into(&ours, "d")],
            ".parquet",
        ),
        (
            vec![
                "export",
                &into(&ours, "nothing"),
                "--to",
                "x",
                "--tables",
                "t",
            ],
            "there is no table t",
        ),
        (
            vec!["export", &url(&theirs, "ann:right", "d"), "--to", "x"],
            "is not Perigee",
        ),
    ] {
        let args: Vec<&str> = args.iter().map(|arg| &**arg).collect();
        let text = fail(&args);
        assert!(text.contains(expected), "{args:?}: {text}");
        assert!(!text.contains("right@"), "a password is shown: {text}");
    }
    let mut client = ours.client(None).await.unwrap();
    assert!(
        client
            .query("SHOW TABLES FROM information_schema LIKE 'd'")
            .await
            .unwrap()
            .is_empty()
    );
    // The password from a file.
    let file = dir.path().join("password");
    fs::write(&file, "right\n").unwrap();
    run(&[
        "import",
        &url(&theirs, "ann", "d"),
        "--into",
        &to,
        "--source-password-file",
        file.to_str().unwrap(),
    ]);
    assert_eq!(
        client.number("SELECT COUNT(*) FROM d.t").await.unwrap(),
        0.0
    );
    for help in ["import", "export"] {
        assert!(run(&[help, "--help"]).contains("Examples:"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_leaves_no_half_file() {
    let dir = tempfile::tempdir().unwrap();
    let ours = serve(&dir.path().join("ours"));
    let mut client = ours.client(None).await.unwrap();
    client.execute("CREATE DATABASE d").await.unwrap();
    client
        .execute("CREATE TABLE d.t (id INT PRIMARY KEY, x LONGBLOB)")
        .await
        .unwrap();
    for id in 0..8 {
        let random = "RANDOM_BYTES(1000)";
        let sql = format!(
            "INSERT INTO d.t VALUES ({id}, CONCAT({}))",
            [random; 400].join(", ")
        );
        client.execute(&sql).await.unwrap();
    }
    for format in ["parquet", "csv"] {
        let to = dir.path().join(format);
        // Files of at most 1 MiB; a longer one is an error of the write, as it is on a full disk.
        let script = format!(
            "trap '' XFSZ; ulimit -f 2048; exec '{}' export '{}' --to '{}' --format {format}",
            binary().display(),
            into(&ours, "d"),
            to.display()
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let text = said(&output, &["the export"]);
        assert!(text.contains("t.") && text.contains("write"), "{text}");
        let left = fs::read_dir(to.join("d"))
            .unwrap()
            .map(|file| file.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), Vec::<std::ffi::OsString>::new());
        // With room it works.
        let text = run(&[
            "export",
            &into(&ours, "d"),
            "--to",
            to.to_str().unwrap(),
            "--format",
            format,
        ]);
        assert!(text.contains("8 rows"), "{text}");
    }
}
