//! Aggregation inside storage: partial states per group, merged over all pages of an execution
//! (taurus-ndp section V.C).
//!
//! [`AggregatePlan`] is what can be known from the descriptor alone; [`Aggregation`] is one
//! execution's state. Groups are found by hashing ([`groups`]) or by sorting ([`sort`]). Memory is bounded: what
//! exceeds it goes into the output as partial rows, which is never an error.

mod groups;
mod keys;
mod memory;
mod sort;
mod state;

use std::ops::Range;
use std::sync::Arc;

use perigee_expr::{AggregateFunction, Lanes, Program, Type, Vector};
use perigee_value::{Collation, ColumnType, RowLayout};

use groups::GroupTable;
use keys::{KeyPart, KeyValues, Text};
use memory::Held;
pub use memory::{AggregateBudget, GroupMemory};
use sort::{Overflow, SortTable};
use state::{FEW, Groups, Leftover, State, count_few, extend_validity};

use crate::expression::{Backend, Operand};
use crate::{Aggregate, GroupMethod};

/// What to compute: distinct operands, distinct states, and which state each function shows.
pub(crate) struct AggregatePlan {
    keys: Vec<Operand>,
    parts: Vec<KeyPart>,
    arguments: Vec<Operand>,
    states: Vec<StatePlan>,
    /// State of each function of the descriptor.
    outputs: Vec<usize>,
    method: GroupMethod,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct StatePlan {
    function: AggregateFunction,
    argument: Option<usize>,
}

impl AggregatePlan {
    pub(crate) fn new(
        aggregate: &Aggregate,
        method: GroupMethod,
        layout: &RowLayout,
        backend: Backend,
    ) -> Self {
        let mut plan = Self {
            method,
            keys: Vec::new(),
            parts: Vec::new(),
            arguments: Vec::new(),
            states: Vec::new(),
            outputs: Vec::new(),
        };
        for program in &aggregate.group_by {
            let key = Operand::new(program, layout, backend);
            plan.parts.push(key_part(&key, layout));
            plan.keys.push(key);
        }
        for (function, argument) in &aggregate.functions {
            // A column that is never NULL need not be read to be counted.
            let never_null = |program: &&Program| {
                let column = program.as_column().map(|i| &layout.columns[usize::from(i)]);
                column.is_some_and(|column| column.null_bit.is_none())
            };
            let argument = argument.as_ref();
            let argument = argument
                .filter(|program| *function != AggregateFunction::Count || !never_null(program))
                .map(|program| plan.argument(program, layout, backend));
            let state = plan.state(*function, argument);
            plan.outputs.push(state);
        }
        plan
    }

    /// Index of an argument among the distinct ones.
    fn argument(&mut self, program: &Program, layout: &RowLayout, backend: Backend) -> usize {
        if let Some(known) = self
            .arguments
            .iter()
            .position(|known| known.program() == program)
        {
            return known;
        }
        self.arguments.push(Operand::new(program, layout, backend));
        self.arguments.len() - 1
    }

    /// Index of a state among the distinct ones. Counting what cannot be NULL is counting rows.
    fn state(&mut self, function: AggregateFunction, argument: Option<usize>) -> usize {
        let counted = argument.filter(|i| self.arguments[*i].is_nullable());
        let plan = match (function, counted) {
            (AggregateFunction::Count, None) => StatePlan {
                function: AggregateFunction::CountAll,
                argument: None,
            },
            _ => StatePlan { function, argument },
        };
        if let Some(known) = self.states.iter().position(|known| *known == plan) {
            return known;
        }
        self.states.push(plan);
        self.states.len() - 1
    }

    /// States of no groups.
    fn empty_states(&self) -> Vec<State> {
        let state = |state: &StatePlan| {
            let argument = state.argument.map(|i| self.arguments[i].result_type());
            State::new(state.function, argument)
        };
        self.states.iter().map(state).collect()
    }

    /// True if no expression is interpreted.
    pub(crate) fn is_compiled(&self) -> bool {
        self.keys
            .iter()
            .chain(&self.arguments)
            .all(Operand::is_compiled)
    }

    /// Number of distinct arguments.
    pub(crate) fn arguments(&self) -> usize {
        self.arguments.len()
    }

