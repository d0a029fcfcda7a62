//! Literals in the places of parameters.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_sql_bind::Modes;
use perigee_value::date::{Civil, TimeOfDay};
use proptest::prelude::*;
use sqlparser::ast::{self, Expr, SelectItem, SetExpr};

use super::*;
use crate::parse::Grammar;
use crate::session::parameter::Parameter;
use sqlparser::tokenizer::Tokenizer;

fn day(year: i32, month: u8, day: u8) -> Civil {
    Civil { year, month, day }
}

fn parameters(list: &[Parameter]) -> Parameters {
    let mut parameters = Parameters::default();
    list.iter().cloned().for_each(|one| parameters.push(one));
    parameters
}

/// The literal's tokens as text, as they would have to be written.
fn shown(parameter: &Parameter) -> String {
    let tokens = parameters(std::slice::from_ref(parameter)).literal(0);
    let tokens = tokens.unwrap();
    let words: Vec<_> = tokens.iter().map(ToString::to_string).collect();
    words.join(" ")
}

#[test]
fn literals_have_the_type_of_the_value() {
    let decimal = |text: &[u8]| Parameter::decimal(text).unwrap();
    let noon = |micros| TimeOfDay {
        hour: 12,
        minute: 0,
        second: 1,
        micros,
    };
    let datetime = |micros| Parameter::datetime(day(2000, 2, 29), noon(micros)).unwrap();
    for (parameter, expected) in [
        (Parameter::NULL, "NULL"),
        (Parameter::int(5), "5"),
        (Parameter::int(i64::MIN), "( - 9223372036854775808 )"),
        (Parameter::unsigned(u64::MAX), "18446744073709551615"),
        (Parameter::double(0.1).unwrap(), "1e-1"),
        (Parameter::double(-1e300).unwrap(), "( - 1e300 )"),
        (decimal(b"12.30"), "12.30"),
        (decimal(b"-0.05"), "( - 0.05 )"),
        (Parameter::text(b"it's"), "'it's'"),
        (Parameter::text(b"a\xff"), "X'61FF'"),
        (Parameter::bytes("\u{e9}".as_bytes()), "'\u{e9}'"),
        (Parameter::bytes(b"\xff\0"), "X'FF00'"),
        (Parameter::date(day(1, 1, 1)).unwrap(), "DATE '0001-01-01'"),
        (datetime(0), "TIMESTAMP '2000-02-29 12:00:01'"),
        (datetime(5), "TIMESTAMP '2000-02-29 12:00:01.000005'"),
        (
            Parameter::time(true, 100, 2, 3, 4).unwrap(),
            "TIME '-100:02:03.000004'",
        ),
        (
            Parameter::time(false, 1, 2, 3, 0).unwrap(),
            "TIME '01:02:03'",
        ),
    ] {
        assert_eq!(shown(&parameter), expected);
    }
}

#[test]
fn what_is_no_value_is_refused() {
    let errno = |outcome: Result<Parameter>| outcome.unwrap_err().errno;
    assert_eq!(errno(Parameter::double(f64::NAN)), 1367);
    assert_eq!(errno(Parameter::decimal(b"1e5")), 1367);
    assert_eq!(errno(Parameter::decimal(b"1-2")), 1367);
    assert_eq!(errno(Parameter::decimal(b"")), 1367);
    assert_eq!(errno(Parameter::decimal(&[b'9'; 66])), 1235);
    assert_eq!(
        errno(Parameter::decimal(b"0.0000000000000000000000000000001")),
        1235
    );
    assert_eq!(errno(Parameter::date(day(2001, 2, 29))), 1292);
    assert_eq!(errno(Parameter::date(day(0, 1, 1))), 1292);
    assert_eq!(errno(Parameter::time(false, 839, 0, 0, 0)), 1292);
    assert_eq!(errno(Parameter::time(false, 1, 60, 0, 0)), 1292);
    let late = TimeOfDay {
        hour: 24,
        minute: 0,
        second: 0,
        micros: 0,
    };
    assert_eq!(errno(Parameter::datetime(day(2001, 2, 28), late)), 1292);
}

/// A statement that no session has prepared.
fn template(text: &str) -> Template {
    Template::new(text, Modes::NONE).unwrap()
}

