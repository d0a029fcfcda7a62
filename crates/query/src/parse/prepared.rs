//! PREPARE, EXECUTE and DEALLOCATE PREPARE.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{Cursor, Statement};
use crate::error::Result;

/// Where the text of a statement to prepare comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparedText {
    /// A string.
    Text(String),
    /// A user variable, in lower case.
    Variable(String),
}

/// `PREPARE name FROM text`, behind its first word.
pub(super) fn prepare(mut cursor: Cursor<'_>) -> Result<Statement> {
    let name = cursor.identifier()?.to_lowercase();
    cursor.expect_word("FROM")?;
    let text = match user_variable(&mut cursor) {
        Some(variable) => PreparedText::Variable(variable),
        None => PreparedText::Text(cursor.string()?),
    };
    cursor.end()?;
    Ok(Statement::Prepare { name, text })
}

/// `EXECUTE name [USING @a, …]`, behind its first word.
pub(super) fn execute(mut cursor: Cursor<'_>) -> Result<Statement> {
    let name = cursor.identifier()?.to_lowercase();
    let mut using = Vec::new();
    if cursor.accept("USING") {
        loop {
            using.push(user_variable(&mut cursor).ok_or_else(|| cursor.error())?);
            if !cursor.accept_token(&Token::Comma) {
                break;
            }
        }
    }
    cursor.end()?;
    Ok(Statement::Execute { name, using })
}

/// `{DEALLOCATE | DROP} PREPARE name`, behind its first word.
pub(super) fn deallocate(mut cursor: Cursor<'_>) -> Result<Statement> {
    cursor.expect_word("PREPARE")?;
    let name = cursor.identifier()?.to_lowercase();
    cursor.end()?;
    Ok(Statement::Deallocate(name))
}

/// Takes a user variable if it comes next; gives its name in lower case.
fn user_variable(cursor: &mut Cursor<'_>) -> Option<String> {
    let Some(Token::Word(word)) = cursor.peek() else {
        return None;
    };
    let name = word.value.strip_prefix('@')?;
    if word.quote_style.is_some() || name.starts_with('@') {
        return None;
    }
    cursor.next();
    Some(name.to_lowercase())
}

/// Tokens of a statement with those of literals in the places of some of them: `literal` is given the number of the
/// place.
///
/// # Errors
/// Those of `literal`.
pub fn with_literals(
    tokens: &[TokenWithSpan],
    places: &[usize],
    mut literal: impl FnMut(usize) -> Result<Vec<Token>>,
) -> Result<Vec<TokenWithSpan>> {
    let mut all = Vec::with_capacity(tokens.len() + places.len());
    let mut copied = 0;
    for (number, at) in places.iter().enumerate() {
        all.extend_from_slice(&tokens[copied..*at]);
        copied = at + 1;
        let span = tokens[*at].span;
        let mut literal = literal(number)?;
        if let [Token::SingleQuotedString(text)] = &literal[..]
            && let Ok(rows) = text.parse::<u64>()
            && counts_rows(&tokens[..*at])
        {
            literal = vec![Token::Number(rows.to_string(), false)];
        }
        // Two strings side by side would be one; the second is the name of a column.
        if is_string(&tokens[at + 1..]) {
            literal.insert(0, Token::LParen);
            literal.push(Token::RParen);
        }
        all.extend(
            literal
                .into_iter()
                .map(|token| TokenWithSpan { token, span }),
        );
    }
    all.extend_from_slice(&tokens[copied..]);
    Ok(all)
}

/// True if a number of rows comes next: behind LIMIT, OFFSET, and the comma of LIMIT.
fn counts_rows(tokens: &[TokenWithSpan]) -> bool {
    let before = tokens.iter().rev().map(|token| &token.token);
    let mut before = before.filter(|token| !matches!(token, Token::Whitespace(_)));
    let is_word = |token: Option<&Token>, words: &[Keyword]| match token {
        Some(Token::Word(word)) => word.quote_style.is_none() && words.contains(&word.keyword),
        _ => false,
    };
    match before.next() {
        Some(Token::Comma) => {
            before.next();
            is_word(before.next(), &[Keyword::LIMIT])
        }
        token => is_word(token, &[Keyword::LIMIT, Keyword::OFFSET]),
    }
}

/// True if a string comes next.
fn is_string(tokens: &[TokenWithSpan]) -> bool {
    let mut following = tokens.iter().map(|token| &token.token);
    let next = following.find(|token| !matches!(token, Token::Whitespace(_)));
    matches!(
        next,
        Some(Token::SingleQuotedString(_) | Token::DoubleQuotedString(_))
    )
}
