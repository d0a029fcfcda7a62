//! The worked example of partial aggregation (taurus-ndp section V.C): SUM over the second value
//! of two pages, `?` marks an ambiguous record.
//!
//! `P1 = {(1,2), (2,10)?, (3,7), (4,8)?, (5,2)}`, `P2 = {(11,10), (12,2)?, (13,5), (14,9)}`.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use perigee_expr::{AggregateFunction, Node, Program, Type};
use perigee_ndp::{Aggregate, Backend, Execution, NdpBatch};
use perigee_page::PageRef;
use perigee_types::TrxId;
use perigee_value::{Datum, RecordView, RowLayout};
use support::*;

const WATERMARK: u64 = 100;

fn layout() -> RowLayout {
    RowLayout::clustered(&[(INT, false), (INT, false)], &[0]).unwrap()
}

/// A page of `(id, value, ambiguous)`.
fn example_page(id: u64, records: &[(i64, i64, bool)]) -> PageBytes {
    let layout = layout();
    let records: Vec<_> = records
        .iter()
        .map(|&(key, value, ambiguous)| {
            let values = vec![Datum::Int(key), Datum::Int(value)];
            let trx = if ambiguous { WATERMARK } else { WATERMARK - 1 };
            encode(
                &layout,
                &Row {
                    values,
                    trx,
                    deleted: false,
                },
            )
        })
        .collect();
    page(&layout, id, WATERMARK, &records)
}

fn p1() -> PageBytes {
    example_page(
        1,
        &[
            (1, 2, false),
            (2, 10, true),
            (3, 7, false),
            (4, 8, true),
            (5, 2, false),
        ],
    )
}

fn p2() -> PageBytes {
    example_page(
        2,
        &[
            (11, 10, false),
            (12, 2, true),
            (13, 5, false),
            (14, 9, false),
        ],
    )
}

/// The partial sums and the `(page, key, value)` of the ambiguous records of `pages`.
fn run(backend: Backend, pages: &[PageBytes]) -> (Vec<i128>, Vec<(u32, i64, i64)>) {
    let mut descriptor = descriptor(&layout(), WATERMARK);
    let value = Program {
        nodes: vec![Node::Column {
            index: 1,
            ty: Type::Int,
        }],
    };
    let functions = vec![(AggregateFunction::Sum, Some(value))];
    descriptor.aggregate = Some(Aggregate {
        group_by: Vec::new(),
        functions,
    });
    let scanner = scanner(descriptor, backend);
    let mut execution = Execution::new(scanner.clone());
    for (index, page) in pages.iter().enumerate() {
        execution
            .page(index as u32, PageRef::new(&page[..]).unwrap())
            .unwrap();
    }
    let batch: NdpBatch = over_the_wire(&mut execution);
    let layout = layout();
    let ambiguous = batch.ambiguous.iter().map(|a| {
        let view = RecordView::new(&layout, &a.record);
        (batch.pages[a.page as usize].index, view.i64(0), view.i64(1))
    });
    let ambiguous = ambiguous.collect();
    // No version is visible: what remains are the visible records.
    let finished = finish(&scanner, batch, |_| None).unwrap();
    let sums = rows(&finished.batch).into_iter().map(|row| match row[0] {
        Datum::Decimal(sum) => sum,
        ref other => panic!("a sum is a decimal, not {other:?}"),
    });
    (sums.collect(), ambiguous)
}

#[test]
fn first_page_alone() {
    for backend in [Backend::Jit, Backend::Interpreter] {
        assert_eq!(
            run(backend, &[p1()]),
            (vec![11], vec![(0, 2, 10), (0, 4, 8)])
        );
    }
}

#[test]
fn second_page_alone() {
    for backend in [Backend::Jit, Backend::Interpreter] {
        assert_eq!(run(backend, &[p2()]), (vec![24], vec![(0, 12, 2)]));
    }
}

#[test]
fn both_pages_of_one_request() {
    for backend in [Backend::Jit, Backend::Interpreter] {
        let expected = (vec![35], vec![(0, 2, 10), (0, 4, 8), (1, 12, 2)]);
        assert_eq!(run(backend, &[p1(), p2()]), expected);
    }
}

#[test]
fn resolved_records_join_the_sum_as_another_partial_row() {
    let mut descriptor = descriptor(&layout(), WATERMARK);
    let value = Program {
        nodes: vec![Node::Column {
            index: 1,
            ty: Type::Int,
        }],
    };
    let functions = vec![(AggregateFunction::Sum, Some(value))];
    descriptor.aggregate = Some(Aggregate {
        group_by: Vec::new(),
        functions,
    });
    assert_eq!(descriptor.watermark, TrxId(WATERMARK));
    let scanner = scanner(descriptor, Backend::Jit);
    let mut execution = Execution::new(scanner.clone());
    execution.page(0, PageRef::new(&p1()[..]).unwrap()).unwrap();
    let batch = over_the_wire(&mut execution);
    let whole = |record: &[u8]| Some(bytes::Bytes::copy_from_slice(record));
    let finished = finish(&scanner, batch, whole).unwrap();
    let expected = [vec![Datum::Decimal(11)], vec![Datum::Decimal(18)]];
    assert_eq!(rows(&finished.batch), expected);
}
