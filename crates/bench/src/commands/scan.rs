//! `perigee bench scan`: the Page Store half of NDP on TPC-H Q6, over lineitem pages in memory, on
//! one thread, against this machine's memory bandwidth and a loop written by hand.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use perigee_expr::{AggregateFunction, Arithmetic, Builder, Comparison, ExprError, Program};
use perigee_ndp::{Aggregate, Backend, Descriptor, Execution, NdpError, Scanner};
use perigee_page::{PageKind, PageMut, PageRef, RecordHeader};
use perigee_types::{DbId, IndexId, PAGE_SIZE, PageId, TrxId};
use perigee_value::{Collation, ColumnType, Place, RowLayout, date, encode_text_row};
use serde::Serialize;
use tpchgen::generators::LineItemGenerator;

use super::setup::note;
use crate::BenchError;

/// Bytes of pages that are scanned: far more than any cache.
const BYTES: usize = 1 << 30;

/// Runs of each contender, interleaved; the best counts.
const RUNS: usize = 7;

/// Scale factor of the data; its pages are repeated until there are enough.
const SCALE: f64 = 0.3;

/// Number of columns of lineitem.
const COLUMNS: usize = 16;
const QUANTITY: u16 = 4;
const EXTENDEDPRICE: u16 = 5;
const DISCOUNT: u16 = 6;
const SHIPDATE: u16 = 10;

/// What the command measures.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ScanFigures {
    /// Bytes of pages a second ÷ bytes a second that one thread reads from memory.
    pub q6_bandwidth_ratio: f64,
    /// Our time ÷ the time of a loop written by hand over the same pages.
    pub jit_over_native: f64,
    /// Nanoseconds a record.
    pub q6_ns_per_record: f64,
    /// Bytes of pages scanned.
    pub bytes: u64,
    /// Records scanned.
    pub records: u64,
    /// Bytes a second that one thread reads from memory.
    pub memory_bytes_per_second: f64,
    /// Bytes of pages a second.
    pub scan_bytes_per_second: f64,
    /// The scan ran machine code.
    pub compiled: bool,
}

/// Runs the command.
///
/// # Errors
/// If the contenders disagree.
pub fn scan() -> Result<ScanFigures, BenchError> {
    note("making lineitem pages");
    let layout = lineitem();
    let pages = pages(&layout)?;
    let records: u64 = pages
        .iter()
        .map(|page| u64::from(page_ref(page).slot_count()))
        .sum();
    let scanner = Arc::new(scanner(&layout)?);
    let native = Native::new(&layout);
    let [mut ours, mut by_hand, mut memory] = [f64::INFINITY; 3];
    for _ in 0..RUNS {
        let (sum, seconds) = timed(|| run_scanner(&scanner, &pages))?;
        let (expected, native_seconds) = timed(|| Ok(native.run(&pages)))?;
        if sum != expected {
            let text = format!("Q6 is {sum} by the scan and {expected} by hand");
            return Err(BenchError::Unexpected(text));
        }
        let (_, memory_seconds) = timed(|| Ok(read_all(&pages)))?;
        ours = ours.min(seconds);
        by_hand = by_hand.min(native_seconds);
        memory = memory.min(memory_seconds);
    }
    let bytes = (pages.len() * PAGE_SIZE) as u64;
    Ok(ScanFigures {
        q6_bandwidth_ratio: memory / ours,
        jit_over_native: ours / by_hand,
        q6_ns_per_record: ours * 1e9 / records as f64,
        bytes,
        records,
        memory_bytes_per_second: bytes as f64 / memory,
        scan_bytes_per_second: bytes as f64 / ours,
        compiled: scanner.is_compiled(),
    })
}

fn timed<T>(run: impl FnOnce() -> Result<T, BenchError>) -> Result<(T, f64), BenchError> {
    let begin = Instant::now();
    let result = run()?;
    Ok((result, begin.elapsed().as_secs_f64()))
}

