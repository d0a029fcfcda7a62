//! The statements of a program.

use perigee_engine::catalog::Timing;
use sqlparser::ast::{ColumnDef, Ident};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::scope::{Kind, Scopes};
use super::{
    Argument, Block, Call, Code, Declared, Handler, Label, Mode, Parameter, Program, RowColumn,
    Slot, Step, Target, Until, condition, expression,
};
use crate::error::{Result, SqlError};
use crate::parse::{Cursor, MAX_DEPTH, Piece, Statement};

/// Statements that a program may not have.
const NOT_IN_PROGRAMS: &[&str] = &["USE", "LOCK", "UNLOCK", "LOAD"];

/// Reads a program.
pub(super) struct Reader<'a> {
    pub cursor: Cursor<'a>,
    scopes: Scopes,
    depth: usize,
    /// It runs while rows of another statement are changed.
    in_trigger: bool,
}

/// CALL, outside programs; its first word was taken.
pub(in crate::parse) fn call(mut cursor: Cursor<'_>) -> Result<Call> {
    let scopes = Scopes::new(cursor.piece().text);
    let call = read_call(&mut cursor, &scopes)?;
    cursor.end()?;
    Ok(call)
}

/// SIGNAL, RESIGNAL and GET DIAGNOSTICS outside programs; the first word was taken.
pub(in crate::parse) fn outside(first: &str, mut cursor: Cursor<'_>) -> Result<Statement> {
    let scopes = Scopes::new(cursor.piece().text);
    if first == "GET" {
        let information = condition::get(&mut cursor, &scopes)?;
        return Ok(Statement::Diagnostics(Box::new(information)));
    }
    let signal = condition::signal(&mut cursor, &scopes, first == "RESIGNAL")?;
    Ok(Statement::Signal(Box::new(signal)))
}

