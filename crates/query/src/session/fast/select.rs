//! SELECT of rows that a key names: recognised, and run.

use perigee_sql_bind::Modes;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use perigee_engine::catalog::Table;
use perigee_engine::scan::{CancelToken, Records, ShortRead};
use perigee_engine::txn::{Isolation, LockMode, LockWait, RowLock};
use perigee_value::{Datum, Members};
use sqlparser::ast::{
    Distinct, LimitClause, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
};
use sqlparser::parser::Parser;

use super::super::locking::{lock_mode, lock_wait};
use super::super::transaction::Work;
use super::super::{Session, select as ordinary};
use super::aggregate::{self, Aggregate};
use super::key::KeyTemplate;
use super::names::{Names, only_table};
use super::operand::{Operand, Parameters};
use super::rows::{self, Order, Rows};
use super::{Answer, Recognised};
use crate::error::Result;
use crate::parse::{Grammar, Piece};
use crate::result::{ResultColumn, ResultSink};

/// A SELECT of one table by a key.
#[derive(Debug)]
pub(super) struct FastSelect {
    key: KeyTemplate,
    pub(super) columns: Arc<[ResultColumn]>,
    schema: SchemaRef,
    output: Output,
    limit: Option<Operand>,
    offset: Option<Operand>,
    /// FOR UPDATE or FOR SHARE.
    lock: Option<(LockMode, LockWait)>,
}

/// What is made of the rows.
#[derive(Debug)]
enum Output {
    /// These columns of each.
    Rows {
        columns: Vec<u16>,
        /// What the numbers of those that are ENUMs stand for.
        members: Vec<Option<Arc<Members>>>,
        order: Vec<Order>,
        distinct: bool,
    },
    /// One row.
    Aggregates(Vec<Aggregate>),
}

/// What a SELECT without any clause is parsed to.
static BARE: LazyLock<Option<Query>> = LazyLock::new(|| {
    let mut parser = Parser::new(Grammar::of(Modes::NONE))
        .try_with_sql("SELECT 1")
        .ok()?;
    match parser.parse_statement() {
        Ok(Statement::Query(mut query)) => {
            body(&mut query)?.projection.clear();
            Some(*query)
        }
        _ => None,
    }
});

fn body(query: &mut Query) -> Option<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

/// True if a SELECT has nothing but a select list, DISTINCT, FROM, WHERE, ORDER BY, LIMIT and locks.
fn is_plain(query: &Query) -> bool {
    let mut rest = query.clone();
    rest.locks.clear();
    rest.order_by = None;
    rest.limit_clause = None;
    let Some(select) = body(&mut rest) else {
        return false;
    };
    select.projection.clear();
    select.from.clear();
    select.selection = None;
    if select.distinct == Some(Distinct::Distinct) {
        select.distinct = None;
    }
    BARE.as_ref() == Some(&rest)
}

/// The SELECT, if it is one that the fast path runs.
pub(super) async fn recognise(
    session: &Session,
    query: &Query,
    piece: Piece<'_>,
) -> Option<Recognised<FastSelect>> {
    let parameters = Parameters::of(query);
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let (table, alias, by_schema) = only_table(session, &select.from)?;
    let names = Names::new(&table, alias);
    let key = KeyTemplate::new(&table, &names, select.selection.as_ref()?, &parameters)?;
    if !is_plain(query) {
        return None;
    }
    let (limit, offset) = limits(query.limit_clause.as_ref(), &parameters)?;
    let order = order(query.order_by.as_ref(), &select.projection, &names)?;
    let distinct = select.distinct.is_some();
    let output = match aggregate::list(&select.projection, &names) {
        Some(aggregates) if order.is_empty() && !distinct && limit.is_none() => {
            Output::Aggregates(aggregates)
        }
        Some(_) => return None,
        None => rows_output(&select.projection, &names, &key, order, distinct)?,
    };
    let lock = match &query.locks[..] {
        [] => None,
        [clause] if clause.of.is_none() && limit.is_none() && output.tells_row(&key, &table) => {
            Some((lock_mode(clause), lock_wait(clause)))
        }
        _ => return None,
    };
    // What the result looks like is what the ordinary way says of the same select list.
    let mut described = query.clone();
    described.locks.clear();
    described.order_by = None;
    described.limit_clause = None;
    body(&mut described)?.selection = None;
    let (schema, columns) = ordinary::describe(session, &described, piece).await.ok()?;
    let types = || schema.fields().iter().map(|field| field.data_type());
    let fits = match &output {
        Output::Rows { columns, .. } => {
            columns.len() == schema.fields().len() && types().all(rows::is_delivered)
        }
        Output::Aggregates(aggregates) => aggregate::fit(aggregates, &table, types()),
    };
    fits.then(|| Recognised {
        statement: FastSelect {
            key,
            columns: columns.into(),
            schema: rows::nullable(&schema),
            output,
            limit,
            offset,
            lock,
        },
        parameters: parameters.len(),
        by_schema,
        table: table.clone(),
    })
}

