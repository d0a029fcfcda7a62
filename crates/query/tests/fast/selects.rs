//! Random SELECTs by keys, and others that look like them.

use perigee_testkit::Rng;

/// Tables with keys of all kinds, and their rows.
pub const TABLES: &str = "
    CREATE TABLE a (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, n BIGINT, u INT UNSIGNED NOT NULL,
        c CHAR(20) NOT NULL, v VARCHAR(20), d DECIMAL(10,2), t DATETIME(3), y DATE, f DOUBLE,
        s TINYINT, KEY by_k (k), KEY by_n (n), UNIQUE KEY by_c (c), KEY by_v (v),
        KEY by_u_s (u, s));
    CREATE TABLE b (X INT NOT NULL, y VARCHAR(10) NOT NULL, z BIGINT UNSIGNED NOT NULL,
        w MEDIUMINT, PRIMARY KEY (x, y, z), UNIQUE KEY by_w (w));
    CREATE TABLE h (a INT, b VARCHAR(10), KEY by_a (a))";

/// Ids of table `a` go up to here.
pub const ROWS: i64 = 3000;

fn or_null(rng: &mut Rng, value: String) -> String {
    if rng.chance(8) {
        "NULL".to_string()
    } else {
        value
    }
}

/// Statements that fill the tables.
pub fn rows(rng: &mut Rng) -> Vec<String> {
    let mut statements = Vec::new();
    let mut all = Vec::new();
    for id in 0..ROWS {
        let n = rng.between(-20, 20).to_string();
        let text = rng.choose(&["", "x", "x y", "é", "zz  ", "a%", "A"]);
        let v = or_null(rng, format!("'{text}'"));
        let d = format!("{}.{:02}", rng.between(-99, 99), rng.between(0, 99));
        let t = format!("'2024-01-{:02} 10:00:00.123'", rng.between(1, 31));
        let (k, u, s) = (rng.between(0, 300), rng.between(0, 50), rng.between(-5, 5));
        let (n, d, t) = (or_null(rng, n), or_null(rng, d), or_null(rng, t));
        let (y, f) = (rng.between(1, 12), rng.between(-3, 3));
        let y = or_null(rng, format!("'2023-{y:02}-28'"));
        let f = or_null(rng, format!("{f}.5"));
        // Ids of one in ten are missing.
        if id % 10 != 3 {
            all.push(format!(
                "({id},{k},{n},{u},'c{id:05}',{v},{d},{t},{y},{f},{s})"
            ));
        }
    }
    for rows in all.chunks(500) {
        statements.push(format!("INSERT INTO a VALUES {}", rows.join(",")));
    }
    let mut all = Vec::new();
    for x in 0..20 {
        for z in 0..20 {
            let y = rng.choose(&["", "p", "q r", "ü"]);
            let w = or_null(rng, (x * 100 + z).to_string());
            all.push(format!("({x},'{y}',{z},{w})"));
        }
    }
    statements.push(format!("INSERT INTO b VALUES {}", all.join(",")));
    let all: Vec<_> = (0..50).map(|i| format!("({},'{i}')", i % 7)).collect();
    statements.push(format!("INSERT INTO h VALUES {}", all.join(",")));
    statements
}

/// A statement, and whether the order of its rows is given.
pub fn select(rng: &mut Rng) -> (String, bool) {
    let (sql, in_order) = unlocked(rng);
    let lock = match rng.chance(5) {
        true => rng.choose(&[
            " FOR UPDATE",
            " FOR SHARE",
            " LOCK IN SHARE MODE",
            " FOR UPDATE NOWAIT",
            " FOR SHARE SKIP LOCKED",
            " FOR UPDATE OF a",
        ]),
        false => "",
    };
    (format!("{sql}{lock}"), in_order)
}

fn unlocked(rng: &mut Rng) -> (String, bool) {
    match rng.between(0, 9) {
        0..=6 => select_a(rng),
        7..=8 => (select_b(rng), false),
        _ => {
            let items = rng.choose(&["*", "b", "a, b", "COUNT(*)"]);
            let sql = format!("SELECT {items} FROM h WHERE a = {}", rng.between(-1, 8));
            (sql, false)
        }
    }
}

fn id(rng: &mut Rng) -> i64 {
    rng.between(-5, ROWS + 5)
}

/// A range of ids or numbers, short as a rule.
fn range(rng: &mut Rng, column: &str, from: i64) -> String {
    let most = if rng.chance(30) { 3000 } else { 60 };
    let to = from + rng.between(-2, most);
    match rng.between(0, 7) {
        0..=3 => format!("{column} BETWEEN {from} AND {to}"),
        4 => format!("{column} > {from} AND {column} <= {to}"),
        5 => format!("{to} > {column} AND {from} <= {column}"),
        6 => format!("{column} > {}", from.max(ROWS - 50)),
        _ => format!("{column} <= {}", from.min(40)),
    }
}

