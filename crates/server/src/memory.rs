//! The allocator of the process.
//!
//! A statement makes many small allocations, often freed by another thread, and scans pass on messages
//! of half a megabyte; the C library's allocator took a fifth of the time of short transactions.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set, mi_option_t};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The option after how many milliseconds free memory goes back to the system: `mi_option_purge_delay` in mimalloc.h, for
/// which the crate has no name.
const PURGE_DELAY: mi_option_t = 15;

/// Its value. Within a second, the allocator's own, 64 connections with long statements on a hundred threads leave more
/// than a gigabyte free that others do not get.
const MILLIS: c_long = 10;

/// Has free memory go back to the system soon.
pub fn give_back_soon() {
    // SAFETY: The option is a number that any thread may set at any time.
    unsafe { mi_option_set(PURGE_DELAY, MILLIS) }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    #[test]
    fn it_is_the_option() {
        // SAFETY: As above.
        let get = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(get(), 1000, "the allocator's options have other numbers");
        give_back_soon();
        assert_eq!(get(), MILLIS);
    }
}
