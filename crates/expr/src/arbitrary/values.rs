//! Random values and types.

use perigee_value::{Collation, ColumnType, Datum, bits, date, decimal, string, time};
use rand::Rng;
use rand::rngs::StdRng;

use crate::Type;

/// Characters of random strings: few, so that strings meet; with spaces, control and multi-byte
/// characters.
const ALPHABET: [char; 16] = [
    'a', 'b', 'c', 'A', 'E', ' ', ' ', '\t', '%', '_', 'é', '€', '😀', '🚀', 'ß', 's',
];

pub(super) fn decimal_type(rng: &mut StdRng) -> Type {
    let precision = match rng.random_range(0..4) {
        0 => rng.random_range(1..=9),
        1 => 15,
        2 => rng.random_range(10..=18),
        _ => rng.random_range(19..=38),
    };
    Type::Decimal {
        precision,
        scale: rng.random_range(0..=precision.min(6)),
    }
}

/// An integer within bounds: a small one, an edge, or any.
pub(super) fn integer(rng: &mut StdRng, least: i128, greatest: i128) -> i128 {
    let value = match rng.random_range(0..10) {
        0..6 => rng.random_range(-12..=12),
        6 => least + rng.random_range(0..2),
        7 => greatest - rng.random_range(0..2),
        8 => rng.random_range(-1_000_000..=1_000_000),
        _ => rng.random_range(least..=greatest),
    };
    value.clamp(least, greatest)
}

pub(super) fn units(rng: &mut StdRng, precision: u8) -> i128 {
    let limit = decimal::pow10(precision) - 1;
    integer(rng, -limit, limit)
}

pub(super) fn double(rng: &mut StdRng) -> f64 {
    let value = match rng.random_range(0..10) {
        0..5 => f64::from(rng.random_range(-40..=40)) / 4.0,
        5 => f64::from(rng.random_range(-1000..=1000)) / 10.0,
        6 => rng.random_range(-1.0..1.0) * 10f64.powi(rng.random_range(-20..20)),
        7 => rng.random_range(-1.0..1.0) * 10f64.powi(rng.random_range(-300..300)),
        8 => [1e308, -1e308, 9.223_372_036_854_776e18, 1e15, 123_456.5][rng.random_range(0..5)],
        _ => 0.0,
    };
    // There is no negative zero: MySQL versions print it differently.
    if value == 0.0 { 0.0 } else { value }
}

pub(super) fn day(rng: &mut StdRng) -> i32 {
    match rng.random_range(0..8) {
        0 => date::MIN_DAY + rng.random_range(0..3),
        1 => date::MAX_DAY - rng.random_range(0..3),
        2 => rng.random_range(date::MIN_DAY..=date::MAX_DAY),
        _ => rng.random_range(8035..8040),
    }
}

pub(super) fn micros(rng: &mut StdRng) -> i64 {
    let time = match rng.random_range(0..3) {
        0 => 0,
        1 => rng.random_range(0..86_400) * 1_000_000,
        _ => rng.random_range(0..date::DAY_MICROS),
    };
    date::day_to_micros(day(rng)) + time
}

/// A TIME.
fn span(rng: &mut StdRng) -> i64 {
    match rng.random_range(0..4) {
        0 => rng.random_range(-2..=2) * 1_000_000,
        1 => rng.random_range(0..86_400) * 1_000_000,
        2 => [-time::MAX_TIME, time::MAX_TIME][rng.random_range(0..2)],
        _ => rng.random_range(-time::MAX_TIME..=time::MAX_TIME),
    }
}

pub(super) fn text(rng: &mut StdRng, most: usize) -> String {
    let len = if rng.random_bool(0.7) {
        rng.random_range(0..=most.min(4))
    } else {
        most
    };
    (0..len)
        .map(|_| ALPHABET[rng.random_range(0..ALPHABET.len())])
        .collect()
}

