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

/// Prints the times in nanoseconds per record after checking that all results agree.
fn report(what: &str, compiled: (f64, u64), native: (f64, u64), interpreted: (f64, u64)) {
    assert_eq!(compiled.1, interpreted.1, "results of {what}");
    println!("{what}\n  compiled     {:7.2} ns/record", compiled.0);
    assert_eq!(compiled.1, native.1, "results of {what}");
    let ratio = compiled.0 / native.0;
    println!(
        "  native       {:7.2} ns/record, compiled / native {ratio:.2}",
        native.0
    );
    let ratio = interpreted.0 / compiled.0;
    println!(
        "  interpreter  {:7.2} ns/record, interpreter / compiled {ratio:.1}",
        interpreted.0
    );
}

fn compile_times(what: &str, layout: &RowLayout, program: &Program) {
    let time = || {
        let start = Instant::now();
        black_box(JitEvaluator::compile(program, layout).unwrap());
        start.elapsed().as_micros()
    };
    let first = time();
    let mut others: Vec<u128> = (0..101).map(|_| time()).collect();
    others.sort_unstable();
    println!(
        "compiling {what}: first {first} us, then {} us (median)",
        others[50]
    );
}

/// Bytes per second of a sum over all pages.
fn read_bandwidth(pages: &[Page]) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let words = pages.iter().flat_map(|page| page.as_chunks::<8>().0);
        black_box(words.fold(0u64, |sum, word| {
            sum.wrapping_add(u64::from_ne_bytes(*word))
        }));
        best = best.min(start.elapsed().as_secs_f64());
    }
    size_of_val(pages) as f64 / best
}

/// The Q6 predicate as one writes it for this layout.
fn native_q6(layout: &RowLayout) -> impl FnMut(&Page, &[u16]) -> u64 {
    let (ship, discount) = (offset(layout, SHIPDATE), offset(layout, DISCOUNT));
    let quantity = offset(layout, QUANTITY);
    let mut pass = Vec::new();
    move |page, records| {
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
    }
}

/// The charge as one writes it for this layout and data.
fn native_charge(layout: &RowLayout) -> impl FnMut(&Page, &[u16]) -> u64 {
    let (price, discount) = (offset(layout, PRICE), offset(layout, DISCOUNT));
    let tax = offset(layout, TAX);
    let mut lanes: Vec<i128> = Vec::new();
    move |page, records| {
        lanes.clear();
        lanes.extend(records.iter().map(|record| {
            let at = usize::from(*record);
            let field = |offset| i64::from_le_bytes(read(page, at + offset));
            let net = i128::from(field(price)) * i128::from(100 - field(discount));
            net * i128::from(100 + field(tax))
        }));
        lanes.iter().sum::<i128>() as u64
    }
}

/// The list of ship modes as one writes it for this layout.
fn native_shipmode(layout: &RowLayout) -> impl FnMut(&Page, &[u16]) -> u64 {
    let Place::Var { item } = layout.columns[usize::from(SHIPMODE)].place else {
        panic!("a string is a variable-length item");
    };
    let end = usize::from(layout.shape.fixed_len) + 2 * usize::from(item);
    let mut pass = Vec::new();
    move |page, records| {
        pass.clear();
        for record in records {
            let at = usize::from(*record);
            let field = |offset| usize::from(u16::from_le_bytes(read(page, at + offset)));
            let text = &page[at + field(end - 2)..at + field(end)];
            if text == b"MAIL" || text == b"SHIP" {
                pass.push(*record);
            }
        }
        pass.iter().map(|at| u64::from(*at)).sum()
    }
}

fn main() {
    let mebibytes = std::env::args()
        .nth(1)
        .map_or(1024, |text| text.parse().unwrap());
    let layout = lineitem();
    let (q6, charge, shipmode) = (q6(&layout), charge(&layout), shipmode(&layout));
    compile_times("Q6", &layout, &q6);
    compile_times("the charge", &layout, &charge);
    let pages = pages(&layout, mebibytes);
    let slots = pages
        .iter()
        .map(|page| usize::from(PageRef::new(page).unwrap().slot_count()));
    let per_page = slots.sum::<usize>() as f64 / pages.len() as f64;
    println!("{mebibytes} MiB, {per_page:.1} records per page");

    let bandwidth = read_bandwidth(&pages);
    let compiled = JitEvaluator::compile(&q6, &layout).unwrap();
    let native = measure(&pages, native_q6(&layout));
    let jit = measure(&pages, filter_with(&compiled));
    let interpreted = measure(&pages, filter_with(&Interpreter::new(&q6, &layout)));
    report("Q6 predicate", jit, native, interpreted);
    let speed = PAGE_SIZE as f64 / (jit.0 * per_page) * 1e9;
    println!(
        "  {:.1} GB/s of pages, memory reads {:.1} GB/s, ratio {:.2}",
        speed / 1e9,
        bandwidth / 1e9,
        speed / bandwidth
    );

    let compiled = JitEvaluator::compile(&charge, &layout).unwrap();
    let native = measure(&pages, native_charge(&layout));
    let jit = measure(&pages, evaluate_with(&compiled));
    let interpreted = measure(&pages, evaluate_with(&Interpreter::new(&charge, &layout)));
    report("Q1 charge", jit, native, interpreted);

    let compiled = JitEvaluator::compile(&shipmode, &layout).unwrap();
    let native = measure(&pages, native_shipmode(&layout));
    let jit = measure(&pages, filter_with(&compiled));
    let interpreted = measure(&pages, filter_with(&Interpreter::new(&shipmode, &layout)));
    report("l_shipmode IN ('MAIL', 'SHIP')", jit, native, interpreted);
}
