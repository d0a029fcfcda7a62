//! Measures scans over lineitem-like pages in memory: nanoseconds of CPU per record of TPC-H Q6 and Q1,
//! of a count, and of projections, with encoding and completion in the frontend apart.
//!
//! `cargo run --release -p perigee-ndp --example scan [MiB] [jit|interpreter] [name]`

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use perigee_expr::{AggregateFunction, Arithmetic, Builder, Comparison, NodeId, Program};
use perigee_ndp::{Aggregate, Backend, Descriptor, Execution, NdpBatch, Scanner};
use perigee_page::{PageKind, PageMut, PageRef, RecordFlags, RecordHeader};
use perigee_types::{DbId, IndexId, PAGE_SIZE, PageId, RollPtr, TrxId};
use perigee_value::{Collation, ColumnType, Datum, RowLayout, date, encode_row};

const DB: DbId = DbId(1);
const INDEX: IndexId = IndexId(1);
/// Rows after which a Page Store's worker sends a batch.
const BATCH_ROWS: usize = 8192;

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
const BIGINT: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};
const MONEY: ColumnType = ColumnType::Decimal {
    precision: 15,
    scale: 2,
};

const ORDERKEY: u16 = 0;
const QUANTITY: u16 = 4;
const EXTENDEDPRICE: u16 = 5;
const DISCOUNT: u16 = 6;
const TAX: u16 = 7;
const RETURNFLAG: u16 = 8;
const LINESTATUS: u16 = 9;
const SHIPDATE: u16 = 10;
const SHIPMODE: u16 = 14;

/// CPU time of this thread: other processes share the machine.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "every thread has a CPU clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> Datum {
        let text: &'a str = of[self.below(of.len() as u64) as usize];
        Datum::String(text.into())
    }
}

fn lineitem() -> Result<RowLayout> {
    let collation = Collation::UTF8MB4_BIN;
    let text = |chars| ColumnType::Char { chars, collation };
    let columns = [
        BIGINT,
        INT,
        INT,
        INT,
        MONEY,
        MONEY,
        MONEY,
        MONEY,
        text(1),
        text(1),
        ColumnType::Date,
        ColumnType::Date,
        ColumnType::Date,
        text(25),
        text(10),
        ColumnType::Varchar {
            chars: 44,
            collation,
        },
    ];
    Ok(RowLayout::clustered(
        &columns.map(|ty| (ty, false)),
        &[0, 3],
    )?)
}

fn day(year: i32, month: u8, day: u8) -> i32 {
    date::Civil { year, month, day }
        .to_days()
        .expect("the dates here are valid")
}

fn row(r: &mut Random, key: u64) -> Vec<Datum> {
    let first = day(1992, 1, 2);
    let shipped = first + r.below(2526) as i32;
    let cutoff = day(1995, 6, 17);
    let received = shipped + 1 + r.below(30) as i32;
    let flag = if received <= cutoff {
        r.pick(&["R", "A"])
    } else {
        Datum::String("N".into())
    };
    let status = if shipped > cutoff { "O" } else { "F" };
    let quantity = 1 + r.below(50) as i128;
    let comment = "carefully final requests among the ironic deposits";
    let start = r.below(8) as usize;
    let comment = &comment[start..start + 10 + r.below(30) as usize];
    vec![
        Datum::Int((key / 4) as i64),
        Datum::Int(r.below(200_000) as i64),
        Datum::Int(r.below(10_000) as i64),
        Datum::Int((key % 4) as i64),
        Datum::Decimal(100 * quantity),
        Datum::Decimal(quantity * (90_000 + r.below(110_000) as i128)),
        Datum::Decimal(r.below(11) as i128),
        Datum::Decimal(r.below(9) as i128),
        flag,
        Datum::String(status.into()),
        Datum::Date(shipped),
        Datum::Date(shipped + r.below(60) as i32 - 30),
        Datum::Date(received),
        r.pick(&[
            "DELIVER IN PERSON",
            "COLLECT COD",
            "NONE",
            "TAKE BACK RETURN",
        ]),
        r.pick(&["AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB", "REG AIR"]),
        Datum::String(comment.into()),
    ]
}

/// Full pages of records of transaction 1.
fn build(layout: &RowLayout, bytes: usize) -> Result<(Vec<[u8; PAGE_SIZE]>, u64)> {
    let header = RecordHeader {
        flags: RecordFlags(0),
        trx: TrxId(1),
        roll: RollPtr(0),
    };
    let (mut r, mut key) = (Random(42), 0);
    let mut pages = vec![[0; PAGE_SIZE]; bytes / PAGE_SIZE];
    let (mut records, mut next) = (Vec::new(), Vec::new());
    for (id, bytes) in (1..).zip(&mut pages) {
        let mut page = PageMut::new(bytes);
        let links = (PageId(0), PageId(0));
        page.format(
            PageId(id),
            (PageKind::Clustered, 0),
            (DB, INDEX),
            layout.shape,
            links,
        )?;
        let mut slots = 0;
        loop {
            if next.is_empty() {
                encode_row(layout, &row(&mut r, key), header, &mut next)?;
            }
            if records.len() + next.len() + 2 * (slots + 1) > page.as_ref().free_space() {
                break;
            }
            records.append(&mut next);
            slots += 1;
            key += 1;
        }
        page.insert(0, &records)?;
        page.raise_max_trx(TrxId(1));
        records.clear();
    }
    Ok((pages, key))
}

