//! User variables that a statement assigns to while it runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perigee_sql_type::SqlType;

use super::{Node, Scalar, Target, cast};
use crate::functions::Value;

/// A user variable of a statement: one place for all expressions that read it or assign to it.
#[derive(Debug)]
pub struct Variable {
    /// In lower case, without `@`.
    name: Arc<str>,
    /// The value before the statement, and its type.
    before: (Value<'static>, SqlType),
    /// The value that was assigned last, and its type.
    now: Mutex<(Value<'static>, SqlType)>,
}

impl Variable {
    /// A variable that has a value before the statement.
    #[must_use]
    pub fn new(name: Arc<str>, value: Value<'static>, ty: SqlType) -> Self {
        Self {
            name,
            before: (value.clone(), ty.clone()),
            now: Mutex::new((value, ty)),
        }
    }

    /// Its name, in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value that was assigned last, and its type.
    #[must_use]
    pub fn value(&self) -> (Value<'static>, SqlType) {
        self.held().clone()
    }

    /// Gives the variable the value from before the statement: the statement begins anew.
    pub fn reset(&self) {
        *self.held() = self.before.clone();
    }

    /// The value as one of a type.
    pub(super) fn read(&self, target: Target) -> Value<'static> {
        let held = self.held();
        cast(held.0.clone(), &held.1, target)
    }

    pub(super) fn assign(&self, value: Value<'static>, ty: &SqlType) {
        *self.held() = (value, ty.clone());
    }

    fn held(&self) -> MutexGuard<'_, (Value<'static>, SqlType)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scalar {
    /// True if the value depends on the order of rows: the expression reads a variable that its statement assigns to, or
    /// assigns to one.
    #[must_use]
    pub fn has_variables(&self) -> bool {
        let mut found = false;
        self.visit(&mut |part| {
            found |= matches!(part.node, Node::Variable(..) | Node::Assign(..));
            !found
        });
        found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use perigee_sql_type::SqlType;

    use super::*;
    use crate::scalar::{Context, Nowhere};

    #[test]
    fn a_variable_has_the_value_that_was_assigned_last_as_a_value_of_the_type_that_is_read() {
        let variable = Arc::new(Variable::new("n".into(), Value::Null, SqlType::NULL));
        let read = |target, ty| Scalar::new(Node::Variable(Arc::clone(&variable), target), ty);
        let column = Scalar::new(Node::Column(0), SqlType::int());
        let node = Node::Assign(Arc::clone(&variable), Box::new(column));
        let assign = Scalar::new(node, SqlType::int());
        let value = |scalar: &Scalar, row: i64| {
            let row = [Value::Int(row)];
            let value = scalar.evaluate(&row, &Context::new(&Nowhere)).unwrap();
            value.into_owned()
        };
        let number = read(Target::Signed, SqlType::int());
        assert_eq!(value(&number, 0), Value::Null);
        assert_eq!(value(&assign, 7), Value::Int(7));
        assert_eq!(value(&number, 0), Value::Int(7));
        let text = SqlType::text(perigee_value::Collation::UTF8MB4_BIN);
        assert_eq!(
            value(&read(Target::Char(None), text), 0),
            Value::text("7".to_owned())
        );
        variable.reset();
        assert_eq!(value(&number, 0), Value::Null);
    }

    #[test]
    fn an_assignment_gives_another_value_each_time() {
        let variable = Arc::new(Variable::new("n".into(), Value::Int(1), SqlType::int()));
        let node = Node::Variable(variable, Target::Signed);
        let read = Scalar::new(node, SqlType::int());
        let not = Scalar::new(Node::Not(Box::new(read.clone())), SqlType::truth());
        assert!(not.has_variables() && !read.is_deterministic() && !not.is_cheap());
        assert!(!read.is_same(&read));
    }
}
