//! Random statements that change rows, in transactions, against MariaDB: the same numbers of affected
//! rows, the same errors, and the same answers to SELECTs between them, with near-data processing off
//! and on, over stores that return every record whole, decline pages and interpret.
//!
//! `PERIGEE_CHANGES` sets the number of statements, `PERIGEE_SEED` the first seed. What differs by
//! decision is in `docs/testing.md`; the generator leaves it out.
#![allow(clippy::unwrap_used, reason = "test code")]

mod statements {
    #![allow(dead_code, reason = "shared; no test uses all of it")]
    pub mod changes;
    pub mod compare;
    pub mod expressions;
    pub mod extremes;
    pub mod joined_changes;
    pub mod joins;
    pub mod queries;
    pub mod ranges;
    pub mod tables;
    pub mod windows;
}

use std::path::Path;

use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded, Rows, WorkloadError};
use statements::changes::{On, change, create_c, create_l, create_u, everything};
use statements::compare::{
    errno, is_cut, is_no_time, is_rounded_key, is_rounded_sum, is_year_of_branch, keys,
    mariadb_client, normal, number_of, shown,
};
use statements::queries::{Compared, Order, Query, query};
use statements::tables;

/// Statements over one set of tables.
const PER_SCHEMA: usize = 100;

/// All tables.
const ALL: [On; 5] = [On::T, On::S, On::U, On::L, On::C];

/// Differences that are shown.
const SHOWN: usize = 25;

/// MySQL's error for a column that does not depend on the groups, which MariaDB raises more often.
const NOT_GROUPED: u16 = 1055;

/// Connections that run the same statements: of one server, one for each session.
struct Side {
    sessions: Vec<Client>,
    /// Whether queries run with NDP off and on.
    is_ours: bool,
}

impl Side {
    /// Runs a query in each mode.
    async fn answers(&mut self, session: usize, sql: &str) -> Vec<Result<Rows, WorkloadError>> {
        let client = &mut self.sessions[session];
        if !self.is_ours {
            return vec![client.query(sql).await];
        }
        let mut answers = Vec::new();
        for mode in ["OFF", "ON"] {
            client
                .execute(&format!("SET ndp_mode = {mode}"))
                .await
                .unwrap();
            answers.push(client.query(sql).await);
        }
        answers
    }
}

/// A query without FORCE INDEX: MariaDB does not have all of the keys.
fn unforced(sql: &str) -> String {
    match sql.split_once(" FORCE INDEX (") {
        Some((before, rest)) => {
            let behind = rest.split_once(')').map_or("", |(_, behind)| behind);
            format!("{before}{behind}")
        }
        None => sql.to_owned(),
    }
}

/// MySQL's errors for a NULL in a column that has none, and for a value that was cut.
const BAD_NULL: u16 = 1048;
const TRUNCATED: u16 = 1265;

/// MySQL's error for a row that a view WITH CHECK OPTION does not show.
const CHECK_OPTION: u16 = 1369;

struct Contest {
    sides: Vec<Side>,
    /// What was done since the tables were made, for a person who looks for the cause.
    log: Vec<String>,
    equal: usize,
    errors: usize,
    wrong: Vec<String>,
    /// MariaDB refused what it should not have: the tables are not the same any more.
    parted: bool,
    /// Views stand in the places of the tables, and have no keys.
    has_views: bool,
}

