//! Index nested-loop joins deliver what hash joins deliver.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{binary, cast, col, lit};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use perigee_engine::catalog::{
    ColumnDef, ColumnStats, IndexDef, IndexRoot, Table, TableDef, TableStats,
};
use perigee_engine::scan::CancelToken;
use perigee_engine::{Engine, EngineConfig};
use perigee_log_store::LogStoreService;
use perigee_page_store::PageStoreService;
use perigee_sal::{Sal, SalConfig};
use perigee_types::{DbId, IndexId, PageId, TableId};
use perigee_value::{Collation, ColumnType, Datum};

use super::IndexJoinExec;
use crate::access::cost::CostModel;
use crate::access::join_rule::candidates;
use crate::access::paths::AccessPath;
use crate::access::{
    AccessContext, NdpMode, NdpSettings, NdpStatus, PageScanExec, TableAccess, physical_rules,
    table_schema,
};
use crate::explain;
use crate::memory::ProcessMemory;
use crate::plan::lower::{self, Subqueries};
use crate::plan::state;
use crate::plan::tests::bound;
use crate::session::definition::definition as definition_of;

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
const MONEY: ColumnType = ColumnType::Decimal {
    precision: 15,
    scale: 2,
};
const TEXT: ColumnType = ColumnType::Varchar {
    chars: 20,
    collation: Collation::UTF8MB4_BIN,
};

/// Rows of the inner table: ids 0 to 99, each with lines 0 to 4.
const IDS: i64 = 100;
const LINES: i64 = 5;

async fn open(dir: &Path) -> Arc<Engine> {
    let log = LogStoreService::open(dir.join("log"), Default::default()).unwrap();
    let pages = PageStoreService::open(dir.join("pages"), Default::default()).unwrap();
    let sal = Sal::open(
        SalConfig::new(DbId(1)),
        Arc::new(log),
        vec![Arc::new(pages)],
    );
    Engine::open(sal.await.unwrap(), EngineConfig::default())
        .await
        .unwrap()
}

fn definition(name: &str) -> TableDef {
    let column = |name: &str, ty, nullable| ColumnDef {
        nullable,
        ..ColumnDef::new(name, ty)
    };
    let index = |name: &str, columns: &[u16], unique| IndexDef {
        name: name.into(),
        columns: columns.to_vec(),
        unique,
        ..IndexDef::default()
    };
    TableDef {
        schema: "test".into(),
        name: name.into(),
        columns: vec![
            column("id", INT, false),
            column("line", INT, false),
            column("ref", INT, true),
            column("code", TEXT, true),
            column("price", MONEY, true),
            column("serial", INT, false),
        ],
        primary_key: vec![0, 1],
        indexes: vec![
            index("by_ref", &[2], false),
            index("by_code", &[3, 1], false),
            index("by_serial", &[5], true),
        ],
        auto_increment: None,
        collation: Collation::UTF8MB4_BIN,
        comment: String::new(),
        ..TableDef::default()
    }
}

fn row(id: i64, line: i64) -> Vec<Datum> {
    let serial = id * LINES + line;
    let or_null = |null: bool, value: Datum| if null { Datum::Null } else { value };
    vec![
        Datum::Int(id),
        Datum::Int(line),
        or_null(serial % 7 == 0, Datum::Int(serial % 40)),
        // Some with trailing spaces, which keys do not have.
        or_null(
            serial % 11 == 0,
            Datum::String(format!("c{}{}", id % 10, &"  "[..(line % 3) as usize]).into_bytes()),
        ),
        or_null(serial % 13 == 0, Datum::Decimal(i128::from(serial))),
        Datum::Int(serial),
    ]
}

