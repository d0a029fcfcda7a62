//! Tests of planning.

#![allow(clippy::unwrap_used, reason = "tests")]
//! Expressions over constants and a small table: values, names and errors as MariaDB gives them.

use perigee_sql_bind::Modes;
use std::sync::Arc;

use crate::parse::Grammar;
use datafusion::arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, RecordBatch, StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{collect, displayable};
use perigee_expr::scalar::{Context, value_type};
use perigee_sql_bind::query::{
    Catalog, Operator, Query, QueryError, TableColumn, TableDefinition, bind,
};
use perigee_sql_bind::{BindError, ColumnOf, Environment};
use perigee_sql_type::SqlType;
use perigee_value::{Collation, ColumnType};
use sqlparser::ast::{Expr, Ident, Statement, Value};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Tokenizer};

use super::lower::{Planned, Subqueries, planned};
use super::{metadata, state};
use crate::error::{Result, SqlError};
use crate::functions::library::{self, Running};
use crate::functions::results::Results;
use crate::functions::text::to_text;
use crate::parse::{SelectLists, Source};

/// A session with tables.
struct Fixture<'t> {
    lists: SelectLists<'t>,
    table: Tables<'t>,
}

/// The tables of the schema `test` by their names.
type Tables<'t> = &'t dyn Fn(&str) -> Option<TableDefinition>;

impl Environment for Fixture<'_> {
    fn column(&self, name: &[Ident]) -> perigee_sql_bind::Result<ColumnOf> {
        Err(BindError::UnknownColumn(name[0].value.clone()))
    }

    fn variable(&self, _: Option<&str>, name: &str) -> perigee_sql_bind::Result<Expr> {
        match name {
            "version" => Ok(Expr::value(Value::SingleQuotedString("8.0".into()))),
            _ => Err(BindError::UnknownVariable(name.to_owned())),
        }
    }

    fn session_function(&self, name: &str) -> Option<Expr> {
        (name == "database").then(|| Expr::value(Value::SingleQuotedString("test".into())))
    }

    fn now(&self) -> perigee_value::Now {
        perigee_value::Now::default()
    }

    fn check(&self) -> perigee_sql_bind::Result<()> {
        Ok(())
    }
}

impl Catalog for Fixture<'_> {
    fn current_schema(&self) -> Option<&str> {
        Some("test")
    }

    fn table(&self, schema: &str, table: &str) -> perigee_sql_bind::Result<Arc<TableDefinition>> {
        let found = (self.table)(table).map(Arc::new);
        found.ok_or_else(|| QueryError::NoSuchTable(schema.to_owned(), table.to_owned()).into())
    }

    fn item_texts(&self, select: Location) -> Vec<String> {
        let items = self.lists.items(select).into_iter();
        items.map(str::to_owned).collect()
    }
}

/// The table `t`.
fn table(name: &str) -> Option<TableDefinition> {
    let column = |(name, ty): &(&str, ColumnType)| TableColumn {
        name: (*name).into(),
        ty: SqlType::of(*ty),
        visible: true,
        hidden: false,
        expression: None,
    };
    (name == "t").then(|| TableDefinition {
        denied: Vec::new(),
        columns: columns().iter().map(column).collect(),
        unique_keys: Vec::new(),
        indexes: Vec::new(),
        invisible_indexes: Vec::new(),
        stored_in: None,
    })
}

