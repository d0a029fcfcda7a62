//! The law of near-data processing: what storage makes of pages and the frontend completes is what
//! a plain scan of the visible versions gives, joined where the scan is to be, for every layout, predicate, join, projection,
//! aggregate, watermark and any subset of pages declined.
//!
//! Cases are random; a failure names its seed. `PERIGEE_LAW_CASES` runs more of them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;
use std::ops::Bound;

use bytes::Bytes;
use perigee_expr::arbitrary::Generator;
use perigee_expr::{
    AggregateFunction, Arithmetic, Builder, Comparison, ExactSum, Interpreter, NodeId, Program,
    Type,
};
use perigee_ndp::{
    Aggregate, AggregateBudget, Backend, Descriptor, Execution, Filters, GroupMethod, Grouping,
    KeyRange, NdpError, Scanner,
};
use perigee_page::PageRef;
use perigee_types::TrxId;
use perigee_value::{Collation, ColumnType, Datum, RecordView, RowLayout, key};
use std::sync::Arc;
use support::join::RandomJoin;
use support::*;

const PAGES: usize = 4;
const MAX_TRX: u64 = 20;

/// Pages, what their ambiguous records turn out to be, and what to do with them.
struct Case {
    descriptor: Descriptor,
    join: Option<RandomJoin>,
    /// Layout of what is delivered or aggregated.
    rows: RowLayout,
    budget: AggregateBudget,
    pages: Vec<PageBytes>,
    /// Per page its records in key order.
    records: Vec<Vec<Vec<u8>>>,
    /// Versions that the read view sees of records that storage cannot decide on.
    versions: HashMap<Vec<u8>, Option<Bytes>>,
}

fn random_layout(r: &mut Random) -> RowLayout {
    let columns: Vec<(ColumnType, bool)> = (0..1 + r.below(7))
        .map(|_| (random_type(r), r.chance(40)))
        .collect();
    if r.chance(25) {
        return RowLayout::secondary(&columns).unwrap();
    }
    let mut key: Vec<u16> = (0..columns.len() as u16).collect();
    while key.len() > 2 || (key.len() > 1 && r.chance(60)) {
        key.remove(r.below(key.len()));
    }
    if r.chance(50) {
        key.reverse();
    }
    let not_null = |(i, (ty, nullable)): (usize, &(ColumnType, bool))| {
        (*ty, *nullable && !key.contains(&(i as u16)))
    };
    let columns: Vec<_> = columns.iter().enumerate().map(not_null).collect();
    RowLayout::clustered(&columns, &key).unwrap()
}

fn random_row(r: &mut Random, layout: &RowLayout) -> Vec<Datum> {
    let values = layout.columns.iter().map(|column| {
        if column.null_bit.is_some() && r.chance(25) {
            Datum::Null
        } else {
            random_value(r, column.ty, false)
        }
    });
    values.collect()
}

fn key_of(layout: &RowLayout, values: &[Datum]) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key_of_row(layout, values, &mut out).unwrap();
    out
}

/// A column that programs can use.
fn random_column(
    r: &mut Random,
    b: &mut Builder,
    layout: &RowLayout,
) -> Option<(NodeId, ColumnType)> {
    let index = r.below(layout.columns.len());
    let id = b.column(index as u16).ok()?;
    Some((id, layout.columns[index].ty))
}

fn random_condition(
    r: &mut Random,
    b: &mut Builder,
    layout: &RowLayout,
    depth: usize,
) -> Option<NodeId> {
    const OPERATORS: [Comparison; 7] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
        Comparison::NullSafeEqual,
    ];
    if depth > 0 && r.chance(60) {
        let left = random_condition(r, b, layout, depth - 1)?;
        let right = random_condition(r, b, layout, depth - 1)?;
        return match r.below(3) {
            0 => b.and(vec![left, right]).ok(),
            1 => b.or(vec![left, right]).ok(),
            _ => b.not(left).ok(),
        };
    }
    let (column, ty) = random_column(r, b, layout)?;
    let constant = random_value(r, ty, false);
    match r.below(5) {
        0 => b.is_null(column).ok(),
        1 => {
            let (other, _) = random_column(r, b, layout)?;
            let sum = b.arithmetic(Arithmetic::Add, column, other).ok()?;
            let zero = b.int(0).ok()?;
            b.compare(*r.pick(&OPERATORS), sum, zero).ok()
        }
        _ => {
            let constant = b.constant(constant, Type::of(ty)).ok()?;
            b.compare(*r.pick(&OPERATORS), column, constant).ok()
        }
    }
}

