//! `WriteLogs`: checking a fragment, appending it to the slice's log, syncing, indexing.
//!
//! Concurrent fragments of a slice are written together: they queue up in chain order, whoever
//! finds nobody writing writes all that is queued with one append and one sync, the others wait.
//!
//! Invariants:
//! - P1: a fragment is queued only behind its predecessor in the chain, so a hole is never skipped;
//! - an answer is given only after the sync, and after the records are in the log directory;
//! - if writing fails, everything queued fails, and the chain goes on from what is persistent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use perigee_crash::{Point, reach};
use perigee_page_api::{Fragment, MAX_FRAGMENT, PageError, SliceStatus};
use perigee_redo::{Change, Group, Op};
use perigee_reserve::Purpose;
use perigee_types::{Lsn, checksum};

use crate::dump::record_of;
use crate::failstop::disk;
use crate::fragment::{LogFragment, encode_head, record_count};
use crate::frame::{ChainStart, FrameKind, SegmentId, SegmentKind};
use crate::segment::{NewFrame, SegmentWriter};
use crate::slice::Slice;

/// Bytes of groups that are written with one append at most, if more than one fragment waits.
const MAX_BATCH: usize = 16 << 20;

/// Fragments whose last LSNs are remembered, to tell a repeat from another fragment.
const REMEMBERED: usize = 64;

/// Length beyond which a log segment that nobody needs is left for a new one.
const DEAD_LOG: u64 = 256 << 10;

/// Fragments that may be queued or wait for their predecessor.
const MAX_WAITING: usize = 256;

/// Where the chain stands, and the fragments that are about to extend it.
#[derive(Debug)]
pub(crate) struct Appender {
    writer: Option<SegmentWriter>,
    next_number: u64,
    sequence: u64,
    lsn: Lsn,
    epoch: u64,
    /// Checked fragments behind `sequence`, in chain order.
    queue: Vec<Queued>,
    queued_sequence: u64,
    queued_lsn: Lsn,
    /// Sequence numbers and last LSNs of the last fragments, up to the last one queued.
    recent: VecDeque<(u64, Lsn)>,
    /// Somebody is writing; `writer` is with them.
    writing: bool,
    waiting: usize,
    /// The slice is being deleted: it takes nothing any more.
    closed: bool,
    /// Counts failed writes.
    failures: u64,
    last_failure: Option<PageError>,
}

#[derive(Debug)]
struct Queued {
    fragment: Fragment,
    groups: Arc<Vec<Group>>,
    crc: u32,
    head: Vec<u8>,
}

impl Appender {
    pub(crate) fn new(epoch: u64) -> Self {
        Self {
            writer: None,
            next_number: 1,
            sequence: 0,
            lsn: Lsn(0),
            epoch,
            queue: Vec::new(),
            queued_sequence: 0,
            queued_lsn: Lsn(0),
            recent: VecDeque::new(),
            writing: false,
            waiting: 0,
            closed: false,
            failures: 0,
            last_failure: None,
        }
    }

    /// Goes on where the log ended.
    pub(crate) fn resume(
        &mut self,
        writer: Option<SegmentWriter>,
        next_number: u64,
        (sequence, lsn): (u64, Lsn),
        epoch: u64,
    ) {
        (self.writer, self.next_number) = (writer, next_number);
        (self.sequence, self.lsn) = (sequence, lsn);
        (self.queued_sequence, self.queued_lsn) = (sequence, lsn);
        self.recent = VecDeque::from([(sequence, lsn)]);
        self.epoch = self.epoch.max(epoch);
    }

    /// Sequence number and LSN up to which the log is persistent.
    pub(crate) fn persistent(&self) -> (u64, Lsn) {
        (self.sequence, self.lsn)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Takes no more fragments if it ended at `end` and nobody is about to write; true if it did.
    pub(crate) fn close(&mut self, end: Lsn) -> bool {
        let is_idle = !self.writing && self.waiting == 0 && self.queue.is_empty();
        self.closed = is_idle && self.sequence > 0 && self.lsn == end;
        self.closed
    }

    /// Takes fragments again.
    pub(crate) fn reopen(&mut self) {
        self.closed = false;
    }

    /// Number of the log segment that is being written; lower ones are sealed.
    pub(crate) fn current_segment(&self) -> u64 {
        self.next_number - 1
    }
}

impl Slice {
    /// Waits until nothing that was queued before is being written any more.
    pub(crate) fn drain(&self) -> Result<(), PageError> {
        let mut appender = self.appender.lock();
        let (last, failures) = (appender.queued_sequence, appender.failures);
        while appender.sequence < last && appender.failures == failures {
            self.appended
                .wait_for(&mut appender, Duration::from_secs(1));
            self.shared.stop.check()?;
        }
        Ok(())
    }

