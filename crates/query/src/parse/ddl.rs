//! DDL: what CREATE, DROP, ALTER, RENAME and TRUNCATE say. Column and key definitions are
//! sqlparser's, the rest is parsed by hand.

use sqlparser::ast::{
    ColumnDef, CreateTable, Expr, Ident, IndexColumn, ObjectName, TableConstraint,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::names::is_reserved;
use super::{Collating, CreateView, Cursor, Piece, syntax_error};
use crate::error::{Result, SqlError};

/// A statement that changes definitions.
#[derive(Debug)]
pub enum Ddl {
    /// CREATE DATABASE.
    CreateSchema {
        /// Its name.
        name: String,
        /// Do not fail if it exists.
        if_not_exists: bool,
        /// What is said of its texts.
        collating: Collating,
    },
    /// ALTER DATABASE.
    AlterSchema {
        /// Its name; without one it is the session's.
        name: Option<String>,
        /// What is said of its texts.
        collating: Collating,
    },
    /// DROP DATABASE.
    DropSchema {
        /// Its name.
        name: String,
        /// Do not fail if it is missing.
        if_exists: bool,
    },
    /// CREATE TABLE.
    CreateTable(Box<CreateTable>),
    /// DROP TABLE.
    DropTables {
        /// Temporary tables only.
        temporary: bool,
        /// Do not fail if one is missing.
        if_exists: bool,
        /// The tables.
        names: Vec<ObjectName>,
    },
    /// ALTER TABLE, CREATE INDEX, DROP INDEX.
    AlterTable {
        /// The table.
        name: ObjectName,
        /// What to change, in this order.
        clauses: Vec<Clause>,
    },
    /// CREATE VIEW, ALTER VIEW.
    CreateView(Box<CreateView>),
    /// DROP VIEW.
    DropViews {
        /// Do not fail if one is missing.
        if_exists: bool,
        /// The views.
        names: Vec<ObjectName>,
    },
    /// RENAME TABLE: from and to.
    RenameTables(Vec<(ObjectName, ObjectName)>),
    /// TRUNCATE TABLE.
    Truncate(ObjectName),
}

impl Ddl {
    /// True for a statement that makes or drops temporary tables and says so: it does not commit.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::CreateTable(table) => table.temporary,
            Self::DropTables { temporary, .. } => *temporary,
            _ => false,
        }
    }
}

/// Where a column is put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// Nothing is said: a new column comes last, another one stays.
    Unsaid,
    /// FIRST.
    First,
    /// AFTER a column.
    After(String),
}

/// A clause of ALTER TABLE.
#[derive(Debug)]
pub enum Clause {
    /// ADD COLUMN.
    AddColumn(Box<ColumnDef>, Position),
    /// DROP COLUMN.
    DropColumn(String),
    /// CHANGE COLUMN, and MODIFY COLUMN, which keeps the name.
    ChangeColumn(String, Box<ColumnDef>, Position),
    /// RENAME COLUMN.
    RenameColumn(String, String),
    /// ALTER COLUMN SET DEFAULT, or DROP DEFAULT (`None`).
    ColumnDefault(String, Option<Box<Expr>>),
    /// ADD of a key.
    AddKey(Box<TableConstraint>),
    /// ADD of a key by CREATE INDEX.
    CreateIndex {
        /// Its name.
        name: String,
        /// UNIQUE.
        unique: bool,
        /// Its columns.
        columns: Vec<IndexColumn>,
        /// INVISIBLE.
        invisible: bool,
    },
    /// ALTER INDEX, with whether it is visible.
    AlterKey(String, bool),
    /// ALTER COLUMN SET VISIBLE or INVISIBLE, with whether it is visible.
    AlterColumn(String, bool),
    /// DROP INDEX.
    DropKey(String),
    /// DROP PRIMARY KEY.
    DropPrimaryKey,
    /// DROP FOREIGN KEY.
    DropForeignKey(String),
    /// DROP CHECK.
    DropCheck(String),
    /// DROP CONSTRAINT, of any kind.
    DropConstraint(String),
    /// ALTER CHECK, or ALTER CONSTRAINT, with whether it is enforced.
    AlterCheck(String, bool),
    /// RENAME INDEX.
    RenameKey(String, String),
    /// RENAME TO.
    RenameTable(ObjectName),
    /// AUTO_INCREMENT=.
    AutoIncrement(u64),
    /// COMMENT=.
    Comment(String),
    /// ENGINE=.
    Engine(String),
    /// DEFAULT CHARACTER SET or COLLATE: of columns to come.
    Collating(Collating),
    /// CONVERT TO CHARACTER SET: of all columns of texts.
    ConvertTo(Collating),
    /// Copy the table even if nothing asks for it.
    Force,
}

