//! Parts of an index that are still to be read, and which of them to bring in together: reading
//! many short parts must not wait for storage once for each.

use crate::btree::KeySpan;

/// Parts whose first pages are brought in together, at most; the first time fewer, in case few rows are
/// enough.
const MOST: usize = 512;
const FIRST: usize = 32;

/// The parts, in the order in which they are read.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The next one last.
    left: Vec<KeySpan>,
    /// How many of the next ones were brought in.
    near: usize,
    /// How many are to be brought in next.
    together: usize,
}

impl Ahead {
    /// Nothing is read yet.
    pub fn new(mut parts: Vec<KeySpan>) -> Self {
        parts.reverse();
        Self {
            left: parts,
            near: 0,
            together: FIRST,
        }
    }

    /// The next part.
    pub fn next(&mut self) -> Option<KeySpan> {
        self.near = self.near.saturating_sub(1);
        self.left.pop()
    }

    /// Puts back what is left of a part that was begun.
    pub fn put_back(&mut self, rest: KeySpan) {
        self.near += 1;
        self.left.push(rest);
    }

    /// What to bring in before the next part is read; nothing if that is near.
    pub fn soon(&mut self) -> Vec<KeySpan> {
        if self.near > 0 || self.left.is_empty() {
            return Vec::new();
        }
        self.near = self.together.min(self.left.len());
        self.together = MOST.min(4 * self.together);
        let next = self.left.iter().rev().take(self.near);
        next.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_brought_in_once_before_it_is_read() {
        let parts: Vec<_> = (0..2000_u32)
            .map(|n| KeySpan::prefix(&n.to_be_bytes()))
            .collect();
        let mut ahead = Ahead::new(parts.clone());
        let (mut near, mut read, mut times) = (Vec::new(), Vec::new(), 0);
        loop {
            let soon = ahead.soon();
            times += usize::from(!soon.is_empty());
            near.extend(soon);
            let Some(part) = ahead.next() else { break };
            assert!(near.contains(&part));
            if read.len() == 100 {
                ahead.put_back(part.clone());
                assert_eq!(ahead.next(), Some(part.clone()));
            }
            read.push(part);
        }
        assert_eq!((&near, &read), (&parts, &parts));
        assert_eq!(times, 6);
    }
}
