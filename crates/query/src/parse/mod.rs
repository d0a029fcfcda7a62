//! From text to statements: splitting at semicolons, the statements that are parsed by hand, and
//! sqlparser for the others.

mod account;
mod analyze;
mod balance;
mod bare_list;
mod bounds;
mod change;
mod collation;
mod cursor;
mod ddl;
mod dialect;
mod explain;
mod footprint;
mod grant;
mod into;
mod json_value;
mod load;
mod lock;
mod long_lists;
mod masked;
mod more_rows;
mod names;
mod prepared;
mod program;
mod role;
mod scan;
mod settings;
mod show;
mod source;
mod transaction;
mod view;
mod visible;
mod whole_table;

use std::borrow::Cow;

use perigee_sql_bind::Modes;
use sqlparser::ast::{self, ObjectType};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

pub use account::{AccountStatement, Identified, Options, Secret, User, UserName};
pub use analyze::{Analyze, Histograms};
pub use balance::halves;
pub use bare_list::bare_list;
pub use bounds::MAX_TERMS;
pub use change::{Delete, Rows, Update};
pub use collation::{Collating, charset_named, collation_named};
pub use cursor::Cursor;
pub use ddl::{Clause, Ddl, Position};
pub use dialect::Grammar;
pub use explain::{Explain, ExplainFormat};
pub use footprint::Footprint;
pub use grant::{Grant, Granted, On};
pub use into::Receiver;
pub use load::{Existing, Field, Fields, Lines, LoadData};
pub use lock::LockStatement;
pub use long_lists::LongLists;
pub use masked::masked;
pub use more_rows::MoreRows;
pub use prepared::{PreparedText, with_literals};
pub use program::{
    AlterRoutine, Argument, Block, Call, Code, CreateRoutine, CreateTrigger, Declared, Diagnostic,
    Handler, Information, Items, Label, Mode, Order, Program, RowColumn, RowOf, Signal, Signalled,
    Slot, Step, Target as Given, Until,
};
pub use role::{RoleChoice, roles_of};
pub use settings::{Assignment, Scope, Target, Value};
pub use show::{Filter, Show};
pub use source::{SelectLists, Source};
pub use transaction::{Completion, TransactionStatement};
pub use view::CreateView;
pub use visible::is_invisible;

use crate::error::{Result, SqlError};
use crate::interrupt;

/// Nesting that a statement may have: parentheses, subqueries, operators to the right.
const MAX_DEPTH: usize = 100;

/// First words of MySQL's statements that are none here, however they go on.
const UNSUPPORTED: &[&str] = &[
    "BINLOG",
    "CACHE",
    "CHANGE",
    "CHECK",
    "CHECKSUM",
    "CLONE",
    "HANDLER",
    "IMPORT",
    "INSTALL",
    "OPTIMIZE",
    "PURGE",
    "REPAIR",
    "RESET",
    "RESTART",
    "SHUTDOWN",
    "STOP",
    "UNINSTALL",
    "XA",
];

/// Bytes of text that a syntax error shows, as in MySQL.
const NEAR: usize = 80;

/// The text of a command, split into tokens.
#[derive(Debug)]
pub struct Script<'a> {
    text: Cow<'a, str>,
    tokens: Vec<TokenWithSpan>,
    /// Ranges of tokens, one a statement, without those that are empty.
    pieces: Vec<std::ops::Range<usize>>,
    /// Rows of the first statement that are not in the text.
    more_rows: MoreRows<'a>,
    /// Lists that are not in the text.
    lists: Vec<&'a str>,
    grammar: &'static Grammar,
}

/// One statement of a script.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The whole text; the tokens' places refer to it.
    pub text: &'a str,
    /// Its tokens, without the semicolon.
    pub tokens: &'a [TokenWithSpan],
    /// Rows that an INSERT has besides those of its tokens.
    pub more_rows: MoreRows<'a>,
    /// Lists that names among the tokens stand for.
    pub lists: LongLists<'a>,
    /// What the tokens mean.
    pub grammar: &'static Grammar,
}

