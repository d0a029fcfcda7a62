//! Subqueries that are evaluated for each row.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder, lit, when,
};
use perigee_expr::Comparison;
use perigee_expr::scalar::Domain;
use perigee_sql_bind::query::{Applied, Apply, Quantifier};

use super::Row;
use super::comparison::operator;
use super::output::unique;
use super::relation::{Lowered, Planner, unsupported};
use crate::plan::apply::{Answer, ApplyNode, parameter};

/// A comparison of a row with a subquery's rows that is true, unknown, false.
const TRUE: i64 = 2;
const UNKNOWN: i64 = 1;
const FALSE: i64 = 0;

impl<'q> Planner<'q> {
    /// The rows of the input, and what the subquery gives for each.
    pub(super) fn applied(&self, apply: &'q Apply, parameters: &[Expr]) -> DfResult<Lowered> {
        let input = self.relation(&apply.input, parameters)?;
        let input = input.of_columns(&apply.input.columns, self)?;
        let row = input.row(parameters);
        let arguments = apply.arguments.iter().map(|argument| row.expr(argument));
        let mut arguments = arguments.collect::<DfResult<Vec<_>>>()?;
        let inner = numbered(&arguments, row.schema)?;
        let subquery = self.inside(&apply.subquery, &inner)?;
        let subquery = subquery.exact(&apply.subquery.columns, self)?;
        let (plan, answer) = match &apply.applied {
            Applied::Row => (subquery.plan, Answer::Row),
            Applied::Exists => {
                let first = LogicalPlanBuilder::from(subquery.plan).limit(0, Some(1))?;
                (first.build()?, Answer::Exists)
            }
            Applied::Quantified {
                quantifier,
                comparison,
                operands,
            } => {
                let operands = operands.iter();
                let operands = operands.map(|(operand, domain)| {
                    arguments.push(row.expr(operand)?);
                    Ok(*domain)
                });
                let domains = operands.collect::<DfResult<Vec<_>>>()?;
                let all = numbered(&arguments, row.schema)?;
                let operands = all.into_iter().skip(inner.len()).zip(domains);
                let plan = quantified(subquery, operands, *comparison, *quantifier)?;
                (plan, Answer::Row)
            }
            Applied::Lateral { outer } => (subquery.plan, Answer::Rows { outer: *outer }),
        };
        let added = self.added(&plan, answer)?;
        let node = ApplyNode::new(
            self.number(),
            input.plan,
            Arc::new(plan),
            arguments,
            answer,
            &added,
        )?;
        let mut columns = input.columns;
        columns.extend(added.columns().into_iter().map(Expr::Column));
        let node = Extension {
            node: Arc::new(node),
        };
        Ok(Lowered {
            plan: LogicalPlan::Extension(node),
            columns,
        })
    }

    /// The columns that a subquery adds.
    fn added(&self, plan: &LogicalPlan, answer: Answer) -> DfResult<DFSchema> {
        let qualifier = Some(self.qualifier(""));
        let fields: Vec<_> = match answer {
            Answer::Exists => vec![Field::new("exists", DataType::Boolean, false)],
            Answer::Row | Answer::Rows { .. } => {
                let mut used = HashSet::new();
                let fields = plan.schema().fields().iter();
                let fields = fields.map(|field| {
                    let name = unique(field.name(), &mut used);
                    let field = field.as_ref().clone();
                    field.with_name(name).with_nullable(true)
                });
                fields.collect()
            }
        };
        let fields = fields.into_iter();
        let fields = fields.map(|field| (qualifier.clone(), Arc::new(field)));
        DFSchema::new_with_metadata(fields.collect(), Default::default())
    }
}

/// The parameters of some arguments.
fn numbered(arguments: &[Expr], schema: &DFSchema) -> DfResult<Vec<Expr>> {
    let parameters = arguments.iter().enumerate().map(|(number, argument)| {
        let field = argument.to_field(schema)?.1;
        Ok(parameter(number, field))
    });
    parameters.collect()
}

/// One row with the truth of a comparison with any or all rows of a subquery.
fn quantified(
    subquery: Lowered,
    operands: impl Iterator<Item = (Expr, Domain)>,
    comparison: Comparison,
    quantifier: Quantifier,
) -> DfResult<LogicalPlan> {
    let row = Row {
        columns: &[],
        parameters: &[],
        schema: subquery.plan.schema(),
    };
    let pairs = operands.zip(&subquery.columns);
    let pairs = pairs.map(|((operand, domain), column)| {
        row.compare(operator(comparison), domain, operand, column.clone())
    });
    let pairs = pairs.collect::<DfResult<Vec<_>>>()?;
    let joined = match quantifier {
        Quantifier::Any => Expr::and,
        Quantifier::All => Expr::or,
    };
    let Some(compared) = pairs.into_iter().reduce(joined) else {
        return unsupported("a comparison with a subquery without columns");
    };
    let truth = when(compared.clone().is_true(), lit(TRUE))
        .when(compared.is_null(), lit(UNKNOWN))
        .otherwise(lit(FALSE))?
        .alias("truth");
    let truths = LogicalPlanBuilder::from(subquery.plan).project([truth])?;
    let column = datafusion::logical_expr::col("truth");
    let unknown = lit(ScalarValue::Boolean(None));
    let (end, default) = match quantifier {
        Quantifier::Any => (max(column), false),
        Quantifier::All => (min(column), true),
    };
    let decisive = if default { FALSE } else { TRUE };
    let end = end.alias("end");
    let found = datafusion::logical_expr::col("end");
    let answer = when(found.clone().eq(lit(decisive)), lit(!default))
        .when(found.eq(lit(UNKNOWN)), unknown)
        .otherwise(lit(default))?
        .alias("truth");
    truths
        .aggregate(Vec::<Expr>::new(), [end])?
        .project([answer])?
        .build()
}