fn random_value_program(r: &mut Random, layout: &RowLayout) -> Option<Program> {
    if r.chance(40) {
        return Some(Generator::new(r.next()).program(layout));
    }
    let mut b = Builder::new(layout);
    let (column, _) = random_column(r, &mut b, layout)?;
    let root = match r.below(4) {
        0 => {
            let (other, _) = random_column(r, &mut b, layout)?;
            let op = *r.pick(&[Arithmetic::Add, Arithmetic::Multiply, Arithmetic::Divide]);
            b.arithmetic(op, column, other).ok()?
        }
        1 => {
            let (other, _) = random_column(r, &mut b, layout)?;
            b.compare(Comparison::Less, column, other).ok()?
        }
        _ => column,
    };
    b.finish(root).ok()
}

fn random_aggregate(r: &mut Random, layout: &RowLayout) -> Option<Aggregate> {
    let group_by = match r.below(3) {
        0 => Vec::new(),
        n => (0..n)
            .filter_map(|_| random_value_program(r, layout))
            .collect(),
    };
    let functions = (0..r.below(6)).filter_map(|_| {
        let argument = random_value_program(r, layout)?;
        let summed = matches!(
            argument.result_type(),
            Type::Int | Type::UInt | Type::Decimal { .. } | Type::Double
        );
        Some(match r.below(5) {
            0 => (AggregateFunction::CountAll, None),
            1 => (AggregateFunction::Count, Some(argument)),
            2 => (AggregateFunction::Min, Some(argument)),
            3 => (AggregateFunction::Max, Some(argument)),
            _ if summed => (AggregateFunction::Sum, Some(argument)),
            _ => (AggregateFunction::Count, Some(argument)),
        })
    });
    let aggregate = Aggregate {
        group_by,
        functions: functions.collect(),
    };
    (aggregate.group_by.len() + aggregate.functions.len() > 0).then_some(aggregate)
}

fn random_range(r: &mut Random, keys: &[Vec<u8>]) -> KeyRange {
    let mut bound = || {
        let key = r.pick(keys);
        let prefix = key[..r.below(key.len() + 1)].to_vec();
        match r.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(prefix),
            _ => Bound::Excluded(prefix),
        }
    };
    KeyRange {
        lower: bound(),
        upper: bound(),
    }
}

impl Case {
    fn random(seed: u64) -> Self {
        let case = Self::scan(seed);
        case.complete(&mut Random(!seed))
    }

