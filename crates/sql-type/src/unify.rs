//! The type of one value of several: the rule of CASE, IF, IFNULL, COALESCE, UNION, and of the columns that
//! CREATE TABLE … SELECT makes of them.
//!
//! MySQL merges the types one after the other by a table of pairs (`Field::field_type_merge`):
//!
//! | | integer | DECIMAL | FLOAT, DOUBLE | YEAR | date or time | text | bytes | JSON |
//! |---|---|---|---|---|---|---|---|---|
//! | integer | the wider one | DECIMAL | DOUBLE | integer | text | text | bytes | text |
//! | DECIMAL | | all digits of both | DOUBLE | DECIMAL | text | text | bytes | text |
//! | FLOAT, DOUBLE | | | the wider one | DOUBLE | text | text | bytes | text |
//! | YEAR | | | | YEAR | text | text | bytes | text |
//! | date or time | | | | | see below | text | bytes | text |
//! | text | | | | | | the longer one | bytes | text |
//!
//! A BIT beside another one is the longer one of both, beside other numbers an integer without a sign.
//! Integers with and without a sign become the next wider one with a sign, BIGINT UNSIGNED and one with a sign
//! DECIMAL(20, 0). FLOAT stays FLOAT beside integers of up to 16 bits and YEAR. DATE, DATETIME and TIMESTAMP become
//! DATETIME, with the most digits of fractional seconds of any. A TIME beside a date would be one of the day on which
//! it is asked; that is refused. NULL has every type.

use perigee_value::{Collation, ColumnType, bits};

use crate::{Coercibility, LONGEST_DECIMAL, TEXT_CHARS, common_collation};

/// One of the values, as far as its type decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its type; that of an ENUM is VARCHAR.
    pub ty: ColumnType,
    /// How firmly it has its collation.
    pub coercibility: Coercibility,
    /// Decimal digits of an integer: those of a literal are fewer than its type has.
    digits: u8,
    /// A literal, which is a VARCHAR if it is a string.
    constant: bool,
}

/// Two types that no type has the values of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clash(pub ColumnType, pub ColumnType);

impl Part {
    /// A value of a type.
    #[must_use]
    pub fn new(ty: ColumnType) -> Self {
        let digits = match ty {
            ColumnType::Int { bytes, unsigned } => match (bytes, unsigned) {
                (1, _) => 3,
                (2, _) => 5,
                (3, false) => 7,
                (3, true) => 8,
                (4, _) => 10,
                (_, false) => 19,
                (_, true) => 20,
            },
            ColumnType::Year => 4,
            ColumnType::Bit { bits } => bits::digits(bits),
            _ => 0,
        };
        let coercibility = match ty.collation() {
            Some(_) => Coercibility::Implicit,
            None => Coercibility::Ignorable,
        };
        Self {
            ty,
            coercibility,
            digits,
            constant: false,
        }
    }

    /// The same, with a collation that is so firm; what has none is left as it is.
    #[must_use]
    pub fn with_coercibility(self, coercibility: Coercibility) -> Self {
        let coercibility = match self.ty.collation() {
            Some(_) => coercibility,
            None => self.coercibility,
        };
        Self {
            coercibility,
            ..self
        }
    }

    /// A constant; if it is an integer, of so many digits.
    #[must_use]
    pub fn constant(ty: ColumnType, digits: Option<u8>) -> Self {
        let new = Self::new(ty);
        Self {
            digits: digits.unwrap_or(new.digits),
            constant: true,
            ..new.with_coercibility(Coercibility::Coercible)
        }
    }

