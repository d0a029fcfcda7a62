//! Expressions by both ways from text to a plan: as the binder understands them, and as DataFusion plans the rewritten
//! syntax tree. Rows and types are the same.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, SetExpr, Statement};
use datafusion::sql::sqlparser::parser::Parser;
use perigee_sql_bind::query::{
    Column, Operator, Query, Relation, Table, TableColumn, TableDefinition,
};
use perigee_sql_bind::{BindError, Binder, ColumnOf, Environment};
use perigee_sql_type::SqlType;
use perigee_value::{Collation, ColumnType};

use super::{Subqueries, planned};
use crate::error::{Result, SqlError};
use crate::parse::Grammar;
use crate::plan::rewrite::ACCESS_SEPARATOR;
use crate::plan::select::Planned;
use crate::plan::state::CATALOG;
use crate::plan::tests::{rows, run, session};

/// The columns of the table `t` of the fixture.
fn columns() -> Vec<(&'static str, ColumnType)> {
    let collation = Collation::UTF8MB4_BIN;
    vec![
        (
            "Id",
            ColumnType::Int {
                bytes: 4,
                unsigned: false,
            },
        ),
        (
            "d",
            ColumnType::Decimal {
                precision: 15,
                scale: 2,
            },
        ),
        (
            "v",
            ColumnType::Varchar {
                chars: 10,
                collation,
            },
        ),
        (
            "c",
            ColumnType::Char {
                chars: 10,
                collation,
            },
        ),
        ("day", ColumnType::Date),
    ]
}

/// Names of the columns of `t`.
struct Names;

impl Environment for Names {
    fn column(&self, name: &[Ident]) -> perigee_sql_bind::Result<ColumnOf> {
        let name = name.last().unwrap().value.to_lowercase();
        let columns = columns();
        let place = columns
            .iter()
            .position(|(own, _)| own.to_lowercase() == name);
        let place = place.ok_or(BindError::UnknownColumn(name))?;
        let ty = SqlType::of(columns[place].1);
        Ok(ColumnOf { place, ty })
    }

    fn variable(&self, _: Option<&str>, name: &str) -> perigee_sql_bind::Result<Expr> {
        Err(BindError::NotSupported(name.to_owned()))
    }

    fn user_variable(&self, _: &str) -> Expr {
        Expr::value(datafusion::sql::sqlparser::ast::Value::Null)
    }

    fn session_function(&self, _: &str) -> Option<Expr> {
        None
    }

    fn now(&self) -> i64 {
        0
    }

    fn check(&self) -> perigee_sql_bind::Result<()> {
        Ok(())
    }
}

/// The query `SELECT expression FROM t`.
fn query(expression: &str) -> perigee_sql_bind::Result<Query> {
    let sql = format!("SELECT {expression}");
    let statements = Parser::parse_sql(&Grammar, &sql).unwrap();
    let Statement::Query(query) = &statements[0] else {
        panic!("{sql}")
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        panic!("{sql}")
    };
    let SelectItem::UnnamedExpr(expr) = &select.projection[0] else {
        panic!("{sql}")
    };
    let scalar = Binder::new(&Names).expression(expr)?;
    let column = |name: &str, ty: SqlType| Column {
        name: name.into(),
        table: None,
        origin: None,
        ty,
    };
    let of_table = columns();
    let definition = TableDefinition {
        columns: of_table
            .iter()
            .map(|(name, ty)| TableColumn {
                name: (*name).into(),
                ty: SqlType::of(*ty),
                visible: true,
            })
            .collect(),
        unique_keys: Vec::new(),
        indexes: Vec::new(),
    };
    let table = Arc::new(Table {
        reference: 0,
        select: 1,
        schema: "test".into(),
        name: "t".into(),
        alias: "t".into(),
        definition: Arc::new(definition),
        index_hints: Vec::new(),
        hints: Vec::new(),
    });
    let all = of_table
        .iter()
        .map(|(name, ty)| column(name, SqlType::of(*ty)));
    let rows = Relation {
        operator: Operator::Table(table.clone()),
        columns: all.collect(),
    };
    let output = column("x", scalar.ty.clone());
    Ok(Query {
        body: Relation {
            operator: Operator::Project {
                input: Box::new(rows),
                expressions: vec![scalar],
            },
            columns: [output].into(),
        },
        tables: vec![table],
        locks: Vec::new(),
        hints: Vec::new(),
        warnings: Vec::new(),
    })
}

async fn lowered(query: &Query) -> Result<Planned> {
    let session = session();
    let catalog = session.catalog_list().catalog(CATALOG).unwrap();
    let name = format!("t{ACCESS_SEPARATOR}0");
    let table = catalog.schema("test").unwrap().table(&name).await?.unwrap();
    Ok(planned(
        query,
        &[provider_as_source(table)],
        Subqueries::Joined,
        1000,
    )?)
}

/// Both outcomes, if the binder knows the expression.
async fn both(expression: &str) -> Option<[std::result::Result<Vec<String>, u16>; 2]> {
    let old = run(&format!("SELECT {expression} FROM t")).await;
    let new = match query(expression) {
        Err(error) if error.number() == 1235 => return None,
        Err(error) => Err(SqlError::from(error)),
        Ok(query) => match lowered(&query).await {
            Ok(planned) => rows(&session(), planned).await,
            Err(error) => Err(error),
        },
    };
    let old = old.map(|(_, rows)| rows).map_err(|error| error.errno);
    Some([old, new.map_err(|error| error.errno)])
}

#[tokio::test]
async fn expressions_are_planned_alike() {
    let constants = include_str!("../testdata/constants.txt");
    let constants = constants
        .lines()
        .filter_map(|line| line.rsplit_once(" => "));
    let expressions = include_str!("../testdata/expressions.txt").lines();
    let all = constants
        .map(|(expression, _)| expression)
        .chain(expressions);
    let (mut planned, mut unknown) = (0, 0);
    let mut failures = Vec::new();
    for expression in all.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match both(expression).await {
            None => unknown += 1,
            Some([old, new]) if old == new => planned += 1,
            // More is possible now.
            Some([Err(1235), Ok(_)]) => planned += 1,
            Some([old, new]) => failures.push(format!("{expression}: {old:?}, now {new:?}")),
        }
    }
    let count = failures.len();
    assert!(
        failures.is_empty(),
        "{count} of {planned}:\n{}",
        failures.join("\n")
    );
    assert!(
        planned > 10 * unknown,
        "{planned} planned, {unknown} unknown"
    );
}
