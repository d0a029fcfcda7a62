//! What of a partial aggregation over a hash join storage can do while it scans one side, in terms of joined records.
//!
//! Expressions above the join become expressions over its *inputs*: the columns that the scan delivers and, behind
//! them, those of the side that becomes a table.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::update_expr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use perigee_engine::ndp::{Aggregate, Join, JoinKind, MAX_JOIN_COLUMNS};

use super::columns::{Origin, column_type};
use super::table_side::TableSide;
use crate::access::Reason;
use crate::access::convert::{Binding, convert_all};
use crate::access::exec::{PageScanExec, PlannedJoin, ScanAggregate};
use crate::access::groups::{KeyValues, grouping_of_joined};
use crate::access::join_key::{ScanColumn, scan_column};
use crate::access::join_rule::rows;
use crate::access::ndp_rule::{Below, function_of, group_key, without_padding};

type Expr = Arc<dyn PhysicalExpr>;

/// The join below an aggregation, and what is between.
pub(super) struct AboveJoin<'a> {
    pub join: &'a HashJoinExec,
    /// From the aggregation downwards.
    projections: Vec<Vec<ProjectionExpr>>,
    /// Conditions, each with how many of the projections are above it.
    conditions: Vec<(Expr, usize)>,
}

impl<'a> AboveJoin<'a> {
    /// If nothing but projections and filters is between.
    pub fn of(mut plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (mut projections, mut conditions) = (Vec::new(), Vec::new());
        loop {
            if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
                projections.push(projection.expr().to_vec());
                plan = projection.input();
            } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
                if let Some(columns) = filter.projection() {
                    projections.push(columns_of(filter.input(), columns));
                }
                conditions.push((filter.predicate().clone(), projections.len()));
                plan = filter.input();
            } else {
                return Some(Self {
                    join: plan.downcast_ref::<HashJoinExec>()?,
                    projections,
                    conditions,
                });
            }
        }
    }
}

/// Some columns of a plan, as a projection.
fn columns_of(plan: &Arc<dyn ExecutionPlan>, columns: &[usize]) -> Vec<ProjectionExpr> {
    let schema = plan.schema();
    let one = |column: &usize| {
        let name = schema.field(*column).name();
        ProjectionExpr::new(Arc::new(Column::new(name, *column)), name.clone())
    };
    columns.iter().map(one).collect()
}

/// An expression over projections as one over what is below them.
fn through<'p>(
    expr: &Expr,
    mut projections: impl Iterator<Item = &'p Vec<ProjectionExpr>>,
) -> Option<Expr> {
    projections.try_fold(expr.clone(), |expr, projection| {
        Some(update_expr(&expr, projection, true).ok()?.unwrap_or(expr))
    })
}

/// The join with one side scanned in storage and the other one as a table.
pub(super) struct Match<'a> {
    above: &'a AboveJoin<'a>,
    pub scan: &'a PageScanExec,
    pub table: &'a Arc<dyn ExecutionPlan>,
    kind: JoinKind,
    /// The columns that the join delivers, over its inputs.
    outputs: Vec<ProjectionExpr>,
    /// What is compared: a column of the scan, and a value of the table.
    on: Vec<(ScanColumn, Expr)>,
}

/// Everything that goes into the plan.
pub(super) struct Pushed {
    pub join: PlannedJoin,
    pub aggregate: ScanAggregate,
    pub side: TableSide,
}

impl<'a> Match<'a> {
    /// The join with this side scanned; `None` if storage does not join like that.
    pub fn of(above: &'a AboveJoin<'a>, scanned: JoinSide) -> Option<Self> {
        let join = above.join;
        if join.null_equality() != NullEquality::NullEqualsNothing || join.null_aware {
            return None;
        }
        let is_left = scanned == JoinSide::Left;
        let kind = kind_of(*join.join_type(), is_left)?;
        let (side, table) = match is_left {
            true => (join.left(), join.right()),
            false => (join.right(), join.left()),
        };
        let below = Below::of(side).filter(|below| !below.filtered)?;
        let scan = below.scan;
        let plain = scan.aggregate.is_none()
            && scan.limit.is_none()
            && scan.order.is_none()
            && !scan.path.fetch
            && scan.context.locker.is_none();
        if !plain {
            return None;
        }
        let inputs = Inputs {
            join,
            below,
            is_left,
        };
        let on = join.on().iter().map(|pair| inputs.compared(pair));
        Some(Self {
            on: on.collect::<Option<_>>()?,
            outputs: inputs.outputs(kind)?,
            above,
            scan,
            table,
            kind,
        })
    }

