//! Pages under random operations against a model, with the verifier after each step, and replay
//! of the log giving the same bytes.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::collections::BTreeMap;

use bytes::Bytes;
use perigee_page::{
    CLUSTERED_HEADER_LEN, PageFormatError, PageKind, PageMut, PageRef, RecordFlags, RecordHeader,
    RecordShape,
};
use perigee_redo::{Change, Group, Op, RedoError, apply, apply_change};
use perigee_types::{DbId, IndexId, Lsn, PAGE_SIZE, PageId, RollPtr, TrxId, Writer};
use proptest::prelude::*;

const ID: PageId = PageId(77);

/// Fixed key of 4 bytes, one string.
const FIXED_KEY: RecordShape = RecordShape {
    fixed_len: CLUSTERED_HEADER_LEN as u16 + 4,
    key_offset: CLUSTERED_HEADER_LEN as u16,
    key_len: 4,
    var_count: 1,
    header_len: CLUSTERED_HEADER_LEN as u8,
};

/// The key is var item 0, the string item 1.
const STRING_KEY: RecordShape = RecordShape {
    fixed_len: CLUSTERED_HEADER_LEN as u16,
    key_offset: 0,
    key_len: 0,
    var_count: 2,
    header_len: CLUSTERED_HEADER_LEN as u8,
};

fn record(shape: RecordShape, key: u32, value: &[u8], trx: u64, deleted: bool) -> Vec<u8> {
    let flags = RecordFlags(if deleted { RecordFlags::DELETED } else { 0 });
    let header = RecordHeader {
        flags,
        trx: TrxId(trx),
        roll: RollPtr(0),
    };
    let mut out = header.to_bytes().to_vec();
    let start = shape.var_data_offset();
    if shape.key_len > 0 {
        out.extend(key.to_be_bytes());
        out.extend(((start + value.len()) as u16).to_le_bytes());
    } else {
        out.extend(((start + 4) as u16).to_le_bytes());
        out.extend(((start + 4 + value.len()) as u16).to_le_bytes());
        out.extend(key.to_be_bytes());
    }
    out.extend(value);
    out
}

#[derive(Clone, Debug)]
enum Step {
    Put { key: u32, len: usize, trx: u64 },
    Mark { key: u32, trx: u64 },
    Remove { key: u32, count: u16 },
    Links { prev: u64, next: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..300_u32, 0..700_usize, 1..1000_u64)
            .prop_map(|(key, len, trx)| Step::Put { key, len, trx }),
        2 => (0..300_u32, 1..1000_u64).prop_map(|(key, trx)| Step::Mark { key, trx }),
        2 => (0..300_u32, 1..5_u16).prop_map(|(key, count)| Step::Remove { key, count }),
        1 => (0..9_u64, 0..9_u64).prop_map(|(prev, next)| Step::Links { prev, next }),
    ];
    prop::collection::vec(step, 1..250)
}

fn format_op(shape: RecordShape) -> Op {
    Op::Format {
        kind: PageKind::Clustered,
        level: 0,
        db: DbId(1),
        index: IndexId(2),
        shape,
        prev: PageId(0),
        next: PageId(0),
    }
}

/// What a step means on the page as it is now; `None` if it means nothing there.
fn op_for(page: PageRef<'_>, step: &Step) -> Option<Op> {
    let shape = page.shape();
    let find = |key: u32| page.search(&key.to_be_bytes());
    Some(match *step {
        Step::Put { key, len, trx } => {
            let bytes = Bytes::from(record(shape, key, &vec![key as u8; len], trx, false));
            match find(key) {
                Ok(slot) => Op::Replace {
                    slot,
                    trx: TrxId(trx),
                    record: bytes,
                },
                Err(slot) => Op::Insert {
                    slot,
                    trx: TrxId(trx),
                    records: bytes,
                },
            }
        }
        Step::Mark { key, trx } => {
            let slot = find(key).ok()?;
            let header = &record(shape, key, b"", trx, true)[..CLUSTERED_HEADER_LEN];
            Op::SetHeader {
                slot,
                trx: TrxId(trx),
                header: Bytes::copy_from_slice(header),
            }
        }
        Step::Remove { key, count } => {
            let slot = find(key).ok()?;
            let count = count.min(page.slot_count() - slot);
            Op::Remove {
                slot,
                count,
                trx: TrxId(0),
            }
        }
        Step::Links { prev, next } => Op::SetLinks {
            prev: PageId(prev),
            next: PageId(next),
        },
    })
}

