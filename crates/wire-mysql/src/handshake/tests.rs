//! The connection phase's packets against bytes put together from the protocol's description.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

const NONCE_BYTES: [u8; NONCE] = *b"abcdefghijklmnopqrst";

#[test]
fn the_greeting_has_its_fields_in_place() {
    let mut out = BytesMut::new();
    put_greeting(
        &mut out,
        "8.0.43-x",
        7,
        &NONCE_BYTES,
        AuthMethod::CachingSha2Password,
        Capabilities::SERVER,
    );
    let mut expected = vec![10];
    expected.extend_from_slice(b"8.0.43-x\0");
    expected.extend_from_slice(&[7, 0, 0, 0]);
    expected.extend_from_slice(b"abcdefgh\0");
    expected.extend_from_slice(&[0xAF, 0xA7]); // low capabilities
    expected.push(255); // collation
    expected.extend_from_slice(&[2, 0]); // autocommit
    expected.extend_from_slice(&[0x7B, 0x01]); // high capabilities
    expected.push(21); // nonce with its NUL
    expected.extend_from_slice(&[0; 10]);
    expected.extend_from_slice(b"ijklmnopqrst\0caching_sha2_password\0");
    assert_eq!(out.to_vec(), expected);
}

#[test]
fn a_switch_names_the_method_and_a_new_nonce() {
    let mut out = BytesMut::new();
    put_auth_switch(&mut out, AuthMethod::NativePassword, &NONCE_BYTES);
    assert_eq!(
        &out[..],
        b"\xfemysql_native_password\0abcdefghijklmnopqrst\0"
    );
}

/// A response as libmysql sends it: everything present.
fn full_response() -> Vec<u8> {
    let capabilities = Capabilities::SERVER;
    let mut p = capabilities.0.to_le_bytes().to_vec();
    p.extend_from_slice(&(1u32 << 24).to_le_bytes());
    p.push(255);
    p.extend_from_slice(&[0; 23]);
    p.extend_from_slice(b"root\0");
    p.extend_from_slice(&[3, 1, 2, 3]);
    p.extend_from_slice(b"tpch\0caching_sha2_password\0");
    p.extend_from_slice(b"\x12\x03_os\x05Linux\x04_pid\x0212");
    p
}

#[test]
fn a_full_response_decodes() {
    let response = HandshakeResponse::decode(&full_response()).unwrap();
    assert_eq!(response.capabilities, Capabilities::SERVER);
    assert_eq!(response.collation, 255);
    assert_eq!(response.user, "root");
    assert_eq!(&response.auth_response[..], [1, 2, 3]);
    assert_eq!(response.database.as_deref(), Some("tpch"));
    assert_eq!(
        response.method.as_deref(),
        Some(b"caching_sha2_password".as_slice())
    );
    let attribute = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    assert_eq!(
        response.attributes,
        [attribute("_os", "Linux"), attribute("_pid", "12")]
    );
}

#[test]
fn a_response_without_the_optional_fields_decodes() {
    let capabilities = Capabilities::PROTOCOL_41.with(Capabilities::SECURE_CONNECTION);
    let mut p = capabilities.0.to_le_bytes().to_vec();
    p.extend_from_slice(&[0, 0, 0, 1, 8]);
    p.extend_from_slice(&[0; 23]);
    p.extend_from_slice(b"ann\0\0");
    let response = HandshakeResponse::decode(&p).unwrap();
    assert_eq!(response.user, "ann");
    assert!(response.auth_response.is_empty());
    assert_eq!((response.database, response.method), (None, None));
    assert!(response.attributes.is_empty());
}

#[test]
fn clients_older_than_4_1_and_unasked_tls_are_refused() {
    let old = HandshakeResponse::decode(&[0x05, 0, 0, 0, 0, b'r', 0]);
    assert!(old.unwrap_err().to_string().contains("4.1"));
    let mut tls = Capabilities::SERVER
        .with(Capabilities::SSL)
        .0
        .to_le_bytes()
        .to_vec();
    tls.extend_from_slice(&[0; 28]);
    let refused = HandshakeResponse::decode(&tls).unwrap_err();
    assert!(refused.to_string().contains("TLS"), "{refused}");
}

#[test]
fn every_truncation_is_an_error_or_lacks_optional_fields() {
    let whole = full_response();
    for cut in 0..whole.len() {
        match HandshakeResponse::decode(&whole[..cut]) {
            Err(_) => {}
            Ok(response) => assert!(response.attributes.is_empty(), "cut at {cut}"),
        }
    }
}

#[test]
fn change_user_decodes() {
    let p = b"ann\0\x02xytpch\0\x2d\0mysql_native_password\0\x09\x03_os\x04BeOS";
    let all = Capabilities::SERVER;
    let response = HandshakeResponse::decode_change_user(p, all, 255).unwrap();
    assert_eq!(response.user, "ann");
    assert_eq!(&response.auth_response[..], b"xy");
    assert_eq!(response.database.as_deref(), Some("tpch"));
    assert_eq!(response.collation, 45);
    assert_eq!(
        response.method.as_deref(),
        Some(b"mysql_native_password".as_slice())
    );
    assert_eq!(response.attributes, [("_os".to_owned(), "BeOS".to_owned())]);
    let short = HandshakeResponse::decode_change_user(b"ann\0\0\0", all, 255).unwrap();
    assert_eq!((short.collation, short.database), (255, None));
}

#[test]
fn a_request_for_tls_is_the_first_part_of_a_response() {
    let mut request = full_response();
    let asked = Capabilities::SERVER.with(Capabilities::SSL);
    request[..4].copy_from_slice(&asked.0.to_le_bytes());
    assert!(!asks_for_tls(&request), "a whole response");
    assert!(asks_for_tls(&request[..32]));
    assert!(!asks_for_tls(&full_response()[..32]), "without the flag");
    for len in [0, 3, 31, 33] {
        assert!(!asks_for_tls(&request[..len]), "{len}");
    }
}
