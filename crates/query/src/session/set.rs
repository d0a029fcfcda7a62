//! SET.

use perigee_engine::scan::CancelToken;
use perigee_value::Charset;
use sqlparser::ast::{Expr, Query, SelectItem, SetExpr};

use super::select::Reading;
use super::transaction::Work;
use super::user_variables::UserValue;
use super::variables::{Variables, charset};
use super::{Session, scalars, select};
use crate::error::{Result, SqlError};
use crate::parse::{Assignment, Piece, Scope, Script, Statement, Target, Value, collation_named};

/// Runs a SET; nothing is set if one of the assignments is refused.
pub(super) async fn run(
    session: &mut Session,
    assignments: Vec<Assignment>,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<()> {
    let mut work = session.begin_reading(false, cancel);
    let checked = check_all(session, &mut work, assignments, piece, cancel).await;
    let checked = session.end_reading(work, checked).await?;
    let was_autocommit = session.autocommit();
    for checked in checked {
        match checked {
            Checked::System(Scope::Global, name, value) => {
                session.frontend.set_global(&name, value);
            }
            Checked::System(Scope::Session, name, value) => session.variables.set(&name, value),
            Checked::System(Scope::NextTransaction, name, value) => {
                let next = &mut session.next_transaction;
                match name.strip_suffix("_isolation") {
                    Some(_) => next.isolation = value,
                    None => next.read_only = Some(value.as_deref() == Some("ON")),
                }
            }
            Checked::User(name, value) => session.user_variables.set(name, value)?,
        }
    }
    if session.autocommit() && !was_autocommit {
        session.commit_open().await?;
    }
    Ok(())
}

/// What is set to what.
enum Checked {
    System(Scope, String, Option<String>),
    User(String, UserValue),
}

async fn check_all(
    session: &Session,
    work: &mut Option<Work>,
    assignments: Vec<Assignment>,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<Vec<Checked>> {
    let mut checked = Vec::new();
    for Assignment { target, value } in assignments {
        if matches!(target, Target::System(Scope::NextTransaction, _)) && work.is_some() {
            return Err(SqlError::transaction_in_progress());
        }
        let reading = session.reading(work, cancel).await;
        check(session, target, value, piece, reading, &mut checked).await?;
    }
    Ok(checked)
}

async fn check(
    session: &Session,
    target: Target,
    value: Value,
    piece: Piece<'_>,
    reading: Reading,
    out: &mut Vec<Checked>,
) -> Result<()> {
    let session_variable =
        |name: &str, value: String| Checked::System(Scope::Session, name.to_owned(), Some(value));
    match target {
        Target::Names { collation } => {
            let name = match value {
                Value::Text(text) => charset(&text)?,
                Value::Default => "utf8mb4".to_owned(),
                Value::Expr(_) => return Err(SqlError::unknown_charset("?")),
            };
            let collation = match collation {
                Some(collation) => {
                    let collation = collation_named(&collation)?;
                    // ASCII's texts are those of UTF-8.
                    let charset = Charset::named(&name).unwrap_or(Charset::Utf8mb4);
                    if collation.charset() != charset {
                        let (collation, charset) = (collation.name(), charset.name());
                        return Err(SqlError::collation_of_charset(collation, charset));
                    }
                    Some(collation)
                }
                None => None,
            };
            for variable in [
                "character_set_client",
                "character_set_connection",
                "character_set_results",
            ] {
                out.push(session_variable(variable, name.clone()));
            }
            if let Some(collation) = collation {
                let name = collation.name().to_owned();
                out.push(session_variable("collation_connection", name));
            }
        }
        Target::System(scope, name) => {
            let value = match value {
                Value::Default if scope != Scope::Global => session
                    .frontend
                    .globals
                    .read()
                    .get(&name)?
                    .map(str::to_owned),
                Value::Default => Some(Variables::default_of(&name)?),
                Value::Text(text) => Some(text),
                Value::Expr(expr) => evaluate(session, *expr, piece, reading).await?.shown(),
            };
            let value = Variables::check(scope, &name, value.as_deref())?;
            out.push(Checked::System(scope, name, value));
        }
        Target::User(name) => {
            let value = match value {
                Value::Text(text) => UserValue::text(text, session.variables.collation()),
                Value::Default => return Err(SqlError::syntax("DEFAULT", 1)),
                Value::Expr(expr) => evaluate(session, *expr, piece, reading).await?,
            };
            out.push(Checked::User(name, value));
        }
    }
    Ok(())
}

/// The value of an expression without columns.
pub(super) async fn evaluate(
    session: &Session,
    expr: Expr,
    piece: Piece<'_>,
    reading: Reading,
) -> Result<UserValue> {
    let (cancel, collation) = (reading.cancel.clone(), session.variables.collation());
    if let Some((value, ty)) = scalars::value_of(session, &expr, session.now(), &cancel)? {
        return Ok(UserValue::of(value, &ty, collation));
    }
    let query = query_of(vec![expr])?;
    let prepared = select::prepare(session, &query, piece, reading).await?;
    let mut stream = session.frontend.start(&prepared);
    while let Some(batch) = select::guarded(&mut stream, &cancel).await? {
        if batch.num_rows() > 0 {
            let batch = select::shown(&batch, &prepared.schema, session.zone())?;
            session.keep_variables(&prepared.bound)?;
            let columns = prepared.columns();
            let Some(column) = columns.first() else {
                return Err(SqlError::unknown("Q8: an expression has a column"));
            };
            return UserValue::of_first(batch.column(0), column, collation);
        }
    }
    Ok(UserValue::default())
}

/// `SELECT expr, …`.
pub(super) fn query_of(exprs: Vec<Expr>) -> Result<Box<Query>> {
    let script = Script::new("SELECT 1")?;
    let statement = script.pieces().next().map(Piece::parse).transpose()?;
    let Some(Statement::Query(mut query)) = statement else {
        return Err(SqlError::unknown("SELECT is no query"));
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = exprs.into_iter().map(SelectItem::UnnamedExpr).collect();
    }
    Ok(query)
}
