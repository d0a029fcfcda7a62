//! Rows of CSV and Parquet files as lines of LOAD DATA, and the way from a row that the target refuses back to its file.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::executor::block_on;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tokio::sync::mpsc;

use super::CsvOptions;
use super::copy::{Job, Source};
use super::load::{self, Part};
use super::read::{Field, Form, Out};
use crate::TransferError;
use crate::checksum::Tally;
use crate::files::Format;
use crate::files::arrow_text::Cells;
use crate::files::csv::{Reader, Record};
use crate::kind::Kind;
use crate::progress::Progress;
use crate::readers::Stop;

/// Rows of a Parquet file that are decoded at once.
const BATCH: usize = 8192;

/// Bytes that the reader may be ahead of the target.
const AHEAD: usize = 4 << 20;

/// Rows of files.
pub(crate) struct Rows {
    pub csv: CsvOptions,
    pub tables: Vec<FileTable>,
}

/// The files of a table.
#[derive(Clone, Debug)]
pub(crate) struct FileTable {
    pub schema: String,
    pub name: String,
    pub files: Vec<PathBuf>,
}

impl FileTable {
    pub(crate) fn shown(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

pub(super) type Parquet = ParquetRecordBatchReaderBuilder<File>;

/// Opens a Parquet file.
pub(super) fn open(path: &Path) -> Result<Parquet, TransferError> {
    let file = File::open(path).map_err(TransferError::file(format!("open {}", path.display())))?;
    let opened = Parquet::try_new(file);
    opened.map_err(|error| TransferError::Data(format!("{}: {error}", path.display())))
}

/// The names of a file's columns; none if it does not say them.
pub(super) fn names(path: &Path, csv: &CsvOptions) -> Result<Option<Vec<String>>, TransferError> {
    if Format::of(path) == Some(Format::Parquet) {
        let file = open(path)?;
        let names = file
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone());
        return Ok(Some(names.collect()));
    }
    if !csv.header {
        return Ok(None);
    }
    let mut record = Record::default();
    let mut reader = records(path, csv)?;
    let any = reader.next(&mut record);
    match any.map_err(|error| TransferError::Data(format!("{}: {error}", path.display())))? {
        true => {
            let fields = record.fields(b"").map(|field| field.unwrap_or_default());
            let names = fields.map(|name| String::from_utf8_lossy(name).trim().to_owned());
            Ok(Some(names.collect()))
        }
        false => Err(TransferError::Data(format!(
            "{} is empty: it has no line with names of columns",
            path.display()
        ))),
    }
}

fn records(path: &Path, csv: &CsvOptions) -> Result<Reader<BufReader<File>>, TransferError> {
    let file = File::open(path).map_err(TransferError::file(format!("open {}", path.display())))?;
    Ok(Reader::new(
        BufReader::with_capacity(1 << 18, file),
        csv.delimiter,
    ))
}

/// For each field its place in the records of a file.
pub(super) fn places(
    path: &Path,
    csv: &CsvOptions,
    fields: &[Field],
) -> Result<Vec<usize>, TransferError> {
    let Some(names) = names(path, csv)? else {
        return Ok((0..fields.len()).collect());
    };
    let place = |field: &Field| {
        let found = names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(&field.name));
        found.ok_or_else(|| {
            TransferError::Data(format!(
                "{} has no column {}, which another file of the table has",
                path.display(),
                field.name
            ))
        })
    };
    let found = fields.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    match names.len() == fields.len() {
        true => Ok(found),
        false => Err(TransferError::Data(format!(
            "{} has {} columns, and other files of the table have {}",
            path.display(),
            names.len(),
            fields.len()
        ))),
    }
}

/// Sends the rows of a table's files, one file after the other.
pub(crate) async fn rows(
    source: &Arc<Source>,
    job: &Arc<Job>,
    to: Option<mpsc::Sender<Part>>,
    (progress, stop): (&Progress, &Stop),
) -> Result<Tally, TransferError> {
    let (send, blocks) = load::blocks(AHEAD);
    let send = match to {
        Some(to) => {
            let sent = to.send(Part { blocks, last: true }).await;
            sent.map_err(|_| TransferError::Stopped)?;
            Some(send)
        }
        None => None,
    };
    let (source, job, progress, stop) =
        (source.clone(), job.clone(), progress.clone(), stop.clone());
    let read = tokio::task::spawn_blocking(move || {
        let Source::Files(rows) = source.as_ref() else {
            return Err(TransferError::Stopped);
        };
        let mut out = Out::new(send.as_ref(), &progress, &stop);
        for path in rows.files(&job) {
            rows.file(path, &job.fields, &mut out)?;
        }
        block_on(out.end())
    });
    read.await
        .unwrap_or_else(|panic| Err(TransferError::Data(panic.to_string())))
}

