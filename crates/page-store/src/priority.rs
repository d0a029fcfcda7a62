//! Which threads come first where cores are scarce: those that answer reads and take log before
//! those of near-data processing and of consolidation.
//!
//! Two things decide that on Linux. Who gets how much: by the nice value. Who runs when both want
//! to: a thread that wakes up may have to wait until the kernel's clock ticks, some milliseconds,
//! however much it is owed. So threads that are to come after others give way every now and then
//! ([`give_way`](perigee_page_api::give_way)), and all ask for short turns: who gives way loses the
//! rest of its turn, and what it is owed makes others wait later.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// How much nicer NDP threads are than others: they get a third of what an ordinary thread gets on a
/// core that both want. With much less they would do nothing on a busy machine, and pages that are
/// declined cost more.
const NICE: i32 = 5;

/// What a thread asks for at once: about what most answers take, and how long others work before they
/// give way.
const TURN: Duration = Duration::from_micros(200);

/// Makes the calling thread, and those that it starts from now on, one that runs at once when it
/// wakes up: for a process that is a Page Store and nothing else, before it starts its threads.
pub fn answer_at_once() {
    schedule(0);
}

/// Makes the calling thread one that does near-data processing.
pub(crate) fn step_back() {
    schedule(NICE);
}

/// Makes the calling thread so much nicer than the process's first, and lets it ask for a [`TURN`] at a
/// time.
fn schedule(nicer: i32) {
    // SAFETY: the calls take a number or none. The id of a process is that of its first thread.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, libc::getpid() as u32) };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: (nice + nicer).min(19),
        sched_priority: 0,
        sched_runtime: TURN.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the call reads the attributes, which are as long as they say; 0 is the calling thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if done != 0 {
        let error = io::Error::last_os_error();
        tracing::warn!("NDP threads have the priority of all others: {error}");
    }
}

/// A runtime for the connections of NDP: its threads give way to others, as the NDP threads do. It
/// may be dropped anywhere.
#[derive(Debug)]
pub struct NdpRuntime(Option<Runtime>);

impl NdpRuntime {
    /// Starts its threads.
    ///
    /// # Errors
    /// If there are no threads.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("ndp-send")
            .on_thread_start(|| schedule(NICE))
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// For [`perigee_page_api::serve_apart`].
    ///
    /// # Panics
    /// Never: it is there until this is dropped.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it ends by being dropped").handle()
    }
}

impl Drop for NdpRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Without waiting, which must not be done on a thread of a runtime.
            runtime.shutdown_background();
        }
    }
}
