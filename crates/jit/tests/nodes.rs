//! Each operation over a table of every column type with the values at their ends: compiled code
//! and interpreter agree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use perigee_expr::limits::MAX_DEPTH;
use perigee_expr::{
    Arithmetic, Builder, Comparison, DateField, Evaluator, ExprError, Node, NodeId, Program, Type,
    Vector,
};
use perigee_jit::JitEvaluator;
use perigee_value::date::{MAX_DAY, MAX_MICROS, MIN_DAY, MIN_MICROS, ZERO_DAY, ZERO_MICROS};
use perigee_value::time::MAX_TIME;
use perigee_value::{Collation, ColumnType, Datum, RowLayout};
use support::{Page, assert_same};

const COLLATION: Collation = Collation::UTF8MB4_BIN;

/// Types of the columns and the values that each takes.
fn columns() -> Vec<(ColumnType, Vec<Datum>)> {
    let int = |bytes, unsigned| ColumnType::Int { bytes, unsigned };
    let ints = |bytes: u8, values: &[i64]| {
        let bits = 8 * u32::from(bytes) - 1;
        let (low, high) = ((-1i64) << bits, !((-1i64) << bits));
        values
            .iter()
            .chain(&[low, high])
            .map(|v| Datum::Int(*v))
            .collect::<Vec<_>>()
    };
    let uints = |bytes: u8, values: &[u64]| {
        let high = u64::MAX >> (64 - 8 * u32::from(bytes));
        values
            .iter()
            .chain(&[high])
            .map(|v| Datum::UInt(*v))
            .collect::<Vec<_>>()
    };
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    let decimals = |precision: u8, values: &[i128]| {
        let high = 10i128.pow(u32::from(precision)) - 1;
        values
            .iter()
            .chain(&[-high, high])
            .map(|v| Datum::Decimal(*v))
            .collect::<Vec<_>>()
    };
    let doubles = |values: &[f64]| values.iter().map(|v| Datum::Double(*v)).collect::<Vec<_>>();
    let strings = |values: &[&str]| {
        values
            .iter()
            .map(|v| Datum::String(v.as_bytes().to_vec()))
            .collect::<Vec<_>>()
    };
    vec![
        (int(1, false), ints(1, &[0, 1, -1])),
        (int(2, true), uints(2, &[0, 1, 300])),
        (int(3, false), ints(3, &[0, 5, -5])),
        (int(4, false), ints(4, &[0, 7, -7])),
        (int(4, true), uints(4, &[0, 7])),
        (int(8, false), ints(8, &[0, 1, -1, 1994])),
        (int(8, true), uints(8, &[0, 1, 1 << 63])),
        (decimal(5, 2), decimals(5, &[0, 1, -100, 250])),
        (decimal(15, 2), decimals(15, &[0, 5, 6, 7, 100, -2400])),
        (decimal(18, 0), decimals(18, &[0, 1, -1, 5])),
        (decimal(30, 4), decimals(30, &[0, 12_345, -5, 1 << 70])),
        (decimal(38, 10), decimals(38, &[0, 1, -1, 10i128.pow(19)])),
        (
            ColumnType::Double,
            doubles(&[0.0, -0.0, 1.5, -2.5, 1e300, -1e300, 9.3e18, 1e-7]),
        ),
        (
            ColumnType::Float,
            doubles(&[0.0, 0.5, -3.25, f64::from(f32::MAX)]),
        ),
        (
            ColumnType::Date,
            [0, 8766, 9131, -1, MIN_DAY, MAX_DAY, ZERO_DAY]
                .map(Datum::Date)
                .to_vec(),
        ),
        (
            ColumnType::DateTime { fsp: 6 },
            [
                0,
                -1,
                757_382_400_000_000,
                86_399_999_999,
                MIN_MICROS,
                MAX_MICROS,
                ZERO_MICROS,
            ]
            .map(Datum::DateTime)
            .to_vec(),
        ),
        (
            ColumnType::Varchar {
                chars: 60,
                collation: COLLATION,
            },
            strings(&[
                "",
                " ",
                "a",
                "a  ",
                "a\t",
                "AIR",
                "AIR REG",
                "REG AIR ",
                "PROMO BRUSHED TIN",
                "forest green lemon",
                "13-345-555-1234",
                "é€😀",
                "13é",
                "special new requests",
                "0123456789012345678901234567890123456789",
            ]),
        ),
        (
            ColumnType::Char {
                chars: 10,
                collation: COLLATION,
            },
            strings(&["", "AIR", "MAIL", "SHIP", "a\u{1}", "ÄÖ"]),
        ),
        (
            ColumnType::Timestamp { fsp: 0 },
            [
                1_000_000,
                757_382_400_000_000,
                i64::from(i32::MAX) * 1_000_000,
            ]
            .map(Datum::DateTime)
            .to_vec(),
        ),
        (
            ColumnType::Time { fsp: 6 },
            [0, -1, 1, 36_672_000_000, -MAX_TIME, MAX_TIME]
                .map(Datum::Time)
                .to_vec(),
        ),
        (
            ColumnType::Year,
            [0, 1901, 1994, 2155].map(Datum::UInt).to_vec(),
        ),
    ]
}

