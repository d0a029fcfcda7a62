//! Run-time filters: what passes is what a naive model lets pass, for keys of every type and form, wherever
//! the filter is evaluated; and damaged ones are refused.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use perigee_ndp::{
    Backend, Best, Execution, Filter, Filters, KeySet, MAX_BEST, MAX_LISTED_KEYS, NdpError, Scanner,
};
use perigee_page::PageRef;
use perigee_testkit::Fuzz;
use perigee_types::checksum;
use perigee_value::{Collation, ColumnType, Datum, RowLayout, key};
use support::*;

/// A key as filters have it; `None` if a part is NULL.
fn encoded(types: &[ColumnType], values: &[&Datum]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for (ty, value) in types.iter().zip(values) {
        if value.is_null() {
            return None;
        }
        key::encode_part(*ty, false, value.as_ref(), &mut out).unwrap();
    }
    Some(out)
}

fn key_set<'a>(types: &[ColumnType], keys: impl IntoIterator<Item = &'a Vec<u8>>) -> KeySet {
    let mut set = KeySet::new(types).unwrap();
    for key in keys {
        set.insert(key);
    }
    set
}

/// A table of random rows on a page of its own for each dozen, all visible, with columns of all types.
struct Table {
    layout: RowLayout,
    rows: Vec<Vec<Datum>>,
    pages: Vec<PageBytes>,
}

impl Table {
    fn random(r: &mut Random) -> Self {
        let columns: Vec<_> = (0..1 + r.below(6))
            .map(|_| (random_type(r), r.chance(40)))
            .collect();
        let layout = match r.chance(30) {
            true => RowLayout::secondary(&columns).unwrap(),
            false => {
                let key = vec![r.below(columns.len()) as u16];
                let columns: Vec<_> = (0..)
                    .zip(&columns)
                    .map(|(i, (ty, null))| (*ty, *null && !key.contains(&i)))
                    .collect();
                RowLayout::clustered(&columns, &key).unwrap()
            }
        };
        let mut rows = std::collections::BTreeMap::new();
        for _ in 0..1 + r.below(60) {
            let values: Vec<_> = layout
                .columns
                .iter()
                .map(|column| match column.null_bit.is_some() && r.chance(25) {
                    true => Datum::Null,
                    false => random_value(r, column.ty, false),
                })
                .collect();
            let mut key = Vec::new();
            key::encode_key_of_row(&layout, &values, &mut key).unwrap();
            rows.insert(key, values);
        }
        let rows: Vec<_> = rows.into_values().collect();
        let pages = rows.chunks(12).zip(1..).map(|(rows, id)| {
            let records: Vec<_> = rows
                .iter()
                .map(|values| {
                    let values = values.clone();
                    let (trx, deleted) = (0, false);
                    encode(
                        &layout,
                        &Row {
                            values,
                            trx,
                            deleted,
                        },
                    )
                })
                .collect();
            page(&layout, id, 0, &records)
        });
        Self {
            pages: pages.collect(),
            layout,
            rows,
        }
    }

    /// Rows as a scan with these filters gives them.
    fn scanned(
        &self,
        scanner: &Arc<Scanner>,
        filters: &[Arc<Filter>],
    ) -> (Vec<Vec<Datum>>, Vec<u64>) {
        let mut execution = Execution::new(scanner.clone()).remembering();
        execution.set_filters(Filters::bind(&self.layout, filters).unwrap());
        for (index, page) in (0..).zip(&self.pages) {
            execution
                .page(index, PageRef::new(&page[..]).unwrap())
                .unwrap();
        }
        let dropped = execution.take_dropped();
        let finished = finish(scanner, over_the_wire(&mut execution), |_| None).unwrap();
        (rows(&finished.batch), dropped)
    }
}

impl Table {
    /// How many records a scan that can decide on none of them returns.
    fn undecided(&self, filter: &Arc<Filter>, backend: Backend) -> usize {
        let mut d = descriptor(&self.layout, 0);
        d.projection = vec![0];
        let mut execution = Execution::new(scanner(d, backend));
        let filters = std::slice::from_ref(filter);
        execution.set_filters(Filters::bind(&self.layout, filters).unwrap());
        for (index, page) in (0..).zip(&self.pages) {
            let page = PageRef::new(&page[..]).unwrap();
            execution.page(index, page).unwrap();
        }
        over_the_wire(&mut execution).ambiguous.len()
    }
}

