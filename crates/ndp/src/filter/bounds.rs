//! The least and the greatest key that pass; either may be open.

use perigee_types::{DecodeError, Reader, Writer};

use super::form::{KeyForm, number};

/// What a key has to lie between.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) least: Option<Vec<u8>>,
    pub(crate) most: Option<Vec<u8>>,
}

/// Bits of the wire form.
const HAS_LEAST: u8 = 1;
const HAS_MOST: u8 = 2;

impl Bounds {
    /// True if every key passes.
    pub(crate) fn are_open(&self) -> bool {
        self.least.is_none() && self.most.is_none()
    }

    /// True if a key lies between.
    pub(crate) fn have(&self, key: &[u8]) -> bool {
        let above = self.least.as_ref().is_none_or(|least| **least <= *key);
        above && self.most.as_ref().is_none_or(|most| *key <= **most)
    }

    /// The numbers that packed keys lie between.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        let least = self.least.as_ref().map_or(0, |key| number(key));
        let most = self.most.as_ref().map_or(u64::MAX, |key| number(key));
        (least, most)
    }

    /// Bytes of memory beside itself.
    pub(crate) fn bytes(&self) -> usize {
        let ends = [&self.least, &self.most].into_iter().flatten();
        ends.map(Vec::len).sum()
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        let flag = |end: &Option<Vec<u8>>, bit| if end.is_some() { bit } else { 0 };
        w.u8(flag(&self.least, HAS_LEAST) | flag(&self.most, HAS_MOST));
        for key in [&self.least, &self.most].into_iter().flatten() {
            w.bytes(key);
        }
    }

    pub(crate) fn decode(form: KeyForm, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let flags = r.u8()?;
        if flags & !(HAS_LEAST | HAS_MOST) != 0 {
            return Err(DecodeError::new("filter: bounds"));
        }
        let mut end = |bit| match flags & bit {
            0 => Ok(None),
            _ => form.decode_key(r).map(Some),
        };
        let bounds = Self {
            least: end(HAS_LEAST)?,
            most: end(HAS_MOST)?,
        };
        match (&bounds.least, &bounds.most) {
            (Some(least), Some(most)) if least > most => {
                Err(DecodeError::new("filter: bounds that nothing is between"))
            }
            _ => Ok(bounds),
        }
    }
}
