//! The representation itself: a [`Program`] is a list of [`Node`]s in topological order.
//!
//! Invariants (established by `validate`, relied upon by interpreter and JIT):
//! - a node refers to nodes with smaller ids only; there is no other control flow;
//! - operands have the types that the node's documentation asks for; every conversion is a node;
//! - columns exist in the record layout and have the stated type.

use perigee_value::Datum;

/// Index of a node in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// Type of a node's value; each value may also be NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Truth value: true, false or unknown (NULL).
    Bool,
    /// Signed 64-bit integer; every signed column up to BIGINT and YEAR.
    Int,
    /// Unsigned 64-bit integer.
    UInt,
    /// Exact decimal: an `i128` of units of 10^-scale. `precision` bounds the magnitude, and tells
    /// the JIT that an `i64` is enough when it is at most 18.
    Decimal {
        /// Decimal digits, at most 38.
        precision: u8,
        /// Digits after the point, at most 30 (MySQL's limit).
        scale: u8,
    },
    /// IEEE double.
    Double,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since 1970-01-01 00:00:00, without time zone.
    DateTime,
    /// Bytes of UTF-8 compared as `utf8mb4_bin` (PAD SPACE): trailing spaces do not count.
    String,
}

/// `+`, `-`, `*` and the divisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Addition.
    Add,
    /// Subtraction.
    Subtract,
    /// Multiplication.
    Multiply,
    /// MySQL's `/`: on exact operands the result has four more digits of scale than the dividend,
    /// rounded half away from zero; division by zero is NULL.
    Divide,
    /// `DIV`: integer quotient, NULL on zero.
    IntDivide,
    /// `%`: remainder with the sign of the dividend, NULL on zero.
    Modulo,
}

/// Comparison operators; NULL if either side is NULL, except for the null-safe one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<=>`: never NULL.
    NullSafeEqual,
}

/// What EXTRACT takes out of a Date or DateTime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DateField {
    /// Year.
    Year,
    /// Quarter, 1 to 4.
    Quarter,
    /// Month, 1 to 12.
    Month,
    /// Day of the month, 1 to 31.
    Day,
    /// Hour, 0 to 23.
    Hour,
    /// Minute.
    Minute,
    /// Second.
    Second,
}

/// One operation. Operands are earlier nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Value of the record's column with this index in the record layout.
    Column {
        /// Index into `RowLayout::columns`.
        index: u16,
        /// Its type, checked against the layout.
        ty: Type,
    },
    /// A constant; `Datum::Null` has the stated type too.
    Constant {
        /// The value.
        value: Datum,
        /// Its type.
        ty: Type,
    },
    /// Comparison of two operands of one type (decimals: of one scale). Bool.
    Compare {
        /// Operator.
        op: Comparison,
        /// Left side.
        left: NodeId,
        /// Right side.
        right: NodeId,
    },
    /// Three-valued AND over one or more Bool operands, evaluated left to right; evaluation stops
    /// at the first false, so that errors behind it do not happen. Bool.
    And(Vec<NodeId>),
    /// Three-valued OR, dual to `And`. Bool.
    Or(Vec<NodeId>),
    /// Three-valued NOT of a Bool. Bool.
    Not(NodeId),
    /// True if the operand is NULL, else false. Bool.
    IsNull(NodeId),
    /// `+ - * / DIV %` over two operands of one type: Int, UInt, Double, or Decimal (for Add,
    /// Subtract and Modulo of one scale). `ty` is the result type; a value outside it is an
    /// overflow error.
    Arithmetic {
        /// Operator.
        op: Arithmetic,
        /// Left operand.
        left: NodeId,
        /// Right operand.
        right: NodeId,
        /// Result type.
        ty: Type,
    },
    /// Unary minus, same type as the operand, with overflow check.
    Negate(NodeId),
    /// Conversion to another type by MySQL's rules for the listed pairs (validator): between Int,
    /// UInt, Decimal (rescaling rounds half away from zero), Double; Date to DateTime; Bool to
    /// Int. Out of range is an error.
    Cast {
        /// What is converted.
        operand: NodeId,
        /// Target type.
        ty: Type,
    },
    /// `operand IN (list)` over constants of the operand's type; NULL as in SQL. Bool.
    In {
        /// What is looked for.
        operand: NodeId,
        /// Constants of the operand's type, sorted and unique, no NULL.
        list: Vec<Datum>,
        /// Whether the SQL list contained NULL.
        has_null: bool,
    },
    /// `operand LIKE pattern` with a constant pattern. Bool.
    Like {
        /// A String.
        operand: NodeId,
        /// Pattern with `%`, `_` and the escape character.
        pattern: String,
        /// Escape character, normally a backslash.
        escape: char,
    },
    /// EXTRACT of a field of a Date or DateTime. Int.
    Extract {
        /// Which field.
        field: DateField,
        /// A Date or DateTime.
        operand: NodeId,
    },
    /// `SUBSTRING(operand, start, length)` with constant positions, counted in characters from 1
    /// or, if negative, from the end. String.
    Substring {
        /// A String.
        operand: NodeId,
        /// First character.
        start: i64,
        /// Number of characters, or to the end.
        length: Option<i64>,
    },
    /// `CASE WHEN … THEN … ELSE … END`: the first branch whose Bool is true; branches not taken
    /// are not evaluated. All values have one type.
    Case {
        /// Condition and value.
        branches: Vec<(NodeId, NodeId)>,
        /// Value if no condition is true; NULL if absent.
        otherwise: Option<NodeId>,
        /// Type of every value.
        ty: Type,
    },
}

/// A validated expression: its last node is its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Nodes, operands first.
    pub nodes: Vec<Node>,
}

/// Aggregate functions that storage can run. AVG is SUM and COUNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// `COUNT(*)`: no argument.
    CountAll,
    /// `COUNT(x)`: records where x is not NULL.
    Count,
    /// `SUM(x)`: exact for Int, UInt and Decimal, accumulated in 128 bits; NULL over no value.
    Sum,
    /// `MIN(x)`; NULL over no value.
    Min,
    /// `MAX(x)`; NULL over no value.
    Max,
}
