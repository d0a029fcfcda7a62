//! The worst statements, as texts of a random length. The tables: `w` with some thousand rows of 150 bytes, `v`
//! that only grows until it is emptied, `t` and `big` of the abuse suite.

use perigee_testkit::Rng;

#[allow(
    dead_code,
    reason = "the abuse suite tells shapes apart by their names"
)]
#[path = "../../abuse/shapes.rs"]
mod shapes;

/// A statement, and whether it may be sent as one to be prepared.
pub struct Statement {
    pub sql: String,
    pub preparable: bool,
}

fn repeated(piece: &str, separator: &str, bytes: usize) -> String {
    let count = (bytes / (piece.len() + separator.len())).max(1);
    vec![piece; count].join(separator)
}

/// Some bytes, at most so many: as often some thousand as some million.
pub fn some_bytes(rng: &mut Rng, most: usize) -> usize {
    let bits = rng.between(10, 10 + i64::from((most >> 10).ilog2())) as u32;
    let bytes = (1 << bits) + rng.between(0, (1 << bits) - 1);
    most.min(usize::try_from(bytes).unwrap())
}

/// A statement, of at most about so many bytes.
pub fn statement(rng: &mut Rng, most: usize) -> Statement {
    let bytes = some_bytes(rng, most);
    let kind = rng.between(0, 5);
    let preparable = bytes < 1 << 20;
    let sql = match kind {
        0 => long(rng, bytes),
        1 => changes(rng, bytes),
        2 => fixed(rng),
        3 => many_rows(rng),
        _ => return shape(rng, most),
    };
    Statement {
        preparable: preparable && kind != 1 && !sql.starts_with("PREPARE"),
        sql,
    }
}

/// One of the abuse suite, of a middling size.
fn shape(rng: &mut Rng, most: usize) -> Statement {
    let mut all = shapes::all();
    let shape = all.swap_remove(rng.between(0, all.len() as i64 - 1) as usize);
    let mut terms = shape.terms * rng.between(1, 100) as usize;
    let sql = loop {
        let sql = (shape.text)(terms);
        if sql.len() <= most || terms <= shape.terms {
            break sql;
        }
        terms /= 2;
    };
    let preparable = shape.preparable && sql.len() < 1 << 20;
    Statement { sql, preparable }
}

/// Long texts.
fn long(rng: &mut Rng, bytes: usize) -> String {
    match rng.between(0, 9) {
        0 => format!("SELECT LENGTH('{}')", "x".repeat(bytes)),
        1 => format!(
            "SELECT COUNT(*) FROM w WHERE s LIKE '%{}%'",
            "xyz".repeat(bytes / 3)
        ),
        2 => format!(
            "SELECT COUNT(*) FROM w WHERE s LIKE '{}'",
            "%_x".repeat(bytes.min(100_000) / 3)
        ),
        3 => format!(
            "SELECT COUNT(*) FROM w WHERE id IN ({})",
            repeated("123456", ",", bytes.min(1 << 20))
        ),
        4 => format!(
            "SELECT COUNT(*) FROM w WHERE s IN ({})",
            repeated("'abcdef'", ",", bytes.min(1 << 20))
        ),
        5 => format!("SELECT {} 1", " ".repeat(bytes)),
        6 => format!("SET @v{} = '{}'", rng.between(0, 5), "z".repeat(bytes)),
        7 => format!(
            "PREPARE p{} FROM 'SELECT \"{}\"'",
            rng.between(0, 5),
            "z".repeat(bytes)
        ),
        8 => format!("SELECT MAX(CONCAT({}s)) FROM w", "s, ".repeat(100)),
        _ => format!(
            "SELECT COUNT(*) FROM ({}) d",
            repeated("SELECT s FROM w", " UNION ALL ", bytes.min(10_000))
        ),
    }
}

/// Changes.
fn changes(rng: &mut Rng, bytes: usize) -> String {
    match rng.between(0, 8) {
        0 | 1 => format!(
            "INSERT INTO v VALUES {}",
            repeated("(1,'abcdefgh')", ",", bytes)
        ),
        2 | 3 => format!("INSERT INTO v VALUES (2, '{}')", "y".repeat(bytes)),
        4 => format!(
            "INSERT INTO v SELECT 3, CONCAT(a.s, b.s) FROM w a, w b WHERE a.id < {}",
            rng.between(1, 30)
        ),
        5 => "UPDATE v SET s = CONCAT(s, s) WHERE id = 2".to_owned(),
        6 => "DELETE FROM v WHERE id = 3".to_owned(),
        7 => "DELETE FROM v".to_owned(),
        _ => "TRUNCATE TABLE v".to_owned(),
    }
}