    /// True if nothing but the number of rows matters.
    pub(crate) fn only_counts(&self) -> bool {
        self.keys.is_empty() && self.arguments.is_empty()
    }
}

/// How values of a key are told apart.
fn key_part(key: &Operand, layout: &RowLayout) -> KeyPart {
    let column = key
        .program()
        .as_column()
        .map(|i| layout.columns[usize::from(i)].ty);
    let text = match (key.result_type(), column) {
        (Type::Collated(collation), _) => Text::Form(collation),
        // Stored without trailing spaces.
        (_, Some(ColumnType::Char { .. })) => Text::Bytes,
        (_, Some(ColumnType::Varchar { collation, .. })) if collation == Collation::BINARY => {
            Text::Bytes
        }
        (Type::String, _) => Text::Trimmed,
        _ => Text::Bytes,
    };
    let width = match (key.result_type(), column.and_then(ColumnType::stored_width)) {
        // FLOAT is evaluated as a double.
        (Type::Double, _) => 8,
        (_, Some(stored)) => stored as u8,
        (Type::Bool, None) => 1,
        (Type::Date, None) => 4,
        (Type::Decimal { precision, .. }, None) if precision > 18 => 16,
        (_, None) => 8,
    };
    KeyPart {
        text,
        width,
        nullable: key.is_nullable(),
    }
}

/// The groups of an execution.
enum Table {
    Hash(GroupTable),
    Sort(SortTable),
}

impl Table {
    fn len(&self) -> usize {
        match self {
            Self::Hash(table) => table.len(),
            Self::Sort(table) => table.len(),
        }
    }
}

/// Running aggregation of one execution.
pub(crate) struct Aggregation {
    table: Option<Table>,
    /// Of all groups of a hash table; of a page's groups if they are sorted.
    states: Vec<State>,
    /// Rows taken in since the last flush.
    rows: u64,
    keys: Vec<Vector>,
    arguments: Vec<Vector>,
    groups: Vec<u32>,
}

impl Aggregation {
    pub(crate) fn new(
        plan: &AggregatePlan,
        budget: AggregateBudget,
        memory: Option<Arc<dyn GroupMemory>>,
    ) -> Self {
        let states = plan.empty_states();
        let vectors = |operands: &[Operand]| operands.iter().map(Operand::vector).collect();
        let keys: Vec<Vector> = vectors(&plan.keys);
        let state_bytes = states.iter().map(State::group_bytes).sum();
        let held = Held::new(budget.bytes, memory);
        let (parts, most) = (plan.parts.clone(), budget.groups);
        let table = match (plan.keys.is_empty(), plan.method) {
            (true, _) => None,
            (_, GroupMethod::Hash) => {
                let table = GroupTable::new(parts, keys.clone(), state_bytes, most, held);
                Some(Table::Hash(table))
            }
            (_, GroupMethod::Sort) => {
                Some(Table::Sort(SortTable::new(parts, state_bytes, most, held)))
            }
        };
        Self {
            table,
            states,
            rows: 0,
            keys,
            arguments: vectors(&plan.arguments),
            groups: Vec::new(),
        }
    }

    /// Empty vectors for the output: keys, then functions.
    pub(crate) fn columns(&self, plan: &AggregatePlan) -> Vec<Vector> {
        let functions = plan
            .outputs
            .iter()
            .map(|&state| self.states[state].vector());
        plan.keys
            .iter()
            .map(Operand::vector)
            .chain(functions)
            .collect()
    }

    /// Takes in `n` rows of which nothing but the number matters.
    pub(crate) fn count(&mut self, plan: &AggregatePlan, n: usize) {
        debug_assert!(plan.only_counts());
        self.states.iter_mut().for_each(|state| {
            state.resize(1);
            state.update(None, 0..n, Groups::One);
        });
        self.rows += n as u64;
    }

    /// Number of groups that are not in the output yet.
    pub(crate) fn groups(&self) -> usize {
        self.table.as_ref().map_or(1, Table::len)
    }

