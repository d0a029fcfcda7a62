//! The representation itself: a [`Program`] is a list of [`Node`]s in topological order.
//!
//! Invariants (established by [`crate::validate`], relied upon by interpreter and JIT):
//! - E1: a node refers to nodes with smaller ids only; there is no other control flow;
//! - E2: operands have the types that the node's documentation asks for; every conversion is a
//!   node; columns exist in the record layout and have the stated type;
//! - E3: a node has at most [`crate::limits::MAX_DEPTH`] nodes below it on a path.
//!
//! `And`, `Or` and `Case` evaluate what they need, in order. Every other node evaluates all its
//! operands, left to right, before it looks at them: an error of one is the node's error even
//! where another one is NULL. `docs/expressions.md` has the rules of each operation in a table.

use std::fmt;

use perigee_value::{Collation, ColumnType, Datum, RowLayout};

use crate::{ExprError, validate};

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
    /// Microseconds, which may be negative: MySQL's TIME.
    Time,
    /// Bytes of UTF-8 compared as `utf8mb4_bin` (PAD SPACE): trailing spaces do not count.
    String,
    /// Bytes of UTF-8 compared as another collation says: by their forms.
    Collated(Collation),
}

impl Type {
    /// Type of the values of a column.
    #[must_use]
    pub const fn of(column: ColumnType) -> Self {
        match column {
            ColumnType::Int {
                unsigned: false, ..
            } => Self::Int,
            ColumnType::Int { unsigned: true, .. } | ColumnType::Year | ColumnType::Bit { .. } => {
                Self::UInt
            }
            ColumnType::Decimal { precision, scale } => Self::Decimal { precision, scale },
            ColumnType::Float | ColumnType::Double => Self::Double,
            ColumnType::Date => Self::Date,
            ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => Self::DateTime,
            ColumnType::Time { .. } => Self::Time,
            ColumnType::Char { collation, .. }
            | ColumnType::Varchar { collation, .. }
            | ColumnType::Long { collation, .. } => Self::text(collation),
            ColumnType::Json => Self::String,
        }
    }

    /// Type of strings of a collation; those of bytes are strings as well.
    #[must_use]
    pub const fn text(collation: Collation) -> Self {
        match collation.has_form() {
            true => Self::Collated(collation),
            false => Self::String,
        }
    }

    /// How strings of the type compare; `None` for other types.
    #[must_use]
    pub const fn collation(self) -> Option<Collation> {
        match self {
            Self::String => Some(Collation::UTF8MB4_BIN),
            Self::Collated(collation) => Some(collation),
            _ => None,
        }
    }

    /// True for strings of any collation.
    #[must_use]
    pub const fn is_string(self) -> bool {
        self.collation().is_some()
    }

    /// Digits after the point of an exact number, else 0.
    #[must_use]
    pub const fn scale(self) -> u8 {
        match self {
            Self::Decimal { scale, .. } => scale,
            _ => 0,
        }
    }

    /// True if values of both types compare without conversion: same type, decimals of one scale.
    #[must_use]
    pub const fn comparable(self, other: Self) -> bool {
        match (self, other) {
            (Self::Decimal { scale: a, .. }, Self::Decimal { scale: b, .. }) => a == b,
            (Self::Collated(a), Self::Collated(b)) => a.0 == b.0,
            _ => self.tag() == other.tag(),
        }
    }

    pub(crate) const fn tag(self) -> u8 {
        match self {
            Self::Bool => 1,
            Self::Int => 2,
            Self::UInt => 3,
            Self::Decimal { .. } => 4,
            Self::Double => 5,
            Self::Date => 6,
            Self::DateTime => 7,
            Self::String => 8,
            Self::Time => 9,
            Self::Collated(Collation::UTF8MB4_GENERAL_CI) => 10,
            Self::Collated(_) => 11,
        }
    }
}

