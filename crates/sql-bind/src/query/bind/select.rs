//! A SELECT: its clauses bound one after the other, and the operators that they become.

use std::sync::Arc;

use perigee_expr::scalar::{Node, Scalar};
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, GroupByWithModifier, LimitClause, LockClause, OrderBy, Select,
    SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};
use sqlparser::tokenizer::Location;

use super::super::{Clause, Column, Operator, QueryError, Relation, SortKey};
use super::block::{Block, ExtraKind, Frame, Item};
use super::from::{From, column, parts};
use super::group::Needed;
use super::join::first_columns;
use super::names::shown_name;
use super::noted;
use super::order::{descends, exprs, is_constant, place, position};
use super::query::MAX_COLUMNS;
use super::scope::{Found, Named};
use super::stage::Stage;
use super::statement::Statement;
use crate::Result;
use crate::error::unsupported;

/// What follows a query's body.
#[derive(Default)]
pub(super) struct Tail<'t> {
    pub order: Option<&'t OrderBy>,
    pub limit: Option<&'t LimitClause>,
    pub locks: &'t [LockClause],
}

/// The clauses of a SELECT over the row of its block.
struct Clauses {
    items: Vec<Scalar>,
    columns: Vec<Column>,
    keys: Vec<Scalar>,
    is_grouped: bool,
    rollup: bool,
    having: Option<Scalar>,
    order: Vec<OrderKey>,
}

impl Statement<'_> {
    /// The rows of a SELECT in its order.
    pub fn select(
        &self,
        select: &Select,
        tail: &Tail<'_>,
        outer: Option<&Frame<'_>>,
    ) -> Result<Relation> {
        self.environment.check()?;
        refuse(select)?;
        let number = self.next_select();
        let hints = self.select_hints(select, number);
        let from = From {
            statement: self,
            select: number,
            outer,
            names: Default::default(),
            hints: hints.of_tables.into(),
        };
        let item = from.rows(&select.from)?;
        self.resolve_hints(&from.hints.take(), &hints.orders, &item.scope, number);
        self.row_locks(tail.locks, &item.scope)?;
        let rollup = is_rollup(&select.group_by)?;
        let scope = match rollup {
            // A column that is grouped by is NULL in some rows.
            true => item.scope.nullable(),
            false => item.scope,
        };
        let width = item.relation.columns.len();
        let mut block = Block::new(self, scope.indexed(), width, outer, Clause::Fields);
        block.windows.clone_from(&select.named_window);
        let (items, columns) = block.items(select)?;
        let mut stage = Stage::new(&block, item.relation);
        if let Some(selection) = &select.selection {
            let condition = block.condition(selection, Clause::Where)?;
            stage.filter(condition)?;
        }
        let keys = block.keys(&select.group_by, &items)?;
        let having = select.having.as_ref();
        let having = having.map(|having| block.having(having)).transpose()?;
        let order = block.order(exprs(tail.order)?, &items)?;
        let is_grouped = !keys.is_empty() || !block.extras.borrow().aggregates.is_empty();
        let clauses = Clauses {
            items,
            columns,
            keys,
            is_grouped,
            rollup,
            having,
            order,
        };
        let distinct = matches!(select.distinct, Some(Distinct::Distinct));
        let relation = clauses.made(stage, distinct)?;
        let rows = self.limited(relation, tail.limit)?;
        // Without the columns that it was sorted by.
        Ok(first_columns(rows, block.items.borrow().len()))
    }
}

/// Refuses clauses that MySQL does not have, and those that are done elsewhere.
fn refuse(select: &Select) -> Result<()> {
    let foreign = select.top.is_some()
        || select.exclude.is_some()
        || !select.lateral_views.is_empty()
        || select.prewhere.is_some()
        || select.qualify.is_some()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.sort_by.is_empty()
        || !select.distribute_by.is_empty()
        || select.value_table_mode.is_some()
        || matches!(select.distinct, Some(Distinct::On(_)));
    if foreign {
        return unsupported("a clause that MySQL does not have");
    }
    if select.into.is_some() {
        return unsupported("SELECT … INTO");
    }
    if let Some(modifiers) = &select.select_modifiers
        && modifiers.sql_calc_found_rows
    {
        return unsupported("SQL_CALC_FOUND_ROWS");
    }
    Ok(())
}

