//! What names mean in a program: variables, conditions, cursors and labels, each in the block that declares it.

use std::cell::Cell;
use std::sync::Arc;

use perigee_engine::catalog::Timing;

use super::{Condition, Label, RowColumn, RowOf, Slot, Target};
use crate::error::{Result, SqlError};

/// The names of the blocks that a statement stands in.
#[derive(Debug)]
pub(super) struct Scopes {
    /// The text of the program.
    pub text: Arc<str>,
    /// The columns that a trigger names: the first variables.
    row: Vec<RowVariable>,
    blocks: Vec<Names>,
    labels: Vec<(String, Label, Kind)>,
    /// How many variables, cursors and labels there are so far.
    variables: usize,
    cursors: usize,
    last_label: Label,
}

/// A column that a trigger names.
#[derive(Debug)]
struct RowVariable {
    column: RowColumn,
    /// Why it cannot be given a value.
    fixed: Option<SqlError>,
    read: Cell<bool>,
    assigned: Cell<bool>,
}

/// What a block declares; names in lower case.
#[derive(Debug, Default)]
struct Names {
    variables: Vec<(String, Slot)>,
    conditions: Vec<(String, Condition)>,
    cursors: Vec<(String, usize)>,
    /// Labels around a handler are not those of its body.
    hides_labels: usize,
}

/// What a label stands before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A block, which can be left.
    Block,
    /// A loop.
    Loop,
}

fn found<T: Clone>(names: &[(String, T)], name: &str) -> Option<T> {
    let found = names.iter().find(|(known, _)| known == name);
    found.map(|(_, what)| what.clone())
}

impl Scopes {
    /// Around a program.
    pub fn new(text: &str) -> Self {
        Self {
            text: Arc::from(text),
            row: Vec::new(),
            blocks: Vec::new(),
            labels: Vec::new(),
            variables: 0,
            cursors: 0,
            last_label: 0,
        }
    }

    /// A block begins.
    pub fn enter(&mut self) {
        let hides_labels = self.blocks.last().map_or(0, |block| block.hides_labels);
        self.blocks.push(Names {
            hides_labels,
            ..Names::default()
        });
    }

    /// The body of a handler begins, a block by itself.
    pub fn enter_handler(&mut self) {
        self.enter();
        let labels = self.labels.len();
        self.block().hides_labels = labels;
    }

    /// The block ends.
    pub fn leave(&mut self) {
        self.blocks.pop();
    }

    fn block(&mut self) -> &mut Names {
        if self.blocks.is_empty() {
            self.blocks.push(Names::default());
        }
        let last = self.blocks.len() - 1;
        &mut self.blocks[last]
    }

    /// A number for a block or loop.
    pub fn number(&mut self) -> Label {
        self.last_label += 1;
        self.last_label
    }

    /// How many variables and cursors there are.
    pub fn counts(&self) -> (usize, usize) {
        (self.variables, self.cursors)
    }

    /// Declares a variable.
    ///
    /// # Errors
    /// 1331.
    pub fn declare_variable(&mut self, name: &str) -> Result<Slot> {
        let lower = name.to_lowercase();
        if found(&self.block().variables, &lower).is_some() {
            return Err(SqlError::duplicate_variable(name));
        }
        let slot = self.variables;
        self.variables += 1;
        self.block().variables.push((lower, slot));
        Ok(slot)
    }

    /// Declares the columns that a trigger names, before anything else.
    ///
    /// # Errors
    /// Those of [`Scopes::declare_variable`].
    pub fn declare_row(&mut self, columns: Vec<RowColumn>, timing: Timing) -> Result<()> {
        self.enter();
        for column in columns {
            self.declare_variable(&column.variable())?;
            let fixed = match (column.row, timing) {
                (RowOf::New, Timing::Before) => None,
                (RowOf::New, Timing::After) => Some("after "),
                (RowOf::Old, _) => Some(""),
            };
            let row = column.row.name();
            self.row.push(RowVariable {
                fixed: fixed.map(|timing| SqlError::row_not_updatable(row, timing)),
                column,
                read: Cell::new(false),
                assigned: Cell::new(false),
            });
        }
        Ok(())
    }

    /// Says that a variable is read.
    pub fn read(&self, slot: Slot) {
        if let Some(variable) = self.row.get(slot) {
            variable.read.set(true);
        }
    }

