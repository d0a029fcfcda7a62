//! Commands and their results.

use crate::client::{Answer, CLASSIC, Client, MODERN};
use crate::script::start;
use perigee_wire_mysql::Capabilities;

const AUTOCOMMIT: u16 = 2;
const MORE_RESULTS: u16 = 8;
const IN_TRANS: u16 = 1;

#[tokio::test]
async fn a_result_set_arrives_whole_in_both_forms() {
    let (server, _) = start(|_| {});
    for capabilities in [MODERN, CLASSIC] {
        let (mut client, _) = Client::login(server.address(), capabilities, "root", "", None).await;
        let text = |s: &str| Some(s.as_bytes().to_vec());
        let expected = Answer::Rows {
            names: ["i", "u", "d", "f", "day", "at", "s", "b"]
                .map(str::to_owned)
                .to_vec(),
            rows: vec![
                vec![
                    text("1"),
                    text("18446744073709551615"),
                    text("1234.56"),
                    text("1e20"),
                    text("1994-01-01"),
                    text("1994-01-01 00:00:00.123"),
                    text("na\u{ef}ve caf\u{e9}, more than 12"),
                    text("a\0b"),
                ],
                vec![text("-2"), None, None, None, None, None, None, None],
            ],
            status: AUTOCOMMIT,
            warnings: 3,
        };
        assert_eq!(client.query("SELECT TYPES").await, expected);
        let Answer::Rows { rows, .. } = client.query("SELECT NOTHING").await else {
            panic!("no rows")
        };
        assert!(rows.is_empty());
    }
}

#[tokio::test]
async fn an_ok_carries_counts_and_the_line_for_people() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    let expected = Answer::Ok {
        affected: 3,
        insert_id: 70_000,
        status: AUTOCOMMIT,
        warnings: 1,
        info: "Records: 3  Duplicates: 0  Warnings: 1".into(),
    };
    assert_eq!(client.query("INSERT").await, expected);
}

#[tokio::test]
async fn several_results_say_whether_another_follows() {
    let (server, _) = start(|_| {});
    for capabilities in [MODERN, CLASSIC] {
        let (mut client, _) = Client::login(server.address(), capabilities, "root", "", None).await;
        client
            .command(b"\x03BEGIN; SELECT 1; INSERT; COMMIT; SELECT TYPES")
            .await;
        let statuses = [
            client.result().await.status(),
            client.result().await.status(),
            client.result().await.status(),
            client.result().await.status(),
            client.result().await.status(),
        ];
        let inside = AUTOCOMMIT | MORE_RESULTS | IN_TRANS;
        assert_eq!(
            statuses,
            [
                inside,
                inside,
                inside,
                AUTOCOMMIT | MORE_RESULTS,
                AUTOCOMMIT
            ]
        );
        assert_eq!(client.query("SELECT 1").await.value(), "1");
    }
}

#[tokio::test]
async fn an_error_follows_the_results_before_it() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03SELECT 1; FAIL; SELECT 1").await;
    assert_eq!(client.result().await.status(), AUTOCOMMIT | MORE_RESULTS);
    let Answer::Err {
        errno,
        state,
        message,
    } = client.result().await
    else {
        panic!("no error")
    };
    assert_eq!((errno, state.as_str()), (1064, "42000"));
    assert_eq!(message, "unexpected end near 'FAIL' at line 1");
    assert_eq!(client.query("FAIL LATE").await.errno(), 1064);
    assert_eq!(
        client.query("SELECT NAN").await.errno(),
        1690,
        "NaN has no text"
    );
    assert_eq!(
        client.query("SELECT 1").await.value(),
        "1",
        "the connection lives on"
    );
}

#[tokio::test]
async fn several_statements_need_permission() {
    let (server, _) = start(|_| {});
    let single = MODERN.without(Capabilities::MULTI_STATEMENTS);
    let (mut client, _) = Client::login(server.address(), single, "root", "", None).await;
    assert_eq!(client.query("SELECT 1; SELECT 1").await.errno(), 1064);
    client.command(b"\x1b\0\0").await;
    let end = client.receive().await;
    assert_eq!(client.end_of_list(&end), Some((AUTOCOMMIT, 0)));
    client.command(b"\x03SELECT 1; SELECT 1").await;
    assert_eq!(client.result().await.value(), "1");
    assert_eq!(client.result().await.value(), "1");
    client.command(b"\x1b\x01\0").await;
    client.receive().await;
    assert_eq!(client.query("SELECT 1; SELECT 1").await.errno(), 1064);
}

