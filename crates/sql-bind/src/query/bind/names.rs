//! Names of result columns that were given none.

use sqlparser::ast::{Expr, Value as Literal};

/// Bytes of the name of a column that was given none: as many as MySQL has. Clients keep no room for more.
const MAX_SHOWN: usize = 256;

/// What MySQL names the column of an expression without alias, which was written so.
pub(super) fn shown_name(expr: &Expr, text: Option<&str>) -> String {
    let written = || text.map_or_else(|| expr.to_string(), str::to_owned);
    let mut name = match expr {
        Expr::Identifier(ident) if !ident.value.starts_with('@') => ident.value.clone(),
        Expr::CompoundIdentifier(idents) if !idents[0].value.starts_with('@') => idents
            .last()
            .map(|ident| ident.value.clone())
            .unwrap_or_default(),
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(text) | Literal::DoubleQuotedString(text) => text.clone(),
            Literal::Null => "NULL".to_owned(),
            _ => written(),
        },
        _ => written(),
    };
    name.truncate(name.floor_char_boundary(MAX_SHOWN));
    name
}
