//! Random INSERTs, UPDATEs and DELETEs of rows by primary key, and others that look like them.

use crate::selects::ROWS;
use perigee_testkit::Rng;

/// A statement.
pub fn change(rng: &mut Rng) -> String {
    match rng.between(0, 13) {
        0..=3 => insert(rng),
        4..=8 => update(rng),
        9..=11 => delete(rng),
        12 => rng
            .choose(&[
                "BEGIN",
                "COMMIT",
                "COMMIT",
                "ROLLBACK",
                "SAVEPOINT s",
                "ROLLBACK TO s",
            ])
            .to_string(),
        _ => format!("SELECT * FROM a WHERE id = {}", id(rng)),
    }
}

/// Mostly of few rows, so that statements meet.
fn id(rng: &mut Rng) -> i64 {
    if rng.chance(10) {
        rng.between(-3, ROWS + 3)
    } else {
        rng.between(0, 30)
    }
}

/// A value for a column, that it can mostly have.
fn value(rng: &mut Rng, column: &str) -> String {
    if rng.chance(12) {
        let odd = [
            "NULL",
            "-1",
            "300",
            "''",
            "'x'",
            "99999999999",
            "1.5",
            "DEFAULT",
            "1 + 1",
            "-0",
        ];
        return rng.choose(&odd).to_string();
    }
    let number = rng.between(0, 120);
    match column {
        "c" => format!("'c{:05}'", rng.between(0, 40)),
        "v" => format!(
            "'{}'",
            rng.choose(&["", "x", "x  ", "é", "abcdefghijklmnopqrstuvwx"])
        ),
        "t" => rng
            .choose(&["'2024-02-03 04:05:06.789'", "'2024-13-01'", "20240203"])
            .to_string(),
        "y" => rng
            .choose(&["'2024-02-03'", "'2024-02-30'", "'x'"])
            .to_string(),
        "d" if rng.chance(2) => format!("'{number}.25'"),
        "k" | "n" if rng.chance(4) => format!("'{number}'"),
        _ => number.to_string(),
    }
}

fn insert(rng: &mut Rng) -> String {
    let verb = rng.choose(&[
        "INSERT INTO",
        "insert into",
        "INSERT",
        "INSERT IGNORE INTO",
        "REPLACE INTO",
    ]);
    let verb = if rng.chance(2) { "INSERT INTO" } else { verb };
    if rng.chance(4) {
        let (x, z) = (rng.between(18, 22), rng.between(18, 22));
        let y = rng.choose(&["p", "q  ", "toolongforthis"]);
        let w = value(rng, "k");
        return format!("{verb} b VALUES ({x}, '{y}', {z}, {w})");
    }
    let columns = rng.choose(&[
        "id, k, u, c, s",
        "id, k, n, u, c, v, d, t, y, f, s",
        "s, c, u, k, id",
        "id, k",
        "id, k, u, c, s, nope",
        "id, k, u, c, s, k",
    ]);
    let rows: Vec<String> = (0..if rng.chance(5) { 3 } else { 1 })
        .map(|_| {
            let values: Vec<_> = columns
                .split(", ")
                .map(|column| match column {
                    "id" => id(rng).to_string(),
                    column => value(rng, column),
                })
                .collect();
            format!("({})", values.join(", "))
        })
        .collect();
    format!("{verb} a ({columns}) VALUES {}", rows.join(", "))
}

fn assignment(rng: &mut Rng) -> String {
    let columns = ["k", "n", "u", "c", "v", "d", "t", "y", "f", "s"];
    let column = rng.choose(&columns);
    match rng.between(0, 11) {
        10.. => concat(rng),
        0..=3 => {
            let column = rng.choose(&["k", "n", "u", "d", "s", "f"]);
            let op = rng.choose(&["+", "-", "+ -", "*"]);
            format!("{column} = {column} {op} {}", rng.between(0, 130))
        }
        4 => format!("{column} = {}", rng.choose(&columns)),
        5 => format!("id = {}", id(rng)),
        6 => format!("{} = {}", column.to_uppercase(), value(rng, column)),
        _ => format!("{column} = {}", value(rng, column)),
    }
}

/// A text strung together, now and then too long.
fn concat(rng: &mut Rng) -> String {
    let parts: Vec<_> = (0..rng.between(1, 3))
        .map(|_| match rng.between(0, 5) {
            0 => rng.between(0, 2000).to_string(),
            1 => rng
                .choose(&["','", "'é'", "''", "NULL", "-5", "1.5"])
                .to_string(),
            _ => rng.choose(&["v", "c", "k", "n", "d", "s"]).to_string(),
        })
        .collect();
    let column = rng.choose(&["v", "v", "c", "k"]);
    format!("{column} = CONCAT({})", parts.join(", "))
}

fn update(rng: &mut Rng) -> String {
    let assignments: Vec<_> = (0..rng.between(1, 3)).map(|_| assignment(rng)).collect();
    let filter = filter(rng);
    format!("UPDATE a SET {} WHERE {filter}", assignments.join(", "))
}

fn filter(rng: &mut Rng) -> String {
    match rng.between(0, 9) {
        0 => format!("id = {} AND k > 5", id(rng)),
        1 => format!("c = 'c{:05}'", rng.between(0, 40)),
        2 => {
            let from = id(rng);
            format!("id BETWEEN {from} AND {}", from + 2)
        }
        3 => format!("{} = id", id(rng)),
        _ => format!("id = {}", id(rng)),
    }
}

fn delete(rng: &mut Rng) -> String {
    if rng.chance(4) {
        let (x, z) = (rng.between(17, 22), rng.between(17, 22));
        let y = rng.choose(&["", "p", "q", "ü"]);
        return format!("DELETE FROM b WHERE x = {x} AND y = '{y}' AND z = {z}");
    }
    let filter = filter(rng);
    let tail = rng.choose(&["", "", "", "", " LIMIT 1", " ORDER BY id LIMIT 1"]);
    format!("DELETE FROM a WHERE {filter}{tail}")
}
