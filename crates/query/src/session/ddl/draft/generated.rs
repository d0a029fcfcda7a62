//! Generated columns of a [`Draft`]: what their expressions may say.

use perigee_engine::catalog::{Action, ForeignKey, Generated, TableDef};
use perigee_value::Zone;
use sqlparser::ast::Expr;

use super::Draft;
use super::expression::{Part, judged, text_of};
use crate::error::{Result, SqlError};
use crate::session::generated::GeneratedColumns;
use crate::session::row_expr;

/// How the values of a column are computed.
#[derive(Clone)]
pub(in crate::session::ddl) struct Computed {
    pub expr: Expr,
    /// STORED, not VIRTUAL.
    pub stored: bool,
}

impl Computed {
    /// That of a column which the table has.
    pub(super) fn of(generated: &Generated) -> Result<Self> {
        Ok(Self {
            expr: row_expr::parsed(&generated.expression)?,
            stored: generated.stored,
        })
    }
}

/// Checks that a column may come to be computed so, or not at all, from what it was.
///
/// # Errors
/// 3106.
pub(super) fn check_change(before: Option<&Computed>, after: Option<&Computed>) -> Result<()> {
    let is_virtual = |computed: Option<&Computed>| computed.is_some_and(|c| !c.stored);
    match is_virtual(before) == is_virtual(after) {
        true => Ok(()),
        false => Err(SqlError::generated_unsupported(
            "Changing the STORED status",
        )),
    }
}

impl Draft {
    /// Gives the definition, which is complete but for that, the expressions of its generated columns.
    ///
    /// # Errors
    /// 3102 to 3109 for what an expression may not say; 1054.
    pub(super) fn define_generated(&self, def: &mut TableDef) -> Result<()> {
        let computed = || {
            let columns = self.columns.iter().enumerate();
            columns.filter_map(|(place, column)| Some((place, column.computed.as_ref()?)))
        };
        // Which columns are generated is known before their expressions are looked at.
        for (place, computed) in computed() {
            def.columns[place].generated = Some(Generated {
                expression: String::new(),
                stored: computed.stored,
            });
        }
        for (place, computed) in computed() {
            let parts = |part: Part<'_>| match part {
                Part::Column(column) => self.check_source(def, place, column),
                _ => Err(SqlError::generated_function(&def.columns[place].name)),
            };
            judged(&computed.expr, parts)?;
        }
        for (place, computed) in computed() {
            let expression = text_of(def, &computed.expr);
            def.columns[place].generated = Some(Generated {
                expression,
                stored: computed.stored,
            });
        }
        Ok(())
    }

    /// Checks a column that the one at `place` is computed from.
    fn check_source(&self, def: &TableDef, place: usize, column: &str) -> Result<()> {
        let Some(from) = def.column(column) else {
            let before = self.before.as_ref();
            return Err(
                match before.is_some_and(|def| def.column(column).is_some()) {
                    true => SqlError::generated_dependency(column),
                    false => SqlError::unknown_column(column, "generated column function"),
                },
            );
        };
        if def.is_auto_increment(from) {
            return Err(SqlError::generated_auto_increment(&def.columns[place].name));
        }
        match def.columns[from].generated.is_some() && from >= place {
            true => Err(SqlError::generated_order()),
            false => Ok(()),
        }
    }
}

/// Checks that generated columns depend on their rows alone, and that no key makes something of one that it cannot be.
pub(super) fn check_keys(def: &TableDef) -> Result<()> {
    if let Some(column) = GeneratedColumns::zoned(def)? {
        let what = match column.hidden {
            Some(_) => "a key of an expression that depends on the time zone".to_owned(),
            None => {
                let name = &column.name;
                format!("the VIRTUAL column {name}, which depends on the time zone")
            }
        };
        return Err(SqlError::not_supported(what));
    }
    let Some(generated) = GeneratedColumns::of(def, Zone::Utc)? else {
        return Ok(());
    };
    let is_virtual = |place: &u16| {
        let column = &def.columns[usize::from(*place)];
        column.generated.as_ref().is_some_and(|g| !g.stored)
    };
    if def.primary_key.iter().any(is_virtual) {
        let action = "Defining a virtual generated column as primary key";
        return Err(SqlError::generated_unsupported(action));
    }
    for key in &def.foreign_keys {
        let Some(action) = changing_action(key) else {
            continue;
        };
        let columns = || key.columns.iter().map(|place| usize::from(*place));
        if columns().any(|place| def.columns[place].generated.is_some()) {
            return Err(SqlError::generated_foreign_key(action));
        }
        if columns().any(|place| generated.uses_in_keys(def, place)) {
            let what = "a key of a prefix or an expression of a column that a foreign key changes";
            return Err(SqlError::not_supported(what));
        }
        if columns().any(|place| generated.uses(place)) {
            return Err(SqlError::cannot_add_foreign_key());
        }
    }
    Ok(())
}

/// What a foreign key does that changes the columns of its table.
fn changing_action(key: &ForeignKey) -> Option<String> {
    let changes = |action| matches!(action, Action::Cascade | Action::SetNull);
    if changes(key.on_update) {
        return Some(format!("ON UPDATE {}", key.on_update.sql()));
    }
    (key.on_delete == Action::SetNull).then(|| format!("ON DELETE {}", key.on_delete.sql()))
}
