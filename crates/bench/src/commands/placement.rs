//! `perigee-bench placement`: the experiment of the cost model for near-data processing (nKV, section 3). One scan, with
//! more and more rows that pass and columns that are wanted, by the frontend and by storage: does a plan by measured costs
//! choose the faster side?

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use serde::Serialize;

use super::setup::{BenchOptions, ClusterShape, TWO_PAGE_STORES, note, wait_until_consolidated};
use perigee_testkit::Rng;
use perigee_workload::{Client, Cluster, Link, Rate, Rows, WorkloadError, load};

/// Rows of the table at scale 1: those of the paper.
const ROWS: f64 = 1_000_000.0;

/// Values of `kind` and `place`, which are uniform.
const VALUES: u64 = 1_000_000;

/// Shares of the rows that pass, in per cent.
const SHARES: [f64; 11] = [
    0.0, 0.01, 0.1, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 100.0,
];

/// The network, where it is limited.
const RATE: Rate = Rate::gigabits(1);

/// A choice is wrong if it takes so many times as long as the other side, and [`NOISE`] longer.
const WRONG: f64 = 1.1;

/// Seconds that two runs of one statement may differ by.
const NOISE: f64 = 0.003;

/// The node table of LinkBench; its data is in two columns, so that there is something between one column and all.
const CREATE: &str =
    "CREATE TABLE nodes (id INT NOT NULL PRIMARY KEY, kind INT NOT NULL, version BIGINT NOT NULL,
    time INT NOT NULL, place INT NOT NULL, name CHAR(72) NOT NULL, data CHAR(72) NOT NULL,
    KEY by_place (place, version))";

/// What is wanted of the rows that pass: storage has none of these aggregates, so that it ships the columns.
const PROJECTIONS: [(&str, &str); 4] = [
    ("id", "BIT_XOR(id)"),
    ("one column", "BIT_XOR(version)"),
    ("half", "BIT_XOR(version), BIT_XOR(LENGTH(name))"),
    (
        "all",
        "BIT_XOR(version), BIT_XOR(LENGTH(name)), BIT_XOR(LENGTH(data)), BIT_XOR(kind + time + place)",
    ),
];

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct PlacementFigures {
    /// Rows of the table.
    pub rows: u64,
    /// Cells of the grid.
    pub cells: usize,
    /// Cells in which the plan's choice takes more than 1.1 times as long as the other side.
    pub wrong_choices: usize,
    /// Time of the plan's choice ÷ that of the faster side, the worst of all cells beyond noise.
    pub worst_regret: f64,
    /// Why there is nothing about a limited network.
    pub link_skipped: Option<String>,
    /// The grid.
    pub grid: Vec<CellFigures>,
}

/// A cell of the grid.
#[derive(Clone, Debug, Serialize)]
pub struct CellFigures {
    /// Bits a second of the network, if it is limited.
    pub rate: Option<Rate>,
    /// What of the table is in the buffer pool.
    pub pool: &'static str,
    /// What the condition is about.
    pub condition: &'static str,
    /// Columns that are wanted.
    pub columns: &'static str,
    /// Share of the rows that pass, in per cent.
    pub share: f64,
    /// Least seconds by the frontend alone.
    pub frontend: f64,
    /// Least seconds with everything pushed that can be.
    pub storage: f64,
    /// Least seconds of the plan's choice, which is one of these mostly.
    pub chosen: f64,
    /// The choice.
    pub choice: &'static str,
}

impl CellFigures {
    /// Time of the choice ÷ that of the faster side; 1 if the difference is noise.
    fn regret(&self) -> f64 {
        let least = self.frontend.min(self.storage).min(self.chosen);
        match self.chosen - least > NOISE {
            true => self.chosen / least,
            false => 1.0,
        }
    }
}

