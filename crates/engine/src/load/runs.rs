//! Sorted runs of records, in memory or spilled to temporary files, and their merge.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use perigee_page::RecordShape;
use perigee_types::PAGE_SIZE;

/// Buffer of a spilled run while it is read or written.
const IO_BUFFER: usize = 1 << 20;

/// Sorts the records that lie one after the other in `records` by key.
#[must_use]
pub fn sorted(shape: &RecordShape, records: Vec<u8>) -> Vec<u8> {
    let mut offsets = Vec::new();
    let (mut at, mut in_order) = (0, true);
    while at < records.len() {
        let len = record_len(shape, &records[at..]);
        if let Some(&last) = offsets.last() {
            let last: usize = last;
            in_order &= shape.key(&records[last..]) <= shape.key(&records[at..]);
        }
        offsets.push(at);
        at += len;
    }
    if in_order {
        return records;
    }
    offsets.sort_by(|a, b| shape.key(&records[*a..]).cmp(shape.key(&records[*b..])));
    let mut out = Vec::with_capacity(records.len());
    for offset in offsets {
        let len = record_len(shape, &records[offset..]);
        out.extend_from_slice(&records[offset..offset + len]);
    }
    out
}

fn record_len(shape: &RecordShape, bytes: &[u8]) -> usize {
    shape.record_len(bytes).expect("runs hold whole records")
}

/// Sorted runs of one index, kept in memory up to a budget.
#[derive(Debug)]
pub struct Runs {
    shape: RecordShape,
    memory: Vec<Vec<u8>>,
    memory_bytes: usize,
    budget: usize,
    files: Vec<File>,
}

impl Runs {
    /// No runs yet; more than `budget` bytes are spilled to temporary files.
    #[must_use]
    pub fn new(shape: RecordShape, budget: usize) -> Self {
        Self {
            shape,
            memory: Vec::new(),
            memory_bytes: 0,
            budget,
            files: Vec::new(),
        }
    }

    /// No runs of records of the same shape, with the same budget.
    #[must_use]
    pub fn like(&self) -> Self {
        Self::new(self.shape, self.budget)
    }

    /// Shape of the records.
    #[must_use]
    pub fn shape(&self) -> &RecordShape {
        &self.shape
    }

    /// Adds a run sorted by [`sorted`].
    ///
    /// # Errors
    /// If the run has to be spilled and the temporary file cannot be written.
    pub fn push(&mut self, run: Vec<u8>) -> io::Result<()> {
        self.memory_bytes += run.len();
        self.memory.push(run);
        if self.memory_bytes > self.budget {
            self.spill()
        } else {
            Ok(())
        }
    }

    /// All records in key order; records with equal keys follow each other.
    ///
    /// # Errors
    /// If a spilled run cannot be read.
    pub fn merge(mut self) -> io::Result<Merge> {
        let mut sources: Vec<Source> = Vec::new();
        for mut file in self.files.drain(..) {
            file.rewind()?;
            sources.push(Source::File(BufReader::with_capacity(IO_BUFFER, file)));
        }
        sources.extend(
            self.memory
                .drain(..)
                .map(|run| Source::Memory { run, at: 0 }),
        );
        Merge::new(self.shape, sources)
    }

    /// Merges everything in memory into one file.
    fn spill(&mut self) -> io::Result<()> {
        let sources = self
            .memory
            .drain(..)
            .map(|run| Source::Memory { run, at: 0 })
            .collect::<Vec<_>>();
        self.memory_bytes = 0;
        let mut merge = Merge::new(self.shape, sources)?;
        let mut out = BufWriter::with_capacity(IO_BUFFER, tempfile::tempfile()?);
        while let Some(record) = merge.next()? {
            out.write_all(&(record.len() as u32).to_le_bytes())?;
            out.write_all(record)?;
        }
        self.files
            .push(out.into_inner().map_err(io::IntoInnerError::into_error)?);
        Ok(())
    }
}

/// Where a merge takes records from.
#[derive(Debug)]
enum Source {
    Memory { run: Vec<u8>, at: usize },
    File(BufReader<File>),
}