/// The columns of `t`.
fn columns() -> [(&'static str, ColumnType); 5] {
    let collation = Collation::UTF8MB4_BIN;
    let chars = 10;
    [
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
        ("v", ColumnType::Varchar { chars, collation }),
        ("c", ColumnType::Char { chars, collation }),
        ("day", ColumnType::Date),
    ]
}

fn batch() -> RecordBatch {
    let column = |name: &str, ty: DataType, mysql: &str| {
        let origin = metadata::Origin {
            schema: "test".into(),
            table: "t".into(),
            column: name.into(),
            ty: mysql.into(),
            flags: 0,
        };
        Field::new(name.to_lowercase(), ty, true).with_metadata(metadata::of_column(&origin, None))
    };
    let schema = Schema::new(vec![
        column("Id", DataType::Int32, "int"),
        column("d", DataType::Decimal128(15, 2), "decimal(15,2)"),
        column("v", DataType::Utf8View, "varchar(10)"),
        column("c", DataType::Utf8View, "char(10)"),
        column("day", DataType::Date32, "date"),
    ]);
    let strings =
        |values: [Option<&str>; 4]| -> ArrayRef { Arc::new(StringViewArray::from_iter(values)) };
    let decimals = Decimal128Array::from(vec![Some(200), Some(200), Some(100), None]);
    RecordBatch::try_new(
        Arc::new(schema),
        vec![
            Arc::new(Int32Array::from(vec![1, 2, 3, 4])),
            Arc::new(decimals.with_precision_and_scale(15, 2).unwrap()),
            strings([Some("a"), Some("a "), Some("5x"), None]),
            strings([Some("x"), Some("x"), Some("y"), None]),
            Arc::new(Date32Array::from(vec![
                Some(8997),
                Some(9000),
                Some(0),
                None,
            ])),
        ],
    )
    .unwrap()
}

fn session() -> SessionState {
    let rules = PhysicalOptimizer::default().rules;
    state::template(2, Arc::new(RuntimeEnv::default()), rules)
}

/// The meaning of a query.
pub(crate) fn bound(sql: &str, table: Tables<'_>) -> Result<Query> {
    let tokens = Tokenizer::new(Grammar::of(Modes::NONE), sql)
        .tokenize_with_location()
        .unwrap();
    let mut parser =
        Parser::new(Grammar::of(Modes::NONE)).with_tokens_with_locations(tokens.clone());
    let Statement::Query(query) = parser.parse_statement().unwrap() else {
        panic!("not a query: {sql}");
    };
    let source = Source {
        tokens: &tokens,
        ..Source::of(sql)
    };
    let fixture = Fixture {
        lists: SelectLists::new(source),
        table,
    };
    Ok(bind(&query, &fixture, &fixture)?)
}

/// The names of a query's columns, and its rows.
async fn run(sql: &str) -> Result<(Vec<String>, Vec<String>)> {
    let query = bound(sql, &table)?;
    let sources = query.tables.iter().map(|_| {
        let table = MemTable::try_new(batch().schema(), vec![vec![batch()]]);
        provider_as_source(Arc::new(table.unwrap()))
    });
    let sources: Vec<_> = sources.collect();
    let planned = planned(&query, &sources, Subqueries::Joined, 1000)?;
    Ok((planned.names.clone(), rows(&session(), planned).await?))
}

/// Rows in an order are not dealt out to partitions so that expressions are computed for them.
#[tokio::test]
async fn rows_keep_their_order() {
    let sql = "SELECT d + 1 FROM t ORDER BY id DESC LIMIT 1, 3";
    let query = bound(sql, &table).unwrap();
    let table = MemTable::try_new(batch().schema(), vec![vec![batch()]]).unwrap();
    let sources = [provider_as_source(Arc::new(table))];
    let mut session = session();
    session.config_mut().options_mut().execution.batch_size =
        ConfigNonZeroUsize::try_new(1).unwrap();
    let planned = planned(&query, &sources, Subqueries::Joined, 1000).unwrap();
    let optimized = session.optimize(&planned.plan).unwrap();
    let physical = session.create_physical_plan(&optimized).await.unwrap();
    let shown = displayable(physical.as_ref()).indent(false).to_string();
    assert!(!shown.contains("RepartitionExec"), "{shown}");
    let rows = rows(&session, planned).await.unwrap();
    assert_eq!(rows, ["2.00", "3.00", "3.00"]);
}

/// The rows of a plan, as texts.
async fn rows(session: &SessionState, planned: Planned) -> Result<Vec<String>> {
    let optimized = session.optimize(&planned.plan)?;
    let physical = session.create_physical_plan(&optimized).await?;
    let batches = collect(physical, session.task_ctx()).await?;
    Ok(batches.iter().flat_map(texts).collect())
}

/// The rows of a batch, as texts.
fn texts(batch: &RecordBatch) -> Vec<String> {
    let columns = batch.columns().iter();
    let columns: Vec<_> = columns.map(|column| to_text(column, 0).unwrap()).collect();
    let row = |row: usize| {
        let cells = columns.iter();
        let cells = cells.map(|c| c.iter().nth(row).unwrap().unwrap_or("NULL").to_owned());
        cells.collect::<Vec<_>>().join("|")
    };
    (0..batch.num_rows()).map(row).collect()
}

async fn check(sql: &str, expected: &str) {
    match run(sql).await {
        Ok((_, rows)) => assert_eq!(rows.join("\n"), expected, "{sql}"),
        Err(error) => panic!("{sql}: {error}"),
    }
}

#[tokio::test]
async fn constants() {
    let cases = include_str!("testdata/constants.txt");
    let mut failures = Vec::new();
    for line in cases
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (expression, expected) = line.rsplit_once(" => ").unwrap();
        let got = match run(&format!("SELECT {expression}")).await {
            Ok((_, rows)) => rows.join("\n"),
            Err(error) => format!("error {}", error.errno),
        };
        if got != expected {
            failures.push(format!("{expression} => {got}, not {expected}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn names() {
    let names = |sql: &'static str| async move { run(sql).await.unwrap().0 };
    assert_eq!(
        names("SELECT 1+1, COUNT( * ), 'abc', NULL, id AS Foo FROM t GROUP BY id").await,
        ["1+1", "COUNT( * )", "abc", "NULL", "Foo"]
    );
    let long = "é".repeat(200);
    let sql = format!("SELECT '{long}', LENGTH('{long}') FROM t");
    let shown = run(&sql).await.unwrap().0;
    assert_eq!(shown[0], "é".repeat(128));
    assert_eq!(shown[1], format!("LENGTH('{}", "é".repeat(124)));
    assert_eq!(
        names("SELECT *, ID, 1 FROM t").await,
        ["Id", "d", "v", "c", "day", "ID", "1"]
    );
    assert_eq!(
        names("SELECT 1, 1, t.D, d, @@version FROM t").await,
        ["1", "1", "D", "d", "@@version"]
    );
    assert_eq!(
        names("SELECT * FROM (SELECT SUM(d) , id x FROM t GROUP BY id) q").await,
        ["SUM(d)", "x"]
    );
}

#[tokio::test]
async fn table_queries() {
    check(
        "SELECT AVG(d), SUM(id), AVG(id), COUNT(d), COUNT(*) FROM t",
        "1.666667|10|2.5000|3|4",
    )
    .await;
    check(
        "SELECT v, COUNT(*) FROM t WHERE v IS NOT NULL GROUP BY v ORDER BY v",
        "5x|1\na|2",
    )
    .await;
    check("SELECT id FROM t WHERE v = 'a ' ORDER BY id", "1\n2").await;
    check("SELECT id FROM t WHERE v = 5", "3").await;
    check("SELECT id FROM t ORDER BY d, id", "4\n3\n1\n2").await;
    check("SELECT id FROM t WHERE day = 19940820", "1").await;
    check(
        "SELECT id FROM t WHERE day IN ('1994-08-20', DATE '1994-08-23') ORDER BY 1",
        "1\n2",
    )
    .await;
    check("SELECT COUNT(DISTINCT v), COUNT(DISTINCT c) FROM t", "2|2").await;
    check("SELECT DISTINCT c FROM t ORDER BY c DESC", "y\nx\nNULL").await;
    check(
        "SELECT id FROM t WHERE d BETWEEN 1.5 AND '2' AND id < 2",
        "1",
    )
    .await;
    check(
        "SELECT a.id, b.id FROM t a JOIN t b ON a.v = b.v AND a.id < b.id",
        "1|2",
    )
    .await;
    check(
        "SELECT id FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.id = a.id + 1 AND b.d = a.d)",
        "1",
    )
    .await;
    check(
        "SELECT `ID` FROM T WHERE c IN (SELECT V FROM t) OR id",
        "1\n2\n3\n4",
    )
    .await;
    check("SELECT id FROM t LIMIT 1, 2", "2\n3").await;
    check(
        "SELECT YEAR(day) y, COUNT(*) FROM t GROUP BY y ORDER BY y",
        "NULL|1\n1970|1\n1994|2",
    )
    .await;
    check(
        "SELECT YEAR(day), COUNT(*) FROM t GROUP BY YEAR(day) ORDER BY YEAR(day)",
        "NULL|1\n1970|1\n1994|2",
    )
    .await;
    check("SELECT id % 2 m, SUM(CASE WHEN c = 'x' THEN d ELSE 0 END) s FROM t GROUP BY m HAVING s > 0 ORDER BY m", "0|2.00\n1|2.00").await;
    check(
        "WITH w AS (SELECT id, d FROM t) SELECT MAX(d) FROM w WHERE id < (SELECT AVG(id) FROM w)",
        "2.00",
    )
    .await;
    check(
        "SELECT 1 FROM t UNION SELECT 2 UNION ALL SELECT 2 ORDER BY 1",
        "1\n2\n2",
    )
    .await;
    check(
        "SELECT id, ROW_NUMBER() OVER (PARTITION BY c ORDER BY id DESC) FROM t ORDER BY id",
        "1|2\n2|1\n3|1\n4|1",
    )
    .await;
    check(
        "SELECT id FROM t WHERE (id, c) IN ((1,'x'), (3,'y')) ORDER BY id",
        "1\n3",
    )
    .await;
}

#[tokio::test]
async fn errors() {
    let errno = |sql: &'static str| async move { run(sql).await.map_err(|e| (e.errno, e.message)) };
    for (sql, expected) in [
        ("SELECT x FROM t", 1054),
        ("SELECT id FROM t a, t b", 1052),
        ("SELECT * FROM nope", 1146),
        ("SELECT id, COUNT(*) FROM t", 1140),
        ("SELECT id FROM t FORCE INDEX (x)", 1176),
        ("SELECT id INTO @x FROM t", 1235),
        ("SELECT id FROM t PARTITION (p)", 1235),
        ("SELECT aes_encrypt(1, 2)", 1235),
        ("SELECT to_char(day) FROM t", 1235),
        ("SELECT DATE '1994-02-30'", 1525),
        ("SELECT id FROM t WHERE day = '1994-02-30'", 1525),
        ("SELECT @@nope", 1193),
        ("SELECT * FROM (SELECT 1)", 1248),
        ("SELECT 9223372036854775807 + id FROM t", 1690),
        ("SELECT (SELECT id FROM t)", 1242),
        (
            "SELECT * FROM t WHERE c COLLATE utf8mb4_nope_ci = 'x'",
            1273,
        ),
    ] {
        match errno(sql).await {
            Err((errno, message)) => assert_eq!(errno, expected, "{sql}: {message}"),
            Ok(rows) => panic!("{sql}: {rows:?}"),
        }
    }
}

/// The rows of `SELECT expression FROM t` as the expression by itself evaluates.
fn evaluated(query: &Query) -> std::result::Result<Vec<String>, u16> {
    let Operator::Project { expressions, .. } = &query.body.operator else {
        panic!("{:?}", query.body)
    };
    let scalar = &expressions[0];
    let batch = batch();
    let columns = batch.columns().iter().map(library::Column::any);
    let columns = columns.collect::<DfResult<Vec<_>>>().unwrap();
    let data_type = library::data_type(value_type(&scalar.ty));
    let mut results = Results::new(&data_type, batch.num_rows(), false).unwrap();
    let running = Running::new(None);
    for row in 0..batch.num_rows() {
        let row: Vec<_> = columns.iter().map(|column| column.get(row)).collect();
        let value = scalar.evaluate(&row, &Context::new(&running));
        let value = value.map_err(|failure| SqlError::from(failure).errno)?;
        results.push(value.into_owned()).unwrap();
    }
    let schema = Arc::new(Schema::new(vec![Field::new("x", data_type, true)]));
    let batch = RecordBatch::try_new(schema, vec![results.finish().unwrap()]).unwrap();
    Ok(texts(&batch))
}

#[tokio::test]
async fn expressions_have_one_meaning_in_plans_and_by_themselves() {
    let constants = include_str!("testdata/constants.txt").lines();
    let constants = constants.filter_map(|line| line.rsplit_once(" => "));
    let expressions = include_str!("testdata/expressions.txt").lines();
    let all = constants
        .map(|(expression, _)| expression)
        .chain(expressions);
    let (mut equal, mut refused) = (0, 0);
    let mut failures = Vec::new();
    for expression in all.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let sql = format!("SELECT {expression} FROM t");
        let query = match bound(&sql, &table) {
            Ok(query) if matches!(query.body.operator, Operator::Project { .. }) => query,
            _ => {
                refused += 1;
                continue;
            }
        };
        let in_plan = run(&sql).await.map(|(_, rows)| rows);
        let in_plan = in_plan.map_err(|error| error.errno);
        let alone = evaluated(&query);
        match in_plan == alone {
            true => equal += 1,
            false => failures.push(format!("{expression}: {in_plan:?}, alone {alone:?}")),
        }
    }
    let count = failures.len();
    assert!(
        failures.is_empty(),
        "{count} of {equal}:\n{}",
        failures.join("\n")
    );
    assert!(equal > 10 * refused, "{equal} equal, {refused} refused");
}
