//! WITH: common table expressions, recursive ones too.

use std::collections::HashMap;
use std::sync::Arc;

use perigee_sql_type::TEXT_CHARS;
use perigee_value::{ColumnType, decimal};
use sqlparser::ast::{Cte, Query, SetExpr, SetOperator, SetQuantifier};

use super::super::{Column, Definition, JoinKind, Operator, QueryError, Relation};
use super::block::Frame;
use super::from::{column_names, renamed};
use super::statement::{Common, Statement};
use super::subquery::projected;
use crate::error::unsupported;
use crate::{Binder, Result};

/// Digits that a decimal of a recursive query may grow by before it is computed with more than 128 bits.
const ROOM: u8 = 10;

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

/// Definitions of a WITH that may stand in one another, which nests as deep as there are definitions.
const MAX_INLINED: usize = 64;

/// A subquery by its address.
fn address(frame: Option<&Frame<'_>>) -> usize {
    frame.map_or(0, |frame| std::ptr::from_ref(frame) as usize)
}

impl Statement<'_> {
    /// A query with its WITH.
    pub fn with(&self, query: &Query, outer: Option<&Frame<'_>>) -> Result<Relation> {
        let Some(with) = &query.with else {
            return self.body(query, outer);
        };
        let before = self.commons.borrow().len();
        let bound = self.definitions(&with.cte_tables, with.recursive, before, outer);
        let bound = bound.and_then(|definitions| Ok((definitions, self.body(query, outer)?)));
        let commons = self.commons.borrow_mut().split_off(before);
        let (definitions, body) = bound?;
        Ok(kept(definitions, &commons, body))
    }

    fn definitions(
        &self,
        ctes: &[Cte],
        recursive: bool,
        before: usize,
        outer: Option<&Frame<'_>>,
    ) -> Result<Vec<Definition>> {
        let mut definitions = Vec::with_capacity(ctes.len());
        for cte in ctes {
            if cte.from.is_some() || cte.materialized.is_some() {
                return unsupported("WITH … AS MATERIALIZED");
            }
            let name: Arc<str> = cte.alias.name.value.to_lowercase().into();
            let is_known = |known: &Common| known.name == name;
            if self.commons.borrow()[before..].iter().any(is_known) {
                return Err(QueryError::DuplicateAlias(name.to_string()).into());
            }
            if recursive && let Some(definition) = self.recursive(cte, &name, outer)? {
                definitions.push(definition);
                continue;
            }
            let base = self.query(&cte.query, outer)?;
            let columns = renamed(&base.columns, &column_names(&cte.alias)?, &name)?;
            let definition = self.definition(Arc::clone(&name), Relation { columns, ..base });
            self.add_common(&definition, outer, false);
            definitions.push(definition);
        }
        Ok(definitions)
    }

    fn add_common(&self, definition: &Definition, outer: Option<&Frame<'_>>, recursive: bool) {
        self.commons.borrow_mut().push(Common {
            name: Arc::clone(&definition.name),
            number: definition.number,
            columns: Arc::clone(&definition.base.columns),
            frame: address(outer),
            uses: 0,
            near: true,
            recursive,
        });
    }

    /// The common table expression of a name in lower case, which is used in a subquery.
    pub fn common(&self, name: &str, outer: Option<&Frame<'_>>) -> Result<Option<Common>> {
        let mut commons = self.commons.borrow_mut();
        let Some(common) = commons.iter_mut().rfind(|common| &*common.name == name) else {
            return Ok(None);
        };
        common.uses += 1;
        common.near &= common.frame == address(outer);
        if common.recursive && !common.near {
            return Err(recursion(3577, name, "it is named in a subquery"));
        }
        Ok(Some(common.clone()))
    }

    /// A common table expression that names itself; `None` if it does not.
    fn recursive(
        &self,
        cte: &Cte,
        name: &Arc<str>,
        outer: Option<&Frame<'_>>,
    ) -> Result<Option<Definition>> {
        let SetExpr::SetOperation {
            op: SetOperator::Union,
            ..
        } = &*cte.query.body
        else {
            return match names(&cte.query, name) {
                true => Err(recursion(3573, name, "it should contain a UNION")),
                false => Ok(None),
            };
        };
        let mut parts = Vec::new();
        let mut current = &*cte.query.body;
        while let SetExpr::SetOperation {
            op: SetOperator::Union,
            left,
            right,
            set_quantifier,
        } = current
        {
            parts.push((*set_quantifier == SetQuantifier::All, &**right));
            current = left;
        }
        parts.push((true, current));
        parts.reverse();
        let is_step = |part: &(bool, &SetExpr)| names_in(part.1, name);
        let Some(first) = parts.iter().position(is_step) else {
            return Ok(None);
        };
        if first == 0 || !parts[first..].iter().all(is_step) {
            return Err(recursion(
                3574,
                name,
                "its parts that do not name it come first",
            ));
        }
        let alls = || parts[first..].iter().map(|(all, _)| *all);
        let all = alls().all(|all| all);
        if cte.query.with.is_some()
            || cte.query.order_by.is_some()
            || cte.query.limit_clause.is_some()
            || alls().any(|one| one != all)
        {
            return unsupported("ORDER BY, LIMIT, or several kinds of UNION, in a recursive query");
        }
        self.steps(cte, name, outer, &parts, first).map(Some)
    }

    fn steps(
        &self,
        cte: &Cte,
        name: &Arc<str>,
        outer: Option<&Frame<'_>>,
        parts: &[(bool, &SetExpr)],
        first: usize,
    ) -> Result<Definition> {
        let all = parts[first].0;
        let base = self.united(&parts[..first], outer)?;
        // Types are those of the base, of which every value may be NULL.
        let columns = renamed(&base.columns, &column_names(&cte.alias)?, name)?;
        let columns: Arc<[Column]> = columns.iter().cloned().map(with_room).collect();
        let binder = Binder::new(self.environment);
        let base = as_columns(&binder, base, &columns)?;
        let mut definition = self.definition(Arc::clone(name), base);
        definition.all = all;
        self.add_common(&definition, outer, true);
        let depth = self.commons.borrow().len();
        let mut steps = Vec::new();
        for (_, part) in &parts[first..] {
            let uses = self.commons.borrow()[depth - 1].uses;
            let step = self.rows(part, outer)?;
            if self.commons.borrow()[depth - 1].uses != uses + 1 {
                return Err(recursion(
                    3577,
                    name,
                    "each of its recursive parts names it once",
                ));
            }
            check_step(&step, name, definition.number)?;
            steps.push(as_columns(&binder, step, &columns)?);
        }
        definition.step = Some(match <[Relation; 1]>::try_from(steps) {
            Ok([step]) => step,
            Err(inputs) => Relation {
                operator: Operator::Set {
                    operation: super::super::SetOperation::Union,
                    all: true,
                    inputs,
                },
                columns: Arc::clone(&columns),
            },
        });
        if let Some(common) = self.commons.borrow_mut().last_mut() {
            // It is computed once, however often it is named.
            (common.uses, common.recursive, common.near) = (2, false, true);
        }
        Ok(definition)
    }

    /// The parts of a UNION that come before the recursive ones.
    fn united(&self, parts: &[(bool, &SetExpr)], outer: Option<&Frame<'_>>) -> Result<Relation> {
        let rows = parts.iter().map(|(_, part)| self.rows(part, outer));
        let mut rows =
            super::query::unified(&Binder::new(self.environment), rows.collect::<Result<_>>()?)?;
        if rows.len() == 1 {
            return Ok(rows.remove(0));
        }
        let all = parts[1..].iter().all(|(all, _)| *all);
        if !all && parts[1..].iter().any(|(all, _)| *all) {
            return unsupported("several kinds of UNION in a recursive query");
        }
        let columns = Arc::clone(&rows[0].columns);
        Ok(Relation {
            operator: Operator::Set {
                operation: super::super::SetOperation::Union,
                all,
                inputs: rows,
            },
            columns,
        })
    }
}

