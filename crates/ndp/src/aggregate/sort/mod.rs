//! Aggregation by sorting, in a fixed small memory, with equal keys merged in every phase
//! (ColumnBurst sections 2 and 3.2).
//!
//! The rows of each page become a *run*: their groups, sorted. [`FAN_IN`] runs of a level become one of the next
//! level. When runs take their share of the memory, they are merged with what was aggregated so far. What exceeds the
//! share of that is *overflow*: the groups with the greatest keys go into the output as partial rows, in the order of
//! their keys, and the others stay and go on being aggregated. At the end all is given out in order.
//!
//! Memory: an eighth for new runs, and an eighth for merging these; most of the rest for what was aggregated. That is
//! in *pieces*, which merging takes from the end and frees one by one, as the paper's virtual memory does with
//! its blocks, so that it needs no memory for a second copy.

mod code;
mod merge;

use perigee_expr::Vector;

use code::Codes;
use merge::{Run, merge};

use crate::aggregate::keys::{KeyPart, KeyValues};
use crate::aggregate::memory::Held;
use crate::aggregate::state::State;

/// Runs that become one at a time: as many as the paper's merge tree has inputs.
const FAN_IN: usize = 16;

/// Parts of the memory: sixteenths for what was aggregated, and for new runs. Merging these takes as much again, and
/// pieces the sixteenth that is left.
const PARTS: usize = 16;
const OF_AGGREGATED: usize = 11;
const OF_NEW: usize = 2;

/// Pieces that the memory for what was aggregated is divided into, about.
const PIECES: usize = 16;

/// Groups that are aggregated by sorting.
pub(crate) struct SortTable {
    parts: Vec<KeyPart>,
    /// New runs: those of level `i` are of up to `FAN_IN^i` pages.
    levels: Vec<Vec<Run>>,
    /// Bytes of these.
    new_bytes: usize,
    /// What was aggregated before, in order: the groups with the least keys.
    pieces: Vec<Run>,
    /// Bytes a group takes beside its key.
    state_bytes: usize,
    /// Greatest number of groups.
    most: usize,
    held: Held,
}

/// The rows of a run in the order of their keys.
pub(crate) struct Sorted {
    codes: Codes,
    /// The group of each row.
    pub(crate) groups: Vec<u32>,
}

impl Sorted {
    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }
}

impl SortTable {
    /// An empty table, of so many groups at most.
    pub(crate) fn new(parts: Vec<KeyPart>, state_bytes: usize, most: usize, held: Held) -> Self {
        Self {
            parts,
            levels: Vec::new(),
            new_bytes: 0,
            pieces: Vec::new(),
            state_bytes,
            most,
            held,
        }
    }

    /// Number of groups at most: those of several runs may be one.
    pub(crate) fn len(&self) -> usize {
        let runs = self.levels.iter().flatten().chain(&self.pieces);
        runs.map(Run::len).sum()
    }

