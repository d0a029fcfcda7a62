//! Chains of overflow pages: long values that lie outside of their rows (`docs/format/page.md`).
//!
//! Invariants:
//! - a chain is written once, before a record leads to it, and never changed: whoever changes a
//!   long value writes another chain, so that older versions keep theirs;
//! - a chain belongs to one row, whose versions may share it, and has a number that no other chain
//!   ever has;
//! - a chain is made from its first page on and freed from its last page on, so that the first page
//!   leads to all others at any moment, also after a crash;
//! - freeing what is freed changes nothing: the pages there do not have the chain's number. Two never
//!   free a chain at the same time.
//!
//! Who frees which chain, and when, is the business of undo (`txn/long.rs`).

use std::sync::Arc;

use bytes::Bytes;
use perigee_page::{HEADER_LEN, OVERFLOW_CAPACITY, OverflowPage, PageKind, RecordShape};
use perigee_page::{PageRef, overflow_body};
use perigee_redo::Op;
use perigee_types::{IndexId, PageId};
use perigee_value::{Datum, OverflowRef};

use crate::EngineError;
use crate::buffer::{Access, BufferPool, Frame};
use crate::engine::Engine;
use crate::mtr::{ExtentUse, Latched, Mtr};

/// Pages of a chain that are written or freed by one mini-transaction: half a megabyte of log.
const GROUP_PAGES: usize = 32;

/// A chain, wherever it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainId {
    /// Its first page.
    pub first: PageId,
    /// Its number.
    pub number: u64,
}

impl From<OverflowRef> for ChainId {
    fn from(reference: OverflowRef) -> Self {
        Self {
            first: reference.first,
            number: reference.chain,
        }
    }
}

/// A chain that is being written.
pub(crate) struct ChainWriter<'v> {
    index: IndexId,
    number: u64,
    value: &'v [u8],
    /// Bytes of the value that are on pages.
    written: usize,
    first: Option<PageId>,
    last: Option<Arc<Frame>>,
}

impl<'v> ChainWriter<'v> {
    /// A chain for a value, which is not empty, of a row of a clustered index.
    pub fn new(engine: &Engine, index: IndexId, value: &'v [u8]) -> Self {
        assert!(!value.is_empty(), "V8: an empty value has no pages");
        Self {
            index,
            number: engine.chain_number(),
            value,
            written: 0,
            first: None,
            last: None,
        }
    }

    /// Latches the last page so far, to which the next ones are linked.
    pub fn latch(&self, mtr: &mut Mtr<'_>) -> Option<Latched> {
        self.last.as_ref().map(|frame| mtr.latch(frame))
    }

    /// Makes the next pages. All else that the mini-transaction needs is latched.
    pub fn add(&mut self, mtr: &mut Mtr<'_>, last: Option<Latched>) {
        let parts = self.value[self.written..].chunks(OVERFLOW_CAPACITY);
        let parts: Vec<_> = parts.take(GROUP_PAGES).collect();
        let make = |_: &&[u8]| mtr.make(self.index, ExtentUse::Overflow);
        let pages: Vec<_> = parts.iter().map(make).collect();
        let ids: Vec<PageId> = pages.iter().map(|page| mtr.frame(*page).id()).collect();
        if let Some(last) = last {
            let (prev, next) = (PageId(0), ids[0]);
            mtr.apply(last, Op::SetLinks { prev, next });
        }
        for (at, (part, page)) in parts.iter().zip(&pages).enumerate() {
            let next = ids.get(at + 1).copied().unwrap_or_default();
            mtr.apply(*page, format(mtr, self.index, next));
            let start = self.written as u32; // no value is longer than 32 bits say
            let body = overflow_body(self.number, start, part);
            let write = Op::Write {
                offset: HEADER_LEN as u16,
                bytes: Bytes::from(body),
            };
            mtr.apply(*page, write);
            self.written += part.len();
        }
        self.first = self.first.or(ids.first().copied());
        self.last = pages.last().map(|page| mtr.frame(*page).clone());
    }

    /// The chain, once its first pages are made.
    pub fn id(&self) -> ChainId {
        ChainId {
            first: self.first.expect("the first pages were made"),
            number: self.number,
        }
    }

