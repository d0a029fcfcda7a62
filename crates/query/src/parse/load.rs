//! `LOAD DATA`, which sqlparser does not know, and what it and INTO OUTFILE say of lines and fields.

use sqlparser::ast::{Assignment, ObjectName};
use sqlparser::tokenizer::Token;

use perigee_value::Charset;

use super::{Cursor, change, charset_named};
use crate::error::{Result, SqlError};

/// How fields are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Between fields; not empty.
    pub terminated: Vec<u8>,
    /// Around fields, if any.
    pub enclosed: Option<u8>,
    /// They are written around strings only.
    pub optionally: bool,
    /// Before characters that are not meant literally, if any.
    pub escaped: Option<u8>,
}

/// How lines are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// What a line begins with; what comes before it is skipped.
    pub starting: Vec<u8>,
    /// What ends a line; not empty.
    pub terminated: Vec<u8>,
}

/// What becomes of lines whose keys exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// An error.
    Refused,
    /// They are left out, and other errors are warnings.
    Ignored,
    /// They take the places of the rows.
    Replaced,
}

/// What a field of the file is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A column of the table, in lower case.
    Column(String),
    /// A variable for the assignments, in lower case without `@`.
    Variable(String),
}

/// A LOAD DATA statement.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadData {
    /// The file.
    pub file: String,
    /// It is the client's.
    pub local: bool,
    /// The table.
    pub table: ObjectName,
    /// FIELDS.
    pub fields: Fields,
    /// LINES.
    pub lines: Lines,
    /// Lines to skip at the beginning.
    pub ignore_lines: u64,
    /// What the file's fields are for, if not for the columns of the table.
    pub columns: Option<Vec<Field>>,
    /// REPLACE or IGNORE.
    pub existing: Existing,
    /// SET.
    pub assignments: Vec<Assignment>,
}

fn unsupported<T>(feature: &str) -> Result<T> {
    Err(SqlError::not_supported(feature))
}

pub(super) fn parse(mut cursor: Cursor<'_>) -> Result<LoadData> {
    cursor.expect_word("DATA")?;
    if cursor.peek_any(&["LOW_PRIORITY", "CONCURRENT"]) {
        return unsupported("LOAD DATA LOW_PRIORITY, CONCURRENT");
    }
    let local = cursor.accept("LOCAL");
    cursor.expect_word("INFILE")?;
    let file = cursor.string()?;
    let existing = match (cursor.accept("REPLACE"), cursor.accept("IGNORE")) {
        (true, true) => return Err(cursor.error()),
        (true, false) => Existing::Replaced,
        (false, true) => Existing::Ignored,
        (false, false) => Existing::Refused,
    };
    cursor.expect_word("INTO")?;
    cursor.expect_word("TABLE")?;
    let table = cursor.object_name()?;
    if cursor.peek_any(&["PARTITION"]) {
        return unsupported("PARTITION");
    }
    if cursor.accept_all(&["CHARACTER", "SET"]) {
        let charset = charset_named(&cursor.name()?)?;
        if charset == Charset::Binary {
            return unsupported("CHARACTER SET binary");
        }
    }
    let fields = fields(&mut cursor)?;
    let lines = lines(&mut cursor)?;
    let mut ignore_lines = 0;
    if cursor.accept("IGNORE") {
        ignore_lines = cursor.number()?;
        if !cursor.accept("LINES") {
            cursor.expect_word("ROWS")?;
        }
    }
    let columns = columns(&mut cursor)?;
    let assignments = match cursor.accept("SET") {
        true => change::assignments(&cursor)?,
        false => {
            cursor.end()?;
            Vec::new()
        }
    };
    Ok(LoadData {
        file,
        local,
        table,
        fields,
        lines,
        ignore_lines,
        columns,
        existing,
        assignments,
    })
}

pub(super) fn fields(cursor: &mut Cursor<'_>) -> Result<Fields> {
    let mut fields = Fields {
        terminated: b"\t".to_vec(),
        enclosed: None,
        optionally: false,
        escaped: Some(b'\\'),
    };
    if !cursor.accept("FIELDS") && !cursor.accept("COLUMNS") {
        return Ok(fields);
    }
    let mut any = false;
    loop {
        if cursor.accept_all(&["TERMINATED", "BY"]) {
            fields.terminated = cursor.string()?.into_bytes();
        } else if cursor.peek_any(&["OPTIONALLY", "ENCLOSED"]) {
            fields.optionally = cursor.accept("OPTIONALLY");
            cursor.expect_word("ENCLOSED")?;
            cursor.expect_word("BY")?;
            fields.enclosed = one_byte(&cursor.string()?)?;
        } else if cursor.accept_all(&["ESCAPED", "BY"]) {
            fields.escaped = one_byte(&cursor.string()?)?;
        } else if any {
            break;
        } else {
            return Err(cursor.error());
        }
        any = true;
    }
    if fields.terminated.is_empty() {
        return unsupported("fixed-width fields (FIELDS TERMINATED BY '')");
    }
    Ok(fields)
}

fn one_byte(text: &str) -> Result<Option<u8>> {
    match text.as_bytes() {
        [] => Ok(None),
        [byte] => Ok(Some(*byte)),
        _ => Err(SqlError::wrong_separator()),
    }
}

pub(super) fn lines(cursor: &mut Cursor<'_>) -> Result<Lines> {
    let mut lines = Lines {
        starting: Vec::new(),
        terminated: b"\n".to_vec(),
    };
    if !cursor.accept("LINES") {
        return Ok(lines);
    }
    let mut any = false;
    loop {
        if cursor.accept_all(&["STARTING", "BY"]) {
            lines.starting = cursor.string()?.into_bytes();
        } else if cursor.accept_all(&["TERMINATED", "BY"]) {
            lines.terminated = cursor.string()?.into_bytes();
        } else if any {
            break;
        } else {
            return Err(cursor.error());
        }
        any = true;
    }
    if lines.terminated.is_empty() {
        return unsupported("LINES TERMINATED BY ''");
    }
    Ok(lines)
}

fn columns(cursor: &mut Cursor<'_>) -> Result<Option<Vec<Field>>> {
    if !cursor.accept_token(&Token::LParen) {
        return Ok(None);
    }
    let mut columns = Vec::new();
    loop {
        let name = cursor.name()?.to_lowercase();
        columns.push(match name.strip_prefix('@') {
            Some(variable) => Field::Variable(variable.to_owned()),
            None => Field::Column(name),
        });
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect(&Token::RParen)?;
    Ok(Some(columns))
}
