//! Whose rights count in a view: those of its definer, or of whoever names it.

use std::cell::RefCell;

use perigee_accounts::{AccountName, Grants, Privileges};
use perigee_engine::catalog::ViewDef;
use perigee_sql_bind::query::ViewName;

use crate::error::{Result, SqlError};
use crate::session::Session;

/// The views that a statement is bound in, the outermost first, with the rights that count in them; none for those of
/// the session.
#[derive(Default)]
pub(in crate::session) struct Acting(RefCell<Vec<Option<Grants>>>);

impl Acting {
    /// True in a view.
    pub fn is_in_view(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Goes into a view.
    pub fn enter(&self, grants: Option<Grants>) {
        self.0.borrow_mut().push(grants);
    }

    /// Comes out of one.
    pub fn leave(&self) {
        self.0.borrow_mut().pop();
    }

    /// The rights that count now, if they are not the session's.
    pub fn grants(&self) -> Option<Grants> {
        self.0.borrow().last().cloned().flatten()
    }

    /// True if a table or view may be used so.
    pub fn may(&self, session: &Session, needed: Privileges, (schema, name): (&str, &str)) -> bool {
        match self.grants() {
            Some(grants) => {
                let open = perigee_catalog_views::is_schema(schema) && schema != "mysql";
                open || grants.on_table(schema, name).has(needed)
            }
            None => session.check_base_table(needed, schema, name).is_ok(),
        }
    }

    /// True if a table or view may be used so, or some of its columns.
    pub fn may_somewhere(
        &self,
        session: &Session,
        needed: Privileges,
        (schema, name): (&str, &str),
    ) -> bool {
        match self.grants() {
            Some(grants) => {
                let open = perigee_catalog_views::is_schema(schema) && schema != "mysql";
                open || grants.somewhere_on_table(schema, name).has(needed)
            }
            None => {
                // A temporary table of the name is not meant.
                let of_columns = needed.and(session.grants().somewhere_on_table(schema, name));
                let needed = needed.without(of_columns);
                session.check_base_table(needed, schema, name).is_ok()
            }
        }
    }
}

impl Session {
    /// The rights that count in a view where these count around it.
    ///
    /// # Errors
    /// 1449.
    pub(in crate::session) fn rights_in(
        &self,
        view: &ViewDef,
        around: Option<Grants>,
    ) -> Result<Option<Grants>> {
        if view.invoker {
            return Ok(around);
        }
        let definer = AccountName::new(&view.definer.0, &view.definer.1);
        if definer == self.info.account {
            return Ok(None);
        }
        let (_, accounts) = self.frontend.accounts_now()?;
        match accounts.get(&definer) {
            Some(_) => {
                let roles = self.frontend.roles_at_login(&accounts, &definer);
                Ok(Some(accounts.grants_of(&definer, &roles)))
            }
            None => Err(SqlError::no_such_definer(definer.user(), definer.host())),
        }
    }

    /// Checks that a table may be used so by way of views. Of what is named first the privileges for some columns are
    /// enough: which columns these are is checked apart.
    ///
    /// # Errors
    /// 1142, 1356, 1449.
    pub(in crate::session) fn check_through(
        &self,
        needed: Privileges,
        views: &[ViewName],
        (schema, table): (&str, &str),
    ) -> Result<()> {
        let Some(first) = views.first() else {
            return self.check_somewhere(needed, schema, table);
        };
        self.check_somewhere(needed, &first.schema, &first.name)?;
        let acting = Acting::default();
        for (number, name) in views.iter().enumerate() {
            let changed = SqlError::table_changed;
            let view = self.stored_view(&name.schema, &name.name);
            let grants = self.rights_in(&*view.ok_or_else(changed)?, acting.grants())?;
            acting.enter(grants);
            let below = match views.get(number + 1) {
                Some(next) => (&*next.schema, &*next.name),
                None => (schema, table),
            };
            if !acting.may(self, needed, below) {
                return Err(SqlError::broken_view(&first.schema, &first.name));
            }
        }
        Ok(())
    }
}
