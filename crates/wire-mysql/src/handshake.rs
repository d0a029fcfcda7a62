//! The packets of the connection phase: the server's greeting (handshake version 10), the client's
//! request for TLS and its response, the switch to another authentication method, and COM_CHANGE_USER, which repeats
//! the response later. The order in which they travel is in [`crate::login`].

use bytes::{BufMut, Bytes, BytesMut};
use perigee_types::DecodeError;

use crate::auth::{AuthMethod, NONCE};
use crate::codec::{Fields, put_nul_bytes, text};
use crate::column::UTF8MB4_0900_AI_CI;
use crate::flags::{Capabilities, StatusFlags};

/// Version of the greeting; MySQL has sent no other since 3.21.
const PROTOCOL_VERSION: u8 = 10;

/// Most attributes taken of one client; more are ignored.
const MAX_ATTRIBUTES: usize = 128;

/// Appends the greeting.
pub(crate) fn put_greeting(
    out: &mut BytesMut,
    server_version: &str,
    connection_id: u32,
    nonce: &[u8; NONCE],
    method: AuthMethod,
    capabilities: Capabilities,
) {
    let capabilities = capabilities.0.to_le_bytes();
    out.put_u8(PROTOCOL_VERSION);
    put_nul_bytes(out, server_version.as_bytes());
    out.put_u32_le(connection_id);
    put_nul_bytes(out, &nonce[..8]);
    out.extend_from_slice(&capabilities[..2]);
    // One byte: the low byte of the default collation's id.
    out.put_u8(UTF8MB4_0900_AI_CI as u8);
    out.put_u16_le(StatusFlags::AUTOCOMMIT.0);
    out.extend_from_slice(&capabilities[2..]);
    out.put_u8(NONCE as u8 + 1);
    out.put_bytes(0, 10);
    put_nul_bytes(out, &nonce[8..]);
    put_nul_bytes(out, method.name().as_bytes());
}

/// Appends the request to authenticate by another method.
pub(crate) fn put_auth_switch(out: &mut BytesMut, method: AuthMethod, nonce: &[u8; NONCE]) {
    out.put_u8(0xFE);
    put_nul_bytes(out, method.name().as_bytes());
    put_nul_bytes(out, nonce);
}

/// Appends what tells a `caching_sha2_password` client that its scramble was enough.
pub(crate) fn put_fast_auth_success(out: &mut BytesMut) {
    out.extend_from_slice(&[0x01, 0x03]);
}

/// Appends what tells a `caching_sha2_password` client that the password itself is needed.
pub(crate) fn put_full_auth(out: &mut BytesMut) {
    out.extend_from_slice(&[0x01, 0x04]);
}

/// True for the first part of a response, without a user, which asks for TLS before the whole of it follows.
pub(crate) fn asks_for_tls(payload: &[u8]) -> bool {
    const FIRST_PART: usize = 4 + 4 + 1 + 23;
    let capabilities = payload.first_chunk().copied().map(u32::from_le_bytes);
    let asked = Capabilities::PROTOCOL_41.with(Capabilities::SSL);
    payload.len() == FIRST_PART && capabilities.is_some_and(|c| Capabilities(c).has(asked))
}

/// What a client answers to the greeting, or sends with COM_CHANGE_USER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandshakeResponse {
    /// What the client can do and wants.
    pub(crate) capabilities: Capabilities,
    /// Id of the client's collation.
    pub(crate) collation: u16,
    /// User to log in as.
    pub(crate) user: String,
    /// Proof of the password, by `method`.
    pub(crate) auth_response: Bytes,
    /// Database to begin with.
    pub(crate) database: Option<String>,
    /// Name of the method the proof was made by; `None` from a client that names none.
    pub(crate) method: Option<Vec<u8>>,
    /// What the client says of itself.
    pub(crate) attributes: Vec<(String, String)>,
}

