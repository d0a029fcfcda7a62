//! Aggregation inside storage: partial states per group, merged over all pages of an execution
//! (taurus-ndp section V.C).
//!
//! [`AggregatePlan`] is what can be known from the descriptor alone; [`Aggregation`] is one
//! execution's state. Memory is bounded: when the table of groups is full its states go into the
//! output as partial rows and the table starts anew, which is never an error.

mod groups;
mod state;

use perigee_expr::{AggregateFunction, Lanes, Program, Type, Vector};
use perigee_value::{Collation, ColumnType, RowLayout};

pub use groups::AggregateBudget;
use groups::{GroupTable, KeyPart, push_lane};
use state::{Groups, Leftover, State, extend_validity};

use crate::Aggregate;
use crate::expression::{Backend, Operand};

/// What to compute: distinct operands, distinct states, and which state each function shows.
pub(crate) struct AggregatePlan {
    keys: Vec<Operand>,
    parts: Vec<KeyPart>,
    arguments: Vec<Operand>,
    states: Vec<StatePlan>,
    /// State of each function of the descriptor.
    outputs: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct StatePlan {
    function: AggregateFunction,
    argument: Option<usize>,
}

impl AggregatePlan {
    pub(crate) fn new(aggregate: &Aggregate, layout: &RowLayout, backend: Backend) -> Self {
        let mut plan = Self {
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
            let argument = argument.as_ref().map(|a| plan.argument(a, layout, backend));
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
        let plan = match (function, argument) {
            (AggregateFunction::Count, Some(i)) if !self.arguments[i].is_nullable() => StatePlan {
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

    /// True if no expression is interpreted.
    pub(crate) fn is_compiled(&self) -> bool {
        self.keys
            .iter()
            .chain(&self.arguments)
            .all(Operand::is_compiled)
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
    let (trim, packed) = match (key.result_type(), column) {
        (
            _,
            Some(ColumnType::Char { chars, collation } | ColumnType::Varchar { chars, collation }),
        ) => {
            // Up to four bytes a character in UTF-8; more than 15 bytes are never packed.
            let bytes = u8::try_from(u32::from(chars) * 4)
                .ok()
                .filter(|bytes| *bytes < 16);
            (collation != Collation::BINARY, bytes)
        }
        (_, Some(ty)) => (
            false,
            ty.stored_width()
                .map(|width| width as u8)
                .filter(|w| *w <= 8),
        ),
        (Type::String, None) => (true, None),
        (Type::Bool, None) => (false, Some(1)),
        (Type::Date, None) => (false, Some(4)),
        (Type::Decimal { precision, .. }, None) if precision > 18 => (false, None),
        (_, None) => (false, Some(8)),
    };
    // FLOAT is evaluated as a double.
    let packed = if key.result_type() == Type::Double {
        Some(8)
    } else {
        packed
    };
    KeyPart {
        trim,
        packed,
        nullable: key.is_nullable(),
    }
}

/// Running aggregation of one execution.
pub(crate) struct Aggregation {
    table: Option<GroupTable>,
    states: Vec<State>,
    /// Rows taken in since the last flush.
    rows: u64,
    keys: Vec<Vector>,
    arguments: Vec<Vector>,
    groups: Vec<u32>,
}

impl Aggregation {
    pub(crate) fn new(plan: &AggregatePlan, budget: AggregateBudget) -> Self {
        let states: Vec<_> = plan
            .states
            .iter()
            .map(|state| {
                let argument = state.argument.map(|i| plan.arguments[i].result_type());
                State::new(state.function, argument)
            })
            .collect();
        let vectors = |operands: &[Operand]| operands.iter().map(Operand::vector).collect();
        let keys: Vec<Vector> = vectors(&plan.keys);
        let state_bytes = states.iter().map(State::group_bytes).sum();
        let table = (!keys.is_empty())
            .then(|| GroupTable::new(plan.parts.clone(), keys.clone(), state_bytes, budget));
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
        self.table.as_ref().map_or(1, GroupTable::len)
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
        let keys = plan.keys.iter().zip(&mut self.keys);
        for (operand, vector) in keys.chain(plan.arguments.iter().zip(&mut self.arguments)) {
            vector.clear();
            operand.evaluate(base, records, vector, &mut failures);
        }
        failures.sort_unstable();
        failures.dedup();
        failures
    }

    /// Takes in the `rows` records that were just evaluated. Groups that exceed the budget go to
    /// `out` as partial rows; returns their number.
    pub(crate) fn accumulate(
        &mut self,
        plan: &AggregatePlan,
        rows: usize,
        out: &mut [Vector],
    ) -> usize {
        let Some(table) = &mut self.table else {
            self.update(plan, 0, rows, 1);
            return 0;
        };
        table.load(&self.keys, rows);
        let (mut done, mut flushed) = (0, 0);
        while done < rows {
            let table = self.table.as_mut().expect("there are keys");
            let upto = table.assign(&self.keys, done, rows, &mut self.groups);
            let groups = table.len();
            self.update(plan, done, upto, groups);
            if upto < rows {
                flushed += self.flush(plan, out);
            }
            assert!(
                upto > done || groups > 0,
                "N8: an empty table takes at least one group"
            );
            done = upto;
        }
        flushed
    }

    /// Brings the rows `from..upto` into the states of their groups.
    fn update(&mut self, plan: &AggregatePlan, from: usize, upto: usize, groups: usize) {
        let of_rows = if self.table.is_some() {
            Groups::Many(&self.groups)
        } else {
            Groups::One
        };
        for (state, plan) in self.states.iter_mut().zip(&plan.states) {
            state.resize(groups);
            let argument = plan.argument.map(|i| &self.arguments[i]);
            state.update(argument, from..upto, of_rows);
        }
        self.rows += (upto - from) as u64;
    }

    /// Moves every group into `out` as partial rows; returns their number.
    ///
    /// A scalar aggregate gives one row, or none if no record was taken in.
    pub(crate) fn flush(&mut self, plan: &AggregatePlan, out: &mut [Vector]) -> usize {
        let groups = self
            .table
            .as_ref()
            .map_or(usize::from(self.rows > 0), GroupTable::len);
        self.rows = 0;
        if groups == 0 {
            return 0;
        }
        let (key_columns, function_columns) = out.split_at_mut(plan.keys.len());
        let mut leftovers: Vec<(usize, Leftover)> = Vec::new();
        for (i, state) in self.states.iter_mut().enumerate() {
            let mut shown = state.vector();
            let mut rest = Vec::new();
            state.emit(&mut shown, &mut rest);
            for (column, output) in function_columns.iter_mut().zip(&plan.outputs) {
                if *output == i {
                    append(column, &shown);
                }
            }
            leftovers.extend(rest.into_iter().map(|leftover| (i, leftover)));
        }
        if let Some(table) = &self.table {
            for (column, keys) in key_columns.iter_mut().zip(table.keys()) {
                append(column, keys);
            }
        }
        for (state, leftover) in &leftovers {
            self.add_leftover(plan, (*state, leftover), key_columns, function_columns);
        }
        if let Some(table) = &mut self.table {
            table.clear();
        }
        groups + leftovers.len()
    }

    /// Adds a partial row of a group in which nothing but one part of a sum has a value.
    fn add_leftover(
        &mut self,
        plan: &AggregatePlan,
        (state, leftover): (usize, &Leftover),
        keys: &mut [Vector],
        functions: &mut [Vector],
    ) {
        if let Some(table) = &self.table {
            for (column, values) in keys.iter_mut().zip(table.keys()) {
                push_lane(column, values, leftover.group, false);
            }
        }
        for (column, output) in functions.iter_mut().zip(&plan.outputs) {
            if *output == state {
                let row = Vector {
                    lanes: Lanes::I128(vec![leftover.value]),
                    valid: None,
                };
                append(column, &row);
            } else {
                let other = &mut self.states[*output];
                other.resize(1);
                let mut row = other.vector();
                other.emit(&mut row, &mut Vec::new());
                append(column, &row);
            }
        }
    }
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
