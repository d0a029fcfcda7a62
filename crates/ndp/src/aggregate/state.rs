//! Accumulators: the state of one aggregate function for every group.
//!
//! Sums are exact. Those of 64-bit lanes cannot leave 128 bits; those of 128-bit lanes are kept as
//! high and low halves and, should a total not fit the decimal that carries it, are given out in
//! several partial rows. So no sum fails in storage; whether the grand total is representable is
//! for the frontend to say. Sums of doubles are kept exactly and given out as what makes them up
//! ([`ExactSum`]), so that no order of rows or of partial rows changes a bit of the total.

use std::cmp::Ordering;
use std::ops::Range;

use perigee_expr::{AggregateFunction, ExactSum, Lanes, Type, Vector};
use perigee_value::Collation;

/// Greatest magnitude of a partial sum: what a decimal of 38 digits holds.
const MAX_SUM: i128 = 10_i128.pow(38) - 1;

/// Groups of a run of rows.
#[derive(Clone, Copy)]
pub(crate) enum Groups<'a> {
    /// All rows belong to group 0.
    One,
    /// The group of each row of the run; all are below [`FEW`], and `counts` has their sizes.
    Few {
        groups: &'a [u32],
        counts: &'a [u32; FEW],
    },
    /// The group of each row of the run.
    Many(&'a [u32]),
}

/// So many groups fit accumulators on the stack.
pub(crate) const FEW: usize = 16;
/// Neighbouring rows, which often are of one group, go to different accumulators, so that they need
/// not wait for each other.
const WAYS: usize = 4;

/// A part of a sum that did not fit the group's row.
pub(crate) struct Leftover {
    pub(crate) group: usize,
    pub(crate) value: i128,
}

/// State of one function, by group.
pub(crate) enum State {
    Count(Vec<i64>),
    Sum { sums: Vec<i128>, seen: Vec<u8> },
    WideSum { sums: Vec<WideSum>, seen: Vec<u8> },
    Doubles { sums: Vec<ExactSum>, seen: Vec<u8> },
    I64(Extremes<i64>),
    U64(Extremes<u64>),
    I128(Extremes<i128>),
    F64(Extremes<f64>),
    Bytes(Extremes<Vec<u8>>, Collation),
}

/// A sum of 128-bit values in 192 bits: `top * 2^128 + low`.
#[derive(Clone, Copy, Default)]
pub(crate) struct WideSum {
    top: i64,
    low: u128,
}

/// Least or greatest values.
pub(crate) struct Extremes<T> {
    max: bool,
    values: Vec<T>,
    seen: Vec<u8>,
    /// Bytes that the values take beside themselves.
    heap: usize,
}

impl State {
    /// The state of `function` over an argument of type `argument`, without groups.
    ///
    /// # Panics
    /// If the function does not take the argument: descriptors are validated.
    pub(crate) fn new(function: AggregateFunction, argument: Option<Type>) -> Self {
        let max = function == AggregateFunction::Max;
        let lanes = argument.map(Lanes::for_type);
        match (function, lanes) {
            (AggregateFunction::CountAll | AggregateFunction::Count, _) => Self::Count(Vec::new()),
            (AggregateFunction::Sum, Some(Lanes::I64(_) | Lanes::U64(_))) => Self::Sum {
                sums: Vec::new(),
                seen: Vec::new(),
            },
            (AggregateFunction::Sum, Some(Lanes::I128(_))) => Self::WideSum {
                sums: Vec::new(),
                seen: Vec::new(),
            },
            (AggregateFunction::Sum, Some(Lanes::F64(_))) => Self::Doubles {
                sums: Vec::new(),
                seen: Vec::new(),
            },
            (AggregateFunction::Sum, _) => panic!("N1: this argument cannot be summed in storage"),
            (_, Some(Lanes::I64(_))) => Self::I64(Extremes::new(max)),
            (_, Some(Lanes::U64(_))) => Self::U64(Extremes::new(max)),
            (_, Some(Lanes::I128(_))) => Self::I128(Extremes::new(max)),
            (_, Some(Lanes::F64(_))) => Self::F64(Extremes::new(max)),
            (_, Some(Lanes::Bytes { .. })) => {
                let collation = argument.and_then(Type::collation);
                let collation = collation.expect("N1: strings have a collation");
                Self::Bytes(Extremes::new(max), collation)
            }
            (_, None) => panic!("N1: MIN and MAX have an argument"),
        }
    }