/// A statement.
#[derive(Debug)]
pub enum Statement {
    /// SELECT.
    Query(Box<ast::Query>),
    /// SELECT … INTO: the query, and where its rows go.
    Into(Box<ast::Query>, Receiver),
    /// EXPLAIN of a SELECT or a changing statement.
    Explain(Explain, Box<Self>),
    /// EXPLAIN FOR CONNECTION, with the connection's id.
    ExplainConnection(Explain, u64),
    /// DESCRIBE: table and, perhaps, a column or pattern.
    Describe(ast::ObjectName, Option<String>),
    /// INSERT, REPLACE.
    Insert(Box<ast::Insert>),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// LOAD DATA LOCAL.
    Load(Box<LoadData>),
    /// ANALYZE TABLE.
    Analyze(Analyze),
    /// A statement about accounts and privileges.
    Account(Box<AccountStatement>),
    /// A statement that changes definitions.
    Ddl(Ddl),
    /// USE.
    Use(String),
    /// SET.
    Set(Vec<Assignment>),
    /// SHOW.
    Show(Show),
    /// DO: the SELECT of its expressions.
    Do(Box<ast::Query>),
    /// FLUSH of what is never stale here: nothing is done.
    Flush,
    /// FLUSH LOGS and FLUSH SLOW LOGS.
    FlushLogs,
    /// LOCK TABLES, UNLOCK TABLES, FLUSH TABLES WITH READ LOCK.
    Lock(LockStatement),
    /// KILL; `query` leaves the connection alive.
    Kill {
        /// The connection.
        id: u64,
        /// KILL QUERY.
        query: bool,
    },
    /// BEGIN, COMMIT, ROLLBACK, savepoints.
    Transaction(TransactionStatement),
    /// PREPARE.
    Prepare {
        /// The statement's name, in lower case.
        name: String,
        /// Its text.
        text: PreparedText,
    },
    /// EXECUTE.
    Execute {
        /// The statement's name, in lower case.
        name: String,
        /// User variables with the parameters' values, in lower case.
        using: Vec<String>,
    },
    /// DEALLOCATE PREPARE, with the statement's name in lower case.
    Deallocate(String),
    /// CREATE, ALTER and DROP of procedures and triggers.
    Program(ProgramStatement),
    /// CALL.
    Call(Box<Call>),
    /// SIGNAL and RESIGNAL.
    Signal(Box<Signal>),
    /// GET DIAGNOSTICS.
    Diagnostics(Box<Information>),
}

/// A statement about stored programs.
#[derive(Debug)]
pub enum ProgramStatement {
    /// CREATE PROCEDURE.
    Create(Box<CreateRoutine>),
    /// ALTER PROCEDURE.
    Alter(AlterRoutine),
    /// DROP PROCEDURE.
    Drop {
        /// The procedure.
        name: ast::ObjectName,
        /// Do not fail if it is missing.
        if_exists: bool,
    },
    /// CREATE TRIGGER.
    CreateTrigger(Box<CreateTrigger>),
    /// DROP TRIGGER.
    DropTrigger {
        /// The trigger.
        name: ast::ObjectName,
        /// Do not fail if it is missing.
        if_exists: bool,
    },
}

impl ProgramStatement {
    /// The kind of program that it is about.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Create(_) | Self::Alter(_) | Self::Drop { .. } => "PROCEDURE",
            Self::CreateTrigger(_) | Self::DropTrigger { .. } => "TRIGGER",
        }
    }
}

impl Statement {
    /// True for statements that commit the open transaction before they run: all that define
    /// something, but for CREATE and DROP TEMPORARY TABLE, and ANALYZE TABLE.
    #[must_use]
    pub fn commits_implicitly(&self) -> bool {
        if let Self::Ddl(ddl) = self {
            return !ddl.is_temporary();
        }
        if let Self::Account(statement) = self
            && matches!(**statement, AccountStatement::SetRole(_))
        {
            return false;
        }
        !matches!(
            self,
            Self::Query(_)
                | Self::Into(..)
                | Self::Explain(..)
                | Self::ExplainConnection(..)
                | Self::Describe(..)
                | Self::Insert(_)
                | Self::Load(_)
                | Self::Update(_)
                | Self::Delete(_)
                | Self::Use(_)
                | Self::Set(_)
                | Self::Show(_)
                | Self::Do(_)
                | Self::Lock(_)
                | Self::FlushLogs
                | Self::Kill { .. }
                | Self::Prepare { .. }
                | Self::Execute { .. }
                | Self::Deallocate(_)
                | Self::Call(_)
                | Self::Signal(_)
                | Self::Diagnostics(_)
                | Self::Transaction(_)
        )
    }
}

