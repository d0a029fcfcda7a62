//! Columns: definitions and types, and what SHOW writes of them.

use std::sync::Arc;

use perigee_engine::catalog::{ColumnDef, ColumnDefault};
use perigee_value::{Collation, ColumnType, Datum, Members, MembersError, MembersKind, Zone, bits};
use sqlparser::ast::{
    BinaryLength, CharacterLength, ColumnDef as AstColumn, ColumnOption, DataType, EnumMember,
    ExactNumberInfo, Expr, FunctionArguments, GeneratedExpressionMode, TimezoneInfo, Value,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::draft::Computed;
use super::options::texts;
use super::{MAX_NAME, unsupported};
use crate::error::{Result, SqlError};
use crate::parse::{Collating, charset_named, collation_named};
use crate::session::insert::literal_datum;

/// A column as a statement defines it.
pub(super) struct Definition {
    pub column: ColumnDef,
    /// A key that its options ask for.
    pub key: Option<Inline>,
    /// AUTO_INCREMENT.
    pub counts: bool,
    /// NULL is said.
    pub null_said: bool,
    /// How its values are computed, of a generated column.
    pub computed: Option<Computed>,
}

/// A key that a column's options ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inline {
    Primary,
    Unique,
}

/// The column that a definition means; its collation is `otherwise` unless it says another one.
pub(super) fn column_definition(
    column: &AstColumn,
    otherwise: Collation,
    zone: Zone,
) -> Result<Definition> {
    let name = checked_column_name(&column.name.value)?;
    let values = listed(&column.data_type)?;
    let ty = match &values {
        // The numbers are known with the collation.
        Some(_) => ColumnType::Int {
            bytes: 1,
            unsigned: true,
        },
        None => column_type(&name, &column.data_type)?,
    };
    let mut def = ColumnDef::new(name, ty);
    let mut key = None;
    let mut default = None;
    let (mut counts, mut null_said) = (false, false);
    let mut computed: Option<Computed> = None;
    let mut collating = Collating::default();
    for option in &column.options {
        match &option.option {
            ColumnOption::Null => {
                def.nullable = true;
                null_said = true;
            }
            ColumnOption::NotNull => def.nullable = false,
            ColumnOption::Default(value) => default = Some(value),
            ColumnOption::PrimaryKey(_) => key = Some(Inline::Primary),
            ColumnOption::Unique(_) => key = Some(Inline::Unique),
            ColumnOption::Comment(text) => def.comment.clone_from(text),
            ColumnOption::CharacterSet(name) => {
                collating.charset = Some(charset_named(&name.to_string())?);
            }
            ColumnOption::Collation(name) => {
                collating.collation = Some(collation_named(&name.to_string())?);
            }
            // MySQL 8 reads it and does nothing.
            ColumnOption::ForeignKey(_) => {}
            // The draft has it.
            ColumnOption::Check(_) => {}
            ColumnOption::Generated {
                generation_expr: Some(expr),
                generation_expr_mode: mode,
                ..
            } => {
                computed = Some(Computed {
                    expr: expr.clone(),
                    stored: *mode == Some(GeneratedExpressionMode::Stored),
                });
            }
            ColumnOption::OnUpdate(value) => {
                if !current_time(value).is_some_and(|digits| is_time_with(def.ty, digits)) {
                    return Err(SqlError::invalid_on_update(&def.name));
                }
                def.on_update_now = true;
            }
            ColumnOption::Invisible => def.invisible = true,
            ColumnOption::DialectSpecific(tokens) if is_auto_increment(tokens) => counts = true,
            ColumnOption::DialectSpecific(tokens) => {
                let text: Vec<_> = tokens.iter().map(ToString::to_string).collect();
                return unsupported(text.join(" "));
            }
            other => return unsupported(format!("the column option {other}")),
        }
    }
    let has_bytes = matches!(def.ty, ColumnType::Varchar { .. } | ColumnType::Long { .. });
    let collation = match collating.said()? {
        // VARCHAR … CHARACTER SET binary is VARBINARY.
        Some(Collation::BINARY) if has_bytes && values.is_none() => Collation::BINARY,
        said => texts(said.unwrap_or(otherwise))?,
    };
    match values {
        Some((kind, texts)) => set_members(&mut def, kind, texts, collation)?,
        None => def.ty = with_collation(def.ty, collation),
    }
    if key == Some(Inline::Primary) && !null_said {
        def.nullable = false;
    }
    if counts {
        if !matches!(def.ty, ColumnType::Int { .. }) || def.members.is_some() {
            return Err(SqlError::wrong_column_specifier(&def.name));
        }
        if default.is_some() {
            return Err(SqlError::invalid_default(&def.name));
        }
        def.nullable = false;
    }
    if computed.is_some() {
        let what = [
            (default.is_some(), "DEFAULT"),
            (counts, "AUTO_INCREMENT"),
            (def.on_update_now, "ON UPDATE"),
        ];
        if let Some((_, what)) = what.iter().find(|(is_said, _)| *is_said) {
            return Err(SqlError::wrong_usage(*what, "generated column"));
        }
    }
    if let Some(default) = default {
        set_default(&mut def, default, zone)?;
    }
    Ok(Definition {
        column: def,
        key,
        counts,
        null_said,
        computed,
    })
}