impl Contest {
    /// Runs a statement everywhere: affected rows and errors are the same.
    async fn run(&mut self, session: usize, sql: &str) {
        self.log.push(format!("{session}: {sql}"));
        let mut outcomes = Vec::new();
        for side in &mut self.sides {
            let outcome = side.sessions[session].execute(sql).await;
            outcomes.push(outcome.map_err(|e| errno(&e)));
        }
        let theirs = outcomes[0];
        self.errors += usize::from(theirs.is_err());
        for (side, ours) in outcomes.iter().enumerate().skip(1) {
            // What MariaDB says of a NULL that INSERT … SELECT has for a column without NULLs.
            let is_null = (*ours, theirs) == (Err(BAD_NULL), Err(TRUNCATED));
            // So it says of one row for a view in spite of IGNORE, and sometimes of a row that joins change in other
            // columns than those that the view looks at.
            let checked = ours.is_ok() && theirs == Err(CHECK_OPTION);
            if checked && sql.starts_with("INSERT IGNORE") {
                continue;
            }
            // It counts a row that is set to the NULLs that it has.
            let counted = match (*ours, theirs) {
                (Ok(ours), Ok(theirs)) => ours < theirs && theirs - ours <= 3,
                _ => false,
            };
            if counted && sql.contains("ON DUPLICATE KEY UPDATE note = CONCAT(") {
                continue;
            }
            if checked && sql.contains(" JOIN ") {
                self.parted = true;
            } else if *ours == theirs || is_null {
                self.equal += 1;
            } else {
                self.differs(format!("side {side}: here {ours:?}, there {theirs:?}"));
            }
        }
    }

    /// Compares the answers to a query, in all modes.
    async fn compare(&mut self, session: usize, query: &Query) {
        // A new table ends the transaction.
        if query.made.is_some() || self.parted {
            return;
        }
        let sql = match self.has_views {
            true => query.sql.clone(),
            false => unforced(&query.sql),
        };
        let theirs = self.sides[0].answers(session, &sql).await.remove(0);
        if theirs.as_ref().is_err_and(|e| errno(e) == NOT_GROUPED) {
            return;
        }
        for side in 1..self.sides.len() {
            for (mode, ours) in self.sides[side]
                .answers(session, &query.sql)
                .await
                .iter()
                .enumerate()
            {
                match difference(query, ours, &theirs) {
                    None => self.equal += 1,
                    Some(_)
                        if is_cut(query, ours, &theirs)
                            || is_year_of_branch(query, ours, &theirs)
                            || is_rounded_sum(query, ours, &theirs)
                            || is_rounded_key(query, ours, &theirs)
                            || is_no_time(query, ours, &theirs) => {}
                    Some(what) => {
                        let sql = &query.sql;
                        self.differs(format!(
                            "side {side}, NDP mode {mode}: {session}: {sql}\n{what}"
                        ));
                    }
                }
            }
        }
    }

    /// Compares all tables, through all keys.
    async fn compare_everything(&mut self, session: usize, tables: &[On]) {
        for sql in everything(tables) {
            let query = Query {
                sql: sql.to_owned(),
                columns: vec![Compared::Exactly; 30],
                order: Order::Rows,
                made: None,
            };
            self.compare(session, &query).await;
        }
    }

    fn differs(&mut self, what: String) {
        let first = self.log.first().cloned().unwrap_or_default();
        let last: Vec<_> = self.log.iter().rev().take(12).rev().cloned().collect();
        self.wrong
            .push(format!("{first}\n{}\n  {what}", last.join("\n")));
    }

    fn check(&self) {
        let (equal, errors) = (self.equal, self.errors);
        println!(
            "{equal} outcomes equal, {errors} statements fail, {} wrong",
            self.wrong.len()
        );
        for text in self.wrong.iter().take(SHOWN) {
            println!("\n{text}");
        }
        assert!(
            self.wrong.is_empty(),
            "{} outcomes differ",
            self.wrong.len()
        );
        assert!(self.equal > 10 * self.errors, "most statements succeed");
    }
}