impl<'a> Script<'a> {
    /// Splits a text, in no mode of `sql_mode`.
    ///
    /// # Errors
    /// 1064 for what is no token (an unterminated string).
    pub fn new(text: &'a str) -> Result<Self> {
        Self::in_modes(text, Modes::NONE)
    }

    /// Splits a text.
    ///
    /// # Errors
    /// As [`Script::new`].
    pub fn in_modes(text: &'a str, modes: Modes) -> Result<Self> {
        let (text, grammar) = (Cow::Borrowed(text), Grammar::of(modes));
        Self::of(text, MoreRows::default(), Vec::new(), grammar)
    }

    /// Splits a text if `admit` lets it take what its statements need. Most rows of a long INSERT that it begins
    /// with are left to the statement, and the values of long lists to the binder.
    ///
    /// # Errors
    /// As [`Script::new`], and those of `admit`.
    pub fn streamed(
        text: &'a str,
        modes: Modes,
        admit: impl FnOnce(Footprint) -> Result<()>,
    ) -> Result<Self> {
        let grammar = Grammar::of(modes);
        if let Some((remaining, more_rows)) = more_rows::cut(text, grammar) {
            admit(Footprint::of(&remaining))?;
            return Self::of(Cow::Owned(remaining), more_rows, Vec::new(), grammar);
        }
        let cut = grammar.has_plain_strings().then(|| long_lists::cut(text));
        let (remaining, lists) = match cut.flatten() {
            Some((remaining, lists)) => (Cow::Owned(remaining), lists),
            None => (Cow::Borrowed(text), Vec::new()),
        };
        let listed = lists.iter().map(|list| list.len()).sum();
        admit(Footprint::of(&remaining).with(listed))?;
        Self::of(remaining, MoreRows::default(), lists, grammar)
    }

    fn of(
        text: Cow<'a, str>,
        more_rows: MoreRows<'a>,
        lists: Vec<&'a str>,
        grammar: &'static Grammar,
    ) -> Result<Self> {
        let tokens = grammar
            .tokens(&text)
            .map_err(|e| syntax_error(&text, e.location))?;
        let mut pieces = Vec::new();
        let mut start = 0;
        while start <= tokens.len() {
            let semicolon = |token: &TokenWithSpan| token.token == Token::SemiColon;
            let rest = &tokens[start..];
            let end = match program::extent(rest) {
                Some(end) => end,
                None => rest.iter().position(semicolon).unwrap_or(rest.len()),
            };
            pieces.push(start..start + end);
            start += end + 1;
        }
        pieces.retain(|range| {
            tokens[range.clone()]
                .iter()
                .any(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF))
        });
        Ok(Self {
            text,
            tokens,
            pieces,
            more_rows,
            lists,
            grammar,
        })
    }

    /// The whole text, as if it were one statement.
    #[must_use]
    pub fn whole(&self) -> Piece<'_> {
        Piece {
            text: &self.text,
            tokens: &self.tokens,
            more_rows: MoreRows::default(),
            lists: LongLists::default(),
            grammar: self.grammar,
        }
    }

    /// The statements.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = Piece<'_>> {
        let pieces = self.pieces.iter().enumerate();
        pieces.map(|(number, range)| Piece {
            text: &self.text,
            tokens: &self.tokens[range.clone()],
            more_rows: match number {
                0 => self.more_rows,
                _ => MoreRows::default(),
            },
            lists: LongLists::new(&self.lists),
            grammar: self.grammar,
        })
    }
}

/// True for a variable of the name that comes next.
fn is_assigned(cursor: &Cursor<'_>) -> bool {
    let mut behind = cursor.clone();
    behind.next();
    behind.peek_is(&Token::Eq) || behind.peek_is(&Token::Assignment)
}

/// Error 1064 at a place of the text.
pub(crate) fn syntax_error(text: &str, at: Location) -> SqlError {
    let offset = Source::of(text).offset(at);
    SqlError::syntax(near(&text[offset.min(text.len())..]), at.line.max(1))
}

