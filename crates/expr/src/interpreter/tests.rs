//! Tests of the interpreter.

#![allow(clippy::unwrap_used, reason = "tests")]
use perigee_value::{ColumnType, Datum};

use super::*;
use crate::{Arithmetic, Builder, Comparison, DateField, Lanes};

const D2: Type = Type::Decimal {
    precision: 5,
    scale: 2,
};

/// Evaluates what `build` makes over columns that hold `values`.
fn eval(
    values: &[(Datum, Type)],
    build: impl FnOnce(&mut Builder, &[NodeId]) -> NodeId,
) -> Result<Datum, EvalError> {
    let types: Vec<Type> = values.iter().map(|(_, ty)| *ty).collect();
    let mut builder = Builder::over_values(&types);
    let columns: Vec<NodeId> = (0..values.len() as u16)
        .map(|index| builder.column(index).unwrap())
        .collect();
    let root = build(&mut builder, &columns);
    let program = builder.finish(root).unwrap();
    let row: Vec<ValueRef<'_>> = values.iter().map(|(value, _)| value.as_ref()).collect();
    Interpreter::over_values(&program, &types)
        .row(&row)
        .map(ValueRef::to_datum)
}

fn arithmetic(
    op: Arithmetic,
    left: (Datum, Type),
    right: (Datum, Type),
) -> Result<Datum, EvalError> {
    eval(&[left, right], |b, c| b.arithmetic(op, c[0], c[1]).unwrap())
}

fn int(value: i64) -> (Datum, Type) {
    (Datum::Int(value), Type::Int)
}

fn uint(value: u64) -> (Datum, Type) {
    (Datum::UInt(value), Type::UInt)
}

fn dec(units: i128) -> (Datum, Type) {
    (Datum::Decimal(units), D2)
}

fn double(value: f64) -> (Datum, Type) {
    (Datum::Double(value), Type::Double)
}

fn text(value: &str) -> (Datum, Type) {
    (Datum::String(value.into()), Type::String)
}

fn boolean(value: Option<bool>) -> (Datum, Type) {
    (value.map_or(Datum::Null, Datum::Bool), Type::Bool)
}

#[test]
fn integers_overflow_and_divide_like_mysql() {
    use Arithmetic::{Add, Divide, IntDivide, Modulo, Multiply, Subtract};
    let out = |ty| Err(EvalError::OutOfRange(ty));
    assert_eq!(arithmetic(Add, int(i64::MAX), int(1)), out(Type::Int));
    assert_eq!(arithmetic(Subtract, uint(1), uint(2)), out(Type::UInt));
    assert_eq!(arithmetic(Multiply, int(i64::MIN), int(-1)), out(Type::Int));
    assert_eq!(
        arithmetic(IntDivide, int(i64::MIN), int(-1)),
        out(Type::Int)
    );
    assert_eq!(
        arithmetic(Modulo, int(i64::MIN), int(-1)),
        Ok(Datum::Int(0))
    );
    assert_eq!(arithmetic(Modulo, int(-7), int(2)), Ok(Datum::Int(-1)));
    assert_eq!(arithmetic(IntDivide, int(-7), int(2)), Ok(Datum::Int(-3)));
    assert_eq!(
        arithmetic(Divide, int(-2), int(3)),
        Ok(Datum::Decimal(-6667))
    );
    for op in [IntDivide, Modulo, Divide] {
        assert_eq!(arithmetic(op, int(1), int(0)), Ok(Datum::Null));
        assert_eq!(arithmetic(op, uint(1), uint(0)), Ok(Datum::Null));
    }
    assert_eq!(arithmetic(Add, int(-1), uint(2)), Ok(Datum::UInt(1)));
    assert_eq!(arithmetic(Add, int(-3), uint(2)), out(Type::UInt));
    assert_eq!(arithmetic(Modulo, int(-7), uint(2)), Ok(Datum::Int(-1)));
    let negate = |v| eval(&[v], |b, c| b.negate(c[0]).unwrap());
    assert_eq!(negate(int(i64::MIN)), out(Type::Int));
    assert_eq!(negate(uint(1 << 63)), Ok(Datum::Int(i64::MIN)));
    assert_eq!(negate(uint((1 << 63) + 1)), out(Type::Int));
}

