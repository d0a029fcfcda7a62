//! Queries and the trees that they mean, in files beside this one: a query, a line of dashes, and the tree as it prints
//! itself or the number of the error. `PERIGEE_REWRITE=1` writes what comes out into the files.
#![allow(clippy::unwrap_used, reason = "test code")]

mod catalog;
mod changes;
mod evaluate;
mod mariadb;
mod random;

use std::fmt::Write;
use std::path::Path;

use catalog::{Session, bound, catalog};

/// The answer to a query, which also holds together.
fn answer(sql: &str, session: &Session) -> String {
    match bound(sql, session) {
        Err(error) => format!("error {}: {error}\n", error.number()),
        Ok(query) => {
            let fault = query.check().err();
            let fault = fault.map(|fault| format!("fault: {fault}\n"));
            format!("{query}{}", fault.unwrap_or_default())
        }
    }
}

/// Compares the cases of a file with what comes out, or writes that into it.
fn run(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/queries")
        .join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let (mut written, mut wrong) = (String::new(), Vec::new());
    let mut session = catalog();
    for case in text
        .split("\n\n")
        .map(str::trim)
        .filter(|case| !case.is_empty())
    {
        let (sql, expected) = match case.split_once("\n----\n") {
            Some((sql, expected)) => (sql, expected),
            None => (case.trim_end_matches("\n----"), ""),
        };
        session.only_full_group_by = !sql.starts_with("/* any */");
        let answer = answer(sql, &session);
        if answer.trim_end() != expected.trim_end() {
            wrong.push(format!("{sql}\n----\n{answer}"));
        }
        writeln!(written, "{sql}\n----\n{answer}").unwrap();
    }
    if std::env::var_os("PERIGEE_REWRITE").is_some() {
        std::fs::write(&path, written.trim_end().to_owned() + "\n").unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

macro_rules! files {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            run(concat!(stringify!($name), ".txt"));
        })*
    };
}

files!(
    names, joins, groups, orders, sets, withs, subqueries, windows, facts, errors, rules
);

#[test]
fn long_and_deep_queries_are_bound_in_linear_time() {
    let session = catalog();
    let begin = std::time::Instant::now();
    let union = vec!["SELECT id FROM t"; 5_000].join(" UNION ALL ");
    let items = vec!["a + b"; 4_096].join(", ");
    let keys = format!(
        "SELECT {} FROM t GROUP BY a, b",
        vec!["a + b"; 2_000].join(", ")
    );
    let deep = "SELECT (".repeat(200) + "SELECT a" + &")".repeat(200) + " FROM t";
    let ctes = 1..300;
    let ctes = ctes.map(|n| format!(", c{n} AS (SELECT id FROM c{} JOIN t USING (id))", n - 1));
    let ctes: String = ctes.collect();
    let ctes = format!("WITH c0 AS (SELECT id FROM t){ctes} SELECT * FROM c299");
    for sql in [union, format!("SELECT {items} FROM t"), keys, deep, ctes] {
        let query = bound(&sql, &session).unwrap();
        query.check().unwrap();
    }
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
}