fn is_rollup(group_by: &GroupByExpr) -> Result<bool> {
    match group_by {
        GroupByExpr::Expressions(_, modifiers) => match &modifiers[..] {
            [] => Ok(false),
            [GroupByWithModifier::Rollup] => Ok(true),
            _ => unsupported("WITH CUBE, WITH TOTALS"),
        },
        GroupByExpr::All(_) => unsupported("GROUP BY ALL"),
    }
}

impl Block<'_> {
    /// The select list: expressions, and the columns that they are.
    fn items(&self, select: &Select) -> Result<(Vec<Scalar>, Vec<Column>)> {
        let texts = self
            .statement
            .catalog
            .item_texts(select.select_token.0.span.start);
        let (mut scalars, mut columns) = (Vec::new(), Vec::new());
        let place = select.select_token.0.span.start;
        for (number, item) in select.projection.iter().enumerate() {
            self.check_length(scalars.len())?;
            let first = columns.len();
            let (expr, alias) = match item {
                SelectItem::Wildcard(options) => {
                    self.star(None, options, select, &mut scalars, &mut columns)?;
                    self.note_star(place, number, &scalars[first..]);
                    continue;
                }
                SelectItem::QualifiedWildcard(kind, options) => {
                    self.star(Some(kind), options, select, &mut scalars, &mut columns)?;
                    self.note_star(place, number, &scalars[first..]);
                    continue;
                }
                SelectItem::ExprWithAliases { .. } => return unsupported("several aliases"),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(&alias.value)),
                SelectItem::UnnamedExpr(expr) => (expr, None),
            };
            let scalar = self.expression(expr, Clause::Fields)?;
            let name: Arc<str> = match alias {
                Some(alias) => alias.as_str().into(),
                None => shown_name(expr, texts.get(number).map(String::as_str)).into(),
            };
            if alias.is_none() {
                let text = (false, || noted::alias(&name));
                self.statement.note(noted::item(place, number, text));
            }
            let named = self
                .scope
                .columns
                .iter()
                .chain(self.scope.sources.iter().flat_map(|source| &source.columns));
            let of_table = match scalar.node {
                Node::Column(place) if place < self.width => {
                    named.into_iter().find(|column| column.place == place)
                }
                _ => None,
            };
            let column = Column {
                table: of_table.and_then(|named| named.column.table.clone()),
                origin: of_table.and_then(|named| named.column.origin),
                ty: scalar.ty.clone(),
                name,
            };
            self.add_item(scalar, column, alias.is_some(), &mut scalars, &mut columns);
        }
        self.check_length(scalars.len().saturating_sub(1))?;
        Ok((scalars, columns))
    }

    /// Notes what `*` stands for.
    fn note_star(&self, select: Location, number: usize, columns: &[Scalar]) {
        let text = || {
            let named = columns.iter().filter_map(|column| match column.node {
                Node::Column(place) => self.scope.columns.iter().find(|one| one.place == place),
                _ => None,
            });
            let column = |named: &Named| {
                let name = &named.column.name;
                let column = noted::column(&self.scope, named);
                format!("{}{}", column.unwrap_or_default(), noted::alias(name))
            };
            named.map(column).collect::<Vec<_>>().join(", ")
        };
        let item = noted::item(select, number, (true, text));
        self.statement.note(item);
    }

    /// Notes an item of the select list.
    fn add_item(
        &self,
        scalar: Scalar,
        column: Column,
        is_alias: bool,
        scalars: &mut Vec<Scalar>,
        columns: &mut Vec<Column>,
    ) {
        self.items.borrow_mut().push(Item {
            name: column.name.to_lowercase(),
            is_alias,
            scalar: scalar.clone(),
        });
        scalars.push(scalar);
        columns.push(column);
    }

    fn check_length(&self, columns: usize) -> Result<()> {
        match columns < MAX_COLUMNS {
            true => Ok(()),
            false => Err(QueryError::TooManyColumns.into()),
        }
    }

    /// `*` and `t.*`.
    fn star(
        &self,
        of: Option<&SelectItemQualifiedWildcardKind>,
        options: &WildcardAdditionalOptions,
        select: &Select,
        scalars: &mut Vec<Scalar>,
        columns: &mut Vec<Column>,
    ) -> Result<()> {
        if *options != Default::default() {
            return unsupported("* with options");
        }
        if select.from.is_empty() {
            return Err(QueryError::NoTablesUsed.into());
        }
        let all = match of {
            None => &self.scope.columns,
            Some(SelectItemQualifiedWildcardKind::ObjectName(name)) => {
                let names = parts(name)?
                    .into_iter()
                    .map(|part| part.value.to_lowercase());
                let names: Vec<String> = names.collect();
                let source = match &names[..] {
                    [table] => self.scope.source(None, table),
                    [schema, table] => self.scope.source(Some(schema), table),
                    _ => None,
                };
                let unknown = || QueryError::UnknownTable(names.join("."));
                &source.ok_or_else(unknown)?.columns
            }
            Some(_) => return unsupported("* of an expression"),
        };
        for named in all.iter().filter(|column| column.visible) {
            self.check_length(scalars.len())?;
            if let Some(table) = &named.denied {
                return Err(QueryError::TableDenied(table.to_string()).into());
            }
            self.add_item(column(named), named.column.clone(), false, scalars, columns);
        }
        Ok(())
    }

    /// GROUP BY: names mean columns first, then items of the select list.
    fn keys(&self, group_by: &GroupByExpr, items: &[Scalar]) -> Result<Vec<Scalar>> {
        let GroupByExpr::Expressions(exprs, _) = group_by else {
            return unsupported("GROUP BY ALL");
        };
        self.check_length(exprs.len().saturating_sub(1))?;
        self.clause.set(Clause::Group);
        let mut keys = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let key = match (position(expr), expr) {
                (Some(number), _) => items[place(number, items.len(), Clause::Group)?].clone(),
                (None, Expr::Identifier(ident)) if !ident.value.starts_with('@') => {
                    let name = ident.value.to_lowercase();
                    match self.scope.unqualified(&name) {
                        Found::One(named) => {
                            named.check()?;
                            let name = std::slice::from_ref(ident);
                            self.statement.note_column(name, &self.scope, named);
                            column(named)
                        }
                        Found::Several | Found::Nobody => match self.named_item(&name)? {
                            Some(item) => item,
                            None => self.expression(expr, Clause::Group)?,
                        },
                    }
                }
                _ => {
                    self.sees_items.set(true);
                    let key = self.expression(expr, Clause::Group);
                    self.sees_items.set(false);
                    key?
                }
            };
            let is_wrong = |kind| matches!(kind, ExtraKind::Aggregate(_) | ExtraKind::Window(_));
            if self.has_extra(&key, is_wrong) {
                return Err(QueryError::CannotGroup(expr.to_string()).into());
            }
            let mut changes = false;
            key.visit(&mut |part| {
                changes |= !part.is_deterministic();
                true
            });
            if changes {
                return unsupported("GROUP BY a value that changes from row to row");
            }
            if let Node::Column(place) = key.node
                && place < self.width
            {
                self.grouped.borrow_mut().push(place);
            }
            keys.push(key);
        }
        Ok(keys)
    }

    fn having(&self, having: &Expr) -> Result<Scalar> {
        let condition = self.condition(having, Clause::Having)?;
        if self.has_window(&condition) {
            return Err(QueryError::Window {
                number: 3594,
                name: having.to_string(),
                why: "HAVING may not use a window function",
            }
            .into());
        }
        let mut changes = false;
        condition.visit(&mut |part| {
            changes |= !part.is_deterministic();
            true
        });
        match changes {
            true => unsupported("HAVING over a random value"),
            false => Ok(condition),
        }
    }

    /// ORDER BY: names mean items of the select list first, then columns.
    pub(super) fn order(
        &self,
        exprs: &[sqlparser::ast::OrderByExpr],
        items: &[Scalar],
    ) -> Result<Vec<OrderKey>> {
        self.check_length(exprs.len().saturating_sub(1))?;
        self.clause.set(Clause::Order);
        let mut keys = Vec::with_capacity(exprs.len());
        for key in exprs {
            let expr = match &key.expr {
                Expr::Nested(inner) => inner,
                expr => expr,
            };
            let item = match (position(&key.expr), expr) {
                (Some(number), _) => Some(place(number, items.len(), Clause::Order)?),
                (None, Expr::Identifier(ident)) if !ident.value.starts_with('@') => {
                    self.named_place(&ident.value.to_lowercase())?
                }
                _ => None,
            };
            let scalar = match (item, expr) {
                (Some(item), _) => items[item].clone(),
                (None, Expr::Identifier(_)) => self.expression(expr, Clause::Order)?,
                (None, _) => {
                    self.sees_items.set(true);
                    let scalar = self.expression(expr, Clause::Order);
                    self.sees_items.set(false);
                    scalar?
                }
            };
            let descending = descends(key)?;
            if !is_constant(&scalar) {
                let key = SortKey { scalar, descending };
                keys.push(OrderKey { item, key });
            }
        }
        Ok(keys)
    }
}

