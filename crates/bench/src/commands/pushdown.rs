//! `perigee-bench pushdown`: the experiments of PushdownDB on one machine. Filters by a scan, by storage and by an index;
//! Bloom filters of joins; grouping over few and many groups; the first rows of an order; LIMIT.

use futures::future::BoxFuture;
use serde::Serialize;

use super::setup::{BenchOptions, TWO_PAGE_STORES, note, wait_until_consolidated};
use super::turns::{Way, take_turns};
use crate::pairs::geometric_mean;
use perigee_workload::{Client, Cluster, WorkloadError, load};

/// Nothing is pushed.
const OFF: &str = "ndp_mode = OFF";

/// What is pushed is up to the plan.
const ON: &str = "ndp_mode = ON";

/// Everything is the plan's choice again.
const DEFAULTS: &str = "ndp_mode = DEFAULT, ndp_join_filters = DEFAULT, ndp_top_filters = DEFAULT, \
                        ndp_min_rows_per_group = DEFAULT";

/// Aggregates that storage does not know, so that it ships rows, and that make one row of them for the client.
const DIGEST: &str = "COUNT(*), BIT_XOR(l_orderkey), BIT_XOR(l_suppkey), BIT_XOR(l_linenumber)";

/// Shares of lineitem that filters let through (PushdownDB section III.A, table II, and one more).
const SHARES: [f64; 3] = [1e-5, 1e-3, 1e-1];

/// Upper bounds of customers' balances, which lie between −1,000 and 10,000 (section III.B).
const BALANCES: [i32; 5] = [-990, -900, -500, 1000, 5000];

/// Numbers of groups.
const GROUPS: [u64; 6] = [10, 100, 1000, 10_000, 100_000, 5_000_000];

/// Rows that are wanted of an order (section III.D).
const FIRST: [u64; 6] = [1, 10, 100, 1000, 10_000, 100_000];

/// Rows that are wanted in no order.
const LIMITS: [u64; 3] = [1, 100, 10_000];

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct PushdownFigures {
    /// TPC-H scale factor.
    pub scale: f64,
    /// Time of the plan's choice ÷ that of the fastest way, the worst of all questions.
    pub worst_regret: f64,
    /// The same, geometric mean.
    pub regret: f64,
    /// All questions.
    pub questions: Vec<QuestionFigures>,
}

/// A question, answered in several ways.
#[derive(Clone, Debug, Serialize)]
pub struct QuestionFigures {
    /// Filter, join, groups, order or limit.
    pub experiment: &'static str,
    /// What varies.
    pub name: String,
    /// The ways; the last one is the plan's choice.
    pub ways: Vec<WayFigures>,
}

/// What a way costs.
#[derive(Clone, Debug, Serialize)]
pub struct WayFigures {
    /// Its name.
    pub name: &'static str,
    /// Least seconds.
    pub seconds: f64,
    /// Bytes from the Page Stores.
    pub bytes: u64,
    /// What it costs at the prices that the server has, in dollars.
    pub dollars: f64,
}

impl QuestionFigures {
    /// Time of the plan's choice ÷ that of the fastest way.
    fn regret(&self) -> f64 {
        let fastest = self.ways.iter().map(|way| way.seconds);
        let chosen = self.ways.last().map_or(0.0, |way| way.seconds);
        chosen / fastest.fold(f64::INFINITY, f64::min)
    }
}

impl PushdownFigures {
    fn of(scale: f64, questions: Vec<QuestionFigures>) -> Self {
        let regrets: Vec<_> = questions.iter().map(QuestionFigures::regret).collect();
        Self {
            scale,
            worst_regret: regrets.iter().copied().fold(1.0, f64::max),
            regret: geometric_mean(&regrets),
            questions,
        }
    }

    /// The figures for a person.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "the plan's choice over the fastest way: {:.2} on average, {:.2} at worst\n",
            self.regret, self.worst_regret
        );
        for question in &self.questions {
            out += &format!("{}, {}:", question.experiment, question.name);
            for way in &question.ways {
                let WayFigures {
                    name,
                    seconds,
                    bytes,
                    dollars,
                } = way;
                let millionths = dollars * 1e6;
                out += &format!(" {name} {seconds:.4} s, {bytes} bytes, {millionths:.1} µ$;");
            }
            out += &format!(" choice over fastest {:.2}\n", question.regret());
        }
        out
    }
}

