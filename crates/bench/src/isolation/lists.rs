//! Lists in two tables. In `list` a list is one row: an append changes its text, its length and with
//! that an entry of a secondary index. In `item` every element is a row: an append inserts one behind
//! those that were read, so that readers of a key range would meet phantoms.
//!
//! Transactions work on a window of few lists that moves on, so that they meet and lists stay short.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use perigee_history::{Element, Key, Op, Outcome};

use super::Shared;
use super::rng::Rng;
use super::session::{Attempt, Connection, Step, Stop};
use perigee_workload::{Client, Rows, WorkloadError};

/// Lists of a table that transactions work on at one time.
const WINDOW: u64 = 8;

/// Elements given out, to both tables, until the window moves on by one list of each.
const PER_LIST: u64 = 40;

/// Most elements that a transaction of the workload may take, for how many lists there must be.
const PER_TRANSACTION: u64 = 2;

/// Lists of each table for so many transactions.
fn lists(transactions: u64) -> u64 {
    WINDOW + transactions * PER_TRANSACTION / PER_LIST
}

/// Which table a list is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    List,
    Item,
}

/// The key in the history of a list.
pub(super) fn key(table: Table, number: u64) -> Key {
    let table = match table {
        Table::List => 0,
        Table::Item => 1,
    };
    Key(2 * number as u32 + table)
}

/// Makes the tables.
pub(super) async fn create(client: &mut Client, transactions: u64) -> Result<(), WorkloadError> {
    for sql in [
        "CREATE TABLE list (k INT NOT NULL, n INT NOT NULL, v VARCHAR(2000) NOT NULL, \
         PRIMARY KEY (k), KEY n (n))",
        "CREATE TABLE item (k INT NOT NULL, n INT NOT NULL, e INT NOT NULL, \
         PRIMARY KEY (k, n), UNIQUE KEY e (e))",
    ] {
        client.execute(sql).await?;
    }
    let numbers: Vec<_> = (0..lists(transactions)).collect();
    for some in numbers.chunks(1000) {
        let mut sql = String::from("INSERT INTO list VALUES ");
        for (at, number) in some.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(sql, "{comma}({number},0,'')");
        }
        client.execute(&sql).await?;
    }
    Ok(())
}

/// The first list of the window.
pub(super) fn window(shared: &Shared) -> u64 {
    let given = u64::from(shared.elements.load(Ordering::Relaxed));
    let last = lists(shared.workload.transactions) - WINDOW;
    (given / PER_LIST).min(last)
}

/// Numbers of the lists of the window that begins there.
pub(super) fn numbers(first: u64) -> std::ops::Range<u64> {
    first..first + WINDOW
}

/// A random transaction.
pub(super) async fn transaction(
    connection: &mut Connection,
    shared: &Shared,
    rng: &mut Rng,
    attempt: &mut Attempt,
) -> Result<Outcome, WorkloadError> {
    if rng.chance(10) {
        return single(connection, shared, rng, attempt).await;
    }
    connection.execute("BEGIN", &[]).await?;
    let steps = steps(connection, shared, rng, attempt).await;
    connection.end(steps, attempt).await
}

/// A transaction of one statement that commits itself.
async fn single(
    connection: &mut Connection,
    shared: &Shared,
    rng: &mut Rng,
    attempt: &mut Attempt,
) -> Result<Outcome, WorkloadError> {
    let number = window(shared) + rng.below(WINDOW);
    let done = match rng.below(3) {
        0 => append_text(connection, shared, number, attempt).await,
        1 => read(connection, Table::List, number, "", attempt)
            .await
            .map(drop),
        _ => read(connection, Table::Item, number, "", attempt)
            .await
            .map(drop),
    };
    match done {
        Ok(()) => Ok(Outcome::Committed),
        Err(Stop::Failed(error)) => Err(error),
        Err(Stop::RollBack) => Ok(Outcome::Aborted),
        Err(Stop::Refused(code)) => {
            attempt.error = Some(code);
            Ok(Outcome::Aborted)
        }
    }
}

async fn steps(
    connection: &mut Connection,
    shared: &Shared,
    rng: &mut Rng,
    attempt: &mut Attempt,
) -> Step<()> {
    for _ in 0..1 + rng.below(4) {
        let number = window(shared) + rng.below(WINDOW);
        let table = match rng.chance(3) {
            true => Table::Item,
            false => Table::List,
        };
        let lock = match rng.below(12) {
            0 => " FOR UPDATE",
            1 => " FOR UPDATE NOWAIT",
            _ => "",
        };
        match (rng.below(2), table) {
            (0, _) => drop(read(connection, table, number, lock, attempt).await?),
            (_, Table::List) if rng.chance(12) => {
                undone(connection, shared, number, attempt).await?;
            }
            (_, Table::List) => append_text(connection, shared, number, attempt).await?,
            (_, Table::Item) => append_row(connection, shared, number, lock, attempt).await?,
        }
    }
    match rng.chance(30) {
        true => Err(Stop::RollBack),
        false => Ok(()),
    }
}

