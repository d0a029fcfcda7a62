//! Why a query means nothing.

use std::fmt::{self, Display, Formatter};

use crate::{BindError, Digits};

/// The part of a statement in which a name stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// The select list.
    Fields,
    /// FROM.
    From,
    /// ON.
    On,
    /// WHERE.
    Where,
    /// GROUP BY.
    Group,
    /// HAVING.
    Having,
    /// ORDER BY.
    Order,
    /// The ORDER BY of a UNION and its like, and of what stands in parentheses.
    GlobalOrder,
    /// PARTITION BY of a window.
    WindowPartition,
    /// ORDER BY of a window.
    WindowOrder,
}

impl Display for Clause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fields => "field list",
            Self::From => "from clause",
            Self::On => "on clause",
            Self::Where => "where clause",
            Self::Group => "group statement",
            Self::Having => "having clause",
            Self::Order => "order clause",
            Self::GlobalOrder => "global ORDER clause",
            Self::WindowPartition => "window partition by",
            Self::WindowOrder => "window order by",
        })
    }
}

/// A query that has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A default of a column of JSON_TABLE that is not one of its type (MySQL 1067).
    #[error("Invalid default value for '{0}'")]
    InvalidDefault(String),
    /// A text that is not a path of JSON (MySQL 3143).
    #[error("Invalid JSON path expression. The error is around character position {0}.")]
    JsonPath(usize),
    /// No schema is selected (MySQL 1046).
    #[error("no database selected")]
    NoSchemaSelected,
    /// MySQL 1049.
    #[error("unknown database {0}")]
    UnknownSchema(String),
    /// `t.*` of a table that is not read (MySQL 1051).
    #[error("unknown table {0}")]
    UnknownTable(String),
    /// A name of several columns (MySQL 1052).
    #[error("column {0} in {1} is ambiguous")]
    AmbiguousColumn(String, Clause),
    /// A name of no column (MySQL 1054).
    #[error("unknown column {0} in {1}")]
    UnknownColumn(String, Clause),
    /// A column that the groups do not decide (MySQL 1055).
    #[error("column {0} is not grouped")]
    NotGrouped(String),
    /// Two columns of a derived table with one name (MySQL 1060).
    #[error("duplicate column name {0}")]
    DuplicateColumn(String),
    /// MySQL 1064.
    #[error("syntax error near {0}")]
    Syntax(String),
    /// MySQL 1066.
    #[error("not unique table or alias {0}")]
    DuplicateAlias(String),
    /// `*` without FROM (MySQL 1096).
    #[error("no tables used")]
    NoTablesUsed,
    /// An aggregate function where none may stand (MySQL 1111).
    #[error("invalid use of group function")]
    InvalidGroupFunction,
    /// MySQL 1116.
    #[error("more than {0} tables")]
    TooManyTables(usize),
    /// A column beside aggregate functions without GROUP BY (MySQL 1140).
    #[error("column {0} beside aggregates")]
    MixedGroups(String),
    /// `*` of a table of which some columns may not be read (MySQL 1142).
    #[error("not all columns of {0} may be read")]
    TableDenied(String),
    /// A column that may not be read, and its table (MySQL 1143).
    #[error("column {0} of {1} may not be read")]
    ColumnDenied(String, String),
    /// MySQL 1146.
    #[error("no such table {0}.{1}")]
    NoSuchTable(String, String),
    /// Rows of VALUES of different lengths (MySQL 1136).
    #[error("column count does not match value count at row {0}")]
    ValueCount(usize),
    /// MySQL 1176.
    #[error("key {0} does not exist in table {1}")]
    UnknownKey(String, String),
    /// Queries of a UNION with different numbers of columns (MySQL 1222).
    #[error("different numbers of columns")]
    SetColumns,
    /// A name that refers to what is bound later (MySQL 1247).
    #[error("reference {0} not supported ({1})")]
    IllegalReference(String, &'static str),
    /// MySQL 1248.
    #[error("derived table without alias")]
    DerivedAlias,
    /// A list of columns of another length than the query's (MySQL 1353).
    #[error("different column counts")]
    ColumnList,
    /// ORDER BY of what SELECT DISTINCT does not give (MySQL 3065).
    #[error("expression {0} of ORDER BY is not in the select list of DISTINCT")]
    OrderNotInDistinct(usize),
    /// GROUPING of what is not grouped by (MySQL 3602).
    #[error("argument {0} of GROUPING is not in GROUP BY")]
    GroupingArgument(usize),
    /// MySQL 3573 to 3577.
    #[error("recursive {name}: {why}")]
    Recursion {
        /// MySQL's number.
        number: u16,
        /// The common table expression.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A fault of a window: MySQL 3579 to 3596.
    #[error("window {name}: {why}")]
    Window {
        /// MySQL's number.
        number: u16,
        /// The window, or the function.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// MySQL 3568.
    #[error("unresolved table name {0} in locking clause")]
    UnresolvedLock(String),
    /// MySQL 3569.
    #[error("table {0} appears in multiple locking clauses")]
    DuplicateLock(String),
    /// MySQL 1117.
    #[error("too many columns")]
    TooManyColumns,
    /// GROUP BY an aggregate function (MySQL 1056).
    #[error("cannot group by {0}")]
    CannotGroup(String),
    /// A table of a part of a UNION in the ORDER BY of the whole (MySQL 1250).
    #[error("table {0} in the order of a UNION")]
    TableInGlobalOrder(String),
    /// MySQL 3028.
    #[error("an aggregate function in the order of a UNION")]
    AggregateInGlobalOrder,
    /// MySQL 1288.
    #[error("The target table {0} of the UPDATE is not updatable")]
    NotUpdatable(String),
    /// MySQL 1348.
    #[error("Column '{0}' is not updatable")]
    ColumnNotUpdatable(String),
    /// MySQL 1393.
    #[error("Can not modify more than one base table through a join view '{0}'")]
    SeveralTables(String),
    /// MySQL 1356.
    #[error(
        "View '{0}' references invalid table(s) or column(s) or function(s) or definer/invoker of view lack rights to use them"
    )]
    BrokenView(String),
    /// MySQL 1462.
    #[error("`{}` contains view recursion", .0.replace('.', "`.`"))]
    ViewRecursion(String),
    /// MySQL 1436.
    #[error("a statement of more than {0} parts")]
    TooLarge(usize),
}

