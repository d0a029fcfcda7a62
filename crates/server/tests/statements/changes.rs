//! Random statements that change rows of the tables of `tables.rs`, and of one with unique keys.
//!
//! Left out is what depends on the order in which a server meets rows: LIMIT without an order, a new
//! value of a key for several rows. Conditions and values do not convert between types: MariaDB raises
//! errors for such conversions in statements that change rows, not in others. Long values are not sorted:
//! MariaDB looks at the first `max_sort_length` bytes only.

use super::joined_changes;
use super::tables::{Column, Kind, S, T, decimal_literal, literal_of, row, text_literal, value};
use perigee_testkit::Rng;

/// A table to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    T,
    S,
    U,
    /// With long values.
    L,
    /// With keys of strings that compare by weights.
    C,
}

/// Ids of rows of `t`; about half of them are there.
const IDS: i64 = 400;

/// The statement that makes the table with unique keys.
pub fn create_u() -> String {
    "CREATE TABLE u (id INT NOT NULL, code VARCHAR(10), g INT NOT NULL DEFAULT 7, \
     amount DECIMAL(8,2), note VARCHAR(30) DEFAULT 'none', PRIMARY KEY (id), \
     UNIQUE KEY code (code), UNIQUE KEY g_amount (g, amount), KEY note (note), \
     UNIQUE KEY code2 (code(2), g), KEY note3 (note(3)))"
        .to_owned()
}

/// The statement that makes the table with long values.
pub fn create_l() -> String {
    "CREATE TABLE l (id INT NOT NULL, n INT, words MEDIUMTEXT, bytes BLOB, PRIMARY KEY (id), \
     KEY n (n), KEY words (words(3), n), KEY bytes (bytes(2) DESC))"
        .to_owned()
}

/// The statement that makes the table whose keys compare by weights.
pub fn create_c() -> String {
    "CREATE TABLE c (code VARCHAR(6) NOT NULL, n INT NOT NULL, tag CHAR(4), words TEXT, \
     PRIMARY KEY (code, n), UNIQUE KEY tag (tag), KEY n (n), KEY words (words(2))) COLLATE=utf8mb4_unicode_520_ci"
        .to_owned()
}

