//! Grouping in little memory: sorted groups come in the order of their keys, in fewer partial rows than a hash
//! table of the same memory gives, and memory is charged.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use perigee_expr::{AggregateFunction, Builder, Program};
use perigee_ndp::{
    Aggregate, AggregateBudget, Backend, Descriptor, Execution, GroupMemory, GroupMethod, Grouping,
    Scanner,
};
use perigee_page::PageRef;
use perigee_value::{Collation, ColumnType, Datum, RowLayout};
use support::*;

const INT: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};
const PAGES: u64 = 40;
const ROWS_PER_PAGE: u64 = 100;

fn layout() -> RowLayout {
    let text = ColumnType::Varchar {
        chars: 100,
        collation: Collation::UTF8MB4_GENERAL_CI,
    };
    let columns = [
        (INT, false),
        (INT, true),
        (text, true),
        (ColumnType::Double, false),
    ];
    RowLayout::clustered(&columns, &[0]).unwrap()
}

/// Pages whose rows have one of so many numbers and one of as many names, in no order.
fn pages(layout: &RowLayout, groups: u64) -> Vec<PageBytes> {
    let r = &mut Random(groups);
    let rows = |page: u64| {
        let ids = page * ROWS_PER_PAGE..(page + 1) * ROWS_PER_PAGE;
        ids.map(|id| {
            let group = r.below(groups as usize) as i64;
            let name = format!(
                "{:>30} {}",
                if id % 2 == 0 { "name" } else { "NAME" },
                group
            );
            let values = vec![
                Datum::Int(id as i64),
                if group == 0 {
                    Datum::Null
                } else {
                    Datum::Int(group - 50)
                },
                if group == 1 {
                    Datum::Null
                } else {
                    Datum::String(name.into_bytes())
                },
                Datum::Double(1.0 / (1.0 + id as f64)),
            ];
            encode(
                layout,
                &Row {
                    values,
                    trx: 1,
                    deleted: false,
                },
            )
        })
        .collect::<Vec<_>>()
    };
    let records: Vec<_> = (0..PAGES).map(rows).collect();
    let pages = records.iter().zip(1..);
    pages
        .map(|(records, id)| page(layout, id, 1, records))
        .collect()
}

fn column(layout: &RowLayout, index: u16) -> Program {
    let mut b = Builder::new(layout);
    let root = b.column(index).unwrap();
    b.finish(root).unwrap()
}

fn scanner_by(layout: &RowLayout, key: u16, method: GroupMethod) -> Arc<Scanner> {
    let aggregate = Aggregate {
        group_by: vec![column(layout, key)],
        functions: vec![
            (AggregateFunction::CountAll, None),
            (AggregateFunction::Sum, Some(column(layout, 0))),
            (AggregateFunction::Sum, Some(column(layout, 3))),
        ],
    };
    let descriptor = Descriptor {
        aggregate: Some(aggregate),
        grouping: Grouping {
            method,
            memory: None,
        },
        ..descriptor(layout, 10)
    };
    scanner(descriptor, Backend::Jit)
}

/// The partial rows of all pages in one run.
fn partial_rows(execution: &mut Execution, pages: &[PageBytes]) -> Vec<Vec<Datum>> {
    for (index, page) in pages.iter().enumerate() {
        let page = PageRef::new(&page[..]).unwrap();
        execution.page(index as u32, page).unwrap();
    }
    let scanner = execution.scanner().clone();
    let batch = over_the_wire(execution);
    rows(&finish(&scanner, batch, |_| None).unwrap().batch)
}

/// Rows of each group.
fn counts(rows: &[Vec<Datum>]) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for row in rows {
        let Datum::Int(count) = row[1] else {
            panic!("{row:?}");
        };
        *counts.entry(format!("{:?}", row[0])).or_default() += count;
    }
    counts
}

/// How keys compare: as the codes of groups do.
fn is_above(key: &Datum, before: &Datum) -> bool {
    match (before, key) {
        (Datum::Null, key) => !key.is_null(),
        (Datum::Int(a), Datum::Int(b)) => a < b,
        (Datum::String(a), Datum::String(b)) => a < b,
        _ => false,
    }
}

#[test]
fn sorted_groups_come_in_order() {
    let layout = layout();
    for groups in [1, 7, 500] {
        let pages = pages(&layout, groups);
        for key in [1, 2] {
            let mut execution = Execution::new(scanner_by(&layout, key, GroupMethod::Sort));
            let rows = partial_rows(&mut execution, &pages);
            assert_eq!(
                rows.len(),
                counts(&rows).len(),
                "nothing is given out twice"
            );
            for pair in rows.windows(2) {
                assert!(is_above(&pair[1][0], &pair[0][0]), "{pair:?}");
            }
            let mut by_hash = Execution::new(scanner_by(&layout, key, GroupMethod::Hash));
            assert_eq!(counts(&rows), counts(&partial_rows(&mut by_hash, &pages)));
        }
    }
}

