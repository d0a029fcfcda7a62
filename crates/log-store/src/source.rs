//! Reading a file in windows, as if zeros followed its end.
//!
//! A PLog's file may be longer than what was written to it (space made ready holds zeros) or, after
//! a crash, shorter than the frame it ends in. Reading zeros beyond the end makes one case of both.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes read at once from a file whose frames are smaller.
const WINDOW: usize = 64 << 10;

/// Something with bytes at positions: a file, or a slice in tests.
pub(crate) trait Source {
    /// Reads into all of `buf` from `position`, or up to the end; returns the number of bytes.
    fn read_full_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
}

impl Source for File {
    fn read_full_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], position + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
}

impl Source for [u8] {
    fn read_full_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let start = usize::try_from(position).map_or(self.len(), |p| p.min(self.len()));
        let n = buf.len().min(self.len() - start);
        buf[..n].copy_from_slice(&self[start..start + n]);
        Ok(n)
    }
}

/// Reads a source forwards in windows.
pub(crate) struct Window<'a, S: ?Sized> {
    source: &'a S,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, S: Source + ?Sized> Window<'a, S> {
    pub(crate) fn new(source: &'a S) -> Self {
        Self {
            source,
            start: 0,
            bytes: Vec::new(),
        }
    }

    /// The `len` bytes from `position` on, with zeros for those beyond the end of the source.
    pub(crate) fn get(&mut self, position: u64, len: usize) -> io::Result<&[u8]> {
        let inside = position
            .checked_sub(self.start)
            .and_then(|at| usize::try_from(at).ok());
        let at = match inside {
            Some(at)
                if at
                    .checked_add(len)
                    .is_some_and(|end| end <= self.bytes.len()) =>
            {
                at
            }
            _ => {
                self.bytes.resize(len.max(WINDOW), 0);
                self.start = position;
                let read = self.source.read_full_at(&mut self.bytes, position)?;
                self.bytes[read..].fill(0);
                0
            }
        };
        Ok(&self.bytes[at..at + len])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn windows_show_the_bytes_and_zeros_after_them() {
        let bytes: Vec<u8> = (0..WINDOW + 1000).map(|i| (i % 251) as u8 + 1).collect();
        let mut window = Window::new(bytes.as_slice());
        for (position, len) in [
            (0, 10),
            (5, 100),
            (WINDOW - 3, 10),
            (3, WINDOW + 500),
            (WINDOW + 990, 20),
            (9 << 30, 5),
        ] {
            let mut expected = vec![0; len];
            for (i, byte) in expected.iter_mut().enumerate() {
                *byte = bytes.get(position + i).copied().unwrap_or(0);
            }
            assert_eq!(
                window.get(position as u64, len).unwrap(),
                expected,
                "{position}+{len}"
            );
        }
    }
}
