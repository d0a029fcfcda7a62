//! The tree: relations, each an operator over others and the columns of its row.
//!
//! Expressions over a relation's row name its columns by place ([`perigee_expr::scalar::Node::Column`]). Inside the
//! subquery of an [`Apply`] the columns of the row around it are parameters
//! ([`perigee_expr::scalar::Node::Parameter`]); a subquery within a subquery is handed on what it needs of rows further
//! out. Each subquery numbers its parameters from 0.

mod aggregate;
mod check;
mod delivered;
mod facts;
mod inputs;
mod print;
mod window;

use std::sync::Arc;

use perigee_expr::Comparison;
use perigee_expr::json_table::JsonTable;
use perigee_expr::scalar::{Domain, Scalar, Variable};
use perigee_sql_type::SqlType;

use super::{TableDefinition, ViewName};

pub use aggregate::{Aggregate, AggregateFunction};
pub use facts::{
    Hint, HintKind, IndexHint, IndexUse, LockWait, Others, RowLock, Strength, Warning,
};
pub use window::{Bound, Distance, Frame, FrameUnits, Window, WindowFunction};

/// A query whose meaning is decided.
#[derive(Debug)]
pub struct Query {
    /// What it gives. Its columns are those that clients see.
    pub body: Relation,
    /// References to tables, in order of their numbers.
    pub tables: Vec<Arc<Table>>,
    /// FOR UPDATE and FOR SHARE.
    pub locks: Vec<RowLock>,
    /// Hints that belong to no table.
    pub hints: Vec<Hint>,
    /// What clients are warned of.
    pub warnings: Vec<Warning>,
    /// The user variables that it assigns to. Their values depend on the order in which rows are computed.
    pub variables: Vec<Arc<Variable>>,
}

impl AsMut<Self> for Query {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

/// Rows, and how they come about.
#[derive(Debug)]
pub struct Relation {
    /// How they come about.
    pub operator: Operator,
    /// The columns of a row.
    pub columns: Arc<[Column]>,
}

/// A column of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name as it was written, not unique.
    pub name: Arc<str>,
    /// The alias of the table in the FROM that it was read from, which clients are told; none for an expression.
    pub table: Option<Arc<str>>,
    /// The column of a table whose values it has.
    pub origin: Option<Origin>,
    /// Its type.
    pub ty: SqlType,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The number of the reference to the table.
    pub reference: usize,
    /// The column's place in the table.
    pub column: usize,
}

/// A reference to a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its number, from 0, in order of the text.
    pub reference: usize,
    /// The number of the SELECT that it stands in, from 1, in order of the text.
    pub select: usize,
    /// Schema, in lower case.
    pub schema: Arc<str>,
    /// Table, in lower case.
    pub name: Arc<str>,
    /// Its name in the statement, in lower case.
    pub alias: Arc<str>,
    /// What the catalog says of it.
    pub definition: Arc<TableDefinition>,
    /// USE, FORCE and IGNORE INDEX.
    pub index_hints: Vec<IndexHint>,
    /// Optimizer hints that name it: what they are about, and whether it is wanted.
    pub hints: Vec<(HintKind, bool)>,
    /// The views that it stands in, the outermost first.
    pub views: Vec<ViewName>,
}

impl Table {
    /// The schema that it lies in, which may be another one than that by which the statement calls it.
    #[must_use]
    pub fn stored_schema(&self) -> &str {
        self.definition.stored_in.as_deref().unwrap_or(&self.schema)
    }
}

