//! Common table expressions.
//!
//! One that is recursive is [computed](crate::plan::common) once, and so is one that is not [cheap](Planner::is_cheap):
//! its rows would have to be found again wherever it is named. A cheap one stands where it is named, so that conditions
//! reach its table there. What gives other values each time it is asked is never computed twice.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, Projection};
use perigee_expr::scalar::{Node, Scalar};
use perigee_sql_bind::query::{Column, Definition, Operator, Relation};

use super::relation::{Lowered, Planner, unsupported};
use crate::interrupt;
use crate::plan::common::{CommonTable, SharedNode, Step, StepNode};
use crate::plan::comparable;

/// Cheap tables that stand in one another.
const MAX_DEPTH: usize = 8;

/// Computed tables that are made of one another: whoever walks over their plans takes that many steps down.
const MAX_NESTED: usize = 500;

/// Relations that are put in the places where they are named, in a statement.
const MAX_INLINED: usize = 256;

/// What tells rows apart beside the values that are shown; the column's place stands behind it.
const COMPARED: &str = "/compared@";

/// A common table expression that may be named.
#[derive(Clone)]
pub(super) struct Known<'q> {
    plan: KnownPlan<'q>,
    /// The subquery that it is defined in, if its rows depend on the query around that.
    frame: Option<usize>,
    /// True if its rows depend on those of the last step of a recursive one.
    reads_step: bool,
}

#[derive(Clone)]
enum KnownPlan<'q> {
    /// It stands where it is named: the relation, the parameters around it, how many stand in one another.
    Inlined(&'q Relation, Vec<Expr>, usize),
    /// It is computed once: the table, how many such tables are made of one another in it.
    Computed(Arc<CommonTable>, usize),
    /// The rows of the last step, by the number of their table.
    Step(usize, SchemaRef),
}

/// What a relation is made of, as far as that says how often it may be computed.
#[derive(Default)]
struct Traits {
    /// The depth of cheap tables in it; none if it is not cheap.
    depth: Option<usize>,
    /// It gives other rows each time.
    changes: bool,
    depends: bool,
    reads_step: bool,
}

impl<'q> Planner<'q> {
    /// A query and the tables that it names.
    pub(super) fn with(
        &self,
        definitions: &'q [Definition],
        body: &'q Relation,
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        for definition in definitions {
            let known = match &definition.step {
                Some(step) => self.recursive(definition, step, parameters)?,
                None => self.once(definition, parameters)?,
            };
            self.definitions
                .borrow_mut()
                .insert(definition.number, known);
        }
        self.relation(body, parameters)
    }

    /// The rows of a table where it is named.
    pub(super) fn shared(&self, number: usize) -> DfResult<Lowered> {
        let known = self.definitions.borrow().get(&number).cloned();
        let Some(known) = known else {
            return internal_err!("Q1: an unknown common table");
        };
        if known.frame.is_some_and(|frame| frame != self.frame.get()) {
            return unsupported("a common table of a subquery in a subquery of it");
        }
        let qualifier = self.qualifier("with");
        let node: Arc<dyn datafusion::logical_expr::UserDefinedLogicalNode> = match known.plan {
            KnownPlan::Inlined(relation, parameters, _) => {
                self.inlined.set(self.inlined.get() + 1);
                if self.inlined.get() > MAX_INLINED {
                    return unsupported("so many uses of common tables");
                }
                return self.relation(relation, &parameters);
            }
            KnownPlan::Computed(table, nested) => {
                self.nested.set(self.nested.get().max(nested));
                Arc::new(SharedNode::new(table, qualifier)?)
            }
            KnownPlan::Step(number, schema) => Arc::new(StepNode::new(number, &schema, qualifier)?),
        };
        Ok(Lowered::of(LogicalPlan::Extension(Extension { node })))
    }

    /// A table that is not recursive.
    fn once(&self, definition: &'q Definition, parameters: &[Expr]) -> DfResult<Known<'q>> {
        let base = &definition.base;
        let traits = self.traits(base)?;
        let is_cheap = traits.depth.is_some_and(|depth| depth < MAX_DEPTH);
        if traits.depends && are_outer(parameters) {
            return unsupported("a common table that depends on the query around its subquery");
        }
        let frame = traits.depends.then(|| self.frame.get());
        let (reads_step, depth) = (traits.reads_step, traits.depth.unwrap_or(MAX_DEPTH));
        let plan = match (is_cheap, reads_step) {
            // What is computed once cannot be computed in each step.
            (true, _) | (_, true) if !traits.changes => {
                KnownPlan::Inlined(base, parameters.to_vec(), depth)
            }
            (_, true) => return unsupported("a common table of random values in this place"),
            _ => {
                let around = self.nested.replace(0);
                let lowered = self.relation(base, parameters)?;
                let nested = self.nested_around(around)?;
                let plan = lowered.exact(&base.columns, self)?.plan;
                let schema = Arc::clone(plan.schema().inner());
                let (number, name) = (self.number(), Arc::clone(&definition.name));
                let table = CommonTable::new(number, name, schema, plan, None, traits.depends);
                KnownPlan::Computed(Arc::new(table), nested)
            }
        };
        Ok(Known {
            plan,
            frame,
            reads_step,
        })
    }

    fn recursive(
        &self,
        definition: &'q Definition,
        step: &'q Relation,
        parameters: &[Expr],
    ) -> DfResult<Known<'q>> {
        let (base, columns) = (&definition.base, &definition.base.columns);
        let mut traits = self.traits(base)?;
        let around = self.nested.replace(0);
        let plan = self.converted(self.relation(base, parameters)?, columns)?;
        let schema = nullable(plan.schema().as_arrow());
        let number = self.number();
        let rows = Known {
            plan: KnownPlan::Step(number, Arc::clone(&schema)),
            frame: None,
            reads_step: true,
        };
        self.definitions
            .borrow_mut()
            .insert(definition.number, rows);
        let of_step = self.traits(step)?;
        traits.depends |= of_step.depends;
        if traits.reads_step || traits.depends && are_outer(parameters) {
            return unsupported("a recursive query in this place");
        }
        let step = self.converted(self.relation(step, parameters)?, columns)?;
        let nested = self.nested_around(around)?;
        let (base, step, distinct) = match definition.all {
            true => (plan, step, None),
            false => {
                let (base, places) = compared(plan, columns)?;
                (base, compared(step, columns)?.0, Some(places))
            }
        };
        let step = Step {
            plan: step,
            distinct,
            most: self.most_steps,
        };
        let table = CommonTable::new(
            number,
            Arc::clone(&definition.name),
            schema,
            base,
            Some(step),
            traits.depends,
        );
        Ok(Known {
            plan: KnownPlan::Computed(Arc::new(table), nested),
            frame: traits.depends.then(|| self.frame.get()),
            reads_step: false,
        })
    }

