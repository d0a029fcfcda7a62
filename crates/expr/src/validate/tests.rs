//! Tests of the validator.

#![allow(clippy::unwrap_used, reason = "tests")]
use perigee_value::{Collation, ColumnType};
use proptest::prelude::*;

use super::*;
use crate::arbitrary::Generator;
use crate::limits::MAX_DEPTH;
use crate::{Comparison, DateField};

const D2: Type = Type::Decimal {
    precision: 10,
    scale: 2,
};
const D4: Type = Type::Decimal {
    precision: 10,
    scale: 4,
};

fn constant(value: Datum, ty: Type) -> Node {
    Node::Constant { value, ty }
}

fn null(ty: Type) -> Node {
    constant(Datum::Null, ty)
}

fn accepts(nodes: Vec<Node>) -> bool {
    validate_values(nodes, &[Type::Int]).is_ok()
}

fn over(types: &[Type], node: Node) -> bool {
    let mut nodes: Vec<Node> = types.iter().map(|ty| null(*ty)).collect();
    nodes.push(node);
    accepts(nodes)
}

fn arithmetic(op: Arithmetic, operands: Type, ty: Type) -> bool {
    over(
        &[operands],
        Node::Arithmetic {
            op,
            left: NodeId(0),
            right: NodeId(0),
            ty,
        },
    )
}

#[test]
fn references_go_back_only() {
    assert!(!accepts(vec![]));
    assert!(!accepts(vec![Node::Not(NodeId(0))]));
    assert!(!accepts(vec![Node::Not(NodeId(1)), null(Type::Bool)]));
    assert!(accepts(vec![null(Type::Bool), Node::Not(NodeId(0))]));
    assert!(!accepts(vec![
        null(Type::Bool),
        Node::Not(NodeId(u16::MAX))
    ]));
}

#[test]
fn columns_have_the_stated_type() {
    let column = |index, ty| accepts(vec![Node::Column { index, ty }]);
    assert!(column(0, Type::Int));
    assert!(!column(0, Type::UInt));
    assert!(!column(1, Type::Int));
    let binary = ColumnType::Varchar {
        chars: 5,
        collation: Collation::BINARY,
    };
    let text = ColumnType::Varchar {
        chars: 5,
        collation: Collation::UTF8MB4_BIN,
    };
    let layout = RowLayout::secondary(&[(binary, true), (text, true)]).unwrap();
    let column = |index| {
        validate(
            vec![Node::Column {
                index,
                ty: Type::String,
            }],
            &layout,
        )
        .is_ok()
    };
    assert!(!column(0), "a collation that comparisons do not follow");
    assert!(column(1));
}

#[test]
fn constants_are_values_of_their_type() {
    let fine = |value, ty| accepts(vec![constant(value, ty)]);
    assert!(fine(Datum::Int(1), Type::Int));
    assert!(!fine(Datum::Int(1), Type::UInt));
    assert!(fine(Datum::Decimal(9_999_999_999), D2));
    assert!(!fine(Datum::Decimal(10_000_000_000), D2));
    assert!(!fine(Datum::Double(f64::NAN), Type::Double));
    assert!(!fine(Datum::Double(f64::INFINITY), Type::Double));
    assert!(!fine(Datum::Date(i32::MAX), Type::Date));
    assert!(!fine(Datum::DateTime(i64::MAX), Type::DateTime));
    assert!(fine(Datum::Time(-1), Type::Time));
    assert!(!fine(Datum::Time(-1), Type::DateTime));
    assert!(!fine(Datum::DateTime(1), Type::Time));
    assert!(!fine(Datum::Time(i64::MIN), Type::Time));
    assert!(!fine(Datum::String(vec![0xff]), Type::String));
    assert!(!fine(
        Datum::String(vec![b'a'; MAX_STRING + 1]),
        Type::String
    ));
    assert!(!fine(
        Datum::Null,
        Type::Decimal {
            precision: 39,
            scale: 0
        }
    ));
    assert!(!fine(
        Datum::Null,
        Type::Decimal {
            precision: 0,
            scale: 0
        }
    ));
    assert!(!fine(
        Datum::Null,
        Type::Decimal {
            precision: 38,
            scale: 31
        }
    ));
    assert!(!fine(
        Datum::Null,
        Type::Decimal {
            precision: 3,
            scale: 4
        }
    ));
}

