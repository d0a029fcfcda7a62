//! `perigee-bench …`: each command measures ratios in one run and returns them under the names that
//! its JSON output has.

mod columnburst;
mod innodb;
mod isolation;
mod joins;
mod load;
mod paper;
mod peers;
mod placement;
mod pq;
mod pushdown;
mod scan;
mod setup;
mod sysbench;
mod tpch;
mod turns;
mod yoursql;

pub use columnburst::{BurstQuery, ColumnBurstFigures, GroupingFigures, columnburst};
pub use isolation::{IsolationOptions, Subject, isolation};
pub use joins::{JoinFigure, JoinFigures, joins};
pub use load::{LoadFigures, load};
pub use paper::{LinkFigures, MicroFigures, PaperFigures, PqReduction, TotalFigures, paper};
pub use peers::{PeerFigures, peers};
pub use placement::{CellFigures, PlacementFigures, placement};
pub use pq::PqFigures;
pub use pushdown::{PushdownFigures, QuestionFigures, WayFigures, pushdown};
pub use scan::{ScanFigures, scan};
pub use setup::BenchOptions;
pub use sysbench::{MixedFigures, PairFigures, SysbenchFigures, SysbenchOptions, sysbench};
pub use tpch::{ColdFigures, QueryFigures, TpchFigures, tpch};
pub use yoursql::{EstimateFigures, PoolFigures, YourSqlFigures, yoursql};
