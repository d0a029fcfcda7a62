//! What an NDP thread does with the chunks of a request that it gets: reads them, runs the program
//! over their pages, and gathers results until there is enough to send.

use bytes::Bytes;
use perigee_page_api::{
    NdpDecline, NdpFilterUse, NdpItem, NdpReply, NdpUsage, PageError, give_way,
};
use perigee_types::PAGE_SIZE;

use crate::ndp::{CHUNK, Job};
use crate::plugin::{NdpRun, PageOutcome, RunResources};
use crate::pool::Use;

/// A result is sent when it has this many rows,
const ENOUGH_ROWS: usize = 8192;
/// or takes this much memory.
const ENOUGH_BYTES: usize = 4 << 20;

/// Most bytes that a result grows by in a chunk before the rest of the chunk is declined: many times
/// the pages of the chunk, so that only who asks for each value many times over gets there.
const MOST_BYTES: usize = 8 << 20;

/// What became of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Its pages are in the result.
    Done,
    /// Nobody wants it: the client is gone.
    Unwanted,
}

/// What one thread has of a job and has not sent.
pub(crate) struct Partial<'a> {
    job: &'a Job,
    run: Box<dyn NdpRun>,
    /// Pages in `run`.
    taken: usize,
    items: Vec<NdpItem>,
    pub(crate) usage: NdpUsage,
}

impl<'a> Partial<'a> {
    pub(crate) fn new(job: &'a Job) -> Self {
        Self {
            job,
            run: job.program.run(RunResources {
                filters: &job.filters,
                group_bytes: job.group_bytes,
                runs: job.workers,
                memory: job.memory.clone(),
                enough: job.enough,
            }),
            taken: 0,
            items: Vec::new(),
            usage: NdpUsage::default(),
        }
    }

    /// Reads and processes a chunk.
    pub(crate) fn chunk(
        &mut self,
        chunk: usize,
        decline_every: Option<u32>,
    ) -> Result<Chunk, PageError> {
        let job = self.job;
        if job.sender.is_closed() {
            return Ok(Chunk::Unwanted);
        }
        let first = chunk * CHUNK;
        let ids = &job.pages[first..job.pages.len().min(first + CHUNK)];
        if self.run.has_enough() {
            (first..first + ids.len()).for_each(|index| self.leave_out(index as u32));
            return Ok(Chunk::Done);
        }
        let pages = job.slice.read_blocking(job.lsn, ids, Use::Scanned)?;
        self.usage.pages += pages.len() as u64;
        self.usage.bytes_read += (pages.len() * PAGE_SIZE) as u64;
        let before = self.run.bytes();
        let mut pages = (first as u32..).zip(pages).peekable();
        while let Some((index, page)) = pages.next() {
            if let Some((_, next)) = pages.peek() {
                self.run.announce(next);
            }
            if decline_every.is_some_and(|n| (index + 1).is_multiple_of(n.max(1))) {
                self.decline(index, NdpDecline::Forced, page);
            } else if self.run.bytes().saturating_sub(before) > MOST_BYTES {
                self.decline(index, NdpDecline::Busy, page);
            } else {
                self.page(index, page);
            }
            give_way();
            // A program may take long over a page; whoever left does not want the next.
            if job.sender.is_closed() {
                return Ok(Chunk::Unwanted);
            }
        }
        Ok(Chunk::Done)
    }

    fn page(&mut self, index: u32, page: Bytes) {
        let mut outcome = self.run.page(index, &page);
        if outcome == PageOutcome::Full {
            self.take_run();
            outcome = self.run.page(index, &page);
        }
        match outcome {
            PageOutcome::Taken => self.taken += 1,
            // Full by itself: the page is too much for one result.
            PageOutcome::Declined | PageOutcome::Full => {
                self.decline(index, NdpDecline::Page, page);
            }
        }
    }

    /// A page behind those that gave rows enough, which is not even read.
    fn leave_out(&mut self, index: u32) {
        let mut outcome = self.run.leave_out(index);
        if outcome == PageOutcome::Full {
            self.take_run();
            outcome = self.run.leave_out(index);
        }
        assert!(outcome == PageOutcome::Taken, "N1: each page is answered");
        self.taken += 1;
    }

    fn decline(&mut self, index: u32, reason: NdpDecline, page: Bytes) {
        self.items.push(NdpItem::Declined {
            index,
            reason,
            page,
        });
    }

    fn take_run(&mut self) {
        if self.taken > 0 {
            self.items.push(NdpItem::Reduced(self.run.take()));
            self.taken = 0;
        }
    }

    pub(crate) fn is_enough(&self) -> bool {
        self.run.rows() >= ENOUGH_ROWS
            || self.run.bytes() >= ENOUGH_BYTES
            || self.items.len() >= CHUNK
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0 && self.items.is_empty()
    }

    pub(crate) fn take(&mut self) -> NdpReply {
        self.take_run();
        self.usage.compiled = self.job.program.is_compiled();
        NdpReply {
            items: std::mem::take(&mut self.items),
            usage: std::mem::take(&mut self.usage),
            filters: Some(NdpFilterUse {
                missing: Vec::new(),
                dropped: self.dropped(),
            }),
        }
    }

    /// Rows that each filter of the request left out; nothing if none has.
    fn dropped(&mut self) -> Vec<u64> {
        let counts = self.run.dropped();
        if counts.is_empty() {
            return counts;
        }
        let (numbers, all) = &self.job.filter_numbers;
        let mut dropped = vec![0; *all];
        for (number, count) in numbers.iter().zip(counts) {
            dropped[*number] = count;
        }
        dropped
    }
}