impl HandshakeResponse {
    /// Decodes the response to the greeting. Only the protocol since 4.1 is understood.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        const PACKET: &str = "handshake response";
        let mut fields = Fields::new(payload, PACKET);
        let capabilities = Capabilities(fields.u32()?);
        if !capabilities.has(Capabilities::PROTOCOL_41) {
            return Err(DecodeError::new(
                "handshake response: protocol older than 4.1",
            ));
        }
        fields.u32()?; // greatest packet the client takes; it says so to no effect
        let collation = u16::from(fields.u8()?);
        fields.raw(23)?;
        if fields.is_empty() && capabilities.has(Capabilities::SSL) {
            return Err(DecodeError::new(
                "handshake response: TLS, which was not offered",
            ));
        }
        let user = text(fields.nul_bytes()?, PACKET)?;
        let auth_response = if capabilities.has(Capabilities::PLUGIN_AUTH_LENENC) {
            fields.lenenc_bytes()?
        } else if capabilities.has(Capabilities::SECURE_CONNECTION) {
            let len = fields.u8()?;
            fields.raw(usize::from(len))?
        } else {
            fields.nul_bytes()?
        };
        let auth_response = Bytes::copy_from_slice(auth_response);
        let mut database = None;
        if capabilities.has(Capabilities::CONNECT_WITH_DB) && !fields.is_empty() {
            database = named(fields.nul_bytes()?, PACKET)?;
        }
        let mut method = None;
        if capabilities.has(Capabilities::PLUGIN_AUTH) && !fields.is_empty() {
            method = Some(last_string(&mut fields)?.to_vec());
        }
        let attributes = attributes(&mut fields, capabilities)?;
        Ok(Self {
            capabilities,
            collation,
            user,
            auth_response,
            database,
            method,
            attributes,
        })
    }

    /// Decodes the arguments of COM_CHANGE_USER; `capabilities` and `collation` are those of the
    /// connection.
    pub(crate) fn decode_change_user(
        arguments: &[u8],
        capabilities: Capabilities,
        collation: u16,
    ) -> Result<Self, DecodeError> {
        const PACKET: &str = "COM_CHANGE_USER";
        let mut fields = Fields::new(arguments, PACKET);
        let user = text(fields.nul_bytes()?, PACKET)?;
        let len = fields.u8()?;
        let auth_response = Bytes::copy_from_slice(fields.raw(usize::from(len))?);
        let database = named(last_string(&mut fields)?, PACKET)?;
        let collation = if fields.is_empty() {
            collation
        } else {
            fields.u16()?
        };
        let mut method = None;
        if capabilities.has(Capabilities::PLUGIN_AUTH) && !fields.is_empty() {
            method = Some(last_string(&mut fields)?.to_vec());
        }
        let attributes = attributes(&mut fields, capabilities)?;
        Ok(Self {
            capabilities,
            collation,
            user,
            auth_response,
            database,
            method,
            attributes,
        })
    }
}

/// A string that some clients do not terminate when nothing follows it.
fn last_string<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8], DecodeError> {
    let mut ahead = fields.clone();
    match ahead.nul_bytes() {
        Ok(string) => {
            *fields = ahead;
            Ok(string)
        }
        Err(_) => Ok(fields.rest()),
    }
}

fn named(bytes: &[u8], packet: &'static str) -> Result<Option<String>, DecodeError> {
    if bytes.is_empty() {
        Ok(None)
    } else {
        text(bytes, packet).map(Some)
    }
}

/// The attributes at the end. Text that is not UTF-8 is made so: nothing depends on it.
fn attributes(
    fields: &mut Fields<'_>,
    capabilities: Capabilities,
) -> Result<Vec<(String, String)>, DecodeError> {
    let mut attributes = Vec::new();
    if !capabilities.has(Capabilities::CONNECT_ATTRS) || fields.is_empty() {
        return Ok(attributes);
    }
    let mut pairs = Fields::new(fields.lenenc_bytes()?, "connection attributes");
    while !pairs.is_empty() {
        let key = String::from_utf8_lossy(pairs.lenenc_bytes()?).into_owned();
        let value = String::from_utf8_lossy(pairs.lenenc_bytes()?).into_owned();
        if attributes.len() < MAX_ATTRIBUTES {
            attributes.push((key, value));
        }
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests;
