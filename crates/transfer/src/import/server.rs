//! Imports schemas of a MySQL or MariaDB server.

use std::sync::Arc;

use mysql_async::Conn;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::copy::{Copy, Job, Key, Source, Unit, copy, ends, find_done, worse};
use super::load::{self, Part};
use super::range::Range;
use super::read::{Field, Form, Out, read};
use super::state::{Noted, State};
use super::target::{self, TargetTable};
use super::{ImportOptions, check, snapshot};
use crate::catalog::{self, Schema, Table};
use crate::checksum::Tally;
use crate::connect::{connect_perigee, execute};
use crate::ddl;
use crate::kind::Kind;
use crate::names::qualified;
use crate::progress::{Progress, tell};
use crate::readers::{Readers, Stop};
use crate::{Endpoint, TransferError};

/// Bytes of a table, by the server's estimate, that one query reads.
const PIECE: u64 = 16 << 20;

/// Bytes that a reader may be ahead of the target: a piece, so that the next readers go on meanwhile.
const AHEAD: usize = PIECE as usize;

/// Rows of a server.
pub(crate) struct Rows {
    readers: Arc<Readers>,
    /// What selects the rows of each table, and their order.
    tables: Vec<Selected>,
}

/// How the rows of a table are selected.
struct Selected {
    /// The table in the target.
    shown: String,
    select: String,
    order: String,
}

/// A table on its way.
struct Planned {
    from: Table,
    to: TargetTable,
}

/// An import, as it was asked for and as the source says.
struct Import<'a> {
    source: &'a Endpoint,
    options: &'a ImportOptions,
    schemas: Vec<Schema>,
    tables: Vec<Planned>,
}

/// Runs an import.
pub(crate) async fn run(source: &Endpoint, options: &ImportOptions) -> Result<(), TransferError> {
    if source.schemas().is_empty() {
        let text = "the source's URL names no schema; use mysql://user@host/schema or …/one,two";
        return Err(TransferError::Usage(text.to_owned()));
    }
    let mut target = connect_perigee(&options.into).await?;
    let mut snapshot = snapshot::open(source, options.jobs).await?;
    let import = Import::look(source, options, &mut snapshot.readers[0]).await?;
    snapshot.release().await?;
    if let Some(doubt) = &snapshot.doubt {
        tell(&format!(
            "warning: the snapshot of the source may not be consistent: {doubt}"
        ));
    }
    if options.dry_run {
        return import.dry_run(&mut snapshot.readers[0]).await;
    }
    let (state, jobs) = import.begin(&mut target, &mut snapshot.readers[0]).await?;
    let stop = Stop::new();
    let readers = Arc::new(Readers::new(snapshot.readers, stop.clone()));
    let rows = Rows {
        readers: readers.clone(),
        tables: import.tables.iter().map(selected).collect(),
    };
    let copying = Arc::new(Copy {
        source: Arc::new(Source::Server(rows)),
        target: options.into.clone(),
        state,
        progress: Progress::new("copying", jobs.iter().map(|job| job.rows).sum()),
        stop,
    });
    let jobs = copy(&copying, jobs, options.jobs).await;
    copying.progress.finish();
    let jobs = jobs?;
    let refused = import.surround(&mut target).await?;
    check::verdict(&copying, &jobs, options).await?;
    if !refused.is_empty() {
        let text = format!(
            "the rows are there, but the target refuses {}",
            refused.join("; ")
        );
        return Err(TransferError::Differs(text));
    }
    readers.close().await;
    match Arc::into_inner(copying) {
        Some(copying) => copying.state.close(&mut target).await,
        None => Ok(()),
    }
}