/// As much of a text as an error shows.
fn near(rest: &str) -> &str {
    let mut ends = rest.char_indices().map(|(i, _)| i);
    &rest[..ends.find(|i| *i >= NEAR).unwrap_or(rest.len())]
}

impl<'a> Piece<'a> {
    /// The text of the statement, without the others of its script.
    #[must_use]
    pub fn written(&self) -> &'a str {
        let source = Source::of(self.text);
        let first = self.tokens.first().map(|token| token.span.start);
        let last = self.tokens.last().map(|token| token.span.end);
        let (Some(first), Some(last)) = (first, last) else {
            return "";
        };
        let (start, end) = (source.offset(first), source.offset(last));
        self.text.get(start..end).unwrap_or(self.text)
    }

    /// Parses the statement.
    ///
    /// # Errors
    /// 1064 for text that is no statement, 1235 for statements that are not supported, 1436 for those that
    /// are too deep or too long, 1317.
    pub fn parse(self) -> Result<Statement> {
        // What was stopped may have come to any error.
        self.parsed()
            .map_err(|error| interrupt::check().err().unwrap_or(error))
    }

    fn parsed(self) -> Result<Statement> {
        bounds::check(self.tokens, self.grammar)?;
        let mut cursor = Cursor::new(self);
        let first = cursor.word();
        let second = |words: &[&str]| cursor.peek_any(words);
        let account = match first.as_str() {
            "CREATE" if second(&["USER"]) => account::create,
            "ALTER" if second(&["USER"]) => account::alter,
            "DROP" if second(&["USER"]) => account::drop,
            "RENAME" if second(&["USER"]) => account::rename,
            "SET" if second(&["PASSWORD"]) => account::set_password,
            "CREATE" if second(&["ROLE"]) => role::create,
            "DROP" if second(&["ROLE"]) => role::drop,
            "SET" if second(&["ROLE"]) && !is_assigned(&cursor) => role::set,
            "SET" if second(&["DEFAULT"]) => role::set_default,
            "GRANT" => grant::grant,
            "REVOKE" => grant::revoke,
            _ => return self.parse_other(&first, cursor),
        };
        account(cursor).map(|statement| Statement::Account(Box::new(statement)))
    }

    /// Parses a statement that is not about accounts, whose first word was taken.
    fn parse_other(self, first: &str, mut cursor: Cursor<'a>) -> Result<Statement> {
        match first {
            "SET" => settings::parse(cursor).map(Statement::Set),
            "SHOW" => show::parse(cursor).map(Statement::Show),
            "USE" => {
                let name = cursor.identifier()?;
                cursor.end()?;
                Ok(Statement::Use(name))
            }
            "DO" => self.evaluate(cursor.start()),
            "FLUSH" => lock::flush(cursor),
            "LOCK" => lock::lock(cursor),
            "UNLOCK" => lock::unlock(cursor),
            "ANALYZE" => analyze::parse(cursor).map(Statement::Analyze),
            "KILL" => kill(cursor),
            "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" => {
                transaction::parse(first, cursor).map(Statement::Transaction)
            }
            "UPDATE" => change::update(cursor).map(|update| Statement::Update(Box::new(update))),
            "DELETE" => change::delete(cursor).map(|delete| Statement::Delete(Box::new(delete))),
            "LOAD" => load::parse(cursor).map(|load| Statement::Load(Box::new(load))),
            "PREPARE" => prepared::prepare(cursor),
            "EXECUTE" => prepared::execute(cursor),
            "DEALLOCATE" => prepared::deallocate(cursor),
            "CALL" => program::call(cursor).map(|call| Statement::Call(Box::new(call))),
            "SIGNAL" | "RESIGNAL" | "GET" => program::outside(first, cursor),
            "CREATE" if program::begins(&cursor) => program::create(self).map(Statement::Program),
            "ALTER" if program::begins(&cursor) => program::alter(cursor).map(Statement::Program),
            "DROP" if program::begins(&cursor) => program::drop(cursor).map(Statement::Program),
            "DROP" if cursor.peek_any(&["PREPARE"]) => prepared::deallocate(cursor),
            "EXPLAIN" | "DESC" | "DESCRIBE" => explain::parse(self, cursor),
            "CREATE" if cursor.peek_any(&["DATABASE", "SCHEMA"]) => {
                ddl::create_schema(cursor).map(Statement::Ddl)
            }
            "ALTER" if cursor.peek_any(&["DATABASE", "SCHEMA"]) => {
                ddl::alter_schema(cursor).map(Statement::Ddl)
            }
            "DROP" if cursor.peek_any(&["DATABASE", "SCHEMA"]) => {
                ddl::drop_schema(cursor).map(Statement::Ddl)
            }
            "CREATE" if cursor.peek_any(&["INDEX", "UNIQUE", "FULLTEXT", "SPATIAL"]) => {
                ddl::create_index(cursor).map(Statement::Ddl)
            }
            "DROP" if cursor.peek_any(&["INDEX"]) => ddl::drop_index(cursor).map(Statement::Ddl),
            "CREATE" | "ALTER" if view::begins(&cursor) => view::create(self).map(Statement::Ddl),
            "DROP" if cursor.peek_any(&["VIEW"]) => view::drop(cursor).map(Statement::Ddl),
            // sqlparser takes it for TEMPORARY.
            "CREATE" if cursor.peek_any(&["TEMP"]) => Err(cursor.error()),
            "ALTER" => ddl::alter_table(cursor).map(Statement::Ddl),
            "RENAME" => ddl::rename_tables(cursor).map(Statement::Ddl),
            "TRUNCATE" => ddl::truncate(cursor).map(Statement::Ddl),
            other if UNSUPPORTED.contains(&other) => {
                let second = cursor.word();
                Err(SqlError::not_supported(format!("{other} {second}").trim()))
            }
            "SELECT" | "WITH" | "TABLE" | "VALUES" | "" => self.query(cursor.start()),
            _ => self.with_sqlparser(cursor.start()),
        }
    }

    /// Parses a query, perhaps with INTO.
    fn query(self, first: usize) -> Result<Statement> {
        let Some((tokens, into)) = into::cut(self)? else {
            return self.with_sqlparser(first);
        };
        let query = Piece {
            tokens: &tokens,
            ..self
        };
        match query.with_sqlparser(first)? {
            Statement::Query(query) => Ok(Statement::Into(query, into)),
            _ => Err(SqlError::not_supported("INTO in this statement")),
        }
    }

    /// Parses DO as the SELECT of the same expressions.
    fn evaluate(self, first: usize) -> Result<Statement> {
        let mut tokens = self.tokens.to_vec();
        tokens[first].token = Token::make_keyword("SELECT");
        let select = Piece {
            tokens: &tokens,
            ..self
        };
        match select.with_sqlparser(first)? {
            Statement::Query(query) if bare_list(&query).is_some() => Ok(Statement::Do(query)),
            _ => Err(SqlError::not_supported("DO with more than expressions")),
        }
    }

    /// Parses what begins at a token with sqlparser.
    fn with_sqlparser(self, from: usize) -> Result<Statement> {
        let mut cursor = Cursor::new(Self {
            tokens: &self.tokens[from..],
            ..self
        });
        let mut parser = match cursor.accept("CREATE") {
            true => self.definitions_parser(from, 1),
            false => self.parser(from),
        };
        let mut statement = parser.parse_statement().map_err(|e| self.error(&e))?;
        locking_clauses(&mut parser, &mut statement).map_err(|e| self.error(&e))?;
        balance::balance(&mut statement, self.grammar);
        self.expect_end(&mut parser)?;
        if let Some(ident) = names::misplaced(&statement) {
            return Err(syntax_error(self.text, self.place_of(&ident)));
        }
        match statement {
            ast::Statement::Query(query) => Ok(Statement::Query(query)),
            ast::Statement::Insert(insert) => Ok(Statement::Insert(Box::new(insert))),
            ast::Statement::CreateTable(table) => {
                Ok(Statement::Ddl(Ddl::CreateTable(Box::new(table))))
            }
            ast::Statement::Drop {
                object_type: ObjectType::Table,
                if_exists,
                names,
                temporary,
                table: None,
                ..
            } => Ok(Statement::Ddl(Ddl::DropTables {
                temporary,
                if_exists,
                names,
            })),
            other => Err(SqlError::not_supported(statement_name(&other))),
        }
    }

    fn parser(self, from: usize) -> Parser<'a> {
        Parser::new(self.grammar)
            .with_recursion_limit(MAX_DEPTH)
            .with_tokens_with_locations(whole_table::written_out(&self.tokens[from..]))
    }

    /// A parser of what defines keys and columns, between so many parentheses.
    fn definitions_parser(self, from: usize, depth: usize) -> Parser<'a> {
        let tokens = whole_table::written_out(&self.tokens[from..]);
        Parser::new(self.grammar)
            .with_recursion_limit(MAX_DEPTH)
            .with_tokens_with_locations(visible::written_out(tokens, depth))
    }

    fn expect_end(self, parser: &mut Parser<'_>) -> Result<()> {
        let next = parser.peek_token();
        if next.token == Token::EOF {
            return Ok(());
        }
        Err(syntax_error(self.text, next.span.start))
    }

    /// Where a name stands; strings that are names do not know it.
    fn place_of(self, ident: &ast::Ident) -> Location {
        let is_string = |token: &Token| match token {
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => {
                *text == ident.value
            }
            _ => false,
        };
        let token = self.tokens.iter().find(|t| is_string(&t.token));
        match (ident.quote_style, token) {
            (Some('\'' | '"'), Some(token)) => token.span.start,
            _ => ident.span.start,
        }
    }

    /// sqlparser's error at its place.
    fn error(self, error: &ParserError) -> SqlError {
        match error {
            ParserError::RecursionLimitExceeded => SqlError::too_nested(MAX_DEPTH),
            ParserError::ParserError(text) | ParserError::TokenizerError(text) => {
                match location(text) {
                    Some(at) => syntax_error(self.text, at),
                    None => {
                        let line = self.tokens.last().map_or(1, |t| t.span.end.line.max(1));
                        SqlError::syntax("", line)
                    }
                }
            }
        }
    }
}

