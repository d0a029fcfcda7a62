//! Entry points for fuzzers: each takes any bytes as a client might send them and must not panic.
//! The property tests of the decoders call the same code.

use bytes::{Bytes, BytesMut};

use crate::command::Command;
use crate::flags::Capabilities;
use crate::frame::{FilePart, FrameDecoder};
use crate::handshake::HandshakeResponse;
use crate::parameter;

/// A client's stream: frames, and each payload as a command.
pub fn commands(stream: &[u8]) {
    let mut frames = FrameDecoder::default();
    let mut buf = BytesMut::from(stream);
    loop {
        frames.expect_seq(buf.get(3).copied().unwrap_or(0));
        match frames.payload(&mut buf, 1 << 20) {
            Ok(Some(payload)) => drop(Command::decode(&payload)),
            Ok(None) | Err(_) => return,
        }
    }
}

/// Arguments of COM_STMT_EXECUTE for a statement of `count` parameters, some of which were sent in
/// parts; twice, so that the types of the first execution are those of the second.
pub fn parameters(arguments: &[u8], count: u16) {
    let mut types = Vec::new();
    let long = |index: usize| (index % 3 == 2).then_some(&b"long"[..]);
    for _ in 0..2 {
        let _ = parameter::decode(arguments, usize::from(count), &mut types, long);
    }
}

/// A response to the greeting.
pub fn handshake_response(payload: &[u8]) {
    let _ = HandshakeResponse::decode(payload);
}

/// Arguments of COM_CHANGE_USER.
pub fn change_user(arguments: &[u8]) {
    let _ = HandshakeResponse::decode_change_user(arguments, Capabilities::SERVER, 45);
    let _ = HandshakeResponse::decode_change_user(arguments, Capabilities::NONE, 45);
}

/// A file sent for LOAD DATA LOCAL; gives its bytes.
#[must_use]
pub fn file(stream: &[u8]) -> Option<Bytes> {
    let mut frames = FrameDecoder::default();
    let mut buf = BytesMut::from(stream);
    let mut whole = BytesMut::new();
    loop {
        match frames.file_part(&mut buf) {
            Ok(Some(FilePart::Data(part))) => whole.extend_from_slice(&part),
            Ok(Some(FilePart::End)) => return Some(whole.freeze()),
            Ok(None) | Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_whole_file_is_given_and_half_a_file_is_not() {
        assert_eq!(
            file(b"\x02\0\0\0ab\x01\0\0\x01c\0\0\0\x02"),
            Some("abc".into())
        );
        assert_eq!(file(b"\x02\0\0\0ab\x01\0\0\x01c"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, count in 0u16..20) {
            parameters(&bytes, count);
            commands(&bytes);
            handshake_response(&bytes);
            change_user(&bytes);
            let _ = file(&bytes);
        }
    }
}
