//! A table as the engine uses it: its definition, the layouts and roots of its indexes, and its
//! statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::RwLock;
use perigee_types::{DecodeError, IndexId, PageId, Reader, TableId, TrxId, Writer};
use perigee_value::{
    ColumnType, Datum, LayoutError, MAX_KEY_LEN, MAX_RECORD_LEN, RowLayout, ValueRef, format_value,
};
use tokio::sync::OnceCell;

use super::{Answers, Numbers, Sample, TableDef, TableStats, positive};
use crate::EngineError;
use crate::btree::TreeSize;
use crate::engine::Engine;
use crate::few_values::FewValues;
use crate::space::{Retired, TreeKeep};
use crate::txn::{DefinitionLock, ReadView, TableLocks};

/// In [`Index::columns`], stands for the hidden row id of a table without a primary key.
pub const HIDDEN_ROW_ID: u16 = u16::MAX;

/// Statistics are stale when one row in so many has changed since they were gathered, as InnoDB's
/// are.
const STALE_PART: u64 = 10;

/// Rows that must have changed for statistics to be stale, however small the table is: gathering
/// them costs as much as some hundred rows do.
const STALE_ROWS: u64 = 256;

/// Type of the hidden row id.
const ROW_ID_TYPE: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: true,
};

/// Most secondary indexes a table may have (MySQL's limit).
pub const MAX_INDEXES: usize = 64;

/// An index of a table.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its id, which its pages carry.
    pub id: IndexId,
    /// Name, `PRIMARY` for the clustered one.
    pub name: String,
    /// Layout of its leaf records.
    pub layout: Arc<RowLayout>,
    /// The table column behind each column of the layout, or [`HIDDEN_ROW_ID`].
    pub columns: Vec<u16>,
    /// Number of leading key columns that the user named.
    pub key_columns: usize,
    /// Root page of its tree.
    pub root: PageId,
    /// True if rows with equal key columns are refused.
    pub unique: bool,
    keep: Option<Arc<TreeKeep>>,
}

impl Index {
    /// Position in the layout of a table column.
    #[must_use]
    pub fn position(&self, table_column: u16) -> Option<u16> {
        self.columns
            .iter()
            .position(|c| *c == table_column)
            .map(|i| i as u16)
    }

    /// True if the layout has all these table columns.
    #[must_use]
    pub fn covers(&self, table_columns: &[u16]) -> bool {
        table_columns.iter().all(|c| self.columns.contains(c))
    }
}

/// What the catalog keeps of an index besides its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRoot {
    /// The index.
    pub id: IndexId,
    /// Root page of its tree.
    pub root: PageId,
    /// Keeps the tree; a table that is only tried out has none.
    keep: Option<Arc<TreeKeep>>,
}

impl IndexRoot {
    /// A root that nothing keeps.
    #[must_use]
    pub const fn new(id: IndexId, root: PageId) -> Self {
        let keep = None;
        Self { id, root, keep }
    }

    /// A root that is not freed before this one and all its copies have gone.
    pub(crate) fn kept(id: IndexId, root: PageId, retired: &Arc<Retired>) -> Self {
        let keep = Some(TreeKeep::new(id, retired));
        Self { id, root, keep }
    }
}

/// A table. Shared by all statements that use it; DDL and loads replace it in the catalog.
#[derive(Debug)]
pub struct Table {
    /// Its id.
    pub id: TableId,
    /// Its definition.
    pub def: TableDef,
    /// Its indexes, the clustered one first, then as in the definition.
    pub indexes: Vec<Index>,
    /// Held shared by transactions that use the table, until they end, and exclusively by who
    /// changes its definition.
    pub(crate) definition: Arc<DefinitionLock>,
    /// Explicit locks.
    pub(crate) locks: TableLocks,
    stats: RwLock<Arc<TableStats>>,
    /// What samples said of conditions; they go with the statistics.
    samples: Answers<Sample>,
    /// Which values few rows have for which conditions are true; they go with the statistics.
    few_values: Answers<FewValues>,
    /// Set once the statistics are those of the trees as they are.
    sized: OnceCell<()>,
    added_rows: AtomicI64,
    /// Rows that changed since the statistics were gathered.
    changed_rows: AtomicU64,
    /// Changed rows from which on the statistics are stale.
    most_changed: AtomicU64,
    numbers: Option<Arc<Numbers>>,
    /// It has columns whose values may lie outside of their rows.
    has_long: bool,
    /// The change of definition that wrote its records or entries anew, leaving older versions
    /// out; 0 if there was none since the engine was opened.
    rebuilt: AtomicU64,
    /// The change of definition from which on its trees are not written to any more; 0 as long as
    /// there was none.
    retired: AtomicU64,
}

