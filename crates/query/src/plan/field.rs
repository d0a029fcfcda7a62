//! What an expression gives: type and metadata.
//!
//! DataFusion's `to_field` and `get_type` name the field, too, after all that is in the expression, at each of its
//! levels. Nobody here looks at that name.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, ReturnFieldArgs, TypeSignature};

/// The field of an expression; its name means nothing.
///
/// # Errors
/// If the expression has no type.
pub fn field_of(expr: &Expr, schema: &DFSchema) -> DfResult<FieldRef> {
    match expr {
        Expr::ScalarFunction(function) if takes_anything(function) => {
            let fields = function.args.iter().map(|arg| field_of(arg, schema));
            let fields = fields.collect::<DfResult<Vec<_>>>()?;
            let literals = function.args.iter().map(|arg| match arg {
                Expr::Literal(value, _) => Some(value),
                _ => None,
            });
            function.func.return_field_from_args(ReturnFieldArgs {
                arg_fields: &fields,
                scalar_arguments: &literals.collect::<Vec<_>>(),
            })
        }
        Expr::BinaryExpr(binary)
            if binary.op.supports_propagation() || binary.op.is_logic_operator() =>
        {
            Ok(Arc::new(Field::new("", DataType::Boolean, true)))
        }
        _ => Ok(expr.to_field(schema)?.1),
    }
}

/// The type of an expression.
///
/// # Errors
/// If it has none.
pub fn type_of(expr: &Expr, schema: &DFSchema) -> DfResult<DataType> {
    Ok(match expr {
        Expr::ScalarFunction(_) | Expr::BinaryExpr(_) => {
            field_of(expr, schema)?.data_type().clone()
        }
        _ => expr.get_type(schema)?,
    })
}

/// True for functions that take their arguments as they are.
fn takes_anything(function: &ScalarFunction) -> bool {
    let signature = &function.func.signature().type_signature;
    match signature {
        TypeSignature::VariadicAny => true,
        TypeSignature::Any(arguments) => *arguments == function.args.len(),
        _ => false,
    }
}
