//! Ranges of keys. Keys compare bytewise, so that every range of keys or key prefixes is a half-open
//! range of byte strings.

use std::ops::{Bound, Range};
use std::sync::Arc;

use perigee_ndp::KeyRange;
use perigee_page::{PageMut, PageRef};

use crate::buffer::Page;

/// The keys from `lower` on and below `upper`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySpan {
    /// First key; empty for no bound.
    pub lower: Vec<u8>,
    /// First key above the span; `None` for no bound.
    pub upper: Option<Vec<u8>>,
}

impl KeySpan {
    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        Self {
            lower: prefix.to_vec(),
            upper: after_prefix(prefix),
        }
    }

    /// The keys between bounds that are key prefixes: `Included(p)` takes in every key that begins
    /// with `p`, `Excluded(p)` none of them.
    #[must_use]
    pub fn from_bounds(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Self {
        let (lower, nothing) = match lower {
            Bound::Unbounded => (Vec::new(), false),
            Bound::Included(p) => (p.to_vec(), false),
            Bound::Excluded(p) => (
                after_prefix(p).unwrap_or_default(),
                after_prefix(p).is_none(),
            ),
        };
        let upper = match upper {
            Bound::Unbounded => None,
            Bound::Included(p) => after_prefix(p),
            Bound::Excluded(p) => Some(p.to_vec()),
        };
        // Nothing lies after the greatest prefix.
        Self {
            lower,
            upper: if nothing { Some(Vec::new()) } else { upper },
        }
    }

    /// The span as bounds.
    #[must_use]
    pub fn range(&self) -> KeyRange {
        KeyRange {
            lower: match self.lower.is_empty() {
                true => Bound::Unbounded,
                false => Bound::Included(self.lower.clone()),
            },
            upper: match &self.upper {
                None => Bound::Unbounded,
                Some(upper) => Bound::Excluded(upper.clone()),
            },
        }
    }

    /// The keys of the span that are above `key`.
    #[must_use]
    pub fn after(&self, key: &[u8]) -> Self {
        let mut lower = key.to_vec();
        lower.push(0);
        Self {
            lower: lower.max(self.lower.clone()),
            upper: self.upper.clone(),
        }
    }

    /// The keys of the span that are below `key`.
    #[must_use]
    pub fn before(&self, key: &[u8]) -> Self {
        let upper = match &self.upper {
            Some(upper) if upper.as_slice() < key => upper.clone(),
            _ => key.to_vec(),
        };
        Self {
            lower: self.lower.clone(),
            upper: Some(upper),
        }
    }

    /// The keys that are in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let upper = match (&self.upper, &other.upper) {
            (Some(mine), Some(others)) => Some(mine.min(others)),
            (one, another) => one.as_ref().or(another.as_ref()),
        };
        Self {
            lower: self.lower.clone().max(other.lower.clone()),
            upper: upper.cloned(),
        }
    }

    /// The page without the records whose keys are not in the span.
    #[must_use]
    pub(crate) fn cut(&self, page: &Page) -> Page {
        let (slots, count) = (self.slots(page.get()), page.get().slot_count());
        let mut bytes = page.bytes().clone();
        let mut part = PageMut::new(Arc::make_mut(&mut bytes));
        let end = slots.end.max(slots.start);
        for (slot, count) in [(end, count - end), (0, slots.start)] {
            part.remove(slot, count).expect("a leaf has its slots");
        }
        Page::new(bytes)
    }

    /// The slots of a page whose keys are in the span; may be empty or end before it starts.
    #[must_use]
    pub(crate) fn slots(&self, page: PageRef<'_>) -> Range<u16> {
        let end = match &self.upper {
            Some(upper) => page.lower_bound(upper),
            None => page.slot_count(),
        };
        page.lower_bound(&self.lower)..end
    }

    /// The slots of an inner page whose subtrees may have keys of the span: at least one.
    #[must_use]
    pub(crate) fn child_slots(&self, page: PageRef<'_>) -> Range<u16> {
        let first = page.child_slot(&self.lower);
        let end = match &self.upper {
            Some(upper) => page.lower_bound(upper).max(first + 1),
            None => page.slot_count(),
        };
        first..end
    }

    /// True if no key can lie in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.upper
            .as_ref()
            .is_some_and(|upper| *upper <= self.lower)
    }

    /// True if all of `other` lies in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let above = match (&self.upper, &other.upper) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(upper)) => upper <= mine,
        };
        self.lower <= other.lower && above
    }

    /// True if it goes on to `key` at least: no key below that is above the span.
    #[must_use]
    pub fn reaches(&self, key: &[u8]) -> bool {
        self.upper
            .as_ref()
            .is_none_or(|upper| key <= upper.as_slice())
    }

    /// True if a key may lie in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let reaches = |upper: &Option<Vec<u8>>, lower: &Vec<u8>| {
            upper.as_ref().is_none_or(|upper| lower < upper)
        };
        reaches(&self.upper, &other.lower) && reaches(&other.upper, &self.lower)
    }

    /// True if `key` lies in it.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.lower.as_slice() <= key && self.upper.as_ref().is_none_or(|u| key < u.as_slice())
    }
}

/// The least byte string above every one that begins with `prefix`, if there is one.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_prefixes() {
        use Bound::{Excluded, Included, Unbounded};
        let span = |l: Bound<&[u8]>, u: Bound<&[u8]>| KeySpan::from_bounds(l, u);
        let s = span(Included(b"b"), Included(b"d"));
        assert!(s.contains(b"b") && s.contains(b"dzz") && !s.contains(b"e") && !s.contains(b"az"));
        let s = span(Excluded(b"b"), Excluded(b"d"));
        assert!(!s.contains(b"bx") && s.contains(b"c") && !s.contains(b"d"));
        assert!(span(Excluded(&[0xff]), Unbounded).is_empty());
        assert!(!span(Included(&[0xff]), Included(&[0xff, 0xff])).is_empty());
        assert!(span(Unbounded, Included(&[0xff])).contains(&[0xff, 0xff, 7]));
        assert!(KeySpan::all().contains(b"") && KeySpan::all().contains(&[0xff; 9]));
    }

    #[test]
    fn spans_cover_and_overlap() {
        let (a, ab, b) = (
            KeySpan::prefix(b"a"),
            KeySpan::prefix(b"ab"),
            KeySpan::prefix(b"b"),
        );
        assert!(a.covers(&ab) && !ab.covers(&a) && KeySpan::all().covers(&b));
        assert!(!a.covers(&KeySpan::all()) && a.covers(&a));
        assert!(a.overlaps(&ab) && ab.overlaps(&a) && !a.overlaps(&b) && !b.overlaps(&a));
        assert!(KeySpan::all().overlaps(&b));
    }

    #[test]
    fn what_follows_a_key_is_the_rest() {
        let s = KeySpan::prefix(b"ab");
        assert!(!s.after(b"ab").contains(b"ab") && s.after(b"ab").contains(b"ab\0"));
        assert_eq!(s.after(b"a"), s);
        assert!(s.before(b"abc").contains(b"abb") && !s.before(b"abc").contains(b"abc"));
        assert_eq!(s.before(b"b"), s);
        assert!(s.before(b"ab").is_empty());
    }
}
