//! Long scans beside the transactions, with near-data processing on and off, over the tables and over
//! their indexes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use perigee_history::bank::Scan;
use perigee_history::{Element, Level, Op, Outcome, Session, Transaction};
use serde::Serialize;

use super::accounts::bank;
use super::lists::{Table, elements, key, numbers, window};
use super::rng::Rng;
use super::session::{Attempt, Connection, Step, Stop};
use super::{Recorded, Shared};
use perigee_workload::{Rows, WorkloadError};

/// Between two scans, at least.
const PAUSE: Duration = Duration::from_millis(20);

/// And so many times as long as a scan takes: scans are there to disturb, not to be the load.
const PAUSES: u32 = 3;

/// Wrong scans that are described.
const DESCRIBED: usize = 5;

/// Scans of all accounts: by the table itself, by an index that has the balance, by one that has it
/// behind another column.
const ACCOUNTS: [&str; 3] = [
    "SELECT COUNT(*), SUM(balance), MIN(balance) FROM account WHERE filler LIKE '0%'",
    "SELECT COUNT(*), SUM(balance), MIN(balance) FROM account",
    "SELECT COUNT(*), SUM(balance), MIN(balance) FROM account WHERE branch >= 0",
];

/// How many scans there were.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Scans {
    /// Of all accounts.
    pub accounts: u64,
    /// Snapshots whose scans, with NDP on and off and over all indexes, agreed.
    pub snapshots: u64,
    /// Of the lists, which are part of the history.
    pub lists: u64,
    /// Those of them with near-data processing.
    pub with_ndp: u64,
}

impl Scans {
    pub(super) fn add(&mut self, other: &Self) {
        self.accounts += other.accounts;
        self.snapshots += other.snapshots;
        self.lists += other.lists;
        self.with_ndp += other.with_ndp;
    }
}

/// One connection that scans until the writers are done.
pub(super) async fn scan(shared: Arc<Shared>, number: u32) -> Result<Recorded, WorkloadError> {
    let mut rng = Rng::new(shared.workload.seed, number);
    let mut connection = Connection::open(&shared, false).await?;
    if shared.workload.ndp {
        connection.execute("SET ndp_min_pages = 0", &[]).await?;
    }
    let mut recorded = Recorded::default();
    while !shared.writers_done.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let ndp = rng.chance(2);
        set_ndp(&mut connection, &shared, ndp).await?;
        recorded.scans.with_ndp += u64::from(ndp && shared.workload.ndp);
        // A transaction of SERIALIZABLE locks what it scans, so that nobody writes meanwhile.
        let serializable = shared.workload.level == Level::Serializable;
        match rng.below(4) {
            0 if !serializable || rng.chance(8) => {
                snapshot(&mut connection, &shared, &mut recorded).await?;
            }
            0 | 1 => {
                let sql = ACCOUNTS[rng.below(3) as usize];
                let rows = connection.query(sql, &[]).await?;
                accounts(&shared, sql, &rows, &mut recorded);
            }
            2 => lists(&mut connection, &shared, number, Table::List, &mut recorded).await?,
            _ => lists(&mut connection, &shared, number, Table::Item, &mut recorded).await?,
        }
        recorded.wrong.truncate(DESCRIBED);
        tokio::time::sleep(PAUSE.max(PAUSES * begin.elapsed())).await;
    }
    connection.close().await?;
    Ok(recorded)
}

async fn set_ndp(
    connection: &mut Connection,
    shared: &Shared,
    on: bool,
) -> Result<(), WorkloadError> {
    if shared.workload.ndp {
        let mode = if on { "ON" } else { "OFF" };
        connection
            .execute(&format!("SET ndp_mode = {mode}"), &[])
            .await?;
    }
    Ok(())
}

/// Checks a scan of all accounts.
fn accounts(shared: &Shared, sql: &str, rows: &Rows, recorded: &mut Recorded) {
    let cell = |at: usize| rows.first()?.get(at)?.as_deref()?.parse::<i64>().ok();
    recorded.scans.accounts += 1;
    let (Some(count), Some(total), Some(least)) = (cell(0), cell(1), cell(2)) else {
        recorded.wrong.push(format!("{sql} gives {rows:?}"));
        return;
    };
    let scan = Scan {
        accounts: count as u64,
        total,
        least,
    };
    if let Err(wrong) = bank(shared.workload.accounts).check(scan) {
        recorded.wrong.push(format!("{sql}: {wrong}"));
    }
}

