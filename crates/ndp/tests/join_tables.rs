//! Join tables: what is in them, what is refused, and damaged ones.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use perigee_ndp::{
    Backend, Descriptor, Execution, Filters, Join, JoinKind, JoinTable, JoinTableBuilder,
    MAX_JOIN_STRINGS, MAX_JOIN_TABLE_MEMORY, NdpError, Scanner, TableRefused,
};
use perigee_page::PageRef;
use perigee_testkit::Fuzz;
use perigee_types::checksum;
use perigee_value::{Collation, ColumnType, Datum, RowLayout, key};
use support::join::RandomJoin;
use support::*;

const TEXT: ColumnType = ColumnType::Varchar {
    chars: 20_000,
    collation: Collation::UTF8MB4_BIN,
};

/// Corrects the checksum, so that what is behind it is looked at.
fn seal(bytes: &mut [u8]) {
    if bytes.len() >= 8 {
        let crc = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

fn encoded(ty: ColumnType, value: &Datum) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_part(ty, false, value.as_ref(), &mut out).unwrap();
    out
}

fn push(builder: &mut JoinTableBuilder, key: i64, values: &[Datum]) -> Result<(), TableRefused> {
    let key = encoded(INT, &Datum::Int(key));
    builder.push(&key, values.iter().map(Datum::as_ref))
}

#[test]
fn a_table_is_its_wire_form() {
    for seed in 0..300 {
        let r = &mut Random(seed);
        let layout =
            RowLayout::clustered(&[(random_type(r), false), (BIGINT, true)], &[0]).unwrap();
        let scanned: Vec<Vec<Datum>> = (0..10)
            .map(|_| {
                let types = layout.columns.iter().map(|column| column.ty);
                types.map(|ty| random_value(r, ty, false)).collect()
            })
            .collect();
        let random = RandomJoin::new(r, &layout, &scanned);
        let decoded = JoinTable::decode(&random.content).unwrap();
        let table = &random.table;
        assert_eq!(decoded.name(), table.name());
        assert_eq!(decoded.key(), table.key());
        assert_eq!(decoded.payload(), table.payload());
        assert_eq!(
            (decoded.len(), decoded.memory()),
            (table.len(), table.memory())
        );
    }
}

#[test]
fn equal_rows_in_any_order_are_one_table() {
    let build = |keys: &[i64]| {
        let payload = [(TEXT, true), (BIGINT, false)];
        let mut builder = JoinTableBuilder::new(&[INT], &payload, 1 << 20).unwrap();
        for key in keys {
            let text = match key % 3 {
                0 => Datum::Null,
                _ => Datum::String(format!("text {}", key % 5).into_bytes()),
            };
            push(&mut builder, *key, &[text, Datum::Int(key * 9)]).unwrap();
        }
        builder.finish().unwrap()
    };
    let ascending: Vec<i64> = (-500..500).collect();
    let mut other = ascending.clone();
    other.sort_by_key(|key| key * 7919 % 1000);
    let (one, two) = (build(&ascending), build(&other));
    assert_eq!(one.1, two.1);
    assert_eq!(one.0.name(), two.0.name());
    // Keys that follow each other and few texts: a row takes the second column, and bytes of the others.
    assert!(one.1.len() < 1000 * 7, "{} bytes", one.1.len());
}

#[test]
fn what_becomes_no_table_is_refused() {
    let payload = [(INT, false), (TEXT, true)];
    let text = |len| Datum::String(vec![b'x'; len]);
    let builder = |budget| JoinTableBuilder::new(&[INT], &payload, budget).unwrap();

    let mut twice = builder(1 << 20);
    for _ in 0..2 {
        push(&mut twice, 5, &[Datum::Int(1), Datum::Null]).unwrap();
    }
    assert_eq!(twice.finish().unwrap_err(), TableRefused::Duplicate);
    // It may not matter how often a key is there.
    let keys = || {
        let mut keys = JoinTableBuilder::new(&[INT], &[], 1 << 20).unwrap();
        for key in [3, 5, 3] {
            push(&mut keys, key, &[]).unwrap();
        }
        keys
    };
    assert_eq!(keys().finish().unwrap_err(), TableRefused::Duplicate);
    assert_eq!(keys().deduplicating().finish().unwrap().0.len(), 2);

    let mut small = builder(100);
    let pushed = (0..10).map(|key| push(&mut small, key, &[Datum::Int(1), text(9)]));
    assert_eq!(pushed.last(), Some(Err(TableRefused::TooLarge)));
    let long = push(
        &mut builder(1 << 20),
        1,
        &[Datum::Int(1), text(MAX_JOIN_STRINGS + 1)],
    );
    assert_eq!(long, Err(TableRefused::TooLarge));
    for values in [
        [Datum::Null, text(1)],
        [Datum::Int(1 << 31), text(1)],
        [Datum::UInt(1), text(1)],
        [Datum::Int(1), Datum::Int(1)],
    ] {
        let pushed = push(&mut builder(1 << 20), 1, &values);
        assert_eq!(pushed, Err(TableRefused::Value), "{values:?}");
    }
    let blob = ColumnType::Long {
        prefix: 2,
        collation: Collation::BINARY,
    };
    assert!(JoinTableBuilder::new(&[blob], &[], 1).is_none());
    assert!(JoinTableBuilder::new(&[INT], &[(blob, true)], 1).is_none());
    assert!(JoinTableBuilder::new(&[], &[], 1).is_none());
}

/// Columns whose values are all the same take no bytes: what they take in memory is known before.
#[test]
fn a_table_that_grows_too_large_is_refused_before_it_does() {
    let payload = [(BIGINT, false); 60];
    let mut builder = JoinTableBuilder::new(&[INT], &payload, usize::MAX).unwrap();
    let values = vec![Datum::Int(7); 60];
    for key in 0..100_000 {
        push(&mut builder, key, &values).unwrap();
    }
    assert!(builder.bytes() > MAX_JOIN_TABLE_MEMORY);
    assert_eq!(builder.finish().unwrap_err(), TableRefused::TooLarge);
}

#[test]
fn a_table_of_another_version_is_told_apart() {
    let builder = JoinTableBuilder::new(&[INT], &[], 100).unwrap();
    let mut bytes = builder.finish().unwrap().1.to_vec();
    bytes[8] = 2;
    seal(&mut bytes);
    let error = JoinTable::decode(&bytes.into()).unwrap_err();
    assert_eq!(error, NdpError::UnknownVersion { found: 2, known: 1 });
}

/// A scan of a page, and the table that it joins.
fn random_scan(seed: u64) -> (Descriptor, PageBytes, Bytes) {
    let r = &mut Random(seed);
    let columns = [(INT, false), (random_type(r), true), (TEXT, true)];
    let layout = RowLayout::clustered(&columns, &[0]).unwrap();
    let rows: Vec<Vec<Datum>> = (0..20)
        .map(|n| {
            let text = Datum::String(format!("{n}").into_bytes());
            vec![Datum::Int(n), random_value(r, columns[1].0, true), text]
        })
        .collect();
    let join = RandomJoin::new(r, &layout, &rows);
    let records = rows.into_iter().map(|values| {
        let row = Row {
            values,
            trx: 1,
            deleted: false,
        };
        encode(&layout, &row)
    });
    let page = page(&layout, 1, 1, &records.collect::<Vec<_>>());
    let mut d = descriptor(&layout, 2);
    let count = join.join.layout(&layout).unwrap().columns.len() as u16;
    d.projection = (0..count).collect();
    d.join = Some(join.join);
    (d, page, join.content)
}

#[test]
fn damaged_tables_are_refused_or_joined_with() {
    let scans: Vec<_> = (0..60).map(random_scan).collect();
    let corpus = scans.iter().map(|(_, _, content)| content.to_vec());
    let mut joined = 0;
    Fuzz::new(corpus).sealed(seal).run("join tables", |bytes| {
        let Ok(table) = JoinTable::decode(&Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert!(table.memory() <= MAX_JOIN_TABLE_MEMORY);
        let table = Arc::new(table);
        for (descriptor, page, _) in &scans {
            let join = descriptor.join.as_ref().unwrap();
            let types = join
                .on
                .iter()
                .map(|c| descriptor.layout.columns[usize::from(*c)].ty);
            if !types.eq(table.key().iter().copied()) || table.payload() != join.payload {
                continue;
            }
            joined += 1;
            let mut descriptor = descriptor.clone();
            descriptor.join = Some(Join {
                table: table.name(),
                ..join.clone()
            });
            let scanner = Arc::new(Scanner::new(descriptor, Backend::Interpreter).unwrap());
            let mut execution = Execution::new(scanner.clone());
            let filters = Filters::default().with_table(Some(table.clone()));
            execution.set_filters(filters.clone());
            execution.page(0, PageRef::new(&page[..]).unwrap()).unwrap();
            assert!(join.kind != JoinKind::Left || execution.rows() == 20);
            // Text that is none is an error.
            let batch = over_the_wire(&mut execution);
            let _ = scanner.finish_filtered(batch, &[], &filters);
        }
        true
    });
    assert!(joined > 0, "no table fits a scan");
}

#[test]
fn without_its_table_a_scan_takes_no_page() {
    let (descriptor, page, content) = random_scan(1);
    let name = descriptor.join.as_ref().unwrap().table;
    let dump = descriptor.dump();
    assert!(
        dump.contains(&format!("join with {name:016x} on c")),
        "{dump}"
    );
    let scanner = Arc::new(Scanner::new(descriptor, Backend::Jit).unwrap());
    let mut execution = Execution::new(scanner.clone());
    let page = PageRef::new(&page[..]).unwrap();
    let refused = |result| matches!(result, Err(NdpError::JoinTable { .. }));
    assert!(refused(execution.page(0, page)));
    let other = JoinTableBuilder::new(&[BIGINT], &[], 100).unwrap();
    let other = Arc::new(other.finish().unwrap().0);
    assert!(!scanner.joins_with(&other));
    execution.set_filters(Filters::default().with_table(Some(other)));
    assert!(refused(execution.page(0, page)));
    let table = Arc::new(JoinTable::decode(&content).unwrap());
    assert!(scanner.joins_with(&table));
    execution.set_filters(Filters::default().with_table(Some(table)));
    assert_eq!(execution.page(0, page), Ok(()));
}

#[test]
fn joins_that_fit_no_layout_are_refused() {
    let (descriptor, ..) = random_scan(1);
    assert!(Descriptor::decode(&descriptor.encode()).is_ok());
    let join = || descriptor.join.clone().unwrap();
    let wrong = [
        Join {
            on: Vec::new(),
            ..join()
        },
        Join {
            on: vec![0; 17],
            ..join()
        },
        Join {
            on: vec![3],
            ..join()
        },
        Join {
            columns: vec![3],
            ..join()
        },
        Join {
            columns: vec![2, 2],
            ..join()
        },
        Join {
            payload: vec![(INT, false); 65],
            kind: JoinKind::Inner,
            ..join()
        },
        Join {
            payload: vec![(INT, false)],
            kind: JoinKind::Semi,
            ..join()
        },
    ];
    for join in wrong {
        let mut descriptor = descriptor.clone();
        descriptor.join = Some(join.clone());
        let error = Descriptor::decode(&descriptor.encode()).unwrap_err();
        assert!(
            matches!(error, NdpError::Descriptor { .. }),
            "{join:?}: {error}"
        );
    }
}
