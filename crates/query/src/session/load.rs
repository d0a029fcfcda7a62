//! LOAD DATA: the file, the client's or the server's, is cut into blocks of whole lines, which several threads turn
//! into records while the next ones arrive; the engine gets them in the order of the file.
//!
//! The first bad line ends the statement with an error that names its number and column, and
//! everything is undone. (MySQL would turn errors of LOCAL into warnings and keep the rest, as IGNORE does here.)

mod lines;
mod rows;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use perigee_engine::catalog::{ColumnDef, Table};
use perigee_engine::scan::CancelToken;
use perigee_engine::{BulkLoad, Chunk, Encoder};
use perigee_value::{
    ColumnType, Datum, Now, RowError, ValueError, ValueErrorKind, Zone, format_value, parse_text,
};
use tokio::task::{JoinHandle, spawn_blocking};

use super::Session;
use super::auto_increment::Generator;
use super::checks::Checks;
use super::dml::is_moment;
use super::generated::GeneratedColumns;
use super::insert::{Targets, engine_error, row_error, value_error};
use super::server_file::ServerFile;
use crate::error::{Result, SqlError};
use crate::parse::{Field, LoadData, Piece};
use crate::result::{LocalFile, OkResult};
use lines::{Format, LineError};

/// Bytes of a block: enough that sorting its records pays, few enough that memory stays small.
const BLOCK: usize = 4 << 20;

/// Longest line; a file whose terminator never comes must not fill the memory.
const MAX_LINE: usize = 64 << 20;

/// Runs a LOAD DATA.
pub(super) async fn run(
    session: &mut Session,
    statement: &LoadData,
    file: &mut dyn LocalFile,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let table = session.named_table(&statement.table)?;
    if !table.def.is_temporary() {
        session.check_writable()?;
    }
    session.check_locked(&table, true)?;
    let mut own;
    let file = match statement.local {
        true => file,
        false => {
            own = ServerFile::new(session.file_directory()?);
            &mut own as &mut dyn LocalFile
        }
    };
    if rows::are_needed(session, &table, statement) {
        let meaning = rows::Meaning::of(&table, statement)?;
        return rows::run(session, (statement, meaning), file, piece, cancel).await;
    }
    let columns = statement.columns.iter().flatten();
    let names: Vec<&str> = columns
        .map(|(Field::Column(name) | Field::Variable(name))| name.as_str())
        .collect();
    let targets = Targets::named(&table, &names)?;
    let engine = session.frontend.engine.clone();
    let generator = Generator::new(session, &table).await?;
    let plan = Plan {
        checks: Checks::of(&table.def, session.zone())?,
        generated: GeneratedColumns::of(&table.def, session.zone())?,
        cancel: cancel.clone(),
        zero_dates: session.zero_dates(),
        zone: session.zone(),
        ..Plan::new(
            &engine,
            &table,
            &targets,
            generator,
            statement,
            session.now(),
        )
    };
    let plan = Arc::new(plan);
    file.open(&statement.file).await?;
    let transaction = session.load_transaction();
    let mut load = engine.bulk_load_as(transaction, &table, cancel).await?;
    // Rows are numbered in the order of the file.
    let workers = match plan.numbered {
        Some(_) => 0,
        None => session.frontend.config.threads.max(1),
    };
    match transfer(&plan, &mut load, file, workers, cancel).await {
        Ok(()) => {
            let rows = load
                .finish()
                .await
                .map_err(|e| engine_error(e, &table, 0))?;
            let last_insert_id = session.note_numbers(&mut plan.generator.lock());
            let info = format!("Records: {rows}  Deleted: 0  Skipped: 0  Warnings: 0");
            Ok(OkResult {
                affected_rows: rows,
                last_insert_id,
                info,
                ..OkResult::default()
            })
        }
        Err(error) => {
            load.rollback().await?;
            Err(error)
        }
    }
}

/// What every block needs.
struct Plan {
    engine: Arc<perigee_engine::Engine>,
    table: Arc<Table>,
    format: Format,
    /// Table column of each field.
    columns: Vec<usize>,
    /// Text of each table column's default.
    defaults: Vec<Option<Vec<u8>>>,
    ignore_lines: u64,
    /// 0000-00-00 is a date.
    zero_dates: bool,
    /// The time zone of the texts.
    zone: Zone,
    /// The AUTO_INCREMENT column.
    numbered: Option<usize>,
    generator: Mutex<Generator>,
    checks: Option<Checks>,
    generated: Option<GeneratedColumns>,
    cancel: CancelToken,
}

