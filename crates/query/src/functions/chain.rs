//! `mysql_chain('+-*', a, b, c, d)`: `((a + b) - c) * d` as one function.
//!
//! DataFusion finds the type and the name of an expression by walking all of it, at each of its levels: the time
//! to plan a chain of operators, which is as deep as it is long, grows with its third power. A long one is
//! one level here. Operators and operands are applied from the left to the right, by the functions of
//! [`super::arithmetic`].

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result as DfResult, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_expr::Arithmetic;

use super::arithmetic::ArithmeticFunction;
use crate::interrupt;

/// Its name.
pub const CHAIN: &str = "mysql_chain";

/// Operators from which a chain is one function.
pub const LONG: usize = 8;

/// The letters of the operators.
const LETTERS: [(char, Arithmetic); 6] = [
    ('+', Arithmetic::Add),
    ('-', Arithmetic::Subtract),
    ('*', Arithmetic::Multiply),
    ('/', Arithmetic::Divide),
    ('d', Arithmetic::IntDivide),
    ('%', Arithmetic::Modulo),
];

/// The letter of an operator in the first argument.
#[must_use]
pub fn letter(op: Arithmetic) -> char {
    let known = LETTERS.iter().find(|(_, known)| *known == op);
    known.map_or('+', |(letter, _)| *letter)
}

/// The operators that the first argument names.
#[must_use]
pub fn operators(letters: &ScalarValue) -> Option<Vec<Arithmetic>> {
    let letters = letters.try_as_str().flatten()?;
    let operator = |letter: char| LETTERS.iter().find(|(known, _)| *known == letter);
    let operators = letters.chars().map(operator);
    operators.map(|known| known.map(|(_, op)| *op)).collect()
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    signature: Signature,
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

/// The functions of all operators, in the order of [`LETTERS`].
struct Functions([ArithmeticFunction; 6]);

impl Functions {
    fn new() -> Self {
        Self(LETTERS.map(|(_, op)| ArithmeticFunction::new(op)))
    }

    fn of(&self, op: Arithmetic) -> &ArithmeticFunction {
        let at = LETTERS.iter().position(|(_, known)| *known == op);
        &self.0[at.unwrap_or(0)]
    }
}

/// The type of `left op right`.
fn step(
    function: &ArithmeticFunction,
    left: (&FieldRef, Option<&ScalarValue>),
    right: (&FieldRef, Option<&ScalarValue>),
) -> DfResult<FieldRef> {
    function.return_field_from_args(ReturnFieldArgs {
        arg_fields: &[left.0.clone(), right.0.clone()],
        scalar_arguments: &[left.1, right.1],
    })
}

impl ScalarUDFImpl for Chain {
    fn name(&self) -> &str {
        CHAIN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        internal_err!("Q1: the type of {CHAIN} depends on its operators")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let ops = args.scalar_arguments.first().copied().flatten();
        let Some(ops) = ops.and_then(operators) else {
            return internal_err!("Q1: {CHAIN} without operators");
        };
        let functions = Functions::new();
        let operands = args.arg_fields.iter().zip(args.scalar_arguments);
        let mut operands = operands.skip(1);
        let Some((field, value)) = operands.next() else {
            return internal_err!("Q1: {CHAIN} without operands");
        };
        let (mut field, mut value) = (field.clone(), *value);
        for (op, (right, literal)) in ops.into_iter().zip(operands) {
            interrupt::check_df()?;
            field = step(functions.of(op), (&field, value), (right, *literal))?;
            value = None;
        }
        Ok(field)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let mut operands = args.args.into_iter().zip(&args.arg_fields);
        let ops = match operands.next() {
            Some((ColumnarValue::Scalar(ops), _)) => operators(&ops),
            _ => None,
        };
        let (Some(ops), Some((mut left, field))) = (ops, operands.next()) else {
            return internal_err!("Q1: {CHAIN} without operators or operands");
        };
        let literal = |value: &ColumnarValue| match value {
            ColumnarValue::Scalar(value) => Some(value.clone()),
            ColumnarValue::Array(_) => None,
        };
        let functions = Functions::new();
        let (mut left_field, mut left_literal) = (field.clone(), literal(&left));
        for (op, (right, right_field)) in ops.into_iter().zip(operands) {
            interrupt::check_df()?;
            let function = functions.of(op);
            let right_literal = literal(&right);
            let field = step(
                function,
                (&left_field, left_literal.as_ref()),
                (right_field, right_literal.as_ref()),
            )?;
            left = function.invoke_with_args(ScalarFunctionArgs {
                args: vec![left, right],
                arg_fields: vec![left_field, right_field.clone()],
                number_rows: args.number_rows,
                return_field: field.clone(),
                config_options: Arc::clone(&args.config_options),
            })?;
            // As when the type was found.
            (left_field, left_literal) = (field, None);
        }
        // An operand that became a constant since then has fewer digits.
        left.cast_to(args.return_field.data_type(), None)
    }
}
