//! Framing: a payload travels as frames of `[3 bytes length][1 byte sequence id][length bytes]`. A
//! frame of 2^24 - 1 bytes says that the payload goes on in the next frame; a payload of exactly a
//! multiple of that size ends with an empty frame. Sequence ids count the frames of one exchange,
//! from 0 at each command, modulo 256.
//!
//! Pure: bytes in a buffer become payloads and back; sockets and deadlines are in [`crate::channel`].
//!
//! Invariants
//! - A payload is handed out only when all its frames are there and, without compression, numbered without a gap.
//! - Memory for a payload is taken only for bytes that have arrived, and never beyond the limit the
//!   caller gives: a header that announces more is refused before its body is read.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes of a frame's header.
pub(crate) const HEADER: usize = 4;

/// Greatest payload of one frame, and the mark of a payload that goes on.
pub(crate) const MAX_FRAME: usize = 0xFF_FFFF;

/// Most bytes of a file handed out at once.
pub(crate) const MAX_FILE_PART: usize = 64 * 1024;

/// The peer's frames break the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    /// A sequence id is not the one that follows.
    #[error("frame numbered {found} where {expected} follows")]
    OutOfOrder {
        /// The id that follows.
        expected: u8,
        /// The id of the frame.
        found: u8,
    },
    /// A payload is longer than allowed.
    #[error("payload of more than {limit} bytes")]
    TooLarge {
        /// The greatest size allowed, in bytes.
        limit: usize,
    },
    /// An envelope's contents are not what its header says.
    #[error("a compressed packet that cannot be decompressed")]
    Compressed,
}

/// A part of a file a client sends (LOAD DATA LOCAL).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilePart {
    /// Bytes of the file.
    Data(Bytes),
    /// The file is complete.
    End,
}

/// Takes frames off the front of a buffer.
#[derive(Debug, Default)]
pub(crate) struct FrameDecoder {
    next_seq: u8,
    /// Frames come in numbered envelopes, and their own numbers say nothing.
    in_envelopes: bool,
    /// Frames of a payload that goes on.
    assembled: BytesMut,
    /// Bytes of the current frame of a file not yet handed out.
    file_remaining: usize,
    /// The current frame of a file has full length, so that an empty one only ends the payload.
    file_goes_on: bool,
}

impl FrameDecoder {
    /// The sequence id the next frame must carry.
    pub(crate) fn next_seq(&self) -> u8 {
        self.next_seq
    }

    /// Sets the sequence id the next frame must carry: 0 at a command, and behind the server's own
    /// frames in an exchange.
    pub(crate) fn expect_seq(&mut self, seq: u8) {
        self.next_seq = seq;
    }

    /// From here on frames come in envelopes. Clients number the frames inside as they like: some from 0
    /// at each command, some from the envelope's number.
    pub(crate) fn expect_envelopes(&mut self) {
        self.in_envelopes = true;
    }

    /// True if part of a payload was taken and its rest is awaited.
    pub(crate) fn is_inside_payload(&self) -> bool {
        !self.assembled.is_empty()
    }

    /// Length and sequence id of the frame at the front of `buf`.
    fn header(&self, buf: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some([a, b, c, found]) = buf.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        if *found != self.next_seq && !self.in_envelopes {
            return Err(FrameError::OutOfOrder {
                expected: self.next_seq,
                found: *found,
            });
        }
        Ok(Some(u32::from_le_bytes([*a, *b, *c, 0]) as usize))
    }

    /// The next payload in `buf`, or `None` if more bytes are needed. Refuses payloads of more than
    /// `limit` bytes.
    pub(crate) fn payload(
        &mut self,
        buf: &mut BytesMut,
        limit: usize,
    ) -> Result<Option<Bytes>, FrameError> {
        loop {
            let Some(len) = self.header(buf)? else {
                return Ok(None);
            };
            if self.assembled.len() + len > limit {
                return Err(FrameError::TooLarge { limit });
            }
            if buf.len() < HEADER + len {
                return Ok(None);
            }
            buf.advance(HEADER);
            self.next_seq = self.next_seq.wrapping_add(1);
            let frame = buf.split_to(len);
            if len == MAX_FRAME {
                self.assembled.extend_from_slice(&frame);
            } else if self.assembled.is_empty() {
                return Ok(Some(frame.freeze()));
            } else {
                self.assembled.extend_from_slice(&frame);
                return Ok(Some(std::mem::take(&mut self.assembled).freeze()));
            }
        }
    }

