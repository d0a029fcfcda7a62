//! Pages, records and a naive model to test against.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by test binaries, of which none uses everything"
)]

pub mod join;

use std::num::NonZeroU64;
use std::ops::Bound;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use bytes::Bytes;
use perigee_expr::arbitrary::Generator;
use perigee_expr::{AggregateFunction, Type};
use perigee_ndp::{
    Aggregate, Backend, Descriptor, Execution, Finished, GroupMethod, Grouping, NdpBatch, NdpError,
    Scanner,
};
use perigee_page::{PageKind, PageMut, PageRef, RecordFlags, RecordHeader};
use perigee_types::{DbId, IndexId, PAGE_SIZE, PageId, RollPtr, TrxId};
use perigee_value::time::MAX_TIME;
use perigee_value::{Collation, ColumnType, Datum, RowLayout, Units, Wide, encode_row};

pub const DB: DbId = DbId(7);
pub const INDEX: IndexId = IndexId(11);

pub const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
pub const BIGINT: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};

/// A small generator of pseudo-random numbers: tests name the seed, so they can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// A record with what the test knows of it.
#[derive(Clone, Debug)]
pub struct Row {
    pub values: Vec<Datum>,
    pub trx: u64,
    pub deleted: bool,
}

pub fn encode(layout: &RowLayout, row: &Row) -> Vec<u8> {
    let flags = RecordFlags(if row.deleted { RecordFlags::DELETED } else { 0 });
    let header = RecordHeader {
        flags,
        trx: TrxId(row.trx),
        roll: RollPtr(0),
    };
    let mut out = Vec::new();
    encode_row(layout, &row.values, header, &mut out).unwrap();
    out
}

pub type PageBytes = Box<[u8; PAGE_SIZE]>;

/// A leaf page with these records, which must be in key order.
pub fn page(layout: &RowLayout, id: u64, max_trx: u64, records: &[Vec<u8>]) -> PageBytes {
    let mut bytes = Box::new([0; PAGE_SIZE]);
    let mut page = PageMut::new(&mut bytes);
    let kind = if layout.is_clustered() {
        PageKind::Clustered
    } else {
        PageKind::Secondary
    };
    let none = PageId(0);
    page.format(
        PageId(id),
        (kind, 0),
        (DB, INDEX),
        layout.shape,
        (none, none),
    )
    .unwrap();
    if !records.is_empty() {
        page.insert(0, &records.concat()).unwrap();
    }
    page.raise_max_trx(TrxId(max_trx));
    page.seal();
    let page = PageRef::new(&*bytes).unwrap();
    page.verify().unwrap();
    bytes
}

pub fn descriptor(layout: &RowLayout, watermark: u64) -> Descriptor {
    Descriptor::new(DB, INDEX, layout.clone(), TrxId(watermark))
}

/// A random descriptor over a random layout.
pub fn random_descriptor(seed: u64) -> Descriptor {
    let mut g = Generator::new(seed);
    let r = &mut Random(seed);
    let layout = g.layout();
    let mut d = descriptor(&layout, r.next() & TrxId::MAX.0);
    d.reverse = r.chance(50);
    d.range.lower = Bound::Included(r.next().to_be_bytes()[..r.below(8)].to_vec());
    d.range.upper = Bound::Excluded(r.next().to_be_bytes()[..r.below(8)].to_vec());
    d.projection = (0..r.below(9))
        .map(|_| r.below(layout.columns.len()) as u16)
        .collect();
    d.predicate = r.chance(70).then(|| g.predicate(&layout));
    if r.chance(50) {
        let counted = (AggregateFunction::Count, Some(g.program(&layout)));
        let summed = (
            AggregateFunction::Sum,
            Some(g.program_of(&layout, Type::Int)),
        );
        let least = (AggregateFunction::Min, Some(g.program(&layout)));
        let functions = vec![(AggregateFunction::CountAll, None), counted, summed, least];
        let group_by: Vec<_> = (0..r.below(3)).map(|_| g.program(&layout)).collect();
        if r.chance(50) && !group_by.is_empty() {
            d.grouping = Grouping {
                method: *r.pick(&[GroupMethod::Hash, GroupMethod::Sort]),
                memory: NonZeroU64::new(r.next() >> r.below(64)),
            };
        }
        d.aggregate = Some(Aggregate {
            group_by,
            functions,
        });
    } else if r.chance(50) {
        join_randomly(&mut d, r, &mut g);
    }
    d
}