/// The statement with these values in the places of its parameters.
fn executed(text: &str, list: &[Parameter]) -> Box<ast::Query> {
    let (template, parameters) = (template(text), parameters(list));
    let tokens = template.with_literals(|number| parameters.literal(number));
    let tokens = tokens.unwrap();
    match template.piece(&tokens).parse().unwrap() {
        Statement::Query(query) => query,
        other => panic!("{other:?}"),
    }
}

fn items(query: &ast::Query) -> &[SelectItem] {
    match &*query.body {
        SetExpr::Select(select) => &select.projection,
        other => panic!("{other}"),
    }
}

#[test]
fn a_value_does_not_join_its_neighbours() {
    let text = Parameter::text(b"v");
    // The second string is a name.
    for sql in ["SELECT ? 'name'", "SELECT ?\n  \"name\""] {
        let query = executed(sql, std::slice::from_ref(&text));
        let [SelectItem::ExprWithAlias { expr, alias }] = items(&query) else {
            panic!("{query}")
        };
        assert_eq!(
            (expr.to_string().as_str(), &*alias.value),
            ("('v')", "name")
        );
    }
    // Nor does a sign.
    let query = executed("SELECT 2-?, -?", &[Parameter::int(-5), Parameter::int(-6)]);
    assert_eq!(query.to_string(), "SELECT 2 - (-5), -(-6)");
}

#[test]
fn marks_in_strings_names_and_comments_are_no_parameters() {
    let count = |text: &str| template(text).parameters.len();
    assert_eq!(
        count("SELECT '?', `?`, \"?\" /* ? */ -- ?\n FROM t # ?\n"),
        0
    );
    assert_eq!(count("SELECT ?,? FROM t WHERE a IN (?, ?) LIMIT ?, ?;"), 6);
    assert_eq!(count("SET @a = ?, autocommit = ?"), 2);
}

#[test]
fn what_cannot_be_prepared_is_refused() {
    let errno = |text: &str| Template::new(text, Modes::NONE).err().unwrap().errno;
    for (text, expected) in [
        ("", 1065),
        (" ; ", 1065),
        ("SELECT 1; SELECT 2", 1064),
        ("SELECT ?1", 1064),
        ("SELECT ? ?", 1064),
        ("SELECT 'a' ?", 1064),
        ("SELECT a AS ?", 1064),
        ("SELECT * FROM ?", 1064),
        ("SHOW TABLES LIKE ?", 1064),
        ("SELEC ?", 1064),
        ("BEGIN", 1295),
        ("START TRANSACTION", 1295),
        ("USE x", 1295),
        ("PREPARE s FROM 'SELECT 1'", 1295),
        ("EXECUTE s", 1295),
        ("DEALLOCATE PREPARE s", 1295),
        ("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", 1295),
    ] {
        assert_eq!(errno(text), expected, "{text}");
    }
    let many = format!("SELECT {}?", "?,".repeat(65_535));
    assert_eq!(errno(&many), 1390);
}

proptest! {
    /// Whatever a text holds, it is one string of the statement, and all else stays as it was.
    #[test]
    fn a_text_stays_a_value(value in "[ '\"`\\\\;?/*#a\u{0}-]{0,12}", after in "('x'|AS y|, 1|)") {
        let sql = format!("SELECT ? {after} FROM t WHERE a = ? AND b LIKE ?");
        let parameter = Parameter::text(value.as_bytes());
        let query = executed(&sql, &[parameter.clone(), parameter.clone(), parameter]);
        let mut expected = template(&sql).statement;
        let Statement::Query(expected) = &mut expected else { unreachable!() };
        let mut seen = 0;
        let _ = ast::visit_expressions_mut(expected.as_mut(), |expr| {
            if let Expr::Value(found) = expr
                && found.value == ast::Value::Placeholder("?".into())
            {
                found.value = ast::Value::SingleQuotedString(value.clone());
                seen += 1;
            }
            std::ops::ControlFlow::<()>::Continue(())
        });
        prop_assert_eq!(seen, 3);
        let plain = |query: &ast::Query| query.to_string().replacen('(', "", 1).replacen(')', "", 1);
        if after == "'x'" {
            prop_assert_eq!(plain(&query), plain(expected));
        } else {
            prop_assert_eq!(query.to_string(), expected.to_string());
        }
    }

    #[test]
    fn texts_to_prepare_never_panic(text in "[ ?'\"`;,()a-c0-9=*/-]{0,40}") {
        let _ = Template::new(&text, Modes::NONE);
        let _ = Tokenizer::new(Grammar::of(Modes::NONE), &text).tokenize();
    }
}
