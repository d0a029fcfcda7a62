//! Tests of the builder.

#![allow(clippy::unwrap_used, reason = "tests")]
use perigee_value::Collation;

use super::*;
use crate::Arithmetic;
use crate::Type::{DateTime, Double, Int, UInt};

fn dec(precision: u8, scale: u8) -> Type {
    Type::Decimal { precision, scale }
}

/// Result type of an operator over two columns.
fn result(op: Arithmetic, left: Type, right: Type) -> Type {
    let mut b = Builder::over_values(&[left, right]);
    let (x, y) = (b.column(0).unwrap(), b.column(1).unwrap());
    let id = b.arithmetic(op, x, y).unwrap();
    let program = b.finish(id).unwrap();
    program.result_type()
}

#[test]
fn arithmetic_has_mysqls_types() {
    use Arithmetic::{Add, Divide, IntDivide, Modulo, Multiply, Subtract};
    let price = dec(15, 2);
    assert_eq!(result(Add, price, price), dec(16, 2));
    assert_eq!(result(Subtract, price, dec(5, 4)), dec(18, 4));
    assert_eq!(result(Multiply, price, price), dec(30, 4));
    assert_eq!(result(Multiply, dec(30, 20), dec(30, 20)), dec(38, 30));
    assert_eq!(result(Divide, price, price), dec(21, 6));
    assert_eq!(result(Modulo, price, dec(5, 4)), dec(17, 4));
    assert_eq!(result(IntDivide, price, price), Int);
    assert_eq!(result(IntDivide, price, UInt), UInt);
    assert_eq!(result(Add, Int, Int), Int);
    assert_eq!(result(Add, Int, UInt), UInt);
    assert_eq!(result(Modulo, Int, UInt), Int);
    assert_eq!(result(Divide, Int, Int), dec(23, 4));
    assert_eq!(result(Add, Int, price), dec(22, 2));
    assert_eq!(result(Add, Int, Double), Double);
    assert_eq!(result(Multiply, price, Double), Double);
    assert_eq!(result(Add, Type::Bool, Type::Bool), Int);
}

#[test]
fn small_columns_and_literals_keep_decimals_narrow() {
    let int = ColumnType::Int {
        bytes: 1,
        unsigned: false,
    };
    let price = ColumnType::Decimal {
        precision: 15,
        scale: 2,
    };
    let layout = RowLayout::clustered(&[(int, false), (price, false)], &[0]).unwrap();
    let mut b = Builder::new(&layout);
    let (small, price) = (b.column(0).unwrap(), b.column(1).unwrap());
    let one = b.int(1).unwrap();
    let rest = b.arithmetic(Arithmetic::Subtract, one, price).unwrap();
    assert_eq!(b.ty(rest), dec(16, 2));
    let product = b.arithmetic(Arithmetic::Multiply, small, price).unwrap();
    assert_eq!(b.ty(product), dec(18, 2));
    let program = b.finish(rest).unwrap();
    assert_eq!(
        program.dump(),
        "%0 = column 1 DECIMAL(15,2)\n%1 = constant 1.00 DECIMAL(3,2)\n\
         %2 = subtract %1 %0 DECIMAL(16,2)\n"
    );
}

#[test]
fn comparisons_convert_to_a_common_type() {
    let text = |left: Type, make: &dyn Fn(&mut Builder) -> NodeId| {
        let mut b = Builder::over_values(&[left, UInt]);
        let (x, y) = (b.column(0).unwrap(), make(&mut b));
        let id = b.compare(Comparison::Less, x, y).unwrap();
        b.finish(id).unwrap().display(&["x", "u"])
    };
    assert_eq!(text(dec(15, 2), &|b| b.int(24).unwrap()), "(x < 24.00)");
    assert_eq!(
        text(dec(15, 2), &|b| b.decimal(5, 3).unwrap()),
        "(cast(x as decimal(16,3)) < 0.005)"
    );
    assert_eq!(
        text(Int, &|b| b.decimal(15, 1).unwrap()),
        "(cast(cast(x as decimal(19,0)) as decimal(20,1)) < 1.5)"
    );
    assert_eq!(
        text(Type::Date, &|b| b.string("1994-01-01").unwrap()),
        "(x < DATE'1994-01-01')"
    );
    assert_eq!(
        text(Type::Date, &|b| b.string("1994-01-01 12:00").unwrap()),
        "(cast(x as datetime(6)) < TIMESTAMP'1994-01-01 12:00:00')"
    );
    assert_eq!(
        text(DateTime, &|b| b.date(0).unwrap()),
        "(x < TIMESTAMP'1970-01-01 00:00:00')"
    );
    assert_eq!(text(UInt, &|b| b.int(5).unwrap()), "(x < 5)");
    assert_eq!(
        text(UInt, &|b| b.int(-5).unwrap()),
        "(cast(x as decimal(20,0)) < -5)"
    );
    assert_eq!(
        text(Int, &|b| b.column(1).unwrap()),
        "(cast(x as decimal(19,0)) < cast(u as decimal(20,0)))"
    );
    assert_eq!(text(Double, &|b| b.int(5).unwrap()), "(x < 5)");
    assert_eq!(text(Int, &|b| b.null(Type::String).unwrap()), "(x < NULL)");
}

