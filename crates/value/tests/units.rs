//! Wide decimals against numbers of any length as digit strings: text, bytes, order, arithmetic.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cmp::Ordering;

use perigee_testkit::Big;
use perigee_value::{
    ColumnType, Datum, Units, ValueErrorKind, Wide, decimal, format_value, key, parse_text,
};
use proptest::prelude::*;

/// Digits of a number of up to `most`: nines, powers of ten and neighbours often.
fn digits(most: usize) -> impl Strategy<Value = String> {
    let pattern = prop_oneof![
        Just("9".to_owned()),
        Just("0".to_owned()),
        Just("184467440737095516".to_owned()),
        "[0-9]{1,20}",
    ];
    let first = prop_oneof![Just('1'), Just('5'), Just('9')];
    let count = prop_oneof![Just(most), 1..=most];
    (any::<bool>(), first, pattern, count).prop_map(|(negative, first, pattern, count)| {
        let rest = pattern.chars().cycle().take(count - 1);
        let number: String = std::iter::once(first).chain(rest).collect();
        format!("{}{number}", if negative { "-" } else { "" })
    })
}

/// Digits as units, by arithmetic that other tests check.
fn units(text: &str) -> Units {
    let magnitude = text.bytes().filter(u8::is_ascii_digit);
    let number = magnitude.fold(Units::ZERO, |number, digit| {
        let digit = Units::from(i128::from(digit - b'0'));
        let tens = number.times(Units::from(10), 0).unwrap();
        tens.plus(digit).unwrap()
    });
    if text.starts_with('-') {
        -number
    } else {
        number
    }
}

fn scale() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), Just(30), Just(5), 0u8..=30]
}

#[test]
fn the_ends_of_the_types() {
    let most = units(&"9".repeat(65));
    let wide = most.to_wide(65).unwrap();
    assert_eq!(wide.units(), most);
    assert_eq!((-most).to_wide(65).unwrap().units(), -most);
    assert_eq!(most.to_wide(64), None);
    let more = most.plus(Units::from(1)).unwrap();
    assert_eq!(more.to_wide(65), None);
    assert_eq!(Wide::ZERO.units(), Units::ZERO);
    assert_eq!(Wide::from(-1).units(), Units::from(-1));
    assert_eq!(Wide::from(i128::MIN).units().to_i128(), Some(i128::MIN));
    // A sum of many of them is beyond what is stored, and not beyond what is computed.
    let sum = units(&"9".repeat(76));
    assert_eq!(Units::from_le_bytes(sum.to_le_bytes().unwrap()), sum);
    assert_eq!(Wide::from_le_bytes(sum.to_le_bytes().unwrap()), None);
    assert_eq!(units(&"9".repeat(77)).to_le_bytes(), None);
    assert!(!(-Units::ZERO).is_negative());
    assert_eq!(most.divide(Units::ZERO, (0, 0), 4), None);
}

#[test]
fn products_are_rounded_and_end_somewhere() {
    let (a, b) = (units(&"9".repeat(65)), units("5"));
    let text = |units: Units, scale| {
        let mut text = String::new();
        units.format(scale, &mut text);
        text
    };
    assert_eq!(text(b.times(b, 1).unwrap(), 1), "0.3");
    assert_eq!(text(b.times(-b, 1).unwrap(), 1), "-0.3");
    let square = a.times(a, 0).unwrap();
    assert_eq!(text(square, 0).len(), 130);
    assert_eq!(square.times(a, 0), None);
    assert!(square.plus(square).is_some());
    let half = Units::pow10(154).unwrap();
    assert_eq!(half.times(Units::from(10), 0), None);
    assert_eq!(Units::pow10(155), None);
}

#[test]
fn quotients_are_cut_where_mysql_cuts_them() {
    // 0.00002 / 3 in nine digits.
    let quotient = units("2").divide(units("3"), (5, 0), 9).unwrap();
    assert_eq!(quotient, units("6666"));
    let quotient = units("2").divide(units("3"), (4, 0), 8).unwrap();
    assert_eq!(quotient, units("6667"));
}

