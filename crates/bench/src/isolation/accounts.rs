//! Accounts between which money moves: their total is constant, and no account is overdrawn.

use std::fmt::Write;

use perigee_history::bank::Bank;
use perigee_history::{Level, Outcome};

use super::Workload;
use super::rng::Rng;
use super::session::{Attempt, Connection, Step, Stop};
use perigee_workload::{Client, WorkloadError};

/// What each account begins with.
const BALANCE: i64 = 100;

/// What scans of so many accounts must say.
pub(super) fn bank(accounts: u32) -> Bank {
    Bank {
        accounts: accounts.into(),
        total: i64::from(accounts) * BALANCE,
        never_negative: true,
    }
}

/// Makes the table; its rows are long enough that a scan reads many pages.
pub(super) async fn create(client: &mut Client, accounts: u32) -> Result<(), WorkloadError> {
    client
        .execute(
            "CREATE TABLE account (id INT NOT NULL, branch INT NOT NULL, balance INT NOT NULL, \
             filler VARCHAR(200) NOT NULL, PRIMARY KEY (id), KEY balance (balance), \
             KEY branch (branch, balance))",
        )
        .await?;
    let ids: Vec<_> = (0..accounts).collect();
    for some in ids.chunks(500) {
        let mut sql = String::from("INSERT INTO account VALUES ");
        for (at, id) in some.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(sql, "{comma}{}", row(*id, BALANCE));
        }
        client.execute(&sql).await?;
    }
    Ok(())
}

fn row(id: u32, balance: i64) -> String {
    format!("({id},{},{balance},'{id:0>150}')", id % 10)
}

/// How a transfer takes money from an account.
#[derive(Clone, Copy)]
enum Way {
    /// Changes what is there, if it is enough.
    Change,
    /// Locks the row, reads, writes what is left.
    LockReadWrite,
    /// Reads, writes what is left: right only if the level forbids lost updates.
    ReadWrite,
    /// Locks the row, deletes it, inserts it with what is left.
    DeleteInsert,
}

/// Moves money from one account to another.
pub(super) async fn transfer(
    connection: &mut Connection,
    workload: &Workload,
    rng: &mut Rng,
    attempt: &mut Attempt,
) -> Result<Outcome, WorkloadError> {
    // Some accounts have most of the traffic.
    let hot = u64::from(workload.accounts.min(20));
    let mut account = || match rng.chance(2) {
        true => rng.below(hot),
        false => rng.below(workload.accounts.into()),
    };
    let (from, to) = (account() as i64, account() as i64);
    let amount = 1 + rng.below(30) as i64;
    let way = match rng.below(4) {
        0 => Way::LockReadWrite,
        1 => Way::DeleteInsert,
        2 if workload.level > Level::ReadCommitted => Way::ReadWrite,
        _ => Way::Change,
    };
    let moves_branch = rng.chance(4);
    connection.execute("BEGIN", &[]).await?;
    let steps = async {
        if from == to || !take(connection, way, from, amount).await? {
            return Err(Stop::RollBack);
        }
        let sql = match moves_branch {
            true => "UPDATE account SET balance = balance + ?, branch = branch + 1 WHERE id = ?",
            false => "UPDATE account SET balance = balance + ? WHERE id = ?",
        };
        one_row(connection.execute(sql, &[amount, to]).await?, to, attempt)
    };
    let steps = steps.await;
    connection.end(steps, attempt).await
}

fn one_row(rows: u64, id: i64, attempt: &mut Attempt) -> Step<()> {
    if rows == 1 {
        return Ok(());
    }
    attempt
        .wrong
        .push(format!("a transfer to account {id} changes {rows} rows"));
    Err(Stop::RollBack)
}

/// Takes money from an account; false if it has not enough.
async fn take(connection: &mut Connection, way: Way, id: i64, amount: i64) -> Step<bool> {
    let (lock, write) = match way {
        Way::Change => {
            let sql = "UPDATE account SET balance = balance - ? WHERE id = ? AND balance >= ?";
            return Ok(connection.execute(sql, &[amount, id, amount]).await? == 1);
        }
        Way::ReadWrite => ("", "UPDATE account SET balance = ? WHERE id = ?"),
        Way::LockReadWrite => (" FOR UPDATE", "UPDATE account SET balance = ? WHERE id = ?"),
        Way::DeleteInsert => (" FOR UPDATE", ""),
    };
    let sql = format!("SELECT balance FROM account WHERE id = ?{lock}");
    let rows = connection.query(&sql, &[id]).await?;
    let balance = rows.first().and_then(|row| row[0].as_deref()?.parse().ok());
    let Some(balance): Option<i64> = balance else {
        let text = format!("account {id} is {rows:?}");
        return Err(Stop::Failed(WorkloadError::Unexpected(text)));
    };
    if balance < amount {
        return Ok(false);
    }
    let left = balance - amount;
    if !write.is_empty() {
        connection.execute(write, &[left, id]).await?;
        return Ok(true);
    }
    connection
        .execute("DELETE FROM account WHERE id = ?", &[id])
        .await?;
    let sql = format!("INSERT INTO account VALUES {}", row(id as u32, left));
    connection.execute(&sql, &[]).await?;
    Ok(true)
}