/// A table in which each column appears twice, not nullable and nullable; `key` decides whether
/// the fixed-width columns are key columns.
fn table(key: bool) -> (RowLayout, Page) {
    let types = columns();
    let fixed = |ty: ColumnType| ty.stored_width().is_some();
    let mut definition: Vec<(ColumnType, bool)> = Vec::new();
    for nullable in [false, true] {
        definition.extend(types.iter().map(|(ty, _)| (*ty, nullable)));
    }
    let layout = if key {
        definition.retain(|(ty, _)| fixed(*ty));
        RowLayout::secondary(&definition).unwrap()
    } else {
        RowLayout::clustered(&definition, &[0]).unwrap()
    };
    let values: Vec<&Vec<Datum>> = types
        .iter()
        .filter(|(ty, _)| !key || fixed(*ty))
        .map(|(_, v)| v)
        .collect();
    let count = values.len();
    let rows: Vec<Vec<Datum>> = (0..48)
        .map(|row: usize| {
            let cell = |column: usize| {
                let nullable = column >= count;
                let values = values[column % count];
                // Strides that are no common multiple bring all values together.
                let pick = row * (1 + column % 3) + column / 2;
                if nullable && pick % 5 == 3 {
                    return Datum::Null;
                }
                values[pick % values.len()].clone()
            };
            (0..2 * count).map(cell).collect()
        })
        .collect();
    let page = Page::new(&layout, &rows);
    (layout, page)
}

/// Builds a program, or not if the operation is not defined for the operands, and compares.
fn check(
    (layout, page): &(RowLayout, Page),
    build: impl FnOnce(&mut Builder) -> Result<NodeId, ExprError>,
) -> bool {
    let mut builder = Builder::new(layout);
    let Ok(root) = build(&mut builder) else {
        return false;
    };
    let Ok(program) = builder.finish(root) else {
        return false;
    };
    assert!(
        assert_same(&program, layout, page),
        "small programs compile"
    );
    true
}

#[test]
fn columns_of_every_type_and_place() {
    for table in [table(false), table(true)] {
        for column in 0..table.0.columns.len() as u16 {
            assert!(check(&table, |b| b.column(column)));
            assert!(check(&table, |b| {
                let column = b.column(column)?;
                b.is_null(column)
            }));
            // As a branch of CASE the column is compiled, not gathered.
            assert!(check(&table, |b| {
                let value = b.column(column)?;
                let never = b.is_null(value)?;
                b.case(&[(never, value)], Some(value))
            }));
        }
    }
}

#[test]
fn comparisons() {
    let ops = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
        Comparison::NullSafeEqual,
    ];
    let (table, types) = (table(false), columns());
    let count = types.len() as u16;
    let mut checked = 0;
    for left in 0..2 * count {
        for right in (left % 3..2 * count).step_by(3) {
            let op = ops[usize::from(left + right) % ops.len()];
            checked += usize::from(check(&table, |b| {
                let (left, right) = (b.column(left)?, b.column(right)?);
                b.compare(op, left, right)
            }));
        }
    }
    assert!(checked > 100, "{checked} pairs compare");
    for (column, (ty, values)) in types.iter().enumerate() {
        for (i, value) in values.iter().enumerate() {
            let op = ops[i % ops.len()];
            for column in [column as u16, column as u16 + count] {
                assert!(check(&table, |b| {
                    let constant = b.constant(value.clone(), Type::of(*ty))?;
                    let column = b.column(column)?;
                    if i % 2 == 0 {
                        b.compare(op, column, constant)
                    } else {
                        b.compare(op, constant, column)
                    }
                }));
            }
        }
    }
}

