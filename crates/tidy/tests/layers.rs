//! The edges between crates that must never exist, checked on what cargo resolves, over normal and
//! build dependencies, transitively.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// `(from, to, why)`: no package of `from` may reach a package of `to`.
const FORBIDDEN: &[(&[&str], &[&str], &str)] = &[
    (
        &[
            "types", "page", "redo", "value", "sql-type", "expr", "jit", "ndp", "accounts",
            "sql-bind",
        ],
        &["tokio", "tonic"],
        "formats and near-data programs are pure: no I/O, no runtime",
    ),
    (
        &["page", "redo"],
        &["perigee-value", "perigee-expr"],
        "a page describes its own structure",
    ),
    (
        &["log-api", "log-store"],
        &[
            "perigee-page",
            "perigee-value",
            "perigee-expr",
            "perigee-redo",
            "perigee-page-api",
        ],
        "the log service does not know what the log says",
    ),
    (
        &["page-api"],
        &[
            "perigee-page",
            "perigee-value",
            "perigee-redo",
            "perigee-ndp",
        ],
        "the page service's interface serves other engines too",
    ),
    (
        &["page-store"],
        &[
            "datafusion",
            "perigee-engine",
            "perigee-sal",
            "perigee-query",
            "sqlparser",
        ],
        "storage knows no SQL",
    ),
    (
        &["sal", "engine"],
        &["perigee-log-store", "perigee-page-store"],
        "the frontend is given stores behind traits",
    ),
    (
        &[
            "types",
            "page",
            "redo",
            "value",
            "expr",
            "jit",
            "ndp",
            "accounts",
            "log-api",
            "page-api",
            "log-store",
            "page-store",
            "sal",
            "engine",
            "sql-type",
            "sql-bind",
            "catalog-views",
            "wire-mysql",
        ],
        &["datafusion"],
        "only plans build on DataFusion",
    ),
    (
        &["sql-type", "expr"],
        &["sqlparser"],
        "what expressions mean does not depend on how they are written",
    ),
    (
        &["sql-bind"],
        &["perigee-engine", "perigee-query"],
        "binding is given what surrounds an expression",
    ),
    (
        &["wire-mysql"],
        &[
            "perigee-engine",
            "perigee-query",
            "perigee-sal",
            "perigee-page",
        ],
        "the wire protocol knows no storage and no planner",
    ),
    (
        &["status"],
        &[
            "perigee-types",
            "perigee-page-api",
            "perigee-log-api",
            "perigee-engine",
            "perigee-query",
            "tonic",
            "datafusion",
        ],
        "what shows figures knows nobody who counts",
    ),
    (
        &[
            "log-store",
            "page-store",
            "sal",
            "engine",
            "query",
            "wire-mysql",
        ],
        &["perigee-status"],
        "who counts does not know how it is shown",
    ),
    (
        &["query"],
        &["perigee-wire-mysql", "perigee-node"],
        "SQL knows no transport",
    ),
    (
        &["transfer"],
        &[
            "perigee-engine",
            "perigee-query",
            "perigee-wire-mysql",
            "datafusion",
        ],
        "imports and exports are clients like any other",
    ),
];

/// Package name -> names of the packages it depends on, without development dependencies.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: BTreeMap<_, _> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| {
            (
                p["id"].as_str().unwrap(),
                p["name"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let edges = graph
            .entry(names[node["id"].as_str().unwrap()].clone())
            .or_default();
        for dep in node["deps"].as_array().unwrap() {
            let shipped = dep["dep_kinds"]
                .as_array()
                .unwrap()
                .iter()
                .any(|k| k["kind"] != "dev");
            if shipped {
                edges.insert(names[dep["pkg"].as_str().unwrap()].clone());
            }
        }
    }
    graph
}

/// A path from `from` to `to`, if there is one.
fn path(graph: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut seen = BTreeSet::from([from.to_owned()]);
    let mut paths = vec![vec![from.to_owned()]];
    while let Some(path) = paths.pop() {
        for next in &graph[path.last().unwrap()] {
            let mut longer = path.clone();
            longer.push(next.clone());
            if next == to {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                paths.push(longer);
            }
        }
    }
    None
}

#[test]
fn forbidden_edges_do_not_exist() {
    let graph = graph();
    let mut found = Vec::new();
    for (sources, targets, why) in FORBIDDEN {
        for source in *sources {
            for target in *targets {
                let source = format!("perigee-{source}");
                assert!(
                    graph.contains_key(&source),
                    "{source} is not a crate any more"
                );
                if let Some(path) = path(&graph, &source, target) {
                    found.push(format!("{}: {why}", path.join(" -> ")));
                }
            }
        }
    }
    assert!(found.is_empty(), "forbidden edges:\n{}", found.join("\n"));
}

#[test]
fn the_check_finds_an_edge_that_exists() {
    let graph = graph();
    assert!(path(&graph, "perigee-query", "datafusion").is_some());
    assert!(path(&graph, "perigee-page-store", "tonic").is_some());
}
