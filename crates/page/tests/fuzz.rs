//! Pages of damaged bytes: the verifier says what is wrong, and whatever it lets through can be
//! read, searched and dumped.
#![allow(clippy::unwrap_used, reason = "test code")]

use perigee_page::{
    CLUSTERED_HEADER_LEN, PageKind, PageMut, PageRef, RecordHeader, RecordShape, inner_record,
};
use perigee_types::{DbId, IndexId, Lsn, PAGE_SIZE, PageId, TrxId};
use proptest::prelude::*;

/// A key of a fixed width, or a string as key; one more string.
fn shape(fixed_key: bool) -> RecordShape {
    let header = CLUSTERED_HEADER_LEN as u16;
    RecordShape {
        fixed_len: header + 4,
        key_offset: header,
        key_len: if fixed_key { 4 } else { 0 },
        var_count: 2,
        header_len: CLUSTERED_HEADER_LEN as u8,
    }
}

fn record(shape: &RecordShape, key: u32) -> Vec<u8> {
    let header = RecordHeader {
        trx: TrxId(u64::from(key)),
        ..RecordHeader::default()
    };
    let mut out = header.to_bytes().to_vec();
    out.extend(key.to_be_bytes());
    let first = shape.var_data_offset() as u16 + 4;
    out.extend(first.to_le_bytes());
    out.extend((first + key as u16 % 7).to_le_bytes());
    out.extend(key.to_be_bytes());
    out.extend(vec![b'x'; key as usize % 7]);
    out
}

/// A good page with some records.
fn page(inner: bool, fixed_key: bool) -> Box<[u8; PAGE_SIZE]> {
    let mut bytes = Box::new([0; PAGE_SIZE]);
    let (leaf, mut page) = (shape(fixed_key), PageMut::new(&mut bytes));
    let (kind, shape) = match inner {
        true => (PageKind::Inner, leaf.inner()),
        false => (PageKind::Clustered, leaf),
    };
    let (level, none) = (u8::from(inner), PageId(0));
    let owner = (DbId(1), IndexId(2));
    page.format(PageId(70), (kind, level), owner, shape, (none, none))
        .unwrap();
    for key in 0..40_u32 {
        let record = match inner {
            true => inner_record(&shape, &key.to_be_bytes(), PageId(100 + u64::from(key))),
            false => record(&shape, key),
        };
        page.insert(key as u16, &record).unwrap();
    }
    page.raise_max_trx(TrxId(40));
    page.set_lsn(Lsn(9));
    page.seal();
    PageRef::new(&bytes[..]).unwrap().verify().unwrap();
    bytes
}

/// Uses everything that a good page offers.
fn use_page(page: PageRef<'_>) {
    assert!(!page.dump().is_empty());
    if !page.kind().has_records() {
        return;
    }
    for slot in 0..page.slot_count() {
        let key = page.key(slot);
        assert_eq!(page.search(key), Ok(slot));
        if page.kind() == PageKind::Inner {
            assert!(page.child_slot(key) <= slot);
        }
    }
    assert!(page.lower_bound(&[0xff; 9]) <= page.slot_count());
}

proptest! {
    #[test]
    fn damaged_pages_are_refused_or_harmless(
        inner: bool,
        fixed_key: bool,
        header in prop::collection::vec((4..72_usize, any::<u8>()), 0..3),
        body in prop::collection::vec((72..1500_usize, any::<u8>()), 0..3),
        slots in prop::collection::vec((PAGE_SIZE - 90..PAGE_SIZE, any::<u8>()), 0..3),
    ) {
        let mut bytes = page(inner, fixed_key);
        for (at, byte) in header.into_iter().chain(body).chain(slots) {
            bytes[at] = byte;
        }
        if let Ok(page) = PageRef::new(&bytes[..]) {
            let _ = page.verify_checksum();
            if page.verify().is_ok() {
                use_page(page);
            }
        }
    }

    #[test]
    fn any_bytes_are_survived(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        kind in 0..7_u8,
        whole: bool,
    ) {
        if whole {
            bytes.resize(PAGE_SIZE, 0);
            (bytes[4], bytes[5]) = (1, kind);
        }
        if let Ok(page) = PageRef::new(&bytes) && page.verify().is_ok() {
            use_page(page);
        }
    }
}