/// A column with its text; none is NULL.
type Text = (usize, Option<Vec<u8>>);

impl Plan {
    fn new(
        engine: &Arc<perigee_engine::Engine>,
        table: &Arc<Table>,
        targets: &Targets,
        generator: Generator,
        statement: &LoadData,
        now: Now,
    ) -> Self {
        let default_text = |(value, column): (Datum, &ColumnDef)| {
            if value.is_null() {
                return None;
            }
            let mut text = String::new();
            // The records are made from texts as they are stored: of an ENUM from its number.
            format_value(column.ty, value.as_ref(), &mut text);
            Some(text.into_bytes())
        };
        let defaults = targets
            .defaults(now)
            .into_iter()
            .zip(&table.def.columns)
            .map(default_text)
            .collect();
        Self {
            engine: engine.clone(),
            table: table.clone(),
            format: Format::new(&statement.fields, &statement.lines),
            columns: targets.columns().to_vec(),
            defaults,
            ignore_lines: statement.ignore_lines,
            zero_dates: false,
            zone: Zone::Utc,
            numbered: generator.column(),
            generator: Mutex::new(generator),
            checks: None,
            generated: None,
            cancel: CancelToken::new(),
        }
    }

    /// The records of a block of whole lines.
    fn encode(&self, encoder: &Encoder, block: &[u8]) -> std::result::Result<Chunk, BadLine> {
        let count = self.format.lines(block).count() as u64;
        let mut chunk = encoder.chunk(self.engine.row_ids(&self.table, count));
        for (number, line) in self.format.lines(block).enumerate() {
            let bad = |error| BadLine {
                number: number as u64,
                error,
            };
            let mut fields: Vec<lines::Field<'_>> = Vec::with_capacity(self.columns.len());
            self.format
                .split(line, &mut fields)
                .map_err(|e| bad(self.line_error(&e)))?;
            if fields.len() != self.columns.len() {
                return Err(bad(LineProblem::Fields(fields.len())));
            }
            let mut row: Vec<Option<&[u8]>> = self.defaults.iter().map(Option::as_deref).collect();
            let forms = self.stored_forms(&fields).map_err(bad)?;
            for ((field, form), column) in fields.iter().zip(&forms).zip(&self.columns) {
                row[*column] = form.as_deref().or(field.as_deref());
            }
            let number;
            if let Some(column) = self.numbered {
                number = self.number(row[column]).map_err(bad)?;
                row[column] = number.as_deref().or(row[column]);
            }
            let computed = self.computed(&row).map_err(bad)?;
            for (place, text) in &computed {
                row[*place] = text.as_deref();
            }
            encoder
                .push_text(&mut chunk, &row)
                .map_err(|e| bad(LineProblem::Row(e)))?;
            self.check(&row).map_err(bad)?;
        }
        encoder.finish(&mut chunk);
        Ok(chunk)
    }

    /// The values of a row, given by the texts that are stored; none if one does not fit.
    fn values(&self, row: &[Option<&[u8]>]) -> Option<Vec<Datum>> {
        let value = |(text, column): (&Option<&[u8]>, &ColumnDef)| match text {
            None => Some(Datum::Null),
            Some(text) => parse_text(column.ty, text).ok(),
        };
        let columns = row.iter().zip(&self.table.def.columns);
        columns.map(value).collect()
    }

    /// The generated columns of a row with their texts, whatever its line has for them.
    fn computed(&self, row: &[Option<&[u8]>]) -> std::result::Result<Vec<Text>, LineProblem> {
        let Some(generated) = &self.generated else {
            return Ok(Vec::new());
        };
        let def = &self.table.def;
        let mut given = row.to_vec();
        let is_computed = |place: &usize| def.columns[*place].generated.is_some();
        let places: Vec<usize> = (0..row.len()).filter(is_computed).collect();
        places.iter().for_each(|place| given[*place] = None);
        // What does not fit is refused with the row.
        let Some(mut values) = self.values(&given) else {
            return Ok(Vec::new());
        };
        let mut convert = |value: Datum, ty: ColumnType, column: &ColumnDef| {
            let value = column.coerce(value, ty, self.zone);
            value.map_err(|error| value_error(&error, &column.name, 1))
        };
        let filled = generated.fill(def, &mut values, &mut convert, &self.cancel);
        filled.map_err(LineProblem::Refused)?;
        let text = |place: usize| {
            let value = &values[place];
            let mut text = String::new();
            format_value(def.columns[place].ty, value.as_ref(), &mut text);
            (place, (!value.is_null()).then(|| text.into_bytes()))
        };
        Ok(places.into_iter().map(text).collect())
    }

