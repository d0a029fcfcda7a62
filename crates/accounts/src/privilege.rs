//! [`Privileges`]: sets of what may be allowed, MySQL's names for it, and at which levels each may be granted.

/// The narrowest level at which a privilege can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `*.*` only.
    Global,
    /// `*.*` only; MySQL lists these apart and joins their names with underscores.
    Dynamic,
    /// Schemas, too.
    Schema,
    /// Schemas and tables, too.
    Table,
    /// Columns; of no privilege the narrowest level.
    Column,
    /// Single routines; of no privilege the narrowest level.
    Routine,
}

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(u64);

macro_rules! privileges {
    ($($constant:ident $bit:literal $scope:ident $name:literal;)*) => {
        impl Privileges {
            $(#[doc = $name] pub const $constant: Self = Self(1 << $bit);)*
        }

        /// Every privilege but GRANT OPTION, in the order in which they are shown.
        const ALL: &[(Privileges, Scope, &str)] =
            &[$((Privileges::$constant, Scope::$scope, $name)),*];
    };
}

// The bits are part of the catalog's format.
privileges! {
    SELECT 0 Table "SELECT";
    INSERT 1 Table "INSERT";
    UPDATE 2 Table "UPDATE";
    DELETE 3 Table "DELETE";
    CREATE 4 Table "CREATE";
    DROP 5 Table "DROP";
    RELOAD 6 Global "RELOAD";
    SHUTDOWN 7 Global "SHUTDOWN";
    PROCESS 8 Global "PROCESS";
    FILE 9 Global "FILE";
    REFERENCES 11 Table "REFERENCES";
    INDEX 12 Table "INDEX";
    ALTER 13 Table "ALTER";
    SHOW_DATABASES 14 Global "SHOW DATABASES";
    SUPER 15 Global "SUPER";
    CREATE_TEMPORARY_TABLES 16 Schema "CREATE TEMPORARY TABLES";
    LOCK_TABLES 17 Schema "LOCK TABLES";
    EXECUTE 18 Schema "EXECUTE";
    REPLICATION_SLAVE 19 Global "REPLICATION SLAVE";
    REPLICATION_CLIENT 20 Global "REPLICATION CLIENT";
    CREATE_VIEW 21 Table "CREATE VIEW";
    SHOW_VIEW 22 Table "SHOW VIEW";
    CREATE_ROUTINE 23 Schema "CREATE ROUTINE";
    ALTER_ROUTINE 24 Schema "ALTER ROUTINE";
    CREATE_USER 25 Global "CREATE USER";
    EVENT 26 Schema "EVENT";
    TRIGGER 27 Table "TRIGGER";
    CREATE_TABLESPACE 28 Global "CREATE TABLESPACE";
    CREATE_ROLE 29 Global "CREATE ROLE";
    DROP_ROLE 30 Global "DROP ROLE";
    CONNECTION_ADMIN 32 Dynamic "CONNECTION_ADMIN";
    SYSTEM_VARIABLES_ADMIN 33 Dynamic "SYSTEM_VARIABLES_ADMIN";
    SESSION_VARIABLES_ADMIN 34 Dynamic "SESSION_VARIABLES_ADMIN";
    SYSTEM_USER 35 Dynamic "SYSTEM_USER";
    ROLE_ADMIN 36 Dynamic "ROLE_ADMIN";
}

impl Privileges {
    /// None: MySQL's USAGE.
    pub const NONE: Self = Self(0);

    /// The right to grant to others what one has.
    pub const GRANT_OPTION: Self = Self(1 << 10);

    /// What can be granted for columns.
    pub const OF_COLUMNS: Self = Self::SELECT
        .with(Self::INSERT)
        .with(Self::UPDATE)
        .with(Self::REFERENCES);

    /// What can be granted for single routines; who makes one gets it.
    pub const OF_ROUTINES: Self = Self::EXECUTE.with(Self::ALTER_ROUTINE);

    /// What ALL stands for at a level: all that can be granted there, without GRANT OPTION.
    #[must_use]
    pub fn all_at(scope: Scope) -> Self {
        let granted = ALL.iter().filter(|(one, own, _)| match scope {
            Scope::Global | Scope::Dynamic => true,
            Scope::Schema => matches!(own, Scope::Schema | Scope::Table),
            Scope::Table => *own == Scope::Table,
            Scope::Column => Self::OF_COLUMNS.has(*one),
            Scope::Routine => Self::OF_ROUTINES.has(*one),
        });
        granted.fold(Self::NONE, |all, (one, ..)| all.with(*one))
    }

    /// Everything, with GRANT OPTION.
    #[must_use]
    pub fn everything() -> Self {
        Self::all_at(Scope::Global).with(Self::GRANT_OPTION)
    }

    /// The privilege of this name, in upper case with one space between words.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let found = ALL.iter().find(|(.., known)| *known == name);
        found.map(|(privilege, ..)| *privilege)
    }

    /// The most words that a privilege's name has.
    pub const MOST_WORDS: usize = 3;

    /// All that there were before ROLE_ADMIN, whose owners got it.
    #[must_use]
    pub(crate) fn with_role_admin(self) -> Self {
        match self.has(Self::all_at(Scope::Global).without(Self::ROLE_ADMIN)) {
            true => self.with(Self::ROLE_ADMIN),
            false => self,
        }
    }

    /// As a number, for records.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Of a number in a record; bits without a meaning are dropped.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits & Self::everything().0)
    }

    /// These and others.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These without others.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Those that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// True if all of `other` are among these.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if one of `other` is among these.
    #[must_use]
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Those that cannot be granted at a level.
    #[must_use]
    pub fn foreign_to(self, scope: Scope) -> Self {
        self.without(Self::all_at(scope))
            .without(Self::GRANT_OPTION)
    }

    /// The names of these, without GRANT OPTION, in the order in which they are shown.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let own = ALL
            .iter()
            .filter(move |(privilege, ..)| self.has(*privilege));
        own.map(|(.., name)| *name)
    }

    /// The dynamic ones among these.
    #[must_use]
    pub fn dynamic(self) -> Self {
        let dynamic = ALL.iter().filter(|(_, scope, _)| *scope == Scope::Dynamic);
        self.and(dynamic.fold(Self::NONE, |all, (one, ..)| all.with(*one)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_privilege_has_a_bit_and_a_name_of_its_own() {
        let mut seen = Privileges::GRANT_OPTION;
        for (privilege, _, name) in ALL {
            assert!(!seen.has_any(*privilege), "{name}");
            assert_eq!(Privileges::by_name(name), Some(*privilege));
            assert!(name.split(' ').count() <= Privileges::MOST_WORDS);
            seen = seen.with(*privilege);
        }
        assert_eq!(seen, Privileges::everything());
        assert_eq!(Privileges::by_name("GRANT OPTION"), None);
    }

    #[test]
    fn levels_have_what_can_be_granted_there() {
        let global = Privileges::PROCESS.with(Privileges::SELECT);
        assert_eq!(global.foreign_to(Scope::Schema), Privileges::PROCESS);
        let schema = Privileges::LOCK_TABLES.with(Privileges::GRANT_OPTION);
        assert_eq!(schema.foreign_to(Scope::Table), Privileges::LOCK_TABLES);
        assert!(schema.foreign_to(Scope::Schema).is_none());
        let routine = Privileges::EXECUTE.with(Privileges::SELECT);
        assert_eq!(routine.foreign_to(Scope::Routine), Privileges::SELECT);
        assert_eq!(routine.foreign_to(Scope::Column), Privileges::EXECUTE);
        let dynamic = Privileges::everything().dynamic();
        assert!(dynamic.has(Privileges::CONNECTION_ADMIN) && !dynamic.has(Privileges::SUPER));
    }

    #[test]
    fn unknown_bits_of_a_record_are_dropped() {
        assert_eq!(Privileges::from_bits(u64::MAX), Privileges::everything());
        let names: Vec<_> = Privileges::from_bits(0b11).names().collect();
        assert_eq!(names, ["SELECT", "INSERT"]);
    }
}