#[tokio::test]
async fn a_transaction_shows_in_every_status() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    assert_eq!(client.query("BEGIN").await.status(), AUTOCOMMIT | IN_TRANS);
    assert_eq!(
        client.query("SELECT 1").await.status(),
        AUTOCOMMIT | IN_TRANS
    );
    client.command(b"\x0e").await;
    assert_eq!(client.result().await.status(), AUTOCOMMIT | IN_TRANS);
    client.command(b"\x1f").await;
    assert_eq!(
        client.result().await.status(),
        AUTOCOMMIT,
        "a reset ends it"
    );
}

#[tokio::test]
async fn init_db_changes_the_database() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x02nosuch").await;
    assert_eq!(client.result().await.errno(), 1049);
    client.command(b"\x02test").await;
    assert!(client.result().await.is_ok());
    assert_eq!(
        server.registry().list()[0].database.as_deref(),
        Some("test")
    );
}

#[tokio::test]
async fn a_reset_forgets_what_was_set() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    assert!(client.query("SET VARIABLE 7").await.is_ok());
    assert_eq!(client.query("SELECT VARIABLE").await.value(), "7");
    client.command(b"\x1f").await;
    assert!(client.result().await.is_ok());
    assert_eq!(client.query("SELECT VARIABLE").await.value(), "0");
}

#[tokio::test]
async fn statistics_is_a_line() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x09").await;
    let line = String::from_utf8(client.receive().await).unwrap();
    assert!(
        line.starts_with("Uptime: 0  Threads: 1  Questions: 1  "),
        "{line}"
    );
}

#[tokio::test]
async fn a_field_list_has_definitions_with_defaults() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x04t\0").await;
    for _ in 0..8 {
        let definition = client.receive().await;
        assert!(definition.starts_with(b"\x03def\x04test\x01t\x01t"));
        assert_eq!(definition.last(), Some(&0xFB));
    }
    let end = client.receive().await;
    assert!(client.end_of_list(&end).is_some());
}

#[tokio::test]
async fn what_is_not_supported_is_answered_so() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    for (command, errno) in [
        (&b"\x05db"[..], 1047), // COM_CREATE_DB
        (b"\x0a", 1047),        // COM_PROCESS_INFO
        (b"\x12", 1047),        // COM_BINLOG_DUMP
        (b"\x99", 1047),
        (b"\x1b\x07\0", 1835), // COM_SET_OPTION of an unknown option
        (b"", 1835),
    ] {
        client.command(command).await;
        assert_eq!(client.result().await.errno(), errno, "{command:?}");
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_is_refused() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x03SELECT \xe9'").await;
    let Answer::Err { errno, message, .. } = client.result().await else {
        panic!("no error")
    };
    assert_eq!(
        (errno, message.as_str()),
        (1300, "Invalid utf8mb4 character string: '\\xE9\\x27'")
    );
    assert_eq!(client.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn rows_and_statements_longer_than_a_frame() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    // 0xFFFFFF - 4: the length takes four bytes, so that the row fills its frame exactly.
    for len in [0xFF_FFFF - 4, 0xFF_FFFF - 5, 17 << 20] {
        let Answer::Rows { rows, .. } = client.query(&format!("SELECT LONG {len}")).await else {
            panic!("no rows")
        };
        assert_eq!(rows[0][0].as_ref().unwrap().len(), len);
        assert_eq!(rows[1][0].as_deref(), Some(b"y".as_slice()));
    }
    let long = "x".repeat(20 << 20);
    let answer = client.query(&format!("SELECT LENGTH {long}")).await;
    assert_eq!(answer.value(), long.len().to_string());
}

#[tokio::test]
async fn commands_sent_ahead_are_answered_in_turn() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    for _ in 0..3 {
        client.command(b"\x03SELECT 1").await;
    }
    for _ in 0..3 {
        client.seq = 1;
        assert_eq!(client.result().await.value(), "1");
    }
}

#[tokio::test]
async fn quit_closes_the_connection() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client.command(b"\x01").await;
    client.expect_end().await;
    crate::script::Seen::wait(&seen.dropped, 1).await;
    assert_eq!(server.registry().counters().aborted_clients, 0);
}
