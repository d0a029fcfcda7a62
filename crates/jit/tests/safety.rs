//! What evaluators do with bad input, and how they live: layouts that do not fit, records that do
//! not keep to their shape, threads, memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use perigee_expr::limits::MAX_NODES;
use perigee_expr::{
    Arithmetic, Builder, Comparison, Evaluator, Node, NodeId, Program, Type, Vector,
};
use perigee_jit::{JitError, JitEvaluator};
use perigee_value::{Collation, ColumnType, Datum, Place, RowLayout};
use support::{Page, assert_same};

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
const TEXT: ColumnType = ColumnType::Varchar {
    chars: 20,
    collation: Collation::UTF8MB4_BIN,
};

fn layout() -> RowLayout {
    RowLayout::clustered(&[(INT, false), (TEXT, true), (TEXT, false)], &[0]).unwrap()
}

fn rows() -> Vec<Vec<Datum>> {
    let text = |text: &str| Datum::String(text.as_bytes().to_vec());
    vec![
        vec![Datum::Int(1), text("one"), text("first")],
        vec![Datum::Int(2), Datum::Null, text("second")],
        vec![Datum::Int(3), text(""), text("third")],
    ]
}

/// `column < 'second'`
fn comparison(layout: &RowLayout, column: u16) -> Program {
    let mut b = Builder::new(layout);
    let (column, text) = (b.column(column).unwrap(), b.string("second").unwrap());
    let root = b.compare(Comparison::Less, column, text).unwrap();
    b.finish(root).unwrap()
}

fn column(layout: &RowLayout, index: u16) -> Program {
    Program {
        nodes: vec![Node::Column {
            index,
            ty: Type::of(layout.columns[usize::from(index)].ty),
        }],
    }
}

#[test]
fn records_out_of_the_page_are_refused() {
    let layout = layout();
    let page = Page::new(&layout, &rows());
    let end = page.bytes.len() as u16;
    for program in [
        comparison(&layout, 1),
        comparison(&layout, 2),
        column(&layout, 0),
        column(&layout, 2),
    ] {
        let jit = JitEvaluator::compile(&program, &layout).unwrap();
        let run = |bytes: &[u8], records: &[u16]| {
            let (mut out, mut failed) = (Vector::new(jit.result_type()), Vec::new());
            catch_unwind(AssertUnwindSafe(|| {
                jit.evaluate(bytes, records, &mut out, &mut failed)
            }))
            .is_ok()
        };
        assert!(run(&page.bytes, &page.records));
        assert!(run(&page.bytes, &[]) && run(&[], &[]));
        assert!(!run(&page.bytes, &[page.records[0], end]));
        assert!(!run(&page.bytes, &[u16::MAX]));
        assert!(!run(&page.bytes[..10], &page.records));
    }
}

/// Every value of the var ends: either they stay in the page or the evaluator panics.
#[test]
fn variable_length_items_out_of_the_page_are_refused() {
    let layout = layout();
    let page = Page::new(&layout, &rows());
    let programs = [
        comparison(&layout, 1),
        comparison(&layout, 2),
        column(&layout, 1),
        column(&layout, 2),
    ];
    let evaluators: Vec<JitEvaluator> = programs
        .iter()
        .map(|program| JitEvaluator::compile(program, &layout).unwrap())
        .collect();
    let ends = usize::from(page.records[2]) + usize::from(layout.shape.fixed_len);
    let mut refused = 0;
    for item in 0..2 {
        for end in [
            0, 1, 20, 25, 30, 40, 41, 60, 61, 100, 0x7fff, 0x8000, 0xffff,
        ] {
            let mut bytes = page.bytes.clone();
            bytes[ends + 2 * item..][..2].copy_from_slice(&u16::to_le_bytes(end));
            for jit in &evaluators {
                let (mut out, mut failed) = (Vector::new(jit.result_type()), Vec::new());
                let run =
                    AssertUnwindSafe(|| jit.evaluate(&bytes, &page.records, &mut out, &mut failed));
                refused += usize::from(catch_unwind(run).is_err());
            }
        }
    }
    assert!((20..104).contains(&refused), "{refused} of 104 are refused");
}

#[test]
fn layouts_that_do_not_fit_are_refused() {
    let good = layout();
    let refused = |layout: &RowLayout, index| {
        let compiled = JitEvaluator::compile(&column(&good, index), layout);
        matches!(compiled, Err(JitError::Layout { column, .. }) if column == index)
    };
    let change = |index: usize, place| {
        let mut layout = good.clone();
        layout.columns[index].place = place;
        layout
    };
    assert!(!refused(&good, 0) && !refused(&good, 1));
    let fixed_len = good.shape.fixed_len;
    assert!(refused(
        &change(
            0,
            Place::Fixed {
                offset: fixed_len - 3
            }
        ),
        0
    ));
    assert!(refused(&change(0, Place::Key { offset: u16::MAX }), 0));
    assert!(refused(&change(0, Place::Var { item: 0 }), 0));
    assert!(refused(&change(1, Place::Var { item: 2 }), 1));
    assert!(refused(&change(1, Place::Fixed { offset: 1 }), 1));
    let mut layout = good.clone();
    layout.columns[1].null_bit = Some(u16::MAX);
    assert!(refused(&layout, 1));
    let wrong_type = Program {
        nodes: vec![Node::Column {
            index: 0,
            ty: Type::Double,
        }],
    };
    assert!(matches!(
        JitEvaluator::compile(&wrong_type, &good),
        Err(JitError::Invalid(_))
    ));
}