    /// Pages and what is to be done with their records, but for the rows that are made of them.
    fn scan(seed: u64) -> Self {
        let r = &mut Random(seed);
        let layout = random_layout(r);
        let mut rows: BTreeMap<Vec<u8>, Vec<Datum>> = BTreeMap::new();
        for _ in 0..1 + r.below(80) {
            let values = random_row(r, &layout);
            rows.insert(key_of(&layout, &values), values);
        }
        let watermark = *r.pick(&[0, 1, MAX_TRX / 2, MAX_TRX, MAX_TRX + 1, TrxId::MAX.0]);
        let mut case = Self {
            descriptor: descriptor(&layout, watermark),
            join: None,
            rows: layout.clone(),
            budget: AggregateBudget {
                groups: *r.pick(&[1, 2, 3, 6, usize::MAX]),
                bytes: *r.pick(&[1, 200, 2000, 1 << 20]),
            },
            pages: Vec::new(),
            records: vec![Vec::new(); PAGES],
            versions: HashMap::new(),
        };
        let keys: Vec<_> = rows.keys().cloned().collect();
        let joined: Vec<_> = rows.values().cloned().collect();
        case.join = r.chance(40).then(|| RandomJoin::new(r, &layout, &joined));
        let (deletes, old) = (r.chance(50), r.chance(30));
        for (i, values) in rows.into_values().enumerate() {
            let trx = if old {
                0
            } else {
                r.below(MAX_TRX as usize + 1) as u64
            };
            let row = Row {
                values,
                trx,
                deleted: deletes && r.chance(30),
            };
            let record = encode(&layout, &row);
            let version = random_version(r, &layout, row);
            case.versions.insert(record.clone(), version);
            case.records[i * PAGES / keys.len()].push(record);
        }
        for (id, records) in case.records.iter().enumerate() {
            let max_trx = if old {
                0
            } else {
                r.below(2) as u64 * (MAX_TRX - 1) + 1
            };
            let max_trx = if layout.is_clustered() && !old {
                MAX_TRX
            } else {
                max_trx
            };
            case.pages
                .push(page(&layout, 1 + id as u64, max_trx, records));
        }
        case.descriptor.predicate = match r.below(4) {
            0 => None,
            1 => Some(Generator::new(r.next()).predicate(&layout)),
            _ => {
                let mut b = Builder::new(&layout);
                let root = random_condition(r, &mut b, &layout, 2);
                root.and_then(|root| b.finish(root).ok())
            }
        };
        if r.chance(30) {
            case.descriptor.range = random_range(r, &keys);
        }
        case.descriptor.reverse = r.chance(25);
        case
    }

    /// The case with a projection or an aggregate of its rows.
    fn complete(self, r: &mut Random) -> Self {
        let mut case = self;
        if let Some(join) = &case.join {
            let mut join = join.join.clone();
            case.rows = join.layout(&case.descriptor.layout).unwrap();
            if r.chance(40) {
                let mut b = Builder::new(&case.rows);
                let root = random_condition(r, &mut b, &case.rows, 2);
                join.condition = root.and_then(|root| b.finish(root).ok());
            }
            case.descriptor.join = Some(join);
        }
        let layout = &case.rows;
        case.descriptor.projection = (0..r.below(5))
            .map(|_| r.below(layout.columns.len()) as u16)
            .collect();
        if r.chance(50) {
            case.descriptor.aggregate = random_aggregate(r, layout);
            let groups = |a: &Aggregate| !a.group_by.is_empty();
            if case.descriptor.aggregate.as_ref().is_some_and(groups) {
                case.descriptor.grouping = Grouping {
                    method: *r.pick(&[GroupMethod::Hash, GroupMethod::Sort]),
                    memory: NonZeroU64::new(*r.pick(&[0, 1, 1000])),
                };
            }
        }
        case
    }

    /// True if storage can tell that the record on this page is visible.
    fn decided(&self, page: usize, record: &[u8]) -> bool {
        let watermark = self.descriptor.watermark;
        if self.descriptor.layout.is_clustered() {
            perigee_page::RecordHeader::read(record).trx < watermark
        } else {
            PageRef::new(&self.pages[page][..]).unwrap().max_trx() < watermark
        }
    }

    /// The version of a record that the scan sees.
    fn version(&self, page: usize, record: &[u8]) -> Option<Bytes> {
        if !self.decided(page, record) {
            return self.versions[record].clone();
        }
        let deleted = perigee_page::RecordFlags(record[0]).is_deleted();
        (!deleted).then(|| Bytes::copy_from_slice(record))
    }

    fn in_range(&self, key: &[u8]) -> bool {
        let lower = match &self.descriptor.range.lower {
            Bound::Unbounded => true,
            Bound::Included(prefix) => key >= prefix.as_slice(),
            Bound::Excluded(prefix) => key > prefix.as_slice() && !key.starts_with(prefix),
        };
        let upper = match &self.descriptor.range.upper {
            Bound::Unbounded => true,
            Bound::Included(prefix) => key <= prefix.as_slice() || key.starts_with(prefix),
            Bound::Excluded(prefix) => key < prefix.as_slice(),
        };
        lower && upper
    }

