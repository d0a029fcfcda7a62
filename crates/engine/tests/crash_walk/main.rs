//! The crash-point walk: a process that is a whole database ends at one named point, the next one at
//! another, for every pair of points; then the database opens, has what was acknowledged, and opens
//! again.
//!
//! For every first point the database that it leaves is kept. From there three ways go on:
//! - *idle*: the next process does nothing, and ends at the second point or in order;
//! - *writes*: the next process writes, and ends at the second point;
//! - *second crash*: the next process does nothing and ends in order, and the one after it writes and
//!   ends at the second point.
//!
//! Which points a way reaches is found by walking it without a second one. For a point that it does not
//! reach there is nothing to walk but that.
//!
//! Of the two ways that write, a pair takes one, and both with `PERIGEE_CRASH_WALK=all`.
//!
//! A process ends when it first reaches its point; with `PERIGEE_CRASH_TIMES=3` when it reaches it for the
//! third time, or in order if it never does. `PERIGEE_CRASH_FIRST` names the only first point. The first
//! process also ends at some points at the second time ([`AGAIN`]).
//!
//! What a process passes before its database has a log is walked from an empty directory too, *idle*:
//! only so is there a second process that makes the database.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

mod life;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use life::{Mode, check_all, live};
use perigee_crash::{AT, Point, TRACE};

/// For the process that lives: directory and mode.
const DIR: &str = "PERIGEE_LIFE_DIR";
const MODE: &str = "PERIGEE_LIFE_MODE";

/// Reached only if what was cut short had something behind a sector's border.
const BY_CHANCE: [Point; 1] = [Point::TornAppendCut];

/// The first PLog of a database is not like others: before it there is nothing that could be deleted.
const AGAIN: [Point; 2] = [Point::PlogCreated, Point::PlogMade];

/// A process ends when it has reached its point this many times.
fn times() -> u32 {
    let times = std::env::var("PERIGEE_CRASH_TIMES");
    times.map_or(1, |times| times.parse().unwrap())
}

/// Databases are made in memory where there is such a directory: only kills are simulated here, and
/// syncing takes most of the time.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = tempfile::tempdir_in(memory);
    in_memory.unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// How a life ended, and the points that it came to.
struct Lived {
    ended: bool,
    /// In the order in which it first came there.
    reached: Vec<Point>,
}

/// A life in a process of its own.
fn process(dir: &Path, mode: Mode, at: Option<(Point, u32)>) -> Lived {
    let trace = dir.join("trace");
    let _ = fs::remove_file(&trace);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "a_life", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .env(MODE, mode.name())
        .env(TRACE, &trace)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    match at {
        Some((point, times)) => command.env(AT, format!("{}:{times}", point.name())),
        None => command.env_remove(AT),
    };
    let output = command.output().unwrap();
    let names = fs::read_to_string(&trace).unwrap_or_default();
    let reached = |name: &str| Point::ALL.iter().find(|p| p.name() == name).copied();
    let reached: Vec<_> = names.lines().filter_map(reached).collect();
    let crashed = at.is_some_and(|(point, _)| reached.contains(&point));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || crashed && !text.contains("panicked"),
        "a life in {} ({mode:?}, to end at {at:?}): {}\n{text}",
        dir.display(),
        output.status,
    );
    Lived {
        ended: output.status.success(),
        reached,
    }
}

#[test]
#[ignore = "what the other tests start as processes"]
fn a_life() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let mode = std::env::var(MODE).unwrap();
    let mode = Mode::ALL.into_iter().find(|m| m.name() == mode).unwrap();
    live(Path::new(&dir), mode);
}

/// Where the walk stands.
struct Walk {
    scratch: tempfile::TempDir,
    next: AtomicUsize,
    cases: AtomicUsize,
    /// How often a life ended at each point, as the first and as the second.
    ends: Mutex<BTreeMap<Point, (usize, usize)>>,
    failures: Mutex<Vec<String>>,
}

