//! CHECK constraints of a [`Draft`]: their names and what their conditions may say.

use std::ops::ControlFlow;

use perigee_engine::catalog::{Action, Check, ForeignKey, TableDef};
use sqlparser::ast::{
    CheckConstraint, Expr, Ident, Query, Value, Visit, VisitMut, Visitor, VisitorMut,
};

use super::Draft;
use super::foreign::{checked, greatest};
use crate::error::{Result, SqlError};
use crate::session::checks::{self, Checks};

/// Between the table's name and the number in the name of a constraint that is not named.
const GENERATED: &str = "_chk_";

/// Functions that do not have the same value each time, or tell of the session.
const FORBIDDEN: &[&str] = &[
    "benchmark",
    "connection_id",
    "curdate",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "curtime",
    "database",
    "found_rows",
    "get_lock",
    "is_free_lock",
    "is_used_lock",
    "last_insert_id",
    "load_file",
    "localtime",
    "localtimestamp",
    "now",
    "rand",
    "random_bytes",
    "release_all_locks",
    "release_lock",
    "row_count",
    "schema",
    "session_user",
    "sleep",
    "sysdate",
    "system_user",
    "unix_timestamp",
    "user",
    "utc_date",
    "utc_time",
    "utc_timestamp",
    "uuid",
    "uuid_short",
    "values",
    "version",
];

/// A constraint under construction.
pub(super) struct Drafted {
    name: Option<String>,
    condition: Expr,
    enforced: bool,
    /// The column whose definition has it.
    column: Option<String>,
    /// The table had it before.
    is_old: bool,
}

impl Drafted {
    /// One that the table has.
    pub(super) fn of(check: &Check) -> Result<Self> {
        Ok(Self {
            name: Some(check.name.clone()),
            condition: checks::parsed(&check.condition)?,
            enforced: check.enforced,
            column: None,
            is_old: true,
        })
    }

    fn is_named(&self, name: &str) -> bool {
        let own = self.name.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    }
}

impl Draft {
    /// Adds a constraint, of a column if its definition has it.
    pub(in crate::session::ddl) fn add_check(
        &mut self,
        check: &CheckConstraint,
        name: Option<&Ident>,
        column: Option<&str>,
    ) -> Result<()> {
        let name = name.or(check.name.as_ref()).map(checked).transpose()?;
        self.checks.push(Drafted {
            name,
            condition: (*check.expr).clone(),
            enforced: check.enforced.unwrap_or(true),
            column: column.map(ToOwned::to_owned),
            is_old: false,
        });
        Ok(())
    }

    /// Takes a constraint out; false if there is none of the name.
    pub(in crate::session::ddl) fn drop_check(&mut self, name: &str) -> bool {
        let before = self.checks.len();
        self.checks.retain(|check| !check.is_named(name));
        self.checks.len() < before
    }

    /// True if there is a constraint of a name.
    pub(super) fn has_check(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.is_named(name))
    }

    /// Says whether a constraint is enforced; false if there is none of the name.
    pub(in crate::session::ddl) fn enforce_check(&mut self, name: &str, enforced: bool) -> bool {
        let check = self.checks.iter_mut().find(|check| check.is_named(name));
        let found = check.is_some();
        if let Some(check) = check {
            check.enforced = enforced;
        }
        found
    }

    /// Sees to the constraints that use a column which goes or gets another name: those of it alone go with it.
    ///
    /// # Errors
    /// 3959 for one that uses other columns, too, or if the column stays.
    pub(super) fn leave_column(&mut self, column: &str, goes: bool) -> Result<()> {
        let mut kept = Vec::new();
        for check in std::mem::take(&mut self.checks) {
            let names = columns_of(&check.condition);
            let is_it = |name: &String| name.eq_ignore_ascii_case(column);
            match (names.iter().any(is_it), names.iter().all(is_it)) {
                (true, true) if goes => {}
                (true, _) => {
                    let name = check.name.unwrap_or_default();
                    return Err(SqlError::column_of_check(name, column));
                }
                (false, _) => kept.push(check),
            }
        }
        self.checks = kept;
        Ok(())
    }

    /// The constraints of a definition that is complete but for them.
    ///
    /// # Errors
    /// 3812 to 3823 for what a condition may not say.
    pub(super) fn check_constraints(&self, def: &TableDef) -> Result<Vec<Check>> {
        let names = || self.checks.iter().filter_map(|check| check.name.as_deref());
        let mut number = greatest(names(), &self.name, GENERATED);
        let mut constraints = Vec::new();
        for check in &self.checks {
            let name = check.name.clone().unwrap_or_else(|| {
                number += 1;
                format!("{}{GENERATED}{number}", self.name)
            });
            if check.is_old {
                check_types(def, &check.condition, &name)?;
            } else {
                check_condition(def, check, &name)?;
            }
            check_actions(def, &check.condition, &name)?;
            constraints.push(Check {
                condition: text_of(def, &check.condition),
                enforced: check.enforced,
                name,
            });
        }
        Ok(constraints)
    }
}