fn over_the_wire_filter(filter: &Filter) -> Arc<Filter> {
    let bytes = filter.encode();
    let decoded = Filter::decode(&bytes).unwrap();
    assert_eq!(decoded, *filter);
    assert_eq!(decoded.encode(), bytes, "one filter, one form");
    Arc::new(decoded)
}

#[test]
fn what_passes_is_what_the_model_lets_pass() {
    let (mut kinds, mut dropped_rows, mut passed_rows) = (HashSet::new(), 0, 0);
    let mut of_key = 0;
    for seed in 0..500 {
        let r = &mut Random(seed);
        let table = Table::random(r);
        let columns: Vec<u16> = (0..1 + r.below(3))
            .map(|_| r.below(table.layout.columns.len()) as u16)
            .collect();
        let of = |row: &Vec<Datum>| {
            let types: Vec<_> = columns
                .iter()
                .map(|c| table.layout.columns[usize::from(*c)].ty)
                .collect();
            let values: Vec<_> = columns.iter().map(|c| &row[usize::from(*c)]).collect();
            encoded(&types, &values)
        };
        let types: Vec<_> = columns
            .iter()
            .map(|c| table.layout.columns[usize::from(*c)].ty)
            .collect();
        // Keys of some of the rows, and of others.
        let mut keys: Vec<Vec<u8>> = table
            .rows
            .iter()
            .filter_map(&of)
            .filter(|_| r.chance(30))
            .collect();
        for _ in 0..r.below(5) {
            let values: Vec<_> = types.iter().map(|ty| random_value(r, *ty, false)).collect();
            keys.extend(encoded(&types, &values.iter().collect::<Vec<_>>()));
        }
        let mut set = key_set(&types, &keys);
        match r.below(3) {
            0 => {}
            1 => set.keep_bounds_only(),
            // Too many for a list, unless the keys are too narrow for so many.
            _ => {
                let widths = types
                    .iter()
                    .map(|ty| ty.stored_width().map_or(3, usize::from));
                let width: usize = widths.sum();
                for n in 0..2 * MAX_LISTED_KEYS as u64 {
                    let mut key = n.to_be_bytes().repeat(16);
                    key.drain(..8 - width.min(8));
                    key.truncate(width);
                    set.insert(&key);
                    keys.push(key);
                }
            }
        }
        let Some(filter) = set.filter(&columns) else {
            assert!(keys.is_empty(), "seed {seed}: keys without a filter");
            continue;
        };
        kinds.insert(filter.kind());
        let filter = over_the_wire_filter(&filter);
        let mut d = descriptor(&table.layout, 1);
        d.projection = (0..table.layout.columns.len() as u16).collect();
        let expected: Vec<_> = table
            .rows
            .iter()
            .filter(|row| of(row).is_some_and(|key| filter.passes(&key)))
            .cloned()
            .collect();
        // Whatever was put in passes; a list lets nothing else pass.
        assert!(keys.iter().all(|key| filter.passes(key)), "seed {seed}");
        if filter.kind() == "list" {
            let known = |row: &&Vec<Datum>| of(row).is_some_and(|key| keys.contains(&key));
            assert_eq!(
                expected.len(),
                table.rows.iter().filter(known).count(),
                "seed {seed}"
            );
        }
        let backend = *r.pick(&[Backend::Jit, Backend::Interpreter]);
        let scanner = scanner(d, backend);
        let (found, dropped) = table.scanned(&scanner, std::slice::from_ref(&filter));
        assert_eq!(
            found.len() as u64 + dropped[0],
            table.rows.len() as u64,
            "seed {seed}"
        );
        let plain = table.scanned(&scanner, &[]).0;
        let wanted: Vec<_> = plain
            .iter()
            .zip(&table.rows)
            .filter(|(_, row)| expected.contains(row))
            .map(|(shown, _)| shown.clone())
            .collect();
        assert_eq!(found, wanted, "seed {seed}");
        dropped_rows += dropped[0];
        passed_rows += found.len();
        // Of records that storage cannot decide on, those that no version of which has a key that passes are left out.
        let is_of_key = columns.iter().all(|c| table.layout.key.contains(c));
        let undecided = match is_of_key {
            true => expected.len(),
            false => table.rows.len(),
        };
        assert_eq!(table.undecided(&filter, backend), undecided, "seed {seed}");
        of_key += usize::from(is_of_key && undecided < table.rows.len());
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    assert!(of_key > 20, "{of_key} filters of keys");
    assert!(
        dropped_rows > 1000 && passed_rows > 1000,
        "{dropped_rows} {passed_rows}"
    );
}

/// The first rows of an order are among those that pass, whatever the order's columns are; what is left out lies behind
/// as many others.
#[test]
fn the_first_rows_of_an_order_pass() {
    let (mut dropped_rows, mut with_nulls) = (0, 0);
    for seed in 0..1000 {
        let r = &mut Random(seed);
        let table = Table::random(r);
        let columns: Vec<_> = (0..1 + r.below(2))
            .map(|_| {
                let column = r.below(table.layout.columns.len()) as u16;
                (column, table.layout.columns[usize::from(column)].ty)
            })
            .collect();
        let of = |row: &Vec<Datum>| {
            let types: Vec<_> = columns.iter().map(|(_, ty)| *ty).collect();
            let values: Vec<_> = columns.iter().map(|(c, _)| &row[usize::from(*c)]).collect();
            encoded(&types, &values)
        };
        let best = Best {
            rows: 1 + r.below(20) as u32,
            greatest: r.chance(50),
        };
        let wanted = best.rows as usize;
        // NULL is the least of all.
        let mut keys: Vec<Option<Vec<u8>>> = table.rows.iter().map(&of).collect();
        keys.sort();
        if best.greatest {
            keys.reverse();
        }
        let last = keys.get(wanted - 1).cloned().flatten();
        let threshold = last.filter(|_| r.chance(40));
        let Some(filter) = Filter::top(&columns, best, threshold.as_deref()) else {
            assert!(columns.iter().any(|(_, ty)| ty.is_long()));
            continue;
        };
        let filter = over_the_wire_filter(&filter);
        let mut d = descriptor(&table.layout, 1);
        d.projection = (0..table.layout.columns.len() as u16).collect();
        let backend = *r.pick(&[Backend::Jit, Backend::Interpreter]);
        let scanner = scanner(d, backend);
        let (found, dropped) = table.scanned(&scanner, &[filter]);
        assert_eq!(
            found.len() as u64 + dropped[0],
            table.rows.len() as u64,
            "seed {seed}"
        );
        let shown = table.scanned(&scanner, &[]).0;
        let mut kept: Vec<_> = shown
            .iter()
            .zip(&table.rows)
            .filter(|(shown, _)| found.contains(shown))
            .map(|(_, row)| of(row))
            .collect();
        kept.sort();
        if best.greatest {
            kept.reverse();
        }
        let first = |keys: &[Option<Vec<u8>>]| keys[..wanted.min(keys.len())].to_vec();
        assert_eq!(first(&kept), first(&keys), "seed {seed}");
        dropped_rows += dropped[0];
        with_nulls += usize::from(keys.contains(&None) && dropped[0] > 0);
    }
    assert!(
        dropped_rows > 1000 && with_nulls > 20,
        "{dropped_rows} rows, {with_nulls} orders with NULL"
    );
}

#[test]
fn a_run_that_does_not_remember_leaves_out_nothing_but_what_is_behind_the_threshold() {
    let layout = RowLayout::clustered(&[(INT, false)], &[0]).unwrap();
    let record = |n: i64| {
        let values = vec![Datum::Int(n)];
        let (trx, deleted) = (0, false);
        encode(
            &layout,
            &Row {
                values,
                trx,
                deleted,
            },
        )
    };
    let pages: Vec<_> = (0..10)
        .map(|n| page(&layout, n + 1, 0, &[record(n as i64)]))
        .collect();
    let threshold = encoded(&[INT], &[&Datum::Int(6)]);
    let rows = |remembers, threshold: Option<&[u8]>| {
        let best = Best {
            rows: 2,
            greatest: false,
        };
        let filter = Filter::top(&[(0, INT)], best, threshold).unwrap();
        let mut d = descriptor(&layout, 1);
        d.projection = vec![0];
        let mut execution = Execution::new(scanner(d, Backend::Jit));
        if remembers {
            execution = execution.remembering();
        }
        let filters = [over_the_wire_filter(&filter)];
        execution.set_filters(Filters::bind(&layout, &filters).unwrap());
        for (index, page) in (0..).zip(&pages) {
            execution
                .page(index, PageRef::new(&page[..]).unwrap())
                .unwrap();
        }
        execution.rows()
    };
    assert_eq!(rows(false, None), 10);
    assert_eq!(rows(false, threshold.as_deref()), 7);
    assert_eq!(rows(true, None), 2);
}

#[test]
fn keys_that_sql_calls_equal_pass_together() {
    let varchar = |collation| ColumnType::Varchar {
        chars: 20,
        collation,
    };
    let text = |text: &str| Datum::String(text.into());
    let cases = [
        (
            varchar(Collation::UTF8MB4_GENERAL_CI),
            text("Ärger"),
            text("arger  "),
            true,
        ),
        (varchar(Collation::UTF8MB4_BIN), text("a"), text("a "), true),
        (varchar(Collation::UTF8MB4_BIN), text("a"), text("A"), false),
        (varchar(Collation::BINARY), text("a"), text("a "), false),
        (
            ColumnType::Double,
            Datum::Double(0.0),
            Datum::Double(-0.0),
            true,
        ),
        (
            ColumnType::Decimal {
                precision: 38,
                scale: 4,
            },
            Datum::Decimal(10_000),
            Datum::Decimal(10_001),
            false,
        ),
    ];
    for (ty, one, other, equal) in cases {
        let layout = RowLayout::clustered(&[(INT, false), (ty, true)], &[0]).unwrap();
        let set = key_set(&[ty], &encoded(&[ty], &[&one]));
        let filter = over_the_wire_filter(&set.filter(&[1]).unwrap());
        let record = |n, value: &Datum| {
            let values = vec![Datum::Int(n), value.clone()];
            encode(
                &layout,
                &Row {
                    values,
                    trx: 0,
                    deleted: false,
                },
            )
        };
        let page = page(&layout, 1, 0, &[record(1, &other), record(2, &Datum::Null)]);
        let mut d = descriptor(&layout, 1);
        d.projection = vec![0];
        let scanner = scanner(d, Backend::Jit);
        let mut execution = Execution::new(scanner.clone());
        execution.set_filters(Filters::bind(&layout, &[filter]).unwrap());
        execution.page(0, PageRef::new(&page[..]).unwrap()).unwrap();
        assert_eq!(
            execution.rows(),
            usize::from(equal),
            "{ty} {one:?} {other:?}"
        );
    }
}

#[test]
fn less_than_one_percent_of_other_keys_pass_a_bloom_filter() {
    let bigint = [BIGINT];
    for keys in [1500_u64, 40_000, 300_000] {
        let encode = |n: u64| (n.wrapping_mul(7) ^ 1 << 63).to_be_bytes().to_vec();
        let mut set = KeySet::new(&bigint).unwrap();
        // Each of them twice: the size follows the different ones.
        for n in (0..keys).chain(0..keys) {
            set.insert(&encode(n));
        }
        let filter = set.filter(&[0]).unwrap();
        assert_eq!(filter.kind(), "bloom");
        let bytes = filter.encode().len() as u64;
        assert!(bytes < keys * 2 + 200, "{bytes} bytes for {keys} keys");
        assert!((0..keys).all(|n| filter.passes(&encode(n))));
        let others = 100_000;
        // Between the keys, so that bounds exclude none.
        let wrong = (0..others).filter(|n| {
            let between = (n % keys).wrapping_mul(7).wrapping_add(1 + n % 6);
            filter.passes(&(between ^ 1 << 63).to_be_bytes())
        });
        let wrong = wrong.count() as u64;
        assert!(wrong * 100 < others, "{wrong} of {others} pass");
    }
}

#[test]
fn sets_that_are_merged_are_the_set_of_all() {
    for seed in 0..200 {
        let r = &mut Random(seed);
        let ty = random_type(r);
        let keys: Vec<_> = (0..r.below(3000))
            .map(|_| encoded(&[ty], &[&random_value(r, ty, false)]).unwrap())
            .collect();
        let cut = r.below(keys.len() + 1);
        let mut merged = key_set(&[ty], &keys[..cut]);
        merged.merge(key_set(&[ty], &keys[cut..]));
        assert_eq!(
            merged.filter(&[3]),
            key_set(&[ty], &keys).filter(&[3]),
            "seed {seed}"
        );
    }
}

#[test]
fn nothing_passes_an_empty_set_and_a_filter_of_nothing_known_is_none() {
    let filter = KeySet::new(&[INT]).unwrap().filter(&[0]).unwrap();
    assert_eq!(filter.kind(), "nothing");
    assert!(!filter.passes(&[0; 4]));
    let mut unknown = KeySet::new(&[INT]).unwrap();
    unknown.keep_bounds_only();
    assert_eq!(unknown.filter(&[0]), None);
    let json = KeySet::new(&[ColumnType::Json]);
    assert!(json.is_none(), "storage does not compare long values");
}

#[test]
fn memory_is_bounded_however_many_keys_there_are() {
    let mut set = KeySet::new(&[BIGINT]).unwrap().limited_to(20_000);
    let mut most = 0;
    for n in 0..200_000_u64 {
        set.insert(&n.to_be_bytes());
        most = most.max(set.bytes());
    }
    assert!(most <= 8 * 8 * 20_000, "{most} bytes");
    assert_eq!(set.filter(&[0]).unwrap().kind(), "range");
}

#[test]
fn a_filter_over_other_columns_is_refused() {
    let layout = RowLayout::clustered(&[(INT, false), (BIGINT, false)], &[0]).unwrap();
    let filter = |column, ty| Arc::new(KeySet::new(&[ty]).unwrap().filter(&[column]).unwrap());
    let refused = |filter| {
        let Err(NdpError::Filter { what }) = Filters::bind(&layout, &[filter]) else {
            panic!("it was taken");
        };
        what
    };
    assert!(Filters::bind(&layout, &[filter(1, BIGINT)]).is_ok());
    assert!(refused(filter(0, BIGINT)).contains("column 0"));
    assert!(refused(filter(2, BIGINT)).contains("nothing"));
}

/// Corrects the checksum, so that what is behind it is looked at.
fn seal(bytes: &mut [u8]) {
    if bytes.len() >= 8 {
        let crc = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

fn random_filter(seed: u64) -> Option<Bytes> {
    let r = &mut Random(seed);
    let types: Vec<_> = (0..1 + r.below(3)).map(|_| random_type(r)).collect();
    if r.chance(25) {
        let columns: Vec<_> = (0..).zip(types.iter().copied()).collect();
        let best = Best {
            rows: *r.pick(&[1, 7, MAX_BEST]),
            greatest: r.chance(50),
        };
        let values: Vec<_> = types.iter().map(|ty| random_value(r, *ty, false)).collect();
        let key = encoded(&types, &values.iter().collect::<Vec<_>>());
        let threshold = key.filter(|_| r.chance(70));
        return Some(Filter::top(&columns, best, threshold.as_deref())?.encode());
    }
    let mut set = KeySet::new(&types)?;
    for _ in 0..*r.pick(&[0, 3, 1500]) {
        let values: Vec<_> = types.iter().map(|ty| random_value(r, *ty, false)).collect();
        set.insert(&encoded(&types, &values.iter().collect::<Vec<_>>())?);
    }
    if r.chance(20) {
        set.keep_bounds_only();
    }
    let columns: Vec<u16> = (0..types.len() as u16).collect();
    Some(set.filter(&columns)?.encode())
}

#[test]
fn damaged_filters_are_refused_or_run() {
    let r = &mut Random(5);
    let tables: Vec<_> = (0..20).map(|_| Table::random(r)).collect();
    let corpus = (0..200)
        .filter_map(random_filter)
        .map(|bytes| bytes.to_vec());
    let mut bound = 0;
    Fuzz::new(corpus).sealed(seal).run("filters", |bytes| {
        let Ok(filter) = Filter::decode(bytes) else {
            return false;
        };
        assert!(filter.encode() == bytes, "one filter, one form");
        assert!(filter.bytes() <= (1 << 20) | (64 * bytes.len()));
        let filter = Arc::new(filter);
        for table in &tables {
            let Ok(filters) = Filters::bind(&table.layout, std::slice::from_ref(&filter)) else {
                continue;
            };
            bound += 1;
            let scanner = scanner(descriptor(&table.layout, 1), Backend::Interpreter);
            let mut execution = Execution::new(scanner).remembering();
            execution.set_filters(filters);
            for (index, page) in (0..).zip(&table.pages) {
                execution
                    .page(index, PageRef::new(&page[..]).unwrap())
                    .unwrap();
            }
            let dropped = execution.take_dropped()[0] as usize;
            assert_eq!(execution.rows() + dropped, table.rows.len());
        }
        true
    });
    assert!(bound > 0, "no filter fits a table");
}

#[test]
fn a_filter_of_another_version_is_told_apart() {
    let mut bytes = KeySet::new(&[INT])
        .unwrap()
        .filter(&[0])
        .unwrap()
        .encode()
        .to_vec();
    bytes[8] = 1;
    seal(&mut bytes);
    let error = Filter::decode(&bytes).unwrap_err();
    assert_eq!(error, NdpError::UnknownVersion { found: 1, known: 2 });
}
