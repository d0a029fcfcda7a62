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
use crate::{
    BenchError, Client, Cluster, ClusterOptions, Cost, answers, load, measure, paper, tpch,
};

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
pub fn demo(options: &DemoOptions) -> BoxFuture<'_, Result<PathBuf, BenchError>> {
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
        let micro = paper::micro_queries(options.scale, &queries);
        let mut runs = Vec::new();
        for mode in ["OFF", "ON"] {
            cluster.restart_frontend_with(
                cluster_options(options, &cluster_dir, &data).frontend_args,
            )?;
            runs.push(run(&cluster, mode, &queries, &micro).await?);
        }
        let [off, on] = <[Run; 2]>::try_from(runs).expect("two modes ran");
        check_answers(options.scale, &queries, &off, &on)?;

        let names = queries.iter().map(|(n, _)| (format!("Q{n}"), Some(*n)));
        let pairs = pair(names, &off.tpch, &on.tpch);
        let micro_names = micro.iter().map(|(name, _)| (name.clone(), None));
        let micro_pairs = pair(micro_names, &off.micro, &on.micro);
        println!("{}", table(&pairs));
        let path = options.dir.join("report.html");
        fs::write(&path, report::html(options.scale, &micro_pairs, &pairs)?)
            .map_err(BenchError::io(format!("write {}", path.display())))?;
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
        binary: options.binary.clone(),
        dir: dir.to_owned(),
        page_stores: 2,
        frontend_args: vec!["--buffer-pool".to_owned(), pool.to_string()],
        page_store_args: Vec::new(),
    }
}

async fn load_tables(cluster: &Cluster, data: &Path, scale: f64) -> Result<(), BenchError> {
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

/// Answers and costs of one mode.
#[derive(Debug)]
struct Run {
    tpch: Vec<(String, Cost)>,
    micro: Vec<(String, Cost)>,
}

async fn run(
    cluster: &Cluster,
    mode: &str,
    queries: &[(usize, String)],
    micro: &[(String, String)],
) -> Result<Run, BenchError> {
    let mut client = cluster.client(Some(load::SCHEMA)).await?;
    client.execute(&format!("SET ndp_mode = {mode}")).await?;
    let bar = progress((queries.len() + micro.len()) as u64, &format!("NDP {mode}"));
    let mut run = Run {
        tpch: Vec::new(),
        micro: Vec::new(),
    };
    for (number, sql) in queries {
        step(&bar, &format!("Q{number}"));
        run.tpch.push(answer(cluster, &mut client, sql).await?);
    }
    for (name, sql) in micro {
        step(&bar, name);
        run.micro.push(answer(cluster, &mut client, sql).await?);
    }
    bar.finish_with_message("done");
    client.close().await?;
    Ok(run)
}

async fn answer(
    cluster: &Cluster,
    client: &mut Client,
    sql: &str,
) -> Result<(String, Cost), BenchError> {
    let (rows, cost) = measure(cluster, client, sql).await?;
    Ok((answers::to_text(&rows), cost))
}

fn check_answers(
    scale: f64,
    queries: &[(usize, String)],
    off: &Run,
    on: &Run,
) -> Result<(), BenchError> {
    let mut kept = 0;
    for (i, (number, _)) in queries.iter().enumerate() {
        answers::expect_equal(
            *number,
            "the answer without NDP",
            &on.tpch[i].0,
            &off.tpch[i].0,
        )?;
        if let Some(reference) = answers::reference(scale, *number) {
            answers::expect_equal(*number, "the reference answer", &on.tpch[i].0, reference)?;
            kept += 1;
        }
    }
    println!(
        "all {} answers are equal with NDP off and on",
        queries.len()
    );
    match kept {
        0 => println!("no reference answers are kept for scale {scale}"),
        n => println!("and {n} of them equal to the reference answers"),
    }
    Ok(())
}

fn pair(
    names: impl Iterator<Item = (String, Option<usize>)>,
    off: &[(String, Cost)],
    on: &[(String, Cost)],
) -> Vec<Pair> {
    names
        .zip(off.iter().zip(on))
        .map(|((name, number), (off, on))| Pair {
            name,
            number,
            off: off.1,
            on: on.1,
        })
        .collect()
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

fn remove(dir: &Path) -> Result<(), BenchError> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(BenchError::io(format!("remove {}", dir.display()))(e))
        }
        _ => Ok(()),
    }
}