impl<'a> Import<'a> {
    /// Looks at the source, and says what of it is left out.
    async fn look(
        source: &'a Endpoint,
        options: &'a ImportOptions,
        reader: &mut Conn,
    ) -> Result<Self, TransferError> {
        if !options.into.schemas().is_empty()
            && (options.into.schemas().len() > 1 || source.schemas().len() > 1)
        {
            let text = "schemas keep their names if there are several; leave them out of the URL of --into";
            return Err(TransferError::Usage(text.to_owned()));
        }
        let mut import = Self {
            source,
            options,
            schemas: Vec::new(),
            tables: Vec::new(),
        };
        for name in source.schemas() {
            let schema = catalog::schema(reader, name).await?;
            for other in &schema.others {
                tell(&format!(
                    "warning: left out: {other} of {name}: Perigee has no such thing"
                ));
            }
            for table in &schema.tables {
                import.plan(table)?;
            }
            import.schemas.push(schema);
        }
        Ok(import)
    }

    fn plan(&mut self, table: &Table) -> Result<(), TransferError> {
        let into = self.schema(&table.schema);
        // Perigee keeps names in lower case.
        let name = table.name.to_lowercase();
        let same = |other: &Planned| other.to.schema == into && other.to.name == name;
        if self.tables.iter().any(same) {
            let text =
                format!("two tables would be called {into}.{name}, which differ in case only");
            return Err(TransferError::Usage(text));
        }
        if !table.transactional {
            tell(&format!(
                "warning: {} has an engine without transactions: it is read as it is",
                table.shown()
            ));
        }
        let definition = ddl::definition(table, &into);
        for note in &definition.notes {
            tell(&format!("note: {}: {note}", table.shown()));
        }
        self.tables.push(Planned {
            from: table.clone(),
            to: TargetTable {
                schema: into,
                name,
                definition,
            },
        });
        Ok(())
    }

    /// The schema of the target for one of the source.
    fn schema(&self, name: &str) -> String {
        match (self.options.into.schemas(), self.source.schemas()) {
            ([into], [_]) => into.clone(),
            _ => name.to_owned(),
        }
    }

    /// Notes what is to be done, or finds what an earlier run noted, and makes the tables.
    async fn begin(
        &self,
        target: &mut Conn,
        reader: &mut Conn,
    ) -> Result<(State, Vec<Job>), TransferError> {
        let into = &self.options.into;
        let command = format!(
            "{} {:?} {:?}",
            self.source.place(),
            self.source.schemas(),
            into.schemas()
        );
        let state = State::open(into, connect_perigee(into).await?, &command).await?;
        let mut units = state.known(target, self.options.restart).await?;
        if units.is_empty() {
            units = self.first_units(target, reader).await?;
            state.plan(target, &units).await?;
        }
        self.make_tables(target).await?;
        let mut jobs = Vec::new();
        for table in &self.tables {
            jobs.push(job(table, &units, target, reader).await?);
        }
        find_done(target, &state, &mut jobs).await?;
        Ok((state, jobs))
    }

    /// Cuts all tables into units, if the target has nothing of theirs.
    async fn first_units(
        &self,
        target: &mut Conn,
        reader: &mut Conn,
    ) -> Result<Vec<Noted>, TransferError> {
        let mut taken = Vec::new();
        for schema in &self.schemas {
            taken.extend(target::taken(target, &self.schema(&schema.name), schema).await?);
        }
        if !taken.is_empty() && !self.options.replace {
            let names: Vec<_> = taken.iter().map(target::Taken::shown).collect();
            let text = format!(
                "the target already has {}; nothing was changed. Remove them, or let --replace do that",
                names.join(", ")
            );
            return Err(TransferError::Usage(text));
        }
        target::remove(target, &taken).await?;
        let mut units = Vec::new();
        for table in &self.tables {
            for (number, range) in (0..).zip(ranges(table, reader, self.options.unit_bytes).await?)
            {
                units.push(Noted {
                    schema: table.to.schema.clone(),
                    table: table.to.name.clone(),
                    unit: number,
                    range,
                    rows_before: 0,
                    done: false,
                });
            }
        }
        Ok(units)
    }

