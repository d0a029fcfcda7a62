//! Temporary tables of several sessions beside each other, and what is left of them when a session ends, or the process.

use super::*;

/// How long pages of dropped trees may take to be freed.
const FREED: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_session_has_its_own() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, w INT)")
        .await;
    two.ok("CREATE TEMPORARY TABLE own (a INT PRIMARY KEY)")
        .await;
    one.ok("CREATE TEMPORARY TABLE own (b INT)").await;
    one.ok("INSERT INTO t VALUES (1, 1); INSERT INTO own VALUES (1), (2)")
        .await;
    two.ok("INSERT INTO own VALUES (1); UPDATE t SET b = 9 WHERE id = 1")
        .await;
    assert_eq!(
        two.rows("SELECT own.a, t.b FROM own JOIN t ON own.a = id")
            .await,
        "1|9"
    );
    assert_eq!(
        one.rows("SELECT w, SUM(own.b) FROM t JOIN own GROUP BY w")
            .await,
        "1|3"
    );
    // Neither lists nor definitions show those of others.
    assert_eq!(two.rows("SHOW TABLES").await, "t");
    assert_eq!(two.rows("SHOW DATABASES LIKE '%test%'").await, "test");
    one.ok("DROP TABLE own").await;
    assert_eq!(one.errno("SELECT * FROM own").await, 1146);
    assert_eq!(two.rows("SELECT COUNT(*) FROM own").await, "1");
}

