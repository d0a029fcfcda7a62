//! The type of an expression.

use std::sync::Arc;

use perigee_value::{Collation, ColumnType, Members};

use crate::unify::{Clash, Part, unify};
use crate::{Coercibility, MixOfCollations, TEXT_CHARS, compared_in};

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlType {
    /// The type of a column that has its values; `None` for NULL. That of an ENUM or a SET is the one of its texts.
    pub column: Option<ColumnType>,
    /// True if a value may be NULL.
    pub nullable: bool,
    /// True for the values 0 and 1 of a condition, which is an integer, too.
    pub truth: bool,
    /// Decimal digits of an integer that is known before there are rows.
    pub digits: Option<u8>,
    /// True for a literal, whose type gives way beside that of others.
    pub literal: bool,
    /// The members of an ENUM or a SET.
    pub members: Option<Arc<Members>>,
    /// How firmly a string has its collation.
    pub coercibility: Coercibility,
}

/// BIGINT and BIGINT UNSIGNED.
const fn bigint(unsigned: bool) -> ColumnType {
    ColumnType::Int { bytes: 8, unsigned }
}

impl SqlType {
    /// The type of NULL.
    pub const NULL: Self = Self {
        column: None,
        nullable: true,
        truth: false,
        digits: None,
        literal: true,
        members: None,
        coercibility: Coercibility::Ignorable,
    };

    /// Values of a column type that may be NULL.
    #[must_use]
    pub const fn of(column: ColumnType) -> Self {
        let coercibility = match column.is_string() {
            true => Coercibility::Implicit,
            false => Coercibility::Numeric,
        };
        Self {
            column: Some(column),
            nullable: true,
            truth: false,
            digits: None,
            literal: false,
            members: None,
            coercibility,
        }
    }

    /// Values of an ENUM or a SET.
    #[must_use]
    pub fn of_members(members: Arc<Members>) -> Self {
        let chars = members.max_chars();
        let collation = members.collation();
        Self {
            members: Some(members),
            ..Self::of(ColumnType::Varchar { chars, collation })
        }
    }

    /// BIGINT.
    #[must_use]
    pub const fn int() -> Self {
        Self::of(bigint(false))
    }

    /// BIGINT UNSIGNED.
    #[must_use]
    pub const fn uint() -> Self {
        Self::of(bigint(true))
    }

    /// 0, 1 or NULL.
    #[must_use]
    pub const fn truth() -> Self {
        let mut truth = Self::int();
        truth.truth = true;
        truth.digits = Some(1);
        truth
    }

    /// Characters, as many as can be told.
    #[must_use]
    pub const fn text(collation: Collation) -> Self {
        Self::of(ColumnType::Varchar {
            chars: TEXT_CHARS,
            collation,
        })
    }

    /// The same for values that are never NULL, if `nullable` is false.
    #[must_use]
    pub fn nullable(mut self, nullable: bool) -> Self {
        self.nullable = nullable;
        self
    }

    /// The same for a literal.
    #[must_use]
    pub fn literal(mut self) -> Self {
        self.literal = true;
        self.nullable = self.column.is_none();
        if self.coercibility == Coercibility::Implicit {
            self.coercibility = Coercibility::Coercible;
        }
        self
    }

    /// The collation of a string; that of literals for anything else.
    #[must_use]
    pub fn collation(&self) -> Collation {
        let own = self.column.and_then(ColumnType::collation);
        own.unwrap_or(Collation::UTF8MB4_BIN)
    }

    /// True for NULL without a type.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.column.is_none()
    }

    /// True for JSON.
    #[must_use]
    pub const fn is_json(&self) -> bool {
        matches!(self.column, Some(ColumnType::Json))
    }

    /// True for strings of bytes.
    #[must_use]
    pub fn is_bytes(&self) -> bool {
        let own = self.column.and_then(ColumnType::collation);
        own == Some(Collation::BINARY)
    }

    /// True for strings of characters, JSON not among them.
    #[must_use]
    pub fn is_text(&self) -> bool {
        let is_string = self.column.is_some_and(ColumnType::is_string);
        is_string && !self.is_json() && !self.is_bytes()
    }

    /// True for integers, YEAR, BIT, DECIMAL, FLOAT and DOUBLE.
    #[must_use]
    pub const fn is_number(&self) -> bool {
        matches!(
            self.column,
            Some(
                ColumnType::Int { .. }
                    | ColumnType::Year
                    | ColumnType::Bit { .. }
                    | ColumnType::Decimal { .. }
                    | ColumnType::Float
                    | ColumnType::Double
            )
        )
    }

    /// The number of bits of a BIT, which is its bytes where a string is wanted.
    #[must_use]
    pub const fn bits(&self) -> Option<u8> {
        match self.column {
            Some(ColumnType::Bit { bits }) => Some(bits),
            _ => None,
        }
    }

    /// True for DATE, DATETIME and TIMESTAMP.
    #[must_use]
    pub const fn is_moment(&self) -> bool {
        matches!(
            self.column,
            Some(ColumnType::Date | ColumnType::DateTime { .. } | ColumnType::Timestamp { .. })
        )
    }

    /// True for TIME.
    #[must_use]
    pub const fn is_time(&self) -> bool {
        matches!(self.column, Some(ColumnType::Time { .. }))
    }

    /// The type of one of several values: that of CASE, IF, COALESCE, UNION.
    ///
    /// # Errors
    /// [`Clash`] for types that no type has the values of.
    pub fn one_of<'t>(types: impl IntoIterator<Item = &'t Self>) -> Result<Self, Clash> {
        let types: Vec<&Self> = types.into_iter().collect();
        let nullable = types.iter().any(|ty| ty.nullable);
        let typed = || types.iter().filter(|ty| !ty.is_null());
        if typed().next().is_some() && typed().all(|ty| ty.truth) {
            return Ok(Self::truth().nullable(nullable));
        }
        let Some(all) = unify(typed().map(|ty| ty.part()))? else {
            return Ok(Self::NULL);
        };
        let mut common = Self::of(all.ty).nullable(nullable);
        if all.ty.is_string() {
            common.coercibility = all.coercibility.min(Coercibility::Coercible);
        }
        Ok(common)
    }

    fn part(&self) -> Part {
        let column = self.column.unwrap_or(bigint(false));
        let part = match self.literal || self.truth {
            true => Part::constant(column, self.digits),
            false => Part::new(column),
        };
        part.with_coercibility(self.coercibility)
    }

    /// The collation in which two strings compare.
    ///
    /// # Errors
    /// [`MixOfCollations`].
    pub fn common_collation(&self, other: &Self) -> Result<Collation, MixOfCollations> {
        let derived = |ty: &Self| (ty.collation(), ty.coercibility);
        compared_in(derived(self), derived(other))
    }
}
