//! Joins of each pair of columns: by ON, USING and WHERE, of all types, with conditions on both sides, in queries and
//! in statements that change rows.

use super::columns::Typed;
use super::forms::Case;

/// Types of joins that take ON.
const JOINS: [&str; 3] = ["JOIN", "LEFT JOIN", "RIGHT JOIN"];

/// Conditions of such joins; the last one is a condition of WHERE.
const CONDITIONS: &[(&str, &str)] = &[
    ("p.$A = q.$B", ""),
    (
        "p.$A = q.$B AND p.id <> 1 AND q.id <> 2",
        "WHERE p.id > 0 OR q.id < 5",
    ),
    ("p.$A <=> q.$B AND q.id < 5", "WHERE p.$A IS NOT NULL"),
    ("p.$A < q.$B AND p.id > 0", "WHERE q.id % 2 = 0"),
    ("p.$A = q.$B", "WHERE p.id % 2 = 0 AND q.id <> 3"),
];

/// Those of statements that change rows.
const OF_CHANGES: &[(&str, &str)] = &[
    ("p.$A = q.$B AND p.id <> 1", "WHERE q.id < 5"),
    ("p.$A <=> q.$B AND q.id <> 1", "WHERE p.id > 0"),
];

/// Joins without ON.
const CROSS: &[&str] = &[
    "m p CROSS JOIN n q WHERE p.$A = q.$B AND p.id > 0 AND q.id < 5",
    "m p, n q WHERE p.$A <=> q.$B AND (p.id > 2 OR q.id > 3)",
];

/// Changes of what a join finds, and what shows them; `$J` is the join with its WHERE, `$U` and `$W` are the two.
const CHANGES: &[(&str, &str)] = &[
    ("DELETE p FROM $J", "SELECT id FROM m"),
    (
        "DELETE p, q FROM $J",
        "SELECT id FROM m UNION ALL SELECT id + 100 FROM n",
    ),
    (
        "UPDATE $U SET p.z = p.z + 1, q.z = q.id $W",
        "SELECT id, z FROM m UNION ALL SELECT id + 100, z FROM n",
    ),
    (
        "INSERT INTO found SELECT p.id, q.id FROM $J",
        "SELECT * FROM found",
    ),
];

/// All joins of a pair.
pub fn cases(a: &Typed, b: &Typed) -> Vec<Case> {
    let filled = |form: &str| form.replace("$A", a.name).replace("$B", b.name);
    let is_float = a.is_float() || b.is_float();
    let case = |before: Vec<String>, sql: String, after: &[&str]| Case {
        is_lenient: !before.is_empty(),
        before,
        sql,
        after: after.iter().map(|sql| (*sql).to_owned()).collect(),
        is_float,
    };
    let mut cases = Vec::new();
    for join in JOINS {
        for (on, filter) in CONDITIONS {
            let from = filled(&format!("m p {join} n q ON {on} {filter}"));
            cases.push(case(
                Vec::new(),
                format!("SELECT p.id, q.id FROM {from}"),
                &[],
            ));
        }
        let using = format!(
            "(SELECT id, $A AS k FROM m) p {join} (SELECT id AS i, $B AS k FROM n) q USING (k)"
        );
        let using = filled(&using);
        cases.push(case(
            Vec::new(),
            format!("SELECT k, id, i FROM {using}"),
            &[],
        ));
        let made = format!("CREATE OR REPLACE TABLE made AS SELECT * FROM {using} WHERE id > 1");
        cases.push(case(vec![made], "SELECT * FROM made".to_owned(), &[]));
        for (on, filter) in OF_CHANGES {
            let (from, filter) = (filled(&format!("m p {join} n q ON {on}")), filled(filter));
            for change in changes(&from, &filter) {
                cases.push(case(change.0, change.1, &["ROLLBACK"]));
            }
        }
    }
    for from in CROSS {
        let from = filled(from);
        cases.push(case(
            Vec::new(),
            format!("SELECT p.id, q.id FROM {from}"),
            &[],
        ));
        if let Some((from, filter)) = from.split_once(" WHERE ") {
            for change in changes(from, &format!("WHERE {filter}")) {
                cases.push(case(change.0, change.1, &["ROLLBACK"]));
            }
        }
    }
    cases
}

/// Changes of what a join finds: the statements before, and the query that shows what they did.
fn changes(from: &str, filter: &str) -> Vec<(Vec<String>, String)> {
    let of = |(change, shown): &(&str, &str)| {
        let change = change
            .replace("$J", &format!("{from} {filter}"))
            .replace("$U", from)
            .replace("$W", filter);
        (vec!["BEGIN".to_owned(), change], (*shown).to_owned())
    };
    CHANGES.iter().map(of).collect()
}
