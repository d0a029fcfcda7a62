//! The log of slow statements, in MySQL's form, so that `mysqldumpslow` and `pt-query-digest` read it. Behind the figures that
//! MySQL has stand those of near-data processing and what the statement cost.
//!
//! A thread writes. A statement hands its entry over and never waits: at most [`WAITING`] entries wait, of bounded size,
//! and what comes beyond them is lost, and counted.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;
use perigee_value::date::format_micros;

use super::measure::Did;
use super::{SERVER_VERSION, SessionInfo};
use crate::parse::masked;

/// Entries that wait for being written.
const WAITING: usize = 1024;

/// Most bytes of a statement's text in an entry.
const MOST: usize = 16 << 10;

/// The log.
#[derive(Default)]
pub(super) struct SlowLog {
    /// `slow_query_log`.
    on: AtomicBool,
    /// `log_queries_not_using_indexes`.
    not_using_indexes: AtomicBool,
    /// Entries that were not written.
    lost: Arc<AtomicU64>,
    /// Entries that were.
    logged: AtomicU64,
    target: Arc<Target>,
    to: Mutex<Option<SyncSender<String>>>,
}

/// Where entries go.
#[derive(Default)]
struct Target {
    /// `slow_query_log_file`; the process's standard error if it is empty.
    file: Mutex<PathBuf>,
    /// Changes when the file is to be opened anew.
    version: AtomicU64,
}

impl SlowLog {
    /// Sets one of the variables of the log.
    pub fn set(&self, name: &str, value: &str) {
        match name {
            "slow_query_log" => self.on.store(value == "ON", Ordering::Relaxed),
            "log_queries_not_using_indexes" => {
                self.not_using_indexes
                    .store(value == "ON", Ordering::Relaxed);
            }
            "slow_query_log_file" => {
                *self.target.file.lock() = PathBuf::from(value);
                self.reopen();
            }
            _ => {}
        }
    }

    /// True if slow statements are logged.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// True if statements that use no index are slow.
    pub fn logs_unindexed(&self) -> bool {
        self.not_using_indexes.load(Ordering::Relaxed)
    }

    /// The next entry goes to a file that is opened anew: the file that there was may have been renamed.
    pub fn reopen(&self) {
        self.target.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Entries that were handed over, and those that were lost.
    pub fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.logged), count(&self.lost))
    }

    /// Logs a statement.
    pub fn log(&self, entry: &Entry<'_>) {
        let mut to = self.to.lock();
        if to.is_none() {
            *to = self.start().ok();
        }
        match to.as_ref().map(|to| to.try_send(entry.text())) {
            Some(Ok(())) => self.logged.fetch_add(1, Ordering::Relaxed),
            _ => self.lost.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Starts the thread, which ends with the log.
    fn start(&self) -> io::Result<SyncSender<String>> {
        let (to, entries) = sync_channel(WAITING);
        let writer = Writer {
            target: self.target.clone(),
            lost: self.lost.clone(),
            open: None,
        };
        thread::Builder::new()
            .name("slow-log".to_owned())
            .spawn(move || writer.run(&entries))?;
        Ok(to)
    }
}

/// What writes.
struct Writer {
    target: Arc<Target>,
    lost: Arc<AtomicU64>,
    /// The file, and the version of the target that it is of.
    open: Option<(File, u64)>,
}

impl Writer {
    fn run(mut self, entries: &Receiver<String>) {
        while let Ok(entry) = entries.recv() {
            if self.write(&entry).is_err() {
                // The file is tried anew with the next one.
                self.open = None;
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn write(&mut self, entry: &str) -> io::Result<()> {
        let file = self.target.file.lock().clone();
        if file.as_os_str().is_empty() {
            return io::stderr().write_all(entry.as_bytes());
        }
        let version = self.target.version.load(Ordering::Relaxed);
        if self.open.as_ref().is_none_or(|(_, own)| *own != version) {
            let mut opened = OpenOptions::new().create(true).append(true).open(file)?;
            opened.write_all(heading().as_bytes())?;
            self.open = Some((opened, version));
        }
        match &mut self.open {
            Some((file, _)) => file.write_all(entry.as_bytes()),
            None => Ok(()),
        }
    }
}

/// What MySQL writes whenever it opens the log. Readers know it by the path of the program, with which it begins.
fn heading() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "/perigee".into());
    let program = program.display();
    format!(
        "{program}, Version: {SERVER_VERSION} (Perigee). started with:\n\
         Tcp port: 0  Unix socket: (none)\n\
         Time                 Id Command    Argument\n"
    )
}

/// A statement that is logged.
pub(super) struct Entry<'e> {
    pub info: &'e SessionInfo,
    pub schema: Option<&'e str>,
    pub text: &'e str,
    pub did: &'e Did,
}

impl Entry<'_> {
    fn text(&self) -> String {
        let Self {
            info,
            schema,
            text,
            did,
        } = self;
        let mut ended = String::new();
        format_micros(did.ended, 6, &mut ended);
        let mut out = format!("# Time: {}Z\n", ended.replace(' ', "T"));
        let (user, account) = (&info.user, info.account.user());
        let (host, id) = (&info.host, info.connection_id);
        let _ = writeln!(
            out,
            "# User@Host: {account}[{user}] @ {host} [{host}]  Id: {id:5}"
        );
        let near = &did.near;
        let _ = writeln!(
            out,
            "# Query_time: {:.6}  Lock_time: 0.000000 Rows_sent: {}  Rows_examined: {} Rows_affected: {} \
             NDP_pages_pushed: {} NDP_bytes_read: {} NDP_bytes_shipped: {} NDP_bytes_saved: {} \
             Cost_microdollars: {:.3}",
            did.elapsed.as_secs_f64(),
            did.rows_sent,
            near.rows,
            did.rows_affected,
            near.pages_pushed,
            near.bytes_read,
            near.bytes_shipped,
            near.bytes_saved(),
            did.micros
        );
        if let Some(schema) = schema {
            let _ = writeln!(out, "use {schema};");
        }
        let seconds = (did.ended - did.elapsed.as_micros() as i64).div_euclid(1_000_000);
        let _ = writeln!(out, "SET timestamp={seconds};");
        let text = masked(cut(text).to_owned());
        let _ = writeln!(out, "{};", text.trim().trim_end_matches(';'));
        out
    }
}

