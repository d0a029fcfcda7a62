//! Random programs over random records: compiled code and interpreter agree, whatever the program
//! does (NULLs, overflow, extremes, empty strings, patterns).
//!
//! `PERIGEE_RANDOM_PROGRAMS` sets how many programs each of the four tests compiles (default
//! 2,600); `PERIGEE_RANDOM_SEED` where the seeds begin. A failure prints program, layout and
//! bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use perigee_expr::Type;
use perigee_expr::arbitrary::{Generator, Options};
use support::{Page, assert_same};

/// Programs that run over the same records.
const PROGRAMS_PER_PAGE: u64 = 5;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Compares programs from the `part`-th share of the seeds.
fn compare(part: u64, nodes: usize, predicates: bool) {
    let programs = setting("PERIGEE_RANDOM_PROGRAMS", 2_600);
    let first = setting("PERIGEE_RANDOM_SEED", 0);
    let mut too_large = 0;
    for page in 0..programs / PROGRAMS_PER_PAGE {
        let seed = (first + page) * 4 + part;
        let options = Options {
            nodes,
            ..Options::default()
        };
        let mut generator = Generator::with_options(seed, options);
        let layout = generator.layout();
        let rows: Vec<_> = (0..20).map(|_| generator.row(&layout)).collect();
        let records = Page::new(&layout, &rows);
        for _ in 0..PROGRAMS_PER_PAGE {
            let program = if predicates {
                generator.program_of(&layout, Type::Bool)
            } else {
                generator.program(&layout)
            };
            too_large += u64::from(!assert_same(&program, &layout, &records));
        }
    }
    assert_eq!(too_large, 0, "programs of {nodes} nodes are not too large");
}

#[test]
fn small_programs() {
    compare(0, 8, false);
}

#[test]
fn programs() {
    compare(1, 24, false);
}

#[test]
fn predicates() {
    compare(2, 24, true);
}

#[test]
fn small_predicates() {
    compare(3, 12, true);
}
