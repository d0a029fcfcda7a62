//! JSON_VALUE, whose type is an argument.

use perigee_expr::functions::Returned;
use perigee_expr::scalar::Scalar;
use perigee_sql_type::SqlType;
use sqlparser::ast::{Expr, Value as Literal};

use crate::error::unsupported;
use crate::{BindError, Binder, Result};

/// The place of the type's name among the arguments.
const TYPE: usize = 2;

impl Binder<'_> {
    /// The arguments are those that the grammar makes: document, path, type, and for ON EMPTY and ON ERROR what happens
    /// and a default.
    pub(crate) fn json_value(&self, args: &[&Expr]) -> Result<Scalar> {
        let wrong = || BindError::WrongArguments("JSON_VALUE".into());
        let ty = match args.get(TYPE) {
            Some(Expr::Value(value)) => match &value.value {
                Literal::SingleQuotedString(name) => name,
                _ => return Err(wrong()),
            },
            _ => return Err(wrong()),
        };
        let Some(returned) = Returned::named(ty) else {
            return unsupported(format_args!("JSON_VALUE … RETURNING {ty}"));
        };
        let bound = args.iter().map(|arg| self.expression(arg));
        let value = self.library("json_value", bound.collect::<Result<_>>()?)?;
        let Scalar { node, ty } = value;
        let ty = match returned {
            Returned::Column(column) => SqlType::of(column).nullable(ty.nullable),
            Returned::Json | Returned::Text(_) => ty,
        };
        Ok(Scalar::new(node, ty))
    }
}