    /// The type that has this part's values and another's.
    fn with(self, other: Self) -> Result<Self, Clash> {
        use Class::{Bytes, Exact, Float, Json, Moment, Text, Time, Year};
        let [left, right] = [Class::of(self.ty), Class::of(other.ty)];
        let constant = self.constant && other.constant;
        let coercibility = self.coercibility.min(other.coercibility);
        let merged = |ty| {
            let new = Self::new(ty).with_coercibility(coercibility);
            let digits = self.digits.max(other.digits);
            Self {
                digits,
                constant,
                ..new
            }
        };
        if let Some(bits) = longer_bits(self.ty, other.ty) {
            return Ok(merged(ColumnType::Bit { bits }));
        }
        Ok(match (left, right) {
            (Year, Year) | (Json, Json) => merged(self.ty),
            (Bytes, _) | (_, Bytes) => merged(bytes(self.ty, other.ty)),
            (Exact | Year, Exact | Year) => merged(exact(self, other)),
            (Float, Float | Exact | Year) | (Exact | Year, Float) => {
                merged(float(self.ty, other.ty))
            }
            (Moment, Moment) => merged(match (self.ty, other.ty) {
                (ColumnType::Date, ColumnType::Date) => ColumnType::Date,
                (a, b) => ColumnType::DateTime { fsp: fsp(a, b) },
            }),
            (Time, Time) => merged(ColumnType::Time {
                fsp: fsp(self.ty, other.ty),
            }),
            (Moment, Time) | (Time, Moment) => return Err(Clash(self.ty, other.ty)),
            (Json | Text | Moment | Time | Exact | Float | Year, _) => {
                let (collation, coercibility) = collation(self, other);
                merged(text(self, other, collation)).with_coercibility(coercibility)
            }
        })
    }
}

/// What has the values of all parts; `None` if there are none, which is the type of NULL.
///
/// # Errors
/// The first two types that do not go together.
pub fn unify(parts: impl IntoIterator<Item = Part>) -> Result<Option<Part>, Clash> {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else {
        return Ok(None);
    };
    parts.try_fold(first, Part::with).map(Some)
}

/// What a type is in the table above.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// An integer, DECIMAL or BIT.
    Exact,
    Float,
    Year,
    /// DATE, DATETIME, TIMESTAMP.
    Moment,
    Time,
    Text,
    Bytes,
    Json,
}

impl Class {
    fn of(ty: ColumnType) -> Self {
        match ty {
            ColumnType::Int { .. } | ColumnType::Decimal { .. } | ColumnType::Bit { .. } => {
                Self::Exact
            }
            ColumnType::Float | ColumnType::Double => Self::Float,
            ColumnType::Year => Self::Year,
            ColumnType::Date | ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => {
                Self::Moment
            }
            ColumnType::Time { .. } => Self::Time,
            ColumnType::Json => Self::Json,
            ColumnType::Char { collation, .. }
            | ColumnType::Varchar { collation, .. }
            | ColumnType::Long { collation, .. } => match collation {
                Collation::BINARY => Self::Bytes,
                _ => Self::Text,
            },
        }
    }
}

/// The bits of the longer one of two BITs.
fn longer_bits(a: ColumnType, b: ColumnType) -> Option<u8> {
    match (a, b) {
        (ColumnType::Bit { bits }, ColumnType::Bit { bits: other }) => Some(bits.max(other)),
        _ => None,
    }
}

fn fsp(a: ColumnType, b: ColumnType) -> u8 {
    a.fsp().max(b.fsp()).unwrap_or(0)
}

/// Integers, DECIMALs and YEARs.
fn exact(a: Part, b: Part) -> ColumnType {
    let integer = |ty: ColumnType| match ty {
        ColumnType::Int { bytes, unsigned } => Some((bytes, unsigned)),
        ColumnType::Year => Some((2, true)),
        ColumnType::Bit { .. } => Some((ty.stored_width().unwrap_or(8) as u8, true)),
        _ => None,
    };
    if let (Some((a, s)), Some((b, t))) = (integer(a.ty), integer(b.ty)) {
        if s == t {
            let (bytes, unsigned) = (a.max(b), s);
            return ColumnType::Int { bytes, unsigned };
        }
        let (signed, unsigned) = if s { (b, a) } else { (a, b) };
        return match unsigned {
            8 => ColumnType::Decimal {
                precision: 20,
                scale: 0,
            },
            unsigned => ColumnType::Int {
                bytes: signed.max(wider(unsigned)),
                unsigned: false,
            },
        };
    }
    let [(p, s), (q, t)] = [a, b].map(|part| match part.ty {
        ColumnType::Decimal { precision, scale } => (precision, scale),
        _ => (part.digits, 0),
    });
    let scale = s.max(t);
    ColumnType::Decimal {
        // A value of more digits is an error when it comes.
        precision: ((p - s).max(q - t) + scale).min(LONGEST_DECIMAL),
        scale,
    }
}

