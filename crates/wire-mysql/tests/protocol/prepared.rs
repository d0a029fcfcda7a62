//! Prepared statements.

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::{Answer, CLASSIC, Client, MODERN, take_string};
use crate::script::{MAX_PREPARED, Seen, start};
use perigee_wire_mysql::Capabilities;

/// What the server says of a prepared statement.
#[derive(Debug, PartialEq, Eq)]
struct Described {
    id: u32,
    parameters: Vec<(String, u8)>,
    columns: Vec<(String, u8)>,
    warnings: u16,
}

impl Client {
    async fn prepare(&mut self, sql: &str) -> Result<Described, Answer> {
        self.command(&[b"\x16", sql.as_bytes()].concat()).await;
        let packet = self.receive().await;
        if packet[0] != 0 {
            return Err(self.parse(&packet));
        }
        let u16_at = |at: usize| u16::from_le_bytes([packet[at], packet[at + 1]]);
        assert_eq!((packet.len(), packet[9]), (12, 0));
        let (columns, parameters) = (u64::from(u16_at(5)), u64::from(u16_at(7)));
        Ok(Described {
            id: u32::from_le_bytes(packet[1..5].try_into().unwrap()),
            parameters: self.definitions(parameters).await,
            columns: self.definitions(columns).await,
            warnings: u16_at(10),
        })
    }

