//! [`Gather`]: reads a table, or some of it, and tells what is in it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use perigee_page::{PageRef, RecordHeader};
use perigee_value::RecordView;

use super::distinct::PageValues;
use super::{SAMPLE_PAGES, WHOLE_PAGES};
use crate::EngineError;
use crate::btree::{BatchRequest, KeySpan, LeafState, Tree, within_part};
use crate::catalog::{ColumnStats, MAX_BUCKETS, Table, TableStats};
use crate::engine::Engine;
use crate::load::{Collector, hash_column};
use crate::scan::CancelToken;

/// Leaves that are read at a time.
const BATCH: usize = 64;

/// In the background, work is followed by a pause so many times as long.
const PAUSES: u32 = 4;

/// How much of a core is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// A user waits for it.
    Full,
    /// Nobody does: it leaves most of the time to others.
    Background,
}

/// What is needed to read a table; keeps no engine alive.
pub(super) struct Gather {
    table: Arc<Table>,
    /// One an index, the clustered one first.
    trees: Vec<Tree>,
    pace: Pace,
    cancel: CancelToken,
    stopping: CancelToken,
    /// Leaves that are all read.
    whole_pages: u64,
    /// Leaves that are read of more.
    sample_pages: usize,
}

/// What was seen so far.
struct Seen {
    rows: u64,
    columns: Vec<Collector>,
    /// Of a sample.
    values: Vec<PageValues>,
}

impl Gather {
    pub(super) fn new(
        engine: &Engine,
        table: &Arc<Table>,
        pace: Pace,
        cancel: &CancelToken,
    ) -> Self {
        Self {
            table: table.clone(),
            trees: table
                .indexes
                .iter()
                .map(|index| engine.tree(index))
                .collect(),
            pace,
            cancel: cancel.clone(),
            stopping: engine.keeper.stopping().clone(),
            whole_pages: WHOLE_PAGES,
            sample_pages: SAMPLE_PAGES,
        }
    }

    /// Gathers the statistics, with histograms of at most so many buckets.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`], or what storage says.
    pub(super) async fn run(self, buckets: Option<usize>) -> Result<TableStats, EngineError> {
        let buckets = buckets.unwrap_or(MAX_BUCKETS);
        self.check()?;
        let size = self.trees[0].estimate_size().await?;
        if size.leaf_pages <= self.whole_pages {
            self.whole(buckets).await
        } else {
            self.sampled(buckets).await
        }
    }

    async fn whole(&self, buckets: usize) -> Result<TableStats, EngineError> {
        let mut seen = self.nothing_seen();
        let mut pages = 0;
        let mut rest = Some(KeySpan::all());
        while let Some(span) = rest {
            let began = Instant::now();
            let request = BatchRequest {
                range: &span,
                span: &span,
                reverse: false,
                max_pages: BATCH,
                load: true,
            };
            let tree = &self.trees[0];
            let last_lsn = || (tree.pool().sal().last_lsn(), ());
            let batch = tree.leaf_batch(request, last_lsn).await?;
            for leaf in batch.leaves {
                let page = match leaf.state {
                    LeafState::Resident(page) => page,
                    LeafState::Loading(load) => load.land().await?,
                    LeafState::Stored => unreachable!("the batch has its leaves loaded"),
                };
                self.look_at(page.get(), span.slots(page.get()), &mut seen);
                pages += 1;
            }
            rest = batch.rest;
            self.pause(began).await?;
        }
        let mut leaf_pages = vec![pages];
        for tree in &self.trees[1..] {
            leaf_pages.push(tree.count_leaves().await?);
            self.check()?;
        }
        Ok(TableStats {
            rows: seen.rows,
            columns: seen
                .columns
                .into_iter()
                .map(|column| column.finish(buckets))
                .collect(),
            leaf_pages,
        })
    }

