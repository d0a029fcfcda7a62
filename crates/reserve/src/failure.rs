//! [`Failure`]: what a failed disk operation means for who asked for it.

use std::io;

/// What kind of failure an error of the system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no room, on the disk or in the file. The same may succeed when there is.
    Full,
    /// The process, or the machine, has too many files open. The same may succeed later.
    Files,
    /// The disk does not do its work.
    Disk,
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        match (error.kind(), error.raw_os_error()) {
            (
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge,
                _,
            ) => Self::Full,
            (_, Some(libc::EMFILE | libc::ENFILE)) => Self::Files,
            _ => Self::Disk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_errors_are_told_apart() {
        for (code, failure) in [
            (libc::ENOSPC, Failure::Full),
            (libc::EDQUOT, Failure::Full),
            (libc::EFBIG, Failure::Full),
            (libc::EMFILE, Failure::Files),
            (libc::ENFILE, Failure::Files),
            (libc::EIO, Failure::Disk),
            (libc::EROFS, Failure::Disk),
        ] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(Failure::from(&error), failure, "{error}");
        }
    }
}