    /// The row that is made of a version, as a record; nothing if it joins none or if the condition is not true,
    /// `None` if that fails.
    fn row(&self, version: &Bytes) -> Option<Option<Bytes>> {
        let Some(join) = &self.join else {
            return Some(Some(version.clone()));
        };
        let Some(joined) = join.joined(&self.descriptor.layout, version) else {
            return Some(None);
        };
        let of_descriptor = self.descriptor.join.as_ref();
        let condition = of_descriptor.and_then(|join| join.condition.as_ref());
        let passes = match condition {
            None => true,
            Some(condition) => {
                let interpreter = Interpreter::new(condition, &self.rows);
                interpreter.record(&joined).ok()?.to_datum() == Datum::Bool(true)
            }
        };
        Some(passes.then_some(joined))
    }

    /// What requests bring along.
    fn filters(&self) -> Filters {
        let join = self.join.as_ref();
        join.map_or_else(Filters::default, RandomJoin::filters)
    }

    /// Per page the rows of the visible versions for which the predicate is true, as records in scan order; `None` if
    /// an expression fails.
    fn plain_scan(&self) -> Option<Vec<Vec<Bytes>>> {
        let Descriptor {
            layout, predicate, ..
        } = &self.descriptor;
        let predicate = predicate.as_ref().map(|p| Interpreter::new(p, layout));
        let pages = self.records.iter().enumerate().map(|(page, records)| {
            let mut out = Vec::new();
            for record in records {
                let version = self
                    .version(page, record)
                    .filter(|v| self.in_range(layout.shape.key(v)));
                let Some(version) = version else { continue };
                let passes = match &predicate {
                    None => true,
                    Some(predicate) => {
                        predicate.record(&version).ok()?.to_datum() == Datum::Bool(true)
                    }
                };
                if passes {
                    out.extend(self.row(&version)?);
                }
            }
            if self.descriptor.reverse {
                out.reverse();
            }
            Some(out)
        });
        pages.collect()
    }

    /// Runs the pages on two stores and in the frontend, in any order, and completes the batches.
    fn run(&self, seed: u64, backend: Backend) -> Result<Vec<Vec<Datum>>, NdpError> {
        let r = &mut Random(seed);
        let scanner =
            Scanner::with_budget(self.descriptor.clone(), backend, self.budget).map(Arc::new)?;
        let mut order: Vec<usize> = (0..PAGES).collect();
        for i in 1..PAGES {
            order.swap(i, r.below(i + 1));
        }
        let mut executions: Vec<_> = (0..3).map(|_| Execution::new(scanner.clone())).collect();
        for execution in &mut executions {
            execution.set_filters(self.filters());
        }
        for index in order {
            let page = PageRef::new(&self.pages[index][..]).unwrap();
            executions[r.below(3)].page(index as u32, page).unwrap();
        }
        let mut found: Vec<Vec<Vec<Datum>>> = vec![Vec::new(); PAGES];
        let mut covered = 0;
        for (i, execution) in executions.iter_mut().enumerate() {
            let batch = if i == 0 {
                execution.take()
            } else {
                over_the_wire(execution)
            };
            let pages: Vec<_> = batch.pages.iter().map(|run| run.index as usize).collect();
            let resolved: Vec<_> = batch
                .ambiguous
                .iter()
                .map(|a| self.version(pages[a.page as usize], &a.record))
                .collect();
            let finished = scanner.finish_filtered(batch, &resolved, &self.filters())?;
            let mut rows = rows(&finished.batch).into_iter();
            assert_eq!(finished.batch.schema(), scanner.output_schema());
            covered += finished.page_rows.len();
            for (index, n) in finished.page_rows {
                found[index as usize].extend(rows.by_ref().take(n as usize));
            }
            assert!(self.descriptor.aggregate.is_some() || rows.len() == 0);
            found[0].extend(rows);
        }
        assert_eq!(covered, PAGES);
        Ok(found.concat())
    }
}

