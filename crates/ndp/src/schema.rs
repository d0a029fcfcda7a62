//! Arrow types at the boundary between storage and SQL.

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use perigee_expr::{AggregateFunction, Program, Type};
use perigee_value::{Collation, ColumnType, RowLayout};

use crate::{Aggregate, Descriptor};

/// Greatest precision of Arrow's 128-bit decimals.
pub(crate) const MAX_PRECISION: u8 = 38;

/// Arrow type in which a column is delivered.
#[must_use]
pub fn column_data_type(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Int {
            bytes: 1,
            unsigned: false,
        } => DataType::Int8,
        ColumnType::Int {
            bytes: 2,
            unsigned: false,
        } => DataType::Int16,
        ColumnType::Int {
            bytes: 3 | 4,
            unsigned: false,
        } => DataType::Int32,
        ColumnType::Int {
            unsigned: false, ..
        } => DataType::Int64,
        ColumnType::Int {
            bytes: 1,
            unsigned: true,
        } => DataType::UInt8,
        ColumnType::Int {
            bytes: 2,
            unsigned: true,
        } => DataType::UInt16,
        ColumnType::Int {
            bytes: 3 | 4,
            unsigned: true,
        } => DataType::UInt32,
        ColumnType::Int { unsigned: true, .. } => DataType::UInt64,
        ColumnType::Decimal { precision, scale } if ty.is_wide() => {
            DataType::Decimal256(precision, scale as i8)
        }
        ColumnType::Decimal { precision, scale } => decimal(precision, scale),
        ColumnType::Float => DataType::Float32,
        ColumnType::Double => DataType::Float64,
        ColumnType::Date => DataType::Date32,
        ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        ColumnType::Time { .. } => DataType::Duration(TimeUnit::Microsecond),
        ColumnType::Year => DataType::UInt16,
        ColumnType::Bit { bits: ..=8 } => DataType::UInt8,
        ColumnType::Bit { bits: ..=16 } => DataType::UInt16,
        ColumnType::Bit { bits: ..=32 } => DataType::UInt32,
        ColumnType::Bit { .. } => DataType::UInt64,
        // The one type of text that nothing else has, so that JSON is known wherever it comes to.
        ColumnType::Json => DataType::LargeUtf8,
        ColumnType::Char { collation, .. }
        | ColumnType::Varchar { collation, .. }
        | ColumnType::Long { collation, .. } => {
            if collation == Collation::BINARY {
                DataType::BinaryView
            } else {
                DataType::Utf8View
            }
        }
    }
}

/// Arrow type in which the value of an expression is delivered.
#[must_use]
pub fn value_data_type(ty: Type) -> DataType {
    match ty {
        Type::Bool => DataType::Boolean,
        Type::Int => DataType::Int64,
        Type::UInt => DataType::UInt64,
        Type::Decimal { precision, scale } => decimal(precision, scale),
        Type::Double => DataType::Float64,
        Type::Date => DataType::Date32,
        Type::DateTime => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::Time => DataType::Duration(TimeUnit::Microsecond),
        Type::String | Type::Collated(_) => DataType::Utf8View,
    }
}

fn decimal(precision: u8, scale: u8) -> DataType {
    DataType::Decimal128(
        precision,
        i8::try_from(scale).expect("scales are at most 30"),
    )
}

/// Schema of the finished batches of a (valid) descriptor, whose rows have this layout.
pub(crate) fn output_schema(descriptor: &Descriptor, layout: &RowLayout) -> Schema {
    let fields = match &descriptor.aggregate {
        None => descriptor
            .projection
            .iter()
            .map(|&index| column_field(layout, index))
            .collect(),
        Some(aggregate) => aggregate_fields(layout, aggregate),
    };
    Schema::new(fields)
}

fn column_field(layout: &RowLayout, index: u16) -> Field {
    let column = &layout.columns[usize::from(index)];
    // Long values come as they are stored: what leads to them is not text.
    let ty = match column.ty.is_long() {
        true => DataType::BinaryView,
        false => column_data_type(column.ty),
    };
    Field::new(format!("c{index}"), ty, column.null_bit.is_some())
}

fn aggregate_fields(layout: &RowLayout, aggregate: &Aggregate) -> Vec<Field> {
    let groups = aggregate.group_by.iter().enumerate().map(|(i, program)| {
        let name = format!("g{i}");
        match program.as_column() {
            Some(index) => column_field(layout, index).with_name(name),
            None => Field::new(name, value_data_type(program.result_type()), true),
        }
    });
    let functions = aggregate
        .functions
        .iter()
        .enumerate()
        .map(|(i, (function, argument))| {
            let argument = argument.as_ref().map(Program::result_type);
            let (ty, nullable) = state_data_type(*function, argument);
            Field::new(format!("f{i}"), ty, nullable)
        });
    groups.chain(functions).collect()
}

/// Arrow type and nullability of the partial state of a function.
fn state_data_type(function: AggregateFunction, argument: Option<Type>) -> (DataType, bool) {
    match (function, argument) {
        (AggregateFunction::Sum, Some(Type::Decimal { scale, .. })) => {
            (decimal(MAX_PRECISION, scale), true)
        }
        // What makes up an exact sum ([`perigee_expr::ExactSum`]).
        (AggregateFunction::Sum, Some(Type::Double)) => (DataType::BinaryView, true),
        (AggregateFunction::Sum, Some(_)) => (decimal(MAX_PRECISION, 0), true),
        (AggregateFunction::Min | AggregateFunction::Max, Some(ty)) => (value_data_type(ty), true),
        _ => (DataType::Int64, false),
    }
}
