//! SELECT … INTO @a, @b: the clause is taken out of the statement, which is a query without it.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{Cursor, Piece};
use crate::error::{Result, SqlError};

/// The statement's tokens without INTO, and the user variables that INTO names, in lower case; `None` without INTO.
///
/// # Errors
/// 1064 for INTO in another place, 1235 for INTO OUTFILE.
pub(super) fn cut(piece: Piece<'_>) -> Result<Option<(Vec<TokenWithSpan>, Vec<String>)>> {
    let mut cursor = Cursor::new(piece);
    let mut depth = 0usize;
    let begin = loop {
        let at = cursor.position();
        if depth == 0 && cursor.accept("INTO") {
            break at;
        }
        match cursor.next() {
            None => return Ok(None),
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth = depth.saturating_sub(1),
            Some(_) => {}
        }
    };
    if cursor.peek_any(&["OUTFILE", "DUMPFILE"]) {
        return Err(SqlError::not_supported("SELECT … INTO a file"));
    }
    let mut names = Vec::new();
    loop {
        let variable = cursor.word();
        match variable.strip_prefix('@') {
            Some(name) if !name.is_empty() && !name.starts_with('@') => {
                names.push(name.to_lowercase());
            }
            _ => return Err(cursor.error_at_last()),
        }
        if !cursor.peek_is(&Token::Comma) {
            break;
        }
        cursor.next();
    }
    let end = cursor.position();
    if !cursor.at_end() && !cursor.peek_any(&["FROM", "FOR", "LOCK"]) {
        return Err(cursor.error());
    }
    let mut tokens = cursor.tokens(0..begin).to_vec();
    tokens.extend_from_slice(&piece.tokens[end..]);
    Ok(Some((tokens, names)))
}
