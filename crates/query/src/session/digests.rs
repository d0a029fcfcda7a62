//! Statements by their digests: how often they ran, how long, what they read and what they cost, for
//! `performance_schema.events_statements_summary_by_digest`.
//!
//! Invariant: there are at most `performance_schema_digests_size` entries, each of bounded size. Statements for which
//! there is no place any more are counted together.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use perigee_catalog_views::DigestFacts;
use perigee_expr::digest::{Digest, MOST};

use super::measure::Did;
use crate::parse::masked;

/// What tells statements apart: the schema that is current, and the hash of the digest.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    schema: Option<String>,
    hash: [u8; 32],
}

/// Statements by their digests.
#[derive(Debug)]
pub(super) struct Digests {
    most: usize,
    entries: RwLock<HashMap<Key, Arc<Entry>>>,
    /// Statements that have no entry of their own.
    rest: Arc<Entry>,
}

/// Where a statement is counted that is run again and again, in a current schema.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    schema: Option<String>,
    entry: Arc<Entry>,
}

/// Statements of one digest.
#[derive(Debug, Default)]
pub(super) struct Entry {
    schema: Option<String>,
    digest: Option<Digest>,
    /// One of them.
    sample: Option<String>,
    count: AtomicU64,
    errors: AtomicU64,
    warnings: AtomicU64,
    rows_affected: AtomicU64,
    rows_sent: AtomicU64,
    no_index: AtomicU64,
    /// Nanoseconds.
    total: AtomicU64,
    shortest: AtomicU64,
    longest: AtomicU64,
    bytes_read: AtomicU64,
    bytes_shipped: AtomicU64,
    bytes_saved: AtomicU64,
    /// Thousand-millionths of a dollar.
    nanodollars: AtomicU64,
    /// Microseconds since 1970.
    first_seen: AtomicU64,
    last_seen: AtomicU64,
}

impl Digests {
    /// None yet, and at most so many.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            entries: RwLock::default(),
            rest: Arc::new(Entry::new(None, None, None)),
        }
    }

    /// True if statements are counted.
    pub fn is_on(&self) -> bool {
        self.most > 0
    }

    /// The entry of a digest, perhaps a new one, of which `text` is the first statement.
    fn entry(&self, schema: Option<&str>, digest: Digest, text: &str) -> Arc<Entry> {
        let key = Key {
            schema: schema.map(str::to_owned),
            hash: digest.hash,
        };
        if let Some(entry) = self.entries.read().get(&key) {
            return Arc::clone(entry);
        }
        let mut entries = self.entries.write();
        let is_full = entries.len() >= self.most;
        match entries.get(&key) {
            Some(entry) => Arc::clone(entry),
            None if is_full => Arc::clone(&self.rest),
            None => {
                let entry = Entry::new(key.schema.clone(), Some(digest), Some(text));
                let entry = Arc::new(entry);
                entries.insert(key, Arc::clone(&entry));
                entry
            }
        }
    }

    /// Counts a statement with a text, in which `"` stands around names if `ansi_quotes`. A text that has no digest is
    /// not counted.
    pub fn count(
        &self,
        counted: &mut Option<Counted>,
        schema: Option<&str>,
        (text, ansi_quotes): (&str, bool),
        did: &Did,
    ) {
        let known = counted.as_ref();
        if let Some(known) = known.filter(|own| own.schema.as_deref() == schema) {
            return known.entry.count(did);
        }
        if let Ok(digest) = Digest::of(text, ansi_quotes) {
            let entry = self.entry(schema, digest, text);
            entry.count(did);
            let schema = schema.map(str::to_owned);
            *counted = Some(Counted { schema, entry });
        }
    }

    /// What is known of all of them; those together that have no entry have no digest.
    pub fn facts(&self) -> Vec<DigestFacts> {
        let entries: Vec<_> = self.entries.read().values().cloned().collect();
        let rest = Some(&self.rest).filter(|rest| rest.count.load(Ordering::Relaxed) > 0);
        let all = entries.iter().chain(rest);
        all.map(|entry| entry.facts()).collect()
    }
}

impl Entry {
    fn new(schema: Option<String>, digest: Option<Digest>, text: Option<&str>) -> Self {
        Self {
            schema,
            digest,
            sample: text.map(|text| masked(first_of(text.trim()).to_owned())),
            shortest: AtomicU64::new(u64::MAX),
            ..Self::default()
        }
    }

    fn count(&self, did: &Did) {
        let add = |counter: &AtomicU64, value: u64| {
            if value > 0 {
                counter.fetch_add(value, Ordering::Relaxed);
            }
        };
        add(&self.count, 1);
        add(&self.errors, u64::from(did.failed));
        add(&self.warnings, did.warnings);
        add(&self.rows_affected, did.rows_affected);
        add(&self.rows_sent, did.rows_sent);
        add(&self.no_index, u64::from(did.no_index));
        let nanos = did.elapsed.as_nanos() as u64;
        add(&self.total, nanos);
        self.shortest.fetch_min(nanos, Ordering::Relaxed);
        self.longest.fetch_max(nanos, Ordering::Relaxed);
        add(&self.bytes_read, did.near.bytes_read);
        add(&self.bytes_shipped, did.near.bytes_shipped);
        add(&self.bytes_saved, did.near.bytes_saved());
        add(&self.nanodollars, (did.micros * 1e3).round() as u64);
        let ended = did.ended as u64; // after 1970
        let _ = self
            .first_seen
            .compare_exchange(0, ended, Ordering::Relaxed, Ordering::Relaxed);
        self.last_seen.fetch_max(ended, Ordering::Relaxed);
    }