    /// Writes a fragment; when this returns it is on disk. Blocks.
    pub(crate) fn write(&self, fragment: Fragment) -> Result<SliceStatus, PageError> {
        self.shared.stop.check()?;
        check_form(&fragment)?;
        if let Some(done) = self.known(&fragment, &mut self.appender.lock())? {
            return Ok(done);
        }
        let (backlog, limit) = (
            self.shared.backlog.load(Ordering::Relaxed),
            self.shared.config.max_backlog_bytes,
        );
        if backlog > limit {
            let text = format!("{backlog} bytes of log wait for consolidation, limit {limit}");
            return Err(PageError::Unavailable(text));
        }
        let groups = Arc::new(decode(&fragment)?);
        let head = encode_head(&fragment);
        let crc = crc32c_append(&head, &fragment.groups);
        let queued = Queued {
            fragment,
            groups,
            crc,
            head,
        };
        self.write_queued(queued)?;
        Ok(self.status())
    }

    /// Success if the fragment is in the log already, an error if it cannot be.
    fn known(
        &self,
        fragment: &Fragment,
        appender: &mut Appender,
    ) -> Result<Option<SliceStatus>, PageError> {
        if appender.closed {
            return Err(PageError::NotFound(fragment.slice.to_string()));
        }
        if fragment.epoch < appender.epoch {
            let (old, new) = (fragment.epoch, appender.epoch);
            let (sequence, slice) = (fragment.sequence, fragment.slice);
            return Err(PageError::Fenced(format!(
                "fragment {sequence} of {slice}: epoch {old} is over, {new} has begun"
            )));
        }
        let same_number = appender
            .recent
            .iter()
            .find(|(n, _)| *n == fragment.sequence);
        if let Some((_, had)) = same_number.filter(|(_, lsn)| *lsn != fragment.last_lsn) {
            return Err(refuse(
                fragment,
                format!("there is another one, which ends at {had}"),
            ));
        }
        if fragment.sequence > appender.sequence {
            return Ok(None);
        }
        let (sequence, persistent_lsn) = appender.persistent();
        Ok(Some(SliceStatus {
            sequence,
            persistent_lsn,
            consolidated_lsn: self.consolidated_lsn().min(persistent_lsn),
            backlog_bytes: self.queue.lock().backlog,
            pages: self.directory.pages(),
        }))
    }

    /// Queues a fragment behind its predecessor and waits until it is written, or writes.
    fn write_queued(&self, queued: Queued) -> Result<(), PageError> {
        let mut appender = self.appender.lock();
        if appender.waiting >= MAX_WAITING {
            let text = format!("{} has {MAX_WAITING} fragments waiting", self.key);
            return Err(PageError::Unavailable(text));
        }
        appender.waiting += 1;
        let result = self.queue_and_wait(&mut appender, queued);
        appender.waiting -= 1;
        result
    }

    fn queue_and_wait(
        &self,
        appender: &mut MutexGuard<'_, Appender>,
        queued: Queued,
    ) -> Result<(), PageError> {
        let sequence = queued.fragment.sequence;
        let deadline = Instant::now() + self.shared.config.hole_wait;
        while sequence > appender.queued_sequence + 1 {
            if self.appended.wait_until(appender, deadline).timed_out() {
                let have = appender.sequence;
                let text = format!("a hole: the slice has the log up to fragment {have}");
                return Err(refuse(&queued.fragment, text));
            }
        }
        // Things may have changed while this one was decoded, or waited.
        if self.known(&queued.fragment, appender)?.is_some() {
            return Ok(());
        }
        if sequence == appender.queued_sequence + 1 {
            let (end, prev) = (appender.queued_lsn, queued.fragment.prev_lsn);
            if prev != end {
                let text = format!("it follows {prev}, but the log ends at {end}");
                return Err(refuse(&queued.fragment, text));
            }
            appender.epoch = queued.fragment.epoch;
            appender.queued_sequence = sequence;
            appender.queued_lsn = queued.fragment.last_lsn;
            if appender.recent.len() == REMEMBERED {
                appender.recent.pop_front();
            }
            let remembered = (sequence, queued.fragment.last_lsn);
            appender.recent.push_back(remembered);
            appender.queue.push(queued);
            self.appended.notify_all();
        }
        // Else the same fragment is queued already; its fate is this one's.
        let failures = appender.failures;
        while appender.sequence < sequence {
            if appender.failures != failures {
                let error = appender.last_failure.clone();
                return Err(error.expect("a failure was counted"));
            }
            if appender.writing {
                // A writer that panicked stops the store and notifies nobody.
                self.appended.wait_for(appender, Duration::from_secs(1));
                self.shared.stop.check()?;
            } else {
                self.write_batch(appender);
            }
        }
        Ok(())
    }

