//! CHECK constraints of a [`Draft`]: their names and what their conditions may say.

use perigee_engine::catalog::{Action, Check, ForeignKey, TableDef};
use sqlparser::ast::{CheckConstraint, Expr, Ident};

use super::Draft;
use super::expression::{Part, columns_of, judged, text_of};
use super::foreign::{checked, greatest};
use crate::error::{Result, SqlError};
use crate::session::checks::Checks;
use crate::session::row_expr;

/// Between the table's name and the number in the name of a constraint that is not named.
const GENERATED: &str = "_chk_";

/// A constraint under construction.
pub(super) struct Drafted {
    name: Option<String>,
    condition: Expr,
    enforced: bool,
    /// The column whose definition has it.
    column: Option<String>,
    /// The table had it before.
    is_old: bool,
}

impl Drafted {
    /// One that the table has.
    pub(super) fn of(check: &Check) -> Result<Self> {
        Ok(Self {
            name: Some(check.name.clone()),
            condition: row_expr::parsed(&check.condition)?,
            enforced: check.enforced,
            column: None,
            is_old: true,
        })
    }

    fn is_named(&self, name: &str) -> bool {
        let own = self.name.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    }
}

impl Draft {
    /// Adds a constraint, of a column if its definition has it.
    pub(in crate::session::ddl) fn add_check(
        &mut self,
        check: &CheckConstraint,
        name: Option<&Ident>,
        column: Option<&str>,
    ) -> Result<()> {
        let name = name.or(check.name.as_ref()).map(checked).transpose()?;
        self.checks.push(Drafted {
            name,
            condition: (*check.expr).clone(),
            enforced: check.enforced.unwrap_or(true),
            column: column.map(ToOwned::to_owned),
            is_old: false,
        });
        Ok(())
    }

    /// Takes a constraint out; false if there is none of the name.
    pub(in crate::session::ddl) fn drop_check(&mut self, name: &str) -> bool {
        let before = self.checks.len();
        self.checks.retain(|check| !check.is_named(name));
        self.checks.len() < before
    }

    /// True if there is a constraint of a name.
    pub(super) fn has_check(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.is_named(name))
    }

    /// Says whether a constraint is enforced; false if there is none of the name.
    pub(in crate::session::ddl) fn enforce_check(&mut self, name: &str, enforced: bool) -> bool {
        let check = self.checks.iter_mut().find(|check| check.is_named(name));
        let found = check.is_some();
        if let Some(check) = check {
            check.enforced = enforced;
        }
        found
    }

    /// Sees to the constraints that use a column which goes or gets another name: those of it alone go with it.
    ///
    /// # Errors
    /// 3959 for one that uses other columns, too, or if the column stays.
    pub(super) fn leave_column(&mut self, column: &str, goes: bool) -> Result<()> {
        let mut kept = Vec::new();
        for check in std::mem::take(&mut self.checks) {
            let names = columns_of(&check.condition);
            let is_it = |name: &String| name.eq_ignore_ascii_case(column);
            match (names.iter().any(is_it), names.iter().all(is_it)) {
                (true, true) if goes => {}
                (true, _) => {
                    let name = check.name.unwrap_or_default();
                    return Err(SqlError::column_of_check(name, column));
                }
                (false, _) => kept.push(check),
            }
        }
        self.checks = kept;
        Ok(())
    }

    /// The constraints of a definition that is complete but for them.
    ///
    /// # Errors
    /// 3812 to 3823 for what a condition may not say.
    pub(super) fn check_constraints(&self, def: &TableDef) -> Result<Vec<Check>> {
        let names = || self.checks.iter().filter_map(|check| check.name.as_deref());
        let mut number = greatest(names(), &self.name, GENERATED);
        let mut constraints = Vec::new();
        for check in &self.checks {
            let name = check.name.clone().unwrap_or_else(|| {
                number += 1;
                format!("{}{GENERATED}{number}", self.name)
            });
            if check.is_old {
                check_types(def, &check.condition, &name)?;
            } else {
                check_condition(def, check, &name)?;
            }
            check_actions(def, &check.condition, &name)?;
            constraints.push(Check {
                condition: text_of(def, &check.condition),
                enforced: check.enforced,
                name,
            });
        }
        Ok(constraints)
    }
}

/// Checks what a condition says.
fn check_condition(def: &TableDef, check: &Drafted, name: &str) -> Result<()> {
    judged(&check.condition, |part| match part {
        Part::Column(column) => check_column(def, check, name, column),
        Part::Variable => Err(SqlError::check_variable(name)),
        Part::Function(function) => Err(SqlError::check_named_function(name, function)),
        Part::Query => Err(SqlError::check_function(name)),
    })?;
    check_types(def, &check.condition, name)
}

/// Checks a column that a condition names.
fn check_column(def: &TableDef, check: &Drafted, name: &str, column: &str) -> Result<()> {
    let Some(place) = def.column(column) else {
        return Err(SqlError::check_unknown_column(name, column));
    };
    if def.is_auto_increment(place) {
        return Err(SqlError::check_auto_increment(name));
    }
    let own = check.column.as_deref();
    match own.is_some_and(|own| !own.eq_ignore_ascii_case(column)) {
        true => Err(SqlError::check_other_column(name)),
        false => Ok(()),
    }
}

/// Checks that a condition can be evaluated over rows of the table, also when its text is read again, and has
/// a truth value.
fn check_types(def: &TableDef, condition: &Expr, name: &str) -> Result<()> {
    let again = row_expr::parsed(&text_of(def, condition))?;
    if !Checks::is_condition(def, &again)? {
        return Err(SqlError::check_not_boolean(name));
    }
    Ok(())
}

/// Checks that no foreign key changes a column that a condition uses.
fn check_actions(def: &TableDef, condition: &Expr, name: &str) -> Result<()> {
    let acts = |key: &&ForeignKey| {
        let follows = |action| matches!(action, Action::Cascade | Action::SetNull);
        follows(key.on_update) || key.on_delete == Action::SetNull
    };
    for column in columns_of(condition) {
        let place = def.column(&column);
        let uses = |key: &&ForeignKey| {
            let mut columns = key.columns.iter();
            columns.any(|used| Some(usize::from(*used)) == place)
        };
        let mut keys = def.foreign_keys.iter().filter(acts);
        if let Some(key) = keys.find(uses) {
            return Err(SqlError::check_of_foreign_key(&column, name, &key.name));
        }
    }
    Ok(())
}
