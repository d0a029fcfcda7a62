//! CAST, CONVERT, COLLATE, and literals of dates and times.

use perigee_expr::functions::Value;
use perigee_expr::scalar::{Node, Scalar, Target, is_castable};
use perigee_sql_type::{Coercibility, Number, SqlType, TEXT_CHARS};
use perigee_value::{Charset, Collation, ColumnType, Datum, bits, parse_text};
use sqlparser::ast::{
    CastKind, CharacterLength, DataType, ExactNumberInfo, Expr, TimezoneInfo, TypedString,
};

use crate::arithmetic::{as_number, unrounded};
use crate::error::unsupported;
use crate::expression::text_of_binary;
use crate::{BindError, Binder, Digits, Result};

/// The function that gives the bytes of a BIT.
const BITS_AS_BYTES: &str = "bits as bytes";

impl Binder<'_> {
    pub(crate) fn casts(&self, expr: &Expr) -> Result<Scalar> {
        match expr {
            Expr::Cast {
                kind: CastKind::Cast,
                expr: inner,
                data_type,
                array: false,
                format: None,
            } => self.cast(inner, data_type),
            Expr::Convert {
                expr: inner,
                data_type: Some(data_type),
                charset: None,
                styles,
                ..
            } if styles.is_empty() => self.cast(inner, data_type),
            Expr::Convert {
                expr: inner,
                data_type: None,
                charset: Some(charset),
                ..
            } => {
                let inner = self.expression(inner)?;
                self.in_charset(inner, charset_named(&charset.to_string())?)
            }
            Expr::TypedString(literal) => temporal_literal(literal),
            _ => unsupported("this form of CAST"),
        }
    }

    fn cast(&self, inner: &Expr, data_type: &DataType) -> Result<Scalar> {
        if matches!(data_type, DataType::JSON) {
            let inner = self.expression(inner)?;
            return match inner.ty.is_json() {
                true => Ok(inner),
                false => self.library("cast as json", vec![self.string(inner)?]),
            };
        }
        let (inner, target) = (self.number(inner)?, target(data_type)?);
        let inner = match target {
            Target::Binary(_) => self.in_own_bytes(self.string(text_of_binary(inner))?)?,
            Target::Char(_) | Target::Date | Target::DateTime(_) | Target::Time(_) => {
                self.string(text_of_binary(inner))?
            }
            _ => inner,
        };
        let mut cast = cast_to(inner, target)?;
        if cast.ty.is_text() {
            set_collation(&mut cast.ty, self.environment.collation());
        }
        Ok(cast)
    }

    /// A literal, which has the collation of the connection if it is a text.
    pub(crate) fn of_connection(&self, mut literal: Scalar) -> Scalar {
        if literal.ty.is_text() {
            set_collation(&mut literal.ty, self.environment.collation());
        }
        literal
    }

    /// A literal behind the name of a character set.
    pub(crate) fn introduced(&self, introducer: &str, value: &Expr) -> Result<Scalar> {
        let charset = charset_named(introducer.trim_start_matches('_'))?;
        let mut literal = self.expression(value)?;
        if matches!(charset, Charset::Latin1 | Charset::Ascii) {
            // The bytes of the literal are those of a text in that character set.
            let bytes = match literal.constant() {
                Some(Value::Text(text)) => text.as_bytes(),
                Some(Value::Bytes(bytes)) => bytes,
                _ => return unsupported(format_args!("{introducer} of this")),
            };
            let text = charset.text_of(bytes);
            let text = text.ok_or(BindError::InvalidText(charset))?;
            literal = crate::literal::text(&text);
        }
        if literal.ty.is_text() {
            set_collation(&mut literal.ty, charset.default_collation());
        }
        Ok(literal)
    }

    /// `CONVERT(scalar USING charset)`.
    fn in_charset(&self, scalar: Scalar, charset: Charset) -> Result<Scalar> {
        let scalar = self.string(scalar)?;
        let converted = match charset {
            Charset::Binary => return as_bytes(self, scalar),
            Charset::Latin1 => self.library("convert using latin1", vec![scalar])?,
            Charset::Ascii => self.library("convert using ascii", vec![scalar])?,
            Charset::Utf8mb4 | Charset::Utf8mb3 => scalar,
        };
        let mut text = match converted.ty.is_text() && converted.ty.members.is_none() {
            true => converted,
            false => cast_to(converted, Target::Char(None))?,
        };
        if !text.ty.is_null() {
            set_collation(&mut text.ty, charset.default_collation());
            text.ty.coercibility = Coercibility::Implicit;
        }
        Ok(text)
    }

    /// A value in a place of strings: a BIT is its bytes there, anything else stays what it is.
    pub(crate) fn string(&self, scalar: Scalar) -> Result<Scalar> {
        let Some(bits) = scalar.ty.bits() else {
            return Ok(scalar);
        };
        let nullable = scalar.ty.nullable;
        let width = bits::width(bits);
        let bytes = self.library(
            BITS_AS_BYTES,
            vec![scalar, crate::literal::int(width.into())],
        )?;
        let ty = SqlType::of(ColumnType::Varchar {
            chars: width.into(),
            collation: Collation::BINARY,
        });
        Ok(Scalar::new(bytes.node, ty.nullable(nullable)))
    }

    /// A text as its bytes in its own character set; anything else as it is.
    pub(crate) fn in_own_bytes(&self, scalar: Scalar) -> Result<Scalar> {
        let charset = scalar.ty.collation().charset();
        match scalar.ty.is_text() && charset == Charset::Latin1 {
            true => self.library("cast latin1 as binary", vec![scalar]),
            false => Ok(scalar),
        }
    }
}

