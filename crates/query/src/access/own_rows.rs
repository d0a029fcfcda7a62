//! A table joined with itself by primary key: what delivers keys of rows comes first, the rows are looked up.

use std::sync::{Arc, OnceLock};

use datafusion::common::{JoinSide, JoinType, Result as DfResult};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use perigee_engine::catalog::HIDDEN_ROW_ID;
use perigee_value::ColumnType;

use super::Reason;
use super::exec::{NdpChoice, PageScanExec};
use super::index_join::{IndexJoinExec, InnerSide, JoinParts, KeyPart};
use super::join_key::Strings;
use super::paths::AccessPath;

/// The columns of the primary key; `None` if it has one that plans do not know, or whose values are not found again by
/// their keys.
pub(super) fn primary_key(scan: &PageScanExec) -> Option<Vec<usize>> {
    let clustered = scan.table.clustered();
    let places = clustered.layout.key[..clustered.key_columns].iter();
    let column = |place: &u16| {
        let column = clustered.columns[usize::from(*place)];
        let def = scan.table.def.columns.get(usize::from(column))?;
        (column != HIDDEN_ROW_ID && is_encoded(def.ty)).then_some(usize::from(column))
    };
    places.map(column).collect()
}

/// True if a plan's values of a type can be made keys again.
fn is_encoded(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Char { collation, .. } | ColumnType::Varchar { collation, .. } => {
            collation.is_text()
        }
        ColumnType::Float | ColumnType::Double | ColumnType::Long { .. } | ColumnType::Json => {
            false
        }
        _ => true,
    }
}

/// The columns of an access for the rows whose primary keys `input` delivers in these columns, in its order. What the
/// access still asks of the rows is `filters`.
///
/// # Errors
/// If the parts do not fit together.
pub(super) fn own_rows(
    input: Arc<dyn ExecutionPlan>,
    key: &[usize],
    scan: &PageScanExec,
    filters: Vec<Arc<dyn PhysicalExpr>>,
) -> DfResult<IndexJoinExec> {
    let clustered = scan.table.clustered();
    let places = clustered.layout.key[..clustered.key_columns].iter();
    let delivered = input.schema();
    let parts = places.zip(key).map(|(place, at)| {
        let column = &clustered.layout.columns[usize::from(*place)];
        KeyPart {
            ty: column.ty,
            nullable: column.null_bit.is_some(),
            value: Arc::new(Column::new(delivered.field(*at).name(), *at)),
            strings: Strings::Values,
        }
    });
    let mut rows = scan.clone();
    rows.filters = filters;
    rows.sampled = None;
    rows.known_keys = None;
    rows.path = AccessPath {
        equal_columns: key.len(),
        possible: scan.path.possible.clone(),
        ..AccessPath::all_of(0, false)
    };
    rows.ndp = NdpChoice::not(Reason::Lookup);
    let rows = rows.rebuilt();
    let schema = rows.schema();
    let statistics = StatisticsContext::new().compute(scan, &StatisticsArgs::new())?;
    let first = delivered.fields().len();
    let projection = (first..first + schema.fields().len()).collect();
    let inner = InnerSide {
        scan: rows,
        steps: Vec::new(),
        schema,
        key: parts.collect(),
        matches: 1.0,
        lookups: OnceLock::new(),
    };
    let parts = JoinParts {
        join_type: JoinType::Inner,
        outer: JoinSide::Left,
        on: Vec::new(),
        equal: Vec::new(),
        filter: None,
        projection: Some(projection),
        fetch: None,
    };
    IndexJoinExec::try_new(input, Arc::new(inner), parts, statistics)
}
