//! Files over HTTP, as a store of objects serves them: what an engine reads Parquet files through that
//! has nothing to compute with on the side of the files.

mod server;
mod store;

pub use server::serve;
pub use store::HttpFiles;
