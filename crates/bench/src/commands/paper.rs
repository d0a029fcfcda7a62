//! `perigee-bench paper`: the experiments of taurus-ndp section VII (SPEC's E1 to E3) with our figures
//! beside the paper's, and the same over a network of a limited rate.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Serialize;
use tokio::net::TcpListener;

use super::setup::{BenchOptions, ClusterShape, TWO_PAGE_STORES, note};
use super::tpch::cores;
use crate::http;
use crate::parquet::Parquet;
use perigee_workload::paper::{PQ_ON_TOP_OF_NDP, micro_queries};
use perigee_workload::report::{self, Hue, Pair, Series};
use perigee_workload::sequence::{Named, expect_same, named, sequence};
use perigee_workload::{Cluster, Cost, Link, Rate, WorkloadError};

/// Rates of the network between frontend and storage.
const RATES: [Rate; 2] = [Rate::gigabits(10), Rate::gigabits(1)];

/// Costs and answers of queries, in their order.
type Answers = Vec<(String, Cost)>;

/// What the command measures. Reductions are in per cent of what they are compared with.
#[derive(Clone, Debug, Serialize)]
pub struct PaperFigures {
    /// TPC-H scale factor.
    pub scale: f64,
    /// Degree of parallelism where queries run in parallel; the paper has 32 in E1 and 16 in E3.
    pub degree: usize,
    /// E1, Fig. 5 and 6.
    pub micro: Vec<MicroFigures>,
    /// E2, Fig. 7 and 8, on loopback.
    pub tpch: TotalFigures,
    /// E3, Fig. 9.
    pub pq: Vec<PqReduction>,
    /// E2 over networks of limited rates.
    pub links: Vec<LinkFigures>,
    /// Time of the 22 queries with NDP at 1 Gbit/s ÷ DataFusion's over Parquet files that it reads
    /// through HTTP from the other side of the same network.
    pub vs_parquet_over_http_1gbit: Option<f64>,
    /// Why there is nothing about limited networks.
    pub links_skipped: Option<String>,
}

/// E1: one query of the micro-benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct MicroFigures {
    /// Its name.
    pub query: String,
    /// Reduction of bytes by NDP (Fig. 5).
    pub bytes: f64,
    /// Reductions of run time against one worker without NDP (Fig. 6): by NDP.
    pub time_ndp: f64,
    /// By PQ.
    pub time_pq: f64,
    /// By both.
    pub time_both: f64,
}

/// E2: reductions by NDP over the 22 queries.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TotalFigures {
    /// Bytes from the stores.
    pub bytes: f64,
    /// CPU time of the frontend.
    pub cpu: f64,
    /// Run time.
    pub time: f64,
    /// Seconds without NDP, and with it.
    pub seconds: [f64; 2],
}

/// E3: one query.
#[derive(Clone, Debug, Serialize)]
pub struct PqReduction {
    /// Its name.
    pub query: String,
    /// Further reduction of run time by PQ, after NDP.
    pub time: f64,
}

/// E2 over a network of one rate.
#[derive(Clone, Debug, Serialize)]
pub struct LinkFigures {
    /// The rate, bits a second.
    pub rate: Rate,
    /// Totals.
    pub tpch: TotalFigures,
    /// Seconds that DataFusion takes for the same queries with Parquet files through HTTP.
    pub parquet_over_http: f64,
}

/// What ran over a network of one rate.
struct LinkRun {
    rate: Rate,
    pairs: Vec<Pair>,
    parquet_over_http: f64,
}

