//! [`Execution`]: one worker's run over some pages of a request.
//!
//! Page by page: which records are visible, which of these pass the predicate, and either their
//! projected columns are appended to the output or they are taken into the aggregates. Records
//! that storage cannot decide on are kept whole, with their position among the rows.
//!
//! A page is taken in as a whole or, if it is found broken, not at all.

use std::sync::Arc;

use bytes::Bytes;
use perigee_expr::Vector;
use perigee_page::{PageRef, RecordShape};
use perigee_types::PAGE_SIZE;

use crate::aggregate::{AggregateBudget, Aggregation, GroupMemory};
use crate::ahead::Ahead;
use crate::batch::{Ambiguous, AmbiguousKind, Column, MAX_ROWS, NdpBatch, PageRun};
use crate::filter::{self, Filters};
use crate::gather::Gather;
use crate::join::{JoinTable, Joined};
use crate::scanner::Scanner;
use crate::{NdpError, visibility};

/// A run of a [`Scanner`] over pages of one request, by one worker.
pub struct Execution {
    scanner: Arc<Scanner>,
    filters: Filters,
    progress: filter::Progress,
    /// Rows that are given out make later ones superfluous, if a filter says so.
    remembers: bool,
    /// So many rows are enough,
    enough: u64,
    /// of which so many have been taken in from pages.
    given: u64,
    pages: Vec<PageRun>,
    /// Rows in `columns`.
    rows: usize,
    columns: Vec<Vector>,
    aggregation: Option<Aggregation>,
    ambiguous: Vec<Kept>,
    /// Bytes of the ambiguous records, one after the other.
    kept_bytes: Vec<u8>,
    scratch: Scratch,
    joined: Joined,
    pause: fn(),
    ahead: Ahead,
}

/// An ambiguous record before it has a place of its own.
struct Kept {
    page: u32,
    row: u32,
    kind: AmbiguousKind,
    len: usize,
}

/// Offsets of records of the page at hand; kept to reuse their memory.
#[derive(Default)]
struct Scratch {
    located: Vec<u16>,
    visible: Vec<u16>,
    ambiguous: Vec<u16>,
    pass: Vec<u16>,
    failed: Vec<u16>,
    keys: filter::Scratch,
}

/// Offsets in a buffer of records, or the page they are on, together with how to measure them.
#[derive(Clone, Copy)]
struct Records<'a> {
    base: &'a [u8],
    /// Where records may extend to.
    limit: usize,
    scanner: &'a Scanner,
    shape: &'a RecordShape,
}

impl Records<'_> {
    /// The record at an offset, if it lies inside.
    fn get(&self, at: u16) -> Option<&[u8]> {
        let tail = &self.base[usize::from(at)..self.limit];
        let len = self.shape.record_len(tail)?;
        Some(&tail[..len])
    }
}

impl Execution {
    /// A run that has seen no page yet.
    #[must_use]
    pub fn new(scanner: Arc<Scanner>) -> Self {
        let budget = scanner.budget;
        Self::charged(scanner, budget, None)
    }

    /// The same, with a budget for the groups, which are charged to `memory`.
    #[must_use]
    pub fn charged(
        scanner: Arc<Scanner>,
        budget: AggregateBudget,
        memory: Option<Arc<dyn GroupMemory>>,
    ) -> Self {
        let aggregation = scanner
            .aggregate
            .as_ref()
            .map(|plan| Aggregation::new(plan, budget, memory));
        let mut new = Self {
            scanner,
            filters: Filters::default(),
            progress: filter::Progress::default(),
            remembers: false,
            enough: u64::MAX,
            given: 0,
            pages: Vec::new(),
            rows: 0,
            columns: Vec::new(),
            aggregation,
            ambiguous: Vec::new(),
            kept_bytes: Vec::new(),
            scratch: Scratch::default(),
            joined: Joined::default(),
            pause: || {},
            ahead: Ahead::default(),
        };
        new.columns = new.empty_columns();
        new
    }

    /// The same, which calls `pause` now and then amid a page whose records take long.
    #[must_use]
    pub fn pausing(self, pause: fn()) -> Self {
        Self { pause, ..self }
    }

    /// The same, which leaves out rows behind the best ones that a filter asks for ([`crate::Best`]): for runs
    /// whose pages are all of one point in time, so that no row is seen twice.
    #[must_use]
    pub fn remembering(self) -> Self {
        Self {
            remembers: true,
            ..self
        }
    }

