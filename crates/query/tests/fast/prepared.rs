//! Prepared statements with random parameters of the right and of the wrong kinds.

use perigee_engine::scan::CancelToken;
use perigee_query::{Collector, Parameter, Parameters};

use super::{assert_same, fast_statements, fixture, ordinary, statements, told};
use perigee_testkit::Rng;

/// Statements, with parameters of the kinds `i`nteger and `t`ext.
const PREPARED: &[(&str, &str)] = &[
    ("SELECT c FROM a WHERE id = ?", "i"),
    ("SELECT c FROM a WHERE id BETWEEN ? AND ? ORDER BY id", "ii"),
    (
        "SELECT SUM(k), COUNT(*) FROM a WHERE id BETWEEN ? AND ?",
        "ii",
    ),
    ("SELECT c FROM a WHERE id BETWEEN ? AND ? ORDER BY c", "ii"),
    (
        "SELECT DISTINCT c FROM a WHERE id BETWEEN ? AND ? ORDER BY c",
        "ii",
    ),
    ("SELECT id, v FROM a WHERE v = ? AND ? = v", "tt"),
    ("SELECT id FROM a WHERE c = ?", "t"),
    (
        "SELECT id FROM a WHERE id > ? ORDER BY id LIMIT ?, ?",
        "iii",
    ),
    (
        "INSERT INTO a (id, k, u, c, s) VALUES (?, ?, ?, ?, 3)",
        "iiit",
    ),
    (
        "INSERT INTO numbered (id, v) VALUES (?, ?), (NULL, 'x')",
        "it",
    ),
    ("INSERT INTO numbered (v) VALUES (?)", "t"),
    ("UPDATE a SET k = k + ?, c = ? WHERE id = ?", "iti"),
    ("UPDATE a SET d = d - ?, v = ? WHERE id = ?", "iti"),
    ("DELETE FROM a WHERE id = ?", "i"),
];

fn parameter(rng: &mut Rng, kind: u8) -> Parameter {
    match (kind, rng.between(0, 15)) {
        (_, 0) => Parameter::NULL,
        (b'i', 1) => Parameter::text(b"7"),
        (b'i', 2) => Parameter::double(7.5).unwrap(),
        (b'i', 3) => Parameter::int(-3),
        (b'i', 4) => Parameter::unsigned(9),
        (b'i', 5) => Parameter::unsigned(u64::MAX),
        (b'i', _) => Parameter::int(rng.between(0, 40)),
        (_, 1) => Parameter::int(7),
        (_, 2) => Parameter::bytes(&[0xff]),
        (_, 3) => Parameter::bytes("é".as_bytes()),
        (_, 4..=6) => {
            let text = rng.choose(&["", "x", "x  ", "a'b\\"]);
            Parameter::text(text.as_bytes())
        }
        _ => Parameter::text(format!("c{:05}", rng.between(0, 40)).as_bytes()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_are_executed_as_the_ordinary_way_does() {
    let fixtures = [fixture().await, fixture().await];
    let mut sessions = [fixtures[0].session(), ordinary(&fixtures[1])];
    let cancel = CancelToken::new();
    let mut ids = [Vec::new(), Vec::new()];
    for ((fixture, session), ids) in fixtures.iter().zip(&mut sessions).zip(&mut ids) {
        let create = "USE test; CREATE TABLE numbered (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
            v VARCHAR(10))";
        fixture.run(session, create).await.unwrap();
        for (sql, _) in PREPARED {
            ids.push(session.prepare(sql, &cancel).await.unwrap().id);
        }
    }
    let mut rng = Rng(3);
    let count = statements();
    let before = fast_statements(&fixtures[0], &mut sessions[0]).await;
    for _ in 0..count {
        let number = rng.between(0, PREPARED.len() as i64 - 1) as usize;
        let (sql, kinds) = PREPARED[number];
        let mut parameters = Parameters::default();
        for kind in kinds.bytes() {
            parameters.push(parameter(&mut rng, kind));
        }
        let mut answers = Vec::new();
        for (session, ids) in sessions.iter_mut().zip(&ids) {
            let mut out = Collector::default();
            let run = session.execute_prepared(ids[number], &parameters, &mut out, &cancel);
            let answer = run.await.map(|()| out.results);
            answers.push(told(answer, sql.contains("ORDER BY")));
        }
        let expected = answers.pop().unwrap();
        let shown = format!("{sql} with {:?}", parameters.values());
        assert_same(&shown, answers.pop().unwrap(), expected);
    }
    let run = fast_statements(&fixtures[0], &mut sessions[0]).await - before;
    eprintln!("{run} of {count} executions were fast");
    let enough = run > count as u64 / 3;
    assert!(enough, "{run} of {count} executions were fast");
}
