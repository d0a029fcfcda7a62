//! What a command tells people: a bar that shows how far it is, which is for terminals only, and lines.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Prints a line. Nobody has to read it: the command goes on if standard output is closed.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A bar that counts rows; clones are the same bar.
#[derive(Clone, Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for about so many rows.
    pub(crate) fn new(what: &str, rows: u64) -> Self {
        let style = ProgressStyle::with_template(
            "{prefix:<10} {bar:30} {human_pos}/{human_len} rows {per_sec} {eta} {wide_msg}",
        )
        .expect("the template is well formed");
        let bar = ProgressBar::new(rows)
            .with_style(style)
            .with_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Counts rows; estimates of servers may have been too low.
    pub(crate) fn add(&self, rows: u64) {
        self.0.inc(rows);
        if self
            .0
            .length()
            .is_some_and(|length| length < self.0.position())
        {
            self.0.set_length(self.0.position());
        }
    }

    /// Says what is worked on.
    pub(crate) fn say(&self, text: String) {
        self.0.set_message(text);
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