impl Output {
    /// True if it is made of the one row with a clustered key, all of which is in its record.
    fn tells_row(&self, key: &KeyTemplate, table: &Table) -> bool {
        let each = matches!(
            self,
            Self::Rows {
                distinct: false,
                ..
            }
        );
        each && key.is_row && key.index == 0 && !table.clustered().layout.has_long()
    }
}

fn rows_output(
    projection: &[SelectItem],
    names: &Names<'_>,
    key: &KeyTemplate,
    mut order: Vec<Order>,
    distinct: bool,
) -> Option<Output> {
    let table = names.table;
    let columns: Vec<u16> = match projection {
        [SelectItem::Wildcard(options)] if *options == Default::default() => {
            let columns = table.def.own_columns().iter().enumerate();
            let visible = columns.filter(|(_, column)| !column.invisible);
            visible.map(|(place, _)| place as u16).collect()
        }
        items => items
            .iter()
            .map(|item| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    names.shown(expr)
                }
                _ => None,
            })
            .collect::<Option<_>>()?,
    };
    let ty = |column: &u16| table.def.columns[usize::from(*column)].ty;
    if distinct {
        let by_bytes = columns.iter().all(|column| rows::is_bytewise(ty(column)));
        let selected = order.iter().all(|order| columns.contains(&order.column));
        if !by_bytes || !selected {
            return None;
        }
    }
    if !order
        .iter()
        .all(|order| rows::is_ordered(ty(&order.column)))
    {
        return None;
    }
    if !distinct && is_key_order(table, key, &order) {
        order.clear();
    }
    let members = |column: &u16| table.def.columns[usize::from(*column)].members.clone();
    Some(Output::Rows {
        members: columns.iter().map(members).collect(),
        columns,
        order,
        distinct,
    })
}

/// True if rows in the order of the key are in this order, too.
fn is_key_order(table: &Table, key: &KeyTemplate, order: &[Order]) -> bool {
    let index = &table.indexes[key.index];
    let mut positions = index.layout.key.iter();
    let order = order.iter().filter(|order| !key.is_equal(order.column));
    order.into_iter().all(|order| {
        let next = positions
            .by_ref()
            .map(|position| index.columns[usize::from(*position)])
            .find(|column| !key.is_equal(*column));
        // Strings are sorted as text compares, which is not quite how their keys do.
        let by_key = table
            .def
            .columns
            .get(usize::from(order.column))
            .is_some_and(|column| !column.ty.is_string());
        next == Some(order.column) && !order.descending && by_key
    })
}

fn order(
    order_by: Option<&OrderBy>,
    projection: &[SelectItem],
    names: &Names<'_>,
) -> Option<Vec<Order>> {
    let Some(order_by) = order_by else {
        return Some(Vec::new());
    };
    let OrderByKind::Expressions(exprs) = &order_by.kind else {
        return None;
    };
    let aliased = projection
        .iter()
        .any(|item| matches!(item, SelectItem::ExprWithAlias { .. }));
    // An alias may hide a column.
    if order_by.interpolate.is_some() || aliased {
        return None;
    }
    exprs
        .iter()
        .map(|expr| {
            let plain = expr.with_fill.is_none() && expr.options.nulls_first.is_none();
            let column = names.column(&expr.expr).filter(|_| plain)?;
            Some(Order {
                column,
                descending: expr.options.asc == Some(false),
            })
        })
        .collect()
}

/// LIMIT and OFFSET.
fn limits(
    clause: Option<&LimitClause>,
    parameters: &Parameters,
) -> Option<(Option<Operand>, Option<Operand>)> {
    let (limit, offset) = match clause {
        None => return Some((None, None)),
        Some(LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) if limit_by.is_empty() => (limit.as_ref()?, offset.as_ref().map(|o| &o.value)),
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (limit, Some(offset)),
        Some(_) => return None,
    };
    let offset = match offset {
        Some(offset) => Some(parameters.operand(offset)?),
        None => None,
    };
    Some((Some(parameters.operand(limit)?), offset))
}

impl FastSelect {
    /// True if its rows are locked as if they were to be changed.
    pub(super) fn locks_for_change(&self) -> bool {
        self.lock
            .is_some_and(|(mode, _)| mode == LockMode::Exclusive)
    }

