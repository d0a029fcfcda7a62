//! Random SELECTs over the two tables.

use super::expressions::{Expressions, Typed};
use super::tables::{Column, Kind, S, T};
use super::{extremes, joins, windows};
use perigee_testkit::Rng;

/// How far a column of the result is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Byte for byte.
    Exactly,
    /// Byte for byte, where equal strings may differ in case and accents.
    ExactlyCi,
    /// To nine digits.
    AsDouble,
    /// Without trailing spaces: any of the values that are equal in the collation is right.
    AsCollated,
    /// As in `utf8mb4_unicode_520_ci`.
    AsWeights,
}

/// What is known of the order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    None,
    /// All of it.
    Rows,
    /// They are sorted by so many columns, from the first one.
    Columns(usize),
}

/// A SELECT and how its answers are compared.
pub struct Query {
    pub sql: String,
    pub columns: Vec<Compared>,
    pub order: Order,
    /// The query whose rows CREATE TABLE `made` … SELECT makes a table of first.
    pub made: Option<String>,
}

pub fn compared(kind: Kind) -> Compared {
    match kind {
        Kind::Double => Compared::AsDouble,
        Kind::Ci => Compared::ExactlyCi,
        _ => Compared::Exactly,
    }
}

/// A value that stands for a group.
pub fn representative(kind: Kind) -> Compared {
    match kind {
        Kind::Text => Compared::AsCollated,
        Kind::Ci => Compared::AsWeights,
        kind => compared(kind),
    }
}

pub fn scope(alias: &str, key: &[&str], columns: &[Column]) -> Vec<Typed> {
    let key = key
        .iter()
        .map(|name| (format!("{alias}.{name}"), Kind::Int));
    let columns = columns
        .iter()
        .map(|c| (format!("{alias}.{}", c.name), c.kind));
    key.chain(columns).collect()
}

/// One random SELECT, and perhaps a table that it needs.
pub fn query(rng: &mut Rng) -> Query {
    match rng.between(0, 20) {
        20 => windows::query(rng),
        13..=16 => joins::join(rng),
        17 => joins::using(rng),
        18 => extremes::query(rng),
        19 => unions(rng),
        0..=1 => rows(rng),
        2 => sorted(rng),
        3..=5 => grouped(rng),
        6 => whole(rng),
        7 => distinct(rng),
        8..=9 => joined(rng),
        10 => derived(rng),
        11 => many(rng),
        12 if rng.chance(2) => unions(rng),
        _ => union(rng),
    }
}

pub fn filter(e: &mut Expressions<'_>) -> String {
    if e.rng.chance(3) {
        return String::new();
    }
    e.subqueries = true;
    let condition = match e.rng.chance(5) {
        true => e.ranges(),
        false => e.condition(2),
    };
    e.subqueries = false;
    format!(" WHERE {condition}")
}

fn over_t(rng: &mut Rng) -> Expressions<'_> {
    Expressions {
        rng,
        scope: scope("t", &["id"], &T),
        subqueries: false,
    }
}

fn items(e: &mut Expressions<'_>) -> (Vec<String>, Vec<Compared>) {
    let mut items = Vec::new();
    let mut columns = Vec::new();
    for _ in 0..e.rng.between(1, 4) {
        let (text, kind) = match e.rng.between(0, 9) {
            0 => e.quotient(),
            1 => scalar_subquery(e),
            _ => e.any(3),
        };
        items.push(text);
        columns.push(compared(kind));
    }
    (items, columns)
}

fn scalar_subquery(e: &mut Expressions<'_>) -> Typed {
    let (outer, _) = e.scope[1].clone();
    let (aggregate, kind) = *e.rng.choose(&[
        ("MAX(x)", Kind::Decimal),
        ("COUNT(*)", Kind::Int),
        ("SUM(n)", Kind::Decimal),
        ("MIN(day2)", Kind::Date),
    ]);
    (
        format!("(SELECT {aggregate} FROM s i WHERE i.k = {outer})"),
        kind,
    )
}

fn rows(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let (items, columns) = items(&mut e);
    let filter = filter(&mut e);
    let direction = *e.rng.choose(&["", " DESC"]);
    let limit = match e.rng.between(0, 3) {
        0 => format!(" LIMIT {}", e.rng.between(0, 9)),
        1 => format!(" LIMIT {}, {}", e.rng.between(0, 5), e.rng.between(1, 9)),
        _ => String::new(),
    };
    Query {
        sql: format!(
            "SELECT {} FROM t{filter} ORDER BY t.id{direction}{limit}",
            items.join(", ")
        ),
        columns,
        order: Order::Rows,
        made: None,
    }
}

