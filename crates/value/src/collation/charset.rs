//! Character sets: names of what texts are made of. All texts are stored as UTF-8.

use std::borrow::Cow;

use super::{Collation, latin1};

/// A character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Charset {
    /// All of Unicode.
    Utf8mb4,
    /// The same characters, by another name.
    Utf8mb3,
    /// Western European: Windows' code page 1252.
    Latin1,
    /// ASCII.
    Ascii,
    /// Bytes.
    Binary,
}

impl Charset {
    /// All there are.
    pub const ALL: [Self; 5] = [
        Self::Ascii,
        Self::Binary,
        Self::Latin1,
        Self::Utf8mb3,
        Self::Utf8mb4,
    ];

    /// The character set with this name, in whatever case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("utf8") {
            return Some(Self::Utf8mb3);
        }
        let mut all = Self::ALL.into_iter();
        all.find(|charset| charset.name().eq_ignore_ascii_case(name))
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utf8mb4 => "utf8mb4",
            Self::Utf8mb3 => "utf8mb3",
            Self::Latin1 => "latin1",
            Self::Ascii => "ascii",
            Self::Binary => "binary",
        }
    }

    /// What SHOW CHARACTER SET says of it.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Utf8mb4 | Self::Utf8mb3 => "UTF-8 Unicode",
            Self::Latin1 => "cp1252 West European",
            Self::Ascii => "US ASCII",
            Self::Binary => "Binary pseudo charset",
        }
    }

    /// Most bytes of a character.
    #[must_use]
    pub const fn max_len(self) -> u8 {
        match self {
            Self::Utf8mb4 => 4,
            Self::Utf8mb3 => 3,
            Self::Latin1 | Self::Ascii | Self::Binary => 1,
        }
    }

    /// The collation of texts for which nothing but the character set is said.
    #[must_use]
    pub const fn default_collation(self) -> Collation {
        match self {
            Self::Utf8mb4 => Collation::UTF8MB4_BIN,
            Self::Utf8mb3 => Collation::UTF8MB3_GENERAL_CI,
            Self::Latin1 => Collation::LATIN1_SWEDISH_CI,
            Self::Ascii => Collation::ASCII_GENERAL_CI,
            Self::Binary => Collation::BINARY,
        }
    }

    /// The collation in which characters compare by their numbers.
    #[must_use]
    pub const fn bin(self) -> Collation {
        match self {
            Self::Utf8mb4 => Collation::UTF8MB4_BIN,
            Self::Utf8mb3 => Collation::UTF8MB3_BIN,
            Self::Latin1 => Collation::LATIN1_BIN,
            Self::Ascii => Collation::ASCII_BIN,
            Self::Binary => Collation::BINARY,
        }
    }

    /// True if it has all characters of a text.
    #[must_use]
    pub fn has(self, text: &str) -> bool {
        match self {
            Self::Utf8mb4 | Self::Utf8mb3 | Self::Binary => true,
            Self::Latin1 => text.is_ascii() || text.chars().all(|c| latin1::byte_of(c).is_some()),
            Self::Ascii => text.is_ascii(),
        }
    }

    /// True if it has all characters of another one.
    #[must_use]
    pub const fn has_all_of(self, other: Self) -> bool {
        match self {
            Self::Utf8mb4 => true,
            Self::Utf8mb3 => !matches!(other, Self::Utf8mb4),
            Self::Latin1 => matches!(other, Self::Ascii | Self::Latin1),
            Self::Ascii => matches!(other, Self::Ascii),
            Self::Binary => false,
        }
    }

    /// The text whose bytes in this character set these are; `None` if they are none.
    #[must_use]
    pub fn text_of(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Latin1 => Some(bytes.iter().map(|byte| latin1::char_of(*byte)).collect()),
            Self::Ascii if !bytes.is_ascii() => None,
            _ => String::from_utf8(bytes.to_vec()).ok(),
        }
    }

    /// The bytes of a text in this character set; of characters that it does not have those of a question mark.
    #[must_use]
    pub fn bytes_of(self, text: &str) -> Cow<'_, [u8]> {
        match self {
            Self::Latin1 if !text.is_ascii() => {
                let bytes = text.chars().map(|c| latin1::byte_of(c).unwrap_or(b'?'));
                Cow::Owned(bytes.collect())
            }
            Self::Ascii if !text.is_ascii() => {
                let bytes = text
                    .chars()
                    .map(|c| if c.is_ascii() { c as u8 } else { b'?' });
                Cow::Owned(bytes.collect())
            }
            _ => Cow::Borrowed(text.as_bytes()),
        }
    }
}
