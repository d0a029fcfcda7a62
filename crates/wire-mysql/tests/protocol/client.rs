//! A client that makes its packets by hand, from the description of the protocol and not with the
//! server's own encoders.

use std::net::SocketAddr;
use std::time::Duration;

use perigee_wire_mysql::Capabilities;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(10);

/// Everything a present-day client asks for.
pub const MODERN: Capabilities = Capabilities::SERVER
    .without(Capabilities::CONNECT_WITH_DB)
    .without(Capabilities::COMPRESS);

/// A client that knows the old end of a result set.
pub const CLASSIC: Capabilities = MODERN.without(Capabilities::DEPRECATE_EOF);

pub struct Client {
    pub socket: TcpStream,
    pub capabilities: Capabilities,
    /// The sequence id the next packet of the server must carry.
    pub seq: u8,
    /// From the greeting.
    pub id: u32,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Ok {
        affected: u64,
        insert_id: u64,
        status: u16,
        warnings: u16,
        info: String,
    },
    Err {
        errno: u16,
        state: String,
        message: String,
    },
    Rows {
        names: Vec<String>,
        rows: Vec<Vec<Option<Vec<u8>>>>,
        status: u16,
        warnings: u16,
    },
}

impl Answer {
    pub fn errno(&self) -> u16 {
        match self {
            Self::Err { errno, .. } => *errno,
            other => panic!("expected an error, got {other:?}"),
        }
    }

    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok { .. })
    }

    /// The only value of a result set.
    pub fn value(&self) -> String {
        match self {
            Self::Rows { rows, .. } => {
                assert_eq!((rows.len(), rows[0].len()), (1, 1));
                String::from_utf8(rows[0][0].clone().unwrap()).unwrap()
            }
            other => panic!("expected rows, got {other:?}"),
        }
    }

    pub fn status(&self) -> u16 {
        match self {
            Self::Ok { status, .. } | Self::Rows { status, .. } => *status,
            Self::Err { .. } => panic!("expected a result, got {self:?}"),
        }
    }
}