    /// Writes what is queued, without the latch.
    fn write_batch(&self, appender: &mut MutexGuard<'_, Appender>) {
        let mut sum = 0;
        let mut fits = |queued: &Queued| {
            sum += queued.fragment.groups.len();
            sum <= MAX_BATCH
        };
        let n = appender.queue.iter().take_while(|q| fits(q)).count().max(1);
        let rest = appender.queue.split_off(n);
        let batch = std::mem::replace(&mut appender.queue, rest);
        let bytes: usize = batch.iter().map(|q| q.fragment.groups.len()).sum();
        let mut writer = appender.writer.take();
        let start = ChainStart {
            sequence: appender.sequence,
            lsn: appender.lsn,
        };
        let mut number = appender.next_number;
        appender.writing = true;
        let last = batch
            .last()
            .map(|q| (q.fragment.sequence, q.fragment.last_lsn));
        let written = MutexGuard::unlocked(appender, || {
            let written = self.append(&mut writer, &mut number, start, &batch);
            written.map(|fragments| self.index(batch, fragments))
        });
        appender.writing = false;
        (appender.writer, appender.next_number) = (writer, number);
        match written {
            Ok(()) => {
                let counters = &self.shared.counters;
                counters.fragments.add(n as u64);
                counters.bytes.add(bytes as u64);
                let (sequence, lsn) = last.expect("somebody is queued when somebody writes");
                (appender.sequence, appender.lsn) = (sequence, lsn);
            }
            Err(error) => {
                tracing::error!("log of {} cannot be written: {error}", self.key);
                appender.queue.clear();
                (appender.queued_sequence, appender.queued_lsn) = appender.persistent();
                let written = appender.sequence;
                appender.recent.retain(|(sequence, _)| *sequence <= written);
                appender.failures += 1;
                appender.last_failure = Some(error);
            }
        }
        self.appended.notify_all();
    }

    /// Appends and syncs a batch.
    fn append(
        &self,
        writer: &mut Option<SegmentWriter>,
        number: &mut u64,
        start: ChainStart,
        batch: &[Queued],
    ) -> Result<Vec<Arc<LogFragment>>, PageError> {
        let stop = &self.shared.stop;
        stop.check()?;
        let limit = self.segment_limit(self.shared.config.log_segment_bytes);
        if writer.as_ref().is_some_and(|w| w.end() >= limit) {
            let full = writer.take().expect("checked in the line above");
            full.seal(stop)?.is_closed(&self.shared.files);
            reach(Point::LogSegmentSealed);
        }
        if writer.is_none() {
            *writer = Some(self.begin_log_segment(number, start)?);
        }
        // Only now: what is not needed any more can be deleted, and then there may be room.
        let bytes: usize = batch.iter().map(|q| q.fragment.groups.len()).sum();
        let room = self.shared.reserve.check(Purpose::Log, bytes as u64);
        room.map_err(|e| disk("log of", &self.dir, &e))?;
        let writer = writer.as_mut().expect("just made");
        let frames: Vec<_> = batch
            .iter()
            .map(|queued| NewFrame {
                kind: FrameKind::Fragment,
                id: queued.fragment.sequence,
                lsn: queued.fragment.last_lsn,
                payload_crc: queued.crc,
                payload: [&queued.head, &queued.fragment.groups],
            })
            .collect();
        writer.allocate_ahead(!self.shared.reserve.is_low());
        let offsets = writer.append(&frames)?;
        reach(Point::FragmentWritten);
        writer.sync(stop)?;
        reach(Point::FragmentSynced);
        let segment = writer.segment();
        let fragments = batch.iter().zip(offsets).map(|(queued, offset)| {
            let live = record_count(&queued.groups);
            Arc::new(LogFragment::new(
                &queued.fragment,
                segment.clone(),
                offset,
                live,
            ))
        });
        Ok(fragments.collect())
    }

    fn begin_log_segment(
        &self,
        number: &mut u64,
        start: ChainStart,
    ) -> Result<SegmentWriter, PageError> {
        let id = SegmentId {
            slice: self.key,
            kind: SegmentKind::Log,
            number: *number,
        };
        let made = SegmentWriter::create(&self.dir, id, start, &self.shared.stop)?;
        *number += 1;
        self.add_segment(made.segment());
        Ok(made)
    }

