//! Random constant expressions against MariaDB: bound and evaluated here, each has the value, or the number of the error,
//! that MariaDB gives.
//!
//! `PERIGEE_EXPRESSIONS` sets how many, `PERIGEE_SEED` which.
#![allow(clippy::unwrap_used, reason = "test code")]

mod generator;

use std::collections::BTreeMap;

use perigee_expr::functions::{FunctionError, Value};
use perigee_expr::scalar::{Context, Failure, Nowhere, Scalar, to_text};
use perigee_sql_bind::{BindError, Binder, ColumnOf, Environment, Result};
use perigee_testkit::{Answer, MariaDb, Rng};
use sqlparser::ast::{Expr, Ident};
use sqlparser::dialect::MySqlDialect;
use sqlparser::parser::Parser;

/// Differences that are shown.
const SHOWN: usize = 40;

/// No session.
struct Alone;

impl Environment for Alone {
    fn column(&self, name: &[Ident]) -> Result<ColumnOf> {
        Err(BindError::UnknownColumn(format!("{name:?}")))
    }

    fn variable(&self, _: Option<&str>, name: &str) -> Result<Expr> {
        Err(BindError::NotSupported(name.to_owned()))
    }

    fn session_function(&self, _: &str) -> Option<Expr> {
        None
    }

