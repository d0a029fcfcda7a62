//! A tree of inner joins as a graph: relations, and the conditions between them.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{
    Column, DFSchemaRef, JoinConstraint, JoinType, NullEquality, Result as DfResult,
    internal_datafusion_err,
};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, Join, LogicalPlan, Operator, Projection,
};

/// Relations, by number.
pub(super) type Set = u64;

/// Most relations of a graph.
const MOST: usize = Set::BITS as usize;

/// In which order relations are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// A relation.
    Leaf(usize),
    /// The rows of two trees, joined.
    Join(Box<Self>, Box<Self>),
}

impl Tree {
    pub fn join(left: Self, right: Self) -> Self {
        Self::Join(Box::new(left), Box::new(right))
    }

    /// Its relations.
    pub fn set(&self) -> Set {
        match self {
            Self::Leaf(relation) => 1 << relation,
            Self::Join(left, right) => left.set() | right.set(),
        }
    }
}

/// A condition, and the relations that it is about.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub kind: ConditionKind,
    pub set: Set,
}

#[derive(Clone, Debug)]
pub(super) enum ConditionKind {
    /// Two expressions, each over relations of its own, are equal.
    Equal { sides: [Expr; 2], sets: [Set; 2] },
    /// Anything else.
    Other(Expr),
}

/// A tree of inner joins.
#[derive(Debug)]
pub(super) struct Graph {
    relations: Vec<LogicalPlan>,
    pub conditions: Vec<Condition>,
    written: Tree,
    schema: DFSchemaRef,
}

impl Graph {
    /// The tree that has this node as its root; `None` if it has fewer than three relations, or something that ties
    /// it to its order.
    pub fn of(root: &LogicalPlan) -> DfResult<Option<Self>> {
        if inner_join(root).is_none() {
            return Ok(None);
        }
        let mut parts = Parts::default();
        let written = parts.take(root);
        let count = parts.relations.len();
        if !(3..=MOST).contains(&count) || parts.exprs().any(is_tied) {
            return Ok(None);
        }
        let conditions = parts.conditions()?;
        Ok(Some(Self {
            relations: parts.relations,
            conditions,
            written,
            schema: root.schema().clone(),
        }))
    }

    pub fn relations(&self) -> &[LogicalPlan] {
        &self.relations
    }

    pub fn relations_mut(&mut self) -> impl Iterator<Item = &mut LogicalPlan> {
        self.relations.iter_mut()
    }

    /// The order that is written.
    pub fn written(&self) -> &Tree {
        &self.written
    }

    /// The plan that joins in this order, with the columns of the root.
    pub fn build(self, tree: &Tree) -> DfResult<LogicalPlan> {
        let mut relations = self.relations.into_iter().map(Some).collect();
        let mut conditions = self.conditions.into_iter().map(Some).collect();
        let plan = build(tree, &mut relations, &mut conditions)?;
        // Conditions on nothing: constants.
        let rest = conditions.into_iter().flatten().map(Condition::into_expr);
        let plan = filtered(plan, rest.collect())?;
        if plan.schema().columns() == self.schema.columns() {
            return Ok(plan);
        }
        let columns = self.schema.columns().into_iter().map(Expr::Column);
        let projection =
            Projection::try_new_with_schema(columns.collect(), Arc::new(plan), self.schema)?;
        Ok(LogicalPlan::Projection(projection))
    }
}

impl Condition {
    fn into_expr(self) -> Expr {
        match self.kind {
            ConditionKind::Other(expr) => expr,
            ConditionKind::Equal {
                sides: [left, right],
                ..
            } => left.eq(right),
        }
    }
}

type Relations = Vec<Option<LogicalPlan>>;
type Conditions = Vec<Option<Condition>>;

fn build(
    tree: &Tree,
    relations: &mut Relations,
    conditions: &mut Conditions,
) -> DfResult<LogicalPlan> {
    let set = tree.set();
    match tree {
        Tree::Leaf(number) => {
            let relation = relations[*number].take();
            let relation =
                relation.ok_or_else(|| internal_datafusion_err!("Q16: a relation joined twice"))?;
            let own = take(conditions, |condition| condition.set == set);
            filtered(
                relation,
                own.into_iter().map(Condition::into_expr).collect(),
            )
        }
        Tree::Join(left, right) => {
            let sets = [left.set(), right.set()];
            let left = build(left, relations, conditions)?;
            let right = build(right, relations, conditions)?;
            let (mut on, mut filter) = (Vec::new(), Vec::new());
            let inside = |condition: &Condition| condition.set != 0 && condition.set & !set == 0;
            for condition in take(conditions, inside) {
                match condition.kind {
                    ConditionKind::Equal {
                        sides: [a, b],
                        sets: [of_a, of_b],
                    } if of_a & !sets[0] == 0 && of_b & !sets[1] == 0 => {
                        on.push((a, b));
                    }
                    ConditionKind::Equal {
                        sides: [a, b],
                        sets: [of_a, of_b],
                    } if of_b & !sets[0] == 0 && of_a & !sets[1] == 0 => {
                        on.push((b, a));
                    }
                    _ => filter.push(condition.into_expr()),
                }
            }
            let join = Join::try_new(
                Arc::new(left),
                Arc::new(right),
                on,
                conjunction(filter),
                JoinType::Inner,
                JoinConstraint::On,
                NullEquality::NullEqualsNothing,
                false,
            )?;
            Ok(LogicalPlan::Join(join))
        }
    }
}

