//! Relations as plans. The columns of a relation's row are expressions over its plan's output, by place: a projection
//! is made only where somebody looks at the whole row.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, JoinType, Result as DfResult, TableReference,
    internal_datafusion_err,
};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{
    EmptyRelation, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Sort, TableSource,
};
use perigee_sql_bind::query::{Join, JoinKind, Operator, Query, Relation, SortKey, Table};

use super::with::Known;
use super::{Row, output};
use crate::access::NUMBER_SEPARATOR;
use crate::error::SqlError;
use crate::interrupt;
use crate::plan::branches::Common;
use crate::plan::{comparable, grouping, membership};

/// Stack that is left when it grows.
pub(super) const RED_ZONE: usize = 256 << 10;

/// Bytes by which it grows.
pub(super) const STACK: usize = 2 << 20;

/// The plan of a bound query over the tables that its references name, by number. Recursive queries make so many steps
/// at most.
///
/// # Errors
/// 1235 for what has no plan here.
pub fn planned(
    query: &Query,
    tables: &[Arc<dyn TableSource>],
    subqueries: Subqueries,
    most_steps: u64,
) -> DfResult<Planned> {
    let planner = Planner {
        query,
        tables,
        subqueries,
        numbers: Cell::new(0),
        results: RefCell::default(),
        definitions: RefCell::default(),
        frame: Cell::new(0),
        inlined: Cell::new(0),
        nested: Cell::new(0),
        most_steps,
    };
    let body = planner.relation(&query.body, &[])?;
    let plan = body.exact(&query.body.columns, &planner)?.plan;
    let names = query.body.columns.iter();
    let names = names.map(|column| column.name.to_string()).collect();
    let schema = output::told(plan.schema(), &query.body.columns);
    Ok(Planned {
        plan,
        schema,
        names,
    })
}

/// A logical plan with the names of its columns.
#[derive(Debug)]
pub struct Planned {
    /// The plan, before DataFusion's optimizer.
    pub plan: LogicalPlan,
    /// What clients are told of its columns.
    pub schema: SchemaRef,
    /// What the result's columns are called.
    pub names: Vec<String>,
}

/// What becomes of subqueries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subqueries {
    /// DataFusion's expressions, of which its optimizer makes joins.
    Joined,
    /// They are evaluated for each row.
    Applied,
}

/// Makes plans of the relations of a query.
pub(super) struct Planner<'q> {
    pub(super) query: &'q Query,
    tables: &'q [Arc<dyn TableSource>],
    pub(super) subqueries: Subqueries,
    /// Names that were given out.
    numbers: Cell<usize>,
    /// Names of results of aggregate functions, which have no qualifier.
    pub(super) results: RefCell<HashSet<String>>,
    pub(super) definitions: RefCell<HashMap<usize, Known<'q>>>,
    /// The subquery that is planned, by a number.
    pub(super) frame: Cell<usize>,
    /// Common table expressions that were put where they are named.
    pub(super) inlined: Cell<usize>,
    /// How many tables that are computed once are made of one another, at most, below the definition at hand.
    pub(super) nested: Cell<usize>,
    /// Most steps of a recursive query.
    pub(super) most_steps: u64,
}

/// A relation as a plan.
#[derive(Clone, Debug)]
pub(super) struct Lowered {
    /// Its rows, with all that is needed for its columns.
    pub plan: LogicalPlan,
    /// Its columns, by place, over the plan's rows.
    pub columns: Vec<Expr>,
}

/// Error 1235.
pub(super) fn unsupported<T>(what: &str) -> DfResult<T> {
    Err(SqlError::not_supported(what).into_df())
}

impl Lowered {
    /// The columns of a plan.
    pub(super) fn of(plan: LogicalPlan) -> Self {
        let columns = plan.schema().columns().into_iter().map(Expr::Column);
        let columns = columns.collect();
        Self { plan, columns }
    }

    /// The row, for expressions over it.
    pub(super) fn row<'r>(&'r self, parameters: &'r [Expr]) -> Row<'r> {
        Row {
            columns: &self.columns,
            parameters,
            schema: self.plan.schema(),
        }
    }
}

impl<'q> Planner<'q> {
    /// A number that nothing else of the query has.
    pub(super) fn number(&self) -> usize {
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        number
    }

    /// A qualifier that no other relation of the query has.
    pub(super) fn qualifier(&self, name: &str) -> TableReference {
        TableReference::bare(format!("{name}{NUMBER_SEPARATOR}{}", self.number()))
    }

    /// The plan of a subquery with these parameters.
    ///
    /// # Errors
    /// 1235 for what has no plan here.
    pub(super) fn inside(&self, subquery: &'q Relation, parameters: &[Expr]) -> DfResult<Lowered> {
        let around = self.frame.replace(self.number() + 1);
        let lowered = self.relation(subquery, parameters);
        self.frame.set(around);
        lowered
    }