/// Lets a descriptor without an aggregate join its records.
fn join_randomly(d: &mut Descriptor, r: &mut Random, g: &mut Generator) {
    let scanned: Vec<_> = (0..3)
        .map(|_| {
            let types = d.layout.columns.iter().map(|column| column.ty);
            types.map(|ty| random_value(r, ty, false)).collect()
        })
        .collect();
    let mut join = join::RandomJoin::new(r, &d.layout, &scanned).join;
    let rows = join.layout(&d.layout).unwrap();
    join.condition = r.chance(50).then(|| g.predicate(&rows));
    d.projection = (0..r.below(9))
        .map(|_| r.below(rows.columns.len()) as u16)
        .collect();
    d.join = Some(join);
}

pub fn scanner(descriptor: Descriptor, backend: Backend) -> Arc<Scanner> {
    Arc::new(Scanner::new(descriptor, backend).unwrap())
}

/// Runs pages in one execution, as a store does: the batch goes over the wire.
pub fn over_the_wire(execution: &mut Execution) -> NdpBatch {
    NdpBatch::decode(execution.take().encode()).unwrap()
}

/// Finishes a batch, resolving each ambiguous record by `resolve`.
pub fn finish(
    scanner: &Arc<Scanner>,
    batch: NdpBatch,
    resolve: impl Fn(&[u8]) -> Option<Bytes>,
) -> Result<Finished, NdpError> {
    let resolved: Vec<_> = batch.ambiguous.iter().map(|a| resolve(&a.record)).collect();
    scanner.finish(batch, &resolved)
}