/// Takes the conditions for which `wanted` is true.
fn take(conditions: &mut Conditions, wanted: impl Fn(&Condition) -> bool) -> Vec<Condition> {
    conditions
        .iter_mut()
        .filter_map(|place| place.take_if(|condition| wanted(condition)))
        .collect()
}

fn filtered(plan: LogicalPlan, conditions: Vec<Expr>) -> DfResult<LogicalPlan> {
    Ok(match conjunction(conditions) {
        None => plan,
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?),
    })
}

/// The parts of a tree of inner joins.
#[derive(Default)]
struct Parts {
    relations: Vec<LogicalPlan>,
    equal: Vec<(Expr, Expr)>,
    other: Vec<Expr>,
}

impl Parts {
    fn take(&mut self, plan: &LogicalPlan) -> Tree {
        if let Some(join) = inner_join(plan) {
            self.equal.extend(join.on.iter().cloned());
            if let Some(filter) = &join.filter {
                self.other
                    .extend(split_conjunction(filter).into_iter().cloned());
            }
            let left = self.take(&join.left);
            return Tree::join(left, self.take(&join.right));
        }
        match plan {
            LogicalPlan::Filter(filter) if is_of_tree(&filter.input) => {
                let conditions = split_conjunction(&filter.predicate);
                self.other.extend(conditions.into_iter().cloned());
                self.take(&filter.input)
            }
            LogicalPlan::Projection(projection) if is_of_tree(plan) => self.take(&projection.input),
            _ => {
                self.relations.push(plan.clone());
                Tree::Leaf(self.relations.len() - 1)
            }
        }
    }

    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let equal = self.equal.iter().flat_map(|(left, right)| [left, right]);
        equal.chain(&self.other)
    }

    /// The conditions with their relations.
    fn conditions(&self) -> DfResult<Vec<Condition>> {
        let mut conditions = Vec::with_capacity(self.equal.len() + self.other.len());
        for (left, right) in &self.equal {
            conditions.push(self.equality(left, right)?);
        }
        for expr in &self.other {
            conditions.push(match expr {
                Expr::BinaryExpr(binary) if binary.op == Operator::Eq && self.same_type(binary) => {
                    self.equality(&binary.left, &binary.right)?
                }
                _ => Condition {
                    set: self.set_of(expr)?,
                    kind: ConditionKind::Other(expr.clone()),
                },
            });
        }
        Ok(conditions)
    }

    fn equality(&self, left: &Expr, right: &Expr) -> DfResult<Condition> {
        let sets = [self.set_of(left)?, self.set_of(right)?];
        let is_between = sets[0] & sets[1] == 0 && sets[0] != 0 && sets[1] != 0;
        let kind = match is_between {
            true => ConditionKind::Equal {
                sides: [left.clone(), right.clone()],
                sets,
            },
            false => ConditionKind::Other(left.clone().eq(right.clone())),
        };
        Ok(Condition {
            kind,
            set: sets[0] | sets[1],
        })
    }

    /// True if both sides of a comparison have one type, as a join's have to.
    fn same_type(&self, binary: &BinaryExpr) -> bool {
        let ty = |expr: &Expr| {
            let mut schemas = self.relations.iter().map(LogicalPlan::schema);
            let columns = expr.column_refs();
            let schema = schemas.find(|schema| columns.iter().all(|c| schema.has_column(c)))?;
            expr.get_type(schema).ok()
        };
        let left = ty(&binary.left);
        left.is_some() && left == ty(&binary.right)
    }

    fn set_of(&self, expr: &Expr) -> DfResult<Set> {
        let mut set = 0;
        for column in expr.column_refs() {
            set |= 1 << self.relation_of(column)?;
        }
        Ok(set)
    }

    fn relation_of(&self, column: &Column) -> DfResult<usize> {
        let mut relations = self.relations.iter();
        let found = relations.position(|relation| relation.schema().has_column(column));
        found.ok_or_else(|| internal_datafusion_err!("Q16: {column} is of no relation"))
    }
}

/// The node as an inner join in the sense of SQL's `=`.
fn inner_join(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Join(join)
            if join.join_type == JoinType::Inner
                && join.null_equality == NullEquality::NullEqualsNothing =>
        {
            Some(join)
        }
        _ => None,
    }
}

/// True for inner joins, and conditions on them and choices of their columns.
fn is_of_tree(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => is_of_tree(&filter.input),
        LogicalPlan::Projection(projection) => {
            let mut exprs = projection.expr.iter();
            exprs.all(|expr| matches!(expr, Expr::Column(_))) && is_of_tree(&projection.input)
        }
        _ => inner_join(plan).is_some(),
    }
}

/// True for conditions that are evaluated where they stand.
fn is_tied(expr: &Expr) -> bool {
    let has_query = || {
        let found = expr.exists(|expr| {
            Ok(matches!(
                expr,
                Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::ScalarSubquery(_)
                    | Expr::OuterReferenceColumn(..)
            ))
        });
        found.unwrap_or(true)
    };
    expr.is_volatile() || has_query()
}