impl fmt::Display for Type {
    /// The name in dumps and in messages about values out of range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "BOOLEAN",
            Self::Int => "BIGINT",
            Self::UInt => "BIGINT UNSIGNED",
            Self::Decimal { precision, scale } => {
                return write!(f, "DECIMAL({precision},{scale})");
            }
            Self::Double => "DOUBLE",
            Self::Date => "DATE",
            Self::DateTime => "DATETIME",
            Self::Time => "TIME",
            Self::String => "VARCHAR",
            Self::Collated(collation) => {
                return write!(f, "VARCHAR COLLATE {}", collation.name());
            }
        })
    }
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
    /// rounded half away from zero (`perigee_value::decimal::divide` has the exception); division
    /// by zero is NULL.
    Divide,
    /// `DIV`: integer quotient, NULL on zero.
    IntDivide,
    /// `%`: remainder with the sign of the dividend, NULL on zero.
    Modulo,
}

impl Arithmetic {
    /// True if the right operand must not be zero.
    #[must_use]
    pub const fn divides(self) -> bool {
        matches!(self, Self::Divide | Self::IntDivide | Self::Modulo)
    }
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
    /// Subtract, Modulo and IntDivide of one scale). `ty` is the result type; a value outside it
    /// is an overflow error. It is the operands' type (Decimal: any precision), except:
    /// Multiply of Decimals has the sum of the scales, at most 30; Divide of Int, UInt or Decimal
    /// is a Decimal whose scale is at least the dividend's and at most 38 minus the divisor's
    /// scale plus the dividend's; IntDivide of Decimals is Int or UInt; there is no IntDivide of
    /// Double.
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
    /// Unary minus of an Int, Decimal or Double, same type as the operand, with overflow check.
    Negate(NodeId),
    /// Conversion to another type by MySQL's rules for the listed pairs (validator): between Int,
    /// UInt, Decimal (rescaling rounds half away from zero), Double (to integers half to even, to
    /// decimals from the shortest decimal form half away from zero); Date to DateTime; Bool to
    /// Int; String to Collated and back, which changes no byte. Out of range is an error.
    Cast {
        /// What is converted.
        operand: NodeId,
        /// Target type.
        ty: Type,
    },
    /// `operand IN (list)` over constants of the operand's type, which is not Bool: NULL if the
    /// operand is, or if it is not in the list and `has_null`. Bool.
    In {
        /// What is looked for.
        operand: NodeId,
        /// Constants of the operand's type, at least one, sorted and unique, no NULL. Strings are
        /// sorted, and unique, as SQL compares them.
        list: Vec<Datum>,
        /// Whether the SQL list contained NULL.
        has_null: bool,
    },
    /// `operand LIKE pattern` with a constant pattern: characters are alike as the operand's type
    /// compares them. Bool.
    Like {
        /// A String or Collated.
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
    /// or, if negative, from the end. Of the operand's type.
    Substring {
        /// A String or Collated.
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

impl Node {
    /// Calls `visit` with each operand, in order of evaluation.
    pub fn for_each_operand(&self, mut visit: impl FnMut(NodeId)) {
        match self {
            Self::Column { .. } | Self::Constant { .. } => {}
            Self::Compare { left, right, .. } | Self::Arithmetic { left, right, .. } => {
                visit(*left);
                visit(*right);
            }
            Self::And(operands) | Self::Or(operands) => operands.iter().copied().for_each(visit),
            Self::Not(operand) | Self::IsNull(operand) | Self::Negate(operand) => visit(*operand),
            Self::Cast { operand, .. }
            | Self::In { operand, .. }
            | Self::Like { operand, .. }
            | Self::Extract { operand, .. }
            | Self::Substring { operand, .. } => visit(*operand),
            Self::Case {
                branches,
                otherwise,
                ..
            } => {
                for (condition, value) in branches {
                    visit(*condition);
                    visit(*value);
                }
                otherwise.iter().copied().for_each(visit);
            }
        }
    }
}

impl Node {
    /// The same node with each operand `id` replaced by `map(id)`.
    #[must_use]
    pub fn with_operands(&self, map: impl Fn(NodeId) -> NodeId) -> Self {
        let mut node = self.clone();
        match &mut node {
            Self::Column { .. } | Self::Constant { .. } => {}
            Self::Compare { left, right, .. } | Self::Arithmetic { left, right, .. } => {
                (*left, *right) = (map(*left), map(*right));
            }
            Self::And(operands) | Self::Or(operands) => {
                operands.iter_mut().for_each(|id| *id = map(*id));
            }
            Self::Not(operand) | Self::IsNull(operand) | Self::Negate(operand) => {
                *operand = map(*operand);
            }
            Self::Cast { operand, .. }
            | Self::In { operand, .. }
            | Self::Like { operand, .. }
            | Self::Extract { operand, .. }
            | Self::Substring { operand, .. } => *operand = map(*operand),
            Self::Case {
                branches,
                otherwise,
                ..
            } => {
                for (condition, value) in branches {
                    (*condition, *value) = (map(*condition), map(*value));
                }
                *otherwise = otherwise.map(map);
            }
        }
        node
    }
}

/// A validated expression: its last node is its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Nodes, operands first.
    pub nodes: Vec<Node>,
}

impl Program {
    /// The node whose value is the program's.
    ///
    /// # Panics
    /// If the program has no nodes, which validation excludes.
    #[must_use]
    pub fn root(&self) -> NodeId {
        let last = self
            .nodes
            .len()
            .checked_sub(1)
            .expect("E1: a program has nodes");
        NodeId(last as u16)
    }

    /// The node with this id.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[usize::from(id.0)]
    }

    /// Type of every node, by id.
    #[must_use]
    pub fn types(&self) -> Vec<Type> {
        let mut types: Vec<Type> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            types.push(node_type(node, &types));
        }
        types
    }

