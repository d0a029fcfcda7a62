//! Programs as text, one node a line, valid or not:
//!
//! ```text
//! column 1 int                    constant string "REG AIR"
//! constant int null               constant string "x" * 70000
//! compare < 0 1                   and 0 1 2
//! not 0      isnull 0     minus 0      cast 0 double     and 1 * 1000
//! arithmetic / 0 1 decimal(20,6)
//! in 0 int 1 2 3                  in 0 string "a" "b" or null
//! like 0 "%a_" \                  substring 0 1 5
//! extract year 0                  case int 0 1, 2 3 else 4
//! 300 times not ^1
//! ```
//!
//! `^n` is the node `n` before this one.

use perigee_expr::{Arithmetic, Comparison, DateField, Node, NodeId, Program, Type};
use perigee_value::{Collation, Datum};

/// Reads a program; panics with the line that it does not understand.
pub fn parse(lines: &[String]) -> Program {
    let mut nodes = Vec::new();
    for line in lines {
        let (times, line) = match line.split_once(" times ") {
            Some((times, rest)) => (number::<usize>(times), rest),
            None => (1, line.as_str()),
        };
        for _ in 0..times {
            let node = node(line, nodes.len());
            nodes.push(node);
        }
    }
    Program { nodes }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    let read = text.parse();
    read.unwrap_or_else(|_| panic!("{text} is no such number"))
}

fn operand(text: &str, index: usize) -> NodeId {
    NodeId(match text.strip_prefix('^') {
        Some(back) => (index - number::<usize>(back)) as u16,
        None => number(text),
    })
}

/// `0 1 2`, or `1 * 100` for a hundred times the same.
fn operands(text: &str, index: usize) -> Vec<NodeId> {
    if let Some((same, times)) = text.split_once(" * ") {
        return vec![operand(same, index); number(times)];
    }
    let words = text.split_whitespace();
    words.map(|word| operand(word, index)).collect()
}

/// A type's name: `int`, `decimal(12,2)`.
pub fn ty(text: &str) -> Type {
    if let Some(decimal) = text.strip_prefix("decimal(") {
        let (precision, scale) = decimal
            .trim_end_matches(')')
            .split_once(',')
            .expect("decimal(precision,scale)");
        return Type::Decimal {
            precision: number(precision),
            scale: number(scale),
        };
    }
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::UInt,
        "double" => Type::Double,
        "date" => Type::Date,
        "datetime" => Type::DateTime,
        "time" => Type::Time,
        "string" => Type::String,
        "string_ci" => Type::Collated(Collation::UTF8MB4_GENERAL_CI),
        other => panic!("{other} is no type"),
    }
}

/// A value of a type: numbers in the type's unit, strings in quotes, `"x" * 9` for nine of them,
/// `bytes ff fe` for what is no text.
fn value(text: &str, ty: Type) -> Datum {
    if text == "null" {
        return Datum::Null;
    }
    if let Some(hex) = text.strip_prefix("bytes ") {
        return Datum::String(super::language::hex(hex));
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (quoted, times) = quoted.rsplit_once('"').expect("a closing quote");
        let times = times.strip_prefix(" * ").map_or(1, number);
        return Datum::String(quoted.repeat(times).into());
    }
    match ty {
        Type::Bool => Datum::Bool(text == "true"),
        Type::Int => Datum::Int(number(text)),
        Type::UInt => Datum::UInt(number(text)),
        Type::Decimal {
            precision: 39.., ..
        } => Datum::Wide(number::<i128>(text).into()),
        Type::Decimal { .. } => Datum::Decimal(number(text)),
        Type::Double => Datum::Double(number(text)),
        Type::Date => Datum::Date(number(text)),
        Type::DateTime => Datum::DateTime(number(text)),
        Type::Time => Datum::Time(number(text)),
        Type::String | Type::Collated(_) => panic!("{text} is no string"),
    }
}

fn comparison(text: &str) -> Comparison {
    match text {
        "=" => Comparison::Equal,
        "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => Comparison::NullSafeEqual,
    }
}

