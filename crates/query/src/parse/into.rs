//! SELECT … INTO @a, @b or INTO OUTFILE: the clause is taken out of the statement, which is a query without it.

use perigee_value::Charset;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::load::{Fields, Lines, fields, lines};
use super::{Cursor, Piece, charset_named};
use crate::error::{Result, SqlError};

/// Where the rows of a query go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// To user variables, in lower case.
    Variables(Vec<String>),
    /// INTO OUTFILE: to the lines of a file on the server.
    Lines {
        /// Its name.
        file: String,
        /// FIELDS.
        fields: Fields,
        /// LINES.
        lines: Lines,
    },
    /// INTO DUMPFILE: to a file on the server that is the values of one row and nothing else.
    Bytes {
        /// Its name.
        file: String,
    },
}

/// The statement's tokens without INTO, and what INTO says; `None` without INTO.
///
/// # Errors
/// 1064 for INTO in another place.
pub(super) fn cut(piece: Piece<'_>) -> Result<Option<(Vec<TokenWithSpan>, Receiver)>> {
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
    let into = match (cursor.accept("OUTFILE"), cursor.accept("DUMPFILE")) {
        (true, false) => written_lines(&mut cursor)?,
        (false, true) => Receiver::Bytes {
            file: cursor.string()?,
        },
        (true, true) => return Err(cursor.error_at_last()),
        (false, false) => Receiver::Variables(variables(&mut cursor)?),
    };
    let end = cursor.position();
    if !cursor.at_end() && !cursor.peek_any(&["FROM", "FOR", "LOCK"]) {
        return Err(cursor.error());
    }
    let mut tokens = cursor.tokens(0..begin).to_vec();
    tokens.extend_from_slice(&piece.tokens[end..]);
    Ok(Some((tokens, into)))
}

fn written_lines(cursor: &mut Cursor<'_>) -> Result<Receiver> {
    let file = cursor.string()?;
    if cursor.accept_all(&["CHARACTER", "SET"]) || cursor.accept("CHARSET") {
        let charset = charset_named(&cursor.name()?)?;
        let is_own = matches!(
            charset,
            Charset::Binary | Charset::Utf8mb4 | Charset::Utf8mb3
        );
        if !is_own {
            let what = format!("INTO OUTFILE with CHARACTER SET {}", charset.name());
            return Err(SqlError::not_supported(what));
        }
    }
    Ok(Receiver::Lines {
        file,
        fields: fields(cursor)?,
        lines: lines(cursor)?,
    })
}

fn variables(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    loop {
        let variable = cursor.word();
        match variable.strip_prefix('@') {
            Some(name) if !name.is_empty() && !name.starts_with('@') => {
                names.push(name.to_lowercase());
            }
            _ => return Err(cursor.error_at_last()),
        }
        if !cursor.accept_token(&Token::Comma) {
            return Ok(names);
        }
    }
}