#[test]
fn strings_compare_with_constants() {
    let table = table(false);
    let texts = [
        "",
        "a",
        "AIR",
        "AIR REG",
        "AIR  ",
        "REG AIR",
        "PROMO BRUSHED TIN",
        "é€😀",
        "b",
        "0123456789012345678901234567890123456789",
        "01234567890123456789012345678901",
        "\t",
    ];
    for column in [16, 17, 37, 38] {
        for text in texts {
            for op in [
                Comparison::Equal,
                Comparison::NotEqual,
                Comparison::Less,
                Comparison::LessOrEqual,
                Comparison::Greater,
                Comparison::GreaterOrEqual,
            ] {
                assert!(check(&table, |b| {
                    let (column, text) = (b.column(column)?, b.string(text)?);
                    b.compare(op, column, text)
                }));
            }
        }
    }
}

#[test]
fn arithmetic() {
    let ops = [
        Arithmetic::Add,
        Arithmetic::Subtract,
        Arithmetic::Multiply,
        Arithmetic::Divide,
        Arithmetic::IntDivide,
        Arithmetic::Modulo,
    ];
    let table = table(false);
    let count = columns().len() as u16;
    let mut checked = 0;
    for left in 0..2 * count {
        for right in (left % 2..2 * count).step_by(2) {
            let op = ops[usize::from(left + right / 2) % ops.len()];
            checked += usize::from(check(&table, |b| {
                let (left, right) = (b.column(left)?, b.column(right)?);
                b.arithmetic(op, left, right)
            }));
        }
    }
    assert!(checked > 200, "{checked} pairs have arithmetic");
    for column in 0..2 * count {
        for op in ops {
            check(&table, |b| {
                let (column, five) = (b.column(column)?, b.int(-1)?);
                b.arithmetic(op, column, five)
            });
        }
        check(&table, |b| {
            let column = b.column(column)?;
            b.negate(column)
        });
        // The least number has a negative among the decimals, in more than 64 bits.
        check(&table, |b| {
            let column = b.column(column)?;
            let wide = b.cast(
                column,
                Type::Decimal {
                    precision: 34,
                    scale: 0,
                },
            )?;
            let negative = b.negate(wide)?;
            b.negate(negative)
        });
    }
}

#[test]
fn casts() {
    let table = table(false);
    let decimal = |precision, scale| Type::Decimal { precision, scale };
    let targets = [
        Type::Int,
        Type::UInt,
        Type::Double,
        Type::DateTime,
        Type::Time,
        decimal(3, 0),
        decimal(5, 2),
        decimal(18, 6),
        decimal(20, 0),
        decimal(38, 0),
        decimal(38, 30),
        decimal(30, 2),
    ];
    let mut checked = 0;
    for column in 0..2 * columns().len() as u16 {
        for ty in targets {
            checked += usize::from(check(&table, |b| {
                let column = b.column(column)?;
                b.cast(column, ty)
            }));
        }
        checked += usize::from(check(&table, |b| {
            let column = b.column(column)?;
            let null = b.is_null(column)?;
            b.cast(null, Type::Int)
        }));
    }
    assert!(checked > 200, "{checked} casts");
}

