//! Data of another format version.

use std::fs;

use perigee_log_api::LogStoreClient;
use perigee_redo::{Change, Group, Op};
use perigee_types::{DbId, IndexId, Lsn, PageId, Writer};
use perigee_workload::Role;

use crate::support::{address, cluster, perigee, stderr};
use crate::tables::append_first;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_of_other_versions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let told = |args: &[&str], what: &str, version: u32| {
        let ended = perigee(args);
        let text = stderr(&ended);
        assert!(!ended.status.success(), "{text}");
        for expected in [
            what,
            &format!("version {}", version + 1),
            &format!("version {version}"),
            "use the program that made it",
        ] {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
    };
    let listen = ["--listen", "127.0.0.1:0"];
    for (role, part, store, version) in [
        ("log-store", "", "log-store", 1),
        ("page-store", "", "page-store", 2),
        ("serve", "log", "log-store", 1),
        ("serve", "pages", "page-store", 2),
    ] {
        let data = dir.path().join(format!("{role}{part}"));
        let place = data.join(part);
        fs::create_dir_all(&place).unwrap();
        let newer = version + 1;
        fs::write(place.join("STORE"), format!("perigee {store} {newer}\n")).unwrap();
        let (data, place) = (data.to_string_lossy(), place.to_string_lossy());
        told(
            &[role, "--data", &data, listen[0], listen[1]],
            place.trim_end_matches('/'),
            version,
        );
        let left = fs::read_dir(&*place).unwrap().count();
        assert_eq!(left, 1, "{place} was changed");
    }
    // A frontend has no directory: the database says its version in the first log group.
    let dir = dir.path().join("cluster");
    let mut cluster = cluster(&dir, 1, &[]);
    let (log, pages) = (address(&dir, "log-store"), address(&dir, "page-store-0"));
    let store = LogStoreClient::new(&format!("http://{log}"), Default::default()).unwrap();
    append_first(&store, DbId(7), &first_group_of_version_4(DbId(7))).await;
    let stores = ["--log-store", &log, "--page-store", &pages];
    let mut args = vec!["frontend", "--database", "7"];
    args.extend(stores.iter().chain(&listen));
    told(&args, "db:7", 3);
    cluster.stop(Role::Frontend).unwrap();
}

/// The log group that makes the superblock, with another version in it.
fn first_group_of_version_4(db: DbId) -> Vec<u8> {
    let mut body = b"PERIGEE\0".to_vec();
    body.extend(4_u32.to_le_bytes());
    body.extend([0; 40]);
    let format = Op::Format {
        kind: perigee_page::PageKind::Meta,
        level: 0,
        db,
        index: IndexId(0),
        shape: Default::default(),
        prev: PageId(0),
        next: PageId(0),
    };
    let write = Op::Write {
        offset: perigee_page::HEADER_LEN as u16,
        bytes: body.into(),
    };
    let mut w = Writer::new();
    Group {
        lsn: Lsn(1),
        changes: vec![Change {
            page: PageId(1),
            ops: vec![format, write],
        }],
    }
    .encode(&mut w);
    w.into_bytes()
}
