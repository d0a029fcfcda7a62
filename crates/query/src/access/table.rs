//! Tables of the engine as DataFusion sees them. Providers live as long as one statement: they carry
//! its read view.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result as DfResult, Statistics};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use perigee_engine::catalog::{Table, TableDef};
use perigee_engine::ndp::column_data_type;

use super::AccessContext;
use super::convert::{Binding, convert};
use super::exec::PageScanExec;
use super::paths::{has_parts, selects_parts};
use super::stats::table_statistics;
use crate::plan::metadata::{self, Origin};

/// Column flags of the protocol.
const NOT_NULL: u16 = 1;
const PRIMARY_KEY: u16 = 2;
const UNIQUE_KEY: u16 = 4;
const MULTIPLE_KEY: u16 = 8;
const UNSIGNED: u16 = 32;

/// Name of the field with the hidden row id of a table without primary key, for statements that lock
/// or change its rows. No column that a user names is called so.
pub const ROW_ID: &str = "/@row_id";

/// The Arrow schema of a table, with what clients are told of each column as metadata. Columns of ENUMs
/// are the numbers that storage has.
#[must_use]
pub fn table_schema(def: &TableDef) -> SchemaRef {
    let fields: Vec<_> = def
        .columns
        .iter()
        .enumerate()
        .map(|(i, column)| {
            let origin = Origin {
                schema: def.shown_schema().to_owned(),
                table: def.name.clone(),
                column: column.name.clone(),
                ty: column.type_text(),
                flags: flags(def, i as u16),
            };
            let mut metadata = metadata::of_column(&origin, column.ty.fsp());
            if let Some(collation) = column.ty.collation().filter(|c| c.is_text()) {
                metadata::set_collation(&mut metadata, collation);
            }
            if let Some(members) = &column.members {
                metadata::set_members(&mut metadata, members);
            }
            Field::new(
                column.name.to_lowercase(),
                column_data_type(column.ty),
                column.nullable,
            )
            .with_metadata(metadata)
        })
        .collect();
    Arc::new(Schema::new(fields))
}

fn flags(table: &TableDef, column: u16) -> u16 {
    let def = &table.columns[usize::from(column)];
    let mut flags = if def.nullable { 0 } else { NOT_NULL };
    if table.primary_key.contains(&column) {
        flags |= PRIMARY_KEY;
    }
    for index in &table.indexes {
        match index.columns[..] {
            [only] if only == column && index.unique => flags |= UNIQUE_KEY,
            [first, ..] if first == column => flags |= MULTIPLE_KEY,
            _ => {}
        }
    }
    if def.ty.is_unsigned() && def.members.is_none() {
        flags |= UNSIGNED;
    }
    flags
}

/// One table, for one statement.
#[derive(Clone, Debug)]
pub struct TableAccess {
    context: AccessContext,
    table: Arc<Table>,
    schema: SchemaRef,
}

impl TableAccess {
    /// The table as a statement sees it.
    #[must_use]
    pub fn new(context: AccessContext, table: Arc<Table>) -> Self {
        let schema = table_schema(&table.def);
        Self {
            context,
            table,
            schema,
        }
    }

    /// The table with its hidden row id as the last column, if it has one.
    #[must_use]
    pub fn with_row_id(mut self) -> Self {
        if self.table.has_hidden_row_id() {
            let mut fields = self.schema.fields().to_vec();
            fields.push(Arc::new(Field::new(ROW_ID, DataType::UInt64, false)));
            self.schema = Arc::new(Schema::new(fields));
        }
        self
    }

    /// The table.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// The access that delivers these columns of the rows for which the filters are true.
    pub(super) fn plan(
        &self,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<PageScanExec> {
        let all = || (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let filters = filters
            .iter()
            .map(|f| self.physical(f))
            .collect::<DfResult<Vec<_>>>()?;
        let (filters, hints) = match has_parts(&self.table) {
            true => filters.into_iter().partition(|f| self.is_evaluated(f)),
            // All that it was given are its own.
            false => (filters, Vec::new()),
        };
        PageScanExec::plan(
            self.context.clone(),
            self.table.clone(),
            self.schema.clone(),
            projection,
            filters,
            hints,
            limit,
        )
    }

    /// True for a filter that storage can evaluate.
    fn is_evaluated(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        let positions: Vec<_> = (0..self.schema.fields().len() as u16).map(Some).collect();
        let binding = Binding {
            layout: &self.table.clustered().layout,
            positions: &positions,
        };
        convert(filter, &binding).is_some()
    }

    /// A filter over the table's columns as a physical expression.
    fn physical(&self, filter: &Expr) -> DfResult<Arc<dyn PhysicalExpr>> {
        let schema = DFSchema::try_from(self.schema.as_ref().clone())?;
        let filter = filter.clone().transform_columns()?;
        create_physical_expr(
            &filter,
            &schema,
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )
    }
}

/// Filters name columns with their table's alias; the table's schema has them bare.
trait WithoutQualifiers: Sized {
    fn transform_columns(self) -> DfResult<Self>;
}

impl WithoutQualifiers for Expr {
    fn transform_columns(self) -> DfResult<Self> {
        use datafusion::common::Column;
        use datafusion::common::tree_node::{Transformed, TreeNode};
        self.transform(|expr| match expr {
            Expr::Column(column) if column.relation.is_some() => Ok(Transformed::yes(
                Expr::Column(Column::new_unqualified(column.name)),
            )),
            other => Ok(Transformed::no(other)),
        })
        .map(|transformed| transformed.data)
    }
}

#[async_trait]
impl TableProvider for TableAccess {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        let columns: Vec<_> = (0..self.schema.fields().len()).collect();
        let stats = self.table.stats();
        Some(table_statistics(&stats, &columns, 1.0))
    }

    /// What storage can evaluate is taken over exactly: the scan gives only rows for which it is
    /// true, wherever it is evaluated. The rest stays above; if it tells which part of an index to read, the scan
    /// knows it, too.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let decide = |filter: &&Expr| match self.physical(filter) {
            Ok(filter) if self.is_evaluated(&filter) => TableProviderFilterPushDown::Exact,
            Ok(filter) if selects_parts(&self.table, &filter) => {
                TableProviderFilterPushDown::Inexact
            }
            _ => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(decide).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let exec = self.plan(projection, filters, limit)?;
        Ok(Arc::new(exec))
    }
}
