//! Columns that compare by weights: keys are one for all variants of a text, rows keep theirs.

use perigee_engine::txn::Written;
use perigee_value::{Collation, ColumnType, Datum, key};

use super::*;

const NAME: ColumnType = ColumnType::Varchar {
    chars: 20,
    collation: Collation::UTF8MB4_GENERAL_CI,
};

fn names() -> TableDef {
    TableDef {
        columns: vec![
            column("id", INT, false),
            column("name", NAME, false),
            column("alias", NAME, true),
        ],
        indexes: vec![
            IndexDef {
                name: "by_name".into(),
                columns: vec![1],
                unique: true,
                ..IndexDef::default()
            },
            IndexDef {
                name: "by_alias".into(),
                columns: vec![2],
                unique: false,
                ..IndexDef::default()
            },
        ],
        ..definition("names")
    }
}

fn text(text: &str) -> Datum {
    Datum::String(text.as_bytes().to_vec())
}

fn name(id: i64, name: &str, alias: &str) -> Vec<Datum> {
    vec![Datum::Int(id), text(name), text(alias)]
}

/// The names that an index gives for a key, as they are stored.
async fn found(
    engine: &Arc<Engine>,
    table: &Arc<Table>,
    index: usize,
    wanted: &str,
) -> Vec<String> {
    let mut lower = Vec::new();
    let layout = &table.indexes[index].layout;
    key::encode_key(layout, &[text(wanted)], &mut lower).unwrap();
    let request = ScanRequest {
        index,
        spans: KeySpan::prefix(&lower).into(),
        projection: vec![0],
        ..request(engine, table, index == 1)
    };
    let batches = run(engine, request).await;
    let column = |b: &RecordBatch| -> Vec<String> {
        let names = b.column(0).as_string_view();
        names.iter().map(|name| name.unwrap().to_owned()).collect()
    };
    batches.iter().flat_map(column).collect()
}

fn clustered_key(table: &Table, id: i64) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key(&table.clustered().layout, &[Datum::Int(id)], &mut out).unwrap();
    out
}

#[test]
fn variants_of_a_text_are_one_key_and_stay_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    live(async {
        let engine = open(dir.path(), EngineConfig::default()).await;
        engine.create_schema("test").await.unwrap();
        let table = engine.create_table(names()).await.unwrap();
        let mut transaction = engine.begin(TransactionOptions::default());
        let rows = [
            name(1, "Müller", "x"),
            name(2, "Zoe", "X "),
            name(3, "adam", "y"),
        ];
        transaction.insert(&table, &rows).await.unwrap();
        let again = transaction
            .insert_row(&table, &name(4, "MULLER ", "z"))
            .await;
        assert!(matches!(again, Ok(Written::Duplicate(_))), "{again:?}");
        transaction.commit().await.unwrap();
        assert_eq!(found(&engine, &table, 1, "mUller").await, ["Müller"]);
        assert_eq!(found(&engine, &table, 2, "x").await, ["x", "X "]);

        // The key stays, the entry changes; a view from before sees it as it was.
        let before = engine.read_view();
        let mut transaction = engine.begin(TransactionOptions::default());
        let key = clustered_key(&table, 1);
        let written = transaction
            .update_row(&table, &key, &name(1, "mueller", "Y"))
            .await;
        assert!(matches!(written, Ok(Written::Done)), "{written:?}");
        let key = clustered_key(&table, 2);
        let written = transaction
            .update_row(&table, &key, &name(2, "ZOË", "X"))
            .await;
        assert!(matches!(written, Ok(Written::Done)), "{written:?}");
        transaction.commit().await.unwrap();
        assert_eq!(found(&engine, &table, 1, "zoe").await, ["ZOË"]);
        assert_eq!(found(&engine, &table, 1, "muller").await, [""; 0]);
        assert_eq!(found(&engine, &table, 2, "Y").await, ["Y", "y"]);
        let request = ScanRequest {
            index: 1,
            projection: vec![0],
            view: before,
            ..request(&engine, &table, true)
        };
        let batches = run(&engine, request).await;
        let names = batches[0].column(0).as_string_view();
        let names: Vec<_> = names.iter().flatten().collect();
        assert_eq!(names, ["adam", "Müller", "Zoe"]);
    });
}