impl Source {
    /// Puts the next record into `out`; false at the end.
    fn read(&mut self, shape: &RecordShape, out: &mut Vec<u8>) -> io::Result<bool> {
        out.clear();
        match self {
            Self::Memory { run, at } => {
                if *at == run.len() {
                    return Ok(false);
                }
                let len = record_len(shape, &run[*at..]);
                out.extend_from_slice(&run[*at..*at + len]);
                *at += len;
            }
            Self::File(file) => {
                let mut len = [0; 4];
                match file.read_exact(&mut len) {
                    Ok(()) => {}
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                    Err(e) => return Err(e),
                }
                let len = u32::from_le_bytes(len) as usize;
                if len > PAGE_SIZE || file.take(len as u64).read_to_end(out)? != len {
                    return Err(io::Error::other("a spilled run is damaged"));
                }
            }
        }
        Ok(true)
    }
}

/// The next record of one source.
#[derive(Debug)]
struct Head {
    record: Vec<u8>,
    key: (usize, usize),
    source: usize,
}

impl Head {
    fn key(&self) -> &[u8] {
        &self.record[self.key.0..self.key.1]
    }

    fn locate_key(&mut self, shape: &RecordShape) {
        let key = shape.key(&self.record);
        let start = key.as_ptr() as usize - self.record.as_ptr() as usize;
        self.key = (start, start + key.len());
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    /// Reversed: the heap gives the greatest, the merge wants the least.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .key()
            .cmp(self.key())
            .then(other.source.cmp(&self.source))
    }
}

/// Records of several runs in key order.
#[derive(Debug)]
pub struct Merge {
    shape: RecordShape,
    sources: Vec<Source>,
    heap: BinaryHeap<Head>,
    /// The head whose record was handed out last; its source is read on the next call.
    taken: Option<Head>,
}

impl Merge {
    fn new(shape: RecordShape, sources: Vec<Source>) -> io::Result<Self> {
        let mut merge = Self {
            shape,
            sources,
            heap: BinaryHeap::new(),
            taken: None,
        };
        for source in 0..merge.sources.len() {
            let head = Head {
                record: Vec::new(),
                key: (0, 0),
                source,
            };
            merge.refill(head)?;
        }
        Ok(merge)
    }

    /// The next record.
    ///
    /// # Errors
    /// If a spilled run cannot be read.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if let Some(head) = self.taken.take() {
            self.refill(head)?;
        }
        self.taken = self.heap.pop();
        Ok(self.taken.as_ref().map(|head| head.record.as_slice()))
    }

    fn refill(&mut self, mut head: Head) -> io::Result<()> {
        if self.sources[head.source].read(&self.shape, &mut head.record)? {
            head.locate_key(&self.shape);
            self.heap.push(head);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: RecordShape = RecordShape {
        fixed_len: 5,
        key_offset: 1,
        key_len: 4,
        var_count: 1,
        header_len: 1,
    };

    fn record(key: u32, value: &[u8]) -> Vec<u8> {
        let mut out = vec![0];
        out.extend(key.to_be_bytes());
        out.extend(((7 + value.len()) as u16).to_le_bytes());
        out.extend(value);
        out
    }

    #[test]
    fn runs_merge_in_order_in_memory_and_from_files() {
        for budget in [usize::MAX, 2_000, 0] {
            let mut runs = Runs::new(SHAPE, budget);
            let mut expected = Vec::new();
            for run in 0..20_u32 {
                let mut bytes = Vec::new();
                for i in 0..50_u32 {
                    let key = (i * 7919 + run * 104_729) % 100_003;
                    let record = record(key, &vec![key as u8; (key % 40) as usize]);
                    bytes.extend(&record);
                    expected.push((key, record));
                }
                runs.push(sorted(&SHAPE, bytes)).expect("a temporary file");
            }
            expected.sort();
            let mut merge = runs.merge().expect("a temporary file");
            for (_, record) in &expected {
                assert_eq!(merge.next().expect("reads"), Some(record.as_slice()));
            }
            assert_eq!(merge.next().expect("reads"), None);
        }
    }

    #[test]
    fn no_runs_give_no_records() {
        assert_eq!(
            Runs::new(SHAPE, 0)
                .merge()
                .expect("nothing")
                .next()
                .expect("nothing"),
            None
        );
    }
}
