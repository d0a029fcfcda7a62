//! Tables that refer to each other in every way, and random statements that change them.

use perigee_testkit::Rng;

/// The tables and their primary keys.
pub const TABLES: &[(&str, &str)] = &[
    ("p", "id"),
    ("c", "id"),
    ("g", "id"),
    ("m", "x, y"),
    ("k", "id"),
];

/// Greatest number of a row.
const LAST: i64 = 9;

/// What a key does if its row goes or gets another key.
fn actions(rng: &mut Rng) -> String {
    let of = |rng: &mut Rng, event: &str| match *rng.choose(&[
        "",
        "RESTRICT",
        "NO ACTION",
        "CASCADE",
        "CASCADE",
        "SET NULL",
        "SET NULL",
    ]) {
        "" => String::new(),
        action => format!(" ON {event} {action}"),
    };
    format!("{}{}", of(rng, "DELETE"), of(rng, "UPDATE"))
}

/// Statements that make the tables.
pub fn create(rng: &mut Rng) -> Vec<String> {
    let collation = *rng.choose(&["utf8mb4_bin", "utf8mb4_general_ci"]);
    let text = format!("VARCHAR(10) COLLATE {collation}");
    let keys: Vec<String> = (0..7).map(|_| actions(rng)).collect();
    vec![
        format!(
            "CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE, v {text}, n INT, KEY (v), \
             CONSTRAINT p_n CHECK (n < 60))"
        ),
        format!(
            "CREATE TABLE c (id INT PRIMARY KEY, a INT, b INT, v {text}, n INT, \
             CONSTRAINT c1 FOREIGN KEY (a) REFERENCES p (id){}, \
             CONSTRAINT c2 FOREIGN KEY (b) REFERENCES p (u){}, \
             CONSTRAINT c3 FOREIGN KEY (v) REFERENCES p (v){}, \
             CONSTRAINT c_n CHECK (n IS NULL OR n + id < 75))",
            keys[0], keys[1], keys[2]
        ),
        format!(
            "CREATE TABLE g (id INT PRIMARY KEY, c INT, up INT, n INT, \
             CONSTRAINT g1 FOREIGN KEY (c) REFERENCES c (id){}, \
             CONSTRAINT g2 FOREIGN KEY (up) REFERENCES g (id){})",
            keys[3], keys[4]
        ),
        // Columns of a primary key cannot be set to NULL.
        format!(
            "CREATE TABLE m (x INT, y INT, n INT, PRIMARY KEY (x, y), \
             CONSTRAINT m1 FOREIGN KEY (x) REFERENCES p (id){})",
            keys[5].replace("SET NULL", "CASCADE")
        ),
        format!(
            "CREATE TABLE k (id INT PRIMARY KEY, x INT, y INT, n INT, KEY (x, y, n), \
             CONSTRAINT k1 FOREIGN KEY (x, y) REFERENCES m (x, y){})",
            keys[6]
        ),
    ]
}

fn number(rng: &mut Rng) -> String {
    rng.between(1, LAST).to_string()
}

/// A number, or sometimes NULL.
fn reference(rng: &mut Rng) -> String {
    match rng.chance(4) {
        true => "NULL".to_owned(),
        false => number(rng),
    }
}

/// A text, or sometimes NULL; some are equal but for their case or spaces.
fn text(rng: &mut Rng) -> String {
    let texts = ["NULL", "'a'", "'b'", "'A'", "'B'", "'a '", "'c'", "'d'"];
    (*rng.choose(&texts)).to_owned()
}

fn any(rng: &mut Rng) -> String {
    rng.between(0, 70).to_string()
}

/// A row of a table.
fn row(rng: &mut Rng, table: &str) -> String {
    let values = match table {
        "p" => vec![number(rng), reference(rng), text(rng), any(rng)],
        "c" => vec![
            number(rng),
            reference(rng),
            reference(rng),
            match rng.chance(2) {
                true => "NULL".to_owned(),
                false => text(rng),
            },
            any(rng),
        ],
        "g" => vec![number(rng), reference(rng), reference(rng), any(rng)],
        "m" => vec![number(rng), number(rng), any(rng)],
        _ => vec![number(rng), reference(rng), reference(rng), any(rng)],
    };
    format!("({})", values.join(", "))
}

/// An assignment to a column.
fn assignment(rng: &mut Rng, table: &str) -> String {
    let columns: &[&str] = match table {
        "p" => &["id", "id", "u", "u", "v", "n"],
        "c" => &["id", "id", "a", "b", "v", "n"],
        "g" => &["id", "c", "up", "n"],
        "m" => &["x", "x", "y", "n"],
        _ => &["id", "x", "y", "n"],
    };
    let column = *rng.choose(columns);
    let value = match column {
        "v" => text(rng),
        "n" => any(rng),
        "id" => number(rng),
        "x" | "y" if table == "m" => number(rng),
        _ => reference(rng),
    };
    format!("{column} = {value}")
}

/// A condition on one row, or on some.
fn condition(rng: &mut Rng, table: &str, one: bool) -> String {
    let key = if table == "m" { "x" } else { "id" };
    match one {
        true if table == "m" => format!("x = {} AND y = {}", number(rng), number(rng)),
        true => format!("id = {}", number(rng)),
        false => match rng.between(0, 2) {
            0 => format!("{key} >= {}", rng.between(LAST - 3, LAST)),
            1 => format!("n < {}", rng.between(0, 30)),
            _ => format!("n BETWEEN 20 AND {}", rng.between(20, 40)),
        },
    }
}

/// A statement that changes a table.
pub fn change(rng: &mut Rng) -> String {
    let (table, key) = *rng.choose(TABLES);
    let ignore = if rng.chance(5) { " IGNORE" } else { "" };
    match rng.between(0, 11) {
        0..=3 => {
            // MariaDB does not ignore what is wrong with the only row.
            let count = rng.between(if ignore.is_empty() { 1 } else { 2 }, 3);
            let rows: Vec<String> = (0..count).map(|_| row(rng, table)).collect();
            format!("INSERT{ignore} INTO {table} VALUES {}", rows.join(", "))
        }
        4 => format!("REPLACE INTO {table} VALUES {}", row(rng, table)),
        5 => {
            let (row, set) = (row(rng, table), assignment(rng, table));
            format!("INSERT INTO {table} VALUES {row} ON DUPLICATE KEY UPDATE {set}")
        }
        6 | 7 => {
            let (set, one) = (assignment(rng, table), condition(rng, table, true));
            format!("UPDATE{ignore} {table} SET {set} WHERE {one}")
        }
        8 => {
            let some = condition(rng, table, false);
            let set = match table {
                "p" | "c" => *rng.choose(&["n = n + 1", "v = 'a'", "v = NULL"]),
                _ => "n = n + 1",
            };
            format!("UPDATE{ignore} {table} SET {set} WHERE {some} ORDER BY {key}")
        }
        9 | 10 => {
            let one = condition(rng, table, true);
            format!("DELETE{ignore} FROM {table} WHERE {one}")
        }
        _ => {
            let some = condition(rng, table, false);
            format!("DELETE{ignore} FROM {table} WHERE {some} ORDER BY {key}")
        }
    }
}