    /// What is compared of the rows of the table.
    pub fn table_keys(&self) -> impl Iterator<Item = &Expr> {
        self.on.iter().map(|(_, key)| key)
    }

    /// True if a row of the scan joins one row at most only where the keys are unique.
    pub fn needs_unique_keys(&self) -> bool {
        matches!(self.kind, JoinKind::Inner | JoinKind::Left)
    }

    /// What storage is to do.
    ///
    /// # Errors
    /// What it cannot.
    pub fn pushed(&self, aggregate: &AggregateExec) -> Result<Pushed, Reason> {
        let form = || Reason::AggregateForm("a projection");
        let inline = |expr: &Expr| self.over_inputs(expr, 0).ok_or_else(form);
        let groups = aggregate.group_expr().expr().iter();
        let groups = groups
            .map(|(group, _)| inline(group))
            .collect::<Result<Vec<_>, _>>()?;
        let keys: Vec<_> = groups.iter().map(without_padding).collect();
        let conditions = self.conditions().ok_or_else(form)?;
        let arguments = aggregate.aggr_expr().iter();
        let arguments = arguments.flat_map(|function| function.expressions());
        let arguments = arguments
            .map(|argument| inline(&argument))
            .collect::<Result<Vec<_>, _>>()?;
        let used = keys.iter().chain(&conditions).chain(&arguments);
        let columns = Columns::of(self, used)?;
        let join = columns.join(self);
        let layout = &self.scan.table.indexes[self.scan.path.index].layout;
        let layout = join
            .layout(layout)
            .map_err(|_| Reason::AggregateForm("too long joined rows"))?;
        let binding = Binding {
            layout: &layout,
            positions: &columns.positions(self, &join),
        };
        let join = match conditions.is_empty() {
            true => join,
            false => {
                let condition = convert_all(&conditions, &binding);
                let condition = Some(condition.ok_or(Reason::AggregateResidual)?);
                Join { condition, ..join }
            }
        };
        let group_by = groups
            .iter()
            .zip(&keys)
            .map(|(group, key)| group_key(group, key, &binding))
            .collect::<Result<Vec<_>, _>>()?;
        let functions = aggregate
            .aggr_expr()
            .iter()
            .map(|function| function_of(function, &binding, &inline, true))
            .collect::<Result<Vec<_>, _>>()?;
        let programs = Aggregate {
            group_by,
            functions,
        };
        let of_keys: Vec<_> = keys.iter().map(|key| self.key_values(key)).collect();
        let (grouping, work) = grouping_of_joined(self.scan, &of_keys, &programs)?;
        Ok(Pushed {
            side: columns.side(self, &join),
            join: self.planned(join, &columns),
            aggregate: ScanAggregate {
                aggregate: programs,
                grouping,
                work,
                schema: aggregate.schema(),
            },
        })
    }

    fn planned(&self, join: Join, columns: &Columns) -> PlannedJoin {
        let on = self.on.iter();
        let on = on.map(|(column, _)| self.scan.column_name(column.number));
        let schema = self.table.schema();
        let names = columns.of_table.iter();
        PlannedJoin {
            on: on.collect(),
            columns: names.map(|c| schema.field(*c).name().clone()).collect(),
            join,
            table: None,
        }
    }

    /// An expression that has so many of the projections above it, over the join's inputs.
    fn over_inputs(&self, expr: &Expr, above: usize) -> Option<Expr> {
        let projections = self.above.projections[above..].iter();
        through(expr, projections.chain([&self.outputs]))
    }