    /// Bytes that one more group takes, strings aside.
    pub(crate) fn group_bytes(&self) -> usize {
        match self {
            Self::Count(_) => 8,
            Self::Sum { .. } => 17,
            Self::WideSum { .. } => 33,
            // Most sums are of two or three doubles.
            Self::Doubles { .. } => size_of::<ExactSum>() + 33,
            Self::I64(_) | Self::U64(_) | Self::F64(_) => 9,
            Self::I128(_) => 17,
            Self::Bytes(..) => 33,
        }
    }

    /// Bytes that the groups take beside [`State::group_bytes`]: those of strings.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Bytes(extremes, _) => extremes.heap,
            _ => 0,
        }
    }

    /// Makes room for `groups` groups; new ones have seen nothing.
    pub(crate) fn resize(&mut self, groups: usize) {
        match self {
            Self::Count(counts) => counts.resize(groups, 0),
            Self::Sum { sums, seen } => {
                sums.resize(groups, 0);
                seen.resize(groups, 0);
            }
            Self::WideSum { sums, seen } => {
                sums.resize(groups, WideSum::default());
                seen.resize(groups, 0);
            }
            Self::Doubles { sums, seen } => {
                sums.resize(groups, ExactSum::default());
                seen.resize(groups, 0);
            }
            Self::I64(extremes) => extremes.resize(groups),
            Self::U64(extremes) => extremes.resize(groups),
            Self::I128(extremes) => extremes.resize(groups),
            Self::F64(extremes) => extremes.resize(groups),
            Self::Bytes(extremes, _) => extremes.resize(groups),
        }
    }

    /// Takes in rows `rows` of `argument` (none for `COUNT(*)`).
    pub(crate) fn update(
        &mut self,
        argument: Option<&Vector>,
        rows: Range<usize>,
        groups: Groups<'_>,
    ) {
        if let Groups::Few { groups, counts } = groups
            && self.update_few(argument, rows.clone(), groups, counts)
        {
            return;
        }
        let valid = argument.and_then(|argument| argument.valid.as_deref());
        match (self, argument.map(|argument| &argument.lanes)) {
            (Self::Count(counts), _) => count(counts, rows, groups, valid),
            (Self::Sum { sums, seen }, Some(Lanes::I64(lanes))) => match (groups, valid) {
                (Groups::One, None) => {
                    seen[0] |= u8::from(!rows.is_empty());
                    sums[0] += sum(&lanes[rows]);
                }
                _ => each(rows, groups, valid, |row, group| {
                    seen[group] = 1;
                    sums[group] = sums[group].wrapping_add(lanes[row].into());
                }),
            },
            (Self::Sum { sums, seen }, Some(Lanes::U64(lanes))) => {
                each(rows, groups, valid, |row, group| {
                    seen[group] = 1;
                    sums[group] = sums[group].wrapping_add(lanes[row].into());
                });
            }
            (Self::WideSum { sums, seen }, Some(Lanes::I128(lanes))) => {
                each(rows, groups, valid, |row, group| {
                    seen[group] = 1;
                    sums[group].add(lanes[row]);
                });
            }
            (Self::Doubles { sums, seen }, Some(Lanes::F64(lanes))) => {
                each(rows, groups, valid, |row, group| {
                    seen[group] = 1;
                    sums[group].add(lanes[row]);
                });
            }
            (Self::I64(extremes), Some(Lanes::I64(lanes))) => {
                each(rows, groups, valid, |row, g| {
                    extremes.take(g, lanes[row], i64::cmp)
                });
            }
            (Self::U64(extremes), Some(Lanes::U64(lanes))) => {
                each(rows, groups, valid, |row, g| {
                    extremes.take(g, lanes[row], u64::cmp)
                });
            }
            (Self::I128(extremes), Some(Lanes::I128(lanes))) => {
                each(rows, groups, valid, |row, g| {
                    extremes.take(g, lanes[row], i128::cmp)
                });
            }
            (Self::F64(extremes), Some(Lanes::F64(lanes))) => {
                each(rows, groups, valid, |row, g| {
                    // The negative zero equals the other one.
                    extremes.take(g, lanes[row] + 0.0, f64::total_cmp)
                });
            }
            (Self::Bytes(extremes, collation), Some(Lanes::Bytes { ends, data })) => {
                each(rows, groups, valid, |row, group| {
                    let start = if row == 0 { 0 } else { ends[row - 1] as usize };
                    let value = &data[start..ends[row] as usize];
                    extremes.take_bytes(group, value, *collation);
                });
            }
            _ => panic!("N1: an argument has the lanes of its type"),
        }
    }

    /// As [`State::update`], where there is a faster way for few groups; false if there is none.
    fn update_few(
        &mut self,
        argument: Option<&Vector>,
        rows: Range<usize>,
        groups: &[u32],
        counts: &[u32; FEW],
    ) -> bool {
        if rows.len() >= LONG_RUN || argument.is_some_and(|argument| argument.valid.is_some()) {
            return false;
        }
        let mark = |seen: &mut [u8]| {
            seen.iter_mut()
                .zip(counts)
                .for_each(|(seen, n)| *seen |= u8::from(*n > 0));
        };
        match (self, argument.map(|argument| &argument.lanes)) {
            (Self::Count(own), _) => {
                own.iter_mut()
                    .zip(counts)
                    .for_each(|(own, n)| *own += i64::from(*n));
            }
            (Self::Sum { sums, seen }, Some(Lanes::I64(lanes))) => {
                mark(seen);
                let lanes = &lanes[rows];
                if lanes.iter().fold(true, |small, v| small & is_small(*v)) {
                    let add = |sum: &mut i64, v: &i64| *sum = sum.wrapping_add(*v);
                    sum_few(lanes, groups, sums.len(), add, |group, run| {
                        sums[group] = sums[group].wrapping_add(run.into());
                    });
                } else {
                    let add = |sum: &mut i128, v: &i64| *sum = sum.wrapping_add((*v).into());
                    sum_few(lanes, groups, sums.len(), add, |group, run| {
                        sums[group] = sums[group].wrapping_add(run);
                    });
                }
            }
            (Self::WideSum { sums, seen }, Some(Lanes::I128(lanes))) => {
                let lanes = &lanes[rows];
                // Their high halves: the low ones need only room for what a page carries over.
                let high = |v: &i128| (v >> 64) as i64;
                if !lanes
                    .iter()
                    .fold(true, |small, v| small & is_small(high(v)))
                {
                    return false;
                }
                mark(seen);
                let add = |sum: &mut i128, v: &i128| *sum = sum.wrapping_add(*v);
                sum_few(lanes, groups, sums.len(), add, |group, run| {
                    sums[group].add(run);
                });
            }
            _ => return false,
        }
        true
    }

    /// Takes in the groups of another state of the same function: its group `i` goes to group `into[i]`.
    ///
    /// # Panics
    /// If the states are of different functions.
    pub(crate) fn absorb(&mut self, other: Self, into: &[u32]) {
        let pairs = || into.iter().map(|group| *group as usize).enumerate();
        match (self, other) {
            (Self::Count(own), Self::Count(other)) => {
                pairs().for_each(|(from, to)| own[to] += other[from]);
            }
            (Self::Sum { sums, seen }, Self::Sum { sums: s, seen: n }) => {
                for (from, to) in pairs() {
                    seen[to] |= n[from];
                    sums[to] = sums[to].wrapping_add(s[from]);
                }
            }
            (Self::WideSum { sums, seen }, Self::WideSum { sums: s, seen: n }) => {
                for (from, to) in pairs() {
                    seen[to] |= n[from];
                    sums[to].merge(s[from]);
                }
            }
            (Self::Doubles { sums, seen }, Self::Doubles { sums: s, seen: n }) => {
                for ((from, to), sum) in pairs().zip(s) {
                    match seen[to] {
                        0 => sums[to] = sum,
                        _ => sums[to].merge(&sum),
                    }
                    seen[to] |= n[from];
                }
            }
            (Self::I64(own), Self::I64(other)) => own.absorb(&other, into, i64::cmp),
            (Self::U64(own), Self::U64(other)) => own.absorb(&other, into, u64::cmp),
            (Self::I128(own), Self::I128(other)) => own.absorb(&other, into, i128::cmp),
            (Self::F64(own), Self::F64(other)) => own.absorb(&other, into, f64::total_cmp),
            (Self::Bytes(own, collation), Self::Bytes(other, _)) => {
                for (from, to) in pairs().filter(|(from, _)| other.seen[*from] != 0) {
                    own.take_bytes(to, &other.values[from], *collation);
                }
            }
            _ => panic!("N8: states of one function are merged"),
        }
    }

    /// Takes away the groups from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Count(counts) => Self::Count(counts.split_off(at)),
            Self::Sum { sums, seen } => Self::Sum {
                sums: sums.split_off(at),
                seen: seen.split_off(at),
            },
            Self::WideSum { sums, seen } => Self::WideSum {
                sums: sums.split_off(at),
                seen: seen.split_off(at),
            },
            Self::Doubles { sums, seen } => Self::Doubles {
                sums: sums.split_off(at),
                seen: seen.split_off(at),
            },
            Self::I64(extremes) => Self::I64(extremes.split_off(at)),
            Self::U64(extremes) => Self::U64(extremes.split_off(at)),
            Self::I128(extremes) => Self::I128(extremes.split_off(at)),
            Self::F64(extremes) => Self::F64(extremes.split_off(at)),
            Self::Bytes(extremes, collation) => {
                let mut tail = extremes.split_off(at);
                tail.heap = tail.values.iter().map(Vec::len).sum();
                extremes.heap -= tail.heap;
                Self::Bytes(tail, *collation)
            }
        }
    }

    /// Appends the state of every group to `out` and forgets all groups.
    pub(crate) fn emit(&mut self, out: &mut Vector, leftovers: &mut Vec<Leftover>) {
        match (self, &mut out.lanes) {
            (Self::Count(counts), Lanes::I64(lanes)) => {
                lanes.append(counts);
                if let Some(valid) = &mut out.valid {
                    valid.resize(lanes.len(), 1);
                }
            }
            (Self::Sum { sums, seen }, Lanes::I128(lanes)) => {
                lanes.append(sums);
                extend_validity(out, seen);
            }
            (Self::WideSum { sums, seen }, Lanes::I128(lanes)) => {
                for (group, sum) in sums.drain(..).enumerate() {
                    let mut pieces = sum.pieces();
                    lanes.extend(pieces.next());
                    leftovers.extend(pieces.map(|value| Leftover { group, value }));
                }
                extend_validity(out, seen);
            }
            (Self::Doubles { sums, seen }, Lanes::Bytes { ends, data }) => {
                for (sum, seen) in sums.drain(..).zip(&*seen) {
                    if *seen != 0 {
                        data.extend_from_slice(&sum.to_bytes());
                    }
                    ends.push(data.len() as u32);
                }
                extend_validity(out, seen);
            }
            (Self::I64(extremes), Lanes::I64(lanes)) => {
                lanes.append(&mut extremes.values);
                extend_validity(out, &mut extremes.seen);
            }
            (Self::U64(extremes), Lanes::U64(lanes)) => {
                lanes.append(&mut extremes.values);
                extend_validity(out, &mut extremes.seen);
            }
            (Self::I128(extremes), Lanes::I128(lanes)) => {
                lanes.append(&mut extremes.values);
                extend_validity(out, &mut extremes.seen);
            }
            (Self::F64(extremes), Lanes::F64(lanes)) => {
                lanes.append(&mut extremes.values);
                extend_validity(out, &mut extremes.seen);
            }
            (Self::Bytes(extremes, _), Lanes::Bytes { ends, data }) => {
                for value in extremes.values.drain(..) {
                    data.extend_from_slice(&value);
                    ends.push(data.len() as u32);
                }
                extremes.heap = 0;
                extend_validity(out, &mut extremes.seen);
            }
            _ => panic!("N1: a state is given out in the lanes of its type"),
        }
    }

    /// An empty vector that takes what [`State::emit`] gives.
    pub(crate) fn vector(&self) -> Vector {
        let lanes = match self {
            Self::Count(_) | Self::I64(_) => Lanes::I64(Vec::new()),
            Self::Sum { .. } | Self::WideSum { .. } | Self::I128(_) => Lanes::I128(Vec::new()),
            Self::U64(_) => Lanes::U64(Vec::new()),
            Self::F64(_) => Lanes::F64(Vec::new()),
            Self::Bytes(..) | Self::Doubles { .. } => Lanes::Bytes {
                ends: Vec::new(),
                data: Vec::new(),
            },
        };
        Vector { lanes, valid: None }
    }
}

