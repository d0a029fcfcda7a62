//! ENUM and SET: storage knows the numbers of the values, statements their texts.
//!
//! A table with such columns is planned as a view over the table with the numbers ([`view`]), in which
//! `mysql_enum_text(number)` is the column. Who needs the number of a text (a comparison with a number or a
//! constant, ORDER BY, GROUP BY, arithmetic) takes `mysql_enum_number(text)`, and the optimizer finds that both
//! together are the column in storage.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{TableProvider, default_table_source::provider_as_source};
use datafusion::common::{Column, Result as DfResult, ScalarValue, TableReference};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
    Signature, Volatility,
};
use perigee_value::{Members, MembersKind};

use super::{kernels, text};
use crate::plan::metadata;
use crate::plan::operators::call;

/// A number that no text has, but for those of SETs with many members.
const NONE: u16 = u16::MAX;

/// Arrow type of the numbers, whose stored type may be narrower.
fn numbers_type(members: &Members) -> DataType {
    match members.kind() {
        MembersKind::Enum => DataType::UInt16,
        MembersKind::Set => DataType::UInt64,
    }
}

/// `mysql_enum_text(number)`: the text of a value of a certain ENUM or SET.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Text {
    members: Arc<Members>,
    signature: Signature,
}

/// Name of [`Text`].
pub const TEXT: &str = "mysql_enum_text";

impl ScalarUDFImpl for Text {
    fn name(&self) -> &str {
        TEXT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let field = args.arg_fields[0].as_ref();
        let shown = Field::new(TEXT, DataType::Utf8View, field.is_nullable());
        Ok(Arc::new(shown.with_metadata(field.metadata().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        kernels::shape(texts(&array, &self.members)?, scalar)
    }
}

/// The texts of numbers.
///
/// # Errors
/// If they are no numbers.
pub fn texts(numbers: &ArrayRef, members: &Members) -> DfResult<ArrayRef> {
    let numbers = cast(numbers, &DataType::UInt64)?;
    let mut out = StringViewBuilder::with_capacity(numbers.len()).with_deduplicate_strings();
    for number in numbers.as_primitive::<UInt64Type>() {
        // What a column of numbers holds besides is shown as what IGNORE stores.
        out.append_option(number.map(|number| members.text(number).unwrap_or_default()));
    }
    Ok(Arc::new(out.finish()))
}

/// `mysql_enum_number(text)`: the number of a value of a certain ENUM or SET.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Number {
    members: Arc<Members>,
    signature: Signature,
}

/// Name of [`Number`].
pub const NUMBER: &str = "mysql_enum_number";

impl ScalarUDFImpl for Number {
    fn name(&self) -> &str {
        NUMBER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(numbers_type(&self.members))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let nullable = args.arg_fields[0].is_nullable();
        let numbers = numbers_type(&self.members);
        Ok(Arc::new(Field::new(NUMBER, numbers, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let texts = text::as_view(&array)?;
        let number = self.members.numbering();
        let numbers = texts.iter().map(|text| text.map(&number));
        let numbers: PrimitiveArray<UInt64Type> = numbers.collect();
        kernels::shape(cast(&numbers, &numbers_type(&self.members))?, scalar)
    }

    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        if let Expr::ScalarFunction(function) = &mut args[0]
            && function.func.name() == TEXT
        {
            let stored = function.args.swap_remove(0);
            let numbers = numbers_type(&self.members);
            let widened = datafusion::logical_expr::cast(stored, numbers);
            return Ok(ExprSimplifyResult::Simplified(widened));
        }
        Ok(ExprSimplifyResult::Original(args))
    }
}

fn signature() -> Signature {
    Signature::any(1, Volatility::Immutable)
}

/// The number of a text of an ENUM or a SET.
#[must_use]
pub fn number_of(text: Expr, members: Members) -> Expr {
    let number = Number {
        members: Arc::new(members),
        signature: signature(),
    };
    call(number.into(), vec![text])
}

/// The text of a number of an ENUM or a SET.
#[must_use]
pub fn text_of(number: Expr, members: Members) -> Expr {
    let text = Text {
        members: Arc::new(members),
        signature: signature(),
    };
    call(text.into(), vec![number])
}

/// A number as a literal that [`number_of`] is compared with; `None` is one that no text has which is looked at.
#[must_use]
pub fn literal(members: &Members, number: Option<u64>) -> Expr {
    let number = number.unwrap_or(NONE.into());
    let literal = match members.kind() {
        MembersKind::Enum => ScalarValue::UInt16(Some(u16::try_from(number).unwrap_or(NONE))),
        MembersKind::Set => ScalarValue::UInt64(Some(number)),
    };
    Expr::Literal(literal, None)
}

/// A table with numbers of ENUMs and SETs as one with their texts; any other as it is.
///
/// # Errors
/// If there can be no such plan.
pub fn view(table: Arc<dyn TableProvider>, name: &str) -> DfResult<Arc<dyn TableProvider>> {
    let schema = table.schema();
    let members: Vec<Option<Members>> = schema
        .fields()
        .iter()
        .map(|f| metadata::members(f))
        .collect();
    if members.iter().all(Option::is_none) {
        return Ok(table);
    }
    let reference = TableReference::bare(name);
    let columns = schema.fields().iter().zip(members).map(|(field, members)| {
        let column = Expr::Column(Column::new(Some(reference.clone()), field.name()));
        match members {
            Some(members) => text_of(column, members).alias(field.name()),
            None => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    let source = provider_as_source(table);
    let plan = LogicalPlanBuilder::scan(reference.clone(), source, None)?.project(columns)?;
    Ok(Arc::new(ViewTable::new(plan.build()?, None)))
}