    /// Everything that joined rows have to pass.
    fn conditions(&self) -> Option<Vec<Expr>> {
        let conditions = self.above.conditions.iter();
        let conditions = conditions.map(|(expr, above)| self.over_inputs(expr, *above));
        let mut conditions = conditions.collect::<Option<Vec<_>>>()?;
        let Some(filter) = self.above.join.filter() else {
            return Some(conditions);
        };
        // That of an outer join says which rows have a match.
        if *self.above.join.join_type() != JoinType::Inner {
            return None;
        }
        let all = Inputs {
            join: self.above.join,
            below: self.below()?,
            is_left: std::ptr::eq(self.table, self.above.join.right()),
        };
        let columns = filter.column_indices().iter();
        let columns = columns
            .map(|column| all.column(column.side == JoinSide::Left, column.index))
            .collect::<Option<Vec<_>>>()?;
        conditions.push(through(filter.expression(), [&columns].into_iter())?);
        Some(conditions)
    }

    fn below(&self) -> Option<Below<'a>> {
        let join = self.above.join;
        let is_right = std::ptr::eq(self.table, join.left());
        Below::of(if is_right { join.right() } else { join.left() })
    }

    /// Columns that the scan delivers; those of the table have the numbers behind.
    fn scanned(&self) -> usize {
        self.scan.projection.len()
    }

    /// What statistics know of the columns that a group key is made of.
    fn key_values(&self, key: &Expr) -> Vec<KeyValues> {
        let columns = collect_columns(key).into_iter();
        let of_column = |column: Column| match column.index().checked_sub(self.scanned()) {
            None => {
                let stats = self.scan.projection.get(column.index());
                let stats = stats.and_then(|column| self.scan.stats.columns.get(*column));
                KeyValues {
                    distinct: stats.map_or(f64::INFINITY, |stats| stats.distinct as f64),
                    width: stats.map_or(8.0, |stats| f64::from(stats.average_width)),
                }
            }
            Some(column) => {
                let origin = Origin::of(self.table, column);
                let distinct = origin.as_ref().and_then(Origin::distinct);
                KeyValues {
                    distinct: distinct.unwrap_or_else(|| self.few()),
                    width: origin.as_ref().and_then(Origin::width).unwrap_or(8.0),
                }
            }
        };
        columns.map(of_column).collect()
    }

    /// Different values of a column of the table that statistics do not know. It is computed, as a count is, and taken to
    /// have as many as the root of the number of rows.
    fn few(&self) -> f64 {
        let rows = rows(self.table).ok().flatten();
        rows.map_or(f64::INFINITY, f64::sqrt)
    }
}

/// Which records come through a join of this type, if one side of it is scanned.
fn kind_of(ty: JoinType, scans_left: bool) -> Option<JoinKind> {
    Some(match (ty, scans_left) {
        (JoinType::Inner, _) => JoinKind::Inner,
        (JoinType::Left, true) | (JoinType::Right, false) => JoinKind::Left,
        (JoinType::LeftSemi, true) | (JoinType::RightSemi, false) => JoinKind::Semi,
        (JoinType::LeftAnti, true) | (JoinType::RightAnti, false) => JoinKind::Anti,
        _ => return None,
    })
}

/// The two inputs of a join.
struct Inputs<'a> {
    join: &'a HashJoinExec,
    below: Below<'a>,
    /// The left side is scanned.
    is_left: bool,
}

