//! What is made of each pair of columns.

use super::columns::{COLUMNS, Typed};

/// Statements over a pair of columns; the rows of all are compared.
pub struct Case {
    /// Run first; their outcomes are not compared, but both must take them or both refuse.
    pub before: Vec<String>,
    /// The query.
    pub sql: String,
    /// Run at the end.
    pub after: Vec<String>,
    /// Some cells are doubles.
    pub is_float: bool,
    /// MariaDB raises errors for conversions of what is compared in statements that write, unless its mode is lenient.
    pub is_lenient: bool,
}

/// Expressions whose value is one of two.
const CHOICES: &[&str] = &[
    "CASE WHEN (p.id + q.id) % 2 = 0 THEN p.$A ELSE q.$B END",
    "CASE p.id WHEN 0 THEN NULL WHEN 1 THEN q.$B ELSE p.$A END",
    "IF((p.id + q.id) % 2 = 0, p.$A, q.$B)",
    "IFNULL(p.$A, q.$B)",
    "COALESCE(NULL, p.$A, q.$B)",
];

/// Comparisons of two.
const COMPARISONS: &[&str] = &[
    "p.$A = q.$B",
    "p.$A < q.$B",
    "p.$A <=> q.$B",
    "p.$A IN (q.$B, NULL)",
    "p.$A NOT BETWEEN q.$B AND q.$B",
];

/// Conditions on two and a third column, of another type than most.
const THREE: &[&str] = &[
    "p.$A BETWEEN q.$B AND q.i",
    "p.$A NOT BETWEEN q.da AND q.$B",
    "p.v BETWEEN q.$A AND q.$B",
    "p.$A BETWEEN q.$B AND q.c",
    "p.$A BETWEEN p.id AND q.$B",
    "p.$A IN (q.$B, q.d, q.v)",
];

/// Queries whose rows come from both.
const UNIONS: &[&str] = &[
    "SELECT $A AS k FROM m UNION ALL SELECT $B FROM m",
    "SELECT $A AS k FROM m UNION SELECT $B FROM m",
    "SELECT $A AS k FROM m UNION SELECT NULL UNION ALL SELECT $B FROM m",
    "SELECT NULL AS k UNION ALL SELECT $A FROM m WHERE id < 3 UNION SELECT $B FROM m",
    "SELECT k FROM (SELECT $A AS k FROM m UNION ALL SELECT $B FROM m) z WHERE k IS NOT NULL",
    "WITH z AS (SELECT $A AS k FROM m UNION SELECT $B FROM m) SELECT MAX(k), COUNT(*) FROM z",
];

/// All cases of a pair, those of joins aside.
pub fn cases(a: &Typed, b: &Typed) -> Vec<Case> {
    let filled = |form: &str| form.replace("$A", a.name).replace("$B", b.name);
    let is_float = a.is_float() || b.is_float();
    let select = |sql: String| Case {
        before: Vec::new(),
        sql,
        after: Vec::new(),
        is_float,
        is_lenient: false,
    };
    let has_bit = a.is_bit() || b.is_bit();
    // MariaDB takes the bytes of a BIT beside a TIME for a time.
    let comparisons: &[&str] = match has_bit && (a.is_time() || b.is_time()) {
        true => &[],
        false => COMPARISONS,
    };
    // Of two BITs MariaDB chooses a number, of a BIT and another type in a UNION it makes a string.
    let both_bits = a.is_bit() && b.is_bit();
    let unions: &[&str] = if has_bit { &[] } else { UNIONS };
    let mut cases = Vec::new();
    // Of numbers that are no dates, compared as dates, MariaDB compares the fractions; and it compares all texts of a
    // BETWEEN or IN in one collation.
    let is_comparable =
        |column: &Typed| !column.is_float() && !column.is_bit() && column.name != "g";
    let three = match is_comparable(a) && is_comparable(b) {
        true => THREE,
        false => &[],
    };
    for form in CHOICES.iter().chain(comparisons).chain(three) {
        let value = match both_bits {
            true => format!("{} + 0", filled(form)),
            false => filled(form),
        };
        cases.push(select(format!("SELECT p.id, q.id, {value} FROM m p, m q")));
    }
    for form in comparisons {
        let condition = filled(form).replace("p.", "").replace("q.", "");
        cases.push(select(format!("SELECT id FROM m WHERE {condition}")));
        cases.push(select(format!("SELECT id FROM m WHERE NOT ({condition})")));
    }
    for form in unions {
        cases.push(select(filled(form)));
    }
    let choices: Vec<String> = CHOICES
        .iter()
        .enumerate()
        .map(|(i, form)| format!("{} AS k{i}", filled(form)))
        .collect();
    let tables = [
        format!(
            "SELECT p.id, q.id AS i, {} FROM m p, m q",
            choices.join(", ")
        ),
        filled(UNIONS[0]),
        filled(UNIONS[2]),
    ];
    for query in tables.into_iter().filter(|_| !has_bit) {
        cases.push(Case {
            before: vec![format!("CREATE OR REPLACE TABLE made AS {query}")],
            sql: "SELECT * FROM made".to_owned(),
            after: Vec::new(),
            is_float,
            is_lenient: false,
        });
    }
    cases
}

/// All pairs of columns, each once.
pub fn pairs() -> Vec<(&'static Typed, &'static Typed)> {
    let all = COLUMNS.iter().enumerate();
    all.flat_map(|(at, a)| COLUMNS[at..].iter().map(move |b| (a, b)))
        .collect()
}
