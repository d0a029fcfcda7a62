//! Every function of the library against MariaDB, called with values of the kinds of its parameters, extreme ones
//! among them: the answers, or the numbers of the errors, are equal.
//!
//! `PERIGEE_CALLS` sets the number of calls of a function, `PERIGEE_SEED` their choice. What differs, and why, is
//! said in [`differs`].
#![allow(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use perigee_expr::functions::{
    self, Argument, Call, Environment, Function, FunctionError, Kind, Memo, Value, ValueType,
};
use perigee_testkit::{MariaDb, Rng};
use perigee_value::{Collation, ColumnType, Datum, Units, format_value, parse_text};

/// Failures that are shown.
const SHOWN: usize = 200;

/// A value, as MariaDB reads it and as a body sees it.
#[derive(Clone, Debug)]
struct Literal {
    sql: String,
    value: Value<'static>,
    ty: ValueType,
}

fn null() -> Literal {
    Literal {
        sql: "NULL".into(),
        value: Value::Null,
        ty: ValueType::Null,
    }
}

fn text(text: &str) -> Literal {
    let sql = format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    Literal {
        sql,
        value: Value::text(text.to_owned()),
        ty: ValueType::Text,
    }
}

fn bytes(bytes: &[u8]) -> Literal {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Literal {
        sql: format!("x'{digits}'"),
        value: Value::bytes(bytes.to_vec()),
        ty: ValueType::Bytes,
    }
}

fn int(v: i64) -> Literal {
    Literal {
        sql: v.to_string(),
        value: Value::Int(v),
        ty: ValueType::Int,
    }
}

fn bits(v: u64) -> Literal {
    Literal {
        sql: v.to_string(),
        value: Value::UInt(v),
        ty: ValueType::UInt,
    }
}

fn double(v: f64) -> Literal {
    Literal {
        sql: format!("{v:e}"),
        value: Value::Double(v),
        ty: ValueType::Double,
    }
}

fn decimal(text: &str) -> Literal {
    let scale = text
        .split_once('.')
        .map_or(0, |(_, digits)| digits.len() as u8);
    let units: i128 = text.replace('.', "").parse().unwrap();
    let ty = ValueType::Decimal {
        precision: 38,
        scale,
    };
    Literal {
        sql: text.to_owned(),
        value: Value::Decimal(Units::from(units), scale),
        ty,
    }
}

/// A number of seconds.
fn seconds(text: &str) -> Literal {
    let Literal { sql, value, ty } = decimal(text);
    let Value::Decimal(units, scale) = value else {
        panic!("it is a decimal")
    };
    let micros = units.rescale(scale, 6).and_then(Units::to_i128).unwrap();
    Literal {
        sql,
        value: Value::Int(micros as i64),
        ty,
    }
}

fn fsp_of(text: &str) -> u8 {
    text.split_once('.')
        .map_or(0, |(_, digits)| digits.len() as u8)
}

fn temporal(word: &str, text: &str) -> Literal {
    let fsp = fsp_of(text);
    let (ty, column) = match word {
        "DATE" => (ValueType::Date, ColumnType::Date),
        "TIME" => (ValueType::Time { fsp }, ColumnType::Time { fsp: 6 }),
        _ => (ValueType::DateTime { fsp }, ColumnType::DateTime { fsp: 6 }),
    };
    let value = match parse_text(column, text.as_bytes()).unwrap() {
        Datum::Date(v) => Value::Date(v),
        Datum::DateTime(v) => Value::DateTime(v),
        Datum::Time(v) => Value::Time(v),
        other => panic!("{other:?}"),
    };
    Literal {
        sql: format!("{word} '{text}'"),
        value,
        ty,
    }
}

