//! The paper's worked example (taurus-ndp, Listings 1 and 2), which is README's: its statements are
//! run over the wire as they are written there, and its plan is the one that is shown there.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};
use std::process::Command;

use perigee_testkit::tested_binary;
use perigee_workload::{Client, Embedded};

/// Columns of EXPLAIN.
const COLUMNS: [&str; 12] = [
    "id",
    "select_type",
    "table",
    "partitions",
    "type",
    "possible_keys",
    "key",
    "key_len",
    "ref",
    "rows",
    "filtered",
    "Extra",
];

/// The block of README's section "Use it" in the given language.
fn readme(language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split("## Use it").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let block = section.split(&format!("```{language}\n")).nth(1);
    block.unwrap().split("```").next().unwrap().to_owned()
}

/// The statements of README; the last one explains the query.
fn statements(csv: &Path) -> Vec<String> {
    let sql = readme("sql").replace("worker.csv", csv.to_str().unwrap());
    let statements: Vec<_> = sql.split(';').map(|s| s.trim().to_owned()).collect();
    statements.into_iter().filter(|s| !s.is_empty()).collect()
}

/// Makes the rows as README does.
fn make_rows(dir: &Path) -> PathBuf {
    let status = Command::new("sh")
        .args(["-c", &readme("sh")])
        .current_dir(dir)
        .status();
    assert!(status.unwrap().success());
    dir.join("worker.csv")
}

/// The average as MySQL computes it: four more digits than the column has.
fn expected(csv: &Path) -> String {
    let (mut sum, mut count) = (0_i128, 0_i128);
    for line in std::fs::read_to_string(csv).unwrap().lines() {
        let fields: Vec<_> = line.split(',').collect();
        let age: u32 = fields[1].parse().unwrap();
        if age < 40 && fields[2].starts_with("2010-") {
            let cents: i128 = fields[3].replace('.', "").parse().unwrap();
            sum += cents;
            count += 1;
        }
    }
    assert!(count > 100);
    let units = (sum * 20_000 + count) / (2 * count);
    format!("{}.{:06}", units / 1_000_000, units % 1_000_000)
}

/// A row as the command line client shows it with `\G`.
fn vertical(row: &[Option<String>]) -> String {
    let width = COLUMNS.iter().map(|c| c.len()).max().unwrap();
    let mut out = String::new();
    for (name, value) in COLUMNS.iter().zip(row) {
        let value = value.as_deref().unwrap_or("NULL");
        out.push_str(&format!("{name:>width$}: {value}\n"));
    }
    out
}

/// The plan without its line `filtered`: that is estimated from a sample.
fn without_estimate(plan: &str) -> String {
    let kept = plan.lines().filter(|line| !line.contains("filtered: "));
    kept.collect::<Vec<_>>().join("\n")
}

async fn analyze(client: &mut Client, query: &str) -> String {
    let rows = client.query(&format!("EXPLAIN ANALYZE {query}")).await;
    rows.unwrap()[0][0].clone().unwrap()
}

/// What EXPLAIN ANALYZE counted.
fn counter(plan: &str, name: &str) -> u64 {
    let line = plan.lines().find_map(|line| line.trim().strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("no {name} in {plan}"));
    value.trim_start_matches(':').trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_papers_query_is_pushed_as_in_its_listing() {
    let dir = tempfile::tempdir().unwrap();
    let csv = make_rows(dir.path());
    let expected = expected(&csv);
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    // As on two cores, which README's plan is of.
    let small_pool = ["--buffer-pool", "8MiB", "--threads", "2"].map(str::to_owned);
    let mut server = Embedded::start(&binary, dir.path(), &small_pool).unwrap();
    let mut client = server.client(None).await.unwrap();
    let mut statements = statements(&csv);
    let explain = statements.pop().unwrap();
    let query = explain.strip_prefix("EXPLAIN").unwrap();
    for statement in &statements {
        client.execute(statement).await.unwrap();
    }
    let plan = client.query(&explain).await.unwrap();
    assert_eq!(plan.len(), 1);
    let shown = vertical(&plan[0]);
    assert!(
        without_estimate(&readme("text")).contains(&without_estimate(&shown)),
        "README does not show\n{shown}"
    );
    // One row in nineteen is of that year, and 22 ages in 47 are below 40.
    let filtered: f64 = plan[0][10].as_deref().unwrap().parse().unwrap();
    assert!((1.5..4.0).contains(&filtered), "{shown}");
    let extra = plan[0][11].as_deref().unwrap();
    assert!(extra.starts_with("Using pushed NDP condition ("), "{extra}");
    assert!(
        extra.contains("; Using pushed NDP columns; Using pushed NDP aggregate; "),
        "{extra}"
    );
    for column in ["age", "join_date"] {
        assert!(
            extra.contains(&format!("testdb.worker.{column}")),
            "{extra}"
        );
    }

    for mode in ["ON", "OFF"] {
        let set = format!("SET ndp_mode = {mode}");
        client.execute(&set).await.unwrap();
        let rows = client.query(query).await.unwrap();
        assert_eq!(rows, [[Some(expected.clone())]], "NDP {mode}");
        let plan = analyze(&mut client, query).await;
        assert!(plan.contains("code: compiled"), "NDP {mode}: {plan}");
        let pushed = counter(&plan, "pages_pushed");
        assert_eq!(pushed > 0, mode == "ON", "{plan}");
    }
    client.close().await.unwrap();
    server.stop().unwrap();

    let interpreting = [small_pool.as_slice(), &["--interpret".to_owned()]].concat();
    let mut server = Embedded::start(&binary, dir.path(), &interpreting).unwrap();
    let mut client = server.client(Some("testdb")).await.unwrap();
    for mode in ["ON", "OFF"] {
        let set = format!("SET ndp_mode = {mode}");
        client.execute(&set).await.unwrap();
        let rows = client.query(query).await.unwrap();
        assert_eq!(rows, [[Some(expected.clone())]], "NDP {mode}, interpreted");
        let plan = analyze(&mut client, query).await;
        assert!(plan.contains("code: interpreted"), "NDP {mode}: {plan}");
    }
    client.close().await.unwrap();
    server.stop().unwrap();
}