#[test]
fn what_has_no_exact_meaning_is_refused() {
    let mut b = Builder::over_values(&[Type::String, Int, Type::Date, dec(38, 0)]);
    let [s, i, d, wide] = [0, 1, 2, 3].map(|index| b.column(index).unwrap());
    let bad_date = b.string("1994-02-30").unwrap();
    let fine = b.decimal(1, 30).unwrap();
    let nan = b.constant(Datum::Double(f64::NAN), Double);
    assert!(nan.is_err());
    assert!(
        b.compare(Comparison::Equal, s, i).is_err(),
        "string as number"
    );
    assert!(b.compare(Comparison::Equal, d, bad_date).is_err());
    assert!(
        b.compare(Comparison::Equal, d, i).is_err(),
        "date as number"
    );
    assert!(
        b.compare(Comparison::Equal, wide, fine).is_err(),
        "68 digits"
    );
    assert!(b.arithmetic(Arithmetic::Add, s, i).is_err());
    assert!(b.arithmetic(Arithmetic::Add, d, i).is_err());
    assert!(b.truth(s).is_err());
    assert!(b.case(&[(i, s)], Some(i)).is_err());
    assert!(b.column(4).is_err());
}

#[test]
fn constants_fold_unless_they_fail() {
    let mut b = Builder::over_values(&[]);
    let (one, two) = (b.int(1).unwrap(), b.int(2).unwrap());
    let three = b.arithmetic(Arithmetic::Add, one, two).unwrap();
    assert_eq!(b.as_constant(three), Some(&Datum::Int(3)));
    let zero = b.int(0).unwrap();
    let null = b.arithmetic(Arithmetic::Divide, one, zero).unwrap();
    assert_eq!(
        (b.as_constant(null), b.ty(null)),
        (Some(&Datum::Null), dec(5, 4))
    );
    let max = b.int(i64::MAX).unwrap();
    let overflow = b.arithmetic(Arithmetic::Add, max, one).unwrap();
    assert_eq!(b.as_constant(overflow), None);
}

#[test]
fn equal_nodes_are_shared_and_lists_flattened() {
    let mut b = Builder::over_values(&[Type::Bool, Type::Bool]);
    let (x, y) = (b.column(0).unwrap(), b.column(1).unwrap());
    assert_eq!(b.column(0), Ok(x));
    let inner = b.and(vec![x, y]).unwrap();
    let outer = b.and(vec![inner, x]).unwrap();
    let program = b.finish(outer).unwrap();
    assert_eq!(program.nodes.len(), 3);
    assert_eq!(
        program.nodes[2],
        Node::And(vec![NodeId(0), NodeId(1), NodeId(0)])
    );
    assert_eq!(program.columns(), [0, 1]);
}

#[test]
fn cases_take_the_wider_type() {
    let common = |values: &[Type]| {
        let mut b = Builder::over_values(values);
        let values: Vec<NodeId> = (0..values.len() as u16)
            .map(|index| b.column(index).unwrap())
            .collect();
        let when = b.constant(Datum::Bool(true), Type::Bool).unwrap();
        let id = b
            .case(&[(when, values[0])], values.get(1).copied())
            .unwrap();
        b.ty(id)
    };
    assert_eq!(common(&[dec(15, 2), dec(5, 4)]), dec(17, 4));
    assert_eq!(common(&[dec(15, 2), Int]), dec(21, 2));
    assert_eq!(common(&[UInt, Int]), dec(20, 0));
    assert_eq!(common(&[dec(15, 2), Double]), Double);
    assert_eq!(common(&[Type::Date, DateTime]), DateTime);
    assert_eq!(common(&[Type::String]), Type::String);
    let mut b = Builder::over_values(&[Type::Bool, dec(15, 4)]);
    let (when, value) = (b.column(0).unwrap(), b.column(1).unwrap());
    let zero = b.int(0).unwrap();
    let id = b.case(&[(when, value)], Some(zero)).unwrap();
    assert_eq!(
        b.ty(id),
        dec(15, 4),
        "the 0 of TPC-H's queries does not widen"
    );
    let null = b.null(Type::String).unwrap();
    let id = b.case(&[(when, value)], Some(null)).unwrap();
    assert_eq!(b.ty(id), dec(15, 4));
    let id = b.coalesce(&[value, zero]).unwrap();
    assert_eq!(
        b.finish(id).unwrap().display(&["c", "v"]),
        "(case when (v is not null) then v else 0.0000 end)"
    );
}

#[test]
fn columns_that_programs_cannot_read_are_refused() {
    let binary = ColumnType::Varchar {
        chars: 5,
        collation: Collation::BINARY,
    };
    let wide = ColumnType::Decimal {
        precision: 39,
        scale: 2,
    };
    let layout = RowLayout::secondary(&[(binary, false), (wide, false)]).unwrap();
    assert!(Builder::new(&layout).column(0).is_err());
    assert!(Builder::new(&layout).column(1).is_err());
}

#[test]
fn long_lists_of_another_type_are_converted() {
    let mut b = Builder::over_values(&[dec(15, 2)]);
    let x = b.column(0).unwrap();
    let list: Vec<(Datum, Type)> = (0..100_000)
        .map(|i| (Datum::Int(i % 50_000), Int))
        .collect();
    let id = b.in_list(x, &list).unwrap();
    let program = b.finish(id).unwrap();
    assert_eq!(program.nodes.len(), 2);
    let Node::In { list, .. } = &program.nodes[1] else {
        panic!("{}", program.dump())
    };
    assert_eq!((list.len(), &list[7]), (50_000, &Datum::Decimal(700)));
    let mut b = Builder::over_values(&[Int]);
    let x = b.column(0).unwrap();
    let list = [
        (Datum::Int(2), Int),
        (Datum::Decimal(25), dec(2, 1)),
        (Datum::Null, Int),
    ];
    let id = b.in_list(x, &list).unwrap();
    assert_eq!(
        b.finish(id).unwrap().display(&["x"]),
        "(cast(cast(x as decimal(19,0)) as decimal(20,1)) in (2.0,2.5,NULL))"
    );
}