const TEXTS: &[&str] = &[
    "",
    "abc",
    "ABC ",
    "äöü€😀",
    " a b ",
    "a,b,,c",
    "12",
    "-7.5x",
    "1e3",
    "www.example.com",
    "Hello, World",
    "ff",
    "it's \\ here",
    "Tschüß",
    "aaa",
    ",",
    "  x  ",
];
const MOMENTS: &[&str] = &[
    "2024-02-29 23:59:59",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59",
    "1970-01-01 00:00:01",
    "2019-10-11 12:13:14.5",
    "2008-01-31 00:00:00.000001",
    "2021-01-03 00:00:00",
    "2000-12-31 13:00:00",
    "2018-01-01 01:02:03",
    "1999-06-15 12:00:00",
];
const TIMES: &[&str] = &[
    "00:00:00",
    "10:11:12",
    "-10:11:12",
    "838:59:59",
    "10:11:12.5",
    "-00:00:01.25",
    "01:02:03",
    "25:00:01",
];
const INTS: &[i64] = &[
    0,
    1,
    -1,
    2,
    3,
    7,
    10,
    -3,
    64,
    255,
    65535,
    4_294_967_296,
    i64::MAX,
    i64::MIN + 1,
];
const DOUBLES: &[f64] = &[
    0.0, 1.0, -1.0, 0.5, 2.0, 10.0, 1e300, -1e300, 1e-300, 3.75, 100.0, -0.5,
];

fn texts(list: &[&str]) -> Vec<Literal> {
    let mut all: Vec<_> = list.iter().map(|item| text(item)).collect();
    all.push(null());
    all
}

fn ints(list: &[i64]) -> Vec<Literal> {
    let mut all: Vec<_> = list.iter().map(|item| int(*item)).collect();
    all.push(null());
    all
}

fn pool(kind: Kind) -> Vec<Literal> {
    let mut all = match kind {
        Kind::Text => return texts(TEXTS),
        Kind::Bytes => {
            let mut all: Vec<_> = TEXTS.iter().map(|item| bytes(item.as_bytes())).collect();
            all.extend([
                bytes(&[0, 255]),
                bytes(b"68656c6c6f"),
                bytes(b"aGVsbG8="),
                bytes(b"a"),
            ]);
            all
        }
        Kind::Int => return ints(INTS),
        Kind::Bits => [0, 1, 2, 7, 255, 63, 64, u64::MAX, 1 << 40]
            .into_iter()
            .map(bits)
            .collect(),
        Kind::Double => DOUBLES.iter().map(|v| double(*v)).collect(),
        Kind::Seconds => {
            let all = [
                "0",
                "1",
                "-1",
                "59",
                "3661",
                "86400",
                "1.5",
                "-0.25",
                "12345678901",
                "1700000000",
                "59.999999",
            ];
            all.into_iter().map(seconds).collect()
        }
        Kind::Number => [
            decimal("0.5"),
            decimal("1.5"),
            decimal("2.5"),
            decimal("-1234567.891"),
            decimal("123456789012345.678"),
            double(1e10),
            decimal("-0.005"),
            double(12345.6789),
            decimal("999999.999"),
            int(-5),
            int(1_000_000),
            bits(u64::MAX),
            double(-0.5),
        ]
        .to_vec(),
        Kind::Date => MOMENTS
            .iter()
            .map(|moment| temporal("DATE", &moment[..10]))
            .collect(),
        Kind::DateTime => MOMENTS
            .iter()
            .map(|moment| temporal("TIMESTAMP", moment))
            .collect(),
        Kind::Time => TIMES.iter().map(|time| temporal("TIME", time)).collect(),
        Kind::Any | Kind::Json => vec![
            int(0),
            int(-1),
            int(255),
            decimal("255.5"),
            text("abc"),
            text("10"),
            double(100.0),
            bits(u64::MAX),
            decimal("-7.5"),
            text("äö"),
        ],
    };
    all.push(null());
    all
}

