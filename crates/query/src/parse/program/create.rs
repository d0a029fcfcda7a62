//! CREATE, ALTER and DROP PROCEDURE; which kinds of programs there are.

use std::borrow::Cow;

use perigee_engine::catalog::SqlAccess;
use perigee_sql_bind::Modes;
use sqlparser::ast::ObjectName;
use sqlparser::tokenizer::Token;

use super::steps::Reader;
use super::{Program, trigger};
use crate::error::{Result, SqlError};
use crate::parse::account::user_name;
use crate::parse::view::whole_text;
use crate::parse::{Cursor, Grammar, MoreRows, Piece, ProgramStatement, Script, Source, UserName};

/// What is said of a procedure besides what it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Characteristics {
    /// COMMENT.
    pub comment: Option<String>,
    /// DETERMINISTIC, or NOT.
    pub deterministic: Option<bool>,
    /// CONTAINS SQL and so on.
    pub access: Option<SqlAccess>,
    /// SQL SECURITY: whether it is INVOKER.
    pub invoker: Option<bool>,
}

/// CREATE PROCEDURE.
#[derive(Debug)]
pub struct CreateRoutine {
    /// The procedure.
    pub name: ObjectName,
    /// Do not fail if it exists.
    pub if_not_exists: bool,
    /// DEFINER.
    pub definer: Option<UserName>,
    /// What is said of it.
    pub characteristics: Characteristics,
    /// The text between the parentheses of its parameters.
    pub parameters: String,
    /// The text of what it does.
    pub body: String,
    /// What it does.
    pub program: Program,
}

/// ALTER PROCEDURE.
#[derive(Debug)]
pub struct AlterRoutine {
    /// The procedure.
    pub name: ObjectName,
    /// What is said of it from now on.
    pub characteristics: Characteristics,
}

/// Kinds of stored programs that there are none of here.
const UNSUPPORTED: &[&str] = &["FUNCTION", "EVENT"];

/// Kinds that there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Procedure,
    Trigger,
}

/// True if the words behind CREATE, ALTER or DROP are those of a statement about a stored program.
pub(in crate::parse) fn begins(cursor: &Cursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    if ahead.accept("DEFINER") && ahead.expect(&Token::Eq).is_ok() {
        let _ = user_name(&mut ahead);
    }
    ahead.peek_any(&["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT"])
}

fn kind(cursor: &mut Cursor<'_>, what: &str) -> Result<Kind> {
    match cursor.word().as_str() {
        "PROCEDURE" => Ok(Kind::Procedure),
        "TRIGGER" => Ok(Kind::Trigger),
        other if UNSUPPORTED.contains(&other) => {
            Err(SqlError::not_supported(format!("{what} {other}")))
        }
        _ => Err(cursor.error_at_last()),
    }
}

/// CREATE PROCEDURE and CREATE TRIGGER. The text is read again, as that of a view is.
pub(in crate::parse) fn create(piece: Piece<'_>) -> Result<ProgramStatement> {
    let text = whole_text(piece);
    let script = Script::of(
        Cow::Borrowed(&*text),
        MoreRows::default(),
        Vec::new(),
        piece.grammar,
    )?;
    let piece = script.pieces().next().ok_or_else(SqlError::empty_query)?;
    let mut cursor = Cursor::new(piece);
    cursor.word();
    let definer = match cursor.accept("DEFINER") {
        true => {
            cursor.expect(&Token::Eq)?;
            Some(user_name(&mut cursor)?)
        }
        false => None,
    };
    if kind(&mut cursor, "CREATE")? == Kind::Trigger {
        return trigger::create(cursor, definer);
    }
    let if_not_exists = cursor.accept_all(&["IF", "NOT", "EXISTS"]);
    let name = cursor.object_name()?;
    let mut reader = Reader::new(cursor);
    let first = reader.cursor.position() + 1;
    let parameters = reader.parameters()?;
    let written = text_of(piece, first, reader.cursor.position());
    let written = written.trim_end().strip_suffix(')').unwrap_or_default();
    let characteristics = characteristics(&mut reader.cursor)?;
    let body = text_of(piece, reader.cursor.position(), piece.tokens.len());
    let program = reader.program(parameters)?;
    Ok(ProgramStatement::Create(Box::new(CreateRoutine {
        name,
        if_not_exists,
        definer,
        characteristics,
        parameters: written.trim().to_owned(),
        body: body.trim_end().to_owned(),
        program,
    })))
}