impl PlacementFigures {
    fn of(rows: u64, grid: Vec<CellFigures>, link_skipped: Option<String>) -> Self {
        Self {
            rows,
            cells: grid.len(),
            wrong_choices: grid.iter().filter(|cell| cell.regret() > WRONG).count(),
            worst_regret: grid.iter().map(CellFigures::regret).fold(1.0, f64::max),
            link_skipped,
            grid,
        }
    }

    /// The figures for a person: a line for each column of the paper's Figure 2, N where storage is chosen and B where the
    /// frontend is, in lower case where that is wrong.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        for line in self.grid.chunks(SHARES.len()) {
            let CellFigures {
                rate,
                pool,
                condition,
                columns,
                ..
            } = &line[0];
            let link = rate.map_or_else(|| "no limit".to_owned(), |rate| rate.to_string());
            let _ = write!(out, "{link:9} pool {pool:5} {condition:13} {columns:10} ");
            for cell in line {
                let letter = if cell.choice == CHOICES[0] { "B" } else { "N" };
                let wrong = cell.regret() > WRONG;
                let letter = if wrong {
                    letter.to_lowercase()
                } else {
                    letter.to_owned()
                };
                let _ = write!(out, " {letter}{:<5.2}", cell.frontend / cell.storage);
            }
            out.push('\n');
        }
        let _ = writeln!(
            out,
            "(time of the frontend over that of storage, for {SHARES:?} % of the rows)\n{} of {} choices wrong, {:.2} at worst",
            self.wrong_choices, self.cells, self.worst_regret
        );
        out
    }
}

/// What a plan may choose; in the order of [`SIDES`].
const CHOICES: [&str; 3] = ["frontend", "storage", "a part in storage"];

/// What a condition is about.
#[derive(Clone, Copy)]
enum Condition {
    /// The key that rows are stored by.
    Key,
    /// A column without an index.
    Value,
    /// The first column of an index that has all that is wanted.
    CoveredIndex,
}

impl Condition {
    const ALL: [Self; 3] = [Self::Key, Self::Value, Self::CoveredIndex];

    fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
            Self::CoveredIndex => "covered index",
        }
    }

    /// It, for a share of the rows in per cent.
    fn sql(self, rows: u64, share: f64) -> String {
        let below = |n: u64| (n as f64 * share / 100.0).round();
        match self {
            Self::Key => format!("id < {}", below(rows)),
            Self::Value => format!("kind < {}", below(VALUES)),
            Self::CoveredIndex => format!("place < {}", below(VALUES)),
        }
    }

    /// Projections that it is tried with.
    fn projections(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::CoveredIndex => &PROJECTIONS[..2],
            _ => &PROJECTIONS,
        }
    }

    /// The index that is read.
    fn index(self) -> &'static str {
        match self {
            Self::CoveredIndex => "FORCE INDEX (by_place)",
            _ => "FORCE INDEX (PRIMARY)",
        }
    }

    /// A condition that half of this index has.
    fn half(self, rows: u64) -> String {
        match self {
            Self::Value => Self::Key.sql(rows, 50.0),
            other => other.sql(rows, 50.0),
        }
    }
}

/// What of the index that is read is in the buffer pool.
#[derive(Clone, Copy, PartialEq)]
enum Pool {
    Empty,
    Half,
    Full,
}

impl Pool {
    const ALL: [Self; 3] = [Self::Empty, Self::Half, Self::Full];

    fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Half => "half",
            Self::Full => "full",
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If a process fails or answers differ.
pub fn placement(options: &BenchOptions) -> BoxFuture<'_, Result<PlacementFigures, WorkloadError>> {
    Box::pin(async move {
        let rows = (ROWS * options.scale).max(1000.0) as u64;
        let mut grid = Vec::new();
        grid.extend(Grid::load(options, rows, None).await?.run().await?);
        let link_skipped = match Link::new() {
            Ok(link) => {
                let link = Arc::new(link);
                grid.extend(Grid::load(options, rows, Some(link)).await?.run().await?);
                None
            }
            Err(error) => {
                note(&format!(
                    "without a limited network, which needs root: {error}"
                ));
                Some(error.to_string())
            }
        };
        Ok(PlacementFigures::of(rows, grid, link_skipped))
    })
}

