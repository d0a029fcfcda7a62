//! What a view that stays open keeps from being purged: its length, and the warning that names who
//! opened the view.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perigee_engine::catalog::Table;
use perigee_engine::txn::{TransactionOptions, Written};
use perigee_engine::{Engine, EngineConfig};
use perigee_value::Datum;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::mvcc::key_of;
use super::{definition, insert, live, open};

const LONG: usize = 50;

/// Keeps the texts of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn update(engine: &Arc<Engine>, table: &Arc<Table>, amount: i128) {
    let row = [
        Datum::Int(1),
        Datum::Decimal(amount),
        Datum::String(Vec::new()),
    ];
    let mut transaction = engine.begin(TransactionOptions::default());
    let written = transaction.update_row(table, &key_of(table, 1), &row).await;
    assert_eq!(written.unwrap(), Written::Done);
    transaction.commit().await.unwrap();
}

async fn wait_for_length(engine: &Engine, right: impl Fn(usize) -> bool) {
    for _ in 0..500 {
        if right(engine.history_length()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} transactions wait to be purged", engine.history_length());
}

#[test]
fn a_long_history_is_told_once_with_the_connection_that_keeps_it() {
    let warnings = Warnings::default();
    let told = |warnings: &Warnings| {
        let warnings = warnings.0.lock().unwrap();
        let kept = warnings.iter().filter(|text| text.contains("is kept for"));
        kept.cloned().collect::<Vec<_>>()
    };
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        long_history: LONG,
        ..EngineConfig::default()
    };
    // All tasks on this thread, where the subscriber is.
    let _subscribed = tracing::subscriber::set_default(warnings.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let engine = open(dir.path(), config).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(definition("t")).await.unwrap();
        insert(&engine, &table, 1..2).await;
        wait_for_length(&engine, |length| length == 0).await;
        let options = TransactionOptions {
            connection: 77,
            ..TransactionOptions::default()
        };
        let mut reader = engine.begin(options);
        drop(reader.view());
        let later = engine.view_for(78);
        for amount in 0..LONG as i128 - 1 {
            update(&engine, &table, amount).await;
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(engine.history_length(), LONG - 1);
        assert_eq!(told(&warnings), Vec::<String>::new());

        for amount in 1000..1020 {
            update(&engine, &table, amount).await;
        }
        tokio::time::sleep(Duration::from_millis(3500)).await;
        assert_eq!(engine.history_length(), LONG + 19);
        let told = told(&warnings);
        assert_eq!(told.len(), 1, "{told:?}");
        let text = format!("undo of {} transactions", LONG);
        assert!(told[0].starts_with(&text), "{told:?}");
        assert!(told[0].contains("connection 77 opened"), "{told:?}");

        drop(later);
        reader.rollback().await.unwrap();
        wait_for_length(&engine, |length| length == 0).await;
        engine.shutdown().await.unwrap();
    });
}

/// Updates a row with a long note again and again: what was there fills undo pages fast.
async fn rewrite(engine: Arc<Engine>, table: Arc<Table>, id: i64, times: usize) {
    for time in 0..times {
        let mut transaction = engine.begin(TransactionOptions::default());
        for change in 0..30 {
            let note = vec![b'a' + (time + change) as u8 % 26; 90];
            let row = [Datum::Int(id), Datum::Decimal(1), Datum::String(note)];
            let key = key_of(&table, id);
            let written = transaction.update_row(&table, &key, &row).await;
            assert_eq!(written.unwrap(), Written::Done);
        }
        transaction.commit().await.unwrap();
    }
}

#[test]
fn slots_are_taken_while_the_undo_in_their_segments_is_purged() {
    let dir = tempfile::tempdir().unwrap();
    for life in 0..2 {
        live(async {
            let engine = open(dir.path(), EngineConfig::default()).await;
            if life == 0 {
                engine.create_schema("test").await.unwrap();
                let table = engine.create_table(definition("t")).await.unwrap();
                insert(&engine, &table, 0..4).await;
            }
            let table = engine.table("test", "t").unwrap();
            let writers = (0..4).map(|id| {
                let rewrite = rewrite(engine.clone(), table.clone(), id, 500);
                tokio::spawn(rewrite)
            });
            for writer in futures::future::join_all(writers).await {
                writer.unwrap();
            }
            wait_for_length(&engine, |length| length == 0).await;
            engine.shutdown().await.unwrap();
        });
    }
}
