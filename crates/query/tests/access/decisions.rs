//! What is pushed and what is not: hints, thresholds, the reasons that EXPLAIN names, and the
//! counters of SHOW STATUS.

use super::*;

const ROWS: i64 = 3000;

async fn with_tables() -> (Fixture, Session) {
    let fixture = past_pool().await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT NOT NULL, code INT NOT NULL,
            note VARCHAR(100) NOT NULL, x DOUBLE NOT NULL, KEY by_code (code));
        CREATE TABLE u (id INT NOT NULL PRIMARY KEY, n INT NOT NULL)";
    fixture.run(&mut session, create).await.unwrap();
    let t: String = (0..ROWS)
        .map(|id| {
            format!(
                "{id}|{}|{}|{:=<60}|{}\n",
                id % 10,
                id / 2,
                format!("note {id} "),
                id
            )
        })
        .collect();
    let u: String = (0..ROWS).map(|id| format!("{id}|{}\n", id % 7)).collect();
    for (table, text) in [("t", t), ("u", u)] {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE {table} FIELDS TERMINATED BY '|'");
        let loaded = fixture
            .run_with(&mut session, &sql, text.into_bytes())
            .await;
        loaded.unwrap();
    }
    (fixture, session)
}

/// What EXPLAIN says of a table besides its path.
async fn extra(fixture: &Fixture, session: &mut Session, sql: &str, table: &str) -> String {
    let sql = format!("EXPLAIN {sql}");
    let results = fixture.run(session, &sql).await.unwrap();
    let rows = rows_of(&results[0]);
    let row = rows.iter().find(|row| row.split('|').nth(2) == Some(table));
    let row = row.unwrap_or_else(|| panic!("{table} in {rows:?}"));
    row.splitn(12, '|').nth(11).unwrap().to_owned()
}

const PUSHED: &str = "Using pushed NDP";
const BY_HINT: &str = "NDP not used: the hint NO_NDP_PUSHDOWN";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_override_mode_and_thresholds() {
    let (fixture, mut session) = with_tables().await;
    let off = "SET ndp_mode = OFF";
    let on = "SET ndp_mode = ON, ndp_min_pages = 0";
    let strict = "SET ndp_mode = ON, ndp_min_pages = 1000000, ndp_max_filter_factor = 0, \
                  ndp_min_width_reduction = 1, ndp_min_rows_per_group = 1000000000";
    let replica = "SET ndp_mode = REPLICA_ON, ndp_min_pages = 0";
    for (set, sql, said) in [
        // One table, by its name or its alias, in any case.
        (
            off,
            "SELECT n FROM t WHERE n > 4",
            vec![("t", "ndp_mode is OFF")],
        ),
        (
            off,
            "SELECT /*+ NDP_PUSHDOWN(t) */ n FROM t WHERE n > 4",
            vec![("t", PUSHED)],
        ),
        (
            replica,
            "SELECT n FROM t WHERE n > 4",
            vec![("t", "ndp_mode is REPLICA_ON")],
        ),
        (
            replica,
            "SELECT /*+ NDP_PUSHDOWN(t) */ n FROM t WHERE n > 4",
            vec![("t", PUSHED)],
        ),
        (
            on,
            "SELECT /*+ NO_NDP_PUSHDOWN(t) */ n FROM t WHERE n > 4",
            vec![("t", BY_HINT)],
        ),
        (
            off,
            "SELECT /*+ NO_NDP_PUSHDOWN(t) */ n FROM t WHERE n > 4",
            vec![("t", BY_HINT)],
        ),
        (
            off,
            "SELECT /*+ ndp_pushdown(`A`) */ n FROM t AS a WHERE n > 4",
            vec![("a", PUSHED)],
        ),
        (
            on,
            "SELECT /*+ NO_NDP_PUSHDOWN(a) */ n FROM t A WHERE n > 4",
            vec![("a", BY_HINT)],
        ),
        // Thresholds.
        (
            strict,
            "SELECT n FROM t WHERE n > 4",
            vec![("t", "below ndp_min_pages = 1000000")],
        ),
        (
            strict,
            "SELECT /*+ NDP_PUSHDOWN(t) */ * FROM t WHERE n >= 0",
            vec![(
                "t",
                "Using pushed NDP condition (test.t.n >= 0); Using pushed NDP columns",
            )],
        ),
        (
            strict,
            "SELECT /*+ NDP_PUSHDOWN(t) */ note, COUNT(*) FROM t GROUP BY note",
            vec![("t", "Using pushed NDP aggregate")],
        ),
        // Several tables, each by itself.
        (
            off,
            "SELECT /*+ NDP_PUSHDOWN(a) NO_NDP_PUSHDOWN(b) */ COUNT(*) FROM u a, u b \
             WHERE a.n = b.n AND a.id < 2900 AND b.id < 2800",
            vec![("a", PUSHED), ("b", BY_HINT)],
        ),
        (
            on,
            "SELECT /*+ NO_NDP_PUSHDOWN(t, u) */ COUNT(*) FROM t JOIN u ON t.n = u.n",
            vec![("t", BY_HINT), ("u", BY_HINT)],
        ),
        // Subqueries: the hint is for the SELECT that it stands in.
        (
            off,
            "SELECT COUNT(*) FROM t WHERE n IN (SELECT /*+ NDP_PUSHDOWN(u) */ n FROM u WHERE n > 5)",
            vec![("t", "ndp_mode is OFF"), ("u", PUSHED)],
        ),
        (
            off,
            "SELECT /*+ NDP_PUSHDOWN(t) */ COUNT(*) FROM t \
             WHERE n > (SELECT MIN(n) FROM u WHERE n > 1)",
            vec![("t", PUSHED), ("u", "ndp_mode is OFF")],
        ),
        (
            on,
            "SELECT x.n FROM (SELECT /*+ NO_NDP_PUSHDOWN(t) */ n FROM t WHERE n > 2) x",
            vec![("t", BY_HINT)],
        ),
    ] {
        let reset = "SET ndp_mode = DEFAULT, ndp_min_pages = DEFAULT, \
            ndp_max_filter_factor = DEFAULT, ndp_min_width_reduction = DEFAULT, \
            ndp_min_rows_per_group = DEFAULT";
        fixture.run(&mut session, reset).await.unwrap();
        let mut plain = answer(&fixture, &mut session, sql).await;
        plain.sort();
        fixture.run(&mut session, set).await.unwrap();
        for (table, text) in said {
            let extra = extra(&fixture, &mut session, sql, table).await;
            assert!(extra.contains(text), "{set}: {sql}: {table}: {extra}");
        }
        // The answer is the same.
        let mut answered = answer(&fixture, &mut session, sql).await;
        answered.sort();
        assert!(answered == plain, "{set}: {sql}");
    }
    for sql in [
        "SELECT /*+ NDP_PUSHDOWN(t) */ id FROM u",
        "SELECT /*+ NDP_PUSHDOWN(t) */ id FROM t a",
    ] {
        fixture.run(&mut session, sql).await.unwrap();
        let warnings = answer(&fixture, &mut session, "SHOW WARNINGS").await;
        let unresolved = "Warning|3128|Unresolved name 't' for an optimizer hint";
        assert_eq!(warnings, [unresolved], "{sql}");
    }
}

