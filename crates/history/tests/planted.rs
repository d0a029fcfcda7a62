//! A planted anomaly for each phenomenon, which is found, beside a twin that differs as little as
//! possible, in which nothing is found.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::ops::Range;

use perigee_history::{
    Element, History, Key, Level, Op, Outcome, Phenomenon, Report, Session, Time, Transaction,
    check,
};

fn append(key: u32, element: u32) -> Op {
    Op::Append(Key(key), Element(element))
}

fn read(key: u32, list: &[u32]) -> Op {
    Op::Read(Key(key), list.iter().copied().map(Element).collect())
}

/// A committed transaction of a session of its own, which ran at this time.
fn at(time: Range<u64>, ops: &[Op]) -> Transaction {
    Transaction {
        session: Session(u32::MAX),
        begin: Time(time.start),
        end: Time(time.end),
        outcome: Outcome::Committed,
        ops: ops.to_vec(),
    }
}

/// One that is concurrent with all others.
fn txn(ops: &[Op]) -> Transaction {
    at(0..1000, ops)
}

fn ended(outcome: Outcome, ops: &[Op]) -> Transaction {
    Transaction {
        outcome,
        ..txn(ops)
    }
}

fn checked(transactions: &[Transaction]) -> Report {
    let mut transactions = transactions.to_vec();
    for (number, transaction) in transactions.iter_mut().enumerate() {
        if transaction.session == Session(u32::MAX) {
            transaction.session = Session(number as u32);
        }
    }
    check(&History { transactions })
}

/// The history shows the phenomenon, so every level that forbids it is refused and, if nothing else is
/// found, no weaker one. The twin shows nothing at all.
fn planted(phenomenon: Phenomenon, history: &[Transaction], twin: &[Transaction]) -> Report {
    let report = checked(history);
    assert!(report.count(phenomenon) > 0, "{phenomenon} is not found");
    let weakest = report.counts().keys().map(|p| p.forbidden_from()).min();
    for level in Level::ALL {
        assert_eq!(
            report.satisfies(level),
            level < weakest.unwrap(),
            "{phenomenon}"
        );
    }
    let texts: Vec<_> = report.forbidden(Level::Serializable).collect();
    let found = texts.iter().find(|a| a.phenomenon == phenomenon).unwrap();
    assert!(found.text.contains("\n  T"), "no transaction in {found}");
    assert_eq!(checked(twin).counts().len(), 0, "{phenomenon}: the twin");
    report
}

/// As [`planted`], and nothing else is found.
fn alone(phenomenon: Phenomenon, history: &[Transaction], twin: &[Transaction]) {
    let report = planted(phenomenon, history, twin);
    let found: Vec<_> = report.counts().keys().copied().collect();
    assert_eq!(found, [phenomenon]);
}

#[test]
fn garbage() {
    let writer = txn(&[append(1, 1)]);
    alone(
        Phenomenon::Garbage,
        &[writer.clone(), txn(&[read(1, &[1, 7])])],
        &[writer, txn(&[read(1, &[1])])],
    );
}

#[test]
fn duplicate_element() {
    let writers = [txn(&[append(1, 1)]), txn(&[append(1, 2)])];
    let with = |list| [&writers[..], &[txn(&[read(1, list)])]].concat();
    planted(
        Phenomenon::DuplicateElement,
        &with(&[1, 2, 1]),
        &with(&[1, 2]),
    );
    alone(
        Phenomenon::DuplicateElement,
        &[txn(&[append(1, 1)]), txn(&[append(1, 1)])],
        &writers,
    );
}

#[test]
fn incompatible_order() {
    let writers = [txn(&[append(1, 1)]), txn(&[append(1, 2)])];
    let with = |a, b| [&writers[..], &[txn(&[read(1, a)]), txn(&[read(1, b)])]].concat();
    alone(
        Phenomenon::IncompatibleOrder,
        &with(&[1, 2], &[2]),
        &with(&[1, 2], &[1]),
    );
}

