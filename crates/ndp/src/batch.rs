//! [`NdpBatch`]: what an execution makes of some pages, and its wire form.
//!
//! Rows keep the order of the pages in the batch and, inside a page, key order; ambiguous records
//! stand beside them with the position they belong to. `docs/format/ndp-batch.md` shows the bytes.
//!
//! Invariants (established by `Execution::take` and [`NdpBatch::decode`]):
//! - every column has `rows` rows; without aggregation the row counts of the pages add up to it;
//! - ambiguous records are sorted by position, positions are inside their pages, and the pages'
//!   `ambiguous` counts say how many belong to each;
//! - a batch has at most [`MAX_ROWS`] rows.

use bytes::Bytes;
use perigee_expr::Vector;
use perigee_types::{DecodeError, checksum};

use crate::NdpError;
use crate::chunk::{self, Chunk};
use crate::narrow::{Cutter, cut_list, put_list};

/// Greatest number of rows of a batch; bounds what a few forged bytes can make a reader allocate.
pub const MAX_ROWS: usize = 1 << 20;
/// Greatest number of columns of a batch: what MySQL allows a table.
pub const MAX_COLUMNS: usize = 4096;

/// Version of the batch format.
const VERSION: u8 = 1;
const MAGIC: [u8; 4] = *b"PNDB";
/// Magic, checksum, version, flags, number of columns, descriptor, rows, pages, ambiguous records.
const HEADER_LEN: usize = 4 + 4 + 1 + 1 + 2 + 8 + 4 + 4 + 4;
/// Set if the columns hold partial aggregate states.
const FLAG_AGGREGATE: u8 = 1;

/// What one page of the request contributes to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// Index of the page in the request.
    pub index: u32,
    /// Rows of it, next to those of the page before; 0 if the rows are aggregated. An emptied page
    /// is a run of 0 rows and takes no more room than that.
    pub rows: u32,
    /// Ambiguous records of it.
    pub ambiguous: u32,
}

/// Why storage returned a record whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmbiguousKind {
    /// Its transaction id (clustered) or its page's largest (secondary) is not below the
    /// watermark: which version is visible, if any, only the frontend can tell.
    Unresolved = 0,
    /// It is visible, but an expression over it failed: the frontend evaluates it again and raises
    /// the error where the unpushed plan would.
    Failed = 1,
}

/// A record that is returned whole and unchanged, beside the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambiguous {
    /// Position in [`NdpBatch::pages`].
    pub page: u32,
    /// Number of rows of that page that come before it in key order.
    pub row: u32,
    /// Why it is here.
    pub kind: AmbiguousKind,
    /// The record, with header and key.
    pub record: Bytes,
}

/// A column of a batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Column {
    /// As the execution built it.
    Lanes(Vector),
    /// As it came over the wire.
    Chunk(Chunk),
}

/// Result of an execution over some pages of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct NdpBatch {
    /// Hash of the descriptor it was made for.
    pub descriptor: u64,
    /// The pages it covers, in the order in which they were processed.
    pub pages: Vec<PageRun>,
    /// Rows in the columns: reduced rows, or partial aggregate states.
    pub rows: usize,
    /// Records that only the frontend can deal with, sorted by position.
    pub ambiguous: Vec<Ambiguous>,
    pub(crate) aggregated: bool,
    pub(crate) columns: Vec<Column>,
}

