//! Bound queries evaluated over tables in memory, in the plainest way: what the tree means. Some operators are left out.

use std::cmp::Ordering;
use std::collections::HashMap;

use perigee_expr::Comparison;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Context, Domain, Nowhere, Scalar, order};
use perigee_sql_bind::query::{
    Aggregate, AggregateFunction, Applied, JoinKind, Operator, Quantifier, Relation, SetOperation,
};
use perigee_sql_type::SqlType;
use perigee_value::ColumnType;

/// A row.
pub type Row = Vec<Value<'static>>;

/// The tables, and what surrounds a relation.
#[derive(Clone)]
pub struct World<'w> {
    pub tables: &'w HashMap<&'static str, Vec<Row>>,
    pub parameters: Vec<Value<'static>>,
    pub shared: HashMap<usize, Vec<Row>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Nothing {
    /// The operator is not known here, or an expression fails.
    LeftOut,
    /// MySQL 1242.
    SeveralRows,
}

type Result<T> = std::result::Result<T, Nothing>;

impl World<'_> {
    fn value(&self, scalar: &Scalar, row: &Row) -> Result<Value<'static>> {
        let context = Context::with_parameters(&Nowhere, &self.parameters);
        let value = scalar.evaluate(row, &context);
        value.map(Value::into_owned).map_err(|_| Nothing::LeftOut)
    }

    fn values(&self, all: &[Scalar], row: &Row) -> Result<Row> {
        all.iter().map(|one| self.value(one, row)).collect()
    }

    fn holds(&self, scalar: &Scalar, row: &Row) -> Result<bool> {
        Ok(matches!(self.value(scalar, row)?, Value::Int(v) if v != 0))
    }

    /// The rows of a relation.
    pub fn rows(&self, relation: &Relation) -> Result<Vec<Row>> {
        match &relation.operator {
            Operator::One => Ok(vec![Row::new()]),
            Operator::Table(table) => Ok(self.tables[&*table.name].clone()),
            Operator::Shared(number) => Ok(self.shared[number].clone()),
            Operator::JsonTable { .. } => Err(Nothing::LeftOut),
            Operator::Values(rows) => {
                let rows = rows.iter().map(|row| self.values(row, &Row::new()));
                rows.collect()
            }
            Operator::Filter { input, predicate } => {
                let mut kept = Vec::new();
                for row in self.rows(input)? {
                    if self.holds(predicate, &row)? {
                        kept.push(row);
                    }
                }
                Ok(kept)
            }
            Operator::Project { input, expressions } => {
                let rows = self.rows(input)?;
                let rows = rows.iter().map(|row| self.values(expressions, row));
                rows.collect()
            }
            // Queries of tests with an order compare as sets.
            Operator::Sort { input, .. } => self.rows(input),
            Operator::Distinct { input } => Ok(distinct(self.rows(input)?)),
            Operator::Join(join) => {
                let (left, right) = (self.rows(&join.left)?, self.rows(&join.right)?);
                let width = join.right.columns.len();
                let mut pairs = Vec::new();
                for one in left {
                    let before = pairs.len();
                    for other in &right {
                        let pair = [&one[..], other].concat();
                        let is_pair = match &join.on {
                            Some(on) => self.holds(on, &pair)?,
                            None => true,
                        };
                        if is_pair {
                            pairs.push(pair);
                        }
                    }
                    if pairs.len() == before && join.kind == JoinKind::Left {
                        pairs.push([&one[..], &vec![Value::Null; width]].concat());
                    }
                }
                Ok(pairs)
            }
            Operator::Aggregate {
                input,
                keys,
                aggregates,
                rollup: false,
            } => self.groups(self.rows(input)?, keys, aggregates),
            Operator::Set {
                operation,
                all,
                inputs,
            } => self.set(*operation, *all, inputs),
            Operator::Apply(apply) => {
                let mut rows = Vec::new();
                for row in self.rows(&apply.input)? {
                    let inside = World {
                        parameters: self.values(&apply.arguments, &row)?,
                        ..self.clone()
                    };
                    let found = inside.rows(&apply.subquery)?;
                    let width = apply.subquery.columns.len();
                    self.applied(&apply.applied, row, found, width, &mut rows)?;
                }
                Ok(rows)
            }
            Operator::With { definitions, body } => {
                let mut inside = self.clone();
                for definition in definitions {
                    let rows = inside.rows(&definition.base)?;
                    if definition.step.is_some() {
                        return Err(Nothing::LeftOut);
                    }
                    inside.shared.insert(definition.number, rows);
                }
                inside.rows(body)
            }
            _ => Err(Nothing::LeftOut),
        }
    }

    fn applied(
        &self,
        applied: &Applied,
        row: Row,
        found: Vec<Row>,
        width: usize,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let with = |more: &[Value<'static>]| [&row[..], more].concat();
        match applied {
            Applied::Row if found.len() > 1 => return Err(Nothing::SeveralRows),
            Applied::Row => match found.first() {
                Some(only) => rows.push(with(only)),
                None => rows.push(with(&vec![Value::Null; width])),
            },
            Applied::Exists => rows.push(with(&[Value::truth(!found.is_empty())])),
            Applied::Lateral { outer } => {
                if found.is_empty() && *outer {
                    rows.push(with(&vec![Value::Null; width]));
                }
                rows.extend(found.iter().map(|other| with(other)));
            }
            Applied::Quantified {
                quantifier,
                comparison,
                operands,
            } => {
                let last = *quantifier == Quantifier::Any;
                let mut truth = Some(!last);
                for other in &found {
                    // Several operands: all are equal, or one differs.
                    let all = *comparison == Comparison::Equal || operands.len() == 1;
                    let mut one = Some(all);
                    for ((left, domain), right) in operands.iter().zip(other) {
                        let left = self.value(left, &row)?;
                        let held = order(*domain, &left, right).map(|o| compares(*comparison, o));
                        one = match (one, held) {
                            (Some(v), _) if v != all => one,
                            (_, Some(v)) if v != all => held,
                            (None, _) | (_, None) => None,
                            _ => one,
                        };
                    }
                    truth = match (truth, one) {
                        (Some(v), _) if v == last => truth,
                        (_, Some(v)) if v == last => one,
                        (None, _) | (_, None) => None,
                        _ => truth,
                    };
                }
                let value = truth.map_or(Value::Null, Value::truth);
                rows.push(with(&[value]));
            }
        }
        Ok(())
    }

    fn groups(&self, rows: Vec<Row>, keys: &[Scalar], functions: &[Aggregate]) -> Result<Vec<Row>> {
        let mut groups: Vec<(Row, Vec<Row>)> = Vec::new();
        let mut numbers = HashMap::new();
        if keys.is_empty() {
            groups.push((Row::new(), Vec::new()));
            numbers.insert(text_of(&Row::new()), 0);
        }
        for row in rows {
            let key = self.values(keys, &row)?;
            let number = *numbers.entry(text_of(&key)).or_insert(groups.len());
            if number == groups.len() {
                groups.push((key, Vec::new()));
            }
            groups[number].1.push(row);
        }
        let groups = groups.into_iter().map(|(mut key, rows)| {
            for function in functions {
                key.push(self.aggregate(function, &rows)?);
            }
            Ok(key)
        });
        groups.collect()
    }

    fn aggregate(&self, function: &Aggregate, rows: &[Row]) -> Result<Value<'static>> {
        let mut terms = Vec::new();
        for row in rows {
            let values = self.values(&function.arguments, row)?;
            if function.function == AggregateFunction::AnyValue {
                return Ok(values[0].clone());
            }
            if !values.contains(&Value::Null) {
                terms.push(values);
            }
        }
        if function.distinct {
            terms = distinct(terms);
        }
        let values = terms.into_iter().filter_map(|mut term| term.pop());
        Ok(match function.function {
            AggregateFunction::CountRows => Value::Int(rows.len() as i64),
            AggregateFunction::Count => Value::Int(values.count() as i64),
            AggregateFunction::Min | AggregateFunction::Max => {
                let wanted = match function.function {
                    AggregateFunction::Min => Ordering::Less,
                    _ => Ordering::Greater,
                };
                let domain = domain_of(&function.ty);
                let compared = |a: &Value<'static>, b: &Value<'static>| match (a, b) {
                    (Value::Date(a), Value::Date(b)) => Some(a.cmp(b)),
                    _ => order(domain, a, b),
                };
                let better = |a: Value<'static>, b| match compared(&b, &a) {
                    Some(found) if found == wanted => b,
                    _ => a,
                };
                values.reduce(better).unwrap_or(Value::Null)
            }
            AggregateFunction::Sum => self.sum(values.collect(), function)?,
            AggregateFunction::AnyValue => Value::Null,
            _ => return Err(Nothing::LeftOut),
        })
    }

    /// A sum of exact numbers or of DOUBLEs.
    fn sum(&self, values: Row, function: &Aggregate) -> Result<Value<'static>> {
        let Some(ColumnType::Decimal { scale, .. }) = function.ty.column else {
            let doubles = values.iter().map(|value| match value {
                Value::Double(v) => Ok(*v),
                _ => Err(Nothing::LeftOut),
            });
            let doubles = doubles.collect::<Result<Vec<_>>>()?;
            return Ok(match doubles.is_empty() {
                true => Value::Null,
                false => Value::Double(doubles.iter().sum()),
            });
        };
        let units = values.iter().map(|value| match value {
            Value::Int(v) => Ok(i128::from(*v)),
            Value::UInt(v) => Ok(i128::from(*v)),
            Value::Decimal(units, own) => units
                .rescale(*own, scale)
                .and_then(|units| units.to_i128())
                .ok_or(Nothing::LeftOut),
            _ => Err(Nothing::LeftOut),
        });
        let units = units.collect::<Result<Vec<_>>>()?;
        Ok(match units.is_empty() {
            true => Value::Null,
            false => Value::Decimal(units.iter().sum::<i128>().into(), scale),
        })
    }

    fn set(&self, operation: SetOperation, all: bool, inputs: &[Relation]) -> Result<Vec<Row>> {
        let mut parts = inputs.iter().map(|input| self.rows(input));
        let mut whole = parts.next().unwrap_or(Ok(Vec::new()))?;
        for part in parts {
            let part = part?;
            if operation == SetOperation::Union {
                whole.extend(part);
                continue;
            }
            let mut left: HashMap<String, usize> = HashMap::new();
            for row in &part {
                *left.entry(text_of(row)).or_default() += 1;
            }
            if !all {
                whole = distinct(whole);
            }
            whole.retain(|row| {
                let count = left.entry(text_of(row)).or_default();
                let is_there = *count > 0;
                if all {
                    *count = count.saturating_sub(1);
                }
                is_there == (operation == SetOperation::Intersect)
            });
        }
        Ok(match all {
            true => whole,
            false => distinct(whole),
        })
    }
}

fn compares(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal | Comparison::NullSafeEqual => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

fn domain_of(ty: &SqlType) -> Domain {
    match ty {
        ty if ty.is_text() => Domain::Text(ty.collation()),
        ty if ty.is_moment() => Domain::Moment,
        ty if ty.column == Some(ColumnType::Double) => Domain::Double,
        _ => Domain::Exact,
    }
}

/// Equal rows have equal texts: tables have no strings that are equal and not the same.
fn text_of(row: &Row) -> String {
    format!("{row:?}")
}

fn distinct(mut rows: Vec<Row>) -> Vec<Row> {
    let mut seen = std::collections::HashSet::new();
    rows.retain(|row| seen.insert(text_of(row)));
    rows
}