/// The texts that the type of a column lists.
fn listed(ty: &DataType) -> Result<Option<(MembersKind, Vec<String>)>> {
    let text = |value: &EnumMember| match value {
        EnumMember::Name(text) => Ok(text.clone()),
        EnumMember::NamedValue(..) => unsupported("ENUM with numbers"),
    };
    Ok(match ty {
        DataType::Enum(values, None) => {
            let texts = values.iter().map(text).collect::<Result<_>>()?;
            Some((MembersKind::Enum, texts))
        }
        DataType::Set(texts) => Some((MembersKind::Set, texts.clone())),
        _ => None,
    })
}

/// Gives a column of type ENUM or SET its members.
fn set_members(
    column: &mut ColumnDef,
    kind: MembersKind,
    texts: Vec<String>,
    collation: Collation,
) -> Result<()> {
    let name = match kind {
        MembersKind::Enum => "ENUM",
        MembersKind::Set => "SET",
    };
    let members = Members::of(kind, texts, collation).map_err(|error| match error {
        MembersError::Duplicate(text) => SqlError::duplicated_value(&column.name, text, name),
        MembersError::TooLong => SqlError::too_long_value(&column.name),
        MembersError::Comma(text) => SqlError::illegal_value("set", text),
        MembersError::Count(0) => SqlError::syntax("", 1),
        MembersError::Count(_) => SqlError::too_many_values(&column.name, name),
    })?;
    column.ty = members.ty();
    column.members = Some(Arc::new(members));
    Ok(())
}

fn is_auto_increment(tokens: &[Token]) -> bool {
    matches!(tokens, [Token::Word(word)] if word.keyword == Keyword::AUTO_INCREMENT)
}

/// Gives a column a default, which a statement writes in a time zone.
///
/// # Errors
/// 1067 if it does not fit the column, 1101 if the column cannot have one.
pub(super) fn set_default(column: &mut ColumnDef, default: &Expr, zone: Zone) -> Result<()> {
    if let Some(digits) = current_time(default) {
        if !is_time_with(column.ty, digits) {
            return Err(SqlError::invalid_default(&column.name));
        }
        column.default = Some(ColumnDefault::Now);
        return Ok(());
    }
    let is_null = matches!(default, Expr::Value(value) if value.value == Value::Null);
    if column.ty.is_long() && !is_null {
        return Err(SqlError::long_default(&column.name));
    }
    let value = default_value(default, column, zone).map_err(|e| match e.errno {
        1235 => e,
        _ => SqlError::invalid_default(&column.name),
    })?;
    if value.is_null() && !column.nullable {
        return Err(SqlError::invalid_default(&column.name));
    }
    // DEFAULT NULL is what a nullable column has anyway.
    column.default = (!value.is_null()).then_some(ColumnDefault::Value(value));
    Ok(())
}

/// The value that a literal stands for. That of a SET is its members, not their number.
fn default_value(default: &Expr, column: &ColumnDef, zone: Zone) -> Result<Datum> {
    let is_text = |value: &Value| {
        matches!(value, Value::SingleQuotedString(text) | Value::DoubleQuotedString(text)
            if column.members.as_ref().is_some_and(|own| own.number(text.as_bytes()).is_some()))
    };
    match default {
        Expr::Value(value) if column.is_set() && value.value != Value::Null => {
            match is_text(&value.value) {
                true => literal_datum(default, column, zone),
                false => Err(SqlError::invalid_default(&column.name)),
            }
        }
        _ => literal_datum(default, column, zone),
    }
}