    /// Type of the program's value.
    #[must_use]
    pub fn result_type(&self) -> Type {
        self.types()[usize::from(self.root().0)]
    }

    /// The columns it reads, sorted and unique.
    #[must_use]
    pub fn columns(&self) -> Vec<u16> {
        let indexes = self.nodes.iter().filter_map(|node| match node {
            Node::Column { index, .. } => Some(*index),
            _ => None,
        });
        let mut columns: Vec<u16> = indexes.collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The column, if the program is nothing else.
    #[must_use]
    pub fn as_column(&self) -> Option<u16> {
        match self.nodes.last() {
            Some(Node::Column { index, .. }) => Some(*index),
            _ => None,
        }
    }

    /// The same program over other column indexes: column `i` becomes `map(i)`. `None` if one has
    /// no image.
    #[must_use]
    pub fn with_columns(&self, map: impl Fn(u16) -> Option<u16>) -> Option<Self> {
        let mut nodes = self.nodes.clone();
        for node in &mut nodes {
            if let Node::Column { index, .. } = node {
                *index = map(*index)?;
            }
        }
        Some(Self { nodes })
    }

    /// Checks the invariants against a layout, as a store does with what it was sent.
    pub fn check(&self, layout: &RowLayout) -> Result<(), ExprError> {
        validate::check(&self.nodes, &validate::layout_columns(layout))
    }
}

/// Type of a node whose operands have `types`.
pub(crate) fn node_type(node: &Node, types: &[Type]) -> Type {
    match node {
        Node::Column { ty, .. }
        | Node::Constant { ty, .. }
        | Node::Arithmetic { ty, .. }
        | Node::Cast { ty, .. }
        | Node::Case { ty, .. } => *ty,
        Node::Negate(operand) | Node::Substring { operand, .. } => types[usize::from(operand.0)],
        Node::Extract { .. } => Type::Int,
        Node::Compare { .. }
        | Node::And(_)
        | Node::Or(_)
        | Node::Not(_)
        | Node::IsNull(_)
        | Node::In { .. }
        | Node::Like { .. } => Type::Bool,
    }
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
