//! Queries one after the other on one connection, as in the paper's section VII.B.

use crate::{Cluster, Cost, WorkloadError, answers, load, measure};

/// A query and what it is called, for example `Q6`.
pub type Named = (String, String);

/// The 22 queries by their names.
#[must_use]
pub fn named(queries: &[(usize, String)]) -> Vec<Named> {
    let name = |(number, sql): &(usize, String)| (format!("Q{number}"), sql.clone());
    queries.iter().map(name).collect()
}

/// Answer and cost of each query, in a session with these variables, for example `ndp_mode = OFF`;
/// `each` is told of what is about to run.
///
/// # Errors
/// What the server answers, or a process that is gone.
pub async fn sequence(
    cluster: &Cluster,
    variables: &[String],
    queries: &[Named],
    mut each: impl FnMut(&str),
) -> Result<Vec<(String, Cost)>, WorkloadError> {
    let mut client = cluster.client(Some(load::SCHEMA)).await?;
    for variable in variables {
        client.execute(&format!("SET {variable}")).await?;
    }
    let mut out = Vec::new();
    for (name, sql) in queries {
        each(name);
        let (rows, cost) = measure(cluster, &mut client, sql).await?;
        out.push((answers::to_text(&rows), cost));
    }
    client.close().await?;
    Ok(out)
}

/// Compares answers query by query; `what` names the second ones.
///
/// # Errors
/// The first difference.
pub fn expect_same(
    queries: &[Named],
    what: &str,
    found: &[(String, Cost)],
    expected: &[(String, Cost)],
) -> Result<(), WorkloadError> {
    for ((name, _), (found, expected)) in queries.iter().zip(found.iter().zip(expected)) {
        answers::expect_equal(name, what, &found.0, &expected.0)?;
    }
    Ok(())
}
