//! Histories of simulated stores: each is accepted at its level, and refused once it is changed or the
//! store has a fault.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::time::Instant;

use perigee_history::{
    Element, History, Key, Level, Op, Outcome, Phenomenon, Session, Time, Transaction, check,
};
use proptest::prelude::*;

/// How a simulated store isolates transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    /// One after the other, each at some moment while it runs.
    Serial,
    /// A snapshot at the first operation; who writes what changed since is aborted.
    Snapshot,
    /// The same without that check; what it wrote it reads as of now, as InnoDB does by default.
    SnapshotLosingUpdates,
    /// A snapshot that every now and then is older than the beginning.
    SnapshotStale,
    /// Each operation reads what is committed; locks on what is written.
    ReadCommitted,
    /// Each operation reads what is written.
    ReadUncommitted,
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// A list: each element and when it was committed, and who writes it.
#[derive(Clone, Default)]
struct List {
    committed: Vec<(Element, u64)>,
    pending: Vec<(usize, Element)>,
}

/// A transaction that runs.
struct Running {
    record: Transaction,
    snapshot: Option<u64>,
    left: u64,
}

struct Simulation {
    store: Store,
    rng: Rng,
    clock: u64,
    commits: u64,
    next_element: u32,
    keys: u64,
    lists: Vec<List>,
    running: Vec<Option<Running>>,
    history: History,
}

impl Simulation {
    fn run(store: Store, seed: u64, sessions: usize, transactions: usize, keys: u64) -> History {
        let mut simulation = Self {
            store,
            rng: Rng(seed),
            clock: 0,
            commits: 0,
            next_element: 0,
            keys,
            lists: Vec::new(),
            running: (0..sessions).map(|_| None).collect(),
            history: History::default(),
        };
        while simulation.history.transactions.len() < transactions {
            simulation.step();
        }
        simulation.history
    }

    /// One session does one thing.
    fn step(&mut self) {
        self.clock += 1;
        let session = self.rng.below(self.running.len() as u64) as usize;
        let Some(mut running) = self.running[session].take() else {
            self.running[session] = Some(Running {
                record: Transaction {
                    session: Session(session as u32),
                    begin: Time(self.clock),
                    end: Time(0),
                    outcome: Outcome::Committed,
                    ops: Vec::new(),
                },
                snapshot: None,
                left: 1 + self.rng.below(4),
            });
            return;
        };
        let mut alive = true;
        while running.left > 0 && alive {
            running.left -= 1;
            alive = self.operation(session, &mut running);
            if self.store != Store::Serial && alive {
                self.running[session] = Some(running);
                return;
            }
        }
        self.end(session, running.record, alive);
    }

    /// The list that a step works on: a window of few lists moves on, so that lists stay short.
    fn key(&mut self) -> usize {
        let first = u64::from(self.next_element) / 20;
        let key = (first + self.rng.below(self.keys)) as usize;
        if self.lists.len() <= key {
            self.lists.resize(key + 1, List::default());
        }
        key
    }

    /// Reads or appends; false if the transaction is aborted instead.
    fn operation(&mut self, session: usize, running: &mut Running) -> bool {
        let key = self.key();
        let (stale, now) = (self.store == Store::SnapshotStale, self.commits);
        let back = if stale && self.rng.below(10) == 0 {
            3
        } else {
            0
        };
        let snapshot = *running.snapshot.get_or_insert(now.saturating_sub(back));
        let list = &mut self.lists[key];
        let wrote = list.pending.iter().any(|(by, _)| *by == session);
        let limit = match self.store {
            Store::Snapshot | Store::SnapshotStale => snapshot,
            Store::SnapshotLosingUpdates if !wrote => snapshot,
            _ => now,
        };
        if self.rng.below(2) == 0 {
            let dirty = self.store == Store::ReadUncommitted;
            let committed = list.committed.iter().filter(|(_, at)| *at <= limit);
            let pending = list
                .pending
                .iter()
                .filter(|(by, _)| *by == session || dirty);
            let seen = committed.map(|(e, _)| *e).chain(pending.map(|(_, e)| *e));
            let key = Key(key as u32);
            running.record.ops.push(Op::Read(key, seen.collect()));
            return true;
        }
        let checks = self.store != Store::SnapshotLosingUpdates;
        let locked = list.pending.iter().any(|(by, _)| *by != session);
        let changed = list.committed.last().is_some_and(|(_, at)| *at > limit);
        if locked || (checks && changed) {
            return false;
        }
        let element = Element(self.next_element);
        self.next_element += 1;
        list.pending.push((session, element));
        let key = Key(key as u32);
        running.record.ops.push(Op::Append(key, element));
        true
    }

