//! The views over facts that the tests make up.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Arc;

use perigee_accounts::{Account, AccountName, Accounts, Level, Privileges, RoleGrant, RoutineKind};
use perigee_value::{Collation, ColumnType, Datum};

use super::*;

/// Root with a role that has something at each level.
fn accounts() -> (Accounts, RoleFacts) {
    let mut all = Accounts::first();
    let user = AccountName::new("root", "localhost");
    let role = AccountName::new("role", "%");
    all.put(role.clone(), Account::default());
    assert_eq!(all.grant_role(&role, &user, true), RoleGrant::Done);
    assert!(all.add_default_role(&user, role.clone()));
    let (schema, table) = ("shop".to_owned(), "t".to_owned());
    for level in [
        Level::Schema(schema.clone()),
        Level::Table(schema.clone(), table.clone()),
        Level::Column(schema.clone(), table.clone(), "a".into()),
        Level::Routine(RoutineKind::Function, schema, table),
    ] {
        assert!(all.grant(&role, &level, Privileges::everything()));
    }
    let roles = RoleFacts {
        accounts: Arc::new(all.clone()),
        account: Some(user),
        active: vec![role],
        mandatory: Vec::new(),
    };
    (all, roles)
}

#[test]
fn roles_and_what_they_have_are_told() {
    let (accounts, roles) = accounts();
    let facts = Facts {
        accounts,
        roles,
        ..Facts::default()
    };
    for (schema, name) in [
        ("information_schema", "APPLICABLE_ROLES"),
        ("information_schema", "ADMINISTRABLE_ROLE_AUTHORIZATIONS"),
        ("information_schema", "ENABLED_ROLES"),
        ("information_schema", "ROLE_TABLE_GRANTS"),
        ("information_schema", "ROLE_COLUMN_GRANTS"),
        ("information_schema", "ROLE_ROUTINE_GRANTS"),
        ("mysql", "role_edges"),
        ("mysql", "default_roles"),
        ("mysql", "tables_priv"),
        ("mysql", "columns_priv"),
        ("mysql", "procs_priv"),
    ] {
        assert_eq!(find(schema, name).unwrap().rows(&facts).len(), 1, "{name}");
    }
}

#[test]
fn every_value_is_of_its_columns_type() {
    let (accounts, roles) = accounts();
    let named = |name: &str| NamedValue {
        name: name.to_owned(),
        value: "1".to_owned(),
    };
    let facts = Facts {
        schemas: vec![("shop".to_owned(), Collation::UTF8MB4_BIN)],
        view_schemas: SCHEMAS.to_vec(),
        accounts,
        roles,
        connections: vec![Connection {
            id: 7,
            user: "root".to_owned(),
            host: "localhost:1".to_owned(),
            schema: None,
            command: "Query".to_owned(),
            seconds: 3,
            statement: Some("SELECT 1".to_owned()),
        }],
        digests: vec![DigestFacts {
            schema: Some("shop".to_owned()),
            last_seen: 1,
            ..DigestFacts::default()
        }],
        session_variables: vec![named("a")],
        global_variables: vec![named("b")],
        session_status: vec![named("c")],
        global_status: vec![named("d")],
        ..Facts::default()
    };
    for view in all() {
        let def = view.definition();
        for row in view.rows(&facts) {
            assert_eq!(row.len(), def.columns.len(), "{}", view.name());
            for (value, column) in row.iter().zip(&def.columns) {
                let fits = match (value, column.ty) {
                    (Datum::Null, _) => column.nullable,
                    (Datum::UInt(_), ColumnType::Int { unsigned, .. }) => unsigned,
                    (Datum::Int(_), ColumnType::Int { unsigned, .. }) => !unsigned,
                    (Datum::DateTime(_), ColumnType::DateTime { .. }) => true,
                    (Datum::String(_), ColumnType::Varchar { .. } | ColumnType::Long { .. }) => {
                        true
                    }
                    _ => false,
                };
                assert!(fits, "{}.{}: {value:?}", view.name(), column.name);
            }
        }
    }
}

#[test]
fn names_are_found_without_case_and_stand_once() {
    assert!(find("INFORMATION_SCHEMA", "tables").is_some());
    assert!(find("information_schema", "nothing").is_none());
    assert!(is_schema("Performance_Schema") && !is_schema("shop"));
    let mut names = BTreeSet::new();
    for view in all() {
        assert!(
            names.insert((view.schema(), view.name().to_lowercase())),
            "{}",
            view.name()
        );
        assert!(is_schema(view.schema()));
        let def = view.definition();
        let columns: BTreeSet<_> = def
            .columns
            .iter()
            .map(|column| column.name.to_lowercase())
            .collect();
        assert_eq!(columns.len(), def.columns.len(), "{}", view.name());
    }
}

#[test]
fn views_describe_themselves() {
    let columns = find("information_schema", "COLUMNS").expect("it is there");
    let def = columns.definition();
    let name = def.column("COLUMN_NAME").expect("it is there");
    let facts = Facts {
        view_schemas: SCHEMAS.to_vec(),
        ..Facts::default()
    };
    let rows = columns.rows(&facts);
    let all: usize = all().map(|view| view.definition().columns.len()).sum();
    assert_eq!(rows.len(), all);
    assert!(
        rows.iter()
            .any(|row| row[name] == Datum::String(b"GENERATION_EXPRESSION".to_vec()))
    );
}
