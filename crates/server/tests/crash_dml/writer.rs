//! A connection that changes rows of its own in transactions, and knows which rows there must be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use perigee_workload::{Client, WorkloadError};

/// Ids of a writer's rows: few, so that rows are changed, deleted and inserted again.
const IDS: u64 = 120;

/// Rows of a statement that changes many.
const MANY: u64 = 200;

/// Accounts that all writers share, and what each begins with.
pub const ACCOUNTS: u64 = 40;
pub const BALANCE: u64 = 1000;

/// Errors that other writers explain: lock wait timeout, deadlock, a record changed since the snapshot.
const EXPECTED: [u16; 3] = [1205, 1213, 1020];

/// The value of `l` that goes with a value of `s`: for one row in eight one that does not fit into it.
pub fn long(id: u64, s: &str) -> String {
    match id % 8 {
        0 => format!("RPAD(CONCAT({s}, '#'), {}, {s})", 9000 + 5000 * (id % 3)),
        _ => "NULL".to_owned(),
    }
}

/// The same as an expression over the row.
pub const LONG: &str =
    "IF(id % 8 = 0 AND id < 1000, RPAD(CONCAT(s, '#'), 9000 + 5000 * (id % 3), s), NULL)";

/// A row beside its id.
pub type Row = (i64, String);

/// The rows of one writer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// As of the last commit that was acknowledged.
    pub committed: BTreeMap<u64, Row>,
    /// As of a commit that was sent and not answered.
    pub perhaps: Option<BTreeMap<u64, Row>>,
}

/// What the writers of a round share.
#[derive(Default)]
pub struct Load {
    acknowledged: AtomicU64,
    stopped: AtomicBool,
}

impl Load {
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Makes the tables; the rows of writer 99 are there for a transaction that never ends.
pub async fn create(client: &mut Client) {
    let held: Vec<_> = (0..500)
        .map(|id| {
            let s = format!("'row {id}'");
            format!("(99, {id}, {}, {s}, {})", 99_000_000 + id, long(id, &s))
        })
        .collect();
    let accounts: Vec<_> = (0..ACCOUNTS)
        .map(|id| format!("({id}, {BALANCE})"))
        .collect();
    for sql in [
        "CREATE DATABASE c",
        "USE c",
        "CREATE TABLE d (c INT NOT NULL, id INT NOT NULL, n BIGINT NOT NULL, s VARCHAR(200), \
         l TEXT, PRIMARY KEY (c, id), KEY by_n (n), KEY by_s (s), UNIQUE KEY once (c, n))",
        "CREATE TABLE account (id INT NOT NULL, balance INT NOT NULL, PRIMARY KEY (id), \
         KEY balance (balance))",
        &format!("INSERT INTO d VALUES {}", held.join(", ")),
        &format!("INSERT INTO account VALUES {}", accounts.join(", ")),
    ] {
        client.execute(sql).await.unwrap();
    }
}

/// One writer in one round.
pub struct Writer {
    number: usize,
    rows: Rows,
    random: u64,
    load: Arc<Load>,
}

/// Why a transaction did not end well.
enum Failed {
    /// It is rolled back.
    Refused,
    /// The connection is gone.
    Broken,
}

impl Writer {
    pub fn new(number: usize, rows: Rows, random: u64, load: Arc<Load>) -> Self {
        Self {
            number,
            rows,
            random: random | 1,
            load,
        }
    }

    /// Runs transactions until the connection breaks or it is told to stop.
    pub async fn run(mut self, mut client: Client) -> Rows {
        while !self.load.stopped.load(Ordering::Relaxed) {
            match self.transaction(&mut client).await {
                Ok(()) => drop(self.load.acknowledged.fetch_add(1, Ordering::Relaxed)),
                Err(Failed::Refused) => {
                    if self.execute(&mut client, "ROLLBACK").await.is_err() {
                        break;
                    }
                }
                Err(Failed::Broken) => break,
            }
        }
        self.rows
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % n
    }

    async fn execute(&self, client: &mut Client, sql: &str) -> Result<u64, Failed> {
        client
            .execute(sql)
            .await
            .map_err(|error| self.failed(sql, &error))
    }

    fn failed(&self, sql: &str, error: &WorkloadError) -> Failed {
        match error.code() {
            Some(code) if EXPECTED.contains(&code) => Failed::Refused,
            // What a server says that is about to end, or has lost its stores.
            Some(1053 | 1105 | 1317 | 1030 | 1180 | 4031) => Failed::Broken,
            Some(_) => panic!("writer {}: {sql}: {error}", self.number),
            None => Failed::Broken,
        }
    }