fn where_a(rng: &mut Rng) -> String {
    let from = id(rng);
    match rng.between(0, 15) {
        0..=3 => format!("id = {}", id(rng)),
        4..=6 => range(rng, "id", from),
        7 => format!("k = {}", rng.between(-1, 301)),
        8 => {
            let from = rng.between(0, 300);
            format!("k BETWEEN {from} AND {}", from + rng.between(0, 3))
        }
        9 => format!("c = 'c{:05}'", id(rng)),
        10 => format!(
            "v = '{}'",
            rng.choose(&["", " ", "x", "x  ", "é", "zz", "A", "nope"])
        ),
        11 => format!("u = {} AND s = {}", rng.between(0, 50), rng.between(-6, 6)),
        12 => {
            let bound = rng.choose(&["s > 2", "s <= 0", "s < -4", "s BETWEEN 1 AND 2"]);
            format!("u = {} AND {bound}", rng.between(0, 50))
        }
        13 => format!("n = {}", rng.between(-21, 21)),
        14 => format!("n < {}", rng.between(-21, -18)),
        // Not of the key's kind, or not a key alone.
        _ => rng
            .choose(&[
                "id = '17'",
                "id = 17.0",
                "id = NULL",
                "id = 99999999999",
                "id > 99999999999",
                "u = -1",
                "c = 17",
                "id = 17 AND k = 3",
                "id = 17 OR id = 18",
                "id IN (17, 18)",
                "id = 17 AND id = 18",
                "id = 17 AND id > 3",
                "id BETWEEN 5 AND 9 AND id > 6",
                "id NOT BETWEEN 5 AND 2995",
                "id = k AND id = 17",
                "s = 1",
                "nope = 1",
                "a.id = 17",
                "b.id = 17",
                "test.a.id = 17",
                "id = -(-17)",
                "(id) = (17)",
                "id = 1 + 16",
                "`id` = 17",
                "ID = 17",
            ])
            .to_string(),
    }
}

fn select_a(rng: &mut Rng) -> (String, bool) {
    let filter = where_a(rng);
    let from = rng.choose(&["a", "a", "a", "test.a", "`a`", "A"]);
    if rng.chance(4) {
        let items: Vec<String> = (0..rng.between(1, 3)).map(|_| aggregate(rng)).collect();
        let tail = rng.choose(&["", "", "", " LIMIT 1", " ORDER BY id"]);
        return (
            format!(
                "SELECT {} FROM {from} WHERE {filter}{tail}",
                items.join(", ")
            ),
            false,
        );
    }
    let columns = ["id", "k", "n", "u", "c", "v", "d", "t", "y", "f", "s"];
    let mut items: Vec<String> = (0..rng.between(1, 4))
        .map(|_| match rng.between(0, 9) {
            0 => format!("{} AS alias", rng.choose(&columns)),
            1 => format!("a.{}", rng.choose(&columns)),
            2 => rng.choose(&columns).to_uppercase(),
            3 => format!("`{}`", rng.choose(&columns)),
            _ => rng.choose(&columns).to_string(),
        })
        .collect();
    if rng.chance(5) {
        items = vec!["*".to_string()];
    }
    let distinct = if rng.chance(5) { "DISTINCT " } else { "" };
    let list = items.join(", ");
    let by_id = distinct.is_empty() && rng.chance(3);
    let order = match rng.between(0, 3) {
        _ if by_id => format!(" ORDER BY id{}", rng.choose(&["", " ASC", " DESC"])),
        0 => format!(
            " ORDER BY {}",
            items[0].replace(" AS alias", "").replace('*', "v, id")
        ),
        1 => format!(
            " ORDER BY {} DESC, {}",
            rng.choose(&columns),
            rng.choose(&columns)
        ),
        _ => String::new(),
    };
    let limit = match rng.between(0, 8) {
        0 if by_id => format!(" LIMIT {}", rng.between(0, 9)),
        1 if by_id => format!(" LIMIT {}, {}", rng.between(0, 9), rng.between(0, 9)),
        2 if by_id => format!(" LIMIT {} OFFSET {}", rng.between(0, 9), rng.between(0, 9)),
        _ => String::new(),
    };
    let sql = format!("SELECT {distinct}{list} FROM {from} WHERE {filter}{order}{limit}");
    (sql, by_id)
}

fn aggregate(rng: &mut Rng) -> String {
    let function = rng.choose(&["SUM", "sum", "MIN", "MAX", "COUNT", "AVG"]);
    let column = rng.choose(&[
        "id", "k", "n", "u", "d", "s", "t", "y", "v", "f", "a.n", "nope",
    ]);
    match rng.between(0, 9) {
        0 => "COUNT(*)".to_string(),
        1 => format!("{function}( {column} ) AS total"),
        2 => format!("{function}(DISTINCT {column})"),
        _ => format!("{function}({column})"),
    }
}

fn select_b(rng: &mut Rng) -> String {
    let items = rng.choose(&[
        "*",
        "x, y, z, w",
        "W",
        "z",
        "COUNT(*), MAX(z), AVG(w)",
        "DISTINCT x, y",
    ]);
    let y = rng.choose(&["", "p", "q r", "q r  ", "ü", "no"]);
    let (x, z) = (rng.between(-1, 20), rng.between(-1, 20));
    let filter = match rng.between(0, 7) {
        0 => format!("x = {x}"),
        1 => format!("x = {x} AND y = '{y}'"),
        2 => format!("y = '{y}' AND z = {z} AND x = {x}"),
        3 => format!("x = {x} AND y = '{y}' AND z >= {z}"),
        4 => format!("x = {x} AND y > '{y}'"),
        5 => format!("x > {x} AND x < {}", x + 3),
        6 => format!("w = {}", x * 100 + z),
        _ => format!("z = {z} AND x = {x}"),
    };
    format!("SELECT {items} FROM b WHERE {filter}")
}
