//! Ranges of a primary key's first column, by which tables are cut into pieces.

use crate::names::ident;

/// Integers of a key, from one on and below another; without a bound all there are on that side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub from: Option<i128>,
    pub below: Option<i128>,
}

impl Range {
    /// The condition for rows in the range, with WHERE; nothing for all rows.
    pub(crate) fn condition(&self, column: Option<&str>) -> String {
        let Some(column) = column.map(ident) else {
            return String::new();
        };
        let from = self.from.map(|from| format!("{column} >= {from}"));
        let below = self.below.map(|below| format!("{column} < {below}"));
        let bounds: Vec<_> = from.into_iter().chain(below).collect();
        match bounds.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", bounds.join(" AND ")),
        }
    }

    /// The range for messages.
    pub(crate) fn shown(&self, column: Option<&str>) -> String {
        let Some(column) = column else {
            return "all rows".to_owned();
        };
        match (self.from, self.below) {
            (None, None) => "all rows".to_owned(),
            (Some(from), None) => format!("{column} from {from}"),
            (None, Some(below)) => format!("{column} below {below}"),
            (Some(from), Some(below)) => format!("{column} from {from} and below {below}"),
        }
    }

    /// Cuts the range into pieces of about the same width, given the least and the greatest key there are. The pieces cover
    /// the range, and do not overlap.
    pub(crate) fn split(self, least: i128, greatest: i128, pieces: u64) -> Vec<Self> {
        let first = self.from.map_or(least, |from| from.max(least));
        let last = self
            .below
            .map_or(greatest, |below| (below - 1).min(greatest));
        let width = (last - first + 1).max(1);
        let pieces = i128::from(pieces).clamp(1, width);
        let bound = |piece: i128| first + width * piece / pieces;
        let mut found = Vec::new();
        for piece in 0..pieces {
            found.push(Self {
                from: if piece == 0 {
                    self.from
                } else {
                    Some(bound(piece))
                },
                below: if piece + 1 == pieces {
                    self.below
                } else {
                    Some(bound(piece + 1))
                },
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn conditions_name_the_bounds() {
        let range = Range {
            from: Some(-5),
            below: Some(7),
        };
        assert_eq!(
            range.condition(Some("a`")),
            " WHERE `a``` >= -5 AND `a``` < 7"
        );
        assert_eq!(Range::default().condition(Some("a")), "");
        assert_eq!(range.condition(None), "");
        assert_eq!(range.shown(Some("id")), "id from -5 and below 7");
    }

    proptest! {
        #[test]
        fn pieces_have_every_key_once(
            least in -50_i128..50, width in 0_i128..100, pieces in 0_u64..20, key in -200_i128..200,
        ) {
            let whole = Range::default();
            for part in whole.split(least, least + width, 3) {
                let found = part.split(least, least + width, pieces);
                let has = |range: &Range| {
                    range.from.is_none_or(|from| key >= from) && range.below.is_none_or(|below| key < below)
                };
                prop_assert_eq!(found.iter().filter(|range| has(range)).count(), usize::from(has(&part)));
            }
        }
    }
}