pub(super) fn create_schema(mut cursor: Cursor<'_>) -> Result<Ddl> {
    cursor.word();
    let if_not_exists = cursor.accept("IF");
    if if_not_exists {
        cursor.expect_word("NOT")?;
        cursor.expect_word("EXISTS")?;
    }
    let name = cursor.identifier()?;
    Ok(Ddl::CreateSchema {
        name,
        if_not_exists,
        collating: schema_options(cursor)?,
    })
}

/// ALTER DATABASE.
pub(super) fn alter_schema(mut cursor: Cursor<'_>) -> Result<Ddl> {
    cursor.word();
    let options = ["DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION"];
    let name = match cursor.peek_any(&options) {
        true => None,
        false => Some(cursor.identifier()?),
    };
    if cursor.at_end() {
        return Err(cursor.error());
    }
    Ok(Ddl::AlterSchema {
        name,
        collating: schema_options(cursor)?,
    })
}

fn schema_options(mut cursor: Cursor<'_>) -> Result<Collating> {
    let mut collating = Collating::default();
    while !cursor.at_end() {
        if collating.accept(&mut cursor)? {
            continue;
        }
        cursor.accept("DEFAULT");
        match cursor.word().as_str() {
            "ENCRYPTION" => return Err(SqlError::not_supported("ENCRYPTION")),
            _ => return Err(cursor.error_at_last()),
        }
    }
    Ok(collating)
}

pub(super) fn drop_schema(mut cursor: Cursor<'_>) -> Result<Ddl> {
    cursor.word();
    let if_exists = cursor.accept("IF");
    if if_exists {
        cursor.expect_word("EXISTS")?;
    }
    let name = cursor.identifier()?;
    cursor.end()?;
    Ok(Ddl::DropSchema { name, if_exists })
}

/// `CREATE [UNIQUE] INDEX name ON table (columns)`, behind CREATE.
pub(super) fn create_index(mut cursor: Cursor<'_>) -> Result<Ddl> {
    if cursor.accept("FULLTEXT") || cursor.accept("SPATIAL") {
        return Err(SqlError::not_supported("FULLTEXT and SPATIAL indexes"));
    }
    let unique = cursor.accept("UNIQUE");
    cursor.expect_word("INDEX")?;
    let index = cursor.identifier()?;
    index_type(&mut cursor)?;
    cursor.expect_word("ON")?;
    let name = cursor.object_name()?;
    let columns = key_parts(&mut cursor)?;
    let mut invisible = false;
    while !cursor.at_end() {
        match cursor.accept("INVISIBLE") {
            true => invisible = true,
            false => index_option(&mut cursor)?,
        }
    }
    let clauses = vec![Clause::CreateIndex {
        name: index,
        unique,
        columns,
        invisible,
    }];
    Ok(Ddl::AlterTable { name, clauses })
}

/// `DROP INDEX name ON table`, behind DROP.
pub(super) fn drop_index(mut cursor: Cursor<'_>) -> Result<Ddl> {
    cursor.expect_word("INDEX")?;
    let index = cursor.identifier()?;
    cursor.expect_word("ON")?;
    let name = cursor.object_name()?;
    while !cursor.at_end() {
        index_option(&mut cursor)?;
    }
    let clauses = vec![drop_key(index)];
    Ok(Ddl::AlterTable { name, clauses })
}

fn drop_key(name: String) -> Clause {
    if name.eq_ignore_ascii_case("PRIMARY") {
        Clause::DropPrimaryKey
    } else {
        Clause::DropKey(name)
    }
}

fn index_type(cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.accept("USING") && !cursor.accept("BTREE") && !cursor.accept("HASH") {
        return Err(cursor.error());
    }
    Ok(())
}

