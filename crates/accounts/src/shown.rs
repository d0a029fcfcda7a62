//! Accounts as statements that make them: SHOW GRANTS and SHOW CREATE USER.

use crate::{AccountName, Accounts, Level, Privileges, Scope};

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
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

impl Accounts {
    /// The GRANT statements that give an account what it has; none if there is no such account.
    #[must_use]
    pub fn grant_statements(&self, name: &AccountName) -> Vec<String> {
        let Some(account) = self.get(name) else {
            return Vec::new();
        };
        let has_option = |privileges: Privileges| privileges.has(Privileges::GRANT_OPTION);
        let global = account.privileges;
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
        for (level, privileges) in self.levels(name) {
            let (on, scope) = match level {
                Level::Global => continue,
                Level::Schema(schema) => (format!("{}.*", quoted(schema)), Scope::Schema),
                Level::Table(schema, table) => (
                    format!("{}.{}", quoted(schema), quoted(table)),
                    Scope::Table,
                ),
            };
            let privileges_shown = listed(privileges, scope);
            lines.push(statement(
                &privileges_shown,
                &on,
                name,
                has_option(privileges),
            ));
        }
        lines
    }

    /// The CREATE USER that makes an account.
    #[must_use]
    pub fn create_statement(&self, name: &AccountName) -> Option<String> {
        let account = self.get(name)?;
        let plugin = account.credential.plugin().name();
        let kept = account.credential.text();
        let proof = match kept.is_empty() {
            true => String::new(),
            false => format!(" AS '{kept}'"),
        };
        let expires = if account.expired { "" } else { " DEFAULT" };
        let lock = if account.locked { "LOCK" } else { "UNLOCK" };
        let name = name.in_backticks();
        Some(format!(
            "CREATE USER {name} IDENTIFIED WITH '{plugin}'{proof} REQUIRE NONE PASSWORD EXPIRE{expires} ACCOUNT {lock}"
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{Account, Credential, Plugin};

    #[test]
    fn grants_are_shown_as_statements() {
        let mut all = Accounts::first();
        let root = AccountName::new("root", "localhost");
        assert_eq!(
            all.grant_statements(&root),
            ["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"]
        );
        let ann = AccountName::new("ann", "%");
        assert!(all.grant_statements(&ann).is_empty());
        all.put(ann.clone(), Account::default());
        assert_eq!(
            all.grant_statements(&ann),
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
            all.grant_statements(&ann),
            [
                "GRANT PROCESS ON *.* TO `ann`@`%`",
                "GRANT CONNECTION_ADMIN ON *.* TO `ann`@`%`",
                "GRANT ALL PRIVILEGES ON `m`.* TO `ann`@`%`",
                "GRANT SELECT, INSERT ON `n`.`o``t` TO `ann`@`%` WITH GRANT OPTION",
            ]
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