/// A question, and the ways to answer it.
struct Question {
    experiment: &'static str,
    name: String,
    ways: Vec<(&'static str, Way)>,
}

impl Question {
    /// One statement, with variables that make it run in several ways.
    fn of(
        experiment: &'static str,
        name: String,
        sql: &str,
        ways: &[(&'static str, &str)],
    ) -> Self {
        let way = |(name, set): &(&'static str, &str)| {
            let way = Way {
                set: format!("{DEFAULTS}, {set}"),
                sql: sql.to_owned(),
            };
            (*name, way)
        };
        Self {
            experiment,
            name,
            ways: ways.iter().map(way).collect(),
        }
    }
}

/// Filters on a column with an index, which has none of the columns that are wanted.
fn filters(scale: f64) -> Vec<Question> {
    let parts = 200_000.0 * scale;
    let question = |share: f64| {
        let condition = format!("l_partkey <= {}", (parts * share).round().max(1.0));
        let sql = |hint: &str| format!("SELECT {DIGEST} FROM lineitem {hint} WHERE {condition}");
        let way = |set: &str, hint: &str| Way {
            set: format!("{DEFAULTS}, {set}"),
            sql: sql(hint),
        };
        Question {
            experiment: "filter",
            name: format!("{share:e} of the rows"),
            ways: vec![
                ("scan", way(OFF, "IGNORE INDEX (by_part)")),
                ("storage", way(ON, "IGNORE INDEX (by_part)")),
                ("index", way(ON, "FORCE INDEX (by_part)")),
                ("chosen", way(ON, "")),
            ],
        }
    };
    SHARES.map(question).into()
}

/// The paper's join, whose build side is customers of a small balance.
fn joins() -> Vec<Question> {
    let question = |balance: i32| {
        let sql = format!(
            "SELECT SUM(o_totalprice) FROM customer JOIN orders ON o_custkey = c_custkey WHERE c_acctbal <= {balance}"
        );
        let ways = [
            ("frontend", OFF),
            ("storage", "ndp_join_filters = OFF"),
            ("Bloom", "ndp_join_filters = ON"),
            ("chosen", ON),
        ];
        Question::of("join", format!("balances up to {balance}"), &sql, &ways)
    };
    BALANCES.map(question).into()
}

/// Groups of lineitem: of about the same size, and of sizes as Zipf's law has them.
fn groups() -> Vec<Question> {
    let mut questions = Vec::new();
    for groups in GROUPS {
        let uniform = format!("(l_orderkey * 7 + l_linenumber * 1000003) % {groups}");
        // The logarithm of the number of a group is uniform: the share of group g is about 1 ÷ g.
        let zipf = format!(
            "FLOOR(POW({groups}, ((l_orderkey * 7 + l_linenumber * 1000003) % 1000003) / 1000003))"
        );
        for (kind, key) in [("uniform", uniform), ("Zipf", zipf)] {
            let sql = format!(
                "SELECT COUNT(*), SUM(n), SUM(q), BIT_XOR(n) FROM
                 (SELECT {key} AS g, COUNT(*) AS n, SUM(l_quantity) AS q FROM lineitem GROUP BY g) d"
            );
            let ways = [
                ("frontend", OFF),
                ("rows", "ndp_min_rows_per_group = 1e9"),
                ("storage", "ndp_min_rows_per_group = 0"),
                ("chosen", ON),
            ];
            questions.push(Question::of(
                "groups",
                format!("{groups} {kind}"),
                &sql,
                &ways,
            ));
        }
    }
    questions
}

/// The first rows of an order that no index has.
fn orders() -> Vec<Question> {
    let question = |rows: u64| {
        let sql = format!(
            "SELECT {DIGEST} FROM (SELECT l_orderkey, l_suppkey, l_linenumber FROM lineitem
             ORDER BY l_extendedprice, l_orderkey, l_linenumber LIMIT {rows}) d"
        );
        let ways = [
            ("frontend", OFF),
            ("storage", "ndp_top_filters = OFF"),
            ("top-k", "ndp_top_filters = ON"),
            ("chosen", ON),
        ];
        Question::of("order", format!("the first {rows}"), &sql, &ways)
    };
    FIRST.map(question).into()
}

/// Rows in no order, of a condition that one of fifty has.
fn limits() -> Vec<Question> {
    let question = |rows: u64| {
        let sql = format!(
            "SELECT COUNT(*) FROM (SELECT l_orderkey FROM lineitem WHERE l_quantity = 17 LIMIT {rows}) d"
        );
        let ways = [("frontend", OFF), ("chosen", ON)];
        Question::of("limit", format!("{rows} rows"), &sql, &ways)
    };
    LIMITS.map(question).into()
}

/// Runs the command.
///
/// # Errors
/// If a process fails or answers differ.
pub fn pushdown(options: &BenchOptions) -> BoxFuture<'_, Result<PushdownFigures, WorkloadError>> {
    Box::pin(async move {
        let data = options.data()?;
        let cluster = options.loaded_cluster(&data, &TWO_PAGE_STORES).await?;
        let mut client = cluster.client(Some(load::SCHEMA)).await?;
        note("an index on l_partkey");
        client
            .execute("CREATE INDEX by_part ON lineitem (l_partkey)")
            .await?;
        client.execute("ANALYZE TABLE lineitem").await?;
        wait_until_consolidated(&mut client).await?;
        let questions = [
            filters(options.scale),
            joins(),
            groups(),
            orders(),
            limits(),
        ];
        let mut figures = Vec::new();
        for question in questions.into_iter().flatten() {
            figures.push(answer(&cluster, &mut client, question, options.pairs.max(2)).await?);
        }
        Ok(PushdownFigures::of(options.scale, figures))
    })
}

async fn answer(
    cluster: &Cluster,
    client: &mut Client,
    question: Question,
    turns: usize,
) -> Result<QuestionFigures, WorkloadError> {
    let Question {
        experiment,
        name,
        ways,
    } = question;
    let (names, ways): (Vec<_>, Vec<_>) = ways.into_iter().unzip();
    let title = format!("{experiment}: {name}");
    let runs = take_turns(cluster, client, &title, &ways, turns).await?;
    let mut figures = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        let seconds = runs.iter().map(|run| run[at].seconds);
        let before = dollars(client).await?;
        client.execute(&format!("SET {}", ways[at].set)).await?;
        client.query(&ways[at].sql).await?;
        figures.push(WayFigures {
            name,
            seconds: seconds.fold(f64::INFINITY, f64::min),
            bytes: runs.iter().map(|run| run[at].bytes).min().unwrap_or(0),
            dollars: dollars(client).await? - before,
        });
    }
    Ok(QuestionFigures {
        experiment,
        name,
        ways: figures,
    })
}

/// What the session's scans have cost.
async fn dollars(client: &mut Client) -> Result<f64, WorkloadError> {
    let micros = client
        .number("SHOW SESSION STATUS LIKE 'ndp_cost_microdollars'")
        .await?;
    Ok(micros / 1e6)
}
