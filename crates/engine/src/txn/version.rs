//! Older versions of a row, through its undo (SPEC's N8).

use perigee_page::RecordHeader;
use perigee_types::RollPtr;

use super::ReadView;
use super::undo::{UndoChange, UndoPage};
use crate::EngineError;
use crate::buffer::Access;
use crate::engine::Engine;

/// The version of a row that a view sees, given any version of its clustered record that is not
/// older; `None` if there was no such row.
pub(crate) async fn visible_version(
    engine: &Engine,
    record: &[u8],
    view: &ReadView,
) -> Result<Option<Vec<u8>>, EngineError> {
    let header = RecordHeader::read(record);
    if view.sees(header.trx) {
        return Ok((!header.flags.is_deleted()).then(|| record.to_vec()));
    }
    let mut version = previous_version(engine, record).await?;
    while let Some(record) = version {
        let header = RecordHeader::read(&record);
        if view.sees(header.trx) {
            return Ok((!header.flags.is_deleted()).then_some(record));
        }
        version = previous_version(engine, &record).await?;
    }
    Ok(None)
}

/// The version before this one; `None` if its transaction inserted the row. The undo must not have
/// been purged: the version's transaction is running, or some view does not see it.
pub(super) async fn previous_version(
    engine: &Engine,
    record: &[u8],
) -> Result<Option<Vec<u8>>, EngineError> {
    let header = RecordHeader::read(record);
    if header.roll == RollPtr(0) {
        return Ok(None);
    }
    let stray = |what: &str| {
        let (trx, roll) = (header.trx, header.roll);
        EngineError::Corrupt(format!("U1: undo {roll} of a version of {trx}: {what}"))
    };
    let page = match engine.pool.fetch(header.roll.page(), Access::Point).await {
        Err(error) if error.is_freed_page() => return Err(stray("its page was freed")),
        page => page?,
    };
    let undo = page.read(|page| UndoPage::new(page)?.record(header.roll.offset()))?;
    if undo.trx != header.trx {
        return Err(stray("it is of another transaction"));
    }
    match undo.change {
        UndoChange::Insert { .. } | UndoChange::Load => Ok(None),
        UndoChange::ChainMade(_) | UndoChange::ChainLeft(_) | UndoChange::Void => {
            Err(stray("it is about a chain"))
        }
        UndoChange::Update { before, .. } => {
            let version = before.restore(record);
            version.map(Some).ok_or_else(|| stray("it does not fit"))
        }
    }
}
