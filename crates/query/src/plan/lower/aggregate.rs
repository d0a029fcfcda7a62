//! Groups, and functions of their rows.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column as DfColumn, Result as DfResult};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::{bit_and_or_xor, count, first_last, stddev, sum, variance};
use datafusion::logical_expr::expr::AggregateFunction as Function;
use datafusion::logical_expr::{
    Aggregate as Groups, AggregateUDF, Expr, ExprSchemable, ScalarUDF, lit,
};
use perigee_expr::functions;
use perigee_expr::scalar::{Node, Scalar};
use perigee_sql_bind::query::{Aggregate, AggregateFunction, Column, Table};

use super::Row;
use super::output::{named, unique};
use super::relation::{Lowered, Planner, column, unsupported};
use crate::functions::aggregates::group_concat::GroupConcat;
use crate::functions::aggregates::json;
use crate::functions::aggregates::row_key::{equality_key, order_key};
use crate::functions::cast::Target;
use crate::functions::library;
use crate::functions::sum_double::sum_of_doubles;
use crate::plan::comparable;
use crate::plan::grouping;
use crate::plan::operators::cast_to;

/// What an aggregate function is in plans, with arguments of its kind.
pub(super) struct Lowering {
    pub function: Arc<AggregateUDF>,
    pub arguments: Vec<Expr>,
    /// DataFusion takes equal arguments once.
    pub distinct: bool,
    /// What it gives for no rows instead of NULL.
    pub of_nothing: Option<u64>,
}

/// The function of a plan, and its arguments.
pub(super) fn function(
    function: &AggregateFunction,
    distinct: bool,
    arguments: &[Scalar],
    row: &Row<'_>,
) -> DfResult<Lowering> {
    let arguments = arguments.iter().map(|one| row.value(one));
    let mut arguments = arguments.collect::<DfResult<Vec<_>>>()?;
    let mut of_nothing = None;
    let function = match function {
        AggregateFunction::CountRows => {
            arguments = vec![lit(1_i64)];
            count::count_udaf()
        }
        AggregateFunction::Count => {
            if arguments.len() > 1 {
                arguments = vec![equality_key(keys(arguments, row)?)];
            }
            count::count_udaf()
        }
        AggregateFunction::Sum => {
            let argument = arguments.swap_remove(0);
            let argument = comparable::sum_argument(argument, row.schema)?;
            let is_double = argument.get_type(row.schema)? == DataType::Float64;
            arguments = vec![argument];
            match is_double {
                true => sum_of_doubles(),
                false => sum::sum_udaf(),
            }
        }
        AggregateFunction::Min => min_udaf(),
        AggregateFunction::Max => max_udaf(),
        AggregateFunction::BitAnd => {
            of_nothing = Some(u64::MAX);
            bit_and_or_xor::bit_and_udaf()
        }
        AggregateFunction::BitOr => {
            of_nothing = Some(0);
            bit_and_or_xor::bit_or_udaf()
        }
        AggregateFunction::BitXor => {
            of_nothing = Some(0);
            bit_and_or_xor::bit_xor_udaf()
        }
        AggregateFunction::StddevPop => stddev::stddev_pop_udaf(),
        AggregateFunction::StddevSamp => stddev::stddev_udaf(),
        AggregateFunction::VarPop => variance::var_pop_udaf(),
        AggregateFunction::VarSamp => variance::var_samp_udaf(),
        AggregateFunction::AnyValue => first_last::first_value_udaf(),
        AggregateFunction::JsonArray => json::Kind::Array.function(),
        AggregateFunction::JsonObject => json::Kind::Object.function(),
        other @ (AggregateFunction::GroupConcat { .. } | AggregateFunction::Grouping(_)) => {
            return unsupported(other.name());
        }
    };
    if of_nothing.is_some() && arguments[0].get_type(row.schema)? != DataType::UInt64 {
        let argument = arguments.swap_remove(0);
        arguments = vec![cast_to(argument, Target::Unsigned)];
    }
    Ok(Lowering {
        function,
        arguments,
        distinct,
        of_nothing,
    })
}

/// Values as those that are compared.
fn keys(values: Vec<Expr>, row: &Row<'_>) -> DfResult<Vec<Expr>> {
    let keys = values.into_iter();
    keys.map(|value| comparable::collated(value, row.schema))
        .collect()
}

/// CONCAT, which is NULL with a NULL.
fn concat() -> Arc<ScalarUDF> {
    library::plain(functions::named("concat").expect("the library has it"))
}

/// GROUP_CONCAT, whose arguments are joined row by row.
fn group_concat(
    aggregate: &Aggregate,
    (separator, most): (&Arc<str>, usize),
    row: &Row<'_>,
) -> DfResult<Lowering> {
    let texts = aggregate.arguments.iter().map(|one| row.value(one));
    let texts = texts.collect::<DfResult<Vec<_>>>()?;
    let text = match &texts[..] {
        [only] => only.clone(),
        _ => concat().call(texts.clone()),
    };
    let mut arguments = vec![text];
    if !aggregate.order.is_empty() {
        let values = aggregate.order.iter().map(|key| row.value(&key.scalar));
        let values = keys(values.collect::<DfResult<_>>()?, row)?;
        let descending = aggregate.order.iter().map(|key| key.descending);
        arguments.push(order_key(values, descending.collect()));
    }
    if aggregate.distinct {
        arguments.push(equality_key(keys(texts, row)?));
    }
    let function = GroupConcat {
        separator: Arc::clone(separator),
        most,
        ordered: !aggregate.order.is_empty(),
        distinct: aggregate.distinct,
        is_text: !aggregate.ty.is_bytes(),
    };
    Ok(Lowering {
        function: function.function(),
        arguments,
        distinct: false,
        of_nothing: None,
    })
}