async fn with_table(engine: &Arc<Engine>, name: &str, ids: std::ops::Range<i64>) -> Arc<Table> {
    let _ = engine.create_schema("test").await;
    let table = engine.create_table(definition(name)).await.unwrap();
    let rows: Vec<_> = ids
        .flat_map(|id| (0..LINES).map(move |line| row(id, line)))
        .collect();
    let mut load = engine.bulk_load(&table).await.unwrap();
    let encoder = load.encoder();
    let mut chunk = encoder.chunk(engine.row_ids(&table, rows.len() as u64));
    rows.iter()
        .for_each(|row| encoder.push(&mut chunk, row).unwrap());
    encoder.finish(&mut chunk);
    load.push(chunk).await.unwrap();
    load.finish().await.unwrap();
    engine.table("test", name).unwrap()
}

fn context(engine: &Arc<Engine>) -> AccessContext {
    AccessContext {
        workers: 2,
        engine: engine.clone(),
        view: engine.read_view(),
        locker: None,
        cancel: CancelToken::new(),
        settings: NdpSettings::default(),
        alias: None,
        status: NdpStatus::default(),
        memory: ProcessMemory::new(1 << 30),
    }
}

type Filters = Vec<Arc<dyn PhysicalExpr>>;

/// An access to some columns of a table.
fn scan(
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    columns: &[usize],
    filters: Filters,
) -> Arc<dyn ExecutionPlan> {
    let schema = table_schema(&table.def);
    let scan = PageScanExec::plan(
        context(engine),
        table.clone(),
        schema,
        columns.to_vec(),
        filters,
        Vec::new(),
        None,
    );
    Arc::new(scan.unwrap())
}

/// Outer rows: number, key, line, code, wide key, price; in two batches and an empty one.
fn outer(rows: usize) -> Arc<dyn ExecutionPlan> {
    let field = |name: &str, ty| Field::new(name, ty, true);
    let schema = Arc::new(Schema::new(vec![
        field("number", DataType::Int32),
        field("k", DataType::Int32),
        field("l", DataType::Int32),
        field("c", DataType::Utf8View),
        field("wide", DataType::Int64),
        field("p", DataType::Decimal128(15, 2)),
    ]));
    let batch = |numbers: std::ops::Range<usize>| {
        let column = |value: &dyn Fn(i64) -> ScalarValue| -> ArrayRef {
            let values = numbers.clone().map(|n| value(n as i64));
            ScalarValue::iter_to_array(values).unwrap()
        };
        let unless = |null: bool, v: i64| (!null).then_some(v);
        let columns: Vec<ArrayRef> = vec![
            column(&|n| ScalarValue::Int32(Some(n as i32))),
            // Duplicates, NULLs, and keys that the table does not have.
            column(&|n| ScalarValue::Int32(unless(n % 6 == 0, n * 3 % 25 - 2).map(|v| v as i32))),
            column(&|n| ScalarValue::Int32(unless(n % 8 == 0, n % 7).map(|v| v as i32))),
            column(&|n| {
                let text = format!("c{}{}", n % 12, &" "[..(n % 2) as usize]);
                ScalarValue::Utf8View((n % 5 != 0).then_some(text))
            }),
            column(&|n| {
                let far = if n % 4 == 0 { 1 << 40 } else { 0 };
                ScalarValue::Int64(unless(n % 9 == 0, n % 30 + far))
            }),
            column(&|n| ScalarValue::Decimal128((n % 3 != 0).then_some(i128::from(n)), 15, 2)),
        ];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    let batches = match rows {
        0 => vec![],
        rows => vec![
            batch(0..rows / 3),
            RecordBatch::new_empty(schema.clone()),
            batch(rows / 3..rows),
        ],
    };
    MemorySourceConfig::try_new_exec(&[batches], schema.clone(), None).unwrap()
}

/// `inner.price > outer.p` or the like: a condition that is NULL for some pairs.
fn residual(of_outer: usize, of_inner: usize, outer: JoinSide) -> JoinFilter {
    let schema = Arc::new(Schema::new(vec![
        Field::new("o", DataType::Decimal128(15, 2), true),
        Field::new("i", DataType::Decimal128(15, 2), true),
    ]));
    let less = binary(
        col("o", &schema).unwrap(),
        Operator::Lt,
        col("i", &schema).unwrap(),
        &schema,
    );
    let columns = vec![
        ColumnIndex {
            index: of_outer,
            side: outer,
        },
        ColumnIndex {
            index: of_inner,
            side: outer.negate(),
        },
    ];
    JoinFilter::new(less.unwrap(), columns, schema)
}

type On<'a> = &'a [(&'a str, &'a str)];

struct Case<'a> {
    /// Names of outer and inner columns.
    on: On<'a>,
    filter: bool,
    projection: Option<Vec<usize>>,
}