    async fn send_execute(&mut self, id: u32, arguments: &[u8]) {
        let head = [&b"\x17"[..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat();
        self.command(&[&head, arguments].concat()).await;
    }

    async fn execute(&mut self, id: u32, arguments: &[u8]) -> Answer {
        self.send_execute(id, arguments).await;
        self.result_with(take_row).await
    }

    async fn send_long_data(&mut self, id: u32, parameter: u16, part: &[u8]) {
        let head = [&b"\x18"[..], &id.to_le_bytes(), &parameter.to_le_bytes()].concat();
        self.command(&[&head, part].concat()).await;
    }

    /// Sends a command that has nothing but a statement's id.
    async fn send_about(&mut self, command: u8, id: u32) {
        self.command(&[&[command], &id.to_le_bytes()[..]].concat())
            .await;
    }
}

/// The values of a binary row, each as text.
fn take_row(columns: &[(String, u8)], rest: &mut &[u8]) -> Vec<Option<Vec<u8>>> {
    let (head, tail) = rest.split_at(1 + (columns.len() + 9) / 8);
    assert_eq!(head[0], 0);
    *rest = tail;
    let is_null = |i: usize| head[1 + (i + 2) / 8] & (1 << ((i + 2) % 8)) != 0;
    let value = |(i, (_, code)): (usize, &(String, u8))| {
        (!is_null(i)).then(|| take_value(*code, rest).into_bytes())
    };
    columns.iter().enumerate().map(value).collect()
}

fn take_value(code: u8, rest: &mut &[u8]) -> String {
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at(n);
        *rest = tail;
        let mut bytes = [0; 8];
        bytes[..n].copy_from_slice(head);
        u64::from_le_bytes(bytes)
    };
    match code {
        3 => (take(4) as i32).to_string(),
        8 => (take(8) as i64).to_string(),
        5 => f64::from_bits(take(8)).to_string(),
        10 | 12 => {
            let length = take(1);
            let day = format!("{:04}-{:02}-{:02}", take(2), take(1), take(1));
            match length {
                4 => day,
                7 => format!("{day} {:02}:{:02}:{:02}", take(1), take(1), take(1)),
                11 => format!(
                    "{day} {:02}:{:02}:{:02}.{:06}",
                    take(1),
                    take(1),
                    take(1),
                    take(4)
                ),
                other => panic!("a moment of {other} bytes"),
            }
        }
        _ => String::from_utf8(take_string(rest)).unwrap(),
    }
}

async fn login(address: SocketAddr, capabilities: Capabilities) -> Client {
    let (client, answer) = Client::login(address, capabilities, "root", "", None).await;
    assert!(answer.is_ok(), "{answer:?}");
    client
}

/// One INT that is 5.
const FIVE: &[u8] = b"\0\x01\x03\0\x05\0\0\0";

#[tokio::test]
async fn parameters_and_columns_are_described() {
    let (server, _) = start(|_| {});
    for capabilities in [MODERN, CLASSIC] {
        let mut client = login(server.address(), capabilities).await;
        let parameter = || ("?".to_owned(), 253);
        let described = client.prepare("INSERT ? ?").await.unwrap();
        let expected = Described {
            id: 1,
            parameters: vec![parameter(), parameter()],
            columns: Vec::new(),
            warnings: 2,
        };
        assert_eq!(described, expected);
        let described = client.prepare("SELECT TYPES ?").await.unwrap();
        assert_eq!((described.id, described.parameters.len()), (2, 1));
        let codes: Vec<u8> = described.columns.iter().map(|(_, code)| *code).collect();
        assert_eq!(codes, [3, 8, 246, 5, 10, 12, 253, 253]);
        let described = client.prepare("SELECT 1").await.unwrap();
        assert_eq!(
            (described.parameters.len(), described.columns.len()),
            (0, 0)
        );
    }
}

#[tokio::test]
async fn rows_are_binary_and_the_same_each_time() {
    let (server, _) = start(|_| {});
    for capabilities in [MODERN, CLASSIC] {
        let mut client = login(server.address(), capabilities).await;
        let id = client.prepare("SELECT TYPES").await.unwrap().id;
        let text = |s: &str| Some(s.as_bytes().to_vec());
        for _ in 0..3 {
            let Answer::Rows {
                names,
                rows,
                status,
                warnings,
            } = client.execute(id, b"").await
            else {
                panic!("no rows")
            };
            assert_eq!(names, ["i", "u", "d", "f", "day", "at", "s", "b"]);
            assert_eq!((status, warnings), (2, 3));
            assert_eq!(
                rows,
                [
                    vec![
                        text("1"),
                        text("-1"), // all bits are set
                        text("1234.56"),
                        text("100000000000000000000"),
                        text("1994-01-01"),
                        text("1994-01-01 00:00:00.123000"),
                        text("na\u{ef}ve caf\u{e9}, more than 12"),
                        text("a\0b"),
                    ],
                    vec![text("-2"), None, None, None, None, None, None, None],
                ]
            );
        }
        // The text protocol is not touched by it.
        let Answer::Rows { rows, .. } = client.query("SELECT TYPES").await else {
            panic!("no rows")
        };
        assert_eq!(rows[0][1], text("18446744073709551615"));
    }
}

#[tokio::test]
async fn columns_need_not_be_known_beforehand() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    let id = client.prepare("SELECT 1").await.unwrap().id;
    assert_eq!(client.execute(id, b"").await.value(), "1");
    let id = client.prepare("INSERT").await.unwrap().id;
    let Answer::Ok {
        affected,
        insert_id,
        ..
    } = client.execute(id, b"").await
    else {
        panic!("no OK")
    };
    assert_eq!((affected, insert_id), (3, 70_000));
}

#[tokio::test]
async fn types_are_given_once_and_may_change() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    let id = client.prepare("ECHO ?").await.unwrap().id;
    let no_types = client.execute(id, b"\0\0\x05\0\0\0").await;
    assert_eq!(no_types.errno(), 1210);
    assert_eq!(client.execute(id, FIVE).await.value(), "[Int(5)]");
    assert_eq!(
        client.execute(id, b"\0\0\x06\0\0\0").await.value(),
        "[Int(6)]"
    );
    assert_eq!(client.execute(id, b"\x01\0").await.value(), "[Null]");
    assert_eq!(
        client.execute(id, b"\0\x01\xfd\0\x02hi").await.value(),
        "[Text([104, 105])]"
    );
    // Two statements do not share their types.
    let other = client.prepare("ECHO ?").await.unwrap().id;
    assert_ne!(id, other);
    assert_eq!(client.execute(other, b"\0\0\x02hi").await.errno(), 1210);
}

