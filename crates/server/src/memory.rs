//! Settings of the C library's allocator.
//!
//! Scans allocate and free messages of half a megabyte and pages of 16 KiB all the time. By default
//! glibc gives such memory back to the kernel and asks for it again a moment later, and every page of
//! it faults: a tenth of the time of a scan that ships whole pages.

/// Bytes from which an allocation is a mapping of its own, given back as soon as it is freed.
const OWN_MAPPING: i32 = 32 << 20;

/// Free bytes at the end of the heap from which they are given back.
const GIVE_BACK: i32 = 256 << 20;

/// Lets the allocator keep freed memory for the next message. Call it before the first thread.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes no pointers, and no other thread allocates yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING);
        libc::mallopt(libc::M_TRIM_THRESHOLD, GIVE_BACK);
    }
}
