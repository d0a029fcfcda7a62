//! Accounts as statements that make them: SHOW GRANTS and SHOW CREATE USER.

use std::collections::BTreeMap;

use crate::{AccountName, Accounts, Level, Privileges, Scope};

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text as a string writes it.
fn in_quotes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\x1A' => out.push_str("\\Z"),
            c => out.push(c),
        }
    }
    out
}

/// One GRANT.
fn statement(privileges: &str, on: &str, name: &AccountName, with_option: bool) -> String {
    let option = if with_option {
        " WITH GRANT OPTION"
    } else {
        ""
    };
    let name = name.in_backticks();
    format!("GRANT {privileges} ON {on} TO {name}{option}")
}

fn listed(privileges: Privileges, scope: Scope) -> String {
    if privileges.has(Privileges::all_at(scope)) {
        return "ALL PRIVILEGES".to_owned();
    }
    let names: Vec<_> = privileges.names().collect();
    match names.is_empty() {
        true => "USAGE".to_owned(),
        false => names.join(", "),
    }
}

/// What is granted for a table: for all of it, and for columns.
type OfTable<'a> = (Privileges, BTreeMap<&'a str, Privileges>);

/// The privileges for a table and for its columns.
fn listed_with_columns((own, columns): &OfTable<'_>) -> String {
    if columns.is_empty() || own.has(Privileges::all_at(Scope::Table)) {
        return listed(*own, Scope::Table);
    }
    let all = columns.values().fold(*own, |all, one| all.with(*one));
    let mut shown = Vec::new();
    for name in all.names() {
        let is_of = |privileges: Privileges| privileges.names().any(|own| own == name);
        if is_of(*own) {
            shown.push(name.to_owned());
        }
        let with = columns.iter().filter(|(_, privileges)| is_of(**privileges));
        let with: Vec<_> = with.map(|(column, _)| quoted(column)).collect();
        if !with.is_empty() {
            shown.push(format!("{name} ({})", with.join(", ")));
        }
    }
    shown.join(", ")
}

impl Accounts {
    /// The GRANT statements that give an account what it has, by itself and by some roles; none if there is no such
    /// account. Some roles everybody has.
    #[must_use]
    pub fn grant_statements(
        &self,
        name: &AccountName,
        using: &[AccountName],
        everybodys: &[AccountName],
    ) -> Vec<String> {
        if self.get(name).is_none() {
            return Vec::new();
        }
        let has_option = |privileges: Privileges| privileges.has(Privileges::GRANT_OPTION);
        let (global, levels) = self.united(std::iter::once(name).chain(self.reached(using)));
        let everything = global.has(Privileges::all_at(Scope::Global));
        let dynamic = match everything {
            true => Privileges::NONE,
            false => global.dynamic(),
        };
        let plain = listed(global.without(dynamic), Scope::Global);
        let mut lines = vec![statement(&plain, "*.*", name, has_option(global))];
        if !dynamic.is_none() {
            let names: Vec<_> = dynamic.names().collect();
            lines.push(statement(&names.join(","), "*.*", name, has_option(global)));
        }
        let mut tables: BTreeMap<(&str, &str), OfTable<'_>> = BTreeMap::new();
        let mut routines = Vec::new();
        for (level, privileges) in levels {
            match level {
                Level::Global => {}
                Level::Schema(schema) => {
                    let (on, privileges_shown) = (
                        format!("{}.*", quoted(schema)),
                        listed(privileges, Scope::Schema),
                    );
                    let option = has_option(privileges);
                    lines.push(statement(&privileges_shown, &on, name, option));
                }
                Level::Table(schema, table) => {
                    tables.entry((schema, table)).or_default().0 = privileges;
                }
                Level::Column(schema, table, column) => {
                    let columns = &mut tables.entry((schema, table)).or_default().1;
                    columns.insert(column, privileges);
                }
                Level::Routine(kind, schema, routine) => {
                    let on = format!("{} {}.{}", kind.name(), quoted(schema), quoted(routine));
                    // ALL is not shown for a routine.
                    let names: Vec<_> = privileges.names().collect();
                    let names = match names.is_empty() {
                        true => "USAGE".to_owned(),
                        false => names.join(", "),
                    };
                    routines.push(statement(&names, &on, name, has_option(privileges)));
                }
            }
        }
        for ((schema, table), of_table) in &tables {
            let on = format!("{}.{}", quoted(schema), quoted(table));
            let shown = listed_with_columns(of_table);
            lines.push(statement(&shown, &on, name, has_option(of_table.0)));
        }
        lines.extend(routines);
        lines.extend(self.role_statements(name, everybodys));
        lines
    }