#[tokio::test]
async fn values_come_in_parts() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    let id = client.prepare("ECHO ? ?").await.unwrap().id;
    // Bit 0 of neither is set; the first is a BLOB that was sent, the second an INT.
    let arguments = b"\0\x01\xfc\0\x03\0\x05\0\0\0";
    let both = "[Bytes([97, 98, 99]), Int(5)]";
    for _ in 0..2 {
        client.send_long_data(id, 0, b"ab").await;
        client.send_long_data(id, 0, b"c").await;
        assert_eq!(client.execute(id, arguments).await.value(), both);
    }
    // They are those of one execution, and a reset forgets them.
    assert_eq!(client.execute(id, arguments).await.errno(), 1835);
    client.send_long_data(id, 0, b"ab").await;
    client.send_about(0x1A, id).await;
    assert!(client.result().await.is_ok());
    assert_eq!(client.execute(id, arguments).await.errno(), 1835);
    // What is wrong with a part is told to the execution, until a reset.
    for _ in 0..2 {
        client.send_long_data(id, 2, b"x").await;
        assert_eq!(client.execute(id, arguments).await.errno(), 1210);
    }
    client.send_about(0x1A, id).await;
    assert!(client.result().await.is_ok());
    client.send_long_data(id, 0, b"abc").await;
    assert_eq!(client.execute(id, arguments).await.value(), both);
    client.send_long_data(99, 0, b"nobody hears of this").await;
    assert_eq!(client.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn values_in_parts_are_bounded_together() {
    let (server, _) = start(|config| config.max_allowed_packet = 1000);
    let mut client = Client::root(server.address()).await;
    let id = client.prepare("ECHO ?").await.unwrap().id;
    for _ in 0..3 {
        client.send_long_data(id, 0, &[b'x'; 400]).await;
    }
    assert_eq!(
        client.execute(id, b"\0\x01\xfc\0").await,
        Answer::Err {
            errno: 1105,
            state: "HY000".into(),
            message: "Parameter of prepared statement which is set through \
                mysql_send_long_data() is longer than 'max_allowed_packet' bytes"
                .into()
        }
    );
}

#[tokio::test]
async fn what_is_wrong_is_answered_with_mysqls_numbers() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    assert_eq!(client.prepare("FAIL").await.unwrap_err().errno(), 1064);
    let not_utf8 = b"\x16SELECT \xe9";
    client.command(not_utf8).await;
    assert_eq!(client.result().await.errno(), 1300);
    let unknown = |errno, command: &str| Answer::Err {
        errno,
        state: "HY000".into(),
        message: format!("Unknown prepared statement handler (7) given to {command}"),
    };
    assert_eq!(
        client.execute(7, b"").await,
        unknown(1243, "mysqld_stmt_execute")
    );
    client.send_about(0x1A, 7).await;
    assert_eq!(client.result().await, unknown(1243, "mysqld_stmt_reset"));
    client.command(b"\x1c\x07\0\0\0\x01\0\0\0").await;
    assert_eq!(client.result().await, unknown(1243, "mysqld_stmt_fetch"));
    let id = client.prepare("ECHO ?").await.unwrap().id;
    // There are no cursors, also if one was asked for.
    let with_cursor = [&b"\x17"[..], &id.to_le_bytes(), b"\x01\x01\0\0\0", FIVE].concat();
    client.command(&with_cursor).await;
    assert_eq!(client.result_with(take_row).await.value(), "[Int(5)]");
    let fetch = [&b"\x1c"[..], &id.to_le_bytes(), b"\x01\0\0\0"].concat();
    client.command(&fetch).await;
    assert_eq!(client.result().await.errno(), 1421);
    for (arguments, errno) in [
        (&b""[..], 1835),
        (b"\0", 1835),
        (b"\0\x01\x03", 1835),
        (b"\0\x01\x03\0\x05\0\0", 1835),
        (b"\0\x01\xfd\0\xfc\xff\xffx", 1835),
        (b"\0\x01\x0c\0\x05\0\0\0\0\0", 1835),
        (b"\0\x01\xf0\0\x05", 1210),
    ] {
        let answer = client.execute(id, arguments).await;
        assert_eq!(answer.errno(), errno, "{arguments:?}");
    }
    for command in [&b"\x17\x01\0\0\0\0"[..], b"\x1a\x01", b"\x1c"] {
        client.command(command).await;
        assert_eq!(client.result().await.errno(), 1835, "{command:?}");
    }
    assert_eq!(client.execute(id, FIVE).await.value(), "[Int(5)]");
}

