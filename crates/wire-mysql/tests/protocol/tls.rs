//! TLS: a client's request for it, what follows inside of it, and who is refused.

use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use perigee_wire_mysql::{Capabilities, ServerConfig, Tls};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Answer, Client, MODERN, sha2_scramble};
use crate::script::start;

/// Takes the one certificate of the test server, whoever signed it.
#[derive(Debug)]
struct Only(CertificateDer<'static>, Arc<CryptoProvider>);

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        assert_eq!(*certificate, self.0);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.1.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.1.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.signature_verification_algorithms.supported_schemes()
    }
}

/// A certificate for the server, and what a client needs to know of it.
fn certificate() -> (Tls, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    let tls = Tls::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).unwrap();
    (tls, made.cert.der().clone())
}

fn client_config(
    certificate: &CertificateDer<'static>,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Only(certificate.clone(), provider.clone());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Arc::new(config)
}

/// A client on a blocking socket whose packets are shorter than a frame.
struct Encrypted {
    stream: StreamOwned<ClientConnection, TcpStream>,
    seq: u8,
}

fn request() -> Vec<u8> {
    let asked = MODERN.with(Capabilities::SSL);
    let mut packet = asked.0.to_le_bytes().to_vec();
    packet.extend_from_slice(&(1u32 << 24).to_le_bytes());
    packet.push(45);
    packet.extend_from_slice(&[0; 23]);
    packet
}

fn framed(payload: &[u8], seq: u8) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    frame.push(seq);
    frame.extend_from_slice(payload);
    frame
}

fn read_frame(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let len = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
    let mut payload = vec![0; len];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

impl Encrypted {
    /// Takes the greeting, asks for TLS and shakes hands; gives the nonce.
    fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> std::io::Result<(Self, Vec<u8>)> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        let greeting = read_frame(&mut socket)?;
        let end = greeting.iter().position(|b| *b == 0).unwrap();
        let rest = &greeting[end + 1..];
        let nonce = [&rest[4..12], &rest[31..43]].concat();
        socket.write_all(&framed(&request(), 1))?;
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(config, name).unwrap();
        let stream = StreamOwned::new(connection, socket);
        Ok((Self { stream, seq: 2 }, nonce))
    }

    fn send(&mut self, payload: &[u8]) {
        self.stream.write_all(&framed(payload, self.seq)).unwrap();
        self.stream.flush().unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        read_frame(&mut self.stream).unwrap()
    }

    fn log_in(&mut self, user: &str, password: &str, nonce: &[u8]) -> Vec<u8> {
        let proof = sha2_scramble(password, nonce);
        let capabilities = MODERN.with(Capabilities::SSL);
        let method = "caching_sha2_password";
        self.send(&Client::response(capabilities, user, &proof, None, method));
        self.seq = 0;
        let answer = self.receive();
        match answer[..] {
            [1, 3] => self.receive(),
            _ => answer,
        }
    }

    /// The last packet but one of a result set: its last row.
    fn last_row(&mut self, sql: &str) -> Vec<u8> {
        self.send(&[b"\x03", sql.as_bytes()].concat());
        let mut before = Vec::new();
        loop {
            let packet = self.receive();
            if packet[0] == 0xFE {
                return before;
            }
            before = packet;
        }
    }
}

fn with_tls(
    adjust: impl FnOnce(&mut ServerConfig),
) -> (SocketAddr, impl Sized, CertificateDer<'static>) {
    let (tls, certificate) = certificate();
    let (server, seen) = start(|config| {
        config.tls = Some(tls);
        adjust(config);
    });
    (server.address(), (server, seen), certificate)
}

/// Waits until the server closes the connection, perhaps after an alert.
async fn closed(client: &mut Client) {
    let mut rest = Vec::new();
    let end = client.socket.read_to_end(&mut rest);
    let end = tokio::time::timeout(Duration::from_secs(10), end).await;
    // What was sent and not read resets a connection.
    let _ = end.expect("the server closes the connection");
}

