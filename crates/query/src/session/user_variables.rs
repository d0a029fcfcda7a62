//! A session's user variables: `@a`.

use std::collections::BTreeMap;
use std::sync::Arc;

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

/// The variables; a text or NULL each. They are charged to the process as long as they are kept.
pub(super) struct UserVariables {
    values: BTreeMap<String, Option<String>>,
    /// Bytes that they take.
    bytes: usize,
    charge: Option<Charge>,
    memory: Arc<ProcessMemory>,
}

impl UserVariables {
    /// None.
    pub(super) fn new(memory: &Arc<ProcessMemory>) -> Self {
        Self {
            values: BTreeMap::new(),
            bytes: 0,
            charge: None,
            memory: memory.clone(),
        }
    }

    /// The value of a variable, if it was set.
    pub(super) fn get(&self, name: &str) -> Option<&Option<String>> {
        self.values.get(name)
    }

    /// Sets a variable.
    ///
    /// # Errors
    /// 1038; the variable is what it was then.
    pub(super) fn set(&mut self, name: String, value: Option<String>) -> Result<()> {
        let size = |value: &Option<String>| value.as_ref().map_or(0, String::capacity);
        let mut bytes = self.bytes + size(&value);
        match self.values.get(&name) {
            Some(before) => bytes -= size(before),
            None => bytes += name.capacity() + ENTRY,
        }
        match &mut self.charge {
            Some(charge) => charge.resize(bytes)?,
            None => self.charge = Some(self.memory.charge(bytes)?),
        }
        self.bytes = bytes;
        self.values.insert(name, value);
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
        let mut variables = UserVariables::new(&memory);
        let text = |bytes: usize| Some("x".repeat(bytes));
        variables.set("a".to_owned(), text(500)).unwrap();
        assert!((500..700).contains(&memory.used()));
        let error = variables.set("b".to_owned(), text(500)).unwrap_err();
        assert_eq!(error.errno, 1038);
        assert!(variables.get("b").is_none());
        variables.set("a".to_owned(), None).unwrap();
        variables.set("b".to_owned(), text(500)).unwrap();
        assert_eq!(variables.get("a"), Some(&None));
        drop(variables);
        assert_eq!(memory.used(), 0);
    }
}
