//! The weights of collations against MariaDB's.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_testkit::MariaDb;
use perigee_value::Collation;
use perigee_value::collation::general_ci::weight;

#[test]
fn characters_have_mariadbs_weights() {
    let dir = tempfile::tempdir().unwrap();
    let server = MariaDb::start(dir.path(), &["--innodb-buffer-pool-size=32M"])
        .expect("MariaDB is needed for this test");
    // Surrogates are no characters.
    let sql = "SELECT seq, CONV(HEX(WEIGHT_STRING(CONVERT(CONVERT(UNHEX(LPAD(HEX(seq), 8, '0')) \
               USING utf32) USING utf8mb4) COLLATE utf8mb4_general_ci)), 16, 10) \
               FROM seq_0_to_131071 WHERE seq NOT BETWEEN 0xd800 AND 0xdfff";
    let answer = server.query("mysql", sql).unwrap();
    let mut characters = 0;
    for line in answer.lines() {
        let (code, theirs) = line.split_once('\t').unwrap();
        let char = char::from_u32(code.parse().unwrap()).unwrap();
        let theirs: u32 = theirs.parse().unwrap();
        assert_eq!(u32::from(weight(char)), theirs, "{char:?}");
        characters += 1;
    }
    assert_eq!(characters, 131_072 - 2048);
}

#[test]
fn characters_of_unicode_collations_have_mariadbs_order() {
    let dir = tempfile::tempdir().unwrap();
    let server = MariaDb::start(dir.path(), &["--innodb-buffer-pool-size=32M"])
        .expect("MariaDB is needed for this test");
    for collation in [
        Collation::UTF8MB4_UNICODE_CI,
        Collation::UTF8MB4_UNICODE_520_CI,
    ] {
        // Between two letters, so that what weighs as a space is no padding.
        let sql = format!(
            "SELECT seq, HEX(WEIGHT_STRING(CONCAT('x', CONVERT(CONVERT(UNHEX(LPAD(HEX(seq), 8, '0')) \
             USING utf32) USING utf8mb4), 'x') COLLATE {})) \
             FROM seq_0_to_1114111 WHERE seq NOT BETWEEN 0xd800 AND 0xdfff",
            collation.name()
        );
        let answer = server.query("mysql", &sql).unwrap();
        let mut characters: Vec<(&str, Vec<u8>, char)> = Vec::new();
        for line in answer.lines() {
            let (code, theirs) = line.split_once('\t').unwrap();
            let char = char::from_u32(code.parse().unwrap()).unwrap();
            let ours = collation.form(format!("x{char}x").as_bytes()).into_owned();
            characters.push((theirs, ours, char));
        }
        assert_eq!(characters.len(), 1_114_112 - 2048);
        characters.sort();
        for pair in characters.windows(2) {
            let [(a, x, one), (b, y, other)] = pair else {
                continue;
            };
            assert_eq!(a.cmp(b), x.cmp(y), "{collation:?} {one:?} {other:?}");
        }
    }
}

#[test]
fn bytes_of_latin1_have_mariadbs_weights() {
    let dir = tempfile::tempdir().unwrap();
    let server = MariaDb::start(dir.path(), &["--innodb-buffer-pool-size=32M"])
        .expect("MariaDB is needed for this test");
    for (collation, last) in [
        (Collation::LATIN1_SWEDISH_CI, 255),
        (Collation::LATIN1_GENERAL_CI, 255),
        (Collation::LATIN1_BIN, 255),
        (Collation::ASCII_GENERAL_CI, 127),
        (Collation::ASCII_BIN, 127),
    ] {
        let charset = collation.charset();
        let sql = format!(
            "SELECT seq, HEX(WEIGHT_STRING(CONVERT(UNHEX(LPAD(HEX(seq), 2, '0')) USING {}) COLLATE {})) \
             FROM seq_0_to_{last}",
            charset.name(),
            collation.name()
        );
        let answer = server.query("mysql", &sql).unwrap();
        let mut bytes = 0;
        for line in answer.lines() {
            let (byte, theirs) = line.split_once('\t').unwrap();
            let text = charset.text_of(&[byte.parse().unwrap()]).unwrap();
            // Behind it a letter, so that a space is no padding.
            let form = collation.form(format!("{text}x").as_bytes()).into_owned();
            let ours = String::from_utf8(form).unwrap().chars().next().unwrap();
            assert_eq!(
                format!("{:02X}", u32::from(ours)),
                theirs,
                "{collation:?} {text:?}"
            );
            bytes += 1;
        }
        assert_eq!(bytes, last + 1);
    }
}
