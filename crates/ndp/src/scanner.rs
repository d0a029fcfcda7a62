//! [`Scanner`]: a descriptor made ready to run, shared by the workers that run it.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use perigee_expr::{EvalError, Interpreter, Node, Program};
use perigee_value::{Place, RowLayout};

use crate::aggregate::{AggregateBudget, AggregatePlan};
use crate::expression::{Backend, Expression};
use crate::gather::Gather;
use crate::join::{JoinTable, Joined, Joiner};
use crate::schema::output_schema;
use crate::{Descriptor, KeyRange, NdpError};

/// A validated descriptor with its programs compiled and its projection planned.
///
/// Immutable and shared by all workers; making one costs compilation, so Page Stores cache it by
/// [`Descriptor::hash`] (taurus-ndp section IV.D.1).
pub struct Scanner {
    pub(crate) descriptor: Descriptor,
    pub(crate) hash: u64,
    pub(crate) schema: SchemaRef,
    /// Layout of what is delivered or aggregated.
    rows: RowLayout,
    pub(crate) predicate: Option<Expression>,
    pub(crate) join: Option<Joiner>,
    pub(crate) projection: Vec<Gather>,
    pub(crate) aggregate: Option<AggregatePlan>,
    pub(crate) budget: AggregateBudget,
    /// So many leading variable-length items are read: their end offsets are checked first.
    pub(crate) items_read: usize,
    /// The predicate is evaluated over so many records before an execution pauses.
    pub(crate) piece: usize,
}

impl Scanner {
    /// Validates the descriptor and compiles its programs with `backend`.
    pub fn new(descriptor: Descriptor, backend: Backend) -> Result<Self, NdpError> {
        Self::with_budget(descriptor, backend, AggregateBudget::DEFAULT)
    }

    /// As [`Scanner::new`], with a memory budget for the groups of each execution, unless the descriptor asks
    /// for less.
    pub fn with_budget(
        descriptor: Descriptor,
        backend: Backend,
        mut budget: AggregateBudget,
    ) -> Result<Self, NdpError> {
        descriptor.validate()?;
        budget.bytes = descriptor.grouping.memory_of(budget.bytes);
        let (layout, rows) = (&descriptor.layout, descriptor.row_layout()?);
        let predicate = descriptor.predicate.as_ref();
        let predicate = predicate.map(|p| Expression::new(p, layout, backend));
        let join = descriptor.join.as_ref();
        let join = join.map(|join| Joiner::new(join, layout, &rows, backend));
        let aggregate = descriptor.aggregate.as_ref();
        let aggregate =
            aggregate.map(|a| AggregatePlan::new(a, descriptor.grouping.method, &rows, backend));
        let projection = match aggregate {
            Some(_) => Vec::new(),
            None => descriptor
                .projection
                .iter()
                .map(|&i| Gather::new(&rows, i))
                .collect(),
        };
        let mut scanner = Self {
            hash: descriptor.hash(),
            schema: Arc::new(output_schema(&descriptor, &rows)),
            rows,
            predicate,
            join,
            projection,
            aggregate,
            budget,
            items_read: items_read(&descriptor),
            piece: piece(&descriptor),
            descriptor,
        };
        if !scanner.is_compiled() {
            // The interpreter takes whole records only.
            scanner.items_read = scanner.descriptor.layout.shape.var_count.into();
        }
        Ok(scanner)
    }

    /// What it was made of.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Schema of finished batches: the projected columns, named `c` and their number in the
    /// layout; or grouping columns `g0`, `g1`, … and function states `f0`, `f1`, ….
    #[must_use]
    pub fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// True if it joins records with this table.
    #[must_use]
    pub fn joins_with(&self, table: &JoinTable) -> bool {
        let join = self.join.as_ref();
        join.is_some_and(|join| join.check(table).is_ok())
    }

    /// True if every program runs as machine code.
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        let condition = self.join.as_ref().and_then(Joiner::condition);
        self.predicate.as_ref().is_none_or(Expression::is_compiled)
            && condition.is_none_or(Expression::is_compiled)
            && self
                .aggregate
                .as_ref()
                .is_none_or(AggregatePlan::is_compiled)
    }

    /// The error of a record over which an expression failed, or over what it was joined to.
    ///
    /// # Panics
    /// If none fails: every evaluator has the interpreter's meaning.
    pub(crate) fn failure(&self, record: &[u8], table: Option<&JoinTable>) -> EvalError {
        let fails = |program: &Program, layout: &RowLayout, record: &[u8]| {
            let interpreter = Interpreter::new(program, layout);
            interpreter.record(record).err()
        };
        let predicate = self.descriptor.predicate.as_ref();
        let of_predicate = predicate.and_then(|p| fails(p, &self.descriptor.layout, record));
        let of_row = || {
            let mut joined = Joined::default();
            let row = match self.join.as_ref().zip(table) {
                Some((join, table)) => {
                    join.find(table, record, &[0], &mut joined);
                    join.write(table, record, &[0], 0, &mut joined);
                    &joined.buffer
                }
                None => record,
            };
            let mut programs = self.descriptor.row_programs();
            programs.find_map(|program| fails(program, &self.rows, row))
        };
        let failure = of_predicate.or_else(of_row);
        failure.expect("N1: what fails in one evaluator fails in all")
    }

    /// True if a page takes so long that the next one can be brought closer meanwhile, which costs some
    /// instructions: a tenth of the time of a plain condition.
    pub(crate) fn is_long_work(&self) -> bool {
        self.aggregate
            .as_ref()
            .is_some_and(|plan| plan.arguments() >= 3)
    }

    /// True if nothing in a record needs to be read to know what a visible one contributes.
    pub(crate) fn only_counts(&self) -> bool {
        let nothing_wanted = match &self.aggregate {
            Some(plan) => plan.only_counts(),
            None => self.projection.is_empty(),
        };
        nothing_wanted
            && self.predicate.is_none()
            && self.join.is_none()
            && self.descriptor.range == KeyRange::ALL
    }
}

/// A pattern takes some hundred nanoseconds: so many of them take some fifty microseconds.
const PATTERNS: usize = 200;

/// Records over which the predicate takes so long; all of a page if there are no patterns in it.
fn piece(descriptor: &Descriptor) -> usize {
    let nodes = descriptor
        .predicate
        .iter()
        .flat_map(|program| &program.nodes);
    match nodes
        .filter(|node| matches!(node, Node::Like { .. }))
        .count()
    {
        0 => usize::MAX,
        patterns => (PATTERNS / patterns).max(1),
    }
}

/// Number of leading variable-length items of records that running the descriptor looks at.
fn items_read(descriptor: &Descriptor) -> usize {
    let layout = &descriptor.layout;
    let item = |index: u16| match layout.columns[usize::from(index)].place {
        Place::Var { item } => usize::from(item) + 1,
        Place::Key { .. } | Place::Fixed { .. } => 0,
    };
    let mut read: Vec<u16> = descriptor
        .predicate
        .iter()
        .flat_map(Program::columns)
        .collect();
    match &descriptor.join {
        Some(join) => read.extend(join.on.iter().chain(&join.columns)),
        None => {
            let rows = descriptor.row_programs().flat_map(Program::columns);
            read.extend(rows);
            let delivers = descriptor.aggregate.is_none();
            let projected = descriptor.projection.iter().filter(|_| delivers);
            read.extend(projected);
        }
    }
    let key = layout.shape.key_len == 0 && descriptor.range != KeyRange::ALL;
    let items = read.into_iter().map(item);
    items.chain([usize::from(key)]).max().unwrap_or(0)
}