/// What may follow an index's columns, and how an index is to be built: nothing depends on it.
fn index_option(cursor: &mut Cursor<'_>) -> Result<()> {
    if cursor.peek_any(&["USING"]) {
        return index_type(cursor);
    }
    match cursor.word().as_str() {
        "ALGORITHM" | "LOCK" => {
            cursor.accept_token(&Token::Eq);
            cursor.name()?;
        }
        "COMMENT" => {
            cursor.string()?;
        }
        "VISIBLE" => {}
        "" => return Err(cursor.error()),
        _ => return Err(cursor.error_at_last()),
    }
    Ok(())
}

/// The parts of a key, in parentheses.
fn key_parts(cursor: &mut Cursor<'_>) -> Result<Vec<IndexColumn>> {
    cursor.expect(&Token::LParen)?;
    let (start, mut depth) = (cursor.position(), 0_u32);
    while let Some(token) = cursor.peek() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => break,
            Token::RParen => depth -= 1,
            _ => {}
        }
        cursor.next();
    }
    let piece = Piece {
        tokens: cursor.tokens(start..cursor.position()),
        ..cursor.piece()
    };
    cursor.expect(&Token::RParen)?;
    let mut parser = piece.parser(0);
    let parts = parser.parse_comma_separated(Parser::parse_create_index_expr);
    let parts = parts.map_err(|e| piece.error(&e))?;
    piece.expect_end(&mut parser)?;
    Ok(parts)
}

