//! A query with its WITH, its body, ORDER BY and LIMIT; UNION, INTERSECT and EXCEPT; VALUES and TABLE.

use std::sync::Arc;

use perigee_sql_type::SqlType;
use sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, SetExpr, SetOperator, SetQuantifier,
    TableFactor, TableWithJoins, Values,
};

use super::super::{Column, Operator, QueryError, Relation, SetOperation};
use super::block::{Block, Frame};
use super::from::From;
use super::scope::Scope;
use super::select::Tail;
use super::statement::Statement;
use super::subquery::projected;
use crate::error::unsupported;
use crate::{Binder, Result};

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

/// Most columns of a row.
pub(super) const MAX_COLUMNS: usize = 4096;

/// Most parts of an INTERSECT or EXCEPT, each of which is an operator over the ones before it.
const MAX_NESTED: usize = 1000;

impl Statement<'_> {
    /// The rows of a query inside of a subquery, or of none.
    pub fn query(&self, query: &Query, outer: Option<&Frame<'_>>) -> Result<Relation> {
        stacker::maybe_grow(RED_ZONE, STACK, || self.with(query, outer))
    }

    /// A query without its WITH.
    pub fn body(&self, query: &Query, outer: Option<&Frame<'_>>) -> Result<Relation> {
        let is_plain = query.for_clause.is_none()
            && query.fetch.is_none()
            && query.settings.is_none()
            && query.format_clause.is_none()
            && query.pipe_operators.is_empty();
        if !is_plain {
            return unsupported("FOR, FETCH, SETTINGS, FORMAT, |>");
        }
        let tail = Tail {
            order: query.order_by.as_ref(),
            limit: query.limit_clause.as_ref(),
            locks: &query.locks,
        };
        match &*query.body {
            SetExpr::Select(select) => self.select(select, &tail, outer),
            body => {
                let relation = self.rows(body, outer)?;
                self.locks_of(&query.locks, &relation)?;
                self.ordered(relation, tail.order, tail.limit, outer)
            }
        }
    }

    /// The rows of a query's body.
    pub fn rows(&self, body: &SetExpr, outer: Option<&Frame<'_>>) -> Result<Relation> {
        self.environment.check()?;
        stacker::maybe_grow(RED_ZONE, STACK, || match body {
            SetExpr::Select(select) => self.select(select, &Tail::default(), outer),
            SetExpr::Query(query) => self.query(query, outer),
            SetExpr::SetOperation { .. } => self.operations(body, outer),
            SetExpr::Values(values) => self.values(values, outer),
            SetExpr::Table(table) => {
                let ident = |name: &String| ObjectNamePart::Identifier(Ident::new(name));
                let parts = [&table.schema_name, &table.table_name];
                let parts = parts.into_iter().flatten().map(ident);
                self.whole_table(ObjectName(parts.collect()), outer)
            }
            _ => unsupported("a changing statement inside a query"),
        })
    }

    /// Operations of one kind one after the other: the left side is walked in a loop.
    fn operations(&self, body: &SetExpr, outer: Option<&Frame<'_>>) -> Result<Relation> {
        let SetExpr::SetOperation { op: first, .. } = body else {
            return unsupported("this kind of query");
        };
        let mut current = body;
        let mut rest = Vec::new();
        while let SetExpr::SetOperation {
            op,
            left,
            right,
            set_quantifier,
        } = current
            && op == first
        {
            let all = match set_quantifier {
                SetQuantifier::All => true,
                SetQuantifier::Distinct | SetQuantifier::None => false,
                _ => return unsupported("UNION BY NAME"),
            };
            rest.push((all, &**right));
            current = left;
        }
        let operation = match first {
            SetOperator::Union => SetOperation::Union,
            SetOperator::Intersect => SetOperation::Intersect,
            SetOperator::Except => SetOperation::Except,
            SetOperator::Minus => return unsupported("MINUS"),
        };
        let mut parts = vec![self.rows(current, outer)?];
        let mut alls = Vec::with_capacity(rest.len());
        for (all, part) in rest.into_iter().rev() {
            parts.push(self.rows(part, outer)?);
            alls.push(all);
        }
        let is_nested = operation != SetOperation::Union && parts.len() > MAX_NESTED;
        if is_nested {
            return Err(QueryError::TooLarge(MAX_NESTED).into());
        }
        let mut parts = unified(&Binder::new(self.environment), parts)?.into_iter();
        let first = parts.next().unwrap_or_else(Relation::one);
        let parts = alls.into_iter().zip(parts);
        Ok(parts.fold(first, |whole, (all, part)| {
            combined(operation, whole, all, part)
        }))
    }

    /// `VALUES ROW(…), ROW(…)`.
    fn values(&self, values: &Values, outer: Option<&Frame<'_>>) -> Result<Relation> {
        let block = Block::new(
            self,
            Scope::default(),
            0,
            outer,
            super::super::Clause::Fields,
        );
        let mut rows = Vec::with_capacity(values.rows.len());
        for (number, row) in values.rows.iter().enumerate() {
            let row = row
                .iter()
                .map(|expr: &Expr| Binder::new(&block).expression(expr));
            let row = row.collect::<Result<Vec<_>>>()?;
            if rows
                .first()
                .is_some_and(|first: &Vec<_>| first.len() != row.len())
                || row.is_empty()
            {
                return Err(QueryError::ValueCount(number + 1).into());
            }
            rows.push(row);
        }
        if !block.extras.borrow().all.is_empty() {
            return unsupported("a subquery in VALUES");
        }
        let width = rows.first().map_or(0, Vec::len);
        let mut columns = Vec::with_capacity(width);
        for place in 0..width {
            let ty = SqlType::one_of(rows.iter().map(|row| &row[place].ty))?;
            columns.push(Column {
                name: format!("column_{place}").into(),
                table: None,
                origin: None,
                ty,
            });
        }
        let binder = Binder::new(&block);
        let rows = rows.into_iter().map(|row| {
            let row = row.into_iter().zip(&columns);
            let row = row.map(|(value, column)| binder.converted(value, &column.ty));
            row.collect::<Result<Vec<_>>>()
        });
        Ok(Relation {
            operator: Operator::Values(rows.collect::<Result<_>>()?),
            columns: columns.into(),
        })
    }

    /// `TABLE t`.
    fn whole_table(&self, name: ObjectName, outer: Option<&Frame<'_>>) -> Result<Relation> {
        self.selects.set(self.selects.get() + 1);
        let from = From {
            statement: self,
            select: self.selects.get(),
            outer,
            names: Default::default(),
            hints: Default::default(),
        };
        let relation = TableFactor::Table {
            name,
            alias: None,
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        };
        let item = from.rows(&[TableWithJoins {
            relation,
            joins: Vec::new(),
        }])?;
        let visible = item.scope.columns.iter().filter(|column| column.visible);
        let visible: Vec<_> = visible.map(super::from::column).collect();
        if visible.len() == item.relation.columns.len() {
            return Ok(item.relation);
        }
        let columns = item.scope.columns.iter().filter(|column| column.visible);
        let columns = columns.map(|column| column.column.clone()).collect();
        Ok(Relation {
            operator: Operator::Project {
                input: Box::new(item.relation),
                expressions: visible,
            },
            columns,
        })
    }
}