    /// Sorts rows by their keys.
    pub(crate) fn sort(&self, keys: &[KeyValues<'_>], rows: usize) -> Sorted {
        let all = Codes::of_rows(&self.parts, keys, rows);
        let mut order: Vec<(u128, u32)> = all.numbers.iter().copied().zip(0..).collect();
        match all.have_rests() {
            false => order.sort_unstable(),
            true => order.sort_unstable_by(|(a, i), (b, j)| {
                let rests = || all.rest(*i as usize).cmp(all.rest(*j as usize));
                a.cmp(b).then_with(rests)
            }),
        }
        let mut sorted = Sorted {
            codes: Codes::default(),
            groups: vec![0; rows],
        };
        let mut last = None;
        for (_, row) in order {
            let row = row as usize;
            let is_new = last.is_none_or(|last| all.compare(last, &all, row).is_ne());
            if is_new {
                sorted.codes.push(&all, row);
                last = Some(row);
            }
            sorted.groups[row] = sorted.len() as u32 - 1;
        }
        sorted
    }

    /// Takes in sorted rows with the states of their groups; `empty` makes states of no groups. Gives back what
    /// exceeds the memory, in order.
    pub(crate) fn add(
        &mut self,
        sorted: Sorted,
        states: Vec<State>,
        empty: &impl Fn() -> Vec<State>,
    ) -> Vec<Overflow> {
        let run = Run {
            codes: sorted.codes,
            states,
        };
        self.put(0, run);
        for level in 0.. {
            if self.levels[level].len() < FAN_IN {
                break;
            }
            let runs = std::mem::take(&mut self.levels[level]);
            let bytes = |run: &Run| run.bytes(self.state_bytes);
            self.new_bytes -= runs.iter().map(bytes).sum::<usize>();
            self.put(level + 1, merge(runs, empty()));
        }
        let sixteenth = self.held.limit() / PARTS;
        let fits = self.held.may_hold(self.bytes() + self.new_bytes);
        if fits && self.new_bytes <= OF_NEW * sixteenth && self.len() <= self.most {
            return Vec::new();
        }
        self.merge_new(empty);
        let all = match fits {
            true => self.held.limit(),
            false => self.held.granted(),
        };
        self.cut(OF_AGGREGATED * (all / PARTS))
    }

    /// Gives out all groups, in order.
    pub(crate) fn take(&mut self, empty: &impl Fn() -> Vec<State>) -> Vec<Overflow> {
        self.merge_new(empty);
        self.held.release();
        self.pieces.drain(..).map(Overflow).collect()
    }

    fn bytes(&self) -> usize {
        let pieces = self.pieces.iter().map(|run| run.bytes(self.state_bytes));
        self.new_bytes + pieces.sum::<usize>()
    }

    fn put(&mut self, level: usize, run: Run) {
        self.new_bytes += run.bytes(self.state_bytes);
        while self.levels.len() < level + 2 {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(run);
    }

    /// Merges the new runs, and them with what was aggregated before: from the greatest keys to the least, piece
    /// by piece.
    fn merge_new(&mut self, empty: &impl Fn() -> Vec<State>) {
        let mut runs: Vec<_> = self.levels.iter_mut().flat_map(std::mem::take).collect();
        self.new_bytes = 0;
        while runs.len() > 1 {
            let rest = runs.split_off(runs.len().min(FAN_IN));
            let merged = merge(runs, empty());
            runs = rest;
            runs.push(merged);
        }
        let Some(mut new) = runs.pop() else { return };
        let largest = self.groups_of_a_piece();
        let mut merged = Vec::new();
        while let Some(piece) = self.pieces.pop() {
            let begin = match self.pieces.last() {
                Some(before) => new.codes.behind(&before.codes),
                None => 0,
            };
            let part = new.split_off(begin);
            let mut both = match part.len() {
                0 => piece,
                _ => merge(vec![piece, part], empty()),
            };
            while both.len() > largest {
                // Pieces of the same size: what is left over would be merged as a piece of its own.
                let half = both.len() - both.len().div_ceil(both.len().div_ceil(largest));
                merged.push(both.split_off(half));
            }
            merged.push(both);
        }
        while new.len() > largest {
            merged.push(new.split_off(new.len() - largest));
        }
        if new.len() > 0 {
            merged.push(new);
        }
        merged.reverse();
        self.pieces = merged;
    }

    fn groups_of_a_piece(&self) -> usize {
        let groups = self.held.limit() / PIECES / (size_of::<u128>() + self.state_bytes);
        groups.max(FAN_IN)
    }

    /// Takes away the groups with the greatest keys until so many bytes are left.
    fn cut(&mut self, bytes: usize) -> Vec<Overflow> {
        let (len, all) = (self.len(), self.bytes());
        let keep = match all <= bytes {
            true => len,
            // At least one, so that there is always something to merge with.
            false => ((len as u128 * bytes as u128 / all as u128) as usize).max(1),
        };
        let mut keep = keep.min(self.most);
        let mut overflow = Vec::new();
        let mut kept = Vec::new();
        for mut piece in std::mem::take(&mut self.pieces) {
            let rest = piece.split_off(keep.min(piece.len()));
            keep -= piece.len();
            if piece.len() > 0 {
                kept.push(piece);
            }
            if rest.len() > 0 {
                overflow.push(Overflow(rest));
            }
        }
        self.pieces = kept;
        overflow
    }
}

/// Groups that leave a table, in the order of their keys.
pub(crate) struct Overflow(Run);

impl Overflow {
    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Their states.
    pub(crate) fn states(&mut self) -> &mut Vec<State> {
        &mut self.0.states
    }

    /// Appends the keys to columns of the keys' forms.
    pub(crate) fn give_out_keys(&self, table: &SortTable, columns: &mut [Vector]) {
        self.0.codes.give_out(&table.parts, columns);
    }

    /// Appends the key of one group.
    pub(crate) fn give_out_key(&self, table: &SortTable, group: usize, columns: &mut [Vector]) {
        let mut code = Codes::default();
        code.push(&self.0.codes, group);
        code.give_out(&table.parts, columns);
    }
}
