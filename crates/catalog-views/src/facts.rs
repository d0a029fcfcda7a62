//! [`Facts`]: what views are made of.

use perigee_value::{Collation, Zone};
use std::sync::Arc;

use perigee_accounts::{AccountName, Accounts, Grants};
use perigee_engine::catalog::{RoutineDef, Table, TableDef, TriggerDef, ViewDef};

use crate::{View, describe};

/// A name and its value, such as a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValue {
    /// Name.
    pub name: String,
    /// Value as text.
    pub value: String,
}

/// A table and what else is known of it.
#[derive(Clone, Debug)]
pub struct TableFacts {
    /// The table.
    pub table: Arc<Table>,
    /// What AUTO_INCREMENT hands out next.
    pub next_number: Option<u64>,
}

/// A view of a user and what else is known of it.
#[derive(Clone, Debug)]
pub struct ViewFacts {
    /// The view.
    pub def: Arc<ViewDef>,
    /// Its columns, as those of a table, or why its query cannot be read any more.
    pub columns: Result<TableDef, String>,
    /// Its text may be seen.
    pub is_shown: bool,
    /// Rows may be changed through it.
    pub is_updatable: bool,
}

/// A procedure and what else is known of it.
#[derive(Clone, Debug)]
pub struct RoutineFacts {
    /// The procedure.
    pub def: Arc<RoutineDef>,
    /// `IN`, `OUT` or `INOUT` of each parameter.
    pub modes: Vec<&'static str>,
    /// Its parameters, as the columns of a table.
    pub parameters: Arc<TableDef>,
    /// The session's time zone.
    pub zone: Zone,
}

/// A trigger and what else is known of it.
#[derive(Clone, Debug)]
pub struct TriggerFacts {
    /// Its table.
    pub table: Arc<Table>,
    /// The trigger.
    pub def: Arc<TriggerDef>,
    /// Its place among those of its time and event, from 1.
    pub place: u64,
    /// The session's time zone.
    pub zone: Zone,
}

/// A client's connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its id.
    pub id: u64,
    /// User.
    pub user: String,
    /// Host and port of the client.
    pub host: String,
    /// Current schema.
    pub schema: Option<String>,
    /// `Query` or `Sleep`.
    pub command: String,
    /// Seconds in that state.
    pub seconds: u64,
    /// Text of the statement that runs.
    pub statement: Option<String>,
}

/// What is known of statements of one digest. Times are in picoseconds, as in MySQL.
#[derive(Clone, Debug, Default)]
pub struct DigestFacts {
    /// The schema that was current.
    pub schema: Option<String>,
    /// The digest's hash; `None` for all statements that are counted together.
    pub digest: Option<String>,
    /// The digest.
    pub text: Option<String>,
    /// How often they ran,
    pub count: u64,
    /// for how long,
    pub total: u64,
    /// at least,
    pub shortest: u64,
    /// on average,
    pub average: u64,
    /// and at most.
    pub longest: u64,
    /// Errors.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
    /// Rows changed.
    pub rows_affected: u64,
    /// Rows sent.
    pub rows_sent: u64,
    /// Those that read a whole table.
    pub no_index: u64,
    /// Bytes of pages that storage went through for them.
    pub bytes_read: u64,
    /// Bytes that came from storage.
    pub bytes_shipped: u64,
    /// Bytes of pages that storage went through and did not send.
    pub bytes_saved: u64,
    /// What their scans cost, in thousand-millionths of a dollar.
    pub nanodollars: u64,
    /// When the first one ended, in microseconds since 1970,
    pub first_seen: i64,
    /// and the last one.
    pub last_seen: i64,
    /// One of them.
    pub sample: Option<String>,
}

/// The roles of the session's account.
#[derive(Clone, Debug, Default)]
pub struct RoleFacts {
    /// All accounts: an account may see its roles, whatever else it may see.
    pub accounts: Arc<Accounts>,
    /// The account.
    pub account: Option<AccountName>,
    /// The roles that are active.
    pub active: Vec<AccountName>,
    /// Those that everybody has.
    pub mandatory: Vec<AccountName>,
}

/// What is known when a statement reads views, as far as its account may see it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Schemas of views.
    pub view_schemas: Vec<&'static str>,
    /// Accounts and what is granted to them.
    pub accounts: Accounts,
    /// The session's roles.
    pub roles: RoleFacts,
    /// What the account may do with single columns; everything if there is none.
    pub grants: Option<Grants>,
    /// Schemas of users, sorted, with the collations of their tables to come.
    pub schemas: Vec<(String, Collation)>,
    /// Their tables, sorted by schema and name.
    pub tables: Vec<TableFacts>,
    /// Views of users, sorted by schema and name.
    pub views: Vec<ViewFacts>,
    /// Procedures, sorted by schema and name.
    pub routines: Vec<RoutineFacts>,
    /// Triggers, sorted by schema, table, event and time.
    pub triggers: Vec<TriggerFacts>,
    /// All connections.
    pub connections: Vec<Connection>,
    /// Statements by their digests.
    pub digests: Vec<DigestFacts>,
    /// Variables of the session.
    pub session_variables: Vec<NamedValue>,
    /// Variables of the server.
    pub global_variables: Vec<NamedValue>,
    /// Counters of the session.
    pub session_status: Vec<NamedValue>,
    /// Counters of the server.
    pub global_status: Vec<NamedValue>,
}

impl Facts {
    /// What the account may do with a column, as it is shown; `None` for a column that it may not see.
    pub(crate) fn privileges(&self, def: &TableDef, number: usize) -> Option<String> {
        match &self.grants {
            Some(grants) if !crate::is_schema(&def.schema) => {
                let column = def.columns[number].name.to_lowercase();
                describe::privileges(grants.on_column(&def.schema, &def.name, &column))
            }
            _ => Some(describe::PRIVILEGES.to_owned()),
        }
    }

    /// The views that the account may see.
    pub(crate) fn own_views(&self) -> impl Iterator<Item = &'static dyn View> {
        crate::all().filter(|view| self.view_schemas.contains(&view.schema()))
    }
}
