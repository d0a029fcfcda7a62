//! CREATE and DROP TRIGGER, and the program of a trigger.
//!
//! `NEW.a` and `OLD.a` become one token each before the text is read: the name of a variable that no one else can name.

use perigee_engine::catalog::{RowEvent, Timing};
use perigee_sql_bind::Modes;
use sqlparser::ast::ObjectName;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::create::text_of;
use super::steps::Reader;
use super::{Program, ProgramStatement};
use crate::error::{Result, SqlError};
use crate::parse::{
    Assignment, Cursor, Grammar, MoreRows, Piece, Script, Statement, Target, TransactionStatement,
    UserName,
};

/// Begins the names of the variables that a trigger has for columns.
const COLUMN: &str = "/@";

/// One of the two rows that a trigger may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOf {
    /// OLD: the row as it was.
    Old,
    /// NEW: the row as it will be.
    New,
}

impl RowOf {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Old => "OLD",
            Self::New => "NEW",
        }
    }
}

/// A column that a trigger names. Its number among these is that of its variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowColumn {
    /// Of which row.
    pub row: RowOf,
    /// Its name in lower case.
    pub name: String,
    /// The trigger reads it.
    pub read: bool,
    /// The trigger gives it values.
    pub assigned: bool,
}

impl RowColumn {
    /// The name of its variable.
    pub(super) fn variable(&self) -> String {
        format!("{COLUMN}{}.{}", self.row.name(), self.name)
    }
}

/// Where a trigger stands among those of its time and event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// FOLLOWS, not PRECEDES.
    pub follows: bool,
    /// The other trigger, in lower case.
    pub other: String,
}

/// CREATE TRIGGER.
#[derive(Debug)]
pub struct CreateTrigger {
    /// The trigger.
    pub name: ObjectName,
    /// Do not fail if it exists.
    pub if_not_exists: bool,
    /// DEFINER.
    pub definer: Option<UserName>,
    /// When it fires.
    pub timing: Timing,
    /// What it fires for.
    pub event: RowEvent,
    /// Its table.
    pub table: ObjectName,
    /// Where it stands among others, if that is said.
    pub order: Option<Order>,
    /// The text of what it does.
    pub body: String,
    /// What it does.
    pub program: Program,
}

/// CREATE TRIGGER, behind the word.
pub(super) fn create(
    mut cursor: Cursor<'_>,
    definer: Option<UserName>,
) -> Result<ProgramStatement> {
    let piece = cursor.piece();
    let if_not_exists = cursor.accept_all(&["IF", "NOT", "EXISTS"]);
    let name = cursor.object_name()?;
    let timing = match cursor.word().as_str() {
        "BEFORE" => Timing::Before,
        "AFTER" => Timing::After,
        _ => return Err(cursor.error_at_last()),
    };
    let event = match cursor.word().as_str() {
        "INSERT" => RowEvent::Insert,
        "UPDATE" => RowEvent::Update,
        "DELETE" => RowEvent::Delete,
        _ => return Err(cursor.error_at_last()),
    };
    cursor.expect_word("ON")?;
    let table = cursor.object_name()?;
    for word in ["FOR", "EACH", "ROW"] {
        cursor.expect_word(word)?;
    }
    let order = order(&mut cursor)?;
    let position = cursor.position();
    let body = text_of(piece, position, piece.tokens.len());
    let body = body.trim_end().to_owned();
    let tokens = &piece.tokens[position..];
    let program = program(Piece { tokens, ..piece }, (timing, event))?;
    Ok(ProgramStatement::CreateTrigger(Box::new(CreateTrigger {
        name,
        if_not_exists,
        definer,
        timing,
        event,
        table,
        order,
        body,
        program,
    })))
}

/// `FOLLOWS trigger` or `PRECEDES trigger`; a body may begin with a label of that name.
fn order(cursor: &mut Cursor<'_>) -> Result<Option<Order>> {
    let mut ahead = cursor.clone();
    let follows = ahead.accept("FOLLOWS");
    if !follows && !ahead.accept("PRECEDES") || ahead.peek_is(&Token::Colon) {
        return Ok(None);
    }
    let other = ahead.identifier()?.to_lowercase();
    *cursor = ahead;
    Ok(Some(Order { follows, other }))
}

/// The program of a trigger whose text the tokens are.
fn program(piece: Piece<'_>, (timing, event): (Timing, RowEvent)) -> Result<Program> {
    let (tokens, columns) = merged(piece.tokens);
    for column in &columns {
        let has_row = match column.row {
            RowOf::Old => event != RowEvent::Insert,
            RowOf::New => event != RowEvent::Delete,
        };
        if !has_row {
            let event = format!("on {}", event.name());
            return Err(SqlError::no_such_row_in_trigger(column.row.name(), event));
        }
    }
    let tokens = &tokens[..];
    let reader = Reader::of_trigger(Cursor::new(Piece { tokens, ..piece }), timing, columns)?;
    reader.program(Vec::new())
}

/// The tokens with one in the place of each name of a column of NEW or OLD, and these columns.
fn merged(tokens: &[TokenWithSpan]) -> (Vec<TokenWithSpan>, Vec<RowColumn>) {
    let mut columns: Vec<RowColumn> = Vec::new();
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let behind = |at: usize| {
        let rest = tokens.get(at..).unwrap_or_default();
        let found = rest.iter().position(|token| !is_space(token));
        found.map(|found| (at + found, &rest[found].token))
    };
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let last = out.iter().rev().find(|token| !is_space(token));
        let is_qualified = last.is_some_and(|token| token.token == Token::Period);
        let named = row_named(&token.token)
            .filter(|_| !is_qualified)
            .and_then(|row| {
                let (period, _) = behind(at + 1).filter(|(_, token)| **token == Token::Period)?;
                match behind(period + 1)? {
                    (end, Token::Word(word)) => Some((row, word.value.to_lowercase(), end)),
                    _ => None,
                }
            });
        let Some((row, name, end)) = named else {
            out.push(token.clone());
            at += 1;
            continue;
        };
        let column = RowColumn {
            row,
            name,
            read: false,
            assigned: false,
        };
        out.push(TokenWithSpan {
            token: Token::make_word(&column.variable(), Some('`')),
            span: token.span.union(&tokens[end].span),
        });
        if !columns.contains(&column) {
            columns.push(column);
        }
        at = end + 1;
    }
    (out, columns)
}

