//! Run-time filters: conditions on key columns that become known while a scan runs, such as the keys of
//! a join's build side (`docs/format/filter.md`).
//!
//! A descriptor does not change while its scan runs; a batch of the scan may bring filters along. A filter
//! leaves out only rows that an operator above the scan leaves out anyway, so it changes what a scan
//! costs and never what a query answers: whoever lacks it, or does not know its version, goes without.
//!
//! A key is the encoding of the columns' values one after the other ([`perigee_value::key`]): values
//! that SQL calls equal have equal bytes, in every type and collation, and keys order as the values do.
//! A record with a NULL among the columns passes no filter.

mod bloom;
mod build;
mod form;
mod members;
mod read;

use bytes::Bytes;
use perigee_types::{DecodeError, Reader, Writer, checksum};
use perigee_value::{ColumnType, RowLayout};

use crate::NdpError;
use bloom::Bloom;
pub use build::KeySet;
use form::KeyForm;
use members::{List, Members};
pub use read::Filters;
pub(crate) use read::Scratch;

/// Version of the wire form; 1 is the first.
pub const FILTER_VERSION: u8 = 1;
const MAGIC: [u8; 4] = *b"PNDF";
/// Magic, checksum, version.
const HEADER_LEN: usize = 9;
/// Greatest length of an encoded filter: a Bloom filter of five million keys.
pub const MAX_FILTER_LEN: usize = 8 << 20;
/// Most columns of a key.
pub const MAX_FILTER_COLUMNS: usize = 16;
/// Most keys of a list; more become a Bloom filter.
pub const MAX_LISTED_KEYS: usize = 1024;

/// A condition on the key that some columns of a scan's records make.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    columns: Vec<(u16, ColumnType)>,
    form: KeyForm,
    /// The least and the greatest key that pass.
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    members: Members,
}

impl Filter {
    /// The columns of the key, by their numbers in the layout, with their types.
    #[must_use]
    pub fn columns(&self) -> &[(u16, ColumnType)] {
        &self.columns
    }

    /// What it is made of, in words.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match (&self.members, &self.bounds) {
            (Members::List(list), _) if list.is_empty() => "nothing",
            (Members::List(_), _) => "list",
            (Members::Bloom(_), _) => "bloom",
            (Members::Any, _) => "range",
        }
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bounds = self
            .bounds
            .iter()
            .map(|(least, most)| least.len() + most.len());
        size_of::<Self>() + bounds.sum::<usize>() + self.members.bytes()
    }

    /// True if a key passes; its parts are encoded as [`perigee_value::key::encode_part`] does for
    /// columns that are not nullable.
    #[must_use]
    pub fn passes(&self, key: &[u8]) -> bool {
        let inside = self
            .bounds
            .as_ref()
            .is_none_or(|(least, most)| **least <= *key && *key <= **most);
        inside
            && match self.form {
                KeyForm::Packed { .. } => self.members.has_number(form::number(key)),
                KeyForm::Bytes => self.members.has_bytes(key),
            }
    }

    /// Checks that a layout has the columns, of these types.
    ///
    /// # Errors
    /// [`NdpError::Filter`] if it does not.
    pub fn check(&self, layout: &RowLayout) -> Result<(), NdpError> {
        for (column, ty) in &self.columns {
            let found = layout.columns.get(usize::from(*column)).map(|c| c.ty);
            if found != Some(*ty) {
                let found = found.map_or("nothing".to_owned(), |ty| ty.to_string());
                return invalid(format!("column {column} is {found}, not {ty}"));
            }
        }
        Ok(())
    }

    /// The wire form: `docs/format/filter.md`.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        w.raw(&MAGIC).u32(0).u8(FILTER_VERSION);
        w.u16(self.columns.len() as u16);
        for (column, ty) in &self.columns {
            w.u16(*column);
            ty.encode(&mut w);
        }
        w.u8(u8::from(self.bounds.is_some()));
        if let Some((least, most)) = &self.bounds {
            w.bytes(least).bytes(most);
        }
        match &self.members {
            Members::Any => {
                w.u8(0);
            }
            Members::List(list) => list.encode(w.u8(1)),
            Members::Bloom(bloom) => bloom.encode(w.u8(2)),
        }
        let mut bytes = w.into_bytes();
        let crc = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes.into()
    }

    /// Reads the wire form and validates everything in it.
    ///
    /// # Errors
    /// [`NdpError::UnknownVersion`] if it is of another version than this program knows;
    /// [`NdpError::Filter`] if anything else is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, NdpError> {
        if bytes.len() < HEADER_LEN || bytes.len() > MAX_FILTER_LEN {
            return invalid("its length is out of bounds".to_owned());
        }
        if bytes[..4] != MAGIC {
            return invalid("no magic number".to_owned());
        }
        if bytes[4..8] != checksum(&bytes[8..]).to_le_bytes() {
            return invalid("checksum does not match".to_owned());
        }
        if bytes[8] != FILTER_VERSION {
            return Err(NdpError::UnknownVersion {
                found: bytes[8],
                known: FILTER_VERSION,
            });
        }
        Self::decode_body(&bytes[HEADER_LEN..]).map_err(|e| NdpError::Filter {
            what: e.to_string(),
        })
    }

    fn decode_body(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes, "filter");
        let count = usize::from(r.u16()?);
        if count == 0 || count > MAX_FILTER_COLUMNS {
            return Err(DecodeError::new("filter: number of columns"));
        }
        let columns = (0..count)
            .map(|_| Ok((r.u16()?, ColumnType::decode(&mut r)?)))
            .collect::<Result<Vec<_>, DecodeError>>()?;
        if columns.iter().any(|(_, ty)| ty.is_long()) {
            return Err(DecodeError::new("filter: a long column"));
        }
        let form = KeyForm::of(columns.iter().map(|(_, ty)| *ty));
        let bounds = match r.u8()? {
            0 => None,
            1 => Some((form.decode_key(&mut r)?, form.decode_key(&mut r)?)),
            _ => return Err(DecodeError::new("filter: bounds")),
        };
        if bounds.as_ref().is_some_and(|(least, most)| least > most) {
            return Err(DecodeError::new("filter: bounds that nothing is between"));
        }
        let members = match r.u8()? {
            0 if bounds.is_some() => Members::Any,
            1 => Members::List(List::decode(form, &mut r)?),
            2 => Members::Bloom(Bloom::decode(&mut r)?),
            _ => return Err(DecodeError::new("filter: members")),
        };
        r.finish()?;
        Ok(Self {
            columns,
            form,
            bounds,
            members,
        })
    }
}

fn invalid<T>(what: String) -> Result<T, NdpError> {
    Err(NdpError::Filter { what })
}
