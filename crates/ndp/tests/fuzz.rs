//! Damaged descriptors, pages and batches: refused, or harmless. What is accepted can be run and
//! finished; it gives rows or an error, never a panic.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::ops::Bound;
use std::sync::Arc;

use perigee_expr::arbitrary::Generator;
use perigee_expr::{AggregateFunction, Type};
use perigee_ndp::{
    Aggregate, Backend, Descriptor, Execution, GroupMethod, MAX_ROWS, NdpBatch, Scanner,
};
use perigee_page::{HEADER_LEN, PageRef};
use perigee_testkit::Fuzz;
use perigee_types::{PAGE_SIZE, TrxId, checksum};
use support::*;

/// Corrects the checksum, so that what is behind it is looked at.
fn seal(bytes: &mut [u8]) {
    if bytes.len() >= 8 {
        let crc = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

#[test]
fn damaged_descriptors_are_refused_or_run() {
    let corpus = (0..300).map(|seed| random_descriptor(seed).encode().to_vec());
    let mut scanners = 0;
    Fuzz::new(corpus).sealed(seal).run("descriptors", |bytes| {
        let Ok(descriptor) = Descriptor::decode(bytes) else {
            return false;
        };
        assert!(descriptor.encode() == bytes, "one descriptor, one form");
        // Machine code takes a thousand times as long to make.
        scanners += 1;
        let backend = match scanners % 1000 {
            0 => Backend::Jit,
            _ => Backend::Interpreter,
        };
        assert!(Scanner::new(descriptor, backend).is_ok());
        true
    });
}

/// Scanners over random layouts, with pages of random records, some of them ambiguous.
fn random_tables(tables: u64) -> Vec<(Arc<Scanner>, Vec<PageBytes>)> {
    (0..tables).map(random_table).collect()
}

fn random_table(seed: u64) -> (Arc<Scanner>, Vec<PageBytes>) {
    let mut g = Generator::new(seed);
    let r = &mut Random(seed);
    let layout = g.layout();
    let mut records: Vec<_> = (0..60).map(|_| g.record(&layout)).collect();
    records.sort_by(|a, b| layout.shape.key(a).cmp(layout.shape.key(b)));
    records.dedup_by(|a, b| layout.shape.key(a) == layout.shape.key(b));
    let mut d = descriptor(&layout, 90);
    d.projection = (0..layout.columns.len() as u16).collect();
    d.reverse = r.chance(30);
    d.predicate = r.chance(50).then(|| g.predicate(&layout));
    if r.chance(30) {
        d.range.lower = Bound::Excluded(vec![0x80]);
    }
    if r.chance(30) {
        let group_by = vec![g.program(&layout)];
        let summed = g.program_of(&layout, Type::Int);
        let functions = vec![
            (AggregateFunction::CountAll, None),
            (AggregateFunction::Sum, Some(summed)),
        ];
        d.aggregate = Some(Aggregate {
            group_by,
            functions,
        });
        if r.chance(50) {
            d.grouping.method = GroupMethod::Sort;
        }
    }
    let pages = records
        .chunks(20)
        .zip(1..)
        .map(|(records, id)| page(&layout, id, 100, records));
    let backend = if r.chance(50) {
        Backend::Jit
    } else {
        Backend::Interpreter
    };
    (scanner(d, backend), pages.collect())
}

/// Whatever it gives, it does not panic; true if it gives rows.
fn finished(scanner: &Arc<Scanner>, batch: NdpBatch) -> bool {
    let resolved: Vec<_> = batch
        .ambiguous
        .iter()
        .map(|a| Some(a.record.clone()))
        .collect();
    scanner.finish(batch, &resolved).is_ok()
}

#[test]
fn damaged_pages_are_refused_or_scanned() {
    // The number of the table, then the page.
    let tables = random_tables(40);
    let corpus = tables.iter().enumerate().flat_map(|(number, (_, pages))| {
        pages
            .iter()
            .map(move |page| [&[number as u8][..], &page[..]].concat())
    });
    let focus = [1..HEADER_LEN, HEADER_LEN..2000, PAGE_SIZE - 40..PAGE_SIZE];
    let mut results = 0;
    let fuzz = Fuzz::new(corpus.collect::<Vec<_>>()).focused(&focus);
    fuzz.run("pages", |bytes| {
        let Some((number, page)) = bytes.split_first() else {
            return false;
        };
        let (scanner, _) = &tables[usize::from(*number) % tables.len()];
        // Most changes move the end; a page has one length.
        let mut page = page.to_vec();
        if page.len() > PAGE_SIZE / 2 {
            page.resize(PAGE_SIZE, 0);
        }
        let Ok(page) = PageRef::new(&page) else {
            return false;
        };
        let mut execution = Execution::new(scanner.clone());
        if execution.page(0, page).is_err() {
            let batch = execution.take();
            assert!(batch.pages.is_empty() && batch.rows == 0, "it left a trace");
            return false;
        }
        let batch = NdpBatch::decode(execution.take().encode()).unwrap();
        results += u64::from(finished(scanner, batch));
        true
    });
    assert!(results > 0, "no page gives rows");
}

#[test]
fn damaged_batches_are_refused_or_finished() {
    let tables = random_tables(60);
    let corpus = tables.iter().map(|(scanner, pages)| {
        let mut execution = Execution::new(scanner.clone());
        for (index, page) in pages.iter().enumerate() {
            let page = PageRef::new(&page[..]).unwrap();
            execution.page(index as u32, page).unwrap();
        }
        execution.take().encode().to_vec()
    });
    let hashes: Vec<_> = tables.iter().map(|t| t.0.descriptor().hash()).collect();
    let mut results = 0;
    let fuzz = Fuzz::new(corpus.collect::<Vec<_>>()).sealed(seal);
    fuzz.run("batches", |bytes| {
        let Ok(batch) = NdpBatch::decode(bytes.to_vec().into()) else {
            return false;
        };
        assert!(batch.rows <= MAX_ROWS);
        let number = hashes.iter().position(|hash| *hash == batch.descriptor);
        let (scanner, _) = &tables[number.unwrap_or(0)];
        assert!(!batch.dump().is_empty());
        results += u64::from(finished(scanner, batch));
        true
    });
    assert!(results > 0, "no batch is finished");
}

#[test]
fn random_descriptors_are_of_all_kinds() {
    let descriptors: Vec<_> = (0..50).map(random_descriptor).collect();
    let aggregates = descriptors.iter().filter(|d| d.aggregate.is_some()).count();
    let predicates = descriptors.iter().filter(|d| d.predicate.is_some()).count();
    assert!((10..40).contains(&aggregates) && predicates > 20);
    assert!(descriptors.iter().all(|d| d.watermark <= TrxId::MAX));
}