    /// Evaluates keys and arguments of records; returns the positions that failed, sorted and
    /// unique. If there are none, [`Aggregation::accumulate`] takes the records in.
    pub(crate) fn evaluate(
        &mut self,
        plan: &AggregatePlan,
        base: &[u8],
        records: &[u16],
    ) -> Vec<u32> {
        let mut failures = Vec::new();
        // String columns are read when the groups are looked up.
        let keys = plan
            .keys
            .iter()
            .zip(&mut self.keys)
            .filter(|(key, _)| key.item().is_none());
        for (operand, vector) in keys.chain(plan.arguments.iter().zip(&mut self.arguments)) {
            vector.clear();
            operand.evaluate(base, records, vector, &mut failures);
        }
        failures.sort_unstable();
        failures.dedup();
        failures
    }

    /// Takes in the records that were just evaluated. Groups that exceed the budget go to `out` as
    /// partial rows; returns their number.
    pub(crate) fn accumulate(
        &mut self,
        plan: &AggregatePlan,
        base: &[u8],
        records: &[u16],
        out: &mut [Vector],
    ) -> usize {
        let rows = records.len();
        let Some(mut table) = self.table.take() else {
            self.update(plan, 0..rows, 1, Groups::One);
            return 0;
        };
        let vectors = std::mem::take(&mut self.keys);
        let mut groups = std::mem::take(&mut self.groups);
        let keys: Vec<_> = plan
            .keys
            .iter()
            .zip(&vectors)
            .map(|(key, vector)| match key.item() {
                Some(gather) => KeyValues::Items {
                    gather,
                    base,
                    records,
                },
                None => KeyValues::Lanes(vector),
            })
            .collect();
        let flushed = match &mut table {
            Table::Hash(table) => self.hash_rows(plan, table, &keys, rows, &mut groups, out),
            Table::Sort(table) => self.sort_rows(plan, table, &keys, rows, out),
        };
        self.keys = vectors;
        self.groups = groups;
        self.table = Some(table);
        flushed
    }

