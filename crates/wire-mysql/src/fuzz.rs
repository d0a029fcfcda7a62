//! Entry points for fuzzers: each takes any bytes as a client might send them, must not panic, and
//! tells whether it understood them. `tests/fuzz.rs` runs them.

use bytes::{Bytes, BytesMut};

use crate::command::Command;
use crate::flags::Capabilities;
use crate::frame::{FilePart, FrameDecoder};
use crate::handshake::HandshakeResponse;
use crate::parameter;

/// A client's stream: frames, and each payload as a command. True if there is one.
#[must_use]
pub fn commands(stream: &[u8]) -> bool {
    let mut understood = false;
    let mut frames = FrameDecoder::default();
    let mut buf = BytesMut::from(stream);
    loop {
        frames.expect_seq(buf.get(3).copied().unwrap_or(0));
        match frames.payload(&mut buf, 1 << 20) {
            Ok(Some(payload)) => understood |= Command::decode(&payload).is_ok(),
            Ok(None) | Err(_) => return understood,
        }
    }
}

/// Arguments of COM_STMT_EXECUTE for a statement of `count` parameters, some of which were sent in
/// parts; twice, so that the types of the first execution are those of the second.
#[must_use]
pub fn parameters(arguments: &[u8], count: u16) -> bool {
    let mut types = Vec::new();
    let long = |index: usize| (index % 3 == 2).then_some(&b"long"[..]);
    let mut decode = || parameter::decode(arguments, usize::from(count), &mut types, long).is_ok();
    decode() & decode()
}

/// A response to the greeting.
#[must_use]
pub fn handshake_response(payload: &[u8]) -> bool {
    HandshakeResponse::decode(payload).is_ok()
}

/// Arguments of COM_CHANGE_USER.
#[must_use]
pub fn change_user(arguments: &[u8]) -> bool {
    let decode =
        |capabilities| HandshakeResponse::decode_change_user(arguments, capabilities, 45).is_ok();
    decode(Capabilities::SERVER) | decode(Capabilities::NONE)
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

    #[test]
    fn a_whole_file_is_given_and_half_a_file_is_not() {
        assert_eq!(
            file(b"\x02\0\0\0ab\x01\0\0\x01c\0\0\0\x02"),
            Some("abc".into())
        );
        assert_eq!(file(b"\x02\0\0\0ab\x01\0\0\x01c"), None);
    }
}