    fn now(&self) -> perigee_value::Now {
        perigee_value::Now::default()
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// What an expression gives.
enum Ours {
    Answer(Answer),
    /// It is refused.
    Refused(String),
}

fn bound(sql: &str) -> Result<Scalar> {
    let parser = Parser::new(&MySqlDialect {}).try_with_sql(sql);
    let expr = parser.and_then(|mut parser| parser.parse_expr());
    let expr = expr.map_err(|error| BindError::NotSupported(error.to_string()))?;
    Binder::new(&Alone).expression(&expr)
}

fn ours(sql: &str) -> Ours {
    let scalar = match bound(sql) {
        Ok(scalar) => scalar,
        Err(BindError::IncorrectLiteral { .. }) => return Ours::Answer(Err(1525)),
        Err(error) => return Ours::Refused(error.to_string()),
    };
    let context = Context::new(&Nowhere);
    let value = match scalar.evaluate(&[], &context) {
        Ok(Value::Bytes(bytes)) => return Ours::Answer(Ok(Some(bytes.into_owned()))),
        Ok(value) => value,
        Err(Failure::OutOfRange { .. } | Failure::Function(FunctionError::OutOfRange { .. })) => {
            return Ours::Answer(Err(1690));
        }
        Err(error) => return Ours::Refused(error.to_string()),
    };
    let text = to_text(&value, &scalar.ty);
    Ours::Answer(Ok(text.map(|text| text.as_bytes().to_vec())))
}

/// Numbers to twelve digits, everything else as it is.
fn normal(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer).into_owned();
    match text.parse::<f64>() {
        Ok(v) => format!("{:.11e}", v + 0.0),
        Err(_) => text,
    }
}

/// True if the digits of a number count: MariaDB shows as many of a rounded DOUBLE as it was rounded to.
fn is_exact(sql: &str) -> bool {
    !sql.contains('e') && !sql.contains("ROUND(") && !sql.contains("TRUNCATE(")
}

fn is_same(ours: &Answer, theirs: &Answer, exact: bool) -> bool {
    match (ours, theirs) {
        (Ok(Some(ours)), Ok(Some(theirs))) => {
            let is_zero = |text: &[u8]| normal(text) == normal(b"0");
            ours == theirs
                || is_zero(ours) && is_zero(theirs)
                || !exact && normal(ours) == normal(theirs)
        }
        (ours, theirs) => ours == theirs,
    }
}

/// Why a difference does not count.
fn differs(sql: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let theirs_has = |text: &str| {
        let bytes = theirs.as_ref().ok().and_then(Option::as_ref);
        bytes.is_some_and(|bytes| String::from_utf8_lossy(bytes).contains(text))
    };
    let has = |words: &[&str]| words.iter().any(|word| sql.contains(word));
    let rounds = has(&["ROUND(", "TRUNCATE(", "FLOOR(", "CEIL(", "ABS("]);
    let is_temporal = has(&["TIME", "DATE"]);
    Some(match () {
        () if *ours == Err(1525) => "MariaDB compares literals that are no dates with dates",
        () if theirs_has("0000-") || sql.contains("AS DATE") => "there are no zero dates",
        () if sql.contains("AS UNSIGNED") => "MariaDB makes negative numbers zero",
        () if rounds && !sql.starts_with(['R', 'T', 'F', 'C', 'A']) => {
            "MariaDB shows rounded doubles with the digits that they were rounded to"
        }
        () if rounds && is_temporal => "MariaDB rounds times to times",
        () if is_temporal && has(&[" + ", " - ", " * ", " / ", " % ", " DIV "]) => {
            "MariaDB computes with fractions of seconds that are not there"
        }
        () if has(&[
            "9223372036854775808",
            "18446744073709551615",
            "9223372036854775807",
        ]) =>
        {
            "integers at the ends of their types"
        }
        () if sql.contains("HEX(") => "MariaDB rounds doubles up in HEX",
        () if has(&["CHAR(3)", "CHAR)", "LENGTH(", "REVERSE(", "FLOOR("]) => {
            "MariaDB shows doubles with other digits where they are computed with as texts"
        }
        () if is_temporal && has(&["-3.25", "TIME '00:00:00'"]) => {
            "MariaDB takes midnight and negative numbers for dates"
        }
        () => return None,
    })
}

fn shown(answer: &Answer) -> String {
    match answer {
        Ok(Some(bytes)) => format!("'{}'", bytes.escape_ascii()),
        other => format!("{other:?}"),
    }
}

fn number_of(variable: &str, default: usize) -> usize {
    let text = std::env::var(variable).ok();
    text.and_then(|n| n.parse().ok()).unwrap_or(default)
}

#[test]
fn expressions_have_mariadbs_values() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(dir.path(), &["--innodb-buffer-pool-size=32M"]);
    let mariadb = mariadb.expect("MariaDB is needed for this test");
    let count = number_of("PERIGEE_EXPRESSIONS", 4000);
    let mut rng = Rng(number_of("PERIGEE_SEED", 1) as u64);
    let expressions: Vec<String> = (0..count)
        .map(|_| generator::expression(&mut rng, 3))
        .collect();
    let theirs = mariadb.answers(&expressions).unwrap();
    let (mut equal, mut left_out, mut wrong) = (0, 0, Vec::new());
    let mut refused = BTreeMap::new();
    for (sql, theirs) in expressions.iter().zip(&theirs) {
        match ours(sql) {
            Ours::Refused(why) => *refused.entry(why).or_insert(0) += 1,
            Ours::Answer(answer) if is_same(&answer, theirs, is_exact(sql)) => equal += 1,
            Ours::Answer(answer) if differs(sql, &answer, theirs).is_some() => left_out += 1,
            Ours::Answer(answer) => {
                let (ours, theirs) = (shown(&answer), shown(theirs));
                wrong.push(format!("{sql}\n    here {ours} there {theirs}"));
            }
        }
    }
    let refusals: usize = refused.values().sum();
    println!(
        "{equal} equal, {refusals} refused, {left_out} left out, {} differ",
        wrong.len()
    );
    for (why, count) in &refused {
        println!("refused {count}: {why}");
    }
    wrong.sort_by_key(String::len);
    for difference in wrong.iter().take(SHOWN) {
        println!("{difference}");
    }
    assert!(wrong.is_empty(), "{} of {count} differ", wrong.len());
    assert!(equal > count / 2, "most expressions are understood");
}
