//! Connections to both sides, and queries whose results are small.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};

use crate::{Endpoint, TransferError};

/// A value as text; none is NULL.
pub(crate) type Cell = Option<String>;

/// What every session is told. Texts are UTF-8, points in time are in UTC, zeros stay zeros, and a side that waits for the
/// other one is not given up.
const SETTINGS: [&str; 4] = [
    "SET NAMES utf8mb4",
    "SET time_zone = '+00:00'",
    "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    "SET net_read_timeout = 86400, net_write_timeout = 86400, wait_timeout = 2592000",
];

/// Connects, and sets the session up.
pub(crate) async fn connect(server: &Endpoint) -> Result<Conn, TransferError> {
    let place = format!("connect to {}", server.place());
    let conn = Conn::new(server.opts().clone()).await;
    let mut conn = conn.map_err(TransferError::server(place))?;
    for sql in SETTINGS {
        execute(&mut conn, sql).await?;
    }
    Ok(conn)
}

/// Connects to a server that has to be Perigee.
pub(crate) async fn connect_perigee(server: &Endpoint) -> Result<Conn, TransferError> {
    let mut conn = connect(server).await?;
    let version = one(&mut conn, "SELECT VERSION()")
        .await?
        .unwrap_or_default();
    if !version.contains("perigee") {
        let text = format!("{} is not Perigee but {version}", server.place());
        return Err(TransferError::Usage(text));
    }
    Ok(conn)
}

/// Runs a statement that returns no rows.
pub(crate) async fn execute(conn: &mut Conn, sql: &str) -> Result<(), TransferError> {
    conn.query_drop(sql)
        .await
        .map_err(TransferError::server(start(sql)))
}

/// Runs a query and returns its rows.
pub(crate) async fn rows(conn: &mut Conn, sql: &str) -> Result<Vec<Vec<Cell>>, TransferError> {
    let rows: Vec<Row> = conn
        .query(sql)
        .await
        .map_err(TransferError::server(start(sql)))?;
    let cells = |row: Row| row.unwrap().into_iter().map(text).collect();
    Ok(rows.into_iter().map(cells).collect())
}

/// The first value of the first row of a query.
pub(crate) async fn one(conn: &mut Conn, sql: &str) -> Result<Cell, TransferError> {
    let first = rows(conn, sql).await?.into_iter().next();
    Ok(first.and_then(|row| row.into_iter().next()).flatten())
}

/// The only value of a query that counts.
pub(crate) async fn number(conn: &mut Conn, sql: &str) -> Result<u64, TransferError> {
    let value = one(conn, sql).await?;
    let number = value.as_deref().and_then(|text| text.parse().ok());
    number.ok_or_else(|| TransferError::Data(format!("{}: {value:?} is no number", start(sql))))
}

fn text(value: Value) -> Cell {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

/// The beginning of a statement, for messages.
fn start(sql: &str) -> String {
    const SHOWN: usize = 200;
    match sql.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &sql[..end]),
        None => sql.to_owned(),
    }
}