/// Runs the command and writes the report.
///
/// # Errors
/// If a process fails or answers differ.
pub fn paper(
    options: &BenchOptions,
) -> BoxFuture<'_, Result<(PaperFigures, PathBuf), WorkloadError>> {
    Box::pin(async move {
        let (link, links_skipped) = match Link::new() {
            Ok(link) => (Some(Arc::new(link)), None),
            Err(error) => (None, Some(error.to_string())),
        };
        if let Some(why) = &links_skipped {
            note(&format!("without limited networks, which need root: {why}"));
        }
        let experiment = Experiment::new(options)?;
        let loopback = experiment.runs(&TWO_PAGE_STORES).await?;
        let mut links = Vec::new();
        if let Some(link) = link {
            let shape = ClusterShape {
                name: "cluster-behind-link",
                link: Some(link.clone()),
                ..TWO_PAGE_STORES
            };
            let mut cluster = options.loaded_cluster(&experiment.data, &shape).await?;
            for rate in RATES {
                link.limit(rate)?;
                note(&format!("{rate} between frontend and storage"));
                let [off, on] = experiment
                    .off_and_on(&mut cluster, experiment.degree)
                    .await?;
                links.push(LinkRun {
                    rate,
                    pairs: experiment.pairs(&off, &on).1,
                    parquet_over_http: experiment.parquet_over_http(&link).await?,
                });
            }
        }
        let figures = experiment.figures(&loopback, &links, links_skipped);
        let path = options.dir.join("paper.html");
        fs::write(&path, experiment.html(&figures, &loopback, &links)?)
            .map_err(WorkloadError::io(format!("write {}", path.display())))?;
        Ok((figures, path))
    })
}

struct Experiment<'a> {
    options: &'a BenchOptions,
    data: PathBuf,
    degree: usize,
    micro: Vec<Named>,
    tpch: Vec<Named>,
    /// `tpch`, then `micro`.
    all: Vec<Named>,
    numbers: Vec<Option<usize>>,
}

/// Runs on loopback: by NDP off and on, with one worker and with several.
struct Runs {
    one: [Answers; 2],
    several: [Answers; 2],
}

impl<'a> Experiment<'a> {
    fn new(options: &'a BenchOptions) -> Result<Self, WorkloadError> {
        let queries = perigee_workload::tpch::queries(options.scale);
        let (tpch, micro) = (named(&queries), micro_queries(options.scale, &queries));
        Ok(Self {
            options,
            data: options.data()?,
            degree: cores(),
            all: [tpch.as_slice(), micro.as_slice()].concat(),
            numbers: queries.iter().map(|(number, _)| Some(*number)).collect(),
            tpch,
            micro,
        })
    }

    async fn runs(&self, shape: &ClusterShape<'_>) -> Result<Runs, WorkloadError> {
        let mut cluster = self.options.loaded_cluster(&self.data, shape).await?;
        let one = self.off_and_on(&mut cluster, 1).await?;
        let several = self.off_and_on(&mut cluster, self.degree).await?;
        expect_same(&self.all, "the answer of one worker", &several[0], &one[0])?;
        Ok(Runs { one, several })
    }

    /// All queries without and with NDP, each time from a cold start of the frontend.
    async fn off_and_on(
        &self,
        cluster: &mut Cluster,
        degree: usize,
    ) -> Result<[Answers; 2], WorkloadError> {
        let mut runs = Vec::new();
        for mode in ["OFF", "ON"] {
            note(&format!("NDP {mode}, {degree} workers"));
            cluster.restart_frontend_with(cluster.frontend_args().to_vec())?;
            let variables = [
                format!("ndp_mode = {mode}"),
                format!("parallel_default_dop = {degree}"),
            ];
            runs.push(sequence(cluster, &variables, &self.all, |_| ()).await?);
        }
        let [off, on] = <[Answers; 2]>::try_from(runs).expect("two modes ran");
        expect_same(&self.all, "the answer without NDP", &on, &off)?;
        Ok([off, on])
    }

    /// Seconds of the 22 queries by DataFusion, which reads Parquet files from behind the link.
    async fn parquet_over_http(&self, link: &Link) -> Result<f64, WorkloadError> {
        note("DataFusion with Parquet files through HTTP");
        Parquet::write(&self.data).await?;
        let io = WorkloadError::io("serve Parquet files");
        let listener = link.listen()?;
        let made = listener
            .set_nonblocking(true)
            .and_then(|()| Ok((listener.local_addr()?, TcpListener::from_std(listener)?)));
        let (address, listener) = made.map_err(io)?;
        let server = tokio::spawn(http::serve(listener, self.data.clone()));
        let peer = Parquet::open_http(address, self.degree).await?;
        let mut total = 0.0;
        for (_, sql) in perigee_workload::tpch::queries(self.options.scale) {
            total += peer.run(&sql).await?.1;
        }
        server.abort();
        Ok(total)
    }