/// `RENAME TABLE a TO b, …`, behind RENAME.
pub(super) fn rename_tables(mut cursor: Cursor<'_>) -> Result<Ddl> {
    if cursor.accept("USER") {
        return Err(SqlError::not_supported("RENAME USER"));
    }
    if !cursor.accept("TABLES") {
        cursor.expect_word("TABLE")?;
    }
    let mut renames = Vec::new();
    loop {
        let from = cursor.object_name()?;
        cursor.expect_word("TO")?;
        renames.push((from, cursor.object_name()?));
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.end()?;
    Ok(Ddl::RenameTables(renames))
}

/// `TRUNCATE [TABLE] t`, behind TRUNCATE.
pub(super) fn truncate(mut cursor: Cursor<'_>) -> Result<Ddl> {
    cursor.accept("TABLE");
    let name = cursor.object_name()?;
    cursor.end()?;
    Ok(Ddl::Truncate(name))
}

/// `ALTER TABLE t clause, …`, behind ALTER.
pub(super) fn alter_table(mut cursor: Cursor<'_>) -> Result<Ddl> {
    if !cursor.peek_any(&["TABLE"]) {
        let what = cursor.word();
        return Err(SqlError::not_supported(format!("ALTER {what}").trim()));
    }
    cursor.word();
    let name = cursor.object_name()?;
    let mut clauses = Vec::new();
    while !cursor.at_end() {
        clause(&mut cursor, &mut clauses)?;
        if !cursor.accept_token(&Token::Comma) {
            // Table options may follow each other without a comma.
            if !cursor.at_end() && !cursor.peek_any(OPTIONS) {
                return Err(cursor.error());
            }
        } else if cursor.at_end() {
            return Err(cursor.error());
        }
    }
    Ok(Ddl::AlterTable { name, clauses })
}

/// First words of table options.
const OPTIONS: &[&str] = &[
    "AUTO_INCREMENT",
    "CHARACTER",
    "CHARSET",
    "COLLATE",
    "COMMENT",
    "DEFAULT",
    "ENGINE",
];

fn clause(cursor: &mut Cursor<'_>, out: &mut Vec<Clause>) -> Result<()> {
    if cursor.peek_any(OPTIONS) {
        return option(cursor, out);
    }
    match cursor.word().as_str() {
        "ADD" => return add(cursor, out),
        "DROP" => out.push(drop(cursor)?),
        "MODIFY" => out.push(modify(cursor)?),
        "CHANGE" => out.push(change(cursor)?),
        "RENAME" => out.push(rename(cursor)?),
        "ALTER" => out.push(alter_column(cursor)?),
        "FORCE" => out.push(Clause::Force),
        "CONVERT" => {
            cursor.expect_word("TO")?;
            let mut collating = Collating::default();
            if !collating.accept(cursor)? || collating.charset.is_none() {
                return Err(cursor.error());
            }
            collating.accept(cursor)?;
            out.push(Clause::ConvertTo(collating));
        }
        // How it is done is this server's business.
        "ALGORITHM" | "LOCK" => {
            cursor.accept_token(&Token::Eq);
            cursor.name()?;
        }
        "ENABLE" | "DISABLE" => cursor.expect_word("KEYS")?,
        "" => return Err(cursor.error()),
        other => {
            const KNOWN: &[&str] = &[
                "ORDER",
                "DISCARD",
                "IMPORT",
                "PARTITION",
                "REMOVE",
                "WITH",
                "WITHOUT",
                "COALESCE",
                "REORGANIZE",
                "EXCHANGE",
                "TRUNCATE",
                "ROW_FORMAT",
                "KEY_BLOCK_SIZE",
                "STATS_PERSISTENT",
                "STATS_AUTO_RECALC",
                "STATS_SAMPLE_PAGES",
                "AVG_ROW_LENGTH",
                "MAX_ROWS",
                "MIN_ROWS",
                "CHECKSUM",
                "PACK_KEYS",
                "TABLESPACE",
            ];
            if KNOWN.contains(&other) {
                return Err(SqlError::not_supported(format!("ALTER TABLE … {other}")));
            }
            return Err(cursor.error_at_last());
        }
    }
    Ok(())
}

fn option(cursor: &mut Cursor<'_>, out: &mut Vec<Clause>) -> Result<()> {
    let mut collating = Collating::default();
    while collating.accept(cursor)? {}
    if collating != Collating::default() {
        out.push(Clause::Collating(collating));
        return Ok(());
    }
    cursor.accept("DEFAULT");
    let option = cursor.word();
    cursor.accept_token(&Token::Eq);
    match option.as_str() {
        "AUTO_INCREMENT" => out.push(Clause::AutoIncrement(cursor.number()?)),
        "COMMENT" => out.push(Clause::Comment(cursor.string()?)),
        "ENGINE" => out.push(Clause::Engine(cursor.name()?)),
        _ => return Err(cursor.error_at_last()),
    }
    Ok(())
}

fn add(cursor: &mut Cursor<'_>, out: &mut Vec<Clause>) -> Result<()> {
    const KEYS: &[&str] = &[
        "PRIMARY",
        "UNIQUE",
        "INDEX",
        "KEY",
        "CONSTRAINT",
        "FOREIGN",
        "CHECK",
        "FULLTEXT",
        "SPATIAL",
    ];
    if cursor.peek_any(KEYS) {
        let (piece, mut parser) = rest_of_clause(cursor);
        let key = parser.parse_optional_table_constraint();
        let key = key.map_err(|e| piece.error(&e))?;
        piece.expect_end(&mut parser)?;
        let key = key.ok_or_else(|| cursor.error_at_last())?;
        out.push(Clause::AddKey(Box::new(key)));
        return Ok(());
    }
    if cursor.peek_any(&["PARTITION"]) {
        return Err(SqlError::not_supported("PARTITION"));
    }
    cursor.accept("COLUMN");
    if cursor.peek_is(&Token::LParen) {
        let (piece, _) = rest_of_clause(cursor);
        let mut parser = piece.definitions_parser(0, 1);
        let (columns, keys) = parser.parse_columns().map_err(|e| piece.error(&e))?;
        piece.expect_end(&mut parser)?;
        for column in columns {
            check_name(piece, &column.name)?;
            out.push(Clause::AddColumn(Box::new(column), Position::Unsaid));
        }
        out.extend(keys.into_iter().map(|key| Clause::AddKey(Box::new(key))));
        return Ok(());
    }
    let (column, position) = column_definition(cursor)?;
    out.push(Clause::AddColumn(column, position));
    Ok(())
}

/// A column's definition and place, to the end of the clause.
fn column_definition(cursor: &mut Cursor<'_>) -> Result<(Box<ColumnDef>, Position)> {
    let (piece, mut parser) = rest_of_clause(cursor);
    let column = parser.parse_column_def().map_err(|e| piece.error(&e))?;
    check_name(piece, &column.name)?;
    let position = if parser.parse_keyword(Keyword::FIRST) {
        Position::First
    } else if parser.parse_keyword(Keyword::AFTER) {
        let after = parser.parse_identifier().map_err(|e| piece.error(&e))?;
        Position::After(after.value)
    } else {
        Position::Unsaid
    };
    piece.expect_end(&mut parser)?;
    Ok((Box::new(column), position))
}

/// Takes the tokens up to the next comma outside of parentheses.
fn rest_of_clause<'a>(cursor: &mut Cursor<'a>) -> (Piece<'a>, Parser<'a>) {
    let start = cursor.position();
    let mut depth = 0;
    while let Some(token) = cursor.peek() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => break,
            _ => {}
        }
        cursor.next();
    }
    let piece = Piece {
        tokens: cursor.tokens(start..cursor.position()),
        ..cursor.piece()
    };
    (piece, piece.definitions_parser(0, 0))
}

