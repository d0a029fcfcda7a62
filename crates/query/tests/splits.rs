//! Rows are inserted, and leaves split, between an NDP batch request and its answer: a statement
//! sees what was there when it began.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

mod common;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use common::{Fixture, Meanwhile, Setup, rows_of};
use perigee_engine::EngineConfig;
use tokio::sync::Mutex;

/// Rows at the beginning: the even ids.
const ROWS: i64 = 10_000;

/// Rows inserted meanwhile, each time: more than a leaf has room for.
const INSERTED: usize = 60;

fn price(id: i64) -> i64 {
    id * 7919 % 1000
}

fn line(id: i64, separator: &str, quote: &str) -> String {
    let flag = ["A", "N", "R"][(id % 3) as usize];
    let note = format!("{quote}{flag}{quote}{separator}{quote}{:x<100}{quote}", id);
    format!("{id}{separator}{}{separator}{note}", price(id))
}

/// What is in the table, and how often more came in between.
#[derive(Default)]
struct Model {
    ids: BTreeSet<i64>,
    interruptions: i64,
}

/// Inserts rows next to each other in another place each time.
async fn insert(fixture: &Fixture, model: &mut Model) {
    model.interruptions += 1;
    let begin = (model.interruptions * 7907 % (2 * ROWS)) | 1;
    let fresh = (begin..).step_by(2).filter(|id| !model.ids.contains(id));
    let fresh: Vec<i64> = fresh.take(INSERTED).collect();
    let rows: Vec<_> = fresh
        .iter()
        .map(|id| format!("({})", line(*id, ",", "'")))
        .collect();
    let sql = format!("INSERT INTO test.t VALUES {}", rows.join(","));
    fixture.run(&mut fixture.session(), &sql).await.unwrap();
    model.ids.extend(fresh);
}

struct Query {
    sql: &'static str,
    answer: fn(&BTreeSet<i64>) -> Vec<String>,
}

const QUERIES: [Query; 5] = [
    Query {
        sql: "SELECT COUNT(*), SUM(price), MIN(id), MAX(id) FROM t",
        answer: |ids| {
            let sum: i64 = ids.iter().map(|id| price(*id)).sum();
            let (min, max) = (ids.first().unwrap(), ids.last().unwrap());
            vec![format!("{}|{sum}|{min}|{max}", ids.len())]
        },
    },
    Query {
        sql: "SELECT flag, COUNT(*), SUM(price * 2) FROM t WHERE price BETWEEN 100 AND 699 \
              GROUP BY flag ORDER BY flag",
        answer: |ids| {
            let of = |flag: i64| {
                let prices = ids.iter().filter(|id| *id % 3 == flag).map(|id| price(*id));
                prices
                    .filter(|p| (100..700).contains(p))
                    .collect::<Vec<_>>()
            };
            let row = |(flag, name)| {
                let prices: Vec<i64> = of(flag);
                format!("{name}|{}|{}", prices.len(), 2 * prices.iter().sum::<i64>())
            };
            [(0, "A"), (1, "N"), (2, "R")].map(row).to_vec()
        },
    },
    Query {
        sql: "SELECT id FROM t WHERE id BETWEEN 2000 AND 15999 ORDER BY id",
        answer: |ids| ids.range(2000..16_000).map(ToString::to_string).collect(),
    },
    Query {
        sql: "SELECT id FROM t WHERE price < 500 ORDER BY id DESC",
        answer: |ids| {
            let cheap = ids.iter().rev().filter(|id| price(**id) < 500);
            cheap.map(ToString::to_string).collect()
        },
    },
    Query {
        sql: "SELECT price, id FROM t WHERE price < 100 ORDER BY price, id",
        answer: |ids| {
            let mut cheap: Vec<_> = ids.iter().map(|id| (price(*id), *id)).collect();
            cheap.retain(|(price, _)| *price < 100);
            cheap.sort_unstable();
            cheap
                .iter()
                .map(|(price, id)| format!("{price}|{id}"))
                .collect()
        },
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_do_not_see_what_comes_between_request_and_answer() {
    let model: Arc<Mutex<Model>> = Arc::default();
    let fixture: Arc<OnceLock<Fixture>> = Arc::default();
    let meanwhile: Meanwhile = {
        let (model, fixture) = (model.clone(), fixture.clone());
        Arc::new(move || {
            let (model, fixture) = (model.clone(), fixture.clone());
            Box::pin(async move {
                if let Some(fixture) = fixture.get() {
                    insert(fixture, &mut *model.lock().await).await;
                }
            })
        })
    };
    let setup = Setup {
        engine: EngineConfig {
            past_pool: true,
            ..EngineConfig::default()
        },
        meanwhile: Some(meanwhile),
        ..Setup::default()
    };
    let new = Fixture::new(setup).await;
    let mut session = new.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE t (id INT NOT NULL PRIMARY KEY, price INT NOT NULL, flag CHAR(1) NOT NULL,
            note VARCHAR(120) NOT NULL, KEY by_price (price));
        SET ndp_max_pages_look_ahead = 12";
    new.run(&mut session, create).await.unwrap();
    let ids = (0..ROWS).map(|n| 2 * n);
    let file: String = ids.clone().map(|id| line(id, "|", "") + "\n").collect();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t FIELDS TERMINATED BY '|'";
    new.run_with(&mut session, load, file.into_bytes())
        .await
        .unwrap();
    model.lock().await.ids.extend(ids);
    let _ = fixture.set(new);
    let fixture = fixture.get().unwrap();
    for set in ["SET ndp_mode = OFF", "SET ndp_mode = ON, ndp_min_pages = 0"] {
        fixture.run(&mut session, set).await.unwrap();
        for Query { sql, answer } in &QUERIES {
            let (before, interruptions) = {
                let model = model.lock().await;
                (model.ids.clone(), model.interruptions)
            };
            let results = fixture.run(&mut session, sql).await.unwrap();
            let model = model.lock().await;
            let pushed = set.contains("ON");
            let came = model.interruptions - interruptions;
            assert!(
                if pushed { came > 0 } else { came == 0 },
                "{sql}: {came} interruptions"
            );
            assert_eq!(model.ids.len() - before.len(), came as usize * INSERTED);
            let (found, expected) = (rows_of(&results[0]), answer(&before));
            assert!(!expected.is_empty());
            let differ = found.iter().zip(&expected).find(|(a, b)| a != b);
            assert!(
                found == expected,
                "{set}: {sql}: {} rows for {}, {differ:?}",
                found.len(),
                expected.len()
            );
        }
    }
}
