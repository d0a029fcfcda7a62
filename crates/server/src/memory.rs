//! The allocator of the process.
//!
//! A statement makes many small allocations, often freed by another thread, and scans pass on messages
//! of half a megabyte; the C library's allocator took a fifth of the time of short transactions. Statements run on some
//! hundred threads, and what one of them has freed must serve the others: an allocator with a heap for each thread held
//! more than twice what was in use when 64 connections did their worst.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What the allocator reads when the process starts. Free memory goes back to the system in the background, after a
/// quarter of a second: soon enough for the limit of the process to mean something, late enough to be used again by
/// statements that follow each other.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static CONFIGURATION: &[u8; 59] =
    b"background_thread:true,dirty_decay_ms:250,muzzy_decay_ms:0\0";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use tikv_jemalloc_ctl::raw;

    #[test]
    fn the_configuration_is_read() {
        // SAFETY: These options have these types.
        unsafe {
            assert_eq!(raw::read::<isize>(b"opt.dirty_decay_ms\0").unwrap(), 250);
            assert_eq!(raw::read::<isize>(b"opt.muzzy_decay_ms\0").unwrap(), 0);
            assert!(raw::read::<bool>(b"background_thread\0").unwrap());
        }
    }
}