/// The cells over one network.
struct Grid {
    cluster: Cluster,
    client: Client,
    rows: u64,
    turns: usize,
    rate: Option<Rate>,
}

/// One statement, by each side.
struct Cell {
    condition: Condition,
    columns: (&'static str, &'static str),
    share: f64,
}

impl Cell {
    fn sql(&self, hint: &str, rows: u64) -> String {
        let condition = self.condition.sql(rows, self.share);
        format!(
            "SELECT {hint} {} FROM nodes WHERE {condition}",
            self.columns.1
        )
    }
}

/// Hints: nothing is pushed, everything that can be, whatever the plan chooses.
const SIDES: [&str; 3] = [
    "/*+ NO_NDP_PUSHDOWN(nodes) */",
    "/*+ NDP_PUSHDOWN(nodes) */",
    "",
];

impl Grid {
    /// A cluster with the table, whose buffer pool holds all of it.
    async fn load(
        options: &BenchOptions,
        rows: u64,
        link: Option<Arc<Link>>,
    ) -> Result<Self, WorkloadError> {
        let data = options.stores("placement-data")?;
        let bytes = write_rows(&data, rows)?;
        let shape = ClusterShape {
            name: "placement",
            frontend_args: &["--measure-costs"],
            link: link.clone(),
            ..TWO_PAGE_STORES
        };
        let cluster = options.cluster(&shape, bytes * 3 + (64 << 20))?;
        let mut client = cluster.client(None).await?;
        client.execute("CREATE DATABASE placement").await?;
        client.execute("USE placement").await?;
        client.execute(CREATE).await?;
        load::load_table(&mut client, &data, "nodes").await?;
        client.execute("ANALYZE TABLE nodes").await?;
        wait_until_consolidated(&mut client).await?;
        if let Some(link) = &link {
            link.limit(RATE)?;
        }
        Ok(Self {
            cluster,
            client,
            rows,
            turns: options.pairs.clamp(1, 3),
            rate: link.map(|_| RATE),
        })
    }

    async fn run(mut self) -> Result<Vec<CellFigures>, WorkloadError> {
        let mut grid = Vec::new();
        for pool in Pool::ALL {
            for condition in Condition::ALL {
                for columns in condition.projections() {
                    note(&format!(
                        "pool {}, {}, {}",
                        pool.name(),
                        condition.name(),
                        columns.0
                    ));
                    for share in SHARES {
                        let cell = Cell {
                            condition,
                            columns: *columns,
                            share,
                        };
                        grid.push(self.cell(pool, &cell).await?);
                    }
                }
            }
        }
        Ok(grid)
    }

    async fn cell(&mut self, pool: Pool, cell: &Cell) -> Result<CellFigures, WorkloadError> {
        self.fill(pool, cell.condition).await?;
        let mut plans = Vec::new();
        for hint in SIDES {
            let explain = format!("EXPLAIN {}", cell.sql(hint, self.rows));
            plans.push(pushed(&self.client.query(&explain).await?));
        }
        let chosen = plans.iter().position(|plan| *plan == plans[2]);
        let chosen = chosen.expect("it is one of them");
        // The plan's choice runs by itself only if it is neither side's.
        let sides = 2.max(chosen + 1);
        let mut least = [f64::INFINITY; 3];
        let mut answer: Option<Rows> = None;
        for turn in 0..self.turns {
            for step in 0..sides {
                let side = (turn + step) % sides;
                self.fill(pool, cell.condition).await?;
                let sql = cell.sql(SIDES[side], self.rows);
                let begin = Instant::now();
                let rows = self.client.query(&sql).await?;
                least[side] = least[side].min(begin.elapsed().as_secs_f64());
                let expected = answer.get_or_insert_with(|| rows.clone());
                if *expected != rows {
                    return Err(WorkloadError::Unexpected(format!(
                        "{sql} gives {rows:?}, not {expected:?}"
                    )));
                }
            }
        }
        Ok(CellFigures {
            rate: self.rate,
            pool: pool.name(),
            condition: cell.condition.name(),
            columns: cell.columns.0,
            share: cell.share,
            frontend: least[0],
            storage: least[1],
            chosen: least[chosen],
            choice: CHOICES[chosen],
        })
    }