/// Appends validity for the lanes that were just appended; empties `seen`.
pub(crate) fn extend_validity(out: &mut Vector, seen: &mut Vec<u8>) {
    let before = out.len() - seen.len();
    if out.valid.is_none() && seen.contains(&0) {
        out.valid = Some(vec![1; before]);
    }
    if let Some(valid) = &mut out.valid {
        valid.append(seen);
    }
    seen.clear();
}

/// Calls `f` with each row that is not NULL and its group.
#[inline]
fn each(
    rows: Range<usize>,
    groups: Groups<'_>,
    valid: Option<&[u8]>,
    mut f: impl FnMut(usize, usize),
) {
    match (groups, valid) {
        (Groups::One, None) => rows.for_each(|row| f(row, 0)),
        (Groups::One, Some(valid)) => {
            rows.filter(|row| valid[*row] != 0)
                .for_each(|row| f(row, 0));
        }
        (Groups::Few { groups, .. } | Groups::Many(groups), None) => {
            rows.zip(groups)
                .for_each(|(row, group)| f(row, *group as usize));
        }
        (Groups::Few { groups, .. } | Groups::Many(groups), Some(valid)) => rows
            .zip(groups)
            .filter(|(row, _)| valid[*row] != 0)
            .for_each(|(row, group)| f(row, *group as usize)),
    }
}

