//! The undo log of a transaction: writing it, and reading it back to front.

use std::sync::Arc;

use perigee_page::{PageKind, RecordShape};
use perigee_redo::Op;
use perigee_types::{IndexId, PageId, RollPtr, TrxId};

use super::system::{self, Slot};
use super::undo::{self, UndoPage, UndoRecord};
use crate::EngineError;
use crate::buffer::{Access, BufferPool, Frame};
use crate::engine::Engine;
use crate::mtr::{ExtentUse, Latched, Mtr};

/// Index id that undo pages carry.
const NO_INDEX: IndexId = IndexId(0);

/// A transaction's undo log while it is written.
pub(crate) struct UndoLog {
    trx: TrxId,
    slot: usize,
    /// The page written to.
    current: Arc<Frame>,
}

impl UndoLog {
    /// Gives a transaction its slot and an empty undo log, in one log group.
    pub(crate) async fn begin(
        engine: &Engine,
        slot: usize,
        trx: TrxId,
    ) -> Result<Self, EngineError> {
        engine.pool.admit().await?;
        let before = engine.system.read(|page| system::slot(page, slot));
        let kept = match before.undo {
            PageId(0) => None,
            page => Some(engine.pool.fetch(page, Access::Point).await?),
        };
        Ok(Self::begin_with(engine, slot, trx, kept))
    }

    fn begin_with(engine: &Engine, slot: usize, trx: TrxId, kept: Option<Arc<Frame>>) -> Self {
        let mut mtr = Mtr::new(&engine.pool);
        let system = mtr.latch(&engine.system);
        let page = match &kept {
            Some(frame) => mtr.latch(frame),
            None => create_page(&mut mtr, &engine.pool),
        };
        let next = kept.as_ref().and_then(|_| next_of(&mtr, page));
        mtr.apply(page, undo::begin_page(trx, next));
        let current = mtr.frame(page).clone();
        mtr.apply(
            system,
            system::set_slot(
                slot,
                Slot {
                    trx,
                    undo: current.id(),
                },
            ),
        );
        let _ = mtr.commit();
        Self { trx, slot, current }
    }

    /// The slot.
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    /// Writes records; gives a roll pointer for each.
    pub(crate) async fn append(
        &mut self,
        pool: &BufferPool,
        records: &[UndoRecord],
    ) -> Result<Vec<RollPtr>, EngineError> {
        let mut pointers = Vec::with_capacity(records.len());
        while pointers.len() < records.len() {
            pool.admit().await?;
            pointers.extend(self.append_to_page(pool, &records[pointers.len()..]));
            if pointers.len() < records.len() {
                self.go_on(pool).await?;
            }
        }
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

    /// Goes on to the next page of the chain, a new one if there is none.
    async fn go_on(&mut self, pool: &BufferPool) -> Result<(), EngineError> {
        let next = self
            .current
            .read(|page| UndoPage::new(page).map(UndoPage::next))?;
        let next = match next {
            Some(id) => Some(pool.fetch(id, Access::Point).await?),
            None => None,
        };
        self.current = self.begin_next(pool, next);
        Ok(())
    }

    fn begin_next(&self, pool: &BufferPool, next: Option<Arc<Frame>>) -> Arc<Frame> {
        let mut mtr = Mtr::new(pool);
        let current = mtr.latch(&self.current);
        let page = match &next {
            Some(frame) => mtr.latch(frame),
            None => create_page(&mut mtr, pool),
        };
        let after = next.as_ref().and_then(|_| next_of(&mtr, page));
        mtr.apply(page, undo::begin_page(self.trx, after));
        let frame = mtr.frame(page).clone();
        mtr.apply(current, undo::link(frame.id()));
        let _ = mtr.commit();
        frame
    }
}

fn next_of(mtr: &Mtr<'_>, page: Latched) -> Option<PageId> {
    UndoPage::new(mtr.page(page)).ok().and_then(UndoPage::next)
}

fn create_page(mtr: &mut Mtr<'_>, pool: &BufferPool) -> Latched {
    let id = mtr.allocate(NO_INDEX, ExtentUse::Other);
    let page = mtr.create(id, NO_INDEX);
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
    page
}

/// Pages of a transaction's undo log in the order they were written. Pages behind them belong to the
/// slot, with records of some earlier transaction.
pub(crate) async fn pages_of(
    pool: &BufferPool,
    slot: Slot,
) -> Result<Vec<Arc<Frame>>, EngineError> {
    let mut pages: Vec<Arc<Frame>> = Vec::new();
    let mut next = Some(slot.undo).filter(|page| page.0 != 0);
    while let Some(id) = next {
        let frame = pool.fetch(id, Access::Point).await?;
        let (trx, after) =
            frame.read(|page| UndoPage::new(page).map(|undo| (undo.trx(), undo.next())))?;
        if trx != slot.trx {
            break;
        }
        if pages.iter().any(|page| page.id() == id) {
            return Err(EngineError::Corrupt(format!("undo {id} follows itself")));
        }
        pages.push(frame);
        next = after;
    }
    Ok(pages)
}