#[test]
fn internal() {
    alone(
        Phenomenon::Internal,
        &[txn(&[append(1, 1), read(1, &[])])],
        &[txn(&[append(1, 1), read(1, &[1])])],
    );
}

#[test]
fn g0() {
    let writers = [
        txn(&[append(1, 1), append(2, 1)]),
        txn(&[append(1, 2), append(2, 2)]),
    ];
    let with = |second| [&writers[..], &[txn(&[read(1, &[1, 2]), read(2, second)])]].concat();
    planted(Phenomenon::G0, &with(&[2, 1]), &with(&[1, 2]));
}

#[test]
fn g1a() {
    let writer = |outcome| ended(outcome, &[append(1, 1)]);
    let reader = txn(&[read(1, &[1])]);
    alone(
        Phenomenon::G1a,
        &[writer(Outcome::Aborted), reader.clone()],
        &[writer(Outcome::Committed), reader],
    );
}

#[test]
fn g1b() {
    let writer = txn(&[append(1, 1), append(1, 2)]);
    let reader = |list| txn(&[read(1, list)]);
    planted(
        Phenomenon::G1b,
        &[writer.clone(), reader(&[1]), reader(&[1, 2])],
        &[writer, reader(&[]), reader(&[1, 2])],
    );
}

#[test]
fn g1c() {
    let with = |list| {
        [
            txn(&[append(1, 1), read(2, &[1])]),
            txn(&[append(2, 1), read(1, list)]),
        ]
    };
    planted(Phenomenon::G1c, &with(&[1]), &with(&[]));
}

#[test]
fn stale_read() {
    let writer = at(0..10, &[append(1, 1)]);
    let reader = |begin| at(begin..30, &[read(1, &[])]);
    planted(
        Phenomenon::StaleRead,
        &[writer.clone(), reader(20)],
        &[writer.clone(), reader(5)],
    );
    // A commit that others saw and that is lost then.
    let seen = at(12..15, &[read(1, &[1])]);
    planted(
        Phenomenon::StaleRead,
        &[writer.clone(), seen.clone(), reader(20)],
        &[writer, seen, at(20..30, &[read(1, &[1])])],
    );
}

#[test]
fn fuzzy_read() {
    let writer = txn(&[append(1, 1)]);
    planted(
        Phenomenon::FuzzyRead,
        &[writer.clone(), txn(&[read(1, &[]), read(1, &[1])])],
        &[writer, txn(&[read(1, &[1]), read(1, &[1])])],
    );
}

#[test]
fn lost_update() {
    let first = txn(&[read(1, &[]), append(1, 1)]);
    let second = |list| txn(&[read(1, list), append(1, 2)]);
    let last = txn(&[read(1, &[1, 2])]);
    planted(
        Phenomenon::LostUpdate,
        &[first.clone(), second(&[]), last.clone()],
        &[first, second(&[1]), last],
    );
}

#[test]
fn g_single() {
    let writer = txn(&[append(1, 1), append(2, 1)]);
    alone(
        Phenomenon::GSingle,
        &[writer.clone(), txn(&[read(1, &[]), read(2, &[1])])],
        &[writer, txn(&[read(1, &[]), read(2, &[])])],
    );
}

/// The long fork is two anti-dependencies with something between them on both sides: snapshots that
/// disagree on the order of two commits.
#[test]
fn g_nonadjacent() {
    let writers = [txn(&[append(1, 1)]), txn(&[append(2, 1)])];
    let with = |second: &[u32]| {
        let readers = [
            txn(&[read(1, &[1]), read(2, &[])]),
            txn(&[read(1, second), read(2, &[1])]),
        ];
        [&writers[..], &readers].concat()
    };
    planted(Phenomenon::GNonadjacent, &with(&[]), &with(&[1]));
}

