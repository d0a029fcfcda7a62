//! `perigee demo`: a newcomer's first look. Makes TPC-H data, starts a cluster of real processes,
//! loads it through the log, runs the 22 queries with NDP off and on, compares all answers, prints
//! a table and writes a report.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use indicatif::{ProgressBar, ProgressStyle};

use crate::report::{self, Pair};
use crate::sequence::{expect_same, named, sequence};
use crate::{Cluster, ClusterOptions, Cost, WorkloadError, answers, load, paper, tpch};

/// What the demo is asked to do.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The `perigee` binary, for the processes of the cluster.
    pub binary: PathBuf,
    /// TPC-H scale factor; 1 is about 1 GB.
    pub scale: f64,
    /// Where data and the report go.
    pub dir: PathBuf,
}

/// Runs the demo and returns the path of the report.
///
/// # Errors
/// If a process fails or an answer is wrong.
pub fn demo(options: &DemoOptions) -> BoxFuture<'_, Result<PathBuf, WorkloadError>> {
    Box::pin(async move {
        let data = options.dir.join(format!("tpch-{}", options.scale));
        let bar = progress(tpch::TABLES.len() as u64, "making TPC-H data");
        load::generate(&data, options.scale, |table| step(&bar, table))?;
        bar.finish_with_message("done");

        let cluster_dir = options.dir.join("cluster");
        remove(&cluster_dir)?;
        let mut cluster = Cluster::start(cluster_options(options, &cluster_dir, &data))?;
        println!("one frontend, one Log Store and two Page Stores serve on loopback");
        load_tables(&cluster, &data, options.scale).await?;

        let queries = tpch::queries(options.scale);
        let (tpch, micro) = (
            named(&queries),
            paper::micro_queries(options.scale, &queries),
        );
        let all = [tpch.as_slice(), micro.as_slice()].concat();
        let mut runs = Vec::new();
        for mode in ["OFF", "ON"] {
            cluster.restart_frontend_with(
                cluster_options(options, &cluster_dir, &data).frontend_args,
            )?;
            let bar = progress(all.len() as u64, &format!("NDP {mode}"));
            let variables = [format!("ndp_mode = {mode}")];
            runs.push(sequence(&cluster, &variables, &all, |name| step(&bar, name)).await?);
            bar.finish_with_message("done");
        }
        let (off, on) = (&runs[0], &runs[1]);
        expect_same(&all, "the answer without NDP", on, off)?;
        println!("all {} answers are equal with NDP off and on", all.len());
        check_references(options.scale, &queries, on)?;

        let numbers = queries.iter().map(|(number, _)| Some(*number));
        let pairs = report::pairs(&tpch, numbers, off, on);
        let (off, on) = (&off[tpch.len()..], &on[tpch.len()..]);
        let micro_pairs = report::pairs(&micro, std::iter::repeat(None), off, on);
        println!("{}", table(&pairs));
        let path = options.dir.join("report.html");
        fs::write(&path, report::html(options.scale, &micro_pairs, &pairs)?)
            .map_err(WorkloadError::io(format!("write {}", path.display())))?;
        Ok(path)
    })
}

/// Buffer pool of 20 % of the data, as in the paper; slices small enough that both Page Stores
/// hold parts of each table; the paper's threshold of 10,000 pages scaled to 100.
fn cluster_options(options: &DemoOptions, dir: &Path, data: &Path) -> ClusterOptions {
    let bytes: u64 = tpch::TABLES
        .iter()
        .filter_map(|table| fs::metadata(load::file(data, table.name)).ok())
        .map(|metadata| metadata.len())
        .sum();
    let pool = (bytes / 5).max(8 << 20);
    ClusterOptions {
        frontend_args: vec!["--buffer-pool".to_owned(), pool.to_string()],
        ..ClusterOptions::new(options.binary.clone(), dir.to_owned())
    }
}

async fn load_tables(cluster: &Cluster, data: &Path, scale: f64) -> Result<(), WorkloadError> {
    let rows: u64 = tpch::TABLES
        .iter()
        .map(|t| tpch::row_count(t.name, scale))
        .sum();
    let bar = progress(rows, "loading through the log");
    let mut client = cluster.client(None).await?;
    load::load(&mut client, data, |table, rows, time| {
        bar.inc(rows);
        bar.set_message(format!(
            "{table}: {rows} rows in {:.2} s",
            time.as_secs_f64()
        ));
    })
    .await?;
    bar.finish_with_message("done");
    client.close().await
}

fn check_references(
    scale: f64,
    queries: &[(usize, String)],
    answers: &[(String, Cost)],
) -> Result<(), WorkloadError> {
    let mut kept = 0;
    for ((number, _), (answer, _)) in queries.iter().zip(answers) {
        if let Some(reference) = answers::reference(scale, *number) {
            let name = format!("Q{number}");
            answers::expect_equal(&name, "the reference answer", answer, reference)?;
            kept += 1;
        }
    }
    match kept {
        0 => println!("no reference answers are kept for scale {scale}"),
        n => println!("and {n} of them equal to the reference answers"),
    }
    Ok(())
}

/// The table the demo prints.
fn table(pairs: &[Pair]) -> String {
    let mut out = format!(
        "{:<5}{:>13}{:>13}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
        "query",
        "bytes off",
        "on",
        "change",
        "pages off",
        "on",
        "CPU off",
        "on",
        "change",
        "time off",
        "on",
        "change"
    );
    for pair in pairs.iter().chain([&report::total(pairs)]) {
        let (off, on) = (&pair.off, &pair.on);
        let change = |off, on| -report::reduction(off, on);
        let _ = writeln!(
            out,
            "{:<5}{:>13}{:>13}{:>8.1}%{:>9}{:>9}{:>8.3}s{:>8.3}s{:>8.1}%{:>8.3}s{:>8.3}s{:>8.1}%",
            pair.name,
            off.bytes,
            on.bytes,
            change(off.bytes as f64, on.bytes as f64),
            off.pages,
            on.pages,
            off.cpu,
            on.cpu,
            change(off.cpu, on.cpu),
            off.seconds,
            on.seconds,
            change(off.seconds, on.seconds),
        );
    }
    out
}

fn progress(length: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:<24} {bar:40} {pos}/{len} {wide_msg}")
        .expect("the template is well formed");
    let bar = ProgressBar::new(length)
        .with_style(style)
        .with_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn step(bar: &ProgressBar, what: &str) {
    bar.inc(1);
    bar.set_message(what.to_owned());
}

fn remove(dir: &Path) -> Result<(), WorkloadError> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(WorkloadError::io(format!("remove {}", dir.display()))(e))
        }
        _ => Ok(()),
    }
}
