//! Accounting for every page: what the space map says is in use, against what can be reached from
//! superblock, catalog and undo. Works on pages as they are given, without an engine; nobody may change
//! them meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use perigee_page::{OverflowPage, PageRef};
use perigee_sal::SUPERBLOCK;
use perigee_types::{IndexId, PageId, TableId};

use super::map::{ABANDONED, EXTENT, Entry, ExtentUse, MAPPED, map_page};
use crate::EngineError;
use crate::catalog::{CATALOG_ROOT, Schemas, Table, decode_catalog};
use crate::mtr::first_unused;
use crate::overflow::ChainId;
use crate::txn::{chain_references, chains_in_undo, next_undo_page, undo_heads};

/// Where pages come from.
pub trait PageSource {
    /// The page as it is now; `None` if it was never made, or freed.
    ///
    /// # Errors
    /// If it cannot be read.
    fn page(&mut self, page: PageId) -> Result<Option<Bytes>, EngineError>;
}

/// The space of one index, or of something else that has pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerSpace {
    /// What it is: `schema.table`, a space and the name of the index; or `undo`, `system`, `catalog`.
    pub name: String,
    /// The index, 0 if it is none.
    pub index: u32,
    /// Pages that hold records.
    pub leaves: u64,
    /// Pages that lead to them.
    pub inner: u64,
    /// Pages of long values.
    pub overflow: u64,
    /// All other pages.
    pub other: u64,
    /// Page numbers of its extents that are not in use.
    pub unused: u64,
}

impl OwnerSpace {
    /// Pages in use.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.leaves + self.inner + self.overflow + self.other
    }
}

/// What became of the pages of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceReport {
    /// Page numbers that were ever handed out.
    pub handed_out: u64,
    /// Who uses pages, in the order of the names.
    pub owners: Vec<OwnerSpace>,
    /// Page numbers of free extents.
    pub free: u64,
    /// Pages of trees that were dropped, or never finished: they are being freed, or the next start will.
    pub pending: u64,
    /// Pages that are marked as in use and that nothing leads to: lost.
    pub leaked: Vec<PageId>,
    /// What contradicts itself: pages that are in use twice, or not marked, or that are not what they should
    /// be.
    pub wrong: Vec<String>,
    /// All pages in use, whoever uses them.
    used: HashSet<PageId>,
}

impl SpaceReport {
    /// Pages in use by somebody.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.owners.iter().map(OwnerSpace::pages).sum()
    }

    /// Page numbers of extents in use that are not in use themselves.
    #[must_use]
    pub fn unused(&self) -> u64 {
        self.owners.iter().map(|owner| owner.unused).sum()
    }

    /// True if the map says that the page has content.
    #[must_use]
    pub fn is_used(&self, page: PageId) -> bool {
        self.used.contains(&page)
    }
}

/// Accounts for the pages of a database.
///
/// # Errors
/// If the superblock, the map, the system page or the catalog cannot be read; trees that cannot be read
/// are told in the report.
pub fn account(source: &mut dyn PageSource) -> Result<SpaceReport, EngineError> {
    let mut walk = Walk::new(source);
    let map = walk.read_map()?;
    walk.reach(SUPERBLOCK, "superblock");
    let schemas = walk.walk_system()?;
    for table in schemas.values().flat_map(BTreeMap::values) {
        walk.walk_table(table);
    }
    Ok(walk.settle(map, &schemas))
}

/// What was reached so far.
struct Walk<'s> {
    source: &'s mut dyn PageSource,
    /// What each page that was reached is for.
    reached: HashMap<PageId, String>,
    /// Chains that undo leads to, by table.
    chains: HashMap<TableId, Vec<ChainId>>,
    report: SpaceReport,
}

/// What the map says, by extent.
type Map = BTreeMap<u64, Entry>;

impl<'s> Walk<'s> {
    fn new(source: &'s mut dyn PageSource) -> Self {
        Self {
            source,
            reached: HashMap::new(),
            chains: HashMap::new(),
            report: SpaceReport::default(),
        }
    }