fn count(counts: &mut [i64], rows: Range<usize>, groups: Groups<'_>, valid: Option<&[u8]>) {
    match (groups, valid) {
        (Groups::One, None) => counts[0] += rows.len() as i64,
        _ => each(rows, groups, valid, |_, group| counts[group] += 1),
    }
}

/// Sizes of the groups of a run, if all of them are below [`FEW`].
pub(crate) fn count_few(groups: &[u32], len: usize) -> [u32; FEW] {
    let mut counts = [0; FEW];
    let add = |n: &mut u32, _: &u32| *n += 1;
    sum_few(groups, groups, len, add, |group, n| counts[group] += n);
    counts
}

/// Adds each value to the sum of its group, of `len` groups; `merge` is given what each group has got, in
/// parts.
#[inline]
fn sum_few<T, S: Copy + Default>(
    values: &[T],
    groups: &[u32],
    len: usize,
    add: impl Fn(&mut S, &T),
    merge: impl FnMut(usize, S),
) {
    match len {
        0..=4 => sum_in::<4, _, _>(values, groups, len, add, merge),
        5..=8 => sum_in::<8, _, _>(values, groups, len, add, merge),
        _ => sum_in::<FEW, _, _>(values, groups, len, add, merge),
    }
}

/// As [`sum_few`], in [`WAYS`] sets of `N` sums.
#[inline]
fn sum_in<const N: usize, T, S: Copy + Default>(
    values: &[T],
    groups: &[u32],
    len: usize,
    add: impl Fn(&mut S, &T),
    mut merge: impl FnMut(usize, S),
) {
    let mut sums = [[S::default(); N]; WAYS];
    let (values, last_values) = values.as_chunks::<WAYS>();
    let (groups, last_groups) = groups.as_chunks::<WAYS>();
    for (values, groups) in values.iter().zip(groups) {
        for way in 0..WAYS {
            add(&mut sums[way][groups[way] as usize % N], &values[way]);
        }
    }
    for (value, group) in last_values.iter().zip(last_groups) {
        add(&mut sums[0][*group as usize % N], value);
    }
    for way in &sums {
        way[..len]
            .iter()
            .enumerate()
            .for_each(|(group, sum)| merge(group, *sum));
    }
}

