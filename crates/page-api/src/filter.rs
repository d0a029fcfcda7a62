//! Run-time filters as the API carries them: opaque bytes, named by a hash of their content, so that they
//! cross the network once for each store and not with each request.

use bytes::Bytes;

/// Most filters of one request.
pub const MAX_FILTERS: usize = 64;

/// Names a filter by its content.
///
/// 128 bits in two lanes of multiplication and rotation: different filters of one database practically
/// never have the same. It is not a defence; a database that looks for two such filters deceives itself,
/// for stores keep the filters of each database apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilterHash(pub [u8; 16]);

impl FilterHash {
    /// The hash of a filter.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let (words, rest) = content.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mut lanes = [content.len() as u64, 0x9e37_79b9_7f4a_7c15];
        for word in words.iter().chain([&last]) {
            let word = u64::from_le_bytes(*word);
            lanes[0] = (lanes[0] ^ word)
                .wrapping_mul(0xff51_afd7_ed55_8ccd)
                .rotate_left(31);
            lanes[1] = (lanes[1].rotate_left(29) ^ word).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        }
        let [a, b] = lanes.map(|lane| (lane ^ lane >> 32).wrapping_mul(0x9fb2_1c65_1e98_df25));
        let mut hash = [0; 16];
        hash[..8].copy_from_slice(&(a ^ b >> 29).to_le_bytes());
        hash[8..].copy_from_slice(&(b ^ a >> 31).to_le_bytes());
        Self(hash)
    }
}

/// A filter of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NdpFilter {
    /// The hash of its content.
    pub hash: FilterHash,
    /// Its content, unless the store is expected to have it.
    pub content: Option<Bytes>,
}

/// What became of the filters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NdpFilterUse {
    /// Numbers of those that the store lacks; pages were reduced without them.
    pub missing: Vec<u32>,
    /// Rows that each left out in the pages of a reply; empty for none at all.
    pub dropped: Vec<u64>,
}

/// Which near-data processing a store knows: the greatest version of each format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Descriptors.
    pub descriptor: u32,
    /// Expressions in them.
    pub expression: u32,
    /// Run-time filters; 0 if it knows none.
    pub filter: u32,
}

impl Capabilities {
    /// Those of a store that cannot be asked.
    pub const OLDEST: Self = Self {
        descriptor: 1,
        expression: 1,
        filter: 0,
    };

    /// What both know.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self {
            descriptor: self.descriptor.min(other.descriptor),
            expression: self.expression.min(other.expression),
            filter: self.filter.min(other.filter),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn any_change_of_the_content_changes_the_hash() {
        let content: Vec<u8> = (0..40).collect();
        let mut hashes = HashSet::from([FilterHash::of(&content)]);
        for len in 0..content.len() {
            assert!(hashes.insert(FilterHash::of(&content[..len])));
        }
        for bit in 0..8 * content.len() {
            let mut changed = content.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(hashes.insert(FilterHash::of(&changed)));
        }
        let padded = [&content[..], &[0]].concat();
        assert!(hashes.insert(FilterHash::of(&padded)));
    }
}
