//! Conversion of a value to a column's type, as INSERT does in strict mode: rounding is silent,
//! everything else that would change the value is an error.

use crate::date::{self, round_micros};
use crate::json::{Json, JsonErrorKind};
use crate::text::{
    day_from_number, fit_time, format_value, micros_from_number, time_from_number, year_from_number,
};
use crate::time::{round_time, time_number};
use crate::{
    ColumnType, Datum, Units, ValueError, ValueErrorKind, ValueRef, bits, decimal, parse_text,
};

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// BIGINT UNSIGNED.
const UNSIGNED: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: true,
};

impl ColumnType {
    /// `value`, which is of type `from`, as a value of this type. A truth value counts as the
    /// integer 0 or 1; NULL stays NULL.
    pub fn coerce(self, value: Datum, from: Self) -> Result<Datum, ValueError> {
        let value = if let Datum::Bool(v) = value {
            Datum::Int(i64::from(v))
        } else {
            value
        };
        match value {
            Datum::Null => Ok(Datum::Null),
            Datum::String(text) if from == Self::Json => self.coerce_json(text),
            Datum::String(text) => parse_text(self, &text),
            value => self.coerce_non_string(value, from),
        }
    }

    /// A JSON text in normal form as a value of this type: its text for strings, for the others what
    /// SQL sees of a scalar.
    fn coerce_json(self, text: Vec<u8>) -> Result<Datum, ValueError> {
        if self == Self::Json {
            return Ok(Datum::String(text));
        }
        if self.is_string() {
            return parse_text(self, &text);
        }
        let read = str::from_utf8(&text).ok();
        let scalar = read
            .and_then(|text| Json::read(text).ok())
            .and_then(|value| value.scalar_text());
        match scalar {
            // A number, not the bytes of its digits.
            Some(scalar) if matches!(self, Self::Bit { .. }) => {
                let number = parse_text(UNSIGNED, scalar.as_bytes())?;
                self.coerce(number, UNSIGNED)
            }
            Some(scalar) => parse_text(self, scalar.as_bytes()),
            None => Err(ValueError::new(ValueErrorKind::Incorrect, self, &text)),
        }
    }