/// How rows come about.
#[derive(Debug)]
pub enum Operator {
    /// One row without columns.
    One,
    /// The rows of a table, with all of its columns.
    Table(Arc<Table>),
    /// The rows of a JSON document, which depends on no row but that around a subquery.
    JsonTable {
        /// The document.
        document: Scalar,
        /// Its rows.
        table: Arc<JsonTable>,
    },
    /// Rows of expressions without columns.
    Values(Vec<Vec<Scalar>>),
    /// The rows for which a condition is true.
    Filter {
        /// All rows.
        input: Box<Relation>,
        /// The condition, a truth value.
        predicate: Scalar,
    },
    /// A row of expressions for each row.
    Project {
        /// The rows.
        input: Box<Relation>,
        /// One expression for each column.
        expressions: Vec<Scalar>,
    },
    /// Pairs of rows.
    Join(Join),
    /// Groups of rows. The row: keys, then results of the aggregate functions.
    Aggregate {
        /// The rows.
        input: Box<Relation>,
        /// What is equal in a group; without any, all rows are one group, which there is even if there are no rows.
        keys: Vec<Scalar>,
        /// Functions of all rows of a group.
        aggregates: Vec<Aggregate>,
        /// WITH ROLLUP: groups by all keys, by all but the last, and so on to one of all rows; keys that are not grouped
        /// by are NULL.
        rollup: bool,
    },
    /// Window functions. The row: the input's, then one result for each function.
    Window {
        /// The rows.
        input: Box<Relation>,
        /// The functions, each with its window.
        functions: Vec<Window>,
    },
    /// The rows in an order. NULL is less than any value.
    Sort {
        /// The rows.
        input: Box<Relation>,
        /// What is compared, the most significant first.
        keys: Vec<SortKey>,
    },
    /// Some of the rows.
    Limit {
        /// The rows.
        input: Box<Relation>,
        /// Rows that are left out at the beginning.
        skip: u64,
        /// Most rows.
        fetch: Option<u64>,
    },
    /// Each row once. Strings are equal by their collations.
    Distinct {
        /// The rows.
        input: Box<Relation>,
    },
    /// UNION, INTERSECT, EXCEPT. The inputs have columns of equal types, and NULL is equal to NULL.
    Set {
        /// Which one.
        operation: SetOperation,
        /// True if rows that are there several times stay so.
        all: bool,
        /// Two or more for UNION, otherwise two.
        inputs: Vec<Relation>,
    },
    /// A subquery for each row.
    Apply(Apply),
    /// Common table expressions that are named several times, and what names them.
    With {
        /// Each may name those before it.
        definitions: Vec<Definition>,
        /// The query.
        body: Box<Relation>,
    },
    /// The rows of a common table expression; inside of a recursive one, those of the last step.
    Shared(usize),
}

/// Pairs of rows. The row: the left one's columns, then the right one's.
#[derive(Debug)]
pub struct Join {
    /// What becomes of rows without a partner.
    pub kind: JoinKind,
    /// The left rows.
    pub left: Box<Relation>,
    /// The right rows.
    pub right: Box<Relation>,
    /// Which pairs; none for all of them.
    pub on: Option<Scalar>,
    /// STRAIGHT_JOIN: the left rows are read first.
    pub straight: bool,
}

/// What becomes of rows without a partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// They are left out.
    Inner,
    /// Left ones have a partner of NULLs.
    Left,
}

/// What is compared for an order.
#[derive(Debug)]
pub struct SortKey {
    /// The expression.
    pub scalar: Scalar,
    /// True for DESC.
    pub descending: bool,
}

/// An operation on sets of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// The rows of all.
    Union,
    /// The rows that both have; with ALL as often as both have them.
    Intersect,
    /// The rows that the second does not have; with ALL as many as are left.
    Except,
}

/// A subquery for each row. The row: the input's columns, then what the subquery gives.
#[derive(Debug)]
pub struct Apply {
    /// The rows.
    pub input: Box<Relation>,
    /// The subquery, with a parameter for each argument.
    pub subquery: Box<Relation>,
    /// The values of the subquery's parameters, over the input's row.
    pub arguments: Vec<Scalar>,
    /// What the subquery gives.
    pub applied: Applied,
}

/// What a subquery gives for a row.
#[derive(Debug)]
pub enum Applied {
    /// The columns of its only row, NULLs if there is none; several rows are an error (MySQL 1242).
    Row,
    /// One column: whether there are rows; never NULL.
    Exists,
    /// One column: whether a comparison is true for any row, or for all of them, with SQL's three truth values. IN is
    /// `= ANY`.
    Quantified {
        /// For any, or for all.
        quantifier: Quantifier,
        /// How a pair of rows compares; several columns only with `=` and ANY, or `<>` and ALL.
        comparison: Comparison,
        /// The left operands over the input's row and the domain of each comparison; the subquery's columns are values of
        /// these domains, too.
        operands: Vec<(Scalar, Domain)>,
    },
    /// The columns of each of its rows: LATERAL. If `outer`, a row without partners has one of NULLs.
    Lateral {
        /// True for a LEFT JOIN.
        outer: bool,
    },
}

/// For which rows of a subquery a comparison must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// For one.
    Any,
    /// For all.
    All,
}

/// A common table expression.
#[derive(Debug)]
pub struct Definition {
    /// Its number, unique in the query: that of [`Operator::Shared`].
    pub number: usize,
    /// Its name.
    pub name: Arc<str>,
    /// The rows that it begins with; if it is not recursive, all of them.
    pub base: Relation,
    /// The rows that follow from those of the last step, which [`Operator::Shared`] of its own number gives, until there
    /// are none.
    pub step: Option<Relation>,
    /// True if a row may come several times (UNION ALL between base and step).
    pub all: bool,
}