#[test]
fn in_little_memory_sorting_gives_fewer_rows_than_hashing() {
    let layout = layout();
    let rows_by = |method, groups| {
        let descriptor = Descriptor {
            aggregate: Some(Aggregate {
                group_by: vec![column(&layout, 1)],
                functions: vec![(AggregateFunction::CountAll, None)],
            }),
            grouping: Grouping {
                method,
                memory: None,
            },
            ..descriptor(&layout, 10)
        };
        let scanner = scanner(descriptor, Backend::Jit);
        let budget = AggregateBudget::of(40 << 10);
        let mut execution = Execution::charged(scanner, budget, None);
        partial_rows(&mut execution, &pages(&layout, groups))
    };
    let (hash, sort) = (
        rows_by(GroupMethod::Hash, 800),
        rows_by(GroupMethod::Sort, 800),
    );
    assert_eq!(counts(&hash), counts(&sort));
    assert!(
        hash.len() < 4000 && 2 * sort.len() < hash.len(),
        "{} {}",
        hash.len(),
        sort.len()
    );
    // What overflows comes in order as well: few stretches, each of many rows.
    let many = rows_by(GroupMethod::Sort, 3000);
    let falls = many
        .windows(2)
        .filter(|pair| !is_above(&pair[1][0], &pair[0][0]))
        .count();
    assert!(
        falls > 0 && 8 * falls < many.len(),
        "{falls} in {}",
        many.len()
    );
    assert_eq!(counts(&many), counts(&rows_by(GroupMethod::Hash, 3000)));
}

/// An account of so many bytes, and the most that was ever taken.
struct Account {
    left: AtomicUsize,
    least: AtomicUsize,
}

impl GroupMemory for Account {
    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        let taken = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        let left = self.left.load(Ordering::SeqCst);
        self.least.fetch_min(left, Ordering::SeqCst);
        taken.is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::SeqCst);
    }
}

#[test]
fn groups_are_charged_and_an_empty_account_is_no_error() {
    let layout = layout();
    let pages = pages(&layout, 3000);
    let mut expected = None;
    for method in [GroupMethod::Hash, GroupMethod::Sort] {
        for bytes in [0, 300 << 10, 64 << 20] {
            let account = Arc::new(Account {
                left: bytes.into(),
                least: bytes.into(),
            });
            let scanner = scanner_by(&layout, 2, method);
            let budget = AggregateBudget::of(1 << 20);
            let mut execution = Execution::charged(scanner, budget, Some(account.clone()));
            let rows = partial_rows(&mut execution, &pages);
            drop(execution);
            let counts = counts(&rows);
            assert_eq!(expected.get_or_insert_with(|| counts.clone()), &counts);
            assert_eq!(
                account.left.load(Ordering::SeqCst),
                bytes,
                "all is given back"
            );
            let most = bytes - account.least.load(Ordering::SeqCst);
            assert!(most <= 1 << 20, "{most} bytes");
            assert!(bytes == 0 || most > 0, "{method:?} is not charged");
        }
    }
}

#[test]
fn strings_that_are_kept_are_counted() {
    let layout = layout();
    let long = "x".repeat(90);
    let record = |id: i64| {
        let text = format!("{long}{id:>8}").into_bytes();
        let values = vec![
            Datum::Int(id),
            Datum::Int(id),
            Datum::String(text),
            Datum::Double(0.0),
        ];
        encode(
            &layout,
            &Row {
                values,
                trx: 1,
                deleted: false,
            },
        )
    };
    let pages = [0..80, 40..120, 0..80].map(|ids| {
        let records: Vec<_> = ids.map(record).collect();
        page(&layout, 1, 1, &records)
    });
    for method in [GroupMethod::Hash, GroupMethod::Sort] {
        let aggregate = Aggregate {
            group_by: vec![column(&layout, 1)],
            functions: vec![(AggregateFunction::Max, Some(column(&layout, 2)))],
        };
        let descriptor = Descriptor {
            aggregate: Some(aggregate),
            grouping: Grouping {
                method,
                memory: None,
            },
            ..descriptor(&layout, 10)
        };
        let scanner = scanner(descriptor, Backend::Jit);
        // Without the strings 120 groups take less, with them more.
        let mut execution = Execution::charged(scanner, AggregateBudget::of(12 << 10), None);
        let rows = partial_rows(&mut execution, &pages).len();
        assert!(rows > 120, "{method:?}: {rows} rows");
    }
}
