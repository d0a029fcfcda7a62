//! The compressed protocol: once the client has logged in, everything travels in envelopes of
//! `[3 bytes length][1 byte number][3 bytes length before compression][length bytes]`, whose contents are the
//! frames of [`crate::frame`], cut anywhere. Numbers count the envelopes of one exchange, from 0 at each
//! command. Contents that were not compressed have 0 as their length before it.
//!
//! The server takes compressed envelopes and sends plain ones, as the protocol allows: some clients ask for
//! compression without being offered it, and then speak nothing else. To compress results would take more of the
//! processor than it saves of the network.

use bytes::{Buf, BytesMut};
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use crate::frame::FrameError;

/// Bytes of an envelope's header.
const HEADER: usize = 7;

/// Most contents of one envelope.
const MAX_CONTENTS: usize = 0xFF_FFFF;

fn number_of(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16
}

/// Takes an envelope off the front of `raw` and appends its contents to `out`; its number, or `None` if more bytes
/// are needed.
pub(crate) fn open(raw: &mut BytesMut, out: &mut BytesMut) -> Result<Option<u8>, FrameError> {
    let Some(header) = raw.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let (len, number, plain) = (number_of(&header[..3]), header[3], number_of(&header[4..]));
    if raw.len() < HEADER + len {
        return Ok(None);
    }
    raw.advance(HEADER);
    let contents = raw.split_to(len);
    if plain == 0 {
        out.extend_from_slice(&contents);
        return Ok(Some(number));
    }
    match decompress_to_vec_zlib_with_limit(&contents, plain) {
        Ok(contents) if contents.len() == plain => out.extend_from_slice(&contents),
        _ => return Err(FrameError::Compressed),
    }
    Ok(Some(number))
}

/// Appends `bytes` to `out` in envelopes numbered from `number`, which becomes the number that follows.
pub(crate) fn wrap(bytes: &[u8], out: &mut BytesMut, number: &mut u8) {
    for contents in bytes.chunks(MAX_CONTENTS) {
        let [a, b, c, _] = (contents.len() as u32).to_le_bytes();
        out.extend_from_slice(&[a, b, c, *number, 0, 0, 0]);
        out.extend_from_slice(contents);
        *number = number.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use miniz_oxide::deflate::compress_to_vec_zlib;

    #[test]
    fn envelopes_are_opened_as_they_arrive() {
        let text = b"SELECT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'".repeat(3);
        let packed = compress_to_vec_zlib(&text, 6);
        let mut sent = BytesMut::new();
        let mut number = 254;
        wrap(b"plain", &mut sent, &mut number);
        let [a, b, c, _] = (packed.len() as u32).to_le_bytes();
        sent.extend_from_slice(&[a, b, c, number, text.len() as u8, 0, 0]);
        sent.extend_from_slice(&packed);
        let (mut raw, mut out) = (BytesMut::new(), BytesMut::new());
        let mut numbers = Vec::new();
        for byte in sent {
            raw.extend_from_slice(&[byte]);
            numbers.extend(open(&mut raw, &mut out).unwrap());
        }
        assert_eq!(numbers, [254, 255]);
        assert_eq!(&out[..5], b"plain");
        assert_eq!(&out[5..], &text[..]);
    }

    #[test]
    fn contents_that_are_not_what_the_header_says_are_refused() {
        let packed = compress_to_vec_zlib(&[7; 100], 6);
        for (contents, plain) in [(&packed[..], 99), (&packed[..], 101), (&[1, 2, 3][..], 3)] {
            let mut raw = BytesMut::from(&[contents.len() as u8, 0, 0, 0, plain, 0, 0][..]);
            raw.extend_from_slice(contents);
            let opened = open(&mut raw, &mut BytesMut::new());
            assert_eq!(opened, Err(FrameError::Compressed), "{plain}");
        }
    }
}
