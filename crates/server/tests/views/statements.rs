//! Random views, and random statements that read and change rows through them.

use std::fmt::Write;

use perigee_testkit::Rng;

/// The tables and their columns: names of numbers begin with `n`, those of texts with `s`.
pub const TABLES: [(&str, &[&str]); 2] = [
    ("t", &["n1", "n2", "s1", "n3"]),
    ("u", &["n1", "n4", "n5", "s2"]),
];

/// A table or a view.
pub struct Shape {
    name: String,
    columns: Vec<String>,
}

impl Shape {
    pub fn new(name: &str, columns: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
        }
    }

    /// One of its columns of numbers.
    fn number<'s>(&'s self, rng: &mut Rng) -> &'s str {
        let numbers = self.columns.iter().filter(|column| is_number(column));
        let numbers: Vec<_> = numbers.collect();
        let at = rng.between(0, numbers.len() as i64 - 1);
        numbers[at as usize]
    }
}

fn is_number(column: &str) -> bool {
    column.starts_with('n')
}

/// The statements that make and fill the tables.
pub fn create(rng: &mut Rng, schema: &str) -> Vec<String> {
    let number = |rng: &mut Rng| match rng.chance(5) {
        true => "NULL".to_owned(),
        false => rng.between(0, 9).to_string(),
    };
    let text = |rng: &mut Rng| *rng.choose(&["'x'", "'y'", "'zz'"]);
    let (mut t, mut u) = (String::new(), String::new());
    for id in 1..=rng.between(3, 20) {
        let comma = if id > 1 { "," } else { "" };
        let (n2, s1, n3) = (number(rng), text(rng), rng.between(0, 9));
        let _ = write!(t, "{comma}({id},{n2},{s1},{n3})");
        let (n5, s2) = (number(rng), text(rng));
        let _ = write!(u, "{comma}({},{},{n5},{s2})", id / 3, id % 3);
    }
    vec![
        format!("CREATE DATABASE {schema}"),
        format!("USE {schema}"),
        "CREATE TABLE t (n1 INT PRIMARY KEY, n2 INT, s1 VARCHAR(10), n3 INT DEFAULT 7, KEY (n2))"
            .to_owned(),
        "CREATE TABLE u (n1 INT NOT NULL, n4 INT NOT NULL, n5 INT, s2 VARCHAR(10), PRIMARY KEY (n1, n4))"
            .to_owned(),
        format!("INSERT INTO t VALUES {t}"),
        format!("INSERT INTO u VALUES {u}"),
    ]
}

/// A condition over columns of numbers of a table or view with an alias.
fn condition(rng: &mut Rng, of: &Shape, alias: &str) -> String {
    let column = of.number(rng);
    let (low, high) = (rng.between(0, 6), rng.between(3, 12));
    match rng.between(0, 4) {
        0 => format!("{alias}.{column} > {low}"),
        1 => format!("{alias}.{column} < {high}"),
        2 => format!("{alias}.{column} <> 5"),
        3 => format!("{alias}.{column} IS NOT NULL"),
        _ => format!("{alias}.{column} IN (1, 2, 3, 4, 5, 6)"),
    }
}

/// WHERE, or nothing.
fn wherever(rng: &mut Rng, of: &Shape, alias: &str) -> String {
    match rng.between(0, 2) {
        0 => String::new(),
        1 => format!(" WHERE {}", condition(rng, of, alias)),
        _ => {
            let (one, other) = (condition(rng, of, alias), condition(rng, of, alias));
            format!(" WHERE {one} AND {other}")
        }
    }
}

/// CREATE VIEW of a view with a number, over one of some tables and views, and what it looks like.
pub fn view(rng: &mut Rng, shapes: &[Shape], number: i64) -> (String, Shape) {
    let base = rng.choose(shapes);
    let (query, columns, checks) = match rng.between(0, 8) {
        0..=3 => plain(rng, base, number),
        4 => {
            let query = format!(
                "SELECT * FROM {}{}",
                base.name,
                wherever(rng, base, &base.name)
            );
            (query, base.columns.clone(), true)
        }
        5 => {
            let other = rng.choose(shapes);
            joined(rng, base, other, number)
        }
        kind => alone(rng, base, number, kind),
    };
    let check = match checks {
        true => match *rng.choose(&["", "", "CASCADED", "CASCADED", "LOCAL"]) {
            "" => "",
            // Over a view MariaDB's asks nothing of the view below, MySQL's what that one asks itself.
            "LOCAL" if TABLES.iter().any(|(table, _)| *table == base.name) => {
                " WITH LOCAL CHECK OPTION"
            }
            _ => " WITH CHECK OPTION",
        },
        false => "",
    };
    let name = format!("v{number}");
    let sql = format!("CREATE VIEW {name} AS {query}{check}");
    (sql, Shape { name, columns })
}

