//! Damaged packets of a client: refused, or understood as something else; never a panic.

use perigee_testkit::Fuzz;
use perigee_wire_mysql::fuzz;

/// A packet around a payload.
fn framed(payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_le_bytes();
    [&len[..3], &[0], payload].concat()
}

#[test]
fn damaged_commands() {
    let payloads: [&[u8]; 16] = [
        b"\x01",
        b"\x02tpch",
        b"\x03SELECT 1, 'text' FROM lineitem WHERE l_quantity < 24",
        b"\x04lineitem\0l_%",
        b"\x09",
        b"\x0c\x07\0\0\0",
        b"\x0e",
        b"\x11ann\0\x02xytpch\0\x2d\0mysql_native_password\0",
        b"\x16SELECT ?",
        b"\x17\x02\x01\0\0\0\x01\0\0\0\0\x01\x08\0\x05\0\0\0\0\0\0\0",
        b"\x18\x02\x01\0\0\x03\0part",
        b"\x19\x02\x01\0\0",
        b"\x1a\x02\x01\0\0",
        b"\x1b\x01\0",
        b"\x1c\x02\x01\0\0\x0a\0\0\0",
        b"\x1f",
    ];
    let single = payloads.iter().map(|payload| framed(payload));
    let pairs = payloads
        .windows(2)
        .map(|pair| [framed(pair[0]), framed(pair[1])].concat());
    Fuzz::new(single.chain(pairs)).run("commands", fuzz::commands);
}

#[test]
fn damaged_parameters() {
    // The number of parameters, then: a bit each for NULL, 1 and the types, the values.
    let corpus: [&[u8]; 6] = [
        b"\x00",
        b"\x01\0\x01\x08\0\x05\0\0\0\0\0\0\0",
        b"\x02\0\x01\xfd\0\x03\0\x03abc\x01\x80\x05\0\0\0",
        b"\x03\x02\x01\x05\0\x04\0\xfe\0\0\0\0\0\0\0\xf0\x3f",
        b"\x02\0\x01\x0c\0\x0a\0\x0b\xe8\x07\x02\x03\x0a\x0b\x0c\x40\x42\x0f\0\x04\xe8\x07\x02\x03",
        b"\x02\0\x01\x0b\0\xf6\0\x0c\x01\x02\0\0\0\x0a\x0b\x0c\x40\x42\x0f\0\x0512.50",
    ];
    let corpus = corpus.map(<[u8]>::to_vec);
    Fuzz::new(corpus).run("parameters", |bytes| match bytes.split_first() {
        Some((count, arguments)) => fuzz::parameters(arguments, u16::from(*count) % 20),
        None => false,
    });
}

/// A response to the greeting with everything that one can have.
fn response(capabilities: u32) -> Vec<u8> {
    let mut out = capabilities.to_le_bytes().to_vec();
    out.extend(0x0100_0000_u32.to_le_bytes());
    out.push(45);
    out.extend([0; 23]);
    out.extend(b"ann\0");
    out.push(20);
    out.extend([7; 20]);
    out.extend(b"tpch\0mysql_native_password\0");
    let attributes = b"\x03_os\x05Linux\x0c_client_name\x08libmysql";
    out.push(attributes.len() as u8);
    out.extend(attributes);
    out
}

#[test]
fn damaged_logins() {
    // Protocol 4.1, secure connection, database, method, attributes; with lengths of both forms.
    let corpus = [0x0018_8208, 0x0038_8208, 0x0008_8200].map(response);
    Fuzz::new(corpus).run("handshake responses", fuzz::handshake_response);
    let corpus: [&[u8]; 3] = [
        b"ann\0\x02xytpch\0\x2d\0mysql_native_password\0\x09\x03_os\x04BeOS",
        b"ann\0\x02xytpch\0",
        b"ann\0\0\0",
    ];
    let corpus = corpus.map(<[u8]>::to_vec);
    Fuzz::new(corpus).run("changes of user", fuzz::change_user);
}

#[test]
fn damaged_files() {
    let corpus: [&[u8]; 3] = [
        b"\x02\0\0\0ab\x01\0\0\x01c\0\0\0\x02",
        b"\0\0\0\0",
        b"\x05\0\0\x061|2|3\x06\0\0\x07\n4|5|6\0\0\0\x08",
    ];
    let corpus = corpus.map(<[u8]>::to_vec);
    Fuzz::new(corpus).run("files", |bytes| fuzz::file(bytes).is_some());
}