#[test]
fn g2_item() {
    let with = |list| {
        [
            txn(&[read(1, &[]), append(2, 1)]),
            txn(&[read(2, list), append(1, 1)]),
            txn(&[read(1, &[1]), read(2, &[1])]),
        ]
    };
    alone(Phenomenon::G2Item, &with(&[]), &with(&[1]));
}

#[test]
fn appends_that_nobody_read_have_a_place_after_all_reads() {
    let skew = [
        txn(&[read(1, &[]), append(2, 1)]),
        txn(&[read(2, &[]), append(1, 1)]),
    ];
    assert_eq!(checked(&skew).count(Phenomenon::G2Item), 1);
    let lost = [
        txn(&[read(1, &[]), append(1, 1)]),
        txn(&[read(1, &[]), append(1, 2)]),
    ];
    assert_eq!(checked(&lost).count(Phenomenon::LostUpdate), 1);
}

#[test]
fn real_time_closes_cycles() {
    // A snapshot that is older than a commit acknowledged before it, shown by a third transaction.
    let with = |begin| {
        [
            at(0..10, &[append(1, 1)]),
            at(5..8, &[read(1, &[1]), append(2, 1)]),
            at(begin..30, &[read(2, &[]), append(3, 1)]),
        ]
    };
    assert!(!checked(&with(20)).satisfies(Level::ReadCommitted));
    assert_eq!(checked(&with(6)).counts().len(), 0);
}

#[test]
fn sessions_close_cycles() {
    let in_session = |number, transaction: Transaction| Transaction {
        session: Session(number),
        ..transaction
    };
    // One session reads an element and then, in a later transaction, the list without it.
    let history = |second| {
        [
            txn(&[append(1, 1)]),
            in_session(70, at(0..100, &[read(1, &[1])])),
            in_session(second, at(100..200, &[read(1, &[])])),
        ]
    };
    assert_eq!(checked(&history(70)).count(Phenomenon::GSingle), 1);
    assert_eq!(checked(&history(71)).counts().len(), 0);
}

#[test]
fn a_transaction_of_unknown_outcome_counts_once_it_was_seen() {
    let unknown = ended(Outcome::Unknown, &[append(1, 1), read(2, &[])]);
    let seen = txn(&[read(1, &[1]), append(2, 1)]);
    let not_seen = txn(&[read(1, &[]), append(2, 1)]);
    let both = [unknown.clone(), seen, txn(&[read(2, &[1])])];
    assert_eq!(checked(&both).counts().len(), 0, "it was committed");
    let both = [unknown, not_seen, txn(&[read(2, &[1])])];
    assert_eq!(checked(&both).counts().len(), 0, "it was not");
    // What it read counts as soon as its append was seen.
    let dirty = ended(Outcome::Unknown, &[append(1, 1), read(2, &[9])]);
    assert_eq!(checked(std::slice::from_ref(&dirty)).counts().len(), 0);
    let report = checked(&[dirty, txn(&[read(1, &[1])])]);
    assert_eq!(report.count(Phenomenon::Garbage), 1);
}

#[test]
fn a_counterexample_names_its_transactions_and_reasons() {
    let report = checked(&[
        txn(&[append(1, 1), append(2, 1)]),
        at(3_000..5_000, &[read(3, &[])]),
        txn(&[read(1, &[]), read(2, &[1])]),
    ]);
    let found = report.forbidden(Level::Serializable).next().unwrap();
    let expected = "G-single: a cycle of 2 transactions\n  \
        T2 comes before T0: T2 read list 1 without 1, which T0 appended (rw)\n  \
        T0 comes before T2: T2 read what T0 appended to list 2 (wr)\n  \
        T2: session 2, 0.000000 s to 0.000001 s, committed: read(1) = [] read(2) = [1]\n  \
        T0: session 0, 0.000000 s to 0.000001 s, committed: append(1, 1) append(2, 1)";
    assert_eq!(found.to_string(), expected);
}