/// What the counters of a session, or of all, counted since they were asked the last time.
struct Counters {
    scope: &'static str,
    before: std::collections::BTreeMap<String, u64>,
}

impl Counters {
    async fn new(scope: &'static str, fixture: &Fixture, session: &mut Session) -> Self {
        let before = std::collections::BTreeMap::new();
        let mut counters = Self { scope, before };
        counters.counted(fixture, session).await;
        counters
    }

    async fn counted(&mut self, fixture: &Fixture, session: &mut Session) -> Vec<String> {
        let sql = format!("SHOW {} STATUS LIKE 'ndp%pushed%'", self.scope);
        let mut counted = Vec::new();
        for row in answer(fixture, session, &sql).await {
            let (name, value) = row.split_once('|').unwrap();
            // What scans count is of pages.
            if name.starts_with("ndp_pages") {
                continue;
            }
            let value: u64 = value.parse().unwrap();
            let before = self.before.insert(name.to_owned(), value).unwrap_or(0);
            if value > before {
                let name = name.strip_prefix("ndp_").unwrap();
                counted.push(format!("{name} {}", value - before));
            }
        }
        counted
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_decision_is_counted_with_its_reason() {
    let (fixture, mut session) = with_tables().await;
    let mut other = fixture.session();
    let mut of_session = Counters::new("SESSION", &fixture, &mut session).await;
    let mut of_all = Counters::new("GLOBAL", &fixture, &mut session).await;
    let always = "SET ndp_mode = ON, ndp_min_pages = 0";
    // With the pages in the pool a lookup is the cheapest.
    let warm = "SET ndp_mode = OFF; SELECT COUNT(code) FROM t; SELECT SUM(x) FROM t";
    fixture.run(&mut session, warm).await.unwrap();
    of_session.counted(&fixture, &mut session).await;
    of_all.counted(&fixture, &mut session).await;
    for (set, sql, text, counted) in [
        (
            always,
            "SELECT COUNT(*) FROM t WHERE n > 4",
            "Using pushed NDP aggregate",
            &[
                "pushed 1",
                "pushed_aggregate 1",
                "pushed_columns 1",
                "pushed_filter 1",
            ][..],
        ),
        (
            "SET ndp_mode = OFF",
            "SELECT COUNT(*) FROM t WHERE n > 4",
            "NDP not used: ndp_mode is OFF",
            &["not_pushed_mode 1"],
        ),
        (
            "SET ndp_mode = ON, ndp_min_pages = 1000",
            "SELECT COUNT(*) FROM t WHERE n > 4",
            "below ndp_min_pages = 1000",
            &["not_pushed_few_pages 1"],
        ),
        (
            always,
            "SELECT note FROM t WHERE code = 77 AND n > 0",
            "NDP not used: a lookup reads few rows",
            &["not_pushed_lookup 1"],
        ),
        (
            always,
            "SELECT * FROM t",
            "NDP not used: no condition; width reduction 0.00 is below",
            &["not_pushed_no_condition 1", "not_pushed_width 1"],
        ),
        (
            always,
            "SELECT n FROM t WHERE n >= 0",
            "not pushed: filter factor 1.00 is above ndp_max_filter_factor = 0.9",
            &["not_pushed_filter_factor 1", "pushed 1", "pushed_columns 1"],
        ),
        // All rows pass, but nobody else needs what the condition looks at.
        (
            always,
            "SELECT n FROM t WHERE note >= ''",
            "Using pushed NDP condition",
            &["pushed 1", "pushed_columns 1", "pushed_filter 1"],
        ),
        (
            always,
            "SELECT note, COUNT(*) FROM t GROUP BY note",
            "below ndp_min_rows_per_group = 8",
            &[
                "not_pushed_aggregate_groups 1",
                "not_pushed_no_condition 1",
                "pushed 1",
                "pushed_columns 1",
            ],
        ),
        (
            always,
            "SELECT SUM(id), STDDEV(x) FROM t WHERE n > 4",
            "aggregate: storage has no",
            &[
                "not_pushed_aggregate_function 1",
                "pushed 1",
                "pushed_columns 1",
                "pushed_filter 1",
            ],
        ),
        (
            always,
            "SELECT COUNT(*) FROM t WHERE LENGTH(note) > 5 AND n > 4",
            "condition on note not pushed: storage has no function",
            &[
                "not_pushed_aggregate_residual 1",
                "pushed 1",
                "pushed_columns 1",
                "pushed_filter 1",
            ],
        ),
        (
            always,
            "SELECT SUM(LENGTH(note)) FROM t WHERE n > 4",
            "aggregate: storage has no function",
            &[
                "not_pushed_aggregate_expression 1",
                "pushed 1",
                "pushed_columns 1",
                "pushed_filter 1",
            ],
        ),
        (
            always,
            "SELECT /*+ NO_NDP_PUSHDOWN(t) */ COUNT(*) FROM t WHERE n > 4",
            BY_HINT,
            &["not_pushed_hint 1"],
        ),
    ] {
        fixture.run(&mut session, set).await.unwrap();
        let extra = extra(&fixture, &mut session, sql, "t").await;
        assert!(extra.contains(text), "{sql}: {extra}");
        answer(&fixture, &mut session, sql).await;
        let got = of_session.counted(&fixture, &mut session).await;
        assert_eq!(got, counted, "{sql}: {extra}");
        // Seen from another session, that was all sessions' work.
        assert_eq!(of_all.counted(&fixture, &mut other).await, counted, "{sql}");
    }
    let mut of_other = Counters::new("SESSION", &fixture, &mut other).await;
    assert!(of_other.before.values().all(|value| *value == 0));
    // Prepared statements are counted each time, and keep their hints.
    let prepared = "USE test; SET ndp_mode = OFF; \
        PREPARE p FROM 'SELECT /*+ NDP_PUSHDOWN(y) */ COUNT(*) FROM t y WHERE n > ?'; SET @n = 4";
    fixture.run(&mut other, prepared).await.unwrap();
    for _ in 0..2 {
        let executed = fixture.run(&mut other, "EXECUTE p USING @n").await.unwrap();
        assert_eq!(rows_of(&executed[0]), [(ROWS / 2).to_string()]);
    }
    let counted = of_other.counted(&fixture, &mut other).await;
    let expected = [
        "pushed 2",
        "pushed_aggregate 2",
        "pushed_columns 2",
        "pushed_filter 2",
    ];
    assert_eq!(counted, expected);
    // The counters by themselves, as metrics have them.
    let counters = fixture.frontend.ndp_counters();
    let pushed = counters
        .iter()
        .find(|(name, _)| *name == "ndp_pushed_aggregate");
    assert_eq!(pushed, Some(("ndp_pushed_aggregate", 3)));
}

/// More sums than an aggregation in storage may have are left to the frontend.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_aggregates_than_storage_takes_are_not_pushed() {
    let (fixture, mut session) = with_tables().await;
    let sums: Vec<String> = (0..1100).map(|n| format!("SUM(n + {n})")).collect();
    let sums = sums.join(", ");
    let query = |hint: &str| format!("SELECT /*+ {hint}(t) */ {sums} FROM t");
    let said = extra(&fixture, &mut session, &query("NDP_PUSHDOWN"), "t").await;
    assert!(said.contains("too many expressions"), "{said}");
    let on = fixture.run(&mut session, &query("NDP_PUSHDOWN")).await;
    let off = fixture.run(&mut session, &query("NO_NDP_PUSHDOWN")).await;
    let (on, off) = (rows_of(&on.unwrap()[0]), rows_of(&off.unwrap()[0]));
    assert_eq!(on, off);
    assert!(on[0].starts_with("13500|16500|"), "{on:?}");
}
