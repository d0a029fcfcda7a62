//! One question answered in several ways, in turns: what each costs.

use super::setup::note;
use perigee_workload::measure;
use perigee_workload::{Client, Cluster, Cost, WorkloadError, answers};

/// Runs of each way that are not counted.
const WARMING: usize = 1;

/// A way to answer a question.
#[derive(Clone, Debug)]
pub struct Way {
    /// Variables of the session, as SET takes them.
    pub set: String,
    /// The statement.
    pub sql: String,
}

/// What each way costs, `turns` times; which one goes first changes. Their answers have to be the same, in whatever order
/// the rows come.
///
/// # Errors
/// If one fails, or answers differ.
pub async fn take_turns(
    cluster: &Cluster,
    client: &mut Client,
    name: &str,
    ways: &[Way],
    turns: usize,
) -> Result<Vec<Vec<Cost>>, WorkloadError> {
    note(name);
    let mut runs = Vec::new();
    let mut expected: Option<String> = None;
    for turn in 0..WARMING + turns {
        let mut costs = vec![Cost::default(); ways.len()];
        for step in 0..ways.len() {
            let way = (step + turn) % ways.len();
            let Way { set, sql } = &ways[way];
            client.execute(&format!("SET {set}")).await?;
            let (rows, cost) = measure(cluster, client, sql).await?;
            let mut lines: Vec<String> =
                answers::to_text(&rows).lines().map(str::to_owned).collect();
            lines.sort_unstable();
            let text = lines.join("\n");
            match &expected {
                Some(expected) => {
                    answers::expect_equal(name, "the answer of another way", &text, expected)?;
                }
                None => expected = Some(text),
            }
            costs[way] = cost;
        }
        if turn >= WARMING {
            runs.push(costs);
        }
    }
    Ok(runs)
}