fn hash_join(
    outer: &Arc<dyn ExecutionPlan>,
    inner: &Arc<dyn ExecutionPlan>,
    side: JoinSide,
    join_type: JoinType,
    case: &Case<'_>,
) -> HashJoinExec {
    let inner_schema = inner.schema();
    let on = case.on.iter().map(|(of_outer, of_inner)| {
        let o = col(of_outer, &outer.schema()).unwrap();
        let i = col(of_inner, &inner_schema).unwrap();
        let wider = o.data_type(&outer.schema()).unwrap();
        let i = if i.data_type(&inner_schema).unwrap() == wider {
            i
        } else {
            cast(i, &inner_schema, wider).unwrap()
        };
        super::sides(side, o, i)
    });
    let price = inner_schema.index_of("price").unwrap();
    let filter = case.filter.then(|| residual(5, price, side));
    let (left, right) = super::sides(side, outer.clone(), inner.clone());
    HashJoinExec::try_new(
        left,
        right,
        on.collect(),
        filter,
        &join_type,
        case.projection.clone(),
        PartitionMode::CollectLeft,
        NullEquality::NullEqualsNothing,
        false,
    )
    .unwrap()
}

fn task(batch_size: usize) -> Arc<TaskContext> {
    let config = SessionConfig::new().with_batch_size(batch_size);
    SessionContext::new_with_config(config).task_ctx()
}

async fn rows_of(plan: Arc<dyn ExecutionPlan>, batch_size: usize) -> Vec<String> {
    // An access runs once; cases share accesses.
    let plan = reset_plan_states(plan).unwrap();
    let schema = plan.schema();
    let batches = collect(plan, task(batch_size)).await.unwrap();
    let mut rows = Vec::new();
    for batch in &batches {
        assert_eq!(batch.schema().fields(), schema.fields());
        for row in 0..batch.num_rows() {
            let cell = |c: &ArrayRef| match c.is_null(row) {
                true => "NULL".to_owned(),
                false => format!("'{}'", array_value_to_string(c, row).unwrap()),
            };
            rows.push(
                batch
                    .columns()
                    .iter()
                    .map(cell)
                    .collect::<Vec<_>>()
                    .join(","),
            );
        }
    }
    rows
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// The types of join whose outer rows can be on this side.
fn types(side: JoinSide) -> [JoinType; 4] {
    use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
    match side {
        JoinSide::Left => [Inner, Left, LeftSemi, LeftAnti],
        _ => [Inner, Right, RightSemi, RightAnti],
    }
}

/// Runs a join in all types, from both sides, by the named index and by hashing. Returns the number
/// of rows that were compared.
async fn agree(
    outer: &Arc<dyn ExecutionPlan>,
    inner: &Arc<dyn ExecutionPlan>,
    index: &str,
    case: &Case<'_>,
) -> usize {
    let mut compared = 0;
    for side in [JoinSide::Left, JoinSide::Right] {
        for join_type in types(side) {
            let hashed = hash_join(outer, inner, side, join_type, case);
            let by_index = candidates(&hashed, side)
                .into_iter()
                .map(|candidate| candidate.join(&hashed).unwrap())
                .find(|join| {
                    let scan = join.inner();
                    scan.table.indexes[scan.path.index].name == index
                });
            let by_index = Arc::new(by_index.expect(index));
            assert_eq!(by_index.schema(), hashed.schema(), "{join_type}");
            let expected = sorted(rows_of(Arc::new(hashed), 8192).await);
            for batch_size in [8192, 3, 1] {
                let found = sorted(rows_of(by_index.clone(), batch_size).await);
                assert_eq!(
                    found, expected,
                    "{join_type} from the {side}, {index}, {:?}",
                    case.on
                );
            }
            compared += expected.len();
        }
    }
    compared
}

fn plain<'a>(on: On<'a>) -> Case<'a> {
    Case {
        on,
        filter: false,
        projection: None,
    }
}

