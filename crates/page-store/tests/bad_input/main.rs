//! Bad input for near-data processing: cases as files, each with its answer (`cases/`; their language
//! is in `language.rs`). Each is sent to a store, directly and over gRPC. None makes a wrong row:
//! after each the store answers a well-formed request as a plain scan does. None takes much memory.
#![allow(clippy::unwrap_used, reason = "test code")]

mod language;
mod places;
mod program;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use futures::StreamExt;
use language::{Answer, Case};
use perigee_ndp::{AmbiguousKind, Backend, Descriptor, Execution, NdpBatch, NdpError, Scanner};
use perigee_page::PageRef;
use perigee_page_api::{
    ClientConfig, NdpDecline, NdpItem, NdpRead, PageError, PageStore, PageStoreClient, ReadPages,
    incoming, serve, transport,
};
use perigee_value::Datum;
use support::tempdir;
use world::{LEAVES, World};

const FILES: [(&str, &str); 8] = [
    ("truncated", include_str!("cases/truncated.txt")),
    ("form", include_str!("cases/form.txt")),
    ("types", include_str!("cases/types.txt")),
    ("programs", include_str!("cases/programs.txt")),
    ("constants", include_str!("cases/constants.txt")),
    ("aggregates", include_str!("cases/aggregates.txt")),
    ("requests", include_str!("cases/requests.txt")),
    ("batches", include_str!("cases/batches.txt")),
];

/// Memory that all cases together may take beyond what the store has in use.
const MEMORY: usize = 512 << 20;

fn cases() -> Vec<Case> {
    let files = FILES.iter();
    files
        .flat_map(|(file, text)| language::parse(file, text))
        .collect()
}