impl Inputs<'_> {
    /// A column of one side over the join's inputs.
    fn column(&self, of_left: bool, index: usize) -> Option<ProjectionExpr> {
        let plan = match of_left {
            true => self.join.left(),
            false => self.join.right(),
        };
        let name = plan.schema().fields().get(index)?.name().clone();
        let expr: Expr = match of_left == self.is_left {
            true => {
                let column: Expr = Arc::new(Column::new(&name, index));
                through(&column, self.below.projections.iter())?
            }
            false => {
                let behind = self.below.scan.projection.len() + index;
                Arc::new(Column::new(&name, behind))
            }
        };
        Some(ProjectionExpr::new(expr, name))
    }

    /// The columns that the join delivers.
    fn outputs(&self, kind: JoinKind) -> Option<Vec<ProjectionExpr>> {
        let (left, right) = (self.join.left().schema(), self.join.right().schema());
        let of_left = (0..left.fields().len()).map(|index| (true, index));
        let of_right = (0..right.fields().len()).map(|index| (false, index));
        let all: Vec<_> = match kind {
            JoinKind::Inner | JoinKind::Left => of_left.chain(of_right).collect(),
            JoinKind::Semi | JoinKind::Anti if self.is_left => of_left.collect(),
            JoinKind::Semi | JoinKind::Anti => of_right.collect(),
        };
        let wanted = match &self.join.projection {
            Some(projection) => projection.to_vec(),
            None => (0..all.len()).collect(),
        };
        let wanted = wanted.iter().map(|place| all.get(*place).copied());
        let column = |column: Option<(bool, usize)>| {
            let (of_left, index) = column?;
            self.column(of_left, index)
        };
        wanted.map(column).collect()
    }

    /// A comparison of the join, if storage compares such a column of the scan.
    fn compared(
        &self,
        (left, right): &(PhysicalExprRef, PhysicalExprRef),
    ) -> Option<(ScanColumn, Expr)> {
        let ty = |expr: &Expr, plan: &Arc<dyn ExecutionPlan>| expr.data_type(&plan.schema()).ok();
        let of_left = ty(left, self.join.left())?;
        if Some(of_left) != ty(right, self.join.right()) {
            return None;
        }
        let (own, other) = match self.is_left {
            true => (left, right),
            false => (right, left),
        };
        let own = through(own, self.below.projections.iter())?;
        Some((scan_column(self.below.scan, &own)?, other.clone()))
    }
}

/// The columns that joined records need.
struct Columns {
    /// Of the scan, by their numbers in what it delivers, with their places in its records;
    of_scan: Vec<(usize, u16)>,
    /// of the table.
    of_table: Vec<usize>,
}

impl Columns {
    fn of<'e>(of: &Match<'_>, exprs: impl Iterator<Item = &'e Expr>) -> Result<Self, Reason> {
        let used: BTreeSet<usize> = exprs
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        let positions = of.scan.positions();
        let mut new = Self {
            of_scan: Vec::new(),
            of_table: Vec::new(),
        };
        for index in used {
            match index.checked_sub(of.scanned()) {
                Some(column) => new.of_table.push(column),
                None => {
                    let place = of.scan.projection.get(index);
                    let place = place.and_then(|column| positions[*column]);
                    let place = place.ok_or(Reason::AggregateForm("a projection"))?;
                    new.of_scan.push((index, place));
                }
            }
        }
        let known = |column: &usize| column_type(of.table, *column).is_some();
        match new.of_table.len() <= MAX_JOIN_COLUMNS && new.of_table.iter().all(known) {
            true => Ok(new),
            false => Err(Reason::AggregateForm("such columns of the join")),
        }
    }

    fn join(&self, of: &Match<'_>) -> Join {
        let schema = of.table.schema();
        let payload = self.of_table.iter().filter_map(|column| {
            let nullable = schema.field(*column).is_nullable();
            Some((column_type(of.table, *column)?, nullable))
        });
        let mut columns = Vec::new();
        for (_, place) in &self.of_scan {
            if !columns.contains(place) {
                columns.push(*place);
            }
        }
        Join {
            kind: of.kind,
            table: 0,
            on: of.on.iter().map(|(column, _)| column.place).collect(),
            columns,
            payload: payload.collect(),
            condition: None,
        }
    }

    /// The place in joined records of each column of the join's inputs.
    fn positions(&self, of: &Match<'_>, join: &Join) -> Vec<Option<u16>> {
        let mut positions = vec![None; of.scanned() + of.table.schema().fields().len()];
        for (column, place) in &self.of_scan {
            let mut joined = (Join::FIRST_COLUMN..).zip(&join.columns);
            let joined = joined.find(|(_, known)| *known == place);
            positions[*column] = joined.map(|(number, _)| number);
        }
        for (number, column) in self.of_table.iter().enumerate() {
            positions[of.scanned() + column] = Some(join.payload_column(number));
        }
        positions
    }

    fn side(&self, of: &Match<'_>, join: &Join) -> TableSide {
        TableSide {
            keys: of.table_keys().cloned().collect(),
            key_types: of.on.iter().map(|(column, _)| column.ty).collect(),
            columns: self.of_table.clone(),
            payload: join.payload.clone(),
            dedups: !of.needs_unique_keys(),
            budget: of.scan.context.settings.join_table_memory,
        }
    }
}
