//! Random windows with frames, and HAVING without groups, over the table `t`.

use super::expressions::{Expressions, Typed};
use super::queries::{Compared, Order, Query, compared, filter, scope};
use super::tables::{Kind, T};
use perigee_testkit::Rng;

fn over_t(rng: &mut Rng) -> Expressions<'_> {
    Expressions {
        rng,
        scope: scope("t", &["id"], &T),
        subqueries: false,
    }
}

/// A query of one or the other.
pub fn query(rng: &mut Rng) -> Query {
    match rng.chance(3) {
        true => having(rng),
        false => windows(rng),
    }
}

/// A SELECT of windows; each has its own frame.
fn windows(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let mut items = vec!["t.id".to_owned()];
    let mut columns = vec![Compared::Exactly];
    for _ in 0..e.rng.between(1, 3) {
        let (text, compared) = window(&mut e);
        items.push(text);
        columns.push(compared);
    }
    let filter = filter(&mut e);
    Query {
        sql: format!("SELECT {} FROM t{filter} ORDER BY t.id", items.join(", ")),
        columns,
        order: Order::Rows,
        made: None,
    }
}

fn window(e: &mut Expressions<'_>) -> (String, Compared) {
    let (function, compared) = function(e);
    let partition = match e.rng.chance(2) {
        true => format!("PARTITION BY {} ", e.column_of(&[Kind::Int, Kind::Date]).0),
        false => String::new(),
    };
    let direction = *e.rng.choose(&["", " DESC"]);
    // ROWS need an order without ties. MariaDB refuses a distance from an unsigned value.
    let spec = match e.rng.chance(2) {
        true => format!("ORDER BY t.id{direction} ROWS {}", bounds(e, false)),
        false => {
            let (key, kind) = loop {
                let key = e.column_of(&[Kind::Int, Kind::Decimal, Kind::Double]);
                if !key.0.ends_with(".yr") {
                    break key;
                }
            };
            // MariaDB rounds a distance from an integer to an integer.
            let bounds = bounds(e, kind != Kind::Int);
            format!("ORDER BY {key}{direction} RANGE {bounds}")
        }
    };
    (format!("{function} OVER ({partition}{spec})"), compared)
}

/// An aggregate of exact numbers: a frame that moves adds and takes away doubles in an order of its own.
fn function(e: &mut Expressions<'_>) -> (String, Compared) {
    let (argument, kind) = e.column_of(&[Kind::Int, Kind::Decimal]);
    match e.rng.between(0, 5) {
        0 => ("COUNT(*)".to_owned(), Compared::Exactly),
        1 => (format!("AVG({argument})"), compared(kind)),
        2 => (format!("MIN({argument})"), compared(kind)),
        3 => (format!("MAX({argument})"), compared(kind)),
        4 => (format!("COUNT({argument})"), Compared::Exactly),
        _ => (format!("SUM({argument})"), compared(kind)),
    }
}

/// The bounds of a frame, the first one not behind the last one.
fn bounds(e: &mut Expressions<'_>, has_fractions: bool) -> String {
    let mut distance = || match has_fractions && e.rng.chance(3) {
        true => format!("{}.{}", e.rng.between(0, 9), e.rng.between(0, 99)),
        false => e.rng.between(0, 12).to_string(),
    };
    let (near, far) = (distance(), distance());
    match e.rng.between(0, 7) {
        0 => "UNBOUNDED PRECEDING".to_owned(),
        1 => format!("{near} PRECEDING"),
        2 => format!("BETWEEN {near} PRECEDING AND CURRENT ROW"),
        3 => format!("BETWEEN CURRENT ROW AND {near} FOLLOWING"),
        4 => format!("BETWEEN {near} PRECEDING AND {far} FOLLOWING"),
        5 => format!("BETWEEN {near} FOLLOWING AND UNBOUNDED FOLLOWING"),
        6 => format!("BETWEEN UNBOUNDED PRECEDING AND {near} PRECEDING"),
        _ => format!("BETWEEN 1{near} PRECEDING AND {near} PRECEDING"),
    }
}

/// A SELECT whose HAVING is a condition on the rows of its select list, which has columns of every kind.
fn having(rng: &mut Rng) -> Query {
    let mut e = over_t(rng);
    let mut listed: Vec<Typed> = e.scope.clone();
    listed.extend((0..e.rng.between(1, 3)).map(|_| e.any(2)));
    let filter = filter(&mut e);
    let names: Vec<Typed> = listed
        .iter()
        .enumerate()
        .map(|(at, (text, kind))| match text.strip_prefix("t.") {
            // The generator knows what it may compute with a column by its name.
            Some(column) if at < e.scope.len() => (format!("`h.{column}`"), *kind),
            _ => (format!("c{at}"), *kind),
        })
        .collect();
    let items: Vec<String> = listed
        .iter()
        .zip(&names)
        .map(|((text, _), (name, _))| format!("{text} AS {name}"))
        .collect();
    e.scope = names;
    let condition = e.condition(2);
    let distinct = *e.rng.choose(&["", "", "DISTINCT "]);
    Query {
        sql: format!(
            "SELECT {distinct}{} FROM t{filter} HAVING {condition} ORDER BY 1",
            items.join(", ")
        ),
        columns: listed.iter().map(|(_, kind)| compared(*kind)).collect(),
        order: Order::Rows,
        made: None,
    }
}
