//! Two small random tables: few values of each kind, so that rows meet, with NULLs and with strings
//! that differ in trailing spaces only, or in case and accents where these do not count.

use std::fmt::Write;

use perigee_testkit::Rng;

/// What a value is, as far as it decides which operations it can take part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Decimal,
    /// A decimal with as many digits behind the point as there may be: MariaDB, which goes on to 38,
    /// gives products and quotients of it more of them.
    Fine,
    Double,
    Date,
    DateTime,
    Time,
    Year,
    /// A BIT, which is shown as its bytes: only numbers made of it are selected.
    Bit,
    Text,
    /// Text that compares as `utf8mb4_unicode_520_ci`.
    Ci,
}

/// A column with the values it may have.
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    definition: &'static str,
    nullable: bool,
    value: fn(&mut Rng) -> String,
}

const TEXTS: [&str; 18] = [
    "", " ", "a", "a ", "a  ", "A", "ab", "ab ", "b", "b ", "äö", "ä ", "a%b", "a_b", "1", "12x",
    " a", "abc d",
];

const CI_TEXTS: [&str; 26] = [
    "", "a", "A ", "ä", "Á", "ab", "AB", "äB ", "b", "B", "ß", "s", "S", "é", "E ", "a%b", "A_b",
    "😀", "🚀", "12X", "ss", "SS ", "ﬁ", "FI", "e\u{301}", "a\u{a0}",
];

/// A string literal.
pub fn text_literal(rng: &mut Rng) -> String {
    format!("'{}'", rng.choose(&TEXTS))
}

/// A string literal for a text of this kind.
pub fn literal_of(rng: &mut Rng, kind: Kind) -> String {
    match kind {
        Kind::Ci => format!("'{}'", rng.choose(&CI_TEXTS)),
        _ => text_literal(rng),
    }
}

/// A literal that is not the empty string.
pub fn some_literal(rng: &mut Rng, kind: Kind) -> String {
    let mut literals = std::iter::repeat_with(|| literal_of(rng, kind));
    literals
        .find(|literal| literal != "''")
        .expect("there are others")
}

fn ci_literal(rng: &mut Rng) -> String {
    literal_of(rng, Kind::Ci)
}

fn mood_literal(rng: &mut Rng) -> String {
    let moods = [
        "'b'", "''", "'a'", "'A '", "'ab'", "'12x'", "'1'", "4", "'5'",
    ];
    (*rng.choose(&moods)).to_owned()
}

fn tone_literal(rng: &mut Rng) -> String {
    (*rng.choose(&["'s'", "'B '", "'ä'", "'AB'", "'S'", "2"])).to_owned()
}

fn perms_literal(rng: &mut Rng) -> String {
    let perms = [
        "''", "'b'", "'a,b'", "'ab '", "'1,a'", "5", "'8'", "'12x'", "'a,a'",
    ];
    (*rng.choose(&perms)).to_owned()
}

fn shades_literal(rng: &mut Rng) -> String {
    (*rng.choose(&["''", "'s'", "'B,S'", "'Ä'", "'a,b'", "5"])).to_owned()
}

/// A value of a BIT of five bits.
pub fn bits_literal(rng: &mut Rng) -> String {
    let bits = rng.between(0, 31);
    match rng.between(0, 3) {
        0 => format!("b'{bits:b}'"),
        1 => format!("0b{bits:05b}"),
        _ => bits.to_string(),
    }
}