fn sorted(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let keys: Vec<Typed> = (0..e.rng.between(1, 2))
        .map(|_| match e.rng.chance(3) {
            true => e.any(1),
            false => e.any_column(),
        })
        .collect();
    let (items, columns) = items(&mut e);
    let filter = filter(&mut e);
    let order: Vec<String> = (1..=keys.len())
        .map(|i| format!("{i}{}", e.rng.choose(&["", " DESC", " ASC"])))
        .collect();
    let mut all: Vec<String> = keys.iter().map(|(text, _)| text.clone()).collect();
    all.extend(items);
    Query {
        sql: format!(
            "SELECT {} FROM t{filter} ORDER BY {}",
            all.join(", "),
            order.join(", ")
        ),
        columns: keys
            .iter()
            .map(|(_, k)| compared(*k))
            .chain(columns)
            .collect(),
        order: Order::Columns(keys.len()),
        made: None,
    }
}

/// Kinds of exact numbers.
const EXACT: [Kind; 3] = [Kind::Int, Kind::Decimal, Kind::Fine];

pub fn aggregate(e: &mut Expressions<'_>) -> (String, Compared) {
    match e.rng.between(0, 8) {
        0 => ("COUNT(*)".into(), Compared::Exactly),
        1 => {
            let (argument, _) = e.any(1);
            (format!("COUNT({argument})"), Compared::Exactly)
        }
        2 => {
            let (argument, kind) = e.any_column();
            let argument = match kind {
                Kind::Double => e.integer(0),
                _ => argument,
            };
            (format!("COUNT(DISTINCT {argument})"), Compared::Exactly)
        }
        3 if e.rng.chance(4) => (format!("SUM({})", e.fine()), Compared::Exactly),
        3 if e.rng.chance(3) => {
            let ((a, _), (b, _)) = (e.branch(&EXACT), e.branch(&EXACT));
            let condition = e.condition(0);
            let sum = format!("SUM(CASE WHEN {condition} THEN {a} ELSE {b} END)");
            (sum, Compared::Exactly)
        }
        3..=4 => {
            let (argument, kind) = e.number(2);
            (format!("SUM({argument})"), compared(kind))
        }
        5 => {
            let (argument, kind) = e.number(1);
            (format!("AVG({argument})"), compared(kind))
        }
        6 => {
            let (argument, kind) = e.number(1);
            (format!("SUM({argument}) / COUNT(*)"), compared(kind))
        }
        _ => {
            let (mut argument, kind) = e.any(1);
            let function = *e.rng.choose(&["MIN", "MAX"]);
            // MariaDB compares values of an ENUM by number here, MySQL by text.
            if ["mood", "tone", "perms", "shades"]
                .iter()
                .any(|column| argument.ends_with(column))
            {
                argument = format!("CONCAT({argument}, '')");
            }
            (format!("{function}({argument})"), representative(kind))
        }
    }
}

fn having(e: &mut Expressions<'_>) -> String {
    let (number, _) = e.number(1);
    let limit = e.rng.between(-5, 20);
    match e.rng.between(0, 6) {
        0 => " HAVING COUNT(*) > 1".into(),
        1 => format!(" HAVING SUM({number}) > {limit}"),
        2 => format!(" HAVING MIN({number}) < {limit} AND COUNT(*) < 9"),
        _ => String::new(),
    }
}

