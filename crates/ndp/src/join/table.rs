//! [`JoinTable`]: the rows that a scan's records are joined with, and its wire form.

use bytes::Bytes;
use perigee_expr::Vector;
use perigee_types::{DecodeError, Reader, Writer, checksum};
use perigee_value::ColumnType;

use super::keys::Keys;
use super::rows::Rows;
use super::{decode_columns, encode_columns, is_payload};
use crate::batch::MAX_ROWS;
use crate::chunk::{self, Chunk};
use crate::filter::{KeyForm, MAX_FILTER_COLUMNS};
use crate::narrow::Cutter;
use crate::{NdpError, hash_bytes};

/// Version of the wire form.
pub const JOIN_TABLE_VERSION: u8 = 1;

/// Greatest length of an encoded table: that of a filter, whose way it goes.
pub const MAX_JOIN_TABLE_LEN: usize = 8 << 20;

/// Most bytes of memory that a table takes.
pub const MAX_JOIN_TABLE_MEMORY: usize = 24 << 20;

const MAGIC: [u8; 4] = *b"PNDJ";
/// Magic, checksum, version.
const HEADER_LEN: usize = 9;

/// Rows by unique keys: `docs/format/join-table.md`.
///
/// Immutable; made by a [`super::JoinTableBuilder`] or of its wire form, which are the same.
#[derive(Debug)]
pub struct JoinTable {
    name: u64,
    key: Vec<ColumnType>,
    payload: Vec<(ColumnType, bool)>,
    len: usize,
    memory: usize,
    pub(super) keys: Keys,
    pub(super) rows: Rows,
}

impl JoinTable {
    /// Names the table in descriptors: a hash of its wire form.
    #[must_use]
    pub fn name(&self) -> u64 {
        self.name
    }

    /// Types of the columns of the key.
    #[must_use]
    pub fn key(&self) -> &[ColumnType] {
        &self.key
    }

    /// Types and nullability of the other columns.
    #[must_use]
    pub fn payload(&self) -> &[(ColumnType, bool)] {
        &self.payload
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// True if these bytes are to be a join table, valid or not.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// The wire form of rows in the order of their keys.
    pub(super) fn encode(
        key: &[ColumnType],
        payload: &[(ColumnType, bool)],
        keys: &Vector,
        columns: &[Vector],
    ) -> Bytes {
        let mut w = Writer::new();
        w.raw(&MAGIC).u32(0).u8(JOIN_TABLE_VERSION);
        w.u16(key.len() as u16);
        for ty in key {
            ty.encode(&mut w);
        }
        encode_columns(payload, &mut w);
        w.u32(keys.len() as u32);
        let mut bytes = w.into_bytes();
        for column in std::iter::once(keys).chain(columns) {
            chunk::put(&mut bytes, column);
        }
        let crc = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes.into()
    }

    /// Reads the wire form and validates everything in it.
    ///
    /// # Errors
    /// [`NdpError::UnknownVersion`] if it is of another version than this program knows;
    /// [`NdpError::JoinTable`] if anything else is wrong with it, or if it takes too much memory.
    pub fn decode(bytes: &Bytes) -> Result<Self, NdpError> {
        let invalid = |what: &str| NdpError::JoinTable {
            what: what.to_owned(),
        };
        if bytes.len() < HEADER_LEN || bytes.len() > MAX_JOIN_TABLE_LEN {
            return Err(invalid("its length is out of bounds"));
        }
        if !Self::is_one(bytes) {
            return Err(invalid("no magic number"));
        }
        if bytes[4..8] != checksum(&bytes[8..]).to_le_bytes() {
            return Err(invalid("checksum does not match"));
        }
        if bytes[8] != JOIN_TABLE_VERSION {
            return Err(NdpError::UnknownVersion {
                found: bytes[8],
                known: JOIN_TABLE_VERSION,
            });
        }
        Self::decode_body(bytes).map_err(|e| invalid(&e.to_string()))
    }

    fn decode_body(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut r = Reader::new(&bytes[HEADER_LEN..], "join table");
        let count = usize::from(r.u16()?);
        if count == 0 || count > MAX_FILTER_COLUMNS {
            return Err(DecodeError::new("join table: columns of the key"));
        }
        let key = (0..count)
            .map(|_| ColumnType::decode(&mut r))
            .collect::<Result<Vec<_>, _>>()?;
        let payload = decode_columns(&mut r)?;
        if key.iter().any(|ty| ty.is_long()) || !is_payload(&payload) {
            return Err(DecodeError::new("join table: type of a column"));
        }
        let len = r.u32()? as usize;
        let form = KeyForm::of(key.iter().copied());
        // Before anything is allocated: columns of equal values take no bytes.
        if len > MAX_ROWS {
            return Err(DecodeError::new("join table: number of rows"));
        }
        let memory = size_of::<Self>() + Keys::memory(form, len) + Rows::memory(&payload, len);
        // Strings are taken in as they are.
        let memory = memory + bytes.len();
        if memory > MAX_JOIN_TABLE_MEMORY {
            return Err(DecodeError::new("join table: memory"));
        }
        let mut cutter = Cutter::new(bytes.slice(bytes.len() - r.remaining()..));
        let keys = Keys::load(form, len, &Chunk::cut(&mut cutter, len)?)?;
        let mut rows = Rows::new(&payload, len);
        rows.load(&payload, len, || Chunk::cut(&mut cutter, len))?;
        cutter.finish("join table: bytes behind the end")?;
        Ok(Self {
            name: hash_bytes(bytes),
            key,
            payload,
            len,
            memory,
            keys,
            rows,
        })
    }
}