#[tokio::test]
async fn index_joins_agree_with_hash_joins() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let table = with_table(&engine, "t", 0..IDS).await;
    let inner = scan(&engine, &table, &[5, 0, 1, 2, 3, 4], vec![]);
    let outer = outer(100);
    let keys: [(&str, On<'_>); 8] = [
        ("PRIMARY", &[("k", "id")]),
        ("PRIMARY", &[("k", "id"), ("l", "line")]),
        ("PRIMARY", &[("l", "line"), ("k", "id")]),
        // The key decides one comparison, the other one is left.
        ("PRIMARY", &[("k", "id"), ("l", "ref")]),
        ("by_ref", &[("k", "ref")]),
        ("by_ref", &[("wide", "ref")]),
        ("by_code", &[("c", "code")]),
        ("by_serial", &[("wide", "serial")]),
    ];
    for (index, on) in keys {
        for filter in [false, true] {
            let rows = agree(
                &outer,
                &inner,
                index,
                &Case {
                    on,
                    filter,
                    projection: None,
                },
            )
            .await;
            assert!(rows > 100, "{index} {on:?}: only {rows} rows");
        }
    }
}

#[tokio::test]
async fn filters_and_projections_below_and_in_the_join_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let table = with_table(&engine, "t", 0..IDS).await;
    let schema = table_schema(&table.def);
    let few = binary(
        col("line", &schema).unwrap(),
        Operator::Lt,
        lit(3i32),
        &schema,
    )
    .unwrap();
    let inner = scan(&engine, &table, &[0, 4, 2], vec![few]);
    let outer = outer(60);
    assert!(agree(&outer, &inner, "PRIMARY", &plain(&[("k", "id")])).await > 50);
    // A filter that delivers other columns than it reads, and a projection that computes.
    let below = inner.schema();
    let not_five = binary(
        col("ref", &below).unwrap(),
        Operator::NotEq,
        lit(5i32),
        &below,
    )
    .unwrap();
    let filtered = FilterExecBuilder::new(not_five, inner.clone());
    let filtered: Arc<dyn ExecutionPlan> = Arc::new(
        filtered
            .apply_projection(Some(vec![1, 2, 0]))
            .unwrap()
            .build()
            .unwrap(),
    );
    let below = filtered.schema();
    let plus = binary(
        col("ref", &below).unwrap(),
        Operator::Plus,
        lit(1i32),
        &below,
    )
    .unwrap();
    let projected = ProjectionExec::try_new(
        vec![
            ProjectionExpr {
                expr: plus,
                alias: "next".into(),
            },
            ProjectionExpr {
                expr: cast(col("id", &below).unwrap(), &below, DataType::Int64).unwrap(),
                alias: "wide_id".into(),
            },
            ProjectionExpr {
                expr: col("price", &below).unwrap(),
                alias: "price".into(),
            },
        ],
        filtered,
    );
    let projected: Arc<dyn ExecutionPlan> = Arc::new(projected.unwrap());
    for filter in [false, true] {
        let case = Case {
            on: &[("wide", "wide_id")],
            filter,
            projection: None,
        };
        assert!(agree(&outer, &projected, "PRIMARY", &case).await > 50);
    }
    let hashed = hash_join(
        &outer,
        &projected,
        JoinSide::Right,
        JoinType::Inner,
        &Case {
            on: &[("wide", "wide_id")],
            filter: true,
            projection: Some(vec![8, 0, 3]),
        },
    );
    let candidate = candidates(&hashed, JoinSide::Right).pop().unwrap();
    let by_index = Arc::new(candidate.join(&hashed).unwrap());
    let expected = sorted(rows_of(Arc::new(hashed), 100).await);
    assert_eq!(sorted(rows_of(by_index, 4).await), expected);
}

