//! Optimizer hints of a SELECT.

use std::sync::Arc;

use sqlparser::ast::{OptimizerHint, Select};

use super::super::{Hint, HintKind, Others, Warning};
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
    pub orders: Vec<TableOrder>,
}

/// A hint for the order in which tables are joined.
#[derive(Clone)]
pub(super) struct TableOrder {
    /// In lower case.
    tables: Vec<String>,
    others: Others,
}

/// MySQL's warning of a hint that is not understood.
const SYNTAX: u16 = 1064;

/// MySQL's warning of a hint for a table that is not read.
const UNRESOLVED: u16 = 3128;

/// MySQL's warning of a hint that says what another one has said already.
const DUPLICATED: u16 = 3126;

/// The hint that sets a variable for a statement.
const SET_VAR: &str = "SET_VAR";

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

/// The variables that hints set for a statement, in lower case, with their values as they are written.
#[must_use]
pub fn set_variables(hints: &[OptimizerHint]) -> Vec<(String, String)> {
    let hints = hints.iter().flat_map(|hint| written(&hint.text)).flatten();
    let of_variables = hints.filter(|(name, _)| name == SET_VAR);
    of_variables
        .filter_map(|(_, arguments)| variable(arguments))
        .collect()
}

/// The names of hints that set no variable, in upper case, and what is none.
#[must_use]
pub fn other_hints(hints: &[OptimizerHint]) -> Vec<String> {
    let hints = hints.iter().flat_map(|hint| written(&hint.text));
    let others = hints.filter_map(|hint| match hint {
        Ok((name, arguments)) if name == SET_VAR && variable(arguments).is_some() => None,
        Ok((name, _)) => Some(format!("{name}(")),
        Err(rest) => Some(rest.to_owned()),
    });
    others.collect()
}

/// A variable and its value.
fn variable(arguments: &str) -> Option<(String, String)> {
    let (name, value) = arguments.split_once('=')?;
    let (name, value) = (name.trim().to_lowercase(), value.trim().to_owned());
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
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
            // Who runs the statement has set it.
            SET_VAR if number == 1 && variable(arguments).is_some() => return,
            SET_VAR if variable(arguments).is_some() => {
                return self.duplicated(name, arguments);
            }
            "JOIN_FIXED_ORDER" if arguments.trim().is_empty() => {
                Some(Hint::JoinFixedOrder { select: number })
            }
            "JOIN_ORDER" => return self.order(name, arguments, Others::Anywhere, hints),
            "JOIN_PREFIX" => return self.order(name, arguments, Others::Behind, hints),
            "JOIN_SUFFIX" => return self.order(name, arguments, Others::Before, hints),
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

    /// Notes an order of joins. There is one of tables that come first, and one of those that come last.
    fn order(&self, name: &str, arguments: &str, others: Others, hints: &mut Hints) {
        let is_same = |one: &TableOrder| one.others == others && others != Others::Anywhere;
        if hints.orders.iter().any(is_same) {
            return self.duplicated(name, arguments);
        }
        let tables = tables(arguments).collect();
        hints.orders.push(TableOrder { tables, others });
    }

    fn duplicated(&self, name: &str, arguments: &str) {
        let text = format!("Hint {name}({arguments}) is ignored as conflicting/duplicated");
        self.warn(DUPLICATED, text);
    }

    /// Warns of hints for tables that were not met, and notes the orders of joins.
    pub fn resolve_hints(
        &self,
        left: &[TableHint],
        orders: &[TableOrder],
        scope: &Scope,
        number: usize,
    ) {
        for hint in left {
            self.unresolved(&hint.table);
        }
        for order in orders {
            let mut references = Vec::with_capacity(order.tables.len());
            for table in &order.tables {
                let source = scope.source(None, table);
                match source.map(|source| &source.references[..]) {
                    Some(&[reference]) => references.push(reference),
                    _ => self.unresolved(table),
                }
            }
            self.hints.borrow_mut().push(Hint::JoinOrder {
                select: number,
                others: order.others,
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
