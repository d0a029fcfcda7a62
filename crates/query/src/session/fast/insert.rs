//! INSERT … VALUES of constants.

use perigee_sql_bind::Modes;
use std::sync::{Arc, LazyLock};

use perigee_engine::catalog::Table;
use perigee_engine::scan::CancelToken;
use perigee_value::{Datum, Zone};
use sqlparser::ast::{self, Insert, SetExpr, TableObject};
use sqlparser::parser::Parser;

use super::super::Session;
use super::super::auto_increment::Generator;
use super::super::checks::Checks;
use super::super::insert::{Targets, engine_error};
use super::super::transaction::Work;
use super::operand::{Operand, Parameters};
use super::{Recognised, values};
use crate::error::Result;
use crate::parse::Grammar;
use crate::result::OkResult;

/// An INSERT of rows of constants.
#[derive(Debug)]
pub(super) struct FastInsert {
    targets: Targets,
    rows: Vec<Vec<Operand>>,
    checks: Option<Checks>,
}

/// What an INSERT without any clause is parsed to.
static BARE: LazyLock<Option<Insert>> = LazyLock::new(|| {
    let mut parser = Parser::new(Grammar::of(Modes::NONE))
        .try_with_sql("INSERT INTO t VALUES (1)")
        .ok()?;
    match parser.parse_statement() {
        Ok(ast::Statement::Insert(insert)) => stripped(&insert),
        _ => None,
    }
});

/// An INSERT without its table, columns and values; `None` if it has no VALUES.
fn stripped(insert: &Insert) -> Option<Insert> {
    let mut rest = insert.clone();
    rest.into = true;
    rest.columns.clear();
    rest.table = TableObject::TableName(ast::ObjectName(Vec::new()));
    match rest.source.as_mut()?.body.as_mut() {
        SetExpr::Values(values) => {
            values.rows.clear();
            values.value_keyword = false;
        }
        _ => return None,
    }
    Some(rest)
}

/// The INSERT, if it is one that the fast path runs.
pub(super) fn recognise(session: &Session, insert: &Insert) -> Option<Recognised<FastInsert>> {
    let TableObject::TableName(name) = &insert.table else {
        return None;
    };
    let SetExpr::Values(given) = insert.source.as_ref()?.body.as_ref() else {
        return None;
    };
    if stripped(insert)? != *BARE.as_ref()? {
        return None;
    }
    let table = session.named_table(name).ok()?;
    if table.def.has_generated() || !table.def.triggers.is_empty() {
        return None;
    }
    let names = insert
        .columns
        .iter()
        .map(|column| match &column.0[..] {
            [part] => part.as_ident().map(|ident| ident.value.as_str()),
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    let targets = Targets::named(&table, &names).ok()?;
    let parameters = Parameters::of(insert);
    let row = |row: &Vec<ast::Expr>| {
        let operands = row.iter().map(|value| parameters.operand(value));
        let operands = operands.collect::<Option<Vec<_>>>()?;
        (operands.len() == targets.columns().len()).then_some(operands)
    };
    let rows = given.rows.iter().map(|values| row(&values.content));
    Some(Recognised {
        statement: FastInsert {
            rows: rows.collect::<Option<_>>()?,
            checks: Checks::of(&table.def, Zone::Utc).ok()?,
            targets,
        },
        parameters: parameters.len(),
        by_schema: name.0.len() == 1,
        table,
    })
}

impl FastInsert {
    /// Runs it; `None` if it is to be run the ordinary way.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        table: &Arc<Table>,
        parameters: &[Datum],
        cancel: &CancelToken,
    ) -> Result<Option<OkResult>> {
        let defaults = self.targets.defaults(session.now());
        let row = |row: &Vec<Operand>| self.row(row, &defaults, parameters);
        let rows = self.rows.iter().map(row);
        let Some(mut rows) = rows.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        if let Some(checks) = &self.checks {
            let holds = |row: &Vec<Datum>| {
                let violated = checks.violated(&table.def, row, cancel);
                violated.is_ok_and(|violated| violated.is_none())
            };
            if !rows.iter().all(holds) {
                return Ok(None);
            }
        }
        let mut generator = Generator::new(session, table).await?;
        rows.iter_mut().try_for_each(|row| generator.fill(row))?;
        let mut work = session.begin_work(cancel);
        let inserted = insert(&mut work, table, &rows).await;
        let count = session.end_work(work, inserted).await?;
        let info = match rows.len() {
            1 => String::new(),
            records => format!("Records: {records}  Duplicates: 0  Warnings: 0"),
        };
        Ok(Some(OkResult {
            affected_rows: count,
            last_insert_id: session.note_numbers(&mut generator),
            info,
            ..OkResult::default()
        }))
    }

    /// The values of a row's columns.
    fn row(
        &self,
        operands: &[Operand],
        defaults: &[Datum],
        parameters: &[Datum],
    ) -> Option<Vec<Datum>> {
        let mut row = defaults.to_vec();
        for (operand, column) in operands.iter().zip(self.targets.columns()) {
            let def = &self.targets.table.def.columns[*column];
            row[*column] = values::stored(operand.value(parameters)?, def)?;
        }
        Some(row)
    }
}

async fn insert(work: &mut Work, table: &Arc<Table>, rows: &[Vec<Datum>]) -> Result<u64> {
    work.check_writable(table)?;
    let inserted = work.transaction().insert(table, rows).await;
    inserted.map_err(|error| engine_error(error, table, 0))
}
