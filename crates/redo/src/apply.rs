//! The one function that changes a page: called to do and to redo.

use perigee_page::{PageFormatError, PageMut, PageRef};
use perigee_types::{Lsn, PAGE_SIZE, PageId};

use crate::{Change, Op};

/// An operation does not fit the page it is applied to: the log and the page do not belong
/// together, or one of them is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("redo of {page} fails: {cause}")]
pub struct RedoError {
    /// The page.
    pub page: PageId,
    /// Why.
    pub cause: PageFormatError,
}

/// Applies one operation. On error the page is unchanged.
///
/// The page's LSN stays as it is; [`apply_change`] sets it once all operations of a group are in.
pub fn apply(page: &mut [u8; PAGE_SIZE], id: PageId, op: &Op) -> Result<(), RedoError> {
    let fail = |cause| RedoError { page: id, cause };
    if !matches!(op, Op::Format { .. }) {
        let found = PageRef::new(page).map_err(fail)?;
        if found.id() != id {
            let what = "the page has another id";
            return Err(fail(PageFormatError::Structure {
                page: found.id(),
                what,
            }));
        }
    }
    let mut page = PageMut::new(page);
    match op {
        Op::Format {
            kind,
            level,
            db,
            index,
            shape,
            prev,
            next,
        } => page.format(id, (*kind, *level), (*db, *index), *shape, (*prev, *next)),
        Op::Insert { slot, trx, records } => page
            .insert(*slot, records)
            .map(|()| page.raise_max_trx(*trx)),
        Op::Remove { slot, count, trx } => page
            .remove(*slot, *count)
            .map(|()| page.raise_max_trx(*trx)),
        Op::Replace { slot, trx, record } => page
            .replace(*slot, record)
            .map(|()| page.raise_max_trx(*trx)),
        Op::SetHeader { slot, trx, header } => page
            .set_header(*slot, header)
            .map(|()| page.raise_max_trx(*trx)),
        Op::SetLinks { prev, next } => {
            page.set_links(*prev, *next);
            Ok(())
        }
        Op::Write { offset, bytes } => page.write(*offset, bytes),
        Op::Free => page.free(),
    }
    .map_err(fail)
}

/// Applies a whole change of the group with LSN `lsn` and sets the page's LSN. Returns false, and
/// does nothing, if the page has that group already (a repeat is harmless: invariant P5).
pub fn apply_change(
    page: &mut [u8; PAGE_SIZE],
    lsn: Lsn,
    change: &Change,
) -> Result<bool, RedoError> {
    let formats = change.formats();
    if let Ok(current) = PageRef::new(page)
        && current.lsn() >= lsn
    {
        return Ok(false);
    } else if !formats && PageRef::new(page).is_err() {
        let what = "the first change of a page does not format it";
        return Err(RedoError {
            page: change.page,
            cause: PageFormatError::Structure {
                page: change.page,
                what,
            },
        });
    }
    for op in &change.ops {
        apply(page, change.page, op)?;
    }
    PageMut::new(page).set_lsn(lsn);
    Ok(true)
}
