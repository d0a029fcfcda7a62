//! SELECT … INTO @a, @b: the values of the only row become those of user variables. INTO a file: see [`outfile`].

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use perigee_engine::scan::CancelToken;
use perigee_value::Collation;
use sqlparser::ast::Query;

use super::outfile::Form;
use super::user_variables::UserValue;
use super::{Session, outfile, restart};
use crate::error::{Result, SqlError};
use crate::parse::{Piece, Receiver};
use crate::result::{OkResult, ResultColumn, ResultSink};

/// Runs the query, whose rows go elsewhere than to the client.
///
/// # Errors
/// Those of the query and of where the rows go.
pub(super) async fn run(
    session: &mut Session,
    query: Box<Query>,
    into: Receiver,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let (file, form) = match into {
        Receiver::Variables(names) => {
            return variables(session, query, names, piece, cancel).await;
        }
        Receiver::Lines {
            file,
            fields,
            lines,
        } => (file, Form::Lines(fields, lines)),
        Receiver::Bytes { file } => (file, Form::Bytes),
    };
    outfile::run(session, query, (&file, form), piece, cancel).await
}

/// Runs the query and sets the variables. If it gives several rows, they have the values of the first one.
///
/// # Errors
/// 1222 for another number of columns, 1172 for several rows, and those of the query.
async fn variables(
    session: &mut Session,
    query: Box<Query>,
    names: Vec<String>,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let mut row = FirstRow {
        width: names.len(),
        connection: session.variables.collation(),
        columns: Vec::new(),
        values: None,
    };
    let outcome = restart::query(session, query, piece, &mut row, cancel).await;
    let found = row.values.is_some();
    for (name, value) in names.into_iter().zip(row.values.into_iter().flatten()) {
        session.user_variables.set(name, value)?;
    }
    outcome?;
    if !found {
        session.warn("Warning", &SqlError::no_data());
    }
    Ok(OkResult {
        affected_rows: found.into(),
        ..OkResult::default()
    })
}

/// Keeps the first row.
struct FirstRow {
    /// Columns that there must be.
    width: usize,
    /// The collation of the connection.
    connection: Collation,
    columns: Vec<ResultColumn>,
    values: Option<Vec<UserValue>>,
}

#[async_trait]
impl ResultSink for FirstRow {
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        if columns.len() != self.width {
            return Err(SqlError::union_columns());
        }
        self.columns = columns.to_vec();
        Ok(())
    }

    async fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.values.is_some() {
            return Err(SqlError::several_rows());
        }
        let mut values = Vec::with_capacity(self.width);
        for (array, column) in batch.slice(0, 1).columns().iter().zip(&self.columns) {
            values.push(UserValue::of_first(array, column, self.connection)?);
        }
        self.values = Some(values);
        match batch.num_rows() {
            1 => Ok(()),
            _ => Err(SqlError::several_rows()),
        }
    }

    async fn finish(&mut self, _: u16) -> Result<()> {
        Ok(())
    }

    async fn ok(&mut self, _: OkResult) -> Result<()> {
        Ok(())
    }
}
