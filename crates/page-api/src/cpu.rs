//! What near-data processing takes of a core: the clock that it is charged by, in storage and in the
//! frontend alike, and how it leaves the core to others.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a thread that gives way works at a time: less than an ordinary read takes, far more than
/// the system call.
const AT_A_TIME: Duration = Duration::from_micros(50);

thread_local! {
    /// When this thread gave way last.
    static GAVE_WAY: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Leaves the core to threads that wait for it, if this one has not done so for a while; to be called
/// wherever a page is done or bytes are sent, by threads that are to come after others. The kernel
/// by itself may let a thread that wakes up wait for some milliseconds, until its clock ticks.
pub fn give_way() {
    let now = Instant::now();
    let rested = GAVE_WAY.get().is_some_and(|last| now - last < AT_A_TIME);
    if !rested {
        // SAFETY: the call takes nothing.
        unsafe { libc::sched_yield() };
        GAVE_WAY.set(Some(Instant::now()));
    }
}

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
