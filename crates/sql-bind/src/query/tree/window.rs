//! Window functions.

use perigee_expr::scalar::{Interval, Scalar};
use perigee_sql_type::SqlType;

use super::{AggregateFunction, SortKey};

/// A window function and its window.
#[derive(Debug)]
pub struct Window {
    /// Which one.
    pub function: WindowFunction,
    /// Its arguments, over the input's row.
    pub arguments: Vec<Scalar>,
    /// PARTITION BY.
    pub partition: Vec<Scalar>,
    /// ORDER BY.
    pub order: Vec<SortKey>,
    /// The frame. Functions that look at the whole partition have none.
    pub frame: Option<Frame>,
    /// The type of its result.
    pub ty: SqlType,
}

/// A window function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowFunction {
    /// ROW_NUMBER().
    RowNumber,
    /// RANK().
    Rank,
    /// DENSE_RANK().
    DenseRank,
    /// PERCENT_RANK().
    PercentRank,
    /// CUME_DIST().
    CumeDist,
    /// NTILE(count).
    Ntile,
    /// LAG(value, rows, default).
    Lag,
    /// LEAD(value, rows, default).
    Lead,
    /// FIRST_VALUE(value).
    FirstValue,
    /// LAST_VALUE(value).
    LastValue,
    /// NTH_VALUE(value, row).
    NthValue,
    /// An aggregate function over the frame.
    Aggregate(AggregateFunction),
}

impl WindowFunction {
    /// Its name in SQL, in lower case.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RowNumber => "row_number",
            Self::Rank => "rank",
            Self::DenseRank => "dense_rank",
            Self::PercentRank => "percent_rank",
            Self::CumeDist => "cume_dist",
            Self::Ntile => "ntile",
            Self::Lag => "lag",
            Self::Lead => "lead",
            Self::FirstValue => "first_value",
            Self::LastValue => "last_value",
            Self::NthValue => "nth_value",
            Self::Aggregate(function) => function.name(),
        }
    }
}

/// The rows around the current one that a function sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// What distances count.
    pub units: FrameUnits,
    /// Its first row.
    pub start: Bound,
    /// Its last row.
    pub end: Bound,
}

/// What distances of a frame count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnits {
    /// Rows.
    Rows,
    /// Units of the only expression of ORDER BY; without distances rows with equal keys belong together.
    Range,
}

/// An end of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// The partition's first row.
    UnboundedPreceding,
    /// So far before the current row.
    Preceding(Distance),
    /// The current row.
    CurrentRow,
    /// So far behind the current row.
    Following(Distance),
    /// The partition's last row.
    UnboundedFollowing,
}

/// How far an end of a frame is from the current row.
#[derive(Clone, Debug, PartialEq)]
pub enum Distance {
    /// So many rows.
    Rows(u64),
    /// A number, in decimal digits with or without a point, for a RANGE over numbers.
    Number(String),
    /// So many units, for a RANGE over dates.
    Interval(u64, Interval),
}