/// SELECTs of everything in these tables, by their keys and by each secondary key.
pub fn everything(tables: &[On]) -> Vec<&'static str> {
    let of = |table: &On| match table {
        On::T => &[
            "SELECT * FROM t ORDER BY id",
            "SELECT a, id FROM t WHERE a >= -100 ORDER BY a, id",
            "SELECT v, a, id FROM t WHERE v >= '' ORDER BY id",
            "SELECT day, id FROM t WHERE day > '1000-01-01' ORDER BY day, id",
            "SELECT lap, stamp, id FROM t WHERE lap > '-838:59:59' ORDER BY lap, stamp, id",
            "SELECT big, fine, id FROM t WHERE big > -1000 ORDER BY big, fine, id",
            "SELECT yr, id FROM t WHERE yr >= 1901 ORDER BY yr, id",
            "SELECT ci, id FROM t WHERE ci >= '' ORDER BY id",
            "SELECT cc, day, id FROM t WHERE cc BETWEEN 'A' AND 'z' ORDER BY cc, day, id",
            "SELECT mood, a, id FROM t WHERE mood >= 1 ORDER BY mood, a, id",
            "SELECT tone, COUNT(*), SUM(a) FROM t WHERE tone <> 's' GROUP BY tone ORDER BY tone",
            "SELECT HEX(flags), a, id FROM t WHERE flags >= 3 ORDER BY flags, a, id",
            "SELECT perms, a, id FROM t WHERE perms >= 1 ORDER BY perms, a, id",
            "SELECT perms, COUNT(*), SUM(perms) FROM t WHERE perms <> 'b' GROUP BY perms ORDER BY perms",
            "SELECT shades, id FROM t WHERE FIND_IN_SET('B', shades) OR shades & 4 ORDER BY shades, id",
            "SELECT BIT_OR(flags), BIT_AND(flags), SUM(flags), COUNT(DISTINCT flags) FROM t GROUP BY flags & 3 \
             ORDER BY 1, 2, 3, 4",
            "SELECT v, id FROM t FORCE INDEX (v2) WHERE v BETWEEN 'a' AND 'ab' ORDER BY id",
            "SELECT w, id FROM t FORCE INDEX (w1) WHERE w IN ('a', 'b', '12x') ORDER BY id",
            "SELECT c, id FROM t FORCE INDEX (c2) WHERE c LIKE 'ab%' ORDER BY id",
            "SELECT id FROM t FORCE INDEX (ci3) WHERE ci = 'AB' ORDER BY id",
            "SELECT COUNT(*), SUM(id) FROM t",
        ][..],
        On::S => &[
            "SELECT * FROM s ORDER BY k, l",
            "SELECT name, k, l FROM s WHERE name >= '' ORDER BY k, l",
            "SELECT x, k, l FROM s WHERE x > -1000 ORDER BY x, k, l",
            "SELECT ci, k, l FROM s WHERE ci >= 'A' ORDER BY ci, k, l",
        ],
        On::U => &[
            "SELECT * FROM u ORDER BY id",
            "SELECT code, id FROM u WHERE code >= '' ORDER BY code, id",
            "SELECT g, amount, id FROM u WHERE g > -100 ORDER BY g, amount, id",
            "SELECT note, id FROM u WHERE note >= '' ORDER BY note, id",
            "SELECT code, g, id FROM u FORCE INDEX (code2) WHERE code >= '' ORDER BY id",
            "SELECT note, id FROM u FORCE INDEX (note3) WHERE note >= '' ORDER BY id",
        ],
        On::L => &[
            "SELECT * FROM l ORDER BY id",
            "SELECT n, id FROM l WHERE n > -100 ORDER BY n, id",
            "SELECT id, LENGTH(words), n FROM l WHERE n BETWEEN 1 AND 3 ORDER BY id",
            "SELECT id FROM l WHERE words LIKE '%1%' OR bytes LIKE 'b_' ORDER BY id",
            "SELECT id, n FROM l FORCE INDEX (words) WHERE words >= '' ORDER BY id",
            "SELECT id FROM l FORCE INDEX (words) WHERE words LIKE '1%' AND n > 0 ORDER BY id",
            "SELECT id FROM l FORCE INDEX (bytes) WHERE bytes BETWEEN '1' AND '2' ORDER BY id",
            // Which of the values that are equal but for trailing spaces is shown is not defined.
            "SELECT RTRIM(SUBSTRING(words, 2, 4)), COUNT(*), SUM(LENGTH(bytes)) FROM l \
             GROUP BY RTRIM(SUBSTRING(words, 2, 4)) ORDER BY 1, 2, 3",
            "SELECT DISTINCT SUBSTRING(bytes, 1, 900) FROM l ORDER BY 1 LIMIT 3",
            "SELECT COUNT(DISTINCT words), COUNT(*), MAX(bytes) FROM l",
            "SELECT a.id, LENGTH(b.words) FROM l a JOIN l b ON b.n = a.n AND b.id > a.id \
             WHERE a.bytes IS NOT NULL ORDER BY a.id, b.id",
        ],
        On::C => &[
            "SELECT * FROM c ORDER BY code, n",
            "SELECT tag, code, n FROM c WHERE tag >= '' ORDER BY tag",
            "SELECT code, n FROM c WHERE code > 'B' AND n > 1 ORDER BY code DESC, n",
            "SELECT n, code FROM c WHERE n BETWEEN 1 AND 3 ORDER BY n, code",
            "SELECT COUNT(DISTINCT code), COUNT(DISTINCT words), COUNT(*) FROM c",
            "SELECT COUNT(*), SUM(n), MIN(n) FROM c GROUP BY code ORDER BY 1, 2, 3",
            "SELECT a.n, b.n FROM c a JOIN c b ON b.code = a.tag ORDER BY 1, 2",
            "SELECT n, code FROM c WHERE words LIKE 'A%' OR words IN ('s', 'É') ORDER BY code, n",
            "SELECT n, code FROM c FORCE INDEX (words) WHERE words = 'ab' ORDER BY code, n",
        ],
    };
    tables.iter().flat_map(of).copied().collect()
}

/// One random statement that changes one of the tables.
pub fn change(rng: &mut Rng, tables: &[On]) -> String {
    if rng.chance(4)
        && let Some(change) = joined_changes::change(rng, tables)
    {
        return change;
    }
    match rng.choose(tables) {
        On::T => change_t(rng),
        On::S => change_s(rng),
        On::U => change_u(rng),
        On::L => change_l(rng),
        On::C => change_c(rng),
    }
}

