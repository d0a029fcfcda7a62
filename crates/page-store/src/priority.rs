//! The priority of NDP threads: they give way to those that take log and read pages.

use std::time::Duration;

/// Nice value of NDP threads: a third of what an ordinary thread gets on a core that both want. With
/// much less they would do nothing on a busy machine, and pages that are declined cost more.
const NICE: i32 = 5;

/// How long an NDP thread would like to run at a time. Since 6.12 Linux lets a thread that wakes up and
/// asks for less time, as all others do, run at once; before, it ignores the wish.
const SLICE: Duration = Duration::from_millis(20);

/// Makes the calling thread one that gives way to others.
pub(crate) fn step_back() {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_BATCH as u32,
        sched_flags: 0,
        sched_nice: NICE,
        sched_priority: 0,
        sched_runtime: SLICE.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the call reads the attributes, which are as long as they say; 0 is the calling thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if done != 0 {
        let error = std::io::Error::last_os_error();
        tracing::warn!("NDP threads run with the priority of all others: {error}");
    }
}