/// A column with room for what the steps make of the first rows, whose lengths say nothing of it.
fn with_room(mut column: Column) -> Column {
    let ty = &mut column.ty;
    ty.nullable = true;
    ty.digits = None;
    ty.truth = false;
    ty.column = ty.column.map(|own| match own {
        ColumnType::Char { collation, .. } | ColumnType::Varchar { collation, .. } => {
            let chars = TEXT_CHARS;
            ColumnType::Varchar { chars, collation }
        }
        ColumnType::Decimal { precision, scale } => ColumnType::Decimal {
            precision: match precision > decimal::MAX_PRECISION - ROOM {
                true => ColumnType::MAX_PRECISION,
                false => decimal::MAX_PRECISION,
            },
            scale,
        },
        ColumnType::Int { unsigned, .. } => ColumnType::Int { bytes: 8, unsigned },
        ColumnType::Float => ColumnType::Double,
        // What is computed of one is a DATETIME.
        ColumnType::Timestamp { fsp } => ColumnType::DateTime { fsp },
        other => other,
    });
    column
}

/// Checks what stands between a step and the rows of the step before it. Returns whether it reads them.
///
/// # Errors
/// 3575, 3576.
fn check_step(step: &Relation, name: &str, number: usize) -> Result<bool> {
    stacker::maybe_grow(RED_ZONE, STACK, || match &step.operator {
        Operator::Shared(shared) => Ok(*shared == number),
        Operator::Join(join) => {
            let left = check_step(&join.left, name, number)?;
            let right = check_step(&join.right, name, number)?;
            match right && join.kind == JoinKind::Left {
                true => Err(recursion(
                    3576,
                    name,
                    "it is the right operand of a LEFT JOIN",
                )),
                false => Ok(left || right),
            }
        }
        operator => {
            let mut reads = false;
            for input in step.inputs() {
                reads |= check_step(input, name, number)?;
            }
            let groups = matches!(
                operator,
                Operator::Aggregate { .. } | Operator::Window { .. }
            );
            match reads && groups {
                true => Err(recursion(3575, name, "a recursive part may not aggregate")),
                false => Ok(reads),
            }
        }
    })
}

