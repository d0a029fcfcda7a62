//! Read views: which transactions' changes a reader sees.

use std::sync::Arc;

use perigee_page::RecordHeader;
use perigee_types::TrxId;

use super::registry::OpenView;

/// A snapshot of the set of transactions (InnoDB's read view). A change is visible if its
/// transaction had committed when the view was made, or is the view's own.
///
/// As long as a view lives, the undo that it may need is kept.
#[derive(Clone, Debug)]
pub struct ReadView {
    /// Every transaction below this id is visible (the low watermark).
    low: TrxId,
    /// No transaction from this id on is visible.
    high: TrxId,
    /// Transactions in `low..high` that were active, sorted.
    active: Arc<[TrxId]>,
    /// The transaction the view belongs to, if it writes.
    own: Option<TrxId>,
    /// Keeps purge away.
    _open: Option<Arc<OpenView>>,
}

impl ReadView {
    /// The view in which the sorted transactions `active` are running and `next` is the id that
    /// the next transaction will get.
    #[must_use]
    pub fn new(active: Vec<TrxId>, next: TrxId, own: Option<TrxId>) -> Self {
        assert!(
            active.is_sorted() && active.last().is_none_or(|last| *last < next),
            "V1"
        );
        let low = active.first().copied().unwrap_or(next);
        Self {
            low,
            high: next,
            active: active.into(),
            own,
            _open: None,
        }
    }

    /// The same view, registered so that purge heeds it.
    pub(super) fn registered(mut self, open: OpenView) -> Self {
        self._open = Some(Arc::new(open));
        self
    }

    /// The same snapshot as the transaction `own` sees it, which began to write after it was made.
    #[must_use]
    pub fn of(&self, own: TrxId) -> Self {
        Self {
            own: Some(own),
            ..self.clone()
        }
    }

    /// The same snapshot as everybody sees it.
    pub(super) fn without_own(&self) -> Self {
        Self {
            own: None,
            ..self.clone()
        }
    }

    /// The transaction whose own changes the view sees.
    #[must_use]
    pub fn own(&self) -> Option<TrxId> {
        self.own
    }

    /// The low watermark: what an NDP descriptor carries (taurus-ndp section IV.C.1).
    #[must_use]
    pub fn watermark(&self) -> TrxId {
        self.low
    }

    /// True if changes of `trx` are visible.
    #[must_use]
    pub fn sees(&self, trx: TrxId) -> bool {
        trx < self.low
            || Some(trx) == self.own
            || (trx < self.high && self.active.binary_search(&trx).is_err())
    }

    /// True if this version of a row, its clustered record, is visible.
    #[must_use]
    pub fn sees_record(&self, record: &[u8]) -> bool {
        self.sees(RecordHeader::read(record).trx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_sees_what_had_committed() {
        let view = ReadView::new(vec![TrxId(5), TrxId(8)], TrxId(10), Some(TrxId(8)));
        let seen: Vec<_> = (1..13).filter(|id| view.sees(TrxId(*id))).collect();
        assert_eq!(seen, [1, 2, 3, 4, 6, 7, 8, 9]);
        assert_eq!(view.watermark(), TrxId(5));
    }

    #[test]
    fn without_active_transactions_everything_before_is_visible() {
        let view = ReadView::new(vec![], TrxId(10), None);
        assert!(view.sees(TrxId(9)) && !view.sees(TrxId(10)));
        assert_eq!(view.watermark(), TrxId(10));
        assert!(view.of(TrxId(12)).sees(TrxId(12)) && !view.of(TrxId(12)).sees(TrxId(11)));
    }
}