fn row_named(token: &Token) -> Option<RowOf> {
    match token {
        Token::Word(word) if word.value.eq_ignore_ascii_case("NEW") => Some(RowOf::New),
        Token::Word(word) if word.value.eq_ignore_ascii_case("OLD") => Some(RowOf::Old),
        _ => None,
    }
}

/// DROP TRIGGER, behind the word.
pub(super) fn drop(mut cursor: Cursor<'_>) -> Result<ProgramStatement> {
    let if_exists = cursor.accept_all(&["IF", "EXISTS"]);
    let name = cursor.object_name()?;
    cursor.end()?;
    Ok(ProgramStatement::DropTrigger { name, if_exists })
}

impl Program {
    /// The program of a trigger that was made in these modes, from the text that is kept.
    ///
    /// # Errors
    /// If it does not parse, which it did.
    pub fn of_trigger(body: &str, when: (Timing, RowEvent), modes: Modes) -> Result<Self> {
        let grammar = Grammar::of(modes);
        let script = Script::of(body.into(), MoreRows::default(), Vec::new(), grammar)?;
        program(script.whole(), when)
    }
}

impl Statement {
    /// Checks that a statement may run while rows of another one are changed.
    ///
    /// # Errors
    /// 1336, 1422, 1445.
    pub fn check_within_rows(&self) -> Result<()> {
        match self {
            Self::Prepare { .. } | Self::Execute { .. } | Self::Deallocate(_) => {
                Err(SqlError::not_in_trigger("Dynamic SQL"))
            }
            Self::Set(assignments) if assignments.iter().any(sets_autocommit) => {
                Err(SqlError::autocommit_in_trigger())
            }
            Self::Flush => Err(SqlError::not_in_trigger("FLUSH")),
            Self::Lock(_) => Err(SqlError::not_in_trigger("LOCK")),
            Self::Load(_) => Err(SqlError::not_in_trigger("LOAD DATA")),
            Self::Transaction(
                TransactionStatement::Begin { .. }
                | TransactionStatement::Commit(_)
                | TransactionStatement::Rollback(_),
            ) => Err(SqlError::commit_in_trigger()),
            statement if statement.commits_implicitly() => Err(SqlError::commit_in_trigger()),
            _ => Ok(()),
        }
    }

    /// Checks that a statement of a trigger has no result set.
    ///
    /// # Errors
    /// 1415.
    pub(super) fn check_no_result_set(&self) -> Result<()> {
        match self {
            Self::Query(_)
            | Self::Show(_)
            | Self::Explain(..)
            | Self::Describe(..)
            | Self::Analyze(_) => Err(SqlError::result_set_in("trigger")),
            _ => Ok(()),
        }
    }
}

fn sets_autocommit(assignment: &Assignment) -> bool {
    matches!(&assignment.target, Target::System(_, name) if name == "autocommit")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(body: &str) -> Vec<(RowOf, String, bool, bool)> {
        let when = (Timing::Before, RowEvent::Update);
        let program = Program::of_trigger(body, when, Modes::NONE).expect("a program");
        let columns = program.row.into_iter();
        columns
            .map(|column| (column.row, column.name, column.read, column.assigned))
            .collect()
    }

    #[test]
    fn columns_of_rows_are_variables() {
        let both = "BEGIN SET new . `B` = OLD.a + old.A, @x = t.new.c; CALL p(NEW.c, old.a); END";
        assert_eq!(
            columns(both),
            [
                (RowOf::New, "b".to_owned(), false, true),
                (RowOf::Old, "a".to_owned(), true, false),
                (RowOf::New, "c".to_owned(), true, true),
            ]
        );
        assert!(columns("BEGIN DECLARE new INT; SET new = 1; END").is_empty());
    }

    #[test]
    fn rows_that_there_are_not_and_assignments_to_others_are_errors() {
        let error = |body: &str, when| {
            Program::of_trigger(body, when, Modes::NONE).map_err(|error| error.errno)
        };
        for (body, timing, event, errno) in [
            ("SET @a = OLD.a", Timing::Before, RowEvent::Insert, 1363),
            ("SET @a = NEW.a", Timing::After, RowEvent::Delete, 1363),
            ("SET NEW.a = 1", Timing::After, RowEvent::Update, 1362),
            ("SET OLD.a = 1", Timing::Before, RowEvent::Update, 1362),
            ("SELECT 1", Timing::After, RowEvent::Insert, 1415),
            ("COMMIT", Timing::After, RowEvent::Insert, 1422),
            ("DROP TABLE t", Timing::After, RowEvent::Insert, 1422),
            ("EXECUTE s", Timing::After, RowEvent::Insert, 1336),
            ("SET autocommit = 1", Timing::After, RowEvent::Insert, 1445),
            ("RETURN 1", Timing::After, RowEvent::Insert, 1313),
        ] {
            assert_eq!(
                error(body, (timing, event)).map(|_| ()),
                Err(errno),
                "{body}"
            );
        }
    }
}