fn as_bytes(binder: &Binder<'_>, scalar: Scalar) -> Result<Scalar> {
    cast_to(binder.in_own_bytes(scalar)?, Target::Binary(None))
}

pub(crate) fn set_collation(ty: &mut SqlType, collation: Collation) {
    ty.column = match ty.column {
        Some(ColumnType::Char { chars, .. } | ColumnType::Varchar { chars, .. }) => {
            Some(ColumnType::Varchar { chars, collation })
        }
        Some(ColumnType::Long { prefix, .. }) => Some(ColumnType::Long { prefix, collation }),
        other => other,
    };
}

fn charset_named(name: &str) -> Result<Charset> {
    let name = name.trim_matches(['`', '\'', '"']);
    Charset::named(name).ok_or_else(|| BindError::UnknownCharset(name.to_owned()))
}

/// `CAST(scalar AS target)`; a constant becomes one now.
pub(crate) fn cast_to(scalar: Scalar, target: Target) -> Result<Scalar> {
    if !is_castable(&scalar.ty, target) {
        return unsupported(format_args!("CAST AS {target} of this type"));
    }
    let to_number = matches!(
        target,
        Target::Signed | Target::Unsigned | Target::Decimal(..) | Target::Double | Target::Float
    );
    let scalar = match to_number {
        true => unrounded(as_number(scalar)?),
        false => scalar,
    };
    // Strings that are no dates become NULL.
    let is_string = scalar.ty.is_text() || scalar.ty.is_bytes();
    let may_fail =
        is_string || !to_number && !matches!(target, Target::Char(_) | Target::Binary(_));
    let ty = type_of(target, &scalar.ty).nullable(scalar.ty.nullable || may_fail);
    Ok(Scalar::new(Node::Cast(Box::new(scalar), target), ty))
}

pub(crate) fn type_of(target: Target, from: &SqlType) -> SqlType {
    let chars = |length: Option<u32>| {
        let own = match from.column {
            Some(ColumnType::Char { chars, .. } | ColumnType::Varchar { chars, .. }) => chars,
            _ => TEXT_CHARS,
        };
        length.map_or(own, |length| u16::try_from(length).unwrap_or(TEXT_CHARS))
    };
    SqlType::of(match target {
        Target::Signed | Target::Micros => return SqlType::int(),
        Target::Unsigned => return SqlType::uint(),
        Target::Decimal(precision, scale) => ColumnType::Decimal { precision, scale },
        Target::Double => ColumnType::Double,
        Target::Float => ColumnType::Float,
        Target::Char(length) => ColumnType::Varchar {
            chars: chars(length),
            collation: Collation::UTF8MB4_BIN,
        },
        Target::Binary(length) => ColumnType::Varchar {
            chars: chars(length),
            collation: Collation::BINARY,
        },
        Target::Date => ColumnType::Date,
        Target::DateTime(fsp) => ColumnType::DateTime { fsp },
        Target::Time(fsp) => ColumnType::Time { fsp },
        Target::Year => ColumnType::Year,
    })
}

/// A value as the text that is shown, or as its bytes.
pub(crate) fn as_text(scalar: Scalar, over_bytes: bool) -> Result<Scalar> {
    if scalar.ty.is_null() {
        return Ok(scalar);
    }
    match over_bytes {
        true => latin(scalar),
        false if scalar.ty.is_text() => Ok(scalar),
        false => cast_to(scalar, Target::Char(None)),
    }
}

/// Each byte of a string as the character with its number.
fn latin(scalar: Scalar) -> Result<Scalar> {
    let ty = SqlType::text(Collation::UTF8MB4_BIN).nullable(scalar.ty.nullable);
    let latin = Scalar::new(Node::Latin(Box::new(scalar)), ty);
    Ok(latin.converted_constant().unwrap_or(latin))
}