    /// Runs side by side: the micro-benchmark's, and the 22 queries'.
    fn pairs(&self, off: &Answers, on: &Answers) -> (Vec<Pair>, Vec<Pair>) {
        let numbers = self.numbers.iter().copied();
        let tpch = report::pairs(&self.tpch, numbers, off, on);
        let (off, on) = (&off[self.tpch.len()..], &on[self.tpch.len()..]);
        let micro = report::pairs(&self.micro, std::iter::repeat(None), off, on);
        (micro, tpch)
    }

    fn figures(
        &self,
        runs: &Runs,
        links: &[LinkRun],
        links_skipped: Option<String>,
    ) -> PaperFigures {
        let (micro, tpch) = self.pairs(&runs.several[0], &runs.several[1]);
        let micro = micro.iter().enumerate().map(|(i, pair)| {
            let seconds = |run: &Answers| run[self.tpch.len() + i].1.seconds;
            let by = |run: &Answers| report::reduction(seconds(&runs.one[0]), seconds(run));
            MicroFigures {
                query: pair.name.clone(),
                bytes: report::reduction(pair.off.bytes as f64, pair.on.bytes as f64),
                time_ndp: by(&runs.one[1]),
                time_pq: by(&runs.several[0]),
                time_both: by(&runs.several[1]),
            }
        });
        let both = runs.one[1].iter().zip(&runs.several[1]);
        let pq = self
            .tpch
            .iter()
            .zip(both)
            .map(|((name, _), (one, several))| PqReduction {
                query: name.clone(),
                time: report::reduction(one.1.seconds, several.1.seconds),
            });
        PaperFigures {
            scale: self.options.scale,
            degree: self.degree,
            micro: micro.collect(),
            tpch: totals(&tpch),
            pq: pq.collect(),
            vs_parquet_over_http_1gbit: links
                .iter()
                .find(|run| run.rate == Rate::gigabits(1))
                .map(|run| report::total(&run.pairs).on.seconds / run.parquet_over_http),
            links: links
                .iter()
                .map(|run| LinkFigures {
                    rate: run.rate,
                    tpch: totals(&run.pairs),
                    parquet_over_http: run.parquet_over_http,
                })
                .collect(),
            links_skipped,
        }
    }

    fn html(
        &self,
        figures: &PaperFigures,
        runs: &Runs,
        links: &[LinkRun],
    ) -> Result<String, WorkloadError> {
        let (micro, tpch) = self.pairs(&runs.several[0], &runs.several[1]);
        let mut out = String::from(report::HEAD);
        let _ = write!(
            out,
            "<h1>Perigee: the experiments of the NDP paper</h1><p>TPC-H at scale {}; one frontend, one \
             Log Store and two Page Stores as processes on one machine of {} cores; every sequence of \
             queries from a cold start. {}</p>",
            self.options.scale,
            cores(),
            report::summary(&tpch)
        );
        out += &report::off_and_on(&micro, &tpch)?;
        out += &self.figure_6(figures)?;
        out += &self.figure_9(figures)?;
        report::table(&mut out, &micro);
        report::table(&mut out, &tpch);
        if let Some(why) = &figures.links_skipped {
            let _ = write!(
                out,
                "<p>No limited networks: {}</p>",
                why.replace('<', "&lt;")
            );
        }
        for run in links {
            let _ = write!(
                out,
                "<h2>{} between frontend and storage</h2><p>{} DataFusion, which reads the tables as \
                 Parquet files through HTTP over the same network, takes {:.2} s.</p>",
                run.rate,
                report::summary(&run.pairs),
                run.parquet_over_http
            );
            report::table(&mut out, &run.pairs);
        }
        out.push_str(report::END);
        Ok(out)
    }

