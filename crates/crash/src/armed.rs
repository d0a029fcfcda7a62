//! The points as tests have them.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::{AT, Point, TRACE};

/// What the environment asks for.
struct Wish {
    /// Where to end, and how often that is passed before.
    at: Option<(Point, AtomicU32)>,
    trace: Option<Mutex<(File, HashSet<Point>)>>,
}

static WISH: LazyLock<Wish> = LazyLock::new(|| Wish {
    at: std::env::var(AT).ok().map(|wanted| at(&wanted)),
    trace: std::env::var_os(TRACE).map(|path| {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.unwrap_or_else(|e| panic!("{TRACE} {}: {e}", path.display()));
        Mutex::new((file, HashSet::new()))
    }),
});

fn at(wanted: &str) -> (Point, AtomicU32) {
    let (name, times) = wanted.split_once(':').unwrap_or((wanted, "1"));
    let point = Point::ALL.iter().find(|point| point.name() == name);
    let point = point.unwrap_or_else(|| panic!("{AT}: there is no point {name}"));
    let times: u32 = times.parse().unwrap_or(0);
    assert!(times > 0, "{AT}: {wanted}");
    (*point, AtomicU32::new(times - 1))
}

/// Ends the process if it is to end here.
pub fn reach(point: Point) {
    let wish = &*WISH;
    if let Some(trace) = &wish.trace {
        let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, seen) = &mut *trace;
        if seen.insert(point) {
            let line = format!("{}\n", point.name());
            file.write_all(line.as_bytes())
                .expect("a trace can be written");
        }
    }
    if let Some((at, before)) = &wish.at
        && *at == point
        && before
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
            .is_err()
    {
        std::process::abort();
    }
}

/// True if the process is to end when it next comes here: so that a write can be cut short.
#[must_use]
pub fn is_armed(point: Point) -> bool {
    let at = WISH.at.as_ref();
    at.is_some_and(|(at, before)| *at == point && before.load(Ordering::SeqCst) == 0)
}
