//! Table access: the engine's tables in DataFusion's terms, the choice of access paths, and
//! near-data processing as a step after planning (taurus-ndp section IV.B).

mod charged_values;
mod convert;
mod cost;
mod describe;
mod early_groups;
mod entries_rule;
mod estimate;
mod exec;
mod expected_rows;
mod filters;
mod group_values;
mod groups;
mod index_join;
mod join_key;
mod join_order;
mod join_rule;
mod join_table;
mod key_values;
mod known_keys;
mod late_rule;
mod ndp_rule;
mod order_rule;
mod own_rows;
mod paths;
mod placement;
mod reason;
mod reference;
mod residual;
mod sampling;
mod settings;
mod skew;
mod stats;
mod table;

pub use convert::constant;
pub use cost::CostModel;
pub use describe::{AccessRow, NearData, count_scans, reads_whole_tables};
pub use early_groups::EarlyGroups;
pub use exec::{NdpChoice, PageScanExec, as_page_scan};
pub use index_join::IndexJoinExec;
pub use join_order::JoinOrder;
pub use join_table::JoinTableExec;
pub use ndp_rule::physical_rules;
pub use placement::{Cost, Placement};
pub use reason::{NdpCounters, NdpStatus, Reason};
pub use reference::{NUMBER_SEPARATOR, TableReference};
pub use residual::Residual;
pub use sampling::sample;
pub use settings::{AccessContext, IndexChoice, JoinPlace, NdpMode, NdpSettings, Thresholds, Used};
pub use table::{ROW_ID, TableAccess, table_schema};

/// An error of the engine on its way through DataFusion.
fn engine_error(error: perigee_engine::EngineError) -> datafusion::error::DataFusionError {
    datafusion::error::DataFusionError::External(Box::new(error))
}
