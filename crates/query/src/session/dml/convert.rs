//! Values on their way into columns: strictly, or with IGNORE and without strict `sql_mode` as near as the column can
//! come.

use perigee_engine::EngineError;
use perigee_engine::catalog::{ColumnDef, TableDef};
use perigee_value::time::MAX_TIME;
use perigee_value::zone::Meant;
use perigee_value::{
    ColumnType, Datum, Units, ValueError, ValueErrorKind, Zone, bits, compared_moment,
    format_value, parse_text,
};

use crate::error::{Result, SqlError};
use crate::session::Session;
use crate::session::insert::value_error;

/// No date with a time is longer, in bytes.
const LONGEST_DATE: usize = 40;

/// Converts the values of a statement.
pub(in crate::session) struct Converter {
    strictness: Strictness,
    /// NULL is let into NOT NULL columns until [`Converter::settle`].
    nulls_wait: bool,
    /// What would be errors without IGNORE or in a strict mode.
    pub warnings: Told,
}

/// Warnings of a statement, which may have one for each of any number of rows: the first ones, and how many there were.
#[derive(Debug, Default)]
pub(in crate::session) struct Told {
    first: Vec<SqlError>,
    count: usize,
}

impl Told {
    /// As many as `max_error_count` may be.
    const MOST: usize = 65_535;

    pub(in crate::session) fn push(&mut self, warning: SqlError) {
        self.count += 1;
        if self.first.len() < Self::MOST {
            self.first.push(warning);
        }
    }

    pub(in crate::session) fn extend(&mut self, warnings: impl IntoIterator<Item = SqlError>) {
        warnings.into_iter().for_each(|warning| self.push(warning));
    }
}

/// What becomes of values that columns cannot hold.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Strictness {
    /// IGNORE: duplicates are warnings, too.
    ignore: bool,
    /// The value that comes nearest is stored, with a warning.
    adjusts: bool,
    /// So it is with NULL where the column is NOT NULL.
    adjusts_null: bool,
    /// 0000-00-00 is a date.
    zero_dates: bool,
    /// The time zone of what becomes a TIMESTAMP, and of what a TIMESTAMP becomes.
    zone: Zone,
    /// A strict mode is set: warnings about dates and times are the errors that they would be without IGNORE.
    strict_mode: bool,
}

impl Strictness {
    /// Of a statement that begins.
    pub(in crate::session) fn new(session: &Session, ignore: bool) -> Self {
        let strict_mode = session.modes().is_strict();
        let adjusts = ignore || !strict_mode;
        Self {
            ignore,
            adjusts,
            adjusts_null: adjusts,
            zero_dates: session.zero_dates(),
            zone: session.zone(),
            strict_mode,
        }
    }

    /// The same for an INSERT of one row: but for IGNORE it refuses NULL in any mode.
    pub(in crate::session) fn of_one_row(self) -> Self {
        Self {
            adjusts_null: self.ignore,
            ..self
        }
    }

    /// True if the value that comes nearest is stored.
    pub(in crate::session) fn adjusts(self) -> bool {
        self.adjusts
    }
}

impl Converter {
    pub(in crate::session) fn new(strictness: Strictness) -> Self {
        Self {
            strictness,
            nulls_wait: false,
            warnings: Told::default(),
        }
    }

    /// Lets NULL into NOT NULL columns for now: triggers may give them values before the row is written.
    pub(in crate::session) fn let_nulls_wait(&mut self, wait: bool) {
        self.nulls_wait = wait;
    }

    /// Checks a row of a table against NOT NULL that triggers have seen, if NULL was let in; true if it was. NULL in the
    /// column that numbers rows asks for a number.
    ///
    /// # Errors
    /// Strictly, 1048.
    pub(in crate::session) fn settle(&mut self, def: &TableDef, row: &mut [Datum]) -> Result<bool> {
        if !std::mem::take(&mut self.nulls_wait) {
            return Ok(false);
        }
        for (place, (value, column)) in row.iter_mut().zip(&def.columns).enumerate() {
            let is_computed = column.generated.is_some() || def.is_auto_increment(place);
            if value.is_null() && !is_computed {
                *value = self.not_null(Datum::Null, column)?;
            }
        }
        self.nulls_wait = true;
        Ok(true)
    }

