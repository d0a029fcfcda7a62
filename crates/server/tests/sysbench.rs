//! The real sysbench, unchanged, with its MySQL driver: every workload runs, and scans beside it are
//! right. How fast they are is for `perigee-bench sysbench` to say.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use perigee_bench::commands::{SysbenchOptions, sysbench};
use support::binary;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sysbench_runs_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let options = SysbenchOptions {
        binary: binary(),
        dir: dir.path().to_owned(),
        tables: 2,
        rows: 500,
        seconds: 1,
        pairs: 1,
        threads: vec![4],
        workloads: Vec::new(),
        scan_scale: 0.001,
        scan_threads: 2,
        calibrate: false,
    };
    let figures = sysbench(&options).await.unwrap();
    assert_eq!(figures.runs.len(), 4);
    for pair in &figures.runs {
        assert!(pair.ours[0].transactions > 0.0, "{}", pair.workload);
        assert!(figures.ratios[&format!("{}_4", pair.workload)] > 0.0);
    }
    let mixed = figures.mixed.unwrap();
    assert!(mixed.compared > 0, "no round of scans was compared");
}