fn read_call(cursor: &mut Cursor<'_>, scopes: &Scopes) -> Result<Call> {
    let name = cursor.object_name()?;
    let mut arguments = Vec::new();
    if cursor.accept_token(&Token::LParen) && !cursor.accept_token(&Token::RParen) {
        loop {
            let mut ahead = cursor.clone();
            let variable = expression::target(&mut ahead, scopes).ok();
            let alone = ahead.peek_is(&Token::Comma) || ahead.peek_is(&Token::RParen);
            arguments.push(Argument {
                value: expression::until(cursor, scopes, &[])?,
                variable: variable.filter(|variable| alone && scopes.assign(variable).is_ok()),
            });
            if !cursor.accept_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect(&Token::RParen)?;
    }
    Ok(Call { name, arguments })
}

impl<'a> Reader<'a> {
    pub fn new(cursor: Cursor<'a>) -> Self {
        let scopes = Scopes::new(cursor.piece().text);
        Self {
            cursor,
            scopes,
            depth: 0,
            in_trigger: false,
        }
    }

    /// Of a trigger that names these columns.
    ///
    /// # Errors
    /// 1331 for two of one name.
    pub fn of_trigger(cursor: Cursor<'a>, timing: Timing, row: Vec<RowColumn>) -> Result<Self> {
        let mut reader = Self::new(cursor);
        reader.scopes.declare_row(row, timing)?;
        reader.in_trigger = true;
        Ok(reader)
    }

    /// `([IN | OUT | INOUT] name type, …)`.
    ///
    /// # Errors
    /// 1330 for two parameters of one name.
    pub fn parameters(&mut self) -> Result<Vec<Parameter>> {
        self.cursor.expect(&Token::LParen)?;
        let mut parameters = Vec::new();
        if self.cursor.accept_token(&Token::RParen) {
            return Ok(parameters);
        }
        self.scopes.enter();
        loop {
            let mode = match () {
                () if self.cursor.accept("OUT") => Mode::Out,
                () if self.cursor.accept("INOUT") => Mode::InOut,
                () => {
                    self.cursor.accept("IN");
                    Mode::In
                }
            };
            let name = self.cursor.identifier()?;
            if self.scopes.declare_variable(&name).is_err() {
                return Err(SqlError::duplicate_parameter(name));
            }
            let column = self.typed(&name)?;
            parameters.push(Parameter { mode, column });
            if !self.cursor.accept_token(&Token::Comma) {
                break;
            }
        }
        self.cursor.expect(&Token::RParen)?;
        Ok(parameters)
    }

    /// The program whose body comes now, up to the end.
    pub fn program(mut self, parameters: Vec<Parameter>) -> Result<Program> {
        if self.cursor.at_end() {
            return Err(self.cursor.error());
        }
        let body = self.step()?;
        self.cursor.end()?;
        let (variables, cursors) = self.scopes.counts();
        Ok(Program {
            parameters,
            body,
            variables,
            cursors,
            row: self.scopes.into_row(),
        })
    }

    /// A type, as that of a column with a name.
    fn typed(&mut self, name: &str) -> Result<ColumnDef> {
        let start = self.cursor.position();
        let mut depth = 0usize;
        while let Some(token) = self.cursor.peek() {
            match token {
                Token::LParen => depth += 1,
                Token::RParen | Token::Comma | Token::SemiColon if depth == 0 => break,
                Token::RParen => depth -= 1,
                _ if depth == 0 && self.cursor.peek_any(&["DEFAULT"]) => break,
                _ => {}
            }
            self.cursor.next();
        }
        let tokens = expression::trimmed(self.cursor.tokens(start..self.cursor.position()));
        let piece = Piece {
            tokens,
            ..self.cursor.piece()
        };
        let mut parser = piece.parser(0);
        let ty = parser.parse_data_type().map_err(|e| piece.error(&e))?;
        let mut column = ColumnDef {
            name: Ident::new(name),
            data_type: ty,
            options: Vec::new(),
        };
        while let Some(option) = parser
            .parse_optional_column_option()
            .map_err(|e| piece.error(&e))?
        {
            let option = sqlparser::ast::ColumnOptionDef { name: None, option };
            column.options.push(option);
        }
        let charset = [Keyword::CHARSET];
        if parser.parse_one_of_keywords(&charset).is_some() {
            let name = parser.parse_object_name(false);
            let option =
                sqlparser::ast::ColumnOption::CharacterSet(name.map_err(|e| piece.error(&e))?);
            let option = sqlparser::ast::ColumnOptionDef { name: None, option };
            column.options.push(option);
        }
        piece.expect_end(&mut parser)?;
        Ok(column)
    }

    /// Statements up to one of these words.
    fn steps(&mut self, ends: &[&str]) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        while !self.cursor.peek_any(ends) {
            if self.cursor.at_end() {
                return Err(self.cursor.error());
            }
            steps.push(self.step()?);
            self.cursor.expect(&Token::SemiColon)?;
        }
        Ok(steps)
    }

    /// Statements of which there is at least one.
    fn some_steps(&mut self, ends: &[&str]) -> Result<Vec<Step>> {
        let steps = self.steps(ends)?;
        match steps.is_empty() {
            true => Err(self.cursor.error()),
            false => Ok(steps),
        }
    }

    /// A statement, without the semicolon behind it.
    fn step(&mut self) -> Result<Step> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SqlError::too_nested(MAX_DEPTH));
        }
        let step = self.labelled();
        self.depth -= 1;
        step
    }

    fn labelled(&mut self) -> Result<Step> {
        let mut ahead = self.cursor.clone();
        let label = ahead.identifier().ok();
        let label = label.filter(|_| ahead.accept_token(&Token::Colon));
        if label.is_some() {
            self.cursor = ahead;
        }
        let label = label.as_deref();
        let word = self.cursor.clone().word();
        match word.as_str() {
            "BEGIN" => self.block(label),
            "LOOP" | "WHILE" | "REPEAT" => self.looped(label),
            _ if label.is_some() => Err(self.cursor.error()),
            _ => self.plain(&word),
        }
    }

    /// A statement without label that begins with a word.
    fn plain(&mut self, word: &str) -> Result<Step> {
        match word {
            "IF" => self.condition(),
            "CASE" => self.case(),
            "LEAVE" | "ITERATE" => self.jump(word == "ITERATE"),
            "OPEN" | "CLOSE" => {
                self.cursor.word();
                let name = self.cursor.identifier()?;
                let cursor = self.scopes.cursor(&name)?;
                Ok(match word {
                    "OPEN" => Step::Open(cursor),
                    _ => Step::Close(cursor),
                })
            }
            "FETCH" => self.fetch(),
            "SET" => self.set(),
            "RETURN" => Err(SqlError::return_in_procedure()),
            "CALL" => {
                self.cursor.word();
                let call = read_call(&mut self.cursor, &self.scopes)?;
                Ok(Step::Call(Box::new(call)))
            }
            "SIGNAL" | "RESIGNAL" => {
                let mut cursor = Cursor::new(self.sql());
                cursor.word();
                let again = word == "RESIGNAL";
                let signal = condition::signal(&mut cursor, &self.scopes, again)?;
                Ok(Step::Signal(Box::new(signal)))
            }
            "GET" => {
                let mut cursor = Cursor::new(self.sql());
                cursor.word();
                let information = condition::get(&mut cursor, &self.scopes)?;
                Ok(Step::Diagnostics(Box::new(information)))
            }
            "SELECT" | "WITH" | "" => self.query(),
            word if NOT_IN_PROGRAMS.contains(&word) => Err(SqlError::not_in_programs(word)),
            _ => self.statement(),
        }
    }

    /// The tokens up to the next semicolon, which are taken.
    fn sql(&mut self) -> Piece<'a> {
        let start = self.cursor.position();
        while !self.cursor.at_end() && !self.cursor.peek_is(&Token::SemiColon) {
            self.cursor.next();
        }
        Piece {
            tokens: expression::trimmed(self.cursor.tokens(start..self.cursor.position())),
            ..self.cursor.piece()
        }
    }

    fn statement(&mut self) -> Result<Step> {
        let piece = self.sql();
        self.plain_statement(piece)
    }

    /// A statement that is run as it is.
    fn plain_statement(&self, piece: Piece<'_>) -> Result<Step> {
        let (statement, code) = expression::statement(piece, &self.scopes)?;
        if let Statement::Program(program) = &statement {
            return Err(SqlError::program_in_program(program.kind()));
        }
        if self.in_trigger {
            statement.check_no_result_set()?;
            statement.check_within_rows()?;
        }
        Ok(Step::Statement(code))
    }

    /// A query, perhaps with INTO.
    fn query(&mut self) -> Result<Step> {
        let piece = self.sql();
        let mut cursor = Cursor::new(piece);
        let mut depth = 0usize;
        let begin = loop {
            let at = cursor.position();
            if depth == 0 && cursor.accept("INTO") {
                break at;
            }
            match cursor.next() {
                None => return self.plain_statement(piece),
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth = depth.saturating_sub(1),
                Some(_) => {}
            }
        };
        if cursor.peek_any(&["OUTFILE", "DUMPFILE"]) {
            return self.plain_statement(piece);
        }
        let targets = self.targets(&mut cursor)?;
        if !cursor.at_end() && !cursor.peek_any(&["FROM", "FOR", "LOCK"]) {
            return Err(cursor.error());
        }
        let mut tokens = cursor.tokens(0..begin).to_vec();
        tokens.extend_from_slice(&piece.tokens[cursor.position()..]);
        let piece = Piece {
            tokens: &tokens,
            ..piece
        };
        match expression::statement(piece, &self.scopes)? {
            (Statement::Query(_), code) => Ok(Step::Into(code, targets)),
            _ => Err(Cursor::new(piece).error()),
        }
    }

    fn targets(&self, cursor: &mut Cursor<'_>) -> Result<Vec<Target>> {
        let mut targets = Vec::new();
        loop {
            let target = expression::target(cursor, &self.scopes)?;
            if self.scopes.is_of_row(&target) {
                return Err(cursor.error_at_last());
            }
            targets.push(target);
            if !cursor.accept_token(&Token::Comma) {
                return Ok(targets);
            }
        }
    }

    /// `[label:] BEGIN … END [label]`.
    fn block(&mut self, name: Option<&str>) -> Result<Step> {
        self.cursor.word();
        let label = self.scopes.enter_label(name, Kind::Block)?;
        self.scopes.enter();
        let mut block = Block {
            label,
            variables: Vec::new(),
            cursors: Vec::new(),
            handlers: Vec::new(),
            steps: Vec::new(),
        };
        while self.cursor.accept("DECLARE") {
            self.declare(&mut block)?;
            self.cursor.expect(&Token::SemiColon)?;
        }
        block.steps = self.steps(&["END"])?;
        self.cursor.word();
        self.scopes.leave();
        self.end_label(name)?;
        Ok(Step::Block(Box::new(block)))
    }

    fn end_label(&mut self, name: Option<&str>) -> Result<()> {
        self.scopes.leave_label(name);
        if self.cursor.at_end() || self.cursor.peek_is(&Token::SemiColon) {
            return Ok(());
        }
        let end = self.cursor.identifier()?;
        match name {
            Some(name) if name.eq_ignore_ascii_case(&end) => Ok(()),
            _ => Err(SqlError::end_label(end)),
        }
    }

    /// What is behind DECLARE.
    fn declare(&mut self, block: &mut Block) -> Result<()> {
        let mut ahead = self.cursor.clone();
        let exits = match ahead.word().as_str() {
            "CONTINUE" if ahead.accept("HANDLER") => Some(false),
            "EXIT" if ahead.accept("HANDLER") => Some(true),
            "UNDO" if ahead.accept("HANDLER") => {
                return Err(SqlError::not_supported("UNDO HANDLER"));
            }
            _ => None,
        };
        if let Some(exits) = exits {
            self.cursor = ahead;
            let handler = self.handler(exits, block)?;
            block.handlers.push(handler);
            return Ok(());
        }
        let first = self.cursor.identifier()?;
        if self.cursor.accept("CONDITION") {
            if !block.cursors.is_empty() || !block.handlers.is_empty() {
                return Err(SqlError::variable_after_cursor());
            }
            self.cursor.expect_word("FOR")?;
            let value = condition::value(&mut self.cursor)?;
            return self.scopes.declare_condition(&first, value);
        }
        if self.cursor.accept_all(&["CURSOR", "FOR"]) {
            if !block.handlers.is_empty() {
                return Err(SqlError::cursor_after_handler());
            }
            let piece = self.sql();
            // The query may name variables of this block.
            let code = match expression::statement(piece, &self.scopes)? {
                (Statement::Query(_), code) => code,
                (Statement::Into(..), _) => return Err(SqlError::cursor_into()),
                _ => return Err(SqlError::bad_cursor_query()),
            };
            let cursor = self.scopes.declare_cursor(&first)?;
            block.cursors.push((cursor, code));
            return Ok(());
        }
        if !block.cursors.is_empty() || !block.handlers.is_empty() {
            return Err(SqlError::variable_after_cursor());
        }
        let declared = self.variables(first)?;
        block.variables.push(declared);
        Ok(())
    }

    /// `name, … type [DEFAULT value]`.
    fn variables(&mut self, first: String) -> Result<Declared> {
        let mut names = vec![first];
        while self.cursor.accept_token(&Token::Comma) {
            names.push(self.cursor.identifier()?);
        }
        let column = self.typed(&names[0])?;
        // It does not know the variables that it is for.
        let default = match self.cursor.accept("DEFAULT") {
            true => Some(expression::until_semicolon(&mut self.cursor, &self.scopes)?),
            false => None,
        };
        let mut variables = Vec::with_capacity(names.len());
        for name in names {
            let slot = self.scopes.declare_variable(&name)?;
            let column = ColumnDef {
                name: Ident::new(name),
                ..column.clone()
            };
            variables.push((slot, column));
        }
        Ok(Declared { variables, default })
    }

    /// `FOR condition, … statement`.
    fn handler(&mut self, exits: bool, block: &Block) -> Result<Handler> {
        self.cursor.expect_word("FOR")?;
        let mut conditions = Vec::new();
        loop {
            let condition = condition::handled(&mut self.cursor, &self.scopes)?;
            let mut others = block.handlers.iter().flat_map(|h| &h.conditions);
            if conditions.contains(&condition) || others.any(|other| *other == condition) {
                return Err(SqlError::duplicate_handler());
            }
            conditions.push(condition);
            if !self.cursor.accept_token(&Token::Comma) {
                break;
            }
        }
        self.scopes.enter_handler();
        let body = self.step()?;
        self.scopes.leave();
        Ok(Handler {
            exits,
            conditions,
            body,
        })
    }

    /// `IF … THEN … [ELSEIF …] [ELSE …] END IF`.
    fn condition(&mut self) -> Result<Step> {
        let mut branches = Vec::new();
        self.cursor.word();
        loop {
            let condition = expression::condition(&mut self.cursor, &self.scopes, &["THEN"])?;
            self.cursor.expect_word("THEN")?;
            let steps = self.some_steps(&["ELSEIF", "ELSE", "END"])?;
            branches.push((condition, steps));
            if !self.cursor.accept("ELSEIF") {
                break;
            }
        }
        let otherwise = match self.cursor.accept("ELSE") {
            true => self.some_steps(&["END"])?,
            false => Vec::new(),
        };
        self.cursor.expect_word("END")?;
        self.cursor.expect_word("IF")?;
        Ok(Step::If {
            branches,
            otherwise: Some(otherwise),
        })
    }

    /// `CASE [operand] WHEN … THEN … [ELSE …] END CASE`.
    fn case(&mut self) -> Result<Step> {
        self.cursor.word();
        let operand = match self.cursor.peek_any(&["WHEN"]) {
            true => &[],
            false => expression::written(&mut self.cursor, &["WHEN"])?,
        };
        let mut branches = Vec::new();
        while self.cursor.accept("WHEN") {
            let condition = match operand.is_empty() {
                true => expression::condition(&mut self.cursor, &self.scopes, &["THEN"])?,
                false => self.equal_to(operand)?,
            };
            self.cursor.expect_word("THEN")?;
            branches.push((condition, self.some_steps(&["WHEN", "ELSE", "END"])?));
        }
        if branches.is_empty() {
            return Err(self.cursor.error());
        }
        let otherwise = match self.cursor.accept("ELSE") {
            true => Some(self.some_steps(&["END"])?),
            false => None,
        };
        self.cursor.expect_word("END")?;
        self.cursor.expect_word("CASE")?;
        Ok(Step::If {
            branches,
            otherwise,
        })
    }

    /// `(operand) = (value)` for the value that comes now.
    fn equal_to(&mut self, operand: &[TokenWithSpan]) -> Result<Code> {
        let value = expression::written(&mut self.cursor, &["THEN"])?;
        let mut tokens = vec![expression::added(Token::LParen)];
        tokens.extend_from_slice(operand);
        tokens.extend([Token::RParen, Token::Eq, Token::LParen].map(expression::added));
        tokens.extend_from_slice(value);
        tokens.push(expression::added(Token::RParen));
        expression::holds(self.cursor.piece(), &tokens, &self.scopes)
    }

    fn looped(&mut self, name: Option<&str>) -> Result<Step> {
        let word = self.cursor.word();
        let label = self.scopes.enter_label(name, Kind::Loop)?;
        let (until, steps) = match word.as_str() {
            "LOOP" => (Until::Left, self.some_steps(&["END"])?),
            "WHILE" => {
                let condition = expression::condition(&mut self.cursor, &self.scopes, &["DO"])?;
                self.cursor.expect_word("DO")?;
                (Until::Not(condition), self.some_steps(&["END"])?)
            }
            _ => {
                let steps = self.some_steps(&["UNTIL"])?;
                self.cursor.word();
                let condition = expression::condition(&mut self.cursor, &self.scopes, &["END"])?;
                (Until::Holds(condition), steps)
            }
        };
        self.cursor.expect_word("END")?;
        self.cursor.expect_word(&word)?;
        self.end_label(name)?;
        Ok(Step::Loop {
            label,
            until,
            steps,
        })
    }

    fn jump(&mut self, iterates: bool) -> Result<Step> {
        self.cursor.word();
        let name = self.cursor.identifier()?;
        let label: Label = self.scopes.label(&name, iterates)?;
        Ok(match iterates {
            true => Step::Iterate(label),
            false => Step::Leave(label),
        })
    }

    /// `FETCH [[NEXT] FROM] cursor INTO variable, …`.
    fn fetch(&mut self) -> Result<Step> {
        self.cursor.word();
        if self.cursor.accept("NEXT") {
            self.cursor.expect_word("FROM")?;
        } else {
            self.cursor.accept("FROM");
        }
        let name = self.cursor.identifier()?;
        let cursor = self.scopes.cursor(&name)?;
        self.cursor.expect_word("INTO")?;
        let mut slots: Vec<Slot> = Vec::new();
        loop {
            match expression::target(&mut self.cursor, &self.scopes)? {
                Target::Local(slot) if !self.scopes.is_of_row(&Target::Local(slot)) => {
                    slots.push(slot);
                }
                Target::Local(_) | Target::User(_) => return Err(self.cursor.error_at_last()),
            }
            if !self.cursor.accept_token(&Token::Comma) {
                return Ok(Step::Fetch(cursor, slots));
            }
        }
    }

    /// SET: of variables of the program, of others, or of both.
    fn set(&mut self) -> Result<Step> {
        let piece = self.sql();
        let mut cursor = Cursor::new(piece);
        cursor.word();
        let first = cursor.clone();
        if !self.sets_local(&mut cursor)? {
            return self.set_others(piece, first);
        }
        let mut assigned = Vec::new();
        let mut cursor = first;
        loop {
            let Some(target) = self.assigned(&mut cursor) else {
                return Err(SqlError::not_supported(
                    "SET of variables of a program and of the system at once",
                ));
            };
            self.scopes.assign(&target)?;
            assigned.push((target, expression::until(&mut cursor, &self.scopes, &[])?));
            if !cursor.accept_token(&Token::Comma) {
                break;
            }
        }
        cursor.end()?;
        Ok(Step::Assign(assigned))
    }

    /// True if one of the assignments is to a variable of the program.
    fn sets_local(&self, cursor: &mut Cursor<'_>) -> Result<bool> {
        let mut found = false;
        while !cursor.at_end() {
            let assigned = self.assigned(&mut cursor.clone());
            found |= matches!(assigned, Some(Target::Local(_)));
            let mut depth = 0usize;
            while let Some(token) = cursor.next() {
                match token {
                    Token::LParen => depth += 1,
                    Token::RParen => depth = depth.saturating_sub(1),
                    Token::Comma if depth == 0 => break,
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// The variable of the program or user variable that an assignment begins with; it and the sign are taken.
    fn assigned(&self, cursor: &mut Cursor<'_>) -> Option<Target> {
        let target = expression::target(cursor, &self.scopes).ok()?;
        let signs = [Token::Eq, Token::Assignment];
        signs
            .iter()
            .any(|sign| cursor.accept_token(sign))
            .then_some(target)
    }

    /// SET of user variables and system variables: values that are expressions may name variables of the program.
    fn set_others(&self, piece: Piece<'_>, mut cursor: Cursor<'_>) -> Result<Step> {
        let statement = piece.parse()?;
        if self.in_trigger {
            statement.check_within_rows()?;
        }
        let mut variables = Vec::new();
        while let Some(token) = cursor.next() {
            if !matches!(token, Token::Eq | Token::Assignment) {
                continue;
            }
            let start = cursor.position();
            let mut ahead = cursor.clone();
            if let Ok(value) = expression::until(&mut ahead, &self.scopes, &[]) {
                // Behind the SELECT that stands before an expression.
                let places = value.places().map(|(at, slot)| (at - 2 + start, slot));
                variables.extend(places);
                cursor = ahead;
            }
        }
        let tokens = piece.tokens.to_vec();
        let code = Code::new(&self.scopes.text, tokens, variables, piece.grammar);
        Ok(Step::Statement(code))
    }
}