    /// A page that must be there.
    fn page(&mut self, page: PageId) -> Result<Bytes, EngineError> {
        let found = self.source.page(page)?;
        found.ok_or_else(|| EngineError::Corrupt(format!("{page} has no content")))
    }

    /// Notes that a page is used for something; false if it was reached before.
    fn reach(&mut self, page: PageId, what: &str) -> bool {
        match self.reached.insert(page, what.to_owned()) {
            None => true,
            Some(before) => {
                let text = format!("{page} is used twice, by {before} and by {what}");
                self.report.wrong.push(text);
                false
            }
        }
    }

    fn read_map(&mut self) -> Result<Map, EngineError> {
        let superblock = self.page(SUPERBLOCK)?;
        let next = first_unused(page_of(&superblock)?) / EXTENT;
        self.report.handed_out = next * EXTENT;
        let mut map = Map::new();
        for number in 0..next.div_ceil(MAPPED) {
            let id = map_page(number);
            let bytes = self.page(id)?;
            self.reach(id, "space map");
            let first = number * MAPPED;
            for extent in first..next.min(first + MAPPED) {
                let entry = Entry::read(page_of(&bytes)?, extent);
                let damaged = || EngineError::Corrupt(format!("space map {id}: extent {extent}"));
                map.insert(extent, entry.ok_or_else(damaged)?);
            }
        }
        Ok(map)
    }

    /// System page, undo and catalog; returns the tables.
    fn walk_system(&mut self) -> Result<Schemas, EngineError> {
        let system = self.page(crate::txn::SYSTEM_PAGE)?;
        self.reach(crate::txn::SYSTEM_PAGE, "system page");
        for head in undo_heads(page_of(&system)?) {
            if let Err(error) = self.walk_undo(head) {
                self.report.wrong.push(error.to_string());
            }
        }
        let mut entries = BTreeMap::new();
        let root = CATALOG_ROOT;
        self.walk_tree(root.root, root.index, "catalog", &mut |page| {
            for slot in 0..page.slot_count() {
                let item = |n| page.shape().var_item(page.record(slot), n).to_vec();
                entries.insert(item(0), item(1));
            }
        })?;
        decode_catalog(&mut entries)
    }

    fn walk_undo(&mut self, head: PageId) -> Result<(), EngineError> {
        let mut next = Some(head);
        while let Some(id) = next.filter(|id| id.0 != 0) {
            if !self.reach(id, "undo") {
                break;
            }
            let bytes = self.page(id)?;
            let page = page_of(&bytes)?;
            for (table, chain) in chains_in_undo(page)? {
                self.chains.entry(table).or_default().push(chain);
            }
            next = next_undo_page(page)?;
        }
        Ok(())
    }

    fn walk_table(&mut self, table: &Table) {
        let mut chains = self.chains.remove(&table.id).unwrap_or_default();
        for (number, index) in table.indexes.iter().enumerate() {
            let name = name_of(table, &index.name);
            let is_clustered = number == 0;
            let layout = &index.layout;
            let walked = self.walk_tree(index.root, index.id, &name, &mut |page| {
                if is_clustered && layout.has_long() {
                    let records = (0..page.slot_count()).map(|slot| page.record(slot));
                    chains.extend(records.flat_map(|record| chain_references(layout, record)));
                }
            });
            if let Err(error) = walked {
                self.report.wrong.push(format!("{name}: {error}"));
            }
        }
        let mut seen = BTreeSet::new();
        chains.retain(|chain| seen.insert(chain.number));
        let name = name_of(table, "overflow");
        for chain in chains {
            if let Err(error) = self.walk_chain(chain, &name) {
                self.report.wrong.push(format!("{name}: {error}"));
            }
        }
    }