    /// What is granted to these accounts together: everywhere, and at levels.
    fn united<'a>(
        &'a self,
        grantees: impl Iterator<Item = &'a AccountName>,
    ) -> (Privileges, BTreeMap<&'a Level, Privileges>) {
        let mut global = Privileges::NONE;
        let mut levels: BTreeMap<&Level, Privileges> = BTreeMap::new();
        for grantee in grantees {
            let own = self.get(grantee).map(|account| account.privileges);
            global = global.with(own.unwrap_or_default());
            for (level, privileges) in self.levels(grantee) {
                let all = levels.entry(level).or_default();
                *all = all.with(privileges);
            }
        }
        (global, levels)
    }

    /// The GRANT statements of an account's roles.
    fn role_statements(&self, name: &AccountName, everybodys: &[AccountName]) -> Vec<String> {
        let mut roles: BTreeMap<&AccountName, bool> = self.roles_of(name).collect();
        for role in everybodys.iter().filter(|role| *role != name) {
            roles.entry(role).or_default();
        }
        let to = name.in_backticks();
        let kinds = [(false, ""), (true, " WITH ADMIN OPTION")].into_iter();
        let shown = |(with_admin, option): (bool, &str)| {
            let of_kind = roles.iter().filter(|(_, own)| **own == with_admin);
            let of_kind: Vec<_> = of_kind.map(|(role, _)| role.in_backticks()).collect();
            (!of_kind.is_empty()).then(|| format!("GRANT {} TO {to}{option}", of_kind.join(",")))
        };
        kinds.filter_map(shown).collect()
    }

    /// The CREATE USER that makes an account.
    #[must_use]
    pub fn create_statement(&self, name: &AccountName) -> Option<String> {
        let account = self.get(name)?;
        let plugin = account.credential.plugin().name();
        let kept = account.credential.text();
        let proof = match kept.is_empty() {
            true => String::new(),
            false => format!(" AS '{}'", in_quotes(&kept)),
        };
        let roles: Vec<_> = self
            .default_roles(name)
            .map(AccountName::in_backticks)
            .collect();
        let roles = match roles.is_empty() {
            true => String::new(),
            false => format!(" DEFAULT ROLE {}", roles.join(",")),
        };
        let expires = if account.expired { "" } else { " DEFAULT" };
        let lock = if account.locked { "LOCK" } else { "UNLOCK" };
        let name = name.in_backticks();
        Some(format!(
            "CREATE USER {name} IDENTIFIED WITH '{plugin}'{proof}{roles} REQUIRE NONE PASSWORD EXPIRE{expires} ACCOUNT {lock}"
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{Account, Credential, Plugin, RoutineKind};

    #[test]
    fn grants_are_shown_as_statements() {
        let mut all = Accounts::first();
        let root = AccountName::new("root", "localhost");
        assert_eq!(
            all.grant_statements(&root, &[], &[]),
            ["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"]
        );
        let ann = AccountName::new("ann", "%");
        assert!(all.grant_statements(&ann, &[], &[]).is_empty());
        all.put(ann.clone(), Account::default());
        assert_eq!(
            all.grant_statements(&ann, &[], &[]),
            ["GRANT USAGE ON *.* TO `ann`@`%`"]
        );
        all.grant(
            &ann,
            &Level::Global,
            Privileges::CONNECTION_ADMIN.with(Privileges::PROCESS),
        );
        let schema = Level::Schema("m".into());
        all.grant(&ann, &schema, Privileges::all_at(Scope::Schema));
        let table = Level::Table("n".into(), "o`t".into());
        let some = Privileges::SELECT
            .with(Privileges::INSERT)
            .with(Privileges::GRANT_OPTION);
        all.grant(&ann, &table, some);
        assert_eq!(
            all.grant_statements(&ann, &[], &[]),
            [
                "GRANT PROCESS ON *.* TO `ann`@`%`",
                "GRANT CONNECTION_ADMIN ON *.* TO `ann`@`%`",
                "GRANT ALL PRIVILEGES ON `m`.* TO `ann`@`%`",
                "GRANT SELECT, INSERT ON `n`.`o``t` TO `ann`@`%` WITH GRANT OPTION",
            ]
        );
    }

    #[test]
    fn columns_routines_and_roles_are_shown() {
        let mut all = Accounts::default();
        let [ann, role, admin] = ["ann", "r", "s"].map(|user| AccountName::new(user, "%"));
        for name in [&ann, &role, &admin] {
            all.put(name.clone(), Account::default());
        }
        let column = |name: &str| Level::Column("m".into(), "t".into(), name.into());
        all.grant(
            &ann,
            &column("a"),
            Privileges::SELECT.with(Privileges::INSERT),
        );
        all.grant(&ann, &column("b"), Privileges::SELECT);
        let table = Level::Table("m".into(), "t".into());
        all.grant(
            &ann,
            &table,
            Privileges::DELETE.with(Privileges::GRANT_OPTION),
        );
        let routine = Level::Routine(RoutineKind::Procedure, "m".into(), "p".into());
        all.grant(&ann, &routine, Privileges::OF_ROUTINES);
        all.grant(&role, &Level::Schema("n".into()), Privileges::SELECT);
        all.grant_role(&role, &ann, false);
        all.grant_role(&admin, &ann, true);
        let mut expected = vec![
            "GRANT USAGE ON *.* TO `ann`@`%`",
            "GRANT SELECT (`a`, `b`), INSERT (`a`), DELETE ON `m`.`t` TO `ann`@`%` WITH GRANT OPTION",
            "GRANT EXECUTE, ALTER ROUTINE ON PROCEDURE `m`.`p` TO `ann`@`%`",
            "GRANT `r`@`%` TO `ann`@`%`",
            "GRANT `s`@`%` TO `ann`@`%` WITH ADMIN OPTION",
        ];
        assert_eq!(all.grant_statements(&ann, &[], &[]), expected);
        expected.insert(1, "GRANT SELECT ON `n`.* TO `ann`@`%`");
        assert_eq!(
            all.grant_statements(&ann, std::slice::from_ref(&role), &[]),
            expected
        );
        all.add_default_role(&ann, role);
        let created = all.create_statement(&ann).unwrap();
        assert!(
            created.contains(" DEFAULT ROLE `r`@`%` REQUIRE NONE"),
            "{created}"
        );
    }

    #[test]
    fn an_account_is_shown_as_the_statement_that_makes_it() {
        let mut all = Accounts::default();
        let ann = AccountName::new("ann", "%");
        all.put(ann.clone(), Account::default());
        assert_eq!(
            all.create_statement(&ann).unwrap(),
            "CREATE USER `ann`@`%` IDENTIFIED WITH 'caching_sha2_password' REQUIRE NONE \
             PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK"
        );
        let account = all.get_mut(&ann).unwrap();
        account.credential = Credential::of_password(Plugin::NativePassword, "password");
        (account.locked, account.expired) = (true, true);
        assert_eq!(
            all.create_statement(&ann).unwrap(),
            "CREATE USER `ann`@`%` IDENTIFIED WITH 'mysql_native_password' \
             AS '*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19' REQUIRE NONE PASSWORD EXPIRE ACCOUNT LOCK"
        );
    }
}
