//! A SELECT while its clauses are bound: what names mean in them, and what its expressions use beside columns.
//!
//! Expressions of a block are bound over a row that no operator gives: the columns of the FROM, and behind them what
//! subqueries, aggregate functions and windows give, in the order in which they are met ([`Extra`]). When the operators
//! are made, [`super::stage`] moves the expressions to the rows that these have.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use perigee_expr::Comparison;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Node, Scalar, Target, Variable};
use perigee_sql_type::SqlType;
use perigee_value::{Collation, Now};
use sqlparser::ast::{self, Expr, Function, Ident};

use super::super::{Aggregate, Applied, Clause, Quantifier, QueryError, Relation, Window};
use super::scope::{Found, Scope, unknown, written};
use super::statement::Statement;
use crate::error::unsupported;
use crate::{Binder, ColumnOf, Environment, ListItems, Modes, Result};

/// A subquery, seen from inside: the block around it, and what it needs of its rows.
pub(super) struct Frame<'q> {
    pub block: &'q Block<'q>,
    pub arguments: RefCell<Vec<Scalar>>,
}

/// Something that is computed beside the columns of the FROM.
#[derive(Clone, Debug)]
pub(super) struct Extra {
    pub kind: ExtraKind,
    pub ty: SqlType,
}

/// What computes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExtraKind {
    /// A column of what a subquery gives.
    Applied { apply: usize },
    /// An aggregate function.
    Aggregate(usize),
    /// A window function.
    Window(usize),
}

/// A subquery that is to be applied.
pub(super) struct Pending {
    pub subquery: Relation,
    pub arguments: Vec<Scalar>,
    pub applied: Applied,
    /// The place of its first column.
    pub place: usize,
    /// Columns that it gives.
    pub width: usize,
}

/// What is computed beside the columns of the FROM, so far.
#[derive(Default)]
pub(super) struct Extras {
    pub all: Vec<Extra>,
    pub applies: Vec<Option<Pending>>,
    pub aggregates: Vec<Option<Aggregate>>,
    pub windows: Vec<Option<Window>>,
}

/// An expression of the select list.
pub(super) struct Item {
    /// Its name in lower case.
    pub name: String,
    /// The name is an alias, not a column's own.
    pub is_alias: bool,
    pub scalar: Scalar,
}

/// A SELECT.
pub(super) struct Block<'q> {
    pub statement: &'q Statement<'q>,
    pub scope: Scope,
    /// Columns of the FROM's row; extras have the places behind them.
    pub width: usize,
    /// The subquery that the block is in.
    pub outer: Option<&'q Frame<'q>>,
    pub clause: Cell<Clause>,
    /// Aggregate functions around the expression at hand.
    pub in_aggregate: Cell<bool>,
    /// Window functions around it.
    pub in_window: Cell<bool>,
    /// True in the definition of a window.
    pub in_definition: Cell<bool>,
    /// True once names of the select list may be meant.
    pub sees_items: Cell<bool>,
    pub items: RefCell<Vec<Item>>,
    /// Columns of the FROM that are grouped by, which HAVING may name.
    pub grouped: RefCell<Vec<usize>>,
    pub extras: RefCell<Extras>,
    /// What columns of the FROM hold that were assigned to, where that is known.
    pub assigned: RefCell<HashMap<usize, Option<Scalar>>>,
    /// Windows with names.
    pub windows: Vec<ast::NamedWindowDefinition>,
}

impl<'q> Block<'q> {
    /// A block over the row of a FROM.
    pub fn new(
        statement: &'q Statement<'q>,
        scope: Scope,
        width: usize,
        outer: Option<&'q Frame<'q>>,
        clause: Clause,
    ) -> Self {
        Self {
            statement,
            scope,
            width,
            outer,
            clause: Cell::new(clause),
            in_aggregate: Cell::new(false),
            in_window: Cell::new(false),
            in_definition: Cell::new(false),
            sees_items: Cell::new(false),
            items: RefCell::default(),
            grouped: RefCell::default(),
            extras: RefCell::default(),
            assigned: RefCell::default(),
            windows: Vec::new(),
        }
    }

    /// The meaning of an expression of a clause; a TIMESTAMP stays one.
    pub fn expression(&self, expr: &Expr, clause: Clause) -> Result<Scalar> {
        self.clause.set(clause);
        Binder::new(self).stored(expr)
    }

    /// The meaning of a condition of a clause.
    pub fn condition(&self, expr: &Expr, clause: Clause) -> Result<Scalar> {
        self.clause.set(clause);
        Binder::new(self).condition(expr)
    }