/// The text from one token up to another.
pub(super) fn text_of(piece: Piece<'_>, first: usize, end: usize) -> &str {
    let source = Source::of(piece.text);
    let offset = |at: usize| {
        piece
            .tokens
            .get(at)
            .map(|token| source.offset(token.span.start))
    };
    let Some(start) = offset(first) else {
        return "";
    };
    let last = piece
        .tokens
        .last()
        .map(|token| source.offset(token.span.end));
    let end = offset(end).or(last).unwrap_or(piece.text.len());
    &piece.text[start..end]
}

fn characteristics(cursor: &mut Cursor<'_>) -> Result<Characteristics> {
    let mut said = Characteristics::default();
    loop {
        if cursor.accept("COMMENT") {
            said.comment = Some(cursor.string()?);
        } else if cursor.accept_all(&["LANGUAGE", "SQL"]) {
        } else if cursor.accept("DETERMINISTIC") {
            said.deterministic = Some(true);
        } else if cursor.accept_all(&["NOT", "DETERMINISTIC"]) {
            said.deterministic = Some(false);
        } else if cursor.accept_all(&["CONTAINS", "SQL"]) {
            said.access = Some(SqlAccess::Contains);
        } else if cursor.accept_all(&["NO", "SQL"]) {
            said.access = Some(SqlAccess::None);
        } else if cursor.accept_all(&["READS", "SQL", "DATA"]) {
            said.access = Some(SqlAccess::Reads);
        } else if cursor.accept_all(&["MODIFIES", "SQL", "DATA"]) {
            said.access = Some(SqlAccess::Modifies);
        } else if cursor.accept_all(&["SQL", "SECURITY"]) {
            let invoker = cursor.accept("INVOKER");
            if !invoker {
                cursor.expect_word("DEFINER")?;
            }
            said.invoker = Some(invoker);
        } else {
            return Ok(said);
        }
    }
}

/// ALTER PROCEDURE, behind ALTER.
pub(in crate::parse) fn alter(mut cursor: Cursor<'_>) -> Result<ProgramStatement> {
    if kind(&mut cursor, "ALTER")? == Kind::Trigger {
        return Err(cursor.error_at_last());
    }
    let name = cursor.object_name()?;
    let characteristics = characteristics(&mut cursor)?;
    cursor.end()?;
    Ok(ProgramStatement::Alter(AlterRoutine {
        name,
        characteristics,
    }))
}

/// DROP PROCEDURE and DROP TRIGGER, behind DROP.
pub(in crate::parse) fn drop(mut cursor: Cursor<'_>) -> Result<ProgramStatement> {
    if kind(&mut cursor, "DROP")? == Kind::Trigger {
        return trigger::drop(cursor);
    }
    let if_exists = cursor.accept_all(&["IF", "EXISTS"]);
    let name = cursor.object_name()?;
    cursor.end()?;
    Ok(ProgramStatement::Drop { name, if_exists })
}

impl Program {
    /// The program of a procedure that was made in these modes, from the texts that are kept.
    ///
    /// # Errors
    /// If they do not parse, which they did.
    pub fn read(parameters: &str, body: &str, modes: Modes) -> Result<Self> {
        let text = format!("({parameters}\n) {body}");
        let grammar = Grammar::of(modes);
        let script = Script::of(Cow::Owned(text), MoreRows::default(), Vec::new(), grammar)?;
        let mut reader = Reader::new(Cursor::new(script.whole()));
        let parameters = reader.parameters()?;
        reader.program(parameters)
    }
}
