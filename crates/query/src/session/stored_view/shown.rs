//! A view as SHOW CREATE VIEW and information_schema write it.

use perigee_accounts::AccountName;
use perigee_engine::catalog::{CheckOption, ViewAlgorithm, ViewDef};
use perigee_sql_bind::query::quoted;

use super::text::within;
use crate::error::Result;

/// The statement that makes a view, in a session with this current schema: names in it are without it, if all are of
/// the view's own.
///
/// # Errors
/// If the view's text does not parse.
pub(in crate::session) fn create_view(view: &ViewDef, current: Option<&str>) -> Result<String> {
    let short = match current == Some(&*view.schema) {
        true => within(&view.query, &view.schema)?,
        false => None,
    };
    let name = match &short {
        Some(_) => quoted(&view.name),
        None => format!("{}.{}", quoted(&view.schema), quoted(&view.name)),
    };
    let algorithm = match view.algorithm {
        ViewAlgorithm::Undefined => "UNDEFINED",
        ViewAlgorithm::Merge => "MERGE",
        ViewAlgorithm::TempTable => "TEMPTABLE",
    };
    let definer = AccountName::new(&view.definer.0, &view.definer.1).in_backticks();
    let security = if view.invoker { "INVOKER" } else { "DEFINER" };
    let columns: Vec<_> = view.columns.iter().map(|name| quoted(name)).collect();
    let columns = match view.named {
        true => format!(" ({})", columns.join(",")),
        false => String::new(),
    };
    let check = match view.check {
        CheckOption::None => "",
        CheckOption::Local => " WITH LOCAL CHECK OPTION",
        CheckOption::Cascaded => " WITH CASCADED CHECK OPTION",
    };
    let query = short.as_ref().unwrap_or(&view.query);
    Ok(format!(
        "CREATE ALGORITHM={algorithm} DEFINER={definer} SQL SECURITY {security} VIEW {name}{columns} AS {query}{check}"
    ))
}
