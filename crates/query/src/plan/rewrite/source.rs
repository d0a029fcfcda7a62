//! The text of a statement and its tokens: what columns of results are named after.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// A statement's text with its tokens (white space included).
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The text that was tokenized.
    pub text: &'a str,
    /// Its tokens.
    pub tokens: &'a [TokenWithSpan],
}

impl<'a> Source<'a> {
    /// Byte offset of a location (line and column, in characters, from 1).
    #[must_use]
    pub fn offset(&self, location: Location) -> usize {
        let mut start = 0;
        for _ in 1..location.line {
            match self.text[start..].find('\n') {
                Some(at) => start += at + 1,
                None => return self.text.len(),
            }
        }
        let columns = location.column.saturating_sub(1) as usize;
        match self.text[start..].char_indices().nth(columns) {
            Some((at, _)) => start + at,
            None => self.text.len(),
        }
    }

    /// The texts of the items of the SELECT whose keyword is at `select`.
    #[must_use]
    pub fn select_items(&self, select: Location) -> Vec<&'a str> {
        let Some(at) = self.tokens.iter().position(|t| t.span.start == select) else {
            return Vec::new();
        };
        let mut items = Vec::new();
        let mut range: Option<(Location, Location)> = None;
        let mut depth = 0;
        let mut leading = true;
        for token in &self.tokens[at + 1..] {
            match &token.token {
                Token::Whitespace(_) => continue,
                Token::Word(word) if leading && is_modifier(word.keyword) => continue,
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                Token::Comma if depth == 0 => {
                    items.push(self.slice(range.take()));
                    continue;
                }
                Token::SemiColon | Token::EOF => break,
                Token::Word(word) if depth == 0 && ends_items(word.keyword) => break,
                _ => {}
            }
            leading = false;
            let start = range.map_or(token.span.start, |(start, _)| start);
            range = Some((start, token.span.end));
        }
        items.push(self.slice(range));
        items
    }

    fn slice(&self, range: Option<(Location, Location)>) -> &'a str {
        match range {
            Some((start, end)) => &self.text[self.offset(start)..self.offset(end)],
            None => "",
        }
    }
}

fn is_modifier(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::ALL
            | Keyword::DISTINCT
            | Keyword::DISTINCTROW
            | Keyword::SQL_NO_CACHE
            | Keyword::HIGH_PRIORITY
    )
}

fn ends_items(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::FROM
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::UNION
            | Keyword::INTO
            | Keyword::FOR
    )
}

#[cfg(test)]
mod tests {
    use crate::parse::Grammar;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn items_are_cut_at_commas_outside_of_parentheses() {
        let text = "SELECT DISTINCT  a + 'é,' ,\n  f( b, (SELECT 1 FROM x) )  , `c`\n FROM t";
        let tokens = Tokenizer::new(&Grammar, text).tokenize_with_location();
        let tokens = tokens.expect("it is SQL");
        let source = Source {
            text,
            tokens: &tokens,
        };
        let first = tokens[0].span.start;
        assert_eq!(
            source.select_items(first),
            ["a + 'é,'", "f( b, (SELECT 1 FROM x) )", "`c`"]
        );
    }
}
