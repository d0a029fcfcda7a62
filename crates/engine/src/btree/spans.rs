//! Several parts of an index.

use std::sync::Arc;

use perigee_ndp::KeyRange;

use super::KeySpan;
use crate::scan::as_slice;

/// Spans of keys in key order, none of them empty, none reaching into the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpans(Arc<[KeySpan]>);

impl KeySpans {
    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        KeySpan::all().into()
    }

    /// The keys that are in one of some spans.
    #[must_use]
    pub fn union(mut spans: Vec<KeySpan>) -> Self {
        spans.retain(|span| !span.is_empty());
        spans.sort_unstable_by(|one, other| one.lower.cmp(&other.lower));
        let mut out: Vec<KeySpan> = Vec::with_capacity(spans.len());
        for span in spans {
            match out.last_mut() {
                Some(last) if last.reaches(&span.lower) => {
                    if !last.covers(&span) {
                        last.upper = span.upper;
                    }
                }
                _ => out.push(span),
            }
        }
        Self(out.into())
    }

    /// The keys that are in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let (mut mine, mut others) = (self.iter().peekable(), other.iter().peekable());
        let mut out = Vec::new();
        while let (Some(one), Some(two)) = (mine.peek(), others.peek()) {
            let both = one.and(two);
            if !both.is_empty() {
                out.push(both);
            }
            // Whichever ends first has nothing in common with what follows.
            let first_ends = match (&one.upper, &two.upper) {
                (Some(one), Some(two)) => one <= two,
                (one, _) => one.is_some(),
            };
            if first_ends {
                mine.next();
            } else {
                others.next();
            }
        }
        Self(out.into())
    }

    /// The least span that has them all.
    #[must_use]
    pub fn hull(&self) -> KeySpan {
        match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => KeySpan {
                lower: first.lower.clone(),
                upper: last.upper.clone(),
            },
            _ => KeySpan {
                lower: Vec::new(),
                upper: Some(Vec::new()),
            },
        }
    }

    /// True if every key is in it.
    #[must_use]
    pub fn is_all(&self) -> bool {
        matches!(&self.0[..], [only] if *only == KeySpan::all())
    }
}

impl From<KeySpan> for KeySpans {
    fn from(span: KeySpan) -> Self {
        Self::union(vec![span])
    }
}

impl From<&KeyRange> for KeySpans {
    fn from(range: &KeyRange) -> Self {
        KeySpan::from_bounds(as_slice(&range.lower), as_slice(&range.upper)).into()
    }
}

impl std::ops::Deref for KeySpans {
    type Target = [KeySpan];

    fn deref(&self) -> &[KeySpan] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn span(lower: u8, upper: u8) -> KeySpan {
        KeySpan {
            lower: vec![lower],
            upper: Some(vec![upper]),
        }
    }

    fn keys(spans: &[KeySpan]) -> BTreeSet<u8> {
        (0..=255)
            .filter(|key| spans.iter().any(|span| span.contains(&[*key])))
            .collect()
    }

    #[test]
    fn spans_are_in_order_and_apart() {
        let spans = KeySpans::union(vec![
            span(9, 12),
            span(1, 3),
            span(3, 4),
            span(2, 4),
            span(7, 7),
        ]);
        assert_eq!(*spans, [span(1, 4), span(9, 12)]);
        assert_eq!(spans.hull(), span(1, 12));
        assert!(KeySpans::all().is_all() && !spans.is_all());
        let none = KeySpans::union(Vec::new());
        assert!(none.is_empty() && none.hull().is_empty());
        let open = KeySpan {
            lower: vec![3],
            upper: None,
        };
        let spans = KeySpans::union(vec![open.clone(), span(4, 9), span(2, 3)]);
        assert_eq!(spans.len(), 1);
        assert_eq!((spans[0].lower[0], &spans[0].upper), (2, &None));
    }

    #[test]
    fn sets_of_spans_are_sets_of_keys() {
        let mut seed = 7_u32;
        let mut next = move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        for _ in 0..500 {
            let mut some = || -> Vec<KeySpan> {
                let spans = (0..next() % 8).map(|_| (next(), next() % 60));
                spans
                    .map(|(lower, len)| span(lower, lower.saturating_add(len)))
                    .collect()
            };
            let (one, other) = (some(), some());
            let both: BTreeSet<u8> = keys(&one).intersection(&keys(&other)).copied().collect();
            let (a, b) = (KeySpans::union(one.clone()), KeySpans::union(other));
            assert_eq!(keys(&a), keys(&one));
            assert_eq!(keys(&a.and(&b)), both);
            assert_eq!(a.and(&KeySpans::all()), a);
            assert!(
                a.windows(2)
                    .all(|w| w[0].upper.as_ref() < Some(&w[1].lower))
            );
        }
    }
}
