//! Changes of a JSON value: JSON_SET, JSON_INSERT, JSON_REPLACE, JSON_REMOVE, and merging.

use super::path::{Index, Leg};
use super::{Json, Object, Path};

/// What a change does with what is there and with what is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// JSON_SET: replaces or adds.
    Set,
    /// JSON_INSERT: adds only.
    Insert,
    /// JSON_REPLACE: replaces only.
    Replace,
}

impl Json {
    /// Puts a value at the end of a path without wildcards. If nothing is there it is added, given
    /// that the path leads up to an object, or to an array, which it then continues; what is no array
    /// becomes one if it gets a second cell.
    pub fn edit(&mut self, path: &Path, value: Self, edit: Edit) {
        if self.at(path.legs()).is_some() {
            if edit != Edit::Insert
                && let Some(found) = self.at(path.legs())
            {
                *found = value;
            }
            return;
        }
        let Some((leg, parent)) = path.legs().split_last() else {
            return;
        };
        if edit == Edit::Replace {
            return;
        }
        match (leg, self.at(parent)) {
            (Leg::Member(name), Some(Self::Object(members))) => {
                members.insert(name.clone(), value);
            }
            (Leg::Cell(index), Some(parent)) => parent.continued(*index, value),
            _ => {}
        }
    }

    /// Adds a cell that is not there, before or behind those that are.
    fn continued(&mut self, index: Index, value: Self) {
        if !matches!(self, Self::Array(_)) {
            let only = std::mem::replace(self, Self::Null);
            *self = Self::Array(vec![only]);
        }
        if let Self::Array(elements) = self {
            match index {
                Index::First(_) => elements.push(value),
                Index::Last(_) => elements.insert(0, value),
            }
        }
    }

    /// JSON_ARRAY_APPEND: puts a value behind the last element of the array at a path without wildcards; what is not an
    /// array becomes one of both.
    pub fn append_at(&mut self, path: &Path, value: Self) {
        match self.at(path.legs()) {
            Some(Self::Array(elements)) => elements.push(value),
            Some(other) => {
                let only = std::mem::replace(other, Self::Null);
                *other = Self::Array(vec![only, value]);
            }
            None => {}
        }
    }

    /// JSON_ARRAY_INSERT: puts a value before the element at a path without wildcards, or at the nearer end of the array
    /// if it has no such element.
    pub fn insert_at(&mut self, path: &Path, value: Self) {
        let Some((Leg::Cell(index), parent)) = path.legs().split_last() else {
            return;
        };
        if let Some(Self::Array(elements)) = self.at(parent) {
            let place = match index.place(elements.len()) {
                Ok(place) => place,
                Err(true) => elements.len(),
                Err(false) => 0,
            };
            elements.insert(place, value);
        }
    }

    /// Takes out what a path without wildcards leads to, if it is a member or an array's element.
    ///
    /// *Requires* a path with at least one step.
    pub fn remove(&mut self, path: &Path) {
        let Some((leg, parent)) = path.legs().split_last() else {
            return;
        };
        match (leg, self.at(parent)) {
            (Leg::Member(name), Some(Self::Object(members))) => {
                members.remove(name);
            }
            (Leg::Cell(index), Some(Self::Array(elements))) => {
                if let Ok(place) = index.place(elements.len()) {
                    elements.remove(place);
                }
            }
            _ => {}
        }
    }

    /// What steps without wildcards lead to.
    fn at(&mut self, legs: &[Leg]) -> Option<&mut Self> {
        let mut value = self;
        for leg in legs {
            value = match (leg, value) {
                (Leg::Member(name), Self::Object(members)) => members.get_mut(name)?,
                (Leg::Cell(index), Self::Array(elements)) => {
                    let place = index.place(elements.len()).ok()?;
                    &mut elements[place]
                }
                (Leg::Cell(index), only) if index.place(1).is_ok() => only,
                _ => return None,
            };
        }
        Some(value)
    }

    /// JSON_MERGE_PATCH, which is RFC 7396.
    #[must_use]
    pub fn merge_patch(self, patch: Self) -> Self {
        let Self::Object(patch) = patch else {
            return patch;
        };
        let mut merged = match self {
            Self::Object(members) => members,
            _ => Object::default(),
        };
        for (name, value) in patch.members {
            if value == Self::Null {
                merged.remove(&name);
                continue;
            }
            let old = merged.remove(&name).unwrap_or(Self::Null);
            merged.insert(name, old.merge_patch(value));
        }
        Self::Object(merged)
    }

    /// JSON_MERGE_PRESERVE: members of both, and under one name, as of anything else, an array of both.
    #[must_use]
    pub fn merge_preserve(self, other: Self) -> Self {
        let (mut left, right) = match (self, other) {
            (Self::Object(left), Self::Object(right)) => (left, right),
            (left, right) => {
                let mut all = left.into_cells();
                all.extend(right.into_cells());
                return Self::Array(all);
            }
        };
        for (name, value) in right.members {
            let value = match left.remove(&name) {
                Some(old) => old.merge_preserve(value),
                None => value,
            };
            left.insert(name, value);
        }
        Self::Object(left)
    }

    fn into_cells(self) -> Vec<Self> {
        match self {
            Self::Array(elements) => elements,
            other => vec![other],
        }
    }
}
