//! Makes trees of long chains shallow: `a OR b OR c OR d`, which the parser reads as `((a OR b) OR c) OR d`,
//! becomes `(a OR b) OR (c OR d)`. So do chains of AND, and of UNIONs of one kind. These are
//! associative, so nothing else changes; everything after this may recurse.
//!
//! Where `||` is CONCAT, a chain of it becomes one call.
//!
//! Only a loop walks down a chain.

use std::convert::Infallible;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Query, SetExpr, SetOperator, SetQuantifier, Value,
    Values, VisitMut, VisitorMut,
};

use super::Grammar;

/// Operands from which a chain is made shallow. Shorter ones stay what they were written as.
const LONG: usize = 16;

/// Makes the long chains of a part of a statement shallow.
pub fn balance(part: &mut impl VisitMut, grammar: &Grammar) {
    let mut balance = Balance {
        pipes_as_concat: grammar.has_pipes_as_concat(),
    };
    let _: ControlFlow<Infallible> = part.visit(&mut balance);
}

struct Balance {
    pipes_as_concat: bool,
}

impl VisitorMut for Balance {
    type Break = Infallible;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if self.pipes_as_concat && is_concat(expr) {
            let whole = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = concatenation(whole);
        } else if let Some(kind) = kind_of(expr)
            && length(expr, |expr| inner_of(expr, kind)) >= LONG
        {
            let whole = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = conditions(whole, kind);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        let body = &mut query.body;
        if let Some(kind) = union_of(body)
            && length(body.as_ref(), |body| branch_before(body, kind)) >= LONG
        {
            let whole = std::mem::replace(body.as_mut(), nothing());
            **body = branches(whole, kind);
        }
        ControlFlow::Continue(())
    }
}

/// Operands of a chain.
fn length<T>(first: &T, before: impl Fn(&T) -> Option<&T>) -> usize {
    let mut length = 1;
    let mut at = first;
    while let Some(next) = before(at) {
        length += 1;
        at = next;
    }
    length
}

/// AND as `true` or OR as `false`, in any spelling.
fn kind_of(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::BinaryOp { op, .. } => match op {
            BinaryOperator::And | BinaryOperator::PGOverlap => Some(true),
            BinaryOperator::Or | BinaryOperator::StringConcat => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn inner_of(expr: &Expr, kind: bool) -> Option<&Expr> {
    match expr {
        Expr::BinaryOp { left, .. } if kind_of(expr) == Some(kind) => Some(left),
        _ => None,
    }
}

fn is_concat(expr: &Expr) -> bool {
    let op = BinaryOperator::StringConcat;
    matches!(expr, Expr::BinaryOp { op: own, .. } if *own == op)
}

/// CONCAT of the operands of a chain.
fn concatenation(mut rest: Expr) -> Expr {
    let mut operands = Vec::new();
    loop {
        let in_chain = is_concat(&rest);
        match rest {
            Expr::BinaryOp { left, right, .. } if in_chain => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: operands.into_iter().rev().map(argument).collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("CONCAT")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn conditions(mut rest: Expr, kind: bool) -> Expr {
    let mut operands = Vec::new();
    let mut operator = BinaryOperator::And;
    loop {
        let in_chain = kind_of(&rest) == Some(kind);
        match rest {
            Expr::BinaryOp { left, op, right } if in_chain => {
                operands.push(*right);
                operator = op;
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    operands.reverse();
    let joined = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: operator.clone(),
        right: Box::new(right),
    };
    halves(operands, &joined)
}

/// What stands in the place of a body that is taken.
fn nothing() -> SetExpr {
    SetExpr::Values(Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    })
}

type Union = (SetOperator, SetQuantifier);

fn union_of(body: &SetExpr) -> Option<Union> {
    match body {
        SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier,
            ..
        } => Some((SetOperator::Union, *set_quantifier)),
        _ => None,
    }
}

fn branch_before(body: &SetExpr, kind: Union) -> Option<&SetExpr> {
    match body {
        SetExpr::SetOperation { left, .. } if union_of(body) == Some(kind) => Some(left),
        _ => None,
    }
}

fn branches(mut rest: SetExpr, kind: Union) -> SetExpr {
    let mut all = Vec::new();
    loop {
        let in_chain = union_of(&rest) == Some(kind);
        match rest {
            SetExpr::SetOperation { left, right, .. } if in_chain => {
                all.push(*right);
                rest = *left;
            }
            first => {
                all.push(first);
                break;
            }
        }
    }
    all.reverse();
    let (op, set_quantifier) = kind;
    let joined = |left: SetExpr, right: SetExpr| SetExpr::SetOperation {
        op,
        set_quantifier,
        left: Box::new(left),
        right: Box::new(right),
    };
    halves(all, &joined)
}

/// A tree of some operands, at least one, in their order.
pub fn halves<T>(mut operands: Vec<T>, joined: &impl Fn(T, T) -> T) -> T {
    while operands.len() > 1 {
        let mut pairs = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => joined(left, right),
                None => left,
            });
        }
        operands = pairs;
    }
    operands.pop().expect("there is at least one operand")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use perigee_sql_bind::Modes;

    use crate::parse::Grammar;
    use sqlparser::parser::Parser;

    fn balanced(text: &str) -> Box<Query> {
        let mut parser = Parser::new(Grammar::of(Modes::NONE))
            .try_with_sql(text)
            .unwrap();
        let mut query = parser.parse_query().unwrap();
        balance(query.as_mut(), Grammar::of(Modes::NONE));
        query
    }

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            Expr::Nested(inner) => depth(inner),
            _ => 0,
        }
    }

    fn selection(query: &Query) -> &Expr {
        match query.body.as_ref() {
            SetExpr::Select(select) => select.selection.as_ref().unwrap(),
            _ => panic!("no SELECT"),
        }
    }

    #[test]
    fn chains_keep_their_order_and_lose_their_depth() {
        let or = format!("SELECT 1 WHERE a{}", " OR a".repeat(1000));
        let and = format!("SELECT 1 WHERE a{}", " AND b AND c".repeat(500));
        for text in [&or, &and] {
            let query = balanced(text);
            assert_eq!(query.to_string(), *text);
            assert_eq!(depth(selection(&query)), 10, "{text}");
        }
        let inner = format!("SELECT 1 WHERE a OR (a{}) = b", " OR a".repeat(1000));
        assert_eq!(depth(selection(&balanced(&inner))), 12);
        let short = "SELECT 1 WHERE a OR b OR c OR d";
        assert_eq!(depth(selection(&balanced(short))), 3);
    }

    #[test]
    fn unions_of_one_kind_lose_their_depth() {
        fn depth(body: &SetExpr) -> usize {
            match body {
                SetExpr::SetOperation { left, right, .. } => 1 + depth(left).max(depth(right)),
                _ => 0,
            }
        }
        let text = format!(
            "SELECT 0 UNION SELECT 1{}",
            " UNION ALL SELECT 2".repeat(1000)
        );
        let query = balanced(&text);
        assert_eq!(query.to_string(), text);
        assert_eq!(depth(&query.body), 11);
    }
}
