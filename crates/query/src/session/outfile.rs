//! SELECT … INTO OUTFILE and INTO DUMPFILE.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, ArrayRef, BinaryViewArray, RecordBatch};
use perigee_engine::scan::CancelToken;
use perigee_value::ColumnType;
use sqlparser::ast::Query;

use super::server_file::NewFile;
use super::{Session, restart};
use crate::error::{Result, SqlError};
use crate::functions::text;
use crate::functions::types::is_bytes;
use crate::parse::{Fields, Lines, Piece};
use crate::result::{OkResult, ResultColumn, ResultSink};

/// Bytes from which on lines are written.
const BUFFER: usize = 1 << 20;

/// Characters that mean something else behind the escape character.
const ESCAPES: &[u8] = b"ntrb0ZN";

/// Characters of numbers.
const OF_NUMBERS: &[u8] = b".0123456789e+-";

/// How rows are written.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// As lines that LOAD DATA reads.
    Lines(Fields, Lines),
    /// The values of one row, and nothing else.
    Bytes,
}

/// Runs the query and writes its rows into a new file, which is removed again if that fails.
///
/// # Errors
/// 1045, 1290 and 1086 for a file that may not be written, 1172 for several rows of a DUMPFILE, those of the query.
pub(super) async fn run(
    session: &mut Session,
    query: Box<Query>,
    (name, form): (&str, Form),
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let directory = session.file_directory()?;
    let mut out = Written {
        file: NewFile::create(&directory, name).await?,
        form,
        strings: Vec::new(),
        fsps: Vec::new(),
        rows: 0,
        buffer: Vec::new(),
    };
    restart::query(session, query, piece, &mut out, cancel).await?;
    let Written {
        mut file,
        buffer,
        rows,
        ..
    } = out;
    file.write(&buffer).await?;
    file.keep().await?;
    Ok(OkResult {
        affected_rows: rows,
        ..OkResult::default()
    })
}

/// The rows of a query in a file.
struct Written {
    file: NewFile,
    form: Form,
    /// Which columns are strings, dates or times.
    strings: Vec<bool>,
    /// Digits behind the seconds of the columns.
    fsps: Vec<u8>,
    rows: u64,
    buffer: Vec<u8>,
}

/// True if the values of a column are numbers.
fn is_number(column: &ResultColumn) -> bool {
    let is_of_numbers = matches!(
        column.ty,
        Some(
            ColumnType::Int { .. }
                | ColumnType::Decimal { .. }
                | ColumnType::Float
                | ColumnType::Double
                | ColumnType::Year
        )
    );
    is_of_numbers && column.members.is_none()
}

#[async_trait]
impl ResultSink for Written {
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.strings = columns.iter().map(|column| !is_number(column)).collect();
        let fsp = |column: &ResultColumn| column.ty.and_then(ColumnType::fsp).unwrap_or(0);
        self.fsps = columns.iter().map(fsp).collect();
        Ok(())
    }

    async fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns().iter().zip(&self.fsps);
        let columns = columns.map(|(column, fsp)| {
            if is_bytes(column.data_type()) {
                return text::as_bytes(column);
            }
            let texts: ArrayRef = Arc::new(text::to_text(column, *fsp)?);
            text::as_bytes(&texts)
        });
        let columns = columns.collect::<datafusion::common::Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            self.rows += 1;
            match &self.form {
                Form::Lines(fields, lines) => {
                    let cells = columns.iter().map(|column| cell(column, row));
                    let cells = cells.zip(self.strings.iter().copied());
                    line(cells, fields, lines, &mut self.buffer);
                }
                Form::Bytes if self.rows > 1 => return Err(SqlError::several_rows()),
                Form::Bytes => {
                    // NULL is a byte 0.
                    let cells = columns.iter().map(|column| cell(column, row));
                    cells.for_each(|cell| self.buffer.extend_from_slice(cell.unwrap_or(b"\0")));
                }
            }
            if self.buffer.len() >= BUFFER {
                self.file.write(&self.buffer).await?;
                self.buffer.clear();
            }
        }
        Ok(())
    }

    async fn finish(&mut self, _: u16) -> Result<()> {
        Ok(())
    }

    async fn ok(&mut self, _: OkResult) -> Result<()> {
        Ok(())
    }
}

