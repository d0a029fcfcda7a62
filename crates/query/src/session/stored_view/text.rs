//! The text that is kept of a view: what was written, with the names as the binder found them, so that each says which
//! table it belongs to, and `*` is what it stood for.

use std::ops::Range;

use perigee_sql_bind::query::{Noted, Place};
use sqlparser::tokenizer::{Location, Token};

use crate::error::{Result, SqlError};
use crate::parse::{Cursor, Piece, SelectLists, Source};

/// The text of a query with its names as they were noted.
///
/// # Errors
/// 1235 for what was noted of something that is not in the text.
pub(in crate::session) fn resolved(piece: Piece<'_>, noted: &[Noted]) -> Result<String> {
    let source = Source {
        text: piece.text,
        tokens: piece.tokens,
        lists: piece.lists,
    };
    let lists = SelectLists::new(source);
    let mut changes: Vec<(Range<usize>, &str)> = Vec::with_capacity(noted.len());
    for Noted { place, text } in noted {
        let range = match place {
            Place::Name(start, end) => source.offset(*start)..source.offset(*end),
            Place::Item {
                select,
                number,
                instead,
            } => item(&lists, (*select, *number), *instead)?,
        };
        changes.push((range, text));
    }
    // Behind a name that an item ends with comes what the item is called.
    changes.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = String::new();
    let mut at = 0;
    for (range, text) in changes {
        if range.start < at {
            return Err(SqlError::not_supported("this query as a view"));
        }
        out.push_str(&piece.text[at..range.start]);
        out.push_str(text);
        at = range.end;
    }
    out.push_str(&piece.text[at..]);
    Ok(out)
}

/// Where an item of a select list stands, or where it ends.
fn item(
    lists: &SelectLists<'_>,
    (select, number): (Location, usize),
    instead: bool,
) -> Result<Range<usize>> {
    let range = lists.ranges(select).into_iter().nth(number).flatten();
    let range = range.ok_or_else(|| SqlError::not_supported("this query as a view"))?;
    Ok(match instead {
        true => range,
        false => range.end..range.end,
    })
}

/// A text of a view with its names of tables as they are within a schema: without it.
///
/// # Errors
/// If the text does not parse.
pub(super) fn within(text: &str, schema: &str) -> Result<Option<String>> {
    let query = super::parsed(text)?;
    let source = Source::of(text);
    let mut prefixes = Vec::new();
    let mut is_within = true;
    let _ = sqlparser::ast::visit_relations(&query, |name| {
        let idents: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        if let [own, table] = idents[..] {
            is_within &= own.value == schema;
            prefixes.push(source.offset(own.span.start)..source.offset(table.span.start));
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    if !is_within {
        return Ok(None);
    }
    prefixes.sort_by_key(|range| range.start);
    prefixes.dedup();
    let mut out = String::new();
    let mut at = 0;
    for range in prefixes {
        out.push_str(&text[at..range.start]);
        at = range.end;
    }
    out.push_str(&text[at..]);
    Ok(Some(out))
}

/// Checks that a query has neither parameters nor variables, which mean something in a session only.
///
/// # Errors
/// 1351.
pub(in crate::session) fn check_constant(piece: Piece<'_>) -> Result<()> {
    let mut cursor = Cursor::new(piece);
    while let Some(token) = cursor.next() {
        let is_variable = match token {
            Token::Placeholder(_) | Token::AtSign => true,
            Token::Word(word) => word.quote_style.is_none() && word.value.starts_with('@'),
            _ => false,
        };
        if is_variable {
            return Err(SqlError::view_variable());
        }
    }
    Ok(())
}