    /// Goes through a tree; `leaf` gets each leaf.
    fn walk_tree(
        &mut self,
        root: PageId,
        index: IndexId,
        name: &str,
        leaf: &mut dyn FnMut(PageRef<'_>),
    ) -> Result<(), EngineError> {
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            if !self.reach(id, name) {
                continue;
            }
            let bytes = self.page(id)?;
            let page = page_of(&bytes)?;
            if page.index() != index || !page.kind().has_records() {
                let text = format!("{id} is not a page of {index}");
                return Err(EngineError::Corrupt(text));
            }
            match page.level() {
                0 => leaf(page),
                _ => stack.extend((0..page.slot_count()).map(|slot| page.child(slot))),
            }
        }
        Ok(())
    }

    /// Goes through a chain as far as it is there: it may be freed, or half freed.
    fn walk_chain(&mut self, chain: ChainId, name: &str) -> Result<(), EngineError> {
        let mut next = Some(chain.first);
        while let Some(id) = next.filter(|id| id.0 != 0) {
            let Some(bytes) = self.source.page(id)? else {
                break;
            };
            let page = page_of(&bytes)?;
            let part = OverflowPage::new(page).ok();
            if part.is_none_or(|part| part.chain() != chain.number) || !self.reach(id, name) {
                break;
            }
            next = page.next();
        }
        Ok(())
    }

    /// Compares what was reached with the map.
    fn settle(mut self, map: Map, schemas: &Schemas) -> SpaceReport {
        let mut owners = owners(schemas);
        for (extent, entry) in map {
            let Some((index, purpose)) = entry.owner else {
                self.report.free += EXTENT;
                continue;
            };
            self.report.used.extend(entry.pages(extent));
            let used = u64::from(entry.used.count_ones());
            let key = match (index, purpose) {
                (_, ExtentUse::System) => Key::System,
                (_, ExtentUse::Undo) => Key::Undo,
                _ => Key::Index(index),
            };
            let Some(owner) = owners.get_mut(&key) else {
                self.report.pending += EXTENT;
                continue;
            };
            if index == ABANDONED {
                self.report.pending += EXTENT;
                continue;
            }
            owner.unused += EXTENT - used;
            let reached = |page: &PageId| self.reached.contains_key(page);
            let (known, lost): (Vec<_>, Vec<_>) = entry.pages(extent).partition(reached);
            let known = known.len() as u64;
            match purpose {
                ExtentUse::Leaf => owner.leaves += known,
                ExtentUse::Inner => owner.inner += known,
                ExtentUse::Overflow => owner.overflow += known,
                ExtentUse::Undo | ExtentUse::System => owner.other += known,
            }
            self.report.leaked.extend(lost);
        }
        for (page, what) in &self.reached {
            if !self.report.used.contains(page) {
                let text = format!("{page}, {what}, is not marked as in use");
                self.report.wrong.push(text);
            }
        }
        self.report.wrong.sort();
        self.report.owners = owners.into_values().collect();
        self.report.owners.sort_by(|a, b| a.name.cmp(&b.name));
        self.report
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    System,
    Undo,
    Index(IndexId),
}

fn owners(schemas: &Schemas) -> HashMap<Key, OwnerSpace> {
    let space = |name: String, index: IndexId| OwnerSpace {
        name,
        index: index.0,
        ..OwnerSpace::default()
    };
    let mut owners = HashMap::new();
    let none = IndexId(0);
    owners.insert(Key::System, space("system".to_owned(), none));
    owners.insert(Key::Undo, space("undo".to_owned(), none));
    let catalog = CATALOG_ROOT.index;
    owners.insert(Key::Index(catalog), space("catalog".to_owned(), catalog));
    for table in schemas.values().flat_map(BTreeMap::values) {
        for index in &table.indexes {
            let name = name_of(table, &index.name);
            owners.insert(Key::Index(index.id), space(name, index.id));
        }
    }
    owners
}

fn name_of(table: &Table, part: &str) -> String {
    format!("{}.{} {part}", table.def.schema, table.def.name)
}

fn page_of(bytes: &Bytes) -> Result<PageRef<'_>, EngineError> {
    PageRef::new(bytes).map_err(|e| EngineError::Corrupt(e.to_string()))
}
