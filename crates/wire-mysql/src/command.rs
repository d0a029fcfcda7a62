//! The commands of a client: the first byte of a payload says which, the rest are its arguments.
//!
//! Every byte is a [`Command`]: what is not known or cannot be served is one too, so that the
//! caller decides what to answer. Nothing is executed here.

use bytes::Bytes;
use perigee_types::DecodeError;

use crate::codec::{Fields, text};
use crate::session::StatementId;

/// One command, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The client leaves.
    Quit,
    /// Makes a database the current one.
    InitDb(String),
    /// One or more SQL statements; not yet known to be UTF-8.
    Query(Bytes),
    /// The columns of a table, for completion in old clients.
    FieldList {
        /// Table of the current database.
        table: String,
        /// LIKE pattern of column names; empty for all.
        wildcard: String,
    },
    /// A line about the server's state.
    Statistics,
    /// Ends another connection.
    ProcessKill(u32),
    /// Asks for a sign of life.
    Ping,
    /// Logs in anew; the arguments are decoded by [`crate::handshake`].
    ChangeUser(Bytes),
    /// Allows or forbids several statements in one COM_QUERY.
    SetOption {
        /// True if they are allowed.
        multi_statements: bool,
    },
    /// Forgets everything of the session but its user.
    ResetConnection,
    /// Prepares a statement; not yet known to be UTF-8.
    Prepare(Bytes),
    /// Runs a prepared statement.
    Execute {
        /// Which.
        statement: StatementId,
        /// Its parameters, decoded by [`crate::parameter`].
        arguments: Bytes,
    },
    /// Sends a part of a parameter's value ahead of the execution; never answered.
    LongData {
        /// The parameter's statement.
        statement: StatementId,
        /// The parameter's number, from 0.
        parameter: u16,
        /// The part.
        part: Bytes,
    },
    /// Forgets a prepared statement; never answered.
    CloseStatement(StatementId),
    /// Forgets the values sent ahead.
    ResetStatement(StatementId),
    /// Asks for rows of a cursor.
    Fetch(StatementId),
    /// Anything else.
    Unknown(u8),
}

impl Command {
    /// Decodes a payload.
    pub(crate) fn decode(payload: &Bytes) -> Result<Self, DecodeError> {
        let mut fields = Fields::new(payload, "command");
        let code = fields.u8()?;
        Ok(match code {
            0x01 => Self::Quit,
            0x02 => Self::InitDb(text(fields.rest(), "COM_INIT_DB")?),
            0x03 => Self::Query(payload.slice(1..)),
            0x04 => Self::FieldList {
                table: text(fields.nul_bytes()?, "COM_FIELD_LIST")?,
                wildcard: text(fields.rest(), "COM_FIELD_LIST")?,
            },
            0x09 => Self::Statistics,
            0x0C => Self::ProcessKill(fields.u32()?),
            0x0E => Self::Ping,
            0x11 => Self::ChangeUser(payload.slice(1..)),
            0x16 => Self::Prepare(payload.slice(1..)),
            0x17 => {
                let statement = StatementId(fields.u32()?);
                // A cursor may be asked for. There are none, as the protocol allows: all rows come
                // at once. The number of iterations that follows is always 1.
                let _cursor = fields.u8()?;
                let _iterations = fields.u32()?;
                let arguments = payload.slice_ref(fields.rest());
                Self::Execute {
                    statement,
                    arguments,
                }
            }
            0x18 => Self::LongData {
                statement: StatementId(fields.u32()?),
                parameter: fields.u16()?,
                part: payload.slice_ref(fields.rest()),
            },
            0x19 => Self::CloseStatement(StatementId(fields.u32()?)),
            0x1A => Self::ResetStatement(StatementId(fields.u32()?)),
            0x1C => Self::Fetch(StatementId(fields.u32()?)),
            0x1B => match fields.u16()? {
                0 => Self::SetOption {
                    multi_statements: true,
                },
                1 => Self::SetOption {
                    multi_statements: false,
                },
                _ => return Err(DecodeError::new("COM_SET_OPTION")),
            },
            0x1F => Self::ResetConnection,
            other => Self::Unknown(other),
        })
    }