impl Table {
    /// Builds the table from its definition and the roots of its indexes.
    pub fn new(
        id: TableId,
        def: TableDef,
        roots: &[IndexRoot],
        stats: TableStats,
    ) -> Result<Self, EngineError> {
        check(&def)?;
        let mut indexes = vec![clustered(&def, &roots[0])?];
        for (index, root) in def.indexes.iter().zip(&roots[1..]) {
            let (columns, layout) = secondary_layout(&def, &index.columns)?;
            indexes.push(Index {
                id: root.id,
                name: index.name.clone(),
                layout: Arc::new(layout),
                columns,
                key_columns: index.columns.len(),
                root: root.root,
                unique: index.unique,
                keep: root.keep.clone(),
            });
        }
        assert_eq!(indexes.len(), roots.len(), "one root an index");
        let numbers = def
            .auto_increment
            .map(|auto| Arc::new(Numbers::new(&def, auto)));
        Ok(Self {
            id,
            has_long: indexes[0].layout.has_long(),
            def,
            indexes,
            definition: Arc::default(),
            locks: TableLocks::default(),
            numbers,
            rebuilt: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            most_changed: AtomicU64::new(most_changed(&stats)),
            stats: RwLock::new(Arc::new(stats)),
            samples: Answers::default(),
            few_values: Answers::default(),
            sized: OnceCell::from(()),
            added_rows: AtomicI64::new(0),
            changed_rows: AtomicU64::new(0),
        })
    }

    /// The table with another definition and other trees, to take this one's place: it has the
    /// same lock, and the same numbers if they are still those of the same column.
    pub(crate) fn successor(
        &self,
        id: TableId,
        def: TableDef,
        roots: &[IndexRoot],
        stats: TableStats,
    ) -> Result<Self, EngineError> {
        let mut table = Self::new(id, def, roots, stats)?;
        table.definition = self.definition.clone();
        table.rebuilt_by(TrxId(self.rebuilt.load(Ordering::Acquire)));
        if !self.sized.initialized() {
            table.sized = OnceCell::new();
        }
        if id == self.id {
            table.changed_rows = AtomicU64::new(self.changed_rows());
        }
        let place = |table: &Self| {
            let auto = table.def.auto_increment?;
            Some((auto, table.def.columns[usize::from(auto.column)].ty))
        };
        if id == self.id && place(self) == place(&table) {
            table.numbers.clone_from(&self.numbers);
        }
        Ok(table)
    }

    /// Notes which change of definition wrote its records or entries anew.
    pub(crate) fn rebuilt_by(&self, trx: TrxId) {
        self.rebuilt.store(trx.0, Ordering::Release);
    }

    /// Notes which change of definition ends the use of its trees.
    pub(crate) fn retired_by(&self, trx: TrxId) {
        self.retired.store(trx.0, Ordering::Release);
    }

    /// Checks that all that a view sees is in the table's trees: that it does not need versions
    /// that a change of the definition left out, nor changes from after the trees were given up.
    ///
    /// # Errors
    /// [`EngineError::TableChanged`].
    pub(crate) fn check_view(&self, view: &ReadView) -> Result<(), EngineError> {
        let rebuilt = TrxId(self.rebuilt.load(Ordering::Acquire));
        let retired = TrxId(self.retired.load(Ordering::Acquire));
        if view.sees(rebuilt) && (retired == TrxId(0) || !view.sees(retired)) {
            return Ok(());
        }
        Err(EngineError::TableChanged(self.def.name.clone()))
    }

    /// Takes note of the number that a row is given: later ones are greater.
    pub(crate) fn note_number(&self, row: &[Datum]) {
        let (Some(auto), Some(numbers)) = (self.def.auto_increment, &self.numbers) else {
            return;
        };
        let value = row.get(usize::from(auto.column)).map(Datum::as_ref);
        if let Some(number) = value.and_then(positive) {
            numbers.raise(number);
        }
    }

