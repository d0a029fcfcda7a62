//! Join tables: a store that has the one that the descriptor names joins, any other declines the pages.

use perigee_ndp::{Filters, Join, JoinKind, JoinTable, JoinTableBuilder};

use super::*;

/// A table of the store's even keys below a limit, with the value of each and its text.
fn table(limit: i64) -> (JoinTable, Bytes) {
    let mut builder = JoinTableBuilder::new(&[INT], &[(INT, false)], usize::MAX).unwrap();
    for key in (0..limit).step_by(2) {
        let mut encoded = Vec::new();
        let value = Datum::Int(key);
        perigee_value::key::encode_part(INT, false, value.as_ref(), &mut encoded).unwrap();
        let values = [Datum::Int(key + 7)];
        let values = values.iter().map(Datum::as_ref);
        builder.push(&encoded, values).unwrap();
    }
    builder.finish().unwrap()
}

/// Rows joined with a table by their key: the key, and the table's value.
fn joining(table: &JoinTable, kind: JoinKind) -> Descriptor {
    let payload = match kind {
        JoinKind::Inner | JoinKind::Left => table.payload().to_vec(),
        JoinKind::Semi | JoinKind::Anti => Vec::new(),
    };
    let join = Join {
        kind,
        table: table.name(),
        on: vec![0],
        columns: vec![0],
        payload,
        condition: None,
    };
    Descriptor {
        projection: vec![Join::FIRST_COLUMN, join.payload_column(0)],
        join: Some(join),
        ..Descriptor::new(SLICE.db, IndexId(1), layout(), WATERMARK)
    }
}

/// The key and the joined value of each row that batches deliver, in key order.
fn joined(descriptor: &Descriptor, table: JoinTable, batches: Vec<NdpBatch>) -> Vec<(i32, i32)> {
    let scanner = Arc::new(Scanner::new(descriptor.clone(), Backend::Interpreter).unwrap());
    let filters = Filters::default().with_table(Some(Arc::new(table)));
    let mut rows = Vec::new();
    for batch in batches {
        let finished = scanner.finish_filtered(batch, &[], &filters).unwrap();
        let column = |n: usize| finished.batch.column(n).as_primitive::<Int32Type>();
        let pairs = column(0).values().iter().zip(column(1).values());
        rows.extend(pairs.map(|(key, value)| (*key, *value)));
    }
    rows.sort_unstable();
    rows
}

fn even(limit: i32) -> Vec<(i32, i32)> {
    let keys = (0..limit).step_by(2);
    keys.map(|key| (key, key + 7)).collect()
}

