//! Frame of reference: integers stored as a base and differences of the smallest width.
//!
//! Widths are 0, 1, 2, 4, 8 and 16 bytes, little-endian; width 0 means that every value is the
//! base. The loops are monomorphic in the width so that the compiler turns them into vector code.

use bytes::Bytes;
use perigee_types::DecodeError;

/// Smallest width in bytes that holds `range`.
pub(crate) fn width_of(range: u64) -> u8 {
    match range {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// As [`width_of`], for ranges beyond 64 bits.
pub(crate) fn wide_width_of(range: u128) -> u8 {
    u64::try_from(range).map_or(16, width_of)
}

/// Appends `n` differences of `width` bytes.
pub(crate) fn put(out: &mut Vec<u8>, width: u8, n: usize, values: impl Iterator<Item = u64>) {
    fn fill<const W: usize>(out: &mut [u8], values: impl Iterator<Item = u64>) {
        for (to, value) in out.as_chunks_mut::<W>().0.iter_mut().zip(values) {
            to.copy_from_slice(&value.to_le_bytes()[..W]);
        }
    }
    let start = out.len();
    out.resize(start + n * usize::from(width), 0);
    let out = &mut out[start..];
    match width {
        0 => {}
        1 => fill::<1>(out, values),
        2 => fill::<2>(out, values),
        4 => fill::<4>(out, values),
        8 => fill::<8>(out, values),
        _ => panic!("N1: no narrow width of {width} bytes"),
    }
}

/// Appends `n` differences of up to 16 bytes.
pub(crate) fn put_wide(out: &mut Vec<u8>, width: u8, n: usize, values: impl Iterator<Item = u128>) {
    if width <= 8 {
        return put(out, width, n, values.map(|v| v as u64));
    }
    let start = out.len();
    out.resize(start + n * 16, 0);
    for (to, value) in out[start..].as_chunks_mut::<16>().0.iter_mut().zip(values) {
        *to = value.to_le_bytes();
    }
}

/// Calls `each` with every difference stored in `data`; `n` of them if the width is 0.
#[inline]
pub(crate) fn for_each(width: u8, n: usize, data: &[u8], mut each: impl FnMut(u64)) {
    match width {
        0 => (0..n).for_each(|_| each(0)),
        1 => data.iter().for_each(|&b| each(u64::from(b))),
        2 => {
            let chunks = data.as_chunks::<2>().0;
            chunks
                .iter()
                .for_each(|&b| each(u16::from_le_bytes(b).into()));
        }
        4 => {
            let chunks = data.as_chunks::<4>().0;
            chunks
                .iter()
                .for_each(|&b| each(u32::from_le_bytes(b).into()));
        }
        _ => {
            let chunks = data.as_chunks::<8>().0;
            chunks.iter().for_each(|&b| each(u64::from_le_bytes(b)));
        }
    }
}

/// As [`for_each`], for differences of up to 16 bytes.
#[inline]
pub(crate) fn for_each_wide(width: u8, n: usize, data: &[u8], mut each: impl FnMut(u128)) {
    if width <= 8 {
        return for_each(width, n, data, |v| each(v.into()));
    }
    let chunks = data.as_chunks::<16>().0;
    chunks.iter().for_each(|&b| each(u128::from_le_bytes(b)));
}

/// Cuts pieces off the front of encoded bytes without copying them, checking every bound.
pub(crate) struct Cutter {
    bytes: Bytes,
}

impl Cutter {
    /// A cutter of `bytes`.
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }

    /// The next `n` bytes.
    pub(crate) fn cut(&mut self, n: usize, what: &'static str) -> Result<Bytes, DecodeError> {
        if n > self.bytes.len() {
            return Err(DecodeError::new(what));
        }
        Ok(self.bytes.split_to(n))
    }

    /// The next `N` bytes as an array.
    pub(crate) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        let piece = self.cut(N, what)?;
        piece
            .as_ref()
            .try_into()
            .map_err(|_| DecodeError::new(what))
    }

    /// One byte.
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// A narrow width of at most `max` bytes.
    pub(crate) fn width(&mut self, max: u8, what: &'static str) -> Result<u8, DecodeError> {
        let width = self.u8(what)?;
        if matches!(width, 0 | 1 | 2 | 4 | 8 | 16) && width <= max {
            Ok(width)
        } else {
            Err(DecodeError::new(what))
        }
    }

    /// Succeeds if nothing is left.
    pub(crate) fn finish(self, what: &'static str) -> Result<(), DecodeError> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::new(what))
        }
    }
}

/// Appends a list of 32-bit numbers: width, base, differences. The reader knows how many.
pub(crate) fn put_list(out: &mut Vec<u8>, values: &[u32]) {
    let min = values.iter().copied().min().unwrap_or(0);
    let max = values.iter().copied().max().unwrap_or(0);
    let width = width_of((max - min).into());
    out.push(width);
    out.extend_from_slice(&min.to_le_bytes());
    put(
        out,
        width,
        values.len(),
        values.iter().map(|&v| (v - min).into()),
    );
}

/// Reads `n` numbers that [`put_list`] wrote; sums beyond 32 bits are an error.
pub(crate) fn cut_list(
    cutter: &mut Cutter,
    n: usize,
    what: &'static str,
) -> Result<Vec<u32>, DecodeError> {
    let width = cutter.width(4, what)?;
    let base = u32::from_le_bytes(cutter.array(what)?);
    let data = cutter.cut(n * usize::from(width), what)?;
    let mut out = Vec::with_capacity(n);
    let mut overflow = false;
    for_each(width, n, &data, |d| {
        let (sum, over) = base.overflowing_add(d as u32);
        overflow |= over;
        out.push(sum);
    });
    if overflow {
        return Err(DecodeError::new(what));
    }
    Ok(out)
}