    /// Roots of its indexes.
    pub(crate) fn roots(&self) -> Vec<IndexRoot> {
        let root = |index: &Index| IndexRoot {
            id: index.id,
            root: index.root,
            keep: index.keep.clone(),
        };
        self.indexes.iter().map(root).collect()
    }

    /// Statistics; rows include those inserted and deleted since they were gathered.
    #[must_use]
    pub fn stats(&self) -> Arc<TableStats> {
        let stats = self.stats.read().clone();
        match self.added_rows.load(Ordering::Relaxed) {
            0 => stats,
            added => Arc::new(TableStats {
                rows: stats.rows.saturating_add_signed(added),
                ..(*stats).clone()
            }),
        }
    }

    /// What a sample said that was asked for so, if that is known.
    pub(crate) fn sampled(&self, asked: &[u8]) -> Option<Sample> {
        self.samples.get(asked)
    }

    /// Keeps what a sample said until the statistics are gathered anew.
    pub(crate) fn keep_sample(&self, asked: &[u8], sample: Sample) {
        self.samples.keep(asked, sample);
    }

    /// Which values were found by what was asked so, if that is known.
    pub(crate) fn few_values(&self, asked: &[u8]) -> Option<FewValues> {
        self.few_values.get(asked)
    }

    /// Keeps the values that were found until the statistics are gathered anew.
    pub(crate) fn keep_few_values(&self, asked: &[u8], values: FewValues) {
        self.few_values.keep(asked, values);
    }

    /// Replaces the statistics by new ones.
    fn set_stats(&self, stats: TableStats) {
        let most = most_changed(&stats);
        self.most_changed.store(most, Ordering::Relaxed);
        *self.stats.write() = Arc::new(stats);
        self.samples.clear();
        self.few_values.clear();
        self.added_rows.store(0, Ordering::Relaxed);
    }

    /// Replaces the statistics by new ones that were gathered when so many rows had changed since
    /// the last time.
    pub(crate) fn renew_stats(&self, stats: TableStats, changed: u64) {
        self.set_stats(stats);
        let before = self.changed_rows.fetch_sub(changed, Ordering::Relaxed);
        // Two that gather at the same time count the same changes.
        if before < changed {
            self.changed_rows.store(0, Ordering::Relaxed);
        }
    }

    /// Rows that changed since the statistics were gathered.
    pub(crate) fn changed_rows(&self) -> u64 {
        self.changed_rows.load(Ordering::Relaxed)
    }

    /// True if so many rows changed that the statistics should be gathered anew.
    pub(crate) fn is_stale(&self) -> bool {
        self.changed_rows() >= self.most_changed.load(Ordering::Relaxed)
    }

    /// Corrects the statistics if they are far from the sizes of the trees; they are stale then, as
    /// they are if there are rows and nothing is known of the columns.
    fn note_sizes(&self, sizes: &[TreeSize]) {
        let near = |a: u64, b: u64| 4 * a.abs_diff(b) <= a.max(b);
        let pages: Vec<_> = sizes.iter().map(|size| size.leaf_pages).collect();
        let mut stats = (*self.stats()).clone();
        let mut stale = stats.columns.is_empty() && sizes[0].records >= STALE_ROWS;
        if !near(stats.rows, sizes[0].records) {
            stale |= stats.rows.abs_diff(sizes[0].records) >= STALE_ROWS;
            stats.rows = sizes[0].records;
        }
        let known = stats.leaf_pages.iter().zip(&pages);
        if stats.leaf_pages.len() != pages.len() || !known.into_iter().all(|(a, b)| near(*a, *b)) {
            stats.leaf_pages = pages;
        }
        self.set_stats(stats);
        if stale {
            let most = self.most_changed.load(Ordering::Relaxed);
            self.changed_rows.fetch_max(most, Ordering::Relaxed);
        }
    }

