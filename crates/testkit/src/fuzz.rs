//! Fuzzing: decoders under inputs that are almost right.
//!
//! An input is a valid encoding to which a few changes were made: bits, bytes, numbers at any place,
//! pieces cut, doubled, moved or taken from another encoding; then checksums are corrected, so that
//! what is behind them is reached. Input `n` of a run depends on the corpus, the seed and `n` alone.
//!
//! `PERIGEE_FUZZ` says how many inputs each test runs, `PERIGEE_FUZZ_SEED` where they begin. When a
//! target panics, the input is printed together with the seed that makes it the first one.

use std::env;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::Rng;

/// Inputs of each test unless `PERIGEE_FUZZ` says otherwise.
const INPUTS: u64 = 4000;

/// An input that takes longer than this is a fault as a panic is: bytes must not hold a thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest piece that is doubled or inserted.
const PIECE: usize = 64;

/// Numbers at which arithmetic goes wrong.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x3fff,
    0x4000,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Inputs for one decoder.
#[derive(Clone, Debug)]
pub struct Fuzz {
    corpus: Vec<Vec<u8>>,
    seal: Option<fn(&mut [u8])>,
    focus: Vec<Range<usize>>,
}

impl Fuzz {
    /// Inputs made of these valid encodings.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(corpus: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let corpus: Vec<_> = corpus.into_iter().collect();
        assert!(!corpus.is_empty(), "nothing to make inputs of");
        Self {
            corpus,
            seal: None,
            focus: Vec::new(),
        }
    }

    /// Fifteen of sixteen inputs are given to `seal`, which corrects checksums.
    #[must_use]
    pub fn sealed(mut self, seal: fn(&mut [u8])) -> Self {
        self.seal = Some(seal);
        self
    }

    /// Half of the changes are made inside these ranges: the parts of long inputs where most is
    /// decided.
    #[must_use]
    pub fn focused(mut self, ranges: &[Range<usize>]) -> Self {
        self.focus = ranges.to_vec();
        self
    }

    /// Gives inputs to `target`, which tells whether it accepted them, and must not panic.
    ///
    /// # Panics
    /// If the target accepts every input or none: then the inputs are no good. If it takes seconds
    /// over one.
    pub fn run(&self, name: &str, mut target: impl FnMut(&[u8]) -> bool) {
        let inputs = setting("PERIGEE_FUZZ").unwrap_or(INPUTS);
        let seed = setting("PERIGEE_FUZZ_SEED").unwrap_or(1);
        let begin = Instant::now();
        let mut accepted = 0;
        let mut current = Current {
            name,
            seed,
            bytes: Vec::new(),
        };
        let mut last = begin;
        for input in 0..inputs {
            current.seed = seed.wrapping_add(input);
            self.make(&mut Rng(current.seed), &mut current.bytes);
            accepted += u64::from(target(&current.bytes));
            let now = Instant::now();
            assert!(now - last < PATIENCE, "an input took {:?}", now - last);
            last = now;
        }
        let took = begin.elapsed();
        println!(
            "{name}: {inputs} inputs from seed {seed}, {accepted} accepted, {took:.1?}, {:.0} a second",
            inputs as f64 / took.as_secs_f64()
        );
        if inputs >= 1000 {
            let some = (1..inputs).contains(&accepted);
            assert!(some, "{name}: {accepted} of {inputs} inputs are accepted");
        }
    }

    fn make(&self, rng: &mut Rng, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend_from_slice(rng.choose::<Vec<u8>>(&self.corpus));
        // None, or one, and each time as likely as not one more.
        let mut more = !rng.chance(64);
        for _ in 0..16 {
            if !more {
                break;
            }
            self.change(rng, bytes);
            more = rng.chance(2);
        }
        if let Some(seal) = self.seal
            && !rng.chance(16)
        {
            seal(bytes);
        }
    }

    /// A place in `bytes`, its end included.
    fn place(&self, rng: &mut Rng, bytes: &[u8]) -> usize {
        let mut range = 0..bytes.len();
        if !self.focus.is_empty() && rng.chance(2) {
            range = rng.choose(&self.focus).clone();
        }
        let end = range.end.min(bytes.len());
        below(rng, range.start.min(end)..end + 1)
    }

    fn change(&self, rng: &mut Rng, bytes: &mut Vec<u8>) {
        let at = self.place(rng, bytes);
        let len = bytes.len();
        let piece = below(rng, 0..PIECE.min(len - at) + 1);
        match rng.between(0, 15) {
            0..=2 if at < len => bytes[at] ^= 1 << below(rng, 0..8),
            3 | 4 if at < len => bytes[at] = rng.between(0, 255) as u8,
            5..=8 => {
                let number = self.number(rng, bytes, at);
                let width = *rng.choose(&[1, 2, 2, 4, 4, 8]);
                let width = width.min(len - at);
                bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
            }
            9 => bytes.truncate(at),
            10 => drop(bytes.drain(at..at + piece)),
            11 => {
                let copy = bytes[at..at + piece].to_vec();
                let to = self.place(rng, bytes);
                bytes.splice(to..to, copy);
            }
            12 => {
                let noise: Vec<u8> = (0..piece).map(|_| rng.between(0, 255) as u8).collect();
                bytes.splice(at..at, noise);
            }
            13 => {
                let to = self.place(rng, bytes).min(len - piece);
                bytes.copy_within(at..at + piece, to);
            }
            14 => {
                // A head of this one and a tail of another.
                let other = rng.choose(&self.corpus);
                let from = self.place(rng, other);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                let other = rng.choose(&self.corpus);
                let from = at.min(other.len());
                let piece = piece.min(other.len() - from);
                bytes[at..at + piece].copy_from_slice(&other[from..from + piece]);
            }
        }
    }

    /// A number that may matter at this place: an edge, the length of what follows, or the number
    /// that is there and a bit more or less.
    fn number(&self, rng: &mut Rng, bytes: &[u8], at: usize) -> u64 {
        let near = rng.between(-2, 2) as u64;
        match rng.between(0, 3) {
            0 => *rng.choose(&EDGES),
            1 => ((bytes.len() - at) as u64).wrapping_add(near),
            2 => bytes.len() as u64,
            _ => {
                let mut there = [0; 8];
                let width = 8.min(bytes.len() - at);
                there[..width].copy_from_slice(&bytes[at..at + width]);
                u64::from_le_bytes(there).wrapping_add(near)
            }
        }
    }
}

