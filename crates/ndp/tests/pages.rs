//! Pages as they come: of other indexes, broken, with deleted and ambiguous records.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use perigee_expr::arbitrary::Generator;
use perigee_expr::{
    AggregateFunction, Arithmetic, Builder, Comparison, EvalError, Node, NodeId, Program, Type,
};
use perigee_ndp::{Aggregate, AmbiguousKind, Backend, Descriptor, Execution, NdpError, PageRun};
use perigee_page::{PageKind, PageMut, PageRef};
use perigee_types::{DbId, IndexId, PAGE_SIZE, PageId};
use perigee_value::{Collation, ColumnType, Datum, RowLayout};
use support::*;

fn layout() -> RowLayout {
    RowLayout::clustered(&[(INT, false), (BIGINT, true)], &[0]).unwrap()
}

/// A page of records `(key, value, transaction, deleted)`.
fn small_page(layout: &RowLayout, max_trx: u64, rows: &[(i64, i64, u64, bool)]) -> PageBytes {
    let records = rows.iter().map(|&(key, value, trx, deleted)| {
        let values = vec![Datum::Int(key), Datum::Int(value)];
        encode(
            layout,
            &Row {
                values,
                trx,
                deleted,
            },
        )
    });
    page(layout, 3, max_trx, &records.collect::<Vec<_>>())
}

fn both_columns(watermark: u64) -> Descriptor {
    Descriptor {
        projection: vec![0, 1],
        ..descriptor(&layout(), watermark)
    }
}

#[test]
fn pages_of_another_index_shape_or_kind_are_refused() {
    let scanner = scanner(both_columns(5), Backend::Jit);
    let mut execution = Execution::new(scanner);
    let links = (PageId(0), PageId(0));
    let shape = layout().shape;
    let secondary = RowLayout::secondary(&[(INT, false)]).unwrap().shape;
    let wider = RowLayout::clustered(&[(INT, false), (INT, true)], &[0])
        .unwrap()
        .shape;
    let cases = [
        ((PageKind::Clustered, 0), (DbId(8), INDEX), shape),
        ((PageKind::Clustered, 0), (DB, IndexId(12)), shape),
        ((PageKind::Secondary, 0), (DB, INDEX), secondary),
        ((PageKind::Inner, 1), (DB, INDEX), shape.inner()),
        ((PageKind::Clustered, 0), (DB, INDEX), wider),
        ((PageKind::Undo, 0), (DB, INDEX), shape),
    ];
    for (kind, owner, shape) in cases {
        let mut bytes = Box::new([0; PAGE_SIZE]);
        PageMut::new(&mut bytes)
            .format(PageId(3), kind, owner, shape, links)
            .unwrap();
        let refused = execution.page(0, PageRef::new(&bytes[..]).unwrap());
        assert!(
            matches!(
                refused,
                Err(NdpError::Page {
                    page: PageId(3),
                    ..
                })
            ),
            "{refused:?}"
        );
    }
    assert!(execution.take().pages.is_empty());
}

#[test]
fn broken_pages_give_errors_and_leave_no_trace() {
    let mut refused = 0;
    for seed in 0..300 {
        let (mut g, r) = (Generator::new(seed), &mut Random(seed));
        let layout = g.layout();
        let mut records: Vec<_> = (0..30).map(|_| g.record(&layout)).collect();
        records.sort_by(|a, b| layout.shape.key(a).cmp(layout.shape.key(b)));
        records.dedup_by(|a, b| layout.shape.key(a) == layout.shape.key(b));
        let mut bytes = page(&layout, 3, 100, &records);
        let mut d = descriptor(&layout, *r.pick(&[0, 50, 200]));
        d.projection = (0..layout.columns.len() as u16).collect();
        d.predicate = r.chance(70).then(|| g.predicate(&layout));
        d.reverse = r.chance(30);
        if r.chance(40) {
            let key = layout.shape.key(&records[records.len() / 2]).to_vec();
            d.range.lower = Bound::Excluded(key);
        }
        if r.chance(40) {
            let functions = vec![(AggregateFunction::Max, Some(g.program(&layout)))];
            d.aggregate = Some(Aggregate {
                group_by: vec![g.program(&layout)],
                functions,
            });
        }
        let scanner = scanner(d, *r.pick(&[Backend::Jit, Backend::Interpreter]));
        // Anything but what says that the page is one of this index.
        for _ in 0..1 + r.below(5) {
            let (record, slot) = (72 + r.below(2000), PAGE_SIZE - 1 - r.below(80));
            let at = *r.pick(&[48, 56, 57, 62, 63, record, slot]);
            bytes[at] = r.next() as u8;
        }
        let page = PageRef::new(&bytes[..]).unwrap();
        let mut execution = Execution::new(scanner.clone());
        let taken = execution.page(0, page);
        let batch = execution.take();
        match taken {
            Err(NdpError::Page { .. }) => {
                refused += 1;
                assert_eq!((batch.pages.len(), batch.rows), (0, 0));
            }
            Err(other) => panic!("seed {seed}: {other}"),
            // What it gives is anybody's guess, but it can be sent and finished.
            Ok(()) => {
                let batch = perigee_ndp::NdpBatch::decode(batch.encode()).unwrap();
                let _ = finish(&scanner, batch, |record| {
                    Some(Bytes::copy_from_slice(record))
                });
            }
        }
    }
    assert!(
        (60..240).contains(&refused),
        "{refused} of 300 pages were refused"
    );
}