/// An aggregate function of groups.
fn lowered(aggregate: &Aggregate, row: &Row<'_>) -> DfResult<Lowering> {
    match &aggregate.function {
        AggregateFunction::GroupConcat { separator, most } => {
            group_concat(aggregate, (separator, *most), row)
        }
        _ if !aggregate.order.is_empty() => unsupported("ORDER BY in an aggregate function"),
        own => function(own, aggregate.distinct, &aggregate.arguments, row),
    }
}

/// The value for no rows.
pub(super) fn or_else(expr: Expr, of_nothing: Option<u64>) -> Expr {
    match of_nothing {
        Some(value) => datafusion::functions::core::coalesce().call(vec![expr, lit(value)]),
        None => expr,
    }
}

/// The aggregate functions of one node, each once.
pub(super) struct Functions<'p> {
    /// Names that results in the query have.
    used: &'p RefCell<HashSet<String>>,
    /// The functions, and the names of their columns.
    all: Vec<(Expr, String)>,
}

impl Functions<'_> {
    /// The result of a function over rows, as a column of the node.
    pub(super) fn add(&mut self, aggregate: &Aggregate, row: &Row<'_>) -> DfResult<Expr> {
        let Lowering {
            function,
            arguments,
            distinct,
            of_nothing,
        } = lowered(aggregate, row)?;
        let function = Function::new_udf(function, arguments, distinct, None, vec![], None);
        let function = match comparable::extreme_of_text(&function, row.schema)? {
            Some(extreme) => extreme,
            None => comparable::distinct_argument(function, row.schema)?.data,
        };
        Ok(or_else(self.column(function), of_nothing))
    }

    /// The column of a function.
    pub(super) fn column(&mut self, function: Expr) -> Expr {
        let known = self.all.iter().position(|(known, _)| *known == function);
        let name = match known {
            Some(at) => self.all[at].1.clone(),
            None => {
                let name = function.schema_name().to_string();
                let name = unique(&name, &mut self.used.borrow_mut());
                self.all.push((function, name.clone()));
                name
            }
        };
        Expr::Column(DfColumn::new_unqualified(name))
    }

    /// The functions under their names.
    pub(super) fn named(self) -> Vec<Expr> {
        let all = self.all.into_iter().map(|(function, name)| {
            let is_its_own = function.schema_name().to_string() == name;
            match is_its_own {
                true => function,
                false => function.alias(name),
            }
        });
        all.collect()
    }
}

impl Planner<'_> {
    /// No functions yet.
    pub(super) fn functions(&self) -> Functions<'_> {
        Functions {
            used: &self.results,
            all: Vec::new(),
        }
    }

    /// Groups of rows: keys, then results.
    pub(super) fn aggregate(
        &self,
        input: Lowered,
        of: &[Column],
        columns: &[Column],
        keys: &[Scalar],
        aggregates: &[Aggregate],
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        let qualifier = self.qualifier("");
        let row = input.row(parameters);
        let mut used = HashSet::new();
        let mut output = Vec::with_capacity(columns.len());
        let mut groups = Vec::with_capacity(keys.len());
        for (key, own) in keys.iter().zip(columns) {
            let key = row.value(key)?;
            let key = match column(&key) {
                Some(_) => key,
                None => {
                    let name = unique(&own.name.to_lowercase(), &mut used);
                    named(key, &qualifier, name, &own.ty, row.schema)?
                }
            };
            output.push(named_as(&key));
            groups.push(key);
        }
        let decided = self.decided(of, keys);
        let mut functions = self.functions();
        for aggregate in aggregates {
            if let Some(place) = decided_column(aggregate, of, &decided)
                && let Some(own) = column(&input.columns[place])
            {
                // The keys decide it, so that it may be one of them: storage groups by columns.
                let key = Expr::Column(own.clone());
                output.push(key.clone());
                groups.push(key);
                continue;
            }
            output.push(functions.add(aggregate, &row)?);
        }
        let functions = functions.named();
        let groups = Groups::try_new(Arc::new(input.plan), groups, functions)?;
        let plan = grouping::sums_in_range(grouping::group_by(groups)?)?;
        Ok(Lowered {
            plan,
            columns: output,
        })
    }
}

impl Planner<'_> {
    /// The references to tables of which the keys have all columns of a unique key.
    fn decided(&self, of: &[Column], keys: &[Scalar]) -> Vec<usize> {
        let origins: Vec<_> = keys
            .iter()
            .filter_map(|key| match key.node {
                Node::Column(place) => of[place].origin,
                _ => None,
            })
            .collect();
        let is_key = |reference: usize, column: usize| {
            let mut origins = origins.iter();
            origins.any(|origin| (origin.reference, origin.column) == (reference, column))
        };
        let is_decided = |table: &Table| {
            let keys = &table.definition.unique_keys;
            keys.iter().any(|key| {
                let mut key = key.iter();
                key.all(|column| is_key(table.reference, *column))
            })
        };
        let tables = self.query.tables.iter();
        let decided = tables.filter(|table| is_decided(table));
        decided.map(|table| table.reference).collect()
    }
}

/// The place of a column of which an aggregate function takes any value, if one of these tables has it.
fn decided_column(aggregate: &Aggregate, of: &[Column], decided: &[usize]) -> Option<usize> {
    match (&aggregate.function, &aggregate.arguments[..]) {
        (AggregateFunction::AnyValue, [only]) => match only.node {
            Node::Column(place) => {
                let origin = of[place].origin?;
                decided.contains(&origin.reference).then_some(place)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The column that an expression of a plan is in its output.
fn named_as(expr: &Expr) -> Expr {
    let (relation, name) = expr.qualified_name();
    Expr::Column(DfColumn::new(relation, name))
}