    /// Runs it.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        table: &Arc<Table>,
        parameters: &[Datum],
        out: &mut dyn ResultSink,
        cancel: &CancelToken,
    ) -> Result<Answer> {
        let (Some(spans), Some((skip, most))) =
            (self.key.spans(parameters), self.bounds(parameters))
        else {
            return Ok(Answer::Ordinary);
        };
        let read = ShortRead {
            table,
            index: self.key.index,
            spans: &spans,
            rows: self.enough(skip, most),
        };
        let mut records = std::mem::take(&mut session.fast.records);
        let read = match self.lock {
            Some(lock) => {
                let mut work = session.begin_work(cancel);
                let locked =
                    locked_row(&mut work, table, &spans.hull().lower, lock, &mut records).await;
                session.end_work(work, locked).await.map(|()| true)
            }
            None => {
                let mut work = session.begin_reading(true, cancel);
                let read = rows_of(session, work.as_mut(), table, &read, &mut records).await;
                session.end_reading(work, read).await
            }
        };
        let rows = Rows {
            layout: &table.clustered().layout,
            records: &records,
        };
        let batch = match read {
            Ok(true) => self.batch(&rows, skip, most),
            Ok(false) | Err(_) => None,
        };
        session.fast.records = records;
        read?;
        let Some(batch) = batch else {
            return Ok(Answer::Ordinary);
        };
        out.shared_columns(&self.columns).await?;
        if batch.num_rows() > 0 {
            session.sent.add_rows(batch.num_rows());
            out.rows(&batch).await?;
        }
        out.finish(session.warning_count()).await?;
        Ok(Answer::Done)
    }

    /// The result; `None` if it has a value that the ordinary way has to look at.
    fn batch(&self, rows: &Rows<'_>, skip: usize, most: usize) -> Option<RecordBatch> {
        match &self.output {
            Output::Aggregates(aggregates) => aggregate::row(aggregates, rows, &self.schema),
            Output::Rows {
                columns,
                members,
                order,
                distinct,
            } => {
                let distinct = distinct.then_some(&columns[..]);
                let picked = rows.picked(order, distinct, skip, most);
                rows.batch(&picked, columns, members, &self.schema)
            }
        }
    }

    /// Rows to leave out at the beginning, and how many to deliver.
    fn bounds(&self, parameters: &[Datum]) -> Option<(usize, usize)> {
        let count = |operand: &Option<Operand>, otherwise| match operand {
            Some(operand) => operand.count(parameters),
            None => Some(otherwise),
        };
        Some((count(&self.offset, 0)?, count(&self.limit, usize::MAX)?))
    }

    /// Rows of the key's part that the result can be made of.
    fn enough(&self, skip: usize, most: usize) -> usize {
        match &self.output {
            _ if self.key.is_row => 1,
            Output::Rows {
                order,
                distinct: false,
                ..
            } if order.is_empty() => skip.saturating_add(most),
            _ => usize::MAX,
        }
    }
}

/// Reads the rows, in the session's transaction if there is one. False if they are to be read the
/// ordinary way.
async fn rows_of(
    session: &Session,
    work: Option<&mut Work>,
    table: &Arc<Table>,
    read: &ShortRead<'_>,
    records: &mut Records,
) -> Result<bool> {
    let engine = &session.frontend.engine;
    let closings = engine.closings();
    if engine.is_closed(table, None) {
        return Ok(false);
    }
    let view = match work {
        None => session.current_view(),
        // What is read is locked.
        Some(work) if work.isolation() == Isolation::Serializable => {
            let locker = work.locker(LockMode::Shared);
            locker.lock(table, read.index, read.spans).await?
        }
        Some(work) => {
            let view = work.transaction().view();
            if engine.closings() != closings {
                work.forget_new_snapshot();
                return Ok(false);
            }
            view
        }
    };
    // A view may be of what a session has half done that keeps the table to itself since the look at it.
    if engine.closings() != closings {
        return Ok(false);
    }
    Ok(engine.read_short(read, &view, records).await?)
}

/// Locks the row with a clustered key, and reads its current version: none if it is not there, or
/// skipped.
async fn locked_row(
    work: &mut Work,
    table: &Arc<Table>,
    key: &[u8],
    (mode, wait): (LockMode, LockWait),
    records: &mut Records,
) -> Result<()> {
    if mode == LockMode::Exclusive {
        work.check_writable(table)?;
    }
    records.clear();
    let lock = work.transaction().lock_row(table, key, mode, wait);
    if let RowLock::Locked(Some(record)) = lock.await? {
        records.push(&record);
    }
    Ok(())
}
