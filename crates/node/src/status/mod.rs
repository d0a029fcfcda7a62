//! What a process shows of itself over HTTP: its roles' figures as one report.
//!
//! Each role's file has a pure function from the figures that the role's crate gives to the list of
//! metrics: the only place where a metric has its name and meaning. `docs/metrics.md` is that list.

#[cfg(test)]
mod documented;
mod frontend;
mod log_store;
mod page_store;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use perigee_status::{Metrics, Report, Source, process_metrics};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) use frontend::FrontendPart;
pub(crate) use log_store::LogStorePart;
pub(crate) use page_store::PageStorePart;

use crate::{NodeError, StatusListen};

/// The option that says where.
const OPTION: &str = "--status-listen";

/// A role's share of a process: `perigee serve` has one of each.
pub(crate) trait Part: Send + Sync {
    /// What it is, for people.
    fn title(&self) -> &'static str;

    /// Its figures now.
    fn metrics(&self) -> Metrics;

    /// Whether it can do its work, now or when an outage elsewhere is over. Once it cannot it never can
    /// again.
    fn health(&self) -> Result<(), String>;
}

/// How often a process looks whether it can do its work.
const HEALTH_LOOK: Duration = Duration::from_millis(200);

/// How long a process that cannot do its work still says so before it ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A process as it is shown.
pub(crate) struct Shown {
    /// What it is, for people.
    pub title: &'static str,
    /// What it is, as the command line has it.
    pub role: &'static str,
    /// What is no number.
    pub facts: Vec<(&'static str, String)>,
    /// Its roles, the one that people look for first.
    pub parts: Vec<Box<dyn Part>>,
    /// When it began.
    pub started: SystemTime,
}

impl Source for Shown {
    fn report(&self) -> Report {
        let version = env!("CARGO_PKG_VERSION");
        let mut facts = vec![
            ("version", version.to_owned()),
            ("process", std::process::id().to_string()),
        ];
        facts.extend(self.facts.iter().cloned());
        let mut metrics = Metrics::default();
        for part in &self.parts {
            metrics.append(part.metrics().of_role(part.title()));
        }
        let process = process_metrics(self.role, version, self.started);
        metrics.append(process.of_role("Process"));
        Report {
            title: self.title.to_owned(),
            facts,
            metrics,
        }
    }

    fn health(&self) -> Result<(), String> {
        self.parts.iter().try_for_each(|part| part.health())
    }
}

impl Shown {
    /// Returns the error to end the process with when it can never do its work again, after its health
    /// page has said so for a while.
    pub(crate) async fn failed(&self) -> NodeError {
        loop {
            if let Err(why) = self.health() {
                tracing::error!("the {} ends: it can do no more work: {why}", self.role);
                tokio::time::sleep(LAST_WORDS).await;
                return NodeError::Failed(why);
            }
            tokio::time::sleep(HEALTH_LOOK).await;
        }
    }
}

/// Listens where the settings say; `None` if nothing is to be shown, or the address that would be taken
/// without being asked for is taken.
///
/// # Errors
/// If an address that was asked for cannot be listened on.
pub(crate) async fn listen(at: &StatusListen) -> Result<Option<TcpListener>, NodeError> {
    match *at {
        StatusListen::Off => Ok(None),
        StatusListen::At(address) => match TcpListener::bind(address).await {
            Ok(listener) => Ok(Some(listener)),
            Err(cause) => Err(NodeError::listen(address, cause, OPTION)),
        },
        StatusListen::Try(address) => match TcpListener::bind(address).await {
            Ok(listener) => Ok(Some(listener)),
            Err(cause) => {
                tracing::warn!(
                    "no status page: cannot listen on {address}: {cause}; choose another address \
                     with {OPTION}"
                );
                Ok(None)
            }
        },
    }
}

/// Shows a process until this is dropped.
pub(crate) struct Showing(JoinHandle<()>);

impl Drop for Showing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Begins to show a process, and says where.
pub(crate) fn show(listener: Option<TcpListener>, shown: &Arc<Shown>) -> Option<Showing> {
    let listener = listener?;
    match listener.local_addr() {
        Ok(address) => tracing::info!("{} shows its status at http://{address}/", shown.role),
        Err(cause) => tracing::warn!("the address of the status page is unknown: {cause}"),
    }
    let serve = perigee_status::serve(listener, shown.clone());
    Some(Showing(tokio::spawn(serve)))
}
