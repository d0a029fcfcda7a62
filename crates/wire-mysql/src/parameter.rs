//! The parameters of a prepared statement, as COM_STMT_EXECUTE brings them: a bitmap of the NULLs,
//! the types if they are new, and the values behind each other.
//!
//! Values are borrowed from the packet. They are checked only as far as the packet's form goes: that
//! a text is UTF-8, a day in the calendar or a decimal a number is for the session to find out.

use perigee_types::DecodeError;

use crate::codec::Fields;
use crate::errors::{MALFORMED_PACKET, SqlError, WRONG_ARGUMENTS};

/// A day as a client writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Day {
    /// Year, 0 to 9999.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
}

/// A time of day as a client writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeOfDay {
    /// Hours, 0 to 23.
    pub hours: u8,
    /// Minutes, 0 to 59.
    pub minutes: u8,
    /// Seconds, 0 to 59.
    pub seconds: u8,
    /// Microseconds, 0 to 999,999.
    pub micros: u32,
}

/// The value of a parameter. The ranges of days and times are what a client should keep to; nobody
/// has checked that it did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameter<'a> {
    /// NULL.
    Null,
    /// An integer of a signed type.
    Int(i64),
    /// An integer of an unsigned type.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL, as text; not yet known to be a number.
    Decimal(&'a [u8]),
    /// Text; not yet known to be UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// DATE; all zeros is the zero date.
    Date(Day),
    /// DATETIME and TIMESTAMP.
    DateTime(Day, TimeOfDay),
    /// TIME.
    Time {
        /// Before zero.
        negative: bool,
        /// Days of the span.
        days: u32,
        /// The rest of it.
        time: TimeOfDay,
    },
}

/// The type that a client gives to a parameter, as far as its value's form depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterType {
    Null,
    Int { width: u8, unsigned: bool },
    Float,
    Double,
    Decimal,
    Date,
    DateTime,
    Time,
    Text,
    Bytes,
}

impl ParameterType {
    /// The type of a code and its flags; `None` if no parameter can have it.
    fn new(code: u8, flags: u8) -> Option<Self> {
        const UNSIGNED: u8 = 0x80;
        let int = |width| Self::Int {
            width,
            unsigned: flags & UNSIGNED != 0,
        };
        Some(match code {
            1 => int(1),
            // SMALLINT and YEAR, INT and MEDIUMINT have the same form.
            2 | 13 => int(2),
            3 | 9 => int(4),
            8 => int(8),
            4 => Self::Float,
            5 => Self::Double,
            6 => Self::Null,
            // DATETIME, TIMESTAMP and their internal forms.
            7 | 12 | 17 | 18 => Self::DateTime,
            10 | 14 => Self::Date,
            11 | 19 => Self::Time,
            0 | 246 => Self::Decimal,
            // VARCHAR, JSON, ENUM, SET, VAR_STRING, STRING.
            15 | 245 | 247 | 248 | 253 | 254 => Self::Text,
            // BIT, the BLOBs, GEOMETRY.
            16 | 249..=252 | 255 => Self::Bytes,
            _ => return None,
        })
    }

    /// The next value of this type.
    fn read<'a>(self, fields: &mut Fields<'a>) -> Result<Parameter<'a>, DecodeError> {
        Ok(match self {
            Self::Null => Parameter::Null,
            Self::Int { width, unsigned } => int(fields, width, unsigned)?,
            Self::Float => Parameter::Float(f32::from_bits(fields.u32()?)),
            Self::Double => Parameter::Double(f64::from_bits(fields.u64()?)),
            Self::Decimal => Parameter::Decimal(fields.lenenc_bytes()?),
            Self::Text => Parameter::Text(fields.lenenc_bytes()?),
            Self::Bytes => Parameter::Bytes(fields.lenenc_bytes()?),
            Self::Date => Parameter::Date(moment(fields)?.0),
            Self::DateTime => {
                let (day, time) = moment(fields)?;
                Parameter::DateTime(day, time)
            }
            Self::Time => span(fields)?,
        })
    }

    /// A value that came in parts before its statement was executed.
    fn long(self, bytes: &[u8]) -> Parameter<'_> {
        match self {
            Self::Bytes => Parameter::Bytes(bytes),
            _ => Parameter::Text(bytes),
        }
    }
}

