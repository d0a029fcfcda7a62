//! Samples of pages: what they say is about what is there, wherever pages are looked at, and they fail nobody.

use std::time::{Duration, Instant};

use perigee_engine::catalog::Sample;
use perigee_engine::{Analysis, FewValuesOf, SampleHow, SampleOf};
use perigee_expr::Arithmetic;
use perigee_page_store::Config;

use super::*;

const ROWS: i64 = 30_000;

async fn loaded(dir: &Path, stores: Config, config: EngineConfig) -> (Arc<Engine>, Arc<Table>) {
    let log = LogStoreService::open(dir.join("log"), Default::default()).unwrap();
    let mut pages: Vec<Arc<dyn perigee_page_api::PageStore>> = Vec::new();
    for number in 0..2 {
        let dir = dir.join(format!("pages-{number}"));
        pages.push(Arc::new(
            PageStoreService::open(dir, stores.clone()).unwrap(),
        ));
    }
    let sal = Sal::open(SalConfig::new(DbId(1)), Arc::new(log), pages);
    let engine = Engine::open(sal.await.unwrap(), config).await.unwrap();
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    load(&engine, &table, 0..ROWS).await;
    (engine, table)
}

/// The rows whose amount is less than so much.
fn of(table: &Arc<Table>, span: KeySpan, units: i128) -> SampleOf {
    SampleOf {
        table: table.clone(),
        index: 0,
        span,
        predicate: below(table, units),
    }
}

fn how(pages: usize, ndp: bool) -> SampleHow {
    SampleHow {
        pages,
        ndp,
        time: Duration::from_secs(30),
        cancel: CancelToken::new(),
    }
}

fn up_to(table: &Table, id: i64) -> KeySpan {
    let mut upper = Vec::new();
    key::encode_key(&table.clustered().layout, &[Datum::Int(id)], &mut upper).unwrap();
    KeySpan::from_bounds(Bound::Unbounded, Bound::Excluded(&upper))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_tell_what_is_there() {
    for decline_every in [None, Some(1), Some(3)] {
        for past_pool in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let stores = Config {
                decline_every,
                ..Config::default()
            };
            let config = EngineConfig {
                past_pool,
                buffer_pool: 8 << 20,
                ..EngineConfig::default()
            };
            let (engine, table) = loaded(dir.path(), stores, config).await;
            for ndp in [false, true] {
                check(&engine, &table, ndp).await;
            }
        }
    }
}

async fn check(engine: &Arc<Engine>, table: &Arc<Table>, ndp: bool) {
    let leaves = table.stats().leaf_pages[0];
    // Nine in ten of every thousand have an amount, of which half is less than half of the greatest.
    let all = of(table, KeySpan::all(), 500);
    let sample = engine.sample(&all, &how(10_000, ndp)).await.unwrap();
    let expected = Sample {
        pages: leaves,
        matching_pages: sample.unwrap().matching_pages,
        rows: ROWS as u64,
        matching_rows: 450 * ROWS as u64 / 1000,
    };
    assert_eq!((sample, all.known()), (Some(expected), Some(expected)));
    assert!(expected.matching_pages < leaves, "{expected:?}");
    let few = engine.sample(&all, &how(30, ndp)).await.unwrap().unwrap();
    assert_eq!((few.pages, all.known()), (30, Some(few)));
    let share = few.matching_rows as f64 / few.rows as f64;
    assert!((share - 0.45).abs() < 0.15, "{few:?}");
    // Only a part, and one where nothing is.
    let part = of(table, up_to(table, 3000), 100_000);
    let sample = engine.sample(&part, &how(10_000, ndp)).await.unwrap();
    assert_eq!(sample.unwrap().rows, 3000);
    assert_eq!(sample.unwrap().matching_rows, 2700);
    let nothing = of(table, up_to(table, -5), 100_000);
    let sample = engine.sample(&nothing, &how(8, ndp)).await.unwrap();
    assert_eq!(sample.unwrap().rows, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_over_which_a_condition_fails_do_not_match() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        past_pool: true,
        ..EngineConfig::default()
    };
    let (engine, table) = loaded(dir.path(), Config::default(), config).await;
    let mut builder = Builder::new(&table.clustered().layout);
    let id = builder.column(0).unwrap();
    let large = builder.int(i64::MAX - 9999).unwrap();
    let sum = builder.arithmetic(Arithmetic::Add, id, large).unwrap();
    let zero = builder.int(0).unwrap();
    let above = builder.compare(Comparison::Greater, sum, zero).unwrap();
    let failing = SampleOf {
        predicate: builder.finish(above).unwrap(),
        ..of(&table, KeySpan::all(), 0)
    };
    for ndp in [false, true] {
        let sample = engine.sample(&failing, &how(10_000, ndp)).await.unwrap();
        let sample = sample.unwrap();
        assert_eq!((sample.rows, sample.matching_rows), (ROWS as u64, 10_000));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_samples_said_goes_with_the_statistics() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, table) = loaded(dir.path(), Config::default(), EngineConfig::default()).await;
    let [one, another] = [500, 501].map(|units| of(&table, KeySpan::all(), units));
    engine.sample(&one, &how(10, true)).await.unwrap();
    assert!(one.known().is_some());
    assert_eq!(another.known(), None);
    assert_eq!(of(&table, up_to(&table, 3000), 500).known(), None);
    let cancel = CancelToken::new();
    let all = Analysis::All;
    engine.analyze_table(&table, &all, &cancel).await.unwrap();
    assert_eq!(one.known(), None);
}