    fn coerce_non_string(self, value: Datum, from: Self) -> Result<Datum, ValueError> {
        let error = |kind| {
            let mut text = String::new();
            format_value(from, value.as_ref(), &mut text);
            ValueError::new(kind, self, text.as_bytes())
        };
        let out_of_range = || error(ValueErrorKind::OutOfRange);
        match self {
            Self::Int { bytes, unsigned } => {
                let number = to_integer(&value, from).ok_or_else(out_of_range)?;
                let (least, greatest) = Self::int_range(bytes, unsigned);
                if !(least..=greatest).contains(&number) {
                    return Err(out_of_range());
                }
                Ok(if unsigned {
                    Datum::UInt(number as u64)
                } else {
                    Datum::Int(number as i64)
                })
            }
            Self::Decimal { precision, .. } if self.is_wide() => {
                let units = long_units(&value, from, self.scale());
                let fitting = units.and_then(|units| units.to_wide(precision));
                fitting.map(Datum::Wide).ok_or_else(out_of_range)
            }
            Self::Decimal { precision, scale } => {
                let units = match (&value, from) {
                    (Datum::Wide(_), _) => long_units(&value, from, scale).and_then(Units::to_i128),
                    (Datum::Decimal(v), Self::Decimal { scale: from, .. }) => {
                        decimal::rescale(*v, from, scale)
                    }
                    (Datum::Double(v), _) => decimal::from_f64(*v, scale),
                    (Datum::DateTime(_) | Datum::Time(_), _) => {
                        clock_units(&value).and_then(|units| decimal::rescale(units, 6, scale))
                    }
                    _ => to_integer(&value, from).and_then(|v| decimal::rescale(v, 0, scale)),
                };
                let fitting = units.filter(|units| decimal::fits(*units, precision));
                fitting.map(Datum::Decimal).ok_or_else(out_of_range)
            }
            Self::Float | Self::Double => {
                let number = to_double(&value, from).ok_or_else(out_of_range)?;
                let number = if self == Self::Float {
                    f64::from(number as f32)
                } else {
                    number
                };
                if number.is_finite() {
                    Ok(Datum::Double(number))
                } else {
                    Err(out_of_range())
                }
            }
            Self::Date => {
                let days = match value {
                    Datum::Date(v) => Some(v),
                    Datum::DateTime(v) => Some(date::split_micros(v).0),
                    // MySQL takes today's date, which is not known here.
                    Datum::Time(_) => None,
                    _ => to_integer(&value, from).and_then(day_from_number),
                };
                days.map(Datum::Date)
                    .ok_or_else(|| error(ValueErrorKind::Incorrect))
            }
            Self::DateTime { fsp } | Self::Timestamp { fsp } => {
                let micros = match value {
                    Datum::Date(v) => Some(date::day_to_micros(v)),
                    Datum::DateTime(v) => Some(round_micros(v, fsp)),
                    Datum::Time(_) => None,
                    _ => to_integer(&value, from).and_then(micros_from_number),
                };
                let valid = micros.filter(|micros| self.has_micros(*micros));
                valid
                    .map(Datum::DateTime)
                    .ok_or_else(|| error(ValueErrorKind::Incorrect))
            }
            Self::Time { fsp } => {
                let micros = match value {
                    Datum::Date(_) => Some(0),
                    Datum::DateTime(v) => Some(v.rem_euclid(date::DAY_MICROS)),
                    Datum::Time(v) => Some(v),
                    _ => time_of_number(&value, from),
                };
                fit_time(micros, fsp).map(Datum::Time).map_err(error)
            }
            Self::Year => {
                let year = match value {
                    Datum::Date(_) | Datum::DateTime(_) => year_of(&value),
                    Datum::Time(_) => return Err(error(ValueErrorKind::Incorrect)),
                    _ => to_integer(&value, from),
                };
                let year = year.and_then(year_from_number);
                year.map(Datum::UInt).ok_or_else(out_of_range)
            }
            Self::Bit { bits }
                if !matches!(value, Datum::Date(_) | Datum::DateTime(_) | Datum::Time(_)) =>
            {
                let number = match value {
                    Datum::Double(v) => to_integer(&Datum::Double(v.trunc()), from),
                    _ => to_integer(&value, from),
                };
                let pattern = number.and_then(|number| bits::of_number(bits, number));
                let pattern = pattern.map(Datum::UInt);
                pattern.ok_or_else(|| error(ValueErrorKind::TooLong))
            }
            Self::Json => Err(error(ValueErrorKind::Json(JsonErrorKind::NotText.at(0)))),
            // A BIT takes the bytes of the text of a date or a time.
            Self::Bit { .. } | Self::Char { .. } | Self::Varchar { .. } | Self::Long { .. } => {
                let mut text = String::new();
                format_value(from, value.as_ref(), &mut text);
                parse_text(self, text.as_bytes())
            }
        }
    }
}

/// The value as an integer; dates as 19940131 and 19940131235959. Decimals round half away from
/// zero, doubles half to even.
fn to_integer(value: &Datum, from: ColumnType) -> Option<i128> {
    match *value {
        Datum::Int(v) => Some(i128::from(v)),
        Datum::UInt(v) => Some(i128::from(v)),
        Datum::Decimal(v) => match from {
            ColumnType::Decimal { scale, .. } => decimal::rescale(v, scale, 0),
            _ => Some(v),
        },
        Datum::Wide(v) => v.units().rescale(from.scale(), 0)?.to_i128(),
        Datum::Double(v) => {
            // 2^64 bounds every integer type.
            let rounded = v.round_ties_even();
            (rounded.abs() < 1e20).then_some(rounded as i128)
        }
        Datum::Date(v) => Some(date_number(v)),
        Datum::DateTime(v) => Some(moment_number(round_micros(v, 0))),
        Datum::Time(v) => Some(time_number(round_time(v, 0)).into()),
        Datum::Null | Datum::String(_) | Datum::Overflow(_) | Datum::Bool(_) => None,
    }
}