fn descriptor(layout: &RowLayout) -> Descriptor {
    Descriptor::new(DB, INDEX, layout.clone(), TrxId(2))
}

fn days(b: &mut Builder, year: i32, month: u8, of_month: u8) -> Result<NodeId> {
    Ok(b.date(day(year, month, of_month))?)
}

/// `SUM(l_extendedprice * l_discount)` with Q6's predicate, which about 2 % of the rows pass.
fn q6(layout: &RowLayout) -> Result<Descriptor> {
    let mut b = Builder::new(layout);
    let (date, discount, quantity) = (
        b.column(SHIPDATE)?,
        b.column(DISCOUNT)?,
        b.column(QUANTITY)?,
    );
    let (from, to) = (days(&mut b, 1994, 1, 1)?, days(&mut b, 1995, 1, 1)?);
    let (low, high, most) = (b.decimal(5, 2)?, b.decimal(7, 2)?, b.decimal(2400, 2)?);
    let conditions = vec![
        b.compare(Comparison::GreaterOrEqual, date, from)?,
        b.compare(Comparison::Less, date, to)?,
        b.between(discount, low, high)?,
        b.compare(Comparison::Less, quantity, most)?,
    ];
    let root = b.and(conditions)?;
    let predicate = b.finish(root)?;
    let mut b = Builder::new(layout);
    let (price, discount) = (b.column(EXTENDEDPRICE)?, b.column(DISCOUNT)?);
    let root = b.arithmetic(Arithmetic::Multiply, price, discount)?;
    let functions = vec![(AggregateFunction::Sum, Some(b.finish(root)?))];
    let aggregate = Some(Aggregate {
        group_by: Vec::new(),
        functions,
    });
    Ok(Descriptor {
        predicate: Some(predicate),
        aggregate,
        ..descriptor(layout)
    })
}

fn column(layout: &RowLayout, index: u16) -> Result<Program> {
    let mut b = Builder::new(layout);
    let root = b.column(index)?;
    Ok(b.finish(root)?)
}

fn shipped_before(layout: &RowLayout, year: i32, month: u8, day: u8) -> Result<Program> {
    let mut b = Builder::new(layout);
    let (date, to) = (b.column(SHIPDATE)?, days(&mut b, year, month, day)?);
    let root = b.compare(Comparison::LessOrEqual, date, to)?;
    Ok(b.finish(root)?)
}

/// Q1: 8 aggregates (as 11 partial states) over 4 groups of nearly all rows.
fn q1(layout: &RowLayout) -> Result<Descriptor> {
    let mut b = Builder::new(layout);
    let (price, discount, one) = (b.column(EXTENDEDPRICE)?, b.column(DISCOUNT)?, b.int(1)?);
    let rest = b.arithmetic(Arithmetic::Subtract, one, discount)?;
    let discounted = b.arithmetic(Arithmetic::Multiply, price, rest)?;
    let mut charged = b.clone();
    let disc_price = b.finish(discounted)?;
    let (tax, one) = (charged.column(TAX)?, charged.int(1)?);
    let taxed = charged.arithmetic(Arithmetic::Add, one, tax)?;
    let root = charged.arithmetic(Arithmetic::Multiply, discounted, taxed)?;
    let charge = charged.finish(root)?;
    let sum = |program: &Program| (AggregateFunction::Sum, Some(program.clone()));
    let count = |program: &Program| (AggregateFunction::Count, Some(program.clone()));
    let quantity = column(layout, QUANTITY)?;
    let price = column(layout, EXTENDEDPRICE)?;
    let discount = column(layout, DISCOUNT)?;
    let functions = vec![
        sum(&quantity),
        sum(&price),
        sum(&disc_price),
        sum(&charge),
        count(&quantity),
        sum(&quantity),
        count(&price),
        sum(&price),
        count(&discount),
        sum(&discount),
        (AggregateFunction::CountAll, None),
    ];
    let group_by = vec![column(layout, RETURNFLAG)?, column(layout, LINESTATUS)?];
    Ok(Descriptor {
        predicate: Some(shipped_before(layout, 1998, 9, 2)?),
        aggregate: Some(Aggregate {
            group_by,
            functions,
        }),
        ..descriptor(layout)
    })
}

fn projection(layout: &RowLayout, columns: &[u16], before: Option<i32>) -> Result<Descriptor> {
    let predicate = before
        .map(|year| shipped_before(layout, year, 4, 14))
        .transpose()?;
    Ok(Descriptor {
        projection: columns.to_vec(),
        predicate,
        ..descriptor(layout)
    })
}