fn grouped(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let from = match e.rng.chance(4) {
        true => {
            e.scope.extend(scope("s", &[], &S));
            "t JOIN s ON t.a = s.k"
        }
        false => "t",
    };
    let mut keys: Vec<Typed> = Vec::new();
    for _ in 0..e.rng.between(1, 3) {
        let key = match e.rng.between(0, 5) {
            0 => e.any(1),
            1 => ("YEAR(t.day)".into(), Kind::Int),
            2 => e.column_of(&[Kind::Text]),
            3 => e.column_of(&[Kind::Ci]),
            _ => e.any_column(),
        };
        // A constant is not a key but the number of a column; MariaDB does not know subqueries
        // in the list again.
        let has_column = key.0.contains("t.") || key.0.contains("s.");
        let is_key = has_column && !key.0.contains("SELECT");
        if is_key && !keys.iter().any(|(text, _)| *text == key.0) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        keys.push(("t.v".into(), Kind::Text));
    }
    let mut items: Vec<String> = keys.iter().map(|(text, _)| text.clone()).collect();
    let mut columns: Vec<_> = keys.iter().map(|(_, k)| representative(*k)).collect();
    for _ in 0..e.rng.between(0, 3) {
        let (text, compared) = aggregate(&mut e);
        items.push(text);
        columns.push(compared);
    }
    let (filter, having) = (filter(&mut e), having(&mut e));
    let group: Vec<String> = items[..keys.len()].to_vec();
    let mut sql = format!(
        "SELECT {} FROM {from}{filter} GROUP BY {}{having}",
        items.join(", "),
        group.join(", ")
    );
    let mut order = Order::None;
    if e.rng.chance(3) {
        sql.push_str(" ORDER BY 1");
        order = Order::Columns(1);
    }
    Query {
        sql,
        columns,
        order,
        made: None,
    }
}

fn whole(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let (items, columns): (Vec<_>, Vec<_>) =
        (0..e.rng.between(1, 5)).map(|_| aggregate(&mut e)).unzip();
    let (filter, having) = (filter(&mut e), having(&mut e));
    Query {
        sql: format!("SELECT {} FROM t{filter}{having}", items.join(", ")),
        columns,
        order: Order::Rows,
        made: None,
    }
}

fn distinct(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let items: Vec<Typed> = (0..e.rng.between(1, 3))
        .map(|_| match e.rng.chance(3) {
            true => e.any(1),
            false => e.any_column(),
        })
        .collect();
    let filter = filter(&mut e);
    let texts: Vec<String> = items.iter().map(|(text, _)| text.clone()).collect();
    let (order, by) = match e.rng.chance(2) {
        true => (Order::Columns(1), " ORDER BY 1"),
        false => (Order::None, ""),
    };
    Query {
        sql: format!("SELECT DISTINCT {} FROM t{filter}{by}", texts.join(", ")),
        columns: items.iter().map(|(_, k)| representative(*k)).collect(),
        order,
        made: None,
    }
}

fn joined(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    e.scope.extend(scope("s", &[], &S));
    let on = match e.rng.between(0, 7) {
        0..=1 => "t.a = s.k".to_owned(),
        6 => "t.ci = s.ci".to_owned(),
        7 => "s.ci = t.cc AND t.id > s.l".to_owned(),
        2 => "t.v = s.name".to_owned(),
        3 => "t.a = s.k AND t.id > s.l".to_owned(),
        4 => "t.day = s.day2".to_owned(),
        _ => format!("t.a = s.n AND {}", e.condition(1)),
    };
    let (items, columns) = items(&mut e);
    let condition = filter(&mut e);
    let items = items.join(", ");
    let sql = match e.rng.between(0, 3) {
        0 if e.rng.chance(6) => format!("SELECT {items} FROM t JOIN s USING (ci){condition}"),
        0 => format!("SELECT {items} FROM t JOIN s ON {on}{condition}"),
        1 => format!("SELECT {items} FROM t LEFT JOIN s ON {on}{condition}"),
        2 => format!("SELECT {items} FROM s RIGHT JOIN t ON {on}{condition}"),
        _ => match condition.strip_prefix(" WHERE ") {
            Some(condition) => format!("SELECT {items} FROM t, s WHERE {on} AND ({condition})"),
            None => format!("SELECT {items} FROM s, t WHERE {on}"),
        },
    };
    Query {
        sql,
        columns,
        order: Order::None,
        made: None,
    }
}

