//! The scalar encodings of the MySQL protocol: little-endian integers of 1, 2, 3, 4 and 8 bytes,
//! length-encoded integers and strings, NUL-terminated strings.
//!
//! Invariant: [`Fields`] never panics; every read past the end and every impossible length byte is
//! a [`DecodeError`] that names the packet. Packets and their framing are not known here.

use bytes::{BufMut, BytesMut};
use perigee_types::DecodeError;

/// The byte that stands for NULL where a length-encoded string is expected in a text row.
pub(crate) const NULL_MARK: u8 = 0xFB;

/// Reads the fields of one packet from front to back.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    packet: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of `bytes`; `packet` names the packet in errors.
    pub(crate) fn new(bytes: &'a [u8], packet: &'static str) -> Self {
        Self { bytes, packet }
    }

    fn malformed(&self) -> DecodeError {
        DecodeError::new(self.packet)
    }

    /// True if no byte is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `n` bytes.
    pub(crate) fn raw(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.bytes.split_at_checked(n).ok_or(self.malformed())?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.bytes.split_first_chunk().ok_or(self.malformed())?;
        self.bytes = tail;
        Ok(*head)
    }

    /// One byte.
    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Three bytes.
    pub(crate) fn u24(&mut self) -> Result<u32, DecodeError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes.
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length-encoded integer. 0xFB (NULL) and 0xFF (error) are not integers.
    pub(crate) fn lenenc_int(&mut self) -> Result<u64, DecodeError> {
        match self.u8()? {
            small @ 0..=0xFA => Ok(u64::from(small)),
            0xFC => self.u16().map(u64::from),
            0xFD => self.u24().map(u64::from),
            0xFE => self.u64(),
            0xFB | 0xFF => Err(self.malformed()),
        }
    }

    /// A string behind its length-encoded length.
    pub(crate) fn lenenc_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(self.lenenc_int()?).map_err(|_| self.malformed())?;
        self.raw(len)
    }

    /// A string up to its NUL, which is consumed; the NUL must be there.
    pub(crate) fn nul_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self
            .bytes
            .iter()
            .position(|b| *b == 0)
            .ok_or(self.malformed())?;
        let text = self.raw(len)?;
        self.raw(1)?;
        Ok(text)
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }
}

/// The bytes as text, or an error naming `packet`.
pub(crate) fn text(bytes: &[u8], packet: &'static str) -> Result<String, DecodeError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError::new(packet))
}

/// Appends a length-encoded integer.
pub(crate) fn put_lenenc_int(out: &mut BytesMut, v: u64) {
    match v {
        0..=0xFA => out.put_u8(v as u8),
        0xFB..=0xFFFF => {
            out.put_u8(0xFC);
            out.put_u16_le(v as u16);
        }
        0x1_0000..=0xFF_FFFF => {
            out.put_u8(0xFD);
            out.put_uint_le(v, 3);
        }
        _ => {
            out.put_u8(0xFE);
            out.put_u64_le(v);
        }
    }
}

/// Appends a string behind its length-encoded length.
pub(crate) fn put_lenenc_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_lenenc_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a string and its terminating NUL.
pub(crate) fn put_nul_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.put_u8(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(v: u64) -> Vec<u8> {
        let mut out = BytesMut::new();
        put_lenenc_int(&mut out, v);
        out.to_vec()
    }

    #[test]
    fn length_encoded_integers_change_width_at_the_documented_values() {
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(250), [0xFA]);
        assert_eq!(encoded(251), [0xFC, 0xFB, 0]);
        assert_eq!(encoded(65535), [0xFC, 0xFF, 0xFF]);
        assert_eq!(encoded(65536), [0xFD, 0, 0, 1]);
        assert_eq!(encoded(0xFF_FFFF), [0xFD, 0xFF, 0xFF, 0xFF]);
        assert_eq!(encoded(0x100_0000), [0xFE, 0, 0, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn null_and_error_marks_are_not_integers() {
        assert!(Fields::new(&[0xFB], "test").lenenc_int().is_err());
        assert!(Fields::new(&[0xFF], "test").lenenc_int().is_err());
    }

    #[test]
    fn a_missing_nul_is_an_error() {
        assert!(Fields::new(b"root", "test").nul_bytes().is_err());
        let mut fields = Fields::new(b"root\0rest", "test");
        assert_eq!(fields.nul_bytes(), Ok(b"root".as_slice()));
        assert_eq!(fields.rest(), b"rest");
        assert!(fields.is_empty());
    }

    #[test]
    fn a_length_beyond_the_packet_is_an_error() {
        assert!(Fields::new(&[0xFE; 9], "test").lenenc_bytes().is_err());
        assert!(
            Fields::new(&[3, b'a', b'b'], "test")
                .lenenc_bytes()
                .is_err()
        );
    }

    proptest! {
        #[test]
        fn integers_survive(v: u64, shift in 0u32..64) {
            let v = v >> shift;
            let bytes = encoded(v);
            let mut fields = Fields::new(&bytes, "test");
            prop_assert_eq!(fields.lenenc_int(), Ok(v));
            prop_assert!(fields.is_empty());
            for cut in 0..bytes.len() {
                prop_assert!(Fields::new(&bytes[..cut], "test").lenenc_int().is_err());
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let mut fields = Fields::new(&bytes, "test");
            while !fields.is_empty() && fields.lenenc_bytes().is_ok() {}
            let _ = Fields::new(&bytes, "test").nul_bytes();
        }
    }
}
