//! CREATE TABLE … SELECT: the table appears with all its rows or not at all.
//!
//! The rows are written to the new table's trees at once, and nobody sees them before all are there. Those of a temporary
//! table that is made within a transaction belong to that: they are inserted, and go if it is rolled back.
//!
//! Columns that only the statement defines come first, then the query's in its order; those that both
//! name are defined by the statement.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use perigee_engine::catalog::{ColumnDef, Table, TableDef};
use perigee_engine::scan::CancelToken;
use perigee_engine::{EngineError, NewTable};
use perigee_sql_type::TEXT_CHARS;
use perigee_value::{Collation, ColumnType, Datum, Now};
use sqlparser::ast::Query;

use super::draft::Draft;
use super::name_error;
use crate::error::{Result, SqlError};
use crate::parse::Piece;
use crate::plan::metadata;
use crate::result::OkResult;
use crate::session::Session;
use crate::session::auto_increment::Generator;
use crate::session::checks::Checks;
use crate::session::dml::{Converter, Strictness, keep};
use crate::session::generated::{self, GeneratedColumns};
use crate::session::insert::engine_error;
use crate::session::select::{self, Prepared, Reading};
use crate::session::transaction::Work;
use crate::values::{Column, size};

/// Rows that are inserted at once.
const ROWS: usize = 1000;

/// Bytes of rows from which on they are inserted.
const BYTES: usize = 1 << 20;

/// Makes the table that `draft` describes, with the query's columns and rows; a temporary one in the schema `home`.
pub(super) async fn run(
    session: &mut Session,
    (draft, home): (Draft, Option<String>),
    query: Box<Query>,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let (rows, first) = match home {
        Some(home) if !session.commits_each_statement() => {
            let mut work = session.begin_work(cancel);
            let what = (draft, home, &*query, piece);
            let made = within(session, &mut work, what, cancel).await;
            session.end_work(work, made).await?
        }
        home => alone(session, (draft, home), (&query, piece), cancel).await?,
    };
    session.last_insert_id = first.unwrap_or(session.last_insert_id);
    Ok(OkResult {
        affected_rows: rows,
        last_insert_id: first.unwrap_or(0),
        info: format!("Records: {rows}  Duplicates: 0  Warnings: 0"),
        ..OkResult::default()
    })
}

/// Makes the table by itself; returns its number of rows and the first number that they got.
async fn alone(
    session: &mut Session,
    (draft, home): (Draft, Option<String>),
    (query, piece): (&Query, Piece<'_>),
    cancel: &CancelToken,
) -> Result<(u64, Option<u64>)> {
    let reading = Reading::snapshot(session.current_view(), cancel);
    let prepared = select::prepare(session, query, piece, reading).await?;
    let is_temporary = home.is_some();
    let def = definition(&prepared, draft, home)?;
    if is_temporary {
        session.temporaries.admit(&def)?;
    }
    let filled = async {
        let engine = &session.frontend.engine;
        let new = engine.begin_table(def.clone(), cancel).await;
        let sink = Sink::New(Box::new(new.map_err(name_error)?));
        fill(session, &prepared, sink, cancel).await
    };
    let filled = filled.await;
    let filled = keep(session, &prepared.bound, filled);
    if is_temporary && filled.is_err() {
        session.temporaries.release(&def);
    }
    filled
}

/// Makes a temporary table within a transaction, which its rows belong to.
async fn within(
    session: &mut Session,
    work: &mut Work,
    (draft, home, query, piece): (Draft, String, &Query, Piece<'_>),
    cancel: &CancelToken,
) -> Result<(u64, Option<u64>)> {
    let reading = work.reading(cancel).await;
    let prepared = select::prepare(session, query, piece, reading).await?;
    let def = definition(&prepared, draft, Some(home))?;
    let table = session.temporaries.create(def).await?;
    let sink = Sink::Written {
        work,
        table: table.clone(),
        rows: Vec::new(),
        bytes: 0,
        count: 0,
    };
    let filled = fill(session, &prepared, sink, cancel).await;
    let filled = keep(session, &prepared.bound, filled);
    if filled.is_err() {
        session.temporaries.remove(&table);
    }
    filled
}

/// The definition of a table with the query's columns.
fn definition(prepared: &Prepared, mut draft: Draft, home: Option<String>) -> Result<TableDef> {
    let mut names = HashSet::new();
    for (mut column, field) in prepared.columns().into_iter().zip(prepared.schema.fields()) {
        if !names.insert(column.name.to_lowercase()) {
            return Err(SqlError::duplicate_column(column.name));
        }
        column.ty = stored_type(column.ty, field);
        draft.add_selected(&column)?;
    }
    let (def, _) = draft.finish()?;
    let schema = home.unwrap_or_else(|| def.schema.clone());
    Ok(TableDef { schema, ..def })
}

/// Where rows go.
enum Sink<'w> {
    /// Into a table that nobody knows yet.
    New(Box<NewTable>),
    /// Into a temporary table, by a transaction.
    Written {
        work: &'w mut Work,
        table: Arc<Table>,
        /// Those that wait, and the bytes that they take.
        rows: Vec<Vec<Datum>>,
        bytes: usize,
        /// How many were inserted.
        count: u64,
    },
}

impl Sink<'_> {
    fn table(&self) -> &Arc<Table> {
        match self {
            Self::New(new) => new.table(),
            Self::Written { table, .. } => table,
        }
    }

    async fn push(&mut self, row: Vec<Datum>) -> std::result::Result<(), EngineError> {
        match self {
            Self::New(new) => new.push(&row).await,
            Self::Written { rows, bytes, .. } => {
                *bytes += row.iter().map(size).sum::<usize>();
                rows.push(row);
                match rows.len() == ROWS || *bytes > BYTES {
                    true => self.flush().await,
                    false => Ok(()),
                }
            }
        }
    }

    /// Inserts the rows that wait.
    async fn flush(&mut self) -> std::result::Result<(), EngineError> {
        if let Self::Written {
            work,
            table,
            rows,
            bytes,
            count,
        } = self
        {
            *count += work.transaction().insert(table, rows).await?;
            rows.clear();
            *bytes = 0;
        }
        Ok(())
    }

    /// Returns the number of rows.
    async fn finish(mut self) -> std::result::Result<u64, EngineError> {
        self.flush().await?;
        match self {
            Self::New(new) => new.finish().await,
            Self::Written { count, .. } => Ok(count),
        }
    }
}