/// True if all pages came back whole, because the descriptor could not be run.
fn is_declined(answer: &Answer) -> bool {
    let reasons = answer.declined.iter().map(|(_, reason, _)| *reason);
    answer.batches.is_empty() && reasons.eq([NdpDecline::Descriptor; 10])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_comes_once_and_is_known_by_its_hash() {
    let dir = tempdir();
    let store = Arc::new(open(dir.path(), small()));
    let mut model = Model::new(SLICE);
    load(&*store, &mut model, 10).await;
    let pages: Vec<u64> = (1..=10).collect();
    let (of_300, content) = table(300);
    let descriptor = joining(&of_300, JoinKind::Inner);
    let read = |filters| NdpRead {
        filters,
        ..request(&model, &pages, &descriptor)
    };
    let content = sent(content);
    let unknown = ask(&*store, read(vec![by_hash(&content)])).await;
    assert_eq!(unknown.missing, [0], "it was never sent");
    assert!(is_declined(&unknown));
    assert!(is_declined(&ask(&*store, read(Vec::new())).await));
    for filter in [content.clone(), by_hash(&content)] {
        // Beside it a filter, which counts what it leaves out under its own number.
        let keys = sent(key_filter(&[3, 4, 200, 900]).encode());
        let answer = ask(&*store, read(vec![keys, filter])).await;
        assert!(answer.missing.is_empty() && answer.declined.is_empty());
        assert_eq!(answer.dropped, [996, 0]);
        let rows = joined(&descriptor, table(300).0, answer.batches);
        assert_eq!(rows, [(4, 11), (200, 207)]);
    }
    let answer = ask(&*store, read(vec![by_hash(&content)])).await;
    assert_eq!(joined(&descriptor, of_300, answer.batches), even(300));
    // A store that was restarted has forgotten it, says so, and goes on with its content.
    drop(store);
    let store = open(dir.path(), small());
    let answer = ask(&store, read(vec![by_hash(&content)])).await;
    assert_eq!(answer.missing, [0]);
    assert!(is_declined(&answer));
    let answer = ask(&store, read(vec![content])).await;
    assert_eq!(joined(&descriptor, table(300).0, answer.batches), even(300));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_declined_without_the_table_that_the_descriptor_names() {
    let dir = tempdir();
    let store = open(dir.path(), small());
    let mut model = Model::new(SLICE);
    load(&store, &mut model, 10).await;
    let other = perigee_page_api::SliceKey {
        db: DbId(SLICE.db.0 + 1),
        ..SLICE
    };
    let mut other = Model::new(other);
    load(&store, &mut other, 10).await;
    let pages: Vec<u64> = (1..=10).collect();
    let (of_300, content) = table(300);
    let descriptor = joining(&of_300, JoinKind::Inner);
    let read = |model: &Model, filter| NdpRead {
        filters: vec![filter],
        ..request(model, &pages, &descriptor)
    };
    let right = sent(content.clone());
    let answer = ask(&store, read(&model, sent(table(302).1))).await;
    assert!(is_declined(&answer), "it is another table");
    assert!(answer.missing.is_empty());
    let changed = NdpFilter {
        content: Some(table(302).1),
        ..right.clone()
    };
    let answer = ask(&store, read(&model, changed)).await;
    assert!(is_declined(&answer), "it has another hash");
    let mut broken = content.to_vec();
    broken[20] ^= 1;
    let answer = ask(&store, read(&model, sent(broken.into()))).await;
    assert!(is_declined(&answer), "it is damaged");
    let mut newer = content.to_vec();
    newer[8] = 9;
    let crc = perigee_types::checksum(&newer[8..]);
    newer[4..8].copy_from_slice(&crc.to_le_bytes());
    let answer = ask(&store, read(&model, sent(newer.into()))).await;
    assert!(is_declined(&answer), "its version is unknown");
    let answer = ask(&store, read(&model, right.clone())).await;
    assert_eq!(joined(&descriptor, of_300, answer.batches), even(300));
    let answer = ask(&store, read(&other, by_hash(&right))).await;
    assert_eq!(answer.missing, [0], "it is another tenant's");
    assert!(is_declined(&answer));
    // One column more than the table has.
    let mut wider = descriptor.clone();
    wider.join.as_mut().unwrap().payload.push((INT, false));
    let wider = NdpRead {
        filters: vec![right],
        ..request(&model, &pages, &wider)
    };
    assert!(is_declined(&ask(&store, wider).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_kept_as_far_as_there_is_memory() {
    let dir = tempdir();
    let config = Config {
        filter_cache_bytes: 64 << 10,
        ..small()
    };
    let store = open(dir.path(), config);
    let mut model = Model::new(SLICE);
    load(&store, &mut model, 10).await;
    let pages: Vec<u64> = (1..=10).collect();
    let read = |limit: i64, by_its_hash: bool| {
        let (table, content) = table(limit);
        let descriptor = joining(&table, JoinKind::Inner);
        let content = sent(content);
        NdpRead {
            filters: vec![if by_its_hash {
                by_hash(&content)
            } else {
                content
            }],
            ..request(&model, &pages, &descriptor)
        }
    };
    // Each of these takes some 9 KiB: the first ones make room for the last.
    for limit in (500..520).step_by(2) {
        let answer = ask(&store, read(limit, false)).await;
        assert!(answer.declined.is_empty());
    }
    let figures = store.figures().filters;
    assert!(
        figures.bytes <= 64 << 10 && figures.evictions > 0,
        "{figures:?}"
    );
    assert!(is_declined(&ask(&store, read(500, true)).await));
    let answer = ask(&store, read(518, true)).await;
    assert!(answer.declined.is_empty());
    // One that takes more than a quarter of the cache is used and not kept.
    let answer = ask(&store, read(2000, false)).await;
    assert!(answer.declined.is_empty());
    assert!(is_declined(&ask(&store, read(2000, true)).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_above_a_join_come_as_one_row() {
    let dir = tempdir();
    let store = Arc::new(open(dir.path(), small()));
    let mut model = Model::new(SLICE);
    load(&*store, &mut model, 100).await;
    let pages: Vec<u64> = (1..=100).collect();
    let (of_9000, content) = table(9000);
    let inner = joining(&of_9000, JoinKind::Inner);
    let join = inner.join.clone().unwrap();
    let argument = Program {
        nodes: vec![column(join.payload_column(0))],
    };
    let functions = vec![
        (AggregateFunction::CountAll, None),
        (AggregateFunction::Sum, Some(argument)),
    ];
    let descriptor = Descriptor {
        projection: Vec::new(),
        aggregate: Some(Aggregate {
            group_by: Vec::new(),
            functions,
        }),
        ..inner
    };
    let read = NdpRead {
        filters: vec![sent(content)],
        ..request(&model, &pages, &descriptor)
    };
    let client = over_grpc(&store).await;
    let answer = ask(&client, read).await;
    assert!(answer.declined.is_empty());
    assert!(answer.reduced < 1000, "{} bytes", answer.reduced);
    let scanner = Arc::new(Scanner::new(descriptor, Backend::Interpreter).unwrap());
    let filters = Filters::default().with_table(Some(Arc::new(of_9000)));
    let (mut count, mut sum) = (0, 0);
    for batch in answer.batches {
        let finished = scanner.finish_filtered(batch, &[], &filters).unwrap();
        count += finished
            .batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .sum::<i64>();
        sum += finished
            .batch
            .column(1)
            .as_primitive::<Decimal128Type>()
            .values()
            .iter()
            .sum::<i128>();
    }
    let expected: i128 = even(9000).iter().map(|(_, value)| i128::from(*value)).sum();
    assert_eq!((count, sum), (4500, expected));
}
