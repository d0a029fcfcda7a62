//! Pages of damaged bytes: the verifier says what is wrong, and whatever it lets through can be
//! read, searched and dumped.
#![allow(clippy::unwrap_used, reason = "test code")]

use perigee_page::{
    CLUSTERED_HEADER_LEN, HEADER_LEN, PageKind, PageMut, PageRef, RecordHeader, RecordShape,
    inner_record, overflow_body,
};
use perigee_testkit::Fuzz;
use perigee_types::{DbId, IndexId, Lsn, PAGE_SIZE, PageId, TrxId};

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

/// Pages without records.
fn plain(kind: PageKind) -> Box<[u8; PAGE_SIZE]> {
    let mut bytes = Box::new([0; PAGE_SIZE]);
    let mut page = PageMut::new(&mut bytes);
    let (owner, none) = ((DbId(1), IndexId(2)), PageId(0));
    page.format(
        PageId(70),
        (kind, 0),
        owner,
        RecordShape::default(),
        (none, none),
    )
    .unwrap();
    let body = match kind {
        PageKind::Overflow => overflow_body(4711, 0, b"a part of a long value"),
        _ => vec![7; 300],
    };
    page.write(HEADER_LEN as u16, &body).unwrap();
    page.seal();
    bytes
}

#[test]
fn damaged_pages_are_refused_or_harmless() {
    let with_records = [(false, false), (false, true), (true, false), (true, true)];
    let with_records = with_records.map(|(inner, fixed_key)| page(inner, fixed_key));
    let plain = [PageKind::Overflow, PageKind::Undo, PageKind::Meta].map(plain);
    let corpus = with_records.iter().chain(&plain).map(|page| page.to_vec());
    // Header, the first records, the slot directory.
    let fuzz = Fuzz::new(corpus).focused(&[4..HEADER_LEN, HEADER_LEN..1500, 16_294..PAGE_SIZE]);
    fuzz.run("pages", |bytes| {
        // Most changes move the end; a page has one length.
        let mut bytes = bytes.to_vec();
        if bytes.len() > PAGE_SIZE / 2 {
            bytes.resize(PAGE_SIZE, 0);
        }
        let Ok(page) = PageRef::new(&bytes) else {
            return false;
        };
        let _ = page.verify_checksum();
        let good = page.verify().is_ok();
        if good {
            use_page(page);
        }
        good
    });
}
