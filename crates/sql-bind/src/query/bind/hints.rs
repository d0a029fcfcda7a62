//! Optimizer hints of a SELECT.

use std::sync::Arc;

use sqlparser::ast::{OptimizerHint, Select};

use super::super::{Hint, HintKind, Warning};
use super::scope::Scope;
use super::statement::Statement;

/// A hint for a table that is not known yet.
pub(super) struct TableHint {
    /// In lower case.
    pub table: String,
    pub kind: HintKind,
    pub wanted: bool,
}

/// What the hints of a SELECT say.
#[derive(Default)]
pub(super) struct Hints {
    pub of_tables: Vec<TableHint>,
    /// JOIN_ORDER: the tables.
    pub orders: Vec<Vec<String>>,
}

/// MySQL's warning of a hint that is not understood.
const SYNTAX: u16 = 1064;

/// MySQL's warning of a hint for a table that is not read.
const UNRESOLVED: u16 = 3128;

/// The hint that limits a statement's time.
const MAX_EXECUTION_TIME: &str = "MAX_EXECUTION_TIME";

/// The milliseconds that a SELECT may take, if a hint says so.
#[must_use]
pub fn time_limit(select: &Select) -> Option<u64> {
    let hints = select.optimizer_hints.iter();
    let mut hints = hints.flat_map(|hint| written(&hint.text)).flatten();
    let limit = hints.find(|(name, _)| name == MAX_EXECUTION_TIME);
    limit.and_then(|(_, arguments)| milliseconds(arguments))
}

fn milliseconds(arguments: &str) -> Option<u64> {
    arguments.trim().parse().ok()
}

/// The hints of a text: names in upper case, and what stands in the parentheses; at last a rest that is no hint.
fn written(text: &str) -> impl Iterator<Item = Result<(String, &str), &str>> {
    let mut rest = text.trim();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let parts = rest.split_once('(');
        let parts = parts.and_then(|(name, tail)| Some((name, closed(tail)?)));
        let Some((name, (arguments, tail))) = parts else {
            return Some(Err(std::mem::take(&mut rest)));
        };
        rest = tail.trim_start();
        Some(Ok((name.trim().to_ascii_uppercase(), arguments)))
    })
}

impl Statement<'_> {
    /// Reads the hints of a SELECT with a number. What is not understood is a warning.
    pub fn select_hints(&self, select: &Select, number: usize) -> Hints {
        let hints = self.hints_of(&select.optimizer_hints, number);
        let is_straight = select.select_modifiers.as_ref();
        if is_straight.is_some_and(|modifiers| modifiers.straight_join) {
            let hint = Hint::JoinFixedOrder { select: number };
            self.hints.borrow_mut().push(hint);
        }
        hints
    }

    /// Reads hints that stand behind the first word of a SELECT, UPDATE or DELETE.
    pub fn hints_of(&self, all: &[OptimizerHint], number: usize) -> Hints {
        let mut hints = Hints::default();
        for hint in all {
            for one in written(&hint.text) {
                match one {
                    Ok((name, arguments)) => self.hint(&name, arguments, number, &mut hints),
                    Err(rest) => {
                        self.warn(SYNTAX, format!("Optimizer hint syntax error near '{rest}'"));
                    }
                }
            }
        }
        hints
    }

    fn hint(&self, name: &str, arguments: &str, number: usize, hints: &mut Hints) {
        let (kind, wanted) = match name {
            "NDP_PUSHDOWN" => (HintKind::Pushdown, true),
            "NO_NDP_PUSHDOWN" => (HintKind::Pushdown, false),
            "NDP_JOIN_FILTER" => (HintKind::JoinFilter, true),
            "NO_NDP_JOIN_FILTER" => (HintKind::JoinFilter, false),
            "NDP_JOIN_TABLE" => (HintKind::JoinTable, true),
            "NO_NDP_JOIN_TABLE" => (HintKind::JoinTable, false),
            _ => return self.other_hint(name, arguments, number, hints),
        };
        let of_tables = tables(arguments).map(|table| TableHint {
            table,
            kind,
            wanted,
        });
        hints.of_tables.extend(of_tables);
    }

    fn other_hint(&self, name: &str, arguments: &str, number: usize, hints: &mut Hints) {
        let hint = match name {
            MAX_EXECUTION_TIME => milliseconds(arguments).map(Hint::MaxExecutionTime),
            "SET_VAR" => arguments.split_once('=').map(|(name, value)| {
                let name = name.trim().to_ascii_lowercase();
                Hint::SetVariable(name, value.trim().to_owned())
            }),
            "JOIN_FIXED_ORDER" => Some(Hint::JoinFixedOrder { select: number }),
            "JOIN_ORDER" => {
                hints.orders.push(tables(arguments).collect());
                return;
            }
            _ => None,
        };
        match hint {
            Some(hint) => self.hints.borrow_mut().push(hint),
            None => self.warn(
                SYNTAX,
                format!("Optimizer hint syntax error near '{name}('"),
            ),
        }
    }

    /// Warns of hints for tables that were not met, and notes the orders of joins.
    pub fn resolve_hints(
        &self,
        left: &[TableHint],
        orders: &[Vec<String>],
        scope: &Scope,
        number: usize,
    ) {
        for hint in left {
            self.unresolved(&hint.table);
        }
        for order in orders {
            let mut references = Vec::with_capacity(order.len());
            for table in order {
                let source = scope.source(None, table);
                match source.map(|source| &source.references[..]) {
                    Some(&[reference]) => references.push(reference),
                    _ => self.unresolved(table),
                }
            }
            self.hints.borrow_mut().push(Hint::JoinOrder {
                select: number,
                tables: references,
            });
        }
    }

    fn unresolved(&self, table: &str) {
        self.warn(
            UNRESOLVED,
            format!("Unresolved name '{table}' for an optimizer hint"),
        );
    }

    pub fn warn(&self, number: u16, text: String) {
        self.warnings.borrow_mut().push(Warning {
            number,
            text: Arc::from(text),
        });
    }
}

/// What stands before the parenthesis that closes, and what behind it.
fn closed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return Some((&text[..at], &text[at + 1..])),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn tables(arguments: &str) -> impl Iterator<Item = String> {
    let names = arguments
        .split(',')
        .map(|name| name.trim().trim_matches('`'));
    names.map(str::to_lowercase).filter(|name| !name.is_empty())
}
