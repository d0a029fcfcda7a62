//! APPLICABLE_ROLES and its like: the roles that the account has, those that are active, and what these may do.

use std::collections::BTreeSet;

use perigee_accounts::{AccountName, Level, Privileges};
use perigee_value::Datum;

use super::SCHEMA;
use crate::Facts;
use crate::definition::{Column, Definition, catalog, null, of, set_of, text};

/// A role that was granted to the account, or to one of its roles.
pub(super) struct Applicable {
    account: AccountName,
    grantee: AccountName,
    role: AccountName,
    is_grantable: bool,
    is_default: bool,
    is_mandatory: bool,
}

fn yes(is: bool) -> Datum {
    of(if is { "YES" } else { "NO" })
}

const APPLICABLE: &[Column<Applicable>] = &[
    text("USER", 97, |one| of(one.account.user())),
    text("HOST", 256, |one| of(one.account.host())),
    text("GRANTEE", 97, |one| of(one.grantee.user())),
    text("GRANTEE_HOST", 256, |one| of(one.grantee.host())),
    text("ROLE_NAME", 255, |one| of(one.role.user())),
    text("ROLE_HOST", 256, |one| of(one.role.host())),
    text("IS_GRANTABLE", 3, |one| yes(one.is_grantable)),
    text("IS_DEFAULT", 3, |one| yes(one.is_default)),
    text("IS_MANDATORY", 3, |one| yes(one.is_mandatory)),
];

/// APPLICABLE_ROLES.
pub(super) static APPLICABLE_ROLES: Definition<Applicable> = Definition {
    schema: SCHEMA,
    name: "APPLICABLE_ROLES",
    columns: APPLICABLE,
    rows: applicable,
};

/// ADMINISTRABLE_ROLE_AUTHORIZATIONS.
pub(super) static ADMINISTRABLE_ROLE_AUTHORIZATIONS: Definition<Applicable> = Definition {
    schema: SCHEMA,
    name: "ADMINISTRABLE_ROLE_AUTHORIZATIONS",
    columns: APPLICABLE,
    rows: |facts| {
        let all = applicable(facts).into_iter();
        all.filter(|one| one.is_grantable).collect()
    },
};

fn applicable(facts: &Facts) -> Vec<Applicable> {
    let roles = &facts.roles;
    let Some(account) = &roles.account else {
        return Vec::new();
    };
    let accounts = &roles.accounts;
    let row = |grantee: &AccountName, role: &AccountName, is_grantable| Applicable {
        account: account.clone(),
        grantee: grantee.clone(),
        role: role.clone(),
        is_grantable,
        is_default: accounts.default_roles(account).any(|own| own == role),
        is_mandatory: roles.mandatory.contains(role),
    };
    let everybodys = roles.mandatory.iter();
    let everybodys = everybodys.filter(|role| accounts.get(role).is_some() && *role != account);
    let own = accounts.roles_of(account).map(|(role, _)| role);
    let reached = accounts.reached(own.chain(everybodys.clone()));
    let mut rows = Vec::new();
    for grantee in std::iter::once(account).chain(reached) {
        for (role, is_grantable) in accounts.roles_of(grantee) {
            rows.push(row(grantee, role, is_grantable));
        }
    }
    let is_own = |role: &AccountName| accounts.roles_of(account).any(|(own, _)| own == role);
    let everybodys = everybodys.filter(|role| !is_own(role));
    rows.extend(everybodys.map(|role| row(account, role, false)));
    rows
}

/// A role that is active.
pub(super) struct Enabled {
    role: AccountName,
    is_default: bool,
    is_mandatory: bool,
}

/// ENABLED_ROLES.
pub(super) static ENABLED_ROLES: Definition<Enabled> = Definition {
    schema: SCHEMA,
    name: "ENABLED_ROLES",
    columns: &[
        text("ROLE_NAME", 255, |one| of(one.role.user())),
        text("ROLE_HOST", 255, |one| of(one.role.host())),
        text("IS_DEFAULT", 3, |one| yes(one.is_default)),
        text("IS_MANDATORY", 3, |one| yes(one.is_mandatory)),
    ],
    rows: |facts| {
        let account = facts.roles.account.as_ref();
        let accounts = &facts.roles.accounts;
        let defaults = account
            .into_iter()
            .flat_map(|name| accounts.default_roles(name));
        let defaults: BTreeSet<_> = defaults.collect();
        let enabled = |role: &AccountName| Enabled {
            role: role.clone(),
            is_default: defaults.contains(role),
            is_mandatory: facts.roles.mandatory.contains(role),
        };
        enabled_roles(facts).into_iter().map(enabled).collect()
    },
};

