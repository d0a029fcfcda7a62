//! Values of one side of a join as parts of keys over columns of the other side.
//!
//! Values that the join calls equal have the same key; a value that the column cannot have has none.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result as DfResult, ScalarValue, internal_datafusion_err};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use perigee_value::{Collation, ColumnType, Datum, ValueErrorKind, ValueRef, key};

use super::convert::constant;
use super::exec::PageScanExec;
use crate::functions::collation::{Collated, PAD};
use crate::functions::wide;

/// What strings come as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strings {
    /// Their forms, which are what joins compare.
    Forms,
    /// Themselves.
    Values,
}

/// Appends a value that a join compares as a part of a key over a column of this type, which the key may have NULL for;
/// false, and nothing usable appended, if no value of the column equals it, as is the case with NULL.
///
/// # Errors
/// If it is a value of another kind than the column's.
pub(super) fn encode_value(
    part: (ColumnType, bool),
    values: &ArrayRef,
    row: usize,
    out: &mut Vec<u8>,
) -> DfResult<bool> {
    encode(part, Strings::Forms, values, row, out)
}

/// The same of a value that strings come as.
pub(super) fn encode(
    (ty, nullable): (ColumnType, bool),
    strings: Strings,
    values: &ArrayRef,
    row: usize,
    out: &mut Vec<u8>,
) -> DfResult<bool> {
    let mut held = Datum::Null;
    let value = value_at(values, row, &mut held)?;
    if value.is_null() {
        return Ok(false);
    }
    let encoded = match strings {
        Strings::Forms => key::encode_form_part(ty, nullable, value, out),
        Strings::Values => key::encode_part(ty, nullable, value, out),
    };
    match encoded {
        Ok(()) => Ok(true),
        Err(error) if error.kind == ValueErrorKind::OutOfRange => Ok(false),
        Err(error) => Err(internal_datafusion_err!("Q8: a join key: {error}")),
    }
}

/// A value of a join, which `held` may hold.
///
/// # Errors
/// If it is of a kind that no column has.
pub(super) fn value_at<'v>(
    values: &'v ArrayRef,
    row: usize,
    held: &'v mut Datum,
) -> DfResult<ValueRef<'v>> {
    if values.is_null(row) {
        return Ok(ValueRef::Null);
    }
    // Most values are of these types.
    Ok(match values.data_type() {
        DataType::Int32 => ValueRef::Int(values.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => ValueRef::Int(values.as_primitive::<Int64Type>().value(row)),
        DataType::UInt32 => ValueRef::UInt(values.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => ValueRef::UInt(values.as_primitive::<UInt64Type>().value(row)),
        DataType::Date32 => ValueRef::Date(values.as_primitive::<Date32Type>().value(row)),
        DataType::Float32 => {
            ValueRef::Double(values.as_primitive::<Float32Type>().value(row).into())
        }
        DataType::Decimal128(..) => {
            ValueRef::Decimal(values.as_primitive::<Decimal128Type>().value(row))
        }
        DataType::Utf8View => ValueRef::String(values.as_string_view().value(row).as_bytes()),
        _ => {
            *held = other_value(values, row)?;
            held.as_ref()
        }
    })
}

fn other_value(values: &ArrayRef, row: usize) -> DfResult<Datum> {
    let scalar = ScalarValue::try_from_array(values, row)?;
    let datum = match scalar {
        ScalarValue::Decimal256(value, ..) => Some(wide::datum(value)),
        _ => constant(&scalar).map(|(datum, _)| datum),
    };
    datum.ok_or_else(|| internal_datafusion_err!("Q8: a join key {scalar:?}"))
}

/// True if values that a join calls equal have the same key over a column of type `ty`, which its table's
/// accesses deliver as `stored`, if this is around it.
pub(super) fn same_key(around: &Around, ty: ColumnType, stored: &DataType) -> bool {
    match ty {
        // An integer is the same in a wider type.
        ColumnType::Int { .. } | ColumnType::Bit { .. } => {
            !around.padded && around.casts.iter().all(|t| widens(stored, t))
        }
        ColumnType::Decimal { .. }
        | ColumnType::Date
        | ColumnType::DateTime { .. }
        | ColumnType::Timestamp { .. }
        | ColumnType::Time { .. }
        | ColumnType::Year => !around.padded && around.casts.is_empty(),
        // Trailing spaces are not part of keys; forms are, if the column has them.
        ColumnType::Char { .. } | ColumnType::Varchar { .. } => {
            let is_text = ty.collation().is_some_and(Collation::is_text);
            let form = ty.collation().filter(|own| own.has_form());
            is_text && around.form == form && around.casts.is_empty()
        }
        ColumnType::Float | ColumnType::Double | ColumnType::Long { .. } | ColumnType::Json => {
            false
        }
    }
}

/// What is done to a column before a join compares it.
#[derive(Default)]
pub(super) struct Around {
    pub padded: bool,
    /// The collation of a form.
    pub form: Option<Collation>,
    pub casts: Vec<DataType>,
}

impl Around {
    /// The column inside an expression, noting what is around it; `None` if that is something else than a join
    /// does to what it compares.
    pub fn column<'e>(&mut self, mut expr: &'e Arc<dyn PhysicalExpr>) -> Option<&'e Column> {
        loop {
            if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
                self.padded = true;
                match Collated::form_of(function.fun()) {
                    None if function.name() == PAD => {}
                    None => return None,
                    form => self.form = form,
                }
                expr = &function.args()[0];
            } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
                self.casts.push(cast.cast_type().clone());
                expr = cast.expr();
            } else {
                return expr.downcast_ref::<Column>();
            }
        }
    }
}

/// True if every integer of one type is one of the other.
fn widens(from: &DataType, to: &DataType) -> bool {
    let same_sign = (from.is_signed_integer() && to.is_signed_integer())
        || (from.is_unsigned_integer() && to.is_unsigned_integer());
    same_sign && from.primitive_width() <= to.primitive_width()
}

/// A column of a scan that is a part of a join's key.
pub(super) struct ScanColumn {
    /// Its number in the table.
    pub number: u16,
    /// Its place in the scan's records.
    pub place: u16,
    pub ty: ColumnType,
}

/// The column that an expression over a scan's output is, if values that a join calls equal have the same key
/// over it.
pub(super) fn scan_column(scan: &PageScanExec, expr: &Arc<dyn PhysicalExpr>) -> Option<ScanColumn> {
    let mut around = Around::default();
    let output = around.column(expr)?.index();
    let index = &scan.table.indexes[scan.path.index];
    let number = match &scan.aggregate {
        None => *scan.projection.get(output)? as u16,
        // A group key: strings were cut or weighed when groups were made.
        Some(aggregate) => {
            let place = aggregate.aggregate.group_by.get(output)?.as_column()?;
            let number = *index.columns.get(usize::from(place))?;
            let def = scan.table.def.columns.get(usize::from(number))?;
            (!def.ty.is_string()).then_some(number)?
        }
    };
    let def = scan.table.def.columns.get(usize::from(number))?;
    let stored = scan.table_schema.field(usize::from(number)).data_type();
    same_key(&around, def.ty, stored).then_some(())?;
    Some(ScanColumn {
        number,
        place: index.position(number)?,
        ty: def.ty,
    })
}