/// Rows of one page.
type PageRows = Vec<Vec<Datum>>;

impl Case {
    /// One run over the pages in the order of the scan: the rows of each, and how many of them storage gave out.
    fn in_order(&self, enough: Option<u64>) -> Result<Vec<(PageRows, u64)>, NdpError> {
        let scanner = Scanner::new(self.descriptor.clone(), Backend::Interpreter).map(Arc::new)?;
        let mut run = Execution::new(scanner.clone()).until(enough);
        run.set_filters(self.filters());
        for (index, page) in self.pages.iter().enumerate() {
            let page = PageRef::new(&page[..]).unwrap();
            run.page(index as u32, page).unwrap();
        }
        let batch = over_the_wire(&mut run);
        let given: Vec<_> = batch.pages.iter().map(|run| u64::from(run.rows)).collect();
        let ambiguous = batch.ambiguous.iter();
        let resolved: Vec<_> = ambiguous
            .map(|a| self.version(a.page as usize, &a.record))
            .collect();
        let finished = scanner.finish_filtered(batch, &resolved, &self.filters())?;
        let mut rows = rows(&finished.batch).into_iter();
        let counts = finished.page_rows.iter().map(|(_, count)| *count as usize);
        let pages = counts.map(|count| rows.by_ref().take(count).collect());
        Ok(pages.zip(given).collect())
    }
}

#[test]
fn of_pages_behind_rows_enough_none_is_given() {
    let mut left_out = 0;
    for seed in 0..2000 {
        let mut case = Case::random(seed);
        case.descriptor.aggregate = None;
        let Ok(all) = case.in_order(None) else {
            continue;
        };
        let enough = Random(seed).below(30) as u64;
        let limited = case.in_order(Some(enough)).unwrap();
        let mut given = 0;
        for (page, ((rows, count), (fewer, fewer_count))) in all.iter().zip(&limited).enumerate() {
            if given < enough {
                assert_eq!(
                    (rows, count),
                    (fewer, fewer_count),
                    "seed {seed}, page {page}"
                );
            } else {
                assert_eq!(
                    (fewer.len(), *fewer_count),
                    (0, 0),
                    "seed {seed}, page {page}"
                );
                left_out += usize::from(!rows.is_empty());
            }
            given += count;
        }
    }
    assert!(left_out > 100, "{left_out} pages with rows were left out");
}

/// What the read view sees of a record: itself, an older version with the same key, or nothing.
fn random_version(r: &mut Random, layout: &RowLayout, mut row: Row) -> Option<Bytes> {
    if r.chance(30) {
        return None;
    }
    row.deleted = false;
    if layout.is_clustered() && r.chance(50) {
        let key = &layout.key;
        for (i, value) in random_row(r, layout).into_iter().enumerate() {
            if !key.contains(&(i as u16)) {
                row.values[i] = value;
            }
        }
    }
    Some(encode(layout, &row).into())
}

fn expected_rows(case: &Case, versions: &[Vec<Bytes>]) -> Vec<Vec<Datum>> {
    let layout = &case.rows;
    let row = |version: &Bytes| {
        let view = RecordView::new(layout, version);
        let columns = case.descriptor.projection.iter();
        columns
            .map(|&column| view.get(column.into()).unwrap())
            .collect()
    };
    versions.iter().flatten().map(row).collect()
}

/// State of a function: a count, a sum in two halves, or an extreme.
#[derive(Clone, Debug)]
enum State {
    Count(i64),
    Sum(Option<(i128, i128)>),
    Doubles(Option<ExactSum>),
    Extreme(Datum, Collation),
}

fn halves(value: i128) -> (i128, i128) {
    (value >> 64, value & i128::from(u64::MAX))
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Count(a), Self::Count(b)) => a == b,
            (Self::Sum(a), Self::Sum(b)) => a == b,
            // One sum can be made up in several ways.
            (Self::Doubles(a), Self::Doubles(b)) => {
                let bits = |sum: &Option<ExactSum>| sum.as_ref().map(|s| s.value().to_bits());
                bits(a) == bits(b)
            }
            (Self::Extreme(a, _), Self::Extreme(b, _)) => a == b,
            _ => false,
        }
    }
}

