//! What is parsed, printed, ordered, selected and changed, by example and at random.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap_or_else(|at| panic!("{text}: at {at}"))
}

#[test]
fn texts_have_one_form() {
    for (text, form) in [
        (" null ", "null"),
        ("[ ]", "[]"),
        ("{ }", "{}"),
        ("[1,2 ,\t3\n]", "[1, 2, 3]"),
        (
            r#"{"bb":1,"a":2,"b":{"z":[true,false]}}"#,
            r#"{"a": 2, "b": {"z": [true, false]}, "bb": 1}"#,
        ),
        (r#"{"é":1,"zz":2,"b":3}"#, r#"{"b": 3, "zz": 2, "é": 1}"#),
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#),
        (r#"{"b":1,"a":2,"b":{},"b":[]}"#, r#"{"a": 2, "b": []}"#),
        (
            r#""\u0041\n\/\u00e9\ud83d\ude00\u0001""#,
            "\"A\\n/é😀\\u0001\"",
        ),
        ("-0", "0"),
        ("-0.0", "-0.0"),
        ("1.0", "1.0"),
        ("1.50", "1.5"),
        ("1e2", "100.0"),
        ("1E-5", "0.00001"),
        ("1e20", "1e20"),
        ("123456789012345678901234567890", "1.2345678901234568e29"),
        ("9223372036854775808", "9223372036854775808"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1e-400", "0.0"),
    ] {
        assert_eq!(json(text).to_string(), form, "{text}");
        assert_eq!(normalise(text.as_bytes()).unwrap(), form);
    }
}

#[test]
fn wrong_texts_are_refused_where_mysql_refuses_them() {
    for (text, message, at) in [
        ("", "The document is empty.", 0),
        ("  ", "The document is empty.", 2),
        ("[1, 2,", "Invalid value.", 6),
        ("abc", "Invalid value.", 0),
        ("nul", "Invalid value.", 3),
        ("tru e", "Invalid value.", 3),
        (
            "1 2",
            "The document root must not be followed by other values.",
            2,
        ),
        (
            "01",
            "The document root must not be followed by other values.",
            1,
        ),
        ("{a: 1}", "Missing a name for object member.", 1),
        (
            r#"{"a" 1}"#,
            "Missing a colon after a name of object member.",
            5,
        ),
        (
            r#"{"a": 1 "b"}"#,
            "Missing a comma or } after an object member.",
            8,
        ),
        ("[1 2]", "Missing a comma or ] after an array element.", 3),
        (r#"["a]"#, "Missing a closing quotation mark in string.", 4),
        (r#""\x""#, "Invalid escape character in string.", 1),
        (
            r#""a\u12g4""#,
            "Incorrect hex digit after \\u escape in string.",
            2,
        ),
        (
            r#""\ud800x""#,
            "The surrogate pair in string is invalid.",
            1,
        ),
        (r#""\udc00""#, "The surrogate pair in string is invalid.", 1),
        ("\"a\tb\"", "Invalid encoding in string.", 2),
        ("1.", "Miss fraction part in number.", 2),
        ("1e+", "Miss exponent in number.", 3),
        ("[1e400]", "Number too big to be stored in double.", 1),
        ("-", "Invalid value.", 1),
        ("[1,]", "Invalid value.", 3),
    ] {
        let error = Json::parse(text).unwrap_err();
        assert_eq!(
            (&*error.kind.to_string(), error.at),
            (message, at),
            "{text}"
        );
    }
    let invalid = normalise(b"\"\xff\"").unwrap_err();
    assert_eq!(invalid, JsonErrorKind::InvalidEncoding.at(1));
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deepest = json(&nested(MAX_DEPTH));
    assert_eq!(deepest.depth(), MAX_DEPTH);
    assert!(deepest.check_depth().is_ok());
    let error = Json::parse(&nested(MAX_DEPTH + 1)).unwrap_err();
    assert_eq!(error.kind, JsonErrorKind::TooDeep);
    assert!(Json::Array(vec![deepest]).check_depth().is_err());
    let open = "[".repeat(1_000_000);
    assert_eq!(Json::parse(&open).unwrap_err().kind, JsonErrorKind::TooDeep);
}

#[test]
fn decimals_keep_their_digits() {
    for (digits, kind) in [
        ("19.90", "DECIMAL"),
        ("19.9", "DOUBLE"),
        ("-0.10", "DECIMAL"),
        ("5", "INTEGER"),
        ("12345678901234567890123456789.5", "DECIMAL"),
        ("18446744073709551616", "DECIMAL"),
    ] {
        let value = Json::Number(Number::exact(digits));
        assert_eq!(value.to_string(), digits);
        assert_eq!(value.type_name(), kind, "{digits}");
        assert_eq!(Json::read(digits).unwrap(), value);
    }
}

#[test]
fn values_are_ordered_by_type_first() {
    let ascending = [
        "null",
        "-1e300",
        "-2",
        "-1.5",
        "-1",
        "-0.5",
        "0",
        "0.5",
        "1",
        "1.5",
        "2",
        "10",
        "100",
        "9007199254740993",
        "1e300",
        "\"\"",
        "\"A\"",
        "\"AB\"",
        "\"a\"",
        "{}",
        "{\"a\": 1}",
        "[]",
        "[1]",
        "[1, 2]",
        "[2]",
        "[true]",
        "false",
        "true",
    ];
    for pair in ascending.windows(2) {
        assert!(
            json(pair[0]).sort_key() < json(pair[1]).sort_key(),
            "{pair:?}"
        );
    }
    for (a, b) in [
        ("1", "1.0"),
        ("0", "-0.0"),
        ("100", "1e2"),
        ("9223372036854775808", "9223372036854775808.0"),
        ("{\"a\": 1, \"b\": [2]}", "{\"b\": [2.0], \"a\": 1.0}"),
    ] {
        assert!(json(a).equals(&json(b)), "{a} {b}");
    }
    assert!(json("1.50").equals(&Json::Number(Number::exact("1.50"))));
    assert!(!json("9007199254740993").equals(&json("9007199254740992.0")));
    assert!(!json("\"a\"").equals(&json("\"a \"")), "spaces count");
}

#[test]
fn paths_select() {
    let document = json(r#"{"a": [1, {"b": 2}, [3, 4]], "b c": 5, "b": {"b": 6}, "é": 7}"#);
    for (text, expected) in [
        ("$", "whole"),
        ("$.a[0]", "1"),
        (" $ . a [ 1 ] . b ", "2"),
        ("$.\"b c\"", "5"),
        ("$.é", "7"),
        ("$.a[2][1]", "4"),
        ("$.a[last][last-1]", "3"),
        ("$.a[last-3]", ""),
        ("$.a[9]", ""),
        ("$.a[0 to 1]", "1,{\"b\": 2}"),
        ("$.a[1 to 9]", "{\"b\": 2},[3, 4]"),
        ("$.a[last-1 to last]", "{\"b\": 2},[3, 4]"),
        ("$.a[last-9 to 0]", "1"),
        ("$.a[*]", "1,{\"b\": 2},[3, 4]"),
        ("$.a[*].b", "2"),
        ("$.*", "[1, {\"b\": 2}, [3, 4]],{\"b\": 6},7,5"),
        ("$**.b", "{\"b\": 6},2,6"),
        ("$.a**[1]", "{\"b\": 2},4"),
        ("$.b.b[0][last]", "6"),
        ("$.b.b[*]", ""),
        ("$.b.b[0 to 5]", "6"),
        ("$.b.b[1]", ""),
        ("$.x", ""),
    ] {
        let found = path(text).select(&document);
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected = match expected {
            "whole" => document.to_string(),
            other => other.to_owned(),
        };
        assert_eq!(texts.join(","), expected, "{text}");
    }
    let nested = json("[[1]]");
    assert_eq!(path("$**[0]").select(&nested).len(), 2, "no value twice");
}

#[test]
fn wrong_paths_are_refused() {
    for (text, at) in [
        ("", 0),
        ("a", 1),
        ("$.", 2),
        ("$.1a", 2),
        ("$.a b", 4),
        ("$a", 1),
        ("$[a]", 2),
        ("$[1", 3),
        ("$[2 to 1]", 8),
        ("$**", 3),
        ("$.a.\"x", 4),
        ("$é", 1),
        ("$[4294967296]", 2),
    ] {
        assert_eq!(Path::parse(text), Err(at), "{text}");
    }
    assert!(!path("$.a[*]").is_single() && !path("$**.a").is_single());
    assert!(!path("$[0 to 1]").is_single() && path("$.a[last]").is_single());
}

#[test]
fn changes() {
    let start = r#"{"a": 1, "b": [2, 3]}"#;
    for (at, edit, expected) in [
        ("$.a", Edit::Set, r#"{"a": 9, "b": [2, 3]}"#),
        ("$.c", Edit::Set, r#"{"a": 1, "b": [2, 3], "c": 9}"#),
        ("$.a", Edit::Insert, start),
        ("$.c", Edit::Insert, r#"{"a": 1, "b": [2, 3], "c": 9}"#),
        ("$.c", Edit::Replace, start),
        ("$.b[0]", Edit::Replace, r#"{"a": 1, "b": [9, 3]}"#),
        ("$.b[7]", Edit::Set, r#"{"a": 1, "b": [2, 3, 9]}"#),
        ("$.b[last-7]", Edit::Set, r#"{"a": 1, "b": [9, 2, 3]}"#),
        ("$.a[0]", Edit::Set, r#"{"a": 9, "b": [2, 3]}"#),
        ("$.a[1]", Edit::Set, r#"{"a": [1, 9], "b": [2, 3]}"#),
        ("$.a[last-1]", Edit::Set, r#"{"a": [9, 1], "b": [2, 3]}"#),
        ("$.x.y", Edit::Set, start),
        ("$.a.y", Edit::Set, start),
        ("$", Edit::Set, "9"),
        ("$", Edit::Insert, start),
    ] {
        let mut value = json(start);
        value.edit(&path(at), json("9"), edit);
        assert_eq!(value.to_string(), expected, "{at} {edit:?}");
    }
    for (at, expected) in [
        ("$.a", r#"{"b": [2, 3]}"#),
        ("$.b[0]", r#"{"a": 1, "b": [3]}"#),
        ("$.b[last]", r#"{"a": 1, "b": [2]}"#),
        ("$.a[0]", start),
        ("$.x", start),
    ] {
        let mut value = json(start);
        value.remove(&path(at));
        assert_eq!(value.to_string(), expected, "{at}");
    }
    let patch = |a, b| json(a).merge_patch(json(b)).to_string();
    assert_eq!(
        patch(
            r#"{"a": 1, "b": {"c": 2}}"#,
            r#"{"a": null, "b": {"d": null, "e": 3}}"#
        ),
        r#"{"b": {"c": 2, "e": 3}}"#
    );
    assert_eq!(patch("[1]", r#"{"a": {"b": null}}"#), r#"{"a": {}}"#);
    assert_eq!(patch(r#"{"a": 1}"#, "5"), "5");
    let preserve = |a, b| json(a).merge_preserve(json(b)).to_string();
    assert_eq!(preserve("[1, 2]", "3"), "[1, 2, 3]");
    assert_eq!(
        preserve(r#"{"a": 1, "b": 2}"#, r#"{"a": [3], "c": 4}"#),
        r#"{"a": [1, 3], "b": 2, "c": 4}"#
    );
}

#[test]
fn containment() {
    for (target, candidate, expected) in [
        ("1", "1.0", true),
        ("\"1\"", "1", false),
        ("[1, [2, 3], {\"a\": 4, \"b\": 5}]", "[{\"a\": 4}, 1]", true),
        ("[1, [2, 3]]", "[3]", true),
        ("[1, [2, 3]]", "[[2]]", true),
        ("[1]", "[]", true),
        ("1", "[1]", false),
        ("{\"a\": [1, 2]}", "{\"a\": 2}", true),
        ("{\"a\": 1}", "{}", true),
        ("{\"a\": 1}", "{\"b\": 1}", false),
        ("{\"a\": 1}", "1", false),
    ] {
        assert_eq!(
            json(target).contains(&json(candidate)),
            expected,
            "{target} {candidate}"
        );
    }
    for (left, right, expected) in [
        ("[1, 2]", "[2, 3]", true),
        ("[1, 2]", "[3]", false),
        ("[[1]]", "[1]", false),
        ("[1, 2]", "2", true),
        ("1", "1.0", true),
        ("{\"a\": 1, \"b\": 2}", "{\"b\": 2}", true),
        ("{\"a\": 1}", "{\"a\": 2}", false),
        ("{\"a\": 1}", "1", false),
    ] {
        assert_eq!(
            json(left).overlaps(&json(right)),
            expected,
            "{left} {right}"
        );
        assert_eq!(
            json(right).overlaps(&json(left)),
            expected,
            "{right} {left}"
        );
    }
    assert!(json("[1]").is_member_of(&json("[[1.0], 2]")));
    assert!(json("2").is_member_of(&json("2.0")) && !json("2").is_member_of(&json("[[2]]")));
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::Int),
        (-3i64..=3).prop_map(Number::Int),
        any::<u64>().prop_map(Number::unsigned),
        any::<f64>().prop_map(Number::double),
        (-4i32..4).prop_map(|v| Number::double(f64::from(v) / 2.0)),
        (any::<i64>(), 0usize..10).prop_map(|(units, scale)| {
            let digits = format!("{:0width$}", units.unsigned_abs(), width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            let sign = if units < 0 { "-" } else { "" };
            let point = if scale > 0 { "." } else { "" };
            Number::exact(&format!("{sign}{whole}{point}{fraction}"))
        }),
    ]
}

/// Values with names and strings that meet.
fn value() -> impl Strategy<Value = Json> {
    let text = || prop_oneof!["[abé\"\\\\\u{0}\n ]{0,3}", "\\PC{0,3}"];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number().prop_map(Json::Number),
        text().prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let members = prop::collection::vec((text(), inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Json::Array),
            members.prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Paths that lead somewhere often.
fn any_path() -> impl Strategy<Value = Path> {
    let leg = prop_oneof![
        "[ab]".prop_map(|name| format!(".{name}")),
        (0usize..3).prop_map(|n| format!("[{n}]")),
        (0usize..3).prop_map(|n| format!("[last-{n}]")),
        Just(".*".to_owned()),
        Just("[*]".to_owned()),
        Just("**.a".to_owned()),
        Just("[0 to last]".to_owned()),
    ];
    prop::collection::vec(leg, 0..4).prop_map(|legs| path(&format!("${}", legs.concat())))
}

proptest! {
    #[test]
    fn what_is_printed_is_read(value in value()) {
        let text = value.to_string();
        let again = Json::read(&text).unwrap();
        prop_assert_eq!(&again, &value);
        prop_assert_eq!(again.sort_key(), value.sort_key());
    }

    #[test]
    fn printing_is_a_fixed_point(value in value()) {
        let form = normalise(value.to_string().as_bytes()).unwrap();
        prop_assert_eq!(normalise(form.as_bytes()).unwrap(), form.clone());
        prop_assert_eq!(Json::read(&form).unwrap().to_string(), form);
    }

    #[test]
    fn numbers_are_ordered_as_numbers(a in number(), b in number()) {
        let (x, y) = (Json::Number(a.clone()), Json::Number(b.clone()));
        // Doubles tell two numbers apart unless they are nearly equal.
        match a.to_f64().partial_cmp(&b.to_f64()).unwrap() {
            Ordering::Equal => {}
            order => prop_assert_eq!(x.sort_key().cmp(&y.sort_key()), order),
        }
        if let (Number::Int(a), Number::Int(b)) = (&a, &b) {
            prop_assert_eq!(x.sort_key().cmp(&y.sort_key()), a.cmp(b));
        }
    }

    #[test]
    fn strings_are_ordered_as_bytes(a in "[ab\u{0}\u{1}]{0,4}", b in "[ab\u{0}\u{1}]{0,4}") {
        let key = |text: &str| Json::String(text.to_owned()).sort_key();
        prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
    }

    #[test]
    fn a_value_contains_itself(value in value()) {
        prop_assert!(value.contains(&value));
        prop_assert!(value.is_member_of(&Json::Array(vec![value.clone()])));
    }

    #[test]
    fn what_is_set_is_found_and_what_is_removed_is_not(
        mut document in value(), path in any_path(), new in value(),
    ) {
        prop_assert_eq!(Path::parse(&path.to_string()).unwrap(), path.clone());
        if !path.is_single() {
            return Ok(());
        }
        let was = path.select(&document).len();
        prop_assert!(was <= 1);
        document.edit(&path, new.clone(), Edit::Set);
        let is_member = |leg: &Leg| matches!(leg, Leg::Member(_));
        // The first cell of what is no array is another one when it became an array.
        if was == 1 && path.legs().iter().all(is_member) {
            prop_assert_eq!(path.select(&document), vec![&new]);
        }
        let length = document.to_string().len();
        document.remove(&path);
        prop_assert!(document.to_string().len() <= length);
    }
}
