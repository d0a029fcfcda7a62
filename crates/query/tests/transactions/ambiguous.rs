//! The worked example of partial aggregation (taurus-ndp section V.C) through SQL: the ambiguous records
//! are those of another session's transaction that has not ended.
//!
//! `P1 = {(1,2), (2,10)?, (3,7), (4,8)?, (5,2)}`, `P2 = {(11,10), (12,2)?, (13,5), (14,9)}`.

use super::*;

const VISIBLE: [(i64, i64); 6] = [(1, 2), (3, 7), (5, 2), (11, 10), (13, 5), (14, 9)];

const AMBIGUOUS: [(i64, i64); 3] = [(2, 10), (4, 8), (12, 2)];

/// Tables with the records of the first page, of the second, and of both.
#[derive(Clone, Copy)]
struct Example {
    table: &'static str,
    ids: [i64; 2],
    pages: u64,
    /// What is visible to others sums up to this.
    visible: &'static str,
    /// What the transaction sees itself.
    whole: &'static str,
    ambiguous: u64,
}

const EXAMPLES: [Example; 3] = [
    Example {
        table: "p1",
        ids: [1, 5],
        pages: 1,
        visible: "11",
        whole: "29",
        ambiguous: 2,
    },
    Example {
        table: "p2",
        ids: [11, 14],
        pages: 1,
        visible: "24",
        whole: "26",
        ambiguous: 1,
    },
    Example {
        table: "all_pages",
        ids: [1, 14],
        pages: 2,
        visible: "35",
        whole: "55",
        ambiguous: 3,
    },
];

impl Example {
    fn of<'p>(&self, pairs: &'p [(i64, i64)]) -> impl Iterator<Item = &'p (i64, i64)> + use<'p> {
        let [first, last] = self.ids;
        pairs
            .iter()
            .filter(move |(id, _)| (first..=last).contains(id))
    }

    /// An INSERT of those that belong to the table. Five such rows fit a page, six do not.
    fn insert(&self, pairs: &[(i64, i64)]) -> String {
        let row = |(id, v): &(i64, i64)| format!("({id}, {v}, RPAD('', 3000, 'x'))");
        let rows: Vec<_> = self.of(pairs).map(row).collect();
        format!("INSERT INTO {} VALUES {}", self.table, rows.join(", "))
    }

    /// Leaf pages and records.
    async fn size(&self, fixture: &Fixture) -> (u64, u64) {
        let engine = fixture.frontend.engine();
        let table = engine.table("test", self.table).unwrap();
        let trees = engine.verify_table(&table).await.unwrap();
        (trees[0].leaf_pages, trees[0].records)
    }

    /// Makes the table with the visible records, and room for the ambiguous ones among them.
    async fn make(&self, fixture: &Fixture, client: &mut Client) {
        let table = self.table;
        client
            .ok(&format!(
                "CREATE TABLE {table} (id INT PRIMARY KEY, v INT NOT NULL, pad VARCHAR(3000))"
            ))
            .await;
        let mut all = [VISIBLE.as_slice(), &AMBIGUOUS].concat();
        all.sort_unstable();
        client.ok(&self.insert(&all)).await;
        client
            .ok(&format!("DELETE FROM {table} WHERE id IN (2, 4, 12)"))
            .await;
        let left = (self.pages, self.of(&VISIBLE).count() as u64);
        for _ in 0..500 {
            if self.size(fixture).await == left {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{table} is not purged: {:?}", self.size(fixture).await);
    }

    /// The sum as a session sees it, made in storage as far as that can tell, and how many records were
    /// ambiguous.
    async fn sum(&self, client: &mut Client) -> (String, u64) {
        // A busy store may decline pages.
        for _ in 0..100 {
            let ambiguous = counter(client, "ambiguous_records").await;
            let pushed = counter(client, "pages_pushed").await;
            let sum = client
                .rows(&format!("SELECT SUM(v) FROM {}", self.table))
                .await;
            if counter(client, "pages_pushed").await - pushed == self.pages {
                let found = counter(client, "ambiguous_records").await - ambiguous;
                return (sum, found);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("storage takes no pages of {}", self.table);
    }
}

async fn counter(client: &mut Client, name: &str) -> u64 {
    let shown = client.rows(&format!("SHOW STATUS LIKE 'ndp_{name}'")).await;
    shown.split_once('|').unwrap().1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_leave_out_what_storage_cannot_decide() {
    let setup = Setup {
        engine: EngineConfig {
            past_pool: true,
            ..EngineConfig::default()
        },
        ..Setup::default()
    };
    let fixture = Fixture::new(setup).await;
    let (mut reader, mut writer) = (Client(fixture.session()), Client(fixture.session()));
    reader
        .ok("CREATE DATABASE test; USE test; SET ndp_min_pages = 0")
        .await;
    writer.ok("USE test; SET ndp_min_pages = 0").await;
    for example in EXAMPLES {
        example.make(&fixture, &mut writer).await;
    }
    writer.ok("BEGIN").await;
    for example in EXAMPLES {
        writer.ok(&example.insert(&AMBIGUOUS)).await;
        assert_eq!(example.size(&fixture).await.0, example.pages);
    }
    for example in EXAMPLES {
        let Example {
            table, ambiguous, ..
        } = example;
        let seen = example.sum(&mut reader).await;
        assert_eq!(seen, (example.visible.to_owned(), ambiguous), "{table}");
        let own = example.sum(&mut writer).await;
        assert_eq!(own, (example.whole.to_owned(), ambiguous), "{table}");
    }
    // Older versions of ambiguous records come from undo.
    for Example { table, .. } in EXAMPLES {
        writer
            .ok(&format!(
                "UPDATE {table} SET v = v + 100 WHERE id IN (1, 14)"
            ))
            .await;
        writer
            .ok(&format!("DELETE FROM {table} WHERE id = 13"))
            .await;
    }
    for (example, (more, own)) in EXAMPLES
        .into_iter()
        .zip([(1, "129"), (2, "121"), (3, "250")])
    {
        let seen = example.sum(&mut reader).await;
        let expected = (example.visible.to_owned(), example.ambiguous + more);
        assert_eq!(seen, expected, "{}", example.table);
        assert_eq!(example.sum(&mut writer).await.0, own, "{}", example.table);
    }
    writer.ok("ROLLBACK").await;
    for example in EXAMPLES {
        let seen = example.sum(&mut reader).await;
        assert_eq!(seen, (example.visible.to_owned(), 0), "{}", example.table);
    }
}