/// Rows of a run that is too long for the sums of [`is_small`] values.
const LONG_RUN: usize = 1 << 23;

/// True for a value of which 64 bits hold the sum of a run.
fn is_small(value: i64) -> bool {
    value ^ (value >> 63) < 1 << 40
}

/// Sum of 64-bit numbers: the halves are summed apart, which vectorises and cannot overflow.
fn sum(values: &[i64]) -> i128 {
    values
        .chunks(1 << 30)
        .map(|chunk| {
            let (mut high, mut low) = (0_i64, 0_u64);
            for value in chunk {
                high = high.wrapping_add(value >> 32);
                low = low.wrapping_add(*value as u64 & 0xffff_ffff);
            }
            (i128::from(high) << 32) + i128::from(low)
        })
        .sum()
}

impl WideSum {
    /// Cannot overflow: `top` moves by at most one.
    #[inline]
    fn add(&mut self, value: i128) {
        let (low, carry) = self.low.overflowing_add(value as u128);
        self.low = low;
        self.top += i64::from(carry) + (value >> 127) as i64;
    }

    fn merge(&mut self, other: Self) {
        let (low, carry) = self.low.overflowing_add(other.low);
        self.low = low;
        self.top += other.top + i64::from(carry);
    }

    /// Values of at most [`MAX_SUM`] in magnitude whose sum is this one; at least one.
    fn pieces(self) -> impl Iterator<Item = i128> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let mut sum = rest.take()?;
            let low = sum.low as i128;
            let fits = sum.top == (low >> 127) as i64;
            if fits && (-MAX_SUM..=MAX_SUM).contains(&low) {
                return Some(low);
            }
            let piece = if sum.top < 0 { -MAX_SUM } else { MAX_SUM };
            sum.add(-piece);
            rest = Some(sum);
            Some(piece)
        })
    }
}