#[test]
fn ambiguous_records_stand_at_their_place() {
    let layout = layout();
    let rows = [
        (1, 10, 1, false),
        (2, 20, 9, false),
        (3, 30, 1, true),
        (4, 40, 9, true),
        (5, 50, 2, false),
    ];
    let bytes = small_page(&layout, 9, &rows);
    let scanner = scanner(both_columns(5), Backend::Jit);
    let mut execution = Execution::new(scanner.clone());
    execution
        .page(6, PageRef::new(&bytes[..]).unwrap())
        .unwrap();
    let batch = over_the_wire(&mut execution);
    assert_eq!(
        batch.pages,
        [PageRun {
            index: 6,
            rows: 2,
            ambiguous: 2
        }]
    );
    let places: Vec<_> = batch
        .ambiguous
        .iter()
        .map(|a| (a.page, a.row, a.kind))
        .collect();
    // The deleted record of an old transaction is gone; that of a new one may be visible.
    assert_eq!(
        places,
        [
            (0, 1, AmbiguousKind::Unresolved),
            (0, 1, AmbiguousKind::Unresolved)
        ]
    );
    let page = PageRef::new(&bytes[..]).unwrap();
    assert_eq!(
        (
            &batch.ambiguous[0].record[..],
            &batch.ambiguous[1].record[..]
        ),
        (page.record(1), page.record(3))
    );
    let older = encode(
        &layout,
        &Row {
            values: vec![Datum::Int(4), Datum::Null],
            trx: 2,
            deleted: false,
        },
    );
    let finished = scanner.finish(batch, &[None, Some(older.into())]).unwrap();
    let int = |key, value| vec![Datum::Int(key), value];
    let expected = [
        int(1, Datum::Int(10)),
        int(4, Datum::Null),
        int(5, Datum::Int(50)),
    ];
    assert_eq!(rows_of(&finished), expected);
    assert_eq!(finished.page_rows, [(6, 3)]);
}

fn rows_of(finished: &perigee_ndp::Finished) -> Vec<Vec<Datum>> {
    rows(&finished.batch)
}

#[test]
fn entries_of_a_changed_secondary_page_are_all_ambiguous() {
    let layout = RowLayout::secondary(&[(INT, true), (BIGINT, false)]).unwrap();
    let bytes = small_page(
        &layout,
        7,
        &[(1, 1, 0, false), (1, 2, 0, true), (2, 1, 0, false)],
    );
    for (watermark, visible, ambiguous) in [(8, 2, 0), (7, 0, 3), (0, 0, 3)] {
        let d = Descriptor {
            projection: vec![1],
            ..descriptor(&layout, watermark)
        };
        let mut execution = Execution::new(scanner(d, Backend::Jit));
        execution
            .page(0, PageRef::new(&bytes[..]).unwrap())
            .unwrap();
        let batch = over_the_wire(&mut execution);
        assert_eq!(
            batch.pages,
            [PageRun {
                index: 0,
                rows: visible,
                ambiguous
            }]
        );
    }
}

/// `c1 + c1 > 0`, which overflows for great values.
fn doubled(layout: &RowLayout) -> Program {
    let mut b = Builder::new(layout);
    let (a, zero) = (b.column(1).unwrap(), b.int(0).unwrap());
    let sum = b.arithmetic(Arithmetic::Add, a, a).unwrap();
    let root = b.compare(Comparison::Greater, sum, zero).unwrap();
    b.finish(root).unwrap()
}