#[test]
fn decimals_keep_scale_and_precision() {
    use Arithmetic::{Add, Divide, IntDivide, Modulo, Multiply};
    assert_eq!(arithmetic(Add, dec(150), int(2)), Ok(Datum::Decimal(350)));
    assert_eq!(
        arithmetic(Multiply, dec(150), dec(-150)),
        Ok(Datum::Decimal(-22500))
    );
    assert_eq!(
        arithmetic(Divide, dec(200), dec(300)),
        Ok(Datum::Decimal(666_667))
    );
    assert_eq!(arithmetic(Divide, dec(200), dec(0)), Ok(Datum::Null));
    assert_eq!(
        arithmetic(Modulo, dec(-550), dec(200)),
        Ok(Datum::Decimal(-150))
    );
    assert_eq!(
        arithmetic(IntDivide, dec(-550), dec(200)),
        Ok(Datum::Int(-2))
    );
    let wide = Type::Decimal {
        precision: 38,
        scale: 0,
    };
    let huge = (Datum::Decimal(10i128.pow(37) * 9), wide);
    assert_eq!(
        arithmetic(Add, huge.clone(), huge.clone()),
        Err(EvalError::OutOfRange(wide))
    );
    assert_eq!(
        arithmetic(IntDivide, huge, int(1)),
        Err(EvalError::OutOfRange(Type::Int))
    );
}

#[test]
fn doubles_do_not_become_infinite() {
    use Arithmetic::{Divide, Modulo, Multiply};
    let out = Err(EvalError::OutOfRange(Type::Double));
    assert_eq!(arithmetic(Multiply, double(1e300), double(1e300)), out);
    assert_eq!(
        arithmetic(Divide, double(1.0), double(0.0)),
        Ok(Datum::Null)
    );
    assert_eq!(
        arithmetic(Modulo, double(-7.5), double(2.0)),
        Ok(Datum::Double(-1.5))
    );
    assert_eq!(
        arithmetic(Multiply, double(0.5), dec(150)),
        Ok(Datum::Double(0.75))
    );
}

#[test]
fn conversions_round_and_check() {
    let cast = |value: (Datum, Type), ty| eval(&[value], |b, c| b.cast(c[0], ty).unwrap());
    assert_eq!(cast(dec(150), Type::Int), Ok(Datum::Int(2)));
    assert_eq!(cast(dec(-150), Type::Int), Ok(Datum::Int(-2)));
    assert_eq!(
        cast(dec(-149), Type::UInt),
        Err(EvalError::OutOfRange(Type::UInt))
    );
    assert_eq!(cast(double(2.5), Type::Int), Ok(Datum::Int(2)));
    assert_eq!(
        cast(double(1e19), Type::Int),
        Err(EvalError::OutOfRange(Type::Int))
    );
    assert_eq!(
        cast(double(1e19), Type::UInt),
        Ok(Datum::UInt(10_000_000_000_000_000_000))
    );
    assert_eq!(cast(double(-0.4), Type::UInt), Ok(Datum::UInt(0)));
    assert_eq!(cast(double(1.005), D2), Ok(Datum::Decimal(101)));
    assert_eq!(cast(int(1000), D2), Err(EvalError::OutOfRange(D2)));
    assert_eq!(cast(dec(10), Type::Double), Ok(Datum::Double(0.1)));
    assert_eq!(cast(boolean(Some(true)), D2), Ok(Datum::Decimal(100)));
    assert_eq!(
        cast((Datum::Date(1), Type::Date), Type::DateTime),
        Ok(Datum::DateTime(86_400_000_000))
    );
}

