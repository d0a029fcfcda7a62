//! `perigee inspect`: pages, log and slices of a cluster, running and stopped.

use std::fs;

use perigee_workload::Role;

use crate::support::{address, cluster, perigee, stderr, stdout};
use crate::tables::fill;

fn shows(args: &[&str]) -> String {
    let ended = perigee(args);
    assert!(ended.status.success(), "{args:?}: {}", stderr(&ended));
    stdout(&ended)
}

/// What it says when it fails.
fn fails(args: &[&str]) -> String {
    let ended = perigee(args);
    assert!(!ended.status.success(), "{args:?}: {}", stdout(&ended));
    stderr(&ended)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_log_and_slices_are_shown_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path(), 1, &[]);
    let mut client = cluster.client(None).await.unwrap();
    client.execute("CREATE DATABASE f").await.unwrap();
    fill(&mut client, "good", "straw").await;
    client.close().await.unwrap();
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (log_store, page_store) = (path("log-store"), path("page-store-0"));
    let server = address(dir.path(), "page-store-0");

    // The log, while it is written: the statement's rows are inserted into one page or more.
    let log = shows(&["inspect", "log", &log_store]);
    let inserts: Vec<&str> = log.lines().filter(|l| l.contains(": insert at ")).collect();
    assert!(
        log.contains("plog:")
            && log.contains("  entry  offset 0 ")
            && log.contains(": format Meta"),
        "{log}"
    );
    let last = inserts.last().expect("rows were inserted");
    let page = last.trim().strip_prefix("page:").unwrap();
    let page = page.split(':').next().unwrap();
    let of_page = shows(&["inspect", "log", &log_store, "--page", page]);
    let operations = of_page.lines().filter(|l| l.contains("page:"));
    assert!(
        operations
            .clone()
            .all(|l| l.contains(&format!("page:{page}: ")))
            && operations.count() > 1,
        "{of_page}"
    );
    let brief = shows(&["inspect", "log", &log_store, "--brief"]);
    assert!(
        !brief.contains("page:") && brief.contains("entry"),
        "{brief}"
    );

    // The page, asked from the store and read from its files.
    let asked = shows(&["inspect", "page", page, "--page-store", &server]);
    let good = "checksum and structure are good\n";
    assert!(
        asked.starts_with(&format!("db:1 slice:0 at {server}\npage:{page} ")),
        "{asked}"
    );
    assert!(asked.ends_with(good) && asked.contains(" key "), "{asked}");
    let read = shows(&["inspect", "page", page, "--data", &page_store]);
    let rest = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(rest(&read), rest(&asked));
    let saved = path("page.bin");
    shows(&[
        "inspect",
        "page",
        page,
        "--data",
        &page_store,
        "--save",
        &saved,
    ]);
    let from_file = shows(&["inspect", "page", "--file", &saved]);
    assert_eq!(rest(&from_file), rest(&asked));

    // At the LSN of the first group that touched it, the page has fewer records.
    let formatted = of_page
        .lines()
        .position(|l| l.contains(": format "))
        .unwrap();
    let lsn = of_page.lines().nth(formatted - 1).unwrap().trim();
    let lsn = lsn.strip_prefix("lsn:").unwrap();
    let before = ["inspect", "page", page, "--data", &page_store, "--lsn", lsn];
    let ended = perigee(&before);
    let told = if ended.status.success() {
        stdout(&ended)
    } else {
        stderr(&ended)
    };
    assert!(
        told.contains(&format!("lsn:{lsn} ")) || told.contains("recycle"),
        "{told}"
    );

    let slice = shows(&["inspect", "slice", &page_store]);
    for expected in [
        "db:1 slice:0 epoch 1",
        "log-0000000000000001.seg",
        "fragment 1 lsn:0..=",
        &format!("\npage:{page}\n  version lsn:"),
        "checksums are good",
    ] {
        assert!(slice.contains(expected), "{expected:?} in {slice}");
    }
    cluster.stop(Role::Frontend).unwrap();
    what_is_wrong_is_named(page, &page_store, &saved, &server);
}

fn what_is_wrong_is_named(page: &str, page_store: &str, saved: &str, server: &str) {
    let mut bytes = fs::read(saved).unwrap();
    bytes[9000] ^= 1;
    fs::write(saved, &bytes).unwrap();
    let flipped = fails(&["inspect", "page", "--file", saved]);
    assert!(
        flipped.contains(saved) && flipped.contains(&format!("page:{page}")),
        "{flipped}"
    );
    bytes.truncate(100);
    fs::write(saved, &bytes).unwrap();
    let short = fails(&["inspect", "page", "--file", saved]);
    assert!(short.contains(saved) && short.contains("100"), "{short}");
    let missing = format!("{saved}.none");
    for (args, expected) in [
        (vec!["page", "--file", &missing], &*missing),
        (
            vec!["page", "777777", "--data", page_store],
            "page:777777 of db:1",
        ),
        (
            vec!["page", "777777", "--page-store", server],
            "page:777777 of db:1",
        ),
        (
            vec!["page", "1", "--data", page_store, "--database", "9"],
            "db:9",
        ),
        (
            vec!["page", "1", "--page-store", "127.0.0.1:1"],
            "127.0.0.1:1",
        ),
        (vec!["page", "1", "--data", &missing], &*missing),
        (vec!["log", &missing], &*missing),
        (vec!["log", page_store], page_store),
        (vec!["slice", &missing], &*missing),
    ] {
        let mut all = vec!["inspect"];
        all.extend(&args);
        let told = fails(&all);
        assert!(told.contains(expected), "{args:?}: {told}");
    }
}

#[test]
fn help_teaches_with_examples() {
    for what in ["page", "log", "slice"] {
        let help = shows(&["inspect", what, "--help"]);
        let example = format!("perigee inspect {what} ");
        assert!(
            help.contains("Examples:") && help.contains(&example),
            "{help}"
        );
    }
    assert!(shows(&["--help"]).contains("inspect"));
}