/// Runs what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test]
async fn a_client_logs_in_and_asks_in_either_version() {
    let (address, _server, certificate) = with_tls(|_| {});
    blocking(move || {
        for version in [&TLS12, &TLS13] {
            let config = client_config(&certificate, version);
            let (mut client, nonce) = Encrypted::connect(address, config).unwrap();
            assert_eq!(client.log_in("ann", "secret", &nonce)[0], 0);
            assert_eq!(client.last_row("SELECT 1"), b"\x011");
            // Longer than many records; `last_row` sees the short row behind it.
            assert_eq!(client.last_row("SELECT LONG 1000000"), b"\x01y");
            let long = "x".repeat(300_000);
            let answer = client.last_row(&format!("SELECT LENGTH {long}"));
            assert_eq!(answer, b"\x06300000");
        }
    })
    .await;
}

#[tokio::test]
async fn wrong_passwords_are_told_inside() {
    let (address, _server, certificate) = with_tls(|_| {});
    blocking(move || {
        let config = client_config(&certificate, &TLS13);
        let (mut client, nonce) = Encrypted::connect(address, config).unwrap();
        let refused = client.log_in("ann", "wrong", &nonce);
        assert_eq!(
            (refused[0], &refused[1..3]),
            (0xFF, &1045_u16.to_le_bytes()[..])
        );
        let mut rest = Vec::new();
        client.stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "the end is announced");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_requires_tls_refuses_plain_clients() {
    let (address, _server, certificate) = with_tls(|config| config.require_tls = true);
    let (mut plain, answer) = Client::login(address, MODERN, "ann", "secret", None).await;
    let message = "Connections using insecure transport are prohibited while \
                   --require_secure_transport=ON.";
    let expected = Answer::Err {
        errno: 3159,
        state: "HY000".into(),
        message: message.into(),
    };
    assert_eq!(answer, expected);
    plain.expect_end().await;
    blocking(move || {
        let config = client_config(&certificate, &TLS13);
        let (mut client, nonce) = Encrypted::connect(address, config).unwrap();
        assert_eq!(client.log_in("ann", "secret", &nonce)[0], 0);
    })
    .await;
}

#[tokio::test]
async fn a_server_without_a_certificate_does_not_know_the_request() {
    let (server, _) = start(|_| {});
    let (mut client, _, _) = Client::greeted(server.address()).await;
    client.send(&request()).await;
    assert_eq!(client.verdict().await.errno(), 1043);
    client.expect_end().await;
}

#[tokio::test]
async fn what_is_not_tls_ends_the_connection() {
    let (address, _server, _) = with_tls(|_| {});
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16; 64], &[0; 4096]] {
        let (mut client, _, _) = Client::greeted(address).await;
        client.send(&request()).await;
        client.socket.write_all(garbage).await.unwrap();
        closed(&mut client).await;
    }
}

#[tokio::test]
async fn silence_in_the_handshake_ends_with_the_time_for_logins() {
    let patience = Duration::from_millis(300);
    let (address, _server, _) = with_tls(|config| config.connect_timeout = patience);
    let begun = Instant::now();
    let (mut silent, _, _) = Client::greeted(address).await;
    silent.send(&request()).await;
    // The first bytes of a handshake, and nothing behind them.
    silent
        .socket
        .write_all(&[0x16, 3, 1, 2, 0, 1])
        .await
        .unwrap();
    closed(&mut silent).await;
    assert!(begun.elapsed() >= patience);
}

#[tokio::test]
async fn handshakes_without_end_crowd_out_one_another_and_nobody_else() {
    let (address, _server, certificate) = with_tls(|config| {
        config.max_unfinished_logins = 16;
        config.max_connections = 4;
    });
    let mut half_open = Vec::new();
    for _ in 0..64 {
        let (mut client, _, _) = Client::greeted(address).await;
        client.send(&request()).await;
        half_open.push(client);
    }
    blocking(move || {
        let config = client_config(&certificate, &TLS13);
        let (mut client, nonce) = Encrypted::connect(address, config).unwrap();
        assert_eq!(client.log_in("ann", "secret", &nonce)[0], 0);
        assert_eq!(client.last_row("SELECT 1"), b"\x011");
    })
    .await;
    closed(&mut half_open[0]).await;
}