    /// What a name means here or further out; `None` if it means nothing.
    pub fn resolve(&self, name: &[Ident]) -> Result<Option<Scalar>> {
        match self.here(name)? {
            Some(found) => Ok(Some(found)),
            None => self.outside(name),
        }
    }

    /// What a name in a subquery of this block means: in the select list aliases before it, too.
    fn seen_from_inside(&self, name: &[Ident]) -> Result<Option<Scalar>> {
        if let Some(found) = self.here(name)? {
            return Ok(Some(found));
        }
        if let ([name], Clause::Fields) = (name, self.clause.get())
            && let Some(item) = self.named_item(&name.value.to_lowercase())?
        {
            return Ok(Some(item));
        }
        self.outside(name)
    }

    /// What a name means in this block.
    fn here(&self, name: &[Ident]) -> Result<Option<Scalar>> {
        if self.clause.get() == Clause::Having && !self.in_aggregate.get() {
            return self.in_having(name);
        }
        match self.scope.find(name)? {
            Found::One(column) => {
                self.statement.note_column(name, &self.scope, column);
                Ok(Some(of_column(column)))
            }
            Found::Several => Err(self.ambiguous(name)),
            Found::Nobody => self.item(name),
        }
    }

    /// What a name means further out, as a parameter.
    fn outside(&self, name: &[Ident]) -> Result<Option<Scalar>> {
        let Some(frame) = self.outer else {
            return Ok(None);
        };
        let Some(argument) = frame.block.seen_from_inside(name)? else {
            return Ok(None);
        };
        Ok(Some(frame.parameter(argument)))
    }

    /// The item of the select list that a name means, where the names of columns come first.
    fn item(&self, name: &[Ident]) -> Result<Option<Scalar>> {
        let [name] = name else {
            return Ok(None);
        };
        if !self.sees_items.get() && self.clause.get() != Clause::Having {
            return Ok(None);
        }
        let item = self.named_item(&name.value.to_lowercase())?;
        if let (Some(item), true) = (&item, self.in_aggregate.get())
            && self.has_extra(item, |kind| matches!(kind, ExtraKind::Aggregate(_)))
        {
            let name = name.value.clone();
            return Err(QueryError::IllegalReference(name, "reference to group function").into());
        }
        Ok(item)
    }

    /// The item of a name in lower case.
    pub fn named_item(&self, name: &str) -> Result<Option<Scalar>> {
        let place = self.named_place(name)?;
        Ok(place.map(|place| self.items.borrow()[place].scalar.clone()))
    }

    /// The place in the select list of the item of a name in lower case.
    pub fn named_place(&self, name: &str) -> Result<Option<usize>> {
        let items = self.items.borrow();
        let mut found: Option<(usize, &Item)> = None;
        let named = items.iter().enumerate();
        for (place, item) in named.filter(|(_, item)| item.name == name) {
            match found {
                Some((_, first)) if !first.scalar.is_same(&item.scalar) => {
                    // An alias is meant before a column's own name.
                    match (first.is_alias, item.is_alias) {
                        (true, false) => continue,
                        (false, true) => {}
                        _ => {
                            let clause = self.clause.get();
                            let error = QueryError::AmbiguousColumn(name.to_owned(), clause);
                            return Err(error.into());
                        }
                    }
                }
                _ => {}
            }
            found = Some((place, item));
        }
        Ok(found.map(|(place, _)| place))
    }

    /// HAVING names what the select list or GROUP BY has.
    fn in_having(&self, name: &[Ident]) -> Result<Option<Scalar>> {
        let found = self.scope.find(name)?;
        let column = match found {
            Found::One(column) => {
                self.statement.note_column(name, &self.scope, column);
                Some(of_column(column))
            }
            Found::Several | Found::Nobody => None,
        };
        let is_listed = |column: &Scalar| {
            let place = match column.node {
                Node::Column(place) => place,
                _ => return false,
            };
            let items = self.items.borrow();
            self.grouped.borrow().contains(&place)
                || items
                    .iter()
                    .any(|item| matches!(item.scalar.node, Node::Column(at) if at == place))
        };
        let item = match name {
            [name] => self.named_item(&name.value.to_lowercase())?,
            _ => None,
        };
        match (item, column) {
            (Some(_), Some(column)) if self.is_grouped(&column) => Ok(Some(column)),
            (Some(item), _) => Ok(Some(item)),
            (None, Some(column)) if is_listed(&column) => Ok(Some(column)),
            (None, None) if matches!(found, Found::Several) => Err(self.ambiguous(name)),
            _ => Ok(None),
        }
    }