/// A part with the columns of the whole.
fn as_columns(binder: &Binder<'_>, step: Relation, columns: &Arc<[Column]>) -> Result<Relation> {
    if step.columns.len() != columns.len() {
        return Err(QueryError::SetColumns.into());
    }
    let values = step.columns.iter().enumerate().zip(&**columns);
    let values = values.map(|((place, column), wanted)| {
        let node = perigee_expr::scalar::Node::Column(place);
        let value = perigee_expr::scalar::Scalar::new(node, column.ty.clone());
        let mut value = binder.converted(value, &wanted.ty)?;
        value.ty = wanted.ty.clone();
        Ok(value)
    });
    let values = values.collect::<Result<_>>()?;
    Ok(Relation {
        columns: Arc::clone(columns),
        ..projected(step, values)
    })
}

fn recursion(number: u16, name: &str, why: &'static str) -> crate::BindError {
    QueryError::Recursion {
        number,
        name: name.to_owned(),
        why,
    }
    .into()
}

/// True if a query reads a table of a name without a schema.
fn names(query: &Query, name: &str) -> bool {
    use std::ops::ControlFlow;
    let found = sqlparser::ast::visit_relations(query, |relation| {
        let is_it = relation
            .to_string()
            .trim_matches('`')
            .eq_ignore_ascii_case(name);
        match is_it {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

fn names_in(body: &SetExpr, name: &str) -> bool {
    use std::ops::ControlFlow;
    let found = sqlparser::ast::visit_relations(body, |relation| {
        let is_it = relation
            .to_string()
            .trim_matches('`')
            .eq_ignore_ascii_case(name);
        match is_it {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// A query with those of its definitions that are named several times. One that is named once stands where it is named,
/// if that is in the same subquery; one that is not named at all is left out.
fn kept(definitions: Vec<Definition>, commons: &[Common], body: Relation) -> Relation {
    let mut once = HashMap::new();
    let mut several = Vec::new();
    let is_short = definitions.len() <= MAX_INLINED;
    for mut definition in definitions {
        let common = commons
            .iter()
            .find(|common| common.number == definition.number);
        let (uses, near) = common.map_or((0, false), |common| (common.uses, common.near));
        inline(&mut definition.base, &mut once);
        if let Some(step) = &mut definition.step {
            inline(step, &mut once);
        }
        match uses {
            0 => {}
            1 if near && definition.step.is_none() && is_short => {
                once.insert(definition.number, definition.base);
            }
            _ => several.push(definition),
        }
    }
    let mut body = body;
    inline(&mut body, &mut once);
    if several.is_empty() {
        return body;
    }
    Relation {
        columns: Arc::clone(&body.columns),
        operator: Operator::With {
            definitions: several,
            body: Box::new(body),
        },
    }
}

/// Puts relations in the places where they are named.
fn inline(relation: &mut Relation, once: &mut HashMap<usize, Relation>) {
    if once.is_empty() {
        return;
    }
    stacker::maybe_grow(RED_ZONE, STACK, || {
        if let Operator::Shared(number) = relation.operator {
            if let Some(definition) = once.remove(&number) {
                relation.operator = definition.operator;
            }
            return;
        }
        for input in relation.inputs_mut() {
            inline(input, once);
        }
    });
}