/// The type of the column that holds a query's. An expression that does not say how long its texts are has those of
/// LONGTEXT: as VARCHARs of any length, two of them would not fit into a row. NULL is BINARY(0) in MySQL.
fn stored_type(ty: Option<ColumnType>, field: &Field) -> Option<ColumnType> {
    match ty {
        Some(ColumnType::Varchar { chars, collation })
            if chars >= TEXT_CHARS || metadata::declared(field).is_none() =>
        {
            Some(ColumnType::Long {
                prefix: 4,
                collation,
            })
        }
        None => Some(ColumnType::Varchar {
            chars: 0,
            collation: Collation::BINARY,
        }),
        ty => ty,
    }
}

/// Writes the query's rows; returns how many there are and the first number that they got.
async fn fill(
    session: &Session,
    prepared: &Prepared,
    mut sink: Sink<'_>,
    cancel: &CancelToken,
) -> Result<(u64, Option<u64>)> {
    let table = sink.table().clone();
    let def = &table.def;
    let selected = def.own_columns().len() - prepared.names.len();
    let defaults = defaults(def, selected, session.now())?;
    let targets: Vec<ColumnDef> = def.own_columns()[selected..]
        .iter()
        .enumerate()
        .map(|(place, column)| ColumnDef {
            // NULL asks for a number.
            nullable: column.nullable || def.is_auto_increment(selected + place),
            ..column.clone()
        })
        .collect();
    let checks = Checks::of(&table.def, session.zone())?;
    let computed = GeneratedColumns::of(&table.def, session.zone())?;
    let given: Vec<usize> = (selected..table.def.own_columns().len()).collect();
    if let Some(column) = GeneratedColumns::first_of(&table.def, &given) {
        return Err(generated::given(&table, column));
    }
    let mut generator = Generator::new(session, &table).await?;
    let mut converter = Converter::new(Strictness::new(session, false));
    let mut stream = session.frontend.start(prepared);
    let mut number = 0;
    while let Some(batch) = select::guarded(&mut stream, cancel).await? {
        let fields = batch.columns().iter().zip(prepared.schema.fields());
        let values = fields
            .map(|(array, field)| Column::new(array, field))
            .collect::<Result<Vec<_>>>()?;
        for at in 0..batch.num_rows() {
            number += 1;
            let mut row = defaults.clone();
            for (value, column) in values.iter().zip(&targets) {
                row.push(converter.value(value.datum(at), value.ty(), column, number)?);
            }
            // Hidden ones come last.
            row.resize(table.def.columns.len(), Datum::Null);
            generator.fill(&mut row)?;
            if let Some(computed) = &computed {
                let mut convert = |value: Datum, ty: ColumnType, column: &ColumnDef| {
                    converter.value(value, ty, column, number)
                };
                computed.fill(&table.def, &mut row, &mut convert, cancel)?;
            }
            if let Some(checks) = &checks
                && let Some(violation) = checks.violated(&table.def, &row, cancel)?
            {
                return Err(violation);
            }
            let pushed = sink.push(row).await;
            pushed.map_err(|e| engine_error(e, &table, 0))?;
        }
    }
    let finished = sink.finish().await;
    let rows = finished.map_err(|e| match name_error(e.clone()) {
        named if named.errno == SqlError::table_exists("").errno => named,
        _ => engine_error(e, &table, 0),
    })?;
    generator.done(true);
    Ok((rows, generator.first()))
}

/// Values of the columns that the query does not give.
fn defaults(def: &TableDef, selected: usize, now: Now) -> Result<Vec<Datum>> {
    let columns = def.columns[..selected].iter().enumerate();
    columns
        .map(|(place, column)| match column.default_at(now) {
            Some(value) => Ok(value),
            None if column.nullable || def.is_auto_increment(place) => Ok(Datum::Null),
            None if column.generated.is_some() => Ok(Datum::Null),
            None => Err(SqlError::no_default(&column.name)),
        })
        .collect()
}