fn lineitem() -> RowLayout {
    let int = ColumnType::Int {
        bytes: 4,
        unsigned: false,
    };
    let money = ColumnType::Decimal {
        precision: 15,
        scale: 2,
    };
    let collation = Collation::UTF8MB4_BIN;
    let text = |chars| ColumnType::Char { chars, collation };
    let date = ColumnType::Date;
    let types: [ColumnType; COLUMNS] = [
        int,
        int,
        int,
        int,
        money,
        money,
        money,
        money,
        text(1),
        text(1),
        date,
        date,
        date,
        text(25),
        text(10),
        ColumnType::Varchar {
            chars: 44,
            collation,
        },
    ];
    RowLayout::clustered(&types.map(|ty| (ty, false)), &[0, 3]).expect("lineitem has a layout")
}

type Page = Box<[u8; PAGE_SIZE]>;

fn page_ref(page: &Page) -> PageRef<'_> {
    PageRef::new(&page[..]).expect("made by us")
}

/// Leaf pages of lineitem, filled as a load fills them.
fn pages(layout: &RowLayout) -> Result<Vec<Page>, BenchError> {
    let broken = |e: &dyn std::fmt::Display| BenchError::Unexpected(format!("lineitem page: {e}"));
    let mut pages: Vec<Page> = Vec::new();
    let mut records = Vec::new();
    let mut count = 0;
    let room = PAGE_SIZE * 15 / 16;
    for item in LineItemGenerator::new(SCALE, 1, 1).iter() {
        let text = item.to_string();
        let mut fields = [None; COLUMNS];
        for (field, text) in fields.iter_mut().zip(text.split('|')) {
            *field = Some(text.as_bytes());
        }
        let before = records.len();
        encode_text_row(layout, &fields, RecordHeader::default(), &mut records)
            .map_err(|e| broken(&e))?;
        count += 1;
        if records.len() + 2 * count > room {
            let rest = records.split_off(before);
            pages.push(page(layout, pages.len(), &records).map_err(|e| broken(&e))?);
            (records, count) = (rest, 1);
        }
    }
    let distinct = pages.len();
    while pages.len() * PAGE_SIZE < BYTES {
        pages.push(pages[pages.len() - distinct].clone());
    }
    Ok(pages)
}

fn page(
    layout: &RowLayout,
    number: usize,
    records: &[u8],
) -> Result<Page, perigee_page::PageFormatError> {
    let mut bytes = Box::new([0; PAGE_SIZE]);
    let mut page = PageMut::new(&mut bytes);
    let id = PageId(number as u64 + 64);
    let links = (PageId(0), PageId(0));
    page.format(
        id,
        (PageKind::Clustered, 0),
        (DbId(1), IndexId(1)),
        layout.shape,
        links,
    )?;
    page.insert(0, records)?;
    Ok(bytes)
}

/// Q6: four conditions, one sum of products.
fn scanner(layout: &RowLayout) -> Result<Scanner, BenchError> {
    let (predicate, product) =
        q6(layout).map_err(|e| BenchError::Unexpected(format!("Q6 as a program: {e}")))?;
    let mut descriptor = Descriptor::new(DbId(1), IndexId(1), layout.clone(), TrxId(1));
    descriptor.predicate = Some(predicate);
    descriptor.aggregate = Some(Aggregate {
        group_by: Vec::new(),
        functions: vec![(AggregateFunction::Sum, Some(product))],
    });
    Scanner::new(descriptor, Backend::Jit).map_err(|e| unexpected(&e))
}

