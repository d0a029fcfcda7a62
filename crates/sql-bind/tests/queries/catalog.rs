//! A catalog of a few tables, and a session without variables.

use std::sync::Arc;

use perigee_sql_bind::query::{Catalog, Query, QueryError, TableColumn, TableDefinition, bind};
use perigee_sql_bind::{BindError, ColumnOf, Environment, Result};
use perigee_sql_type::SqlType;
use perigee_value::{Collation, ColumnType};
use sqlparser::ast::{Expr, Ident, Statement};
use sqlparser::dialect::{Dialect, GenericDialect, MySqlDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// A session with a catalog.
pub struct Session {
    tables: Vec<(&'static str, Arc<TableDefinition>)>,
    /// The mode of that name.
    pub only_full_group_by: bool,
}

fn table(
    name: &'static str,
    columns: &[(&str, SqlType)],
    unique_keys: &[&[usize]],
) -> (&'static str, Arc<TableDefinition>) {
    let columns = columns.iter().map(|(name, ty)| TableColumn {
        name: (*name).into(),
        ty: ty.clone(),
        visible: !name.starts_with("hidden"),
        hidden: false,
        expression: None,
    });
    let definition = TableDefinition {
        denied: Vec::new(),
        columns: columns.collect(),
        unique_keys: unique_keys.iter().map(|key| key.to_vec()).collect(),
        indexes: vec!["primary".into(), "by_a".into()],
        invisible_indexes: Vec::new(),
        stored_in: None,
    };
    (name, Arc::new(definition))
}

/// `t` and `u` of three integers, `s` of strings, `m` of money and moments, `h` with an invisible column.
pub fn catalog() -> Session {
    let int = || SqlType::int().nullable(true);
    let id = || SqlType::int().nullable(false);
    let text = |collation| {
        SqlType::of(ColumnType::Varchar {
            chars: 20,
            collation,
        })
    };
    let money = SqlType::of(ColumnType::Decimal {
        precision: 10,
        scale: 2,
    });
    let tables = vec![
        table("t", &[("id", id()), ("a", int()), ("b", int())], &[&[0]]),
        table("u", &[("id", id()), ("c", int()), ("d", int())], &[&[0]]),
        table(
            "s",
            &[
                ("id", id()),
                ("v", text(Collation::UTF8MB4_BIN)),
                ("w", text(Collation::UTF8MB4_GENERAL_CI)),
            ],
            &[&[0]],
        ),
        table(
            "m",
            &[
                ("id", id()),
                ("price", money),
                ("day", SqlType::of(ColumnType::Date)),
                ("f", SqlType::of(ColumnType::Double)),
            ],
            &[&[0]],
        ),
        table("h", &[("x", int()), ("hidden", int())], &[]),
    ];
    Session {
        tables,
        only_full_group_by: true,
    }
}

impl Catalog for Session {
    fn current_schema(&self) -> Option<&str> {
        Some("test")
    }

    fn table(&self, schema: &str, table: &str) -> Result<Arc<TableDefinition>> {
        if schema != "test" {
            return Err(QueryError::UnknownSchema(schema.to_owned()).into());
        }
        let found = self.tables.iter().find(|(name, _)| *name == table);
        let unknown = || QueryError::NoSuchTable(schema.to_owned(), table.to_owned());
        Ok(found.ok_or_else(unknown)?.1.clone())
    }

    fn only_full_group_by(&self) -> bool {
        self.only_full_group_by
    }
}

impl Environment for Session {
    fn column(&self, name: &[Ident]) -> Result<ColumnOf> {
        Err(BindError::UnknownColumn(name[0].value.clone()))
    }

    fn variable(&self, _: Option<&str>, name: &str) -> Result<Expr> {
        Err(BindError::NotSupported(name.to_owned()))
    }

    fn session_function(&self, _: &str) -> Option<Expr> {
        None
    }

    fn now(&self) -> perigee_value::Now {
        perigee_value::Now::default()
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The meaning of a query.
pub fn bound(sql: &str, session: &Session) -> Result<Query> {
    stacker::grow(1 << 30, || {
        // sqlparser's dialect of MySQL does not know WITH ROLLUP.
        let dialect: &dyn Dialect = match sql.contains(" WITH ROLLUP") {
            true => &GenericDialect {},
            false => &MySqlDialect {},
        };
        let parser = Parser::new(dialect).with_recursion_limit(1 << 20);
        let mut parser = parser.try_with_sql(sql).unwrap();
        let statement = parser.parse_statement();
        let statement = statement.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(
            parser.peek_token().token == Token::EOF,
            "{sql}: not read to its end"
        );
        match &statement {
            Statement::Query(query) => bind(query, session, session),
            other => panic!("no query: {other}"),
        }
    })
}