#[test]
fn an_evaluation_error_is_raised_by_the_frontend_only() {
    let layout = layout();
    let bytes = small_page(
        &layout,
        1,
        &[
            (1, 10, 1, false),
            (2, i64::MAX, 1, false),
            (3, 30, 1, false),
        ],
    );
    for backend in [Backend::Jit, Backend::Interpreter] {
        let d = Descriptor {
            predicate: Some(doubled(&layout)),
            ..both_columns(5)
        };
        let scanner = scanner(d, backend);
        let mut execution = Execution::new(scanner.clone());
        execution
            .page(0, PageRef::new(&bytes[..]).unwrap())
            .unwrap();
        let batch = over_the_wire(&mut execution);
        assert_eq!(
            batch.pages,
            [PageRun {
                index: 0,
                rows: 2,
                ambiguous: 1
            }]
        );
        assert_eq!(
            (batch.ambiguous[0].row, batch.ambiguous[0].kind),
            (1, AmbiguousKind::Failed)
        );
        let whole = |record: &[u8]| Some(Bytes::copy_from_slice(record));
        let error = finish(&scanner, batch, whole).unwrap_err();
        assert_eq!(
            error,
            NdpError::Evaluation(EvalError::OutOfRange(Type::Int))
        );
    }
}

#[test]
fn a_record_whose_argument_fails_is_in_no_sum() {
    let layout = layout();
    let bytes = small_page(
        &layout,
        1,
        &[
            (1, 10, 1, false),
            (2, i64::MAX, 1, false),
            (3, 30, 1, false),
        ],
    );
    let mut b = Builder::new(&layout);
    let a = b.column(1).unwrap();
    let root = b.arithmetic(Arithmetic::Add, a, a).unwrap();
    let doubled = b.finish(root).unwrap();
    let functions = vec![
        (AggregateFunction::CountAll, None),
        (AggregateFunction::Sum, Some(doubled)),
    ];
    let aggregate = Some(Aggregate {
        group_by: Vec::new(),
        functions,
    });
    let scanner = scanner(
        Descriptor {
            aggregate,
            ..both_columns(5)
        },
        Backend::Jit,
    );
    let mut execution = Execution::new(scanner.clone());
    execution
        .page(0, PageRef::new(&bytes[..]).unwrap())
        .unwrap();
    let batch = over_the_wire(&mut execution);
    assert_eq!(batch.ambiguous.len(), 1);
    let finished = finish(&scanner, batch, |_| None).unwrap();
    assert_eq!(rows_of(&finished), [[Datum::Int(2), Datum::Decimal(80)]]);
}

#[test]
fn single_records_run_like_pages() {
    let layout = layout();
    let d = Descriptor {
        predicate: Some(doubled(&layout)),
        ..both_columns(5)
    };
    let scanner = scanner(d, Backend::Jit);
    let mut execution = Execution::new(scanner.clone());
    let record = |key, value| {
        encode(
            &layout,
            &Row {
                values: vec![Datum::Int(key), Datum::Int(value)],
                trx: 1,
                deleted: false,
            },
        )
    };
    assert_eq!(execution.record(4, &record(1, 5)), Ok(true));
    assert_eq!(execution.record(4, &record(2, -5)), Ok(false));
    assert_eq!(execution.record(7, &record(3, 6)), Ok(true));
    let overflow = NdpError::Evaluation(EvalError::OutOfRange(Type::Int));
    assert_eq!(execution.record(7, &record(4, i64::MAX)), Err(overflow));
    assert!(matches!(
        execution.record(7, &[1, 2, 3]),
        Err(NdpError::Batch { .. })
    ));
    let finished = scanner.finish(execution.take(), &[]).unwrap();
    assert_eq!(finished.page_rows, [(4, 1), (7, 1)]);
    let int = |key, value| vec![Datum::Int(key), Datum::Int(value)];
    assert_eq!(rows_of(&finished), [int(1, 5), int(3, 6)]);
}

#[test]
fn a_sum_beyond_38_digits_is_given_in_parts() {
    let wide = ColumnType::Decimal {
        precision: 38,
        scale: 0,
    };
    let layout = RowLayout::clustered(&[(INT, false), (wide, false)], &[0]).unwrap();
    let greatest = 10_i128.pow(38) - 1;
    let column = |index, ty| Program {
        nodes: vec![Node::Column { index, ty }],
    };
    let argument = column(
        1,
        Type::Decimal {
            precision: 38,
            scale: 0,
        },
    );
    let functions = vec![
        (AggregateFunction::Sum, Some(argument)),
        (AggregateFunction::CountAll, None),
    ];
    for sign in [1, -1] {
        let records = (0..3).map(|key| {
            let values = vec![Datum::Int(key), Datum::Decimal(sign * greatest)];
            encode(
                &layout,
                &Row {
                    values,
                    trx: 1,
                    deleted: false,
                },
            )
        });
        let bytes = page(&layout, 1, 1, &records.collect::<Vec<_>>());
        for group_by in [
            Vec::new(),
            vec![Program {
                nodes: vec![Node::Constant {
                    value: Datum::Int(5),
                    ty: Type::Int,
                }],
            }],
        ] {
            let groups = group_by.len();
            let aggregate = Some(Aggregate {
                group_by,
                functions: functions.clone(),
            });
            let d = Descriptor {
                aggregate,
                ..descriptor(&layout, 5)
            };
            let scanner = scanner(d, Backend::Jit);
            let mut execution = Execution::new(scanner.clone());
            execution
                .page(0, PageRef::new(&bytes[..]).unwrap())
                .unwrap();
            let finished = finish(&scanner, over_the_wire(&mut execution), |_| None).unwrap();
            let rows = rows_of(&finished);
            let key = vec![Datum::Int(5); groups];
            let row = |count| {
                [
                    key.clone(),
                    vec![Datum::Decimal(sign * greatest), Datum::Int(count)],
                ]
                .concat()
            };
            assert_eq!(rows, [row(3), row(0), row(0)]);
        }
    }
}