/// The name that a temporary table has in the engine is none that a statement can say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_can_name_that_of_another_session() {
    let (fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("CREATE TEMPORARY TABLE own (a INT); INSERT INTO own VALUES (1)")
        .await;
    let engine = fixture.frontend.engine();
    let hidden: Vec<String> = (0..10)
        .map(|session| format!("\0{session}\0test"))
        .collect();
    let found = hidden
        .iter()
        .find(|schema| engine.table(schema, "own").is_ok());
    let schema = found.expect("it is the table of one of the sessions");
    for client in [&mut one, &mut two] {
        for sql in [
            "SELECT * FROM `{}`.own",
            "INSERT INTO `{}`.own VALUES (2)",
            "UPDATE `{}`.own SET a = 2",
            "DELETE FROM `{}`.own",
            "DROP TABLE `{}`.own",
            "TRUNCATE `{}`.own",
            "ALTER TABLE `{}`.own ADD b INT",
            "RENAME TABLE `{}`.own TO mine",
            "CREATE TABLE `{}`.other (a INT)",
            "CREATE TABLE mine LIKE `{}`.own",
            "CREATE DATABASE `{}`",
            "LOCK TABLES `{}`.own READ",
            "SHOW CREATE TABLE `{}`.own",
            "ANALYZE TABLE `{}`.own",
            "USE `{}`",
        ] {
            let sql = sql.replace("{}", schema);
            let outcome = client.run(&sql).await;
            // ANALYZE TABLE says in its rows what is wrong.
            let said = outcome.map(|results| rows_of(results.last().unwrap()).concat());
            assert!(said.is_err() || said.unwrap().contains("Unknown"), "{sql}");
        }
    }
    assert_eq!(one.rows("SELECT * FROM own").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_wait_for_nobody_and_nobody_for_them() {
    let (fixture, mut one, mut two) = pair("SERIALIZABLE").await;
    let mut three = Client(fixture.session());
    three.ok("USE test").await;
    two.ok("CREATE TEMPORARY TABLE early (a INT PRIMARY KEY)")
        .await;
    one.ok("FLUSH TABLES WITH READ LOCK").await;
    two.ok("CREATE TEMPORARY TABLE own (a INT); INSERT INTO own VALUES (1)")
        .await;
    two.ok("INSERT INTO early VALUES (1); ALTER TABLE early ADD b INT; TRUNCATE early")
        .await;
    two.ok("CREATE TEMPORARY TABLE copy AS SELECT * FROM t; DROP TABLE own, copy")
        .await;
    one.ok("CREATE TEMPORARY TABLE own (a INT); INSERT INTO own VALUES (1)")
        .await;
    let waiting = two.waits("INSERT INTO t VALUES (5, 5, 5)").await;
    one.ok("UNLOCK TABLES").await;
    let mut two = waiting.succeeds().await;
    // A transaction that has written to them keeps nobody waiting.
    two.ok("BEGIN; INSERT INTO early VALUES (1, 1)").await;
    one.ok("SET lock_wait_timeout = 5; FLUSH TABLES WITH READ LOCK; UNLOCK TABLES")
        .await;
    three.ok("SET lock_wait_timeout = 5; DROP TABLE t").await;
    assert_eq!(two.rows("SELECT COUNT(*) FROM early").await, "1");
}

/// A snapshot is older than tables that are made later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_sees_the_tables_that_it_makes() {
    for level in LEVELS {
        let (_fixture, mut one, mut two) = pair(level).await;
        one.ok("BEGIN").await;
        assert_eq!(one.rows("SELECT COUNT(*) FROM t WHERE id > 4").await, "0");
        if level != "SERIALIZABLE" {
            two.ok("INSERT INTO t VALUES (5, 50, 0)").await;
        }
        one.ok("CREATE TEMPORARY TABLE made (a INT PRIMARY KEY, b INT, KEY (b))")
            .await;
        one.ok("INSERT INTO made VALUES (1, 1), (2, 2); UPDATE made SET b = 5 WHERE a = 1")
            .await;
        assert_eq!(one.rows("SELECT a FROM made WHERE b = 5").await, "1");
        one.ok("CREATE TEMPORARY TABLE copy AS SELECT * FROM made")
            .await;
        assert_eq!(one.rows("SELECT SUM(a), SUM(b) FROM copy").await, "3|7");
        one.ok("COMMIT").await;
        assert_eq!(one.rows("SELECT SUM(a), SUM(b) FROM copy").await, "3|7");
    }
}

async fn settle(fixture: &Fixture) {
    let end = tokio::time::Instant::now() + FREED;
    while fixture.frontend.engine().is_reclaiming() {
        assert!(tokio::time::Instant::now() < end, "freeing does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_or_is_reset_leaves_none() {
    let (fixture, mut one, two) = pair("REPEATABLE READ").await;
    let memory = fixture.frontend.memory();
    let before = memory.used();
    let make =
        "CREATE TEMPORARY TABLE own (a INT PRIMARY KEY, KEY (a)); INSERT INTO own VALUES (1)";
    one.ok(make).await;
    assert!(memory.used() > before, "it is charged");
    one.ok("BEGIN; INSERT INTO own VALUES (2)").await;
    one.0.reset().await.unwrap();
    assert_eq!(memory.used(), before);
    assert_eq!(one.errno("SELECT * FROM own").await, 1146);
    one.ok(make).await;
    one.ok("BEGIN; INSERT INTO own VALUES (2)").await;
    drop(one);
    drop(two);
    settle(&fixture).await;
    assert_eq!(memory.used(), before);
    assert_eq!(fixture.frontend.engine().tables("test").len(), 1);
}

/// What a session may make is bounded by the memory that all share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_charged() {
    let (fixture, mut one, _two) = pair("REPEATABLE READ").await;
    let memory = fixture.frontend.memory().clone();
    let taken = memory.limit() - memory.used() - (8 << 20);
    memory.take(taken);
    let columns: Vec<String> = (0..200).map(|n| format!("c{n} INT COMMENT 'x'")).collect();
    let columns = columns.join(", ");
    let mut made = 0;
    let error = loop {
        let sql = format!("CREATE TEMPORARY TABLE many{made} ({columns})");
        match one.run(&sql).await {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 10_000, "nothing bounds them");
    };
    assert!(made > 10, "{made} tables fill the memory");
    assert!([1038, 3170].contains(&error.errno), "{error}");
    let used = memory.used();
    one.ok("DROP TABLE many0, many1, many2").await;
    assert!(memory.used() < used, "what is dropped is given back");
    memory.give_back(taken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_sessions_have_some_each() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut first = Client(fixture.session());
    first.ok("CREATE DATABASE test; USE test").await;
    first.ok("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let mut clients = Vec::new();
    for number in 0..1000 {
        let mut client = Client(fixture.session());
        client.ok("USE test").await;
        client
            .ok(&format!(
                "CREATE TEMPORARY TABLE a (id INT PRIMARY KEY, v INT); \
                 CREATE TEMPORARY TABLE b (id INT); \
                 INSERT INTO a VALUES (1, {number}); INSERT INTO b VALUES (1)"
            ))
            .await;
        clients.push(client);
    }
    for (number, client) in clients.iter_mut().enumerate().step_by(100) {
        let joined = client.rows("SELECT v FROM a JOIN b ON a.id = b.id").await;
        assert_eq!(joined, number.to_string());
    }
    first.ok("INSERT INTO t VALUES (1)").await;
    drop(clients);
    settle(&fixture).await;
    assert_eq!(first.rows("SHOW TABLES").await, "t");
}

/// Statements that were prepared, or whose shapes were seen, mean what their names mean when they run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_by_key_follow_their_names() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    let select = "SELECT a FROM t WHERE id = 1";
    for _ in 0..3 {
        assert_eq!(one.rows(select).await, "10");
    }
    one.ok("CREATE TEMPORARY TABLE t (id INT NOT NULL PRIMARY KEY, a INT, b INT)")
        .await;
    assert_eq!(one.rows(select).await, "");
    one.ok("INSERT INTO t VALUES (1, 77, 0)").await;
    one.ok("UPDATE t SET a = 78 WHERE id = 1").await;
    assert_eq!(one.rows(select).await, "78");
    assert_eq!(two.rows(select).await, "10");
    one.ok("DELETE FROM t WHERE id = 1; DROP TABLE t").await;
    assert_eq!(one.rows(select).await, "10");
    one.ok("CREATE TEMPORARY TABLE t (id INT NOT NULL PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 5)")
        .await;
    assert_eq!(one.rows(select).await, "5");
    one.ok("ALTER TABLE t RENAME TO u").await;
    assert_eq!(one.rows(select).await, "10");
    assert_eq!(one.rows("SELECT a FROM u WHERE id = 1").await, "5");
}