#[tokio::test]
async fn a_closed_statement_is_gone_and_makes_room() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    let mut ids = Vec::new();
    for _ in 0..MAX_PREPARED {
        ids.push(client.prepare("ECHO ?").await.unwrap().id);
    }
    assert_eq!(
        client.prepare("ECHO ?").await.unwrap_err(),
        Answer::Err {
            errno: 1461,
            state: "42000".into(),
            message: format!(
                "Can't create more than max_prepared_stmt_count statements \
                 (current value: {MAX_PREPARED})"
            ),
        }
    );
    // Closing is not answered, whether there is such a statement or not.
    client.send_about(0x19, ids[0]).await;
    client.send_about(0x19, ids[0]).await;
    client.send_about(0x19, 4_000_000).await;
    assert_eq!(client.execute(ids[0], FIVE).await.errno(), 1243);
    Seen::wait(&seen.closed, 1).await;
    assert!(client.prepare("ECHO ?").await.is_ok());
    assert_eq!(client.execute(ids[1], FIVE).await.value(), "[Int(5)]");
}

#[tokio::test]
async fn a_reset_connection_and_another_user_have_no_statements() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    let id = client.prepare("ECHO ?").await.unwrap().id;
    client.command(b"\x1f").await;
    assert!(client.result().await.is_ok());
    assert_eq!(client.execute(id, FIVE).await.errno(), 1243);
    let id = client.prepare("ECHO ?").await.unwrap().id;
    client
        .command(b"\x11root\0\0\0\x2d\0mysql_native_password\0")
        .await;
    let switch = client.receive().await;
    assert_eq!(switch[0], 0xFE);
    client.send(b"").await;
    assert!(client.verdict().await.is_ok());
    assert_eq!(client.execute(id, FIVE).await.errno(), 1243);
}

#[tokio::test]
async fn the_list_of_connections_shows_what_is_executed() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    let id = client.prepare("NAP").await.unwrap().id;
    client.send_execute(id, b"").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let info = &server.registry().list()[0];
    assert_eq!(
        (info.command, info.statement.as_deref()),
        ("Execute", Some("NAP"))
    );
    assert_eq!(client.result_with(take_row).await.value(), "0");
}

#[tokio::test]
async fn an_execution_and_a_preparation_can_be_killed() {
    let (server, seen) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    let id = client.prepare("SLEEP").await.unwrap().id;
    client.send_execute(id, b"").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.registry().kill_query(client.id).unwrap();
    assert_eq!(client.result().await.errno(), 1317);
    Seen::wait(&seen.cancelled, 1).await;
    client.command(b"\x16PREPARE SLOWLY").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.registry().kill_query(client.id).unwrap();
    assert_eq!(client.result().await.errno(), 1317);
    assert_eq!(client.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn long_rows_and_parameters_need_several_frames() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    let id = client
        .prepare(&format!("SELECT LONG {}", 17 << 20))
        .await
        .unwrap()
        .id;
    let Answer::Rows { rows, .. } = client.execute(id, b"").await else {
        panic!("no rows")
    };
    assert_eq!(rows[0][0].as_ref().unwrap().len(), 17 << 20);
    assert_eq!(rows[1][0].as_deref(), Some(b"y".as_slice()));
    let mut arguments = b"\0\x01\xfd\0\xfd".to_vec();
    let length: u32 = 0xFF_FFF0;
    arguments.extend(&length.to_le_bytes()[..3]);
    arguments.resize(arguments.len() + length as usize, b'x');
    let id = client.prepare("LENGTH ?").await.unwrap().id;
    let value = client.execute(id, &arguments).await.value();
    assert_eq!(value, length.to_string());
}
