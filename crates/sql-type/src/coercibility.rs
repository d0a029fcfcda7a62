//! In which collation strings compare: MySQL's coercibility.

use perigee_value::Collation;

/// How firmly an expression has its collation; the firmer one, which is the lesser, decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coercibility {
    /// By a COLLATE clause.
    Explicit,
    /// A column's, or that of what is computed from columns.
    Implicit,
    /// A literal's, and that of what is computed from literals.
    Coercible,
    /// That of numbers, dates and NULL, which are no strings.
    Ignorable,
}

/// Two COLLATE clauses say different collations: error 1267.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixOfCollations(pub Collation, pub Collation);

/// The collation in which strings compare that have these, and how firmly; of nothing that of literals. Of two columns
/// with different collations the one in `utf8mb4_bin` decides.
///
/// # Errors
/// [`MixOfCollations`].
pub fn common_collation(
    all: impl IntoIterator<Item = (Collation, Coercibility)>,
) -> Result<(Collation, Coercibility), MixOfCollations> {
    let mut common = (Collation::UTF8MB4_BIN, Coercibility::Ignorable);
    for other in all {
        common = match other.1.cmp(&common.1) {
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Equal if other.0 != common.0 => {
                if other.1 == Coercibility::Explicit {
                    return Err(MixOfCollations(common.0, other.0));
                }
                (Collation::UTF8MB4_BIN, common.1)
            }
            _ => common,
        };
    }
    Ok(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIN: Collation = Collation::UTF8MB4_BIN;
    const CI: Collation = Collation::UTF8MB4_GENERAL_CI;

    #[test]
    fn the_firmer_collation_decides() {
        use Coercibility::{Coercible, Explicit, Ignorable, Implicit};
        let cases = [
            (vec![], (BIN, Ignorable)),
            (vec![(CI, Implicit), (BIN, Coercible)], (CI, Implicit)),
            (vec![(BIN, Coercible), (CI, Implicit)], (CI, Implicit)),
            (vec![(CI, Implicit), (BIN, Implicit)], (BIN, Implicit)),
            (vec![(BIN, Implicit), (CI, Explicit)], (CI, Explicit)),
            (vec![(CI, Explicit), (CI, Explicit)], (CI, Explicit)),
        ];
        for (all, common) in cases {
            assert_eq!(common_collation(all), Ok(common));
        }
        let two = [(CI, Explicit), (BIN, Implicit), (BIN, Explicit)];
        assert_eq!(common_collation(two), Err(MixOfCollations(CI, BIN)));
    }
}