    /// Bytes of memory that hold frames of a payload that goes on.
    pub(crate) fn held(&self) -> usize {
        self.assembled.capacity()
    }

    /// How many bytes `payload` lacks for the frame at the front of `buf`; at least one.
    pub(crate) fn missing(&self, buf: &[u8]) -> usize {
        let wanted = match self.header(buf) {
            Ok(Some(len)) => HEADER + len,
            _ => HEADER,
        };
        wanted.saturating_sub(buf.len()).max(1)
    }

    /// The next part of a file in `buf`, or `None` if more bytes are needed. Parts are handed out
    /// as they arrive, so that a frame is never assembled in memory.
    pub(crate) fn file_part(&mut self, buf: &mut BytesMut) -> Result<Option<FilePart>, FrameError> {
        while self.file_remaining == 0 {
            let Some(len) = self.header(buf)? else {
                return Ok(None);
            };
            buf.advance(HEADER);
            self.next_seq = self.next_seq.wrapping_add(1);
            if len == 0 && !self.file_goes_on {
                return Ok(Some(FilePart::End));
            }
            self.file_goes_on = len == MAX_FRAME;
            self.file_remaining = len;
        }
        if buf.is_empty() {
            return Ok(None);
        }
        let len = buf.len().min(self.file_remaining).min(MAX_FILE_PART);
        let part = buf.split_to(len).freeze();
        self.file_remaining -= part.len();
        Ok(Some(FilePart::Data(part)))
    }
}

/// Begins a payload at the end of `out`: leaves room for the header and returns the place to give
/// to [`end`].
pub(crate) fn begin(out: &mut BytesMut) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    start
}

/// Ends the payload begun at `start`: writes its header and cuts it into frames if it is long.
/// `seq` is the id of its first frame, and afterwards the id of the frame that follows.
pub(crate) fn end(out: &mut BytesMut, start: usize, seq: &mut u8) {
    let len = out.len() - start - HEADER;
    if len >= MAX_FRAME {
        return cut(out, start, seq);
    }
    let [a, b, c, _] = (len as u32).to_le_bytes();
    out[start..start + HEADER].copy_from_slice(&[a, b, c, *seq]);
    *seq = seq.wrapping_add(1);
}