impl NdpBatch {
    /// The wire form.
    ///
    /// # Panics
    /// If the batch came from [`NdpBatch::decode`]: nobody forwards batches.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        assert!(self.rows <= MAX_ROWS, "N1: batch of {} rows", self.rows);
        let mut out = Vec::with_capacity(HEADER_LEN + 64 + 8 * self.rows);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.push(VERSION);
        out.push(if self.aggregated { FLAG_AGGREGATE } else { 0 });
        out.extend_from_slice(&(self.columns.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.descriptor.to_le_bytes());
        for count in [self.rows, self.pages.len(), self.ambiguous.len()] {
            let count = u32::try_from(count).expect("an execution is bounded in rows and pages");
            out.extend_from_slice(&count.to_le_bytes());
        }
        put_pages(&mut out, &self.pages);
        put_ambiguous(&mut out, &self.ambiguous);
        for column in &self.columns {
            match column {
                Column::Lanes(vector) => chunk::put(&mut out, vector),
                Column::Chunk(_) => panic!("N1: a received batch is not sent on"),
            }
        }
        let crc = checksum(&out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out.into()
    }

    /// Reads the wire form without copying column data; checks everything that the batch says of
    /// itself. That it fits a descriptor is checked where it is finished.
    pub fn decode(bytes: Bytes) -> Result<Self, NdpError> {
        let batch_error = |what: &str| NdpError::Batch {
            what: what.to_owned(),
        };
        let header = bytes
            .get(..HEADER_LEN)
            .ok_or_else(|| batch_error("shorter than its header"))?;
        if header[..4] != MAGIC {
            return Err(batch_error("no magic number"));
        }
        if header[4..8] != checksum(&bytes[8..]).to_le_bytes() {
            return Err(batch_error("checksum does not match"));
        }
        if header[8] != VERSION {
            return Err(batch_error("unknown version"));
        }
        Self::decode_body(bytes).map_err(|e| NdpError::Batch {
            what: e.to_string(),
        })
    }

    fn decode_body(bytes: Bytes) -> Result<Self, DecodeError> {
        let malformed = || DecodeError::new("batch: header");
        let mut cutter = Cutter::new(bytes);
        cutter.cut(9, "batch: header")?;
        let flags = cutter.u8("batch: flags")?;
        let columns = u16::from_le_bytes(cutter.array("batch: columns")?);
        let descriptor = u64::from_le_bytes(cutter.array("batch: descriptor")?);
        let mut counts = [0; 3];
        for count in &mut counts {
            *count = u32::from_le_bytes(cutter.array("batch: counts")?) as usize;
        }
        let [rows, pages, ambiguous] = counts;
        let bounded = rows <= MAX_ROWS && pages <= MAX_ROWS && ambiguous <= MAX_ROWS;
        if flags & !FLAG_AGGREGATE != 0 || usize::from(columns) > MAX_COLUMNS || !bounded {
            return Err(malformed());
        }
        let aggregated = flags & FLAG_AGGREGATE != 0;
        let pages = cut_pages(&mut cutter, pages)?;
        let page_rows: u64 = pages.iter().map(|page| u64::from(page.rows)).sum();
        if page_rows != if aggregated { 0 } else { rows as u64 } {
            return Err(DecodeError::new("batch: rows of the pages"));
        }
        let ambiguous = cut_ambiguous(&mut cutter, ambiguous, &pages)?;
        let columns = (0..columns)
            .map(|_| Chunk::cut(&mut cutter, rows).map(Column::Chunk))
            .collect::<Result<_, _>>()?;
        cutter.finish("batch: bytes behind the end")?;
        Ok(Self {
            descriptor,
            pages,
            rows,
            ambiguous,
            aggregated,
            columns,
        })
    }
}

fn put_pages(out: &mut Vec<u8>, pages: &[PageRun]) {
    // Neighbours mostly have neighbouring indexes: then the gaps are all zero and take no bytes.
    let mut next = 0_u32;
    let gaps: Vec<_> = pages
        .iter()
        .map(|page| {
            let gap = page.index.wrapping_sub(next);
            next = page.index.wrapping_add(1);
            gap
        })
        .collect();
    put_list(out, &gaps);
    put_list(out, &pages.iter().map(|page| page.rows).collect::<Vec<_>>());
    put_list(
        out,
        &pages.iter().map(|page| page.ambiguous).collect::<Vec<_>>(),
    );
}

fn cut_pages(cutter: &mut Cutter, n: usize) -> Result<Vec<PageRun>, DecodeError> {
    let gaps = cut_list(cutter, n, "batch: page indexes")?;
    let rows = cut_list(cutter, n, "batch: rows of pages")?;
    let ambiguous = cut_list(cutter, n, "batch: ambiguous records of pages")?;
    let mut next = 0_u32;
    let runs = gaps
        .iter()
        .zip(rows)
        .zip(ambiguous)
        .map(|((gap, rows), ambiguous)| {
            let index = next.wrapping_add(*gap);
            next = index.wrapping_add(1);
            PageRun {
                index,
                rows,
                ambiguous,
            }
        });
    Ok(runs.collect())
}

fn put_ambiguous(out: &mut Vec<u8>, records: &[Ambiguous]) {
    let list = |of: fn(&Ambiguous) -> u32| records.iter().map(of).collect::<Vec<_>>();
    put_list(out, &list(|a| a.page));
    put_list(out, &list(|a| a.row));
    put_list(out, &list(|a| a.kind as u32));
    put_list(out, &list(|a| a.record.len() as u32));
    for record in records {
        out.extend_from_slice(&record.record);
    }
}

fn cut_ambiguous(
    cutter: &mut Cutter,
    n: usize,
    pages: &[PageRun],
) -> Result<Vec<Ambiguous>, DecodeError> {
    let page = cut_list(cutter, n, "batch: pages of ambiguous records")?;
    let row = cut_list(cutter, n, "batch: rows of ambiguous records")?;
    let kind = cut_list(cutter, n, "batch: kinds of ambiguous records")?;
    let lengths = cut_list(cutter, n, "batch: lengths of ambiguous records")?;
    let mut records: Vec<Ambiguous> = Vec::with_capacity(n);
    let mut counts = vec![0_u32; pages.len()];
    for (i, &len) in lengths.iter().enumerate() {
        let record = cutter.cut(len as usize, "batch: ambiguous record")?;
        let kind = match kind[i] {
            0 => AmbiguousKind::Unresolved,
            1 => AmbiguousKind::Failed,
            _ => return Err(DecodeError::new("batch: kind of an ambiguous record")),
        };
        let position = (page[i], row[i]);
        let sorted = records
            .last()
            .is_none_or(|last| (last.page, last.row) <= position);
        let inside = pages
            .get(page[i] as usize)
            .is_some_and(|run| row[i] <= run.rows);
        if !sorted || !inside {
            return Err(DecodeError::new("batch: position of an ambiguous record"));
        }
        counts[page[i] as usize] += 1;
        records.push(Ambiguous {
            page: page[i],
            row: row[i],
            kind,
            record,
        });
    }
    if pages
        .iter()
        .zip(counts)
        .any(|(run, count)| run.ambiguous != count)
    {
        return Err(DecodeError::new("batch: ambiguous records of a page"));
    }
    Ok(records)
}