    fn end(&mut self, session: usize, mut record: Transaction, alive: bool) {
        let commits = alive && self.rng.below(20) > 0;
        self.commits += u64::from(commits);
        let mut keys: Vec<_> = record
            .ops
            .iter()
            .map(|op| match op {
                Op::Append(key, _) | Op::Read(key, _) => key.0 as usize,
            })
            .collect();
        keys.dedup();
        for key in keys {
            let list = &mut self.lists[key];
            let (own, others): (Vec<_>, Vec<_>) =
                list.pending.drain(..).partition(|(by, _)| *by == session);
            list.pending = others;
            if commits {
                let now = self.commits;
                list.committed
                    .extend(own.into_iter().map(|(_, e)| (e, now)));
            }
        }
        record.outcome = match (commits, self.rng.below(30)) {
            (_, 0) => Outcome::Unknown,
            (true, _) => Outcome::Committed,
            (false, _) => Outcome::Aborted,
        };
        record.end = Time(self.clock);
        self.history.transactions.push(record);
    }
}

fn small(store: Store, seed: u64) -> History {
    Simulation::run(store, seed, 8, 400, 4)
}

fn assert_satisfies(store: Store, seed: u64, level: Level) {
    let report = check(&small(store, seed));
    let anomaly = report.forbidden(level).next().map(ToString::to_string);
    assert_eq!(anomaly, None, "{store:?}, seed {seed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn stores_satisfy_their_levels(seed in any::<u64>()) {
        assert_satisfies(Store::Serial, seed, Level::Serializable);
        assert_satisfies(Store::Snapshot, seed, Level::SnapshotIsolation);
        assert_satisfies(Store::ReadCommitted, seed, Level::ReadCommitted);
    }

    #[test]
    fn an_abort_of_what_was_read_is_found(seed in any::<u64>()) {
        let mut history = small(Store::Serial, seed);
        let seen = committed_reads(&history)
            .find_map(|(reader, _, list)| Some((reader, *list.last()?)));
        let (reader, element) = seen.unwrap();
        let writes = |t: &Transaction| t.ops.iter().any(|op| {
            matches!(op, Op::Append(_, e) if *e == element)
        });
        let writer = history.transactions.iter().position(writes).unwrap();
        prop_assume!(writer != reader);
        history.transactions[writer].outcome = Outcome::Aborted;
        prop_assert!(check(&history).count(Phenomenon::G1a) > 0);
    }

    #[test]
    fn a_changed_read_is_found(seed in any::<u64>(), change in 0..3, pick in any::<usize>()) {
        let mut history = small(Store::Serial, seed);
        // Reads of at least two elements that another read has too.
        let reads: Vec<_> = committed_reads(&history).map(|(t, op, l)| (t, op, l.to_vec())).collect();
        let fit: Vec<_> = reads.iter().filter(|(t, _, list)| {
            list.len() > 1 && reads.iter().any(|(o, _, l)| o != t && l.starts_with(list))
        }).collect();
        prop_assume!(!fit.is_empty());
        let (txn, op, list) = fit[pick % fit.len()];
        let mut list = list.clone();
        let expected = match change {
            0 => {
                list.swap(0, 1);
                Phenomenon::IncompatibleOrder
            }
            1 => {
                list.push(list[0]);
                Phenomenon::DuplicateElement
            }
            _ => {
                list.push(Element(u32::MAX));
                Phenomenon::Garbage
            }
        };
        replace(&mut history, *txn, *op, list);
        prop_assert!(check(&history).count(expected) > 0);
    }

    #[test]
    fn a_forgotten_commit_is_found(seed in any::<u64>(), pick in any::<usize>()) {
        let mut history = small(Store::Serial, seed);
        let reads: Vec<_> = committed_reads(&history).filter(|(txn, _, list)| {
            let begin = history.transactions[*txn].begin;
            list.last().is_some_and(|last| history.transactions.iter().any(|t| {
                t.end < begin && t.outcome == Outcome::Committed
                    && t.ops.iter().any(|op| matches!(op, Op::Append(_, e) if e == last))
            }))
        }).map(|(t, op, l)| (t, op, l.to_vec())).collect();
        prop_assume!(!reads.is_empty());
        let (txn, op, mut list) = reads[pick % reads.len()].clone();
        list.pop();
        replace(&mut history, txn, op, list);
        prop_assert!(check(&history).count(Phenomenon::StaleRead) > 0);
    }
}