fn cut(out: &mut BytesMut, start: usize, seq: &mut u8) {
    let mut payload = out.split_off(start);
    payload.advance(HEADER);
    loop {
        let frame = payload.split_to(payload.len().min(MAX_FRAME));
        let at = begin(out);
        out.extend_from_slice(&frame);
        let [a, b, c, _] = (frame.len() as u32).to_le_bytes();
        out[at..at + HEADER].copy_from_slice(&[a, b, c, *seq]);
        *seq = seq.wrapping_add(1);
        if frame.len() < MAX_FRAME {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn framed(payload: &[u8], seq: u8) -> (BytesMut, u8) {
        let mut out = BytesMut::new();
        let mut seq = seq;
        let start = begin(&mut out);
        out.extend_from_slice(payload);
        end(&mut out, start, &mut seq);
        (out, seq)
    }

    #[test]
    fn a_ping_is_five_bytes() {
        assert_eq!(&framed(&[0x0E], 0).0[..], [1, 0, 0, 0, 0x0E]);
    }

    #[test]
    fn a_payload_of_the_frame_size_ends_with_an_empty_frame() {
        let payload = vec![7u8; MAX_FRAME];
        let (mut bytes, seq) = framed(&payload, 255);
        assert_eq!(bytes.len(), MAX_FRAME + 2 * HEADER);
        assert_eq!(seq, 1, "ids wrap at 256");
        assert_eq!(&bytes[..4], [0xFF, 0xFF, 0xFF, 255]);
        assert_eq!(&bytes[MAX_FRAME + 4..], [0, 0, 0, 0]);
        let mut decoder = FrameDecoder::default();
        decoder.expect_seq(255);
        assert_eq!(
            decoder.payload(&mut bytes, 1 << 25).unwrap().unwrap(),
            payload
        );
    }

    #[test]
    fn a_payload_longer_than_a_frame_is_put_together() {
        let payload: Vec<u8> = (0..MAX_FRAME + 100).map(|i| (i % 251) as u8).collect();
        let (mut bytes, _) = framed(&payload, 0);
        let mut decoder = FrameDecoder::default();
        let tail = bytes.split_off(MAX_FRAME + 10);
        assert_eq!(decoder.payload(&mut bytes, 1 << 25), Ok(None));
        assert!(decoder.is_inside_payload());
        assert_eq!(decoder.missing(&bytes), 98);
        bytes.extend_from_slice(&tail);
        assert_eq!(
            decoder.payload(&mut bytes, 1 << 25).unwrap().unwrap(),
            payload
        );
    }

    #[test]
    fn a_header_announcing_too_much_is_refused_before_its_body() {
        let mut bytes = BytesMut::from(&[0x01, 0x04, 0, 0][..]);
        let refused = FrameDecoder::default().payload(&mut bytes, 1024);
        assert_eq!(refused, Err(FrameError::TooLarge { limit: 1024 }));
    }

    #[test]
    fn the_limit_counts_all_frames() {
        let (mut bytes, _) = framed(&vec![1; MAX_FRAME + 1], 0);
        let refused = FrameDecoder::default().payload(&mut bytes, MAX_FRAME);
        assert_eq!(refused, Err(FrameError::TooLarge { limit: MAX_FRAME }));
    }

    #[test]
    fn a_gap_in_the_ids_is_refused() {
        let mut bytes = BytesMut::from(&[1, 0, 0, 3, 0x0E][..]);
        let refused = FrameDecoder::default().payload(&mut bytes, 1024);
        assert_eq!(
            refused,
            Err(FrameError::OutOfOrder {
                expected: 0,
                found: 3
            })
        );
    }

    #[test]
    fn an_empty_frame_behind_a_full_one_does_not_end_a_file() {
        let mut bytes = framed(&vec![b'x'; MAX_FRAME], 0).0;
        bytes.extend_from_slice(&framed(b"tail", 2).0);
        bytes.extend_from_slice(&framed(b"", 3).0);
        let mut decoder = FrameDecoder::default();
        let mut total = 0;
        while let Some(FilePart::Data(part)) = decoder.file_part(&mut bytes).unwrap() {
            total += part.len();
        }
        assert_eq!(total, MAX_FRAME + 4);
        assert_eq!(decoder.next_seq(), 4);
        assert!(bytes.is_empty());
    }

    proptest! {
        #[test]
        fn payloads_survive_any_cut_of_the_stream(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
            step in 1usize..20,
        ) {
            let mut stream = BytesMut::new();
            let mut seq = 0;
            for payload in &payloads {
                let start = begin(&mut stream);
                stream.extend_from_slice(payload);
                end(&mut stream, start, &mut seq);
            }
            let mut decoder = FrameDecoder::default();
            let mut buf = BytesMut::new();
            let mut seen = Vec::new();
            for piece in stream.chunks(step) {
                buf.extend_from_slice(piece);
                while let Some(payload) = decoder.payload(&mut buf, 1024).unwrap() {
                    seen.push(payload.to_vec());
                }
            }
            prop_assert_eq!(seen, payloads);
        }

        #[test]
        fn a_file_survives_any_cut_of_the_stream(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            step in 1usize..20,
        ) {
            let mut stream = BytesMut::new();
            let mut seq = 0;
            for payload in parts.iter().map(Vec::as_slice).chain([&[][..]]) {
                let start = begin(&mut stream);
                stream.extend_from_slice(payload);
                end(&mut stream, start, &mut seq);
            }
            let mut decoder = FrameDecoder::default();
            let mut buf = BytesMut::new();
            let mut seen = Vec::new();
            let mut ended = false;
            for piece in stream.chunks(step) {
                prop_assert!(!ended);
                buf.extend_from_slice(piece);
                while let Some(part) = decoder.file_part(&mut buf).unwrap() {
                    match part {
                        FilePart::Data(bytes) => seen.extend_from_slice(&bytes),
                        FilePart::End => { ended = true; break }
                    }
                }
            }
            prop_assert!(ended);
            prop_assert_eq!(seen, parts.concat());
        }

        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let mut decoder = FrameDecoder::default();
            let mut buf = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = decoder.payload(&mut buf, 4096) {}
            let mut decoder = FrameDecoder::default();
            let mut buf = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = decoder.file_part(&mut buf) {}
        }
    }
}
