//! The two forms of a key: a number, if all its parts together have at most eight bytes, or bytes.

use perigee_types::{DecodeError, Reader};
use perigee_value::ColumnType;

/// Greatest width in bytes of a key that is a number.
const PACKED: usize = size_of::<u64>();

/// How keys of some columns are compared and looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// As the big-endian number that their bytes are.
    Packed {
        /// Bytes of a key.
        width: usize,
    },
    /// As bytes.
    Bytes,
}

impl KeyForm {
    /// The form of keys over columns of these types.
    pub(crate) fn of(types: impl IntoIterator<Item = ColumnType>) -> Self {
        let mut width = 0;
        for ty in types {
            match ty.stored_width() {
                Some(bytes) => width += usize::from(bytes),
                None => return Self::Bytes,
            }
        }
        match width {
            1..=PACKED => Self::Packed { width },
            _ => Self::Bytes,
        }
    }

    /// Reads a key: a length of 4 bytes and the bytes, as many as the form asks for.
    pub(crate) fn decode_key(self, r: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
        let key = r.bytes()?;
        match self {
            Self::Packed { width } if key.len() != width => {
                Err(DecodeError::new("filter: length of a key"))
            }
            _ => Ok(key.to_vec()),
        }
    }
}

/// The number that the bytes of a packed key are.
pub(crate) fn number(key: &[u8]) -> u64 {
    key.iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The hash of a packed key: part of the format, because Bloom filters are made of it.
#[inline(always)]
pub(crate) fn hash_number(key: u64) -> u64 {
    // The finalizer of MurmurHash3, with an odd constant added so that 0 does not stay 0.
    let mut h = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

/// The hash of a key of bytes: eight at a time, and their number, so that trailing zeros count.
#[inline]
pub(crate) fn hash_bytes(key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let mut hash = key.len() as u64;
    for word in words {
        hash = hash_number(hash.rotate_left(29) ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash_number(hash.rotate_left(29) ^ u64::from_le_bytes(last))
}
