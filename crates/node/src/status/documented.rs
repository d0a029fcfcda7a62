//! `docs/metrics.md` is the list of metrics, written from the lists that processes show.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use perigee_status::{Family, Kind, Metrics, exposition, process_metrics};
use perigee_testkit::Exposition;

use super::{frontend, log_store, page_store};

/// What stands before the lists.
const INTRODUCTION: &str = "\
# Metrics

Every process shows what it does over HTTP: `/` is a page for people, `/metrics` the same figures for
Prometheus, `/healthz` answers 200 while the process can do its work, now or when an outage elsewhere is
over (`docs/outages.md`), and 503 with the reason when it never can again; it ends then. `--status-listen` says where; if it does not, the address is on loopback, and its port is that
of `--listen` plus 1000: 4306 for a frontend and `perigee serve`, 8201 for a Log Store, 8301 for a Page
Store. If that port is taken the process says so and serves without. `--status-listen off` shows
nothing. Nobody is asked for a password there; nothing can be changed there.

`perigee serve` has the metrics of all three roles. Counters begin at zero with the process. This page is
made from the code by a test, which fails when it is out of date.
";

/// The lists: title, which processes, metrics.
fn roles() -> [(&'static str, &'static str, Metrics); 4] {
    let mut frontend = frontend::metrics(&Default::default());
    frontend.append(frontend::network(&[]));
    let mut page_store = page_store::metrics(&Default::default());
    page_store.append(page_store::network((0, 0)));
    let log_store = log_store::metrics(&Default::default());
    let process = process_metrics("test", "0", SystemTime::now());
    [
        ("Frontend", "`perigee_frontend_`", frontend),
        ("Page Store", "`perigee_page_store_`", page_store),
        ("Log Store", "`perigee_log_store_`", log_store),
        ("Every process", "`perigee_` or `process_`", process),
    ]
}

fn documented() -> String {
    let mut out = INTRODUCTION.to_owned();
    for (title, prefix, metrics) in roles() {
        let _ = writeln!(out, "\n## {title}\n\nAll names begin with {prefix}.");
        for section in metrics.sections() {
            let _ = writeln!(out, "\n### {}\n", section.title);
            let _ = writeln!(
                out,
                "| metric | type | labels | meaning |\n|---|---|---|---|"
            );
            for family in &section.families {
                let labels: Vec<_> = family.labels.iter().map(|l| format!("`{l}`")).collect();
                let _ = writeln!(
                    out,
                    "| `{}` | {} | {} | {} |",
                    family.name,
                    family.kind.name(),
                    labels.join(", "),
                    family.help
                );
            }
        }
    }
    out
}

#[test]
fn the_list_of_metrics_is_up_to_date() {
    let path = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/metrics.md"
    ));
    let wanted = documented();
    if std::env::var_os("PERIGEE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/metrics.md is out of date; run this test with PERIGEE_WRITE_DOCS=1 to write it"
    );
}

/// What EXPLAIN ANALYZE and SHOW STATUS count is explained where NDP is.
#[test]
fn counters_of_scans_are_explained() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ndp.md");
    let text = std::fs::read_to_string(path).unwrap();
    for (name, _) in perigee_engine::scan::ScanCounters::default().snapshot() {
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
}

/// What of a family goes against Prometheus' conventions.
fn oddity(family: &Family, prefix: &str) -> Option<&'static str> {
    let Family {
        name, help, kind, ..
    } = family;
    let plain = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
    let total = name.ends_with("_total");
    if !name.starts_with(prefix) || !plain {
        Some("name")
    } else if total != (*kind == Kind::Counter) {
        Some("only counters end in _total")
    } else if *kind == Kind::Histogram && !name.ends_with("_seconds") {
        Some("histograms are of times")
    } else if ["milli", "micro", "nanos", "kilo", "mib"]
        .iter()
        .any(|unit| name.contains(unit))
    {
        Some("not a base unit")
    } else if help.is_empty() || help.ends_with('.') || help.contains('\n') {
        Some("help")
    } else {
        None
    }
}

#[test]
fn names_follow_the_conventions_and_are_unique() {
    let mut seen = BTreeSet::new();
    for ((_, _, metrics), prefix) in roles().iter().zip([
        "perigee_frontend_",
        "perigee_page_store_",
        "perigee_log_store_",
        "p",
    ]) {
        for family in metrics.families() {
            assert_eq!(oddity(family, prefix), None, "{}", family.name);
            assert!(seen.insert(family.name), "{} twice", family.name);
        }
        Exposition::parse(&exposition(metrics)).unwrap();
    }
    assert!(seen.len() > 80, "{} metrics", seen.len());
}
