//! Runs of groups in the order of their keys, and how several become one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::code::Codes;
use crate::aggregate::state::State;

/// Groups in the order of their keys, no two of which are equal, with their states.
pub(crate) struct Run {
    pub(crate) codes: Codes,
    pub(crate) states: Vec<State>,
}

/// Bytes of a run beside those of its groups: its vectors and what an allocator adds.
const RUN_BYTES: usize = 128;
/// The same for each of its states.
const STATE_BYTES: usize = 96;

impl Run {
    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    /// Bytes of memory; a group takes `state_bytes` beside its key.
    pub(crate) fn bytes(&self, state_bytes: usize) -> usize {
        let heap: usize = self.states.iter().map(State::heap_bytes).sum();
        let own = RUN_BYTES + STATE_BYTES * self.states.len();
        own + self.codes.bytes() + self.len() * state_bytes + heap
    }

    /// Takes away the groups from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        Self {
            codes: self.codes.split_off(at),
            states: self.states.iter_mut().map(|s| s.split_off(at)).collect(),
        }
    }
}

/// The next group of a run.
struct Head<'a> {
    runs: &'a [Run],
    number: u128,
    run: usize,
    at: usize,
}

impl Ord for Head<'_> {
    /// The least key is the greatest head: what a heap gives first.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_number = other.number.cmp(&self.number);
        by_number.then_with(|| {
            let (own, others) = (&self.runs[self.run].codes, &other.runs[other.run].codes);
            others.rest(other.at).cmp(own.rest(self.at))
        })
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head<'_> {}

/// Makes one run of several: groups with equal keys become one. `states` are those of no groups.
pub(crate) fn merge(mut runs: Vec<Run>, mut states: Vec<State>) -> Run {
    if runs.len() == 1 {
        return runs.remove(0);
    }
    let (codes, places) = merge_codes(&runs);
    states
        .iter_mut()
        .for_each(|state| state.resize(codes.len()));
    for (run, places) in runs.into_iter().zip(places) {
        for (own, other) in states.iter_mut().zip(run.states) {
            own.absorb(other, &places);
        }
    }
    Run { codes, states }
}

/// The keys of all runs, and the place that each group of each run has among them.
fn merge_codes(runs: &[Run]) -> (Codes, Vec<Vec<u32>>) {
    let mut codes = Codes::default();
    let mut places: Vec<_> = runs.iter().map(|r| Vec::with_capacity(r.len())).collect();
    let head = |run: usize, at: usize| {
        let number = runs[run].codes.numbers.get(at)?;
        Some(Head {
            runs,
            number: *number,
            run,
            at,
        })
    };
    let mut heads: BinaryHeap<_> = (0..runs.len()).filter_map(|run| head(run, 0)).collect();
    while let Some(mut first) = heads.peek_mut() {
        let (run, at) = (first.run, first.at);
        let of = &runs[run].codes;
        let last = codes.len().checked_sub(1);
        if last.is_none_or(|last| codes.compare(last, of, at) != Ordering::Equal) {
            codes.push(of, at);
        }
        places[run].push(codes.len() as u32 - 1);
        match head(run, at + 1) {
            Some(next) => *first = next,
            None => drop(std::collections::binary_heap::PeekMut::pop(first)),
        }
    }
    (codes, places)
}