/// Arguments with a meaning of their own.
fn special(function: &str, argument: usize) -> Option<Vec<Literal>> {
    let moments = || {
        let mut all = pool(Kind::DateTime);
        all.extend(pool(Kind::Time));
        all
    };
    Some(match (function, argument) {
        ("date_format" | "from_unixtime", 1) => texts(&[
            "%Y-%m-%d %H:%i:%s",
            "%W %M %e %Y",
            "%a %b %c %D %d %e",
            "%f %H %h %I %i %j %k %l",
            "%p %r %S %s %T",
            "%U %u %V %v %X %x",
            "%w %y %%",
            "ä%",
            "",
        ]),
        ("time_format", 1) => texts(&["%H %k %h %I %l", "%i %s %S %f %p", "%r %T"]),
        ("str_to_date", 0) => texts(&[
            "2024-02-29",
            "29.02.2023",
            "10:11:12",
            "2024-01-02 03:04:05.678",
            "Jan 5 99",
            "5:30 PM",
            "x",
            "13:00 AM",
            "2024-1-2",
        ]),
        ("str_to_date", 1) => texts(&[
            "%Y-%m-%d",
            "%d.%m.%Y",
            "%H:%i:%s",
            "%Y-%m-%d %T.%f",
            "%b %d %y",
            "%h:%i %p",
        ]),
        ("regexp_instr" | "regexp_substr" | "regexp_replace", 1) => texts(&[
            "a",
            "^[a-z]+",
            "[[:alpha:]]+",
            "(.)(.)",
            "x|o",
            "[0-9]+",
            "\\.",
            "l+",
        ]),
        ("regexp_replace", 2) => texts(&["", "x", "<>"]),
        ("get_format", 0) => [("DATE", "DATE"), ("TIME", "TIME"), ("DATETIME", "DATETIME")]
            .map(|(sql, name)| Literal {
                sql: sql.to_owned(),
                ..text(name)
            })
            .to_vec(),
        ("get_format", 1) => texts(&["USA", "EUR", "ISO", "JIS", "INTERNAL"]),
        ("timestampdiff", 0) => [
            "microsecond",
            "second",
            "minute",
            "hour",
            "day",
            "week",
            "month",
            "quarter",
            "year",
        ]
        .map(|unit| Literal {
            sql: unit.to_owned(),
            ..text(unit)
        })
        .to_vec(),
        ("inet_aton" | "inet6_aton" | "is_ipv4" | "is_ipv6", 0) => texts(&[
            "",
            "1.2.3.4",
            "255.255.255.255",
            "1.2.3",
            "256.0.0.1",
            "::1",
            "fe80::1:2",
            "::1.2.3.4",
            "x",
            "::ffff:10.0.0.1",
        ]),
        ("inet6_ntoa" | "is_ipv4_compat" | "is_ipv4_mapped", 0) => {
            let v6 = |text: &str| bytes(&text.parse::<std::net::Ipv6Addr>().unwrap().octets());
            [
                "fe80::1",
                "::1",
                "::ffff:1.2.3.4",
                "::1.2.3.4",
                "1:2:3:4:5:6:7:8",
            ]
            .map(v6)
            .into_iter()
            .chain([bytes(&[1, 2, 3, 4]), bytes(b"x"), null()])
            .collect()
        }
        ("interval", _) => vec![
            null(),
            int(1),
            int(2),
            decimal("3.5"),
            int(-4),
            double(100.0),
        ],
        ("greatest" | "least", _) => ints(&[1, 5, -3, 9]),
        ("addtime" | "subtime" | "timediff" | "microsecond", 0) | ("timediff", 1) => moments(),
        ("convert_tz", 1 | 2) => texts(&["+00:00", "+05:30", "-11:15", "x"]),
        ("conv", 0) => texts(&[
            "12",
            "-7",
            "ff",
            "zz",
            "101",
            "18446744073709551616",
            "x",
            "-ff",
        ]),
        ("conv", 1 | 2) => ints(&[2, 8, 10, 16, 36, -10, -16, 1, 37]),
        ("format", 1) => ints(&[0, 1, 2, 5, -2, 31]),
        ("format", 2) => texts(&["en_US"]),
        ("period_diff", _) | ("period_add", 0) => {
            ints(&[202_401, 9912, 197_001, 202_412, 6912, 7001])
        }
        ("period_add", 1) => ints(&[0, 1, -1, 12, 100]),
        ("repeat" | "lpad" | "rpad", 1) | ("space", 0) | ("insert", 1 | 2) => {
            ints(&[0, 1, 2, 3, 5, -1, 40])
        }
        ("sha2", 1) => ints(&[0, 224, 256, 384, 512, 1]),
        ("makedate", 0) => ints(&[2024, 1, 69, 70, 99, 9999, 10_000]),
        ("makedate", 1) => ints(&[0, 1, 60, 366, 3000, -1]),
        ("week" | "yearweek", 1) => ints(&[0, 1, 2, 3, 4, 5, 6, 7]),
        ("from_days", 0) => ints(&[366, 730_000, 719_528, 3_652_424]),
        ("substring_index", 2) => ints(&[0, 1, 2, -1, -2, 9]),
        ("elt", 0) => ints(&[0, 1, 2, 3, 9, -1]),
        ("export_set", 4) => ints(&[0, 4, 64, 100, -1]),
        ("maketime", 0) => ints(&[0, 10, -10, 838, 900, -900]),
        ("maketime", 1) => ints(&[0, 30, 59, 60, -1]),
        ("maketime", 2) => vec![
            seconds("0"),
            seconds("59.5"),
            seconds("60"),
            seconds("-1"),
            null(),
        ],
        _ => return None,
    })
}