    async fn sampled(&self, buckets: usize) -> Result<TableStats, EngineError> {
        let mut seen = self.nothing_seen();
        seen.values = vec![PageValues::default(); seen.columns.len()];
        let (mut pages, mut width, mut rows) = (0_u64, 0.0, 0.0);
        let parts = self.sample_pages;
        let places: Vec<f64> = (0..parts).map(|part| place(part, parts)).collect();
        for places in places.chunks(BATCH) {
            let began = Instant::now();
            let sampled = self.trees[0].leaves_at(places).await?;
            for (load, leaves) in sampled.leaves.into_iter().zip(sampled.widths) {
                let before = seen.rows;
                let page = load.land().await?;
                let page = page.get();
                self.look_at(page, 0..page.slot_count(), &mut seen);
                pages += 1;
                width += leaves;
                rows += leaves * (seen.rows - before) as f64;
            }
            self.pause(began).await?;
        }
        let (leaves, rows) = (width / pages as f64, rows / pages as f64);
        let mut leaf_pages = vec![leaves.round() as u64];
        for tree in &self.trees[1..] {
            leaf_pages.push(tree.estimate_size().await?.leaf_pages);
            self.check()?;
        }
        let factor = rows / seen.rows.max(1) as f64;
        let share = (pages as f64 / leaves).min(1.0);
        let columns = seen.columns.into_iter().zip(&seen.values);
        let of_column = |(column, values): (Collector, &PageValues)| -> ColumnStats {
            column.finish_as(factor, values.estimate(share), buckets)
        };
        Ok(TableStats {
            rows: rows.round() as u64,
            columns: columns.map(of_column).collect(),
            leaf_pages,
        })
    }

    fn nothing_seen(&self) -> Seen {
        let columns = self.table.def.columns.iter();
        Seen {
            rows: 0,
            columns: columns.map(|_| Collector::of_all()).collect(),
            values: Vec::new(),
        }
    }

    /// Takes in the rows of a leaf of the clustered index.
    fn look_at(&self, page: PageRef<'_>, slots: Range<u16>, seen: &mut Seen) {
        let layout = &self.table.clustered().layout;
        seen.values.iter_mut().for_each(PageValues::next_page);
        for slot in slots {
            let record = page.record(slot);
            if RecordHeader::read(record).flags.is_deleted() {
                continue;
            }
            let row = RecordView::new(layout, record);
            seen.rows += 1;
            for (number, column) in seen.columns.iter_mut().enumerate() {
                column.add(&row, number);
            }
            for (number, values) in seen.values.iter_mut().enumerate() {
                if !row.is_null(number) {
                    values.add(hash_column(&row, number));
                }
            }
        }
    }

    /// Gives others a turn; in the background, for longer than was worked.
    async fn pause(&self, began: Instant) -> Result<(), EngineError> {
        self.check()?;
        match self.pace {
            Pace::Full => tokio::task::yield_now().await,
            Pace::Background => tokio::time::sleep(began.elapsed() * PAUSES).await,
        }
        self.check()
    }

    fn check(&self) -> Result<(), EngineError> {
        match self.cancel.is_cancelled() || self.stopping.is_cancelled() {
            true => Err(EngineError::Cancelled),
            false => Ok(()),
        }
    }
}

