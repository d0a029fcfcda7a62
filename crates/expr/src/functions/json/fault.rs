//! How functions of JSON fail.

use perigee_value::json::JsonErrorKind;

/// A function of JSON failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// An argument is not a JSON text (MySQL 3141).
    #[error("Invalid JSON text in argument {argument} to function {function}: {kind} at {at}")]
    InvalidText {
        /// Counted from one.
        argument: usize,
        /// The function.
        function: &'static str,
        /// What is wrong.
        kind: JsonErrorKind,
        /// The byte at which it is wrong.
        at: usize,
    },
    /// An argument has a type that has no JSON text (MySQL 3146).
    #[error("Invalid data type for JSON data in argument {argument} to function {function}")]
    InvalidType {
        /// Counted from one.
        argument: usize,
        /// The function.
        function: &'static str,
    },
    /// An argument must be a string (MySQL 3064).
    #[error("Incorrect type for argument {argument} in function {function}")]
    NotString {
        /// Counted from one.
        argument: usize,
        /// The function.
        function: &'static str,
    },
    /// Bytes where JSON is wanted (MySQL 3144).
    #[error("Cannot create a JSON value from bytes")]
    Binary,
    /// A text that is not a path (MySQL 3143).
    #[error("Invalid JSON path expression around character position {0}")]
    InvalidPath(usize),
    /// A path with a wildcard where it must lead to one value (MySQL 3149).
    #[error("a path expression may not contain wildcards here")]
    Wildcard,
    /// JSON_REMOVE of the whole document (MySQL 3153).
    #[error("The path expression '$' is not allowed in this context")]
    VacuousPath,
    /// Neither 'one' nor 'all' (MySQL 3154).
    #[error("The oneOrAll argument to {0} may take these values: 'one' or 'all'")]
    OneOrAll(&'static str),
    /// Too many arrays and objects within each other (MySQL 3157).
    #[error("The JSON document exceeds the maximum depth")]
    TooDeep,
    /// An object with NULL for a name (MySQL 3158).
    #[error("JSON documents may not contain NULL member names")]
    NullName,
    /// JSON_ARRAY_INSERT at what is not an element (MySQL 3165).
    #[error("A path expression is not a path to a cell in an array.")]
    NotCell,
    /// JSON_VALUE found nothing (MySQL 3966).
    #[error("No value was found by 'json_value' on the specified path.")]
    MissingValue,
    /// JSON_VALUE found something that is not of its type (MySQL 3156).
    #[error("Invalid JSON value for CAST in function json_value")]
    InvalidCast,
    /// A default of JSON_VALUE is not of its type (MySQL 1067).
    #[error("Invalid default value for 'json_value'")]
    InvalidDefault,
    /// JSON_TABLE found nothing for a column (MySQL 3665).
    #[error("Missing value for JSON_TABLE column '{0}'")]
    TableMissing(String),
    /// JSON_TABLE found an array or an object for a column of scalars (MySQL 3666).
    #[error("Can't store an array or an object in the scalar JSON_TABLE column '{0}'")]
    TableNotScalar(String),
    /// JSON_TABLE found a value that its column cannot hold (MySQL 3669).
    #[error("Value is out of range for JSON_TABLE's column '{0}'")]
    TableRange(String),
    /// JSON_TABLE found a value that is not of its column's type (MySQL 3156).
    #[error("Invalid JSON value for CAST to column '{0}' of JSON_TABLE")]
    TableCast(String),
    /// A stored value is not JSON.
    #[error("a JSON value is not in normal form: {0}")]
    Corrupt(String),
}
