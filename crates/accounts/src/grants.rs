//! [`Grants`]: what one account may do, as statements ask for it.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::host::matches;
use crate::{Level, Privileges, RoutineKind, Scope};

/// What an account may do, by itself and by its active roles. Names of schemas, tables, columns and routines are in
/// lower case.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    global: Privileges,
    /// All that can be granted for a table is granted everywhere.
    all_tables: bool,
    /// Of the account and of each role: patterns of schemas, the most specific first; the first that fits decides.
    schemas: Vec<Vec<(String, Privileges)>>,
    /// By schema and table.
    tables: HashMap<String, HashMap<String, OfTable>>,
    /// By schema and routine.
    routines: HashMap<String, HashMap<(RoutineKind, String), Privileges>>,
}

/// What is granted for a table and for its columns.
#[derive(Clone, Debug, Default)]
struct OfTable {
    own: Privileges,
    /// All that is granted for columns.
    of_columns: Privileges,
    columns: HashMap<String, Privileges>,
}

impl Grants {
    /// Adds what is granted to the account or to a role: everywhere, and at levels.
    pub(crate) fn add<'a>(
        &mut self,
        global: Privileges,
        levels: impl Iterator<Item = (&'a Level, Privileges)>,
    ) {
        self.global = self.global.with(global);
        self.all_tables = self.global.has(Privileges::all_at(Scope::Table));
        let mut schemas = Vec::new();
        for (level, privileges) in levels {
            match level {
                Level::Global => {}
                Level::Schema(schema) => schemas.push((schema.clone(), privileges)),
                Level::Table(schema, table) => {
                    let of_table = self.of_table(schema, table);
                    of_table.own = of_table.own.with(privileges);
                }
                Level::Column(schema, table, column) => {
                    let of_table = self.of_table(schema, table);
                    of_table.of_columns = of_table.of_columns.with(privileges);
                    let of_column = of_table.columns.entry(column.clone()).or_default();
                    *of_column = of_column.with(privileges);
                }
                Level::Routine(kind, schema, name) => {
                    let of_schema = self.routines.entry(schema.clone()).or_default();
                    let of_routine = of_schema.entry((*kind, name.clone())).or_default();
                    *of_routine = of_routine.with(privileges);
                }
            }
        }
        if schemas.is_empty() {
            return;
        }
        schemas.sort_by_key(|(pattern, _)| {
            let first = pattern.find(['%', '_']).unwrap_or(usize::MAX);
            (Reverse(first), Reverse(pattern.len()))
        });
        self.schemas.push(schemas);
    }

    fn of_table(&mut self, schema: &str, table: &str) -> &mut OfTable {
        let tables = self.tables.entry(schema.to_owned()).or_default();
        tables.entry(table.to_owned()).or_default()
    }

    /// True if every table may be read and changed in every way: nothing else needs to be asked of it.
    #[must_use]
    pub fn has_all_tables(&self) -> bool {
        self.all_tables
    }

    /// What is granted everywhere.
    #[must_use]
    pub fn global(&self) -> Privileges {
        self.global
    }

    /// What is granted everywhere or for a schema.
    #[must_use]
    pub fn on_schema(&self, schema: &str) -> Privileges {
        let fits = |pattern: &str| matches(pattern.as_bytes(), schema.as_bytes());
        self.schemas.iter().fold(self.global, |all, own| {
            let exact = own.iter().find(|(pattern, _)| pattern == schema);
            let fitting = || own.iter().find(|(pattern, _)| fits(pattern));
            let found = exact.or_else(fitting).map(|(_, own)| *own);
            all.with(found.unwrap_or_default())
        })
    }

    fn table(&self, schema: &str, table: &str) -> Option<&OfTable> {
        self.tables.get(schema)?.get(table)
    }

    /// What is granted everywhere, for a table's schema or for the table.
    #[must_use]
    pub fn on_table(&self, schema: &str, table: &str) -> Privileges {
        let own = self.table(schema, table).map(|of_table| of_table.own);
        self.on_schema(schema).with(own.unwrap_or_default())
    }

    /// What is granted for a table, or for one of its columns at least.
    #[must_use]
    pub fn somewhere_on_table(&self, schema: &str, table: &str) -> Privileges {
        let of_columns = self.table(schema, table).map(|own| own.of_columns);
        self.on_table(schema, table)
            .with(of_columns.unwrap_or_default())
    }

    /// What is granted for a column, for its table and beyond.
    #[must_use]
    pub fn on_column(&self, schema: &str, table: &str, column: &str) -> Privileges {
        let columns = self.table(schema, table).map(|own| &own.columns);
        let own = columns.and_then(|columns| columns.get(column)).copied();
        self.on_table(schema, table).with(own.unwrap_or_default())
    }