/// Checks what a condition says.
fn check_condition(def: &TableDef, check: &Drafted, name: &str) -> Result<()> {
    let mut rules = Rules { def, check, name };
    if let ControlFlow::Break(error) = check.condition.visit(&mut rules) {
        return Err(error);
    }
    check_types(def, &check.condition, name)
}

/// Checks that a condition can be evaluated over rows of the table, also when its text is read again, and has
/// a truth value.
fn check_types(def: &TableDef, condition: &Expr, name: &str) -> Result<()> {
    let again = checks::parsed(&text_of(def, condition))?;
    if !Checks::is_condition(def, &again)? {
        return Err(SqlError::check_not_boolean(name));
    }
    Ok(())
}

/// Checks that no foreign key changes a column that a condition uses.
fn check_actions(def: &TableDef, condition: &Expr, name: &str) -> Result<()> {
    let acts = |key: &&ForeignKey| {
        let follows = |action| matches!(action, Action::Cascade | Action::SetNull);
        follows(key.on_update) || key.on_delete == Action::SetNull
    };
    for column in columns_of(condition) {
        let place = def.column(&column);
        let uses = |key: &&ForeignKey| {
            let mut columns = key.columns.iter();
            columns.any(|used| Some(usize::from(*used)) == place)
        };
        let mut keys = def.foreign_keys.iter().filter(acts);
        if let Some(key) = keys.find(uses) {
            return Err(SqlError::check_of_foreign_key(&column, name, &key.name));
        }
    }
    Ok(())
}

/// The rules that a condition keeps.
struct Rules<'a> {
    def: &'a TableDef,
    check: &'a Drafted,
    name: &'a str,
}

impl Rules<'_> {
    fn column(&self, column: &str) -> ControlFlow<SqlError> {
        if column.starts_with('@') {
            return ControlFlow::Break(SqlError::check_variable(self.name));
        }
        let Some(place) = self.def.column(column) else {
            return ControlFlow::Break(SqlError::check_unknown_column(self.name, column));
        };
        if self.def.is_auto_increment(place) {
            return ControlFlow::Break(SqlError::check_auto_increment(self.name));
        }
        let own = self.check.column.as_deref();
        if own.is_some_and(|own| !own.eq_ignore_ascii_case(column)) {
            return ControlFlow::Break(SqlError::check_other_column(self.name));
        }
        ControlFlow::Continue(())
    }
}

impl Visitor for Rules<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        ControlFlow::Break(SqlError::check_function(self.name))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Identifier(ident) => self.column(&ident.value),
            Expr::CompoundIdentifier(parts) => match parts.last() {
                _ if parts[0].value.starts_with('@') => {
                    ControlFlow::Break(SqlError::check_variable(self.name))
                }
                Some(column) => self.column(&column.value),
                None => ControlFlow::Continue(()),
            },
            Expr::Function(function) => {
                let function = function.name.to_string().to_lowercase();
                match FORBIDDEN.contains(&function.as_str()) {
                    true => ControlFlow::Break(SqlError::check_named_function(self.name, function)),
                    false => ControlFlow::Continue(()),
                }
            }
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                ControlFlow::Break(SqlError::check_function(self.name))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The columns that a condition names.
fn columns_of(condition: &Expr) -> Vec<String> {
    struct Columns(Vec<String>);
    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(ident) => self.0.push(ident.value.clone()),
                Expr::CompoundIdentifier(parts) => {
                    self.0.extend(parts.last().map(|part| part.value.clone()));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns(Vec::new());
    let _ = condition.visit(&mut columns);
    columns.0
}

/// A condition as the catalog keeps it: columns in backquotes as the table spells them, and operations in
/// parentheses.
fn text_of(def: &TableDef, condition: &Expr) -> String {
    struct Normal<'a>(&'a TableDef);
    impl VisitorMut for Normal<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expr
                && let Some(column) = parts.pop()
            {
                *expr = Expr::Identifier(column);
            }
            match expr {
                Expr::Identifier(ident) => {
                    if let Some(place) = self.0.column(&ident.value) {
                        let name = self.0.columns[place].name.replace('`', "``");
                        *ident = Ident::with_quote('`', name);
                    }
                }
                Expr::Value(value) => {
                    if let Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) =
                        &value.value
                    {
                        let text = text.replace('\\', "\\\\").replace('\'', "\\'");
                        value.value = Value::SingleQuotedString(text);
                    }
                }
                // Whoever needs them has them now.
                Expr::Nested(inner) if matches!(**inner, Expr::Nested(_)) => {
                    *expr = (**inner).clone();
                }
                Expr::BinaryOp { .. }
                | Expr::Between { .. }
                | Expr::InList { .. }
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::Like { .. }
                | Expr::RLike { .. } => {
                    let inner = Box::new(expr.clone());
                    *expr = Expr::Nested(inner);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut normal = condition.clone();
    let _ = VisitMut::visit(&mut normal, &mut Normal(def));
    match normal {
        Expr::Nested(_) => normal.to_string(),
        other => format!("({other})"),
    }
}