fn element(shared: &Shared) -> u32 {
    shared.elements.fetch_add(1, Ordering::Relaxed)
}

async fn append_text(
    connection: &mut Connection,
    shared: &Shared,
    number: u64,
    attempt: &mut Attempt,
) -> Step<()> {
    let element = element(shared);
    let sql = "UPDATE list SET v = CONCAT(v, ',', ?), n = n + 1 WHERE k = ?";
    let rows = connection
        .execute(sql, &[element.into(), number as i64])
        .await?;
    if rows != 1 {
        let text = format!("UPDATE of list {number} changes {rows} rows");
        attempt.wrong.push(text);
    }
    let key = key(Table::List, number);
    attempt.ops.push(Op::Append(key, Element(element)));
    Ok(())
}

/// Appends and undoes that: nobody may ever see the element.
async fn undone(
    connection: &mut Connection,
    shared: &Shared,
    number: u64,
    attempt: &mut Attempt,
) -> Step<()> {
    connection.execute("SAVEPOINT s", &[]).await?;
    let ops = attempt.ops.len();
    append_text(connection, shared, number, attempt).await?;
    attempt.ops.truncate(ops);
    connection.execute("ROLLBACK TO SAVEPOINT s", &[]).await?;
    Ok(())
}

/// Reads a list and inserts the element behind its last.
async fn append_row(
    connection: &mut Connection,
    shared: &Shared,
    number: u64,
    lock: &str,
    attempt: &mut Attempt,
) -> Step<()> {
    let length = read(connection, Table::Item, number, lock, attempt).await?;
    let element = element(shared);
    let sql = "INSERT INTO item (k, n, e) VALUES (?, ?, ?)";
    let row = [number as i64, length as i64 + 1, element.into()];
    connection.execute(sql, &row).await?;
    let key = key(Table::Item, number);
    attempt.ops.push(Op::Append(key, Element(element)));
    Ok(())
}

/// Reads a list; returns its length.
async fn read(
    connection: &mut Connection,
    table: Table,
    number: u64,
    lock: &str,
    attempt: &mut Attempt,
) -> Step<usize> {
    let list = match table {
        Table::List => {
            let sql = format!("SELECT n, v FROM list WHERE k = ?{lock}");
            let rows = connection.query(&sql, &[number as i64]).await?;
            text_list(&rows, number, attempt)
        }
        Table::Item => {
            let sql = format!("SELECT e, n FROM item WHERE k = ? ORDER BY n{lock}");
            let rows = connection.query(&sql, &[number as i64]).await?;
            row_list(&rows, number, attempt)
        }
    };
    let length = list.len();
    attempt.ops.push(Op::Read(key(table, number), list));
    Ok(length)
}

/// The list in the only row of a result `n, v`.
fn text_list(rows: &Rows, number: u64, attempt: &mut Attempt) -> Box<[Element]> {
    let cells = match rows.as_slice() {
        [row] => [row[0].as_deref(), row[1].as_deref()],
        _ => [None, None],
    };
    let [Some(n), Some(v)] = cells else {
        let text = format!("list {number} is {rows:?}");
        attempt.wrong.push(text);
        return Box::default();
    };
    let list = elements(v);
    if n.parse() != Ok(list.len()) {
        attempt
            .wrong
            .push(format!("list {number} has length {n} and elements {v}"));
    }
    list
}

/// The elements of a text.
pub(super) fn elements(text: &str) -> Box<[Element]> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| Element(part.parse().unwrap_or(u32::MAX)))
        .collect()
}

/// The list in the rows of a result `e, n`, numbered from one without a gap.
fn row_list(rows: &Rows, number: u64, attempt: &mut Attempt) -> Box<[Element]> {
    let cell = |row: &[Option<String>], at: usize| row[at].as_deref().and_then(|c| c.parse().ok());
    let places = rows.iter().map(|row| cell(row, 1));
    if !places.eq((1..=rows.len() as u32).map(Some)) {
        attempt
            .wrong
            .push(format!("list {number} has the rows {rows:?}"));
    }
    rows.iter()
        .map(|row| Element(cell(row, 0).unwrap_or(u32::MAX)))
        .collect()
}