/// A place in one of so many equal parts of a tree. Those of the first and the last part are the first
/// leaf and the last: they have the least and the greatest key.
fn place(part: usize, parts: usize) -> f64 {
    let within = match part {
        0 => 0.0,
        part if part + 1 == parts => 1.0,
        part => within_part(part),
    };
    (part as f64 + within) / parts as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use perigee_log_store::LogStoreService;
    use perigee_page_store::PageStoreService;
    use perigee_sal::{Sal, SalConfig};
    use perigee_types::DbId;
    use perigee_value::{Collation, ColumnType, Datum};

    use super::*;
    use crate::EngineConfig;
    use crate::catalog::{ColumnDef, IndexDef, TableDef};

    #[test]
    fn places_lie_in_order_from_end_to_end() {
        let places: Vec<f64> = (0..100).map(|part| place(part, 100)).collect();
        assert!(places.is_sorted() && places[0] == 0.0 && places[99] == 1.0);
    }

    async fn open(dir: &Path) -> Arc<Engine> {
        let log = LogStoreService::open(dir.join("log"), Default::default()).unwrap();
        let pages = PageStoreService::open(dir.join("pages"), Default::default()).unwrap();
        let pages: Vec<Arc<dyn perigee_page_api::PageStore>> = vec![Arc::new(pages)];
        let config = SalConfig::new(DbId(1));
        let sal = Sal::open(config, Arc::new(log), pages).await.unwrap();
        Engine::open(sal, EngineConfig::default()).await.unwrap()
    }

    const ROWS: i64 = 30_000;

    /// A table of some hundred leaves: its key, four rows a value, one of nine, NULL for a third.
    async fn large(engine: &Arc<Engine>) -> Arc<Table> {
        let column = |name: &str, ty, nullable| ColumnDef {
            nullable,
            ..ColumnDef::new(name, ty)
        };
        let int = ColumnType::Int {
            bytes: 4,
            unsigned: false,
        };
        let text = ColumnType::Varchar {
            chars: 300,
            collation: Collation::UTF8MB4_BIN,
        };
        let def = TableDef {
            schema: "test".into(),
            name: "t".into(),
            columns: vec![
                column("id", int, false),
                column("by_four", int, false),
                column("of_nine", int, false),
                column("third", int, true),
                column("note", text, false),
            ],
            primary_key: vec![0],
            indexes: vec![IndexDef {
                name: "i".into(),
                columns: vec![2],
                unique: false,
                ..IndexDef::default()
            }],
            auto_increment: None,
            collation: Collation::UTF8MB4_BIN,
            comment: String::new(),
            ..TableDef::default()
        };
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(def).await.unwrap();
        let mut load = engine.bulk_load(&table).await.unwrap();
        let encoder = load.encoder();
        let mut chunk = encoder.chunk(0);
        for id in 0..ROWS {
            let third = match id % 3 {
                0 => Datum::Null,
                _ => Datum::Int(id),
            };
            let note = format!("{:=<150}", format!("note {} ", id % 1000));
            let row = [
                Datum::Int(id),
                Datum::Int(id / 4),
                Datum::Int(id % 9),
                third,
                Datum::String(note.into_bytes()),
            ];
            encoder.push(&mut chunk, &row).unwrap();
        }
        encoder.finish(&mut chunk);
        load.push(chunk).await.unwrap();
        load.finish().await.unwrap();
        table
    }

    fn is_near(got: f64, truth: f64, by: f64) -> bool {
        (got / truth - 1.0).abs() < by
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_sample_tells_about_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path()).await;
        let table = large(&engine).await;
        let loaded = table.stats();
        let mut gather = Gather::new(&engine, &table, Pace::Full, &CancelToken::new());
        gather.whole_pages = 10;
        gather.sample_pages = 64;
        let stats = gather.run(None).await.unwrap();
        let rows = ROWS as f64;
        assert!(is_near(stats.rows as f64, rows, 0.05), "{}", stats.rows);
        for (got, exact) in stats.leaf_pages.iter().zip(&loaded.leaf_pages) {
            assert!(is_near(*got as f64, *exact as f64, 0.2), "{got} of {exact}");
        }
        assert!(loaded.leaf_pages[0] > 300);
        let distinct = [rows, rows / 4.0, 9.0, rows / 1.5, 1000.0];
        for (column, distinct) in stats.columns.iter().zip(distinct) {
            let got = column.distinct as f64;
            assert!(is_near(got, distinct, 0.25), "{got} of {distinct}");
        }
        assert!(is_near(stats.columns[3].nulls as f64, rows / 3.0, 0.05));
        let id = &stats.columns[0];
        assert_eq!(
            (&id.min, &id.max),
            (&Some(Datum::Int(0)), &Some(Datum::Int(ROWS - 1)))
        );
        for tenth in 1..10 {
            let below = id.below(&Datum::Int(ROWS / 10 * tenth)).unwrap();
            assert!((below - tenth as f64 / 10.0).abs() < 0.05, "{below}");
        }
        let seven = stats.columns[2].equal(&Datum::Int(7));
        assert!(is_near(seven, 1.0 / 9.0, 0.1), "{seven}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_table_that_is_read_as_a_whole_is_told_as_a_load_does() {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path()).await;
        let table = large(&engine).await;
        let loaded = table.stats();
        let gather = Gather::new(&engine, &table, Pace::Full, &CancelToken::new());
        let stats = gather.run(None).await.unwrap();
        assert_eq!(stats.rows, loaded.rows);
        assert_eq!(stats.leaf_pages, loaded.leaf_pages);
        for (column, loaded) in stats.columns.iter().zip(&loaded.columns) {
            assert_eq!(column.distinct, loaded.distinct);
            assert_eq!((column.nulls, &column.min), (loaded.nulls, &loaded.min));
            assert!(column.histogram.is_some() && loaded.histogram.is_some());
        }
        let stopped = CancelToken::new();
        stopped.cancel();
        let gather = Gather::new(&engine, &table, Pace::Full, &stopped);
        let outcome = gather.run(None).await;
        assert!(
            matches!(outcome, Err(EngineError::Cancelled)),
            "{outcome:?}"
        );
    }
}
