//! IN with lists that are cut out of the text: the same answer as with the parts of the list, which are not.

use super::*;

/// Values of a list that are looked for.
const VALUES: usize = 80;

/// Values that no row has. A list of ten thousand is cut.
const OTHERS: usize = 10_000;

const TABLE: &str = "CREATE DATABASE test; USE test;
    CREATE TABLE v (id INT NOT NULL PRIMARY KEY, i INT, u BIGINT UNSIGNED, c DECIMAL(9,2), d DOUBLE,
        b VARCHAR(20), g VARCHAR(20) COLLATE utf8mb4_general_ci, h CHAR(8), dt DATE, ts DATETIME(2), y YEAR,
        e ENUM('5', 'five', '11'), t TIME, x BLOB)";

/// A row with values that are in the lists of the test, and such that are not.
fn row(id: usize) -> String {
    if id.is_multiple_of(7) {
        return format!("({id}{})", ", NULL".repeat(13));
    }
    let n = id * 97;
    let (year, day) = (2000 + id % 40, 1 + id % 28);
    format!(
        "({id}, {n} - 3000, {n}, {n} / 4, IF({id} % 5 = 0, -0e0, {n} / 2), 'v{n}', 'V{n} ', {n}, '{year}-01-{day}', \
         '{year}-01-{day} 00:00:0{}', {year}, {}, '{}:00:00', 'v{n}')",
        id % 3,
        id % 3 + 1,
        id % 200
    )
}

/// The values of a list: the text of each, and of those that no row has.
type Values = (fn(usize) -> String, fn(usize) -> String);

/// Asserts that a long list has the answer of the short one, and gives that.
async fn check(
    fixture: &Fixture,
    session: &mut Session,
    column: &str,
    (value, other): Values,
) -> Vec<String> {
    let short: Vec<String> = (0..VALUES).map(value).collect();
    let others: Vec<String> = (0..OTHERS).map(other).collect();
    let (short, others) = (short.join(","), others.join(","));
    let all = |condition: &str| format!("SELECT id, {condition} FROM v ORDER BY id");
    let chosen = |condition: &str| format!("SELECT id FROM v WHERE {condition} ORDER BY id");
    let one = format!("{column} IN ({short})");
    let expected = answer(fixture, session, &all(&one)).await;
    let expected_rest = answer(fixture, session, &chosen(&format!("NOT {one}"))).await;
    for (mode, negated) in [("OFF", false), ("ON", true)] {
        let set = format!("SET ndp_mode = {mode}, ndp_min_pages = 0");
        fixture.run(session, &set).await.unwrap();
        let (sql, expected) = match negated {
            false => (all(&format!("{column} IN ({short}, {others})")), &expected),
            true => {
                let not = format!("{column} NOT IN ({short}, {others})");
                (chosen(&not), &expected_rest)
            }
        };
        let what = format!("{column} IN {}, {mode}", value(1));
        let found = fixture.run(session, &sql).await;
        let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(rows_of(&found[0]), *expected, "{what}");
    }
    expected
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_list_is_its_parts() {
    let fixture = past_pool().await;
    let mut session = fixture.session();
    fixture.run(&mut session, TABLE).await.unwrap();
    let rows: Vec<String> = (0..150).map(row).collect();
    let insert = format!("INSERT INTO v VALUES {}", rows.join(","));
    fixture.run(&mut session, &insert).await.unwrap();
    let lists: [(Values, &[&str]); 5] = [
        (
            (
                |i| format!("{}", i as i64 * 97 - 3000),
                |i| format!("-1{i:06}"),
            ),
            &["i", "c"],
        ),
        ((|i| i.to_string(), |i| format!("9{i:06}")), &["e"]),
        (
            (|i| format!("'v{}'", i * 97), |i| format!("'w{i:06}'")),
            &["g", "h", "x"],
        ),
        (
            (|i| format!("'{:05}'", i * 97), |i| format!("'9{i:06}'")),
            &["u"],
        ),
        (
            (
                |i| format!("'{}-01-{}'", 2000 + i % 40, 1 + i % 14),
                |i| format!("'{}-01-{}'", 1000 + i % 500, 1 + i / 500),
            ),
            &["dt"],
        ),
    ];
    for (values, columns) in lists {
        let mut found = 0;
        for column in columns {
            let answer = check(&fixture, &mut session, column, values).await;
            found += answer.iter().filter(|row| row.ends_with("|1")).count();
        }
        assert!(found > 3, "{} {columns:?}: {found}", values.0(1));
    }
}