impl State {
    fn of(function: AggregateFunction, argument: Option<&Program>, value: &Datum) -> Self {
        let number = match *value {
            Datum::Int(v) => i128::from(v),
            Datum::UInt(v) => i128::from(v),
            Datum::Decimal(v) => v,
            _ => 0,
        };
        match function {
            AggregateFunction::CountAll => Self::Count(1),
            AggregateFunction::Count => Self::Count(i64::from(!value.is_null())),
            AggregateFunction::Sum if argument.unwrap().result_type() == Type::Double => {
                Self::Doubles(match *value {
                    Datum::Double(term) => {
                        let mut sum = ExactSum::default();
                        sum.add(term);
                        Some(sum)
                    }
                    _ => None,
                })
            }
            AggregateFunction::Sum => Self::Sum((!value.is_null()).then(|| halves(number))),
            _ => {
                let ty = argument.unwrap().result_type();
                let collation = ty.collation().unwrap_or(Collation::BINARY);
                Self::Extreme(value.clone(), collation)
            }
        }
    }

    /// The state that a partial row shows.
    fn shown(function: AggregateFunction, argument: Option<&Program>, value: &Datum) -> Self {
        match (function, value) {
            (AggregateFunction::CountAll | AggregateFunction::Count, Datum::Int(n)) => {
                Self::Count(*n)
            }
            (AggregateFunction::Sum, Datum::String(bytes)) => {
                Self::Doubles(Some(ExactSum::from_bytes(bytes).unwrap()))
            }
            _ => Self::of(function, argument, value),
        }
    }

    fn merge(&mut self, function: AggregateFunction, other: Self) {
        match (self, other) {
            (Self::Count(a), Self::Count(b)) => *a += b,
            (Self::Sum(a), Self::Sum(b)) => {
                if let Some((high, low)) = b {
                    let (h, l) = a.unwrap_or_default();
                    let (carry, low) = halves(l + low);
                    *a = Some((h + high + carry, low));
                }
            }
            (Self::Doubles(a), Self::Doubles(b)) => {
                if let Some(b) = b {
                    a.get_or_insert_default().merge(&b);
                }
            }
            (Self::Extreme(a, collation), Self::Extreme(b, _)) => {
                let wanted = match function {
                    AggregateFunction::Min => std::cmp::Ordering::Less,
                    _ => std::cmp::Ordering::Greater,
                };
                if a.is_null() || (!b.is_null() && compare(&b, a, *collation) == wanted) {
                    *a = b;
                }
            }
            _ => panic!("states of one function"),
        }
    }
}

fn compare(a: &Datum, b: &Datum, collation: Collation) -> std::cmp::Ordering {
    match (a, b) {
        (Datum::Int(a), Datum::Int(b))
        | (Datum::DateTime(a), Datum::DateTime(b))
        | (Datum::Time(a), Datum::Time(b)) => a.cmp(b),
        (Datum::UInt(a), Datum::UInt(b)) => a.cmp(b),
        (Datum::Decimal(a), Datum::Decimal(b)) => a.cmp(b),
        (Datum::Wide(a), Datum::Wide(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Double(a), Datum::Double(b)) => a.partial_cmp(b).unwrap(),
        (Datum::String(a), Datum::String(b)) => collation.compare(a, b).then_with(|| a.cmp(b)),
        _ => panic!("{a:?} and {b:?} do not compare"),
    }
}

type Totals = BTreeMap<String, Vec<State>>;

fn merge_into(totals: &mut Totals, aggregate: &Aggregate, key: String, states: Vec<State>) {
    match totals.entry(key) {
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert(states);
        }
        std::collections::btree_map::Entry::Occupied(mut entry) => {
            let functions = aggregate.functions.iter().map(|(function, _)| *function);
            for ((own, new), function) in entry.get_mut().iter_mut().zip(states).zip(functions) {
                own.merge(function, new);
            }
        }
    }
}