fn arithmetic(text: &str) -> Arithmetic {
    match text {
        "+" => Arithmetic::Add,
        "-" => Arithmetic::Subtract,
        "*" => Arithmetic::Multiply,
        "/" => Arithmetic::Divide,
        "div" => Arithmetic::IntDivide,
        _ => Arithmetic::Modulo,
    }
}

fn field(text: &str) -> DateField {
    match text {
        "year" => DateField::Year,
        "month" => DateField::Month,
        "day" => DateField::Day,
        "hour" => DateField::Hour,
        other => panic!("{other} is no field"),
    }
}

fn node(line: &str, index: usize) -> Node {
    let (name, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let words: Vec<&str> = rest.split_whitespace().collect();
    let at = |i: usize| operand(words[i], index);
    match name {
        "column" => Node::Column {
            index: number(words[0]),
            ty: ty(words[1]),
        },
        // The type that is stated and the type of the value may differ: `constant int as date 5`.
        "constant" => {
            let (stated, rest) = rest.split_once(' ').expect("a type and a value");
            let (of, text) = match rest.strip_prefix("as ") {
                Some(rest) => rest.split_once(' ').expect("a type and a value"),
                None => (stated, rest),
            };
            Node::Constant {
                value: value(text, ty(of)),
                ty: ty(stated),
            }
        }
        "compare" => Node::Compare {
            op: comparison(words[0]),
            left: at(1),
            right: at(2),
        },
        "and" => Node::And(operands(rest, index)),
        "or" => Node::Or(operands(rest, index)),
        "not" => Node::Not(at(0)),
        "isnull" => Node::IsNull(at(0)),
        "minus" => Node::Negate(at(0)),
        "cast" => Node::Cast {
            operand: at(0),
            ty: ty(words[1]),
        },
        "arithmetic" => Node::Arithmetic {
            op: arithmetic(words[0]),
            left: at(1),
            right: at(2),
            ty: ty(words[3]),
        },
        "in" => list(rest, index),
        "like" => {
            let (operand_text, rest) = rest.split_once(' ').expect("an operand and a pattern");
            let (pattern, escape) = rest.rsplit_once(' ').expect("a pattern and an escape");
            let Datum::String(pattern) = value(pattern, Type::String) else {
                panic!("{pattern} is no pattern")
            };
            Node::Like {
                operand: operand(operand_text, index),
                pattern: String::from_utf8(pattern).expect("patterns are text"),
                escape: escape.chars().next().expect("an escape character"),
            }
        }
        "extract" => Node::Extract {
            field: field(words[0]),
            operand: at(1),
        },
        "substring" => Node::Substring {
            operand: at(0),
            start: number(words[1]),
            length: words.get(2).map(|length| number(length)),
        },
        "case" => case(rest, index),
        other => panic!("{other} is no node"),
    }
}

/// `OPERAND TYPE VALUE…`, or `OPERAND TYPE FIRST to LAST`; strings in quotes, without spaces.
fn list(text: &str, index: usize) -> Node {
    let (text, has_null) = match text.strip_suffix(" or null") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let of = ty(words[1]);
    let list = match words[2..] {
        [first, "to", last] => (number::<i64>(first)..=number(last))
            .map(Datum::Int)
            .collect(),
        _ => words[2..].iter().map(|word| value(word, of)).collect(),
    };
    Node::In {
        operand: operand(words[0], index),
        list,
        has_null,
    }
}

/// `TYPE WHEN THEN, WHEN THEN else VALUE`.
fn case(text: &str, index: usize) -> Node {
    let (of, text) = text.split_once(' ').unwrap_or((text, ""));
    let (text, otherwise) = match text.split_once("else ") {
        Some((text, otherwise)) => (text, Some(operand(otherwise.trim(), index))),
        None => (text, None),
    };
    let branches = text
        .split(',')
        .map(|branch| operands(branch, index))
        .filter(|branch| !branch.is_empty());
    Node::Case {
        branches: branches.map(|branch| (branch[0], branch[1])).collect(),
        otherwise,
        ty: ty(of),
    }
}