impl Walk {
    fn new() -> Self {
        Self {
            scratch: scratch(),
            next: AtomicUsize::new(0),
            cases: AtomicUsize::new(0),
            ends: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    fn fresh(&self) -> PathBuf {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        self.scratch.path().join(n.to_string())
    }

    fn copy_of(&self, from: &Path) -> PathBuf {
        let dir = self.fresh();
        copy(from, &dir);
        dir
    }

    fn note(&self, point: Point, second: bool) {
        let mut ends = self.ends.lock().unwrap();
        let (firsts, seconds) = ends.entry(point).or_default();
        *(if second { seconds } else { firsts }) += 1;
    }

    /// Checks what lives left; a failure is kept with the way that led there.
    fn check(&self, dir: &Path, way: &str) {
        self.cases.fetch_add(1, Ordering::Relaxed);
        let checked = std::panic::catch_unwind(|| check_all(dir));
        if let Err(panic) = checked {
            let text = panic
                .downcast_ref::<String>()
                .map_or("panic", String::as_str);
            eprintln!("{way}: {text}");
            self.failures.lock().unwrap().push(format!("{way}: {text}"));
        }
        fs::remove_dir_all(dir).unwrap();
    }

    /// All second points of a way that goes on from a database.
    fn go_on(&self, from: &Path, mode: Mode, way: &str, is_taken: impl Fn(Point) -> bool) {
        let dir = self.copy_of(from);
        let reached = process(&dir, mode, None).reached;
        self.check(&dir, way);
        for second in reached.into_iter().filter(|second| is_taken(*second)) {
            let dir = self.copy_of(from);
            let lived = process(&dir, mode, Some((second, times())));
            if !lived.ended {
                self.note(second, true);
            }
            self.check(&dir, &format!("{way}, then to {second:?}"));
        }
    }

    /// All that follows the end at a point, when it is reached for the nth time, in the first of some
    /// lives that comes to it.
    fn begin(&self, lives: &[Beginning], first: Point, times: u32) {
        for (base, mode, reached) in lives {
            if !reached.contains(&first) {
                continue;
            }
            let dir = self.copy_of(base);
            if process(&dir, *mode, Some((first, times))).ended {
                // Not this time.
                fs::remove_dir_all(&dir).unwrap();
                continue;
            }
            self.note(first, false);
            let all = std::env::var("PERIGEE_CRASH_WALK").is_ok_and(|walk| walk == "all");
            let even = |second: Point| (first as usize + second as usize).is_multiple_of(2);
            let way = |name: &str| format!("{first:?} ({times}), {name}");
            self.go_on(&dir, Mode::Idle, &way("idle"), |_| true);
            if times > crate::times() && !all {
                fs::remove_dir_all(&dir).unwrap();
                return;
            }
            self.go_on(&dir, Mode::Writes, &way("writes"), |p| all || even(p));
            let idle = self.copy_of(&dir);
            process(&idle, Mode::Idle, None);
            self.go_on(&idle, Mode::Writes, &way("second crash"), |p| {
                all || !even(p)
            });
            fs::remove_dir_all(&idle).unwrap();
            fs::remove_dir_all(&dir).unwrap();
            return;
        }
    }

    /// What follows the end at a point that the making of a database passes before it has a log.
    fn begin_empty(&self, lives: &[Beginning], first: Point) {
        let (base, mode, reached) = &lives[EMPTY];
        let has_log = reached.iter().position(|p| *p == Point::EpochBegun);
        if !reached[..has_log.unwrap()].contains(&first) {
            return;
        }
        let dir = self.copy_of(base);
        process(&dir, *mode, Some((first, 1)));
        self.note(first, false);
        let way = format!("{first:?} in an empty directory, idle");
        self.go_on(&dir, Mode::Idle, &way, |_| true);
        fs::remove_dir_all(&dir).unwrap();
    }
}

/// A database, what the life after it does, and the points that it comes to.
type Beginning = (PathBuf, Mode, Vec<Point>);

/// Which of them makes the database.
const EMPTY: usize = 2;

/// Lives of which each point is in one at least.
fn beginnings(walk: &Walk) -> Vec<Beginning> {
    let (empty, full) = (walk.fresh(), walk.fresh());
    for base in [&empty, &full] {
        fs::create_dir_all(base.join("db")).unwrap();
    }
    process(&full, Mode::Long, None);
    // There is something to undo and to cut off.
    process(&full, Mode::Writes, Some((Point::AppendTorn, 1)));
    let modes = [
        (&full, Mode::Writes),
        (&full, Mode::Idle),
        (&empty, Mode::Writes),
        (&full, Mode::Long),
    ];
    let lives = modes.map(|(base, mode)| {
        let dir = walk.copy_of(base);
        let reached = process(&dir, mode, None).reached;
        walk.check(&dir, &format!("{mode:?}"));
        (base.clone(), mode, reached)
    });
    lives.into()
}

#[test]
fn every_pair_of_crash_points_is_survived() {
    let walk = Walk::new();
    let lives = beginnings(&walk);
    let only = std::env::var("PERIGEE_CRASH_FIRST").ok();
    let at = AtomicUsize::new(0);
    // Lives and checks wait half of their time.
    let threads = 2 * std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(first) = Point::ALL.get(at.fetch_add(1, Ordering::Relaxed)) {
                    if only.as_ref().is_some_and(|only| only != first.name()) {
                        continue;
                    }
                    walk.begin(&lives, *first, times());
                    walk.begin_empty(&lives, *first);
                    if AGAIN.contains(first) && times() == 1 {
                        walk.begin(&lives, *first, 2);
                    }
                }
            });
        }
    });
    let ends = walk.ends.into_inner().unwrap();
    for (point, (firsts, seconds)) in &ends {
        println!("{point:?}: {firsts} first, {seconds} second");
    }
    println!("{} ways", walk.cases.load(Ordering::Relaxed));
    let failures = walk.failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // Whether a first one comes to what runs in the background is a matter of time.
    let ended = |point: &Point| {
        let ends = ends.get(point).copied();
        ends.is_some_and(|(_, seconds)| seconds > 0 || BY_CHANCE.contains(point))
    };
    let never: Vec<_> = Point::ALL.iter().filter(|p| !ended(p)).collect();
    assert!(
        never.is_empty() || times() > 1 || only.is_some(),
        "no second life ended at {never:?}"
    );
}