    /// The same, for whoever needs so many rows and no more of them, whichever they are or the first ones in the order
    /// of the pages.
    #[must_use]
    pub fn until(self, enough: Option<u64>) -> Self {
        let enough = enough.unwrap_or(u64::MAX);
        Self { enough, ..self }
    }

    /// True if no row of the pages that follow is needed.
    #[must_use]
    pub fn has_enough(&self) -> bool {
        self.aggregation.is_none() && self.given >= self.enough
    }

    /// Answers a page as one of which no row is needed.
    ///
    /// # Errors
    /// [`NdpError::Full`] as for pages.
    ///
    /// # Panics
    /// If rows of it may be needed.
    pub fn leave_out(&mut self, index: u32) -> Result<(), NdpError> {
        assert!(self.has_enough(), "N1: rows that are needed are given out");
        self.check_room(0)?;
        self.pages.push(PageRun {
            index,
            rows: 0,
            ambiguous: 0,
        });
        Ok(())
    }

    /// From now on only records that pass these filters, bound to the descriptor's layout, are taken in, and joined
    /// with their table.
    /// Records that the predicate fails over are returned whatever their key is; ambiguous ones are left out by filters
    /// of the record's key only, which all its versions have.
    pub fn set_filters(&mut self, filters: Filters) {
        self.progress = filters.begin(self.remembers);
        self.filters = filters;
    }

    /// How many records each filter left out since the last call.
    pub fn take_dropped(&mut self) -> Vec<u64> {
        let none = vec![0; self.filters.len()];
        std::mem::replace(&mut self.progress.dropped, none)
    }

    /// Tells which page comes after the next one: it is brought closer meanwhile, if there is enough to do
    /// for that.
    pub fn announce(&mut self, page: &[u8; PAGE_SIZE]) {
        if self.scanner.is_long_work() {
            self.ahead.announce(page);
        }
    }

    /// The scanner it runs.
    #[must_use]
    pub fn scanner(&self) -> &Arc<Scanner> {
        &self.scanner
    }

