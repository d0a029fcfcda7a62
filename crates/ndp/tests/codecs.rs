//! The wire forms of descriptors and batches: what is written is read, what must not be asked for is
//! refused, and rows come through as they are.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use perigee_expr::arbitrary::Generator;
use perigee_expr::{AggregateFunction, Program, Type};
use perigee_ndp::{
    Aggregate, Backend, Descriptor, Execution, GroupMethod, KeyRange, MAX_ROWS, NdpBatch, NdpError,
    Scanner,
};
use perigee_page::PageRef;
use perigee_types::{TrxId, checksum};
use perigee_value::{Collation, ColumnType, Datum, RowLayout, key};
use support::*;

#[test]
fn descriptors_come_back_as_they_were() {
    for seed in 0..300 {
        let descriptor = random_descriptor(seed);
        let bytes = descriptor.encode();
        assert_eq!(
            Descriptor::decode(&bytes).unwrap(),
            descriptor,
            "seed {seed}"
        );
        assert_eq!(descriptor.hash(), perigee_ndp::hash_bytes(&bytes));
    }
}

/// Corrects the checksum, so that what is behind it is looked at.
fn seal(bytes: &mut [u8]) {
    if bytes.len() >= 8 {
        let crc = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A batch over random records, some of them ambiguous.
fn random_batch(seed: u64) -> (Arc<Scanner>, NdpBatch) {
    let mut g = Generator::new(seed);
    let r = &mut Random(seed);
    let layout = g.layout();
    let mut records: Vec<_> = (0..60).map(|_| g.record(&layout)).collect();
    records.sort_by(|a, b| layout.shape.key(a).cmp(layout.shape.key(b)));
    records.dedup_by(|a, b| layout.shape.key(a) == layout.shape.key(b));
    let mut d = descriptor(&layout, 90);
    d.projection = (0..layout.columns.len() as u16).collect();
    if r.chance(30) {
        let program = g.program(&layout);
        let functions = vec![(AggregateFunction::CountAll, None)];
        d.aggregate = Some(Aggregate {
            group_by: vec![program],
            functions,
        });
    }
    let scanner = scanner(d, Backend::Interpreter);
    let mut execution = Execution::new(scanner.clone());
    for (index, records) in records.chunks(20).enumerate() {
        let page = page(&layout, 1 + index as u64, 100, records);
        execution
            .page(index as u32, PageRef::new(&page[..]).unwrap())
            .unwrap();
    }
    (scanner, execution.take())
}

#[test]
fn an_unknown_version_is_told_apart() {
    let mut bytes = random_descriptor(1).encode().to_vec();
    bytes[8] = 4;
    seal(&mut bytes);
    let error = Descriptor::decode(&bytes).unwrap_err();
    assert_eq!(error, NdpError::UnknownVersion { found: 4, known: 3 });
}

#[test]
fn a_descriptor_is_written_in_the_least_version_and_in_no_other() {
    let layout = RowLayout::clustered(&[(INT, false), (ColumnType::Double, true)], &[0]).unwrap();
    let column = |index, ty| Program {
        nodes: vec![perigee_expr::Node::Column { index, ty }],
    };
    let mut plain = descriptor(&layout, 5);
    assert_eq!(plain.encode()[8], 1);
    plain.aggregate = Some(Aggregate {
        group_by: vec![column(0, Type::Int)],
        functions: Vec::new(),
    });
    assert_eq!(plain.encode()[8], 1);
    let mut sorted = plain.clone();
    sorted.grouping.method = GroupMethod::Sort;
    let mut summing = plain.clone();
    let sum = (AggregateFunction::Sum, Some(column(1, Type::Double)));
    summing.aggregate.as_mut().unwrap().functions.push(sum);
    for newer in [sorted, summing] {
        let encoded = newer.encode();
        assert_eq!(encoded[8], 2);
        assert_eq!(Descriptor::decode(&encoded).unwrap(), newer);
    }
    // The same in the words of version 2 has another hash, so it is not the same.
    let mut wordy = plain.encode().to_vec();
    wordy[8] = 2;
    wordy.push(1);
    wordy.extend_from_slice(&[0; 8]);
    seal(&mut wordy);
    assert!(Descriptor::decode(&wordy).is_err());
    let mut ungrouped = descriptor(&layout, 5);
    ungrouped.grouping.method = GroupMethod::Sort;
    assert!(ungrouped.validate().is_err());
}

#[test]
fn a_damaged_byte_is_found_by_the_checksum() {
    let (_, batch) = random_batch(3);
    let (descriptor, batch) = (random_descriptor(2).encode(), batch.encode());
    for (bytes, at) in [(&descriptor, 20), (&batch, 30)] {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 1;
        assert!(Descriptor::decode(&damaged).is_err());
        assert!(NdpBatch::decode(damaged.into()).is_err());
    }
}

#[test]
fn descriptors_that_ask_for_too_much_are_refused() {
    let layout = RowLayout::clustered(
        &[
            (INT, false),
            (ColumnType::Double, true),
            (ColumnType::Date, true),
        ],
        &[0],
    )
    .unwrap();
    let column = |index, ty| Program {
        nodes: vec![perigee_expr::Node::Column { index, ty }],
    };
    let aggregate = |function, argument| {
        let functions = vec![(function, argument)];
        Some(Aggregate {
            group_by: Vec::new(),
            functions,
        })
    };
    let valid = descriptor(&layout, 5);
    let empty = Some(Aggregate {
        group_by: Vec::new(),
        functions: Vec::new(),
    });
    let double = Some(column(1, Type::Double));
    let sum = aggregate(AggregateFunction::Sum, Some(column(2, Type::Date)));
    let count = aggregate(AggregateFunction::CountAll, double);
    let least = aggregate(AggregateFunction::Min, None);
    let with_predicate = |predicate| Descriptor {
        predicate: Some(predicate),
        ..valid.clone()
    };
    let with_aggregate = |aggregate| Descriptor {
        aggregate,
        ..valid.clone()
    };
    let mut wrong = vec![
        (
            "a column",
            Descriptor {
                projection: vec![0, 3],
                ..valid.clone()
            },
        ),
        ("no condition", with_predicate(column(0, Type::Int))),
        ("a type", with_predicate(column(1, Type::Bool))),
        (
            "a watermark",
            Descriptor {
                watermark: TrxId(1 << 48),
                ..valid.clone()
            },
        ),
        ("nothing", with_aggregate(empty)),
        ("a sum of dates", with_aggregate(sum)),
        ("an argument", with_aggregate(count)),
        ("no argument", with_aggregate(least)),
    ];
    let mut other = valid.clone();
    other.layout.columns[1].place = perigee_value::Place::Fixed { offset: 3000 };
    wrong.push(("a place", other));
    for (what, descriptor) in wrong {
        let refused = Scanner::new(descriptor.clone(), Backend::Interpreter).map(drop);
        assert!(
            matches!(refused, Err(NdpError::Descriptor { .. })),
            "{what}: {refused:?}"
        );
        assert!(
            Descriptor::decode(&descriptor.encode()).is_err() || what == "a place",
            "{what}"
        );
    }
    assert!(Descriptor::decode(&valid.encode()).is_ok());
}

#[test]
fn a_batch_of_another_descriptor_is_refused() {
    let (_, batch) = random_batch(5);
    let (scanner, _) = random_batch(6);
    let resolved = vec![None; batch.ambiguous.len()];
    let refused = scanner.finish(batch, &resolved).map(drop);
    assert!(
        matches!(refused, Err(NdpError::Batch { .. })),
        "{refused:?}"
    );
}

/// A page of rows `(i, text)`.
fn text_page(layout: &RowLayout, texts: &[&str]) -> PageBytes {
    let rows = texts.iter().enumerate().map(|(i, text)| {
        let values = vec![
            Datum::Int(i as i64),
            Datum::String(text.as_bytes().to_vec()),
        ];
        encode(
            layout,
            &Row {
                values,
                trx: 1,
                deleted: false,
            },
        )
    });
    page(layout, 9, 1, &rows.collect::<Vec<_>>())
}

fn text_layout(collation: Collation) -> RowLayout {
    let text = ColumnType::Varchar {
        chars: 40,
        collation,
    };
    RowLayout::clustered(&[(INT, false), (text, false)], &[0]).unwrap()
}

/// The dump of the batch, and the strings that come out of it.
fn through(layout: &RowLayout, texts: &[&str]) -> (String, Vec<Vec<Datum>>) {
    let mut d = descriptor(layout, 5);
    d.projection = vec![1];
    let scanner = scanner(d, Backend::Jit);
    let mut execution = Execution::new(scanner.clone());
    let page = text_page(layout, texts);
    execution.page(4, PageRef::new(&page[..]).unwrap()).unwrap();
    let batch = over_the_wire(&mut execution);
    let dump = batch.dump();
    (
        dump,
        rows(&finish(&scanner, batch, |_| None).unwrap().batch),
    )
}

#[test]
fn strings_of_every_length_and_encoding_come_through() {
    let layout = text_layout(Collation::UTF8MB4_BIN);
    let as_rows = |texts: &[&str]| -> Vec<Vec<Datum>> {
        texts
            .iter()
            .map(|text| vec![Datum::String(text.as_bytes().to_vec())])
            .collect()
    };
    let different = [
        "",
        "a",
        "é",
        "twelve bytes",
        "thirteen byte",
        "sixteen bytes ok",
        "seventeen bytes !",
    ];
    let (dump, found) = through(&layout, &different);
    assert!(dump.contains("column 0: strings, 61 bytes"), "{dump}");
    assert_eq!(found, as_rows(&different));

    let few: Vec<&str> = (0..100)
        .map(|i| ["REG AIR", "TRUCK", "a string that is longer", "日本"][i % 4])
        .collect();
    let (dump, found) = through(&layout, &few);
    assert!(dump.contains("column 0: dictionary of 4 strings"), "{dump}");
    assert_eq!(found, as_rows(&few));
}

#[test]
fn integers_take_the_width_that_their_range_needs() {
    let wide = ColumnType::Decimal {
        precision: 38,
        scale: 0,
    };
    let layout = RowLayout::clustered(&[(INT, false), (BIGINT, true), (wide, true)], &[0]).unwrap();
    let cases = [
        ([7, 7], "0 bytes above 7"),
        ([-3, 252], "1 bytes above -3"),
        ([-3, 253], "2 bytes above -3"),
        ([1 << 40, (1 << 40) + 65_536], "4 bytes above 1099511627776"),
        ([-1, (1 << 32) - 1], "8 bytes above -1"),
        ([i64::MIN, i64::MAX], "8 bytes above -9223372036854775808"),
    ];
    let greatest = 10_i128.pow(38) - 1;
    let mut cases: Vec<_> = cases
        .map(|([a, b], narrow)| ([Datum::Int(a), Datum::Int(b)], [a.into(), b.into()], narrow))
        .into();
    cases.push((
        [Datum::Null, Datum::Int(5)],
        [greatest, -greatest],
        "0 bytes above 5, with NULL",
    ));
    for ([a, b], [c, d], expected) in cases {
        let mut records = Vec::new();
        let mut values = Vec::new();
        for (key, (narrow, wide)) in [(a, c), (b, d)].into_iter().enumerate() {
            let row = vec![Datum::Int(key as i64), narrow, Datum::Decimal(wide)];
            records.push(encode(
                &layout,
                &Row {
                    values: row.clone(),
                    trx: 1,
                    deleted: false,
                },
            ));
            values.push(row[1..].to_vec());
        }
        let d = Descriptor {
            projection: vec![1, 2],
            ..descriptor(&layout, 5)
        };
        let scanner = scanner(d, Backend::Jit);
        let mut execution = Execution::new(scanner.clone());
        let page = page(&layout, 1, 1, &records);
        execution.page(0, PageRef::new(&page[..]).unwrap()).unwrap();
        let batch = over_the_wire(&mut execution);
        let dump = batch.dump();
        assert!(dump.contains(&format!("column 0: {expected}\n")), "{dump}");
        let width = if c == greatest {
            16
        } else {
            expected.as_bytes()[0] - b'0'
        };
        assert!(dump.contains(&format!("column 1: {width} bytes")), "{dump}");
        assert_eq!(
            rows(&finish(&scanner, batch, |_| None).unwrap().batch),
            values
        );
    }
}

#[test]
fn binary_strings_need_not_be_text() {
    let layout = text_layout(Collation::BINARY);
    let mut d = descriptor(&layout, 5);
    d.projection = vec![1];
    let scanner = scanner(d, Backend::Jit);
    let values = vec![Datum::Int(1), Datum::String(vec![0xff, 0, 0xfe])];
    let record = encode(
        &layout,
        &Row {
            values: values.clone(),
            trx: 1,
            deleted: false,
        },
    );
    let mut execution = Execution::new(scanner.clone());
    let page = page(&layout, 1, 1, &[record]);
    execution.page(0, PageRef::new(&page[..]).unwrap()).unwrap();
    let finished = finish(&scanner, over_the_wire(&mut execution), |_| None).unwrap();
    assert_eq!(rows(&finished.batch), [values[1..].to_vec()]);
}

#[test]
fn text_that_is_not_utf8_is_an_error() {
    let layout = text_layout(Collation::UTF8MB4_BIN);
    let mut d = descriptor(&layout, 5);
    d.projection = vec![1];
    let scanner = scanner(d, Backend::Jit);
    let mut execution = Execution::new(scanner.clone());
    let values = vec![Datum::Int(1), Datum::String("né".into())];
    let mut record = encode(
        &layout,
        &Row {
            values,
            trx: 1,
            deleted: false,
        },
    );
    let last = record.len() - 1;
    record[last] = b'!';
    let page = page(&layout, 1, 1, &[record]);
    execution.page(0, PageRef::new(&page[..]).unwrap()).unwrap();
    let refused = finish(&scanner, over_the_wire(&mut execution), |_| None).map(drop);
    assert!(
        matches!(refused, Err(NdpError::Batch { .. })),
        "{refused:?}"
    );
}

#[test]
fn an_emptied_page_takes_hardly_any_room() {
    let layout = text_layout(Collation::UTF8MB4_BIN);
    let mut d = descriptor(&layout, 5);
    d.projection = vec![0, 1];
    let mut from = Vec::new();
    key::encode_key(&layout, &[Datum::Int(1000)], &mut from).unwrap();
    d.range = KeyRange {
        lower: Bound::Included(from),
        upper: Bound::Unbounded,
    };
    let scanner = scanner(d, Backend::Jit);
    let page = text_page(&layout, &["some", "rows"]);
    let size = |pages: u32| {
        let mut execution = Execution::new(scanner.clone());
        for index in 0..pages {
            execution
                .page(index, PageRef::new(&page[..]).unwrap())
                .unwrap();
        }
        execution.take().encode().len()
    };
    assert_eq!(size(1), size(1000));
}

#[test]
fn a_batch_is_bounded() {
    let layout = text_layout(Collation::UTF8MB4_BIN);
    let scanner = scanner(descriptor(&layout, 5), Backend::Jit);
    let page = text_page(&layout, &["x"; 400]);
    let mut execution = Execution::new(scanner.clone());
    let mut pages = 0;
    while execution
        .page(pages, PageRef::new(&page[..]).unwrap())
        .is_ok()
    {
        pages += 1;
    }
    assert_eq!(execution.rows(), MAX_ROWS / 400 * 400);
    let error = execution.page(pages, PageRef::new(&page[..]).unwrap());
    assert_eq!(error, Err(NdpError::Full));
    let batch = over_the_wire(&mut execution);
    assert_eq!(batch.pages.len(), pages as usize);
    let finished = scanner.finish(batch, &[]).unwrap();
    assert_eq!(finished.batch.num_rows(), MAX_ROWS / 400 * 400);
    assert_eq!(
        execution.page(pages, PageRef::new(&page[..]).unwrap()),
        Ok(())
    );
    let none: Vec<Option<Bytes>> = Vec::new();
    assert_eq!(
        scanner.finish(execution.take(), &none).unwrap().page_rows,
        [(pages, 400)]
    );
}
