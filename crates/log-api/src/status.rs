//! [`LogError`] to gRPC status and back, without losing the kind.
//!
//! The status code is for other readers of the wire; between our two ends the kind travels in a
//! metadata entry, because tonic itself also makes statuses (a connection that broke, a message
//! that is too long) and these must not be mistaken for an answer of the store.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::LogError;

/// Metadata key of the kind.
const KIND: &str = "perigee-log-error";

/// Statuses travel in HTTP/2 headers, which peers limit to some KiB; a message is cut to this many
/// bytes, at most three times as many when percent-encoded.
const MAX_TEXT: usize = 1024;

/// The status that carries `error`.
pub(crate) fn to_status(error: &LogError) -> Status {
    let (code, kind, text) = match error {
        LogError::Unavailable(text) => (Code::Unavailable, "unavailable", text),
        LogError::Refused(text) => (Code::FailedPrecondition, "refused", text),
        LogError::Fenced(text) => (Code::Aborted, "fenced", text),
        LogError::NotFound(text) => (Code::NotFound, "not-found", text),
        LogError::Corrupt(text) => (Code::DataLoss, "corrupt", text),
        LogError::Full(text) => (Code::ResourceExhausted, "full", text),
        LogError::Disk(text) => (Code::Internal, "disk", text),
    };
    let mut status = Status::new(code, &text[..text.floor_char_boundary(MAX_TEXT)]);
    status
        .metadata_mut()
        .insert(KIND, MetadataValue::from_static(kind));
    status
}

/// The error that `status` carries; `call` names the call in errors the store did not make.
pub(crate) fn from_status(status: &Status, call: &str) -> LogError {
    let kind = status
        .metadata()
        .get(KIND)
        .and_then(|kind| kind.to_str().ok());
    let text = status.message().to_owned();
    match kind {
        Some("unavailable") => LogError::Unavailable(text),
        Some("refused") => LogError::Refused(text),
        Some("fenced") => LogError::Fenced(text),
        Some("not-found") => LogError::NotFound(text),
        Some("corrupt") => LogError::Corrupt(text),
        Some("full") => LogError::Full(text),
        Some("disk") => LogError::Disk(text),
        // Made by tonic or by a peer that is no Log Store of ours. The request itself is at fault
        // with the first three codes, and sending it again would not help.
        _ => match status.code() {
            Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => {
                LogError::Refused(format!("{call}: {text}"))
            }
            code => LogError::Unavailable(format!("{call}: {code:?}: {text}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_wire() {
        for error in [
            LogError::Unavailable("a".into()),
            LogError::Refused("ü b".into()),
            LogError::Fenced("epoch 3 is over".into()),
            LogError::NotFound("c".into()),
            LogError::Corrupt("d at 7".into()),
            LogError::Disk("e".into()),
            LogError::Full("h".into()),
        ] {
            assert_eq!(from_status(&to_status(&error), "append"), error);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let status = to_status(&LogError::Corrupt("é".repeat(MAX_TEXT)));
        assert_eq!(status.message(), "é".repeat(MAX_TEXT / 2));
        let odd = to_status(&LogError::Corrupt(format!("x{}", "é".repeat(MAX_TEXT))));
        assert_eq!(odd.message().len(), MAX_TEXT - 1);
    }

    #[test]
    fn statuses_of_the_transport_are_not_answers_of_the_store() {
        let broken = from_status(&Status::unavailable("connection reset"), "seal");
        assert!(
            matches!(&broken, LogError::Unavailable(t) if t.starts_with("seal: ")),
            "{broken}"
        );
        let lost = from_status(&Status::not_found("no such path"), "seal");
        assert!(matches!(lost, LogError::Unavailable(_)), "{lost}");
        let long = from_status(&Status::out_of_range("too long"), "append");
        assert!(matches!(long, LogError::Refused(_)), "{long}");
    }
}
