//! [`Source`] and [`Report`]: what a role gives to be shown.

use crate::Metrics;

/// All that is shown of a process at one moment.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What the process is: `Page Store`, say.
    pub title: String,
    /// What is no number: version, directory, addresses. Names and values, for the page only.
    pub facts: Vec<(&'static str, String)>,
    /// Everything that is counted or measured.
    pub metrics: Metrics,
}

/// Who can tell of a process.
///
/// Both methods are called on the runtime's threads: they may take latches that are held briefly, but
/// neither do I/O nor wait for anybody.
pub trait Source: Send + Sync + 'static {
    /// What there is to show now.
    fn report(&self) -> Report;

    /// Whether the process can do its work.
    ///
    /// # Errors
    /// Why not, for a person to read.
    fn health(&self) -> Result<(), String>;
}
