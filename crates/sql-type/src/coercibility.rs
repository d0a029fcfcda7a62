//! In which collation strings compare: MySQL's coercibility.

use std::cmp::Ordering;
use std::fmt;

use perigee_value::Collation;

/// How firmly an expression has its collation; the firmer one, which is the lesser, decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coercibility {
    /// By a COLLATE clause.
    Explicit,
    /// That of what is computed from columns of several collations: it cannot be compared.
    None,
    /// A column's, or that of what is computed from columns.
    Implicit,
    /// That of what the server knows, such as its version.
    SystemConstant,
    /// A literal's, and that of what is computed from literals.
    Coercible,
    /// That of numbers and dates, which are no strings.
    Numeric,
    /// That of NULL.
    Ignorable,
}

impl Coercibility {
    /// What COERCIBILITY() gives.
    #[must_use]
    pub const fn number(self) -> i64 {
        self as i64
    }
}

impl fmt::Display for Coercibility {
    /// As MySQL's messages have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Explicit => "EXPLICIT",
            Self::None => "NONE",
            Self::Implicit => "IMPLICIT",
            Self::SystemConstant => "SYSCONST",
            Self::Coercible => "COERCIBLE",
            Self::Numeric => "NUMERIC",
            Self::Ignorable => "IGNORABLE",
        })
    }
}

/// A collation, and how firmly an expression has it.
pub type Derived = (Collation, Coercibility);

/// No collation is that of both: error 1267.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixOfCollations(pub Derived, pub Derived);

/// The collation that strings have together which have these, and how firmly; of nothing that of literals. It is
/// [`Coercibility::None`] if they have none in which they compare.
///
/// # Errors
/// [`MixOfCollations`] for COLLATE clauses of different collations.
pub fn common_collation(
    all: impl IntoIterator<Item = Derived>,
) -> Result<Derived, MixOfCollations> {
    let mut all = all.into_iter();
    let first = all.next();
    let first = first.unwrap_or((Collation::UTF8MB4_BIN, Coercibility::Ignorable));
    all.try_fold(first, common)
}

/// The collation in which two strings compare.
///
/// # Errors
/// [`MixOfCollations`].
pub fn compared_in(one: Derived, other: Derived) -> Result<Collation, MixOfCollations> {
    match common(one, other)? {
        (_, Coercibility::None) => Err(MixOfCollations(one, other)),
        (collation, _) => Ok(collation),
    }
}

fn common(one: Derived, other: Derived) -> Result<Derived, MixOfCollations> {
    match one.1.cmp(&other.1) {
        Ordering::Less => return Ok(one),
        Ordering::Greater => return Ok(other),
        Ordering::Equal if one.0 == other.0 => return Ok(one),
        Ordering::Equal => {}
    }
    let (mine, others) = (one.0.charset(), other.0.charset());
    if mine != others {
        return Ok(match others.has_all_of(mine) {
            true => other,
            false => one,
        });
    }
    if one.1 == Coercibility::Explicit {
        return Err(MixOfCollations(one, other));
    }
    Ok(match mine.bin() {
        bin if one.0 == bin => one,
        bin if other.0 == bin => other,
        bin => (bin, Coercibility::None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIN: Collation = Collation::UTF8MB4_BIN;
    const CI: Collation = Collation::UTF8MB4_GENERAL_CI;
    const UNICODE: Collation = Collation::UTF8MB4_UNICODE_CI;
    const SHORT: Collation = Collation::UTF8MB3_GENERAL_CI;

    #[test]
    fn the_firmer_collation_decides() {
        use Coercibility::{Coercible, Explicit, Ignorable, Implicit, None};
        let cases = [
            (vec![], (BIN, Ignorable)),
            (vec![(CI, Implicit), (BIN, Coercible)], (CI, Implicit)),
            (vec![(BIN, Coercible), (CI, Implicit)], (CI, Implicit)),
            (vec![(CI, Implicit), (BIN, Implicit)], (BIN, Implicit)),
            (vec![(BIN, Implicit), (CI, Explicit)], (CI, Explicit)),
            (vec![(CI, Explicit), (CI, Explicit)], (CI, Explicit)),
            (vec![(CI, Implicit), (UNICODE, Implicit)], (BIN, None)),
            (
                vec![(CI, Implicit), (UNICODE, Implicit), (CI, Implicit)],
                (BIN, None),
            ),
            (
                vec![(CI, Implicit), (UNICODE, Implicit), (CI, Explicit)],
                (CI, Explicit),
            ),
            (
                vec![(SHORT, Implicit), (UNICODE, Implicit)],
                (UNICODE, Implicit),
            ),
            (
                vec![(SHORT, Implicit), (UNICODE, Coercible)],
                (SHORT, Implicit),
            ),
        ];
        for (all, common) in cases {
            assert_eq!(common_collation(all), Ok(common));
        }
        let two = [(CI, Explicit), (BIN, Implicit), (BIN, Explicit)];
        let mix = MixOfCollations((CI, Explicit), (BIN, Explicit));
        assert_eq!(common_collation(two), Err(mix));
    }

    #[test]
    fn what_has_no_collation_does_not_compare() {
        use Coercibility::{Coercible, Explicit, Implicit, None};
        let mix = MixOfCollations((CI, Implicit), (UNICODE, Implicit));
        assert_eq!(compared_in(mix.0, mix.1), Err(mix));
        let mix = MixOfCollations((BIN, None), (CI, Coercible));
        assert_eq!(compared_in(mix.0, mix.1), Err(mix));
        assert_eq!(compared_in(mix.0, (CI, Explicit)), Ok(CI));
        assert_eq!(Implicit.number(), 2);
        assert_eq!(Coercibility::Ignorable.number(), 6);
    }
}
