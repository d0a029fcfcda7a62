//! What reads from a store cost on their way, measured on every one of them: the block transfer time of
//! nKV's cost model (ndp-cost-model section 2), each store its own.
//!
//! Requests overlap, so that none of them says by itself what a byte costs: time is counted while any
//! request is under way, and bytes as they arrive. The link is busy until the last answer is there.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Before anything is measured: a store in the same process, which copies pages.
const FIRST: LinkCost = LinkCost {
    wait: 150.0,
    byte: 0.0006,
};

/// A busy time with fewer bytes says what waiting costs.
const FEW: usize = 48 << 10;

/// One with more says what bytes cost; in between it says nothing.
const MANY: usize = 256 << 10;

/// A busy time without an end is counted whenever so many bytes came.
const PIECE: usize = 1 << 20;

/// What was measured so many bytes ago counts half.
const HALF: f64 = (16 << 20) as f64;

/// Share by which a longer wait counts. A shorter one counts at once: what comes on top is work of others.
const LONGER: f64 = 1.0 / 16.0;

/// What reads of whole pages cost, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCost {
    /// Until an answer is there, however short.
    pub wait: f64,
    /// A byte of an answer.
    pub byte: f64,
}

/// The way to one store.
#[derive(Debug)]
pub(crate) struct Link(Mutex<Measured>);

#[derive(Debug)]
struct Measured {
    cost: LinkCost,
    /// Microseconds and bytes, what is old counting less.
    spent: f64,
    moved: f64,
    /// Requests that are under way.
    whole: usize,
    reduced: usize,
    /// The busy time began here, or its last piece was counted.
    since: Instant,
    bytes: usize,
    /// The store reduced pages meanwhile, which took time of its own.
    is_mixed: bool,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Pages as they are.
    Whole,
    /// Reduced pages.
    Reduced,
}

/// A request that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Way<'l> {
    link: &'l Link,
    asked: Asked,
}

impl Default for Link {
    fn default() -> Self {
        Self(Mutex::new(Measured {
            cost: FIRST,
            spent: FIRST.byte * MANY as f64,
            moved: MANY as f64,
            whole: 0,
            reduced: 0,
            since: Instant::now(),
            bytes: 0,
            is_mixed: false,
        }))
    }
}

impl Link {
    /// What it costs as far as is known.
    pub fn cost(&self) -> LinkCost {
        self.0.lock().cost
    }

    /// A request goes out.
    pub fn begin(&self, asked: Asked) -> Way<'_> {
        self.0.lock().begin(asked, Instant::now());
        Way { link: self, asked }
    }
}

impl Way<'_> {
    /// So many bytes of the answer came.
    pub fn received(&self, bytes: usize) {
        self.link.0.lock().received(bytes, Instant::now());
    }
}

impl Drop for Way<'_> {
    fn drop(&mut self) {
        self.link.0.lock().end(self.asked, Instant::now());
    }
}

impl Measured {
    fn begin(&mut self, asked: Asked, now: Instant) {
        if self.whole + self.reduced == 0 {
            self.since = now;
            self.bytes = 0;
            self.is_mixed = false;
        }
        match asked {
            Asked::Whole => self.whole += 1,
            Asked::Reduced => {
                self.reduced += 1;
                self.is_mixed = true;
            }
        }
    }

    fn received(&mut self, bytes: usize, now: Instant) {
        self.bytes += bytes;
        if self.bytes >= PIECE {
            self.count(now - self.since);
            self.since = now;
            self.bytes = 0;
            self.is_mixed = self.reduced > 0;
        }
    }

    fn end(&mut self, asked: Asked, now: Instant) {
        match asked {
            Asked::Whole => self.whole -= 1,
            Asked::Reduced => self.reduced -= 1,
        }
        if self.whole + self.reduced == 0 && self.bytes > 0 {
            self.count(now - self.since);
        }
    }