    /// A value of a type as a value of a column, for row `row` of the statement.
    ///
    /// # Errors
    /// Strictly, what does not fit.
    pub(in crate::session) fn value(
        &mut self,
        value: Datum,
        from: ColumnType,
        column: &ColumnDef,
        row: u64,
    ) -> Result<Datum> {
        let text = match (&value, self.strictness.adjusts) {
            (_, false) => None,
            (Datum::String(text), true) => Some(text.clone()),
            (value, true) => {
                let mut text = String::new();
                format_value(from, value.as_ref(), &mut text);
                Some(text.into_bytes())
            }
        };
        let converted = column.coerce(value, from, self.strictness.zone);
        self.fitting(converted, text.as_deref(), column, row)
    }

    /// A literal's text as a value of a column.
    ///
    /// # Errors
    /// Strictly, what does not fit.
    pub(in crate::session) fn text(
        &mut self,
        text: &[u8],
        column: &ColumnDef,
        row: u64,
    ) -> Result<Datum> {
        let converted = column.parse(text, self.strictness.zone);
        self.fitting(
            converted,
            self.strictness.adjusts.then_some(text),
            column,
            row,
        )
    }

    /// The time zone of the session.
    pub(in crate::session) fn zone(&self) -> Zone {
        self.strictness.zone
    }

    fn fitting(
        &mut self,
        converted: std::result::Result<Datum, ValueError>,
        text: Option<&[u8]>,
        column: &ColumnDef,
        row: u64,
    ) -> Result<Datum> {
        let error = match converted {
            Ok(value) if value.is_zero_date() && !self.strictness.zero_dates => {
                ValueError::zero_date(column.ty)
            }
            Ok(value) => return self.not_null(value, column),
            Err(error) => error,
        };
        let strict = value_error(&error, &column.name, row);
        if let Some(value) = text.and_then(|text| self.set_forward(column, text)) {
            self.warnings.push(match self.strictness.strict_mode {
                true => strict,
                false => SqlError::invalid_timestamp(&column.name, row),
            });
            return Ok(value);
        }
        let zone = self.zone();
        let Some(value) = text.and_then(|text| nearest(column, text, error.kind, zone)) else {
            return Err(strict);
        };
        let is_temporal = is_moment(column.ty) || matches!(column.ty, ColumnType::Time { .. });
        self.warnings.push(match error.kind {
            ValueErrorKind::TooLong if matches!(column.ty, ColumnType::Bit { .. }) => {
                match self.strictness.strict_mode {
                    true => strict,
                    false => SqlError::out_of_range(&column.name, row),
                }
            }
            ValueErrorKind::TooLong => SqlError::data_truncated(&column.name, row),
            _ if self.strictness.strict_mode || !is_temporal => strict,
            ValueErrorKind::OutOfRange => SqlError::out_of_range(&column.name, row),
            // A date that there is not is out of range, too.
            _ if value.is_zero_date() && text.is_some_and(is_like_date) => {
                SqlError::out_of_range(&column.name, row)
            }
            _ => SqlError::data_truncated(&column.name, row),
        });
        Ok(value)
    }

    /// For a time that clocks skipped when they were set forward, the point in time at which they were.
    fn set_forward(&self, column: &ColumnDef, text: &[u8]) -> Option<Datum> {
        let ColumnType::Timestamp { fsp } = column.ty else {
            return None;
        };
        match parse_text(ColumnType::DateTime { fsp }, text) {
            Ok(Datum::DateTime(local)) => match self.zone().meant(local) {
                Meant::Skipped(utc) => Some(Datum::DateTime(utc)),
                Meant::One(_) | Meant::Twice(_) => None,
            },
            _ => None,
        }
    }

    /// A row that a key or another constraint forbids: with IGNORE a warning.
    ///
    /// # Errors
    /// Strictly, the error.
    pub(in crate::session) fn refused(&mut self, error: SqlError) -> Result<()> {
        if !self.strictness.ignore {
            return Err(error);
        }
        self.warnings.push(error);
        Ok(())
    }

