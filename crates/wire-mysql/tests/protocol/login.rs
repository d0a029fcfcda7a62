//! The connection phase, and what changes or ends a login.

use perigee_wire_mysql::{AuthMethod, Capabilities};

use crate::client::{Answer, CLASSIC, Client, MODERN, native_scramble, sha2_scramble};
use crate::script::start;

#[tokio::test]
async fn root_logs_in_without_a_password_by_either_method() {
    for method in [AuthMethod::CachingSha2Password, AuthMethod::NativePassword] {
        let (server, _) = start(|config| config.default_auth = method);
        for capabilities in [MODERN, CLASSIC] {
            let (mut client, answer) =
                Client::login(server.address(), capabilities, "root", "", Some("test")).await;
            let Answer::Ok { status, .. } = answer else {
                panic!("{answer:?}")
            };
            assert_eq!(status, 2, "autocommit");
            assert_eq!(client.query("SELECT 1").await.value(), "1");
            assert_eq!(
                client.query("SELECT ATTRIBUTE _client_name").await.value(),
                "hand"
            );
        }
    }
}

#[tokio::test]
async fn a_password_is_checked_by_either_method() {
    for method in [AuthMethod::CachingSha2Password, AuthMethod::NativePassword] {
        let (server, _) = start(|config| config.default_auth = method);
        let address = server.address();
        let (_, right) = Client::login(address, MODERN, "ann", "secret", None).await;
        assert!(right.is_ok(), "{right:?}");
        for (user, password, using) in [
            ("ann", "Secret", "YES"),
            ("ann", "", "NO"),
            ("root", "x", "YES"),
            ("bob", "x", "YES"),
        ] {
            let (mut client, refused) = Client::login(address, MODERN, user, password, None).await;
            let message =
                format!("Access denied for user '{user}'@'127.0.0.1' (using password: {using})");
            let expected = Answer::Err {
                errno: 1045,
                state: "28000".into(),
                message,
            };
            assert_eq!(refused, expected);
            client.expect_end().await;
        }
        assert_eq!(server.registry().counters().aborted_connects, 4);
    }
}

#[tokio::test]
async fn a_client_with_another_method_is_asked_to_use_it_anew() {
    let (server, _) = start(|_| {});
    let (mut client, offered, _) = Client::greeted(server.address()).await;
    assert_eq!(offered, "caching_sha2_password");
    // As a client does that knows only the older method: it names it and proves nothing yet.
    let packet = Client::response(MODERN, "ann", b"", None, "mysql_native_password");
    client.send(&packet).await;
    let switch = client.receive().await;
    let parts: Vec<_> = switch[1..].splitn(2, |b| *b == 0).collect();
    assert_eq!(
        (switch[0], parts[0]),
        (0xFE, b"mysql_native_password".as_slice())
    );
    let nonce = &parts[1][..20];
    client.send(&native_scramble("secret", nonce)).await;
    assert!(client.verdict().await.is_ok());
    assert_eq!(client.query("SELECT USER").await.value(), "ann");
}

#[tokio::test]
async fn a_client_with_an_unknown_method_is_asked_to_use_the_default() {
    let (server, _) = start(|_| {});
    let (mut client, _, _) = Client::greeted(server.address()).await;
    client
        .send(&Client::response(
            MODERN,
            "ann",
            b"zzz",
            None,
            "client_ed25519",
        ))
        .await;
    let switch = client.receive().await;
    assert!(switch.starts_with(b"\xfecaching_sha2_password\0"));
    let nonce = switch[23..43].to_vec();
    client.send(&sha2_scramble("secret", &nonce)).await;
    assert_eq!(client.receive().await, [1, 3], "the scramble was enough");
    assert!(client.verdict().await.is_ok());
}

#[tokio::test]
async fn a_client_that_names_no_method_uses_the_oldest() {
    let (server, _) = start(|_| {});
    let old = CLASSIC
        .without(Capabilities::PLUGIN_AUTH)
        .without(Capabilities::CONNECT_ATTRS);
    let (mut client, _, nonce) = Client::greeted(server.address()).await;
    client.capabilities = old;
    client
        .send(&Client::response(
            old,
            "ann",
            &native_scramble("secret", &nonce),
            None,
            "",
        ))
        .await;
    assert!(client.verdict().await.is_ok());
    assert_eq!(client.query("SELECT 1").await.value(), "1");
}

#[tokio::test]
async fn an_unknown_database_ends_the_login() {
    let (server, seen) = start(|_| {});
    let (mut client, answer) =
        Client::login(server.address(), MODERN, "root", "", Some("nosuch")).await;
    assert_eq!(answer.errno(), 1049);
    client.expect_end().await;
    assert_eq!(seen.dropped.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_response_that_makes_no_sense_is_a_bad_handshake() {
    let (server, _) = start(|_| {});
    for garbage in [
        &b"GET / HTTP/1.1"[..],
        b"",
        b"\x05\0\0\0\0root\0",
        &[0xFF; 40],
    ] {
        let (mut client, _, _) = Client::greeted(server.address()).await;
        client.send(garbage).await;
        let answer = client.verdict().await;
        assert_eq!(answer.errno(), 1043, "{garbage:?}");
        client.expect_end().await;
    }
}

#[tokio::test]
async fn change_user_opens_a_new_session() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    assert!(client.query("SET VARIABLE 7").await.is_ok());
    client
        .command(b"\x11ann\0\0test\0\x2d\0caching_sha2_password\0\0")
        .await;
    let switch = client.receive().await;
    assert!(switch.starts_with(b"\xfecaching_sha2_password\0"));
    let nonce = switch[23..43].to_vec();
    client.send(&sha2_scramble("secret", &nonce)).await;
    assert!(client.verdict().await.is_ok());
    assert_eq!(client.query("SELECT USER").await.value(), "ann");
    assert_eq!(client.query("SELECT VARIABLE").await.value(), "0");
    let info = server.registry().list().remove(0);
    assert_eq!(
        (info.user.as_deref(), info.database.as_deref()),
        (Some("ann"), Some("test"))
    );
}

#[tokio::test]
async fn a_failed_change_of_user_ends_the_connection() {
    let (server, _) = start(|_| {});
    let mut client = Client::root(server.address()).await;
    client
        .command(b"\x11ann\0\0\0\x2d\0mysql_native_password\0\0")
        .await;
    let switch = client.receive().await;
    assert!(switch.starts_with(b"\xfemysql_native_password\0"));
    client
        .send(&native_scramble("wrong", &switch[23..43]))
        .await;
    assert_eq!(client.verdict().await.errno(), 1045);
    client.expect_end().await;
}