    /// Learns from a busy time.
    fn count(&mut self, busy: Duration) {
        let busy = busy.as_secs_f64() * 1e6;
        let bytes = self.bytes as f64;
        if self.bytes <= FEW {
            let longer = busy - bytes * self.cost.byte - self.cost.wait;
            if !self.is_mixed {
                self.cost.wait += longer * if longer > 0.0 { LONGER } else { 1.0 };
                self.cost.wait = self.cost.wait.max(1.0);
            }
        } else if self.bytes >= MANY {
            // What a store took to reduce pages is none of the link's cost: only that it is cheaper than
            // was thought can be learned from that time.
            if self.is_mixed && busy >= bytes * self.cost.byte {
                return;
            }
            let faded = 0.5_f64.powf(bytes / HALF);
            self.spent = self.spent * faded + busy;
            self.moved = self.moved * faded + bytes;
            self.cost.byte = self.spent / self.moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 16 << 10;

    struct Clock(Measured, Instant);

    impl Clock {
        fn new() -> Self {
            let link = Link::default();
            Self(link.0.into_inner(), Instant::now())
        }

        fn pass(&mut self, micros: f64) {
            self.1 += Duration::from_nanos((micros * 1e3) as u64);
        }

        /// A request by itself.
        fn read(&mut self, asked: Asked, bytes: usize, micros: f64) {
            self.0.begin(asked, self.1);
            self.pass(micros);
            self.0.received(bytes, self.1);
            self.0.end(asked, self.1);
            self.pass(1e6);
        }
    }

    fn is_near(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 0.05
    }

    #[test]
    fn short_reads_tell_the_wait_and_long_ones_the_bytes() {
        let mut clock = Clock::new();
        for _ in 0..100 {
            clock.read(Asked::Whole, 64 * PAGE, 64.0 * PAGE as f64 * 0.008);
        }
        for _ in 0..100 {
            clock.read(Asked::Whole, PAGE, 300.0 + PAGE as f64 * 0.008);
        }
        let cost = clock.0.cost;
        assert!(
            is_near(cost.byte, 0.008) && is_near(cost.wait, 300.0),
            "{cost:?}"
        );
        clock.read(Asked::Whole, PAGE, 100.0 + PAGE as f64 * 0.008);
        assert!(is_near(clock.0.cost.wait, 100.0), "{:?}", clock.0.cost);
    }

    #[test]
    fn requests_that_overlap_share_the_link() {
        let mut clock = Clock::new();
        clock.0.begin(Asked::Whole, clock.1);
        for _ in 0..400 {
            clock.0.begin(Asked::Whole, clock.1);
            clock.pass(32.0 * PAGE as f64 * 0.008);
            clock.0.received(32 * PAGE, clock.1);
            clock.0.end(Asked::Whole, clock.1);
        }
        clock.0.end(Asked::Whole, clock.1);
        assert!(is_near(clock.0.cost.byte, 0.008), "{:?}", clock.0.cost);
    }

    #[test]
    fn work_of_a_store_is_not_taken_for_the_link() {
        let mut clock = Clock::new();
        let before = clock.0.cost;
        for _ in 0..100 {
            clock.read(Asked::Reduced, 20 * PAGE, 1e6);
            clock.read(Asked::Reduced, 100, 1e6);
        }
        assert_eq!(clock.0.cost, before);
        // But what it sent came over it.
        for _ in 0..200 {
            clock.read(Asked::Reduced, 20 * PAGE, 20.0 * PAGE as f64 * 0.0001);
        }
        assert!(clock.0.cost.byte < 0.00015, "{:?}", clock.0.cost);
    }

    #[test]
    fn a_request_that_is_given_up_is_under_way_no_longer() {
        let link = Link::default();
        drop(link.begin(Asked::Reduced));
        let (whole, reduced) = (link.begin(Asked::Whole), link.begin(Asked::Reduced));
        whole.received(10);
        drop((whole, reduced));
        let measured = link.0.into_inner();
        assert_eq!((measured.whole, measured.reduced), (0, 0));
    }
}