#[tokio::test]
async fn empty_sides_give_what_the_type_of_join_says() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let table = with_table(&engine, "t", 0..IDS).await;
    let empty = engine.create_table(definition("nothing")).await.unwrap();
    let columns = [0, 4, 1];
    let inner = scan(&engine, &table, &columns, vec![]);
    let nothing = scan(&engine, &empty, &columns, vec![]);
    let case = plain(&[("k", "id")]);
    assert_eq!(agree(&outer(0), &inner, "PRIMARY", &case).await, 0);
    assert_eq!(agree(&outer(0), &nothing, "PRIMARY", &case).await, 0);
    // Outer joins and anti joins keep all rows, from either side.
    assert_eq!(agree(&outer(40), &nothing, "PRIMARY", &case).await, 4 * 40);
}

#[tokio::test]
async fn output_is_in_the_order_of_the_outer_rows_and_stops_at_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let table = with_table(&engine, "t", 0..IDS).await;
    let inner = scan(&engine, &table, &[0, 4, 1], vec![]);
    for join_type in types(JoinSide::Left) {
        let case = Case {
            on: &[("k", "id")],
            filter: true,
            projection: Some(vec![0]),
        };
        let hashed = hash_join(&outer(90), &inner, JoinSide::Left, join_type, &case);
        let candidate = candidates(&hashed, JoinSide::Left).pop().unwrap();
        let join = Arc::new(candidate.join(&hashed).unwrap());
        let numbers = rows_of(join.clone(), 4).await;
        let numbers: Vec<i32> = numbers
            .iter()
            .map(|n| n.trim_matches('\'').parse().unwrap())
            .collect();
        assert!(
            numbers.is_sorted() && numbers.len() > 7,
            "{join_type}: {numbers:?}"
        );
        let limited = join.with_fetch(Some(7)).unwrap();
        let limited = rows_of(limited, 4).await;
        assert_eq!(limited.len(), 7, "{join_type}");
    }
}

#[tokio::test]
async fn joins_that_lookups_cannot_do_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let table = with_table(&engine, "t", 0..10).await;
    let inner = scan(&engine, &table, &[0, 1, 4], vec![]);
    let outer = outer(10);
    let none = |join: &HashJoinExec, side| candidates(join, side).is_empty();
    let on: On<'_> = &[("k", "id")];
    for join_type in [
        JoinType::Right,
        JoinType::Full,
        JoinType::RightSemi,
        JoinType::LeftMark,
    ] {
        let join = hash_join(&outer, &inner, JoinSide::Left, join_type, &plain(on));
        assert!(none(&join, JoinSide::Left), "{join_type}");
    }
    // `line` is not the first column of any index's key; the outer rows are of no table.
    let second = hash_join(
        &outer,
        &inner,
        JoinSide::Left,
        JoinType::Inner,
        &plain(&[("l", "line")]),
    );
    assert!(none(&second, JoinSide::Left));
    assert!(none(&second, JoinSide::Right));
    let mut nulls = hash_join(&outer, &inner, JoinSide::Left, JoinType::Inner, &plain(on));
    assert!(!none(&nulls, JoinSide::Left));
    nulls.null_equality = NullEquality::NullEqualsNull;
    assert!(none(&nulls, JoinSide::Left));
    let limited = inner.with_fetch(Some(3)).unwrap();
    let limited = hash_join(
        &outer,
        &limited,
        JoinSide::Left,
        JoinType::Inner,
        &plain(on),
    );
    assert!(none(&limited, JoinSide::Left));
    // A narrower type: the cast fails for some values.
    let narrow = cast(
        col("id", &inner.schema()).unwrap(),
        &inner.schema(),
        DataType::Int16,
    );
    let mut narrowed = hash_join(&outer, &inner, JoinSide::Left, JoinType::Inner, &plain(on));
    narrowed.on[0].1 = narrow.unwrap();
    assert!(none(&narrowed, JoinSide::Left));
}

