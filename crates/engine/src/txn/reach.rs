//! What system page, undo pages and rows lead to, for accounting ([`crate::space`]): read from pages, with no
//! engine.

use perigee_page::PageRef;
use perigee_types::{PageId, TableId};
use perigee_value::RowLayout;

use super::long::references;
use super::system;
use super::undo::{RECORDS, UndoChange, UndoPage};
use crate::EngineError;
use crate::overflow::ChainId;

/// The first pages of all undo segments that have pages.
pub(crate) fn undo_heads(system: PageRef<'_>) -> Vec<PageId> {
    let heads = (0..system::SLOTS).map(|slot| system::slot(system, slot).head);
    heads.filter(|head| head.0 != 0).collect()
}

/// The page of its segment that follows an undo page.
pub(crate) fn next_undo_page(page: PageRef<'_>) -> Result<Option<PageId>, EngineError> {
    Ok(UndoPage::new(page)?.next())
}

/// The chains that the records of an undo page are about. Some may be freed.
pub(crate) fn chains_in_undo(page: PageRef<'_>) -> Result<Vec<(TableId, ChainId)>, EngineError> {
    let records = UndoPage::new(page)?.records(RECORDS as u16)?;
    let chain = |(_, record): (_, super::undo::UndoRecord)| match record.change {
        UndoChange::ChainMade(chain) | UndoChange::ChainLeft(chain) => Some((record.table, chain)),
        _ => None,
    };
    Ok(records.into_iter().filter_map(chain).collect())
}

/// The chains that a clustered record leads to.
pub(crate) fn chain_references(layout: &RowLayout, record: &[u8]) -> Vec<ChainId> {
    let references = references(layout, record).into_iter();
    references.map(|(_, reference)| reference.into()).collect()
}
