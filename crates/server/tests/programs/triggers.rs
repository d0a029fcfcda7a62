//! Random triggers of all kinds, and random statements that fire them.

use perigee_testkit::Rng;

use super::writer::Writer;
use super::{Both, SHOWN, number, outcome, shown};

/// A trigger of table `e`, and its name.
fn trigger(rng: &mut Rng, number: usize) -> (String, String) {
    let event = *rng.choose(&["INSERT", "UPDATE", "DELETE"]);
    let timing = *rng.choose(&["BEFORE", "AFTER"]);
    let (row, own): (&[&str], _) = match event {
        "INSERT" => (&["NEW.v", "NEW.k"], "NEW.v"),
        "UPDATE" => (&["NEW.v", "OLD.v", "OLD.k"], "OLD.v"),
        _ => (&["OLD.v", "OLD.k"], "OLD.v"),
    };
    let mut writer = Writer {
        rng,
        text: String::new(),
        labels: Vec::new(),
        last: 0,
        integers: 2,
        row,
        changes_row: timing == "BEFORE" && event != "DELETE",
    };
    writer.log(&format!("{timing} {event}"));
    writer.steps(1);
    let handler = match writer.rng.chance(3) {
        true => "",
        false => {
            "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION INSERT INTO log (what) VALUES ('at last');\n"
        }
    };
    let name = format!("r{number}");
    let text = format!(
        "CREATE TRIGGER {name} {timing} {event} ON e FOR EACH ROW\nBEGIN\nDECLARE i0 INT DEFAULT 1;\n\
         DECLARE i1 SMALLINT;\nDECLARE p INT DEFAULT {own};\nDECLARE t VARCHAR(12) DEFAULT 'x';\n{handler}{}END",
        writer.text
    );
    (name, text)
}

/// A statement that changes rows of `e`, or of `d`, whose trigger only writes to `log`.
fn statement(rng: &mut Rng) -> String {
    let (k, v) = (rng.between(1, 9), rng.between(-5, 90));
    let other = rng.between(1, 12);
    match rng.between(0, 11) {
        0 | 1 => format!("INSERT INTO e VALUES ({k}, {v}, 'a'), ({other}, NULL, 'b')"),
        2 => format!("INSERT IGNORE INTO e VALUES ({k}, {v}, 'a'), ({other}, 3, NULL)"),
        3 => format!("REPLACE INTO e VALUES ({k}, {v}, 'r')"),
        4 => format!(
            "INSERT INTO e VALUES ({k}, {v}, 'a'), ({other}, 4, 'd') ON DUPLICATE KEY UPDATE v = v + VALUES(v), s = 'up'"
        ),
        5 => "INSERT INTO e SELECT k + 20, n, 'q' FROM few".to_owned(),
        6 | 7 => format!("UPDATE e SET v = v + {v}, s = 'u' WHERE k <= {k} ORDER BY k"),
        8 => format!("UPDATE e JOIN few ON few.k = e.k SET e.v = few.n WHERE e.k <> {k}"),
        9 => format!("DELETE FROM e WHERE k >= {k} ORDER BY k LIMIT 3"),
        10 => format!("DELETE e FROM e JOIN few USING (k) WHERE e.k < {k}"),
        _ => format!("UPDATE d SET v = {v} WHERE k <= {k} ORDER BY k"),
    }
}

const TABLES: [&str; 4] = [
    "CREATE TABLE e (k INT PRIMARY KEY, v INT, s VARCHAR(12), KEY (v))",
    "CREATE TABLE few (k INT PRIMARY KEY, n INT)",
    "INSERT INTO few VALUES (1, 5), (3, NULL), (4, 70)",
    "CREATE TRIGGER of_d AFTER UPDATE ON d FOR EACH ROW INSERT INTO log (what, v, t) VALUES ('d', OLD.v, NEW.v)",
];

const FILL: [&str; 6] = [
    "DELETE FROM d",
    "DELETE FROM e",
    "TRUNCATE TABLE log",
    "INSERT INTO d VALUES (1, 10, 'one'), (2, NULL, 'two'), (5, 50, NULL), (9, -4, 'nine 9')",
    "INSERT INTO e VALUES (1, 1, 'one'), (3, NULL, 'three'), (4, 40, NULL), (8, -8, 'eight')",
    "SET @u = NULL",
];

const LEFT: [&str; 4] = [
    "SELECT what, v, t FROM log ORDER BY n",
    "SELECT * FROM d ORDER BY k",
    "SELECT * FROM e ORDER BY k",
    "SELECT @u",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_triggers_do_what_mariadbs_do() {
    let dir = tempfile::tempdir().unwrap();
    let mut both = Both::start(dir.path()).await;
    for sql in TABLES {
        both.run(sql).await;
    }
    let (count, seed) = (number("PERIGEE_PROGRAMS", 60), number("PERIGEE_SEED", 1));
    let mut rng = Rng(seed as u64 | 1);
    let (mut wrong, mut failed, mut statements) = (Vec::new(), 0, 0);
    for _ in 0..count {
        for sql in FILL {
            both.run(sql).await;
        }
        let triggers: Vec<_> = (0..rng.between(1, 4) as usize)
            .map(|number| trigger(&mut rng, number))
            .collect();
        for (_, text) in &triggers {
            both.run(text).await;
        }
        let mut run = Vec::new();
        for _ in 0..6 {
            statements += 1;
            let sql = statement(&mut rng);
            let expected = outcome(&mut both.theirs, &sql).await;
            let found = outcome(&mut both.ours, &sql).await;
            run.push(sql);
            failed += usize::from(expected.is_err());
            let (expected_left, found_left) = (
                shown(&mut both.theirs, &LEFT).await,
                shown(&mut both.ours, &LEFT).await,
            );
            if (expected, &expected_left) != (found, &found_left) {
                let texts: Vec<_> = triggers.iter().map(|(_, text)| text.as_str()).collect();
                wrong.push(format!(
                    "{}\n{}\nhere {found:?}\n{found_left}\nthere {expected:?}\n{expected_left}",
                    texts.join(";\n"),
                    run.join(";\n")
                ));
                break;
            }
        }
        for (name, _) in &triggers {
            both.run(&format!("DROP TRIGGER {name}")).await;
        }
    }
    println!(
        "{statements} statements, {failed} of which fail; {} differ",
        wrong.len()
    );
    for text in wrong.iter().take(SHOWN) {
        println!("\n{text}");
    }
    both.server.stop().unwrap();
    assert!(wrong.is_empty(), "{} outcomes differ", wrong.len());
    assert!(failed * 2 < statements, "most statements succeed");
}