    fn hash_rows(
        &mut self,
        plan: &AggregatePlan,
        table: &mut GroupTable,
        keys: &[KeyValues<'_>],
        rows: usize,
        groups: &mut Vec<u32>,
        out: &mut [Vector],
    ) -> usize {
        table.load(keys, rows);
        let (mut done, mut flushed) = (0, 0);
        while done < rows {
            table.set_heap_bytes(self.states.iter().map(State::heap_bytes).sum());
            let upto = table.assign(keys, done, rows, groups);
            self.update_groups(plan, done..upto, table.len(), groups);
            if upto < rows {
                assert!(
                    table.len() > 0,
                    "N8: an empty table takes at least one group"
                );
                flushed += self.flush_table(plan, table, out);
            }
            done = upto;
        }
        flushed
    }

    fn sort_rows(
        &mut self,
        plan: &AggregatePlan,
        table: &mut SortTable,
        keys: &[KeyValues<'_>],
        rows: usize,
        out: &mut [Vector],
    ) -> usize {
        if rows == 0 {
            return 0;
        }
        let sorted = table.sort(keys, rows);
        self.update_groups(plan, 0..rows, sorted.len(), &sorted.groups);
        let states = std::mem::replace(&mut self.states, plan.empty_states());
        let overflow = table.add(sorted, states, &|| plan.empty_states());
        flush_sorted(plan, table, overflow, out)
    }

    fn update_groups(
        &mut self,
        plan: &AggregatePlan,
        rows: Range<usize>,
        len: usize,
        groups: &[u32],
    ) {
        if len <= FEW {
            let counts = &count_few(groups, len);
            self.update(plan, rows, len, Groups::Few { groups, counts });
        } else {
            self.update(plan, rows, len, Groups::Many(groups));
        }
    }

    /// Brings rows into the states of their groups.
    fn update(
        &mut self,
        plan: &AggregatePlan,
        rows: Range<usize>,
        groups: usize,
        of_rows: Groups<'_>,
    ) {
        for (state, plan) in self.states.iter_mut().zip(&plan.states) {
            state.resize(groups);
            let argument = plan.argument.map(|i| &self.arguments[i]);
            state.update(argument, rows.clone(), of_rows);
        }
        self.rows += rows.len() as u64;
    }

    /// Moves every group into `out` as partial rows; returns their number.
    ///
    /// A scalar aggregate gives one row, or none if no record was taken in.
    pub(crate) fn flush(&mut self, plan: &AggregatePlan, out: &mut [Vector]) -> usize {
        match self.table.take() {
            Some(mut table) => {
                let rows = match &mut table {
                    Table::Hash(table) => self.flush_table(plan, table, out),
                    Table::Sort(table) => {
                        let all = table.take(&|| plan.empty_states());
                        flush_sorted(plan, table, all, out)
                    }
                };
                self.table = Some(table);
                self.rows = 0;
                rows
            }
            None if std::mem::take(&mut self.rows) == 0 => 0,
            None => 1 + flush_states(plan, &mut self.states, out, |_| ()),
        }
    }

    fn flush_table(
        &mut self,
        plan: &AggregatePlan,
        table: &mut GroupTable,
        out: &mut [Vector],
    ) -> usize {
        let groups = table.len();
        if groups == 0 {
            return 0;
        }
        let (keys, functions) = out.split_at_mut(plan.keys.len());
        for (column, values) in keys.iter_mut().zip(table.keys()) {
            append(column, values);
        }
        let more = flush_states(plan, &mut self.states, functions, |group| {
            for ((column, values), part) in keys.iter_mut().zip(table.keys()).zip(table.parts()) {
                KeyValues::Lanes(values).push(&part.given_out(), group, column);
            }
        });
        table.clear();
        groups + more
    }
}

/// Moves groups that leave a sorted table into `out` as partial rows; returns their number.
fn flush_sorted(
    plan: &AggregatePlan,
    table: &SortTable,
    pieces: Vec<Overflow>,
    out: &mut [Vector],
) -> usize {
    let (keys, functions) = out.split_at_mut(plan.keys.len());
    let mut rows = 0;
    for mut groups in pieces {
        groups.give_out_keys(table, keys);
        let mut states = std::mem::take(groups.states());
        rows += groups.len();
        rows += flush_states(plan, &mut states, functions, |group| {
            groups.give_out_key(table, group, keys);
        });
    }
    rows
}

/// Moves states into the columns of the functions; parts of sums that do not fit the row of their group
/// get rows of their own, for which `push_key` is called with the group. Returns the number of those.
fn flush_states(
    plan: &AggregatePlan,
    states: &mut [State],
    functions: &mut [Vector],
    mut push_key: impl FnMut(usize),
) -> usize {
    let mut leftovers: Vec<(usize, Leftover)> = Vec::new();
    for (i, state) in states.iter_mut().enumerate() {
        let mut shown = state.vector();
        let mut rest = Vec::new();
        state.emit(&mut shown, &mut rest);
        for (column, _) in functions
            .iter_mut()
            .zip(&plan.outputs)
            .filter(|(_, o)| **o == i)
        {
            append(column, &shown);
        }
        leftovers.extend(rest.into_iter().map(|leftover| (i, leftover)));
    }
    for (state, Leftover { group, value }) in &leftovers {
        push_key(*group);
        for (column, output) in functions.iter_mut().zip(&plan.outputs) {
            let other = &mut states[*output];
            let mut row = other.vector();
            if output == state {
                row.lanes = Lanes::I128(vec![*value]);
            } else {
                // As of a group that has seen nothing.
                other.resize(1);
                other.emit(&mut row, &mut Vec::new());
            }
            append(column, &row);
        }
    }
    leftovers.len()
}

/// Appends all rows of `from`.
fn append(to: &mut Vector, from: &Vector) {
    let rows = from.len();
    match (&mut to.lanes, &from.lanes) {
        (Lanes::I64(to), Lanes::I64(from)) => to.extend_from_slice(from),
        (Lanes::U64(to), Lanes::U64(from)) => to.extend_from_slice(from),
        (Lanes::I128(to), Lanes::I128(from)) => to.extend_from_slice(from),
        (Lanes::F64(to), Lanes::F64(from)) => to.extend_from_slice(from),
        (
            Lanes::Bytes {
                ends: to_ends,
                data: to,
            },
            Lanes::Bytes { ends, data },
        ) => {
            let before = to.len() as u32;
            to.extend_from_slice(data);
            to_ends.extend(ends.iter().map(|end| before + end));
        }
        _ => panic!("N1: columns of one name have one form"),
    }
    let mut valid = from.valid.clone().unwrap_or_else(|| vec![1; rows]);
    extend_validity(to, &mut valid);
}
