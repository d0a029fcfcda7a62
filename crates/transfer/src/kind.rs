//! What a column's values are, as far as a copy has to know: how they are selected so that nothing is lost, and the form in
//! which the checksums of both sides take them.

use std::borrow::Cow;

use perigee_value::{Collation, ColumnType, format_value, json, parse_text};

use crate::names::ident;

/// What a column's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// TINYINT to BIGINT, and DECIMAL: digits, before which ZEROFILL may have written zeros.
    Number(ColumnType),
    /// FLOAT, whose own text has six digits.
    Float,
    Double,
    /// DATE, DATETIME, TIMESTAMP, TIME, YEAR.
    Temporal(ColumnType),
    Json,
    /// CHAR, whose trailing spaces are not stored.
    Char,
    /// ENUM and SET, which are found without regard to case in most collations.
    Member,
    /// BIT, of so many bits.
    Bit(u8),
    /// Other texts.
    Text,
    /// Bytes.
    Bytes,
}

impl Kind {
    /// The kind of a column by its type as `information_schema.COLUMNS` has it, such as `decimal(10,2) unsigned`.
    pub(crate) fn of(column_type: &str) -> Self {
        let text = column_type.to_ascii_lowercase();
        let name_end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = &text[..name_end.unwrap_or(text.len())];
        let unsigned = text.contains("unsigned") || text.contains("zerofill");
        let numbers = numbers(&text);
        let first = numbers.first().copied();
        let fsp = first.unwrap_or(0);
        let int = |bytes| Self::Number(ColumnType::Int { bytes, unsigned });
        match name {
            "tinyint" | "bool" | "boolean" => int(1),
            "smallint" => int(2),
            "mediumint" => int(3),
            "int" | "integer" => int(4),
            "bigint" => int(8),
            "decimal" | "numeric" => Self::Number(ColumnType::Decimal {
                precision: first.unwrap_or(10),
                scale: numbers.get(1).copied().unwrap_or(0),
            }),
            "float" => Self::Float,
            "double" | "real" => Self::Double,
            "date" => Self::Temporal(ColumnType::Date),
            "datetime" => Self::Temporal(ColumnType::DateTime { fsp }),
            "timestamp" => Self::Temporal(ColumnType::Timestamp { fsp }),
            "time" => Self::Temporal(ColumnType::Time { fsp }),
            "year" => Self::Temporal(ColumnType::Year),
            "json" => Self::Json,
            "char" => Self::Char,
            "enum" | "set" => Self::Member,
            "bit" => Self::Bit(first.unwrap_or(1)),
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Self::Bytes,
            _ => Self::Text,
        }
    }

    /// What selects a column so that its text has the whole value.
    pub(crate) fn selected(self, name: &str) -> String {
        match self {
            // As a DOUBLE it shows all its digits.
            Self::Float => format!("{} + 0e0", ident(name)),
            _ => ident(name),
        }
    }

    /// The form of a value, given as a server writes it, that equal values have on both sides.
    pub(crate) fn form(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Number(_) => without_zeros(text),
            Self::Float => double(text, true),
            Self::Double => double(text, false),
            Self::Json => match json::normalise(text) {
                Ok(normal) => Cow::Owned(normal.into_bytes()),
                Err(_) => Cow::Borrowed(text),
            },
            _ => Cow::Borrowed(text),
        }
    }

    /// The same of a value as a file has it, which may be written in another way than a server would, such as `1e2` for 100.
    pub(crate) fn form_of_file(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Number(ty) | Self::Temporal(ty) => match parse_text(ty, text) {
                Ok(value) => {
                    let mut out = String::new();
                    format_value(ty, value.as_ref(), &mut out);
                    Cow::Owned(out.into_bytes())
                }
                Err(_) => Cow::Borrowed(text),
            },
            Self::Float | Self::Double => self.form(text.trim_ascii()),
            Self::Char => Cow::Borrowed(without_spaces(text)),
            Self::Member => Cow::Owned(without_spaces(text).to_ascii_lowercase()),
            _ => self.form(text),
        }
    }

    /// The form of a server's value that [`Kind::form_of_file`] of the same value has.
    pub(crate) fn form_beside_file(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Member => Cow::Owned(text.to_ascii_lowercase()),
            _ => self.form(text),
        }
    }
}

/// Bytes without the spaces at their end.
fn without_spaces(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ');
    &text[..end.map_or(0, |end| end + 1)]
}

/// The numbers in parentheses behind the name of a type.
fn numbers(text: &str) -> Vec<u8> {
    let inner = text
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    let list = inner.map_or("", |(list, _)| list).split(',');
    list.filter_map(|number| number.trim().parse().ok())
        .collect()
}