#[test]
fn lists() {
    let (table, types) = (table(false), columns());
    for (column, (ty, values)) in types.iter().enumerate() {
        for null in [false, true] {
            for take in [1, 3, values.len()] {
                for column in [column, column + types.len()] {
                    check(&table, |b| {
                        let typed = values.iter().take(take).map(|v| (v.clone(), Type::of(*ty)));
                        let mut list: Vec<(Datum, Type)> = typed.collect();
                        if null {
                            list.push((Datum::Null, Type::of(*ty)));
                        }
                        let column = b.column(column as u16)?;
                        b.in_list(column, &list)
                    });
                }
            }
        }
    }
    // Dense, sparse, many; more strings and doubles than are compared one by one.
    let ints = |values: Vec<i64>| {
        values
            .into_iter()
            .map(|v| (Datum::Int(v), Type::Int))
            .collect()
    };
    let lists: [Vec<(Datum, Type)>; 4] = [
        ints((-3..20).collect()),
        ints((-30..30).map(|v| v * 1000 + 7).collect()),
        ints((0..500).map(|v| v * v).collect()),
        ints(vec![i64::MIN, 0, i64::MAX]),
    ];
    for list in &lists {
        for column in [0, 2, 3, 5, 18, 21, 23, 7, 8, 10, 12, 6] {
            check(&table, |b| {
                let column = b.column(column)?;
                b.in_list(column, list)
            });
        }
    }
    let short: [&[&str]; 4] = [
        &["AIR", "MAIL"],
        &["a", "MAIL", "SHIP", "AIR"],
        &["AIR REG", "a", "REG AIR"],
        &["é", "13é", "b", "\u{1}", "AIR   ", "1234567", "12345"],
    ];
    for list in short {
        let list: Vec<(Datum, Type)> = list
            .iter()
            .map(|v| (Datum::String(v.as_bytes().to_vec()), Type::String))
            .collect();
        for column in [16, 17, 37, 38] {
            assert!(check(&table, |b| {
                let column = b.column(column)?;
                b.in_list(column, &list)
            }));
        }
    }
    let doubles: Vec<_> = (0..20)
        .map(|v| (Datum::Double(f64::from(v) / 2.0), Type::Double))
        .collect();
    let strings: Vec<_> = [
        "",
        "AIR",
        "AIR REG",
        "b",
        "c",
        "d",
        "e",
        "f",
        "forest green lemon",
        "é€😀",
    ]
    .map(|v| (Datum::String(v.as_bytes().to_vec()), Type::String))
    .to_vec();
    for (columns, list) in [([12, 13, 33], &doubles), ([16, 17, 37], &strings)] {
        for column in columns {
            assert!(check(&table, |b| {
                let column = b.column(column)?;
                b.in_list(column, list)
            }));
        }
    }
}

#[test]
fn like() {
    let table = table(false);
    let patterns = [
        "",
        "%",
        "_",
        "a",
        "a%",
        "%a",
        "AIR",
        "AIR%",
        "PROMO%",
        "%green%",
        "%special%requests%",
        "%TIN",
        "_IR%",
        "13%",
        "%€%",
        "\\%",
        "0123456789012345678901234567890123456789",
        "0123456789012345678901234567890123%",
        "%6789",
        "%%",
        "a%%",
        "REG AIR ",
    ];
    for column in [16, 17, 37, 38] {
        for pattern in patterns {
            assert!(check(&table, |b| {
                let column = b.column(column)?;
                b.like(column, pattern, '\\')
            }));
            assert!(check(&table, |b| {
                let column = b.column(column)?;
                let like = b.like(column, pattern, '|')?;
                b.not(like)
            }));
        }
    }
}

#[test]
fn substrings() {
    let table = table(false);
    let positions = [
        (1, Some(2)),
        (1, Some(0)),
        (2, Some(3)),
        (1, None),
        (3, None),
        (-2, Some(1)),
        (-3, None),
        (0, Some(5)),
        (1, Some(40)),
        (5, Some(-1)),
        (i64::MAX, Some(i64::MAX)),
        (31, Some(2)),
    ];
    for column in [16, 17, 37, 38] {
        for (start, length) in positions {
            assert!(check(&table, |b| {
                let column = b.column(column)?;
                b.substring(column, start, length)
            }));
            assert!(check(&table, |b| {
                let column = b.column(column)?;
                let part = b.substring(column, start, length)?;
                let (a, c) = (b.string("13")?, b.string("é")?);
                let (a, c) = (
                    b.compare(Comparison::Equal, part, a)?,
                    b.compare(Comparison::Less, part, c)?,
                );
                b.or(vec![a, c])
            }));
        }
    }
}

