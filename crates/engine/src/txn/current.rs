//! The current version of a row, of which nobody can tell whether it will stay as long as its writer
//! is running.

use perigee_page::RecordHeader;
use perigee_types::TrxId;

use crate::EngineError;
use crate::catalog::Table;
use crate::engine::Engine;

/// What there is of a row.
pub(super) enum Current {
    /// This version, committed or one's own; deleted ones are marked. `None` if there is no row.
    Settled(Option<Vec<u8>>),
    /// A version of another's that has not ended.
    Written(TrxId),
}

/// What there is of the row with a clustered key, for the transaction `own`.
///
/// Whether its writer runs is asked under the row's latch. Asked later, the answer would be worth
/// nothing: a writer that is found to have ended may have taken back, meanwhile, the version that
/// was read. Under the latch it has not, so it has committed.
pub(super) async fn current_version(
    engine: &Engine,
    table: &Table,
    key: &[u8],
    own: Option<TrxId>,
) -> Result<Current, EngineError> {
    let tree = engine.tree(table.clustered());
    let look = |record: Option<&[u8]>| {
        let Some(record) = record else {
            return Current::Settled(None);
        };
        let writer = RecordHeader::read(record).trx;
        if Some(writer) != own && engine.registry.is_active(writer) {
            return Current::Written(writer);
        }
        Current::Settled(Some(record.to_vec()))
    };
    tree.look(key, look).await
}
