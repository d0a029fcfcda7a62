//! The variables and cursors of a running program.

use std::sync::Arc;

use perigee_engine::catalog::ColumnDef;
use perigee_value::{Collation, ColumnType, Datum, Zone};
use sqlparser::ast::ColumnDef as AstColumn;
use sqlparser::tokenizer::Token;

use super::rows::{Row, Rows};
use crate::error::{Result, SqlError};
use crate::memory::{Charge, ProcessMemory};
use crate::parse::Slot;
use crate::session::Session;
use crate::session::ddl::variable_definition;
use crate::session::dml::convert::{Converter, Strictness};
use crate::session::parameter::literal;
use crate::values::size;

/// A variable.
struct Variable {
    /// Its name and type, as those of a column.
    column: Arc<ColumnDef>,
    value: Datum,
}

/// What a call of a program has of its own.
pub(super) struct Frame {
    variables: Vec<Option<Variable>>,
    /// Open cursors, with the number of the next row.
    cursors: Vec<Option<(Rows, usize)>>,
    /// The collation of its texts.
    collation: Collation,
    /// What the values take.
    charge: Charge,
    bytes: usize,
}

impl Frame {
    /// Nothing is declared yet.
    pub fn new(
        (variables, cursors): (usize, usize),
        collation: Collation,
        memory: &Arc<ProcessMemory>,
    ) -> Result<Self> {
        Ok(Self {
            variables: (0..variables).map(|_| None).collect(),
            cursors: (0..cursors).map(|_| None).collect(),
            collation,
            charge: memory.charge(0)?,
            bytes: 0,
        })
    }

    /// Declares a variable, which is NULL.
    pub fn declare(&mut self, slot: Slot, column: &AstColumn, zone: Zone) -> Result<()> {
        let column = Arc::new(variable_definition(column, self.collation, zone)?);
        let value = Datum::Null;
        self.variables[slot] = Some(Variable { column, value });
        Ok(())
    }

    /// Declares a variable that is a column of a row, with a value that the column may have.
    pub fn declare_of_row(
        &mut self,
        slot: Slot,
        column: Arc<ColumnDef>,
        value: Datum,
    ) -> Result<()> {
        self.bytes += size(&value);
        self.variables[slot] = Some(Variable { column, value });
        self.charge.resize(self.bytes)
    }

    /// The value of a variable as its column stores it.
    pub fn stored(&self, slot: Slot) -> Result<Datum> {
        Ok(self.variable(slot)?.value.clone())
    }

    /// Gives a variable a value of a type.
    ///
    /// # Errors
    /// What does not fit, in a strict mode; 1038.
    pub fn assign(&mut self, slot: Slot, (value, ty): Row1, session: &mut Session) -> Result<()> {
        let mut converter = Converter::new(Strictness::new(session, false));
        let variable = self.variable_mut(slot)?;
        let value = converter.value(value, ty, &variable.column, 1)?;
        converter.report(session);
        let bytes = self.bytes + size(&value);
        let variable = self.variable_mut(slot)?;
        let before = std::mem::replace(&mut variable.value, value);
        self.bytes = bytes.saturating_sub(size(&before));
        self.charge.resize(self.bytes)
    }

    /// The value of a variable, with its type.
    pub fn value(&self, slot: Slot, zone: Zone) -> Result<Row1> {
        let variable = self.variable(slot)?;
        let (column, value) = (&variable.column, variable.value.clone());
        Ok(match column.ty {
            ColumnType::Timestamp { fsp } => (value.local_in(zone), ColumnType::DateTime { fsp }),
            _ if column.members.is_some() && !value.is_null() => {
                let mut text = String::new();
                column.format(value.as_ref(), &mut text);
                let collation = column.collation().unwrap_or(self.collation);
                let chars = u16::MAX;
                let ty = ColumnType::Varchar { chars, collation };
                (Datum::String(text.into_bytes()), ty)
            }
            ty => (value, ty),
        })
    }

    /// The tokens of a literal with the value of a variable.
    pub fn literal(&self, slot: Slot, zone: Zone) -> Result<Vec<Token>> {
        let (value, ty) = self.value(slot, zone)?;
        let tokens = literal(&value, ty)?;
        if ty != ColumnType::Json || value.is_null() {
            return Ok(tokens);
        }
        let mut cast = vec![Token::make_keyword("CAST"), Token::LParen];
        cast.extend(tokens);
        cast.extend([
            Token::make_keyword("AS"),
            Token::make_keyword("JSON"),
            Token::RParen,
        ]);
        Ok(cast)
    }

    fn variable(&self, slot: Slot) -> Result<&Variable> {
        let known = self.variables.get(slot).and_then(Option::as_ref);
        known.ok_or_else(|| SqlError::unknown("a variable is used before it is declared"))
    }

    fn variable_mut(&mut self, slot: Slot) -> Result<&mut Variable> {
        let known = self.variables.get_mut(slot).and_then(Option::as_mut);
        known.ok_or_else(|| SqlError::unknown("a variable is used before it is declared"))
    }

    /// Opens a cursor over rows.
    ///
    /// # Errors
    /// 1325.
    pub fn open(&mut self, cursor: usize, rows: Rows) -> Result<()> {
        self.check_closed(cursor)?;
        self.cursors[cursor] = Some((rows, 0));
        Ok(())
    }

    /// # Errors
    /// 1325.
    pub fn check_closed(&self, cursor: usize) -> Result<()> {
        match &self.cursors[cursor] {
            Some(_) => Err(SqlError::cursor_open()),
            None => Ok(()),
        }
    }

    /// The next row of a cursor.
    ///
    /// # Errors
    /// 1326, 1328, 1329.
    pub fn fetch(&mut self, cursor: usize, width: usize) -> Result<Row> {
        let (rows, next) = self.cursors[cursor]
            .as_mut()
            .ok_or_else(SqlError::cursor_closed)?;
        if rows.width() != width {
            return Err(SqlError::fetch_variables());
        }
        let row = rows.row(*next).ok_or_else(SqlError::no_data)?;
        *next += 1;
        Ok(row)
    }

    /// Closes a cursor.
    ///
    /// # Errors
    /// 1326.
    pub fn close(&mut self, cursor: usize) -> Result<()> {
        match self.cursors[cursor].take() {
            Some(_) => Ok(()),
            None => Err(SqlError::cursor_closed()),
        }
    }

    /// Closes what a block that ends has left open.
    pub fn end(&mut self, cursors: impl Iterator<Item = usize>) {
        for cursor in cursors {
            self.cursors[cursor] = None;
        }
    }
}

/// A value with its type.
pub(super) type Row1 = (Datum, ColumnType);
