//! How fast compiled code is: TPC-H's Q6 predicate and Q1's charge over lineitem pages in memory,
//! against loops written by hand for this layout and against the interpreter.
//!
//! `cargo run --release -p perigee-jit --example q6 [MiB]` (default 1024). One thread; each figure
//! is the best of five passes over all pages.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement stops at the first surprise"
)]

use std::hint::black_box;
use std::time::Instant;

use perigee_expr::{
    Arithmetic, Builder, Comparison, Evaluator, Interpreter, NodeId, Program, Vector,
};
use perigee_jit::JitEvaluator;
use perigee_page::{PageKind, PageMut, PageRef, RecordHeader};
use perigee_types::{DbId, IndexId, PAGE_SIZE, PageId};
use perigee_value::{Collation, ColumnType, Datum, Place, RowLayout, encode_row};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const QUANTITY: u16 = 4;
const PRICE: u16 = 5;
const DISCOUNT: u16 = 6;
const TAX: u16 = 7;
const SHIPDATE: u16 = 10;
const SHIPMODE: u16 = 14;

/// 1994-01-01 and 1995-01-01.
const YEAR_1994: (i32, i32) = (8766, 9131);

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
    let char = |chars| ColumnType::Char { chars, collation };
    let types = [
        int,
        int,
        int,
        int,
        money,
        money,
        money,
        money,
        char(1),
        char(1),
        ColumnType::Date,
        ColumnType::Date,
        ColumnType::Date,
        char(25),
        char(10),
        ColumnType::Varchar {
            chars: 44,
            collation,
        },
    ];
    RowLayout::clustered(&types.map(|ty| (ty, false)), &[0, 3]).unwrap()
}

fn row(rng: &mut StdRng, order: i32, line: i32) -> Vec<Datum> {
    let text = |text: &str| Datum::String(text.as_bytes().to_vec());
    let quantity = rng.random_range(1..=50);
    let ship = rng.random_range(8036..10_562);
    let comment = rng.random_range(10..=43);
    vec![
        Datum::Int(order.into()),
        Datum::Int(rng.random_range(1..200_000)),
        Datum::Int(rng.random_range(1..10_000)),
        Datum::Int(line.into()),
        Datum::Decimal(quantity * 100),
        Datum::Decimal(quantity * rng.random_range(90_100..200_000)),
        Datum::Decimal(rng.random_range(0..=10)),
        Datum::Decimal(rng.random_range(0..=8)),
        text(["A", "N", "R"][rng.random_range(0..3)]),
        text(["F", "O"][rng.random_range(0..2)]),
        Datum::Date(ship),
        Datum::Date(ship + rng.random_range(-60..60)),
        Datum::Date(ship + rng.random_range(1..30)),
        text(
            [
                "DELIVER IN PERSON",
                "COLLECT COD",
                "NONE",
                "TAKE BACK RETURN",
            ][rng.random_range(0..4)],
        ),
        text(["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"][rng.random_range(0..7)]),
        text(&"carefully final deposits detect slyly across"[..comment]),
    ]
}

type Page = [u8; PAGE_SIZE];

/// Pages full of rows; 64 MiB of them differ, which no branch predictor learns.
fn pages(layout: &RowLayout, mebibytes: usize) -> Vec<Page> {
    let count = mebibytes * (1 << 20) / PAGE_SIZE;
    let distinct = count.min((64 << 20) / PAGE_SIZE);
    let mut rng = StdRng::seed_from_u64(6);
    let (mut pages, mut order) = (Vec::with_capacity(count), 0);
    let mut record = Vec::new();
    for number in 0..distinct {
        let mut bytes = [0; PAGE_SIZE];
        let mut page = PageMut::new(&mut bytes);
        let id = PageId(number as u64 + 1);
        let (kind, owner) = ((PageKind::Clustered, 0), (DbId(1), IndexId(1)));
        page.format(id, kind, owner, layout.shape, (PageId(0), PageId(0)))
            .unwrap();
        loop {
            record.clear();
            order += 1;
            let row = row(&mut rng, order / 4, order % 4);
            encode_row(layout, &row, RecordHeader::default(), &mut record).unwrap();
            let slot = page.as_ref().slot_count();
            if page.as_ref().free_space() < record.len() + 2 || page.insert(slot, &record).is_err()
            {
                break;
            }
        }
        pages.push(bytes);
    }
    for number in distinct..count {
        pages.push(pages[number % distinct]);
    }
    pages
}