    /// Says that something is given a value.
    ///
    /// # Errors
    /// 1362 for a column of a row that cannot be changed.
    pub fn assign(&self, target: &Target) -> Result<()> {
        let Target::Local(slot) = target else {
            return Ok(());
        };
        match self.row.get(*slot) {
            Some(RowVariable {
                fixed: Some(error), ..
            }) => Err(error.clone()),
            Some(variable) => {
                variable.assigned.set(true);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The columns that the trigger names.
    pub fn into_row(self) -> Vec<RowColumn> {
        let row = self.row.into_iter().map(|variable| RowColumn {
            read: variable.read.get(),
            assigned: variable.assigned.get(),
            ..variable.column
        });
        row.collect()
    }

    /// True if it is a column that a trigger names.
    pub fn is_of_row(&self, target: &Target) -> bool {
        matches!(target, Target::Local(slot) if *slot < self.row.len())
    }

    /// Declares a condition.
    ///
    /// # Errors
    /// 1332.
    pub fn declare_condition(&mut self, name: &str, condition: Condition) -> Result<()> {
        let lower = name.to_lowercase();
        if found(&self.block().conditions, &lower).is_some() {
            return Err(SqlError::duplicate_condition(name));
        }
        self.block().conditions.push((lower, condition));
        Ok(())
    }

    /// Declares a cursor.
    ///
    /// # Errors
    /// 1333.
    pub fn declare_cursor(&mut self, name: &str) -> Result<usize> {
        let lower = name.to_lowercase();
        if found(&self.block().cursors, &lower).is_some() {
            return Err(SqlError::duplicate_cursor(name));
        }
        let number = self.cursors;
        self.cursors += 1;
        self.block().cursors.push((lower, number));
        Ok(number)
    }

    /// The variable that a name means.
    pub fn variable(&self, name: &str) -> Option<Slot> {
        let lower = name.to_lowercase();
        let mut blocks = self.blocks.iter().rev();
        blocks.find_map(|block| found(&block.variables, &lower))
    }

    /// The condition that a name means.
    ///
    /// # Errors
    /// 1319.
    pub fn condition(&self, name: &str) -> Result<Condition> {
        let lower = name.to_lowercase();
        let mut blocks = self.blocks.iter().rev();
        let known = blocks.find_map(|block| found(&block.conditions, &lower));
        known.ok_or_else(|| SqlError::undefined_condition(name))
    }

    /// The cursor that a name means.
    ///
    /// # Errors
    /// 1324.
    pub fn cursor(&self, name: &str) -> Result<usize> {
        let lower = name.to_lowercase();
        let mut blocks = self.blocks.iter().rev();
        let known = blocks.find_map(|block| found(&block.cursors, &lower));
        known.ok_or_else(|| SqlError::undefined_cursor(name))
    }

    /// A label begins, if there is one; a loop or block has a number without one, too.
    ///
    /// # Errors
    /// 1309.
    pub fn enter_label(&mut self, name: Option<&str>, kind: Kind) -> Result<Label> {
        let number = self.number();
        if let Some(name) = name {
            if self.known_label(name).is_some() {
                return Err(SqlError::label_redefined(name));
            }
            self.labels.push((name.to_lowercase(), number, kind));
        }
        Ok(number)
    }

    /// It ends.
    pub fn leave_label(&mut self, name: Option<&str>) {
        if name.is_some() {
            self.labels.pop();
        }
    }

    fn known_label(&self, name: &str) -> Option<(Label, Kind)> {
        let hidden = self.blocks.last().map_or(0, |block| block.hides_labels);
        let lower = name.to_lowercase();
        let labels = self.labels.get(hidden..).unwrap_or_default();
        let known = labels.iter().rev().find(|(known, ..)| *known == lower);
        known.map(|(_, number, kind)| (*number, *kind))
    }

    /// What LEAVE or ITERATE names.
    ///
    /// # Errors
    /// 1308.
    pub fn label(&self, name: &str, iterates: bool) -> Result<Label> {
        match self.known_label(name) {
            Some((number, kind)) if !iterates || kind == Kind::Loop => Ok(number),
            _ => {
                let what = if iterates { "ITERATE" } else { "LEAVE" };
                Err(SqlError::no_such_label(what, name))
            }
        }
    }
}