#[test]
fn operand_types() {
    let compare = |a, b| {
        let node = Node::Compare {
            op: Comparison::Less,
            left: NodeId(0),
            right: NodeId(1),
        };
        over(&[a, b], node)
    };
    assert!(compare(
        D2,
        Type::Decimal {
            precision: 38,
            scale: 2
        }
    ));
    assert!(!compare(D2, D4));
    assert!(!compare(Type::Int, Type::UInt));
    assert!(compare(Type::String, Type::String));
    assert!(!over(&[], Node::And(vec![])));
    assert!(!over(&[Type::Int], Node::And(vec![NodeId(0)])));
    assert!(over(&[Type::Bool], Node::Or(vec![NodeId(0), NodeId(0)])));
    assert!(!over(&[Type::Int], Node::Not(NodeId(0))));
    assert!(over(&[Type::String], Node::IsNull(NodeId(0))));
    assert!(over(&[D2], Node::Negate(NodeId(0))));
    assert!(!over(&[Type::UInt], Node::Negate(NodeId(0))));
    assert!(!over(&[Type::Date], Node::Negate(NodeId(0))));
    let extract = |ty| {
        over(
            &[ty],
            Node::Extract {
                field: DateField::Hour,
                operand: NodeId(0),
            },
        )
    };
    assert!(extract(Type::Date) && extract(Type::DateTime));
    assert!(!extract(Type::Int) && !extract(Type::Time));
    let like = |ty, pattern: String| {
        over(
            &[ty],
            Node::Like {
                operand: NodeId(0),
                pattern,
                escape: '\\',
            },
        )
    };
    assert!(like(Type::String, "%".into()) && !like(Type::Int, "%".into()));
    assert!(!like(Type::String, "a".repeat(MAX_PATTERN + 1)));
    let substring = |ty| {
        over(
            &[ty],
            Node::Substring {
                operand: NodeId(0),
                start: 1,
                length: None,
            },
        )
    };
    assert!(substring(Type::String) && !substring(Type::Date));
}

#[test]
fn arithmetic_result_types() {
    use Arithmetic::{Add, Divide, IntDivide, Modulo, Multiply};
    assert!(arithmetic(Add, Type::Int, Type::Int));
    assert!(!arithmetic(Add, Type::Int, Type::UInt));
    assert!(arithmetic(Divide, Type::Int, D4));
    assert!(!arithmetic(Divide, Type::Int, Type::Int));
    assert!(arithmetic(
        Add,
        D2,
        Type::Decimal {
            precision: 4,
            scale: 2
        }
    ));
    assert!(!arithmetic(Add, D2, D4));
    assert!(arithmetic(Multiply, D2, D4));
    assert!(!arithmetic(Multiply, D2, D2));
    let d20 = Type::Decimal {
        precision: 38,
        scale: 20,
    };
    assert!(arithmetic(
        Multiply,
        d20,
        Type::Decimal {
            precision: 38,
            scale: 30
        }
    ));
    assert!(arithmetic(
        Divide,
        D2,
        Type::Decimal {
            precision: 14,
            scale: 6
        }
    ));
    assert!(
        !arithmetic(Divide, D4, D2),
        "fewer digits than the dividend"
    );
    assert!(arithmetic(
        Divide,
        d20,
        Type::Decimal {
            precision: 38,
            scale: 30
        }
    ));
    let mut nodes = vec![null(Type::Decimal {
        precision: 1,
        scale: 0,
    })];
    nodes.push(null(Type::Decimal {
        precision: 30,
        scale: 30,
    }));
    let ty = Type::Decimal {
        precision: 38,
        scale: 9,
    };
    let divide = Node::Arithmetic {
        op: Divide,
        left: NodeId(0),
        right: NodeId(1),
        ty,
    };
    nodes.push(divide);
    assert!(!accepts(nodes), "a shift of more than 38 digits");
    assert!(arithmetic(IntDivide, D2, Type::Int) && arithmetic(IntDivide, D2, Type::UInt));
    assert!(!arithmetic(IntDivide, D2, D2) && !arithmetic(IntDivide, Type::Double, Type::Double));
    assert!(arithmetic(Modulo, Type::Double, Type::Double));
    assert!(!arithmetic(Add, Type::Date, Type::Date));
    assert!(!arithmetic(Add, Type::String, Type::String));
}