    /// Rows that are worth being taken. Of an aggregation there are none: taking them would give out the groups
    /// that go on being aggregated as well. What left these for want of memory counts as bytes.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self.aggregation {
            Some(_) => 0,
            None => self.rows,
        }
    }

    /// Bytes of memory that the rows and records take that are ready to be taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| column.lanes.bytes());
        self.kept_bytes.len() + columns.sum::<usize>()
    }

    /// Takes in the page with this index in the request; `page` need not have been verified.
    ///
    /// # Errors
    /// [`NdpError::Page`] if it is not a page that the descriptor describes, or broken;
    /// [`NdpError::Full`] if the batch has no room for it and must be taken first. Either way the
    /// page left no trace.
    pub fn page(&mut self, index: u32, page: PageRef<'_>) -> Result<(), NdpError> {
        if self.has_enough() {
            return self.leave_out(index);
        }
        let scanner = Arc::clone(&self.scanner);
        self.table(&scanner)?;
        visibility::check_page(&scanner.descriptor, page)?;
        self.check_room(usize::from(page.slot_count()))?;
        let counts = scanner.only_counts() && self.filters.is_empty();
        if counts && visibility::all_visible(&scanner.descriptor, page) {
            let rows = self.count(&scanner, usize::from(page.slot_count()));
            self.given += u64::from(rows);
            self.pages.push(PageRun {
                index,
                rows,
                ambiguous: 0,
            });
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let done = self.records_of_page(&scanner, index, page, &mut scratch);
        scratch.clear();
        self.scratch = scratch;
        done
    }

    fn records_of_page(
        &mut self,
        scanner: &Scanner,
        index: u32,
        page: PageRef<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), NdpError> {
        let descriptor = &scanner.descriptor;
        self.locate(scanner, page, &mut scratch.located)?;
        let Scratch {
            located,
            visible,
            ambiguous,
            ..
        } = scratch;
        let visible = if visibility::all_visible(descriptor, page) {
            &*located
        } else {
            visibility::divide(descriptor, page, located, visible, ambiguous);
            &*visible
        };
        let limit = visibility::heap_limit(page);
        let records = Records {
            base: page.bytes(),
            limit,
            scanner,
            shape: &descriptor.layout.shape,
        };
        let broken = NdpError::Page {
            page: page.id(),
            what: "record reaches outside the heap",
        };
        if ambiguous.iter().any(|&at| records.get(at).is_none()) {
            return Err(broken);
        }
        let (filters, progress) = (&self.filters, &mut self.progress);
        filters.retain_ambiguous(records.base, ambiguous, &mut scratch.keys, progress);
        let pass = &mut scratch.pass;
        let failed = &mut scratch.failed;
        let pass = Conditions {
            scanner,
            filters: &self.filters,
            progress: &mut self.progress,
            keys: &mut scratch.keys,
            pause: self.pause,
        }
        .passing(records.base, visible, (pass, failed));
        self.ahead.step();
        let mut joined = std::mem::take(&mut self.joined);
        let (pass, rows) = self.take_in(records, pass, failed, &mut joined);
        let rows = rows.ok_or(broken)?;
        // Not before the page is known to be taken in.
        if self.remembers && self.aggregation.is_none() {
            let (filters, keys) = (&self.filters, &mut scratch.keys);
            filters.note(records.base, pass, keys, &mut self.progress);
        }
        self.given += u64::from(rows);
        let run = PageRun {
            index,
            rows,
            ambiguous: (ambiguous.len() + failed.len()) as u32,
        };
        if run.ambiguous > 0 {
            self.keep(records, located, pass, ambiguous, failed);
        }
        self.joined = joined;
        self.pages.push(run);
        Ok(())
    }

    /// Finds the records of a page inside the key range, in the order of the scan.
    fn locate(
        &mut self,
        scanner: &Scanner,
        page: PageRef<'_>,
        located: &mut Vec<u16>,
    ) -> Result<(), NdpError> {
        self.ahead.step();
        let items = scanner.items_read.max(self.filters.items_read);
        visibility::locate(&scanner.descriptor, page, items, located)?;
        self.ahead.step();
        if scanner.descriptor.reverse {
            located.reverse();
        }
        Ok(())
    }

    /// Takes in records, joined with the table if there is one; returns those that gave rows, and how many rows.
    fn take_in<'p>(
        &mut self,
        records: Records<'_>,
        pass: &'p [u16],
        failed: &mut Vec<u16>,
        joined: &'p mut Joined,
    ) -> (&'p [u16], Option<u32>) {
        match self.filters.table().cloned() {
            Some(table) if records.scanner.join.is_some() => {
                let rows = self.absorb_joined(records, pass, failed, (&table, joined));
                (&joined.given, rows)
            }
            _ => (pass, self.absorb(records, pass, failed)),
        }
    }

    /// The table of the join, if there is one.
    fn table(&self, scanner: &Scanner) -> Result<Option<&Arc<JoinTable>>, NdpError> {
        match (&scanner.join, self.filters.table()) {
            (None, _) => Ok(None),
            (Some(join), None) => Err(join.missing()),
            (Some(join), Some(table)) => join.check(table).map(|()| Some(table)),
        }
    }

    /// Joins records and takes in the joined ones; those that gave rows are `given` then, and those over which an
    /// expression failed are added to `failed`. `None`, and nothing done, if a record is not whole.
    fn absorb_joined(
        &mut self,
        records: Records<'_>,
        pass: &[u16],
        failed: &mut Vec<u16>,
        (table, joined): (&JoinTable, &mut Joined),
    ) -> Option<u32> {
        let join = records.scanner.join.as_ref()?;
        let mut wanted = pass.iter().chain(&*failed);
        if wanted.any(|&at| records.get(at).is_none()) {
            return None;
        }
        joined.given.clear();
        join.find(table, records.base, pass, joined);
        let mut done = 0;
        while done < pass.len() {
            done = join.write(table, records.base, pass, done, joined);
            self.absorb_piece(records.scanner, joined, failed);
        }
        Some(self.shown(joined.given.len()))
    }

    /// Takes in joined records.
    fn absorb_piece(&mut self, scanner: &Scanner, joined: &mut Joined, failed: &mut Vec<u16>) {
        let join = scanner.join.as_ref().expect("records were joined");
        let (mut pass, mut late) = (Vec::new(), Vec::new());
        let Joined {
            buffer,
            offsets,
            origins,
            given,
            ..
        } = joined;
        let pass = match join.condition() {
            Some(condition) => {
                let evaluator = condition.evaluator();
                evaluator.filter(buffer, offsets, &mut pass, &mut late);
                &pass
            }
            None => &*offsets,
        };
        let records = Records {
            base: buffer,
            limit: buffer.len(),
            scanner,
            shape: join.shape(),
        };
        let rows = self.absorb(records, pass, &mut late);
        rows.expect("N1: joined records are whole");
        let mut pass = pass.iter().peekable();
        for (at, origin) in offsets.iter().zip(origins) {
            let passed = pass.next_if_eq(&at).is_some();
            if late.contains(at) {
                failed.push(*origin);
            } else if passed {
                given.push(*origin);
            }
        }
    }

    /// Appends rows or aggregates them; records that fail are added to `failed`, in the order of
    /// the page. `None`, and nothing done, if a record that failed cannot be returned.
    fn absorb(&mut self, records: Records<'_>, pass: &[u16], failed: &mut Vec<u16>) -> Option<u32> {
        let scanner = records.scanner;
        if let (Some(plan), Some(aggregation)) = (&scanner.aggregate, &mut self.aggregation) {
            let failures = aggregation.evaluate(plan, records.base, pass);
            self.ahead.step();
            let failed_before = failed.len();
            failed.extend(failures.iter().map(|&position| pass[position as usize]));
            if failed.iter().any(|&at| records.get(at).is_none()) {
                return None;
            }
            self.rows += if failures.is_empty() {
                aggregation.accumulate(plan, records.base, pass, &mut self.columns)
            } else {
                let late = &failed[failed_before..];
                let rest: Vec<u16> = pass
                    .iter()
                    .copied()
                    .filter(|at| !late.contains(at))
                    .collect();
                let failures = aggregation.evaluate(plan, records.base, &rest);
                assert!(
                    failures.is_empty(),
                    "N1: what did not fail does not fail again"
                );
                aggregation.accumulate(plan, records.base, &rest, &mut self.columns)
            };
            return Some(0);
        }
        if failed.iter().any(|&at| records.get(at).is_none()) {
            return None;
        }
        for (gather, column) in scanner.projection.iter().zip(&mut self.columns) {
            gather.append(records.base, pass, column);
        }
        self.ahead.step();
        self.rows += pass.len();
        Some(pass.len() as u32)
    }

    /// Keeps ambiguous and failed records whole, with the number of rows before each.
    fn keep(
        &mut self,
        records: Records<'_>,
        located: &[u16],
        pass: &[u16],
        ambiguous: &[u16],
        failed: &[u16],
    ) {
        let aggregated = self.aggregation.is_some();
        let page = self.pages.len() as u32;
        let (mut pass, mut ambiguous) = (pass.iter().peekable(), ambiguous.iter().peekable());
        let mut row = 0;
        for at in located {
            let kind = if ambiguous.next_if_eq(&at).is_some() {
                AmbiguousKind::Unresolved
            } else if failed.contains(at) {
                // Few, if any: an error in an expression is the exception.
                pass.next_if_eq(&at);
                AmbiguousKind::Failed
            } else {
                row += u32::from(pass.next_if_eq(&at).is_some());
                continue;
            };
            let record = records.get(*at).expect("it was measured before");
            self.kept_bytes.extend_from_slice(record);
            let row = if aggregated { 0 } else { row };
            self.ambiguous.push(Kept {
                page,
                row,
                kind,
                len: record.len(),
            });
        }
    }

    /// Takes in one record that is known to be visible and in the key range, such as a version that
    /// the frontend found through undo. True if it passed the predicate; its row follows those of
    /// the same `index`.
    ///
    /// # Errors
    /// [`NdpError::Evaluation`] if an expression over it fails, [`NdpError::Batch`] if the record
    /// does not have the layout's shape, [`NdpError::Full`] as for pages.
    pub fn record(&mut self, index: u32, record: &[u8]) -> Result<bool, NdpError> {
        let shape = &self.scanner.descriptor.layout.shape;
        if shape.record_len(record) != Some(record.len()) || record.len() > PAGE_SIZE {
            return Err(NdpError::Batch {
                what: "record of another shape".to_owned(),
            });
        }
        self.check_room(1)?;
        let passed = self.records(record, &[0])?;
        let rows = self.shown(passed.len());
        match self.pages.last_mut() {
            Some(run) if run.index == index => run.rows += rows,
            _ => self.pages.push(PageRun {
                index,
                rows,
                ambiguous: 0,
            }),
        }
        Ok(!passed.is_empty())
    }

    /// Takes in visible records at these offsets of `base`, which the layout's shape accepts;
    /// returns the offsets of those that passed. The pages do not count them.
    pub(crate) fn records(&mut self, base: &[u8], offsets: &[u16]) -> Result<Vec<u16>, NdpError> {
        let scanner = Arc::clone(&self.scanner);
        let table = self.table(&scanner)?.cloned();
        let (mut pass, mut failed) = (Vec::new(), Vec::new());
        let pass = Conditions {
            scanner: &scanner,
            filters: &self.filters,
            progress: &mut self.progress,
            keys: &mut self.scratch.keys,
            pause: self.pause,
        }
        .passing(base, offsets, (&mut pass, &mut failed))
        .to_vec();
        let records = Records {
            base,
            limit: base.len(),
            scanner: &scanner,
            shape: &scanner.descriptor.layout.shape,
        };
        let mut joined = std::mem::take(&mut self.joined);
        let (given, rows) = self.take_in(records, &pass, &mut failed, &mut joined);
        let given = given.to_vec();
        self.joined = joined;
        rows.expect("the caller measured every record");
        match failed.first() {
            None => Ok(given),
            Some(&at) => {
                let record = records.get(at).expect("measured");
                Err(scanner.failure(record, table.as_deref()).into())
            }
        }
    }

    /// Number that a page shows for rows: none if they are aggregated.
    fn shown(&self, rows: usize) -> u32 {
        if self.aggregation.is_some() {
            0
        } else {
            rows as u32
        }
    }

    /// Takes in visible records of which only the number matters.
    fn count(&mut self, scanner: &Scanner, rows: usize) -> u32 {
        match (&scanner.aggregate, &mut self.aggregation) {
            (Some(plan), Some(aggregation)) => aggregation.count(plan, rows),
            _ => self.rows += rows,
        }
        self.shown(rows)
    }

    fn check_room(&self, records: usize) -> Result<(), NdpError> {
        let waiting = self.aggregation.as_ref().map_or(0, Aggregation::groups);
        let rows = self.rows + waiting + records;
        let fits = rows <= MAX_ROWS
            && self.ambiguous.len() + records <= MAX_ROWS
            && self.pages.len() < MAX_ROWS;
        if fits { Ok(()) } else { Err(NdpError::Full) }
    }

    /// What there is so far, as a batch; the run goes on with nothing.
    pub fn take(&mut self) -> NdpBatch {
        if let (Some(plan), Some(aggregation)) = (&self.scanner.aggregate, &mut self.aggregation) {
            self.rows += aggregation.flush(plan, &mut self.columns);
        }
        let empty = self.empty_columns();
        let columns = std::mem::replace(&mut self.columns, empty);
        let mut bytes = Bytes::from(std::mem::take(&mut self.kept_bytes));
        let ambiguous = self.ambiguous.drain(..).map(|kept| Ambiguous {
            page: kept.page,
            row: kept.row,
            kind: kept.kind,
            record: bytes.split_to(kept.len),
        });
        NdpBatch {
            descriptor: self.scanner.hash,
            pages: std::mem::take(&mut self.pages),
            rows: std::mem::take(&mut self.rows),
            ambiguous: ambiguous.collect(),
            aggregated: self.aggregation.is_some(),
            columns: columns.into_iter().map(Column::Lanes).collect(),
        }
    }

    fn empty_columns(&self) -> Vec<Vector> {
        match (&self.scanner.aggregate, &self.aggregation) {
            (Some(plan), Some(aggregation)) => aggregation.columns(plan),
            _ => self.scanner.projection.iter().map(Gather::vector).collect(),
        }
    }
}