/// The digits of CURRENT_TIMESTAMP(digits) or one of its synonyms.
fn current_time(expr: &Expr) -> Option<u8> {
    let Expr::Function(function) = expr else {
        return None;
    };
    let name = function.name.to_string().to_ascii_lowercase();
    if !["current_timestamp", "now", "localtime", "localtimestamp"].contains(&name.as_str()) {
        return None;
    }
    let arguments = match &function.args {
        FunctionArguments::None => &[][..],
        FunctionArguments::List(list) => &list.args,
        FunctionArguments::Subquery(_) => return None,
    };
    match arguments {
        [] => Some(0),
        [argument] => argument.to_string().parse().ok(),
        _ => None,
    }
}

/// True for DATETIME and TIMESTAMP with so many digits of fractional seconds.
fn is_time_with(ty: ColumnType, digits: u8) -> bool {
    let is_time = matches!(
        ty,
        ColumnType::DateTime { .. } | ColumnType::Timestamp { .. }
    );
    is_time && ty.fsp() == Some(digits)
}

/// A name that a column may have.
pub(super) fn checked_column_name(name: &str) -> Result<String> {
    if name.is_empty() || name.ends_with(' ') || name.chars().count() > MAX_NAME {
        return Err(SqlError::wrong_column_name(name));
    }
    Ok(name.to_owned())
}

/// A column's type; everything but the types of `ColumnType` is refused.
fn column_type(column: &str, ty: &DataType) -> Result<ColumnType> {
    let int = |bytes, unsigned| Ok(ColumnType::Int { bytes, unsigned });
    let collation = Collation::UTF8MB4_BIN;
    match ty {
        DataType::Bool | DataType::Boolean | DataType::TinyInt(_) => int(1, false),
        DataType::TinyIntUnsigned(_) => int(1, true),
        DataType::SmallInt(_) | DataType::Int2(_) => int(2, false),
        DataType::SmallIntUnsigned(_) | DataType::Int2Unsigned(_) => int(2, true),
        DataType::MediumInt(_) => int(3, false),
        DataType::MediumIntUnsigned(_) => int(3, true),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => int(4, false),
        DataType::IntUnsigned(_) | DataType::IntegerUnsigned(_) | DataType::Int4Unsigned(_) => {
            int(4, true)
        }
        DataType::BigInt(_) | DataType::Int8(_) => int(8, false),
        DataType::BigIntUnsigned(_) | DataType::Int8Unsigned(_) => int(8, true),
        DataType::Decimal(info) | DataType::Numeric(info) | DataType::Dec(info) => {
            decimal(column, *info)
        }
        DataType::Float(ExactNumberInfo::None) | DataType::Float4 => Ok(ColumnType::Float),
        DataType::Double(ExactNumberInfo::None)
        | DataType::DoublePrecision
        | DataType::Float8
        | DataType::Real => Ok(ColumnType::Double),
        DataType::Bit(None | Some(0)) => Ok(ColumnType::Bit { bits: 1 }),
        DataType::Bit(Some(width)) => match u8::try_from(*width) {
            Ok(bits) if bits <= bits::MAX_BITS => Ok(ColumnType::Bit { bits }),
            _ => Err(SqlError::too_wide(column, bits::MAX_BITS)),
        },
        DataType::Date => Ok(ColumnType::Date),
        DataType::Datetime(fsp) => Ok(ColumnType::DateTime {
            fsp: fraction(column, *fsp)?,
        }),
        DataType::Timestamp(fsp, TimezoneInfo::None) => Ok(ColumnType::Timestamp {
            fsp: fraction(column, *fsp)?,
        }),
        DataType::Time(fsp, TimezoneInfo::None) => Ok(ColumnType::Time {
            fsp: fraction(column, *fsp)?,
        }),
        DataType::Custom(name, digits) if name.to_string().eq_ignore_ascii_case("year") => {
            match digits.as_slice() {
                [] => Ok(ColumnType::Year),
                [four] if four == "4" => Ok(ColumnType::Year),
                _ => Err(SqlError::invalid_year_length()),
            }
        }
        DataType::Char(length) | DataType::Character(length) => {
            let chars = length_of(length.as_ref(), 1)?;
            if chars > 255 {
                return Err(SqlError::column_too_long(column, 255));
            }
            Ok(ColumnType::Char {
                chars: chars as u16,
                collation,
            })
        }
        DataType::Varchar(length) | DataType::CharacterVarying(length) => {
            if length.is_none() {
                return Err(SqlError::syntax("", 1));
            }
            // 65,535 bytes of at most four a character.
            let chars = length_of(length.as_ref(), 0)?;
            if chars > 16_383 {
                return Err(SqlError::column_too_long(column, 16_383));
            }
            Ok(ColumnType::Varchar {
                chars: chars as u16,
                collation,
            })
        }
        DataType::Varbinary(Some(BinaryLength::IntegerLength { length })) => {
            match u16::try_from(*length) {
                Ok(chars) => Ok(ColumnType::Varchar {
                    chars,
                    collation: Collation::BINARY,
                }),
                Err(_) => Err(SqlError::column_too_long(column, u16::MAX)),
            }
        }
        DataType::TinyText => Ok(long(1, collation)),
        DataType::Text => Ok(long(2, collation)),
        DataType::MediumText => Ok(long(3, collation)),
        DataType::LongText => Ok(long(4, collation)),
        DataType::TinyBlob => Ok(long(1, Collation::BINARY)),
        DataType::Blob(None) => Ok(long(2, Collation::BINARY)),
        DataType::Blob(Some(bytes)) => {
            // The smallest that takes so many bytes.
            let fits = |prefix: &u8| u64::from(ColumnType::long_limit(*prefix)) >= *bytes;
            match (1..=4).find(fits) {
                Some(prefix) => Ok(long(prefix, Collation::BINARY)),
                None => Err(SqlError::column_too_long(column, u32::MAX)),
            }
        }
        DataType::MediumBlob => Ok(long(3, Collation::BINARY)),
        DataType::JSON => Ok(ColumnType::Json),
        DataType::LongBlob => Ok(long(4, Collation::BINARY)),
        other => unsupported(format!("the type {other}")),
    }
}