    /// Checks that a row, given by the texts that are stored, keeps the CHECK constraints.
    fn check(&self, row: &[Option<&[u8]>]) -> std::result::Result<(), LineProblem> {
        let Some(checks) = &self.checks else {
            return Ok(());
        };
        let def = &self.table.def;
        // What does not fit was refused before.
        let Some(values) = self.values(row) else {
            return Ok(());
        };
        match checks.violated(def, &values, &self.cancel) {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(LineProblem::Refused(error)),
        }
    }

    /// For the fields of JSON and ENUM columns, the texts that are stored: normal forms and numbers. For those of TIMESTAMP
    /// columns the time in UTC.
    fn stored_forms(
        &self,
        fields: &[lines::Field<'_>],
    ) -> std::result::Result<Vec<Option<Vec<u8>>>, LineProblem> {
        let form = |(field, column): (&lines::Field<'_>, &usize)| {
            let def = &self.table.def.columns[*column];
            let is_zoned = def.ty.is_timestamp() && !self.zone.is_utc();
            let differs = def.ty == ColumnType::Json || def.members.is_some() || is_zoned;
            let may_be_zero = |text: &[u8]| {
                !self.zero_dates && is_moment(def.ty) && text.trim_ascii_start().starts_with(b"0")
            };
            let Some(text) = field.as_deref().filter(|text| differs || may_be_zero(text)) else {
                return Ok(None);
            };
            match def.parse(text, self.zone) {
                Ok(Datum::String(form)) => Ok(Some(form)),
                Ok(Datum::UInt(number)) => Ok(Some(number.to_string().into_bytes())),
                Ok(zero) if zero.is_zero_date() && !self.zero_dates => {
                    let error = ValueError::new(ValueErrorKind::Incorrect, def.ty, text);
                    let column = *column as u16;
                    Err(LineProblem::Row(RowError::Column { column, error }))
                }
                Ok(utc) if is_zoned => {
                    let mut text = String::new();
                    format_value(def.ty, utc.as_ref(), &mut text);
                    Ok(Some(text.into_bytes()))
                }
                Ok(_) => Ok(None),
                Err(error) => {
                    let column = *column as u16;
                    Err(LineProblem::Row(RowError::Column { column, error }))
                }
            }
        };
        fields.iter().zip(&self.columns).map(form).collect()
    }

    /// Text of the number for a row that asks for one by this field.
    fn number(&self, field: Option<&[u8]>) -> std::result::Result<Option<Vec<u8>>, LineProblem> {
        let mut generator = self.generator.lock();
        let Some(ty) = generator.ty() else {
            return Ok(None);
        };
        // What is no number is refused with the row.
        let mut value = match field.map(|text| parse_text(ty, text)) {
            None => Datum::Null,
            Some(Ok(value)) => value,
            Some(Err(_)) => return Ok(None),
        };
        let filled = generator.fill_value(&mut value);
        filled.map_err(LineProblem::Refused)?;
        let mut text = String::new();
        format_value(ty, value.as_ref(), &mut text);
        Ok(Some(text.into_bytes()))
    }

    fn line_error(&self, error: &LineError) -> LineProblem {
        match error {
            LineError::Unclosed => LineProblem::Unclosed,
        }
    }

    /// The error of a line, `before` of which came in earlier blocks.
    fn error(&self, bad: BadLine, before: u64) -> SqlError {
        let row = before + bad.number + 1;
        let name = |i: usize| {
            self.columns
                .get(i)
                .map_or("", |c| self.table.def.columns[*c].name.as_str())
        };
        match bad.error {
            LineProblem::Row(error) => row_error(&error, &self.table, row),
            LineProblem::Fields(got) if got < self.columns.len() => {
                let mut error = SqlError::too_few_fields(row);
                error.message = format!("{} (column '{}' is missing)", error.message, name(got));
                error
            }
            LineProblem::Fields(_) => {
                let mut error = SqlError::too_many_fields(row);
                let last = name(self.columns.len() - 1);
                error.message = format!("{} (after column '{last}')", error.message);
                error
            }
            LineProblem::Refused(error) => error,
            LineProblem::Unclosed => unclosed(row),
        }
    }
}

/// The error of a line whose quote is not closed.
fn unclosed(row: u64) -> SqlError {
    let mut error = SqlError::too_few_fields(row);
    error.message = format!("{} (a quote is not closed)", error.message);
    error
}

/// A line that is no row.
struct BadLine {
    /// In its block, from 0.
    number: u64,
    error: LineProblem,
}

enum LineProblem {
    Fields(usize),
    Row(RowError),
    /// By a constraint, or because no number is left.
    Refused(SqlError),
    Unclosed,
}

type Work = JoinHandle<std::result::Result<Chunk, BadLine>>;

/// Moves the file into the load.
async fn transfer(
    plan: &Arc<Plan>,
    load: &mut BulkLoad,
    file: &mut dyn LocalFile,
    workers: usize,
    cancel: &CancelToken,
) -> Result<()> {
    let mut blocks = Blocks::new(&plan.format, plan.ignore_lines);
    let mut pending: VecDeque<Work> = VecDeque::new();
    let mut rows = 0;
    while let Some(block) = blocks.next(file).await? {
        if cancel.is_cancelled() {
            return Err(SqlError::interrupted());
        }
        if pending.len() > workers {
            rows += push(plan, load, &mut pending, rows).await?;
        }
        let (plan, encoder) = (plan.clone(), load.encoder());
        pending.push_back(spawn_blocking(move || plan.encode(&encoder, &block)));
    }
    while !pending.is_empty() {
        if cancel.is_cancelled() {
            return Err(SqlError::interrupted());
        }
        rows += push(plan, load, &mut pending, rows).await?;
    }
    Ok(())
}

/// Gives the oldest block to the engine; returns its number of rows.
async fn push(
    plan: &Plan,
    load: &mut BulkLoad,
    pending: &mut VecDeque<Work>,
    before: u64,
) -> Result<u64> {
    let Some(work) = pending.pop_front() else {
        return Ok(0);
    };
    let chunk = work.await.map_err(SqlError::unknown)?;
    let chunk = chunk.map_err(|bad| plan.error(bad, before))?;
    let rows = chunk.rows();
    load.push(chunk)
        .await
        .map_err(|e| engine_error(e, &plan.table, before))?;
    Ok(rows)
}

/// Cuts the file.
struct Blocks {
    format: Format,
    buffer: BytesMut,
    /// Lines still to skip.
    skip: u64,
}

impl Blocks {
    /// Of a file that begins with so many lines to skip.
    fn new(format: &Format, skip: u64) -> Self {
        Self {
            format: format.clone(),
            buffer: BytesMut::new(),
            skip,
        }
    }

    /// The next block of whole lines.
    async fn next(&mut self, file: &mut dyn LocalFile) -> Result<Option<Bytes>> {
        let mut wanted = BLOCK;
        loop {
            let mut ended = false;
            while self.buffer.len() < wanted && !ended {
                match file.read().await? {
                    Some(bytes) => self.buffer.extend_from_slice(&bytes),
                    None => ended = true,
                }
            }
            let format = &self.format;
            while self.skip > 0 {
                match format.first_line(&self.buffer) {
                    Some(len) => {
                        let _ = self.buffer.split_to(len);
                        self.skip -= 1;
                    }
                    None if ended => return Ok(None),
                    None => break,
                }
            }
            if ended {
                // The last line need not be terminated.
                let rest = self.buffer.split().freeze();
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            }
            match format.whole_lines(&self.buffer) {
                len if len > 0 && self.skip == 0 => {
                    return Ok(Some(self.buffer.split_to(len).freeze()));
                }
                _ if self.buffer.len() > MAX_LINE => {
                    let what = format!("a line of more than {MAX_LINE} bytes in LOAD DATA");
                    return Err(SqlError::not_supported(what));
                }
                _ => wanted = self.buffer.len() + BLOCK,
            }
        }
    }
}