/// A further part of an operation.
fn combined(operation: SetOperation, whole: Relation, all: bool, part: Relation) -> Relation {
    let columns = Arc::clone(&whole.columns);
    if operation == SetOperation::Union {
        match whole.operator {
            // Rows of all parts are there once in the end: it does not matter how often they come.
            Operator::Set {
                operation: SetOperation::Union,
                all: before,
                mut inputs,
            } if before == all || !all => {
                // A union of different rows at its beginning is one of them, then.
                if !all
                    && before
                    && let Operator::Set {
                        operation: SetOperation::Union,
                        all: false,
                        inputs: first,
                    } = &mut inputs[0].operator
                {
                    let first = std::mem::take(first);
                    inputs.splice(..1, first);
                }
                inputs.push(part);
                return Relation {
                    operator: Operator::Set {
                        operation,
                        all,
                        inputs,
                    },
                    columns,
                };
            }
            operator => {
                let whole = Relation {
                    operator,
                    columns: Arc::clone(&columns),
                };
                return set(operation, all, vec![whole, part], columns);
            }
        }
    }
    set(operation, all, vec![whole, part], columns)
}

fn set(
    operation: SetOperation,
    all: bool,
    inputs: Vec<Relation>,
    columns: Arc<[Column]>,
) -> Relation {
    Relation {
        operator: Operator::Set {
            operation,
            all,
            inputs,
        },
        columns,
    }
}

/// Relations with columns of the types that they have in common.
///
/// # Errors
/// 1222.
pub(super) fn unified(binder: &Binder<'_>, parts: Vec<Relation>) -> Result<Vec<Relation>> {
    let count = parts.first().map_or(0, |part| part.columns.len());
    if parts.iter().any(|part| part.columns.len() != count) {
        return Err(QueryError::SetColumns.into());
    }
    let mut types = Vec::with_capacity(count);
    for place in 0..count {
        let of = || parts.iter().map(|part| &part.columns[place].ty);
        let mut common = SqlType::one_of(of())?;
        // ENUMs of the same values stay so.
        let members = of().map(|ty| &ty.members);
        let mut members = members.collect::<Vec<_>>();
        members.dedup();
        if let [Some(members)] = &members[..] {
            common.members = Some(Arc::clone(members));
        }
        types.push(common);
    }
    let names: Vec<Arc<str>> = match parts.first() {
        Some(first) => first
            .columns
            .iter()
            .map(|column| Arc::clone(&column.name))
            .collect(),
        None => Vec::new(),
    };
    let parts = parts.into_iter().map(|part| {
        let values = part.columns.iter().enumerate().zip(&types);
        let values = values.map(|((place, column), ty)| {
            let node = perigee_expr::scalar::Node::Column(place);
            let value = perigee_expr::scalar::Scalar::new(node, column.ty.clone());
            let mut value = binder.converted(value, ty)?;
            value.ty = ty.clone();
            Ok(value)
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let mut part = projected(part, values);
        let columns = types.iter().zip(&names).map(|(ty, name)| Column {
            name: Arc::clone(name),
            table: None,
            origin: None,
            ty: ty.clone(),
        });
        part.columns = columns.collect();
        Ok(part)
    });
    parts.collect()
}
