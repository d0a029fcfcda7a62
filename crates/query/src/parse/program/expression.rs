//! Expressions and statements within a program: where they end, and which of their tokens are variables.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use sqlparser::ast::{self, Expr, Visit, Visitor};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Whitespace};

use super::scope::Scopes;
use super::{Code, Slot, Target};
use crate::error::{Result, SqlError};
use crate::parse::{Cursor, Piece, Statement};

/// Where the names stand that are variables.
struct Variables<'s> {
    scopes: &'s Scopes,
    found: BTreeMap<Location, Slot>,
}

impl Visitor for Variables<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && let Some(slot) = self.scopes.variable(&name.value)
        {
            self.scopes.read(slot);
            self.found.insert(name.span.start, slot);
        }
        ControlFlow::Continue(())
    }
}

/// What a syntax tree names.
fn visit(statement: &Statement, variables: &mut Variables<'_>) {
    let _ = match statement {
        Statement::Query(query) | Statement::Into(query, _) | Statement::Do(query) => {
            query.visit(variables)
        }
        Statement::Insert(insert) => insert.visit(variables),
        Statement::Update(update) => {
            // The columns that are set are no values.
            for assignment in &update.assignments {
                let _ = assignment.value.visit(variables);
            }
            visit_rows(&update.rows, variables)
        }
        Statement::Delete(delete) => visit_rows(&delete.rows, variables),
        Statement::Explain(_, explained) => {
            visit(explained, variables);
            ControlFlow::Continue(())
        }
        Statement::Ddl(crate::parse::Ddl::CreateTable(table)) => table.query.visit(variables),
        _ => ControlFlow::Continue(()),
    };
}

fn visit_rows(rows: &crate::parse::Rows, variables: &mut Variables<'_>) -> ControlFlow<()> {
    rows.from.visit(variables)?;
    rows.selection.visit(variables)?;
    rows.order_by.visit(variables)?;
    rows.limit.visit(variables)
}

/// The tokens of a statement that is parsed with its variables as names.
///
/// # Errors
/// As [`Piece::parse`].
pub(super) fn statement(piece: Piece<'_>, scopes: &Scopes) -> Result<(Statement, Code)> {
    let statement = piece.parse()?;
    let mut variables = Variables {
        scopes,
        found: BTreeMap::new(),
    };
    visit(&statement, &mut variables);
    let code = code(piece, &scopes.text, &variables.found);
    Ok((statement, code))
}

fn code(piece: Piece<'_>, text: &Arc<str>, found: &BTreeMap<Location, Slot>) -> Code {
    let places = piece.tokens.iter().enumerate();
    let variables = places.filter_map(|(at, token)| {
        let slot = found.get(&token.span.start)?;
        matches!(token.token, Token::Word(_)).then_some((at, *slot))
    });
    let (tokens, variables) = (piece.tokens.to_vec(), variables.collect());
    Code::new(text, tokens, variables, piece.grammar)
}

/// A token that is not written: it stands nowhere.
pub(super) fn added(token: Token) -> TokenWithSpan {
    TokenWithSpan {
        token,
        span: Span::empty(),
    }
}

/// An expression, as the query that selects it.
pub(super) fn selected(
    piece: Piece<'_>,
    tokens: &[TokenWithSpan],
    scopes: &Scopes,
) -> Result<Code> {
    if tokens.is_empty() {
        return Err(Cursor::new(piece).error());
    }
    let select = [
        Token::make_keyword("SELECT"),
        Token::Whitespace(Whitespace::Space),
    ];
    let mut all = select.map(added).to_vec();
    all.extend_from_slice(tokens);
    let piece = Piece {
        tokens: &all,
        ..piece
    };
    match statement(piece, scopes)? {
        (Statement::Query(query), code) if is_one_value(&query) => Ok(code),
        _ => Err(Cursor::new(piece).error()),
    }
}

/// True for the query of one expression.
fn is_one_value(query: &ast::Query) -> bool {
    crate::parse::bare_list(query).is_some_and(|list| list.len() == 1)
}

