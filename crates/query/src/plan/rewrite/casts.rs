//! The types that CAST, CONVERT and temporal literals name.

use datafusion::sql::sqlparser::ast::{
    CharacterLength, DataType, ExactNumberInfo, Expr, TimezoneInfo,
};

use super::expression::{cast_call, string};
use super::unsupported;
use crate::error::{Result, SqlError};
use crate::functions::cast::{self, Target};
use crate::functions::types::{MAX_SCALE, MAX_WIDE_PRECISION};

/// What CAST to a type means.
pub(super) fn cast_target(ty: &DataType) -> Result<Target> {
    Ok(match ty {
        DataType::Signed | DataType::SignedInteger => Target::Signed,
        DataType::Unsigned | DataType::UnsignedInteger => Target::Unsigned,
        DataType::Decimal(info) | DataType::Dec(info) => match *info {
            ExactNumberInfo::None => Target::Decimal(10, 0),
            ExactNumberInfo::Precision(p) => decimal_target(p, 0)?,
            ExactNumberInfo::PrecisionAndScale(p, s) => decimal_target(p, s)?,
        },
        DataType::Double(_) | DataType::Real => Target::Double,
        DataType::Char(length) => Target::Char(char_length(length)?),
        DataType::Date => Target::Date,
        DataType::JSON => Target::Json,
        DataType::Datetime(fsp) => Target::DateTime(fsp_of(*fsp)?),
        DataType::Time(fsp, TimezoneInfo::None) => Target::Time(fsp_of(*fsp)?),
        other => return unsupported(format!("CAST AS {other}")),
    })
}

fn decimal_target(precision: u64, scale: i64) -> Result<Target> {
    let precision = if precision == 0 { 10 } else { precision };
    if !(0..=i64::from(MAX_SCALE)).contains(&scale) {
        return Err(SqlError::scale_too_big(scale, "CAST", MAX_SCALE));
    }
    if precision > u64::from(MAX_WIDE_PRECISION) {
        let most = MAX_WIDE_PRECISION;
        return Err(SqlError::precision_too_big(precision, "CAST", most));
    }
    if scale as u64 > precision {
        return Err(SqlError::scale_above_precision("CAST"));
    }
    Ok(Target::Decimal(precision as u8, scale as u8))
}

fn char_length(length: &Option<CharacterLength>) -> Result<Option<u16>> {
    match length {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length, unit: None }) => match u16::try_from(*length)
        {
            Ok(length) => Ok(Some(length)),
            Err(_) => unsupported("CHAR of more than 65535 characters"),
        },
        Some(other) => unsupported(format!("CHAR({other})")),
    }
}

fn fsp_of(fsp: Option<u64>) -> Result<u8> {
    match u8::try_from(fsp.unwrap_or(0)).ok().filter(|fsp| *fsp <= 6) {
        Some(fsp) => Ok(fsp),
        None => unsupported("more than 6 digits of fractional seconds"),
    }
}

/// `DATE '…'`, `TIMESTAMP '…'`: checked now, as MySQL does.
pub(super) fn temporal_literal(ty: &DataType, text: &str) -> Result<Expr> {
    match ty {
        DataType::Date => match cast::parse_date(text) {
            Some(_) => Ok(cast_call(string(text), Target::Date)),
            None => Err(SqlError::incorrect_literal("DATE", text)),
        },
        DataType::Timestamp(..) | DataType::Datetime(_) => {
            if cast::parse_datetime(text, 6).is_none() {
                return Err(SqlError::incorrect_literal("DATETIME", text));
            }
            Ok(cast_call(string(text), Target::DateTime(fraction_of(text))))
        }
        DataType::Time(..) => match cast::parse_time(text, 6) {
            Some(_) => Ok(cast_call(string(text), Target::Time(fraction_of(text)))),
            None => Err(SqlError::incorrect_literal("TIME", text)),
        },
        other => unsupported(format!("the literal {other} '{text}'")),
    }
}

/// Digits of fractional seconds that a text shows, as far as they count.
fn fraction_of(text: &str) -> u8 {
    let fraction = text.rsplit_once('.');
    fraction.map_or(0, |(_, digits)| digits.trim().len().min(6)) as u8
}
