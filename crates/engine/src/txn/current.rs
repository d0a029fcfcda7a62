//! The current version of a row, of which nobody can tell whether it will stay as long as its writer
//! is running.

use perigee_page::RecordHeader;
use perigee_types::TrxId;

use super::Registry;
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

/// Who is writing a clustered record, if it is another than the transaction `own` and has not ended.
///
/// Ask this under the record's latch. Asked later, the answer would be worth nothing: a writer that
/// is found to have ended may have taken back, meanwhile, the version that was read. Under the latch
/// it has not, so it has committed.
pub(super) fn other_writer(
    registry: &Registry,
    record: &[u8],
    own: Option<TrxId>,
) -> Option<TrxId> {
    let writer = RecordHeader::read(record).trx;
    (Some(writer) != own && registry.is_active(writer)).then_some(writer)
}

/// What there is of the row with a clustered key, for the transaction `own`.
pub(super) async fn current_version(
    engine: &Engine,
    table: &Table,
    key: &[u8],
    own: Option<TrxId>,
) -> Result<Current, EngineError> {
    let tree = engine.tree(table.clustered());
    let look = |record: Option<&[u8]>| {
        let writer = record.and_then(|record| other_writer(&engine.registry, record, own));
        match writer {
            Some(writer) => Current::Written(writer),
            None => Current::Settled(record.map(<[u8]>::to_vec)),
        }
    };
    tree.look(key, look).await
}

/// What there is of a row for who belongs to no transaction.
pub(crate) enum Lookup {
    /// This version, committed; deleted ones are marked. `None` if there is no row.
    Settled(Option<Vec<u8>>),
    /// A version whose transaction has not ended.
    Written,
}

/// What there is of the row with a clustered key, for no transaction.
pub(crate) async fn look_up(
    engine: &Engine,
    table: &Table,
    key: &[u8],
) -> Result<Lookup, EngineError> {
    Ok(match current_version(engine, table, key, None).await? {
        Current::Settled(row) => Lookup::Settled(row),
        Current::Written(_) => Lookup::Written,
    })
}
