//! Roles: which accounts were granted to which, and which of them are active after a login.

use std::collections::{BTreeMap, BTreeSet};

use crate::{AccountName, Accounts, Grants, Privileges};

/// The roles of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Those that were granted to it; true with the right to grant them to others.
    granted: BTreeMap<AccountName, bool>,
    /// Those that are active after a login. They need not be granted: those of everybody may be among them.
    defaults: BTreeSet<AccountName>,
}

impl Roles {
    fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.defaults.is_empty()
    }
}

/// What came of a GRANT of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleGrant {
    /// The account has it.
    Done,
    /// There is no such role.
    NoRole,
    /// There is no such account.
    NoAccount,
    /// The role has the account as a role itself.
    Circle,
}

impl Accounts {
    /// The roles that were granted to an account itself, with true where it may grant them to others.
    pub fn roles_of(&self, name: &AccountName) -> impl Iterator<Item = (&AccountName, bool)> {
        let granted = self.roles.get(name).map(|roles| &roles.granted);
        let granted = granted.into_iter().flatten();
        granted.map(|(role, with_admin)| (role, *with_admin))
    }

    /// The roles that are active after a login.
    pub fn default_roles(&self, name: &AccountName) -> impl Iterator<Item = &AccountName> {
        let defaults = self.roles.get(name).map(|roles| &roles.defaults);
        defaults.into_iter().flatten()
    }

    /// True if an account was granted to another.
    #[must_use]
    pub fn is_role(&self, name: &AccountName) -> bool {
        let mut all = self.roles.values();
        all.any(|roles| roles.granted.contains_key(name))
    }

    /// These roles and those that were granted to them, directly or not, as far as they exist.
    #[must_use]
    pub fn reached<'a>(
        &'a self,
        roles: impl IntoIterator<Item = &'a AccountName>,
    ) -> BTreeSet<&'a AccountName> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<_> = roles.into_iter().collect();
        while let Some(role) = open.pop() {
            if self.get(role).is_some() && reached.insert(role) {
                open.extend(self.roles_of(role).map(|(role, _)| role));
            }
        }
        reached
    }

    /// Grants a role.
    pub fn grant_role(
        &mut self,
        role: &AccountName,
        to: &AccountName,
        with_admin: bool,
    ) -> RoleGrant {
        if self.get(role).is_none() {
            return RoleGrant::NoRole;
        }
        if self.get(to).is_none() {
            return RoleGrant::NoAccount;
        }
        if self.reached([role]).contains(to) {
            return RoleGrant::Circle;
        }
        let roles = self.roles.entry(to.clone()).or_default();
        let kept = roles.granted.entry(role.clone()).or_default();
        *kept |= with_admin;
        RoleGrant::Done
    }

    /// Takes a role back, which is not active after a login any more.
    pub fn revoke_role(&mut self, role: &AccountName, from: &AccountName) {
        if let Some(roles) = self.roles.get_mut(from) {
            roles.granted.remove(role);
            roles.defaults.remove(role);
        }
        self.roles.retain(|_, roles| !roles.is_empty());
    }

    /// Makes a role active after a login; false if the account or the role does not exist.
    pub fn add_default_role(&mut self, name: &AccountName, role: AccountName) -> bool {
        if self.get(name).is_none() || self.get(&role).is_none() {
            return false;
        }
        let roles = self.roles.entry(name.clone()).or_default();
        roles.defaults.insert(role);
        true
    }

    /// Makes no role active after a login.
    pub fn clear_default_roles(&mut self, name: &AccountName) {
        if let Some(roles) = self.roles.get_mut(name) {
            roles.defaults.clear();
        }
        self.roles.retain(|_, roles| !roles.is_empty());
    }

    /// Forgets an account as a role and its roles.
    pub(crate) fn forget_roles(&mut self, name: &AccountName) {
        self.roles.remove(name);
        for roles in self.roles.values_mut() {
            roles.granted.remove(name);
            roles.defaults.remove(name);
        }
        self.roles.retain(|_, roles| !roles.is_empty());
    }

    /// What an account may do while these roles are active; nothing if there is none.
    #[must_use]
    pub fn grants_of(&self, name: &AccountName, active: &[AccountName]) -> Grants {
        let mut grants = Grants::default();
        for name in std::iter::once(name).chain(self.reached(active)) {
            let global = self.get(name).map_or(Privileges::NONE, |a| a.privileges);
            grants.add(global, self.levels(name));
        }
        grants
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Account, Level};

    fn name(user: &str) -> AccountName {
        AccountName::new(user, "%")
    }

    fn with(names: &[&str]) -> Accounts {
        let mut all = Accounts::default();
        for user in names {
            assert!(all.put(name(user), Account::default()));
        }
        all
    }

    #[test]
    fn active_roles_give_what_their_own_roles_have() {
        let mut all = with(&["ann", "reader", "writer"]);
        let (ann, reader, writer) = (name("ann"), name("reader"), name("writer"));
        let level = Level::Schema("m".into());
        all.grant(&reader, &level, Privileges::SELECT);
        all.grant(&writer, &level, Privileges::INSERT);
        assert_eq!(all.grant_role(&reader, &writer, false), RoleGrant::Done);
        assert_eq!(all.grant_role(&writer, &ann, true), RoleGrant::Done);
        assert!(!all.grants_of(&ann, &[]).sees_schema("m"));
        let active = [writer.clone()];
        let both = Privileges::SELECT.with(Privileges::INSERT);
        assert_eq!(all.grants_of(&ann, &active).on_schema("m"), both);
        assert_eq!(all.roles_of(&ann).collect::<Vec<_>>(), [(&writer, true)]);
        assert!(all.is_role(&reader) && !all.is_role(&ann));
    }

    #[test]
    fn no_role_reaches_itself() {
        let mut all = with(&["a", "b", "c"]);
        let (a, b, c) = (name("a"), name("b"), name("c"));
        assert_eq!(all.grant_role(&a, &a, false), RoleGrant::Circle);
        assert_eq!(all.grant_role(&a, &b, false), RoleGrant::Done);
        assert_eq!(all.grant_role(&b, &c, false), RoleGrant::Done);
        assert_eq!(all.grant_role(&c, &a, false), RoleGrant::Circle);
        assert_eq!(all.grant_role(&name("x"), &a, false), RoleGrant::NoRole);
        assert_eq!(all.grant_role(&a, &name("x"), false), RoleGrant::NoAccount);
    }

    #[test]
    fn a_role_goes_with_its_account_and_its_name() {
        let mut all = with(&["a", "b", "c"]);
        let (a, b, c) = (name("a"), name("b"), name("c"));
        all.grant_role(&a, &b, false);
        assert!(all.add_default_role(&b, a.clone()) && !all.add_default_role(&b, name("x")));
        assert!(all.rename(&b, name("d")));
        assert_eq!(all.default_roles(&name("d")).collect::<Vec<_>>(), [&a]);
        all.grant_role(&a, &c, false);
        all.revoke_role(&a, &c);
        assert_eq!(all.roles_of(&c).count(), 0);
        assert!(all.remove(&a));
        assert!(all.roles.is_empty());
    }
}