/// Joins of more than two tables, of a table with itself, and with what was grouped.
fn many(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let from = match e.rng.between(0, 3) {
        0 => {
            e.scope.extend(scope("s", &[], &S));
            e.scope.extend(scope("o", &["id"], &T));
            "t JOIN s ON t.a = s.k JOIN t o ON o.id = s.l"
        }
        1 => {
            e.scope.extend(scope("o", &["id"], &T));
            *e.rng.choose(&[
                "t JOIN t o ON t.v = o.w AND t.id <> o.id",
                "t JOIN t o ON t.ci = o.cc AND t.id <> o.id",
                "t JOIN t o ON t.big = o.big AND t.id <> o.id",
                "t LEFT JOIN t o ON t.fine = o.big",
            ])
        }
        2 => {
            e.scope.extend(scope("s", &[], &S));
            e.scope.extend(scope("o", &["id"], &T));
            "t LEFT JOIN s ON t.id = s.l LEFT JOIN t o ON o.a = s.n AND o.v = t.v"
        }
        _ => {
            let columns = [
                ("k", Kind::Int),
                ("rows_of", Kind::Int),
                ("total", Kind::Decimal),
            ];
            e.scope
                .extend(columns.map(|(name, kind)| (format!("q.{name}"), kind)));
            "t LEFT JOIN (SELECT k, COUNT(*) AS rows_of, SUM(x) AS total FROM s GROUP BY k) q \
             ON q.k = t.a"
        }
    };
    let (items, columns) = items(&mut e);
    let filter = filter(&mut e);
    Query {
        sql: format!("SELECT {} FROM {from}{filter}", items.join(", ")),
        columns,
        order: Order::None,
        made: None,
    }
}

fn derived(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let (g, kind) = e.any(2);
    let (m, sum) = e.number(1);
    let filter = filter(&mut e);
    let inner = format!("SELECT {g} AS g, {m} AS m FROM t{filter}");
    let sql = match e.rng.chance(2) {
        true => format!("SELECT g, COUNT(*), SUM(m) FROM ({inner}) q GROUP BY g"),
        false => format!("WITH q AS ({inner}) SELECT g, COUNT(*), SUM(m) FROM q GROUP BY q.g"),
    };
    Query {
        sql,
        columns: vec![representative(kind), Compared::Exactly, compared(sum)],
        order: Order::None,
        made: None,
    }
}

/// UNIONs of several parts of different kinds, with ALL and without it in one.
fn unions(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let (kinds, kind) = e.branches();
    let mut sql = String::new();
    for part in 0..e.rng.between(2, 4) {
        if part > 0 {
            let union = [" UNION ", " UNION ALL ", " UNION DISTINCT "];
            sql.push_str(union[e.rng.between(0, 2) as usize]);
        }
        let (value, filter) = match e.rng.between(0, 7) {
            0 => ("NULL".to_owned(), String::new()),
            1 => (e.branch(kinds).0, " LIMIT 0".to_owned()),
            _ => (e.branch(kinds).0, filter(&mut e)),
        };
        sql.push_str(&match filter.contains("LIMIT") {
            true => format!("(SELECT {value} AS g FROM t{filter})"),
            false => format!("SELECT {value} AS g FROM t{filter}"),
        });
    }
    let column = representative(kind);
    let (sql, columns) = match e.rng.between(0, 3) {
        0 => (
            format!("SELECT g, COUNT(*) FROM ({sql}) q GROUP BY g"),
            vec![column, Compared::Exactly],
        ),
        1 => (
            format!("WITH q AS ({sql}) SELECT MAX(g), MIN(g), COUNT(DISTINCT g) FROM q"),
            vec![column, column, Compared::Exactly],
        ),
        _ => (sql, vec![column]),
    };
    Query {
        sql,
        columns,
        order: Order::None,
        made: None,
    }
}

fn union(rng: &mut Rng) -> Query {
    let (word, collated) = *rng.choose(&[("UNION", true), ("UNION ALL", false)]);
    let mut e = over_t(rng);
    let kind = *e.rng.choose(&[Kind::Text, Kind::Ci, Kind::Int, Kind::Date]);
    let one = |e: &mut Expressions<'_>| match kind {
        Kind::Text => e.text(1),
        Kind::Ci => e.column_of(&[Kind::Ci]).0,
        Kind::Date => e.date(1),
        // Years are unsigned; what is signed beside them has no common type here.
        _ => loop {
            let number = e.integer(1);
            if !number.contains(".yr") {
                break number;
            }
        },
    };
    let (a, left) = (one(&mut e), filter(&mut e));
    e.scope = scope("s", &[], &S);
    let (b, right) = (one(&mut e), filter(&mut e));
    let column = match collated {
        true => representative(kind),
        false => compared(kind),
    };
    Query {
        sql: format!("SELECT {a} FROM t{left} {word} SELECT {b} FROM s{right}"),
        columns: vec![column],
        order: Order::None,
        made: None,
    }
}