    /// What became of a row, `None` if a foreign key forbids it, which is a warning with IGNORE.
    ///
    /// # Errors
    /// The engine's.
    pub(in crate::session) fn allowed<T>(
        &mut self,
        outcome: std::result::Result<T, EngineError>,
    ) -> std::result::Result<Option<T>, EngineError> {
        match outcome {
            Err(EngineError::Refused(refusal)) if self.strictness.ignore => {
                self.warnings.push((*refusal).into());
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Checks a value against NOT NULL.
    ///
    /// # Errors
    /// Strictly, 1048.
    pub(in crate::session) fn not_null(
        &mut self,
        value: Datum,
        column: &ColumnDef,
    ) -> Result<Datum> {
        if !value.is_null() || column.nullable || self.nulls_wait {
            return Ok(value);
        }
        let error = SqlError::null_not_allowed(&column.name);
        // An ENUM's is its first value.
        let otherwise = match &column.members {
            Some(members) => Some(Datum::UInt(members.least())),
            None => implicit_default(column.ty),
        };
        match otherwise.filter(|_| self.strictness.adjusts_null) {
            Some(value) => {
                self.warnings.push(error);
                Ok(value)
            }
            None => Err(error),
        }
    }

    /// Has the session list the warnings; returns their number.
    pub(in crate::session) fn report(self, session: &mut Session) -> usize {
        for warning in &self.warnings.first {
            session.warn("Warning", warning);
        }
        session.warn_more(self.warnings.count - self.warnings.first.len());
        self.warnings.count
    }
}

/// True for DATE, DATETIME and TIMESTAMP.
pub(in crate::session) fn is_moment(ty: ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::Date | ColumnType::DateTime { .. } | ColumnType::Timestamp { .. }
    )
}

/// True for a text with the fields of a date.
fn is_like_date(text: &[u8]) -> bool {
    compared_moment(text).is_some()
}

/// What a column without DEFAULT gets where NULL is not allowed.
pub(in crate::session) fn implicit_default(ty: ColumnType) -> Option<Datum> {
    let text: &[u8] = match ty {
        ColumnType::Date | ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => {
            b"0000-00-00"
        }
        ColumnType::Json => b"null",
        // Of a BIT these are bytes.
        _ if ty.is_string() || matches!(ty, ColumnType::Bit { .. }) => b"",
        ColumnType::Year => b"0000",
        _ => b"0",
    };
    parse_text(ty, text).ok()
}

/// The value nearest to a text that does not fit a column.
fn nearest(column: &ColumnDef, text: &[u8], kind: ValueErrorKind, zone: Zone) -> Option<Datum> {
    let ty = column.ty;
    let text = String::from_utf8_lossy(text);
    if let Some(members) = &column.members {
        return Some(Datum::UInt(members.nearest(&text)));
    }
    match ty {
        ColumnType::Date | ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => {
            leading_date(ty, &text, zone).or_else(|| implicit_default(ty))
        }
        // Not even with IGNORE in MySQL.
        ColumnType::Json => None,
        ColumnType::Year if kind == ValueErrorKind::OutOfRange => implicit_default(ty),
        // A negative number has the highest bits, too.
        ColumnType::Bit { bits } => Some(Datum::UInt(bits::greatest(bits))),
        _ if kind == ValueErrorKind::OutOfRange => Some(bound(ty, text.trim().starts_with('-'))),
        _ => {
            let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            ends.push(text.len());
            let prefixes = ends.into_iter().rev().map(|end| &text[..end]);
            let mut fitting = prefixes.filter_map(|text| parse_text(ty, text.as_bytes()).ok());
            fitting.next().or_else(|| implicit_default(ty))
        }
    }
}

/// The date that a text begins with, if what follows is neither a part of it nor a time.
fn leading_date(ty: ColumnType, text: &str, zone: Zone) -> Option<Datum> {
    const SEPARATORS: &[u8] = b"-:./ ";
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_end = |end: &usize| match bytes.get(*end) {
        Some(next) if SEPARATORS.contains(next) => !is_digit(*end + 1),
        _ => !is_digit(*end),
    };
    let mut ends = (1..bytes.len().min(LONGEST_DATE)).rev().filter(is_end);
    ends.find_map(|end| ty.parse_in(&bytes[..end], zone).ok())
}

/// The least or the greatest value of a type of numbers, or of TIME.
fn bound(ty: ColumnType, least: bool) -> Datum {
    match ty {
        ColumnType::Int { bytes, unsigned } => {
            let bits = 8 * u32::from(bytes);
            match (unsigned, least) {
                (true, true) => Datum::UInt(0),
                (true, false) => Datum::UInt(u64::MAX >> (64 - bits)),
                (false, true) => Datum::Int(i64::MIN >> (64 - bits)),
                (false, false) => Datum::Int(i64::MAX >> (64 - bits)),
            }
        }
        ColumnType::Decimal { precision, .. } if ty.is_wide() => {
            let power = Units::pow10(usize::from(precision));
            let most = power.and_then(|power| power.minus(Units::from(1)));
            let bound = most.and_then(|most| if least { -most } else { most }.to_wide(precision));
            bound.map_or(Datum::Null, Datum::Wide)
        }
        ColumnType::Decimal { precision, .. } => {
            let most = 10i128.pow(u32::from(precision)) - 1;
            Datum::Decimal(if least { -most } else { most })
        }
        ColumnType::Float => {
            let most = f64::from(f32::MAX);
            Datum::Double(if least { -most } else { most })
        }
        ColumnType::Time { .. } => Datum::Time(if least { -MAX_TIME } else { MAX_TIME }),
        _ => Datum::Double(if least { f64::MIN } else { f64::MAX }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use perigee_value::Collation;

    #[test]
    fn what_does_not_fit_comes_as_near_as_it_can() {
        let int = |bytes, unsigned| ColumnType::Int { bytes, unsigned };
        let decimal = ColumnType::Decimal {
            precision: 5,
            scale: 2,
        };
        let text = ColumnType::Varchar {
            chars: 3,
            collation: Collation::UTF8MB4_BIN,
        };
        let wide = ColumnType::Decimal {
            precision: 40,
            scale: 30,
        };
        for (ty, given, expected) in [
            (int(1, false), "300", "127"),
            (int(1, false), "-300", "-128"),
            (int(1, true), "-1", "0"),
            (int(8, true), "99999999999999999999", "18446744073709551615"),
            (int(4, false), "12abc", "12"),
            (int(4, false), "abc", "0"),
            (decimal, "1000", "999.99"),
            (decimal, "-1000", "-999.99"),
            (
                wide,
                "-12345678901",
                "-9999999999.999999999999999999999999999999",
            ),
            (wide, "1e65", "9999999999.999999999999999999999999999999"),
            (wide, "1.5 or so", "1.500000000000000000000000000000"),
            (text, "äöüß", "äöü"),
            (ColumnType::Time { fsp: 1 }, "-839:00", "-838:59:59.0"),
            (ColumnType::Time { fsp: 1 }, "10:11:12.34 pm", "10:11:12.3"),
            (ColumnType::Time { fsp: 1 }, "noon", "00:00:00.0"),
            (ColumnType::Year, "1900", "0000"),
            (ColumnType::Year, "1994 AD", "1994"),
            (ColumnType::Year, "soon", "0000"),
        ] {
            let mut converter = Converter::new(LOOSE);
            let column = column(ty);
            let value = converter.text(given.as_bytes(), &column, 1).unwrap();
            let mut shown = String::new();
            format_value(ty, value.as_ref(), &mut shown);
            assert_eq!(shown, expected, "{given}");
            assert_eq!(converter.warnings.count, 1, "{given}");
            let strict = Converter::new(STRICT).text(given.as_bytes(), &column, 1);
            assert!(strict.is_err(), "{given}");
        }
    }

    const STRICT: Strictness = Strictness {
        ignore: false,
        adjusts: false,
        adjusts_null: false,
        strict_mode: true,
        zero_dates: false,
        zone: Zone::Utc,
    };

    const LOOSE: Strictness = Strictness {
        ignore: true,
        adjusts: true,
        adjusts_null: true,
        strict_mode: true,
        zero_dates: false,
        zone: Zone::Utc,
    };

    fn column(ty: ColumnType) -> ColumnDef {
        ColumnDef {
            nullable: false,
            ..ColumnDef::new("c", ty)
        }
    }
}
