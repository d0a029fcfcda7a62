//! How much memory all connections of a frontend may take together, and what the process takes beside.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use perigee_query::ProcessMemory;
use tokio::task::JoinHandle;
use tokio::time::interval;

use crate::FrontendSettings;

/// How often the system is asked what the process takes.
const LOOKS: Duration = Duration::from_millis(100);

/// Queries that may use all that one may use, at the same time.
const QUERIES: usize = 2;

/// Least memory where the machine has it: a session may raise its limit.
const LEAST: usize = 1 << 30;

/// The limit: what the settings say, or some queries' and at most half of the machine's.
pub(crate) fn total(settings: &FrontendSettings) -> usize {
    settings.total_memory.unwrap_or_else(|| {
        let queries = settings.query_memory.saturating_mul(QUERIES).max(LEAST);
        machine().map_or(queries, |machine| queries.min(machine / 2))
    })
}

/// Tells the connections' memory what the process takes beside it, until it is dropped.
pub(crate) struct Watch(JoinHandle<()>);

impl Watch {
    /// Of a process with these bytes of pools.
    pub(crate) fn begin(memory: Arc<ProcessMemory>, pools: usize) -> Self {
        Self(tokio::spawn(async move {
            let mut looks = interval(LOOKS);
            loop {
                looks.tick().await;
                let Some(all) = anonymous() else {
                    return;
                };
                memory.note_untold(all.saturating_sub(pools + memory.used()));
            }
        }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Resident bytes of this process that are of no file.
fn anonymous() -> Option<usize> {
    anonymous_of(&fs::read_to_string("/proc/self/status").ok()?)
}

fn anonymous_of(status: &str) -> Option<usize> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}

/// Bytes of memory that this process may use: the machine's, or the control group's if that is less.
fn machine() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok()?;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    least(&machine, &group)
}

fn least(machine: &str, group: &str) -> Option<usize> {
    let line = machine
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let machine = kibibytes.saturating_mul(1024);
    let group = group.trim().parse().unwrap_or(usize::MAX);
    Some(machine.min(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_process_takes_is_known() {
        let status = "VmRSS:\t  30 kB\nRssAnon:\t  20 kB\n";
        assert_eq!(anonymous_of(status), Some(20 << 10));
        assert_eq!(anonymous_of("VmRSS:\t  30 kB\n"), None);
        assert!(anonymous().is_some_and(|bytes| bytes > 100_000));
    }

    #[test]
    fn the_least_limit_counts() {
        let machine = "MemTotal:        2048 kB\nMemFree:   1 kB\n";
        for (group, least_of_both) in [("", 2 << 20), ("max\n", 2 << 20), ("1000\n", 1000)] {
            assert_eq!(least(machine, group), Some(least_of_both));
        }
        assert_eq!(least("", "1000"), None);
    }
}
