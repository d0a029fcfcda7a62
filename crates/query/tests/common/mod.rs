//! A frontend over stores in a temporary directory.

mod interrupted;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, Float32Type,
    Float64Type, Int64Type, TimestampMicrosecondType, UInt64Type,
};
use perigee_engine::scan::CancelToken;
use perigee_engine::{Engine, EngineConfig};
use perigee_log_store::LogStoreService;
use perigee_page_store::PageStoreService;
use perigee_query::{
    Collected, Collector, Frontend, FrontendConfig, LocalFile, NoStatus, Session, SessionInfo,
    SqlError,
};
use perigee_sal::{Sal, SalConfig};
use perigee_types::DbId;
use perigee_value::{ColumnType, ValueRef, Wide, format_value};

pub use interrupted::{Interrupted, Meanwhile};

/// Stores, engine and frontend; everything is gone when it is dropped.
pub struct Fixture {
    pub frontend: Arc<Frontend>,
    _directory: Option<tempfile::TempDir>,
}

/// How storage and engine are set up.
#[derive(Clone, Default)]
pub struct Setup {
    pub engine: EngineConfig,
    pub pages: perigee_page_store::Config,
    /// What happens between an NDP batch request and its answer.
    pub meanwhile: Option<Meanwhile>,
    /// The first Page Store is of a version that does not know run-time filters.
    pub older_store: bool,
}

impl Fixture {
    pub async fn new(setup: Setup) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut fixture = Self::at(directory.path(), setup).await;
        fixture._directory = Some(directory);
        fixture
    }

    /// A life of the database in a directory.
    pub async fn at(dir: &Path, setup: Setup) -> Self {
        let log = LogStoreService::open(dir.join("log"), Default::default()).unwrap();
        let mut stores: Vec<Arc<dyn perigee_page_api::PageStore>> = Vec::new();
        for store in ["pages-0", "pages-1"] {
            let store = PageStoreService::open(dir.join(store), setup.pages.clone()).unwrap();
            let meanwhile = setup.meanwhile.clone();
            let older = setup.older_store && stores.is_empty();
            stores.push(Arc::new(Interrupted {
                store,
                meanwhile,
                older,
            }));
        }
        let sal = Sal::open(SalConfig::new(DbId(1)), Arc::new(log), stores)
            .await
            .unwrap();
        let engine = Engine::open(sal, setup.engine).await.unwrap();
        let files = dir.join("files");
        std::fs::create_dir_all(&files).unwrap();
        let config = FrontendConfig {
            facts: vec![("secure_file_priv", files.display().to_string())],
            ..FrontendConfig::default()
        };
        let frontend = Frontend::new(engine, config, Arc::new(NoStatus)).unwrap();
        Self {
            frontend: Arc::new(frontend),
            _directory: None,
        }
    }

    pub fn session(&self) -> Session {
        Session::new(self.frontend.clone(), SessionInfo::default())
    }

    pub async fn run(&self, session: &mut Session, sql: &str) -> Result<Vec<Collected>, SqlError> {
        self.run_with(session, sql, Vec::new()).await
    }

    /// Runs a text; LOAD DATA LOCAL reads `file`.
    pub async fn run_with(
        &self,
        session: &mut Session,
        sql: &str,
        file: Vec<u8>,
    ) -> Result<Vec<Collected>, SqlError> {
        let mut out = Collector::default();
        let mut file = InMemory { rest: file };
        let cancel = CancelToken::new();
        session
            .execute(sql, true, &mut out, &mut file, &cancel)
            .await?;
        Ok(out.results)
    }
}

struct InMemory {
    rest: Vec<u8>,
}

#[async_trait]
impl LocalFile for InMemory {
    async fn open(&mut self, _: &str) -> Result<(), SqlError> {
        Ok(())
    }

    async fn read(&mut self) -> Result<Option<Bytes>, SqlError> {
        let len = self.rest.len().min(1000);
        let piece: Vec<u8> = self.rest.drain(..len).collect();
        Ok((len > 0).then(|| Bytes::from(piece)))
    }
}

/// Checks that a query is explained in each form, that JSON is JSON, and that none names what only this program knows.
#[allow(dead_code, reason = "few tests explain all that they run")]
pub async fn explained_in_all_forms(fixture: &Fixture, session: &mut Session, sql: &str) {
    for form in ["TRADITIONAL", "TREE", "JSON", "ENGINE"] {
        let explain = format!("EXPLAIN FORMAT={form} {sql}");
        let results = match fixture.run(session, &explain).await {
            Ok(results) => results,
            Err(error) => panic!("{explain}: {error}"),
        };
        let text = rows_of(results.last().unwrap()).join("\n");
        if form != "ENGINE" {
            let ours = ["Exec:", "mysql_", "/@"]
                .iter()
                .find(|name| text.contains(**name));
            assert_eq!(ours, None, "{explain}\n{text}");
        }
        if form == "JSON"
            && let Err(error) = perigee_value::json::Json::read(&text)
        {
            panic!("{explain}: {error:?}\n{text}");
        }
    }
}

/// The rows of a result, cells as MySQL's text protocol shows them, joined by `|`.
pub fn rows_of(result: &Collected) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in &result.batches {
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = batch
                .columns()
                .iter()
                .zip(&result.columns)
                .map(|(array, column)| cell(array, row, column.ty))
                .collect();
            rows.push(cells.join("|"));
        }
    }
    rows
}

fn cell(array: &ArrayRef, row: usize, ty: Option<ColumnType>) -> String {
    let Some(ty) = ty.filter(|_| array.is_valid(row)) else {
        return "NULL".to_owned();
    };
    let wide = |to: DataType| datafusion::arrow::compute::cast(array, &to).unwrap();
    let text;
    let value = match array.data_type() {
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => ValueRef::UInt(
            wide(DataType::UInt64)
                .as_primitive::<UInt64Type>()
                .value(row),
        ),
        DataType::Decimal128(..) => {
            ValueRef::Decimal(array.as_primitive::<Decimal128Type>().value(row))
        }
        DataType::Decimal256(..) => {
            let units = array.as_primitive::<Decimal256Type>();
            match Wide::from_le_bytes(units.value(row).to_le_bytes()) {
                Some(wide) => ValueRef::Wide(wide),
                // More digits than a column has.
                None => return units.value_as_string(row),
            }
        }
        DataType::Float32 => {
            ValueRef::Double(f64::from(array.as_primitive::<Float32Type>().value(row)))
        }
        DataType::Float64 => ValueRef::Double(array.as_primitive::<Float64Type>().value(row)),
        DataType::Date32 => ValueRef::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(..) => {
            ValueRef::DateTime(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Duration(..) => {
            ValueRef::Time(array.as_primitive::<DurationMicrosecondType>().value(row))
        }
        ty if ty.is_integer() => {
            ValueRef::Int(wide(DataType::Int64).as_primitive::<Int64Type>().value(row))
        }
        DataType::BinaryView => ValueRef::String(array.as_binary_view().value(row)),
        _ => {
            text = wide(DataType::Utf8View);
            ValueRef::String(text.as_string_view().value(row).as_bytes())
        }
    };
    let mut out = String::new();
    format_value(ty, value, &mut out);
    out
}