/// A collation other than `utf8mb4_bin`, one that MariaDB has, too, if that is wanted.
pub(super) fn collation(rng: &mut StdRng, as_mariadb: bool) -> Collation {
    const ALL: [Collation; 6] = [
        Collation::UTF8MB4_GENERAL_CI,
        Collation::UTF8MB4_UNICODE_CI,
        Collation::UTF8MB4_UNICODE_520_CI,
        Collation::UTF8MB4_0900_AI_CI,
        Collation::UTF8MB4_0900_AS_CS,
        Collation::UTF8MB4_0900_BIN,
    ];
    let among = if as_mariadb { 3 } else { ALL.len() };
    ALL[rng.random_range(0..among)]
}

/// A LIKE pattern.
pub(super) fn pattern(rng: &mut StdRng) -> String {
    let len = rng.random_range(0..7);
    let piece = |rng: &mut StdRng| match rng.random_range(0..8) {
        0..3 => '%',
        3 => '_',
        4 => '|',
        _ => ALPHABET[rng.random_range(0..ALPHABET.len())],
    };
    (0..len).map(|_| piece(rng)).collect()
}

/// A value of a column type, as it is stored.
pub(super) fn column_value(rng: &mut StdRng, ty: ColumnType) -> Datum {
    match ty {
        ColumnType::Int { bytes, unsigned } => {
            let (least, greatest) = ColumnType::int_range(bytes, unsigned);
            let value = integer(rng, least, greatest);
            if unsigned {
                Datum::UInt(value as u64)
            } else {
                Datum::Int(value as i64)
            }
        }
        ColumnType::Decimal { precision, .. } => Datum::Decimal(units(rng, precision)),
        ColumnType::Float => {
            let value = double(rng) as f32;
            Datum::Double(if value.is_finite() {
                f64::from(value)
            } else {
                1.5
            })
        }
        ColumnType::Double => Datum::Double(double(rng)),
        ColumnType::Date => Datum::Date(day(rng)),
        ColumnType::DateTime { fsp } => {
            let unit = 10i64.pow(6 - u32::from(fsp));
            Datum::DateTime(micros(rng).div_euclid(unit) * unit)
        }
        ColumnType::Timestamp { fsp } => {
            let unit = 10i64.pow(6 - u32::from(fsp));
            let micros = rng.random_range(1_000_000..(1 << 31) * 1_000_000);
            Datum::DateTime(micros / unit * unit)
        }
        ColumnType::Time { fsp } => {
            let unit = 10i64.pow(6 - u32::from(fsp));
            Datum::Time(span(rng) / unit * unit)
        }
        ColumnType::Bit { bits } => {
            Datum::UInt(integer(rng, 0, bits::greatest(bits).into()) as u64)
        }
        ColumnType::Year => Datum::UInt(match rng.random_range(0..6) {
            0 => 0,
            _ => rng.random_range(1901..=2155),
        }),
        ColumnType::Char { chars, .. } => {
            let text = text(rng, usize::from(chars));
            Datum::String(string::trim_end(text.as_bytes()).to_vec())
        }
        ColumnType::Varchar { chars, .. } => {
            Datum::String(text(rng, usize::from(chars)).into_bytes())
        }
        ColumnType::Long { .. } | ColumnType::Json => Datum::String(text(rng, 40).into_bytes()),
    }
}

/// A constant of a type, not NULL.
pub(super) fn constant(rng: &mut StdRng, ty: Type) -> Datum {
    match ty {
        Type::Bool => Datum::Bool(rng.random()),
        Type::Int => Datum::Int(integer(rng, i64::MIN.into(), i64::MAX.into()) as i64),
        Type::UInt => Datum::UInt(integer(rng, 0, u64::MAX.into()) as u64),
        Type::Decimal { precision, .. } => Datum::Decimal(units(rng, precision)),
        Type::Double => Datum::Double(double(rng)),
        Type::Date => Datum::Date(day(rng)),
        Type::DateTime => Datum::DateTime(micros(rng)),
        Type::Time => Datum::Time(span(rng)),
        Type::String | Type::Collated(_) => Datum::String(text(rng, 12).into_bytes()),
    }
}
