//! `TABLE t`, which sqlparser reads with a schema only: it is `SELECT * FROM t`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens with a SELECT in the place of each TABLE that begins a query.
pub(super) fn written_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut all = Vec::with_capacity(tokens.len());
    let mut before = [None, None];
    for (place, token) in tokens.iter().enumerate() {
        if matches!(token.token, Token::Whitespace(_)) {
            all.push(token.clone());
            continue;
        }
        let is_whole = keyword(&token.token) == Some(Keyword::TABLE)
            && begins_query(before)
            && is_name(&tokens[place + 1..]);
        match is_whole {
            true => {
                let [select, from] = ["SELECT", "FROM"].map(Token::make_keyword);
                let written = [select, Token::Mul, from];
                all.extend(written.map(|part| TokenWithSpan::new(part, token.span)));
            }
            false => all.push(token.clone()),
        }
        before = [before[1], Some(&token.token)];
    }
    all
}

fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// True if a query may begin behind two tokens.
fn begins_query([second, last]: [Option<&Token>; 2]) -> bool {
    let operators = [Keyword::UNION, Keyword::INTERSECT, Keyword::EXCEPT];
    let is_operator = |token: Option<&Token>| {
        let word = token.and_then(keyword);
        word.is_some_and(|word| operators.contains(&word))
    };
    match last {
        None | Some(Token::LParen) => true,
        Some(token) => match keyword(token) {
            Some(Keyword::ALL | Keyword::DISTINCT) => is_operator(second),
            _ => is_operator(last),
        },
    }
}

/// True if a name is next.
fn is_name(tokens: &[TokenWithSpan]) -> bool {
    let next = tokens
        .iter()
        .find(|token| !matches!(token.token, Token::Whitespace(_)));
    next.is_some_and(|next| matches!(next.token, Token::Word(_)))
}
