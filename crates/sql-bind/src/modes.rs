//! The modes of `sql_mode`: what changes the meaning of a statement, decided when it begins.

use std::fmt;

/// A set of modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modes(u32);

/// The modes by name, in MySQL's order, with the bit that MySQL gives them.
const NAMES: &[(&str, Modes)] = &[
    ("REAL_AS_FLOAT", Modes::REAL_AS_FLOAT),
    ("PIPES_AS_CONCAT", Modes::PIPES_AS_CONCAT),
    ("ANSI_QUOTES", Modes::ANSI_QUOTES),
    ("IGNORE_SPACE", Modes::IGNORE_SPACE),
    ("ONLY_FULL_GROUP_BY", Modes::ONLY_FULL_GROUP_BY),
    ("NO_UNSIGNED_SUBTRACTION", Modes::NO_UNSIGNED_SUBTRACTION),
    ("NO_DIR_IN_CREATE", Modes::NO_DIR_IN_CREATE),
    ("ANSI", Modes::ANSI),
    ("NO_AUTO_VALUE_ON_ZERO", Modes::NO_AUTO_VALUE_ON_ZERO),
    ("NO_BACKSLASH_ESCAPES", Modes::NO_BACKSLASH_ESCAPES),
    ("STRICT_TRANS_TABLES", Modes::STRICT_TRANS_TABLES),
    ("STRICT_ALL_TABLES", Modes::STRICT_ALL_TABLES),
    ("NO_ZERO_IN_DATE", Modes::NO_ZERO_IN_DATE),
    ("NO_ZERO_DATE", Modes::NO_ZERO_DATE),
    (
        "ERROR_FOR_DIVISION_BY_ZERO",
        Modes::ERROR_FOR_DIVISION_BY_ZERO,
    ),
    ("TRADITIONAL", Modes::TRADITIONAL),
    ("HIGH_NOT_PRECEDENCE", Modes::HIGH_NOT_PRECEDENCE),
    ("NO_ENGINE_SUBSTITUTION", Modes::NO_ENGINE_SUBSTITUTION),
];

/// Modes that MySQL has and that are not supported: they would change values or texts.
const NOT_SUPPORTED: [&str; 3] = [
    "ALLOW_INVALID_DATES",
    "PAD_CHAR_TO_FULL_LENGTH",
    "TIME_TRUNCATE_FRACTIONAL",
];

/// Modes that change nothing; tools that write dumps for older servers name them.
const WITHOUT_MEANING: [&str; 1] = ["NO_AUTO_CREATE_USER"];

/// Why a text is no set of modes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongModes {
    /// There is no such mode.
    Unknown(String),
    /// MySQL has it.
    NotSupported(String),
}

impl Modes {
    /// REAL is FLOAT.
    pub const REAL_AS_FLOAT: Self = Self(1);
    /// `||` is CONCAT.
    pub const PIPES_AS_CONCAT: Self = Self(1 << 1);
    /// Double quotes are those of names.
    pub const ANSI_QUOTES: Self = Self(1 << 2);
    /// A space may stand between the name of a function and its parenthesis; it always may here.
    pub const IGNORE_SPACE: Self = Self(1 << 3);
    /// A column that the groups do not decide is an error.
    pub const ONLY_FULL_GROUP_BY: Self = Self(1 << 5);
    /// A difference has a sign, whatever the operands have.
    pub const NO_UNSIGNED_SUBTRACTION: Self = Self(1 << 6);
    /// There are no directories of tables.
    pub const NO_DIR_IN_CREATE: Self = Self(1 << 7);
    /// The modes that ANSI stands for were set by its name.
    pub const ANSI: Self = Self(1 << 18);
    /// 0 is no request for a number.
    pub const NO_AUTO_VALUE_ON_ZERO: Self = Self(1 << 19);
    /// A backslash is a character as any other.
    pub const NO_BACKSLASH_ESCAPES: Self = Self(1 << 20);
    /// A value that its column cannot hold is an error.
    pub const STRICT_TRANS_TABLES: Self = Self(1 << 21);
    /// The same.
    pub const STRICT_ALL_TABLES: Self = Self(1 << 22);
    /// A date whose month or day is 0 is none.
    pub const NO_ZERO_IN_DATE: Self = Self(1 << 23);
    /// 0000-00-00 is no date.
    pub const NO_ZERO_DATE: Self = Self(1 << 24);
    /// A division by zero is an error or a warning.
    pub const ERROR_FOR_DIVISION_BY_ZERO: Self = Self(1 << 26);
    /// The modes that TRADITIONAL stands for were set by its name.
    pub const TRADITIONAL: Self = Self(1 << 27);
    /// NOT binds as tight as `!`.
    pub const HIGH_NOT_PRECEDENCE: Self = Self(1 << 29);
    /// An engine that there is not is an error; it always is a warning here.
    pub const NO_ENGINE_SUBSTITUTION: Self = Self(1 << 30);

