//! A table with the ends of every type, empty values and zeros, and random SELECTs over it that compare, choose, unite,
//! group and join its columns, and compute nothing: what is computed of such values is out of range.

use super::queries::{Compared, Order, Query};
use perigee_testkit::Rng;

/// A column, its type and its values.
type Column = (&'static str, &'static str, Class, &'static [&'static str]);

/// Which columns are chosen among, united and compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Exact,
    Float,
    Date,
    Time,
    Text,
    Ci,
    Bytes,
}

/// All columns beside the key `id`.
const COLUMNS: &[Column] = &[
    (
        "ti",
        "TINYINT",
        Class::Exact,
        &["-128", "127", "0", "1", "-1"],
    ),
    (
        "su",
        "SMALLINT UNSIGNED",
        Class::Exact,
        &["0", "65535", "1", "127"],
    ),
    (
        "i",
        "INT NOT NULL",
        Class::Exact,
        &["-2147483648", "2147483647", "0", "1", "-1", "65535"],
    ),
    (
        "iu",
        "INT UNSIGNED",
        Class::Exact,
        &["4294967295", "0", "1", "2147483647"],
    ),
    (
        "b",
        "BIGINT",
        Class::Exact,
        &[
            "-9223372036854775808",
            "9223372036854775807",
            "0",
            "1",
            "-1",
        ],
    ),
    (
        "bu",
        "BIGINT UNSIGNED",
        Class::Exact,
        &[
            "18446744073709551615",
            "9223372036854775808",
            "9223372036854775807",
            "0",
            "1",
        ],
    ),
    (
        "d",
        "DECIMAL(5,2)",
        Class::Exact,
        &["-999.99", "999.99", "0", "0.01", "1.00", "-1"],
    ),
    (
        "e",
        "DECIMAL(38,0)",
        Class::Exact,
        &[
            "99999999999999999999999999999999999999",
            "-99999999999999999999999999999999999999",
            "18446744073709551615",
            "0",
            "1",
        ],
    ),
    (
        "w",
        "DECIMAL(65,30)",
        Class::Exact,
        &[
            "99999999999999999999999999999999999.999999999999999999999999999999",
            "-99999999999999999999999999999999999.999999999999999999999999999999",
            "0.000000000000000000000000000001",
            "0.01",
            "0",
            "1",
        ],
    ),
    (
        "f",
        "FLOAT",
        Class::Float,
        &["0.5", "-0.25", "0", "1", "16777216"],
    ),
    (
        "r",
        "DOUBLE",
        Class::Float,
        &["1.5e308", "-1.5e308", "5e-300", "0", "1", "0.5"],
    ),
    ("y", "YEAR", Class::Exact, &["1901", "2155", "2000", "0"]),
    (
        "da",
        "DATE",
        Class::Date,
        &[
            "'1000-01-01'",
            "'9999-12-31'",
            "'1970-01-01'",
            "'2000-02-29'",
            "'1677-09-21'",
        ],
    ),
    (
        "dt",
        "DATETIME",
        Class::Date,
        &[
            "'1000-01-01 00:00:00'",
            "'9999-12-31 23:59:59'",
            "'1970-01-01 00:00:00'",
            "'2262-04-12 00:00:00'",
        ],
    ),
    (
        "d6",
        "DATETIME(6)",
        Class::Date,
        &[
            "'1000-01-01 00:00:00.000001'",
            "'9999-12-31 23:59:59.999999'",
            "'1970-01-01 00:00:00'",
            "'2000-02-29 00:00:00.5'",
        ],
    ),
    (
        "ts",
        "TIMESTAMP(3) NULL",
        Class::Date,
        &[
            "'1970-01-01 00:00:01'",
            "'2038-01-19 03:14:07.999'",
            "'2000-02-29 00:00:00'",
        ],
    ),
    (
        "tm",
        "TIME",
        Class::Time,
        &["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:01'"],
    ),
    (
        "t6",
        "TIME(6)",
        Class::Time,
        &["'-00:00:00.000001'", "'838:59:59'", "'00:00:00'"],
    ),
    (
        "c",
        "CHAR(5)",
        Class::Text,
        &["''", "'a'", "'b'", "'ä'", "'0'"],
    ),
    (
        "v",
        "VARCHAR(20)",
        Class::Text,
        &["''", "'a'", "'A'", "'b'", "'-1'", "'999.99'"],
    ),
    ("tx", "TEXT", Class::Text, &["''", "'a'", "'0'", "'äöü'"]),
    (
        "g",
        "VARCHAR(9) COLLATE utf8mb4_general_ci",
        Class::Ci,
        &["''", "'A'", "'á'", "'b'", "'B'"],
    ),
    (
        "m",
        "ENUM('', 'a', 'B')",
        Class::Text,
        &["''", "'a'", "'B'"],
    ),
    (
        "n",
        "ENUM('x', 'A', 'b') COLLATE utf8mb4_general_ci",
        Class::Ci,
        &["'x'", "'a'", "'B'"],
    ),
    (
        "se",
        "SET('a', 'B', 'ä')",
        Class::Text,
        &["''", "'a'", "'B,a'", "'ä,B,a'"],
    ),
    ("bl", "BLOB", Class::Bytes, &["''", "'a'", "X'00FF'", "'0'"]),
];