/// True if the result is the longest TIME, of either sign.
fn longest(function: &Function, arguments: &[Literal]) -> bool {
    let answer = ours(function, arguments);
    matches!(answer, Ok(Some(text)) if String::from_utf8_lossy(&text).contains("838:59:59"))
}

/// Why a function, or a call, is not compared.
fn differs(function: &Function, arguments: &[Literal]) -> Option<&'static str> {
    let has = |sql: &str| arguments.iter().any(|argument| argument.sql == sql);
    Some(match function.name() {
        "rand" | "random_bytes" | "uuid" => "random",
        "bits as bytes" => "only columns are cast so",
        _ if function.parameter(0) == Kind::Json => "MariaDB has no type JSON",
        "sleep" => "waits",
        "is_uuid"
        | "uuid_to_bin"
        | "bin_to_uuid"
        | "regexp_like"
        | "statement_digest"
        | "statement_digest_text" => "MariaDB 10.11 does not have it",
        "extract_fields" | "&" | "|" | "^" | "<<" | ">>" | "~" => "it has a syntax of its own",
        "regexp_instr" if arguments.len() > 2 => "MariaDB takes two arguments",
        "regexp_replace" if arguments.len() > 3 => "MariaDB takes three arguments",
        "compress" => "the stream depends on the library of zlib",
        "ltrim" | "rtrim" | "trim" if arguments.len() > 1 => "it has a syntax of its own",
        "position" => "it has a syntax of its own",
        "locate" if has("''") => "MySQL and MariaDB count bytes before an empty string",
        "lpad" | "rpad" if has("''") => "MySQL 8 gives an empty string for an empty filler",
        "regexp_substr" => "MySQL gives NULL where nothing is found, MariaDB an empty string",
        "pi" => "MySQL shows six of its decimals",
        "format" if has("31") => "MySQL has at most 30 decimals",
        "replace" if has("NULL") => "MySQL gives NULL for every NULL",
        "field" if has("-1") && has("18446744073709551615") => {
            "MySQL and MariaDB compare 64 bits without their sign"
        }
        "timestamp in zone" => "the binder alone calls it",
        "unix_timestamp" if arguments.len() > 1 => "the binder alone names a time zone",
        "unix_timestamp" if has("TIMESTAMP '9999-12-31 23:59:59'") => {
            "MySQL gives 0 for what is too late"
        }
        "sha2" if has("NULL") => "MySQL gives NULL",
        "uncompressed_length" => "MySQL gives 0 for what is too short",
        "timediff" | "maketime" | "addtime" | "subtime" if longest(function, arguments) => {
            "the longest TIME of MySQL has no fraction"
        }
        "str_to_date" if has("'29.02.2023'") => "MariaDB takes 29 February of every year",
        "time_to_sec" => "MySQL gives an integer",
        "unix_timestamp" if has("TIMESTAMP '0001-01-01 00:00:00'") => {
            "MySQL gives 0 for what is too early"
        }
        "from_unixtime" if has("12345678901") => "MariaDB's seconds end in 2106, MySQL's in 3001",
        _ => return None,
    })
}