#[test]
fn casts() {
    let cast = |from, ty| {
        over(
            &[from],
            Node::Cast {
                operand: NodeId(0),
                ty,
            },
        )
    };
    assert!(cast(Type::Int, Type::UInt) && cast(Type::UInt, D2) && cast(D2, D4));
    assert!(cast(D2, Type::Double) && cast(Type::Double, Type::Int));
    assert!(cast(Type::Date, Type::DateTime) && !cast(Type::DateTime, Type::Date));
    assert!(!cast(Type::Time, Type::DateTime) && !cast(Type::Time, Type::Int));
    assert!(cast(Type::Bool, Type::Int) && !cast(Type::Bool, Type::UInt));
    assert!(!cast(Type::Int, Type::Int) && !cast(Type::Int, Type::Bool));
    assert!(!cast(Type::String, Type::Int) && !cast(Type::Int, Type::String));
    assert!(!cast(
        Type::Int,
        Type::Decimal {
            precision: 39,
            scale: 0
        }
    ));
}

#[test]
fn in_lists_are_sorted_constants() {
    let list = |ty, list| {
        over(
            &[ty],
            Node::In {
                operand: NodeId(0),
                list,
                has_null: false,
            },
        )
    };
    let text = |s: &str| Datum::String(s.into());
    assert!(list(Type::Int, vec![Datum::Int(1), Datum::Int(2)]));
    assert!(!list(Type::Int, vec![Datum::Int(2), Datum::Int(1)]));
    assert!(!list(Type::Int, vec![Datum::Int(1), Datum::Int(1)]));
    assert!(!list(Type::Int, vec![Datum::UInt(1)]));
    assert!(!list(Type::Int, vec![Datum::Null]));
    assert!(!list(Type::Int, vec![]));
    assert!(!list(Type::Bool, vec![Datum::Bool(true)]));
    assert!(list(Type::String, vec![text("a\t"), text("a"), text("b")]));
    assert!(
        !list(Type::String, vec![text("a"), text("a ")]),
        "equal with PAD SPACE"
    );
}

#[test]
fn cases_have_one_type() {
    let case = |value: Type, otherwise: Type, ty: Type| {
        let branches = vec![(NodeId(0), NodeId(1))];
        let node = Node::Case {
            branches,
            otherwise: Some(NodeId(2)),
            ty,
        };
        over(&[Type::Bool, value, otherwise], node)
    };
    assert!(case(D2, D2, D2) && !case(D2, D4, D2) && !case(D2, D2, D4));
    assert!(!over(
        &[Type::Int],
        Node::Case {
            branches: vec![],
            otherwise: None,
            ty: Type::Int
        }
    ));
    let not_bool = vec![(NodeId(0), NodeId(0))];
    assert!(!over(
        &[Type::Int],
        Node::Case {
            branches: not_bool,
            otherwise: None,
            ty: Type::Int
        }
    ));
}

#[test]
fn size_is_bounded() {
    let chain = |len: usize| {
        let mut nodes = vec![null(Type::Bool)];
        nodes.extend((0..len - 1).map(|i| Node::Not(NodeId(i as u16))));
        nodes
    };
    assert!(accepts(chain(MAX_DEPTH)));
    assert!(!accepts(chain(MAX_DEPTH + 1)));
    assert!(accepts(vec![null(Type::Int); MAX_NODES]));
    assert!(!accepts(vec![null(Type::Int); MAX_NODES + 1]));
    let and = |count| over(&[Type::Bool], Node::And(vec![NodeId(0); count]));
    assert!(and(MAX_OPERANDS) && !and(MAX_OPERANDS + 1));
}

proptest! {
    #[test]
    fn random_programs_are_valid(seed: u64) {
        let mut generator = Generator::new(seed);
        let layout = generator.layout();
        for _ in 0..4 {
            let program = generator.program(&layout);
            prop_assert_eq!(program.check(&layout), Ok(()), "{}", program.dump());
        }
    }
}
