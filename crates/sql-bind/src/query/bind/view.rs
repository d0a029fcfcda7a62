//! Views: a view is a derived table whose query stands elsewhere. Where rows are to be changed or locked, those of a
//! view that shows rows of its tables one by one bring the columns of these along, hidden behind its own.

use std::sync::Arc;

use perigee_expr::scalar::{Node, Scalar};
use perigee_value::Collation;
use sqlparser::ast::{Distinct, Expr, GroupByExpr, Query, Select, SetExpr, Value};

use super::super::{
    Check, Operator, Origin, QueryError, Relation, Table, ViewDefinition, ViewName,
};
use super::from::{From, FromItem, renamed, scope_of};
use super::statement::Statement;
use crate::error::unsupported;
use crate::{BindError, Modes, Result};

/// Most views one over the other.
const MAX_DEPTH: usize = 100;

/// Most views that a statement may stand for.
const MAX_VIEWS: usize = 2000;

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

/// The name of columns that are not shown.
const HIDDEN: &str = "/@";

/// What holds in a view, whoever names it.
pub(super) struct Inside {
    collation: Collation,
    account: Option<Arc<str>>,
}

impl From<'_> {
    /// The rows of a view, which the catalog has opened.
    pub(super) fn view(
        &self,
        name: &ViewName,
        alias: &Arc<str>,
        view: &ViewDefinition,
    ) -> Result<FromItem> {
        let statement = self.statement;
        let around = statement.enter(name, view)?;
        // The SELECT of a view that is no query of its own has the number of the one that names it.
        let merged = view.merges && is_mergeable(&view.query);
        statement.merging.set(merged.then_some(self.select));
        let bound = statement.query(&view.query, None);
        statement.merging.take();
        statement.leave(around);
        let mut relation = bound.map_err(|error| broken(error, name))?;
        let names: Vec<&str> = view.columns.iter().map(AsRef::as_ref).collect();
        let columns = renamed(&relation.columns, &names, alias);
        relation.columns = columns.map_err(|error| broken(error, name))?;
        let mut scope = scope_of(alias, &relation.columns);
        scope.deny(&view.denied, &name.name);
        let source = &mut scope.sources[0];
        source.schema = Some(Arc::clone(&name.schema));
        source.is_view = true;
        if merged && statement.keeps_rows.get() {
            source.is_join = is_join(&relation);
            let conditions = conditions(&relation);
            source.references = self.with_rows(&mut relation);
            source.checks = match source.references[..] {
                [reference] => statement.checks(reference, view.check, conditions)?,
                [] => Vec::new(),
                _ if view.check == Check::None => Vec::new(),
                _ => return unsupported("WITH CHECK OPTION of a view of several tables"),
            };
        }
        Ok(FromItem { relation, scope })
    }

    /// Has the rows of a view bring along those of its tables. Gives the references to these; none if a row of the view
    /// is not made of one row of each.
    fn with_rows(&self, relation: &mut Relation) -> Vec<usize> {
        let mut tables = Vec::new();
        tables_of(relation, &mut tables);
        // Those of derived tables stand in a SELECT of their own.
        tables.retain(|table| table.select == self.select);
        for table in &tables {
            let columns = 0..table.definition.columns.len();
            let reference = table.reference;
            let mut origins = columns.map(|column| Origin { reference, column });
            if !origins.all(|origin| relation.deliver(origin, HIDDEN).is_some()) {
                return Vec::new();
            }
        }
        tables.iter().map(|table| table.reference).collect()
    }
}