    /// The depth of a table whose plan is made now; `around` is what was known of the definition around it.
    fn nested_around(&self, around: usize) -> DfResult<usize> {
        let nested = self.nested.replace(around) + 1;
        match nested > MAX_NESTED {
            true => unsupported("common tables that are made of one another so often"),
            false => Ok(nested),
        }
    }

    /// What a relation is made of.
    fn traits(&self, relation: &Relation) -> DfResult<Traits> {
        let mut traits = Traits::default();
        self.gather(relation, 0, &mut traits)?;
        traits.depth = self.is_cheap(relation);
        Ok(traits)
    }

    /// `depth` is that of subqueries: parameters of these are another matter.
    fn gather(&self, relation: &Relation, depth: usize, traits: &mut Traits) -> DfResult<()> {
        interrupt::check_df()?;
        stacker::maybe_grow(super::relation::RED_ZONE, super::relation::STACK, || {
            for scalar in relation.scalars() {
                traits.changes |= changes(scalar);
                traits.depends |= depth == 0 && depends(scalar);
            }
            match &relation.operator {
                Operator::Shared(number) => {
                    if let Some(known) = self.definitions.borrow().get(number) {
                        traits.depends |= known.frame.is_some();
                        traits.reads_step |= known.reads_step;
                    }
                }
                Operator::Apply(apply) => {
                    self.gather(&apply.input, depth, traits)?;
                    return self.gather(&apply.subquery, depth + 1, traits);
                }
                // Which rows these are depends on how they were found.
                Operator::Limit { .. } => traits.changes = true,
                _ => {}
            }
            let mut inputs = relation.inputs().into_iter();
            inputs.try_for_each(|input| self.gather(input, depth, traits))
        })
    }

    /// How many cheap tables stand in one another in a relation that is no more than rows of one table that are left out or
    /// computed with; none for any other.
    fn is_cheap(&self, relation: &Relation) -> Option<usize> {
        let mut relation = relation;
        loop {
            match &relation.operator {
                Operator::One | Operator::Table(_) => return Some(0),
                Operator::Filter { input, .. } | Operator::Project { input, .. } => {
                    relation = input;
                }
                Operator::Shared(number) => {
                    let known = self.definitions.borrow();
                    return match known.get(number).map(|known| &known.plan) {
                        Some(KnownPlan::Inlined(_, _, depth)) => Some(depth + 1),
                        _ => Some(0),
                    };
                }
                _ => return None,
            }
        }
    }
}

/// True if parameters are columns of the query around a subquery of which a join is made.
fn are_outer(parameters: &[Expr]) -> bool {
    parameters.iter().any(Expr::contains_outer)
}

fn changes(scalar: &Scalar) -> bool {
    let mut changes = false;
    scalar.visit(&mut |part| {
        changes |= !part.is_deterministic();
        !changes
    });
    changes
}

fn depends(scalar: &Scalar) -> bool {
    let mut depends = false;
    scalar.visit(&mut |part| {
        depends |= matches!(part.node, Node::Parameter(_));
        !depends
    });
    depends
}

/// The columns of a recursive query, each of which may be NULL in some step.
fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The rows with columns behind them, as far as needed, that tell them apart, and the places of all that do.
fn compared(plan: LogicalPlan, columns: &[Column]) -> DfResult<(LogicalPlan, Vec<usize>)> {
    let own = plan.schema().columns().into_iter().map(Expr::Column);
    let mut exprs: Vec<_> = own.collect();
    let mut places = Vec::with_capacity(columns.len());
    for place in 0..columns.len() {
        let compared = comparable::collated(exprs[place].clone(), plan.schema())?;
        if compared == exprs[place] {
            places.push(place);
        } else {
            places.push(exprs.len());
            exprs.push(compared.alias(format!("{COMPARED}{place}")));
        }
    }
    let projection = Projection::try_new(exprs, Arc::new(plan))?;
    Ok((LogicalPlan::Projection(projection), places))
}