#[tokio::test]
async fn memory_of_a_slice_counts_and_is_limited() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let table = with_table(&engine, "t", 0..IDS).await;
    let inner = scan(&engine, &table, &[0, 4, 1], vec![]);
    let case = plain(&[("k", "id")]);
    let hashed = hash_join(&outer(90), &inner, JoinSide::Left, JoinType::Inner, &case);
    let join = candidates(&hashed, JoinSide::Left)
        .pop()
        .unwrap()
        .join(&hashed)
        .unwrap();
    let runtime: Arc<RuntimeEnv> = RuntimeEnvBuilder::new()
        .with_memory_limit(64, 1.0)
        .build_arc()
        .unwrap();
    let small = SessionContext::new_with_config_rt(SessionConfig::new(), runtime).task_ctx();
    let error = collect(Arc::new(join), small).await.unwrap_err();
    assert!(error.to_string().contains("IndexJoinExec"), "{error}");
}

/// The plan of a query of tables of the schema `test`.
async fn planned(engine: &Arc<Engine>, sql: &str, lookups: bool) -> Arc<dyn ExecutionPlan> {
    let context = context(engine);
    let table = |name: &str| engine.table("test", name).ok();
    let query = bound(sql, &|name| {
        table(name).map(|table| definition_of(&table.def))
    })
    .unwrap();
    let sources = query.tables.iter().map(|reference| {
        let table = table(&reference.name).unwrap();
        let mut context = context.clone();
        context.alias = Some(reference.alias.to_string());
        provider_as_source(Arc::new(TableAccess::new(context, table)))
    });
    let sources: Vec<_> = sources.collect();
    let logical = lower::planned(&query, &sources, Subqueries::Joined, 1000).unwrap();
    let mut rules = physical_rules(PhysicalOptimizer::default().rules, &context);
    if !lookups {
        rules.retain(|rule| rule.name() != "IndexNestedLoopJoin");
    }
    let state = state::template(2, Arc::default(), rules);
    let plan = state.optimize(&logical.plan).unwrap();
    state.create_physical_plan(&plan).await.unwrap()
}

fn has_lookups(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<IndexJoinExec>().is_some() || plan.children().into_iter().any(has_lookups)
}

#[tokio::test]
async fn statements_use_lookups_where_few_rows_meet_a_large_table() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    with_table(&engine, "small", 0..2).await;
    let large = with_table(&engine, "large", 0..16_000).await;
    assert!(
        large.stats().leaf_pages[0] > 200,
        "{:?}",
        large.stats().leaf_pages
    );
    let few = [
        "SELECT s.serial, l.price FROM test.small s JOIN test.large l ON s.ref = l.id",
        "SELECT s.serial, l.price FROM test.large l JOIN test.small s ON s.ref = l.id \
         WHERE l.line < 3 AND s.line > 1",
        "SELECT s.serial, l.id FROM test.small s LEFT JOIN test.large l \
         ON s.ref = l.id AND s.line = l.line AND l.price > s.price",
        "SELECT s.serial FROM test.small s WHERE NOT EXISTS \
         (SELECT 1 FROM test.large l WHERE l.id = s.ref AND l.price > 1)",
        "SELECT s.serial FROM test.small s WHERE EXISTS \
         (SELECT 1 FROM test.large l WHERE l.id = s.ref AND l.line <> s.line)",
        "SELECT s.serial, l.serial, m.id FROM test.small s JOIN test.large l ON s.ref = l.id \
         JOIN test.large m ON m.serial = l.serial",
        "SELECT count(*), sum(l.serial) FROM test.small s JOIN test.large l ON s.ref = l.id \
         GROUP BY s.line",
        "SELECT s.serial, l.line FROM test.small s JOIN test.large l ON s.ref = l.id \
         ORDER BY s.serial, l.line LIMIT 4",
    ];
    for sql in few {
        let plan = planned(&engine, sql, true).await;
        let text = displayable(plan.as_ref()).indent(false).to_string();
        assert!(has_lookups(&plan), "{sql}\n{text}");
        let hashed = planned(&engine, sql, false).await;
        assert!(!has_lookups(&hashed));
        let expected = sorted(rows_of(hashed, 8192).await);
        assert!(!expected.is_empty(), "{sql}");
        assert_eq!(sorted(rows_of(plan, 8192).await), expected, "{sql}\n{text}");
    }
    // All rows of the large table meet all of it.
    let sql = "SELECT count(*) FROM test.large a JOIN test.large b ON a.serial = b.serial";
    assert!(!has_lookups(&planned(&engine, sql, true).await));
}