    /// The word SHOW PROCESSLIST has for it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Quit => "Quit",
            Self::InitDb(_) => "Init DB",
            Self::Query(_) => "Query",
            Self::FieldList { .. } => "Field List",
            Self::Statistics => "Statistics",
            Self::ProcessKill(_) => "Kill",
            Self::Ping => "Ping",
            Self::ChangeUser(_) => "Change user",
            Self::SetOption { .. } => "Set option",
            Self::ResetConnection => "Reset Connection",
            Self::Prepare(_) => "Prepare",
            Self::Execute { .. } => "Execute",
            Self::LongData { .. } => "Long Data",
            Self::CloseStatement(_) => "Close stmt",
            Self::ResetStatement(_) => "Reset stmt",
            Self::Fetch(_) => "Fetch",
            Self::Unknown(_) => "Error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &'static [u8]) -> Result<Command, DecodeError> {
        Command::decode(&Bytes::from_static(bytes))
    }

    #[test]
    fn each_command_decodes() {
        assert_eq!(decoded(b"\x01"), Ok(Command::Quit));
        assert_eq!(decoded(b"\x02test"), Ok(Command::InitDb("test".into())));
        assert_eq!(
            decoded(b"\x03SELECT 1"),
            Ok(Command::Query("SELECT 1".into()))
        );
        assert_eq!(
            decoded(b"\x04t\0%"),
            Ok(Command::FieldList {
                table: "t".into(),
                wildcard: "%".into()
            })
        );
        assert_eq!(decoded(b"\x09"), Ok(Command::Statistics));
        assert_eq!(decoded(b"\x0c\x07\0\0\0"), Ok(Command::ProcessKill(7)));
        assert_eq!(decoded(b"\x0e"), Ok(Command::Ping));
        assert_eq!(
            decoded(b"\x1b\0\0"),
            Ok(Command::SetOption {
                multi_statements: true
            })
        );
        assert_eq!(
            decoded(b"\x1b\x01\0"),
            Ok(Command::SetOption {
                multi_statements: false
            })
        );
        assert_eq!(decoded(b"\x1f"), Ok(Command::ResetConnection));
        let statement = StatementId(0x0102);
        assert_eq!(
            decoded(b"\x16SELECT ?"),
            Ok(Command::Prepare("SELECT ?".into()))
        );
        assert_eq!(
            decoded(b"\x17\x02\x01\0\0\0\x01\0\0\0args"),
            Ok(Command::Execute {
                statement,
                arguments: "args".into()
            })
        );
        assert_eq!(
            decoded(b"\x18\x02\x01\0\0\x03\0part"),
            Ok(Command::LongData {
                statement,
                parameter: 3,
                part: "part".into()
            })
        );
        assert_eq!(
            decoded(b"\x19\x02\x01\0\0"),
            Ok(Command::CloseStatement(statement))
        );
        assert_eq!(
            decoded(b"\x1a\x02\x01\0\0"),
            Ok(Command::ResetStatement(statement))
        );
        assert_eq!(
            decoded(b"\x1c\x02\x01\0\0\x0a\0\0\0"),
            Ok(Command::Fetch(statement))
        );
        assert_eq!(decoded(b"\x05db"), Ok(Command::Unknown(5)));
    }

    #[test]
    fn arguments_that_are_missing_or_wrong_are_errors() {
        for bytes in [
            &b""[..],
            b"\x04t",
            b"\x0c\x07",
            b"\x1b\x09\0",
            b"\x02\xff\xfe",
            b"\x17\x01\0\0\0\0\x01\0\0",
            b"\x18\x01\0\0\0\0",
            b"\x19\x01\0\0",
        ] {
            assert!(decoded(bytes).is_err(), "{bytes:?}");
        }
    }
}