    /// One transaction; one of a single statement sometimes.
    async fn transaction(&mut self, client: &mut Client) -> Result<(), Failed> {
        let mut rows = self.rows.committed.clone();
        if self.below(6) == 0 {
            let sql = self.change(&mut rows);
            self.rows.perhaps = Some(rows);
            let done = self.execute(client, &sql).await;
            return self.ended(done.map(drop));
        }
        self.execute(client, "BEGIN").await?;
        for _ in 0..1 + self.below(5) {
            if self.below(5) == 0 {
                self.undone(client).await?;
            }
            let sql = self.change(&mut rows);
            self.execute(client, &sql).await?;
        }
        if self.below(3) == 0 {
            self.transfer(client).await?;
        }
        if self.below(8) == 0 {
            return self.execute(client, "ROLLBACK").await.map(drop);
        }
        self.rows.perhaps = Some(rows);
        let done = self.execute(client, "COMMIT").await;
        self.ended(done.map(drop))
    }

    /// Takes note of how a commit ended.
    fn ended(&mut self, done: Result<(), Failed>) -> Result<(), Failed> {
        match done {
            Ok(()) => self.rows.committed = self.rows.perhaps.take().unwrap(),
            Err(Failed::Refused) => self.rows.perhaps = None,
            Err(Failed::Broken) => {}
        }
        done
    }

    /// Changes rows and takes that back within the transaction.
    async fn undone(&mut self, client: &mut Client) -> Result<(), Failed> {
        let mut rows = self.rows.committed.clone();
        self.execute(client, "SAVEPOINT a").await?;
        let sql = self.change(&mut rows);
        // What the transaction inserted before may be in its way: then it is undone all the same.
        match client.execute(&sql).await {
            Err(error) if error.code() != Some(1062) => return Err(self.failed(&sql, &error)),
            _ => {}
        }
        self.execute(client, "ROLLBACK TO SAVEPOINT a")
            .await
            .map(drop)
    }

    /// A statement that changes rows, and the same change of the rows in memory.
    fn change(&mut self, rows: &mut BTreeMap<u64, Row>) -> String {
        let (c, id) = (self.number, self.below(IDS));
        match (self.below(20), rows.contains_key(&id)) {
            (0, _) => self.many(rows),
            (1..=5, true) => {
                rows.remove(&id);
                format!("DELETE FROM d WHERE c = {c} AND id = {id}")
            }
            (6..=9, _) => {
                let low = self.below(IDS);
                let high = low + 10;
                for (_, (n, s)) in rows.range_mut(low..high) {
                    *n += 1_000_000;
                    *s = format!("u{}", &s[..s.len().min(60)]);
                }
                format!(
                    "UPDATE d SET n = n + 1000000, s = CONCAT('u', LEFT(s, 60)), l = {LONG} \
                     WHERE c = {c} AND id >= {low} AND id < {high}"
                )
            }
            (_, there) => {
                let n = (self.below(1000) * MANY * 1000 + id) as i64;
                // From a few bytes to much of a row, so that pages split and merge.
                let s = format!(
                    "{:0width$}",
                    self.below(100_000),
                    width = 5 + self.below(150) as usize
                );
                rows.insert(id, (n, s.clone()));
                let l = long(id, &format!("'{s}'"));
                match there {
                    true => format!(
                        "UPDATE d SET n = {n}, s = '{s}', l = {l} WHERE c = {c} AND id = {id}"
                    ),
                    false => format!("INSERT INTO d VALUES ({c}, {id}, {n}, '{s}', {l})"),
                }
            }
        }
    }

    /// Inserts many rows, or deletes them if they are there.
    fn many(&mut self, rows: &mut BTreeMap<u64, Row>) -> String {
        let (c, first) = (self.number, 1000);
        if rows.range(first..).next().is_some() {
            rows.retain(|id, _| *id < first);
            return format!("DELETE FROM d WHERE c = {c} AND id >= {first}");
        }
        let mut values = Vec::new();
        for id in first..first + MANY {
            let row = (
                -(id as i64) - 1,
                format!("many {id} {:0>100}", self.below(100)),
            );
            values.push(format!("({c}, {id}, {}, '{}', NULL)", row.0, row.1));
            rows.insert(id, row);
        }
        format!("INSERT INTO d VALUES {}", values.join(", "))
    }

    /// Moves money between two accounts.
    async fn transfer(&mut self, client: &mut Client) -> Result<(), Failed> {
        let (from, to, amount) = (self.below(ACCOUNTS), self.below(ACCOUNTS), self.below(20));
        for (sign, id) in [("-", from), ("+", to)] {
            let sql =
                format!("UPDATE account SET balance = balance {sign} {amount} WHERE id = {id}");
            self.execute(client, &sql).await?;
        }
        Ok(())
    }
}
