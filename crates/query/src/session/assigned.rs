//! `@x := value`: the user variables of one statement.
//!
//! A variable that a statement assigns to is read as values of one type, which all values fit that it may have: the one
//! from before the statement, and those of all expressions that are assigned to it. The types of these may depend on the
//! variable's own, so that a statement is bound again until the types stay what they are.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use perigee_expr::scalar::{Target, Variable};
use perigee_sql_bind::Environment;
use perigee_sql_bind::query::{Query, Warning};
use perigee_sql_type::{Number, SqlType};
use perigee_value::Collation;

use super::Session;
use super::user_variables::UserValue;
use crate::error::Result;

/// MySQL's warning of each assignment.
const DEPRECATED: u16 = 1287;

/// Its text.
const ALTERNATIVES: &str = "Setting user variables within expressions is deprecated and will be removed in a future \
    release. Consider alternatives: 'SET variable=expression, ...', or 'SELECT expression(s) INTO variables(s)'.";

/// So often a statement is bound until numbers that have more digits each time are DOUBLEs.
const EXACT: usize = 4;

/// Digits of a DECIMAL that nothing else says.
const DIGITS: u8 = 38;

/// Most digits of a DECIMAL.
const MOST_DIGITS: u8 = 65;

/// The variables that a statement assigns to.
#[derive(Default)]
pub(super) struct UserAssignments {
    known: RefCell<BTreeMap<String, Known>>,
    /// Assignments that were met while the statement was bound the last time.
    met: Cell<usize>,
    /// How often it was bound.
    bound: Cell<usize>,
    /// A type has changed since.
    has_changed: Cell<bool>,
}

struct Known {
    variable: Arc<Variable>,
    /// As what it is read; none if it has been NULL only.
    target: Option<Target>,
    /// The collation of the first text that is assigned to it.
    collation: Option<Collation>,
    /// The collation of the text that it was before the statement.
    before: Option<Collation>,
}

impl UserAssignments {
    /// The statement is bound, perhaps again.
    pub(super) fn begin(&self) {
        self.met.set(0);
        self.bound.set(self.bound.get() + 1);
        self.has_changed.set(false);
    }

    /// True if what was bound has the types that it was bound with.
    pub(super) fn is_settled(&self) -> bool {
        !self.has_changed.get()
    }

    /// Tells the statement of its variables.
    pub(super) fn finish(&self, query: &mut Query) {
        let known = self.known.borrow();
        query.variables = known.values().map(|one| one.variable.clone()).collect();
        let warning = Warning {
            number: DEPRECATED,
            text: ALTERNATIVES.into(),
        };
        query.warnings.extend(vec![warning; self.met.get()]);
    }

    /// A variable that is assigned to, as what it is read, and the collation of its texts. Numbers are texts of the
    /// connection.
    pub(super) fn read(
        &self,
        name: &str,
        connection: Collation,
    ) -> Option<(Arc<Variable>, Target, Collation)> {
        let known = self.known.borrow();
        let known = known.get(name)?;
        // What is computed of it says more.
        let target = known.target.unwrap_or(Target::Signed);
        let collation = known.collation.or(known.before).unwrap_or(connection);
        Some((known.variable.clone(), target, collation))
    }

    /// The variable to which a value of a type is assigned. `before` is what it has had before, as the environment says.
    pub(super) fn assign(
        &self,
        name: &str,
        ty: &SqlType,
        environment: &dyn Environment,
    ) -> Arc<Variable> {
        self.met.set(self.met.get() + 1);
        let mut known = self.known.borrow_mut();
        if !known.contains_key(name) {
            let (value, ty) = environment.user_variable(name);
            let as_before = Known {
                target: target_of(&ty),
                collation: None,
                before: collation_of(&ty),
                variable: Arc::new(Variable::new(name.into(), value, ty)),
            };
            known.insert(name.to_owned(), as_before);
            // It was read as what it was before.
            self.has_changed.set(true);
        }
        let Some(known) = known.get_mut(name) else {
            unreachable!("Q1: the variable was put there");
        };
        let common = match (known.target, target_of(ty)) {
            (Some(one), Some(other)) => Some(common(one, other)),
            (one, other) => one.or(other),
        };
        let common = match common {
            Some(Target::Decimal(..)) if self.bound.get() > EXACT => Some(Target::Double),
            common => common,
        };
        let collation = known.collation.or_else(|| collation_of(ty));
        if (common, collation) != (known.target, known.collation) {
            (known.target, known.collation) = (common, collation);
            self.has_changed.set(true);
        }
        known.variable.clone()
    }
}

/// The collation of texts; none for anything else.
fn collation_of(ty: &SqlType) -> Option<Collation> {
    ty.is_text().then(|| ty.collation())
}

/// As what values of a type are read; none for NULL.
fn target_of(ty: &SqlType) -> Option<Target> {
    if ty.is_null() {
        return None;
    }
    if ty.is_bytes() {
        return Some(Target::Binary(None));
    }
    if ty.is_text() || ty.is_moment() || ty.is_time() || ty.is_json() {
        return Some(Target::Char(None));
    }
    Some(match Number::of(ty) {
        Number::Int(_) => Target::Signed,
        Number::UInt(_) => Target::Unsigned,
        Number::Decimal(precision, scale) => Target::Decimal(precision, scale),
        Number::Double | Number::Null => Target::Double,
    })
}

/// What holds the values of two.
fn common(one: Target, other: Target) -> Target {
    if one == other {
        return one;
    }
    let shape = |target| match target {
        Target::Signed | Target::Unsigned => Some((20, 0)),
        Target::Decimal(precision, scale) => Some((precision, scale)),
        _ => None,
    };
    let is_string = |target| matches!(target, Target::Char(_) | Target::Binary(_));
    match (shape(one), shape(other)) {
        (Some((p, s)), Some((q, t))) => {
            let (whole, scale) = ((p - s).max(q - t), s.max(t));
            let digits = if whole + scale > DIGITS {
                MOST_DIGITS
            } else {
                DIGITS
            };
            Target::Decimal(digits, scale)
        }
        _ if is_string(one) && is_string(other) => Target::Binary(None),
        _ if is_string(one) || is_string(other) => Target::Char(None),
        _ => Target::Double,
    }
}

impl Session {
    /// The variables keep what a statement has assigned to them.
    ///
    /// # Errors
    /// 1038.
    pub(super) fn keep_variables(&self, query: &Query) -> Result<()> {
        for variable in &query.variables {
            let (value, ty) = variable.value();
            let value = UserValue::of(value, &ty, self.variables.collation());
            self.user_variables.set(variable.name().to_owned(), value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_read_as_what_holds_all_of_its_values() {
        let char = Target::Char(None);
        let money = Target::Decimal(10, 2);
        assert_eq!(common(Target::Signed, Target::Signed), Target::Signed);
        assert_eq!(common(Target::Signed, money), Target::Decimal(38, 2));
        assert_eq!(
            common(Target::Decimal(38, 2), money),
            Target::Decimal(38, 2)
        );
        assert_eq!(
            common(Target::Decimal(65, 30), money),
            Target::Decimal(65, 30)
        );
        assert_eq!(common(Target::Double, money), Target::Double);
        assert_eq!(common(Target::Double, char), char);
        assert_eq!(common(Target::Binary(None), char), Target::Binary(None));
    }
}