    fn is_grouped(&self, column: &Scalar) -> bool {
        matches!(column.node, Node::Column(place) if self.grouped.borrow().contains(&place))
    }

    fn ambiguous(&self, name: &[Ident]) -> crate::BindError {
        QueryError::AmbiguousColumn(written(name), self.clause.get()).into()
    }

    /// An expression that a subquery needs, over what the columns hold by now.
    pub fn with_assigned(&self, scalar: Scalar) -> Result<Scalar> {
        let assigned = self.assigned.borrow();
        if assigned.is_empty() {
            return Ok(scalar);
        }
        scalar.replaced(&mut |part| {
            let Node::Column(place) = part.node else {
                return Ok(None);
            };
            match assigned.get(&place) {
                None => Ok(None),
                Some(Some(held)) => Ok(Some(held.clone())),
                Some(None) => unsupported("a subquery over a column that is assigned such a value"),
            }
        })
    }

    /// An extra of a type, as a column.
    pub fn extra(&self, kind: ExtraKind, ty: SqlType) -> Scalar {
        let mut extras = self.extras.borrow_mut();
        let place = self.width + extras.all.len();
        let extra = Extra {
            kind,
            ty: ty.clone(),
        };
        extras.all.push(extra);
        Scalar::new(Node::Column(place), ty)
    }
}

impl Frame<'_> {
    /// The parameter with the value of an expression over the row around the subquery.
    pub fn parameter(&self, argument: Scalar) -> Scalar {
        let mut arguments = self.arguments.borrow_mut();
        // Groups that may have no rows, and rows of a rollup, are known only when the SELECT around is.
        let mut ty = argument.ty.clone().nullable(true);
        ty.literal = false;
        let known = arguments.iter().position(|known| known.is_same(&argument));
        let number = known.unwrap_or_else(|| {
            arguments.push(argument);
            arguments.len() - 1
        });
        Scalar::new(Node::Parameter(number), ty)
    }
}

fn of_column(column: &super::scope::Named) -> Scalar {
    Scalar::new(Node::Column(column.place), column.column.ty.clone())
}

impl Environment for Block<'_> {
    fn column(&self, name: &[Ident]) -> Result<ColumnOf> {
        let Scalar { node, ty } = self.name(name)?;
        match node {
            Node::Column(place) => Ok(ColumnOf { place, ty }),
            _ => unsupported("this name"),
        }
    }

    fn name(&self, name: &[Ident]) -> Result<Scalar> {
        let found = self.resolve(name)?;
        found.ok_or_else(|| unknown(written(name), self.clause.get()))
    }

    fn aggregate(&self, function: &Function) -> Result<Option<Scalar>> {
        match function.over {
            Some(_) => self.window_function(function).map(Some),
            None => self.aggregate_function(function),
        }
    }

    fn subquery(&self, query: &ast::Query) -> Result<Vec<Scalar>> {
        self.row_of(query)
    }

    fn exists(&self, query: &ast::Query) -> Result<Scalar> {
        self.has_rows(query)
    }

    fn quantified(
        &self,
        left: Vec<Scalar>,
        comparison: Comparison,
        quantifier: Quantifier,
        query: &ast::Query,
    ) -> Result<Scalar> {
        self.compared_with_rows(left, comparison, quantifier, query)
    }

    fn variable(&self, scope: Option<&str>, name: &str) -> Result<Expr> {
        self.statement.environment.variable(scope, name)
    }

    fn user_variable(&self, name: &str) -> (Value<'static>, SqlType) {
        self.statement.environment.user_variable(name)
    }

    fn assigned_variable(&self, name: &str) -> Option<(Arc<Variable>, Target, Collation)> {
        self.statement.environment.assigned_variable(name)
    }

    fn assign_variable(&self, name: &str, ty: &SqlType) -> Result<Arc<Variable>> {
        self.statement.assigns.set(true);
        self.statement.environment.assign_variable(name, ty)
    }

    fn session_function(&self, name: &str) -> Option<Expr> {
        self.statement.session_function(name)
    }

    fn collation(&self) -> Collation {
        self.statement.collation()
    }

    fn long_list(&self, name: &str) -> Option<ListItems<'_>> {
        self.statement.environment.long_list(name)
    }

    fn now(&self) -> Now {
        self.statement.environment.now()
    }

    fn modes(&self) -> Modes {
        self.statement.modes()
    }

    fn check(&self) -> Result<()> {
        self.statement.environment.check()
    }
}
