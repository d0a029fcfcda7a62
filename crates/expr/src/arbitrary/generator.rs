//! The generator's state and what it makes on top.

use perigee_page::{RecordFlags, RecordHeader};
use perigee_types::{RollPtr, TrxId};
use perigee_value::{Collation, ColumnType, Datum, RowLayout, encode_row};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{Program, Type};

use super::program::ProgramGenerator;
use super::values;

/// What random programs may contain.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most nodes of a program, approximately.
    pub nodes: usize,
    /// Leave out what MariaDB computes differently by intent or cannot hold in a literal
    /// (`docs/expressions.md` lists the differences).
    pub as_mariadb: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 24,
            as_mariadb: false,
        }
    }
}

/// Makes random things; the same seed makes the same things in the same order.
#[derive(Debug)]
pub struct Generator {
    pub(super) rng: StdRng,
    options: Options,
}

impl Generator {
    /// A generator.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_options(seed, Options::default())
    }

    /// A generator with options.
    #[must_use]
    pub fn with_options(seed: u64, options: Options) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            options,
        }
    }

    /// A random type that programs can use.
    pub fn column_type(&mut self) -> ColumnType {
        let as_mariadb = self.options.as_mariadb;
        let rng = &mut self.rng;
        let collation = match rng.random_bool(0.5) {
            true => Collation::UTF8MB4_BIN,
            false => values::collation(rng, as_mariadb),
        };
        match rng.random_range(0..13) {
            0..3 => ColumnType::Int {
                bytes: [1, 2, 3, 4, 8][rng.random_range(0..5)],
                unsigned: rng.random_bool(0.3),
            },
            3..6 => {
                let precision = match rng.random_range(0..4) {
                    0 => rng.random_range(1..=9),
                    1 => 15,
                    2 => rng.random_range(10..=18),
                    _ => rng.random_range(19..=38),
                };
                let scale = rng.random_range(0..=precision.min(6));
                ColumnType::Decimal { precision, scale }
            }
            // What MariaDB shows of a BIT alone is its bytes.
            6 if !as_mariadb && rng.random_bool(0.3) => ColumnType::Bit {
                bits: rng.random_range(1..=64),
            },
            6 => [ColumnType::Float, ColumnType::Double][rng.random_range(0..2)],
            7 | 8 => ColumnType::Date,
            9 => ColumnType::DateTime {
                fsp: [0, 3, 6][rng.random_range(0..3)],
            },
            10 => match rng.random_range(0..3) {
                0 => ColumnType::Timestamp {
                    fsp: [0, 3, 6][rng.random_range(0..3)],
                },
                // What a YEAR is compared with becomes one there: 69 is 2069.
                1 if !as_mariadb => ColumnType::Year,
                _ => ColumnType::Time {
                    fsp: [0, 3, 6][rng.random_range(0..3)],
                },
            },
            11 => ColumnType::Char {
                chars: rng.random_range(1..12),
                collation,
            },
            _ => ColumnType::Varchar {
                chars: rng.random_range(1..30),
                collation,
            },
        }
    }

    /// A random layout, clustered or secondary, of one to nine columns.
    pub fn layout(&mut self) -> RowLayout {
        let count = self.rng.random_range(1..10);
        let mut columns: Vec<(ColumnType, bool)> = (0..count)
            .map(|_| (self.column_type(), self.rng.random_bool(0.5)))
            .collect();
        let layout = if self.rng.random_bool(0.75) {
            let parts = self.rng.random_range(1..=count.min(3));
            let mut key: Vec<u16> = (0..count as u16).collect();
            for i in 0..parts {
                key.swap(i, self.rng.random_range(i..count));
            }
            key.truncate(parts);
            for column in &key {
                columns[usize::from(*column)].1 = false;
            }
            RowLayout::clustered(&columns, &key)
        } else {
            RowLayout::secondary(&columns)
        };
        layout.expect("few columns with valid types make a layout")
    }

    /// A random value of a type, not NULL: often small, sometimes at the edge of the type.
    pub fn value(&mut self, ty: ColumnType) -> Datum {
        values::column_value(&mut self.rng, ty)
    }

    /// A random row of a layout.
    pub fn row(&mut self, layout: &RowLayout) -> Vec<Datum> {
        let columns = layout.columns.iter();
        let values = columns.map(|column| {
            if column.null_bit.is_some() && self.rng.random_bool(0.25) {
                Datum::Null
            } else {
                self.value(column.ty)
            }
        });
        values.collect()
    }

    /// A random record header: transaction ids are small.
    pub fn header(&mut self) -> RecordHeader {
        RecordHeader {
            flags: RecordFlags(u8::from(self.rng.random_bool(0.1))),
            trx: TrxId(self.rng.random_range(0..100)),
            roll: RollPtr(self.rng.random_range(0..1000)),
        }
    }

    /// A random record of a layout.
    pub fn record(&mut self, layout: &RowLayout) -> Vec<u8> {
        let (row, header) = (self.row(layout), self.header());
        let mut record = Vec::new();
        encode_row(layout, &row, header, &mut record).expect("random values fit their types");
        record
    }

    /// A random program of any type over records of a layout.
    pub fn program(&mut self, layout: &RowLayout) -> Program {
        let ty = match self.rng.random_range(0..8) {
            0 | 1 => Type::Bool,
            2 => Type::Int,
            3 => Type::UInt,
            4 => self.decimal_type(),
            5 => [Type::Date, Type::DateTime, Type::Time][self.rng.random_range(0..3)],
            6 if self.rng.random_bool(0.5) => Type::String,
            6 => Type::Collated(values::collation(&mut self.rng, self.options.as_mariadb)),
            _ => Type::Double,
        };
        self.program_of(layout, ty)
    }

    /// A random predicate.
    pub fn predicate(&mut self, layout: &RowLayout) -> Program {
        self.program_of(layout, Type::Bool)
    }

    /// A random program of a type.
    pub fn program_of(&mut self, layout: &RowLayout, ty: Type) -> Program {
        ProgramGenerator::new(&mut self.rng, layout, self.options).generate(ty)
    }

    /// A random decimal type.
    pub fn decimal_type(&mut self) -> Type {
        values::decimal_type(&mut self.rng)
    }
}