/// The statements that make and fill the table.
pub fn create(rng: &mut Rng) -> Vec<String> {
    let columns: Vec<_> = COLUMNS
        .iter()
        .map(|(name, ty, ..)| format!("{name} {ty}"))
        .collect();
    let rows: Vec<_> = (0..rng.between(0, 30))
        .map(|id| {
            let values = COLUMNS.iter().map(|(_, ty, _, values)| {
                match !ty.contains("NOT NULL") && rng.chance(6) {
                    true => "NULL",
                    false => *rng.choose(values),
                }
            });
            let values: Vec<_> = values.collect();
            format!("({id}, {})", values.join(", "))
        })
        .collect();
    let create = format!(
        "CREATE TABLE x (id INT PRIMARY KEY, {}, KEY (b), KEY (bu, da), KEY (w), KEY (d6), KEY (v), KEY (g), \
         KEY (tm), KEY (r))",
        columns.join(", ")
    );
    let insert = format!("INSERT INTO x VALUES {}", rows.join(", "));
    match rows.is_empty() {
        true => vec![create],
        false => vec![create, insert],
    }
}

fn column(rng: &mut Rng, class: Class) -> &'static Column {
    let fitting: Vec<_> = COLUMNS.iter().filter(|column| column.2 == class).collect();
    fitting[rng.between(0, fitting.len() as i64 - 1) as usize]
}

fn any(rng: &mut Rng) -> &'static Column {
    rng.choose(COLUMNS)
}

/// How values of several columns are compared, that are chosen among.
fn of(columns: &[&Column]) -> Compared {
    let has = |class| columns.iter().any(|column| column.2 == class);
    match () {
        () if has(Class::Float) => Compared::AsDouble,
        () if has(Class::Ci) => Compared::AsWeights,
        () if has(Class::Text) => Compared::AsCollated,
        () => Compared::Exactly,
    }
}

/// A literal of a column's values.
fn literal(rng: &mut Rng, column: &Column) -> &'static str {
    rng.choose::<&'static str>(column.3)
}

/// A value of one of two or three columns that go together, or of a constant.
fn choice(rng: &mut Rng) -> (String, Compared) {
    let a = any(rng);
    let (b, c) = (column(rng, a.2), column(rng, a.2));
    let (x, y, z) = (a.0, b.0, c.0);
    let constant = literal(rng, b);
    let text = match rng.between(0, 6) {
        0 => format!("CASE WHEN id % 2 = 0 THEN {x} WHEN id % 3 = 0 THEN {y} ELSE {z} END"),
        1 => format!("IF({x} IS NULL, {y}, {z})"),
        2 => format!("COALESCE({x}, {y}, {z})"),
        3 => format!("IFNULL({x}, {constant})"),
        4 => format!("CASE id % 3 WHEN 0 THEN {constant} WHEN 1 THEN {x} END"),
        // NULLIF of a YEAR is an integer here.
        5 if a.1 != "YEAR" => format!("NULLIF({x}, {y})"),
        _ => x.to_owned(),
    };
    (text, of(&[a, b, c]))
}

fn condition(rng: &mut Rng, alias: &str, other: &str) -> String {
    let a = any(rng);
    let (b, c) = (column(rng, a.2), column(rng, a.2));
    let op = *rng.choose(&["=", "<>", "<", "<=", ">", ">=", "<=>"]);
    let (x, y, z) = (
        format!("{alias}{}", a.0),
        format!("{other}{}", b.0),
        format!("{other}{}", c.0),
    );
    match rng.between(0, 7) {
        0 => format!("{x} BETWEEN {y} AND {z}"),
        1 => format!("{x} IN ({y}, {z}, NULL)"),
        2 => format!("{x} {op} {}", literal(rng, a)),
        3 => format!(
            "{x} IN ({}, {}, {})",
            literal(rng, a),
            literal(rng, a),
            literal(rng, a)
        ),
        4 => format!("{x} BETWEEN {} AND {}", literal(rng, a), literal(rng, a)),
        5 => format!("({x} {op} {y} OR {x} IS NULL)"),
        _ => format!("{x} {op} {y}"),
    }
}

