//! What clients are told of errors of the binder.

use perigee_sql_bind::query::QueryError;
use perigee_sql_bind::{BindError, Digits};
use perigee_sql_type::Number;
use perigee_value::ColumnType;

use crate::error::SqlError;
use crate::interrupt;

impl From<BindError> for SqlError {
    fn from(error: BindError) -> Self {
        let number = error.number();
        match error {
            BindError::NotSupported(what) => Self::not_supported(what),
            BindError::NoCommonType(a, b) => {
                Self::not_supported(format!("one value of {a} or {b}"))
            }
            BindError::UnknownColumn(name) => Self::unknown_column(name, "field list"),
            BindError::WrongArguments(name) => Self::wrong_arguments(name),
            BindError::OperandColumns(count) => Self::operand_columns(count),
            BindError::MixOfCollations(mix) => mix.into(),
            BindError::UnknownCollation(name) => Self::unknown_collation(name),
            BindError::UnknownCharset(name) => Self::unknown_charset(name),
            BindError::InvalidText(charset) => Self::invalid_text(charset.name()),
            BindError::CollationOfCharset(collation, charset) => {
                Self::collation_of_charset(collation.name(), charset.name())
            }
            BindError::IncorrectLiteral { kind, value } => Self::incorrect_literal(kind, value),
            BindError::UnknownVariable(name) => Self::unknown_variable(name),
            BindError::Digits(digits) => of_digits(digits),
            BindError::Stopped => interrupt::check().err().unwrap_or_else(Self::interrupted),
            BindError::Query(error) => of_query(error, number),
        }
    }
}

fn of_digits(digits: Digits) -> SqlError {
    const PLACE: &str = "CAST";
    match digits {
        Digits::Scale(scale) => SqlError::scale_too_big(scale, PLACE, Number::MAX_SCALE),
        Digits::Precision(precision) => {
            SqlError::precision_too_big(precision, PLACE, ColumnType::MAX_PRECISION)
        }
        Digits::ScaleAbovePrecision => SqlError::scale_above_precision(PLACE),
    }
}

fn of_query(error: QueryError, number: u16) -> SqlError {
    match error {
        QueryError::NoSchemaSelected => SqlError::no_schema_selected(),
        QueryError::UnknownSchema(name) => SqlError::unknown_schema(name),
        QueryError::UnknownTable(name) => SqlError::unknown_table(name),
        QueryError::AmbiguousColumn(name, clause) => SqlError::ambiguous_column(name, clause),
        QueryError::UnknownColumn(name, clause) => SqlError::unknown_column(name, clause),
        QueryError::NotGrouped(name) => SqlError::not_grouped(name),
        QueryError::DuplicateColumn(name) => SqlError::duplicate_column(name),
        QueryError::Syntax(near) => SqlError::syntax(near, 1),
        QueryError::DuplicateAlias(name) => SqlError::duplicate_alias(name),
        QueryError::NoTablesUsed => SqlError::no_tables_used(),
        QueryError::InvalidGroupFunction => SqlError::invalid_group_function(),
        QueryError::TooManyTables(most) => SqlError::too_many_tables(most),
        QueryError::ValueCount(row) => SqlError::value_count(row),
        QueryError::MixedGroups(name) => SqlError::mixed_groups(name),
        QueryError::NoSuchTable(schema, table) => SqlError::no_such_table(schema, table),
        QueryError::UnknownKey(key, table) => SqlError::unknown_key(key, table),
        QueryError::TooManyColumns => SqlError::too_many_columns(),
        QueryError::SetColumns => SqlError::union_columns(),
        QueryError::DerivedAlias => SqlError::derived_alias(),
        QueryError::ColumnList => SqlError::column_list(),
        QueryError::TooLarge(most) => SqlError::too_large(most),
        QueryError::UnresolvedLock(name) => SqlError::unresolved_lock_table(name),
        other => SqlError::interrupted_by(number, &other.to_string()),
    }
}