impl Scratch {
    fn clear(&mut self) {
        for offsets in [
            &mut self.located,
            &mut self.visible,
            &mut self.ambiguous,
            &mut self.pass,
            &mut self.failed,
        ] {
            offsets.clear();
        }
    }
}

/// What records have to pass.
struct Conditions<'a> {
    scanner: &'a Scanner,
    filters: &'a Filters,
    progress: &'a mut filter::Progress,
    keys: &'a mut filter::Scratch,
    pause: fn(),
}

impl Conditions<'_> {
    /// The records for which the predicate is true and that pass the filters: all of them if there is neither.
    /// Those for which the predicate fails are added to the second list.
    fn passing<'a>(
        self,
        base: &[u8],
        records: &'a [u16],
        (pass, failed): (&'a mut Vec<u16>, &mut Vec<u16>),
    ) -> &'a [u16] {
        match &self.scanner.predicate {
            Some(predicate) => {
                for (n, piece) in records.chunks(self.scanner.piece).enumerate() {
                    if n > 0 {
                        (self.pause)();
                    }
                    predicate.evaluator().filter(base, piece, pass, failed);
                }
            }
            None if self.filters.is_empty() => return records,
            None => pass.extend_from_slice(records),
        }
        self.filters.retain(base, pass, self.keys, self.progress);
        pass
    }
}