fn apply_to_model(model: &mut BTreeMap<u32, (Vec<u8>, bool)>, step: &Step) {
    match *step {
        Step::Put { key, len, .. } => {
            model.insert(key, (vec![key as u8; len], false));
        }
        Step::Mark { key, .. } => {
            model.entry(key).and_modify(|(_, deleted)| *deleted = true);
        }
        Step::Remove { key, count } => {
            if model.contains_key(&key) {
                let gone: Vec<_> = model
                    .range(key..)
                    .map(|(k, _)| *k)
                    .take(count.into())
                    .collect();
                gone.iter().for_each(|k| drop(model.remove(k)));
            }
        }
        Step::Links { .. } => {}
    }
}

fn expect_equal(page: PageRef<'_>, model: &BTreeMap<u32, (Vec<u8>, bool)>) {
    page.verify().unwrap();
    assert_eq!(usize::from(page.slot_count()), model.len());
    for (slot, (key, (value, deleted))) in model.iter().enumerate() {
        let (slot, shape) = (slot as u16, page.shape());
        assert_eq!(page.key(slot), key.to_be_bytes());
        let item = usize::from(shape.var_count) - 1;
        assert_eq!(shape.var_item(page.record(slot), item), value);
        assert_eq!(page.header(slot).flags.is_deleted(), *deleted);
    }
}

fn run(shape: RecordShape, steps: &[Step]) {
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut log = Writer::new();
    let mut model = BTreeMap::new();
    let commit = |page: &mut [u8; PAGE_SIZE], lsn: u64, op: Op, log: &mut Writer| {
        apply(page, ID, &op)?;
        PageMut::new(page).set_lsn(Lsn(lsn));
        let change = Change {
            page: ID,
            ops: vec![op],
        };
        Group {
            lsn: Lsn(lsn),
            changes: vec![change],
        }
        .encode(log);
        Ok::<_, RedoError>(())
    };
    commit(&mut page, 1, format_op(shape), &mut log).unwrap();
    for (i, step) in steps.iter().enumerate() {
        let Some(op) = op_for(PageRef::new(&*page).unwrap(), step) else {
            continue;
        };
        let before = page.clone();
        match commit(&mut page, i as u64 + 2, op, &mut log) {
            Ok(()) => apply_to_model(&mut model, step),
            Err(RedoError {
                cause: PageFormatError::Full { needed, free, .. },
                ..
            }) => {
                assert!(needed > free);
                assert_eq!(page, before, "a failed operation changed the page");
            }
            Err(e) => panic!("{e}"),
        }
        expect_equal(PageRef::new(&*page).unwrap(), &model);
    }
    let mut replayed = Box::new([0; PAGE_SIZE]);
    for group in Group::decode_all(&Bytes::from(log.into_bytes())).unwrap() {
        assert!(apply_change(&mut replayed, group.lsn, &group.changes[0]).unwrap());
        assert!(
            !apply_change(&mut replayed, group.lsn, &group.changes[0]).unwrap(),
            "P5"
        );
    }
    assert!(replayed == page, "replay gives other bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn pages_follow_the_model_and_replay_alike(steps in steps()) {
        run(FIXED_KEY, &steps);
        run(STRING_KEY, &steps);
    }

    #[test]
    fn a_hostile_shape_never_panics(
        numbers in prop::array::uniform4(0..20_000_u16),
        record in prop::collection::vec(0..40_u8, 0..300),
    ) {
        let mut page = Box::new([0; PAGE_SIZE]);
        let [fixed_len, key_offset, key_len, vars] = numbers;
        let header_len = CLUSTERED_HEADER_LEN as u8;
        let fixed_len = fixed_len % 64;
        let shape =
            RecordShape { fixed_len, key_offset: key_offset % 64, key_len: key_len % 32, var_count: vars as u8 % 4, header_len };
        let _ = apply(&mut page, ID, &format_op(shape));
        let records = Bytes::from(record);
        if apply(&mut page, ID, &Op::Insert { slot: 0, trx: TrxId::MAX, records }).is_ok() {
            PageRef::new(&*page).unwrap().verify().unwrap();
        }
    }

    #[test]
    fn a_flipped_bit_breaks_the_checksum(steps in steps(), bit in 0..PAGE_SIZE * 8) {
        let mut page = Box::new([0; PAGE_SIZE]);
        apply(&mut page, ID, &format_op(FIXED_KEY)).unwrap();
        for step in &steps {
            if let Some(op) = op_for(PageRef::new(&*page).unwrap(), step) {
                let _ = apply(&mut page, ID, &op);
            }
        }
        PageMut::new(&mut page).seal();
        PageRef::new(&*page).unwrap().verify_checksum().unwrap();
        page[bit / 8] ^= 1 << (bit % 8);
        let damaged = PageRef::new(&*page).and_then(PageRef::verify_checksum);
        prop_assert!(damaged.is_err());
    }
}
