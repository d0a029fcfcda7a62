//! [`PageError`] to gRPC status and back, without losing the kind.
//!
//! The status code is for other readers of the wire; between our two ends the kind travels in a
//! metadata entry, because tonic itself also makes statuses (a connection that broke, a message
//! that is too long) and these must not be mistaken for an answer of the store.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::PageError;

/// Metadata key of the kind.
const KIND: &str = "perigee-page-error";

/// Statuses travel in HTTP/2 headers, which peers limit to some KiB; a message is cut to this many
/// bytes, at most three times as many when percent-encoded.
const MAX_TEXT: usize = 1024;

/// The status that carries `error`.
pub(crate) fn to_status(error: &PageError) -> Status {
    let (code, kind, text) = match error {
        PageError::Unavailable(text) => (Code::Unavailable, "unavailable", text),
        PageError::Behind(text) => (Code::Aborted, "behind", text),
        PageError::Recycled(text) => (Code::OutOfRange, "recycled", text),
        PageError::Fenced(text) => (Code::Aborted, "fenced", text),
        PageError::NotFound(text) => (Code::NotFound, "not-found", text),
        PageError::Refused(text) => (Code::FailedPrecondition, "refused", text),
        PageError::Corrupt(text) => (Code::DataLoss, "corrupt", text),
        PageError::Full(text) => (Code::ResourceExhausted, "full", text),
        PageError::Disk(text) => (Code::Internal, "disk", text),
    };
    let mut status = Status::new(code, &text[..text.floor_char_boundary(MAX_TEXT)]);
    status
        .metadata_mut()
        .insert(KIND, MetadataValue::from_static(kind));
    status
}

/// The error that `status` carries; `call` names the call in errors the store did not make.
pub(crate) fn from_status(status: &Status, call: &str) -> PageError {
    let kind = status
        .metadata()
        .get(KIND)
        .and_then(|kind| kind.to_str().ok());
    let text = status.message().to_owned();
    match kind {
        Some("unavailable") => PageError::Unavailable(text),
        Some("behind") => PageError::Behind(text),
        Some("recycled") => PageError::Recycled(text),
        Some("fenced") => PageError::Fenced(text),
        Some("not-found") => PageError::NotFound(text),
        Some("refused") => PageError::Refused(text),
        Some("corrupt") => PageError::Corrupt(text),
        Some("full") => PageError::Full(text),
        Some("disk") => PageError::Disk(text),
        // Made by tonic or by a peer that is no Page Store of ours. The request itself is at fault
        // with the first three codes, and sending it again would not help.
        _ => match status.code() {
            Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => {
                PageError::Refused(format!("{call}: {text}"))
            }
            code => PageError::Unavailable(format!("{call}: {code:?}: {text}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_wire() {
        for error in [
            PageError::Unavailable("a".into()),
            PageError::Behind("ü b".into()),
            PageError::Recycled("c".into()),
            PageError::NotFound("d".into()),
            PageError::Refused("e".into()),
            PageError::Fenced("epoch 3 is over".into()),
            PageError::Corrupt("f at 7".into()),
            PageError::Disk("g".into()),
            PageError::Full("h".into()),
        ] {
            assert_eq!(from_status(&to_status(&error), "read"), error);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let status = to_status(&PageError::Corrupt("é".repeat(MAX_TEXT)));
        assert_eq!(status.message(), "é".repeat(MAX_TEXT / 2));
    }

    #[test]
    fn statuses_of_the_transport_are_not_answers_of_the_store() {
        let broken = from_status(&Status::unavailable("connection reset"), "read");
        assert!(
            matches!(&broken, PageError::Unavailable(t) if t.starts_with("read: ")),
            "{broken}"
        );
        let lost = from_status(&Status::not_found("no such path"), "read");
        assert!(matches!(lost, PageError::Unavailable(_)), "{lost}");
        let long = from_status(&Status::out_of_range("too long"), "write");
        assert!(matches!(long, PageError::Refused(_)), "{long}");
    }
}