/// Statements whose work does not come from their length.
fn fixed(rng: &mut Rng) -> String {
    let all = [
        "SELECT COUNT(*) FROM w a, w b, w c WHERE a.s <> b.s AND c.s > a.s AND c.id < 3",
        "SELECT a.s, b.s FROM w a JOIN w b ON a.n = b.n ORDER BY b.s, a.s LIMIT 3",
        "SELECT a.s, b.s, a.id, b.id FROM w a JOIN w b ON a.n = b.n ORDER BY b.s, a.s LIMIT 70000, 3",
        "SELECT COUNT(*), MAX(a.s), MIN(c.s) FROM w a JOIN w b ON a.n = b.n JOIN w c ON b.n = c.n",
        "SELECT CONCAT(a.s, b.s) AS x, COUNT(*) FROM w a, w b GROUP BY x ORDER BY x LIMIT 3",
        "SELECT a.id, b.id, COUNT(*) AS c FROM w a, w b GROUP BY a.id, b.id ORDER BY c, a.id LIMIT 3",
        "SELECT COUNT(DISTINCT CONCAT(a.s, b.id)), COUNT(DISTINCT a.id + b.id) FROM w a, w b",
        "SELECT MAX(x) FROM (SELECT SUM(a.n) OVER (PARTITION BY b.n ORDER BY a.s, b.id) AS x FROM w a, w b) d",
        "SELECT COUNT(x) FROM (SELECT MAX(a.s) OVER () AS x FROM w a, w b) d",
        "SELECT COUNT(x) FROM (SELECT MIN(a.s) OVER (ORDER BY a.id ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW) AS x \
         FROM w a JOIN w b ON a.n = b.n) d",
        "SELECT a.id FROM w a WHERE a.s NOT IN (SELECT CONCAT(b.s, c.n) FROM w b JOIN w c ON b.n = c.n) LIMIT 1",
        "SELECT COUNT(*) FROM (SELECT s FROM w UNION SELECT CONCAT(a.s, b.s) FROM w a JOIN w b ON a.n = b.n) d",
        "SELECT COUNT(*) FROM w a LEFT JOIN w b ON a.s < b.s AND a.n + b.n = 49 WHERE b.id IS NULL OR b.id > 3",
    ];
    (*rng.choose(&all)).to_owned()
}

/// Reads of all the long values that there are, and functions that make them.
fn many_rows(rng: &mut Rng) -> String {
    let all = [
        "SELECT COUNT(*), SUM(LENGTH(s)), MAX(s) FROM v",
        "SELECT id, s FROM v ORDER BY s, id LIMIT 5000, 3",
        "SELECT s, COUNT(*) FROM v GROUP BY s ORDER BY 2 DESC LIMIT 3",
        "SELECT COUNT(DISTINCT s) FROM v",
        "SELECT MAX(LENGTH(s)) FROM (SELECT s FROM v LIMIT 1000000) d WHERE s <> 'x'",
        "SELECT a.s FROM v a JOIN v b ON a.s = b.s AND a.id = b.id ORDER BY a.s LIMIT 3",
        "SELECT MAX(LENGTH(x)) FROM (SELECT MAX(s) OVER (ORDER BY id) AS x FROM v) d",
        "SELECT COUNT(*) FROM v a JOIN w b ON a.id = b.n WHERE CONCAT(a.s, b.s) LIKE '%q%'",
    ];
    match rng.between(0, 10) {
        0 => format!(
            "SELECT SUM(LENGTH(LPAD(s, {}, 'x'))) FROM w",
            rng.between(1000, 1 << 20)
        ),
        1 => format!(
            "SELECT LPAD(a.s, {}, 'x') AS x FROM w a, w b ORDER BY x LIMIT 3",
            rng.between(200, 20_000)
        ),
        2 => "SELECT s, id FROM v".to_owned(),
        _ => (*rng.choose(&all)).to_owned(),
    }
}
