//! Imports CSV and Parquet files. All files of a table are one LOAD DATA, so that the table has all of their rows or none.

use std::fs::File;
use std::sync::Arc;

use mysql_async::Conn;

use super::copy::{Copy, Job, Source, Unit, copy, find_done};
use super::file_rows::{FileTable, Rows, names, open, places};
use super::range::Range;
use super::read::Field;
use super::state::{Noted, State};
use super::target::{self, TargetTable};
use super::{CsvOptions, FileSource, ImportOptions, check};
use crate::TransferError;
use crate::catalog::{self, Column, Table};
use crate::connect::{connect_perigee, execute, number};
use crate::ddl;
use crate::export::definition_file;
use crate::files::arrow_text;
use crate::files::{CREATE_TABLE, Format};
use crate::names::{from_file, ident, qualified};
use crate::progress::{Progress, tell};
use crate::readers::Stop;

/// Bytes of a record of CSV, for estimates.
const RECORD: u64 = 100;

/// Runs an import.
pub(crate) async fn run(source: &FileSource, options: &ImportOptions) -> Result<(), TransferError> {
    let [schema] = options.into.schemas() else {
        let text =
            "files go into one schema, which the URL of --into names: mysql://user@host/schema";
        return Err(TransferError::Usage(text.to_owned()));
    };
    let tables = tables(source, schema)?;
    let mut target = connect_perigee(&options.into).await?;
    if !options.dry_run {
        execute(
            &mut target,
            &format!("CREATE DATABASE IF NOT EXISTS {}", ident(schema)),
        )
        .await?;
    }
    if options.dry_run {
        return dry_run(&tables, &mut target).await;
    }
    let command = format!(
        "files {:?} {:?} {:?}",
        source.paths,
        source.table,
        options.into.schemas()
    );
    let state = State::open(
        &options.into,
        connect_perigee(&options.into).await?,
        &command,
    )
    .await?;
    let mut known = state.known(&mut target, options.restart).await?;
    if known.is_empty() {
        known = first_units(&tables, (source, options), &mut target).await?;
        state.plan(&mut target, &known).await?;
    }
    let mut made = Vec::new();
    let mut jobs = Vec::new();
    for table in &tables {
        made.extend(make(table, &mut target).await?);
        let noted = known
            .iter()
            .find(|unit| unit.schema == table.schema && unit.table == table.name);
        jobs.push(job(table, noted, &source.csv, &mut target).await?);
    }
    find_done(&mut target, &state, &mut jobs).await?;
    let copying = Arc::new(Copy {
        source: Arc::new(Source::Files(Rows {
            csv: source.csv.clone(),
            tables,
        })),
        target: options.into.clone(),
        state,
        progress: Progress::new("copying", jobs.iter().map(|job| job.rows).sum()),
        stop: Stop::new(),
    });
    let jobs = copy(&copying, jobs, options.jobs).await;
    copying.progress.finish();
    let jobs = jobs?;
    for table in &made {
        for text in target::foreign_keys(&mut target, table).await? {
            tell(&format!("warning: left out: {text}"));
        }
    }
    check::verdict(&copying, &jobs, options).await?;
    match Arc::into_inner(copying) {
        Some(copying) => copying.state.close(&mut target).await,
        None => Ok(()),
    }
}

/// The tables that the files are of.
fn tables(source: &FileSource, schema: &str) -> Result<Vec<FileTable>, TransferError> {
    let mut paths = Vec::new();
    for path in &source.paths {
        if !path.is_dir() {
            paths.push(path.clone());
            continue;
        }
        let what = || TransferError::file(format!("read {}", path.display()));
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).map_err(what())? {
            found.push(entry.map_err(what())?.path());
        }
        found.retain(|path| path.is_file() && Format::of(path).is_some());
        found.sort();
        paths.extend(found);
    }
    let mut tables: Vec<FileTable> = Vec::new();
    for path in paths {
        if Format::of(&path).is_none() {
            let text = format!("{}: a file is .parquet, .csv, .tsv or .txt", path.display());
            return Err(TransferError::Usage(text));
        }
        // Missing files are told of before anything is done.
        File::open(&path).map_err(TransferError::file(format!("open {}", path.display())))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = source
            .table
            .clone()
            .unwrap_or_else(|| from_file(&stem))
            .to_lowercase();
        match tables.iter_mut().find(|table| table.name == name) {
            Some(table) => table.files.push(path),
            None => tables.push(FileTable {
                schema: schema.to_owned(),
                name,
                files: vec![path],
            }),
        }
    }
    match tables.is_empty() {
        true => Err(TransferError::Usage(
            "there is no file to import".to_owned(),
        )),
        false => Ok(tables),
    }
}