impl QueryError {
    /// MySQL's number of the error.
    #[must_use]
    pub const fn number(&self) -> u16 {
        match self {
            Self::NoSchemaSelected => 1046,
            Self::UnknownSchema(_) => 1049,
            Self::UnknownTable(_) => 1051,
            Self::AmbiguousColumn(..) => 1052,
            Self::UnknownColumn(..) => 1054,
            Self::NotGrouped(_) => 1055,
            Self::DuplicateColumn(_) => 1060,
            Self::Syntax(_) => 1064,
            Self::InvalidDefault(_) => 1067,
            Self::JsonPath(_) => 3143,
            Self::DuplicateAlias(_) => 1066,
            Self::NoTablesUsed => 1096,
            Self::InvalidGroupFunction => 1111,
            Self::TooManyTables(_) => 1116,
            Self::ValueCount(_) => 1136,
            Self::MixedGroups(_) => 1140,
            Self::TableDenied(_) => 1142,
            Self::ColumnDenied(..) => 1143,
            Self::NoSuchTable(..) => 1146,
            Self::UnknownKey(..) => 1176,
            Self::SetColumns => 1222,
            Self::IllegalReference(..) => 1247,
            Self::DerivedAlias => 1248,
            Self::ColumnList => 1353,
            Self::TooManyColumns => 1117,
            Self::CannotGroup(_) => 1056,
            Self::TableInGlobalOrder(_) => 1250,
            Self::AggregateInGlobalOrder => 3028,
            Self::NotUpdatable(_) => 1288,
            Self::ColumnNotUpdatable(_) => 1348,
            Self::SeveralTables(_) => 1393,
            Self::BrokenView(_) => 1356,
            Self::ViewRecursion(_) => 1462,
            Self::TooLarge(_) => 1436,
            Self::OrderNotInDistinct(_) => 3065,
            Self::GroupingArgument(_) => 3602,
            Self::UnresolvedLock(_) => 3568,
            Self::DuplicateLock(_) => 3569,
            Self::Recursion { number, .. } | Self::Window { number, .. } => *number,
        }
    }
}

impl BindError {
    /// MySQL's number of the error.
    #[must_use]
    pub const fn number(&self) -> u16 {
        match self {
            Self::NotSupported(_) | Self::NoCommonType(..) => 1235,
            Self::UnknownColumn(_) => 1054,
            Self::UnknownVariable(_) => 1193,
            Self::WrongArguments(_) => 1582,
            Self::OperandColumns(_) => 1241,
            Self::MixOfCollations(_) => 1267,
            Self::UnknownCollation(_) => 1273,
            Self::UnknownCharset(_) => 1115,
            Self::CollationOfCharset(..) => 1253,
            Self::InvalidText(_) => 1300,
            Self::IncorrectLiteral { .. } => 1525,
            Self::Digits(Digits::Scale(_)) => 1425,
            Self::Digits(Digits::Precision(_)) => 1426,
            Self::Digits(Digits::ScaleAbovePrecision) => 1427,
            Self::Stopped => 1317,
            Self::Query(error) => error.number(),
        }
    }
}
