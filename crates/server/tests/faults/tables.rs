//! Tables that the tests look at.

use perigee_log_api::{Append, LogStore, LogStoreClient, PlogKey};
use perigee_types::{DbId, Lsn, PlogId};
use perigee_workload::{Client, Cluster};

use crate::support::consolidated;

pub const ROWS: u64 = 200;

/// Makes a table whose rows say `text` and their number.
pub async fn fill(client: &mut Client, table: &str, text: &str) {
    let create = format!(
        "CREATE TABLE f.{table} (id BIGINT NOT NULL, v VARCHAR(60) NOT NULL, PRIMARY KEY (id))"
    );
    client.execute(&create).await.unwrap();
    let rows: Vec<_> = (0..ROWS).map(|i| format!("({i}, '{text}-{i}')")).collect();
    let insert = format!("INSERT INTO f.{table} VALUES {}", rows.join(", "));
    client.execute(&insert).await.unwrap();
    consolidated(client).await;
}

/// Makes two tables, one after the other.
pub async fn good_and_bad(cluster: &Cluster) {
    let mut client = cluster.client(None).await.unwrap();
    client.execute("CREATE DATABASE f").await.unwrap();
    fill(&mut client, "bad", "needle").await;
    fill(&mut client, "good", "straw").await;
    client.close().await.unwrap();
}

/// The good table is whole, and can be written.
pub async fn check_good(client: &mut Client) {
    let rows = client.query("SELECT COUNT(*), MIN(v) FROM f.good").await;
    let row = rows.unwrap().remove(0);
    assert_eq!(row[1].as_deref(), Some("straw-0"));
    let count: u64 = row[0].as_deref().unwrap().parse().unwrap();
    assert!(count >= ROWS, "{count}");
    let insert = format!("INSERT INTO f.good VALUES ({}, 'zero')", ROWS + count);
    assert_eq!(client.execute(&insert).await.unwrap(), 1);
}

/// Makes a PLog of a database and appends a payload with LSN 1.
pub async fn append_first(store: &LogStoreClient, db: DbId, payload: &[u8]) -> u64 {
    let plog = PlogKey {
        db,
        plog: PlogId(1),
    };
    store.create_plog(plog, 1).await.unwrap();
    let append = Append {
        plog,
        epoch: 1,
        offset: 0,
        first_lsn: Lsn(1),
        last_lsn: Lsn(1),
        payload: payload.to_vec().into(),
    };
    store.append(append).await.unwrap()
}