    /// Makes schemas and tables that are not there.
    async fn make_tables(&self, conn: &mut Conn) -> Result<(), TransferError> {
        for schema in &self.schemas {
            execute(
                conn,
                &ddl::schema(&self.schema(&schema.name), &schema.collation),
            )
            .await?;
        }
        for table in &self.tables {
            for note in target::create(conn, &table.to).await? {
                tell(&format!("note: {}: {note}", table.from.shown()));
            }
        }
        Ok(())
    }

    /// Adds what follows the rows: foreign keys, procedures, views. Returns the foreign keys that are refused.
    async fn surround(&self, conn: &mut Conn) -> Result<Vec<String>, TransferError> {
        let mut refused = Vec::new();
        for table in &self.tables {
            refused.extend(target::foreign_keys(conn, &table.to).await?);
        }
        for schema in &self.schemas {
            let name = self.schema(&schema.name);
            let mut left_out = target::procedures(conn, &name, &schema.procedures).await?;
            left_out.extend(target::views(conn, &name, &schema.views).await?);
            left_out
                .iter()
                .for_each(|text| tell(&format!("warning: left out: {text}")));
        }
        Ok(refused)
    }

    /// Says what an import would do.
    async fn dry_run(&self, reader: &mut Conn) -> Result<(), TransferError> {
        for schema in &self.schemas {
            tell(&format!(
                "{};",
                ddl::schema(&self.schema(&schema.name), &schema.collation)
            ));
        }
        for table in &self.tables {
            tell(&format!("{};", table.to.definition.create));
            let units = ranges(table, reader, self.options.unit_bytes).await?;
            let from = &table.from;
            tell(&format!(
                "-- about {} rows of {} bytes, by {} LOAD DATA{}",
                from.rows,
                from.bytes,
                units.len(),
                from.ranged().map_or(String::new(), |column| format!(
                    ", read in ranges of {column}"
                ))
            ));
        }
        for (_, add) in self
            .tables
            .iter()
            .flat_map(|table| &table.to.definition.foreign_keys)
        {
            tell(&format!("{add};"));
        }
        for schema in &self.schemas {
            for program in schema.procedures.iter().chain(&schema.views) {
                tell(&format!("{};", ddl::program(program)));
            }
        }
        Ok(())
    }
}

/// The ranges in which a table is committed.
async fn ranges(
    table: &Planned,
    reader: &mut Conn,
    bytes: u64,
) -> Result<Vec<Range>, TransferError> {
    let pieces = table.from.bytes.div_ceil(bytes.max(1));
    let Some(column) = table.from.ranged().filter(|_| pieces > 1) else {
        return Ok(vec![Range::default()]);
    };
    let name = qualified(&table.from.schema, &table.from.name);
    let ends = ends(reader, &name, column).await?;
    Ok(match ends {
        Some((least, greatest)) => Range::default().split(least, greatest, pieces),
        None => vec![Range::default()],
    })
}

/// What is copied of a table, by the notes.
async fn job(
    table: &Planned,
    units: &[Noted],
    target: &mut Conn,
    reader: &mut Conn,
) -> Result<Job, TransferError> {
    let (from, to) = (&table.from, &table.to);
    let own = |unit: &&Noted| unit.schema == to.schema && unit.table == to.name;
    let units: Vec<_> = units.iter().filter(own).map(as_unit).collect();
    if units.is_empty() {
        let text = format!(
            "table {} came to the source after the import had begun; begin again with --restart --replace",
            from.shown()
        );
        return Err(TransferError::Usage(text));
    }
    let name = qualified(&from.schema, &from.name);
    let key = match from.ranged() {
        Some(column) => ends(reader, &name, column).await?.map(|ends| Key {
            source: column.to_owned(),
            target: column.to_lowercase(),
            least: ends.0,
            greatest: ends.1,
        }),
        None => None,
    };
    Ok(Job {
        schema: to.schema.clone(),
        table: to.name.clone(),
        fields: fields(table, target).await?,
        key,
        units,
        rows: from.rows,
        bytes: from.bytes,
        rows_before: 0,
        seconds: 0.0,
    })
}