/// A string of 0 bytes to 60 KB, often of a length about which something changes.
fn long_literal(rng: &mut Rng) -> String {
    let len = match rng.between(0, 5) {
        0 => return "NULL".to_owned(),
        1 => rng.between(0, 3),
        2 => rng.between(0, 200),
        3 => rng.between(3900, 4200),
        4 => rng.between(8000, 8300),
        _ => rng.between(10_000, 60_000),
    };
    let (first, filler) = (rng.between(0, 30), *rng.choose(&["a", "bc", "1 "]));
    format!("RPAD('{first}', {len}, '{filler}')")
}

fn change_l(rng: &mut Rng) -> String {
    let (id, n) = (rng.between(1, 30), rng.between(-2, 5));
    let row = |rng: &mut Rng| {
        let (id, n) = (rng.between(1, 30), rng.between(-2, 5));
        format!("({id}, {n}, {}, {})", long_literal(rng), long_literal(rng))
    };
    match rng.between(0, 13) {
        0..=1 => format!("INSERT INTO l VALUES {}, {}", row(rng), row(rng)),
        2 => format!("INSERT IGNORE INTO l VALUES {}, {}", row(rng), row(rng)),
        3 => format!("REPLACE INTO l VALUES {}, {}", row(rng), row(rng)),
        4 => format!(
            "INSERT INTO l VALUES {} ON DUPLICATE KEY UPDATE words = CONCAT(VALUES(words), n), \
             bytes = VALUES(bytes)",
            row(rng)
        ),
        5 => format!("UPDATE l SET words = {} WHERE n = {n}", long_literal(rng)),
        6 => format!("UPDATE l SET n = n + 1 WHERE id <= {id}"),
        7 => format!(
            "UPDATE l SET bytes = {}, n = {n} WHERE id = {id}",
            long_literal(rng)
        ),
        8 => format!(
            "UPDATE l SET id = {}, n = {n} WHERE id = {id}",
            rng.between(1, 30)
        ),
        9 => format!("UPDATE l SET bytes = SUBSTRING(words, 1, 60000) WHERE id = {id}"),
        // Too long sometimes.
        10 => format!("UPDATE l SET bytes = CONCAT(bytes, bytes) WHERE n = {n}"),
        11 => format!("DELETE FROM l WHERE id = {id}"),
        12 => format!("DELETE FROM l WHERE words LIKE '{n}%' AND id > {id}"),
        _ => format!(
            "INSERT INTO l SELECT id + 10, n, bytes, SUBSTRING(words, 1, 60000) FROM l \
             WHERE n = {n} AND id <= {id}"
        ),
    }
}

fn change_c(rng: &mut Rng) -> String {
    let text = |rng: &mut Rng| literal_of(rng, Kind::Ci);
    let row = |rng: &mut Rng| {
        let tag = match rng.chance(4) {
            true => "NULL".to_owned(),
            false => text(rng),
        };
        let (code, n, words) = (text(rng), rng.between(0, 4), text(rng));
        format!("({code}, {n}, {tag}, {words})")
    };
    let (code, n) = (text(rng), rng.between(0, 4));
    match rng.between(0, 11) {
        0..=2 => format!("INSERT INTO c VALUES {}", row(rng)),
        3 => format!("INSERT IGNORE INTO c VALUES {}, {}", row(rng), row(rng)),
        4 => format!("REPLACE INTO c VALUES {}, {}", row(rng), row(rng)),
        5 => {
            let set = *rng.choose(&[
                "code = VALUES(code)",
                "tag = VALUES(tag), words = 'again'",
                "words = CONCAT(words, VALUES(tag))",
            ]);
            let row = row(rng);
            format!("INSERT INTO c VALUES {row} ON DUPLICATE KEY UPDATE {set}")
        }
        6 => format!("UPDATE c SET tag = {} WHERE code = {code}", text(rng)),
        7 => format!("UPDATE c SET code = UPPER(code), tag = LOWER(tag) WHERE n = {n}"),
        8 => format!(
            "UPDATE c SET code = {}, words = CONCAT(code, tag) WHERE code = {code} AND n = {n}",
            text(rng)
        ),
        9 => format!("DELETE FROM c WHERE code = {code} AND n >= {n}"),
        10 => format!("DELETE FROM c WHERE tag = {code}"),
        _ => format!(
            "INSERT INTO c SELECT code, n + 1, NULL, tag FROM c WHERE code < {code} AND n < 9"
        ),
    }
}