struct Fixed;

impl Environment for Fixed {
    fn now(&self) -> i64 {
        0
    }

    fn random(&self) -> u64 {
        0
    }

    fn is_stopped(&self) -> bool {
        false
    }

    fn wait(&self, _: Duration) {}
}

/// The answer as bytes; `Err` has MySQL's number.
fn ours(function: &Function, literals: &[Literal]) -> Result<Option<Vec<u8>>, u16> {
    let types: Vec<_> = literals.iter().map(|literal| literal.ty).collect();
    let constants: Vec<Option<String>> = literals
        .iter()
        .map(|literal| match &literal.value {
            Value::Text(text) => Some(text.clone().into_owned()),
            _ => None,
        })
        .collect();
    let known: Vec<Argument<'_>> = types
        .iter()
        .zip(&constants)
        .map(|(ty, constant)| Argument {
            ty: *ty,
            constant: constant.as_deref(),
        })
        .collect();
    let arguments: Vec<_> = literals
        .iter()
        .map(|literal| literal.value.clone())
        .collect();
    let call = Call {
        name: function.name(),
        arguments: &arguments,
        types: &types,
        constant: &vec![true; types.len()],
        collation: match types.contains(&ValueType::Bytes) {
            true => Collation::BINARY,
            false => Collation::UTF8MB4_BIN,
        },
        over_bytes: false,
        environment: &Fixed,
        memo: &Memo::default(),
    };
    let value = function.evaluate(&call).map_err(|error| match error {
        FunctionError::OutOfRange { .. } => 1690,
        FunctionError::IncorrectValue { .. } => 1411,
        FunctionError::IncorrectArguments(_) => 1210,
        FunctionError::Regex { errno, .. } => errno,
        FunctionError::Digest(_) => 3676,
        FunctionError::Json(fault) => panic!("functions of JSON are not called: {fault}"),
        FunctionError::NotSupported(_) => 1235,
        FunctionError::DivisionByZero => 1365,
        FunctionError::Interrupted => 1317,
    })?;
    Ok(shown(value, function.result_type(&known)))
}

fn shown(value: Value<'_>, ty: ValueType) -> Option<Vec<u8>> {
    let fsp = ty.fsp();
    let (datum, column) = match value {
        Value::Null => return None,
        Value::Text(text) => return Some(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => return Some(bytes.into_owned()),
        Value::Bool(v) => return Some(i64::from(v).to_string().into_bytes()),
        Value::Int(v) => return Some(v.to_string().into_bytes()),
        Value::UInt(v) => return Some(v.to_string().into_bytes()),
        Value::Double(v) => (Datum::Double(v), ColumnType::Double),
        Value::Date(v) => (Datum::Date(v), ColumnType::Date),
        Value::DateTime(v) => (Datum::DateTime(v), ColumnType::DateTime { fsp }),
        Value::Time(v) => (Datum::Time(v), ColumnType::Time { fsp }),
        Value::Decimal(units, scale) => {
            let to = match ty {
                ValueType::Decimal { scale, .. } => scale,
                _ => scale,
            };
            let mut text = String::new();
            units.rescale(scale, to).unwrap().format(to, &mut text);
            return Some(text.into_bytes());
        }
    };
    let mut text = String::new();
    format_value(column, datum.as_ref(), &mut text);
    Some(text.into_bytes())
}

/// Numbers to ten digits, everything else as it is.
fn normal(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer).into_owned();
    let is_number = text.contains(['.', 'e']) && !text.contains([',', ':', ' ']);
    match text.parse::<f64>() {
        Ok(v) if is_number && v != 0.0 => format!("{v:.9e}"),
        Ok(v) if is_number || v == 0.0 && text == "-0" => "0".to_owned(),
        _ => text,
    }
}