pub fn native_scramble(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let mask = Sha1::digest([nonce, &Sha1::digest(once)].concat());
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

pub fn sha2_scramble(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return vec![0]; // as libmysqlclient does
    }
    let once = Sha256::digest(password);
    let mask = Sha256::digest([&Sha256::digest(once)[..], nonce].concat());
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// Length-encoded integer at the front of `bytes`.
pub fn take_int(bytes: &mut &[u8]) -> u64 {
    let first = bytes[0];
    let width = match first {
        0xFC => 2,
        0xFD => 3,
        0xFE => 8,
        _ => 0,
    };
    let mut value = [0; 8];
    value[..width].copy_from_slice(&bytes[1..=width]);
    *bytes = &bytes[1 + width..];
    if width == 0 {
        u64::from(first)
    } else {
        u64::from_le_bytes(value)
    }
}

pub fn take_string(bytes: &mut &[u8]) -> Vec<u8> {
    let len = take_int(bytes) as usize;
    let (string, rest) = bytes.split_at(len);
    *bytes = rest;
    string.to_vec()
}

impl Client {
    /// Opens a socket and takes the greeting; gives its method and nonce.
    pub async fn greeted(address: SocketAddr) -> (Self, String, Vec<u8>) {
        let socket = TcpStream::connect(address).await.unwrap();
        let mut client = Self {
            socket,
            capabilities: MODERN,
            seq: 0,
            id: 0,
        };
        let greeting = client.receive().await;
        assert_eq!(greeting[0], 10, "greeting: {greeting:?}");
        let version_end = greeting.iter().position(|b| *b == 0).unwrap();
        let rest = &greeting[version_end + 1..];
        client.id = u32::from_le_bytes(rest[..4].try_into().unwrap());
        let mut nonce = rest[4..12].to_vec();
        let tail = &rest[31..];
        nonce.extend_from_slice(&tail[..12]);
        let method = tail[13..].split(|b| *b == 0).next().unwrap();
        (client, String::from_utf8(method.to_vec()).unwrap(), nonce)
    }

    /// The answer to a greeting.
    pub fn response(
        capabilities: Capabilities,
        user: &str,
        proof: &[u8],
        database: Option<&str>,
        method: &str,
    ) -> Vec<u8> {
        let flag = Capabilities::CONNECT_WITH_DB;
        let capabilities = capabilities.with_if(database.is_some(), flag);
        let mut packet = capabilities.0.to_le_bytes().to_vec();
        packet.extend_from_slice(&(1u32 << 24).to_le_bytes());
        packet.push(45);
        packet.extend_from_slice(&[0; 23]);
        packet.extend_from_slice(user.as_bytes());
        packet.push(0);
        packet.push(proof.len() as u8);
        packet.extend_from_slice(proof);
        if let Some(database) = database {
            packet.extend_from_slice(database.as_bytes());
            packet.push(0);
        }
        if capabilities.has(Capabilities::PLUGIN_AUTH) {
            packet.extend_from_slice(method.as_bytes());
            packet.push(0);
        }
        if capabilities.has(Capabilities::CONNECT_ATTRS) {
            packet.extend_from_slice(b"\x12\x0c_client_name\x04hand");
        }
        packet
    }

    /// Logs in with the method the greeting names.
    pub async fn login(
        address: SocketAddr,
        capabilities: Capabilities,
        user: &str,
        password: &str,
        database: Option<&str>,
    ) -> (Self, Answer) {
        let (mut client, method, nonce) = Self::greeted(address).await;
        client.capabilities = capabilities;
        let proof = match method.as_str() {
            "caching_sha2_password" => sha2_scramble(password, &nonce),
            "mysql_native_password" => native_scramble(password, &nonce),
            other => panic!("unknown method {other}"),
        };
        let packet = Self::response(capabilities, user, &proof, database, &method);
        client.send(&packet).await;
        let answer = client.verdict().await;
        (client, answer)
    }

    /// Takes OK or ERR, past the note that a scramble was enough.
    pub async fn verdict(&mut self) -> Answer {
        let mut packet = self.receive().await;
        if packet == [1, 3] {
            packet = self.receive().await;
        }
        self.parse(&packet)
    }

    /// Logs in as `root` with all of today's capabilities.
    pub async fn root(address: SocketAddr) -> Self {
        let (client, answer) = Self::login(address, MODERN, "root", "", None).await;
        assert!(answer.is_ok(), "{answer:?}");
        client
    }

    /// Sends a packet that goes on in the exchange.
    pub async fn send(&mut self, payload: &[u8]) {
        let mut rest = payload;
        loop {
            let (frame, tail) = rest.split_at(rest.len().min(0xFF_FFFF));
            let mut header = (frame.len() as u32).to_le_bytes();
            header[3] = self.seq;
            self.seq = self.seq.wrapping_add(1);
            self.socket.write_all(&header).await.unwrap();
            self.socket.write_all(frame).await.unwrap();
            rest = tail;
            if frame.len() < 0xFF_FFFF {
                return;
            }
        }
    }

    /// Sends a command.
    pub async fn command(&mut self, payload: &[u8]) {
        self.seq = 0;
        self.send(payload).await;
    }

    /// The next packet; its sequence id must follow.
    pub async fn receive(&mut self) -> Vec<u8> {
        self.try_receive()
            .await
            .expect("the server does not close the connection")
    }

    /// The next packet, or `None` at the end of the connection.
    pub async fn try_receive(&mut self) -> Option<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; 4];
            let read = self.socket.read_exact(&mut header);
            match tokio::time::timeout(PATIENCE, read)
                .await
                .expect("the server answers")
            {
                Ok(_) => {}
                Err(_) => return None,
            }
            assert_eq!(header[3], self.seq, "sequence id");
            self.seq = self.seq.wrapping_add(1);
            header[3] = 0;
            let len = u32::from_le_bytes(header) as usize;
            let at = payload.len();
            payload.resize(at + len, 0);
            let read = self.socket.read_exact(&mut payload[at..]);
            tokio::time::timeout(PATIENCE, read)
                .await
                .expect("the server goes on")
                .unwrap();
            if len < 0xFF_FFFF {
                return Some(payload);
            }
        }
    }

    /// Asserts that the server has closed the connection.
    pub async fn expect_end(&mut self) {
        assert_eq!(self.try_receive().await, None);
    }

    pub fn parse(&self, packet: &[u8]) -> Answer {
        match packet[0] {
            0x00 => {
                let mut rest = &packet[1..];
                let (affected, insert_id) = (take_int(&mut rest), take_int(&mut rest));
                let status = u16::from_le_bytes([rest[0], rest[1]]);
                let warnings = u16::from_le_bytes([rest[2], rest[3]]);
                let mut rest = &rest[4..];
                let info = if rest.is_empty() {
                    Vec::new()
                } else {
                    take_string(&mut rest)
                };
                assert!(rest.is_empty());
                let info = String::from_utf8(info).unwrap();
                Answer::Ok {
                    affected,
                    insert_id,
                    status,
                    warnings,
                    info,
                }
            }
            0xFF => {
                assert_eq!(packet[3], b'#');
                Answer::Err {
                    errno: u16::from_le_bytes([packet[1], packet[2]]),
                    state: String::from_utf8(packet[4..9].to_vec()).unwrap(),
                    message: String::from_utf8(packet[9..].to_vec()).unwrap(),
                }
            }
            other => panic!("neither OK nor ERR: {other:#x}"),
        }
    }

    /// Status and warnings if `packet` ends a list.
    pub fn end_of_list(&self, packet: &[u8]) -> Option<(u16, u16)> {
        let modern = self.capabilities.has(Capabilities::DEPRECATE_EOF);
        match packet {
            [0xFE, 0, 0, s0, s1, w0, w1] if modern => Some((
                u16::from_le_bytes([*s0, *s1]),
                u16::from_le_bytes([*w0, *w1]),
            )),
            [0xFE, w0, w1, s0, s1] if !modern => Some((
                u16::from_le_bytes([*s0, *s1]),
                u16::from_le_bytes([*w0, *w1]),
            )),
            _ => None,
        }
    }

    /// Takes column definitions and their end; gives names and type codes.
    pub async fn definitions(&mut self, count: u64) -> Vec<(String, u8)> {
        let mut columns = Vec::new();
        for _ in 0..count {
            let definition = self.receive().await;
            let mut rest = &definition[..];
            let strings: Vec<_> = (0..6).map(|_| take_string(&mut rest)).collect();
            assert_eq!(strings[0], b"def");
            // A length, collation and length stand before the type.
            columns.push((String::from_utf8(strings[4].clone()).unwrap(), rest[7]));
        }
        if count > 0 && !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            let eof = self.receive().await;
            assert!(self.end_of_list(&eof).is_some(), "{eof:?}");
        }
        columns
    }

    /// Takes one result.
    pub async fn result(&mut self) -> Answer {
        self.result_with(|columns, rest| {
            let value = |_: &(String, u8)| {
                if rest[0] == 0xFB {
                    *rest = &rest[1..];
                    None
                } else {
                    Some(take_string(rest))
                }
            };
            columns.iter().map(value).collect()
        })
        .await
    }

    /// Takes one result whose rows `take` takes apart.
    pub async fn result_with(
        &mut self,
        take: impl Fn(&[(String, u8)], &mut &[u8]) -> Vec<Option<Vec<u8>>>,
    ) -> Answer {
        let first = self.receive().await;
        if first[0] == 0x00 || first[0] == 0xFF {
            return self.parse(&first);
        }
        let count = take_int(&mut &first[..]);
        let columns = self.definitions(count).await;
        let mut rows = Vec::new();
        loop {
            let packet = self.receive().await;
            if packet[0] == 0xFF {
                return self.parse(&packet);
            }
            if let Some((status, warnings)) = self.end_of_list(&packet) {
                return Answer::Rows {
                    names: columns.into_iter().map(|(name, _)| name).collect(),
                    rows,
                    status,
                    warnings,
                };
            }
            let mut rest = &packet[..];
            rows.push(take(&columns, &mut rest));
            assert!(rest.is_empty());
        }
    }

    /// Sends a query and takes its only result.
    pub async fn query(&mut self, sql: &str) -> Answer {
        self.command(&[b"\x03", sql.as_bytes()].concat()).await;
        self.result().await
    }
}