/// The roles that are active, and those that these have.
fn enabled_roles(facts: &Facts) -> BTreeSet<&AccountName> {
    facts.roles.accounts.reached(&facts.roles.active)
}

/// What is granted to an active role at a level.
pub(super) struct Granted {
    role: AccountName,
    level: Level,
    privileges: Privileges,
}

impl Granted {
    fn all(facts: &Facts, is_it: fn(&Level) -> bool) -> Vec<Self> {
        let mut all = Vec::new();
        for role in enabled_roles(facts) {
            let levels = facts.roles.accounts.levels(role);
            let levels = levels.filter(|(level, _)| is_it(level));
            all.extend(levels.map(|(level, privileges)| Self {
                role: role.clone(),
                level: level.clone(),
                privileges,
            }));
        }
        all
    }

    fn schema(&self) -> Datum {
        match &self.level {
            Level::Global => Datum::Null,
            Level::Schema(schema)
            | Level::Table(schema, _)
            | Level::Column(schema, ..)
            | Level::Routine(_, schema, _) => of(schema),
        }
    }

    /// A table or a routine.
    fn name(&self) -> Datum {
        match &self.level {
            Level::Global | Level::Schema(_) => Datum::Null,
            Level::Table(_, name) | Level::Column(_, name, _) | Level::Routine(.., name) => {
                of(name)
            }
        }
    }

    fn column(&self) -> Datum {
        match &self.level {
            Level::Column(.., column) => of(column),
            _ => Datum::Null,
        }
    }

    fn privileges(&self) -> Datum {
        of(set_of(self.privileges))
    }

    fn grantable(&self) -> Datum {
        yes(self.privileges.has(Privileges::GRANT_OPTION))
    }
}

const fn grantor() -> Column<Granted> {
    text("GRANTOR", 97, null)
}

const fn grantor_host() -> Column<Granted> {
    text("GRANTOR_HOST", 256, null)
}

const fn grantee() -> Column<Granted> {
    text("GRANTEE", 32, |one| of(one.role.user()))
}

const fn grantee_host() -> Column<Granted> {
    text("GRANTEE_HOST", 255, |one| of(one.role.host()))
}

/// ROLE_TABLE_GRANTS.
pub(super) static ROLE_TABLE_GRANTS: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "ROLE_TABLE_GRANTS",
    columns: &[
        grantor(),
        grantor_host(),
        grantee(),
        grantee_host(),
        text("TABLE_CATALOG", 3, catalog),
        text("TABLE_SCHEMA", 64, Granted::schema),
        text("TABLE_NAME", 64, Granted::name),
        text("PRIVILEGE_TYPE", 512, Granted::privileges),
        text("IS_GRANTABLE", 3, Granted::grantable),
    ],
    rows: |facts| Granted::all(facts, |level| matches!(level, Level::Table(..))),
};

/// ROLE_COLUMN_GRANTS.
pub(super) static ROLE_COLUMN_GRANTS: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "ROLE_COLUMN_GRANTS",
    columns: &[
        grantor(),
        grantor_host(),
        grantee(),
        grantee_host(),
        text("TABLE_CATALOG", 3, catalog),
        text("TABLE_SCHEMA", 64, Granted::schema),
        text("TABLE_NAME", 64, Granted::name),
        text("COLUMN_NAME", 64, Granted::column),
        text("PRIVILEGE_TYPE", 512, Granted::privileges),
        text("IS_GRANTABLE", 3, Granted::grantable),
    ],
    rows: |facts| Granted::all(facts, |level| matches!(level, Level::Column(..))),
};

/// ROLE_ROUTINE_GRANTS.
pub(super) static ROLE_ROUTINE_GRANTS: Definition<Granted> = Definition {
    schema: SCHEMA,
    name: "ROLE_ROUTINE_GRANTS",
    columns: &[
        grantor(),
        grantor_host(),
        grantee(),
        grantee_host(),
        text("SPECIFIC_CATALOG", 3, catalog),
        text("SPECIFIC_SCHEMA", 64, Granted::schema),
        text("SPECIFIC_NAME", 64, Granted::name),
        text("ROUTINE_CATALOG", 3, catalog),
        text("ROUTINE_SCHEMA", 64, Granted::schema),
        text("ROUTINE_NAME", 64, Granted::name),
        text("PRIVILEGE_TYPE", 512, Granted::privileges),
        text("IS_GRANTABLE", 3, Granted::grantable),
    ],
    rows: |facts| Granted::all(facts, |level| matches!(level, Level::Routine(..))),
};
