//! The weights of `utf8mb4_general_ci` against MariaDB's.
#![allow(clippy::unwrap_used, reason = "tests")]

use perigee_testkit::MariaDb;
use perigee_value::collation::weight;

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