    /// The plan of a relation, inside a subquery with these parameters.
    ///
    /// # Errors
    /// 1235 for what has no plan here.
    pub(super) fn relation(
        &self,
        relation: &'q Relation,
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        interrupt::check_df()?;
        stacker::maybe_grow(RED_ZONE, STACK, || {
            match self.in_turn(relation, parameters)? {
                Some(lowered) => Ok(lowered),
                None => self.operator(relation, parameters),
            }
        })
    }

    fn operator(&self, relation: &'q Relation, parameters: &[Expr]) -> DfResult<Lowered> {
        let lowered = |input: &'q Relation| self.relation(input, parameters);
        // Where a value is used several times, or by more than a filter or a projection, it is a column.
        let computed = |input: &'q Relation| lowered(input)?.of_columns(&input.columns, self);
        match &relation.operator {
            Operator::One => Ok(Lowered::of(one_row())),
            Operator::Table(table) => self.table(table),
            Operator::JsonTable { document, table } => {
                self.json_table((document, table), &relation.columns, parameters)
            }
            Operator::Values(rows) => self.values(relation, rows, parameters),
            Operator::Filter { predicate, .. } if self.has_variables(predicate) => {
                self.filtered_in_turn(relation, parameters)
            }
            Operator::Filter { input, predicate } => {
                let input = lowered(input)?;
                let predicate = input.row(parameters).condition(predicate)?;
                filtered(input, predicate)
            }
            Operator::Project { input, expressions } => {
                let input = lowered(input)?;
                self.project(input, &relation.columns, expressions, parameters)
            }
            Operator::Join(join) => self.join(join, parameters),
            Operator::Aggregate {
                input,
                keys,
                aggregates,
                rollup,
            } => {
                let (of, columns) = (&input.columns, &relation.columns);
                let input = computed(input)?;
                match rollup {
                    true => self.rollup(input, columns, keys, aggregates, parameters),
                    false => self.aggregate(input, of, columns, keys, aggregates, parameters),
                }
            }
            Operator::Window { input, functions } => {
                self.windows(computed(input)?, functions, parameters)
            }
            Operator::Sort { input, keys } => sorted(computed(input)?, keys, parameters),
            Operator::Limit { input, skip, fetch } => {
                limited(self.first_rows(input, parameters)?, *skip, *fetch)
            }
            Operator::Distinct { input } => {
                let input = lowered(input)?.exact(&relation.columns, self)?;
                let plan = grouping::distinct(Arc::new(input.plan))?;
                Ok(Lowered::of(plan))
            }
            Operator::Set {
                operation,
                all,
                inputs,
            } => self.set(*operation, *all, inputs, &relation.columns, parameters),
            Operator::Apply(apply) => self.apply(apply, parameters),
            Operator::With { definitions, body } => self.with(definitions, body, parameters),
            Operator::Shared(number) => self.shared(*number),
        }
    }

    /// Rows of which the first ones are wanted. What they are not sorted by is computed for these only: it takes less, and
    /// what cannot be computed for another row is no error.
    fn first_rows(&self, relation: &'q Relation, parameters: &[Expr]) -> DfResult<Lowered> {
        let Operator::Sort { input, keys } = &relation.operator else {
            return self.relation(relation, parameters);
        };
        let Operator::Project {
            input: rows,
            expressions,
        } = &input.operator
        else {
            return self.relation(relation, parameters);
        };
        if expressions.iter().any(|one| self.has_variables(one)) {
            return self.relation(relation, parameters);
        }
        let rows = self.relation(rows, parameters)?;
        let row = rows.row(parameters);
        let columns = expressions.iter().map(|one| row.value(one));
        let columns = columns.collect::<DfResult<Vec<_>>>()?;
        let computed = Lowered {
            plan: rows.plan,
            columns,
        };
        let by = sort_keys(&computed, keys, parameters)?;
        let are_columns = by.iter().all(|key| column(&key.expr).is_some());
        let computed = match are_columns && computed.columns.iter().all(can_wait) {
            true => computed,
            false => computed.of_columns(&input.columns, self)?,
        };
        sorted(computed, keys, parameters)
    }

    /// All columns of a table.
    fn table(&self, table: &Table) -> DfResult<Lowered> {
        let source = self.tables.get(table.reference);
        let source = source.ok_or_else(|| internal_datafusion_err!("Q1: a table unknown"))?;
        let name = format!("{}{NUMBER_SEPARATOR}{}", table.name, table.reference);
        let name = TableReference::partial(&*table.schema, name);
        let scan = LogicalPlanBuilder::scan(name, source.clone(), None)?;
        let plan = scan.alias(self.qualifier(&table.alias))?.build()?;
        let mut lowered = Lowered::of(plan);
        // A hidden row id stands behind them.
        lowered.columns.truncate(table.definition.columns.len());
        Ok(lowered)
    }