    /// No mode.
    pub const NONE: Self = Self(0);
    /// Those that say how a text is read.
    pub const OF_TEXTS: Self = Self::PIPES_AS_CONCAT
        .with(Self::ANSI_QUOTES)
        .with(Self::NO_BACKSLASH_ESCAPES)
        .with(Self::HIGH_NOT_PRECEDENCE);
    const STRICT: Self = Self::STRICT_TRANS_TABLES.with(Self::STRICT_ALL_TABLES);
    const OF_ANSI: Self = Self::REAL_AS_FLOAT
        .with(Self::PIPES_AS_CONCAT)
        .with(Self::ANSI_QUOTES)
        .with(Self::IGNORE_SPACE)
        .with(Self::ONLY_FULL_GROUP_BY);
    const OF_TRADITIONAL: Self = Self::STRICT
        .with(Self::NO_ZERO_IN_DATE)
        .with(Self::NO_ZERO_DATE)
        .with(Self::ERROR_FOR_DIVISION_BY_ZERO)
        .with(Self::NO_ENGINE_SUBSTITUTION);

    /// The modes of a list of names separated by commas, or of a number with their bits.
    ///
    /// # Errors
    /// Names that are no modes, and modes that are not supported.
    pub fn parse(text: &str) -> Result<Self, WrongModes> {
        if let Ok(bits) = text.trim().parse::<u64>() {
            let known = NAMES
                .iter()
                .fold(Self::NONE, |all, (_, mode)| all.with(*mode));
            let bits = u32::try_from(bits).ok().filter(|bits| bits & !known.0 == 0);
            let wrong = || WrongModes::Unknown(text.trim().to_owned());
            return bits.map(|bits| Self(bits).expanded()).ok_or_else(wrong);
        }
        let names = text.split(',').map(str::trim);
        names
            .filter(|name| !name.is_empty())
            .try_fold(Self::NONE, |all, name| {
                let is = |known: &&str| known.eq_ignore_ascii_case(name);
                match NAMES.iter().find(|(known, _)| is(known)) {
                    Some((_, mode)) => Ok(all.with(mode.expanded())),
                    None if WITHOUT_MEANING.iter().any(is) => Ok(all),
                    None if NOT_SUPPORTED.iter().any(is) => {
                        Err(WrongModes::NotSupported(name.to_ascii_uppercase()))
                    }
                    None => Err(WrongModes::Unknown(name.to_owned())),
                }
            })
    }

    /// These modes and others.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These modes but for others.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// True if all of these are set.
    #[must_use]
    pub const fn has(self, modes: Self) -> bool {
        self.0 & modes.0 == modes.0
    }

    /// True if a value that its column cannot hold is an error.
    #[must_use]
    pub const fn is_strict(self) -> bool {
        self.0 & Self::STRICT.0 != 0
    }

    /// With the modes that ANSI and TRADITIONAL stand for.
    const fn expanded(self) -> Self {
        let mut all = self;
        if self.has(Self::ANSI) {
            all = all.with(Self::OF_ANSI);
        }
        if self.has(Self::TRADITIONAL) {
            all = all.with(Self::OF_TRADITIONAL);
        }
        all
    }
}

/// The names, as `@@sql_mode` shows them.
impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = NAMES.iter().filter(|(_, mode)| self.has(*mode));
        for (place, (name, _)) in set.enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_in_mysqls_order() {
        for (text, shown) in [
            ("", ""),
            (
                " no_zero_date, strict_trans_tables,",
                "STRICT_TRANS_TABLES,NO_ZERO_DATE",
            ),
            (
                "ansi",
                "REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ONLY_FULL_GROUP_BY,ANSI",
            ),
            (
                "TRADITIONAL",
                "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
                 ERROR_FOR_DIVISION_BY_ZERO,TRADITIONAL,NO_ENGINE_SUBSTITUTION",
            ),
            ("6", "PIPES_AS_CONCAT,ANSI_QUOTES"),
            ("NO_AUTO_CREATE_USER,ANSI_QUOTES", "ANSI_QUOTES"),
        ] {
            let modes = Modes::parse(text).map(|modes| modes.to_string());
            assert_eq!(modes.as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn unknown_modes_are_refused() {
        let unknown = |text: &str| Err(WrongModes::Unknown(text.to_owned()));
        assert_eq!(Modes::parse("ANSI_QUOTES,nope"), unknown("nope"));
        assert_eq!(Modes::parse("16"), unknown("16"));
        let refused = WrongModes::NotSupported("ALLOW_INVALID_DATES".to_owned());
        assert_eq!(Modes::parse("allow_invalid_dates"), Err(refused));
    }
}