/// As much of a text as is logged.
fn cut(text: &str) -> &str {
    let mut ends = (0..=MOST.min(text.len())).rev();
    let end = ends.find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::*;

    fn did() -> Did {
        Did {
            elapsed: Duration::from_millis(1500),
            rows_sent: 3,
            ended: 1_700_000_000_123_456,
            micros: 0.25,
            ..Did::default()
        }
    }

    fn log(log: &SlowLog, text: &str) {
        log.log(&Entry {
            info: &SessionInfo::default(),
            schema: Some("shop"),
            text,
            did: &did(),
        });
    }

    /// The file, once it has what is expected.
    fn read_until(path: &Path, has: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.contains(has) {
                return text;
            }
            assert!(Instant::now() < deadline, "no {has} in {text}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn an_entry_has_the_lines_of_mysql() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slow.log");
        let slow = SlowLog::default();
        slow.set("slow_query_log_file", path.to_str().unwrap());
        log(&slow, "SELECT 1;\n");
        let text = read_until(&path, "SELECT 1");
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains(", Version: 8.0"), "{text}");
        assert_eq!(lines[2], "Time                 Id Command    Argument");
        assert_eq!(
            lines[3..],
            [
                "# Time: 2023-11-14T22:13:20.123456Z",
                "# User@Host: root[root] @ localhost [localhost]  Id:     0",
                "# Query_time: 1.500000  Lock_time: 0.000000 Rows_sent: 3  Rows_examined: 0 Rows_affected: 0 \
                 NDP_pages_pushed: 0 NDP_bytes_read: 0 NDP_bytes_shipped: 0 NDP_bytes_saved: 0 \
                 Cost_microdollars: 0.250",
                "use shop;",
                "SET timestamp=1699999998;",
                "SELECT 1;",
            ]
        );
    }

    #[test]
    fn a_file_that_was_renamed_is_left_when_the_log_is_flushed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("slow.log"), dir.path().join("old.log"));
        let slow = SlowLog::default();
        slow.set("slow_query_log_file", path.to_str().unwrap());
        log(&slow, "SELECT 1");
        read_until(&path, "SELECT 1");
        std::fs::rename(&path, &old).unwrap();
        log(&slow, "SELECT 2");
        read_until(&old, "SELECT 2");
        slow.reopen();
        log(&slow, "SELECT 3");
        let new = read_until(&path, "SELECT 3");
        assert!(
            !new.contains("SELECT 2") && new.contains("Version"),
            "{new}"
        );
    }

    #[test]
    fn entries_that_cannot_be_written_are_counted_and_keep_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let slow = SlowLog::default();
        // It is a directory.
        slow.set("slow_query_log_file", dir.path().to_str().unwrap());
        for _ in 0..5000 {
            log(&slow, "SELECT 1");
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while slow.counts().1 < 5000 {
            assert!(Instant::now() < deadline, "{:?}", slow.counts());
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn entries_are_short_and_have_no_passwords() {
        let did = did();
        let text = format!(
            "ALTER USER u IDENTIFIED BY 'secret word', v COMMENT '{}'",
            "ä".repeat(MOST)
        );
        let info = SessionInfo::default();
        let entry = Entry {
            info: &info,
            schema: None,
            text: &text,
            did: &did,
        };
        let entry = entry.text();
        assert!(
            entry.len() < 2 * MOST && !entry.contains("secret word"),
            "{entry}"
        );
        assert!(!entry.contains("use "), "{entry}");
    }
}