    fn values(
        &self,
        relation: &Relation,
        rows: &[Vec<perigee_expr::scalar::Scalar>],
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        let one = Lowered::of(one_row());
        let row = one.row(parameters);
        let commons: Vec<_> = relation.columns.iter().map(|c| Common::of(&c.ty)).collect();
        let mut all = Vec::with_capacity(rows.len());
        for values in rows {
            interrupt::check_df()?;
            let values = values.iter().zip(&commons);
            let values = values.map(|(value, common)| row.branch(value, common));
            all.push(values.collect::<DfResult<Vec<_>>>()?);
        }
        let plan = LogicalPlanBuilder::values(all)?;
        let plan = plan.alias(self.qualifier("values"))?.build()?;
        Ok(Lowered::of(plan))
    }

    fn join(&self, join: &'q Join, parameters: &[Expr]) -> DfResult<Lowered> {
        // The right columns of a left join are NULL as columns, not as expressions over NULLs.
        let side = |side: &'q Relation| {
            let lowered = self.relation(side, parameters)?;
            lowered.of_columns(&side.columns, self)
        };
        let (left, right) = (side(&join.left)?, side(&join.right)?);
        self.joined(left, right, join, parameters)
    }

    fn joined(
        &self,
        left: Lowered,
        right: Lowered,
        join: &Join,
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        let kind = match join.kind {
            JoinKind::Inner => JoinType::Inner,
            JoinKind::Left => JoinType::Left,
        };
        let columns = [left.columns, right.columns].concat();
        let Some(on) = &join.on else {
            let plan = match join.kind {
                JoinKind::Inner => LogicalPlanBuilder::from(left.plan).cross_join(right.plan)?,
                JoinKind::Left => {
                    let always = datafusion::logical_expr::lit(true);
                    LogicalPlanBuilder::from(left.plan).join_on(right.plan, kind, [always])?
                }
            };
            let plan = plan.build()?;
            return Ok(Lowered { plan, columns });
        };
        let schema = left.plan.schema().join(right.plan.schema())?;
        let row = Row {
            columns: &columns,
            parameters,
            schema: &schema,
        };
        let on = row.condition(on)?;
        let plan = LogicalPlanBuilder::from(left.plan).join_on(right.plan, kind, [on])?;
        let plan = plan.build()?;
        Ok(Lowered { plan, columns })
    }
}

pub(super) fn one_row() -> LogicalPlan {
    LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: DFSchemaRef::new(DFSchema::empty()),
    })
}

/// The rows for which a condition is true.
pub(super) fn filtered(input: Lowered, predicate: Expr) -> DfResult<Lowered> {
    let predicate = membership::three_valued(predicate, input.plan.schema())?;
    let filter = Filter::try_new(predicate, Arc::new(input.plan))?;
    Ok(Lowered {
        plan: LogicalPlan::Filter(filter),
        columns: input.columns,
    })
}

/// Keys of an order, NULLs first.
pub(super) fn sort_keys(
    input: &Lowered,
    keys: &[SortKey],
    parameters: &[Expr],
) -> DfResult<Vec<SortExpr>> {
    let row = input.row(parameters);
    let keys = keys.iter().map(|key| {
        let ascending = !key.descending;
        Ok(row.value(&key.scalar)?.sort(ascending, ascending))
    });
    keys.collect()
}

pub(super) fn sorted(input: Lowered, keys: &[SortKey], parameters: &[Expr]) -> DfResult<Lowered> {
    let expr = sort_keys(&input, keys, parameters)?;
    let columns = input.columns;
    let plan = comparable::order_by(Sort {
        expr,
        input: Arc::new(input.plan),
        fetch: None,
    })?;
    Ok(Lowered { plan, columns })
}

pub(super) fn limited(input: Lowered, skip: u64, fetch: Option<u64>) -> DfResult<Lowered> {
    let most = i64::MAX as u64;
    let fetch = fetch.filter(|fetch| fetch.checked_add(skip).is_some_and(|last| last < most));
    let fetch = fetch.map(|fetch| fetch as usize); // it fits, by the line before
    let plan = LogicalPlanBuilder::from(input.plan).limit(skip.min(most) as usize, fetch)?;
    Ok(Lowered {
        plan: plan.build()?,
        columns: input.columns,
    })
}

/// True if an expression has the same value when it is computed later. Subqueries may become joins, which keep no order.
fn can_wait(expr: &Expr) -> bool {
    let is_subquery = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)
        ))
    };
    !expr.is_volatile() && matches!(expr.exists(is_subquery), Ok(false))
}

/// The column that an expression is.
pub(super) fn column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        _ => None,
    }
}