fn int(
    fields: &mut Fields<'_>,
    width: u8,
    unsigned: bool,
) -> Result<Parameter<'static>, DecodeError> {
    let (signed, plain) = match width {
        1 => fields.u8().map(|v| (i64::from(v as i8), u64::from(v)))?,
        2 => fields.u16().map(|v| (i64::from(v as i16), u64::from(v)))?,
        4 => fields.u32().map(|v| (i64::from(v as i32), u64::from(v)))?,
        _ => fields.u64().map(|v| (v as i64, v))?,
    };
    Ok(if unsigned {
        Parameter::UInt(plain)
    } else {
        Parameter::Int(signed)
    })
}

/// A day and a time behind their length: 0, 4, 7 or 11 bytes; what is left out is zero.
fn moment(fields: &mut Fields<'_>) -> Result<(Day, TimeOfDay), DecodeError> {
    let (mut day, mut time) = (Day::default(), TimeOfDay::default());
    let length = fields.u8()?;
    if !matches!(length, 0 | 4 | 7 | 11) {
        return Err(DecodeError::new("DATETIME parameter"));
    }
    if length >= 4 {
        day = Day {
            year: fields.u16()?,
            month: fields.u8()?,
            day: fields.u8()?,
        };
    }
    if length >= 7 {
        time = time_of_day(fields, length == 11)?;
    }
    Ok((day, time))
}

/// A span of time behind its length: 0, 8 or 12 bytes; what is left out is zero.
fn span(fields: &mut Fields<'_>) -> Result<Parameter<'static>, DecodeError> {
    let length = fields.u8()?;
    Ok(match length {
        0 => Parameter::Time {
            negative: false,
            days: 0,
            time: TimeOfDay::default(),
        },
        8 | 12 => Parameter::Time {
            negative: fields.u8()? != 0,
            days: fields.u32()?,
            time: time_of_day(fields, length == 12)?,
        },
        _ => return Err(DecodeError::new("TIME parameter")),
    })
}

fn time_of_day(fields: &mut Fields<'_>, fraction: bool) -> Result<TimeOfDay, DecodeError> {
    Ok(TimeOfDay {
        hours: fields.u8()?,
        minutes: fields.u8()?,
        seconds: fields.u8()?,
        micros: if fraction { fields.u32()? } else { 0 },
    })
}

/// Why the arguments of an execution are refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParameterError {
    /// The packet ends too early or holds impossible lengths.
    Malformed(DecodeError),
    /// No types were ever given, or one that no parameter has.
    Types,
}

impl From<DecodeError> for ParameterError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl ParameterError {
    /// What the client is told.
    pub(crate) fn answer(&self) -> SqlError {
        match self {
            Self::Malformed(_) => MALFORMED_PACKET.with(&[]),
            Self::Types => WRONG_ARGUMENTS.with(&[&"mysqld_stmt_execute"]),
        }
    }
}

/// Reads the `count` parameters in `arguments`, which is what follows the fixed part of
/// COM_STMT_EXECUTE. `types` are those of the execution before and become those of this one; `long`
/// gives the value of a parameter that was sent in parts.
pub(crate) fn decode<'a>(
    arguments: &'a [u8],
    count: usize,
    types: &mut Vec<ParameterType>,
    long: impl Fn(usize) -> Option<&'a [u8]>,
) -> Result<Vec<Parameter<'a>>, ParameterError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut fields = Fields::new(arguments, "COM_STMT_EXECUTE");
    let nulls = fields.raw(count.div_ceil(8))?;
    if fields.u8()? == 1 {
        let codes = fields.raw(2 * count)?.chunks_exact(2);
        let bound = codes.map(|code| ParameterType::new(code[0], code[1]));
        *types = bound.collect::<Option<_>>().ok_or(ParameterError::Types)?;
    }
    if types.len() != count {
        return Err(ParameterError::Types);
    }
    let mut parameters = Vec::with_capacity(count);
    for (index, ty) in types.iter().enumerate() {
        let is_null = nulls[index / 8] & (1 << (index % 8)) != 0;
        parameters.push(match long(index) {
            Some(bytes) => ty.long(bytes),
            None if is_null => Parameter::Null,
            None => ty.read(&mut fields)?,
        });
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests;
