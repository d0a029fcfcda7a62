//! Space that a store keeps in reserve on its disk, and what a failed disk operation means.
//!
//! A disk that is full to the last byte cannot be emptied: what frees space writes first. So a store
//! keeps some of its disk free, in two parts. When less is free than the whole reserve, the store
//! says so ([`Reserve::has_room`]), and its writers send only what frees space. When less is free
//! than half of it, the store takes no more log at all ([`Reserve::check`]); the rest is for the
//! store itself, again in parts ([`Purpose`]): for page versions made of the log that it has, for moving
//! together what is still needed, and the last of it for what must be written before a file may be
//! deleted, for closing files, and for a restart.
//!
//! The reserve is a share of what is free, not a file: nothing has to be given back, and what other
//! programs free counts at once. Other programs can use it up, too; then everything waits until
//! somebody frees space.

mod failure;

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use failure::Failure;

/// The reserve is at most this share of the disk.
const SHARE: u64 = 8;

/// How long an answer of the system about free space is good for, and for how much of the reserve
/// written since.
const FRESH: Duration = Duration::from_millis(100);
const FRESH_SHARE: u64 = 16;

/// What is to be written. Each leaves some of the reserve to those that come after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Log of a frontend: leaves half of the reserve.
    Log,
    /// Page versions that consolidation makes, the older ones of which may have to stay: leaves a quarter.
    Versions,
    /// What is moved together so that a file can be deleted: leaves a sixteenth.
    Moves,
}

impl Purpose {
    /// The part of the reserve that it leaves.
    fn leaves(self) -> u64 {
        match self {
            Self::Log => 2,
            Self::Versions => 4,
            Self::Moves => 16,
        }
    }
}

/// A store's reserve.
#[derive(Debug)]
pub struct Reserve {
    dir: PathBuf,
    /// At most so many bytes.
    most: u64,
    low: AtomicBool,
    known: Mutex<Option<Known>>,
}

/// What is known of the disk.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: Instant,
    free: u64,
    total: u64,
    /// Bytes written since.
    written: u64,
}

impl Reserve {
    /// A reserve of `most` bytes, less on a small disk, on the disk of `dir`.
    #[must_use]
    pub fn new(dir: &Path, most: u64) -> Self {
        let reserve = Self {
            dir: dir.to_owned(),
            most,
            low: AtomicBool::new(false),
            known: Mutex::default(),
        };
        // A store that starts on a full disk knows it before its first write. A disk that does not tell has no reserve.
        let _ = reserve.look();
        reserve
    }

    /// False while there is less room than the reserve: then only what frees space should be
    /// written. Asks the system; to be called where that may take a moment.
    #[must_use]
    pub fn has_room(&self) -> bool {
        // A disk that does not tell has no reserve.
        self.look().is_err() || !self.is_low()
    }