#[test]
fn three_valued_logic() {
    let values = [Some(false), None, Some(true)];
    for a in values {
        for b in values {
            let operands = [boolean(a), boolean(b)];
            let and = eval(&operands, |b, c| b.and(c.to_vec()).unwrap());
            let or = eval(&operands, |b, c| b.or(c.to_vec()).unwrap());
            let expected = |known: bool| match (a, b) {
                (Some(x), _) | (_, Some(x)) if x == known => Datum::Bool(known),
                (Some(_), Some(_)) => Datum::Bool(!known),
                _ => Datum::Null,
            };
            assert_eq!(
                (and, or),
                (Ok(expected(false)), Ok(expected(true))),
                "{a:?} {b:?}"
            );
        }
        let not = eval(&[boolean(a)], |b, c| b.not(c[0]).unwrap());
        assert_eq!(not, Ok(a.map_or(Datum::Null, |a| Datum::Bool(!a))));
    }
    let null_safe = |a, b| {
        eval(&[a, b], |b, c| {
            b.compare(Comparison::NullSafeEqual, c[0], c[1]).unwrap()
        })
    };
    let null = || (Datum::Null, Type::Int);
    assert_eq!(null_safe(null(), null()), Ok(Datum::Bool(true)));
    assert_eq!(null_safe(null(), int(1)), Ok(Datum::Bool(false)));
    assert_eq!(null_safe(int(1), int(1)), Ok(Datum::Bool(true)));
}

#[test]
fn errors_behind_a_decision_do_not_happen() {
    let overflow = |b: &mut Builder, c: &[NodeId]| {
        let sum = b.arithmetic(Arithmetic::Add, c[0], c[0]).unwrap();
        b.truth(sum).unwrap()
    };
    let run = |first: Option<bool>, and: bool| {
        eval(&[int(i64::MAX), boolean(first)], |b, c| {
            let bad = overflow(b, c);
            let operands = vec![c[1], bad];
            if and {
                b.and(operands).unwrap()
            } else {
                b.or(operands).unwrap()
            }
        })
    };
    assert_eq!(run(Some(false), true), Ok(Datum::Bool(false)));
    assert_eq!(run(Some(true), false), Ok(Datum::Bool(true)));
    let error = Err(EvalError::OutOfRange(Type::Int));
    assert_eq!(
        (run(None, true), run(None, false)),
        (error.clone(), error.clone())
    );
    assert_eq!(run(Some(true), true), error.clone());
    let case = eval(&[int(i64::MAX), boolean(Some(true))], |b, c| {
        let sum = b.arithmetic(Arithmetic::Add, c[0], c[0]).unwrap();
        b.case(&[(c[1], c[0])], Some(sum)).unwrap()
    });
    assert_eq!(case, Ok(Datum::Int(i64::MAX)));
    // A strict operation evaluates all its operands, also beside NULL.
    let beside_null = eval(&[int(i64::MAX), (Datum::Null, Type::Int)], |b, c| {
        let sum = b.arithmetic(Arithmetic::Add, c[0], c[0]).unwrap();
        b.arithmetic(Arithmetic::Add, c[1], sum).unwrap()
    });
    assert_eq!(beside_null, error);
}

#[test]
fn strings() {
    let equal = |a, b| {
        eval(&[text(a), text(b)], |b, c| {
            b.compare(Comparison::Equal, c[0], c[1]).unwrap()
        })
    };
    assert_eq!(equal("a", "a  "), Ok(Datum::Bool(true)));
    assert_eq!(equal("a", "A"), Ok(Datum::Bool(false)));
    let like = |a: &str, p: &str| eval(&[text(a)], |b, c| b.like(c[0], p, '\\').unwrap());
    assert_eq!(like("a ", "a"), Ok(Datum::Bool(false)));
    assert_eq!(
        like("special requests", "%cial%qu_sts"),
        Ok(Datum::Bool(true))
    );
    let sub = eval(&[text("été")], |b, c| {
        b.substring(c[0], -2, Some(1)).unwrap()
    });
    assert_eq!(sub, Ok(Datum::String("t".into())));
    let list = [text("x"), text("a  ")];
    let is_in = eval(&[text("a")], |b, c| b.in_list(c[0], &list).unwrap());
    assert_eq!(is_in, Ok(Datum::Bool(true)));
}

#[test]
fn lists_with_null() {
    let run = |value: (Datum, Type), list: &[(Datum, Type)]| {
        eval(&[value], |b, c| b.in_list(c[0], list).unwrap())
    };
    let null = (Datum::Null, Type::Int);
    let list = [int(1), null.clone(), int(3)];
    assert_eq!(run(int(3), &list), Ok(Datum::Bool(true)));
    assert_eq!(run(int(2), &list), Ok(Datum::Null));
    assert_eq!(run(null.clone(), &[int(1)]), Ok(Datum::Null));
    assert_eq!(run(int(2), &[int(1)]), Ok(Datum::Bool(false)));
    assert_eq!(run(int(2), &[null]), Ok(Datum::Null));
    assert_eq!(run(int(2), &[dec(200), dec(250)]), Ok(Datum::Bool(true)));
}