#[test]
#[should_panic(expected = "only Bool programs filter")]
fn a_number_does_not_filter() {
    let layout = layout();
    let jit = JitEvaluator::compile(&column(&layout, 0), &layout).unwrap();
    jit.filter(&[], &[], &mut Vec::new(), &mut Vec::new());
}

/// Conditions that share conditions: the interpreter evaluates each once per record, but their
/// code would be there once per path.
fn exponential() -> Program {
    let mut nodes = vec![
        Node::Column {
            index: 0,
            ty: Type::Int,
        },
        Node::Constant {
            value: Datum::Int(2),
            ty: Type::Int,
        },
        Node::Compare {
            op: Comparison::Less,
            left: NodeId(0),
            right: NodeId(1),
        },
        Node::Compare {
            op: Comparison::Equal,
            left: NodeId(0),
            right: NodeId(1),
        },
    ];
    for _ in 0..60 {
        let last = NodeId(nodes.len() as u16 - 1);
        let before = NodeId(last.0 - 1);
        let branches = vec![(last, before), (before, last)];
        nodes.push(Node::Case {
            branches,
            otherwise: Some(last),
            ty: Type::Bool,
        });
    }
    Program { nodes }
}

/// AND of the same AND twice, of the same AND twice, and so on; or OR.
fn shared_chains(chain: fn(Vec<NodeId>) -> Node) -> Program {
    let mut nodes = vec![Node::Column {
        index: 0,
        ty: Type::Int,
    }];
    nodes.push(Node::IsNull(NodeId(0)));
    for _ in 0..200 {
        let last = NodeId(nodes.len() as u16 - 1);
        nodes.push(chain(vec![last, last]));
    }
    Program { nodes }
}

#[test]
fn programs_of_exponential_size_are_refused() {
    let layout = layout();
    let programs = [
        exponential(),
        shared_chains(Node::And),
        shared_chains(Node::Or),
    ];
    for program in programs {
        program.check(&layout).unwrap();
        let compiled = JitEvaluator::compile(&program, &layout);
        assert!(matches!(compiled, Err(JitError::TooLarge { .. })));
    }
}

/// The largest programs compile as long as they do not share conditions.
#[test]
fn programs_of_the_greatest_size_compile() {
    let layout = layout();
    let page = Page::new(&layout, &rows());
    let mut nodes = vec![Node::Column {
        index: 0,
        ty: Type::Int,
    }];
    let mut operands = Vec::new();
    while nodes.len() + 4 < MAX_NODES {
        let value = Datum::Int(nodes.len() as i64 % 5);
        nodes.push(Node::Constant {
            value,
            ty: Type::Int,
        });
        let (left, right) = (NodeId(0), NodeId(nodes.len() as u16 - 1));
        nodes.push(Node::Compare {
            op: Comparison::NotEqual,
            left,
            right,
        });
        nodes.push(Node::Not(NodeId(nodes.len() as u16 - 1)));
        operands.push(NodeId(nodes.len() as u16 - 1));
    }
    nodes.push(Node::Or(operands));
    assert!(assert_same(&Program { nodes }, &layout, &page));
}

/// A sum of sums of sums: shared values are computed once, so that sharing costs nothing.
#[test]
fn shared_values_are_computed_once() {
    let layout = layout();
    let page = Page::new(&layout, &rows());
    let mut nodes = vec![Node::Column {
        index: 0,
        ty: Type::Int,
    }];
    for _ in 0..70 {
        let last = NodeId(nodes.len() as u16 - 1);
        nodes.push(Node::Arithmetic {
            op: Arithmetic::Add,
            left: last,
            right: last,
            ty: Type::Int,
        });
    }
    for len in [30, nodes.len()] {
        let program = Program {
            nodes: nodes[..len].to_vec(),
        };
        assert!(assert_same(&program, &layout, &page));
    }
}

#[test]
fn threads_share_an_evaluator() {
    let layout = layout();
    let page = Page::new(&layout, &rows());
    let jit = JitEvaluator::compile(&comparison(&layout, 2), &layout).unwrap();
    let run = || {
        let (mut pass, mut failed) = (Vec::new(), Vec::new());
        for _ in 0..1000 {
            jit.filter(&page.bytes, &page.records, &mut pass, &mut failed);
        }
        (pass.len(), failed.len())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), (1000, 0));
        }
    });
}

/// Memory mappings of this process.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count()
}

#[test]
fn dropped_code_frees_its_memory() {
    let layout = layout();
    let program = comparison(&layout, 1);
    let compile = || JitEvaluator::compile(&program, &layout).unwrap();
    drop(compile());
    let before = mappings();
    let too_large = exponential();
    for _ in 0..300 {
        drop(compile());
    }
    for _ in 0..100 {
        assert!(JitEvaluator::compile(&too_large, &layout).is_err());
    }
    let growth = mappings().saturating_sub(before);
    // Other tests' threads come and go; kept code would be two mappings for each of 300.
    assert!(growth < 100, "{growth} more mappings");
}
