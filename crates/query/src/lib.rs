//! SQL over the engine: sessions, statements, MySQL's semantics on DataFusion, near-data processing
//! as a step after physical planning.

pub mod access;
mod diagnostics;
mod error;
mod explain;
mod functions;
mod interrupt;
mod memory;
mod parse;
mod plan;
mod refusal;
mod result;
mod session;
mod texts;
mod values;

pub use error::{REGISTRY, Result, SqlError, SqlState};
pub use memory::ProcessMemory;
pub use parse::masked;
pub use result::{Collected, Collector, LocalFile, NoFile, OkResult, ResultColumn, ResultSink};
pub use session::{
    Connections, Encryption, Frontend, FrontendConfig, FrontendFigures, NoConnections, NoStatus,
    Parameter, Parameters, PreparedInfo, Process, SERVER_VERSION, Session, SessionInfo,
    StatusSource,
};