#[test]
fn dates() {
    let table = table(false);
    let fields = [
        DateField::Year,
        DateField::Quarter,
        DateField::Month,
        DateField::Day,
        DateField::Hour,
        DateField::Minute,
        DateField::Second,
    ];
    for column in [14, 15, 35, 36] {
        for field in fields {
            assert!(check(&table, |b| {
                let column = b.column(column)?;
                b.extract(field, column)
            }));
        }
    }
}

/// Every day of four centuries and a sample of all others: the inline calendar is the
/// interpreter's.
#[test]
fn calendar_of_all_years() {
    let layout = RowLayout::clustered(&[(ColumnType::Date, false)], &[0]).unwrap();
    let sample = (MIN_DAY..=MAX_DAY)
        .step_by(97)
        .chain(-146_097 / 8..146_097 / 8)
        .chain([ZERO_DAY]);
    let days: Vec<i32> = sample.collect();
    for days in days.chunks(2000) {
        let rows: Vec<Vec<Datum>> = days.iter().map(|day| vec![Datum::Date(*day)]).collect();
        let table = (layout.clone(), Page::new(&layout, &rows));
        for field in [
            DateField::Year,
            DateField::Quarter,
            DateField::Month,
            DateField::Day,
        ] {
            assert!(check(&table, |b| {
                let column = b.column(0)?;
                b.extract(field, column)
            }));
        }
    }
}

/// Three-valued logic: every combination of true, false, NULL and error in AND, OR, NOT, IS NULL
/// and CASE.
#[test]
fn logic() {
    let int = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let layout =
        RowLayout::clustered(&[(int, false), (int, true), (int, true), (int, true)], &[0]).unwrap();
    // 0 false, 1 true, NULL, and i64::MAX whose successor is an error.
    let values = [
        Datum::Int(0),
        Datum::Int(1),
        Datum::Null,
        Datum::Int(i64::MAX),
    ];
    let mut rows = Vec::new();
    for row in 0..64usize {
        let cell = |shift: usize| values[row >> shift & 3].clone();
        rows.push(vec![Datum::Int(row as i64), cell(0), cell(2), cell(4)]);
    }
    let table = (layout.clone(), Page::new(&layout, &rows));
    // True for 1, false for 0, NULL for NULL, error for the greatest number.
    let truth = |b: &mut Builder, column| {
        let (column, one) = (b.column(column)?, b.int(1)?);
        let next = b.arithmetic(Arithmetic::Add, column, one)?;
        b.compare(Comparison::Greater, next, one)
    };
    // The same without error.
    let calm = |b: &mut Builder, column| {
        let (column, zero) = (b.column(column)?, b.int(0)?);
        b.compare(Comparison::Greater, column, zero)
    };
    for shape in 0..64 {
        for root in 0..6 {
            assert!(check(&table, |b| {
                let operand = |b: &mut Builder, column: u16, bit: u32| {
                    if shape >> bit & 1 == 1 {
                        truth(b, column)
                    } else {
                        calm(b, column)
                    }
                };
                let (x, y, z) = (operand(b, 1, 0)?, operand(b, 2, 1)?, operand(b, 3, 2)?);
                let y = if shape & 8 != 0 { b.not(y)? } else { y };
                let inner = if shape & 16 != 0 {
                    b.and(vec![x, y])?
                } else {
                    b.or(vec![x, y])?
                };
                let inner = if shape & 32 != 0 {
                    b.not(inner)?
                } else {
                    inner
                };
                match root {
                    0 => b.and(vec![inner, z]),
                    1 => b.or(vec![inner, z]),
                    2 => b.and(vec![z, inner, x]),
                    3 => {
                        let or = b.or(vec![z, inner, x])?;
                        b.is_null(or)
                    }
                    4 => b.case(&[(inner, z), (y, x)], None),
                    _ => {
                        let (one, two) = (b.int(1)?, b.int(2)?);
                        let column = b.column(1)?;
                        b.case(&[(inner, one), (z, column)], Some(two))
                    }
                }
            }));
        }
    }
}