impl Rows {
    fn files<'a>(&'a self, job: &Job) -> &'a [PathBuf] {
        let own = self
            .tables
            .iter()
            .find(|table| table.schema == job.schema && table.name == job.table);
        own.map_or(&[], |table| table.files.as_slice())
    }

    fn file(&self, path: &Path, fields: &[Field], out: &mut Out<'_>) -> Result<(), TransferError> {
        let places = places(path, &self.csv, fields)?;
        match Format::of(path) {
            Some(Format::Parquet) => parquet(path, fields, &places, out),
            _ => self.text(path, fields, &places, out),
        }
    }

    fn text(
        &self,
        path: &Path,
        fields: &[Field],
        places: &[usize],
        out: &mut Out<'_>,
    ) -> Result<(), TransferError> {
        let bad = |text: String| TransferError::Data(format!("{}: {text}", path.display()));
        let mut reader = records(path, &self.csv)?;
        let mut record = Record::default();
        if self.csv.header {
            reader
                .next(&mut record)
                .map_err(|error| bad(error.to_string()))?;
        }
        let null = self.csv.null.as_bytes();
        let form = Kind::form_of_file as Form;
        while reader
            .next(&mut record)
            .map_err(|error| bad(error.to_string()))?
        {
            if record.len() != fields.len() {
                let text = format!(
                    "line {}: {} fields, and there are {} columns",
                    record.line,
                    record.len(),
                    fields.len()
                );
                return Err(bad(text));
            }
            let values: Vec<_> = record.fields(null).collect();
            if out.row(fields, form, places.iter().map(|place| values[*place])) {
                block_on(out.flush())?;
            }
        }
        Ok(())
    }

    /// Names the file and the line of a row that the target refuses, which tells its number among all that were sent.
    pub(super) fn located(&self, job: &Job, error: TransferError) -> TransferError {
        let TransferError::Server { what, cause } = error else {
            return error;
        };
        let text = crate::error::said(&cause);
        let Some(number) = row_number(&text) else {
            return TransferError::Server { what, cause };
        };
        let place = self.place(job, number);
        TransferError::Data(format!("{}: {text}", place.unwrap_or(what)))
    }

    /// The place of a row, from 1.
    fn place(&self, job: &Job, mut number: u64) -> Option<String> {
        for path in self.files(job) {
            if Format::of(path) == Some(Format::Parquet) {
                let rows = open(path).ok()?.metadata().file_metadata().num_rows() as u64;
                if number <= rows {
                    return Some(format!("{}, row {number}", path.display()));
                }
                number -= rows;
                continue;
            }
            let mut reader = records(path, &self.csv).ok()?;
            let mut record = Record::default();
            if self.csv.header {
                reader.next(&mut record).ok()?;
            }
            while reader.next(&mut record).ok()? {
                number -= 1;
                if number == 0 {
                    return Some(format!("{}, line {}", path.display(), record.line));
                }
            }
        }
        None
    }
}

/// The number of a row in a message such as `… for column 'a' at row 5`.
fn row_number(text: &str) -> Option<u64> {
    let at = text.to_ascii_lowercase().rfind("row ")?;
    let digits: String = text[at + 4..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok().filter(|number| *number > 0)
}

fn parquet(
    path: &Path,
    fields: &[Field],
    places: &[usize],
    out: &mut Out<'_>,
) -> Result<(), TransferError> {
    let bad = |text: String| TransferError::Data(format!("{}: {text}", path.display()));
    let reader = open(path)?.with_batch_size(BATCH).build();
    let form = Kind::form_of_file as Form;
    let mut before = 0;
    let mut cells: Vec<Vec<u8>> = vec![Vec::new(); fields.len()];
    let mut present = vec![false; fields.len()];
    for batch in reader.map_err(|error| bad(error.to_string()))? {
        let batch = batch.map_err(|error| bad(error.to_string()))?;
        let columns: Vec<_> = places
            .iter()
            .map(|place| Cells::new(batch.column(*place)))
            .collect();
        for row in 0..batch.num_rows() {
            for (at, (column, field)) in columns.iter().zip(fields).enumerate() {
                cells[at].clear();
                let some = column.text(row, field.kind, &mut cells[at]);
                let number = before + row + 1;
                present[at] = some
                    .map_err(|text| bad(format!("row {number}, column {}: {text}", field.name)))?;
            }
            let values = cells
                .iter()
                .zip(&present)
                .map(|(cell, some)| some.then_some(cell.as_slice()));
            if out.row(fields, form, values) {
                block_on(out.flush())?;
            }
        }
        before += batch.num_rows();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_in_messages() {
        assert_eq!(
            row_number("error 1366 (HY000): Incorrect integer value: 'x' for column 'a' at row 12"),
            Some(12)
        );
        assert_eq!(row_number("Row 3 was truncated"), Some(3));
        assert_eq!(row_number("Duplicate entry '1' for key 'PRIMARY'"), None);
    }
}