    /// True if the disk was short of room when it was last looked at: nothing should be prepared on
    /// it ahead of need.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// True while log is refused, or nearly so: then the store has to make room by itself, for nobody else can. Asks the
    /// system only on a disk that was short of room, and no more often than once in [`FRESH`].
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        if !self.is_low() {
            return false;
        }
        let known = *self.known.lock();
        let known = match known.filter(|k| k.at.elapsed() < FRESH) {
            Some(known) => known,
            None => match self.look() {
                Ok(known) => known,
                Err(_) => return false,
            },
        };
        let own = self.bytes(known.total) / Purpose::Log.leaves();
        known.left_after(0) < own + own / 2
    }

    /// Bytes of the reserve; 0 if the disk does not tell.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.known.lock().map_or(0, |known| self.bytes(known.total))
    }

    /// Takes note of `len` bytes that are to be written for a purpose.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if they would leave less of the reserve than the purpose has to.
    pub fn check(&self, purpose: Purpose, len: u64) -> io::Result<()> {
        let kept = |known: &Known| self.bytes(known.total) / purpose.leaves();
        let is_fresh = |k: &Known| {
            let little = k.written < self.bytes(k.total) / FRESH_SHARE;
            k.at.elapsed() < FRESH && little && k.left_after(len) >= kept(k)
        };
        // What was free a moment ago is good enough to go on, and not to refuse.
        let known = *self.known.lock();
        let now = match known.filter(is_fresh) {
            Some(known) => known,
            None => match self.look() {
                Ok(known) => known,
                Err(_) => return Ok(()),
            },
        };
        let (left, kept) = (now.left_after(len), kept(&now));
        if left < kept {
            self.low.store(true, Ordering::Relaxed);
            let dir = self.dir.display();
            let text = format!(
                "No space left on device of {dir}: {left} bytes, and {kept} are kept for the store itself"
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        if let Some(known) = &mut *self.known.lock() {
            known.written += len;
        }
        Ok(())
    }

    /// Asks the system.
    fn look(&self) -> io::Result<Known> {
        let known = look(&self.dir)?;
        let reserve = self.bytes(known.total);
        // More to end it than to begin it, so that it does not begin again at once.
        let wanted = match self.is_low() {
            true => reserve + reserve / 4,
            false => reserve,
        };
        self.low.store(known.free < wanted, Ordering::Relaxed);
        *self.known.lock() = Some(known);
        Ok(known)
    }

    fn bytes(&self, total: u64) -> u64 {
        self.most.min(total / SHARE)
    }
}

impl Known {
    fn left_after(&self, len: u64) -> u64 {
        self.free.saturating_sub(self.written + len)
    }
}

/// What the system says of the disk of `dir`.
fn look(dir: &Path) -> io::Result<Known> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    let mut answer = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends with a zero byte, and `answer` has room for the answer; both live longer
    // than the call.
    if unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it.
    let answer = unsafe { answer.assume_init() };
    Ok(Known {
        at: Instant::now(),
        free: answer.f_bavail * answer.f_frsize,
        total: answer.f_blocks * answer.f_frsize,
        written: 0,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// A reserve on this disk, of which so many bytes were free a moment ago.
    fn reserve(dir: &Path, free: u64) -> Reserve {
        let reserve = Reserve::new(dir, 1000);
        *reserve.known.lock() = Some(Known {
            at: Instant::now() + Duration::from_secs(3600),
            free,
            total: 1 << 30,
            written: 0,
        });
        reserve
    }

    #[test]
    fn log_does_not_take_the_half_that_is_the_stores_own() {
        let dir = tempfile::tempdir().unwrap();
        // Little, so that a disk that is nearly full has it too.
        let reserve = Reserve::new(dir.path(), 1 << 20);
        reserve.check(Purpose::Log, 1).unwrap();
        let full = reserve.check(Purpose::Log, u64::MAX / 2).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(reserve.is_low());
        reserve.check(Purpose::Log, 1).unwrap();
    }

    #[test]
    fn each_purpose_leaves_some_to_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let total = look(dir.path()).unwrap().total;
        let writes = |purpose, left: u64| {
            let reserve = Reserve::new(dir.path(), total / 1000);
            let kept = total / 1000 / left;
            let free = look(dir.path()).unwrap().free;
            // Other programs write meanwhile, some MiB at the most.
            let slack = 64 << 20;
            assert!(reserve.check(purpose, free - kept + slack).is_err());
            reserve.check(purpose, free - kept - slack).unwrap();
        };
        writes(Purpose::Log, 2);
        writes(Purpose::Versions, 4);
        writes(Purpose::Moves, 16);
    }

    #[test]
    fn a_disk_is_asked_again_before_anything_is_refused_and_when_much_was_written() {
        let dir = tempfile::tempdir().unwrap();
        // More is free in truth.
        reserve(dir.path(), 10).check(Purpose::Log, 100).unwrap();
        let written = reserve(dir.path(), 700);
        written.check(Purpose::Log, 1000 / FRESH_SHARE).unwrap();
        written.check(Purpose::Log, 100).unwrap();
        let known = written.known.lock().unwrap();
        assert!(known.free > 700 && known.written == 100);
    }

    #[test]
    fn the_stores_own_half_is_used_up_only_where_room_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let nearly = reserve(dir.path(), 749);
        assert!(!nearly.is_used_up());
        nearly.low.store(true, Ordering::Relaxed);
        assert!(nearly.is_used_up());
        let some = reserve(dir.path(), 750);
        some.low.store(true, Ordering::Relaxed);
        assert!(!some.is_used_up());
    }

    #[test]
    fn this_disk_can_be_asked() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Reserve::new(dir.path(), 1).has_room());
        let known = look(dir.path()).unwrap();
        assert!(known.total >= known.free && known.total > 0);
        let greedy = Reserve::new(dir.path(), u64::MAX);
        assert_eq!(greedy.bytes(known.total), known.total / SHARE);
        assert!(look(&dir.path().join("none")).is_err());
    }
}