/// The keys of at most so many rows whose amount is less than so much.
fn keys_of(table: &Arc<Table>, units: i128, most: usize) -> FewValuesOf {
    FewValuesOf {
        rows: of(table, KeySpan::all(), units),
        place: 0,
        most,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_values_are_those_that_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        buffer_pool: 8 << 20,
        ..EngineConfig::default()
    };
    let (engine, table) = loaded(dir.path(), Config::default(), config).await;
    // Amounts of 0.01 and 0.02.
    let mut expected: Vec<_> = (0..ROWS).filter(|id| matches!(id % 1000, 1 | 2)).collect();
    let all = keys_of(&table, 3, expected.len());
    let how = how(10_000, false);
    assert_eq!(all.known(), None);
    assert!(engine.few_values(&all, &how).await.unwrap());
    let as_keys = |ids: &[i64]| ids.iter().copied().map(Datum::Int).collect::<Vec<_>>();
    assert_eq!(all.known().unwrap().unwrap()[..], as_keys(&expected));
    // One more than are wanted, and more pages than may be looked at.
    let fewer = keys_of(&table, 3, expected.len() - 1);
    assert!(!engine.few_values(&fewer, &how).await.unwrap());
    assert_eq!(fewer.known(), Some(None));
    let few_pages = SampleHow {
        pages: 3,
        ..how.clone()
    };
    let other = keys_of(&table, 2, 1000);
    assert!(!engine.few_values(&other, &few_pages).await.unwrap());
    // Rows that are deleted are not there, whatever was kept.
    let mut transaction = engine.begin(TransactionOptions::default());
    let gone = expected.remove(0);
    let mut key = Vec::new();
    key::encode_key(&table.clustered().layout, &[Datum::Int(gone)], &mut key).unwrap();
    transaction.delete_row(&table, &key).await.unwrap();
    transaction.commit().await.unwrap();
    let again = keys_of(&table, 3, expected.len());
    assert!(engine.few_values(&again, &how).await.unwrap());
    assert_eq!(again.known().unwrap().unwrap()[..], as_keys(&expected));
    let cancel = CancelToken::new();
    let analysis = Analysis::All;
    engine
        .analyze_table(&table, &analysis, &cancel)
        .await
        .unwrap();
    assert_eq!(all.known(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_answer_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        past_pool: true,
        ..EngineConfig::default()
    };
    let (engine, faults) = open_faulty(dir.path(), config).await;
    engine.create_schema("test").await.unwrap();
    let table = engine.create_table(definition("t")).await.unwrap();
    load(&engine, &table, 0..ROWS).await;
    let wanted = of(&table, KeySpan::all(), 500);
    assert!(
        engine
            .sample(&wanted, &how(10, true))
            .await
            .unwrap()
            .is_some()
    );
    let other = of(&table, KeySpan::all(), 400);
    faults.stop();
    for ndp in [false, true] {
        let began = Instant::now();
        let soon = SampleHow {
            time: Duration::from_millis(50),
            ..how(10, ndp)
        };
        assert_eq!(engine.sample(&other, &soon).await.unwrap(), None);
        assert!(began.elapsed() < Duration::from_secs(20));
        let stopped = how(10, ndp);
        stopped.cancel.cancel();
        let outcome = engine.sample(&other, &stopped).await;
        assert!(
            matches!(outcome, Err(EngineError::Cancelled)),
            "{outcome:?}"
        );
    }
    assert_eq!(other.known(), None);
    faults.go_on();
    assert!(
        engine
            .sample(&other, &how(10, true))
            .await
            .unwrap()
            .is_some()
    );
}