    /// Makes the pages that are missing; returns what leads to the value.
    pub async fn finish(mut self, engine: &Engine) -> Result<OverflowRef, EngineError> {
        while self.written < self.value.len() {
            engine.pool.admit().await?;
            let mut mtr = Mtr::new(&engine.pool);
            let last = self.latch(&mut mtr);
            self.add(&mut mtr, last);
            let _ = mtr.commit();
        }
        let ChainId { first, number } = self.id();
        Ok(OverflowRef {
            len: self.value.len() as u32,
            first,
            chain: number,
        })
    }
}

fn format(mtr: &Mtr<'_>, index: IndexId, next: PageId) -> Op {
    Op::Format {
        kind: PageKind::Overflow,
        level: 0,
        db: mtr.db(),
        index,
        shape: RecordShape::default(),
        prev: PageId(0),
        next,
    }
}

/// The value that a reference leads to.
///
/// # Errors
/// [`EngineError::Corrupt`] naming the page that is not the part of the chain that it should be.
pub(crate) async fn read_chain(
    pool: &BufferPool,
    reference: OverflowRef,
) -> Result<Vec<u8>, EngineError> {
    let len = reference.len as usize;
    let mut value = Vec::new();
    let mut next = Some(reference.first).filter(|first| first.0 != 0);
    while value.len() < len || next.is_some() {
        let Some(id) = next.filter(|_| value.len() < len) else {
            let (chain, found) = (reference.chain, value.len());
            let text = format!("chain {chain} has not {len} bytes: it goes otherwise at {found}");
            return Err(EngineError::Corrupt(text));
        };
        let frame = pool.fetch(id, Access::Scan).await?;
        next = frame.read(|page| {
            let part = part_of(page, reference.chain, value.len())?;
            value.extend_from_slice(part.bytes());
            Ok::<_, EngineError>(page.next())
        })?;
    }
    Ok(value)
}

/// The part of a chain that begins after so many bytes.
fn part_of(page: PageRef<'_>, chain: u64, start: usize) -> Result<OverflowPage<'_>, EngineError> {
    let corrupt = |what: String| {
        let page = page.id();
        EngineError::Corrupt(format!("{page} is not the part of chain {chain}: {what}"))
    };
    let part = OverflowPage::new(page).map_err(|e| corrupt(e.to_string()))?;
    if part.chain() != chain {
        return Err(corrupt(format!("it is of chain {}", part.chain())));
    }
    if part.start() as usize != start {
        let found = part.start();
        return Err(corrupt(format!("it begins at {found}, not at {start}")));
    }
    Ok(part)
}

/// Frees the pages of a chain, as far as they are not freed yet.
pub(crate) async fn free_chain(engine: &Engine, chain: ChainId) -> Result<(), EngineError> {
    let pool = &engine.pool;
    let mut pages = Vec::new();
    let (mut next, mut start) = (Some(chain.first), 0);
    while let Some(id) = next {
        let frame = match pool.fetch(id, Access::Scan).await {
            Err(error) if error.is_freed_page() => break,
            frame => frame?,
        };
        let part = frame.read(|page| {
            let part = part_of(page, chain.number, start).ok()?;
            Some((page.next(), part.bytes().len()))
        });
        let Some((behind, len)) = part else {
            break;
        };
        pages.push(id);
        start += len;
        next = behind;
    }
    for group in pages.rchunks(GROUP_PAGES) {
        let frames = pool.fetch_many(group, Access::Scan).await?;
        pool.admit().await?;
        let mut mtr = Mtr::new(pool);
        for page in frames
            .iter()
            .map(|frame| mtr.latch(frame))
            .collect::<Vec<_>>()
        {
            mtr.free(page);
        }
        let _ = mtr.commit();
    }
    Ok(())
}

impl Engine {
    /// Puts the values themselves in the places of references to them.
    ///
    /// # Errors
    /// What storage says. The row must be one that is locked, or that a view sees that is kept.
    pub async fn fetch_long(&self, row: &mut [Datum]) -> Result<(), EngineError> {
        for value in row {
            if let Datum::Overflow(reference) = value {
                *value = Datum::String(read_chain(&self.pool, *reference).await?);
            }
        }
        Ok(())
    }
}
