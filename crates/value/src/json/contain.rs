//! Whether a JSON value is in another one: JSON_CONTAINS, JSON_OVERLAPS and MEMBER OF.

use super::Json;

impl Json {
    /// JSON_CONTAINS: of an array all elements are in one of this array, of an object all members are
    /// in those of the same name, and anything else is equal, or in an element of this array.
    #[must_use]
    pub fn contains(&self, candidate: &Self) -> bool {
        match (self, candidate) {
            (Self::Object(members), Self::Object(wanted)) => wanted.iter().all(|(name, value)| {
                members
                    .get(name)
                    .is_some_and(|member| member.contains(value))
            }),
            (Self::Array(elements), Self::Array(wanted)) => wanted
                .iter()
                .all(|value| elements.iter().any(|element| element.contains(value))),
            (Self::Array(elements), value) => {
                elements.iter().any(|element| element.contains(value))
            }
            (Self::Object(_), _) | (_, Self::Object(_) | Self::Array(_)) => false,
            (scalar, value) => scalar.equals(value),
        }
    }

    /// JSON_OVERLAPS: two arrays have an equal element, two objects an equal member, two others are
    /// equal; what is no array counts as one beside an array.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(left), Self::Object(right)) => left
                .iter()
                .any(|(name, value)| right.get(name).is_some_and(|other| value.equals(other))),
            (Self::Array(elements), value @ Self::Array(_)) => {
                elements.iter().any(|element| element.is_member_of(value))
            }
            (array @ Self::Array(_), value) | (value, array) => value.is_member_of(array),
        }
    }

    /// MEMBER OF: equal to an element of an array, or to what is none.
    #[must_use]
    pub fn is_member_of(&self, array: &Self) -> bool {
        match array {
            Self::Array(elements) => elements.iter().any(|element| self.equals(element)),
            other => self.equals(other),
        }
    }
}