/// A day as a string literal.
pub fn day_literal(rng: &mut Rng) -> String {
    let year = rng.between(2008, 2012);
    let (month, day) = (rng.between(1, 12), rng.between(1, 31));
    let last = match month {
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    format!("'{year}-{month:02}-{:02}'", day.min(last))
}

/// A point in time as a string literal.
pub fn time_literal(rng: &mut Rng) -> String {
    let day = day_literal(rng);
    let day = day.trim_matches('\'');
    let (h, m, s) = (rng.between(0, 23), rng.between(0, 59), rng.between(0, 59));
    format!("'{day} {h:02}:{m:02}:{s:02}'")
}

/// A span of time as a string literal: few of them, so that they meet.
pub fn span_literal(rng: &mut Rng) -> String {
    let sign = *rng.choose(&["", "-"]);
    let (h, m, s) = (
        rng.between(0, 3),
        rng.between(0, 1) * 30,
        rng.between(0, 2) * 25,
    );
    match rng.between(0, 9) {
        0 => format!("'{sign}838:59:59'"),
        1 => format!("'{sign}1 {h:02}:{m:02}:{s:02}'"),
        _ => format!("'{sign}{h:02}:{m:02}:{s:02}'"),
    }
}

/// A year, in any of its forms.
pub fn year_literal(rng: &mut Rng) -> String {
    match rng.between(0, 5) {
        0 => rng.between(8, 12).to_string(),
        1 => format!("'{}'", rng.between(2008, 2012)),
        2 => (*rng.choose(&["1901", "1999", "2155"])).to_owned(),
        _ => rng.between(2008, 2012).to_string(),
    }
}

/// `n` with so many digits behind the point.
pub fn decimal_literal(n: i64, digits: usize) -> String {
    let unit = 10_u64.pow(digits as u32);
    let (whole, rest) = (n.unsigned_abs() / unit, n.unsigned_abs() % unit);
    let sign = if n < 0 { "-" } else { "" };
    format!("{sign}{whole}.{rest:0digits$}")
}

/// A number of up to 40 digits before the point: few of them, so that they meet.
pub fn big_literal(rng: &mut Rng) -> String {
    const LONG: [&str; 5] = [
        "9999999999999999999999999999999999999999.9999999999",
        "-9999999999999999999999999999999999999999.9999999999",
        "1000000000000000000000000000000000000000",
        "12345678901234567890123456789012345678.5",
        "-123456789012345678901234567890123456789.0000000001",
    ];
    match rng.chance(2) {
        true => (*rng.choose(&LONG)).to_owned(),
        false => decimal_literal(rng.between(-40, 40), 1),
    }
}

/// A number with up to 30 digits behind the point, and so many before it that sums are not too long.
pub fn fine_literal(rng: &mut Rng) -> String {
    const LONG: [&str; 5] = [
        "0.000000000000000000000000000001",
        "-0.999999999999999999999999999999",
        "9999999999999999999999999999999.999999999999999999999999999999",
        "-3.141592653589793238462643383280",
        "1234567890123456789012345678901.5",
    ];
    match rng.chance(2) {
        true => (*rng.choose(&LONG)).to_owned(),
        false => decimal_literal(rng.between(-40, 40), 1),
    }
}

const fn column(
    name: &'static str,
    kind: Kind,
    definition: &'static str,
    nullable: bool,
    value: fn(&mut Rng) -> String,
) -> Column {
    Column {
        name,
        kind,
        definition,
        nullable,
        value,
    }
}

/// Columns of `t` beside its key `id`.
pub const T: [Column; 22] = [
    column("a", Kind::Int, "INT", true, |r| {
        r.between(-3, 9).to_string()
    }),
    column("b", Kind::Int, "BIGINT NOT NULL", false, |r| {
        r.between(-1_000_000, 1_000_000).to_string()
    }),
    column("d", Kind::Decimal, "DECIMAL(10,2)", true, |r| {
        decimal_literal(r.between(-2000, 2000), 2)
    }),
    column("e", Kind::Decimal, "DECIMAL(6,4) NOT NULL", false, |r| {
        decimal_literal(r.between(-90_000, 90_000), 4)
    }),
    column("big", Kind::Decimal, "DECIMAL(50,10)", true, big_literal),
    column(
        "fine",
        Kind::Fine,
        "DECIMAL(65,30) NOT NULL",
        false,
        fine_literal,
    ),
    column("f", Kind::Double, "DOUBLE", true, |r| {
        format!("{}e0", r.between(-40, 40) as f64 / 4.0)
    }),
    column("day", Kind::Date, "DATE", true, day_literal),
    column("at", Kind::DateTime, "DATETIME", true, time_literal),
    column(
        "stamp",
        Kind::DateTime,
        "TIMESTAMP NULL",
        true,
        time_literal,
    ),
    column("lap", Kind::Time, "TIME", true, span_literal),
    column("yr", Kind::Year, "YEAR", true, year_literal),
    column("v", Kind::Text, "VARCHAR(10)", true, text_literal),
    column("w", Kind::Text, "VARCHAR(20) NOT NULL", false, text_literal),
    column("c", Kind::Text, "CHAR(6)", true, text_literal),
    column(
        "ci",
        Kind::Ci,
        "VARCHAR(9) COLLATE utf8mb4_unicode_520_ci",
        true,
        ci_literal,
    ),
    column(
        "cc",
        Kind::Ci,
        "CHAR(6) COLLATE utf8mb4_unicode_520_ci NOT NULL",
        false,
        ci_literal,
    ),
    column(
        "mood",
        Kind::Text,
        "ENUM('b', '', 'a', 'A', 'ab', '12x', '1', 'a%b')",
        true,
        mood_literal,
    ),
    column(
        "tone",
        Kind::Ci,
        "ENUM('S', 'b', 'A', 'äB') COLLATE utf8mb4_unicode_520_ci NOT NULL",
        false,
        tone_literal,
    ),
    column("flags", Kind::Bit, "BIT(5)", true, bits_literal),
    column(
        "perms",
        Kind::Text,
        "SET('b', 'a', 'ab', '1', '12x')",
        true,
        perms_literal,
    ),
    column(
        "shades",
        Kind::Ci,
        "SET('S', 'b', 'ä') COLLATE utf8mb4_unicode_520_ci NOT NULL",
        false,
        shades_literal,
    ),
];

/// Columns of `s`; its key is `(k, l)`.
pub const S: [Column; 7] = [
    column("k", Kind::Int, "INT NOT NULL", false, |r| {
        r.between(-3, 9).to_string()
    }),
    column("l", Kind::Int, "INT NOT NULL", false, |_| String::new()),
    column("x", Kind::Decimal, "DECIMAL(8,2)", true, |r| {
        decimal_literal(r.between(-500, 500), 2)
    }),
    column("name", Kind::Text, "VARCHAR(10)", true, text_literal),
    column("day2", Kind::Date, "DATE NOT NULL", false, day_literal),
    column("n", Kind::Int, "SMALLINT", true, |r| {
        r.between(-30, 30).to_string()
    }),
    column(
        "ci",
        Kind::Ci,
        "VARCHAR(12) COLLATE utf8mb4_unicode_520_ci",
        true,
        ci_literal,
    ),
];

/// A value that the column may have, as a literal.
pub fn value(rng: &mut Rng, column: &Column) -> String {
    if column.nullable && rng.chance(6) {
        return "NULL".to_owned();
    }
    (column.value)(rng)
}

/// Values for all of the columns.
pub fn row(rng: &mut Rng, columns: &[Column]) -> Vec<String> {
    columns.iter().map(|column| value(rng, column)).collect()
}

fn definitions(columns: &[Column]) -> String {
    let definitions = columns
        .iter()
        .map(|c| format!("{} {}", c.name, c.definition));
    definitions.collect::<Vec<_>>().join(", ")
}

/// The statement that gives `t` keys of expressions, which MariaDB does not know.
pub const fn functional_keys() -> &'static str {
    "ALTER TABLE t ADD KEY f1 ((ABS(a)), (UPPER(v)) DESC), ADD KEY f2 ((UPPER(w)), b), \
     ADD KEY f3 ((UPPER(ci))), ADD KEY f4 ((UPPER(v)), id), ADD KEY f5 ((ABS(b)))"
}

