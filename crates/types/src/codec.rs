//! Little-endian encoding shared by every format of the system, and the checksum they all use.
//!
//! `Reader` never panics on bad input: each read is bounds-checked and returns [`DecodeError`].

use std::fmt;

/// CRC-32C (Castagnoli) of `bytes`: the checksum of pages, log frames and descriptors.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Encoded bytes do not have the form their format prescribes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    what: &'static str,
}

impl DecodeError {
    /// An error saying which part was malformed, for example `"redo: slot number"`.
    #[must_use]
    pub fn new(what: &'static str) -> Self {
        Self { what }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed bytes: {}", self.what)
    }
}

impl std::error::Error for DecodeError {}

/// Appends little-endian values to a byte vector.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A writer that appends to `bytes`.
    #[must_use]
    pub fn appending(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Number of bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends one byte.
    pub fn u8(&mut self, v: u8) -> &mut Self {
        self.bytes.push(v);
        self
    }

    /// Appends two bytes.
    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Appends four bytes.
    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Appends sixteen bytes.
    pub fn i128(&mut self, v: i128) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Appends bytes as they are; the reader must know their number.
    pub fn raw(&mut self, v: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(v);
        self
    }

    /// Appends a 32-bit length and the bytes.
    ///
    /// # Panics
    /// If `v` is 4 GiB or longer.
    pub fn bytes(&mut self, v: &[u8]) -> &mut Self {
        let len = u32::try_from(v.len()).expect("encoded fields are shorter than 4 GiB");
        self.u32(len).raw(v)
    }

    /// Appends a string as [`Writer::bytes`] does.
    pub fn str(&mut self, v: &str) -> &mut Self {
        self.bytes(v.as_bytes())
    }
}

/// Reads little-endian values from a byte slice, checking every bound.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`; `what` names the format in errors.
    #[must_use]
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    /// Number of bytes not yet read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the next `n` bytes.
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self
            .bytes
            .split_at_checked(n)
            .ok_or(DecodeError::new(self.what))?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self
            .bytes
            .split_first_chunk()
            .ok_or(DecodeError::new(self.what))?;
        self.bytes = tail;
        Ok(*head)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads two bytes.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads four bytes.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads eight bytes.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads sixteen bytes.
    pub fn i128(&mut self) -> Result<i128, DecodeError> {
        self.array().map(i128::from_le_bytes)
    }

    /// Reads what [`Writer::bytes`] wrote.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()? as usize;
        self.raw(len)
    }

    /// Reads what [`Writer::str`] wrote.
    pub fn str(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::new(self.what))
    }

    /// Succeeds if every byte was read.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::new(self.what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut w = Writer::new();
        w.u8(1)
            .u16(2)
            .u32(3)
            .u64(4)
            .i128(-5)
            .bytes(b"six")
            .str("sept");
        let bytes = w.into_bytes();
        let mut r = Reader::new(&bytes, "test");
        assert_eq!((r.u8(), r.u16(), r.u32()), (Ok(1), Ok(2), Ok(3)));
        assert_eq!((r.u64(), r.i128()), (Ok(4), Ok(-5)));
        assert_eq!(r.bytes(), Ok(b"six".as_slice()));
        assert_eq!(r.str(), Ok("sept"));
        assert_eq!(r.finish(), Ok(()));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let mut w = Writer::new();
        w.u64(7).str("eight");
        let bytes = w.into_bytes();
        for cut in 0..bytes.len() {
            let mut r = Reader::new(&bytes[..cut], "test");
            assert!(r.u64().and_then(|_| r.str()).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_length_beyond_the_input_is_an_error() {
        assert!(Reader::new(&[0xff; 8], "test").bytes().is_err());
    }
}
