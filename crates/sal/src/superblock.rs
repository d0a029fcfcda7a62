//! Page 1, the superblock: what a frontend must know before it can find anything else. The database's
//! first log group makes it; `docs/format/superblock.md` shows it byte by byte.
//!
//! The engine keeps its page allocation further back in the same page.

use bytes::Bytes;
use perigee_page::{HEADER_LEN, PageKind, PageRef, RecordShape};
use perigee_redo::{Change, Group, Op};
use perigee_types::{DbId, IndexId, PAGE_SIZE, PageId, Reader, Writer};

use crate::{Geometry, SalError};

/// The superblock's page id. It lies in slice 0 whatever the geometry is.
pub const SUPERBLOCK: PageId = PageId(1);

/// Bytes of the superblock's body that belong to this layer; the rest is the engine's.
pub const SUPERBLOCK_RESERVED: usize = 64;

const MAGIC: [u8; 8] = *b"PERIGEE\0";

/// Version of all that a frontend keeps in pages.
const VERSION: u32 = 3;

/// The changes of the first log group of a database.
pub(crate) fn first_group(db: DbId, geometry: &Geometry) -> Vec<Change> {
    let mut w = Writer::new();
    w.raw(&MAGIC).u32(VERSION);
    geometry.encode(&mut w);
    let body = w.into_bytes();
    assert!(
        body.len() <= SUPERBLOCK_RESERVED,
        "superblock of {} bytes",
        body.len()
    );
    let format = Op::Format {
        kind: PageKind::Meta,
        level: 0,
        db,
        index: IndexId(0),
        shape: RecordShape::default(),
        prev: PageId(0),
        next: PageId(0),
    };
    let write = Op::Write {
        offset: HEADER_LEN as u16,
        bytes: Bytes::from(body),
    };
    vec![Change {
        page: SUPERBLOCK,
        ops: vec![format, write],
    }]
}

/// Geometry in the superblock that the first log group makes.
pub(crate) fn from_group(db: DbId, group: &Group) -> Result<Geometry, SalError> {
    let mut page = Box::new([0; PAGE_SIZE]);
    let change = group
        .changes
        .iter()
        .find(|c| c.page == SUPERBLOCK)
        .ok_or_else(|| {
            SalError::Incompatible(format!("the log of {db} does not begin with a superblock"))
        })?;
    perigee_redo::apply_change(&mut page, group.lsn, change)
        .map_err(|e| SalError::Inconsistent(format!("first log group of {db}: {e}")))?;
    from_page(db, &page[..])
}

/// Geometry in the superblock's bytes.
pub(crate) fn from_page(db: DbId, bytes: &[u8]) -> Result<Geometry, SalError> {
    let corrupt = |what: String| SalError::Inconsistent(format!("superblock of {db}: {what}"));
    let page = PageRef::new(bytes).map_err(|e| corrupt(e.to_string()))?;
    if (page.id(), page.db(), page.kind()) != (SUPERBLOCK, db, PageKind::Meta) {
        let what = format!(
            "found {} of {}, kind {:?}",
            page.id(),
            page.db(),
            page.kind()
        );
        return Err(corrupt(what));
    }
    let mut r = Reader::new(&page.bytes()[HEADER_LEN..], "superblock");
    let malformed = |e: perigee_types::DecodeError| corrupt(e.to_string());
    if r.raw(MAGIC.len()).map_err(malformed)? != MAGIC {
        return Err(SalError::Incompatible(format!(
            "{db} is not a Perigee database"
        )));
    }
    let version = r.u32().map_err(malformed)?;
    if version != VERSION {
        return Err(SalError::Incompatible(format!(
            "{db} is of format version {version}, expected version {VERSION}; use the program that \
             made it, or another database"
        )));
    }
    Geometry::decode(&mut r).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use perigee_testkit::Fuzz;
    use perigee_types::Lsn;

    use super::*;

    const GEOMETRY: Geometry = Geometry {
        extent_pages: 64,
        width: 2,
        slice_pages: 640,
        stores: 2,
    };

    fn group() -> Group {
        Group {
            lsn: Lsn(1),
            changes: first_group(DbId(7), &GEOMETRY),
        }
    }

    #[test]
    fn the_first_group_holds_the_geometry() {
        assert_eq!(from_group(DbId(7), &group()), Ok(GEOMETRY));
    }

    #[test]
    fn other_databases_and_versions_are_refused() {
        let other = from_group(DbId(8), &group());
        assert!(matches!(other, Err(SalError::Inconsistent(_))), "{other:?}");
        let mut newer = group();
        let bytes = body(&mut newer);
        let mut body = bytes.to_vec();
        body[8] = 9;
        *bytes = body.into();
        let refused = from_group(DbId(7), &newer);
        assert!(
            matches!(&refused, Err(SalError::Incompatible(t)) if t.contains("version 9")),
            "{refused:?}"
        );
    }

    /// The body of the superblock that the first group makes.
    fn body(group: &mut Group) -> &mut Bytes {
        match &mut group.changes[0].ops[1] {
            Op::Write { bytes, .. } => bytes,
            other => panic!("a write, not {other:?}"),
        }
    }

    #[test]
    fn damaged_superblocks_are_refused_or_read() {
        let other = Geometry {
            slice_pages: 64,
            stores: 1,
            ..GEOMETRY
        };
        let corpus = [GEOMETRY, other].map(|geometry| {
            let changes = first_group(DbId(7), &geometry);
            let lsn = Lsn(1);
            body(&mut Group { lsn, changes }).to_vec()
        });
        Fuzz::new(corpus).run("superblocks", |bytes| {
            let mut damaged = group();
            *body(&mut damaged) = Bytes::copy_from_slice(bytes);
            let Ok(geometry) = from_group(DbId(7), &damaged) else {
                return false;
            };
            let slice = geometry.slice_of(PageId(u64::from(u32::MAX)));
            assert!(geometry.store_of(slice) < geometry.stores as usize);
            true
        });
    }
}