#[tokio::test]
async fn explain_shows_the_inner_table_behind_the_outer_one() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    with_table(&engine, "small", 0..2).await;
    with_table(&engine, "large", 0..16_000).await;
    for (column, index, access) in [("serial", "by_serial", "eq_ref"), ("id", "PRIMARY", "ref")] {
        let sql = format!(
            "SELECT s.line, l.price FROM test.small s JOIN test.large l ON s.ref = l.{column}"
        );
        let plan = planned(&engine, &sql, true).await;
        let described = explain::plan(&plan, &engine.prices());
        let rows = described.accesses();
        let [outer, inner] = &rows[..] else {
            panic!("{rows:?}")
        };
        assert_eq!((outer.table.as_str(), inner.table.as_str()), ("s", "l"));
        assert_eq!(
            (inner.access_type, inner.key.as_deref()),
            (access, Some(index))
        );
        assert_eq!(inner.rows, if access == "ref" { LINES as u64 } else { 1 });
        let lookups = "index lookups for each outer row";
        let (not, batches) = (
            "NDP not used: a lookup reads few rows",
            "Using NDP key batches",
        );
        let expected = match access {
            "ref" => [lookups, batches, not].join("; "),
            _ => [lookups, not, batches].join("; "),
        };
        assert_eq!(inner.extra(), expected);
        assert!(inner.counters.is_empty(), "did not run");
        let batches = collect(plan.clone(), task(8192)).await.unwrap();
        let delivered = batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
        let described = explain::plan(&plan, &engine.prices());
        let counters = described.accesses()[1].counters.clone();
        // Of ten outer rows two have no key; the others have different ones.
        assert_eq!(counters[0], ("lookup_requests", 1));
        assert_eq!(counters[1], ("lookups", 8));
        assert_eq!(
            counters[2..],
            [("lookup_rows", delivered), ("rows", delivered)]
        );
    }
}

#[tokio::test]
async fn a_thousand_lookups_beat_a_scan_of_fifty_thousand_pages_and_a_million_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let root = |i: u32| IndexRoot::new(IndexId(100 + i), PageId(u64::from(i)));
    let roots: Vec<_> = (1..=4).map(root).collect();
    let column = ColumnStats {
        distinct: 5_000_000,
        ..ColumnStats::default()
    };
    let stats = TableStats {
        rows: 5_000_000,
        columns: vec![column; 6],
        leaf_pages: vec![50_000, 10_000, 20_000, 10_000],
    };
    let table = Table::new(TableId(1), definition("t"), &roots, stats.clone()).unwrap();
    for mode in [NdpMode::Off, NdpMode::On] {
        let settings = NdpSettings {
            mode,
            ..NdpSettings::default()
        };
        let model = CostModel::new(&engine, &table, &stats, &settings);
        let rows = stats.rows as f64;
        let scan = model.path(&AccessPath::all_of(0, false), rows) + model.hashed(rows);
        for (index, matches) in [(0, 1.0), (0, 5.0), (1, 1.0), (1, 4.0)] {
            let cost = |keys| model.lookups(index, index > 0, keys, matches);
            assert!(
                2.0 * cost(1e3) < scan,
                "{mode:?} {index} {matches}: {}",
                cost(1e3)
            );
            assert!(
                cost(1e6) > scan,
                "{mode:?} {index} {matches}: {}",
                cost(1e6)
            );
        }
    }
}