#[test]
fn dumps_can_be_read() {
    let layout = layout();
    let d = Descriptor {
        predicate: Some(doubled(&layout)),
        ..both_columns(5)
    };
    let expected = "\
scan db:7 index:11 clustered, watermark trx:5
  c0 int NOT NULL
  c1 bigint
  key (c0)
where ((c1 + c1) > 0)
columns c0, c1
";
    assert_eq!(d.dump(), expected);
    let scanner = scanner(d, Backend::Jit);
    let mut execution = Execution::new(scanner.clone());
    let bytes = small_page(
        &layout,
        9,
        &[(1, 10, 1, false), (2, 20, 9, false), (3, 3000, 1, false)],
    );
    execution
        .page(8, PageRef::new(&bytes[..]).unwrap())
        .unwrap();
    let hash = scanner.descriptor().hash();
    let expected = format!(
        "\
batch of {hash:016x}: 1 pages, 2 rows
  page 8: 2 rows, 1 ambiguous
  column 0: 1 bytes above 1
  column 1: 2 bytes above 10
  ambiguous in page 8 before row 1: 27 bytes
"
    );
    assert_eq!(over_the_wire(&mut execution).dump(), expected);
}

#[test]
fn a_predicate_that_takes_long_pauses_amid_a_page() {
    static PAUSES: AtomicUsize = AtomicUsize::new(0);
    let pause = || {
        PAUSES.fetch_add(1, Ordering::Relaxed);
    };
    let text = ColumnType::Varchar {
        chars: 20,
        collation: Collation::UTF8MB4_BIN,
    };
    let layout = RowLayout::clustered(&[(INT, false), (text, false)], &[0]).unwrap();
    let records = (0..100).map(|id| {
        let text = format!("text {id}");
        let values = vec![Datum::Int(id), Datum::String(text.into_bytes())];
        let (trx, deleted) = (1, false);
        let row = Row {
            values,
            trx,
            deleted,
        };
        encode(&layout, &row)
    });
    let bytes = page(&layout, 3, 1, &records.collect::<Vec<_>>());
    let column = Node::Column {
        index: 1,
        ty: Type::String,
    };
    let like = |n: usize| Node::Like {
        operand: NodeId(0),
        pattern: format!("%{n}%"),
        escape: '\\',
    };
    // Of a number of two digits or less, all that hold a 3 or a 4.
    for (patterns, pauses) in [(2, 0), (20, 9)] {
        let mut nodes = vec![column.clone()];
        nodes.extend([3, 4].into_iter().cycle().take(patterns).map(like));
        nodes.push(Node::Or((1..=patterns as u16).map(NodeId).collect()));
        for backend in [Backend::Jit, Backend::Interpreter] {
            PAUSES.store(0, Ordering::Relaxed);
            let predicate = Some(Program {
                nodes: nodes.clone(),
            });
            let projection = vec![0];
            let scanner = scanner(
                Descriptor {
                    predicate,
                    projection,
                    ..descriptor(&layout, 5)
                },
                backend,
            );
            let mut execution = Execution::new(scanner.clone()).pausing(pause);
            execution
                .page(0, PageRef::new(&bytes[..]).unwrap())
                .unwrap();
            let batch = over_the_wire(&mut execution);
            let finished = finish(&scanner, batch, |_| None).unwrap();
            let found = rows_of(&finished).into_iter().flatten();
            let expected = (0..100).filter(|id| id.to_string().contains(['3', '4']));
            assert!(found.eq(expected.map(Datum::Int)));
            assert_eq!(PAUSES.load(Ordering::Relaxed), pauses, "{patterns}");
        }
    }
}