fn cell(column: &BinaryViewArray, row: usize) -> Option<&[u8]> {
    column.is_valid(row).then(|| column.value(row))
}

/// Appends a row: texts, and whether they are those of strings.
fn line<'c>(
    cells: impl Iterator<Item = (Option<&'c [u8]>, bool)>,
    fields: &Fields,
    lines: &Lines,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&lines.starting);
    for (number, (cell, is_string)) in cells.enumerate() {
        if number > 0 {
            out.extend_from_slice(&fields.terminated);
        }
        let enclosed = fields.enclosed.filter(|_| is_string || !fields.optionally);
        match (cell, fields.escaped) {
            (None, Some(escape)) => out.extend_from_slice(&[escape, b'N']),
            (None, None) => out.extend_from_slice(b"NULL"),
            (Some(value), escape) => {
                out.extend(enclosed);
                let separator = fields.enclosed.unwrap_or(fields.terminated[0]);
                match escape.filter(|_| is_string || OF_NUMBERS.contains(&separator)) {
                    Some(escape) => escaped(value, escape, (fields, lines, enclosed), out),
                    None => out.extend_from_slice(value),
                }
                out.extend(enclosed);
            }
        }
    }
    out.extend_from_slice(&lines.terminated);
}

/// Appends a value, of which each character that means something stands behind the escape character.
fn escaped(
    value: &[u8],
    escape: u8,
    (fields, lines, enclosed): (&Fields, &Lines, Option<u8>),
    out: &mut Vec<u8>,
) {
    let first = fields.terminated[0];
    let ends = enclosed.unwrap_or(first);
    for byte in value {
        let means_something = [escape, ends, lines.terminated[0], 0].contains(byte);
        // Behind the escape character it would be another one.
        let is_lost = enclosed.is_none() && *byte == first && ESCAPES.contains(&first);
        if means_something && !is_lost {
            let is_doubled = Some(*byte) == enclosed && ESCAPES.contains(byte);
            out.push(if is_doubled { *byte } else { escape });
        }
        out.push(if *byte == 0 && means_something {
            b'0'
        } else {
            *byte
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(terminated: &str, enclosed: Option<u8>, optionally: bool) -> Fields {
        Fields {
            terminated: terminated.into(),
            enclosed,
            optionally,
            escaped: Some(b'\\'),
        }
    }

    fn lines() -> Lines {
        Lines {
            starting: Vec::new(),
            terminated: b"\n".to_vec(),
        }
    }

    fn written(cells: &[(Option<&[u8]>, bool)], fields: &Fields) -> String {
        let mut out = Vec::new();
        line(cells.iter().copied(), fields, &lines(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn a_line_is_that_of_mysql() {
        let cells: [(Option<&[u8]>, bool); 4] = [
            (Some(b"1"), false),
            (Some(b"a\tb,\"c\"\\\n\0"), true),
            (None, true),
            (Some(b"-2.5"), false),
        ];
        let plain = fields("\t", None, false);
        assert_eq!(
            written(&cells, &plain),
            "1\ta\\\tb,\"c\"\\\\\\\n\\0\t\\N\t-2.5\n"
        );
        let all = fields(",", Some(b'"'), false);
        assert_eq!(
            written(&cells, &all),
            "\"1\",\"a\tb,\\\"c\\\"\\\\\\\n\\0\",\\N,\"-2.5\"\n"
        );
        let strings = fields(",", Some(b'"'), true);
        assert_eq!(
            written(&cells, &strings),
            "1,\"a\tb,\\\"c\\\"\\\\\\\n\\0\",\\N,-2.5\n"
        );
        let unescaped = Fields {
            escaped: None,
            ..fields(",", Some(b'\''), true)
        };
        assert_eq!(
            written(&[(Some(b"it's"), true), (None, true)], &unescaped),
            "'it's',NULL\n"
        );
    }
}
