//! Table options.

use perigee_value::Collation;
use sqlparser::ast::{CommentDef, CreateTable, CreateTableOptions, Expr, SqlOption};

use super::draft::Draft;
use super::unsupported;
use crate::error::{Result, SqlError};
use crate::parse::{Collating, charset_named, collation_named};
use crate::session::Session;

pub(super) fn table_options(
    session: &mut Session,
    table: &CreateTable,
    draft: &mut Draft,
) -> Result<()> {
    if let Some(comment) = &table.comment {
        draft.comment = comment_text(comment);
    }
    let options = match &table.table_options {
        CreateTableOptions::None => return Ok(()),
        CreateTableOptions::Plain(options) => options,
        _ => return unsupported("these table options"),
    };
    let mut collating = Collating::default();
    for option in options {
        match option {
            SqlOption::Comment(comment) => draft.comment = comment_text(comment),
            SqlOption::KeyValue { key, value } => {
                let key = key.value.to_ascii_uppercase();
                let text = option_text(value);
                let key = key.strip_prefix("DEFAULT ").unwrap_or(&key);
                match key {
                    "CHARSET" | "CHARACTER SET" => collating.charset = Some(charset_named(&text)?),
                    "COLLATE" => collating.collation = Some(collation_named(&text)?),
                    "ENGINE" => check_engine(session, &text, &draft.name)?,
                    "COMMENT" => draft.comment = text,
                    "AUTO_INCREMENT" => {
                        let start = text.parse().map_err(|_| SqlError::syntax(&text, 1))?;
                        draft.start = Some(start);
                    }
                    other => return unsupported(format!("the table option {other}")),
                }
            }
            SqlOption::NamedParenthesizedList(list)
                if list.key.value.eq_ignore_ascii_case("ENGINE") && list.values.is_empty() =>
            {
                let engine = list
                    .name
                    .as_ref()
                    .map_or("", |name| name.value.as_str())
                    .to_owned();
                check_engine(session, &engine, &draft.name)?;
            }
            other => return unsupported(format!("the table option {other}")),
        }
    }
    if let Some(collation) = collating.said()? {
        draft.collation = texts(collation)?;
    }
    Ok(())
}

/// A collation that columns of texts can have.
pub(super) fn texts(collation: Collation) -> Result<Collation> {
    match collation.is_text() {
        true => Ok(collation),
        false => unsupported("columns of texts in the character set binary"),
    }
}

/// Checks that a storage engine is the one there is; InnoDB's tables get it with a warning.
pub(super) fn check_engine(session: &mut Session, engine: &str, table: &str) -> Result<()> {
    match engine.to_ascii_lowercase().as_str() {
        "perigee" => Ok(()),
        "innodb" => {
            session.warn("Warning", &SqlError::other_engine(table));
            Ok(())
        }
        _ => Err(SqlError::unknown_engine(engine)),
    }
}

fn comment_text(comment: &CommentDef) -> String {
    match comment {
        CommentDef::WithEq(text) | CommentDef::WithoutEq(text) => text.clone(),
    }
}

fn option_text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => value
            .value
            .clone()
            .into_string()
            .unwrap_or_else(|| value.to_string()),
        Expr::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    }
}