/// Scans all accounts in every way in one transaction.
async fn snapshot(
    connection: &mut Connection,
    shared: &Shared,
    recorded: &mut Recorded,
) -> Result<(), WorkloadError> {
    connection.execute("BEGIN", &[]).await?;
    let mut attempt = Attempt::default();
    let steps: Step<()> = async {
        let mut least = Vec::new();
        for (round, sql) in ACCOUNTS.iter().cycle().take(6).enumerate() {
            set_ndp(connection, shared, round % 2 == 0).await?;
            let rows = connection.query(sql, &[]).await?;
            accounts(shared, sql, &rows, recorded);
            least.push(rows);
        }
        let moves = shared.workload.level == Level::ReadCommitted;
        if !moves && least.iter().any(|rows| *rows != least[0]) {
            let text = format!("scans in one snapshot give {least:?}");
            recorded.wrong.push(text);
        }
        recorded.scans.snapshots += 1;
        Ok(())
    }
    .await;
    connection.end(steps, &mut attempt).await.map(drop)
}

/// Reads the lists of the window by a scan of the whole table: the condition is on no key.
async fn lists(
    connection: &mut Connection,
    shared: &Shared,
    number: u32,
    table: Table,
    recorded: &mut Recorded,
) -> Result<(), WorkloadError> {
    let (begin, first) = (shared.now(), window(shared));
    let numbers = numbers(first);
    let sql = match table {
        Table::List => "SELECT k, n, v FROM list WHERE k + 0 >= ? AND k + 0 < ?",
        Table::Item => "SELECT k, n, e FROM item WHERE k + 0 >= ? AND k + 0 < ? ORDER BY k, n",
    };
    let range = [numbers.start as i64, numbers.end as i64];
    let rows = match connection.query(sql, &range).await.map_err(Stop::from) {
        Ok(rows) => rows,
        Err(Stop::Failed(error)) => return Err(error),
        Err(Stop::Refused(_) | Stop::RollBack) => return Ok(()),
    };
    let found = collect(table, &rows);
    let ops = numbers.map(|n| Op::Read(key(table, n), found.get(&n).cloned().unwrap_or_default()));
    recorded.transactions.push(Transaction {
        session: Session(number),
        begin,
        end: shared.now(),
        outcome: Outcome::Committed,
        ops: ops.collect(),
    });
    recorded.scans.lists += 1;
    Ok(())
}

/// The lists in the rows of a scan.
fn collect(table: Table, rows: &Rows) -> BTreeMap<u64, Box<[Element]>> {
    let number = |cell: &Option<String>| cell.as_deref().and_then(|c| c.parse::<u64>().ok());
    let mut out: BTreeMap<u64, Vec<Element>> = BTreeMap::new();
    for row in rows {
        let list = out.entry(number(&row[0]).unwrap_or(u64::MAX)).or_default();
        match table {
            Table::List => list.extend(elements(row[2].as_deref().unwrap_or_default())),
            Table::Item => list.push(Element(number(&row[2]).map_or(u32::MAX, |e| e as u32))),
        }
    }
    out.into_iter().map(|(k, list)| (k, list.into())).collect()
}

/// Reads everything once when the writers are done, so that what was lost shows, and compares every
/// index with its table.
pub(super) async fn last(shared: &Shared) -> Result<Recorded, WorkloadError> {
    let mut connection = Connection::open(shared, false).await?;
    let mut recorded = Recorded::default();
    let begin = shared.now();
    for (table, sql) in [
        (Table::List, "SELECT k, n, v FROM list"),
        (Table::Item, "SELECT k, n, e FROM item ORDER BY k, n"),
    ] {
        let found = collect(table, &connection.query(sql, &[]).await?);
        let last = window(shared) + numbers(0).end;
        // In transactions of a few lists each, as if they had been read so.
        let all: Vec<_> = (0..last).collect();
        for (part, some) in (0..).zip(all.chunks(20)) {
            let read =
                |n: &u64| Op::Read(key(table, *n), found.get(n).cloned().unwrap_or_default());
            recorded.transactions.push(Transaction {
                session: Session(u32::MAX - part),
                begin,
                end: shared.now(),
                outcome: Outcome::Committed,
                ops: some.iter().map(read).collect(),
            });
        }
    }
    for sql in ACCOUNTS {
        let rows = connection.query(sql, &[]).await?;
        accounts(shared, sql, &rows, &mut recorded);
    }
    for [table, index] in [
        [
            "SELECT COUNT(*), SUM(n) FROM list WHERE v >= ''",
            "SELECT COUNT(*), SUM(n) FROM list",
        ],
        [
            "SELECT COUNT(*), SUM(e) FROM item WHERE n > 0",
            "SELECT COUNT(*), SUM(e) FROM item WHERE e > 0",
        ],
    ] {
        let (by_table, by_index) = (
            connection.query(table, &[]).await?,
            connection.query(index, &[]).await?,
        );
        if by_table != by_index {
            let text = format!("{table} gives {by_table:?}, {index} gives {by_index:?}");
            recorded.wrong.push(text);
        }
    }
    connection.close().await?;
    Ok(recorded)
}