fn difference(
    query: &Query,
    ours: &Result<Rows, WorkloadError>,
    theirs: &Result<Rows, WorkloadError>,
) -> Option<String> {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            let (mine, yours) = (normal(ours, query), normal(theirs, query));
            let same = mine == yours && keys(ours, query) == keys(theirs, query);
            let only = |rows: &Rows, others: &Rows| {
                let rows: Rows = rows
                    .iter()
                    .filter(|r| !others.contains(r))
                    .cloned()
                    .collect();
                shown(&rows)
            };
            let at = mine
                .iter()
                .zip(&yours)
                .position(|(mine, yours)| mine != yours);
            let around = |rows: &Rows| {
                let from = at.unwrap_or(0).saturating_sub(1);
                let rows: Rows = rows.iter().skip(from).take(6).cloned().collect();
                shown(&rows)
            };
            (!same).then(|| {
                format!(
                    "from the first difference on, here:\n{}there:\n{}only here:\n{}only there:\n{}",
                    around(&mine),
                    around(&yours),
                    only(&mine, &yours),
                    only(&yours, &mine)
                )
            })
        }
        (Err(ours), Err(theirs)) if errno(ours) == errno(theirs) => None,
        (ours, theirs) => {
            let text = |answer: &Result<Rows, WorkloadError>| match answer {
                Ok(rows) => format!("{} rows", rows.len()),
                Err(error) => error.to_string(),
            };
            Some(format!("here {}, there {}", text(ours), text(theirs)))
        }
    }
}

/// MariaDB and two servers of ours, with so many sessions each.
struct Servers {
    _mariadb: MariaDb,
    ours: [Embedded; 2],
}

impl Servers {
    fn start(dir: &Path) -> Self {
        let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
        let hostile = ["--all-ambiguous", "--decline-every", "3", "--interpret"];
        let hostile = hostile.map(str::to_owned);
        let args = [
            "--innodb-buffer-pool-size=32M",
            "--innodb-snapshot-isolation=ON",
        ];
        Self {
            _mariadb: MariaDb::start(&dir.join("mariadb"), &args).unwrap(),
            ours: [
                Embedded::start(&binary, &dir.join("plain"), &[]).unwrap(),
                Embedded::start(&binary, &dir.join("hostile"), &hostile).unwrap(),
            ],
        }
    }

    async fn contest(&self, sessions: usize) -> Contest {
        let mut sides = vec![Side {
            sessions: Vec::new(),
            is_ours: false,
        }];
        for _ in 0..sessions {
            sides[0].sessions.push(mariadb_client(&self._mariadb).await);
        }
        for server in &self.ours {
            let mut clients = Vec::new();
            for _ in 0..sessions {
                let mut client = server.client(None).await.unwrap();
                client.execute("SET ndp_min_pages = 0").await.unwrap();
                clients.push(client);
            }
            sides.push(Side {
                sessions: clients,
                is_ours: true,
            });
        }
        Contest {
            sides,
            log: Vec::new(),
            equal: 0,
            errors: 0,
            wrong: Vec::new(),
            parted: false,
            has_views: false,
        }
    }
}

/// What kind of tables are made.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    Lasting,
    Temporary,
}

/// Makes the tables, in the first session, and uses their schema in all.
async fn make_tables(
    contest: &mut Contest,
    rng: &mut Rng,
    (schema, made): (&str, Made),
    sessions: usize,
) {
    contest.log.clear();
    (contest.parted, contest.has_views) = (false, false);
    let mut statements = tables::create(rng, schema);
    statements.extend([create_u(), create_l(), create_c()]);
    for mut statement in statements {
        if made == Made::Temporary {
            statement = statement.replacen("CREATE TABLE ", "CREATE TEMPORARY TABLE ", 1);
        }
        contest.run(0, &statement).await;
    }
    // MariaDB misses rows by prefixes of compared texts.
    for sql in [
        "ALTER TABLE t DROP KEY v2, DROP KEY w1, DROP KEY c2, DROP KEY ci3, DROP KEY cc2",
        "ALTER TABLE s DROP KEY name1",
        "ALTER TABLE c DROP KEY words",
    ] {
        let theirs = &mut contest.sides[0].sessions[0];
        theirs.execute(sql).await.unwrap();
    }
    for session in 1..sessions {
        contest.run(session, &format!("USE {schema}")).await;
    }
}