fn q6(layout: &RowLayout) -> Program {
    let mut b = Builder::new(layout);
    let ship = b.column(SHIPDATE).unwrap();
    let (from, to) = (b.date(YEAR_1994.0).unwrap(), b.date(YEAR_1994.1).unwrap());
    let from = b.compare(Comparison::GreaterOrEqual, ship, from).unwrap();
    let to = b.compare(Comparison::Less, ship, to).unwrap();
    let discount = b.column(DISCOUNT).unwrap();
    let (low, high) = (b.decimal(5, 2).unwrap(), b.decimal(7, 2).unwrap());
    let between = b.between(discount, low, high).unwrap();
    let (quantity, limit) = (b.column(QUANTITY).unwrap(), b.int(24).unwrap());
    let quantity = b.compare(Comparison::Less, quantity, limit).unwrap();
    let root = b.and(vec![from, to, between, quantity]).unwrap();
    b.finish(root).unwrap()
}

/// `l_extendedprice * (1 - l_discount) * (1 + l_tax)`
fn charge(layout: &RowLayout) -> Program {
    let mut b = Builder::new(layout);
    let (price, discount) = (b.column(PRICE).unwrap(), b.column(DISCOUNT).unwrap());
    let (tax, one) = (b.column(TAX).unwrap(), b.int(1).unwrap());
    let calc = |b: &mut Builder, op, l: NodeId, r: NodeId| b.arithmetic(op, l, r).unwrap();
    let reduced = calc(&mut b, Arithmetic::Subtract, one, discount);
    let taxed = calc(&mut b, Arithmetic::Add, one, tax);
    let net = calc(&mut b, Arithmetic::Multiply, price, reduced);
    let root = calc(&mut b, Arithmetic::Multiply, net, taxed);
    b.finish(root).unwrap()
}

/// `l_shipmode IN ('MAIL', 'SHIP')`
fn shipmode(layout: &RowLayout) -> Program {
    let mut b = Builder::new(layout);
    let column = b.column(SHIPMODE).unwrap();
    let list =
        ["MAIL", "SHIP"].map(|text| (Datum::String(text.into()), perigee_expr::Type::String));
    let root = b.in_list(column, &list).unwrap();
    b.finish(root).unwrap()
}

fn offset(layout: &RowLayout, column: u16) -> usize {
    match layout.columns[usize::from(column)].place {
        Place::Fixed { offset } => usize::from(offset),
        other => panic!("{other:?}"),
    }
}

/// Reads `N` bytes of a page.
#[inline(always)]
fn read<const N: usize>(page: &Page, at: usize) -> [u8; N] {
    debug_assert!(at + N <= PAGE_SIZE);
    // SAFETY: the callers add the offset of a column to that of a record of the page.
    unsafe { page.as_ptr().add(at).cast::<[u8; N]>().read_unaligned() }
}

/// Best time of five passes in nanoseconds per record, and what the last pass gave.
fn measure(pages: &[Page], mut run: impl FnMut(&Page, &[u16]) -> u64) -> (f64, u64) {
    let (mut best, mut result, mut records) = (f64::MAX, 0, 0);
    let mut offsets = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        (result, records) = (0, 0);
        for page in pages {
            offsets.clear();
            PageRef::new(page).unwrap().record_offsets(&mut offsets);
            records += offsets.len();
            result += run(page, &offsets);
        }
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    (best / records as f64, black_box(result))
}

fn filter_with(evaluator: &dyn Evaluator) -> impl FnMut(&Page, &[u16]) -> u64 {
    let (mut pass, mut failed) = (Vec::new(), Vec::new());
    move |page, records| {
        pass.clear();
        evaluator.filter(page, records, &mut pass, &mut failed);
        pass.iter().map(|at| u64::from(*at)).sum()
    }
}

fn evaluate_with(evaluator: &dyn Evaluator) -> impl FnMut(&Page, &[u16]) -> u64 {
    let mut out = Vector::new(evaluator.result_type());
    let mut failed = Vec::new();
    move |page, records| {
        out.clear();
        evaluator.evaluate(page, records, &mut out, &mut failed);
        match &out.lanes {
            perigee_expr::Lanes::I128(lanes) => lanes.iter().sum::<i128>() as u64,
            perigee_expr::Lanes::I64(lanes) => lanes.iter().sum::<i64>() as u64,
            lanes => lanes.len() as u64,
        }
    }
}

fn report(what: &str, native: Option<(f64, u64)>, jit: (f64, u64), interpreter: (f64, u64)) {
    assert_eq!(jit.1, interpreter.1, "results of {what}");
    println!("{what}\n  compiled     {:7.2} ns/record", jit.0);
    if let Some(native) = native {
        assert_eq!(jit.1, native.1, "results of {what}");
        println!(
            "  native       {:7.2} ns/record; compiled / native {:.2}",
            native.0,
            jit.0 / native.0
        );
    }
    println!(
        "  interpreter  {:7.2} ns/record, {:.1} times compiled",
        interpreter.0,
        interpreter.0 / jit.0
    );
}

