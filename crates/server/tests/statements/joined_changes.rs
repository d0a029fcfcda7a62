//! Random DELETE and UPDATE of several tables, and INSERT … SELECT of joins: joins of all types, with conditions on both
//! sides in ON and in WHERE.
//!
//! New values depend on the row's own columns, so that it does not matter which row of the other table is met first.

use super::changes::{On, assignments, condition};
use super::tables::{S, T};
use perigee_testkit::Rng;

/// Tables that are joined, the first one as `a`, the second one as `b`, and by what.
const PAIRS: &[(On, On, &[&str])] = &[
    (
        On::T,
        On::S,
        &[
            "a.a = b.k",
            "a.id = b.l",
            "a.v = b.name",
            "a.v <=> b.name",
            "a.ci <=> b.ci",
            "a.day = b.day2",
            "a.a <=> b.n",
            "a.d = b.x",
            "a.e < b.x AND a.a = b.k",
        ],
    ),
    (
        On::T,
        On::T,
        &["a.a = b.a AND a.id > b.id", "a.id = b.a", "a.ci <=> b.cc"],
    ),
    (On::T, On::L, &["a.id = b.id", "a.a = b.n", "a.a <=> b.n"]),
    (
        On::S,
        On::C,
        &["a.n = b.n", "a.ci = b.code", "a.ci <=> b.tag", "a.k = b.n"],
    ),
    (
        On::U,
        On::S,
        &[
            "a.id = b.l",
            "a.g = b.k",
            "a.g <=> b.n",
            "a.code <=> b.name",
        ],
    ),
];

fn name(table: On) -> &'static str {
    match table {
        On::T => "t",
        On::S => "s",
        On::U => "u",
        On::L => "l",
        On::C => "c",
    }
}

/// A condition on the columns of one table.
fn condition_on(rng: &mut Rng, table: On, alias: &str) -> String {
    let (id, n) = (rng.between(1, 40), rng.between(-2, 6));
    let forms = match table {
        On::T if rng.chance(3) => vec![format!("$id IN ({id}, {}, {})", id + 3, id + 70)],
        On::T => vec![condition(rng, &T, alias)],
        On::S if rng.chance(3) => vec![format!("($k = {n} OR $l BETWEEN {n} AND {id})")],
        On::S => vec![condition(rng, &S[2..], alias)],
        On::U => vec![
            format!("$g = {n}"),
            format!("$id > {id}"),
            "$code IS NULL".to_owned(),
            "$note IN ('none', 'again')".to_owned(),
        ],
        On::L => vec![
            format!("$id < {id}"),
            format!("$n = {n} OR $n IS NULL"),
            "$words IS NOT NULL".to_owned(),
        ],
        On::C => vec![
            format!("$n IN (1, {n})"),
            "$code > 'B'".to_owned(),
            "$tag IS NULL".to_owned(),
        ],
    };
    let form = rng.choose(&forms);
    format!("({})", form.replace('$', alias))
}

/// New values of columns of one table, none of a unique key.
fn assignments_of(rng: &mut Rng, table: On, alias: &str) -> String {
    let n = rng.between(-2, 6);
    match table {
        On::T => assignments(rng, &T, alias),
        On::S => assignments(rng, &S[2..], alias),
        On::U => format!("{alias}note = 'n{n}'"),
        On::L => format!("{alias}n = {n}"),
        On::C => format!("{alias}words = 'w{n}'"),
    }
}

/// One random statement over two of these tables; `None` if there is no pair among them.
pub fn change(rng: &mut Rng, tables: &[On]) -> Option<String> {
    let has = |table: &On| tables.contains(table);
    let pairs: Vec<_> = PAIRS.iter().filter(|(a, b, _)| has(a) && has(b)).collect();
    if pairs.is_empty() {
        return None;
    }
    let (a, b, ons) = **rng.choose(&pairs);
    let mut on = (*rng.choose(ons)).to_owned();
    for (table, alias) in [(a, "a."), (b, "b.")] {
        if rng.chance(3) {
            on = format!("{on} AND {}", condition_on(rng, table, alias));
        }
    }
    let (left, right) = (format!("{} a", name(a)), format!("{} b", name(b)));
    let mut conditions = Vec::new();
    let from = match rng.between(0, 9) {
        0..=2 => format!("{left} JOIN {right} ON {on}"),
        3..=4 => format!("{left} LEFT JOIN {right} ON {on}"),
        5..=6 => format!("{left} RIGHT JOIN {right} ON {on}"),
        7 => format!("{right} RIGHT JOIN {left} ON {on}"),
        8 => {
            conditions.push(on);
            format!("{left} CROSS JOIN {right}")
        }
        _ => {
            conditions.push(on);
            format!("{right}, {left}")
        }
    };
    for (table, alias) in [(a, "a."), (b, "b.")] {
        if rng.chance(2) {
            conditions.push(condition_on(rng, table, alias));
        }
    }
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    let of_one_table = a == b;
    Some(match rng.between(0, 9) {
        0..=2 => format!("DELETE a FROM {from}{filter}"),
        3 => format!("DELETE b FROM {from}{filter}"),
        4 if !of_one_table => format!("DELETE FROM a, b USING {from}{filter}"),
        5 if has(&On::L) && a == On::T && b != On::L => format!(
            "INSERT INTO l (id, n) SELECT a.id + {}, COUNT(*) FROM {from}{filter} GROUP BY a.id",
            rng.between(100, 2000)
        ),
        6..=7 if !of_one_table => {
            let (of_a, of_b) = (assignments_of(rng, a, "a."), assignments_of(rng, b, "b."));
            // MariaDB changes the row of one table while it looks for those of the other, which its new values decide.
            let decides = |assigned: &str| {
                let columns = assigned
                    .split(", ")
                    .filter_map(|one| one.split(" = ").next());
                columns
                    .into_iter()
                    .any(|column| from.contains(column) || filter.contains(column))
            };
            match decides(&of_a) || decides(&of_b) {
                true => format!("UPDATE {from} SET {of_b}{filter}"),
                false => format!("UPDATE {from} SET {of_a}, {of_b}{filter}"),
            }
        }
        _ if of_one_table => format!("DELETE a FROM {from}{filter}"),
        _ => format!("UPDATE {from} SET {}{filter}", assignments_of(rng, b, "b.")),
    })
}