/// The units of all tables, if nothing is in their way; with --replace their rows are removed.
async fn first_units(
    tables: &[FileTable],
    (source, options): (&FileSource, &ImportOptions),
    conn: &mut Conn,
) -> Result<Vec<Noted>, TransferError> {
    let mut units = Vec::new();
    let mut full = Vec::new();
    for table in tables {
        let place = qualified(&table.schema, &table.name);
        let exists = !catalog::columns_of(conn, &table.schema, &table.name)
            .await?
            .is_empty();
        let rows_before = match exists {
            true => number(conn, &format!("SELECT COUNT(*) FROM {place}")).await?,
            false => 0,
        };
        if rows_before > 0 && !source.append {
            full.push(place);
        }
        units.push(Noted {
            schema: table.schema.clone(),
            table: table.name.clone(),
            unit: 0,
            range: Range::default(),
            rows_before: if source.append { rows_before } else { 0 },
            done: false,
        });
    }
    if !full.is_empty() && !options.replace {
        let text = format!(
            "{} of the target have rows; nothing was changed. Use --append to add to them, or --replace to remove them",
            full.join(", ")
        );
        return Err(TransferError::Usage(text));
    }
    for place in full {
        execute(conn, &format!("TRUNCATE TABLE {place}")).await?;
    }
    Ok(units)
}

/// Makes a table that is not there, as its file says. Returns it if its foreign keys have to follow.
async fn make(table: &FileTable, conn: &mut Conn) -> Result<Option<TargetTable>, TransferError> {
    if !catalog::columns_of(conn, &table.schema, &table.name)
        .await?
        .is_empty()
    {
        return Ok(None);
    }
    let new = definition(table)?;
    for note in target::create(conn, &new).await? {
        tell(&format!("note: {}: {note}", table.shown()));
    }
    Ok(Some(new))
}

/// What a file says about its table.
fn definition(table: &FileTable) -> Result<TargetTable, TransferError> {
    let path = &table.files[0];
    let place = qualified(&table.schema, &table.name);
    let beside = definition_file(path);
    let create = match Format::of(path) {
        Some(Format::Parquet) => {
            let file = open(path)?;
            let entries = file.metadata().file_metadata().key_value_metadata();
            let own = entries
                .into_iter()
                .flatten()
                .find(|entry| entry.key == CREATE_TABLE);
            match own.and_then(|entry| entry.value.clone()) {
                Some(create) => create,
                None => arrow_text::create_table(&place, file.schema().fields())
                    .map_err(|text| TransferError::Data(format!("{}: {text}", path.display())))?,
            }
        }
        _ if beside.exists() => std::fs::read_to_string(&beside)
            .map_err(TransferError::file(format!("read {}", beside.display())))?,
        _ => {
            let text = format!(
                "the target has no table {}, and {} does not say what its columns are; create the table first, or put its \
                 CREATE TABLE into {}",
                table.shown(),
                path.display(),
                beside.display()
            );
            return Err(TransferError::Usage(text));
        }
    };
    let described = Table {
        schema: table.schema.clone(),
        name: table.name.clone(),
        rows: 0,
        bytes: 0,
        transactional: true,
        collation: None,
        columns: Vec::new(),
        primary: Vec::new(),
        create,
    };
    Ok(TargetTable {
        schema: table.schema.clone(),
        name: table.name.clone(),
        definition: ddl::definition(&described, &table.schema),
    })
}

async fn job(
    table: &FileTable,
    noted: Option<&Noted>,
    csv: &CsvOptions,
    conn: &mut Conn,
) -> Result<Job, TransferError> {
    let columns = catalog::columns_of(conn, &table.schema, &table.name).await?;
    let first = &table.files[0];
    let field = |column: &Column| Field {
        name: column.name.clone(),
        kind: column.kind,
        loaded: !column.generated,
    };
    let fields = match names(first, csv)? {
        None => columns.iter().map(field).collect(),
        Some(names) => {
            let find = |name: &String| {
                let found = columns
                    .iter()
                    .find(|column| column.name.eq_ignore_ascii_case(name));
                found.map(field).ok_or_else(|| {
                    TransferError::Data(format!(
                        "{}: table {} has no column {name}",
                        first.display(),
                        table.shown()
                    ))
                })
            };
            names.iter().map(find).collect::<Result<Vec<_>, _>>()?
        }
    };
    for path in &table.files {
        places(path, csv, &fields)?;
    }
    let (mut rows, mut bytes) = (0, 0);
    for path in &table.files {
        let what = TransferError::file(format!("open {}", path.display()));
        let size = std::fs::metadata(path).map_err(what)?.len();
        bytes += size;
        rows += match Format::of(path) {
            Some(Format::Parquet) => open(path)?.metadata().file_metadata().num_rows() as u64,
            _ => size / RECORD,
        };
    }
    Ok(Job {
        schema: table.schema.clone(),
        table: table.name.clone(),
        fields,
        key: None,
        units: vec![Unit {
            number: 0,
            range: Range::default(),
            done: noted.is_some_and(|unit| unit.done),
            tally: None,
        }],
        rows,
        bytes,
        rows_before: noted.map_or(0, |unit| unit.rows_before),
        seconds: 0.0,
    })
}

/// Says what an import would do.
async fn dry_run(tables: &[FileTable], conn: &mut Conn) -> Result<(), TransferError> {
    for table in tables {
        if catalog::columns_of(conn, &table.schema, &table.name)
            .await?
            .is_empty()
        {
            let definition = definition(table)?.definition;
            tell(&format!("{};", definition.create));
            definition
                .foreign_keys
                .iter()
                .for_each(|(_, add)| tell(&format!("{add};")));
        }
        for path in &table.files {
            tell(&format!("-- {} into {}", path.display(), table.shown()));
        }
    }
    Ok(())
}
