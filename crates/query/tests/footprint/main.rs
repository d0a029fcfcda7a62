//! How much memory statements take, counted by the allocator: long ones in multiples of their text, and each operator
//! that holds rows in multiples of the statement's limit.
//!
//! `PERIGEE_FOOTPRINT=n` makes the texts n times as long.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

#[path = "../common/mod.rs"]
mod common;
mod operators;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Fixture, Setup, rows_of};
use perigee_query::Session;
use tokio::sync::Mutex;

/// The system's allocator, which counts the bytes that are in use, and the most that were.
struct Counting {
    used: AtomicUsize,
    most: AtomicUsize,
}

#[global_allocator]
static ALLOCATOR: Counting = Counting {
    used: AtomicUsize::new(0),
    most: AtomicUsize::new(0),
};

impl Counting {
    fn add(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(used, Ordering::Relaxed);
    }
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.used.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are there for a moment.
        self.add(size);
        self.used.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Bytes beyond what was in use that running a text took at most; its error number, 0 for none.
async fn peak(fixture: &Fixture, session: &mut Session, text: &str) -> (usize, u16) {
    let before = ALLOCATOR.used.load(Ordering::Relaxed);
    ALLOCATOR.most.store(before, Ordering::Relaxed);
    let outcome = fixture.run(session, text).await;
    let errno = outcome.map_or_else(|error| error.errno, |_| 0);
    (ALLOCATOR.most.load(Ordering::Relaxed) - before, errno)
}

/// A kind of statement.
struct Kind {
    name: &'static str,
    /// A statement of about so many bytes.
    text: fn(usize) -> String,
    /// Bytes that it may take for each byte of text, and besides.
    per_byte: usize,
    fixed: usize,
}

fn repeated(piece: &str, separator: &str, bytes: usize) -> String {
    let count = (bytes / (piece.len() + separator.len())).max(1);
    vec![piece; count].join(separator)
}

/// Each must stay within what it is charged, or be bounded whatever its length.
const KINDS: [Kind; 8] = [
    Kind {
        name: "INSERT of many rows",
        text: |bytes| {
            format!(
                "INSERT INTO r VALUES {}",
                repeated("(1,-2,'abc')", ",", bytes)
            )
        },
        // The stores of the same process have the rows, too.
        per_byte: 12,
        fixed: 48 << 20,
    },
    Kind {
        name: "INSERT of a long value",
        text: |bytes| format!("INSERT INTO l VALUES ('{}')", "x".repeat(bytes)),
        per_byte: 14,
        fixed: 32 << 20,
    },
    Kind {
        name: "a literal",
        text: |bytes| format!("SELECT LENGTH('{}')", "x".repeat(bytes)),
        per_byte: 26,
        fixed: 16 << 20,
    },
    Kind {
        name: "an IN list",
        text: |bytes| {
            format!(
                "SELECT COUNT(*) FROM s WHERE a IN ({})",
                repeated("123456", ",", bytes)
            )
        },
        per_byte: 600,
        fixed: 16 << 20,
    },
    Kind {
        name: "white space",
        text: |bytes| format!("SELECT {} 1", " ".repeat(bytes)),
        per_byte: 300,
        fixed: 16 << 20,
    },
    Kind {
        name: "a UNION",
        text: |bytes| repeated("SELECT a FROM s", " UNION ", bytes / 64),
        per_byte: 3400,
        fixed: 4 << 20,
    },
    Kind {
        name: "a UNION of tables",
        text: |bytes| repeated("TABLE s", " UNION ", bytes / 64),
        per_byte: 4900,
        fixed: 4 << 20,
    },
    Kind {
        name: "subqueries",
        text: |bytes| {
            let queries = repeated("(SELECT MAX(a) FROM s)", ",", bytes / 128);
            format!("SELECT {queries}")
        },
        per_byte: 3500,
        fixed: 4 << 20,
    },
];

/// One test at a time, because the allocator counts for all.
static TURN: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_take_a_stated_multiple_of_their_text_or_are_refused() {
    let _turn = TURN.lock().await;
    multiples().await;
    texts_beyond_the_limit_are_refused_before_they_are_parsed().await;
}

async fn multiples() {
    let times = std::env::var("PERIGEE_FOOTPRINT").map_or(1, |n| n.parse().unwrap());
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE r (a INT, b INT, c VARCHAR(10));
        CREATE TABLE l (c LONGTEXT);
        CREATE TABLE s (a INT, t TEXT); INSERT INTO s VALUES (1, 'abc'), (2, 'x')";
    fixture.run(&mut session, create).await.unwrap();
    let (mut wrong, mut inserted) = (String::new(), 0);
    for kind in KINDS {
        for bytes in [256 << 10, 1 << 20] {
            let text = (kind.text)(bytes * times);
            inserted += text.matches("(1,-2,'abc')").count();
            let (peak, errno) = peak(&fixture, &mut session, &text).await;
            let most = kind.per_byte * text.len() + kind.fixed;
            let line = format!(
                "{}: {} bytes of text, {} kB, {:.1} times, errno {errno}\n",
                kind.name,
                text.len(),
                peak >> 10,
                peak as f64 / text.len() as f64
            );
            print!("{line}");
            if peak > most || ![0, 3170].contains(&errno) {
                wrong += &line;
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    let count = "SELECT COUNT(*), SUM(a + b), MIN(c), MAX(c) FROM r";
    let count = fixture.run(&mut session, count).await.unwrap();
    let expected = format!("{inserted}|-{inserted}|abc|abc");
    assert_eq!(rows_of(&count[0]), [expected]);
}

async fn texts_beyond_the_limit_are_refused_before_they_are_parsed() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let small = "SET query_memory_limit = 4194304";
    fixture.run(&mut session, small).await.unwrap();
    for text in [
        format!("SELECT {}", repeated("1", "+", 100_000)),
        format!("SELECT '{}'", "x".repeat(4 << 20)),
        format!("PREPARE p FROM 'SELECT {}'", repeated("1", "+", 100_000)),
    ] {
        let (peak, errno) = peak(&fixture, &mut session, &text).await;
        assert_eq!(errno, 3170, "{:.20}", text);
        assert!(peak < 8 << 20, "{:.20}: {peak}", text);
    }
}
