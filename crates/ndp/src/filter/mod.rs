//! Run-time filters: conditions on key columns that become known while a scan runs, such as the keys of
//! a join's build side (`docs/format/filter.md`).
//!
//! A descriptor does not change while its scan runs; a batch of the scan may bring filters along. A filter
//! leaves out only rows that an operator above the scan leaves out anyway, so it changes what a scan
//! costs and never what a query answers: whoever lacks it, or does not know its version, goes without.
//!
//! A key is the encoding of the columns' values one after the other ([`perigee_value::key`]): values
//! that SQL calls equal have equal bytes, in every type and collation, and keys order as the values do.
//! A record with a NULL among the columns passes no filter but one that says so.
//!
//! The threshold of a sort that keeps the first so many rows is a filter as well, and so is the wish for the first so
//! many ([`Best`]).

mod best;
mod bloom;
mod bounds;
mod build;
mod form;
mod members;
mod read;
mod record_key;

use bytes::Bytes;
use perigee_types::{DecodeError, Reader, Writer, checksum};
use perigee_value::{ColumnType, RowLayout};

use crate::NdpError;
pub use best::{Best, MAX_BEST, TopKeys};
use bloom::Bloom;
use bounds::Bounds;
pub use build::KeySet;
pub(crate) use form::{KeyForm, number};
use members::{List, Members};
pub use read::Filters;
pub(crate) use read::{Progress, Scratch};
pub(crate) use record_key::RecordKey;

/// Version of the wire form: 1 had no [`Best`], no open bounds and no NULLs that pass.
pub const FILTER_VERSION: u8 = 2;
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
    bounds: Bounds,
    members: Members,
    /// Records with a NULL among the columns pass.
    nulls: bool,
    /// Of those that pass, only the best so many are needed of a run.
    best: Option<Best>,
}

impl Filter {
    /// The filter of a sort that keeps the first rows in the order of these columns of a layout: only so many rows
    /// are wanted of a run, and none behind `threshold`, if that is known, a key that as many rows of the sort
    /// come before or have. NULL comes before all values. `None` if storage cannot compare one of the columns.
    ///
    /// # Panics
    /// If more rows are wanted than [`MAX_BEST`], or none.
    #[must_use]
    pub fn top(
        columns: &[(u16, ColumnType)],
        best: Best,
        threshold: Option<&[u8]>,
    ) -> Option<Self> {
        assert!(
            (1..=MAX_BEST).contains(&best.rows),
            "N14: what a run remembers is bounded"
        );
        let count = columns.len();
        if count == 0 || count > MAX_FILTER_COLUMNS || columns.iter().any(|(_, ty)| ty.is_long()) {
            return None;
        }
        let end = threshold.map(<[u8]>::to_vec);
        let (least, most) = match best.greatest {
            true => (end, None),
            false => (None, end),
        };
        Some(Self {
            columns: columns.to_vec(),
            form: KeyForm::of(columns.iter().map(|(_, ty)| *ty)),
            // Rows enough are known to come before NULL if NULL is last.
            nulls: !best.greatest || threshold.is_none(),
            bounds: Bounds { least, most },
            members: Members::Any,
            best: Some(best),
        })
    }

    /// The columns of the key, by their numbers in the layout, with their types.
    #[must_use]
    pub fn columns(&self) -> &[(u16, ColumnType)] {
        &self.columns
    }

    /// What it is made of, in words.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.members {
            Members::List(list) if list.is_empty() => "nothing",
            Members::List(_) => "list",
            Members::Bloom(_) => "bloom",
            Members::Any if self.bounds.are_open() => "top",
            Members::Any => "range",
        }
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.bounds.bytes() + self.members.bytes()
    }

    /// True if a key passes; its parts are encoded as [`perigee_value::key::encode_part`] does for
    /// columns that are not nullable.
    #[must_use]
    pub fn passes(&self, key: &[u8]) -> bool {
        self.bounds.have(key)
            && match self.form {
                KeyForm::Packed { .. } => self.members.has_number(number(key)),
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
        w.u8(u8::from(self.nulls));
        self.bounds.encode(&mut w);
        Best::encode(self.best, &mut w);
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
        let nulls = match r.u8()? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::new("filter: NULLs")),
        };
        let bounds = Bounds::decode(form, &mut r)?;
        let best = Best::decode(&mut r)?;
        let members = match r.u8()? {
            0 if !bounds.are_open() || best.is_some() => Members::Any,
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
            nulls,
            best,
        })
    }
}

fn invalid<T>(what: String) -> Result<T, NdpError> {
    Err(NdpError::Filter { what })
}