impl<T: Clone + Default> Extremes<T> {
    fn new(max: bool) -> Self {
        Self {
            max,
            values: Vec::new(),
            seen: Vec::new(),
            heap: 0,
        }
    }

    fn split_off(&mut self, at: usize) -> Self {
        Self {
            max: self.max,
            values: self.values.split_off(at),
            seen: self.seen.split_off(at),
            heap: 0,
        }
    }

    fn resize(&mut self, groups: usize) {
        self.values.resize(groups, T::default());
        self.seen.resize(groups, 0);
    }

    #[inline]
    fn wanted(&self, ordering: Ordering) -> bool {
        ordering
            == if self.max {
                Ordering::Greater
            } else {
                Ordering::Less
            }
    }
}

impl<T: Copy + Default> Extremes<T> {
    #[inline]
    fn take(&mut self, group: usize, value: T, compare: fn(&T, &T) -> Ordering) {
        if self.seen[group] == 0 || self.wanted(compare(&value, &self.values[group])) {
            self.values[group] = value;
            self.seen[group] = 1;
        }
    }
}

impl<T: Copy + Default> Extremes<T> {
    fn absorb(&mut self, other: &Self, into: &[u32], compare: fn(&T, &T) -> Ordering) {
        for ((group, value), seen) in into.iter().zip(&other.values).zip(&other.seen) {
            if *seen != 0 {
                self.take(*group as usize, *value, compare);
            }
        }
    }
}

impl Extremes<Vec<u8>> {
    /// Of strings that are equal in the collation the one that is first in byte order is the least, so
    /// that the result does not depend on the order of the rows.
    fn take_bytes(&mut self, group: usize, value: &[u8], collation: Collation) {
        let best = &self.values[group];
        if self.seen[group] == 0
            || self.wanted(collation.compare(value, best).then_with(|| value.cmp(best)))
        {
            self.heap = self.heap + value.len() - best.len();
            self.values[group].clear();
            self.values[group].extend_from_slice(value);
            self.seen[group] = 1;
        }
    }
}
