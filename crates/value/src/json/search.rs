//! Where strings are in a JSON value: JSON_SEARCH.

use std::collections::HashSet;
use std::fmt::Write;

use super::{Json, Path};

/// Strings that are looked for, and where they were found.
pub struct Search<'s> {
    is_wanted: &'s mut dyn FnMut(&str) -> Option<bool>,
    most: usize,
    found: Vec<String>,
    known: HashSet<*const Json>,
}

impl<'s> Search<'s> {
    /// Looks for strings of which `is_wanted` says so, `most` of them; it gives `None` to stop.
    pub fn new(is_wanted: &'s mut dyn FnMut(&str) -> Option<bool>, most: usize) -> Self {
        Self {
            is_wanted,
            most,
            found: Vec::new(),
            known: HashSet::new(),
        }
    }

    /// Looks at and within what a path leads to; `None` if it was stopped.
    pub fn at(&mut self, document: &Json, path: &Path) -> Option<()> {
        let roots = path.select(document);
        let roots: HashSet<_> = roots.into_iter().map(std::ptr::from_ref).collect();
        self.walk(document, &roots, false, &mut String::from("$"))
    }

    /// The paths of the strings, each once.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        self.found
    }

    fn walk(
        &mut self,
        value: &Json,
        roots: &HashSet<*const Json>,
        within: bool,
        path: &mut String,
    ) -> Option<()> {
        let within = within || roots.contains(&std::ptr::from_ref(value));
        let length = path.len();
        match value {
            _ if self.found.len() >= self.most => {}
            Json::String(text) => {
                let is_new = within && !self.known.contains(&std::ptr::from_ref(value));
                if is_new && (self.is_wanted)(text)? {
                    self.known.insert(value);
                    self.found.push(path.clone());
                }
            }
            Json::Array(elements) => {
                for (place, element) in elements.iter().enumerate() {
                    let _ = write!(path, "[{place}]");
                    self.walk(element, roots, within, path)?;
                    path.truncate(length);
                }
            }
            Json::Object(members) => {
                for (name, member) in members.iter() {
                    append_member(name, path);
                    self.walk(member, roots, within, path)?;
                    path.truncate(length);
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
        Some(())
    }
}

/// A step to a member; names that are not identifiers are in quotes.
fn append_member(name: &str, path: &mut String) {
    let is_start = |c: char| c.is_alphabetic() || c == '_' || c == '$';
    let is_part = |c: char| is_start(c) || c.is_numeric();
    let is_identifier = name.starts_with(is_start) && name.chars().all(is_part);
    let _ = match is_identifier {
        true => write!(path, ".{name}"),
        false => write!(path, ".{}", Json::String(name.to_owned())),
    };
}
