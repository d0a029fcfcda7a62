//! CREATE TABLE … SELECT: the table appears with all its rows or not at all.
//!
//! Columns that only the statement defines come first, then the query's in its order; those that both
//! name are defined by the statement.

use std::collections::HashSet;

use datafusion::arrow::datatypes::Field;
use perigee_engine::catalog::{ColumnDef, TableDef};
use perigee_engine::scan::CancelToken;
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
use crate::session::dml::{Converter, Strictness};
use crate::session::generated::{self, GeneratedColumns};
use crate::session::insert::engine_error;
use crate::session::select::{self, Prepared, Reading};
use crate::values::Column;

/// Makes the table that `draft` describes, with the query's columns and rows.
pub(super) async fn run(
    session: &mut Session,
    mut draft: Draft,
    query: Box<Query>,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let view = session.current_view();
    let reading = Reading::snapshot(view, cancel);
    let prepared = select::prepare(session, &query, piece, reading).await?;
    let mut names = HashSet::new();
    for (mut column, field) in prepared.columns().into_iter().zip(prepared.schema.fields()) {
        if !names.insert(column.name.to_lowercase()) {
            return Err(SqlError::duplicate_column(column.name));
        }
        column.ty = stored_type(column.ty, field);
        draft.add_selected(&column)?;
    }
    let (def, _) = draft.finish()?;
    let (rows, first) = fill(session, &prepared, def, cancel).await?;
    session.last_insert_id = first.unwrap_or(session.last_insert_id);
    Ok(OkResult {
        affected_rows: rows,
        last_insert_id: first.unwrap_or(0),
        info: format!("Records: {rows}  Duplicates: 0  Warnings: 0"),
        ..OkResult::default()
    })
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

/// Makes the table; returns its number of rows and the first number that they got.
async fn fill(
    session: &Session,
    prepared: &Prepared,
    def: TableDef,
    cancel: &CancelToken,
) -> Result<(u64, Option<u64>)> {
    let selected = def.own_columns().len() - prepared.names.len();
    let defaults = defaults(&def, selected, session.now())?;
    let targets: Vec<ColumnDef> = def.own_columns()[selected..]
        .iter()
        .enumerate()
        .map(|(place, column)| ColumnDef {
            // NULL asks for a number.
            nullable: column.nullable || def.is_auto_increment(selected + place),
            ..column.clone()
        })
        .collect();
    let engine = &session.frontend.engine;
    let begun = engine.begin_table(def, cancel).await;
    let mut new = begun.map_err(name_error)?;
    let table = new.table().clone();
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
            let pushed = new.push(&row).await;
            pushed.map_err(|e| engine_error(e, &table, 0))?;
        }
    }
    let finished = new.finish().await;
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
