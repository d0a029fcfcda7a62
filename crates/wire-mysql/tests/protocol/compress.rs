//! Commands and answers in envelopes, for clients that ask for compression.

use perigee_wire_mysql::Capabilities;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Client, MODERN};
use crate::script::start;

/// COM_PING.
const PING: u8 = 0x0E;

/// Envelopes count on from one side to the other, and the answer's packets from the envelope in front of them: drivers
/// check one or the other. The number inside of what a client sends is its own affair.
#[tokio::test]
async fn an_answer_is_numbered_from_the_envelopes_of_its_command() {
    let (server, _) = start(|_| {});
    let capabilities = MODERN.with(Capabilities::COMPRESS);
    let (mut client, answer) =
        Client::login(server.address(), capabilities, "root", "", None).await;
    assert!(answer.is_ok());
    for inner in [0, 7] {
        // The packet is cut in the middle of its header.
        let first = [3, 0, 0, 0, 0, 0, 0, 1, 0, 0];
        let second = [2, 0, 0, 1, 0, 0, 0, inner, PING];
        client.socket.write_all(&first).await.unwrap();
        client.socket.write_all(&second).await.unwrap();
        let mut answer = [0; 18];
        client.socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[..7], [11, 0, 0, 2, 0, 0, 0], "the envelope");
        assert_eq!(answer[7..11], [7, 0, 0, 2], "the packet");
        assert_eq!(answer[11], 0, "OK");
    }
}