/// What sqlparser does not know of locking clauses: the old spelling of FOR SHARE, and several
/// tables behind OF.
fn locking_clauses(
    parser: &mut Parser<'_>,
    statement: &mut ast::Statement,
) -> std::result::Result<(), ParserError> {
    let ast::Statement::Query(query) = statement else {
        return Ok(());
    };
    if parser.parse_keywords(&[Keyword::LOCK, Keyword::IN, Keyword::SHARE]) {
        parser.expect_keyword_is(Keyword::MODE)?;
        query.locks.push(ast::LockClause {
            lock_type: ast::LockType::Share,
            of: None,
            nonblock: None,
        });
    }
    let first = query.locks.len().saturating_sub(1);
    while let Some(last) = query.locks.last().cloned()
        && last.of.is_some()
        && last.nonblock.is_none()
        && parser.consume_token(&Token::Comma)
    {
        query.locks.push(ast::LockClause {
            of: Some(parser.parse_object_name(false)?),
            ..last
        });
    }
    if query.locks.len() > first + 1 {
        let nonblock = if parser.parse_keyword(Keyword::NOWAIT) {
            Some(ast::NonBlock::Nowait)
        } else if parser.parse_keywords(&[Keyword::SKIP, Keyword::LOCKED]) {
            Some(ast::NonBlock::SkipLocked)
        } else {
            None
        };
        for clause in &mut query.locks[first..] {
            clause.nonblock = nonblock;
        }
        while parser.parse_keyword(Keyword::FOR) {
            query.locks.push(parser.parse_lock()?);
        }
    }
    Ok(())
}

fn statement_name(statement: &ast::Statement) -> String {
    let text = statement.to_string();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ")
}

/// The place that sqlparser's message ends with.
fn location(message: &str) -> Option<Location> {
    let (_, place) = message.rsplit_once("at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some(Location {
        line: line.trim().parse().ok()?,
        column: column.trim().parse().ok()?,
    })
}

fn kill(mut cursor: Cursor<'_>) -> Result<Statement> {
    let query = cursor.accept("QUERY");
    if !query {
        cursor.accept("CONNECTION");
    }
    let id = cursor.number()?;
    cursor.end()?;
    Ok(Statement::Kill { id, query })
}

#[cfg(test)]
mod tests;