#[test]
fn there_are_two_hundred_cases_and_each_has_a_name() {
    let cases = cases();
    let mut names = BTreeSet::new();
    for case in &cases {
        assert!(names.insert(&case.name), "two cases: {}", case.name);
    }
    let bad = cases
        .iter()
        .filter(|case| !matches!(case.answer, Answer::AsPlain));
    assert!(bad.count() >= 200, "of {} cases", cases.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_declined_or_refused_and_harms_nobody() {
    let dir = tempdir();
    let world = World::new(dir.path()).await;
    let cases = cases();
    let of_batches = |case: &&Case| case.base.starts_with("batch of ");
    let (batches, requests): (Vec<_>, Vec<_>) = cases.iter().partition(of_batches);
    let direct: &dyn PageStore = &*world.store;
    let client = over_grpc(&world).await;
    let expected = well_formed(&world, direct).await;
    check_rows(&expected);
    let before = peak_memory();
    let mut wrong = Vec::new();
    let mut note = |case: &Case, found: Result<(), String>| {
        wrong.extend(
            found
                .err()
                .map(|found| format!("{}: {}: {found}", case.file, case.name)),
        );
    };
    for case in batches {
        note(case, check_batch(&world, case).await);
    }
    for case in requests {
        note(case, check_decoder(case));
        for store in [direct, &client] {
            note(case, check(&world, store, case).await);
            let same = well_formed(&world, store).await == expected;
            note(
                case,
                same.then_some(()).ok_or("other rows afterwards".to_owned()),
            );
        }
    }
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let grown = peak_memory() - before;
    assert!(grown < MEMORY, "{} MiB more", grown >> 20);
}

/// A client of the store over a socket.
async fn over_grpc(world: &World) -> PageStoreClient {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = transport().add_service(serve(world.store.clone()));
    tokio::spawn(router.serve_with_incoming(incoming(listener, Arc::default())));
    PageStoreClient::new(&address, ClientConfig::default()).unwrap()
}

/// The descriptor of a case, encoded.
fn encoded(case: &Case) -> Bytes {
    let mut descriptor = world::descriptor(&case.base);
    language::change_descriptor(&mut descriptor, &case.lines);
    let mut bytes = descriptor.encode().to_vec();
    let places = places::of_descriptor(&bytes);
    language::change_bytes(&mut bytes, &places, &case.lines);
    bytes.into()
}

/// What became of the pages of a request, by their indexes.
#[derive(Default)]
struct Answered {
    batches: Vec<NdpBatch>,
    declined: Vec<(u32, NdpDecline, Bytes)>,
}

/// Sends a request; every page is answered once, or there is an error.
async fn ask(store: &dyn PageStore, read: NdpRead) -> Result<Answered, PageError> {
    let mut seen = vec![0_u8; read.pages.len()];
    let mut answered = Answered::default();
    let mut replies = store.ndp_read(read).await?;
    while let Some(reply) = replies.next().await {
        for item in reply?.items {
            match item {
                NdpItem::Reduced(bytes) => {
                    let batch = NdpBatch::decode(bytes).unwrap();
                    let runs = batch.pages.iter();
                    runs.for_each(|run| seen[run.index as usize] += 1);
                    answered.batches.push(batch);
                }
                NdpItem::Declined {
                    index,
                    reason,
                    page,
                } => {
                    seen[index as usize] += 1;
                    answered.declined.push((index, reason, page));
                }
            }
        }
    }
    assert!(seen.iter().all(|n| *n == 1), "each page is answered once");
    answered.declined.sort_by_key(|(index, ..)| *index);
    Ok(answered)
}

/// Rows of the well-formed request.
async fn well_formed(world: &World, store: &dyn PageStore) -> RecordBatch {
    let descriptor = world::descriptor("filter");
    let read = world.request("filter", &[], descriptor.encode());
    let mut answered = ask(store, read).await.unwrap();
    assert!(answered.declined.is_empty() && answered.batches.len() == 1);
    let scanner = Arc::new(Scanner::new(descriptor, Backend::Interpreter).unwrap());
    let batch = answered.batches.remove(0);
    scanner.finish(batch, &[]).unwrap().batch
}

/// That these are the rows of the table with a quantity below 24, found without any of the code
/// under test.
fn check_rows(found: &RecordBatch) {
    let all = (0..LEAVES as i64 * 50).map(world::row);
    let few: Vec<_> = all
        .filter(|row| matches!(row[1], Datum::Int(quantity) if quantity < 24))
        .collect();
    let shown = |column: usize, row: usize| format!("{:?}", found.column(column).slice(row, 1));
    assert_eq!(found.num_rows(), few.len());
    for (at, row) in few.iter().enumerate() {
        for (column, value) in [(0, &row[0]), (1, &row[1]), (2, &row[7])] {
            let value = match value {
                Datum::Int(value) => value.to_string(),
                Datum::String(text) => String::from_utf8(text.clone()).unwrap(),
                _ => "null".to_owned(),
            };
            assert!(shown(column, at).contains(&value), "row {at}: {value}");
        }
    }
}

/// Sends a case to a store and compares the answer with what the file says.
async fn check(world: &World, store: &dyn PageStore, case: &Case) -> Result<(), String> {
    let read = world.request(&case.base, &case.lines, encoded(case));
    let answered = ask(store, read.clone()).await;
    let reason = match (&case.answer, &answered) {
        (Answer::Refused { kind, text }, Err(error))
            if kind_of(error) == kind && error.to_string().contains(text) =>
        {
            return Ok(());
        }
        (Answer::Refused { .. }, Ok(_)) => return Err("it is not refused".to_owned()),
        (_, Err(error)) => return Err(format!("{}: {error}", kind_of(error))),
        (Answer::AsPlain, Ok(_)) => None,
        (Answer::Declined(_), Ok(_)) => Some(NdpDecline::Descriptor),
        (Answer::PagesDeclined, Ok(_)) => Some(NdpDecline::Page),
    };
    let answered = answered.map_err(|error| error.to_string())?;
    match reason {
        None => check_as_plain(world, &read, answered).await,
        Some(reason) => check_declined(world, &read, &answered, reason).await,
    }
}

/// Every page came whole, for this reason.
async fn check_declined(
    world: &World,
    read: &NdpRead,
    answered: &Answered,
    reason: NdpDecline,
) -> Result<(), String> {
    if !answered.batches.is_empty() {
        return Err("pages were reduced".to_owned());
    }
    let plain = plain_pages(world, read).await;
    for ((index, found, bytes), page) in answered.declined.iter().zip(plain) {
        if *found != reason || *bytes != page {
            let same = *bytes == page;
            return Err(format!("page {index}: {found:?}, the same page: {same}"));
        }
    }
    Ok(())
}

fn kind_of(error: &PageError) -> &'static str {
    match error {
        PageError::Unavailable(_) => "unavailable",
        PageError::Behind(_) => "behind",
        PageError::Recycled(_) => "recycled",
        PageError::NotFound(_) => "not found",
        PageError::Refused(_) => "refused",
        PageError::Fenced(_) => "fenced",
        PageError::Corrupt(_) => "corrupt",
        PageError::Full(_) => "full",
        PageError::Disk(_) => "disk",
    }
}

async fn plain_pages(world: &World, read: &NdpRead) -> Vec<Bytes> {
    let pages = ReadPages {
        epoch: perigee_page_api::ANY_EPOCH,
        slice: read.slice,
        lsn: read.lsn,
        pages: read.pages.clone(),
    };
    world.store.read_pages(pages).await.unwrap()
}

/// The decoder says of a descriptor what the case says, without a store.
fn check_decoder(case: &Case) -> Result<(), String> {
    let made = Descriptor::decode(&encoded(case))
        .and_then(|descriptor| Scanner::new(descriptor, Backend::Jit).map(drop));
    // Some requests are refused for another reason, whatever their descriptor is.
    match (&case.answer, made) {
        (Answer::Declined(text), Err(error)) if error.to_string().contains(text) => Ok(()),
        (Answer::Declined(_), Ok(())) => Err("the descriptor is taken".to_owned()),
        (Answer::Refused { .. }, _) | (_, Ok(())) => Ok(()),
        (_, Err(error)) => Err(format!("the descriptor: {error}")),
    }
}

/// The answer is what the same code makes of the plain pages here.
async fn check_as_plain(world: &World, read: &NdpRead, answered: Answered) -> Result<(), String> {
    let descriptor = Descriptor::decode(&read.descriptor).unwrap();
    let scanner = Arc::new(Scanner::new(descriptor, Backend::Interpreter).unwrap());
    let pages = plain_pages(world, read).await;
    let plain = rows_of(&scanner, Vec::new(), &pages);
    let rest: Vec<_> = answered.declined.into_iter().map(|(_, _, p)| p).collect();
    let found = rows_of(&scanner, answered.batches, &rest);
    if found == plain {
        return Ok(());
    }
    let shown = |rows: &Result<Vec<String>, String>| match rows {
        Ok(rows) => format!("{} rows, first {:?}", rows.len(), rows.first()),
        Err(error) => error.clone(),
    };
    let (found, plain) = (shown(&found), shown(&plain));
    Err(format!("{found} instead of {plain}"))
}

/// Rows, or the errors instead of them, of batches and of pages that are processed here. Pages that
/// are not what the descriptor describes have none.
fn rows_of(
    scanner: &Arc<Scanner>,
    mut batches: Vec<NdpBatch>,
    pages: &[Bytes],
) -> Result<Vec<String>, String> {
    let mut execution = Execution::new(scanner.clone());
    for (index, page) in pages.iter().enumerate() {
        let page = PageRef::new(page).unwrap();
        match execution.page(index as u32, page) {
            Err(NdpError::Full) => {
                batches.push(execution.take());
                execution.page(index as u32, page).unwrap();
            }
            Ok(()) | Err(NdpError::Page { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    batches.push(execution.take());
    let mut rows = Vec::new();
    for batch in batches {
        // Nobody resolves records whose visibility is open: they are nothing, here and there.
        let resolved: Vec<_> = batch
            .ambiguous
            .iter()
            .map(|a| (a.kind == AmbiguousKind::Failed).then(|| a.record.clone()))
            .collect();
        let batch = scanner
            .finish(batch, &resolved)
            .map_err(|error| error.to_string())?
            .batch;
        for row in 0..batch.num_rows() {
            let columns = batch.columns().iter();
            let values = columns.map(|column| format!("{:?}", column.slice(row, 1)));
            rows.push(values.collect::<String>());
        }
    }
    rows.sort();
    Ok(rows)
}

/// A damaged batch is refused where the frontend reads it, or finished.
async fn check_batch(world: &World, case: &Case) -> Result<(), String> {
    let base = case.base.strip_prefix("batch of ").unwrap();
    let descriptor = world::descriptor(base);
    let scanner = Arc::new(Scanner::new(descriptor.clone(), Backend::Interpreter).unwrap());
    let read = world.request(base, &[], descriptor.encode());
    let mut execution = Execution::new(scanner.clone());
    for (index, page) in plain_pages(world, &read).await.iter().enumerate() {
        let page = PageRef::new(page).unwrap();
        execution.page(index as u32, page).unwrap();
    }
    let mut bytes = execution.take().encode().to_vec();
    language::change_bytes(&mut bytes, &places::Places::new(), &case.lines);
    let finished = NdpBatch::decode(bytes.into()).and_then(|batch| {
        let resolved: Vec<_> = batch.ambiguous.iter().map(|_| None).collect();
        scanner.finish(batch, &resolved).map(drop)
    });
    match (&case.answer, finished) {
        (Answer::Refused { text, .. }, Err(error)) if error.to_string().contains(text) => Ok(()),
        (Answer::AsPlain, Ok(())) => Ok(()),
        (_, found) => Err(format!("{found:?}")),
    }
}

/// The most memory that the process ever had, in bytes.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() << 10
}