/// A key of ORDER BY.
pub(super) struct OrderKey {
    /// The item of the select list that it names: what may have another value each time is computed once.
    item: Option<usize>,
    pub key: SortKey,
}

impl Clauses {
    /// The operators over the rows that WHERE leaves.
    fn made(self, mut stage: Stage<'_, '_>, distinct: bool) -> Result<Relation> {
        if self.is_grouped {
            let mut needed = Needed::new(stage.block, &self.keys, &stage.relation, self.rollup);
            let order = self.order.iter().map(|order| &order.key.scalar);
            for scalar in self.items.iter().chain(&self.having).chain(order) {
                needed.add(scalar)?;
            }
            let any = needed.any;
            stage.group(self.keys, self.rollup, &any)?;
        }
        if let Some(having) = self.having {
            stage.filter(having)?;
        }
        stage.windows()?;
        let mut columns = self.columns;
        let count = columns.len();
        let mut hidden: Vec<Scalar> = Vec::new();
        let mut keys = Vec::with_capacity(self.order.len());
        for (number, OrderKey { item, key }) in self.order.into_iter().enumerate() {
            let same = || self.items.iter().position(|item| item.is_same(&key.scalar));
            let item = item.or_else(same);
            let scalar = match (item, distinct) {
                (Some(item), _) => at(item, &self.items[item]),
                (None, true) => match of_items(key.scalar, &self.items, number) {
                    Err(_) if !stage.block.statement.catalog.only_full_group_by() => {
                        return unsupported("ORDER BY of what DISTINCT does not give");
                    }
                    key => key?,
                },
                (None, false) => {
                    let scalar = stage.place(key.scalar)?;
                    let known = hidden.iter().position(|known| known.is_same(&scalar));
                    let known = known.unwrap_or(hidden.len());
                    let column = at(count + known, &scalar);
                    if known == hidden.len() {
                        columns.push(super::stage::unnamed(scalar.ty.clone()));
                        hidden.push(scalar);
                    }
                    column
                }
            };
            let scalar = match stage.is_loose {
                true => scalar.loosened(),
                false => scalar,
            };
            keys.push(SortKey { scalar, ..key });
        }
        let mut expressions = Vec::with_capacity(columns.len());
        for (item, column) in self.items.into_iter().zip(&mut columns) {
            let item = stage.place(item)?;
            column.ty = item.ty.clone();
            expressions.push(item);
        }
        expressions.extend(hidden);
        let columns: Arc<[Column]> = columns.into();
        let project = |input| Operator::Project { input, expressions };
        stage.over(project, Arc::clone(&columns));
        if distinct {
            stage.over(|input| Operator::Distinct { input }, Arc::clone(&columns));
        }
        if !keys.is_empty() {
            stage.over(|input| Operator::Sort { input, keys }, columns);
        }
        Ok(stage.relation)
    }
}

/// A column of the select list.
fn at(place: usize, scalar: &Scalar) -> Scalar {
    Scalar::new(Node::Column(place), scalar.ty.clone())
}

/// An expression over the columns of the select list.
///
/// # Errors
/// 3065 if it needs others.
fn of_items(scalar: Scalar, items: &[Scalar], number: usize) -> Result<Scalar> {
    scalar.replaced(&mut |part| {
        let item = items.iter().position(|item| item.is_same(part));
        match (item, &part.node) {
            (Some(item), _) => Ok(Some(at(item, part))),
            (None, Node::Column(_)) => Err(QueryError::OrderNotInDistinct(number + 1).into()),
            (None, _) => Ok(None),
        }
    })
}