impl Statement<'_> {
    /// The conditions that a row of the only table of a view has to meet, given all that its query has.
    fn checks(
        &self,
        reference: usize,
        check: Check,
        all: Option<Vec<Scalar>>,
    ) -> Result<Vec<Scalar>> {
        let mut known = self.checked.borrow_mut();
        let (below, mut checks) = known.remove(&reference).unwrap_or_default();
        let Some(all) = all else {
            return match check == Check::None && checks.is_empty() {
                true => Ok(checks),
                false => unsupported("WITH CHECK OPTION of a view with subqueries"),
            };
        };
        match check {
            Check::None => {}
            // Those of the views below come last.
            Check::Local => checks.extend_from_slice(&all[..all.len() - below.min(all.len())]),
            Check::Cascaded => checks.clone_from(&all),
        }
        known.insert(reference, (all.len(), checks.clone()));
        Ok(checks)
    }

    /// Notes that what follows is bound in a view. Gives what held before.
    fn enter(&self, name: &ViewName, view: &ViewDefinition) -> Result<Option<Inside>> {
        let mut views = self.views.borrow_mut();
        if views.contains(name) {
            return Err(QueryError::ViewRecursion(name.to_string()).into());
        }
        let count = self.opened.get() + 1;
        self.opened.set(count);
        if views.len() == MAX_DEPTH || count > MAX_VIEWS {
            return Err(QueryError::TooLarge(MAX_VIEWS).into());
        }
        views.push(name.clone());
        let around = self.inside.take();
        let account = around.as_ref().and_then(|inside| inside.account.clone());
        self.inside.replace(Some(Inside {
            collation: view.collation,
            account: view.account.clone().or(account),
        }));
        Ok(around)
    }

    /// Notes that what follows is bound around the view again.
    fn leave(&self, around: Option<Inside>) {
        self.views.borrow_mut().pop();
        self.inside.replace(around);
    }

    /// The collation of literals.
    pub fn collation(&self) -> Collation {
        match &*self.inside.borrow() {
            Some(inside) => inside.collation,
            None => self.environment.collation(),
        }
    }

    /// The modes of `sql_mode`. The text of a view is read in none.
    pub fn modes(&self) -> Modes {
        let modes = self.environment.modes();
        match &*self.inside.borrow() {
            Some(_) => modes.without(Modes::OF_TEXTS),
            None => modes,
        }
    }

    /// The value of a function of the session as a literal.
    pub fn session_function(&self, name: &str) -> Option<Expr> {
        let inside = self.inside.borrow();
        let account = inside.as_ref().and_then(|inside| inside.account.as_deref());
        match account.filter(|_| name == "current_user") {
            Some(account) => Some(Expr::value(Value::SingleQuotedString(account.to_owned()))),
            None => self.environment.session_function(name),
        }
    }
}

/// True for the query of a view that may be a part of the one that names it.
fn is_mergeable(query: &Query) -> bool {
    let is_plain = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    match &*query.body {
        SetExpr::Select(select) => is_plain && shows_rows(select),
        _ => false,
    }
}

fn shows_rows(select: &Select) -> bool {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let is_distinct = !matches!(select.distinct, None | Some(Distinct::All));
    !select.from.is_empty() && !is_distinct && !is_grouped && select.having.is_none()
}

/// True for rows that a join makes.
fn is_join(relation: &Relation) -> bool {
    let mut relation = relation;
    loop {
        relation = match &relation.operator {
            Operator::Join(_) => return true,
            Operator::Filter { input, .. }
            | Operator::Project { input, .. }
            | Operator::Sort { input, .. } => input,
            Operator::Apply(apply) => &apply.input,
            _ => return false,
        };
    }
}

/// The conditions of a query over the rows of its only table; none if they are not of its rows alone.
fn conditions(relation: &Relation) -> Option<Vec<Scalar>> {
    let mut found: Vec<Scalar> = Vec::new();
    let mut relation = relation;
    loop {
        relation = match &relation.operator {
            Operator::Table(_) => return Some(found),
            Operator::Filter { input, predicate } => {
                found.push(predicate.clone());
                input
            }
            Operator::Sort { input, .. } => input,
            Operator::Project { input, expressions } => {
                for condition in &mut found {
                    let own = std::mem::replace(condition, Scalar::null());
                    *condition = over(own, expressions);
                }
                input
            }
            _ => return None,
        };
    }
}

/// An expression over rows of expressions as one over what these are made of.
fn over(scalar: Scalar, expressions: &[Scalar]) -> Scalar {
    let replaced = scalar.replaced::<std::convert::Infallible>(&mut |part| {
        Ok(match part.node {
            Node::Column(place) => expressions.get(place).cloned(),
            _ => None,
        })
    });
    match replaced {
        Ok(replaced) => replaced,
        Err(never) => match never {},
    }
}

/// Gathers the tables outside of subqueries of expressions.
fn tables_of(relation: &Relation, found: &mut Vec<Arc<Table>>) {
    stacker::maybe_grow(RED_ZONE, STACK, || match &relation.operator {
        Operator::Table(table) => found.push(Arc::clone(table)),
        Operator::Apply(apply) => tables_of(&apply.input, found),
        _ => {
            for input in relation.inputs() {
                tables_of(input, found);
            }
        }
    });
}

/// What is wrong with the query of a view is wrong with the view.
fn broken(error: BindError, name: &ViewName) -> BindError {
    match error.number() {
        1049 | 1051 | 1052 | 1054 | 1060 | 1142 | 1143 | 1146 | 1353 | 1356 => {
            QueryError::BrokenView(name.to_string()).into()
        }
        _ => error,
    }
}
