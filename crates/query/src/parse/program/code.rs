//! [`Code`]: a statement or expression of a program, with the places of its variables.

use std::sync::Arc;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::Result;
use crate::parse::{Grammar, LongLists, MoreRows, Piece, with_literals};

/// The number of a variable of a program.
pub type Slot = usize;

/// A statement or expression of a program.
#[derive(Clone, Debug)]
pub struct Code {
    text: Arc<str>,
    tokens: Vec<TokenWithSpan>,
    /// Which of the tokens are variables, in their order, and which they are.
    variables: Vec<(usize, Slot)>,
    grammar: &'static Grammar,
}

impl Code {
    /// Tokens of a text.
    pub(super) fn new(
        text: &Arc<str>,
        tokens: Vec<TokenWithSpan>,
        variables: Vec<(usize, Slot)>,
        grammar: &'static Grammar,
    ) -> Self {
        Self {
            text: text.clone(),
            tokens,
            variables,
            grammar,
        }
    }

    /// Which of the tokens are variables, and which they are.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, Slot)> {
        self.variables.iter().copied()
    }

    /// The statement with literals in the places of its variables.
    ///
    /// # Errors
    /// Those of `literal`.
    pub fn tokens(
        &self,
        mut literal: impl FnMut(Slot) -> Result<Vec<Token>>,
    ) -> Result<Vec<TokenWithSpan>> {
        let places: Vec<_> = self.variables.iter().map(|(at, _)| *at).collect();
        with_literals(&self.tokens, &places, |number| {
            literal(self.variables[number].1)
        })
    }

    /// The statement with these tokens.
    #[must_use]
    pub fn piece<'a>(&'a self, tokens: &'a [TokenWithSpan]) -> Piece<'a> {
        Piece {
            text: &self.text,
            tokens,
            more_rows: MoreRows::default(),
            lists: LongLists::default(),
            grammar: self.grammar,
        }
    }
}