/// `scalar COLLATE name`.
pub(crate) fn collated(scalar: Scalar, name: &str) -> Result<Scalar> {
    let name = name.trim_matches(['`', '\'', '"']);
    let Some(collation) = Collation::named(name) else {
        return Err(BindError::UnknownCollation(name.to_owned()));
    };
    let scalar = match scalar.ty.is_text() || scalar.ty.is_bytes() || scalar.ty.is_null() {
        true => scalar,
        false => as_text(scalar, false)?,
    };
    let charset = scalar.ty.collation().charset();
    let is_json = scalar.ty.is_json();
    if charset != collation.charset() && !scalar.ty.is_null() && !is_json {
        return Err(BindError::CollationOfCharset(collation, charset));
    }
    let Scalar { node, mut ty } = scalar;
    set_collation(&mut ty, collation);
    ty.coercibility = Coercibility::Explicit;
    ty.members = None;
    Ok(Scalar::new(node, ty))
}

/// What CAST to a type means.
fn target(ty: &DataType) -> Result<Target> {
    Ok(match ty {
        DataType::Signed | DataType::SignedInteger => Target::Signed,
        DataType::Unsigned | DataType::UnsignedInteger => Target::Unsigned,
        DataType::Decimal(info) | DataType::Dec(info) => match *info {
            ExactNumberInfo::None => Target::Decimal(10, 0),
            ExactNumberInfo::Precision(p) => decimal(p, 0)?,
            ExactNumberInfo::PrecisionAndScale(p, s) => decimal(p, s)?,
        },
        DataType::Double(_) | DataType::Real => Target::Double,
        DataType::Char(length) => Target::Char(char_length(length)?),
        DataType::Date => Target::Date,
        DataType::Datetime(fsp) => Target::DateTime(fsp_of(*fsp)?),
        DataType::Time(fsp, TimezoneInfo::None) => Target::Time(fsp_of(*fsp)?),
        other => return unsupported(format_args!("CAST AS {other}")),
    })
}

fn decimal(precision: u64, scale: i64) -> Result<Target> {
    let wrong = |digits| Err(BindError::Digits(digits));
    let own_scale = u8::try_from(scale).ok();
    let Some(own_scale) = own_scale.filter(|scale| *scale <= Number::MAX_SCALE) else {
        return wrong(Digits::Scale(scale));
    };
    let own = u8::try_from(if precision == 0 { 10 } else { precision }).ok();
    let Some(own) = own.filter(|precision| *precision <= ColumnType::MAX_PRECISION) else {
        return wrong(Digits::Precision(precision));
    };
    match own_scale <= own {
        true => Ok(Target::Decimal(own, own_scale)),
        false => wrong(Digits::ScaleAbovePrecision),
    }
}

fn char_length(length: &Option<CharacterLength>) -> Result<Option<u32>> {
    match length {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length, unit: None }) => {
            match u16::try_from(*length) {
                Ok(length) => Ok(Some(length.into())),
                Err(_) => unsupported("CHAR of more than 65535 characters"),
            }
        }
        Some(other) => unsupported(format_args!("CHAR({other})")),
    }
}

fn fsp_of(fsp: Option<u64>) -> Result<u8> {
    match u8::try_from(fsp.unwrap_or(0)).ok().filter(|fsp| *fsp <= 6) {
        Some(fsp) => Ok(fsp),
        None => unsupported("more than 6 digits of fractional seconds"),
    }
}

/// `DATE '…'`, `TIMESTAMP '…'`, `TIME '…'`: checked now, as MySQL does.
fn temporal_literal(literal: &TypedString) -> Result<Scalar> {
    let Some(text) = literal.value.value.clone().into_string() else {
        return unsupported("this literal");
    };
    let fraction = text.rsplit_once('.');
    let fsp = fraction.map_or(0, |(_, digits)| digits.trim().len().min(6)) as u8;
    let (kind, column) = match literal.data_type {
        DataType::Date => ("DATE", ColumnType::Date),
        DataType::Timestamp(..) | DataType::Datetime(_) => {
            ("DATETIME", ColumnType::DateTime { fsp })
        }
        DataType::Time(..) => ("TIME", ColumnType::Time { fsp }),
        _ => return unsupported(format_args!("the literal {} '{text}'", literal.data_type)),
    };
    let value = match parse_text(column, text.as_bytes()) {
        Ok(Datum::Date(v)) => Value::Date(v),
        Ok(Datum::DateTime(v)) => Value::DateTime(v),
        Ok(Datum::Time(v)) => Value::Time(v),
        _ => return Err(BindError::IncorrectLiteral { kind, value: text }),
    };
    let ty = SqlType::of(column).nullable(false);
    Ok(Scalar::new(Node::Constant(value), ty))
}