fn number_of(variable: &str, default: usize) -> usize {
    let text = std::env::var(variable).ok();
    text.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// A call as SQL has it.
fn spelled(name: &str, arguments: &[&str]) -> String {
    match (name.strip_prefix("convert using "), arguments) {
        (Some(charset), [text]) => {
            // The test asks for bytes, and ours are UTF-8's in every character set.
            format!("CONVERT(CONVERT({text} USING {charset}) USING utf8mb4)")
        }
        _ if name == "cast latin1 as binary" => {
            format!("CAST(CONVERT({} USING latin1) AS BINARY)", arguments[0])
        }
        _ => format!("{}({})", name.to_uppercase(), arguments.join(", ")),
    }
}

#[test]
fn every_function_answers_as_mariadb() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(dir.path(), &["--innodb-buffer-pool-size=32M"]);
    let mariadb = mariadb.expect("MariaDB is needed for this test");
    let (count, seed) = (number_of("PERIGEE_CALLS", 40), number_of("PERIGEE_SEED", 1));
    let (mut calls, mut answers, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for (number, function) in functions::all().enumerate() {
        let mut rng = Rng((seed * 1000 + number) as u64);
        let before = calls.len();
        for _ in 0..count {
            let (least, most) = function.arguments;
            let arguments = rng.between(least as i64, most.min(least + 3) as i64);
            let arguments: Vec<Literal> = (0..arguments as usize)
                .map(|i| {
                    let pool =
                        special(function.name(), i).unwrap_or_else(|| pool(function.parameter(i)));
                    rng.choose(&pool).clone()
                })
                .collect();
            if differs(function, &arguments).is_some() {
                continue;
            }
            let texts: Vec<&str> = arguments
                .iter()
                .map(|argument| argument.sql.as_str())
                .collect();
            calls.push(spelled(function.name(), &texts));
            answers.push(ours(function, &arguments));
        }
        if calls.len() == before {
            left_out.push(function.name());
        }
    }
    let theirs = mariadb.answers(&calls).unwrap();
    let (mut equal, mut fail, mut wrong) = (0, 0, Vec::new());
    for ((call, ours), theirs) in calls.iter().zip(&answers).zip(&theirs) {
        let same = match (ours, theirs) {
            (Ok(Some(ours)), Ok(Some(theirs))) => ours == theirs || normal(ours) == normal(theirs),
            (ours, theirs) => ours == theirs,
        };
        match same {
            true if ours.is_err() => fail += 1,
            true => equal += 1,
            false => {
                let shown = |answer: &Result<Option<Vec<u8>>, u16>| match answer {
                    Ok(Some(bytes)) => format!("'{}'", bytes.escape_ascii()),
                    other => format!("{other:?}"),
                };
                wrong.push(format!(
                    "{call}\n    here {} there {}",
                    shown(ours),
                    shown(theirs)
                ));
            }
        }
    }
    println!(
        "{equal} answers equal, {fail} fail in both, {} differ; not called: {left_out:?}",
        wrong.len()
    );
    wrong.iter().take(SHOWN).for_each(|text| println!("{text}"));
    assert!(wrong.is_empty(), "{} answers differ", wrong.len());
}