    /// Has the buffer pool hold what it shall of the index that a condition reads.
    async fn fill(&mut self, pool: Pool, condition: Condition) -> Result<(), WorkloadError> {
        if pool != Pool::Full {
            let args = self.cluster.frontend_args().to_vec();
            self.cluster.restart_frontend_with(args)?;
            self.client = self.cluster.client(Some("placement")).await?;
        }
        let read = format!(
            "SELECT {} BIT_XOR(version) FROM nodes {}",
            SIDES[0],
            condition.index()
        );
        match pool {
            // The table's definition and the way to its first leaf.
            Pool::Empty => {
                self.client
                    .query("SELECT kind FROM nodes WHERE id = 1")
                    .await?
            }
            Pool::Half => {
                let half = format!("{read} WHERE {}", condition.half(self.rows));
                self.client.query(&half).await?
            }
            Pool::Full => self.client.query(&read).await?,
        };
        Ok(())
    }
}

/// The index that a plan reads, and what of it storage does.
fn pushed(explain: &Rows) -> Vec<String> {
    let cells = explain.iter().flatten().flatten();
    let parts = cells.flat_map(|cell| cell.split("; "));
    let kept = parts.filter(|part| part.starts_with("Using pushed") || *part == "by_place");
    kept.map(str::to_owned).collect()
}

/// Writes the table's rows to a file; gives its bytes.
fn write_rows(dir: &std::path::Path, rows: u64) -> Result<u64, WorkloadError> {
    let mut rng = Rng(0x6e6f_6465);
    let mut text = String::new();
    for id in 0..rows {
        let mut below = |n: u64| rng.between(0, n as i64 - 1);
        let (kind, version, place) = (below(VALUES), below(1 << 40), below(VALUES));
        let (name, data) = (below(1 << 40), below(1 << 40));
        let _ = writeln!(
            text,
            "{id}|{kind}|{version}|{}|{place}|{name:072x}|{data:072x}|",
            1_700_000_000 + id
        );
    }
    let path = load::file(dir, "nodes");
    fs::write(&path, &text).map_err(WorkloadError::io(format!("write {}", path.display())))?;
    Ok(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(frontend: f64, storage: f64, chosen: f64) -> CellFigures {
        CellFigures {
            rate: None,
            pool: "empty",
            condition: "key",
            columns: "id",
            share: 1.0,
            frontend,
            storage,
            chosen,
            choice: CHOICES[0],
        }
    }

    #[test]
    fn a_slower_choice_is_wrong_unless_the_difference_is_noise() {
        let grid = vec![
            cell(1.0, 0.5, 1.0),
            cell(0.004, 0.002, 0.004),
            cell(1.0, 2.0, 1.0),
        ];
        let figures = PlacementFigures::of(1000, grid, None);
        assert_eq!((figures.cells, figures.wrong_choices), (3, 1));
        assert!((figures.worst_regret - 2.0).abs() < 1e-9);
    }

    #[test]
    fn conditions_let_their_share_through() {
        assert_eq!(Condition::Key.sql(2000, 50.0), "id < 1000");
        assert_eq!(Condition::Value.sql(2000, 0.01), "kind < 100");
        assert_eq!(Condition::CoveredIndex.sql(2000, 0.0), "place < 0");
    }
}
