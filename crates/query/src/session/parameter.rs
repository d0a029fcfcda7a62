//! Values for the parameters of prepared statements: checked when they are made, and the literals
//! that stand for them in a statement.

use perigee_value::date::{self, Civil, TimeOfDay, ZERO_DAY};
use perigee_value::{
    Collation, ColumnType, Datum, ValueErrorKind, decimal, format_value, parse_text,
};
use sqlparser::tokenizer::Token;

use crate::error::{Result, SqlError};

/// The values of an execution, in the order of the parameters. Kept by a session from one
/// execution to the next for its memory.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    values: Vec<Datum>,
    types: Vec<ColumnType>,
}

impl Parameters {
    /// Appends the value of the next parameter.
    pub fn push(&mut self, parameter: Parameter) {
        self.values.push(parameter.value);
        self.types.push(parameter.ty);
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.values.clear();
        self.types.clear();
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.values.iter().map(crate::values::size).sum()
    }

    /// The values, in the order of the parameters.
    #[must_use]
    pub fn values(&self) -> &[Datum] {
        &self.values
    }

    /// False if one is a string of bytes that are not UTF-8, which no text can stand for.
    pub(super) fn are_utf8(&self) -> bool {
        let mut typed = self.values.iter().zip(&self.types);
        typed.all(|(value, ty)| match value {
            // A text was checked when it was made.
            Datum::String(bytes) if ty.collation() == Some(Collation::BINARY) => {
                str::from_utf8(bytes).is_ok()
            }
            _ => true,
        })
    }

    /// The tokens of a literal that has the value and type of a parameter.
    ///
    /// # Errors
    /// For what is no value.
    pub(super) fn literal(&self, number: usize) -> Result<Vec<Token>> {
        literal(&self.values[number], self.types[number])
    }
}

/// A value with its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    value: Datum,
    ty: ColumnType,
}

const INT: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};
const UNSIGNED: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: true,
};

impl Parameter {
    /// NULL, whose type means nothing.
    pub const NULL: Self = Self {
        value: Datum::Null,
        ty: INT,
    };

    /// A signed integer.
    #[must_use]
    pub fn int(v: i64) -> Self {
        Self {
            value: Datum::Int(v),
            ty: INT,
        }
    }

    /// An unsigned integer.
    #[must_use]
    pub fn unsigned(v: u64) -> Self {
        Self {
            value: Datum::UInt(v),
            ty: UNSIGNED,
        }
    }

    /// A floating-point number.
    ///
    /// # Errors
    /// 1367 for what is no number.
    pub fn double(v: f64) -> Result<Self> {
        if !v.is_finite() {
            return Err(SqlError::illegal_value("double", v));
        }
        Ok(Self {
            value: Datum::Double(v),
            ty: ColumnType::Double,
        })
    }

    /// A decimal number from its text.
    ///
    /// # Errors
    /// 1367 for what is no number, 1235 for more digits than a DECIMAL has here.
    pub fn decimal(text: &[u8]) -> Result<Self> {
        let shown = || String::from_utf8_lossy(text).into_owned();
        let plain = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+');
        if !text.iter().all(plain) {
            return Err(SqlError::illegal_value("decimal", shown()));
        }
        let point = text.iter().position(|byte| *byte == b'.');
        let scale = point.map_or(0, |point| text.len() - point - 1);
        let scale = match u8::try_from(scale) {
            Ok(scale) if scale <= ColumnType::MAX_SCALE => scale,
            _ => return Err(SqlError::not_supported(TOO_MANY_DIGITS)),
        };
        for precision in [decimal::MAX_PRECISION, ColumnType::MAX_PRECISION] {
            let ty = ColumnType::Decimal { precision, scale };
            match parse_text(ty, text) {
                Ok(value) => return Ok(Self { value, ty }),
                Err(error) if error.kind == ValueErrorKind::OutOfRange => {}
                Err(_) => return Err(SqlError::illegal_value("decimal", shown())),
            }
        }
        Err(SqlError::not_supported(TOO_MANY_DIGITS))
    }

    /// A text. Drivers send bytes as texts, too: what is not UTF-8 is bytes.
    #[must_use]
    pub fn text(text: &[u8]) -> Self {
        match std::str::from_utf8(text) {
            Ok(_) => Self::string(text, Collation::UTF8MB4_BIN),
            Err(_) => Self::bytes(text),
        }
    }

    /// Bytes.
    #[must_use]
    pub fn bytes(bytes: &[u8]) -> Self {
        Self::string(bytes, Collation::BINARY)
    }