    fn facts(&self) -> DigestFacts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let count = of(&self.count);
        let picos = |nanos: u64| nanos.saturating_mul(1000);
        DigestFacts {
            schema: self.schema.clone(),
            digest: self.digest.as_ref().map(Digest::hex),
            text: self.digest.as_ref().map(|digest| digest.text.clone()),
            count,
            total: picos(of(&self.total)),
            shortest: picos(of(&self.shortest).min(of(&self.longest))),
            average: picos(of(&self.total).checked_div(count).unwrap_or_default()),
            longest: picos(of(&self.longest)),
            errors: of(&self.errors),
            warnings: of(&self.warnings),
            rows_affected: of(&self.rows_affected),
            rows_sent: of(&self.rows_sent),
            no_index: of(&self.no_index),
            bytes_read: of(&self.bytes_read),
            bytes_shipped: of(&self.bytes_shipped),
            bytes_saved: of(&self.bytes_saved),
            nanodollars: of(&self.nanodollars),
            first_seen: of(&self.first_seen) as i64,
            last_seen: of(&self.last_seen) as i64,
            sample: self.sample.clone(),
        }
    }
}

/// As much of a text as a sample shows.
fn first_of(text: &str) -> &str {
    let mut ends = (0..=MOST.min(text.len())).rev();
    let end = ends.find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::time::Duration;

    use super::*;

    fn did() -> Did {
        Did {
            elapsed: Duration::from_micros(5),
            rows_sent: 2,
            ended: 1_000_000,
            ..Did::default()
        }
    }

    #[test]
    fn a_million_statements_take_as_many_entries_as_there_may_be() {
        let digests = Digests::new(100);
        for number in 0..1_000_000_u64 {
            let text = format!("SELECT `a{number}`");
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_le_bytes());
            let digest = Digest { text, hash };
            digests.entry(Some("s"), digest, "SELECT").count(&did());
        }
        assert_eq!(digests.entries.read().len(), 100);
        let facts = digests.facts();
        assert_eq!(facts.len(), 101);
        assert_eq!(facts.iter().map(|one| one.count).sum::<u64>(), 1_000_000);
        let rest: Vec<_> = facts.iter().filter(|one| one.digest.is_none()).collect();
        assert_eq!((rest.len(), rest[0].count), (1, 999_900));
        assert_eq!((&rest[0].schema, &rest[0].sample), (&None, &None));
    }

    #[test]
    fn statements_are_told_apart_by_digest_and_schema() {
        let digests = Digests::new(10);
        let count = |text: &str, schema: Option<&str>, did: &Did| {
            digests.count(&mut None, schema, (text, false), did);
        };
        count("SELECT 1", None, &did());
        count("select  22", None, &did());
        count("SELECT 3", Some("s"), &did());
        let failed = Did {
            failed: true,
            elapsed: Duration::from_micros(7),
            ..did()
        };
        count("SELECT 4", Some("s"), &failed);
        let mut facts = digests.facts();
        facts.sort_by_key(|one| one.schema.clone());
        let [without, with] = &facts[..] else {
            panic!("{facts:?}")
        };
        assert_eq!(without.text.as_deref(), Some("SELECT ?"));
        assert_eq!(without.sample.as_deref(), Some("SELECT 1"));
        assert_eq!((without.count, without.rows_sent), (2, 4));
        assert_eq!((with.count, with.errors), (2, 1));
        let times = (with.shortest, with.average, with.longest, with.total);
        assert_eq!(times, (5_000_000, 6_000_000, 7_000_000, 12_000_000));
        assert_eq!((with.first_seen, with.last_seen), (1_000_000, 1_000_000));
    }

    #[test]
    fn a_statement_that_is_kept_finds_its_entry_for_each_schema() {
        let digests = Digests::new(10);
        let mut counted = None;
        for schema in [Some("a"), Some("a"), Some("b"), None] {
            digests.count(&mut counted, schema, ("SELECT ?", false), &did());
        }
        digests.count(&mut counted, Some("c"), ("SELECT 'a", false), &did());
        let mut counts: Vec<_> = digests
            .facts()
            .iter()
            .map(|one| (one.schema.clone(), one.count))
            .collect();
        counts.sort();
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(counts, [(None, 1), (named("a"), 2), (named("b"), 1)]);
    }

    #[test]
    fn samples_show_no_passwords_and_are_short() {
        let digests = Digests::new(10);
        let long = format!(
            "CREATE USER u IDENTIFIED BY 'secret word' /* {} */",
            "ä".repeat(5000)
        );
        digests.count(&mut None, None, (&long, false), &did());
        let facts = &digests.facts()[0];
        let sample = facts.sample.as_ref().unwrap();
        assert!(
            sample.len() < 2 * MOST && !sample.contains("secret word"),
            "{sample}"
        );
        assert!(!facts.text.as_ref().unwrap().contains("secret word"));
    }
}
