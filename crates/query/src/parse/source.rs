//! The text of a statement and its tokens: what columns of results are named after.

use std::cell::OnceCell;
use std::ops::Range;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::LongLists;

/// A statement's text with its tokens (white space included).
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The text that was tokenized.
    pub text: &'a str,
    /// Its tokens.
    pub tokens: &'a [TokenWithSpan],
    /// Lists that names among them stand for.
    pub lists: LongLists<'a>,
}

impl<'a> Source<'a> {
    /// A text without its tokens.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        Self {
            text,
            tokens: &[],
            lists: LongLists::default(),
        }
    }

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

    /// Where the tokens begin and end, in bytes: [`Source::offset`] of all of them.
    pub(super) fn places(&self) -> Vec<Range<usize>> {
        let mut walk = Walk {
            text: self.text,
            at: 0,
            location: Location { line: 1, column: 1 },
        };
        let mut place = |location: Location| {
            // Parameters' literals have the place of their mark, all of them.
            if location < walk.location {
                return self.offset(location);
            }
            walk.to(location)
        };
        let spans = self.tokens.iter().map(|token| token.span);
        spans
            .map(|span| place(span.start)..place(span.end))
            .collect()
    }
}

/// A way through a text.
struct Walk<'a> {
    text: &'a str,
    at: usize,
    location: Location,
}

impl Walk<'_> {
    /// Goes on to a location, and gives its offset.
    fn to(&mut self, location: Location) -> usize {
        for c in self.text[self.at..].chars() {
            if self.location >= location {
                break;
            }
            self.at += c.len_utf8();
            match c {
                '\n' => {
                    self.location.line += 1;
                    self.location.column = 1;
                }
                _ => self.location.column += 1,
            }
        }
        self.at
    }
}

/// The select lists of a statement.
pub struct SelectLists<'a> {
    source: Source<'a>,
    /// Where the tokens begin and end in the text; found when they are needed.
    places: OnceCell<Vec<Range<usize>>>,
}

impl<'a> SelectLists<'a> {
    /// Those of this statement.
    #[must_use]
    pub fn new(source: Source<'a>) -> Self {
        Self {
            source,
            places: OnceCell::new(),
        }
    }

    /// Lists that names in the statement stand for.
    #[must_use]
    pub fn lists(&self) -> LongLists<'a> {
        self.source.lists
    }

    /// The texts of the items of the SELECT whose keyword is at `select`.
    #[must_use]
    pub fn items(&self, select: Location) -> Vec<&'a str> {
        let ranges = self.ranges(select).into_iter();
        ranges
            .map(|range| range.map_or("", |range| &self.source.text[range]))
            .collect()
    }

    /// Where these items stand in the text; none for what is none.
    #[must_use]
    pub fn ranges(&self, select: Location) -> Vec<Option<Range<usize>>> {
        let tokens = self.source.tokens;
        // They lie in the order of the text.
        let at = tokens.partition_point(|token| token.span.start < select);
        if tokens
            .get(at)
            .is_none_or(|token| token.span.start != select)
        {
            return Vec::new();
        }
        let mut items = Vec::new();
        let mut range: Option<(usize, usize)> = None;
        let mut depth = 0;
        let mut leading = true;
        for (number, token) in tokens.iter().enumerate().skip(at + 1) {
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
            let first = range.map_or(number, |(first, _)| first);
            range = Some((first, number));
        }
        items.push(self.slice(range));
        items
    }

    fn slice(&self, range: Option<(usize, usize)>) -> Option<Range<usize>> {
        let (first, last) = range?;
        let places = self.places.get_or_init(|| self.source.places());
        Some(places[first].start..places[last].end)
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
    use sqlparser::tokenizer::Tokenizer;

    use perigee_sql_bind::Modes;

    use super::super::Grammar;
    use super::*;

    #[test]
    fn items_are_cut_at_commas_outside_of_parentheses() {
        let text = "SELECT DISTINCT  a + 'é,' ,\n  f( b, (SELECT 1 FROM x) )  , `c`\n FROM t";
        let tokens = Tokenizer::new(Grammar::of(Modes::NONE), text).tokenize_with_location();
        let tokens = tokens.expect("it is SQL");
        let source = Source {
            tokens: &tokens,
            ..Source::of(text)
        };
        let first = tokens[0].span.start;
        assert_eq!(
            SelectLists::new(source).items(first),
            ["a + 'é,'", "f( b, (SELECT 1 FROM x) )", "`c`"]
        );
        for (place, token) in source.places().iter().zip(&tokens) {
            assert_eq!(place.start, source.offset(token.span.start));
            assert_eq!(place.end, source.offset(token.span.end));
        }
    }
}