    fn string(bytes: &[u8], collation: Collation) -> Self {
        Self {
            value: Datum::String(bytes.to_vec()),
            ty: ColumnType::Varchar {
                chars: u16::MAX,
                collation,
            },
        }
    }

    /// A day.
    ///
    /// # Errors
    /// 1292 for what is not in the calendar.
    pub fn date(day: Civil) -> Result<Self> {
        Ok(Self {
            value: Datum::Date(days(day)?),
            ty: ColumnType::Date,
        })
    }

    /// A point in time.
    ///
    /// # Errors
    /// 1292 for what is not in the calendar or on the clock.
    pub fn datetime(day: Civil, time: TimeOfDay) -> Result<Self> {
        let TimeOfDay {
            hour,
            minute,
            second,
            micros,
        } = time;
        if hour > 23 || minute > 59 || second > 59 || micros > 999_999 {
            let shown = format!(
                "{:04}-{:02}-{:02} {hour:02}:{minute:02}:{second:02}.{micros:06}",
                day.year, day.month, day.day
            );
            return Err(SqlError::truncated_wrong_value("datetime", shown));
        }
        let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        let in_day = seconds * 1_000_000 + i64::from(micros);
        Ok(Self {
            value: Datum::DateTime(date::day_to_micros(days(day)?) + in_day),
            ty: ColumnType::DateTime {
                fsp: if micros == 0 { 0 } else { 6 },
            },
        })
    }

    /// A span of time. `hours` are all of them.
    ///
    /// # Errors
    /// 1292 for what is not on the clock, or longer than 838:59:59.
    pub fn time(negative: bool, hours: u64, minutes: u8, seconds: u8, micros: u32) -> Result<Self> {
        let sign = if negative { "-" } else { "" };
        let mut text = format!("{sign}{hours:02}:{minutes:02}:{seconds:02}");
        if micros > 0 {
            text.push_str(&format!(".{micros:06}"));
        }
        let ty = ColumnType::Time {
            fsp: if micros == 0 { 0 } else { 6 },
        };
        match parse_text(ty, text.as_bytes()) {
            Ok(value) => Ok(Self { value, ty }),
            Err(_) => Err(SqlError::truncated_wrong_value("time", text)),
        }
    }
}

/// The tokens of a literal with a value.
///
/// # Errors
/// For what is no value.
pub(super) fn literal(value: &Datum, ty: ColumnType) -> Result<Vec<Token>> {
    let text = || {
        let mut text = String::new();
        format_value(ty, value.as_ref(), &mut text);
        text
    };
    let quoted = |keyword| {
        vec![
            Token::make_keyword(keyword),
            Token::SingleQuotedString(text()),
        ]
    };
    Ok(match value {
        Datum::Null => vec![Token::make_keyword("NULL")],
        Datum::Double(v) => number(format!("{v:e}")),
        Datum::Int(_) | Datum::UInt(_) | Datum::Bool(_) | Datum::Decimal(_) | Datum::Wide(_) => {
            number(text())
        }
        // There is no literal of its type for it.
        zero if zero.is_zero_date() => vec![Token::SingleQuotedString(text())],
        Datum::Date(_) => quoted("DATE"),
        Datum::DateTime(_) => quoted("TIMESTAMP"),
        Datum::Time(_) => quoted("TIME"),
        Datum::Overflow(_) => return Err(SqlError::unknown("a parameter is a value")),
        Datum::String(bytes) => match str::from_utf8(bytes) {
            Ok(text) => vec![Token::SingleQuotedString(text.to_owned())],
            Err(_) => {
                let digit = |half: u8| char::from(b"0123456789ABCDEF"[usize::from(half)]);
                let digits = bytes
                    .iter()
                    .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
                vec![Token::HexStringLiteral(digits.collect())]
            }
        },
    })
}

const TOO_MANY_DIGITS: &str = "numbers of more than 65 digits, or 30 behind the point";

fn days(day: Civil) -> Result<i32> {
    if (day.year, day.month, day.day) == (0, 0, 0) {
        return Ok(ZERO_DAY);
    }
    day.to_days().ok_or_else(|| {
        let shown = format!("{:04}-{:02}-{:02}", day.year, day.month, day.day);
        SqlError::truncated_wrong_value("date", shown)
    })
}

/// A number as an operand of anything: its sign belongs to it.
fn number(text: String) -> Vec<Token> {
    match text.strip_prefix('-') {
        Some(magnitude) => vec![
            Token::LParen,
            Token::Minus,
            Token::Number(magnitude.to_owned(), false),
            Token::RParen,
        ],
        None => vec![Token::Number(text, false)],
    }
}