    /// What is granted everywhere, for a routine's schema or for the routine.
    #[must_use]
    pub fn on_routine(&self, kind: RoutineKind, schema: &str, name: &str) -> Privileges {
        let own = self.routines.get(schema).and_then(|routines| {
            let name = (kind, name.to_owned());
            routines.get(&name).copied()
        });
        self.on_schema(schema).with(own.unwrap_or_default())
    }

    /// True if something in a schema may be used, so that it may be seen and made the current one.
    #[must_use]
    pub fn sees_schema(&self, schema: &str) -> bool {
        let any = Privileges::all_at(Scope::Schema);
        self.on_schema(schema).has_any(any)
            || self.tables.contains_key(schema)
            || self.routines.contains_key(schema)
    }

    /// True if a table may be used in some way, so that it may be seen.
    #[must_use]
    pub fn sees_table(&self, schema: &str, table: &str) -> bool {
        let any = Privileges::all_at(Scope::Table);
        self.all_tables || self.somewhere_on_table(schema, table).has_any(any)
    }

    /// True if a column may be used in some way, so that it may be seen.
    #[must_use]
    pub fn sees_column(&self, schema: &str, table: &str, column: &str) -> bool {
        let any = Privileges::OF_COLUMNS;
        self.all_tables || self.on_column(schema, table, column).has_any(any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(global: Privileges, levels: &[(Level, Privileges)]) -> Grants {
        let mut grants = Grants::default();
        grants.add(global, levels.iter().map(|(level, own)| (level, *own)));
        grants
    }

    #[test]
    fn the_most_specific_pattern_of_a_schema_decides() {
        let schema = |name: &str| Level::Schema(name.into());
        let grants = grants(
            Privileges::PROCESS,
            &[
                (schema("%"), Privileges::SELECT),
                (schema("sales%"), Privileges::INSERT),
                (schema("sales_1"), Privileges::UPDATE),
                (schema("hr\\_x"), Privileges::DELETE),
            ],
        );
        for (name, expected) in [
            ("other", Privileges::SELECT),
            ("sales", Privileges::INSERT),
            ("salesx1", Privileges::UPDATE),
            ("sales_1", Privileges::UPDATE),
            ("hr_x", Privileges::DELETE),
            ("hrxx", Privileges::SELECT),
        ] {
            assert_eq!(
                grants.on_schema(name),
                expected.with(Privileges::PROCESS),
                "{name}"
            );
        }
    }

    #[test]
    fn a_grant_for_a_table_shows_it_and_its_schema_only() {
        let table = Level::Table("m".into(), "t".into());
        let grants = grants(Privileges::PROCESS, &[(table, Privileges::SELECT)]);
        assert!(grants.on_table("m", "t").has(Privileges::SELECT));
        assert!(!grants.on_table("m", "u").has(Privileges::SELECT));
        assert!(grants.sees_table("m", "t") && !grants.sees_table("m", "u"));
        assert!(grants.sees_schema("m") && !grants.sees_schema("n"));
        assert!(!grants.has_all_tables());
    }

    #[test]
    fn who_has_everything_need_not_be_asked() {
        let all = grants(Privileges::everything(), &[]);
        assert!(all.has_all_tables() && all.sees_table("m", "t") && all.sees_schema("m"));
        assert!(!grants(Privileges::NONE, &[]).sees_schema("m"));
    }

    #[test]
    fn columns_and_routines_have_grants_of_their_own() {
        let column = |name: &str| Level::Column("m".into(), "t".into(), name.into());
        let procedure = Level::Routine(RoutineKind::Procedure, "n".into(), "p".into());
        let grants = grants(
            Privileges::NONE,
            &[
                (column("a"), Privileges::SELECT),
                (column("b"), Privileges::UPDATE),
                (procedure, Privileges::EXECUTE),
            ],
        );
        assert!(grants.on_table("m", "t").is_none() && grants.sees_table("m", "t"));
        let both = Privileges::SELECT.with(Privileges::UPDATE);
        assert_eq!(grants.somewhere_on_table("m", "t"), both);
        assert_eq!(grants.on_column("m", "t", "a"), Privileges::SELECT);
        assert!(grants.sees_column("m", "t", "b") && !grants.sees_column("m", "t", "c"));
        let on = |kind| grants.on_routine(kind, "n", "p");
        assert_eq!(on(RoutineKind::Procedure), Privileges::EXECUTE);
        assert!(on(RoutineKind::Function).is_none() && grants.sees_schema("n"));
    }

    #[test]
    fn each_grantee_decides_by_its_own_patterns() {
        let schema = |name: &str| Level::Schema(name.into());
        let mut both = grants(Privileges::NONE, &[(schema("s%"), Privileges::SELECT)]);
        let role = [(schema("sales"), Privileges::INSERT)];
        both.add(
            Privileges::NONE,
            role.iter().map(|(level, own)| (level, *own)),
        );
        let all = Privileges::SELECT.with(Privileges::INSERT);
        assert_eq!(both.on_schema("sales"), all);
        assert_eq!(both.on_schema("s1"), Privileges::SELECT);
    }
}