/// Totals over the visible versions; `None` if an expression fails.
fn expected_totals(case: &Case, aggregate: &Aggregate, versions: &[Vec<Bytes>]) -> Option<Totals> {
    let layout = &case.rows;
    let evaluate = |program: &Program, version: &Bytes| {
        Some(
            Interpreter::new(program, layout)
                .record(version)
                .ok()?
                .to_datum(),
        )
    };
    let mut totals = Totals::new();
    for version in versions.iter().flatten() {
        let mut key = Vec::new();
        for program in &aggregate.group_by {
            key.push(match evaluate(program, version)? {
                Datum::String(text) => {
                    let collation = program.result_type().collation().unwrap();
                    Datum::String(collation.form(&text).into_owned())
                }
                Datum::Double(v) => Datum::Double(v + 0.0),
                value => value,
            });
        }
        let mut states = Vec::new();
        for (function, argument) in &aggregate.functions {
            let value = match argument {
                Some(program) => evaluate(program, version)?,
                None => Datum::Null,
            };
            states.push(State::of(*function, argument.as_ref(), &value));
        }
        merge_into(&mut totals, aggregate, format!("{key:?}"), states);
    }
    Some(totals)
}

fn totals_of_partial_rows(aggregate: &Aggregate, rows: Vec<Vec<Datum>>) -> Totals {
    let mut totals = Totals::new();
    for row in rows {
        let (key, states) = row.split_at(aggregate.group_by.len());
        let states = aggregate.functions.iter().zip(states);
        let states = states
            .map(|((function, argument), value)| State::shown(*function, argument.as_ref(), value))
            .collect();
        merge_into(&mut totals, aggregate, format!("{key:?}"), states);
    }
    totals
}

/// Names the seed of the case that panics.
struct Name(u64);

impl Drop for Name {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the case has seed {}", self.0);
        }
    }
}

/// What a case has: rows, an aggregate, a join.
type Has = [bool; 3];

fn check(seed: u64) -> Has {
    let _name = Name(seed);
    let case = Case::random(seed);
    let scan = case.plain_scan();
    for backend in [Backend::Jit, Backend::Interpreter] {
        let found = case.run(seed, backend);
        match &case.descriptor.aggregate {
            None => match &scan {
                Some(versions) => assert_eq!(found.unwrap(), expected_rows(&case, versions)),
                None => assert!(matches!(found, Err(NdpError::Evaluation(_)))),
            },
            Some(aggregate) => {
                let expected = scan
                    .as_ref()
                    .and_then(|v| expected_totals(&case, aggregate, v));
                match expected {
                    Some(totals) => {
                        let found = totals_of_partial_rows(aggregate, found.unwrap());
                        assert_eq!(found, totals);
                    }
                    None => assert!(matches!(found, Err(NdpError::Evaluation(_)))),
                }
            }
        }
    }
    let has_rows = scan.is_some_and(|pages| !pages.concat().is_empty());
    let joins = has_rows && case.join.is_some();
    [has_rows, case.descriptor.aggregate.is_some(), joins]
}

#[test]
fn finished_rows_are_those_of_a_plain_scan() {
    let cases = std::env::var("PERIGEE_LAW_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    let cases: u64 = cases.unwrap_or(1500);
    let mut counts = [0; 3];
    for seed in 0..cases {
        for (count, has) in counts.iter_mut().zip(check(seed)) {
            *count += u64::from(has);
        }
    }
    let [with_rows, aggregated, joined] = counts;
    // The law says nothing about empty results.
    assert!(
        with_rows > cases / 3,
        "{with_rows} of {cases} cases have rows"
    );
    assert!(
        aggregated > cases / 5,
        "{aggregated} of {cases} cases aggregate"
    );
    assert!(
        joined > cases / 10,
        "{joined} of {cases} cases have joined rows"
    );
}
