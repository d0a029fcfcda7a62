//! The rule that reads the columns of the first rows of an order when these rows are known (YourSQL, "Table Access based on
//! Match Hints": the other columns are read of matching rows only; late materialization).
//!
//! `SELECT … ORDER BY … LIMIT k` needs its select list for k rows, and what it sorts by for all. Where that saves more than k
//! lookups cost, the scan delivers what rows are sorted by and their primary keys, a sort keeps the first k, and an index
//! nested-loop join of the table with itself looks these up. The sort above stays: it finds k rows.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::update_expr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;

use super::exec::{PageScanExec, as_page_scan};
use super::join_rule::SAFETY;
use super::order_rule::above;
use super::own_rows::{own_rows, primary_key};
use super::settings::Used;
use crate::plan::rewrite::{Rewrite, Rewritten};

/// Microseconds that it must save.
const LEAST: f64 = 1000.0;

/// The rule.
pub(super) const LATE_COLUMNS: Rewrite = Rewrite::upwards("LateColumns", replace);

fn replace(node: Arc<dyn ExecutionPlan>) -> Rewritten {
    let late = match node.downcast_ref::<SortExec>() {
        Some(sort) => LateColumns::of(sort),
        None => None,
    };
    match late.filter(LateColumns::is_wanted) {
        Some(late) => Ok(Transformed::yes(above(node.clone(), late.plan()?)?)),
        None => Ok(Transformed::no(node)),
    }
}

/// A sort that keeps the first rows of an access.
struct LateColumns<'p> {
    /// How many.
    rows: usize,
    scan: &'p PageScanExec,
    /// What is computed of its columns below the sort.
    computed: Option<&'p Arc<dyn ExecutionPlan>>,
    /// What the rows are sorted by, in terms of columns of the table.
    order: Vec<PhysicalSortExpr>,
    /// The scan of what the rows are sorted by and of their primary keys.
    early: PageScanExec,
    /// Where the primary key is among its columns.
    key: Vec<usize>,
}

impl<'p> LateColumns<'p> {
    fn of(sort: &'p SortExec) -> Option<Self> {
        let rows = sort.fetch()?;
        let input = sort.input();
        let projection = input.downcast_ref::<ProjectionExec>();
        let scan = as_page_scan(projection.map_or(input, ProjectionExec::input))?;
        let key = primary_key(scan).filter(|_| is_plain(scan))?;
        let order = sort.expr().iter().map(|by| {
            let of_scan = match projection {
                Some(projection) => expanded(&by.expr, projection.expr())?,
                None => by.expr.clone(),
            };
            (!of_scan.is_volatile_node()).then(|| PhysicalSortExpr::new(of_scan, by.options))
        });
        let order: Vec<_> = order.collect::<Option<_>>()?;
        let needed = order.iter().flat_map(|by| collect_columns(&by.expr));
        let mut columns: Vec<_> = needed
            .map(|column| scan.projection[column.index()])
            .collect();
        columns.extend(&key);
        columns.sort_unstable();
        columns.dedup();
        let place = |column: &usize| columns.iter().position(|known| known == column);
        let key = key.iter().map(place).collect::<Option<_>>()?;
        Some(Self {
            rows,
            scan,
            computed: projection.map(|_| input),
            order,
            early: scan.delivering(columns),
            key,
        })
    }

    /// True if lookups of the first rows cost less than what the other columns of all rows do, or if it shall be so.
    fn is_wanted(&self) -> bool {
        let model = self.scan.cost_model();
        let lookups = SAFETY * model.lookups(0, false, self.rows as f64, 1.0);
        let saved = cost(self.scan, self.rows) - cost(&self.early, self.rows);
        match self.scan.context.settings.late_columns {
            Used::Off => false,
            Used::On => saved > lookups + LEAST,
            Used::Always => self.early.projection.len() < self.scan.projection.len(),
        }
    }

    fn plan(self) -> DfResult<Arc<dyn ExecutionPlan>> {
        let place = |column: &Column| {
            let column = self.scan.projection[column.index()];
            self.early.projection.iter().position(|c| *c == column)
        };
        let schema = self.early.schema();
        // What each column of the access is among those of the early one; those that are not there are not sorted by.
        let moved: Vec<_> = (0..self.scan.projection.len())
            .map(|at| {
                let at = place(&Column::new("", at)).unwrap_or_default();
                let name = schema.field(at).name().clone();
                ProjectionExpr::new(Arc::new(Column::new(&name, at)), name)
            })
            .collect();
        let by = self.order.iter().map(|by| {
            let expr = expanded(&by.expr, &moved).unwrap_or_else(|| by.expr.clone());
            PhysicalSortExpr::new(expr, by.options)
        });
        let by = LexOrdering::new(by).expect("a sort has an order");
        let first = SortExec::new(by, Arc::new(self.early)).with_fetch(Some(self.rows));
        let rows = own_rows(Arc::new(first), &self.key, self.scan, Vec::new())?;
        match self.computed {
            Some(projection) => above(projection.clone(), Arc::new(rows)),
            None => Ok(Arc::new(rows)),
        }
    }
}

/// An expression over the results of others, in their terms.
fn expanded(
    expr: &Arc<dyn PhysicalExpr>,
    results: &[ProjectionExpr],
) -> Option<Arc<dyn PhysicalExpr>> {
    update_expr(expr, results, true).ok()?
}

/// True if nothing but columns and conditions is wanted of an access, in no order.
fn is_plain(scan: &PageScanExec) -> bool {
    scan.context.locker.is_none()
        && scan.order.is_none()
        && scan.limit.is_none()
        && scan.aggregate.is_none()
}

/// Cost of an access, and of bringing in what it delivers until the first `kept` of an order are found: a threshold keeps
/// storage from returning most others, but the rows of the first read come before there is one.
fn cost(scan: &PageScanExec, kept: usize) -> f64 {
    let (model, rows) = (scan.cost_model(), scan.estimated_rows());
    let kept = (kept as f64).max(1.0);
    let passing = kept * (1.0 + (rows / kept).max(1.0).ln());
    let shipped = rows.min(passing.max(scan.rows_of_a_read()));
    let byte = match scan.context.settings.forbidden() {
        Some(_) => 0.0,
        None => model.returned_byte(),
    };
    scan.cost() + shipped * scan.width() * byte
}
