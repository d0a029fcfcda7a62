//! Which statements that change rows read columns, too, and so need the privilege SELECT besides.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, InsertAliases, ObjectName, Visit, Visitor};

use super::dml::NEW;
use crate::parse::Rows;

/// The first column that an UPDATE or DELETE reads to choose rows or to compute values.
pub(super) fn of_change(rows: &Rows, values: &impl Visit) -> Option<String> {
    let mut search = Search::default();
    search.of(&rows.selection);
    search.of(&rows.order_by);
    search.of(values);
    search.found.into_iter().next()
}

/// The columns of the row in the way that ON DUPLICATE KEY UPDATE reads. Those of the row to insert are not read
/// from the table.
pub(super) fn of_duplicate(assignments: &impl Visit, alias: Option<&InsertAliases>) -> Vec<String> {
    let mut search = Search {
        wants_all: true,
        ..Search::default()
    };
    if let Some(alias) = alias {
        let row = alias.row_alias.0.iter().filter_map(|part| part.as_ident());
        let columns = alias.col_aliases.iter().flatten();
        let names = row.chain(columns).map(|name| name.value.to_lowercase());
        search.other.extend(names);
    }
    search.of(assignments);
    search.found
}

/// Looks for names of columns in expressions.
#[derive(Default)]
struct Search {
    /// All of them, not only the first one.
    wants_all: bool,
    /// Those that were found, in lower case.
    found: Vec<String>,
    /// Names of other things than the columns of tables, in lower case.
    other: Vec<String>,
    /// How many VALUES(…) of ON DUPLICATE KEY UPDATE are around.
    in_values: usize,
}

impl Search {
    fn of(&mut self, part: &impl Visit) {
        if self.wants_all || self.found.is_empty() {
            let _ = part.visit(self);
        }
    }

    fn is_other(&self, name: &Ident) -> bool {
        let is_word = name.quote_style.is_none();
        let lower = name.value.to_lowercase();
        if lower.starts_with(NEW) {
            return true;
        }
        (is_word && (lower.starts_with('@') || lower == "default")) || self.other.contains(&lower)
    }
}

fn is_values(name: &ObjectName) -> bool {
    matches!(&name.0[..], [part] if part.as_ident().is_some_and(|n| n.value.eq_ignore_ascii_case("values")))
}

impl Visitor for Search {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let (first, column) = match expr {
            Expr::Function(function) if is_values(&function.name) => {
                self.in_values += 1;
                return ControlFlow::Continue(());
            }
            Expr::Identifier(name) => (name, name),
            Expr::CompoundIdentifier(names) => match (names.first(), names.last()) {
                (Some(first), Some(last)) => (first, last),
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        if self.in_values > 0 || self.is_other(first) {
            return ControlFlow::Continue(());
        }
        self.found.push(column.value.to_lowercase());
        match self.wants_all {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Function(function) if is_values(&function.name)) {
            self.in_values -= 1;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::parse::{Script, Statement};
    use sqlparser::ast::OnInsert;

    fn read(text: &str) -> Option<String> {
        let script = Script::new(text).unwrap();
        match script.pieces().next().unwrap().parse().unwrap() {
            Statement::Update(update) => of_change(&update.rows, &update.assignments),
            Statement::Delete(delete) => of_change(&delete.rows, &delete.rows.limit),
            Statement::Insert(insert) => match insert.on {
                Some(OnInsert::DuplicateKeyUpdate(assignments)) => {
                    let read = of_duplicate(&assignments, insert.insert_alias.as_ref());
                    (!read.is_empty()).then(|| read.join(", "))
                }
                _ => None,
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn statements_that_read_name_a_column() {
        for (text, expected) in [
            ("UPDATE t SET a = 1", None),
            ("UPDATE t SET a = DEFAULT, b = @x", None),
            ("UPDATE t SET a = B + 1", Some("b")),
            ("UPDATE t SET a = 1 WHERE t.c = 2", Some("c")),
            ("UPDATE t SET a = 1 ORDER BY d", Some("d")),
            ("DELETE FROM t", None),
            ("DELETE FROM t WHERE 1 = 1 LIMIT 3", None),
            ("DELETE FROM t WHERE a IN (1, 2)", Some("a")),
            (
                "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1",
                None,
            ),
            (
                "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a) + 1",
                None,
            ),
            (
                "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a) + b, b = t.C",
                Some("b, c"),
            ),
            (
                "INSERT INTO t VALUES (1) AS new ON DUPLICATE KEY UPDATE a = new.a",
                None,
            ),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
    }
}