fn check_name(piece: Piece<'_>, name: &Ident) -> Result<()> {
    match name.quote_style {
        Some('`') => Ok(()),
        None if !is_reserved(&name.value) => Ok(()),
        _ => Err(syntax_error(piece.text, piece.place_of(name))),
    }
}

fn drop(cursor: &mut Cursor<'_>) -> Result<Clause> {
    if cursor.accept("PRIMARY") {
        cursor.expect_word("KEY")?;
        return Ok(Clause::DropPrimaryKey);
    }
    if cursor.accept("INDEX") || cursor.accept("KEY") {
        return Ok(drop_key(cursor.identifier()?));
    }
    if cursor.accept("FOREIGN") {
        cursor.expect_word("KEY")?;
        return Ok(Clause::DropForeignKey(cursor.identifier()?));
    }
    if cursor.accept("CHECK") {
        return Ok(Clause::DropCheck(cursor.identifier()?));
    }
    if cursor.accept("CONSTRAINT") {
        return Ok(Clause::DropConstraint(cursor.identifier()?));
    }
    if cursor.peek_any(&["PARTITION"]) {
        return Err(SqlError::not_supported(format!("DROP {}", cursor.word())));
    }
    cursor.accept("COLUMN");
    Ok(Clause::DropColumn(cursor.identifier()?))
}

fn modify(cursor: &mut Cursor<'_>) -> Result<Clause> {
    cursor.accept("COLUMN");
    let (column, position) = column_definition(cursor)?;
    Ok(Clause::ChangeColumn(
        column.name.value.clone(),
        column,
        position,
    ))
}

fn change(cursor: &mut Cursor<'_>) -> Result<Clause> {
    cursor.accept("COLUMN");
    let old = cursor.identifier()?;
    let (column, position) = column_definition(cursor)?;
    Ok(Clause::ChangeColumn(old, column, position))
}

fn rename(cursor: &mut Cursor<'_>) -> Result<Clause> {
    if cursor.accept("COLUMN") {
        let old = cursor.identifier()?;
        cursor.expect_word("TO")?;
        return Ok(Clause::RenameColumn(old, cursor.identifier()?));
    }
    if cursor.accept("INDEX") || cursor.accept("KEY") {
        let old = cursor.identifier()?;
        cursor.expect_word("TO")?;
        return Ok(Clause::RenameKey(old, cursor.identifier()?));
    }
    if !cursor.accept("TO") {
        cursor.accept("AS");
    }
    Ok(Clause::RenameTable(cursor.object_name()?))
}

/// VISIBLE or INVISIBLE.
fn visibility(cursor: &mut Cursor<'_>) -> Result<bool> {
    match cursor.accept("VISIBLE") {
        true => Ok(true),
        false => cursor.expect_word("INVISIBLE").map(|()| false),
    }
}

fn alter_column(cursor: &mut Cursor<'_>) -> Result<Clause> {
    if cursor.accept("CHECK") || cursor.accept("CONSTRAINT") {
        let name = cursor.identifier()?;
        let enforced = !cursor.accept("NOT");
        cursor.expect_word("ENFORCED")?;
        return Ok(Clause::AlterCheck(name, enforced));
    }
    if cursor.accept("INDEX") {
        let name = cursor.identifier()?;
        return Ok(Clause::AlterKey(name, visibility(cursor)?));
    }
    cursor.accept("COLUMN");
    let column = cursor.identifier()?;
    if cursor.accept("DROP") {
        cursor.expect_word("DEFAULT")?;
        return Ok(Clause::ColumnDefault(column, None));
    }
    cursor.expect_word("SET")?;
    if cursor.peek_any(&["VISIBLE", "INVISIBLE"]) {
        return Ok(Clause::AlterColumn(column, visibility(cursor)?));
    }
    cursor.expect_word("DEFAULT")?;
    let (piece, mut parser) = rest_of_clause(cursor);
    let value = parser.parse_expr().map_err(|e| piece.error(&e))?;
    piece.expect_end(&mut parser)?;
    Ok(Clause::ColumnDefault(column, Some(Box::new(value))))
}
