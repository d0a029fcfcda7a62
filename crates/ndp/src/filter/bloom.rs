//! A blocked Bloom filter: a key sets one bit in each of the eight words of one block of 32 bytes, so that
//! looking it up touches one line of memory. Apache Parquet's split-block filter, with other constants for
//! its size.

use perigee_types::{DecodeError, Reader, Writer};

use super::MAX_FILTER_LEN;

/// Bits for each key. 9.7 would give 1 % of false positives without blocks; some blocks get more keys
/// than others, which 12 make up for (measured: 0.5 %).
const BITS_PER_KEY: usize = 12;

/// Words of a block.
const WORDS: usize = 8;

/// Bits of a block.
const BLOCK_BITS: usize = 32 * WORDS;

/// Most blocks of a filter: the rest of an encoded one is small.
const MAX_BLOCKS: usize = (MAX_FILTER_LEN - (64 << 10)) / (BLOCK_BITS / 8);

/// Odd numbers, one for each word: each takes five other bits of a hash. Those of the Parquet format.
const SALT: [u32; WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// Of a set of hashes: which are certainly not in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bloom {
    blocks: Vec<[u32; WORDS]>,
}

impl Bloom {
    /// Most keys that a filter is made for.
    pub(crate) const MAX_KEYS: usize = MAX_BLOCKS * BLOCK_BITS / BITS_PER_KEY;

    /// A filter of these hashes, which are all different.
    ///
    /// # Panics
    /// If there are more than [`Bloom::MAX_KEYS`].
    pub(crate) fn of(hashes: &[u64]) -> Self {
        assert!(hashes.len() <= Self::MAX_KEYS, "N14: filters are bounded");
        let blocks = (hashes.len() * BITS_PER_KEY).div_ceil(BLOCK_BITS).max(1);
        let mut bloom = Self {
            blocks: vec![[0; WORDS]; blocks],
        };
        for hash in hashes {
            let block = bloom.block(*hash);
            let bits = bits(*hash);
            for (word, bit) in bloom.blocks[block].iter_mut().zip(bits) {
                *word |= bit;
            }
        }
        bloom
    }

    /// The block of a hash: by its upper half.
    #[inline(always)]
    fn block(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }

    /// False if the hash is certainly not in the set.
    #[inline(always)]
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        let block = &self.blocks[self.block(hash)];
        let mut missing = 0;
        for (word, bit) in block.iter().zip(bits(hash)) {
            missing |= !word & bit;
        }
        missing == 0
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..])
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.blocks.len() as u32);
        for word in self.blocks.as_flattened() {
            w.u32(*word);
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let blocks = r.u32()? as usize;
        if blocks == 0 || blocks > MAX_BLOCKS {
            return Err(DecodeError::new("filter: number of blocks"));
        }
        let bytes = r.raw(blocks * size_of::<[u32; WORDS]>())?;
        let block = |bytes: &[u8; 4 * WORDS]| {
            let words = bytes.as_chunks::<4>().0;
            std::array::from_fn(|word| u32::from_le_bytes(words[word]))
        };
        Ok(Self {
            blocks: bytes.as_chunks().0.iter().map(block).collect(),
        })
    }
}

/// One bit for each word of a block: by the lower half of the hash.
#[inline(always)]
fn bits(hash: u64) -> [u32; WORDS] {
    SALT.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}