fn q6(layout: &RowLayout) -> Result<(Program, Program), ExprError> {
    let mut b = Builder::new(layout);
    let (shipdate, discount, quantity) = (
        b.column(SHIPDATE)?,
        b.column(DISCOUNT)?,
        b.column(QUANTITY)?,
    );
    let (from, to) = (b.date(new_year(1994))?, b.date(new_year(1995))?);
    let (low, high, most) = (b.decimal(5, 2)?, b.decimal(7, 2)?, b.decimal(2400, 2)?);
    let conditions = vec![
        b.compare(Comparison::GreaterOrEqual, shipdate, from)?,
        b.compare(Comparison::Less, shipdate, to)?,
        b.between(discount, low, high)?,
        b.compare(Comparison::Less, quantity, most)?,
    ];
    let all = b.and(conditions)?;
    let predicate = b.finish(all)?;
    let mut b = Builder::new(layout);
    let (price, discount) = (b.column(EXTENDEDPRICE)?, b.column(DISCOUNT)?);
    let product = b.arithmetic(Arithmetic::Multiply, price, discount)?;
    Ok((predicate, b.finish(product)?))
}

/// The first day of a year, in days since 1970-01-01.
fn new_year(year: i32) -> i32 {
    date::Civil {
        year,
        month: 1,
        day: 1,
    }
    .to_days()
    .expect("a date")
}

fn unexpected(error: &NdpError) -> BenchError {
    BenchError::Unexpected(error.to_string())
}

/// The sum by the product's own code, as a Page Store runs it.
fn run_scanner(scanner: &Arc<Scanner>, pages: &[Page]) -> Result<i128, BenchError> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Decimal128Type;
    let mut execution = Execution::new(scanner.clone());
    let mut total = 0;
    // A request has at most a thousand pages or so.
    for request in pages.chunks(1000) {
        for (index, page) in (0..).zip(request) {
            execution
                .page(index, page_ref(page))
                .map_err(|e| unexpected(&e))?;
        }
        let finished = scanner
            .finish(execution.take(), &[])
            .map_err(|e| unexpected(&e))?;
        let sums = finished.batch.column(0).as_primitive::<Decimal128Type>();
        total += sums.iter().flatten().sum::<i128>();
    }
    Ok(total)
}

/// The same by hand: what a programmer would write who knows the layout and the query.
struct Native {
    quantity: usize,
    price: usize,
    discount: usize,
    shipdate: usize,
    from: i32,
    to: i32,
}

impl Native {
    fn new(layout: &RowLayout) -> Self {
        let offset = |column: u16| match layout.columns[usize::from(column)].place {
            Place::Fixed { offset } => usize::from(offset),
            other => panic!("Q6's columns have fixed places, not {other:?}"),
        };
        Self {
            quantity: offset(QUANTITY),
            price: offset(EXTENDEDPRICE),
            discount: offset(DISCOUNT),
            shipdate: offset(SHIPDATE),
            from: new_year(1994),
            to: new_year(1995),
        }
    }

    fn run(&self, pages: &[Page]) -> i128 {
        pages.iter().map(|page| self.page(page)).sum()
    }

    fn page(&self, page: &Page) -> i128 {
        let i64_at = |at: usize| i64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
        let i32_at = |at: usize| i32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"));
        let slots = usize::from(page_ref(page).slot_count());
        let directory = &page[PAGE_SIZE - 2 * slots..];
        let mut sum = 0_i128;
        for slot in directory.rchunks_exact(2) {
            let record = usize::from(u16::from_le_bytes([slot[0], slot[1]]));
            let shipdate = i32_at(record + self.shipdate);
            if shipdate >= self.from && shipdate < self.to {
                let discount = i64_at(record + self.discount);
                if (5..=7).contains(&discount) && i64_at(record + self.quantity) < 2400 {
                    sum += i128::from(i64_at(record + self.price)) * i128::from(discount);
                }
            }
        }
        sum
    }
}

/// Reads every byte, as fast as one thread can.
fn read_all(pages: &[Page]) -> u64 {
    let mut sums = [0_u64; 8];
    for page in pages {
        for line in page.chunks_exact(64) {
            for (sum, word) in sums.iter_mut().zip(line.chunks_exact(8)) {
                *sum = sum.wrapping_add(u64::from_le_bytes(word.try_into().expect("8 bytes")));
            }
        }
    }
    black_box(sums.iter().fold(0, |a, b| a ^ b))
}