/// BETWEEN and its relatives become one comparison: empty, half open and extreme ranges.
#[test]
fn ranges() {
    let table = table(false);
    let ends = [i64::MIN, -5, 0, 1, 300, i64::MAX];
    let ops = [
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];
    for column in [0, 3, 5, 6, 8, 18, 23, 26] {
        for (i, low) in ends.into_iter().enumerate() {
            for (j, high) in ends.into_iter().enumerate() {
                check(&table, |b| {
                    let column = b.column(column)?;
                    let (low, high) = (b.int(low)?, b.int(high)?);
                    let first = b.compare(ops[i % 4], column, low)?;
                    let second = b.compare(ops[j % 4], high, column)?;
                    b.and(vec![first, second])
                });
            }
        }
    }
}

/// An operand that is NULL does not hide the error of another one, nor a spurious one of its own.
#[test]
fn errors_and_nulls() {
    let int = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let layout = RowLayout::clustered(&[(int, false), (int, true)], &[0]).unwrap();
    let rows = vec![
        vec![Datum::Int(i64::MAX), Datum::Null],
        vec![Datum::Int(1), Datum::Null],
        vec![Datum::Int(i64::MAX - 1), Datum::Int(i64::MAX)],
    ];
    let page = Page::new(&layout, &rows);
    let mut b = Builder::new(&layout);
    let (a, n, one) = (
        b.column(0).unwrap(),
        b.column(1).unwrap(),
        b.int(1).unwrap(),
    );
    let a = b.arithmetic(Arithmetic::Add, a, one).unwrap();
    let n = b.arithmetic(Arithmetic::Add, n, one).unwrap();
    let root = b.compare(Comparison::Less, n, a).unwrap();
    let program = b.finish(root).unwrap();
    assert!(assert_same(&program, &layout, &page));
    let jit = JitEvaluator::compile(&program, &layout).unwrap();
    let (mut out, mut failed) = (Vector::new(Type::Bool), Vec::new());
    jit.evaluate(&page.bytes, &page.records, &mut out, &mut failed);
    assert_eq!((failed, out.valid), (vec![0, 2], Some(vec![0, 0, 0])));
}

/// The deepest programs that the validator accepts compile on a thread's default stack.
#[test]
fn deep_programs() {
    let int = ColumnType::Int {
        bytes: 4,
        unsigned: false,
    };
    let layout = RowLayout::clustered(&[(int, false), (int, true)], &[0]).unwrap();
    let row = |v: i64| {
        vec![
            Datum::Int(v),
            if v % 2 == 0 {
                Datum::Null
            } else {
                Datum::Int(v)
            },
        ]
    };
    let page = Page::new(&layout, &[row(1), row(2), row(3)]);
    let leaves = [
        Node::Column {
            index: 1,
            ty: Type::Int,
        },
        Node::Constant {
            value: Datum::Int(1),
            ty: Type::Int,
        },
        Node::Compare {
            op: Comparison::Equal,
            left: NodeId(0),
            right: NodeId(1),
        },
    ];
    let deep = |next: &dyn Fn(usize, NodeId) -> Node| {
        let mut nodes = leaves.to_vec();
        while nodes.len() < MAX_DEPTH + 1 {
            let last = NodeId(nodes.len() as u16 - 1);
            nodes.push(next(nodes.len(), last));
        }
        Program { nodes }
    };
    let case = |when, then, ty| Node::Case {
        branches: vec![(when, then)],
        otherwise: None,
        ty,
    };
    let conditions = deep(&|at, last| match at % 4 {
        0 => Node::And(vec![last, NodeId(2)]),
        1 => Node::Or(vec![NodeId(2), last]),
        2 => Node::Not(last),
        _ => case(last, NodeId(2), Type::Bool),
    });
    let values = deep(&|at, last| {
        if at == 3 {
            return Node::Cast {
                operand: last,
                ty: Type::Int,
            };
        }
        if at % 2 == 0 {
            let (op, left) = (Arithmetic::Subtract, NodeId(0));
            return Node::Arithmetic {
                op,
                left,
                right: last,
                ty: Type::Int,
            };
        }
        case(NodeId(2), last, Type::Int)
    });
    for program in [conditions, values] {
        program.check(&layout).unwrap();
        assert!(assert_same(&program, &layout, &page));
        let mut deeper = program;
        let root = deeper.root();
        deeper.nodes.push(Node::IsNull(root));
        assert!(deeper.check(&layout).is_err(), "these are the deepest");
    }
}