proptest! {
    #[test]
    fn texts_are_those_of_the_digits(text in digits(65), scale in scale()) {
        let ty = ColumnType::Decimal { precision: 65, scale };
        let point = Big::of_digits(&text).with_point(usize::from(scale));
        let value = parse_text(ty, point.as_bytes()).unwrap();
        prop_assert_eq!(&value, &Datum::Wide(units(&text).to_wide(65).unwrap()));
        let mut shown = String::new();
        format_value(ty, value.as_ref(), &mut shown);
        prop_assert_eq!(&shown, &point);
        let exponent = format!(" {text}e-{scale} ");
        prop_assert_eq!(parse_text(ty, exponent.as_bytes()), Ok(value));
        // A digit more is rounded behind the point, and too much before it.
        let rounded = Big::of_digits(&format!("{text}5")).rescaled(1, 0);
        let parsed = parse_text(ty, format!("{point}{}5", if scale == 0 { "." } else { "" }).as_bytes());
        match parsed {
            Ok(value) => {
                let mut shown = String::new();
                format_value(ty, value.as_ref(), &mut shown);
                prop_assert_eq!(shown, rounded.with_point(usize::from(scale)));
            }
            Err(error) => {
                prop_assert_eq!(error.kind, ValueErrorKind::OutOfRange);
                prop_assert_eq!(rounded.digit_count(), 66);
            }
        }
    }

    #[test]
    fn bytes_and_keys_order_as_the_digits(a in digits(65), b in digits(65), null: bool) {
        let ty = ColumnType::Decimal { precision: 65, scale: 30 };
        let (x, y) = (Big::of_digits(&a), Big::of_digits(&b));
        let wides = [&a, &b].map(|text| units(text).to_wide(65).unwrap());
        let by_number = x.cmp(&y);
        prop_assert_eq!(wides[0].cmp(&wides[1]), by_number);
        prop_assert_eq!(units(&a).cmp(&units(&b)), by_number);
        let keys = wides.map(|wide| {
            let mut part = Vec::new();
            key::encode_part(ty, null, Datum::Wide(wide).as_ref(), &mut part).unwrap();
            part
        });
        prop_assert_eq!(keys[0].cmp(&keys[1]), by_number);
        prop_assert_eq!(Wide::from_le_bytes(wides[0].to_le_bytes()), Some(wides[0]));
        prop_assert_eq!(Wide::from_bytes(*wides[0].as_bytes()), wides[0]);
    }

    #[test]
    fn arithmetic_is_that_of_the_digits(
        a in digits(76), b in digits(65), drop in 0u8..=60,
    ) {
        let (x, y) = (Big::of_digits(&a), Big::of_digits(&b));
        let (p, q) = (units(&a), units(&b));
        let shown = |units: Option<Units>| units.unwrap().to_string();
        prop_assert_eq!(shown(p.plus(q)), x.plus(&y).to_string());
        prop_assert_eq!(shown(p.minus(q)), x.plus(&y.negated()).to_string());
        prop_assert_eq!(shown(p.times(q, drop)), x.times(&y).rescaled(drop, 0).to_string());
        let (quotient, rest) = x.divided(&y);
        prop_assert_eq!(shown(p.quotient(q)), quotient.to_string());
        prop_assert_eq!(shown(p.remainder(q)), rest.to_string());
        prop_assert_eq!(shown(p.rescale(drop, 0)), x.rescaled(drop, 0).to_string());
        prop_assert_eq!(shown(p.rescale(0, drop)), x.rescaled(0, drop).to_string());
        for precision in 1..=77u8 {
            prop_assert_eq!(p.fits(precision), x.digit_count() <= usize::from(precision));
        }
    }

    #[test]
    fn quotients_are_mysqls(
        a in digits(65), b in digits(65), from in scale(), by in scale(), more in 0u8..=4,
    ) {
        let scale = (from + more).min(30);
        let digits = decimal::quotient_digits(from, by);
        let shift = usize::from(by + digits - from);
        let (long, _) = Big::of_digits(&a).shifted(shift).divided(&Big::of_digits(&b));
        let quotient = units(&a).divide(units(&b), (from, by), scale).unwrap();
        prop_assert_eq!(quotient.to_string(), long.rescaled(digits, scale).to_string());
    }

    #[test]
    fn short_numbers_are_computed_as_in_128_bits(
        a: i128, b: i128, small: i32, scales in (scale(), scale()), more in 0u8..=4,
    ) {
        let (p, q, r) = (Units::from(a), Units::from(b), Units::from(i128::from(small)));
        prop_assert_eq!((p.to_i128(), p.cmp(&q)), (Some(a), a.cmp(&b)));
        let same = |units: Option<Units>, short: Option<i128>| match short {
            Some(short) => units == Some(Units::from(short)),
            None => units.and_then(Units::to_i128).is_none(),
        };
        prop_assert!(same(p.plus(q), a.checked_add(b)));
        prop_assert!(same(p.times(r, 3), decimal::multiply(a, small.into(), 3)));
        prop_assert!(same(p.rescale(5, 2), decimal::rescale(a, 5, 2)));
        let scale = (scales.0 + more).min(30);
        let short = decimal::divide(a, small.into(), scales, scale);
        prop_assert!(same(p.divide(r, scales, scale), short));
        let (mut long, mut short) = (String::new(), String::new());
        p.format(scales.0, &mut long);
        decimal::format(a, scales.0, &mut short);
        prop_assert_eq!(long, short);
        prop_assert_eq!(p.to_f64(scales.0), decimal::to_f64(a, scales.0));
    }

    #[test]
    fn doubles_come_and_go(value in prop::num::f64::NORMAL, scale in scale()) {
        prop_assume!(value.abs() < 1e60);
        let short = decimal::from_f64(value, scale);
        let long = Units::from_f64(value, scale).unwrap();
        match short {
            Some(short) => prop_assert_eq!(long, Units::from(short)),
            None => prop_assert_eq!(long.to_i128(), None),
        }
        if value.abs() > 1e16 {
            prop_assert_eq!(long.to_f64(scale), value);
        }
        prop_assert_eq!(long.cmp(&Units::ZERO) == Ordering::Less, long.is_negative());
    }
}