/// `COUNT(*) GROUP BY column`, or a scalar count.
fn counts(layout: &RowLayout, group: Option<u16>) -> Result<Descriptor> {
    let group_by = group
        .map(|index| column(layout, index))
        .transpose()?
        .into_iter()
        .collect();
    let functions = vec![(AggregateFunction::CountAll, None)];
    Ok(Descriptor {
        aggregate: Some(Aggregate {
            group_by,
            functions,
        }),
        ..descriptor(layout)
    })
}

/// Time per record of the page half, of encoding, and of the frontend's half; bytes on the wire.
fn measure(
    name: &str,
    descriptor: Descriptor,
    backend: Backend,
    pages: &[[u8; PAGE_SIZE]],
    records: u64,
) -> Result<()> {
    let started = cpu_time();
    let scanner = Arc::new(Scanner::new(descriptor, backend)?);
    let compile = cpu_time() - started;
    let mut best = [Duration::MAX; 3];
    let (mut rows, mut bytes) = (0, 0);
    // Small inputs are run more often, so that short runs can be timed.
    for _ in 0..3.max((1 << 14) / pages.len()) {
        let mut execution = Execution::new(Arc::clone(&scanner));
        let mut times = [Duration::ZERO; 3];
        (rows, bytes) = (0, 0);
        let mut send = |execution: &mut Execution, times: &mut [Duration; 3]| -> Result<()> {
            let started = cpu_time();
            let wire = execution.take().encode();
            times[1] += cpu_time() - started;
            bytes += wire.len();
            let started = cpu_time();
            let finished = scanner.finish(NdpBatch::decode(wire)?, &[])?;
            times[2] += cpu_time() - started;
            rows += finished.batch.num_rows();
            Ok(())
        };
        let mut started = cpu_time();
        for (index, page) in pages.iter().enumerate() {
            if let Some(next) = pages.get(index + 1) {
                execution.announce(next);
            }
            execution.page(index as u32, PageRef::new(page)?)?;
            if execution.rows() >= BATCH_ROWS {
                times[0] += cpu_time() - started;
                send(&mut execution, &mut times)?;
                started = cpu_time();
            }
        }
        times[0] += cpu_time() - started;
        send(&mut execution, &mut times)?;
        best = std::array::from_fn(|i| best[i].min(times[i]));
    }
    let per = |time: Duration| time.as_nanos() as f64 / records as f64;
    println!(
        "{name:34} {:7.2} {:7.2} {:7.2} ns/record  {rows:9} rows {bytes:10} bytes, compiled in {compile:?}",
        per(best[0]),
        per(best[1]),
        per(best[2]),
    );
    Ok(())
}

/// Time to read every byte of the pages once: what no scan of all columns can beat.
fn measure_memory(pages: &[[u8; PAGE_SIZE]], records: u64) {
    let best = (0..3).map(|_| {
        let started = cpu_time();
        let sum = pages.iter().flat_map(|page| page.as_chunks::<8>().0);
        let sum = sum.fold(0, |sum: u64, word| sum ^ u64::from_le_bytes(*word));
        std::hint::black_box(sum);
        cpu_time() - started
    });
    let best = best.min().unwrap_or_default();
    println!(
        "{:34} {:7.2}",
        "every byte, read once",
        best.as_nanos() as f64 / records as f64
    );
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mib: usize = args.next().map_or(Ok(256), |n| n.parse())?;
    let backend = match args.next().as_deref() {
        Some("interpreter") => Backend::Interpreter,
        _ => Backend::Jit,
    };
    let only = args.next();
    let layout = lineitem()?;
    let (pages, records) = build(&layout, mib << 20)?;
    println!(
        "{records} records, {} pages, {:.0} bytes a record; times: pages, encode, finish",
        pages.len(),
        (pages.len() * PAGE_SIZE) as f64 / records as f64,
    );
    measure_memory(&pages, records);
    let four = [ORDERKEY, EXTENDEDPRICE, DISCOUNT, SHIPDATE];
    let mut strings = descriptor(&layout);
    strings.projection = vec![RETURNFLAG, SHIPMODE, 15];
    for (name, descriptor) in [
        ("count(*)", counts(&layout, None)?),
        ("Q6", q6(&layout)?),
        ("Q1", q1(&layout)?),
        (
            "count(*) group by l_shipmode",
            counts(&layout, Some(SHIPMODE))?,
        ),
        (
            "count(*) group by l_orderkey",
            counts(&layout, Some(ORDERKEY))?,
        ),
        ("count(*) group by l_partkey", counts(&layout, Some(1))?),
        (
            "4 columns, 4 % of the rows",
            projection(&layout, &four, Some(1992))?,
        ),
        ("4 columns, all rows", projection(&layout, &four, None)?),
        ("3 strings, all rows", strings),
    ] {
        if only.as_deref().is_none_or(|only| name.contains(only)) {
            measure(name, descriptor, backend, &pages, records)?;
        }
    }
    Ok(())
}
