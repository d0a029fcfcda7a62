//! What whole-system tests share: the binary, clusters of it, and looking at their files.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "test code; no test uses all of it"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use perigee_testkit::tested_binary;
use perigee_workload::{Client, Cluster, ClusterOptions};

pub fn binary() -> PathBuf {
    tested_binary(env!("CARGO_BIN_EXE_perigee"))
}

pub fn args(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

pub fn options(dir: &Path, page_stores: usize, frontend_args: &[&str]) -> ClusterOptions {
    ClusterOptions {
        page_stores,
        frontend_args: args(frontend_args),
        ..ClusterOptions::new(binary(), dir.to_owned())
    }
}

pub fn cluster(dir: &Path, page_stores: usize, frontend_args: &[&str]) -> Cluster {
    Cluster::start(options(dir, page_stores, frontend_args)).unwrap()
}

/// Where a process of a cluster in `dir` listens.
pub fn address(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(format!("{name}.ready"))).unwrap()
}

/// Runs the binary to its end.
pub fn perigee(args: &[&str]) -> Output {
    Command::new(binary()).args(args).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sets how many files a process may have open, at most as many as it may ask for itself.
pub fn limit_files(pid: u32, files: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let pid = libc::pid_t::try_from(pid).unwrap();
    // SAFETY: the call writes `limit` only.
    let read = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) };
    assert_eq!(read, 0, "{}", std::io::Error::last_os_error());
    limit.rlim_cur = files.min(limit.rlim_max);
    // SAFETY: the call reads `limit` only.
    let set = unsafe {
        libc::prlimit(
            pid,
            libc::RLIMIT_NOFILE,
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Lets this process have as many files open as it may.
pub fn raise_files() {
    limit_files(std::process::id(), u64::MAX);
}

/// Waits until the Page Stores have made pages of all log.
pub async fn consolidated(client: &mut Client) {
    let (end, mut idle) = (Instant::now() + Duration::from_secs(20), 0);
    while idle < 5 {
        assert!(Instant::now() < end, "consolidation does not end");
        tokio::time::sleep(Duration::from_millis(60)).await;
        let backlog = client
            .number("SHOW STATUS LIKE 'perigee_page_store_backlog_bytes'")
            .await
            .unwrap();
        idle = if backlog == 0.0 { idle + 1 } else { 0 };
    }
}

/// All files below `dir` whose names begin with `prefix`.
pub fn files(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let (path, name) = (
            entry.as_ref().unwrap().path(),
            entry.unwrap().file_name().into_string().unwrap(),
        );
        if path.is_dir() {
            found.extend(files(&path, prefix));
        } else if name.starts_with(prefix) {
            found.push(path);
        }
    }
    found.sort();
    found
}