    /// Goes on in a new log segment if nothing of the one being written is needed and nobody writes, so
    /// that it can be deleted; true if it did. The new one says where the chain stands.
    pub(crate) fn leave_dead_log(&self) -> Result<bool, PageError> {
        let mut appender = self.appender.lock();
        let is_dead = |w: &SegmentWriter| w.end() > DEAD_LOG && w.segment().live() == 0;
        let is_idle = !appender.writing && appender.queue.is_empty();
        if !is_idle || !appender.writer.as_ref().is_some_and(is_dead) {
            return Ok(false);
        }
        let start = ChainStart {
            sequence: appender.sequence,
            lsn: appender.lsn,
        };
        let mut number = appender.next_number;
        appender.writing = true;
        let made = MutexGuard::unlocked(&mut appender, || {
            self.shared.stop.check()?;
            self.begin_log_segment(&mut number, start)
        });
        appender.writing = false;
        appender.next_number = number;
        let made = made.map(|made| appender.writer = Some(made));
        self.appended.notify_all();
        made.map(|()| true)
    }

    /// Adds written fragments to log cache, log directory and consolidation queue.
    fn index(&self, batch: Vec<Queued>, fragments: Vec<Arc<LogFragment>>) {
        for (queued, fragment) in batch.into_iter().zip(fragments) {
            self.shared.cache.insert(&fragment, &queued.groups);
            self.add_records(&fragment, &queued.groups);
            let last = fragment.last_lsn;
            self.enqueue(fragment);
            self.persistent.store(last.0, Ordering::Release);
        }
    }

    /// Adds the records of a fragment to the log directory.
    pub(crate) fn add_records(&self, fragment: &Arc<LogFragment>, groups: &[Group]) {
        for (g, group) in groups.iter().enumerate() {
            for (c, change) in group.changes.iter().enumerate() {
                let record = record_of(fragment, group, (g, c));
                self.directory.add_record(change.page, record);
            }
        }
    }
}

fn refuse(fragment: &Fragment, text: impl std::fmt::Display) -> PageError {
    let (sequence, slice) = (fragment.sequence, fragment.slice);
    PageError::Refused(format!("fragment {sequence} of {slice}: {text}"))
}

/// Checks what can be checked without knowing the slice.
fn check_form(fragment: &Fragment) -> Result<(), PageError> {
    let (prev, first, last) = (fragment.prev_lsn, fragment.first_lsn, fragment.last_lsn);
    if fragment.sequence == 0 || first <= prev || last < first {
        return Err(refuse(
            fragment,
            format!("{prev}, {first}, {last} are no range"),
        ));
    }
    if fragment.groups.len() > MAX_FRAGMENT {
        let len = fragment.groups.len();
        return Err(refuse(
            fragment,
            format!("{len} bytes are more than {MAX_FRAGMENT}"),
        ));
    }
    Ok(())
}

/// Decodes the groups and checks that they fit the fragment, so that what is acknowledged can be
/// applied.
fn decode(fragment: &Fragment) -> Result<Vec<Group>, PageError> {
    let corrupt = |text: String| {
        let (sequence, slice) = (fragment.sequence, fragment.slice);
        Err(PageError::Corrupt(format!(
            "fragment {sequence} of {slice}: {text}"
        )))
    };
    let groups = match Group::decode_all(&fragment.groups) {
        Ok(groups) => groups,
        Err(error) => return corrupt(error.to_string()),
    };
    let mut before = fragment.prev_lsn;
    let mut pages = Vec::new();
    for group in &groups {
        if group.lsn <= before || group.lsn < fragment.first_lsn || group.lsn > fragment.last_lsn {
            return corrupt(format!("group {} is out of order", group.lsn));
        }
        before = group.lsn;
        pages.clear();
        pages.extend(group.changes.iter().map(|change| change.page));
        pages.sort_unstable();
        if pages.windows(2).any(|pair| pair[0] == pair[1]) {
            return corrupt(format!("group {} changes a page twice", group.lsn));
        }
        for change in &group.changes {
            if let Some(db) = foreign_db(change, fragment) {
                let text = format!("group {} makes a page of {db}", group.lsn);
                return Err(refuse(fragment, text));
            }
        }
    }
    Ok(groups)
}

/// The other database for which a change would make a page.
fn foreign_db(change: &Change, fragment: &Fragment) -> Option<perigee_types::DbId> {
    change.ops.iter().find_map(|op| match op {
        Op::Format { db, .. } if *db != fragment.slice.db => Some(*db),
        _ => None,
    })
}

/// Checksum of two byte strings one behind the other.
fn crc32c_append(head: &[u8], groups: &[u8]) -> u32 {
    crc32c::crc32c_append(checksum(head), groups)
}