/// Reads of transactions whose commit was acknowledged: transaction, operation, list.
fn committed_reads(history: &History) -> impl Iterator<Item = (usize, usize, &[Element])> {
    let committed = |t: &&Transaction| t.outcome == Outcome::Committed;
    let all = history.transactions.iter().enumerate();
    all.filter(move |(_, t)| committed(t))
        .flat_map(|(number, t)| {
            t.ops
                .iter()
                .enumerate()
                .filter_map(move |(at, op)| match op {
                    Op::Read(_, list) => Some((number, at, &**list)),
                    Op::Append(..) => None,
                })
        })
}

fn replace(history: &mut History, txn: usize, op: usize, with: Vec<Element>) {
    match &mut history.transactions[txn].ops[op] {
        Op::Read(_, list) => *list = with.into(),
        Op::Append(..) => unreachable!(),
    }
}

/// What the weaker stores permit and the faulty ones do is found in every long enough history.
#[test]
fn weak_and_faulty_stores_are_found_out() {
    for (store, weakest, phenomena) in [
        (
            Store::Snapshot,
            Level::Serializable,
            &[Phenomenon::G2Item][..],
        ),
        (
            Store::SnapshotLosingUpdates,
            Level::SnapshotIsolation,
            &[Phenomenon::LostUpdate, Phenomenon::GSingle],
        ),
        (
            Store::ReadCommitted,
            Level::SnapshotIsolation,
            &[
                Phenomenon::FuzzyRead,
                Phenomenon::LostUpdate,
                Phenomenon::GSingle,
            ],
        ),
        (
            Store::SnapshotStale,
            Level::ReadCommitted,
            &[Phenomenon::StaleRead],
        ),
        (
            Store::ReadUncommitted,
            Level::ReadCommitted,
            &[Phenomenon::G1a, Phenomenon::G1b, Phenomenon::G1c],
        ),
    ] {
        let report = check(&Simulation::run(store, 7, 16, 5000, 4));
        for level in Level::ALL {
            assert_eq!(
                report.satisfies(level),
                level < weakest,
                "{store:?} {:?}",
                report.counts()
            );
        }
        for phenomenon in phenomena {
            assert!(
                report.count(*phenomenon) > 0,
                "{store:?} hides {phenomenon}"
            );
        }
    }
}

/// Time grows with the length: a history of a hundred times as many transactions, whose components of
/// the graph are as long as itself, takes far less than a thousand times as long.
#[test]
fn long_histories_take_time_in_proportion() {
    let seconds = |transactions| {
        let history = Simulation::run(Store::ReadCommitted, 3, 16, transactions, 6);
        let begin = Instant::now();
        let report = check(&history);
        assert!(report.satisfies(Level::ReadCommitted));
        assert!(report.count(Phenomenon::GSingle) > 0);
        begin.elapsed().as_secs_f64()
    };
    let (short, long) = (seconds(1_000), seconds(100_000));
    assert!(
        long < 1_000.0 * short.max(0.001),
        "{short} s, then {long} s"
    );
}
