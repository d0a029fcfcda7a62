//! A MySQL client over a foreign implementation of the protocol, with results as text.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, InfileData, OptsBuilder, Value};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, BufReader};

use crate::WorkloadError;

/// Rows as the server sent them: text, or NULL.
pub type Rows = Vec<Vec<Option<String>>>;

/// Bytes of a local file sent at once.
const INFILE_CHUNK: usize = 256 << 10;

/// A connection.
pub struct Client {
    conn: Conn,
}

impl Client {
    /// Connects as root without a password; `schema` is used if given.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub async fn connect(address: SocketAddr, schema: Option<&str>) -> Result<Self, WorkloadError> {
        Self::with_options(
            OptsBuilder::default()
                .ip_or_hostname(address.ip().to_string())
                .tcp_port(address.port())
                .prefer_socket(false),
            schema,
        )
        .await
    }

    /// Connects over a Unix socket, as MariaDB listens on in tests.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub async fn connect_socket(
        socket: &Path,
        schema: Option<&str>,
    ) -> Result<Self, WorkloadError> {
        let socket = socket.to_string_lossy().into_owned();
        Self::with_options(OptsBuilder::default().socket(Some(socket)), schema).await
    }

    async fn with_options(
        options: OptsBuilder,
        schema: Option<&str>,
    ) -> Result<Self, WorkloadError> {
        let options = options
            .user(Some("root"))
            .db_name(schema)
            .local_infile_handler(Some(|name: &[u8]| {
                let path = PathBuf::from(String::from_utf8_lossy(name).into_owned());
                Box::pin(async move { open_infile(path).await }) as _
            }));
        Ok(Self {
            conn: Conn::new(options).await?,
        })
    }

    /// Runs a statement and returns the rows of its first result.
    ///
    /// # Errors
    /// What the server answers, or a broken connection.
    pub async fn query(&mut self, sql: &str) -> Result<Rows, WorkloadError> {
        let rows: Vec<mysql_async::Row> = self.conn.query(sql).await?;
        Ok(rows
            .into_iter()
            .map(|row| row.unwrap().into_iter().map(text).collect())
            .collect())
    }

    /// Runs a statement that returns no rows; gives the number of affected rows.
    ///
    /// # Errors
    /// What the server answers, or a broken connection.
    pub async fn execute(&mut self, sql: &str) -> Result<u64, WorkloadError> {
        self.conn.query_drop(sql).await?;
        Ok(self.conn.affected_rows())
    }

    /// Runs a prepared statement, which the connection prepares once; returns the rows of its result,
    /// and the number of affected rows.
    ///
    /// # Errors
    /// What the server answers, or a broken connection.
    pub async fn prepared(
        &mut self,
        sql: &str,
        numbers: &[i64],
    ) -> Result<(Rows, u64), WorkloadError> {
        let values: Vec<Value> = numbers.iter().map(|n| Value::Int(*n)).collect();
        let rows: Vec<mysql_async::Row> = self.conn.exec(sql, values).await?;
        let rows = rows
            .into_iter()
            .map(|row| row.unwrap().into_iter().map(text).collect())
            .collect();
        Ok((rows, self.conn.affected_rows()))
    }

    /// The only value of the only row of a result, as a number.
    ///
    /// # Errors
    /// What the server answers, or a result of another form.
    pub async fn number(&mut self, sql: &str) -> Result<f64, WorkloadError> {
        let rows = self.query(sql).await?;
        let value = rows
            .first()
            .and_then(|row| row.last())
            .and_then(Option::as_ref);
        value
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| WorkloadError::Unexpected(format!("{sql} gives {rows:?}, not a number")))
    }

    /// Closes the connection in the protocol's way.
    ///
    /// # Errors
    /// If the connection is broken.
    pub async fn close(self) -> Result<(), WorkloadError> {
        Ok(self.conn.disconnect().await?)
    }
}

async fn open_infile(path: PathBuf) -> Result<InfileData, mysql_async::LocalInfileError> {
    let file = BufReader::with_capacity(INFILE_CHUNK, File::open(path).await?);
    let chunks = futures::stream::unfold(file, |mut file| async move {
        let mut chunk = vec![0; INFILE_CHUNK];
        match file.read(&mut chunk).await {
            Ok(0) => None,
            Ok(n) => {
                chunk.truncate(n);
                Some((Ok(chunk.into()), file))
            }
            Err(e) => Some((Err(e), file)),
        }
    });
    Ok(chunks.boxed())
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}