/// The expression up to one of these words or a comma, beside parentheses and CASE; or up to the end.
///
/// # Errors
/// 1064.
pub(super) fn until(cursor: &mut Cursor<'_>, scopes: &Scopes, words: &[&str]) -> Result<Code> {
    let tokens = written(cursor, words)?;
    selected(cursor.piece(), tokens, scopes)
}

/// Whether what [`until`] reads holds.
///
/// # Errors
/// 1064.
pub(super) fn condition(cursor: &mut Cursor<'_>, scopes: &Scopes, words: &[&str]) -> Result<Code> {
    let tokens = written(cursor, words)?;
    holds(cursor.piece(), tokens, scopes)
}

/// `(tokens) IS TRUE`.
pub(super) fn holds(piece: Piece<'_>, tokens: &[TokenWithSpan], scopes: &Scopes) -> Result<Code> {
    let mut all = vec![added(Token::LParen)];
    all.extend_from_slice(tokens);
    let space = Token::Whitespace(Whitespace::Space);
    let is_true = [
        Token::RParen,
        space.clone(),
        Token::make_keyword("IS"),
        space,
        Token::make_keyword("TRUE"),
    ];
    all.extend(is_true.map(added));
    selected(piece, &all, scopes)
}

/// The tokens up to one of these words or a comma, beside parentheses and CASE; or up to the end.
pub(super) fn written<'a>(cursor: &mut Cursor<'a>, words: &[&str]) -> Result<&'a [TokenWithSpan]> {
    let start = cursor.position();
    let (mut parentheses, mut cases) = (0usize, 0usize);
    while let Some(token) = cursor.peek() {
        match token {
            Token::LParen => parentheses += 1,
            Token::RParen if parentheses == 0 => break,
            Token::RParen => parentheses -= 1,
            Token::Comma | Token::SemiColon if parentheses == 0 => break,
            Token::Word(word) if word.quote_style.is_none() && parentheses == 0 => {
                let upper = word.value.to_ascii_uppercase();
                match upper.as_str() {
                    _ if cases == 0 && words.contains(&upper.as_str()) => break,
                    "CASE" => cases += 1,
                    "END" if cases > 0 => cases -= 1,
                    _ => {}
                }
            }
            _ => {}
        }
        cursor.next();
    }
    let tokens = trimmed(cursor.tokens(start..cursor.position()));
    match tokens.is_empty() {
        true => Err(cursor.error()),
        false => Ok(tokens),
    }
}

/// The expression up to the semicolon.
///
/// # Errors
/// 1064.
pub(super) fn until_semicolon(cursor: &mut Cursor<'_>, scopes: &Scopes) -> Result<Code> {
    let start = cursor.position();
    while !cursor.at_end() && !cursor.peek_is(&Token::SemiColon) {
        cursor.next();
    }
    let tokens = trimmed(cursor.tokens(start..cursor.position()));
    selected(cursor.piece(), tokens, scopes)
}

/// One token as an expression.
pub(super) fn operand(cursor: &mut Cursor<'_>, scopes: &Scopes) -> Result<Code> {
    let start = cursor.position();
    cursor.next();
    let tokens = trimmed(cursor.tokens(start..cursor.position()));
    selected(cursor.piece(), tokens, scopes)
}

/// A variable of the program, or a user variable.
///
/// # Errors
/// 1327, 1064.
pub(super) fn target(cursor: &mut Cursor<'_>, scopes: &Scopes) -> Result<Target> {
    let name = match cursor.peek() {
        Some(Token::Word(word)) => word.value.clone(),
        _ => return Err(cursor.error()),
    };
    match name.strip_prefix('@') {
        Some(user) if !user.starts_with('@') => {
            cursor.next();
            Ok(Target::User(user.to_lowercase()))
        }
        Some(_) => Err(cursor.error()),
        None => {
            let name = cursor.identifier()?;
            let known = scopes.variable(&name).map(Target::Local);
            known.ok_or_else(|| SqlError::undeclared_variable(name))
        }
    }
}

/// Tokens without white space behind them.
pub(super) fn trimmed(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let last = tokens.iter().rposition(|token| !is_space(token));
    &tokens[..last.map_or(0, |last| last + 1)]
}
