//! Random joins of two and three tables: of all types, by ON, USING and WHERE, with conditions on both sides, and what
//! is made of their rows: groups, sorted parts, derived tables, new tables.

use super::expressions::{Expressions, Typed};
use super::queries::{Compared, Order, Query, aggregate, compared, filter, representative, scope};
use super::tables::{Kind, S, T};
use perigee_testkit::Rng;

/// Kinds whose values are compared with each other.
const ALIKE: &[&[Kind]] = &[
    &[Kind::Int],
    &[Kind::Int, Kind::Decimal, Kind::Fine],
    &[Kind::Date, Kind::DateTime],
    &[Kind::Text],
    &[Kind::Ci],
    &[Kind::Text, Kind::Ci],
];

/// An operand of a join.
struct Operand {
    text: String,
    scope: Vec<Typed>,
    /// Columns that tell its rows apart; none if there are no such columns.
    key: Vec<String>,
    is_small: bool,
}

fn operand(rng: &mut Rng, alias: &str, small: bool) -> Operand {
    let key = |names: &[&str]| names.iter().map(|name| format!("{alias}.{name}")).collect();
    match rng.between(if small { 4 } else { 0 }, 9) {
        0..=3 => Operand {
            text: format!("t {alias}"),
            scope: scope(alias, &["id"], &T),
            key: key(&["id"]),
            is_small: false,
        },
        4..=7 => Operand {
            text: format!("s {alias}"),
            scope: scope(alias, &[], &S),
            key: key(&["k", "l"]),
            is_small: true,
        },
        8 => Operand {
            text: format!(
                "(SELECT k, COUNT(*) AS n, MAX(x) AS top, MIN(day2) AS day FROM s GROUP BY k) {alias}"
            ),
            scope: columns(
                alias,
                &[
                    ("k", Kind::Int),
                    ("n", Kind::Int),
                    ("top", Kind::Decimal),
                    ("day", Kind::Date),
                ],
            ),
            key: key(&["k"]),
            is_small: true,
        },
        // Both texts have one collation: MariaDB moves conditions into the parts of a union, where they
        // compare by the part's collation instead of the union's.
        _ => Operand {
            text: format!(
                "(SELECT k AS c0, x AS c1, name AS c2 FROM s UNION ALL \
                 SELECT n, NULL, CONCAT(name, 'a') FROM s WHERE l < 9) {alias}"
            ),
            scope: columns(
                alias,
                &[("c0", Kind::Int), ("c1", Kind::Decimal), ("c2", Kind::Text)],
            ),
            key: Vec::new(),
            is_small: true,
        },
    }
}

fn columns(alias: &str, columns: &[(&str, Kind)]) -> Vec<Typed> {
    let columns = columns.iter();
    columns
        .map(|(name, kind)| (format!("{alias}.{name}"), *kind))
        .collect()
}

/// A comparison of a column of each side; `None` if they have none that are alike.
fn comparison(rng: &mut Rng, left: &[Typed], right: &[Typed], ops: &[&str]) -> Option<String> {
    let kinds = *rng.choose(ALIKE);
    let of = |rng: &mut Rng, side: &[Typed]| {
        let fitting: Vec<_> = side.iter().filter(|(_, k)| kinds.contains(k)).collect();
        (!fitting.is_empty()).then(|| rng.choose(&fitting).0.clone())
    };
    let (a, b) = (of(rng, left)?, of(rng, right)?);
    Some(format!("{a} {} {b}", rng.choose(ops)))
}

/// A condition over columns of some operands.
fn condition_over(rng: &mut Rng, scope: &[Typed]) -> String {
    let mut over = Expressions {
        rng,
        scope: scope.to_vec(),
        subqueries: false,
    };
    match over.rng.chance(3) {
        true => over.ranges(),
        false => over.condition(1),
    }
}

/// What a join is on: mostly an equality, and conditions on either side or on both.
fn on(rng: &mut Rng, left: &[Typed], right: &[Typed], small: bool) -> String {
    let loose = small && rng.chance(5);
    let ops: &[&str] = match loose {
        true => &["<", "<>", ">="],
        false => &["=", "=", "<=>"],
    };
    let mut parts: Vec<String> = std::iter::repeat_with(|| comparison(rng, left, right, ops))
        .take(20)
        .flatten()
        .take(1)
        .collect();
    if parts.is_empty() || (small && rng.chance(8)) {
        parts = vec!["1 = 1".to_owned()];
    }
    if rng.chance(4) {
        parts.extend(comparison(rng, left, right, &["=", "<=>", "<", "<>"]));
    }
    if rng.chance(3) {
        parts.push(condition_over(rng, left));
    }
    if rng.chance(3) {
        parts.push(condition_over(rng, right));
    }
    if rng.chance(6) {
        parts.push(condition_over(rng, &[left, right].concat()));
    }
    parts.join(" AND ")
}

