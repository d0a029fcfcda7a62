//! Each node of a bound expression in a plan.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, DataFusionError, Result as DfResult};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF, cast, lit};
use perigee_engine::ndp::column_data_type;
use perigee_expr::scalar::{Node, Scalar};

use super::{Row, constant};
use crate::error::SqlError;
use crate::functions::collation::Latin;
use crate::functions::enumeration;
use crate::functions::scalar::{BoundScalar, Leaf};
use crate::interrupt;
use crate::parse::halves;
use crate::plan::branches::Common;
use crate::plan::collation;
use crate::plan::operators::{call, type_of_operand};

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

impl Row<'_> {
    /// An expression in the plan. A truth value is a Boolean there, anything else has the Arrow type of its type or one
    /// of the same values.
    ///
    /// # Errors
    /// Those of DataFusion's types, and 1317.
    pub(in crate::plan) fn expr(&self, scalar: &Scalar) -> DfResult<Expr> {
        interrupt::check_df()?;
        let form = stacker::maybe_grow(RED_ZONE, STACK, || self.form(scalar));
        let form = match form {
            Err(error) if is_unsupported(&error) => None,
            form => form?,
        };
        match form {
            // A function says only when it is asked whether it takes its arguments.
            Some(form) if is_typed(&form, self.schema) => Ok(form),
            _ => self.adapted(scalar),
        }
    }

    /// An expression whose strings are compared by whoever takes it, in the collation that its type has.
    ///
    /// # Errors
    /// As [`Self::expr`].
    pub(in crate::plan) fn value(&self, scalar: &Scalar) -> DfResult<Expr> {
        let expr = self.expr(scalar)?;
        if !scalar.ty.is_text() || matches!(expr, Expr::Literal(..)) {
            return Ok(expr);
        }
        let own = scalar.ty.collation();
        // Branches of an expression may say different collations; what they have in common is in its type.
        let said = collation::collation_of(&expr, self.schema).ok();
        Ok(match said == Some(own) {
            true => expr,
            false => collation::of_no_column(expr, own),
        })
    }

    /// A condition.
    ///
    /// # Errors
    /// As [`Self::expr`].
    pub(in crate::plan) fn condition(&self, scalar: &Scalar) -> DfResult<Expr> {
        let expr = self.expr(scalar)?;
        Ok(match expr.get_type(self.schema)? {
            DataType::Boolean | DataType::Null => expr,
            _ => expr.not_eq(lit(0_i64)),
        })
    }

    /// The expression as one function that evaluates it row by row.
    fn adapted(&self, scalar: &Scalar) -> DfResult<Expr> {
        let (function, leaves) = BoundScalar::new(scalar);
        let args = leaves.into_iter().map(|leaf| match leaf {
            Leaf::Column(place) => self.columns[place].clone(),
            Leaf::Parameter(number) => self.parameters[number].clone(),
        });
        Ok(call(ScalarUDF::from(function), args.collect()))
    }

    /// The form of a node that more than evaluation knows; `None` if there is none.
    fn form(&self, scalar: &Scalar) -> DfResult<Option<Expr>> {
        Ok(Some(match &scalar.node {
            Node::Constant(value) => constant::literal(value, &scalar.ty)?,
            Node::Column(place) => self.columns[*place].clone(),
            Node::Parameter(number) => self.parameters[*number].clone(),
            Node::Cast(one, target) => return self.cast(one, *target),
            Node::Comparable(one, domain) => self.comparable(one, *domain)?,
            Node::Latin(one) => call(Latin::default().into(), vec![self.expr(one)?]),
            Node::MemberNumber(one, members) => {
                let number = enumeration::number_of(self.expr(one)?, members.as_ref().clone());
                cast(number, column_data_type(members.number_type()))
            }
            Node::Arithmetic(first, steps) => return self.arithmetic(first, steps),
            Node::Negate(one) => self.negated(one)?,
            Node::Round(kind, one, places) => return self.rounded(*kind, one, *places),
            Node::Compare(op, domain, two) => self.compared(*op, *domain, &two[0], &two[1])?,
            Node::In(domain, one, list) => self.in_list(*domain, one, list)?,
            Node::Like(two, kind) => return self.like(two, kind),
            Node::And(all) => halves(self.conditions(all)?, &Expr::and),
            Node::Or(all) => halves(self.conditions(all)?, &Expr::or),
            Node::Xor(two) => {
                let [left, right] = [&two[0], &two[1]].map(|one| self.condition(one));
                left?.not_eq(right?)
            }
            Node::Not(one) => self.not(one)?,
            Node::IsNull(one) => Expr::IsNull(Box::new(self.expr(one)?)),
            Node::Is(one, true) => Expr::IsTrue(Box::new(self.condition(one)?)),
            Node::Is(one, false) => Expr::IsFalse(Box::new(self.condition(one)?)),
            Node::Case(branches, otherwise) => self.case(branches, otherwise.as_deref(), scalar)?,
            Node::Coalesce(all) => self.coalesce(all, scalar)?,
            Node::Extract(field, one) => self.extract(*field, one)?,
            Node::DateAdd(two, unit) => return self.date_add(&two[0], &two[1], *unit),
            Node::Call(call) => self.library(call)?,
            // Nothing else in a plan computes a value once for several places.
            Node::Let(..) | Node::Local(_) => return Ok(None),
            // One function that looks for its argument.
            Node::Listed(..) => return Ok(None),
            Node::Stored(_) => return Ok(None),
            // They are evaluated row by row.
            Node::Variable(..) | Node::Assign(..) => return Ok(None),
        }))
    }

    fn conditions(&self, all: &[Scalar]) -> DfResult<Vec<Expr>> {
        all.iter().map(|one| self.condition(one)).collect()
    }

    fn not(&self, one: &Scalar) -> DfResult<Expr> {
        Ok(match &one.node {
            Node::IsNull(inner) => Expr::IsNotNull(Box::new(self.expr(inner)?)),
            Node::Is(inner, true) => Expr::IsNotTrue(Box::new(self.condition(inner)?)),
            Node::Is(inner, false) => Expr::IsNotFalse(Box::new(self.condition(inner)?)),
            _ => match self.condition(one)? {
                Expr::Like(mut like) => {
                    like.negated = !like.negated;
                    Expr::Like(like)
                }
                Expr::InSubquery(mut member) => {
                    member.negated = !member.negated;
                    Expr::InSubquery(member)
                }
                Expr::Exists(mut exists) => {
                    exists.negated = !exists.negated;
                    Expr::Exists(exists)
                }
                condition => Expr::Not(Box::new(condition)),
            },
        })
    }

    /// A value as one of several of a type.
    pub(super) fn branch(&self, one: &Scalar, common: &Common) -> DfResult<Expr> {
        match common.data_type {
            DataType::Boolean => self.condition(one),
            _ => common.convert(self.expr(one)?, self.schema),
        }
    }

    fn case(
        &self,
        branches: &[(Scalar, Scalar)],
        otherwise: Option<&Scalar>,
        scalar: &Scalar,
    ) -> DfResult<Expr> {
        let common = Common::of(&scalar.ty);
        let mut parts = Vec::with_capacity(branches.len());
        for (when, then) in branches {
            let when = Box::new(self.condition(when)?);
            parts.push((when, Box::new(self.branch(then, &common)?)));
        }
        let otherwise = otherwise.map(|one| self.branch(one, &common)).transpose()?;
        let case = datafusion::logical_expr::Case::new(None, parts, otherwise.map(Box::new));
        Ok(common.with_digits(Expr::Case(case)))
    }

    fn coalesce(&self, all: &[Scalar], scalar: &Scalar) -> DfResult<Expr> {
        let common = Common::of(&scalar.ty);
        let values = all.iter().map(|one| self.branch(one, &common));
        let function = datafusion::functions::core::coalesce();
        let coalesce = function.call(values.collect::<DfResult<_>>()?);
        Ok(common.with_digits(coalesce))
    }
}

/// True if an expression has a type: functions may refuse their arguments.
fn is_typed(expr: &Expr, schema: &DFSchema) -> bool {
    !matches!(expr, Expr::ScalarFunction(_)) || type_of_operand(expr, schema).is_ok()
}

/// True for error 1235.
pub(super) fn is_unsupported(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::External(inner) => inner
            .downcast_ref::<SqlError>()
            .is_some_and(SqlError::is_not_supported),
        _ => false,
    }
}