/// Bytes of the next wider integer.
fn wider(bytes: u8) -> u8 {
    match bytes {
        1 => 2,
        2 => 3,
        3 => 4,
        _ => 8,
    }
}

/// Numbers of which one is a FLOAT or DOUBLE.
fn float(a: ColumnType, b: ColumnType) -> ColumnType {
    let is_short = |ty| {
        matches!(
            ty,
            ColumnType::Float | ColumnType::Year | ColumnType::Int { bytes: ..=2, .. }
        )
    };
    match is_short(a) && is_short(b) {
        true => ColumnType::Float,
        false => ColumnType::Double,
    }
}

/// Most characters that a value of a type is shown with.
fn chars(part: Part) -> u32 {
    let fraction = |fsp: u8| u32::from(fsp) + u32::from(fsp > 0);
    match part.ty {
        ColumnType::Int { unsigned, .. } => u32::from(part.digits) + u32::from(!unsigned),
        ColumnType::Decimal { precision, scale } => {
            u32::from(precision) + 1 + u32::from(scale > 0) + u32::from(scale == precision)
        }
        ColumnType::Float => 12,
        ColumnType::Double => 22,
        ColumnType::Year => 4,
        ColumnType::Bit { .. } => part.digits.into(),
        ColumnType::Date => 10,
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => 19 + fraction(fsp),
        ColumnType::Time { fsp } => 10 + fraction(fsp),
        ColumnType::Char { chars, .. } | ColumnType::Varchar { chars, .. } => chars.into(),
        ColumnType::Long { .. } | ColumnType::Json => u32::MAX,
    }
}

/// The bytes that say the length of a long value.
fn prefix(ty: ColumnType) -> u8 {
    match ty {
        ColumnType::Long { prefix, .. } => prefix,
        ColumnType::Json => 4,
        _ => 2,
    }
}

/// The collation that both have. Two COLLATE clauses are an error only where the strings are compared.
fn collation(a: Part, b: Part) -> (Collation, Coercibility) {
    let both = [a, b].map(|part| {
        let own = part.ty.collation().unwrap_or(Collation::UTF8MB4_BIN);
        (own, part.coercibility)
    });
    common_collation(both).unwrap_or((Collation::UTF8MB4_BIN, Coercibility::None))
}

/// A text that has the values of both.
fn text(a: Part, b: Part, collation: Collation) -> ColumnType {
    if a.ty.is_long() || b.ty.is_long() {
        let prefix = prefix(a.ty).max(prefix(b.ty));
        return ColumnType::Long { prefix, collation };
    }
    let chars = chars(a).max(chars(b)).min(TEXT_CHARS.into()) as u16;
    let is_char = |part: Part| match part.ty {
        ColumnType::Varchar { .. } => false,
        _ => !(part.constant && part.ty.is_string()),
    };
    let has_char = [a, b]
        .iter()
        .any(|part| matches!(part.ty, ColumnType::Char { .. }));
    // Values of CHAR have no trailing spaces, nor have numbers and dates.
    match has_char && is_char(a) && is_char(b) && chars <= 255 {
        true => ColumnType::Char { chars, collation },
        false => ColumnType::Varchar { chars, collation },
    }
}

/// A string of bytes that has the values of both, of which a text's characters are up to four.
fn bytes(a: ColumnType, b: ColumnType) -> ColumnType {
    let collation = Collation::BINARY;
    let length = |ty: ColumnType| match Class::of(ty) {
        Class::Bytes => chars(Part::new(ty)),
        Class::Text if !ty.is_long() => 4 * chars(Part::new(ty)),
        _ => chars(Part::new(ty)),
    };
    let chars = u16::try_from(length(a).max(length(b)));
    match chars {
        Ok(chars) if !a.is_long() && !b.is_long() => ColumnType::Varchar { chars, collation },
        _ => ColumnType::Long {
            prefix: prefix(a).max(prefix(b)),
            collation,
        },
    }
}

#[cfg(test)]
#[path = "unify_tests.rs"]
mod tests;