fn compile_times(layout: &RowLayout, program: &Program) {
    let time = || {
        let start = Instant::now();
        black_box(JitEvaluator::compile(program, layout).unwrap());
        start.elapsed().as_micros()
    };
    let first = time();
    let mut others: Vec<u128> = (0..101).map(|_| time()).collect();
    others.sort_unstable();
    println!(
        "compiling Q6: first {first} us, then {} us (median)",
        others[50]
    );
}

fn main() {
    let mebibytes = std::env::args()
        .nth(1)
        .map_or(1024, |text| text.parse().unwrap());
    let layout = lineitem();
    compile_times(&layout, &q6(&layout));
    let pages = pages(&layout, mebibytes);
    let bytes = pages.len() * PAGE_SIZE;
    let records: usize = pages
        .iter()
        .map(|p| usize::from(PageRef::new(p).unwrap().slot_count()))
        .sum();
    println!(
        "{mebibytes} MiB, {:.1} records per page",
        records as f64 / pages.len() as f64
    );

    let mut bandwidth = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let sum = pages
            .iter()
            .flat_map(|page| page.as_chunks::<8>().0)
            .fold(0u64, |sum, word| {
                sum.wrapping_add(u64::from_ne_bytes(*word))
            });
        black_box(sum);
        bandwidth = bandwidth.min(start.elapsed().as_secs_f64());
    }
    let bandwidth = bytes as f64 / bandwidth;

    let (ship, discount) = (offset(&layout, SHIPDATE), offset(&layout, DISCOUNT));
    let (quantity, price, tax) = (
        offset(&layout, QUANTITY),
        offset(&layout, PRICE),
        offset(&layout, TAX),
    );
    let mut pass = Vec::new();
    let native = measure(&pages, |page, records| {
        pass.clear();
        for record in records {
            let at = usize::from(*record);
            let date = i32::from_le_bytes(read(page, at + ship));
            if date >= YEAR_1994.0 && date < YEAR_1994.1 {
                let discount = i64::from_le_bytes(read(page, at + discount));
                if (5..=7).contains(&discount)
                    && i64::from_le_bytes(read(page, at + quantity)) < 2400
                {
                    pass.push(*record);
                }
            }
        }
        pass.iter().map(|at| u64::from(*at)).sum()
    });
    let program = q6(&layout);
    let compiled = JitEvaluator::compile(&program, &layout).unwrap();
    let jit = measure(&pages, filter_with(&compiled));
    let interpreter = Interpreter::new(&program, &layout);
    let interpreted = measure(&pages[..pages.len() / 8], filter_with(&interpreter));
    let jit_part = measure(&pages[..pages.len() / 8], filter_with(&compiled));
    report("Q6 predicate", None, jit_part, interpreted);
    println!(
        "  all pages    {:7.2} ns/record; native {:.2}; compiled / native {:.2}",
        jit.0,
        native.0,
        jit.0 / native.0
    );
    assert_eq!(jit.1, native.1);
    let speed = bytes as f64 / (jit.0 * records as f64) * 1e9;
    println!(
        "  {:.1} GB/s of pages, memory reads {:.1} GB/s, ratio {:.2}",
        speed / 1e9,
        bandwidth / 1e9,
        speed / bandwidth
    );

    let some = &pages[..pages.len() / 8];
    let mut lanes: Vec<i128> = Vec::new();
    let native = measure(some, |page, records| {
        lanes.clear();
        lanes.extend(records.iter().map(|record| {
            let at = usize::from(*record);
            let field = |offset| i64::from_le_bytes(read(page, at + offset));
            let net = i128::from(field(price)) * i128::from(100 - field(discount));
            net * i128::from(100 + field(tax))
        }));
        lanes.iter().sum::<i128>() as u64
    });
    for (what, program, native) in [("Q1 charge", charge(&layout), Some(native))] {
        let compiled = JitEvaluator::compile(&program, &layout).unwrap();
        let interpreter = Interpreter::new(&program, &layout);
        let (jit, interpreted) = (
            measure(some, evaluate_with(&compiled)),
            measure(some, evaluate_with(&interpreter)),
        );
        report(what, native, jit, interpreted);
    }
    let program = shipmode(&layout);
    let compiled = JitEvaluator::compile(&program, &layout).unwrap();
    let interpreter = Interpreter::new(&program, &layout);
    let (jit, interpreted) = (
        measure(some, filter_with(&compiled)),
        measure(some, filter_with(&interpreter)),
    );
    report("l_shipmode IN ('MAIL', 'SHIP')", None, jit, interpreted);
}
