//! Which words are names: a reserved word is one only in backticks, or behind a period.
//!
//! sqlparser takes nearly every word for a name, so that `SELECT FROM t` would be a column FROM with
//! the alias t. This pass over its trees finds such names, where MySQL has a syntax error.

use std::ops::ControlFlow;

pub(super) use perigee_expr::digest::is_reserved;
use sqlparser::ast::{
    self, Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, TableConstraint,
    TableFactor, Visit, Visitor,
};

/// A reserved word or a string that a statement has in the place of a name.
pub(super) fn misplaced(statement: &ast::Statement) -> Option<Ident> {
    let mut names = Names {
        default_is_value: !matches!(statement, ast::Statement::Query(_)),
    };
    match statement.visit(&mut names) {
        ControlFlow::Break(ident) => Some(ident),
        ControlFlow::Continue(()) => None,
    }
}

/// The same for a part of a statement that changes rows.
pub(super) fn misplaced_in(part: &impl Visit) -> Option<Ident> {
    let mut names = Names {
        default_is_value: true,
    };
    match part.visit(&mut names) {
        ControlFlow::Break(ident) => Some(ident),
        ControlFlow::Continue(()) => None,
    }
}

struct Names {
    /// DEFAULT stands for a column's or an option's default.
    default_is_value: bool,
}

type Flow = ControlFlow<Ident>;

/// A name that is declared or that is the first part of a reference.
fn name(ident: &Ident) -> Flow {
    let wrong = match ident.quote_style {
        None => is_reserved(&ident.value),
        Some(quote) => quote != '`',
    };
    if wrong {
        ControlFlow::Break(ident.clone())
    } else {
        ControlFlow::Continue(())
    }
}

fn object_name(names: &ObjectName) -> Flow {
    match names.0.first() {
        // `SELECT … FROM dual` reads no table.
        Some(ObjectNamePart::Identifier(ident))
            if names.0.len() > 1 || !ident.value.eq_ignore_ascii_case("dual") =>
        {
            name(ident)
        }
        _ => ControlFlow::Continue(()),
    }
}

impl Visitor for Names {
    type Break = Ident;

    fn pre_visit_statement(&mut self, statement: &ast::Statement) -> Flow {
        match statement {
            ast::Statement::CreateTable(table) => {
                for column in &table.columns {
                    name(&column.name)?;
                }
                table.constraints.iter().try_for_each(constraint)
            }
            ast::Statement::Insert(insert) => insert.columns.iter().try_for_each(object_name),
            ast::Statement::Drop { names, .. } => names.iter().try_for_each(object_name),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let mut ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        ctes.try_for_each(|cte| name(&cte.alias.name))
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        select.projection.iter().try_for_each(|item| match item {
            // Here strings are names, too.
            SelectItem::ExprWithAlias { alias, .. } if alias.quote_style.is_none() => name(alias),
            _ => ControlFlow::Continue(()),
        })
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Flow {
        object_name(relation)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        let (TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::NestedJoin { alias, .. }) = factor
        else {
            return ControlFlow::Continue(());
        };
        alias.iter().try_for_each(|alias| name(&alias.name))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        match expr {
            Expr::Identifier(ident) => {
                let is_default =
                    self.default_is_value && ident.value.eq_ignore_ascii_case("default");
                if is_default || ident.value.starts_with('@') {
                    return ControlFlow::Continue(());
                }
                name(ident)
            }
            Expr::CompoundIdentifier(idents) => match idents.first() {
                Some(ident) if !ident.value.starts_with('@') => name(ident),
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

fn constraint(constraint: &TableConstraint) -> Flow {
    let key = match constraint {
        TableConstraint::Index(index) => index.name.as_ref(),
        TableConstraint::Unique(unique) => unique.index_name.as_ref(),
        _ => None,
    };
    key.map_or(ControlFlow::Continue(()), name)
}