/// A point in time as a number such as 20200131235959; fractions are dropped.
fn moment_number(micros: i64) -> i128 {
    let (days, time) = date::split_micros(micros);
    let (hour, minute) = (i128::from(time.hour), i128::from(time.minute));
    let clock = hour * 10_000 + minute * 100 + i128::from(time.second);
    date_number(days) * 1_000_000 + clock
}

/// A point in time or a time as a number such as 235959.5, in units of 10^-6.
fn clock_units(value: &Datum) -> Option<i128> {
    let (whole, micros) = match *value {
        Datum::DateTime(v) => (moment_number(v), v.rem_euclid(SECOND)),
        Datum::Time(v) => (time_number(v).into(), v % SECOND),
        _ => return None,
    };
    Some(whole * i128::from(SECOND) + i128::from(micros))
}

/// The value in units of 10^-`scale`, if it is a number or becomes one.
fn long_units(value: &Datum, from: ColumnType, scale: u8) -> Option<Units> {
    match value {
        Datum::Wide(v) => v.units().rescale(from.scale(), scale),
        Datum::Decimal(v) => Units::from(*v).rescale(from.scale(), scale),
        Datum::Double(v) => Units::from_f64(*v, scale),
        Datum::DateTime(_) | Datum::Time(_) => Units::from(clock_units(value)?).rescale(6, scale),
        _ => Units::from(to_integer(value, from)?).rescale(0, scale),
    }
}

/// A number such as 235959.5 as a time, perhaps one longer than a TIME is.
fn time_of_number(value: &Datum, from: ColumnType) -> Option<i64> {
    const MICROS: i128 = 1_000_000;
    let units = match (value, from) {
        (Datum::Decimal(v), ColumnType::Decimal { scale, .. }) => decimal::rescale(*v, scale, 6)?,
        (Datum::Wide(_), _) => long_units(value, from, 6)?.to_i128()?,
        (Datum::Double(v), _) => decimal::from_f64(*v, 6)?,
        _ => to_integer(value, from)?.checked_mul(MICROS)?,
    };
    let fraction = (units % MICROS) as i64;
    Some(time_from_number(units / MICROS)?.saturating_add(fraction))
}

fn year_of(value: &Datum) -> Option<i128> {
    let days = match *value {
        Datum::Date(days) => days,
        Datum::DateTime(micros) => date::split_micros(micros).0,
        _ => return None,
    };
    Some(date::Civil::from_days(days).year.into())
}

fn date_number(days: i32) -> i128 {
    let date::Civil { year, month, day } = date::Civil::from_days(days);
    i128::from(year) * 10_000 + i128::from(month) * 100 + i128::from(day)
}

fn to_double(value: &Datum, from: ColumnType) -> Option<f64> {
    match (value, from) {
        (Datum::Double(v), _) => Some(*v),
        (Datum::Decimal(v), ColumnType::Decimal { scale, .. }) => Some(decimal::to_f64(*v, scale)),
        (Datum::Wide(v), _) => Some(v.units().to_f64(from.scale())),
        (Datum::Int(v), _) => Some(*v as f64),
        (Datum::UInt(v), _) => Some(*v as f64),
        (Datum::DateTime(_) | Datum::Time(_), _) => Some(decimal::to_f64(clock_units(value)?, 6)),
        _ => to_integer(value, from).map(|v| v as f64),
    }
}

