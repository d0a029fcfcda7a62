//! Undo segments: where transactions write their undo.
//!
//! Each transaction slot has a segment, a chain of undo pages. The transactions that use the slot,
//! one at a time, write at its *tail*; purge reads from its *head*. A page that purge has done with
//! goes behind the tail, empty, to be written to again; or it is freed, if there is one already. So a
//! segment has few pages however much undo a large transaction or an old view once had it keep:
//!
//! ```text
//!  head                start of the transaction    tail          spare
//! [undo to be purged]─►[……… | its undo ………………]─►[its undo | ]─►[empty]
//! ```
//!
//! So a roll pointer leads to the same undo record as long as anybody may follow it (U1).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use perigee_page::{PageKind, RecordShape};
use perigee_redo::Op;
use perigee_types::{IndexId, Lsn, PageId, RollPtr, TrxId};

use super::system::{self, SLOTS, Slot};
use super::undo::{self, RECORDS, UndoPage, UndoRecord};
use crate::EngineError;
use crate::buffer::{Access, BufferPool, Frame};
use crate::engine::Engine;
use crate::mtr::{ExtentUse, Latched, Mtr};

/// Index id that undo pages carry.
const NO_INDEX: IndexId = IndexId(0);

/// A place in a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The page.
    pub page: PageId,
    /// Offset in it of the next record.
    pub offset: u16,
}

impl Position {
    /// The first record of a page.
    pub fn first(page: PageId) -> Self {
        Self {
            page,
            offset: RECORDS as u16,
        }
    }

    /// Behind the last record of an undo page.
    pub fn end_of(page: &Frame) -> Result<Self, EngineError> {
        let end = page.read(|page| UndoPage::new(page).map(UndoPage::end))?;
        Ok(Self {
            page: page.id(),
            offset: end as u16,
        })
    }
}

/// The segments of all slots.
#[derive(Debug)]
pub(crate) struct Segments {
    free: Mutex<BTreeSet<usize>>,
    /// The tail of each segment, if known. Locked while the chain changes.
    tails: Box<[Mutex<Option<Arc<Frame>>>]>,
}

