//! The page after the one at hand, brought closer while that is worked on.
//!
//! Memory and processor take about as long for a page; so that neither waits for the other, the next page
//! is asked for in parts, between the steps of the work: all at once, the processor would wait for itself
//! to have asked.

use perigee_types::PAGE_SIZE;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes that are asked for in one step.
const STEP: usize = PAGE_SIZE / 4;

/// A page to come; none to begin with.
#[derive(Default)]
pub(crate) struct Ahead {
    /// Its address, which is only ever asked for: it may be gone.
    page: usize,
    /// Bytes of it that have not been asked for.
    left: usize,
}

impl Ahead {
    /// From now on this page is asked for.
    pub(crate) fn announce(&mut self, page: &[u8; PAGE_SIZE]) {
        self.page = page.as_ptr() as usize;
        self.left = PAGE_SIZE;
    }

    /// Asks for the next part, if one is left.
    #[inline]
    pub(crate) fn step(&mut self) {
        let end = self.left;
        self.left = end.saturating_sub(STEP);
        for at in (self.left..end).step_by(LINE) {
            ask(self.page + at);
        }
    }
}

/// Asks for a line of memory; nothing happens if there is none.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ask(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: the instruction reads nothing that could be seen, and never faults, whatever the address.
    unsafe { _mm_prefetch(std::ptr::without_provenance(address), _MM_HINT_T1) };
}

#[cfg(not(target_arch = "x86_64"))]
fn ask(_: usize) {}
