//! VISIBLE and INVISIBLE in the definitions of keys and columns, of which sqlparser knows INVISIBLE columns only.

use sqlparser::ast::IndexOption;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The comment that stands for INVISIBLE in what sqlparser reads of a key.
const MARK: &str = "\0invisible";

/// First words of keys and constraints.
const KEYS: [Keyword; 8] = [
    Keyword::KEY,
    Keyword::INDEX,
    Keyword::UNIQUE,
    Keyword::PRIMARY,
    Keyword::CONSTRAINT,
    Keyword::FULLTEXT,
    Keyword::SPATIAL,
    Keyword::FOREIGN,
];

/// True if one of the options of a key is INVISIBLE.
#[must_use]
pub fn is_invisible(options: &[IndexOption]) -> bool {
    let mark = IndexOption::Comment(MARK.to_owned());
    options.contains(&mark)
}

/// Definitions, which stand between `depth` parentheses, as sqlparser can read them: VISIBLE is left out, and
/// INVISIBLE of a key is a comment.
pub(super) fn written_out(tokens: Vec<TokenWithSpan>, depth: usize) -> Vec<TokenWithSpan> {
    let known = |token: &TokenWithSpan| visibility(&token.token).is_some();
    if !tokens.iter().any(known) {
        return tokens;
    }
    let mut all = Vec::with_capacity(tokens.len() + 1);
    let (mut open, mut words, mut is_key) = (0, 0, false);
    // Behind the definitions, and in a query that stands in their place, the words may be names.
    let mut is_over = false;
    for token in tokens {
        match &token.token {
            _ if is_over => {}
            Token::Whitespace(_) => {}
            Token::LParen => {
                open += 1;
                words = if open == depth { 0 } else { words + 1 };
            }
            Token::RParen => {
                is_over = open == depth;
                open = open.saturating_sub(1);
            }
            Token::Comma if open == depth => words = 0,
            word if open == depth => {
                if words == 0 {
                    is_key = keyword(word).is_some_and(|word| KEYS.contains(&word));
                    is_over = matches!(keyword(word), Some(Keyword::SELECT | Keyword::WITH));
                }
                words += 1;
                // A column has a name and a type first, a key its columns.
                match visibility(word).filter(|_| words > 2) {
                    Some(true) => continue,
                    Some(false) if is_key => {
                        let mark = Token::SingleQuotedString(MARK.to_owned());
                        let written = [Token::make_keyword("COMMENT"), mark];
                        all.extend(written.map(|part| TokenWithSpan::new(part, token.span)));
                        continue;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        all.push(token);
    }
    all
}

/// True for VISIBLE, false for INVISIBLE.
fn visibility(token: &Token) -> Option<bool> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => {
            if word.value.eq_ignore_ascii_case("VISIBLE") {
                return Some(true);
            }
            word.value
                .eq_ignore_ascii_case("INVISIBLE")
                .then_some(false)
        }
        _ => None,
    }
}

fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}
