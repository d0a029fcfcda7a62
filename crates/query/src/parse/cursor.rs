//! Walks the tokens of a statement that is parsed by hand.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::names::is_reserved;
use super::{Piece, syntax_error};
use crate::error::{Result, SqlError};

/// A place among the tokens of a statement; white space and comments are passed over.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    piece: Piece<'a>,
    /// The next token.
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The first token.
    #[must_use]
    pub fn new(piece: Piece<'a>) -> Self {
        let mut cursor = Self { piece, at: 0 };
        cursor.skip();
        cursor
    }

    fn skip(&mut self) {
        while matches!(
            self.token(),
            Some(TokenWithSpan {
                token: Token::Whitespace(_),
                ..
            })
        ) {
            self.at += 1;
        }
    }

    fn token(&self) -> Option<&'a TokenWithSpan> {
        self.piece
            .tokens
            .get(self.at)
            .filter(|t| t.token != Token::EOF)
    }

    /// Takes the next token.
    pub fn next(&mut self) -> Option<&'a Token> {
        let token = self.token()?;
        self.at += 1;
        self.skip();
        Some(&token.token)
    }

    /// Number of the next token in its statement.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Number of the statement's first token.
    #[must_use]
    pub fn start(&self) -> usize {
        0
    }

    /// The statement's tokens in a range.
    #[must_use]
    pub fn tokens(&self, range: std::ops::Range<usize>) -> &'a [TokenWithSpan] {
        &self.piece.tokens[range]
    }

    /// The statement.
    #[must_use]
    pub fn piece(&self) -> Piece<'a> {
        self.piece
    }

    /// True if nothing follows.
    #[must_use]
    pub fn at_end(&self) -> bool {
        self.token().is_none()
    }

    /// 1064 if something follows.
    pub fn end(&self) -> Result<()> {
        if self.at_end() {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    /// 1064 at the next token.
    #[must_use]
    pub fn error(&self) -> SqlError {
        match self.token() {
            Some(token) => syntax_error(self.piece.text, token.span.start),
            None => {
                let line = self
                    .piece
                    .tokens
                    .last()
                    .map_or(1, |t| t.span.end.line.max(1));
                SqlError::syntax("", line)
            }
        }
    }

    /// 1064 at the token taken last.
    #[must_use]
    pub fn error_at_last(&self) -> SqlError {
        let before = &self.piece.tokens[..self.at];
        let last = before
            .iter()
            .rposition(|t| !matches!(t.token, Token::Whitespace(_)));
        Self {
            piece: self.piece,
            at: last.unwrap_or(0),
        }
        .error()
    }

    /// Takes a word; in upper case, empty if the next token is none.
    pub fn word(&mut self) -> String {
        match self.token().map(|t| &t.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                self.next();
                word.value.to_ascii_uppercase()
            }
            _ => String::new(),
        }
    }

    /// True if the next token is one of these words.
    #[must_use]
    pub fn peek_any(&self, words: &[&str]) -> bool {
        match self.token().map(|t| &t.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                words.iter().any(|w| word.value.eq_ignore_ascii_case(w))
            }
            _ => false,
        }
    }

    /// True if the next token is this one.
    #[must_use]
    pub fn peek_is(&self, token: &Token) -> bool {
        self.token().is_some_and(|t| t.token == *token)
    }

    /// The next token.
    #[must_use]
    pub fn peek(&self) -> Option<&'a Token> {
        self.token().map(|t| &t.token)
    }

    /// Takes a word if it comes next.
    pub fn accept(&mut self, word: &str) -> bool {
        let found = self.peek_any(&[word]);
        if found {
            self.next();
        }
        found
    }

    /// Takes several words if they come next.
    pub fn accept_all(&mut self, words: &[&str]) -> bool {
        let before = self.at;
        let found = words.iter().all(|word| self.accept(word));
        if !found {
            self.at = before;
        }
        found
    }

    /// Takes a token if it comes next.
    pub fn accept_token(&mut self, token: &Token) -> bool {
        let found = self.peek_is(token);
        if found {
            self.next();
        }
        found
    }

    /// Takes a token, or 1064.
    pub fn expect(&mut self, token: &Token) -> Result<()> {
        if self.accept_token(token) {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    /// Takes a word, or 1064.
    pub fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.accept(word) {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    /// Takes an identifier or a string, as names may be written.
    pub fn name(&mut self) -> Result<String> {
        let name = match self.peek() {
            Some(Token::Word(word)) => word.value.clone(),
            Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => text.clone(),
            _ => return Err(self.error()),
        };
        self.next();
        Ok(name)
    }

    /// Takes the name of a schema.
    pub fn identifier(&mut self) -> Result<String> {
        self.ident(false).map(|ident| ident.value)
    }

    /// Takes an identifier with its quotes; behind a period it may be a reserved word.
    fn ident(&mut self, qualified: bool) -> Result<Ident> {
        match self.peek() {
            Some(Token::Word(word))
                if qualified || word.quote_style.is_some() || !is_reserved(&word.value) =>
            {
                self.next();
                Ok(Ident {
                    value: word.value.clone(),
                    quote_style: word.quote_style,
                    span: sqlparser::tokenizer::Span::empty(),
                })
            }
            _ => Err(self.error()),
        }
    }

    /// Takes `table` or `schema.table`.
    pub fn object_name(&mut self) -> Result<ObjectName> {
        let mut parts = vec![ObjectNamePart::Identifier(self.ident(false)?)];
        while self.accept_token(&Token::Period) {
            parts.push(ObjectNamePart::Identifier(self.ident(true)?));
        }
        Ok(ObjectName(parts))
    }

    /// Takes a string.
    pub fn string(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => {
                self.next();
                Ok(text.clone())
            }
            _ => Err(self.error()),
        }
    }

    /// Takes a non-negative integer.
    pub fn number(&mut self) -> Result<u64> {
        match self.peek() {
            Some(Token::Number(text, _)) => match text.parse() {
                Ok(number) => {
                    self.next();
                    Ok(number)
                }
                Err(_) => Err(self.error()),
            },
            _ => Err(self.error()),
        }
    }
}