fn id(rng: &mut Rng) -> i64 {
    rng.between(1, IDS)
}

fn change_t(rng: &mut Rng) -> String {
    match rng.between(0, 11) {
        0..=2 => insert_t(rng, "INSERT INTO"),
        3 => insert_t(rng, "INSERT IGNORE INTO"),
        4 => insert_t(rng, "REPLACE INTO"),
        5 => {
            let set = assignments(rng, &T, "");
            let insert = insert_t(rng, "INSERT INTO");
            format!("{insert} ON DUPLICATE KEY UPDATE {set}")
        }
        6 => format!("DELETE FROM t WHERE id = {}", id(rng)),
        7 => {
            let low = id(rng);
            let condition = condition(rng, &T, "");
            format!(
                "DELETE FROM t WHERE id BETWEEN {low} AND {} AND {condition}",
                low + 15
            )
        }
        8 => {
            let (set, condition) = (assignments(rng, &T, ""), condition(rng, &T, ""));
            let (order, limit) = (*rng.choose(&["id", "id DESC"]), rng.between(1, 9));
            format!("UPDATE t SET {set} WHERE {condition} ORDER BY {order} LIMIT {limit}")
        }
        9 => format!("UPDATE t SET id = {} WHERE id = {}", id(rng), id(rng)),
        10 => {
            let (set, condition) = (assignments(rng, &T, ""), condition(rng, &T, ""));
            format!("UPDATE t SET {set} WHERE {condition}")
        }
        _ => format!(
            "UPDATE t SET {} WHERE id = {}",
            assignments(rng, &T, ""),
            id(rng)
        ),
    }
}

/// An insert of one row or of several.
fn insert_t(rng: &mut Rng, verb: &str) -> String {
    let rows: Vec<_> = (0..rng.between(1, 4))
        .map(|_| format!("({}, {})", id(rng), row(rng, &T).join(", ")))
        .collect();
    format!("{verb} t VALUES {}", rows.join(", "))
}

fn change_s(rng: &mut Rng) -> String {
    // The key of `s` is its first two columns.
    let others = &S[2..];
    let key = |rng: &mut Rng| format!("k = {} AND l = {}", rng.between(-3, 9), rng.between(1, 25));
    match rng.between(0, 6) {
        0..=1 => {
            let mut values = row(rng, &S);
            values[1] = rng.between(1, 25).to_string();
            let verb = *rng.choose(&["INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO"]);
            format!("{verb} s VALUES ({})", values.join(", "))
        }
        2 => format!("DELETE FROM s WHERE {}", key(rng)),
        3 => format!(
            "UPDATE s SET {} WHERE {}",
            assignments(rng, others, ""),
            key(rng)
        ),
        4 => {
            let (from, l) = (key(rng), rng.between(1, 25));
            format!(
                "UPDATE s SET l = {l}, k = {} WHERE {from}",
                rng.between(-3, 9)
            )
        }
        _ => {
            let (set, condition) = (assignments(rng, others, ""), condition(rng, others, ""));
            format!("UPDATE s SET {set} WHERE {condition}")
        }
    }
}