/// Digits without the zeros that ZEROFILL writes before them.
fn without_zeros(text: &[u8]) -> Cow<'_, [u8]> {
    let needless = |pair: &[u8]| pair[0] == b'0' && pair[1].is_ascii_digit();
    match text {
        [b'0', second, ..] if second.is_ascii_digit() => {
            let zeros = text.windows(2).take_while(|pair| needless(pair)).count();
            Cow::Borrowed(&text[zeros..])
        }
        _ => Cow::Borrowed(text),
    }
}

/// The bits of a floating point number: servers write the same one in different ways.
fn double(text: &[u8], single: bool) -> Cow<'_, [u8]> {
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<f64>().ok());
    match number {
        // Zero has no sign.
        Some(number) => {
            let rounded = if single {
                f64::from(number as f32)
            } else {
                number
            };
            Cow::Owned((rounded + 0.0).to_bits().to_le_bytes().to_vec())
        }
        None => Cow::Borrowed(text),
    }
}

/// The collation here that stands for one of a source, and whether it is another one.
pub(crate) fn collation(name: &str) -> (&'static str, bool) {
    if let Some(same) = Collation::named(name) {
        return (same.name(), false);
    }
    let like = if name.ends_with("_bin") {
        "utf8mb4_bin"
    } else if name.contains("_0900_") && name.contains("_as") {
        "utf8mb4_0900_as_cs"
    } else if name.contains("_0900_") {
        "utf8mb4_0900_ai_ci"
    } else if name.contains("uca1400") || name.contains("unicode") {
        "utf8mb4_unicode_520_ci"
    } else {
        "utf8mb4_general_ci"
    };
    (like, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_types() {
        let int = |bytes, unsigned| Kind::Number(ColumnType::Int { bytes, unsigned });
        for (text, kind) in [
            ("int(11)", int(4, false)),
            ("int(10) unsigned zerofill", int(4, true)),
            ("bigint unsigned", int(8, true)),
            (
                "decimal(60,20)",
                Kind::Number(ColumnType::Decimal {
                    precision: 60,
                    scale: 20,
                }),
            ),
            ("float", Kind::Float),
            ("double(10,2)", Kind::Double),
            (
                "datetime(6)",
                Kind::Temporal(ColumnType::DateTime { fsp: 6 }),
            ),
            ("year(4)", Kind::Temporal(ColumnType::Year)),
            ("enum('a','b(3)')", Kind::Member),
            ("bit(20)", Kind::Bit(20)),
            ("varbinary(300)", Kind::Bytes),
            ("varchar(40)", Kind::Text),
            ("char(4)", Kind::Char),
        ] {
            assert_eq!(Kind::of(text), kind, "{text}");
        }
    }

    #[test]
    fn equal_values_have_one_form() {
        let number = Kind::of("int");
        assert_eq!(number.form(b"00012"), number.form(b"12"));
        assert_eq!(number.form(b"0"), number.form(b"0000"));
        assert_eq!(number.form_of_file(b" 1e2"), number.form(b"100"));
        let decimal = Kind::of("decimal(10,3)");
        assert_eq!(decimal.form_of_file(b"1.5"), decimal.form(b"1.500"));
        assert_eq!(decimal.form(b"0.5").as_ref(), b"0.5");
        assert_eq!(Kind::Double.form(b"1e3"), Kind::Double.form(b"1000"));
        assert_eq!(Kind::Double.form(b"-0"), Kind::Double.form(b"0"));
        let tenth = Kind::Float.form(b"0.10000000149011612").into_owned();
        assert_eq!(Kind::Float.form(b"0.1"), tenth);
        assert_ne!(
            Kind::Double.form(b"0.1"),
            Kind::Double.form(b"0.10000000149011612")
        );
        let json = Kind::Json;
        assert_eq!(
            json.form(b"{\"b\":1,\"a\":[]}"),
            json.form(b"{ \"a\": [ ], \"b\": 1 }")
        );
        assert_eq!(Kind::Char.form_of_file(b"a  "), Kind::Char.form(b"a"));
        let date = Kind::of("date");
        assert_eq!(date.form_of_file(b"1994-1-31"), date.form(b"1994-01-31"));
    }

    #[test]
    fn collations_stand_for_unknown_ones() {
        for (name, here) in [
            ("utf8mb4_general_ci", ("utf8mb4_general_ci", false)),
            ("utf8_bin", ("utf8mb3_bin", false)),
            ("utf8mb4_uca1400_ai_ci", ("utf8mb4_unicode_520_ci", true)),
            ("utf8mb4_de_pb_0900_ai_ci", ("utf8mb4_0900_ai_ci", true)),
            ("cp1250_bin", ("utf8mb4_bin", true)),
            ("latin2_general_ci", ("utf8mb4_general_ci", true)),
        ] {
            assert_eq!(collation(name), here, "{name}");
        }
    }
}