/// Digits of fractional seconds.
fn fraction(column: &str, digits: Option<u64>) -> Result<u8> {
    let digits = digits.unwrap_or(0);
    let fsp = u8::try_from(digits).ok().filter(|fsp| *fsp <= 6);
    fsp.ok_or_else(|| SqlError::precision_too_big(digits, column, 6))
}

/// Gives a column of texts another collation.
///
/// # Errors
/// 1291 if two members of an ENUM or a SET are equal in it.
pub(super) fn convert(column: &mut ColumnDef, collation: Collation) -> Result<()> {
    let Some(members) = &column.members else {
        column.ty = with_collation(column.ty, collation);
        return Ok(());
    };
    let (kind, texts) = (members.kind(), members.texts().to_vec());
    set_members(column, kind, texts, collation)
}

/// The type with another collation, if it is one of texts.
fn with_collation(ty: ColumnType, collation: Collation) -> ColumnType {
    match ty {
        ColumnType::Char { chars, .. } => ColumnType::Char { chars, collation },
        ColumnType::Varchar {
            chars,
            collation: own,
        } if own.is_text() => ColumnType::Varchar { chars, collation },
        ColumnType::Long {
            prefix,
            collation: own,
        } if own.is_text() => ColumnType::Long { prefix, collation },
        other => other,
    }
}

const fn long(prefix: u8, collation: Collation) -> ColumnType {
    ColumnType::Long { prefix, collation }
}

fn decimal(column: &str, info: ExactNumberInfo) -> Result<ColumnType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (10, 0),
        ExactNumberInfo::Precision(p) => (p, 0),
        ExactNumberInfo::PrecisionAndScale(p, s) => (p, s),
    };
    let precision = if precision == 0 { 10 } else { precision };
    let most = u64::from(ColumnType::MAX_PRECISION);
    if scale < 0 || scale as u64 > u64::from(ColumnType::MAX_SCALE) {
        return Err(SqlError::scale_too_big(
            scale,
            column,
            ColumnType::MAX_SCALE,
        ));
    }
    if precision > most {
        return Err(SqlError::precision_too_big(precision, column, most));
    }
    if scale as u64 > precision {
        return Err(SqlError::scale_above_precision(column));
    }
    Ok(ColumnType::Decimal {
        precision: precision as u8,
        scale: scale as u8,
    })
}

fn length_of(length: Option<&CharacterLength>, default: u64) -> Result<u64> {
    match length {
        None => Ok(default),
        Some(CharacterLength::IntegerLength { length, unit: None }) => Ok(*length),
        Some(other) => unsupported(format!("CHAR({other})")),
    }
}

/// A string as SQL writes it.
pub(in crate::session) fn quoted(text: &str) -> String {
    Value::SingleQuotedString(text.to_owned())
        .to_string()
        .replace('\\', "\\\\")
        .replace('\0', "\\0")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}