fn change_u(rng: &mut Rng) -> String {
    let values = |rng: &mut Rng| {
        let code = match rng.chance(5) {
            true => "NULL".to_owned(),
            false => format!("'c{}'", rng.between(0, 40)),
        };
        let amount = match rng.chance(5) {
            true => "NULL".to_owned(),
            false => decimal_literal(rng.between(0, 20), 2),
        };
        [
            rng.between(1, 60).to_string(),
            code,
            rng.between(0, 5).to_string(),
            amount,
        ]
    };
    let inserted = |rng: &mut Rng, verb: &str| {
        let rows: Vec<_> = (0..rng.between(1, 3))
            .map(|_| format!("({})", values(rng).join(", ")))
            .collect();
        format!("{verb} u (id, code, g, amount) VALUES {}", rows.join(", "))
    };
    match rng.between(0, 10) {
        0..=1 => inserted(rng, "INSERT INTO"),
        2 => inserted(rng, "INSERT IGNORE INTO"),
        3 => inserted(rng, "REPLACE INTO"),
        10 => {
            let set = *rng.choose(&[
                "note = CONCAT(name, s.n)",
                "amount = u.amount + n, note = VALUES(g) + x",
                "g = g + (SELECT COUNT(*) FROM s) + l, note = name",
            ]);
            let k = rng.between(0, 5);
            format!(
                "INSERT INTO u (id, g) SELECT l + 10, k FROM s WHERE k < {k} ORDER BY k, l \
                 ON DUPLICATE KEY UPDATE {set}"
            )
        }
        4 => {
            let insert = inserted(rng, "INSERT INTO");
            let set = *rng.choose(&[
                "note = 'again'",
                "note = CONCAT(code, 'x')",
                "amount = amount + 100",
                "g = g + 1, note = VALUES(code)",
            ]);
            format!("{insert} ON DUPLICATE KEY UPDATE {set}")
        }
        5 => format!(
            "INSERT INTO u (id, note) VALUES ({}, {})",
            rng.between(1, 60),
            text_literal(rng)
        ),
        6 => format!("DELETE FROM u WHERE id = {}", rng.between(1, 60)),
        7 => format!("DELETE FROM u WHERE code = 'c{}'", rng.between(0, 40)),
        8 => {
            let [id, code, g, amount] = values(rng);
            format!("UPDATE u SET code = {code}, g = {g}, amount = {amount} WHERE id = {id}")
        }
        _ => {
            let (g, low) = (rng.between(0, 5), rng.between(1, 60));
            let at = format!("g = {g} AND id > {low}");
            format!("UPDATE u SET note = CONCAT('n', id), amount = NULL WHERE {at}")
        }
    }
}

/// New values for one column or two of a table of this alias, which ends with a point, or of the only table.
pub fn assignments(rng: &mut Rng, columns: &[Column], alias: &str) -> String {
    let first = rng.between(0, columns.len() as i64 - 1) as usize;
    let second = rng.between(0, columns.len() as i64 - 1) as usize;
    let mut chosen = vec![first, second];
    chosen.dedup();
    let set: Vec<_> = chosen
        .iter()
        .map(|at| assignment(rng, &columns[*at], alias))
        .collect();
    set.join(", ")
}

fn assignment(rng: &mut Rng, column: &Column, alias: &str) -> String {
    let name = format!("{alias}{}", column.name);
    let new = match (column.kind, rng.chance(2)) {
        (Kind::Int, true) => format!("{name} + {}", rng.between(-3, 3)),
        (Kind::Decimal, true) => format!("{name} + {}", decimal_literal(rng.between(-900, 900), 2)),
        (Kind::Fine, true) => format!("{name} - {}", rng.between(-3, 3)),
        (Kind::Double, true) => format!("{name} * 0.5"),
        (Kind::Date, true) => format!("{name} + INTERVAL {} DAY", rng.between(-40, 40)),
        (Kind::DateTime, true) => format!("{name} + INTERVAL {} HOUR", rng.between(-40, 40)),
        (Kind::Year, true) => format!("{name} + {}", rng.between(-3, 3)),
        (Kind::Bit, true) => format!("{name} ^ {}", rng.between(0, 40)),
        // Too long for its column sometimes.
        (kind @ (Kind::Text | Kind::Ci), true) => {
            format!("CONCAT({name}, {})", literal_of(rng, kind))
        }
        (Kind::Time, true) | (_, false) => value(rng, column),
    };
    format!("{name} = {new}")
}

/// A condition on columns of a table, without conversions.
pub fn condition(rng: &mut Rng, columns: &[Column], alias: &str) -> String {
    let column = rng.choose(columns);
    let name = format!("{alias}{}", column.name);
    let op = *rng.choose(&["=", "<>", "<", "<=", ">", ">="]);
    let one = match (column.kind, rng.between(0, 5)) {
        (_, 0) => format!("{name} IS NULL"),
        (Kind::Text | Kind::Ci, 1) => format!("{name} LIKE 'a%'"),
        (Kind::Bit, 1) => format!("{name} & {}", rng.between(1, 31)),
        (Kind::Int, 1) => format!("{name} IN ({}, {})", rng.between(-3, 9), rng.between(-3, 9)),
        _ => loop {
            let value = value(rng, column);
            if value != "NULL" {
                break format!("{name} {op} {value}");
            }
        },
    };
    match rng.between(0, 5) {
        0..=1 => format!("({one} AND {})", condition(rng, columns, alias)),
        2 => format!("({one} OR {})", condition(rng, columns, alias)),
        _ => one,
    }
}