/// The value of one cell of an Arrow array.
pub fn cell(array: &ArrayRef, row: usize) -> Datum {
    if array.is_null(row) {
        return Datum::Null;
    }
    match array.data_type() {
        DataType::Boolean => Datum::Bool(array.as_boolean().value(row)),
        DataType::Int8 => Datum::Int(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Datum::Int(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Datum::Int(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Datum::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Datum::UInt(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Datum::UInt(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Datum::UInt(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Datum::UInt(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => Datum::Double(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Datum::Double(array.as_primitive::<Float64Type>().value(row)),
        DataType::Date32 => Datum::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            Datum::DateTime(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            Datum::Time(array.as_primitive::<DurationMicrosecondType>().value(row))
        }
        DataType::Decimal128(..) => {
            Datum::Decimal(array.as_primitive::<Decimal128Type>().value(row))
        }
        DataType::Decimal256(..) => {
            let units = array.as_primitive::<Decimal256Type>().value(row);
            Datum::Wide(Wide::from_le_bytes(units.to_le_bytes()).expect("65 digits"))
        }
        DataType::Utf8View => Datum::String(array.as_string_view().value(row).into()),
        DataType::BinaryView => Datum::String(array.as_binary_view().value(row).into()),
        other => panic!("no test column is {other}"),
    }
}

/// All rows of a batch.
pub fn rows(batch: &RecordBatch) -> Vec<Vec<Datum>> {
    (0..batch.num_rows())
        .map(|row| {
            batch
                .columns()
                .iter()
                .map(|column| cell(column, row))
                .collect()
        })
        .collect()
}

const MICROS_PER_DAY: i64 = 86_400_000_000;
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;

/// A column type that programs can use, or, rarely, one that they cannot.
pub fn random_type(r: &mut Random) -> ColumnType {
    let string = |r: &mut Random, chars, binary: bool| {
        let collation = if binary {
            Collation::BINARY
        } else {
            *r.pick(&[
                Collation::UTF8MB4_BIN,
                Collation::UTF8MB4_GENERAL_CI,
                Collation::UTF8MB4_UNICODE_520_CI,
                Collation::UTF8MB4_0900_AI_CI,
                Collation::UTF8MB4_0900_AS_CS,
            ])
        };
        if !binary && r.chance(50) {
            ColumnType::Char { chars, collation }
        } else {
            ColumnType::Varchar { chars, collation }
        }
    };
    match r.below(17) {
        0 => ColumnType::Int {
            bytes: *r.pick(&[1, 2, 3]),
            unsigned: false,
        },
        1 => ColumnType::Int {
            bytes: 4,
            unsigned: false,
        },
        2 => ColumnType::Int {
            bytes: 8,
            unsigned: false,
        },
        3 => ColumnType::Int {
            bytes: *r.pick(&[1, 2, 3, 4, 8]),
            unsigned: true,
        },
        4 => ColumnType::Decimal {
            precision: 5,
            scale: 2,
        },
        5 => ColumnType::Decimal {
            precision: 15,
            scale: 2,
        },
        6 => ColumnType::Decimal {
            precision: *r.pick(&[19, 30, 38]),
            scale: 4,
        },
        7 => ColumnType::Float,
        8 => ColumnType::Double,
        9 => ColumnType::Date,
        10 => ColumnType::DateTime { fsp: 6 },
        11 => ColumnType::Time { fsp: 6 },
        12 => *r.pick(&[ColumnType::Timestamp { fsp: 6 }, ColumnType::Year]),
        13 => string(r, 1, false),
        14 => string(r, 20, false),
        15 => ColumnType::Decimal {
            precision: *r.pick(&[39, 65]),
            scale: 10,
        },
        _ => {
            let binary = r.chance(30);
            string(r, 8, binary)
        }
    }
}

/// A value of a column: from a small domain, so that values repeat, or an extreme one.
pub fn random_value(r: &mut Random, ty: ColumnType, small: bool) -> Datum {
    let small = small || r.chance(60);
    let few = r.below(4) as i64;
    let any = r.next();
    match ty {
        ColumnType::Int { unsigned: true, .. } if small => Datum::UInt(few as u64),
        ColumnType::Int {
            bytes,
            unsigned: true,
        } => Datum::UInt(any >> (64 - 8 * u32::from(bytes))),
        ColumnType::Bit { bits } => {
            let any = if small { few as u64 } else { any };
            Datum::UInt(any & perigee_value::bits::greatest(bits))
        }
        ColumnType::Int { .. } if small => Datum::Int(few - 1),
        ColumnType::Int { bytes, .. } => {
            let bits = 8 * u32::from(bytes);
            let extremes = [-1_i64 << (bits - 1), !(-1_i64 << (bits - 1))];
            if r.chance(20) {
                Datum::Int(*r.pick(&extremes))
            } else {
                Datum::Int(any as i64 >> (64 - bits))
            }
        }
        ColumnType::Decimal { .. } if ty.is_wide() => {
            let units = if small { few - 1 } else { any as i64 };
            let long = Wide::from(i128::from(units)).units();
            let power = Units::pow10(if small { 0 } else { 20 }).expect("short");
            let long = long.times(power, 0).expect("39 digits");
            Datum::Wide(long.to_wide(39).expect("39 digits"))
        }
        ColumnType::Decimal { .. } if small => Datum::Decimal(few.into()),
        ColumnType::Decimal { precision, .. } => {
            let limit = 10_i128.pow(precision.into());
            let wide = i128::from(any as i64) << 64 | i128::from(r.next());
            Datum::Decimal(if r.chance(20) {
                limit - 1
            } else {
                wide % limit
            })
        }
        ColumnType::Float | ColumnType::Double if small => Datum::Double(few as f64 / 2.0),
        ColumnType::Float => Datum::Double(f64::from(any as i32 as f32 * 1e10)),
        ColumnType::Double => Datum::Double(any as i64 as f64 * 1e100),
        ColumnType::Date if small => Datum::Date(8000 + few as i32),
        ColumnType::Date => {
            Datum::Date((FIRST_DAY + (any % (LAST_DAY - FIRST_DAY + 1) as u64) as i64) as i32)
        }
        ColumnType::DateTime { .. } if small => Datum::DateTime(few * MICROS_PER_DAY),
        ColumnType::DateTime { .. } => {
            let span = (LAST_DAY - FIRST_DAY + 1) * MICROS_PER_DAY;
            Datum::DateTime(FIRST_DAY * MICROS_PER_DAY + (any % span as u64) as i64)
        }
        ColumnType::Timestamp { .. } => {
            let seconds = if small {
                1 + few as u64
            } else {
                1 + any % ((1 << 31) - 1)
            };
            Datum::DateTime(seconds as i64 * 1_000_000)
        }
        ColumnType::Time { .. } if small => Datum::Time((few - 1) * 1_000_000),
        ColumnType::Time { .. } => Datum::Time(any as i64 % (MAX_TIME + 1)),
        ColumnType::Year if small => Datum::UInt([0, 1994, 1995, 2155][few as usize]),
        ColumnType::Year => Datum::UInt(1901 + any % 255),
        ColumnType::Long { .. } | ColumnType::Json => {
            Datum::String(any.to_le_bytes()[..few as usize].to_vec())
        }
        ColumnType::Char { chars, collation } | ColumnType::Varchar { chars, collation } => {
            // Binary columns count bytes.
            let binary = collation == Collation::BINARY;
            let letters = if binary {
                ['a', 'b', '\0', 'c', '\t']
            } else {
                ['a', 'A', 'é', '😀', '\t']
            };
            let len = if small {
                r.below(2)
            } else {
                r.below(usize::from(chars) + 1)
            };
            let len = len.min(chars.into());
            let mut text: String = (0..len).map(|_| *r.pick(&letters)).collect();
            let varchar = matches!(ty, ColumnType::Varchar { .. });
            if varchar && len < chars.into() && r.chance(30) {
                text.push(' ');
            }
            Datum::String(text.into_bytes())
        }
    }
}
