//! Writes the rows of one result to a file, on a thread of its own.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use mysql_async::Value;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use tokio::sync::mpsc;

use super::columns::{Builder, Plan};
use super::definition_file;
use crate::TransferError;
use crate::files::partial::Partial;
use crate::files::{CREATE_TABLE, Format, csv};
use crate::import::CsvOptions;

/// Rows and bytes of a batch, whichever is reached first.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 16 << 20;

/// Bytes of a row group that are held in memory.
const GROUP_BYTES: usize = 128 << 20;

/// What the reader sends.
pub(super) enum Message {
    Rows(Vec<Vec<Value>>),
    /// All rows were sent. Without it there is no file.
    End,
}

/// A file.
pub(super) struct Output {
    pub path: PathBuf,
    pub plans: Vec<Plan>,
    pub create: Option<String>,
    pub format: Format,
    pub csv: CsvOptions,
    pub overwrite: bool,
}

/// Writes a file whose rows come as messages.
///
/// # Errors
/// If the disk is full or fails, or the rows end without [`Message::End`]; then there is no file.
pub(super) fn write(
    output: Output,
    messages: mpsc::Receiver<Message>,
) -> Result<(), TransferError> {
    let file = Partial::create(&output.path, output.overwrite)?;
    match output.format {
        Format::Parquet => parquet(&output, file, messages),
        Format::Csv => text(&output, file, messages),
    }
}

fn parquet(
    output: &Output,
    file: Partial,
    mut messages: mpsc::Receiver<Message>,
) -> Result<(), TransferError> {
    let fields: Vec<_> = output.plans.iter().map(Plan::field).collect();
    let schema = Arc::new(Schema::new(fields));
    let create = output.create.clone();
    let metadata = create.map(|create| vec![KeyValue::new(CREATE_TABLE.to_owned(), create)]);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(metadata)
        .build();
    let failed = |error: ParquetError| refused(output, error);
    let mut writer =
        ArrowWriter::try_new(file, schema.clone(), Some(properties)).map_err(failed)?;
    let mut builders: Vec<Builder> = output.plans.iter().map(Plan::builder).collect();
    let (mut rows, mut bytes) = (0, 0);
    loop {
        let message = messages.blocking_recv().ok_or(TransferError::Stopped)?;
        let is_last = matches!(message, Message::End);
        if let Message::Rows(more) = message {
            for row in &more {
                for ((builder, plan), value) in builders.iter_mut().zip(&output.plans).zip(row) {
                    bytes += builder.append(plan, value).map_err(TransferError::Data)?;
                }
            }
            rows += more.len();
        }
        if rows >= BATCH_ROWS || bytes >= BATCH_BYTES || (is_last && rows > 0) {
            let columns = builders.iter_mut().map(Builder::finish).collect();
            let batch = RecordBatch::try_new(schema.clone(), columns);
            let batch = batch.map_err(|error| TransferError::Data(error.to_string()))?;
            writer.write(&batch).map_err(failed)?;
            if writer.in_progress_size() >= GROUP_BYTES {
                writer.flush().map_err(failed)?;
            }
            (rows, bytes) = (0, 0);
        }
        if is_last {
            return writer.into_inner().map_err(failed)?.commit();
        }
    }
}

/// An error of the writer, which is one of the disk.
fn refused(output: &Output, error: ParquetError) -> TransferError {
    TransferError::Data(format!("write {}: {error}", output.path.display()))
}

fn text(
    output: &Output,
    mut file: Partial,
    mut messages: mpsc::Receiver<Message>,
) -> Result<(), TransferError> {
    let what = || TransferError::file(format!("write {}", output.path.display()));
    let (delimiter, null) = (output.csv.delimiter, output.csv.null.as_bytes());
    let mut lines = Vec::new();
    if output.csv.header {
        for plan in &output.plans {
            csv::write_field(&mut lines, Some(plan.name.as_bytes()), delimiter, null);
        }
        csv::end_record(&mut lines);
    }
    let mut cell = Vec::new();
    loop {
        let message = messages.blocking_recv().ok_or(TransferError::Stopped)?;
        let is_last = matches!(message, Message::End);
        if let Message::Rows(rows) = message {
            for row in &rows {
                for (plan, value) in output.plans.iter().zip(row) {
                    cell.clear();
                    let some = plan.text(value, &mut cell).map_err(TransferError::Data)?;
                    csv::write_field(&mut lines, some.then_some(cell.as_slice()), delimiter, null);
                }
                csv::end_record(&mut lines);
            }
        }
        file.write_all(&lines).map_err(what())?;
        lines.clear();
        if is_last {
            break;
        }
    }
    // The definition comes first: a file of rows has one.
    if let Some(create) = &output.create {
        let path = definition_file(&output.path);
        let mut definition = Partial::create(&path, true)?;
        definition.write_all(create.as_bytes()).map_err(what())?;
        definition.commit()?;
    }
    file.commit()
}
