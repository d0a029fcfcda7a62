//! Statements of megabytes: each is answered or refused, while others are answered, within a bound on memory.
//!
//! `PERIGEE_ABUSE_LARGE=1` sends them in full size instead of a tenth of it.

use std::time::{Duration, Instant};

use super::{Watch, check_peak, is_refusal, start, variable};

/// How long one of them may take in the build of the tests.
const LONGEST: Duration = Duration::from_secs(120);

fn repeated(item: &str, bytes: usize) -> String {
    vec![item; bytes / (item.len() + 1)].join(",")
}

/// Statements of a size, in thousands of what they are counted by.
fn statements(thousands: usize) -> Vec<(&'static str, String)> {
    let bytes = |megabytes: usize| megabytes * thousands * 1000;
    let numbers = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    let texts = |n: usize| {
        (0..n)
            .map(|i| format!("'x{i}'"))
            .collect::<Vec<_>>()
            .join(",")
    };
    vec![
        (
            "a list of a million numbers",
            format!(
                "SELECT COUNT(*) FROM t WHERE b IN ({})",
                numbers(1000 * thousands)
            ),
        ),
        (
            "a list of a million texts",
            format!(
                "SELECT COUNT(*) FROM t WHERE s IN ({})",
                texts(1000 * thousands)
            ),
        ),
        (
            "an UPDATE with a list of a million numbers",
            format!(
                "UPDATE t SET a = a WHERE b NOT IN ({})",
                numbers(1000 * thousands)
            ),
        ),
        (
            "INSERT of 40 MB in rows",
            format!(
                "INSERT INTO big (a, s, d) VALUES {}",
                repeated("(1,'abc',2.5)", bytes(40))
            ),
        ),
        (
            "INSERT of 40 MB in rows that are no plain text",
            format!(
                "INSERT INTO big (a, s, d) VALUES {}",
                repeated("(1,N'abc',2.5)", bytes(40))
            ),
        ),
        (
            "INSERT of 60 MB in a value",
            format!("INSERT INTO large VALUES (1, '{}')", "x".repeat(bytes(60))),
        ),
        (
            "a literal of 60 MB",
            format!("SELECT LENGTH('{}')", "x".repeat(bytes(60))),
        ),
        (
            "a pattern of 60 MB",
            format!(
                "SELECT COUNT(*) FROM t WHERE s LIKE '{}'",
                "%x_".repeat(bytes(20))
            ),
        ),
        (
            "20 MB of tokens",
            format!("SELECT 1 IN ({})", repeated("1+1", bytes(20))),
        ),
        (
            "20 MB of spaces",
            format!("SELECT{}1", " ".repeat(bytes(20))),
        ),
        (
            "20 MB of brackets",
            format!("SELECT {}", "(".repeat(bytes(20))),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_megabytes_are_answered_or_refused_within_the_memory() {
    let thousands = match variable("PERIGEE_ABUSE_LARGE", "").as_str() {
        "" => 100,
        _ => 1000,
    };
    let only = variable("PERIGEE_ABUSE_ONLY", "");
    let wait: u64 = variable("PERIGEE_ABUSE_MILLIS", "5000").parse().unwrap();
    let (mut server, _dir, mut client) = start().await;
    let large = "CREATE TABLE large (id INT PRIMARY KEY, s LONGTEXT)";
    client.execute(large).await.unwrap();
    let watch = Watch::start(&server).await;
    for (what, sql) in statements(thousands) {
        if !what.contains(&only) {
            continue;
        }
        let mut client = server.client(Some("q")).await.unwrap();
        watch.longest();
        server.reset_peak().unwrap();
        let begun = Instant::now();
        let answer = tokio::time::timeout(LONGEST, client.query(&sql)).await;
        let (took, waited) = (begun.elapsed(), watch.longest());
        let (_, peak) = server.memory().unwrap();
        let error = match &answer {
            Ok(Ok(_)) => String::new(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => panic!("{what}: no answer"),
        };
        println!(
            "{what} ({} bytes): {took:.1?}, others waited {waited} ms, {} MiB: {error:.110}",
            sql.len(),
            peak >> 20
        );
        assert!(
            error.is_empty() || is_refusal(&error),
            "{what}: {error:.300}"
        );
        assert!(waited <= wait, "{what}: others waited {waited} ms");
        check_peak(peak, what);
        client.close().await.unwrap();
    }
    watch.end();
    client.close().await.unwrap();
    server.stop().unwrap();
}
