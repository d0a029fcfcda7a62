//! What every process tells: figures of the operating system, under the names that Prometheus' own
//! libraries use.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Kind, Metrics, Value};

/// CPU time, memory, files and threads of this process, which began at `started` and is a `role` of
/// this `version`. What the system does not tell is left out.
#[must_use]
pub fn process_metrics(role: &str, version: &str, started: SystemTime) -> Metrics {
    let mut metrics = Metrics::default();
    let since_1970 = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    metrics
        .section("Process")
        .add(
            "perigee_build_info",
            "What runs here: the value is always 1",
            Kind::Gauge,
            &["role", "version"],
            [(vec![role.to_owned(), version.to_owned()], Value::Integer(1))],
        )
        .gauge(
            "process_start_time_seconds",
            "Start of the process",
            since_1970,
        );
    if let Some(cpu) = cpu_time() {
        let help = "CPU time, of all threads, user and system";
        metrics.counter("process_cpu_seconds_total", help, cpu);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(kib) = of_status(&status, "VmRSS:") {
        let help = "Resident memory";
        metrics.gauge("process_resident_memory_bytes", help, kib << 10);
    }
    if let Some(threads) = of_status(&status, "Threads:") {
        metrics.gauge("process_threads", "Threads", threads);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // Without the one that lists them.
        let open = files.count().saturating_sub(1);
        metrics.gauge("process_open_fds", "Open files and sockets", open);
    }
    metrics
}

/// The number behind a name in `/proc/self/status`.
fn of_status(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// CPU time of all threads of this process so far.
fn cpu_time() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec of ours, which the call only writes.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let nanos = u32::try_from(time.tv_nsec).ok()?;
    (done == 0).then(|| Duration::new(time.tv_sec as u64, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something() {
        let metrics = process_metrics("test", "1.2.3", SystemTime::now());
        let value = |name: &str| {
            let family = metrics.families().find(|family| family.name == name);
            match family.map(|family| &family.samples[0].value) {
                Some(Value::Integer(value)) => *value as f64,
                Some(Value::Real(value)) => *value,
                other => panic!("{name}: {other:?}"),
            }
        };
        assert!(value("process_cpu_seconds_total") > 0.0);
        assert!(value("process_resident_memory_bytes") > 100_000.0);
        assert!(value("process_threads") >= 1.0);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_start_time_seconds") > 1.7e9);
        assert_eq!(value("perigee_build_info") as u64, 1);
    }

    #[test]
    fn lines_of_the_status_are_found_by_their_names() {
        let status = "Name:\tperigee\nVmRSS:\t   4096 kB\nThreads:\t7\nOdd:\n";
        assert_eq!(of_status(status, "VmRSS:"), Some(4096));
        assert_eq!(of_status(status, "Threads:"), Some(7));
        assert_eq!(of_status(status, "Odd:"), None);
        assert_eq!(of_status(status, "VmPeak:"), None);
    }
}