/// Some of the columns, some of them with other names, and perhaps one that is computed.
fn plain(rng: &mut Rng, base: &Shape, number: i64) -> (String, Vec<String>, bool) {
    let (mut items, mut names) = (Vec::new(), Vec::new());
    let numbered = base.number(rng).to_owned();
    for (place, column) in base.columns.iter().enumerate() {
        if *column != numbered && rng.chance(5) {
            continue;
        }
        match rng.chance(3) {
            true => {
                let name = format!("{}{number}{place}", &column[..1]);
                items.push(format!("{column} AS {name}"));
                names.push(name);
            }
            false => {
                items.push(column.clone());
                names.push(column.clone());
            }
        }
    }
    if rng.chance(5) {
        items.push(format!("{numbered} + 1 AS n{number}99"));
        names.push(format!("n{number}99"));
    }
    let rest = wherever(rng, base, &base.name);
    let query = format!("SELECT {} FROM {}{rest}", items.join(", "), base.name);
    (query, names, true)
}

/// A join of two.
fn joined(rng: &mut Rng, base: &Shape, other: &Shape, number: i64) -> (String, Vec<String>, bool) {
    let kind = *rng.choose(&["JOIN", "LEFT JOIN"]);
    let (one, two, three) = (base.number(rng), base.number(rng), other.number(rng));
    let (left, right) = (base.number(rng), other.number(rng));
    let names: Vec<String> = (1..4).map(|place| format!("n{number}{place}")).collect();
    let query = format!(
        "SELECT p.{one} AS {}, p.{two} AS {}, q.{three} AS {} FROM {} p {kind} {} q ON p.{left} = q.{right}",
        names[0], names[1], names[2], base.name, other.name
    );
    (query, names, false)
}

/// A view that is computed by itself.
fn alone(rng: &mut Rng, base: &Shape, number: i64, kind: i64) -> (String, Vec<String>, bool) {
    let (column, table) = (base.number(rng), &base.name);
    let rest = wherever(rng, base, table);
    let (one, two) = (format!("n{number}1"), format!("n{number}2"));
    match kind {
        6 => {
            let query = format!(
                "SELECT {column} AS {one}, COUNT(*) AS {two} FROM {table}{rest} GROUP BY {column}"
            );
            (query, vec![one, two], false)
        }
        7 => {
            let query = format!("SELECT {column} AS {one} FROM {table}{rest} UNION SELECT 3");
            (query, vec![one], false)
        }
        _ => {
            let query = format!("SELECT DISTINCT {column} AS {one} FROM {table}{rest}");
            (query, vec![one], false)
        }
    }
}

/// A statement that names one of the views, or two.
pub fn statement(rng: &mut Rng, shapes: &[Shape]) -> String {
    let views = &shapes[TABLES.len().min(shapes.len() - 1)..];
    let view = rng.choose(views);
    let name = &view.name;
    match rng.between(0, 9) {
        0..=1 => format!("SELECT * FROM {name}{}", wherever(rng, view, name)),
        2..=3 => {
            let column = view.number(rng);
            let value = match rng.chance(2) {
                true => rng.between(0, 20).to_string(),
                false => format!("{} + 1", view.number(rng)),
            };
            let rest = wherever(rng, view, name);
            format!("UPDATE {name} SET {column} = {value}{rest}")
        }
        4 => format!("DELETE FROM {name} WHERE {}", condition(rng, view, name)),
        5 | 9 => {
            let verb = *rng.choose(&["INSERT", "INSERT", "REPLACE"]);
            let values: Vec<_> = view.columns.iter().map(|one| value(rng, one)).collect();
            format!("{verb} INTO {name} VALUES ({})", values.join(", "))
        }
        6 => {
            let mut some = view.columns.clone();
            some.retain(|_| !rng.chance(4));
            if some.is_empty() {
                some.push(view.columns[0].clone());
            }
            let values: Vec<_> = some.iter().map(|one| value(rng, one)).collect();
            let (some, values) = (some.join(", "), values.join(", "));
            format!("INSERT INTO {name} ({some}) VALUES ({values})")
        }
        7 => {
            let other = rng.choose(shapes);
            let (least, left, right) = (view.number(rng), view.number(rng), other.number(rng));
            let other = &other.name;
            format!(
                "SELECT COUNT(*), MIN(z.{least}) FROM {name} z JOIN {other} o ON z.{left} = o.{right}"
            )
        }
        _ => {
            let (table, columns) = *rng.choose(&TABLES);
            let other = Shape::new(table, columns);
            let (changed, left) = (view.number(rng), view.number(rng));
            let right = other.number(rng);
            let to = rng.between(0, 20);
            format!("UPDATE {name} z JOIN {table} o ON z.{left} = o.{right} SET z.{changed} = {to}")
        }
    }
}

/// A value for a column.
fn value(rng: &mut Rng, column: &str) -> String {
    match is_number(column) {
        true => rng.between(0, 40).to_string(),
        false => "'w'".to_owned(),
    }
}