fn as_unit(noted: &Noted) -> Unit {
    Unit {
        number: noted.unit,
        range: noted.range,
        done: noted.done,
        tally: None,
    }
}

/// The fields of a table's rows: in the order of the source's columns, as the target has them.
async fn fields(table: &Planned, target: &mut Conn) -> Result<Vec<Field>, TransferError> {
    let there = catalog::columns_of(target, &table.to.schema, &table.to.name).await?;
    let mut found = Vec::new();
    for column in &table.from.columns {
        let same = there
            .iter()
            .find(|other| other.name.to_lowercase() == column.name.to_lowercase());
        let Some(same) = same else {
            let text = format!(
                "table {} of the target has no column {}",
                table.from.shown(),
                column.name
            );
            return Err(TransferError::Data(text));
        };
        found.push(Field {
            name: same.name.clone(),
            kind: same.kind,
            loaded: !same.generated,
        });
    }
    Ok(found)
}

fn selected(table: &Planned) -> Selected {
    let from = &table.from;
    Selected {
        shown: format!("{}.{}", table.to.schema, table.to.name),
        select: format!(
            "SELECT {} FROM {}",
            from.selected(),
            qualified(&from.schema, &from.name)
        ),
        order: catalog::order(&from.primary),
    }
}

/// Reads the rows of a unit in the order of the primary key, in which the target takes them fastest. Several readers read
/// pieces of it; each waits until those before it were taken.
pub(crate) async fn rows(
    source: &Arc<Source>,
    job: &Arc<Job>,
    unit: &Unit,
    to: Option<mpsc::Sender<Part>>,
    (progress, stop): (&Progress, &Stop),
) -> Result<Tally, TransferError> {
    let Source::Server(rows) = source.as_ref() else {
        return Err(TransferError::Stopped);
    };
    let shown = job.shown();
    let Some(table) = rows.tables.iter().find(|table| table.shown == shown) else {
        return Err(TransferError::Data(format!(
            "table {shown} is not in the source"
        )));
    };
    let column = job.key.as_ref().map(|key| key.source.clone());
    let pieces = job.pieces(unit.range, PIECE);
    let count = pieces.len();
    let turns = Arc::new(tokio::sync::Semaphore::new(rows.readers.count()));
    let mut tasks = JoinSet::new();
    let mut first = None;
    for (place, piece) in pieces.into_iter().enumerate() {
        // No more tasks than can read.
        let turn = turns.clone().acquire_owned().await;
        let mut conn = match rows.readers.take().await {
            Ok(conn) => conn,
            Err(error) => {
                first = Some(error);
                break;
            }
        };
        let (send, blocks) = load::blocks(AHEAD);
        if let Some(to) = &to {
            let last = place + 1 == count;
            if to.send(Part { blocks, last }).await.is_err() {
                first = Some(TransferError::Stopped);
                break;
            }
        }
        let sql = format!(
            "{}{}{}",
            table.select,
            piece.condition(column.as_deref()),
            table.order
        );
        let (job, progress, stop, readers) = (
            job.clone(),
            progress.clone(),
            stop.clone(),
            rows.readers.clone(),
        );
        let is_sent = to.is_some();
        tasks.spawn(async move {
            let _turn = turn;
            let out = Out::new(is_sent.then_some(&send), &progress, &stop);
            let tally = read(&mut conn, &sql, (&job.fields, Kind::form as Form), out).await;
            match tally {
                Ok(tally) => {
                    readers.give(conn);
                    Ok(tally)
                }
                // Nobody waits for this connection any more.
                Err(error) => {
                    if !matches!(error, TransferError::Stopped) {
                        stop.set();
                    }
                    Err(error)
                }
            }
        });
    }
    drop(to);
    let mut tally = Tally::default();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(part)) => tally.merge(part),
            Ok(Err(error)) => first = worse(first, error),
            Err(panic) => first = worse(first, TransferError::Data(panic.to_string())),
        }
    }
    first.map_or(Ok(tally), Err)
}