/// One random SELECT over the table.
pub fn query(rng: &mut Rng) -> Query {
    let filter = match rng.chance(2) {
        true => String::new(),
        false => format!(" WHERE {}", condition(rng, "", "")),
    };
    let ((one, a), (two, b)) = (choice(rng), choice(rng));
    let plain = |sql: String, columns: Vec<Compared>| Query {
        sql,
        columns,
        order: Order::None,
        made: None,
    };
    match rng.between(0, 8) {
        0 => plain(
            format!("SELECT {one}, COUNT(*), COUNT(DISTINCT {two}) FROM x{filter} GROUP BY {one}"),
            vec![a, Compared::Exactly, Compared::Exactly],
        ),
        1 => {
            let column = any(rng);
            // MariaDB compares values of an ENUM or a SET by number here, MySQL by text.
            let by_number = column.1.starts_with("ENUM") || column.1.starts_with("SET");
            let name = match by_number {
                true => "v",
                false => column.0,
            };
            plain(
                format!("SELECT MIN({name}), MAX({name}), COUNT({name}) FROM x{filter}"),
                vec![of(&[column]), of(&[column]), Compared::Exactly],
            )
        }
        2..=3 => union(rng, &filter),
        4 => plain(
            format!(
                "SELECT p.id, q.id FROM x p {} x q ON {} AND {}",
                rng.choose(&["JOIN", "LEFT JOIN", "RIGHT JOIN"]),
                condition(rng, "p.", "q."),
                condition(rng, "q.", "p."),
            ),
            vec![Compared::Exactly; 2],
        ),
        5 => Query {
            sql: "SELECT * FROM made".to_owned(),
            columns: vec![a, b],
            order: Order::None,
            made: Some(format!("SELECT {one} AS c0, {two} AS c1 FROM x{filter}")),
        },
        6 => plain(
            format!(
                "SELECT c0, COUNT(*) FROM (SELECT {one} AS c0, {two} AS c1 FROM x{filter}) z GROUP BY c0"
            ),
            vec![a, Compared::Exactly],
        ),
        7 => plain(
            format!("SELECT id, {} FROM x", condition(rng, "", "")),
            vec![Compared::Exactly; 2],
        ),
        _ => plain(
            format!("SELECT DISTINCT {one}, {two} FROM x{filter}"),
            vec![a, b],
        ),
    }
}

/// A UNION of three and more parts, as it is or as a derived table.
fn union(rng: &mut Rng, filter: &str) -> Query {
    let first = any(rng);
    let mut columns = Vec::new();
    let mut sql = String::new();
    for part in 0..rng.between(3, 5) {
        let column = match rng.chance(9) {
            true => any(rng),
            false => column(rng, first.2),
        };
        if part > 0 {
            sql.push_str(rng.choose::<&str>(&[" UNION ", " UNION ALL ", " UNION DISTINCT "]));
        }
        let constant = literal(rng, column);
        sql.push_str(&match rng.between(0, 5) {
            0 => "SELECT NULL AS k".to_owned(),
            1 => format!("SELECT {constant} AS k"),
            _ => format!("SELECT {} AS k FROM x{filter}", column.0),
        });
        columns.push(column);
    }
    let is_double = columns.iter().any(|column| column.2 == Class::Float);
    // Texts of doubles have other digits.
    let is_text = columns
        .iter()
        .any(|column| column.2 != Class::Float && column.2 != Class::Exact);
    if is_double && is_text {
        sql = "SELECT 1 AS k UNION SELECT 2.5 UNION ALL SELECT NULL".to_owned();
    }
    let compared = of(&columns);
    let (sql, columns, made) = match rng.between(0, 3) {
        0 => (
            format!("SELECT k, COUNT(*) FROM ({sql}) z GROUP BY k"),
            vec![compared, Compared::Exactly],
            None,
        ),
        1 => ("SELECT * FROM made".to_owned(), vec![compared], Some(sql)),
        2 => (
            format!("WITH z AS ({sql}) SELECT COUNT(*), COUNT(k), COUNT(DISTINCT k) FROM z"),
            vec![Compared::Exactly; 3],
            None,
        ),
        _ => (sql, vec![compared], None),
    };
    Query {
        sql,
        columns,
        order: Order::None,
        made,
    }
}
