//! What only a unit test sees of functions; what they compute is compared with MariaDB.

use std::time::Duration;

use perigee_value::Collation;

use super::*;

struct Quiet;

impl Environment for Quiet {
    fn max_result(&self) -> usize {
        1000
    }

    fn now(&self) -> i64 {
        0
    }

    fn random(&self) -> u64 {
        7
    }

    fn is_stopped(&self) -> bool {
        true
    }

    fn wait(&self, _: Duration) {}
}

/// Calls a function with constants that have the kinds of its parameters.
fn call(name: &str, arguments: &[Value<'_>]) -> Result<Value<'static>, FunctionError> {
    let function = named(name).unwrap_or_else(|| panic!("there is {name}"));
    let types = vec![ValueType::Text; arguments.len()];
    let constant = vec![true; arguments.len()];
    let call = Call {
        name: function.name(),
        arguments,
        types: &types,
        constant: &constant,
        collation: Collation::UTF8MB4_BIN,
        over_bytes: false,
        environment: &Quiet,
        memo: &Memo::default(),
    };
    Ok(function.evaluate(&call)?.into_owned())
}

fn text(text: &'static str) -> Value<'static> {
    Value::text(text)
}

#[test]
fn names_are_unique_and_arities_and_parameters_fit() {
    let mut names = Vec::new();
    for function in all() {
        assert!(
            !function.names.is_empty() && function.about.ends_with('.'),
            "{:?}",
            function.names
        );
        let (least, most) = function.arguments;
        assert!(least <= most, "{}", function.name());
        let parameters = function.parameters.len();
        assert!(
            parameters <= most && (most == 0 || parameters > 0),
            "{}",
            function.name()
        );
        for name in function.names {
            assert_eq!(*name, name.to_lowercase());
            assert!(std::ptr::eq(
                named(name).expect("it has that name"),
                function
            ));
            names.push(*name);
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name twice");
}

#[test]
fn a_strict_function_is_null_for_null() {
    for function in all().filter(|function| function.nulls == Nulls::Strict) {
        let arguments = vec![Value::Null; function.arguments.0.max(1).min(function.arguments.1)];
        if !arguments.is_empty() {
            assert_eq!(
                call(function.name(), &arguments),
                Ok(Value::Null),
                "{}",
                function.name()
            );
        }
    }
}

#[test]
fn results_that_are_too_long_are_null() {
    let long = "x".repeat(900);
    let value = || Value::text(long.clone());
    let int = Value::Int;
    for (name, arguments) in [
        ("repeat", vec![text("ab"), int(501)]),
        ("space", vec![int(i64::MAX)]),
        ("rpad", vec![text("a"), int(i64::MAX), text("b")]),
        ("lpad", vec![text("a"), int(1001), text("b")]),
        ("concat", vec![value(), value()]),
        ("concat_ws", vec![text(","), value(), value()]),
        ("insert", vec![value(), int(1), int(0), value()]),
        ("replace", vec![value(), text("x"), text("xx")]),
        ("regexp_replace", vec![value(), text("x"), text("xx")]),
        ("make_set", vec![Value::UInt(3), value(), value()]),
        ("export_set", vec![Value::UInt(3), value(), text("")]),
        ("hex", vec![value()]),
        ("quote", vec![Value::text("'".repeat(999))]),
        ("to_base64", vec![Value::bytes(vec![0; 800])]),
    ] {
        assert_eq!(call(name, &arguments), Ok(Value::Null), "{name}");
    }
    assert_eq!(call("repeat", &[text("ab"), int(2)]), Ok(text("abab")));
}

#[test]
fn regular_expressions_that_are_none_have_mysqls_numbers() {
    for (pattern, errno) in [
        ("", 3685),
        ("a(b", 3691),
        ("a)b", 3691),
        ("[a", 3696),
        ("[b-a]", 3697),
        ("a{2,1}", 3693),
        ("*a", 3688),
        ("(?:(?:a{1000}){1000}){1000}", 3700),
    ] {
        let pattern = Value::text(pattern);
        match call("regexp_like", &[text("b"), pattern.clone()]) {
            Err(FunctionError::Regex { errno: given, .. }) => {
                assert_eq!(given, errno, "{pattern:?}")
            }
            other => panic!("{pattern:?}: {other:?}"),
        }
    }
    let looking = call("regexp_like", &[text("b"), text("a(?=b)")]);
    assert!(matches!(looking, Err(FunctionError::NotSupported(_))));
}

#[test]
fn an_expression_that_would_backtrack_for_ever_is_matched_at_once() {
    let text = Value::text("a".repeat(100_000) + "!");
    let found = call("regexp_like", &[text, Value::text("^(a+)+$")]);
    assert_eq!(found, Ok(Value::Int(0)));
}

#[test]
fn waiting_ends_when_the_statement_does() {
    assert_eq!(
        call("sleep", &[Value::Double(1e300)]),
        Err(FunctionError::Interrupted)
    );
}

#[test]
fn base64_and_compression_are_undone() {
    for length in [0, 1, 2, 3, 56, 57, 58, 200] {
        let bytes: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        let encoded = match call("to_base64", &[Value::bytes(bytes.clone())]) {
            Ok(Value::Text(text)) => text.into_owned().into_bytes(),
            other => panic!("{other:?}"),
        };
        let decoded = call("from_base64", &[Value::bytes(encoded)]);
        assert_eq!(decoded, Ok(Value::bytes(bytes.clone())));
        let compressed = call("compress", &[Value::bytes(bytes.clone())]).expect("it has a result");
        assert_eq!(call("uncompress", &[compressed]), Ok(Value::bytes(bytes)));
    }
    let damaged = Value::bytes(b"\x05\0\0\0nonsense".to_vec());
    assert_eq!(call("uncompress", &[damaged]), Ok(Value::Null));
    // A stream may not become longer than its length says.
    let Ok(Value::Bytes(bomb)) = call("compress", &[Value::bytes(vec![0; 900])]) else {
        panic!("it has a result");
    };
    let mut bomb = bomb.into_owned();
    bomb[0] = 1;
    bomb[1] = 0;
    assert_eq!(call("uncompress", &[Value::bytes(bomb)]), Ok(Value::Null));
}

#[test]
fn every_week_of_every_mode_has_seven_days_but_at_a_years_end() {
    for mode in 0..8 {
        let week = |days: i32| {
            let arguments = [Value::Date(days), Value::Int(mode)];
            call("yearweek", &arguments).expect("it has a result")
        };
        for days in (0..20_000).step_by(7) {
            let days = if mode % 2 == 0 { days + 3 } else { days + 4 };
            let all = (days..days + 7).map(&week).collect::<Vec<_>>();
            assert!(
                all.iter().all(|week| *week == all[0]),
                "mode {mode}, day {days}: {all:?}"
            );
            assert_ne!(week(days + 7), all[0]);
        }
    }
}

#[test]
fn strings_begin_with_numbers() {
    let cases = [
        ("5x", 5.0),
        ("x", 0.0),
        (" -1.5e2z", -150.0),
        ("1e", 1.0),
        (".5", 0.5),
        ("", 0.0),
        ("5.", 5.0),
        ("+7", 7.0),
        ("-", 0.0),
        ("1e+", 1.0),
    ];
    for (text, number) in cases {
        assert_eq!(leading_number(text), number, "{text:?}");
    }
}