/// A FROM of two or three operands.
struct From {
    text: String,
    scope: Vec<Typed>,
    key: Option<Vec<String>>,
}

fn from(rng: &mut Rng) -> From {
    let first = operand(rng, "a", false);
    let mut from = From {
        text: first.text,
        scope: first.scope,
        key: Some(first.key).filter(|key| !key.is_empty()),
    };
    let mut small = first.is_small;
    for alias in ["b", "c"].iter().take(1 + usize::from(rng.chance(2))) {
        // A third one is small, so that there are not too many rows.
        let only_small = *alias == "c" || rng.chance(2);
        let right = operand(rng, alias, only_small);
        let kind = *rng.choose(&["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "RIGHT JOIN"]);
        let on = on(rng, &from.scope, &right.scope, small && right.is_small);
        from.text = match rng.between(0, 9) {
            0 if small && right.is_small => format!("{} CROSS JOIN {}", from.text, right.text),
            _ => format!("{} {kind} {} ON {on}", from.text, right.text),
        };
        small &= right.is_small;
        from.scope.extend(right.scope);
        from.key = match (from.key, right.key.is_empty()) {
            (Some(key), false) => Some([key, right.key].concat()),
            _ => None,
        };
    }
    from
}

/// Items with names of their own.
fn named_items(e: &mut Expressions<'_>, most: i64) -> (Vec<String>, Vec<(Typed, Compared)>) {
    let mut texts = Vec::new();
    let mut items = Vec::new();
    for number in 0..e.rng.between(1, most) {
        let (text, kind) = match e.rng.between(0, 3) {
            0 => e.any(2),
            1 => e.choice(),
            _ => e.any_column(),
        };
        texts.push(format!("{text} AS c{number}"));
        items.push(((format!("c{number}"), kind), compared(kind)));
    }
    (texts, items)
}

/// A join and what is made of its rows.
pub fn join(rng: &mut Rng) -> Query {
    let from = from(rng);
    let mut e = Expressions {
        rng,
        scope: from.scope,
        subqueries: false,
    };
    let mut filter = filter(&mut e);
    if e.rng.chance(3) {
        let ranges = e.ranges();
        filter = match filter.is_empty() {
            true => format!(" WHERE {ranges}"),
            false => format!("{filter} AND {ranges}"),
        };
    }
    match (e.rng.between(0, 7), &from.key) {
        (0..=1, _) => summary(&mut e, &from.text, &filter),
        (2..=3, Some(key)) => sorted(&mut e, &from.text, &filter, key),
        (4, _) => grouped(&mut e, &from.text, &filter),
        (5..=6, _) => derived(&mut e, &from.text, &filter),
        _ => {
            let (texts, items) = named_items(&mut e, 4);
            Query {
                sql: format!("SELECT {} FROM {}{filter}", texts.join(", "), from.text),
                columns: items.into_iter().map(|(_, compared)| compared).collect(),
                order: Order::None,
                made: None,
            }
        }
    }
}

fn summary(e: &mut Expressions<'_>, from: &str, filter: &str) -> Query {
    let (texts, columns): (Vec<_>, Vec<_>) = (0..2).map(|_| aggregate(e)).unzip();
    Query {
        sql: format!("SELECT COUNT(*), {} FROM {from}{filter}", texts.join(", ")),
        columns: [vec![Compared::Exactly], columns].concat(),
        order: Order::Rows,
        made: None,
    }
}

/// The first rows by a comparison, and then by all keys.
fn sorted(e: &mut Expressions<'_>, from: &str, filter: &str, key: &[String]) -> Query {
    let (texts, items) = named_items(e, 3);
    let first = e.condition(0);
    let direction = *e.rng.choose(&["", " DESC"]);
    let (skipped, count) = (e.rng.between(0, 5), e.rng.between(1, 20));
    let limit = match e.rng.between(0, 2) {
        0 => String::new(),
        1 => format!(" LIMIT {count}"),
        _ => format!(" LIMIT {skipped}, {count}"),
    };
    let (items, key) = (
        items.into_iter().map(|(_, compared)| compared).collect(),
        key.join(", "),
    );
    Query {
        sql: format!(
            "SELECT {} FROM {from}{filter} ORDER BY ({first}){direction}, {key}{limit}",
            texts.join(", ")
        ),
        columns: items,
        order: Order::Rows,
        made: None,
    }
}

/// Groups by columns, some twice, by names and by numbers.
fn grouped(e: &mut Expressions<'_>, from: &str, filter: &str) -> Query {
    let (column, kind) = e.any_column();
    let (other, other_kind) = e.any_column();
    let group = match e.rng.between(0, 4) {
        0 => "g, h".to_owned(),
        1 => "1, 3".to_owned(),
        2 => format!("{column}, {other}, {column}"),
        3 => format!("g, {other}, {column}"),
        _ => format!("{other}, h, 1"),
    };
    // Twice the same column under two names, sometimes.
    let (other, other_kind, group) = match e.rng.chance(3) {
        true => (column.clone(), kind, group.replace(&other, &column)),
        false => (other, other_kind, group),
    };
    let (aggregate, compared) = aggregate(e);
    Query {
        sql: format!(
            "SELECT {column} AS g, COUNT(*), {other} AS h, {aggregate} FROM {from}{filter} GROUP BY {group}"
        ),
        columns: vec![
            representative(kind),
            Compared::Exactly,
            representative(other_kind),
            compared,
        ],
        order: Order::None,
        made: None,
    }
}

/// A derived table, a common table expression or a new table of a join's rows.
fn derived(e: &mut Expressions<'_>, from: &str, filter: &str) -> Query {
    let (texts, items) = named_items(e, 3);
    let inner = format!("SELECT {} FROM {from}{filter}", texts.join(", "));
    let all = || items.iter().map(|(_, compared)| *compared).collect();
    let kind = items[0].0.1;
    match e.rng.between(0, 3) {
        0 => Query {
            sql: format!("SELECT c0, COUNT(*) FROM ({inner}) z GROUP BY c0"),
            columns: vec![representative(kind), Compared::Exactly],
            order: Order::None,
            made: None,
        },
        1 => Query {
            sql: format!("WITH z AS ({inner}) SELECT * FROM z WHERE c0 IS NOT NULL"),
            columns: all(),
            order: Order::None,
            made: None,
        },
        2 => Query {
            sql: format!(
                "WITH z AS ({inner}), y AS (SELECT c0 FROM z UNION SELECT c0 FROM z WHERE c0 IS NULL) \
                 SELECT COUNT(*), COUNT(c0) FROM y"
            ),
            columns: vec![Compared::Exactly, Compared::Exactly],
            order: Order::Rows,
            made: None,
        },
        _ => Query {
            sql: "SELECT * FROM made".to_owned(),
            columns: all(),
            order: Order::None,
            made: Some(inner),
        },
    }
}

/// Joins by USING and NATURAL: of their columns, with and without a table, and ordered by them.
pub fn using(rng: &mut Rng) -> Query {
    let kind = *rng.choose(&["JOIN", "LEFT JOIN", "RIGHT JOIN"]);
    let (from, own, kinds, key) = *rng.choose(&[
        ("t a $J t b USING (id)", "id", Kind::Int, "a.id, b.id"),
        ("t a $J s b USING (ci)", "ci", Kind::Ci, "a.id, b.k, b.l"),
        ("s a $J s b USING (k)", "k", Kind::Int, "a.l, b.l"),
        ("s a $J s b USING (l, k)", "l", Kind::Int, "a.k, b.k"),
        (
            "(SELECT id AS k, a FROM t) a $J s b USING (k)",
            "k",
            Kind::Int,
            "a.k, b.k, b.l",
        ),
        (
            "(SELECT k, l, x FROM s WHERE l < 9) a NATURAL $J (SELECT k, l, n FROM s) b",
            "k",
            Kind::Int,
            "a.k, b.k, l",
        ),
    ]);
    let from = from.replace("$J", kind);
    let filter = match rng.between(0, 3) {
        0 => format!(" WHERE {own} IS NOT NULL"),
        1 => format!(" WHERE a.{own} IS NULL OR {own} > '1'"),
        _ => String::new(),
    };
    let of = match kinds {
        Kind::Ci => Compared::ExactlyCi,
        _ => Compared::Exactly,
    };
    match rng.between(0, 2) {
        0 => Query {
            sql: format!(
                "SELECT {own}, COUNT(*), COUNT(a.{own}), COUNT(b.{own}) FROM {from}{filter} GROUP BY {own}"
            ),
            columns: [vec![representative(kinds)], vec![Compared::Exactly; 3]].concat(),
            order: Order::None,
            made: None,
        },
        1 => Query {
            sql: format!("SELECT {own}, a.{own}, b.{own} FROM {from}{filter} ORDER BY {key}"),
            columns: vec![of; 3],
            order: Order::None,
            made: None,
        },
        _ => {
            let side = *rng.choose(&["a", "b"]);
            Query {
                sql: format!(
                    "SELECT DISTINCT z.{own} FROM (SELECT {side}.* FROM {from}{filter} ORDER BY {side}.{own}) z"
                ),
                columns: vec![representative(kinds)],
                order: Order::None,
                made: None,
            }
        }
    }
}
