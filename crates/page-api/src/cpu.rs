//! The clock that near-data processing is charged by, in storage and in the frontend alike.

/// CPU time that this thread has used, user and system, in nanoseconds. A system call: to be asked for
/// around a batch of work, not around a record.
///
/// # Panics
/// If the system has no such clock.
#[must_use]
pub fn thread_cpu_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec of ours, which the call only writes.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert!(done == 0, "N8: the thread's CPU clock exists");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_counts_and_waiting_does_not() {
        let begin = thread_cpu_nanos();
        std::thread::sleep(Duration::from_millis(50));
        let waited = thread_cpu_nanos() - begin;
        assert!(waited < 40_000_000, "{waited}");
        let (start, begin) = (Instant::now(), thread_cpu_nanos());
        while thread_cpu_nanos() - begin < 1_000_000 {
            assert!(start.elapsed() < Duration::from_secs(10));
        }
    }
}