impl Segments {
    /// All slots are free but `taken`.
    pub fn new(taken: impl Iterator<Item = usize>) -> Self {
        let mut free: BTreeSet<_> = (0..SLOTS).collect();
        for slot in taken {
            free.remove(&slot);
        }
        Self {
            free: Mutex::new(free),
            tails: (0..SLOTS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes the first free slot: low slots are used most, so that few undo pages are.
    pub fn take(&self) -> Result<usize, EngineError> {
        self.free
            .lock()
            .pop_first()
            .ok_or(EngineError::TooManyTransactions(SLOTS))
    }

    /// Gives a slot back.
    pub fn give_back(&self, slot: usize) {
        assert!(
            self.free.lock().insert(slot),
            "transaction slot {slot} is given back twice"
        );
    }
}

/// A transaction's undo log while it is written.
pub(crate) struct UndoLog {
    slot: usize,
    start: Position,
    /// The tail.
    current: Arc<Frame>,
    /// True once there is something that purge has to look at.
    work: bool,
}

impl UndoLog {
    /// Gives a transaction its slot, and undo that begins at the tail of the slot's segment.
    pub async fn begin(engine: &Engine, slot: usize, trx: TrxId) -> Result<Self, EngineError> {
        engine.pool.admit().await?;
        let contents = engine.system.read(|page| system::slot(page, slot));
        let tail = find_tail(engine, slot, contents).await?;
        let mut mtr = Mtr::new(&engine.pool);
        let page = tail.as_ref().map(|frame| mtr.latch(frame));
        let system = mtr.latch(&engine.system);
        let page = page.unwrap_or_else(|| create_page(&mut mtr, &engine.pool));
        let current = mtr.frame(page).clone();
        let end = UndoPage::new(mtr.page(page))?.end();
        let start = Position {
            page: current.id(),
            offset: end as u16,
        };
        // Only now it stands still: purge moves the heads of free slots, too.
        let head = system::slot(mtr.page(system), slot).head;
        let head = Some(head).filter(|head| head.0 != 0);
        let head = head.unwrap_or(current.id());
        mtr.apply(system, system::set_slot(slot, Slot { trx, head, start }));
        let _ = mtr.commit();
        *engine.segments.tails[slot].lock() = Some(current.clone());
        Ok(Self {
            slot,
            start,
            current,
            work: false,
        })
    }

    /// The slot.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Where the transaction's undo begins.
    pub fn start(&self) -> Position {
        self.start
    }

    /// Where the next record goes, unless the page has no room for it.
    pub fn end(&self) -> Position {
        Position::end_of(&self.current).expect("V7: we wrote this undo page")
    }

    /// The page at hand.
    pub(super) fn current(&self) -> &Arc<Frame> {
        &self.current
    }

    /// What the registry keeps of it when the transaction ends.
    pub fn history(&self) -> (usize, Position, bool) {
        (self.slot, self.end(), self.work)
    }

    /// Writes records; gives a roll pointer for each.
    pub async fn append(
        &mut self,
        engine: &Engine,
        records: &[UndoRecord],
    ) -> Result<Vec<RollPtr>, EngineError> {
        let mut pointers = Vec::with_capacity(records.len());
        while pointers.len() < records.len() {
            engine.pool.admit().await?;
            pointers.extend(self.append_to_page(&engine.pool, &records[pointers.len()..]));
            if pointers.len() < records.len() {
                self.go_on(engine).await?;
            }
        }
        self.work |= records.iter().any(needs_purge);
        Ok(pointers)
    }

    /// Writes what fits the current page.
    fn append_to_page(&self, pool: &BufferPool, records: &[UndoRecord]) -> Vec<RollPtr> {
        let mut mtr = Mtr::new(pool);
        let page = mtr.latch(&self.current);
        let view = UndoPage::new(mtr.page(page)).expect("V7: we wrote this undo page");
        let (ops, pointers) = undo::append(view, records);
        if !pointers.is_empty() {
            ops.into_iter().for_each(|op| mtr.apply(page, op));
            let _ = mtr.commit();
        }
        pointers
    }

    /// Goes on to the next page of the segment, a new one if there is none.
    pub(super) async fn go_on(&mut self, engine: &Engine) -> Result<(), EngineError> {
        loop {
            let next = self
                .current
                .read(|page| UndoPage::new(page).map(UndoPage::next))?;
            let spare = match next {
                Some(id) => Some(engine.pool.fetch(id, Access::Point).await?),
                None => None,
            };
            if let Some(frame) = self.move_tail(engine, spare)? {
                self.current = frame;
                return Ok(());
            }
        }
    }

    /// Makes `spare`, or a new page, the tail. `None` if another page was put behind the tail
    /// meanwhile.
    fn move_tail(
        &self,
        engine: &Engine,
        spare: Option<Arc<Frame>>,
    ) -> Result<Option<Arc<Frame>>, EngineError> {
        let mut tail = engine.segments.tails[self.slot].lock();
        let expected = spare.as_ref().map(|frame| frame.id());
        let next = self
            .current
            .read(|page| UndoPage::new(page).map(UndoPage::next))?;
        if next != expected {
            return Ok(None);
        }
        let frame = match spare {
            Some(frame) => frame,
            None => {
                let mut mtr = Mtr::new(&engine.pool);
                let current = mtr.latch(&self.current);
                let page = create_page(&mut mtr, &engine.pool);
                let frame = mtr.frame(page).clone();
                mtr.apply(current, undo::link(frame.id()));
                let _ = mtr.commit();
                frame
            }
        };
        *tail = Some(frame.clone());
        Ok(Some(frame))
    }
}

/// True if an undo record is of use after its transaction has ended.
fn needs_purge(record: &UndoRecord) -> bool {
    matches!(
        record.change,
        undo::UndoChange::Update {
            touches_entries: true,
            ..
        } | undo::UndoChange::ChainLeft(_)
    )
}

fn create_page(mtr: &mut Mtr<'_>, pool: &BufferPool) -> Latched {
    let page = mtr.make(NO_INDEX, ExtentUse::Undo);
    let none = PageId(0);
    let db = pool.sal().db();
    let (index, shape) = (NO_INDEX, RecordShape::default());
    let format = Op::Format {
        kind: PageKind::Undo,
        level: 0,
        db,
        index,
        shape,
        prev: none,
        next: none,
    };
    mtr.apply(page, format);
    mtr.apply(page, undo::begin_page(None));
    page
}

/// The tail of a segment, `None` if it has no pages: the last page with records, from the slot's
/// start on.
pub(super) async fn find_tail(
    engine: &Engine,
    slot: usize,
    contents: Slot,
) -> Result<Option<Arc<Frame>>, EngineError> {
    if let Some(tail) = engine.segments.tails[slot].lock().clone() {
        return Ok(Some(tail));
    }
    if contents.start.page == PageId(0) {
        return Ok(None);
    }
    let pages = pages_from(engine, contents.start.page).await?;
    let last = pages.last().expect("it has a first one");
    let tail = engine.pool.fetch(*last, Access::Point).await?;
    *engine.segments.tails[slot].lock() = Some(tail.clone());
    Ok(Some(tail))
}

/// The pages of a segment from one on, as far as they were written to. Only their ids, not pinned:
/// the undo of one transaction may be larger than the buffer pool.
pub(super) async fn pages_from(engine: &Engine, first: PageId) -> Result<Vec<PageId>, EngineError> {
    let (mut pages, mut seen) = (vec![first], HashSet::from([first]));
    let mut last = engine.pool.fetch(first, Access::Point).await?;
    while let Some(next) = last.read(|page| UndoPage::new(page).map(UndoPage::next))? {
        if !seen.insert(next) {
            return Err(EngineError::Corrupt(format!("undo {next} follows itself")));
        }
        last = engine.pool.fetch(next, Access::Point).await?;
        if last.read(|page| UndoPage::new(page).map(UndoPage::is_empty))? {
            break;
        }
        pages.push(next);
    }
    Ok(pages)
}

/// Frees a slot: the commit, or the end of a rollback.
pub(super) fn free_slot(engine: &Engine, slot: usize, end: Position) -> Lsn {
    let mut mtr = Mtr::new(&engine.pool);
    let page = mtr.latch(&engine.system);
    let before = system::slot(mtr.page(page), slot);
    let free = Slot {
        trx: TrxId(0),
        start: end,
        ..before
    };
    mtr.apply(page, system::set_slot(slot, free));
    mtr.commit()
}

/// Takes a page that purge has done with off the head of a segment; the page after it becomes the head.
/// Returns that one.
pub(super) fn recycle(
    engine: &Engine,
    slot: usize,
    page: &Arc<Frame>,
) -> Result<PageId, EngineError> {
    let tail = engine.segments.tails[slot].lock();
    let tail = tail.as_ref().expect("a segment that is purged has a tail");
    assert_ne!(tail.id(), page.id(), "U1: the tail is purged");
    let mut mtr = Mtr::new(&engine.pool);
    let done = mtr.latch(page);
    let last = mtr.latch(tail);
    let system = mtr.latch(&engine.system);
    let before = system::slot(mtr.page(system), slot);
    assert_eq!(before.head, page.id(), "U1: purge goes from the head on");
    let head = UndoPage::new(mtr.page(done))?.next();
    let head = head.expect("the tail lies behind the head");
    let spare = UndoPage::new(mtr.page(last))?.next();
    mtr.apply(system, system::set_slot(slot, Slot { head, ..before }));
    if spare.is_some() {
        mtr.free(done);
    } else {
        mtr.apply(done, undo::begin_page(None));
        mtr.apply(last, undo::link(page.id()));
    }
    let _ = mtr.commit();
    Ok(head)
}
