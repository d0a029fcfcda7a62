//! Assembly: settings to running roles. The one place where concrete types meet.
//!
//! A role serves until it is told to stop, then ends in order. `embedded` hands the stores
//! themselves to the SAL, `frontend` hands it their clients; nothing else differs.

mod accounts;
mod adapter;
mod error;
mod frontend;
mod memory;
mod parameters;
mod ready;
mod settings;
mod status;
mod stores;
mod tls;

pub use error::NodeError;
pub use frontend::{run_embedded, run_frontend};
pub use perigee_page_store::answer_at_once;
pub use settings::{
    EmbeddedSettings, FrontendSettings, LogStoreSettings, PageStoreSettings, Serving, StatusListen,
    TlsSettings,
};
pub use stores::{run_log_store, run_page_store};
