//! What is in the tables after a round, through every index, with near-data processing off and on.

use std::collections::BTreeMap;

use perigee_workload::Client;

use super::writer::{ACCOUNTS, BALANCE, LONG, Row, Rows};

/// The rows of all writers by id.
type All = BTreeMap<u64, BTreeMap<u64, Row>>;

/// Compares what is there with what each writer knows; takes note of what commits that were not
/// answered turned out to be.
pub async fn check(client: &mut Client, writers: &mut [Rows], when: &str) {
    client.execute("SET ndp_min_pages = 0").await.unwrap();
    let mut first: Option<All> = None;
    for mode in ["OFF", "ON"] {
        client
            .execute(&format!("SET ndp_mode = {mode}"))
            .await
            .unwrap();
        let all = rows(
            client,
            "SELECT c, id, n, s FROM d WHERE s >= '' AND n > -1000000000",
        )
        .await;
        for index in ["n", "s"] {
            by_index(client, index, &all, &format!("NDP {mode}, {when}")).await;
        }
        let wrong = format!("SELECT COUNT(*) FROM d WHERE NOT l <=> {LONG}");
        let wrong = client.query(&wrong).await.unwrap();
        assert_eq!(wrong, [[Some("0".to_owned())]], "long values; {when}");
        accounts(client, when).await;
        assert!(
            first.as_ref().is_none_or(|first| *first == all),
            "NDP {mode} differs; {when}"
        );
        first = Some(all);
    }
    let mut all = first.unwrap();
    held(&all.remove(&99).unwrap_or_default(), when);
    for (number, writer) in (0..).zip(writers) {
        let found = all.remove(&number).unwrap_or_default();
        if found != writer.committed && writer.perhaps.as_ref() != Some(&found) {
            let lost = difference(&writer.committed, &found);
            panic!("rows of writer {number} (known, found): {lost:#?}; {when}");
        }
        *writer = Rows {
            committed: found,
            perhaps: None,
        };
    }
    assert!(all.is_empty(), "rows of nobody: {all:?}; {when}");
}

/// The rows that differ, as they are known and as they were found.
fn difference<'a>(
    known: &'a BTreeMap<u64, Row>,
    found: &'a BTreeMap<u64, Row>,
) -> BTreeMap<u64, (Option<&'a Row>, Option<&'a Row>)> {
    let ids = known.keys().chain(found.keys());
    ids.map(|id| (*id, (known.get(id), found.get(id))))
        .filter(|(_, (known, found))| known != found)
        .collect()
}

async fn rows(client: &mut Client, sql: &str) -> All {
    let mut all = All::new();
    for row in client
        .query(sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
    {
        let number = |at: usize| row[at].as_ref().unwrap().parse::<i64>().unwrap();
        let (c, id) = (number(0) as u64, number(1) as u64);
        let rest = (number(2), row[3].clone().unwrap());
        let before = all.entry(c).or_default().insert(id, rest);
        assert!(before.is_none(), "row ({c}, {id}) twice in {sql}");
    }
    all
}

/// An index has an entry for each row and no others.
async fn by_index(client: &mut Client, column: &str, all: &All, when: &str) {
    let least = if column == "n" { "-1000000000" } else { "''" };
    let sql = format!("SELECT {column}, c, id FROM d WHERE {column} >= {least}");
    let mut found: Vec<_> = client.query(&sql).await.unwrap();
    found.sort();
    let entry = |c: &u64, id: &u64, row: &Row| {
        let value = if column == "n" {
            row.0.to_string()
        } else {
            row.1.clone()
        };
        [value, c.to_string(), id.to_string()].map(Some).to_vec()
    };
    let mut expected: Vec<_> = all
        .iter()
        .flat_map(|(c, rows)| rows.iter().map(move |(id, row)| entry(c, id, row)))
        .collect();
    expected.sort();
    if found != expected {
        let only = |here: &[Vec<Option<String>>], there: &[Vec<Option<String>>]| {
            let missing: Vec<_> = here.iter().filter(|e| !there.contains(e)).collect();
            let some: Vec<_> = missing.iter().take(8).map(|e| format!("{e:?}")).collect();
            format!("{} of {}: {}", missing.len(), here.len(), some.join(" "))
        };
        let (index, table) = (only(&found, &expected), only(&expected, &found));
        panic!("only in the index of {column} {index}\nonly in the table {table}\n{when}");
    }
}

/// The rows of the transaction that never ended are as it found them.
fn held(rows: &BTreeMap<u64, Row>, when: &str) {
    let expected = (0..500).map(|id| (id, (99_000_000 + id as i64, format!("row {id}"))));
    assert!(
        rows.iter().map(|(id, row)| (*id, row.clone())).eq(expected),
        "a transaction that never ended left something; {when}"
    );
}

async fn accounts(client: &mut Client, when: &str) {
    for sql in [
        "SELECT COUNT(*), SUM(balance) FROM account WHERE id >= 0",
        "SELECT COUNT(*), SUM(balance) FROM account WHERE balance > -1000000",
    ] {
        let found = client.query(sql).await.unwrap();
        let expected = [ACCOUNTS, ACCOUNTS * BALANCE].map(|n| Some(n.to_string()));
        assert_eq!(found, [expected.to_vec()], "{sql}; {when}");
    }
}
