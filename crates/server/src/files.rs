//! Open files: as many as the system allows. A store has one for each segment that is in use, and a
//! server one for each connection; the usual limit of 1,024 is from times in which that was a lot.

use std::io;

/// Raises this process's limit of open files to the highest that it may have; says what it is.
///
/// # Errors
/// What the system says; the limit is as it was then.
#[cfg(unix)]
pub fn raise_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the answer as long as the call lasts.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the call only reads `limit`.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_highest() {
        let first = raise_limit().expect("a process may raise it");
        assert_eq!(raise_limit().expect("again"), first);
    }
}
