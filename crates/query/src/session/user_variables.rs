//! A session's user variables: `@a`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use perigee_expr::functions::Value;
use perigee_expr::scalar::to_text;
use perigee_sql_type::SqlType;
use perigee_value::ColumnType;
use sqlparser::ast::{Expr, Value as Literal};

use crate::error::Result;
use crate::memory::{Charge, ProcessMemory};

/// What a variable takes besides its name and its text, in bytes.
const ENTRY: usize = 100;

/// The integer that a text is, if it is what an integer is written as: `01` is none.
pub(super) fn integer(text: &str) -> Option<i64> {
    text.parse()
        .ok()
        .filter(|number: &i64| number.to_string() == text)
}

/// The value of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UserValue {
    /// Its text; none for NULL.
    pub text: Option<String>,
    /// What the text is a literal of.
    pub kind: UserKind,
}

/// What the text of a value is a literal of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UserKind {
    /// An integer if it looks like one, otherwise a string.
    #[default]
    Text,
    /// A DECIMAL.
    Decimal,
    /// A DOUBLE.
    Double,
}

impl From<Option<String>> for UserValue {
    fn from(text: Option<String>) -> Self {
        let kind = UserKind::Text;
        Self { text, kind }
    }
}

impl UserKind {
    /// What values of a type are.
    pub(super) fn of(ty: Option<ColumnType>) -> Self {
        match ty {
            Some(ColumnType::Decimal { .. }) => Self::Decimal,
            Some(ColumnType::Double | ColumnType::Float) => Self::Double,
            _ => Self::Text,
        }
    }
}

impl UserValue {
    /// What a variable holds to which a value is assigned.
    pub(super) fn of(value: &Value<'_>, ty: &SqlType) -> Self {
        Self {
            text: to_text(value, ty).map(|text| text.into_owned()),
            kind: UserKind::of(ty.column),
        }
    }

    /// The value as a literal.
    pub(super) fn literal(self) -> Expr {
        let Some(text) = self.text else {
            return Expr::value(Literal::Null);
        };
        let is_number = match self.kind {
            UserKind::Text => integer(&text).is_some(),
            UserKind::Decimal => true,
            UserKind::Double => text.parse::<f64>().is_ok_and(f64::is_finite),
        };
        Expr::value(match (is_number, self.kind) {
            (true, UserKind::Double) if !text.contains(['e', 'E']) => {
                Literal::Number(format!("{text}e0"), false)
            }
            (true, _) => Literal::Number(text, false),
            (false, _) => Literal::SingleQuotedString(text),
        })
    }
}

/// The variables. They are charged to the process as long as they are kept.
pub(super) struct UserVariables(Mutex<Kept>);

struct Kept {
    values: BTreeMap<String, UserValue>,
    /// Bytes that they take.
    bytes: usize,
    charge: Option<Charge>,
    memory: Arc<ProcessMemory>,
}

impl UserVariables {
    /// None.
    pub(super) fn new(memory: &Arc<ProcessMemory>) -> Self {
        Self(Mutex::new(Kept {
            values: BTreeMap::new(),
            bytes: 0,
            charge: None,
            memory: memory.clone(),
        }))
    }

    /// The value of a variable; NULL if it was not set.
    pub(super) fn get(&self, name: &str) -> UserValue {
        self.0.lock().values.get(name).cloned().unwrap_or_default()
    }

    /// Sets a variable.
    ///
    /// # Errors
    /// 1038; the variable is what it was then.
    pub(super) fn set(&self, name: String, value: impl Into<UserValue>) -> Result<()> {
        let (kept, value) = (&mut *self.0.lock(), value.into());
        let size = |value: &UserValue| value.text.as_ref().map_or(0, String::capacity);
        let mut bytes = kept.bytes + size(&value);
        match kept.values.get(&name) {
            Some(before) => bytes -= size(before),
            None => bytes += name.capacity() + ENTRY,
        }
        match &mut kept.charge {
            Some(charge) => charge.resize(bytes)?,
            None => kept.charge = Some(kept.memory.charge(bytes)?),
        }
        kept.bytes = bytes;
        kept.values.insert(name, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn variables_are_charged_as_long_as_they_are_kept() {
        let memory = ProcessMemory::new(1000);
        let variables = UserVariables::new(&memory);
        let text = |bytes: usize| Some("x".repeat(bytes));
        variables.set("a".to_owned(), text(500)).unwrap();
        assert!((500..700).contains(&memory.used()));
        let error = variables.set("b".to_owned(), text(500)).unwrap_err();
        assert_eq!(error.errno, 1038);
        assert_eq!(variables.get("b").text, None);
        variables.set("a".to_owned(), None::<String>).unwrap();
        variables.set("b".to_owned(), text(500)).unwrap();
        assert_eq!(variables.get("a").text, None);
        drop(variables);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn values_are_literals_of_their_types() {
        let literal = |text: &str, kind| {
            let text = Some(text.to_owned());
            UserValue { text, kind }.literal().to_string()
        };
        assert_eq!(literal("-7", UserKind::Text), "-7");
        assert_eq!(literal("1.50", UserKind::Text), "'1.50'");
        assert_eq!(literal("1.50", UserKind::Decimal), "1.50");
        assert_eq!(literal("1.5", UserKind::Double), "1.5e0");
        assert_eq!(literal("1e20", UserKind::Double), "1e20");
        assert_eq!(UserValue::default().literal().to_string(), "NULL");
    }
}