#[test]
fn fields_of_dates() {
    let micros = 757_382_400_000_000i64 + (13 * 3600 + 14 * 60 + 15) * 1_000_000;
    let value = (Datum::DateTime(micros), Type::DateTime);
    let get = |field| {
        eval(std::slice::from_ref(&value), |b, c| {
            b.extract(field, c[0]).unwrap()
        })
    };
    use DateField::{Day, Hour, Minute, Month, Quarter, Second, Year};
    let fields = [Year, Quarter, Month, Day, Hour, Minute, Second];
    let expected = [1994, 1, 1, 1, 13, 14, 15];
    for (field, expected) in fields.into_iter().zip(expected) {
        assert_eq!(get(field), Ok(Datum::Int(expected)), "{field:?}");
    }
    let of_date = |field| {
        eval(&[(Datum::Date(-1), Type::Date)], |b, c| {
            b.extract(field, c[0]).unwrap()
        })
    };
    assert_eq!(
        (of_date(Year), of_date(Hour)),
        (Ok(Datum::Int(1969)), Ok(Datum::Int(0)))
    );
    assert_eq!(of_date(Quarter), Ok(Datum::Int(4)));
}

#[test]
fn filters_and_vectors() {
    let bigint = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let layout = RowLayout::clustered(&[(bigint, false), (bigint, true)], &[0]).unwrap();
    let mut base = Vec::new();
    let mut records = Vec::new();
    for (key, value) in [(1, Some(5)), (2, None), (3, Some(i64::MAX)), (4, Some(-7))] {
        records.push(base.len() as u16);
        let row = [Datum::Int(key), value.map_or(Datum::Null, Datum::Int)];
        perigee_value::encode_row(&layout, &row, Default::default(), &mut base).unwrap();
    }
    let mut builder = Builder::new(&layout);
    let value = builder.column(1).unwrap();
    let ten = builder.int(10).unwrap();
    let sum = builder.arithmetic(Arithmetic::Add, value, ten).unwrap();
    let positive = builder.compare(Comparison::Greater, sum, ten).unwrap();

    let filter = Interpreter::new(&builder.clone().finish(positive).unwrap(), &layout);
    let (mut pass, mut failed) = (Vec::new(), Vec::new());
    filter.filter(&base, &records, &mut pass, &mut failed);
    assert_eq!((pass, failed), (vec![records[0]], vec![records[2]]));

    let evaluate = Interpreter::new(&builder.finish(sum).unwrap(), &layout);
    let mut out = Vector::new(evaluate.result_type());
    let mut failed = Vec::new();
    evaluate.evaluate(&base, &records, &mut out, &mut failed);
    assert_eq!(failed, [2]);
    assert_eq!(out.lanes, Lanes::I64(vec![15, 0, 0, 3]));
    assert_eq!(out.valid, Some(vec![1, 0, 0, 1]));
    assert_eq!(
        (out.get(1, Type::Int), out.get(3, Type::Int)),
        (ValueRef::Null, ValueRef::Int(3))
    );
}

#[test]
fn the_deepest_program_fits_the_stack() {
    use crate::limits::MAX_DEPTH;
    let mut builder = Builder::over_values(&[Type::Double]);
    let mut node = builder.column(0).unwrap();
    for _ in 1..MAX_DEPTH {
        node = builder.arithmetic(Arithmetic::Add, node, node).unwrap();
    }
    let program = builder.finish(node).unwrap();
    let interpreter = Interpreter::over_values(&program, &[Type::Double]);
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    let row = [ValueRef::Double(1.0)];
    let run = move || interpreter.row(&row).map(ValueRef::to_datum);
    let expected = Ok(Datum::Double(2f64.powi(MAX_DEPTH as i32 - 1)));
    assert_eq!(thread.spawn(run).unwrap().join().unwrap(), expected);
}
