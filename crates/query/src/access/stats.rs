//! Statistics in DataFusion's terms. Always inexact: an exact count would let the planner answer
//! `COUNT(*)` from it, which is wrong under multi-versioning. Without least and greatest values: DataFusion takes a
//! column for constant where a filter leaves one value between them, inexact as they are, and then does not sort by it.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use perigee_engine::catalog::TableStats;

/// Statistics of `columns` of a table of which `factor` of the rows remain.
#[must_use]
pub fn table_statistics(stats: &TableStats, columns: &[usize], factor: f64) -> Statistics {
    let rows = ((stats.rows as f64 * factor).ceil() as usize).max(1);
    let mut width = 0.0;
    let column_statistics = columns
        .iter()
        .map(|&column| {
            let Some(known) = stats.columns.get(column) else {
                return ColumnStatistics::new_unknown();
            };
            width += f64::from(known.average_width);
            ColumnStatistics {
                null_count: Precision::Inexact((known.nulls as f64 * factor) as usize),
                distinct_count: Precision::Inexact((known.distinct as usize).min(rows)),
                ..ColumnStatistics::new_unknown()
            }
        })
        .collect();
    Statistics {
        num_rows: Precision::Inexact(rows),
        total_byte_size: Precision::Inexact((rows as f64 * width.max(1.0)) as usize),
        column_statistics,
    }
}
