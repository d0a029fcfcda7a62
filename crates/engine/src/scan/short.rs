//! Reads of single rows and short ranges by key, without the machinery of scans: visible records
//! are copied as they are found, whole.

use std::ops::ControlFlow;

use perigee_page::RecordHeader;

use super::Records;
use super::resolve::row_of_entry;
use crate::EngineError;
use crate::btree::{KeySpan, KeySpans, Tree, Visit, Visitor, Walked};
use crate::catalog::Table;
use crate::engine::Engine;
use crate::txn::{ReadView, clustered_key, visible_version};

/// Most records of an index that a short read looks at. Longer ranges are for scans.
const MOST_RECORDS: usize = 1000;

/// Parts of an index that are expected to be short.
#[derive(Debug)]
pub struct ShortRead<'a> {
    /// The table.
    pub table: &'a Table,
    /// Index number in [`Table::indexes`].
    pub index: usize,
    /// The parts.
    pub spans: &'a KeySpans,
    /// Rows that are enough.
    pub rows: usize,
}

impl Engine {
    /// Replaces `out` by the clustered records of the rows that lie in parts of an index, as a view
    /// sees them, in that index's order. False if the parts are too long to be read this way.
    ///
    /// # Errors
    /// If storage fails.
    pub async fn read_short(
        &self,
        read: &ShortRead<'_>,
        view: &ReadView,
        out: &mut Records,
    ) -> Result<bool, EngineError> {
        read.table.check_view(view)?;
        if read.index != 0 {
            return self.read_by_entries(read, view, out).await;
        }
        let mut most = read.rows;
        loop {
            let found = self.read_rows(read, view, most, out).await?;
            match found {
                Found::All => {}
                Found::Most if out.len() >= read.rows => {}
                // Some of them have no version that is visible.
                Found::Most => {
                    most = (2 * most).max(1);
                    continue;
                }
                Found::TooLong => return Ok(false),
            }
            out.truncate(read.rows);
            return Ok(true);
        }
    }

    /// Looks at records until `most` may be visible.
    async fn read_rows(
        &self,
        read: &ShortRead<'_>,
        view: &ReadView,
        most: usize,
        out: &mut Records,
    ) -> Result<Found, EngineError> {
        // Records that are newer than the view.
        let mut newer = Vec::new();
        let mut seen = 0;
        out.clear();
        let tree = self.tree(read.table.clustered());
        let mut brought_in = false;
        let mut found = Found::All;
        for at in 0..read.spans.len() {
            let before = (out.len(), newer.len(), seen);
            let mut visit = |visit: Visit<'_>| {
                let Visit::Record(page, slot) = visit else {
                    out.truncate(before.0);
                    newer.truncate(before.1);
                    seen = before.2;
                    return go_on(out.len() < most);
                };
                seen += 1;
                let record = page.record(slot);
                let header = RecordHeader::read(record);
                if !view.sees(header.trx) {
                    newer.push(out.len());
                    out.push(record);
                } else if !header.flags.is_deleted() {
                    out.push(record);
                }
                go_on(out.len() < most && seen <= MOST_RECORDS)
            };
            let walked = walk_one(&tree, read.spans, at, &mut brought_in, &mut visit).await?;
            if walked == Walked::TooLong || seen > MOST_RECORDS {
                return Ok(Found::TooLong);
            }
            if out.len() == most {
                found = Found::Most;
                break;
            }
        }
        if !newer.is_empty() {
            self.restore(&newer, view, out).await?;
        }
        Ok(found)
    }

    /// Puts the visible versions in the places of records that are newer than the view.
    async fn restore(
        &self,
        newer: &[usize],
        view: &ReadView,
        records: &mut Records,
    ) -> Result<(), EngineError> {
        let found = std::mem::take(records);
        let mut newer = newer.iter().peekable();
        for (at, record) in found.iter().enumerate() {
            if newer.next_if_eq(&&at).is_none() {
                records.push(record);
            } else if let Some(version) = visible_version(self, record, view).await? {
                records.push(&version);
            }
        }
        Ok(())
    }

    async fn read_by_entries(
        &self,
        read: &ShortRead<'_>,
        view: &ReadView,
        out: &mut Records,
    ) -> Result<bool, EngineError> {
        let (table, index) = (read.table, &read.table.indexes[read.index]);
        out.clear();
        let mut entries = Records::default();
        let tree = self.tree(index);
        let mut brought_in = false;
        for at in 0..read.spans.len() {
            let before = entries.len();
            let mut visit = |visit: Visit<'_>| match visit {
                Visit::Begin => {
                    entries.truncate(before);
                    go_on(read.rows > 0)
                }
                Visit::Record(page, slot) => {
                    entries.push(page.record(slot));
                    go_on(entries.len() <= MOST_RECORDS)
                }
            };
            let walked = walk_one(&tree, read.spans, at, &mut brought_in, &mut visit).await?;
            if walked == Walked::TooLong || entries.len() > MOST_RECORDS {
                return Ok(false);
            }
        }
        let keys = entries
            .iter()
            .map(|entry| Ok(KeySpan::prefix(&clustered_key(table, index, entry)?)))
            .collect::<Result<Vec<_>, EngineError>>()?;
        let clustered = self.tree(table.clustered());
        let (mut row, mut fetched) = (Vec::new(), false);
        for (at, entry) in entries.iter().enumerate() {
            let mut visit = |visit: Visit<'_>| {
                row.clear();
                match visit {
                    Visit::Begin => ControlFlow::Continue(()),
                    Visit::Record(page, slot) => {
                        row.extend_from_slice(page.record(slot));
                        ControlFlow::Break(())
                    }
                }
            };
            if clustered.walk_resident(&keys[at], &mut visit)?.is_none() {
                // What the other rows lack is read with it.
                if !std::mem::replace(&mut fetched, true) {
                    clustered.prefetch(&keys[at..]).await?;
                }
                clustered.walk(&keys[at], &mut visit).await?;
            }
            // Without a row the entry is about to be purged.
            if !row.is_empty()
                && let Some((row, _)) =
                    row_of_entry(self, (table, index), entry, &row, view).await?
            {
                out.push(&row);
            }
            if out.len() == read.rows {
                break;
            }
        }
        Ok(true)
    }
}

/// Goes over one of several spans. If a page is missing, what the spans behind it lack is read with it.
async fn walk_one(
    tree: &Tree,
    spans: &[KeySpan],
    at: usize,
    brought_in: &mut bool,
    visit: &mut Visitor<'_>,
) -> Result<Walked, EngineError> {
    if let Some(walked) = tree.walk_resident(&spans[at], visit)? {
        return Ok(walked);
    }
    if !std::mem::replace(brought_in, true) {
        tree.prefetch(&spans[at..]).await?;
    }
    tree.walk(&spans[at], visit).await
}

/// What a look at a range found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// All there is.
    All,
    /// As many as were asked for, perhaps not all of them visible.
    Most,
    /// More than a short read looks at.
    TooLong,
}

fn go_on(more: bool) -> ControlFlow<()> {
    if more {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}
