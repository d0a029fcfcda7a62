//! Aggregate functions.

use std::sync::Arc;

use perigee_expr::scalar::Scalar;
use perigee_sql_type::SqlType;

use super::SortKey;

/// A function of all rows of a group.
#[derive(Debug)]
pub struct Aggregate {
    /// Which one.
    pub function: AggregateFunction,
    /// True if equal arguments count once.
    pub distinct: bool,
    /// Its arguments, over the input's row.
    pub arguments: Vec<Scalar>,
    /// The order of the rows, for functions whose results depend on it.
    pub order: Vec<SortKey>,
    /// The type of its result.
    pub ty: SqlType,
}

/// An aggregate function. Rows in which an argument is NULL do not count unless it says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// COUNT(*): all rows.
    CountRows,
    /// COUNT, of one or several arguments.
    Count,
    /// SUM, of an exact number or a DOUBLE.
    Sum,
    /// MIN.
    Min,
    /// MAX.
    Max,
    /// BIT_AND of unsigned integers; of no rows all bits.
    BitAnd,
    /// BIT_OR of unsigned integers; of no rows 0.
    BitOr,
    /// BIT_XOR of unsigned integers; of no rows 0.
    BitXor,
    /// STDDEV_POP of DOUBLEs.
    StddevPop,
    /// STDDEV_SAMP of DOUBLEs.
    StddevSamp,
    /// VAR_POP of DOUBLEs.
    VarPop,
    /// VAR_SAMP of DOUBLEs.
    VarSamp,
    /// GROUP_CONCAT of texts, which are joined row by row.
    GroupConcat {
        /// What stands between two rows.
        separator: Arc<str>,
        /// Most bytes of a result.
        most: usize,
    },
    /// The argument of any row, NULL too: ANY_VALUE, and a column that the groups decide.
    AnyValue,
    /// JSON_ARRAYAGG; NULL is a value.
    JsonArray,
    /// JSON_OBJECTAGG of a key and a value; NULL is a value.
    JsonObject,
    /// GROUPING: bits that say by which of these keys (their places) a row of a rollup is not grouped, the last one the
    /// lowest bit.
    Grouping(Vec<usize>),
}

impl AggregateFunction {
    /// Its name in SQL, in lower case.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CountRows | Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::BitAnd => "bit_and",
            Self::BitOr => "bit_or",
            Self::BitXor => "bit_xor",
            Self::StddevPop => "stddev_pop",
            Self::StddevSamp => "stddev_samp",
            Self::VarPop => "var_pop",
            Self::VarSamp => "var_samp",
            Self::GroupConcat { .. } => "group_concat",
            Self::AnyValue => "any_value",
            Self::JsonArray => "json_arrayagg",
            Self::JsonObject => "json_objectagg",
            Self::Grouping(_) => "grouping",
        }
    }
}
