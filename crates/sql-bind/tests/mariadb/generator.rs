//! Random constant expressions.

use perigee_testkit::Rng;

const INTEGERS: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "-1",
    "-3",
    "10",
    "100",
    "255",
    "20200131",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
];

const DECIMALS: &[&str] = &[
    "0.5",
    "1.50",
    "-3.25",
    "0.001",
    "12345678901234567890",
    "123456789.987654321",
    "-0.00002",
    "99.995",
];

const DOUBLES: &[&str] = &["0e0", "1e0", "2.5e-3", "-1.5e2", "1e15", "1.25e20"];

const TEXTS: &[&str] = &[
    "''",
    "'a'",
    "'A'",
    "'abc'",
    "'a '",
    "'10'",
    "'1.5x'",
    "'-7'",
    "' 12'",
    "'äö'",
    "'2020-01-31'",
    "'2020-01-31 10:11:12'",
    "'10:11:12'",
    "'%a%'",
];

const DATES: &[&str] = &[
    "DATE '2020-02-29'",
    "DATE '1999-12-31'",
    "DATE '0001-01-01'",
];

const MOMENTS: &[&str] = &[
    "TIMESTAMP '2020-02-29 10:11:12'",
    "TIMESTAMP '2020-02-29 10:11:12.5'",
    "TIMESTAMP '9999-12-31 23:59:59'",
    "TIMESTAMP '2020-01-31 00:00:00'",
];

const TIMES: &[&str] = &["TIME '10:11:12'", "TIME '-01:02:03.25'", "TIME '00:00:00'"];

const COMPARISONS: &[&str] = &["=", "<>", "<", "<=", ">", ">=", "<=>"];

const CASTS: &[&str] = &[
    "SIGNED",
    "UNSIGNED",
    "DECIMAL(10,2)",
    "DECIMAL(30,10)",
    "DOUBLE",
    "CHAR",
    "CHAR(3)",
    "DATE",
    "DATETIME",
    "DATETIME(3)",
];

const UNITS: &[&str] = &[
    "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "HOUR", "MINUTE", "SECOND",
];

const FIELDS: &[&str] = &[
    "YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND",
];

/// An expression with so many levels of operators.
pub fn expression(rng: &mut Rng, depth: usize) -> String {
    if depth == 0 || rng.chance(7) {
        return literal(rng);
    }
    let depth = depth - 1;
    match rng.between(0, 21) {
        0..=3 => {
            let op = *rng.choose(&["+", "-", "*", "/", "DIV", "%"]);
            format!("({} {op} {})", number(rng, depth), number(rng, depth))
        }
        4..=7 => {
            let op = *rng.choose(COMPARISONS);
            format!(
                "({} {op} {})",
                expression(rng, depth),
                expression(rng, depth)
            )
        }
        8 => {
            let op = *rng.choose(&["AND", "OR", "XOR"]);
            format!("({} {op} {})", condition(rng, depth), condition(rng, depth))
        }
        9 => {
            let not = *rng.choose(&["NOT ", ""]);
            let is = *rng.choose(&[
                "IS NULL",
                "IS NOT NULL",
                "IS TRUE",
                "IS NOT FALSE",
                "IS UNKNOWN",
            ]);
            format!("({not}({} {is}))", condition(rng, depth))
        }
        10 => {
            let not = *rng.choose(&["NOT ", ""]);
            let items: Vec<_> = (0..rng.between(1, 4))
                .map(|_| expression(rng, depth))
                .collect();
            format!(
                "({} {not}IN ({}))",
                expression(rng, depth),
                items.join(", ")
            )
        }
        11 => {
            let not = *rng.choose(&["NOT ", ""]);
            let (low, high) = (expression(rng, depth), expression(rng, depth));
            format!("({} {not}BETWEEN {low} AND {high})", expression(rng, depth))
        }
        12 => {
            let pattern = *rng.choose(&["'%a%'", "'_'", "'a%'", "'1%'", "'%2%'", "'%\\\\_%'"]);
            format!("({} LIKE {pattern})", expression(rng, depth))
        }
        13 => {
            let (when, then) = (condition(rng, depth), expression(rng, depth));
            let otherwise = expression(rng, depth);
            match rng.chance(2) {
                true => format!("IF({when}, {then}, {otherwise})"),
                false => format!("CASE WHEN {when} THEN {then} ELSE {otherwise} END"),
            }
        }
        14 => {
            let (of, when, then) = (
                expression(rng, depth),
                expression(rng, depth),
                expression(rng, depth),
            );
            format!("CASE {of} WHEN {when} THEN {then} END")
        }
        15 => {
            let name = *rng.choose(&["COALESCE", "IFNULL", "NULLIF"]);
            format!(
                "{name}({}, {})",
                expression(rng, depth),
                expression(rng, depth)
            )
        }
        16 => format!("CAST({} AS {})", expression(rng, depth), rng.choose(CASTS)),
        17 => {
            let name = *rng.choose(&["ABS", "SIGN", "FLOOR", "CEIL", "ROUND"]);
            format!("{name}({})", number(rng, depth))
        }
        18 => {
            let name = *rng.choose(&["ROUND", "TRUNCATE"]);
            format!("{name}({}, {})", number(rng, depth), rng.between(-2, 4))
        }
        19 => {
            let (op, unit) = (*rng.choose(&["+", "-"]), *rng.choose(UNITS));
            format!(
                "({} {op} INTERVAL {} {unit})",
                moment(rng),
                rng.between(-40, 40)
            )
        }
        20 => format!("EXTRACT({} FROM {})", rng.choose(FIELDS), moment(rng)),
        _ => {
            let name = *rng.choose(&["CONCAT", "LENGTH", "UPPER", "REVERSE", "CHAR_LENGTH", "HEX"]);
            format!("{name}({})", expression(rng, depth))
        }
    }
}

fn literal(rng: &mut Rng) -> String {
    let pools = [
        INTEGERS,
        INTEGERS,
        DECIMALS,
        DOUBLES,
        TEXTS,
        TEXTS,
        DATES,
        MOMENTS,
        TIMES,
        &["NULL", "TRUE", "FALSE"],
    ];
    let pool = *rng.choose(&pools);
    (*rng.choose(pool)).to_owned()
}

/// Something that counts as a number.
fn number(rng: &mut Rng, depth: usize) -> String {
    if depth > 0 && !rng.chance(3) {
        return expression(rng, depth);
    }
    let pool = *rng.choose(&[INTEGERS, DECIMALS, DOUBLES, TEXTS]);
    (*rng.choose(pool)).to_owned()
}

/// Something that is true, false or unknown.
fn condition(rng: &mut Rng, depth: usize) -> String {
    match depth > 0 && !rng.chance(3) {
        true => {
            let op = *rng.choose(COMPARISONS);
            format!(
                "({} {op} {})",
                expression(rng, depth - 1),
                expression(rng, depth - 1)
            )
        }
        false => number(rng, 0),
    }
}

fn moment(rng: &mut Rng) -> String {
    let pool = *rng.choose(&[DATES, MOMENTS]);
    (*rng.choose(pool)).to_owned()
}