    fn figure_6(&self, figures: &PaperFigures) -> Result<String, WorkloadError> {
        let names: Vec<_> = figures.micro.iter().map(|f| f.query.clone()).collect();
        let bars = |name, hue, value: fn(&MicroFigures) -> f64| Series {
            name,
            hue,
            values: figures.micro.iter().map(|f| Some(value(f))).collect(),
        };
        let series = [
            bars("PQ", Hue::Orange, |f| f.time_pq),
            bars("NDP", Hue::Green, |f| f.time_ndp),
            bars("both", Hue::Blue, |f| f.time_both),
        ];
        let caption = format!(
            "Against one worker without NDP. With {} workers the frontend alone can save {:.1} %; NDP \
             moves the work to the stores, so both may save more. The paper, with 32 workers (at most \
             96.9 %): PQ alone below 86 % for Q0, Q001 and Q6, both close to the most.",
            self.degree,
            most(self.degree)
        );
        report::figure(
            "Fig. 6: run time reduction with NDP and PQ",
            &caption,
            &names,
            &series,
        )
    }

    fn figure_9(&self, figures: &PaperFigures) -> Result<String, WorkloadError> {
        let names: Vec<_> = figures.pq.iter().map(|f| f.query.clone()).collect();
        let paper = |name: &String| {
            let known = PQ_ON_TOP_OF_NDP.iter().find(|(query, _)| query == name);
            known.map(|(_, reduction)| *reduction)
        };
        let series = [
            Series {
                name: "Perigee",
                hue: Hue::Blue,
                values: figures.pq.iter().map(|f| Some(f.time)).collect(),
            },
            Series {
                name: "paper",
                hue: Hue::Grey,
                values: names.iter().map(paper).collect(),
            },
        ];
        let caption = format!(
            "{} workers against one, both with NDP; the stores work in parallel in either case. At most \
             {:.1} %. Grey: what the paper's text says, with 16 workers (at most 93.8 %).",
            self.degree,
            most(self.degree)
        );
        report::figure(
            "Fig. 9: further run time reduction from PQ",
            &caption,
            &names,
            &series,
        )
    }
}

/// The most that so many workers can save, in per cent.
fn most(workers: usize) -> f64 {
    100.0 * (1.0 - 1.0 / workers as f64)
}

fn totals(pairs: &[Pair]) -> TotalFigures {
    let Pair { off, on, .. } = report::total(pairs);
    TotalFigures {
        bytes: report::reduction(off.bytes as f64, on.bytes as f64),
        cpu: report::reduction(off.cpu, on.cpu),
        time: report::reduction(off.seconds, on.seconds),
        seconds: [off.seconds, on.seconds],
    }
}

impl PaperFigures {
    /// The figures as a table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!("reductions in %, {} workers\n", self.degree);
        let mut line = |text: String| {
            out += &text;
            out.push('\n');
        };
        line("E1        bytes    time: PQ      NDP     both".to_owned());
        for f in &self.micro {
            let MicroFigures {
                query,
                bytes,
                time_ndp,
                time_pq,
                time_both,
            } = f;
            line(format!(
                "{query:<6}{bytes:>9.1}{time_pq:>12.1}{time_ndp:>9.1}{time_both:>9.1}"
            ));
        }
        line("E2        bytes      CPU     time      off s    on s".to_owned());
        let total = |name: &str, f: &TotalFigures| {
            let [off, on] = f.seconds;
            let TotalFigures {
                bytes, cpu, time, ..
            } = f;
            format!("{name:<10}{bytes:>5.1}{cpu:>9.1}{time:>9.1}{off:>11.2}{on:>8.2}")
        };
        line(total("loopback", &self.tpch));
        for link in &self.links {
            let http = link.parquet_over_http;
            let ours = total(&link.rate.to_string(), &link.tpch);
            line(format!("{ours}  Parquet through HTTP {http:.2}"));
        }
        line("paper      63.0     50.0     28.0".to_owned());
        let pq = self.pq.iter().map(|f| format!("{} {:.0}", f.query, f.time));
        line(format!("E3 time: {}", pq.collect::<Vec<_>>().join(", ")));
        out
    }
}
