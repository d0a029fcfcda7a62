//! Damaged log: groups are refused or harmless. A group that is read is written as the same bytes,
//! and what it does to a page is an error, or something that the verifier can judge.

use bytes::Bytes;
use perigee_page::{CLUSTERED_HEADER_LEN, PageKind, PageMut, PageRef, RecordHeader, RecordShape};
use perigee_redo::{Change, Group, Op, apply, apply_change};
use perigee_testkit::{Fuzz, Rng};
use perigee_types::{DbId, IndexId, Lsn, PAGE_SIZE, PageId, TrxId, Writer};

const ID: PageId = PageId(77);

/// Fixed key of 4 bytes, or a string as key; one more string.
fn shape(fixed_key: bool) -> RecordShape {
    RecordShape {
        fixed_len: CLUSTERED_HEADER_LEN as u16 + if fixed_key { 4 } else { 0 },
        key_offset: if fixed_key {
            CLUSTERED_HEADER_LEN as u16
        } else {
            0
        },
        key_len: if fixed_key { 4 } else { 0 },
        var_count: if fixed_key { 1 } else { 2 },
        header_len: CLUSTERED_HEADER_LEN as u8,
    }
}

fn record(shape: RecordShape, key: u32, value: usize, trx: u64) -> Vec<u8> {
    let header = RecordHeader {
        trx: TrxId(trx),
        ..RecordHeader::default()
    };
    let mut out = header.to_bytes().to_vec();
    let start = shape.var_data_offset();
    let mut key_item = None;
    if shape.key_len > 0 {
        out.extend(key.to_be_bytes());
    } else {
        out.extend(((start + 4) as u16).to_le_bytes());
        key_item = Some(key.to_be_bytes());
    }
    let key_len = key_item.map_or(0, |key| key.len());
    out.extend(((start + key_len + value) as u16).to_le_bytes());
    out.extend(key_item.into_iter().flatten());
    out.resize(out.len() + value, key as u8);
    out
}

/// An operation that fits the page as it is.
fn operation(rng: &mut Rng, page: PageRef<'_>) -> Op {
    let (slots, trx) = (page.slot_count(), TrxId(rng.between(1, 99) as u64));
    let slot = rng.between(0, i64::from(slots.saturating_sub(1))) as u16;
    let key = rng.between(0, 500) as u32;
    let found = page.search(&key.to_be_bytes());
    let record: Bytes = record(
        page.shape(),
        key,
        rng.between(0, 60) as usize,
        rng.between(1, 99) as u64,
    )
    .into();
    match (rng.between(0, 9), found) {
        (0..=5, Err(slot)) => Op::Insert {
            slot,
            trx,
            records: record,
        },
        (0..=5, Ok(slot)) => Op::Replace { slot, trx, record },
        (6, _) if slots > 0 => Op::SetHeader {
            slot,
            trx,
            header: record.slice(..CLUSTERED_HEADER_LEN),
        },
        (7, _) if slots > 0 => Op::Remove {
            slot,
            count: 1,
            trx,
        },
        _ => Op::SetLinks {
            prev: PageId(5),
            next: PageId(6),
        },
    }
}

/// Encoded groups of one page: the first formats it.
fn log(seed: u64) -> Vec<u8> {
    let rng = &mut Rng(seed);
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut log = Writer::new();
    let undo = rng.chance(8);
    let (kind, shape) = match undo {
        true => (PageKind::Undo, RecordShape::default()),
        false => (PageKind::Clustered, shape(rng.chance(2))),
    };
    let mut ops = vec![Op::Format {
        kind,
        level: 0,
        db: DbId(1),
        index: IndexId(2),
        shape,
        prev: PageId(0),
        next: PageId(0),
    }];
    apply(&mut page, ID, &ops[0]).expect("formats");
    for lsn in 1..=rng.between(1, 12) as u64 {
        for _ in 0..rng.between(1, 4) {
            let op = match undo {
                true => Op::Write {
                    offset: rng.between(100, 16_000) as u16,
                    bytes: vec![lsn as u8; rng.between(0, 40) as usize].into(),
                },
                false => operation(rng, PageRef::new(&page[..]).expect("a page")),
            };
            apply(&mut page, ID, &op).expect("the operation fits");
            ops.push(op);
        }
        let changes = vec![Change {
            page: ID,
            ops: std::mem::take(&mut ops),
        }];
        Group {
            lsn: Lsn(lsn),
            changes,
        }
        .encode(&mut log);
    }
    log.into_bytes()
}

#[test]
fn damaged_groups_are_refused_or_harmless() {
    let fuzz = Fuzz::new((0..300).map(log));
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut good = 0;
    fuzz.run("redo groups", |bytes| {
        let source = Bytes::copy_from_slice(bytes);
        let Ok(groups) = Group::decode_all(&source) else {
            return false;
        };
        let mut again = Writer::new();
        groups.iter().for_each(|group| group.encode(&mut again));
        assert!(again.into_bytes() == bytes, "one meaning, one form");
        page.fill(0);
        let changes = groups
            .iter()
            .flat_map(|g| g.changes.iter().map(|c| (g.lsn, c)));
        for (lsn, change) in changes {
            if apply_change(&mut page, lsn, change).is_err() {
                break;
            }
        }
        PageMut::new(&mut page).seal();
        let verified = PageRef::new(&page[..]).is_ok_and(|page| page.verify().is_ok());
        good += u64::from(verified);
        true
    });
    assert!(good > 0, "no input makes a good page");
}
