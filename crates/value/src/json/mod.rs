//! JSON as MySQL's type of that name has it: the value, its one text form, its order, and paths
//! into it.
//!
//! A value is parsed strictly. An object's members are sorted by the length of their names, then by
//! bytes, and of two with one name the last one counts; so a value has one *normal form*, which
//! columns store ([`normalise`]) and from which it is read again ([`Json::read`]).
//!
//! Numbers of texts are integers of 64 bits or doubles. Decimals, which come from SQL only, keep
//! their digits in the normal form; one whose digits are those of an integer or a double is that.

mod contain;
mod edit;
mod error;
mod number;
mod order;
mod parse;
mod path;
mod pretty;
mod print;
mod search;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

pub use edit::Edit;
pub use error::{JsonError, JsonErrorKind};
pub use number::Number;
pub use path::{Index, Leg, Path};
pub use search::Search;

/// Arrays and objects that may lie within each other, as in MySQL.
pub const MAX_DEPTH: usize = 100;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// The literal null, which is not SQL's NULL.
    Null,
    /// true or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

/// The members of an object: each name once, in the order of the normal form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    members: Vec<(String, Json)>,
}

impl Object {
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.members
            .binary_search_by(|(member, _)| in_order(member, name))
    }

    /// The members in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json)> {
        self.members.iter().map(|(name, value)| (&**name, value))
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        let place = self.place(name).ok()?;
        Some(&self.members[place].1)
    }

    /// The member of a name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Json> {
        let place = self.place(name).ok()?;
        Some(&mut self.members[place].1)
    }

    /// Gives a name a value.
    pub fn insert(&mut self, name: String, value: Json) {
        match self.place(&name) {
            Ok(place) => self.members[place].1 = value,
            Err(place) => self.members.insert(place, (name, value)),
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let place = self.place(name).ok()?;
        Some(self.members.remove(place).1)
    }
}

/// The order of members: by the length of their names, then by bytes.
fn in_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl FromIterator<(String, Json)> for Object {
    /// Of members with one name the last one counts.
    fn from_iter<T: IntoIterator<Item = (String, Json)>>(members: T) -> Self {
        let mut members: Vec<_> = members.into_iter().collect();
        if !members.is_sorted_by(|(a, _), (b, _)| in_order(a, b).is_lt()) {
            // The sort is stable: of equal names the last one ends up last.
            members.sort_by(|(a, _), (b, _)| in_order(a, b));
            members.reverse();
            members.dedup_by(|earlier, kept| earlier.0 == kept.0);
            members.reverse();
        }
        Self { members }
    }
}

impl Json {
    /// The value of a text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        parse::parse(text, false)
    }

    /// The value of a text in normal form, whose decimals keep their digits.
    ///
    /// # Errors
    /// As [`Json::parse`]: the text is damaged.
    pub fn read(text: &str) -> Result<Self, JsonError> {
        parse::parse(text, true)
    }

    /// MySQL's name of its type. A decimal of a double's digits counts as one.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Bool(_) => "BOOLEAN",
            Self::Number(Number::Int(_)) => "INTEGER",
            Self::Number(Number::UInt(_)) => "UNSIGNED INTEGER",
            Self::Number(Number::Double(_)) => "DOUBLE",
            Self::Number(Number::Decimal(_)) => "DECIMAL",
            Self::String(_) => "STRING",
            Self::Array(_) => "ARRAY",
            Self::Object(_) => "OBJECT",
        }
    }

    /// Elements of an array, members of an object, 1 for all else.
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            Self::Array(elements) => elements.len(),
            Self::Object(members) => members.len(),
            _ => 1,
        }
    }

    /// Levels of the value: 1 for scalars and what is empty.
    #[must_use]
    pub fn depth(&self) -> usize {
        let within = match self {
            Self::Array(elements) => elements.iter().map(Self::depth).max(),
            Self::Object(members) => members.iter().map(|(_, value)| value.depth()).max(),
            _ => None,
        };
        1 + within.unwrap_or(0)
    }

    /// Checks that not too many arrays and objects lie within each other.
    ///
    /// # Errors
    /// [`JsonErrorKind::TooDeep`].
    pub fn check_depth(&self) -> Result<(), JsonError> {
        fn fits(value: &Json, most: usize) -> bool {
            match value {
                Json::Array(elements) => {
                    most > 0 && elements.iter().all(|value| fits(value, most - 1))
                }
                Json::Object(members) => {
                    most > 0 && members.iter().all(|(_, value)| fits(value, most - 1))
                }
                _ => true,
            }
        }
        match fits(self, MAX_DEPTH) {
            true => Ok(()),
            false => Err(JsonErrorKind::TooDeep.at(0)),
        }
    }

    /// What SQL sees of a scalar: a string without quotes, a number's text, 1 or 0 for a truth value.
    #[must_use]
    pub fn scalar_text(&self) -> Option<String> {
        match self {
            Self::Bool(truth) => Some(u8::from(*truth).to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::String(text) => Some(text.clone()),
            Self::Null | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The value as text, a string without its quotes.
    #[must_use]
    pub fn unquoted(self) -> String {
        match self {
            Self::String(text) => text,
            other => other.to_string(),
        }
    }
}

/// The normal form of a text.
///
/// # Errors
/// What is wrong with it, and where. What is no UTF-8 has an invalid encoding.
pub fn normalise(text: &[u8]) -> Result<String, JsonError> {
    let text = str::from_utf8(text)
        .map_err(|error| JsonErrorKind::InvalidEncoding.at(error.valid_up_to()))?;
    Ok(Json::parse(text)?.to_string())
}
