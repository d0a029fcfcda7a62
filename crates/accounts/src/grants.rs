//! [`Grants`]: what one account may do, as statements ask for it.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::host::matches;
use crate::{Level, Privileges, Scope};

/// What an account may do. Names of schemas and tables are in lower case.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    global: Privileges,
    /// All that can be granted for a table is granted everywhere.
    all_tables: bool,
    /// Patterns of schemas, the most specific first; the first that fits decides.
    schemas: Vec<(String, Privileges)>,
    /// By schema and table.
    tables: HashMap<String, HashMap<String, Privileges>>,
}

impl Grants {
    /// Of what is granted everywhere, for schemas and for tables.
    pub(crate) fn new<'a>(
        global: Privileges,
        levels: impl Iterator<Item = (&'a Level, Privileges)>,
    ) -> Self {
        let mut grants = Self {
            global,
            all_tables: global.has(Privileges::all_at(Scope::Table)),
            ..Self::default()
        };
        for (level, privileges) in levels {
            match level {
                Level::Global => {}
                Level::Schema(schema) => grants.schemas.push((schema.clone(), privileges)),
                Level::Table(schema, table) => {
                    let tables = grants.tables.entry(schema.clone()).or_default();
                    tables.insert(table.clone(), privileges);
                }
            }
        }
        grants.schemas.sort_by_key(|(pattern, _)| {
            let first = pattern.find(['%', '_']).unwrap_or(usize::MAX);
            (Reverse(first), Reverse(pattern.len()))
        });
        grants
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
        let exact = self.schemas.iter().find(|(pattern, _)| pattern == schema);
        let fits = |pattern: &str| matches(pattern.as_bytes(), schema.as_bytes());
        let fitting = || self.schemas.iter().find(|(pattern, _)| fits(pattern));
        let own = exact.or_else(fitting).map(|(_, own)| *own);
        self.global.with(own.unwrap_or_default())
    }

    /// What is granted everywhere, for a table's schema or for the table.
    #[must_use]
    pub fn on_table(&self, schema: &str, table: &str) -> Privileges {
        let tables = self.tables.get(schema);
        let own = tables.and_then(|tables| tables.get(table)).copied();
        self.on_schema(schema).with(own.unwrap_or_default())
    }

    /// True if something in a schema may be used, so that it may be seen and made the current one.
    #[must_use]
    pub fn sees_schema(&self, schema: &str) -> bool {
        let any = Privileges::all_at(Scope::Schema);
        self.on_schema(schema).has_any(any) || self.tables.contains_key(schema)
    }

    /// True if a table may be used in some way, so that it may be seen.
    #[must_use]
    pub fn sees_table(&self, schema: &str, table: &str) -> bool {
        let any = Privileges::all_at(Scope::Table);
        self.all_tables || self.on_table(schema, table).has_any(any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(global: Privileges, levels: &[(Level, Privileges)]) -> Grants {
        Grants::new(global, levels.iter().map(|(level, own)| (level, *own)))
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
}