    /// Counts rows that a committed transaction changed, and by how many the table grew. True if
    /// the statistics become stale by that.
    pub(crate) fn count_changes(&self, grown: i64, changed: u64) -> bool {
        self.added_rows.fetch_add(grown, Ordering::Relaxed);
        let before = self.changed_rows.fetch_add(changed, Ordering::Relaxed);
        let most = self.most_changed.load(Ordering::Relaxed);
        before < most && before + changed >= most
    }

    /// What AUTO_INCREMENT hands out; [`crate::Engine::numbers`] makes sure that they are new.
    pub(crate) fn numbers(&self) -> Option<&Arc<Numbers>> {
        self.numbers.as_ref()
    }

    /// The clustered index.
    #[must_use]
    pub fn clustered(&self) -> &Index {
        &self.indexes[0]
    }

    /// True if it has columns whose values may lie outside of their rows.
    #[must_use]
    pub fn has_long(&self) -> bool {
        self.has_long
    }

    /// Appends a value of a column, or of the hidden row id, as it is shown.
    pub(crate) fn format(&self, column: u16, value: ValueRef<'_>, out: &mut String) {
        match self.def.columns.get(usize::from(column)) {
            Some(def) => def.format(value, out),
            None => format_value(ROW_ID_TYPE, value, out),
        }
    }

    /// True if rows are ordered by a hidden row id.
    #[must_use]
    pub fn has_hidden_row_id(&self) -> bool {
        self.def.primary_key.is_empty()
    }

    /// Appends the wire form kept in the catalog, without the statistics.
    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.id.0);
        self.def.encode(w);
        for index in &self.indexes {
            w.u32(index.id.0).u64(index.root.0);
        }
    }

    /// Reads what [`Table::encode`] wrote.
    pub(crate) fn decode(
        bytes: &[u8],
        stats: TableStats,
        retired: &Arc<Retired>,
    ) -> Result<Self, EngineError> {
        let corrupt = |e: DecodeError| EngineError::Corrupt(format!("catalog entry: {e}"));
        let mut r = Reader::new(bytes, "catalog entry of a table");
        let id = TableId(r.u32().map_err(corrupt)?);
        let def = TableDef::decode(&mut r).map_err(corrupt)?;
        let mut roots = Vec::new();
        for _ in 0..=def.indexes.len() {
            let id = IndexId(r.u32().map_err(corrupt)?);
            let root = PageId(r.u64().map_err(corrupt)?);
            roots.push(IndexRoot::kept(id, root, retired));
        }
        r.finish().map_err(corrupt)?;
        let mut table = Self::new(id, def, &roots, stats)?;
        // What rows came and went since the statistics were kept, nobody knows any more.
        table.sized = OnceCell::new();
        Ok(table)
    }
}

impl Engine {
    /// Has the statistics of a table be those of its trees as they are, about. Only the first use
    /// of a table after the start reads pages for it.
    ///
    /// # Errors
    /// What storage says.
    pub async fn look_at_size(&self, table: &Table) -> Result<(), EngineError> {
        let look = async || {
            let mut sizes = Vec::new();
            for index in &table.indexes {
                sizes.push(self.tree(index).estimate_size().await?);
            }
            table.note_sizes(&sizes);
            if table.is_stale() {
                self.keeper.wake();
            }
            Ok(())
        };
        table.sized.get_or_try_init(look).await.map(drop)
    }
}

/// Changed rows from which on statistics are stale.
fn most_changed(stats: &TableStats) -> u64 {
    (stats.rows / STALE_PART).max(STALE_ROWS)
}

fn check(def: &TableDef) -> Result<(), EngineError> {
    if def.indexes.len() > MAX_INDEXES {
        let n = def.indexes.len();
        let text = format!("a table has at most {MAX_INDEXES} secondary indexes, not {n}");
        return Err(EngineError::BadDefinition(text));
    }
    Ok(())
}

fn clustered(def: &TableDef, root: &IndexRoot) -> Result<Index, EngineError> {
    let mut types: Vec<_> = def.columns.iter().map(|c| (c.ty, c.nullable)).collect();
    let mut columns: Vec<u16> = (0..def.columns.len() as u16).collect();
    let mut key = def.primary_key.clone();
    if key.is_empty() {
        key.push(columns.len() as u16);
        columns.push(HIDDEN_ROW_ID);
        types.push((ROW_ID_TYPE, false));
    }
    let layout = RowLayout::clustered(&types, &key).map_err(layout_error)?;
    Ok(Index {
        id: root.id,
        name: "PRIMARY".to_owned(),
        layout: Arc::new(layout),
        columns,
        key_columns: key.len(),
        root: root.root,
        unique: true,
        keep: root.keep.clone(),
    })
}