/// Converts between owned and borrowed values.
impl From<ValueRef<'_>> for Datum {
    fn from(value: ValueRef<'_>) -> Self {
        value.to_datum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const INT: ColumnType = ColumnType::Int {
        bytes: 4,
        unsigned: false,
    };
    const TINY: ColumnType = ColumnType::Int {
        bytes: 1,
        unsigned: true,
    };
    const DEC: ColumnType = ColumnType::Decimal {
        precision: 5,
        scale: 2,
    };
    const CHAR: ColumnType = ColumnType::Char {
        chars: 10,
        collation: crate::Collation::UTF8MB4_BIN,
    };

    #[test]
    fn fractions_of_times_stay_in_numbers_that_have_them() {
        let time = |text: &[u8]| parse_text(ColumnType::Time { fsp: 2 }, text).unwrap();
        let moment = |text: &[u8]| parse_text(ColumnType::DateTime { fsp: 2 }, text).unwrap();
        let (from_time, from_moment) =
            (ColumnType::Time { fsp: 2 }, ColumnType::DateTime { fsp: 2 });
        let decimal = |scale| ColumnType::Decimal {
            precision: 20,
            scale,
        };
        for (to, value, from, expected) in [
            (
                ColumnType::Double,
                time(b"10:30:00.25"),
                from_time,
                Datum::Double(103_000.25),
            ),
            (
                ColumnType::Double,
                time(b"-10:30:00.25"),
                from_time,
                Datum::Double(-103_000.25),
            ),
            (
                decimal(3),
                time(b"10:30:00.25"),
                from_time,
                Datum::Decimal(103_000_250),
            ),
            (
                decimal(0),
                time(b"10:30:59.65"),
                from_time,
                Datum::Decimal(103_060),
            ),
            (
                decimal(1),
                moment(b"2020-01-02 10:30:00.25"),
                from_moment,
                Datum::Decimal(202_001_021_030_003),
            ),
            (
                ColumnType::Double,
                moment(b"2020-01-02 10:30:00.25"),
                from_moment,
                Datum::Double(20_200_102_103_000.25),
            ),
            (
                ColumnType::Decimal {
                    precision: 45,
                    scale: 2,
                },
                moment(b"1969-12-31 23:59:59.75"),
                from_moment,
                Datum::Wide(1_969_123_123_595_975_i128.into()),
            ),
        ] {
            assert_eq!(to.coerce(value, from), Ok(expected));
        }
    }

    #[test]
    fn numbers_round_and_are_bounded() {
        let wide = ColumnType::Decimal {
            precision: 20,
            scale: 4,
        };
        assert_eq!(
            INT.coerce(Datum::Decimal(125_000), wide),
            Ok(Datum::Int(13))
        );
        assert_eq!(
            INT.coerce(Datum::Double(2.5), ColumnType::Double),
            Ok(Datum::Int(2))
        );
        assert_eq!(
            DEC.coerce(Datum::Decimal(10_050), wide),
            Ok(Datum::Decimal(101))
        );
        assert_eq!(
            DEC.coerce(Datum::Double(1.005), ColumnType::Double),
            Ok(Datum::Decimal(101))
        );
        let kind = |r: Result<Datum, ValueError>| r.unwrap_err().kind;
        assert_eq!(
            kind(DEC.coerce(Datum::Int(1000), INT)),
            ValueErrorKind::OutOfRange
        );
        assert_eq!(
            kind(TINY.coerce(Datum::Int(-1), INT)),
            ValueErrorKind::OutOfRange
        );
        assert_eq!(
            kind(INT.coerce(Datum::Double(1e300), INT)),
            ValueErrorKind::OutOfRange
        );
        assert_eq!(
            kind(ColumnType::Float.coerce(Datum::Double(1e300), INT)),
            ValueErrorKind::OutOfRange
        );
        assert_eq!(TINY.coerce(Datum::Bool(true), INT), Ok(Datum::UInt(1)));
        assert_eq!(TINY.coerce(Datum::Null, INT), Ok(Datum::Null));
    }

    #[test]
    fn dates_and_numbers() {
        let day = parse_text(ColumnType::Date, b"1994-01-31").unwrap();
        assert_eq!(
            ColumnType::Date.coerce(Datum::Int(19_940_131), INT),
            Ok(day.clone())
        );
        assert_eq!(
            ColumnType::Date.coerce(Datum::Int(940_131), INT),
            Ok(day.clone())
        );
        assert_eq!(
            INT.coerce(day.clone(), ColumnType::Date),
            Ok(Datum::Int(19_940_131))
        );
        let time = ColumnType::DateTime { fsp: 0 };
        let noon = parse_text(time, b"1994-01-31 12:00:01").unwrap();
        assert_eq!(
            time.coerce(Datum::Int(19_940_131_120_001), INT),
            Ok(noon.clone())
        );
        assert_eq!(ColumnType::Date.coerce(noon.clone(), time), Ok(day));
        let big = ColumnType::Int {
            bytes: 8,
            unsigned: false,
        };
        assert_eq!(big.coerce(noon, time), Ok(Datum::Int(19_940_131_120_001)));
        let bad = ColumnType::Date
            .coerce(Datum::Int(19_940_231), INT)
            .unwrap_err();
        assert_eq!(
            (bad.kind, &*bad.value),
            (ValueErrorKind::Incorrect, "19940231")
        );
    }

    #[test]
    fn times_and_years() {
        let time = ColumnType::Time { fsp: 0 };
        let text = |text: &str| parse_text(time, text.as_bytes()).unwrap();
        assert_eq!(
            time.coerce(Datum::Int(-101_112), INT),
            Ok(text("-10:11:12"))
        );
        let kind = |value, from| time.coerce(value, from).map_err(|error| error.kind);
        let int = |v| kind(Datum::Int(v), INT);
        assert_eq!(int(99), Err(ValueErrorKind::Incorrect));
        assert_eq!(int(-8_390_000), Err(ValueErrorKind::OutOfRange));
        assert_eq!(int(19_940_131), Err(ValueErrorKind::OutOfRange));
        assert_eq!(int(19_940_131_101_112), Ok(text("10:11:12")));
        let tenths = ColumnType::Decimal {
            precision: 10,
            scale: 1,
        };
        assert_eq!(kind(Datum::Decimal(-1_015), tenths), Ok(text("-00:01:02")));
        assert_eq!(
            ColumnType::Time { fsp: 1 }.coerce(Datum::Double(-0.5), ColumnType::Double),
            Ok(Datum::Time(-500_000))
        );
        assert_eq!(
            INT.coerce(text("-10:11:12"), time),
            Ok(Datum::Int(-101_112))
        );
        let noon = parse_text(ColumnType::DateTime { fsp: 0 }, b"1994-01-31 12:00:01").unwrap();
        assert_eq!(
            time.coerce(noon.clone(), ColumnType::DateTime { fsp: 0 }),
            Ok(text("12:00:01"))
        );
        let year = ColumnType::Year;
        assert_eq!(
            year.coerce(noon, ColumnType::DateTime { fsp: 0 }),
            Ok(Datum::UInt(1994))
        );
        assert_eq!(year.coerce(Datum::Int(0), INT), Ok(Datum::UInt(0)));
        assert_eq!(year.coerce(Datum::Int(5), INT), Ok(Datum::UInt(2005)));
        assert!(year.coerce(Datum::Int(1900), INT).is_err());
        assert!(year.coerce(text("00:00:05"), time).is_err());
        for dated in [ColumnType::Date, ColumnType::DateTime { fsp: 0 }] {
            assert!(
                dated.coerce(text("10:11:12"), time).is_err(),
                "of which day?"
            );
        }
        let stamp = ColumnType::Timestamp { fsp: 0 };
        let day = Datum::Date(0);
        assert!(stamp.coerce(day, ColumnType::Date).is_err());
    }

    #[test]
    fn json_comes_from_texts_and_goes_as_scalars() {
        let text = |text: &str| Datum::String(text.as_bytes().to_vec());
        let json = ColumnType::Json;
        assert_eq!(json.coerce(text("[1,2]"), CHAR), Ok(text("[1, 2]")));
        assert_eq!(
            json.coerce(text("19.90"), json),
            Ok(text("19.90")),
            "as it is"
        );
        for (value, from) in [(Datum::Int(1), INT), (Datum::Bool(true), INT)] {
            let error = json.coerce(value, from).unwrap_err();
            let not_text = ValueErrorKind::Json(JsonErrorKind::NotText.at(0));
            assert_eq!(error.kind, not_text);
        }
        assert_eq!(INT.coerce(text("1.6"), json), Ok(Datum::Int(2)));
        assert_eq!(INT.coerce(text("\"12\""), json), Ok(Datum::Int(12)));
        assert_eq!(TINY.coerce(text("true"), json), Ok(Datum::UInt(1)));
        assert_eq!(CHAR.coerce(text("\"12\""), json), Ok(text("\"12\"")));
        let day = parse_text(ColumnType::Date, b"1994-01-31");
        assert_eq!(ColumnType::Date.coerce(text("\"1994-01-31\""), json), day);
        for wrong in ["null", "[1]", "{}"] {
            let error = INT.coerce(text(wrong), json).unwrap_err();
            assert_eq!(error.kind, ValueErrorKind::Incorrect, "{wrong}");
        }
    }

    #[test]
    fn everything_becomes_text() {
        let text = |value, from| match CHAR.coerce(value, from) {
            Ok(Datum::String(text)) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(Datum::Decimal(-5), DEC), "-0.05");
        assert_eq!(text(Datum::Date(0), ColumnType::Date), "1970-01-01");
        assert_eq!(text(Datum::Double(0.1), ColumnType::Double), "0.1");
        let long = CHAR.coerce(Datum::Int(i64::MAX), INT).unwrap_err();
        assert_eq!(long.kind, ValueErrorKind::TooLong);
    }

    #[test]
    fn wide_decimals_are_numbers_like_others() {
        const WIDE: ColumnType = ColumnType::Decimal {
            precision: 50,
            scale: 10,
        };
        let wide = |text: &str| parse_text(WIDE, text.as_bytes()).unwrap();
        let from = |value, ty| WIDE.coerce(value, ty);
        assert_eq!(from(Datum::Decimal(-5), DEC), Ok(wide("-0.05")));
        assert_eq!(
            from(Datum::Int(i64::MIN), INT),
            Ok(wide("-9223372036854775808"))
        );
        assert_eq!(
            from(Datum::Double(1e39), ColumnType::Double),
            Ok(wide("1e39"))
        );
        assert_eq!(from(Datum::Date(0), ColumnType::Date), Ok(wide("19700101")));
        assert!(from(Datum::Double(1e40), ColumnType::Double).is_err());
        let narrower = ColumnType::Decimal {
            precision: 65,
            scale: 1,
        };
        let rounded = narrower.coerce(wide("-2.25"), WIDE);
        assert_eq!(rounded, parse_text(narrower, b"-2.3"));
        assert_eq!(INT.coerce(wide("2.5"), WIDE), Ok(Datum::Int(3)));
        assert_eq!(
            DEC.coerce(wide("-999.99"), WIDE),
            Ok(Datum::Decimal(-99_999))
        );
        assert!(DEC.coerce(wide("-999.995"), WIDE).is_err());
        assert_eq!(
            ColumnType::Double.coerce(wide("1e39"), WIDE),
            Ok(Datum::Double(1e39))
        );
        let time = ColumnType::Time { fsp: 1 };
        assert_eq!(time.coerce(wide("10.5"), WIDE), Ok(Datum::Time(10_500_000)));
        let text = ColumnType::Varchar {
            chars: 60,
            collation: crate::Collation::BINARY,
        };
        let shown = text.coerce(wide("123456789012345678901234567890123456789"), WIDE);
        assert_eq!(
            shown,
            Ok(Datum::String(
                b"123456789012345678901234567890123456789.0000000000".to_vec()
            ))
        );
    }
}