/// Puts views in the places of the tables, under their names.
async fn put_views(contest: &mut Contest) {
    contest.has_views = true;
    for (table, rest) in [
        ("t", "WHERE id < 350 WITH CHECK OPTION"),
        ("s", "WHERE l > 0"),
        ("u", "WHERE g <> 3 WITH LOCAL CHECK OPTION"),
        ("l", ""),
        ("c", ""),
    ] {
        let rename = format!("RENAME TABLE {table} TO base_of_{table}");
        contest.run(0, &rename).await;
        let view = format!("CREATE VIEW {table} AS SELECT * FROM base_of_{table} {rest}");
        contest.run(0, &view).await;
    }
}

/// What a session does beside changes and queries.
fn control(rng: &mut Rng) -> &'static str {
    rng.choose::<&str>(&[
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT a",
        "SAVEPOINT b",
        "ROLLBACK TO SAVEPOINT a",
        "ROLLBACK TO SAVEPOINT b",
        "RELEASE SAVEPOINT a",
        "SET autocommit = 0",
        "SET autocommit = 1",
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_changes_have_mariadbs_outcomes() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Servers::start(dir.path());
    let mut contest = servers.contest(1).await;
    let (count, seed) = (
        number_of("PERIGEE_CHANGES", 300),
        number_of("PERIGEE_SEED", 1),
    );
    let all = [On::T, On::T, On::S, On::U, On::L, On::L, On::C, On::C];
    for schema in seed..seed + count.div_ceil(PER_SCHEMA) {
        let mut rng = Rng(schema as u64);
        let made = match schema % 3 {
            1 => Made::Temporary,
            _ => Made::Lasting,
        };
        let name = format!("one{schema}");
        make_tables(&mut contest, &mut rng, (&name, made), 1).await;
        if schema % 3 == 0 {
            put_views(&mut contest).await;
        }
        for _ in 0..PER_SCHEMA {
            if contest.parted {
                break;
            }
            match rng.between(0, 9) {
                0..=6 => contest.run(0, &change(&mut rng, &all)).await,
                7 => contest.run(0, control(&mut rng)).await,
                _ => contest.compare(0, &query(&mut rng)).await,
            }
        }
        contest.compare_everything(0, &ALL).await;
        contest.run(0, "ROLLBACK").await;
        contest.run(0, "SET autocommit = 1").await;
        contest.compare_everything(0, &ALL).await;
    }
    contest.check();
}

/// Two sessions, one of which writes `t`, the other one `s`, `u` and `c`: what each sees of the other is
/// MariaDB's, at each level that does not lock what is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sessions_see_of_each_other_what_mariadbs_see() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Servers::start(dir.path());
    let mut contest = servers.contest(2).await;
    let (count, seed) = (
        number_of("PERIGEE_CHANGES", 300),
        number_of("PERIGEE_SEED", 1),
    );
    for schema in seed..seed + count.div_ceil(PER_SCHEMA) {
        let mut rng = Rng(1_000_000 + schema as u64);
        let name = format!("two{schema}");
        make_tables(&mut contest, &mut rng, (&name, Made::Lasting), 2).await;
        let mut begin = ["BEGIN"; 2];
        for (session, begin) in begin.iter_mut().enumerate() {
            let level = *rng.choose(&["READ COMMITTED", "REPEATABLE READ"]);
            // A change makes the snapshot here, in InnoDB only a SELECT does.
            if level == "REPEATABLE READ" {
                *begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
            }
            let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
            contest.run(session, &set).await;
        }
        for _ in 0..PER_SCHEMA {
            let session = rng.between(0, 1) as usize;
            let own: &[On] = [&[On::T, On::L][..], &[On::S, On::U, On::C]][session];
            match rng.between(0, 9) {
                0..=3 => contest.run(session, &change(&mut rng, own)).await,
                4 => {
                    contest
                        .run(
                            session,
                            rng.choose::<&str>(&[begin[session], "COMMIT", "COMMIT", "ROLLBACK"]),
                        )
                        .await
                }
                5 => contest.compare_everything(session, &ALL).await,
                _ => contest.compare(session, &query(&mut rng)).await,
            }
        }
        for session in 0..2 {
            contest.run(session, "COMMIT").await;
        }
        contest.compare_everything(0, &ALL).await;
    }
    contest.check();
}