/// The input that is tried; says so if the target panics.
struct Current<'a> {
    name: &'a str,
    seed: u64,
    bytes: Vec<u8>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.bytes.iter().map(|b| format!("{b:02x}")).collect();
            let (name, seed) = (self.name, self.seed);
            eprintln!("{name}: PERIGEE_FUZZ_SEED={seed} begins with this input:\n{hex}");
        }
    }
}

fn below(rng: &mut Rng, range: Range<usize>) -> usize {
    rng.between(range.start as i64, range.end as i64 - 1) as usize
}

fn setting(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts `[length, bytes]`, and breaks at one length that no encoding in the corpus has.
    fn toy(bytes: &[u8]) -> bool {
        let Some((len, rest)) = bytes.split_first() else {
            return false;
        };
        assert!(*len != 0xff, "the planted fault");
        usize::from(*len) == rest.len()
    }

    fn inputs(n: u64) -> Vec<Vec<u8>> {
        let fuzz = Fuzz::new([vec![3, 1, 2, 3], vec![1, 9]]);
        let mut made = Vec::new();
        for seed in 0..n {
            let mut bytes = Vec::new();
            fuzz.make(&mut Rng(seed), &mut bytes);
            made.push(bytes);
        }
        made
    }

    #[test]
    fn inputs_are_repeatable_short_and_different() {
        let made = inputs(2000);
        assert_eq!(made, inputs(2000));
        assert!(made.iter().all(|bytes| bytes.len() < 17 * PIECE));
        let different: std::collections::HashSet<_> = made.iter().collect();
        assert!(different.len() > 500, "{} of 2000", different.len());
        let empty = made.iter().filter(|bytes| bytes.is_empty()).count();
        assert!((1..400).contains(&empty), "{empty} are empty");
    }

    #[test]
    fn a_planted_fault_is_found() {
        let fuzz = Fuzz::new([vec![3, 1, 2, 3], vec![1, 9]]);
        let found = std::panic::catch_unwind(|| fuzz.run("toy", toy));
        assert!(found.is_err(), "the fault was not found");
    }

    #[test]
    fn a_target_that_accepts_nothing_is_no_target() {
        let fuzz = Fuzz::new([vec![3, 1, 2, 3]]);
        let told = std::panic::catch_unwind(|| fuzz.run("nothing", |_| false));
        assert!(told.is_err() || setting("PERIGEE_FUZZ").is_some_and(|n| n < 1000));
    }
}