/// Entry of a secondary index: its columns, then the primary key columns it lacks.
fn secondary_layout(def: &TableDef, key: &[u16]) -> Result<(Vec<u16>, RowLayout), EngineError> {
    let primary_key: &[u16] = if def.primary_key.is_empty() {
        &[HIDDEN_ROW_ID]
    } else {
        &def.primary_key
    };
    let columns = RowLayout::secondary_columns(key, primary_key);
    let types: Vec<_> = columns
        .iter()
        .map(|c| match *c {
            HIDDEN_ROW_ID => (ROW_ID_TYPE, false),
            c => (
                def.columns[usize::from(c)].ty,
                def.columns[usize::from(c)].nullable,
            ),
        })
        .collect();
    let layout = RowLayout::secondary(&types).map_err(layout_error)?;
    Ok((columns, layout))
}

fn layout_error(error: LayoutError) -> EngineError {
    match error {
        LayoutError::RowTooLong(bytes) => EngineError::RowTooLong {
            bytes,
            limit: MAX_RECORD_LEN,
        },
        LayoutError::KeyTooLong(bytes) => EngineError::KeyTooLong {
            bytes,
            limit: MAX_KEY_LEN,
        },
        other => EngineError::BadDefinition(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use perigee_value::Collation;
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::{ColumnDef, ColumnDefault, Generated, Hidden, IndexDef};

    fn definition() -> TableDef {
        let column = |name: &str, ty, nullable| ColumnDef {
            nullable,
            default: nullable.then_some(ColumnDefault::Value(Datum::Int(7))),
            comment: "a column".to_owned(),
            ..ColumnDef::new(name, ty)
        };
        let int = ColumnType::Int {
            bytes: 4,
            unsigned: false,
        };
        let text = ColumnType::Varchar {
            chars: 20,
            collation: Collation::UTF8MB4_BIN,
        };
        TableDef {
            schema: "s".to_owned(),
            name: "t".to_owned(),
            columns: vec![
                column("a", int, false),
                column("b", text, true),
                ColumnDef {
                    invisible: true,
                    ..column("c", int, true)
                },
                ColumnDef {
                    generated: Some(Generated {
                        expression: "left(`b`,3)".to_owned(),
                        stored: false,
                    }),
                    hidden: Some(Hidden::Prefix { of: 1, length: 3 }),
                    ..column("hidden", text, true)
                },
            ],
            primary_key: vec![0],
            descending_primary_key: [true].into_iter().collect(),
            indexes: vec![IndexDef {
                name: "i".to_owned(),
                columns: vec![3, 2],
                unique: false,
                invisible: true,
                descending: [false, true].into_iter().collect(),
            }],
            auto_increment: None,
            collation: Collation::UTF8MB4_BIN,
            comment: String::new(),
            ..TableDef::default()
        }
    }

    fn encoded() -> Vec<u8> {
        let root = |n| IndexRoot::new(IndexId(n), PageId(u64::from(n)));
        let stats = TableStats::default();
        let table = Table::new(TableId(3), definition(), &[root(1), root(2)], stats);
        let mut w = Writer::new();
        table.expect("a good definition").encode(&mut w);
        w.into_bytes()
    }

    #[test]
    fn definitions_come_back() {
        let table = Table::decode(&encoded(), TableStats::default(), &Arc::default());
        assert_eq!(table.expect("it is whole").def, definition());
    }

    proptest! {
        #[test]
        fn damaged_entries_are_survived(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
            whole: bool,
        ) {
            let mut bytes = encoded();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            if !whole {
                bytes.truncate(cut.index(bytes.len()));
            }
            let table = Table::decode(&bytes, TableStats::default(), &Arc::default());
            prop_assert!(table.is_ok() || !whole || !changes.is_empty());
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Table::decode(&bytes, TableStats::default(), &Arc::default());
            let _ = TableStats::decode(&mut Reader::new(&bytes, "statistics"));
        }
    }
}