/// A query that reads the rows of `t`, if it begins with them, by keys of prefixes and of expressions where a
/// condition selects parts of these.
pub fn by_keys(sql: &str) -> String {
    let keys = "v2, w1, c2, ci3, cc2, f1, f2, f3, f4, f5";
    let forced = format!(" FROM t FORCE INDEX ({keys}) WHERE ");
    sql.replacen(" FROM t WHERE ", &forced, 1)
}

/// The statements that make and fill the tables in a schema of their own.
pub fn create(rng: &mut Rng, schema: &str) -> Vec<String> {
    let mut t = String::new();
    // Enough rows, sometimes, that storage aggregates groups.
    let rows = match rng.chance(3) {
        true => rng.between(200, 300),
        false => rng.between(0, 60),
    };
    for id in 1..=rows {
        let comma = if id > 1 { ", " } else { "" };
        let _ = write!(t, "{comma}({id}, {})", row(rng, &T).join(", "));
    }
    let mut s = String::new();
    for l in 1..=rng.between(1, 25) {
        let comma = if l > 1 { ", " } else { "" };
        let mut row = row(rng, &S);
        row[1] = l.to_string();
        let _ = write!(s, "{comma}({})", row.join(", "));
    }
    let mut statements = vec![
        format!("CREATE DATABASE {schema}"),
        format!("USE {schema}"),
        format!(
            "CREATE TABLE t (id INT NOT NULL, {}, PRIMARY KEY (id), KEY a (a), KEY v (v, a), \
             KEY day (day), KEY lap (lap, stamp), KEY yr (yr), KEY big (big, fine), KEY ci (ci), \
             KEY cc (cc, day), KEY mood (mood, a), KEY tone (tone), \
             KEY flags (flags, a), KEY perms (perms, a), KEY shades (shades), KEY v2 (v(2) DESC, id), \
             KEY w1 (w(1)), KEY c2 (c(2), a), KEY ci3 (ci(3)), KEY cc2 (cc(2)))",
            definitions(&T)
        ),
        format!(
            "CREATE TABLE s ({}, PRIMARY KEY (k, l), KEY name (name), KEY x (x), \
             KEY ci (ci, x), KEY name1 (name(1), n DESC))",
            definitions(&S)
        ),
        format!("INSERT INTO s VALUES {s}"),
    ];
    if !t.is_empty() {
        statements.push(format!("INSERT INTO t VALUES {t}"));
    }
    statements.extend(super::extremes::create(rng));
    statements
}
