//! The packets that end a response: OK, EOF and ERR; and the request for a file.

use bytes::{BufMut, BytesMut};

use crate::codec::{put_lenenc_bytes, put_lenenc_int};
use crate::errors::SqlError;
use crate::flags::{Capabilities, StatusFlags};
use crate::session::{OkInfo, Prepared, SessionStatus};

/// Longest message of an ERR packet, in bytes. Clients keep about 500; the rest is for logs.
const MAX_MESSAGE: usize = 4096;

/// The flags for `status`.
pub(crate) fn status_flags(status: SessionStatus, more_results: bool) -> StatusFlags {
    StatusFlags::NONE
        .with_if(status.autocommit, StatusFlags::AUTOCOMMIT)
        .with_if(status.in_transaction, StatusFlags::IN_TRANS)
        .with_if(
            status.no_backslash_escapes,
            StatusFlags::NO_BACKSLASH_ESCAPES,
        )
        .with_if(more_results, StatusFlags::MORE_RESULTS)
}

/// Appends an OK packet.
pub(crate) fn put_ok(out: &mut BytesMut, ok: &OkInfo, status: StatusFlags) {
    put_ok_body(out, 0x00, ok, status);
}

fn put_ok_body(out: &mut BytesMut, header: u8, ok: &OkInfo, status: StatusFlags) {
    out.put_u8(header);
    put_lenenc_int(out, ok.affected_rows);
    put_lenenc_int(out, ok.last_insert_id);
    out.put_u16_le(status.0);
    out.put_u16_le(ok.warnings);
    // Servers put a length before the line although the protocol's text lets it run to the end of
    // the packet; clients expect what servers do.
    if !ok.info.is_empty() {
        put_lenenc_bytes(out, ok.info.as_bytes());
    }
}

/// Appends the packet that ends a list: an OK with header 0xFE if the client knows that form, else
/// the old EOF.
pub(crate) fn put_eof(
    out: &mut BytesMut,
    warnings: u16,
    status: StatusFlags,
    client: Capabilities,
) {
    if client.has(Capabilities::DEPRECATE_EOF) {
        put_ok_body(
            out,
            0xFE,
            &OkInfo {
                warnings,
                ..OkInfo::default()
            },
            status,
        );
    } else {
        out.put_u8(0xFE);
        out.put_u16_le(warnings);
        out.put_u16_le(status.0);
    }
}

/// Appends the packet that begins the answer to COM_STMT_PREPARE.
pub(crate) fn put_prepared(out: &mut BytesMut, prepared: &Prepared) {
    out.put_u8(0x00);
    out.put_u32_le(prepared.statement.0);
    out.put_u16_le(prepared.columns.len() as u16);
    out.put_u16_le(prepared.parameters);
    out.put_u8(0);
    out.put_u16_le(prepared.warnings);
}

/// Appends an ERR packet.
pub(crate) fn put_err(out: &mut BytesMut, error: &SqlError) {
    out.put_u8(0xFF);
    out.put_u16_le(error.errno);
    out.put_u8(b'#');
    out.extend_from_slice(&error.sqlstate);
    let cut = error.message.floor_char_boundary(MAX_MESSAGE);
    out.extend_from_slice(&error.message.as_bytes()[..cut]);
}

/// Appends the request to send the file `name`.
pub(crate) fn put_file_request(out: &mut BytesMut, name: &str) {
    out.put_u8(0xFB);
    out.extend_from_slice(name.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::UNKNOWN_COM_ERROR;

    fn written(put: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
        let mut out = BytesMut::new();
        put(&mut out);
        out.to_vec()
    }

    const AUTOCOMMIT: SessionStatus = SessionStatus {
        autocommit: true,
        in_transaction: false,
        no_backslash_escapes: false,
    };

    #[test]
    fn ok_carries_counts_status_and_the_line_for_people() {
        let ok = OkInfo {
            affected_rows: 2,
            info: "Records: 2  Duplicates: 0  Warnings: 0".into(),
            ..OkInfo::default()
        };
        let bytes = written(|out| put_ok(out, &ok, status_flags(AUTOCOMMIT, false)));
        let mut expected = vec![0, 2, 0, 2, 0, 0, 0, 0x26];
        expected.extend_from_slice(ok.info.as_bytes());
        assert_eq!(bytes, expected, "as captured from MariaDB 10.11");
        let plain = written(|out| put_ok(out, &OkInfo::default(), StatusFlags::AUTOCOMMIT));
        assert_eq!(plain, [0, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn eof_has_the_form_the_client_knows() {
        let status = status_flags(AUTOCOMMIT, true);
        let old = written(|out| put_eof(out, 1, status, Capabilities::NONE));
        assert_eq!(old, [0xFE, 1, 0, 0x0A, 0]);
        let new = written(|out| put_eof(out, 1, status, Capabilities::DEPRECATE_EOF));
        assert_eq!(new, [0xFE, 0, 0, 0x0A, 0, 1, 0]);
    }

    #[test]
    fn err_carries_number_state_and_message() {
        let bytes = written(|out| put_err(out, &UNKNOWN_COM_ERROR.with(&[])));
        assert_eq!(
            bytes, b"\xff\x17\x04#08S01Unknown command",
            "as captured from MariaDB 10.11"
        );
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let error = SqlError::new(1105, *b"HY000", "\u{20ac}".repeat(2000));
        let bytes = written(|out| put_err(out, &error));
        assert_eq!(bytes.len(), 9 + 4095);
        assert!(std::str::from_utf8(&bytes[9..]).is_ok());
    }

    #[test]
    fn status_reports_a_transaction() {
        let status = SessionStatus {
            autocommit: false,
            in_transaction: true,
            no_backslash_escapes: true,
        };
        assert_eq!(status_flags(status, false).0, 0x201);
    }
}
