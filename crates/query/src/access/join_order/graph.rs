//! A tree of joins as a graph: relations, the conditions between them, and which of them [follow](super::follower)
//! others.

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

use super::follower::Follower;

/// Relations, by number.
pub(super) type Set = u64;

/// Most relations of a graph.
const MOST: usize = Set::BITS as usize;

/// In which order relations are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// A relation.
    Leaf(usize),
    /// The rows of two trees, joined; the second one may be a relation that follows the first.
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

/// A tree of joins.
#[derive(Debug)]
pub(super) struct Graph {
    relations: Vec<LogicalPlan>,
    /// How a relation follows others, if it does.
    pub followers: Vec<Option<Follower>>,
    pub conditions: Vec<Condition>,
    written: Tree,
    schema: DFSchemaRef,
}

impl Graph {
    /// The tree that has this node as its root; `None` if it has fewer than three relations, or something that ties
    /// it to its order.
    pub fn of(root: &LogicalPlan) -> DfResult<Option<Self>> {
        match Self::with(root, Joins::All)? {
            None => Self::with(root, Joins::Inner),
            graph => Ok(graph),
        }
    }

    /// The tree with joins of some kinds; what else there is is a relation.
    fn with(root: &LogicalPlan, joins: Joins) -> DfResult<Option<Self>> {
        if !joins.has(root) {
            return Ok(None);
        }
        let mut parts = Parts::new(joins);
        let written = parts.take(root);
        let count = parts.relations.len();
        if !(3..=MOST).contains(&count) || parts.exprs().any(is_tied) || parts.is_ambiguous() {
            return Ok(None);
        }
        let conditions = parts.conditions()?;
        parts.find_needs()?;
        if parts.followers.iter().flatten().any(|f| f.needs == 0) {
            return Ok(None);
        }
        Ok(Some(Self {
            relations: parts.relations,
            followers: parts.followers,
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

    /// What has to be equal for a pair of rows to be joined.
    pub fn equalities(&self) -> DfResult<Vec<Condition>> {
        let is_equal =
            |condition: &&Condition| matches!(condition.kind, ConditionKind::Equal { .. });
        let mut equalities: Vec<_> = self.conditions.iter().filter(is_equal).cloned().collect();
        for (number, follower) in self.followers.iter().enumerate() {
            for (left, right) in follower.iter().flat_map(|follower| &follower.on) {
                let sets = [set_of(left, &self.relations, &self.followers)?, 1 << number];
                equalities.push(Condition {
                    kind: ConditionKind::Equal {
                        sides: [left.clone(), right.clone()],
                        sets,
                    },
                    set: sets[0] | sets[1],
                });
            }
        }
        Ok(equalities)
    }

    /// The order that is written.
    pub fn written(&self) -> &Tree {
        &self.written
    }

    /// The plan that joins in this order, with the columns of the root.
    pub fn build(self, tree: &Tree) -> DfResult<LogicalPlan> {
        let mut builder = Builder {
            relations: self.relations.into_iter().map(Some).collect(),
            followers: self.followers,
            conditions: self.conditions.into_iter().map(Some).collect(),
        };
        let plan = builder.build(tree)?;
        // Conditions on nothing: constants.
        let rest = builder.conditions.into_iter().flatten();
        let plan = filtered(plan, rest)?;
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

/// What is left to be joined.
struct Builder {
    relations: Vec<Option<LogicalPlan>>,
    followers: Vec<Option<Follower>>,
    conditions: Vec<Option<Condition>>,
}

impl Builder {
    fn build(&mut self, tree: &Tree) -> DfResult<LogicalPlan> {
        match tree {
            Tree::Leaf(number) => {
                let relation = self.relation(*number)?;
                let set = 1 << number;
                let own = self.take(|condition| condition.set == set);
                filtered(relation, own)
            }
            Tree::Join(left, right) => {
                if let Tree::Leaf(number) = **right
                    && let Some(follower) = self.followers[number].take()
                {
                    let left = self.build(left)?;
                    let joined = follower.join(left, self.relation(number)?)?;
                    // Conditions on what the join gives out, which is not what it compares.
                    let inside = self.take(is_inside(tree.set()));
                    return filtered(joined, inside);
                }
                self.joined(left, right)
            }
        }
    }

    fn joined(&mut self, left: &Tree, right: &Tree) -> DfResult<LogicalPlan> {
        let sets = [left.set(), right.set()];
        let left = self.build(left)?;
        let right = self.build(right)?;
        let (mut on, mut filter) = (Vec::new(), Vec::new());
        for condition in self.take(is_inside(sets[0] | sets[1])) {
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

    fn relation(&mut self, number: usize) -> DfResult<LogicalPlan> {
        let relation = self.relations[number].take();
        relation.ok_or_else(|| internal_datafusion_err!("Q16: a relation joined twice"))
    }

    /// Takes the conditions for which `wanted` is true.
    fn take(&mut self, wanted: impl Fn(&Condition) -> bool) -> Vec<Condition> {
        let places = self.conditions.iter_mut();
        places
            .filter_map(|place| place.take_if(|condition| wanted(condition)))
            .collect()
    }
}

/// True for conditions on nothing but these relations.
fn is_inside(set: Set) -> impl Fn(&Condition) -> bool {
    move |condition| condition.set != 0 && condition.set & !set == 0
}

fn filtered(
    plan: LogicalPlan,
    conditions: impl IntoIterator<Item = Condition>,
) -> DfResult<LogicalPlan> {
    let conditions = conditions.into_iter().map(Condition::into_expr);
    Ok(match conjunction(conditions) {
        None => plan,
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?),
    })
}

/// Which joins make a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joins {
    Inner,
    /// Those of [`Follower`]s, too.
    All,
}

impl Joins {
    /// True for such joins, and conditions on them and choices of their columns.
    fn has(self, plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Filter(filter) => self.has(&filter.input),
            LogicalPlan::Projection(projection) => {
                let mut exprs = projection.expr.iter();
                exprs.all(|expr| matches!(expr, Expr::Column(_))) && self.has(&projection.input)
            }
            LogicalPlan::Join(join) => {
                inner_join(plan).is_some() || (self == Self::All && Follower::of(join).is_some())
            }
            _ => false,
        }
    }
}

/// The parts of a tree of joins.
struct Parts {
    joins: Joins,
    relations: Vec<LogicalPlan>,
    followers: Vec<Option<Follower>>,
    equal: Vec<(Expr, Expr)>,
    other: Vec<Expr>,
}

impl Parts {
    fn new(joins: Joins) -> Self {
        Self {
            joins,
            relations: Vec::new(),
            followers: Vec::new(),
            equal: Vec::new(),
            other: Vec::new(),
        }
    }

    fn take(&mut self, plan: &LogicalPlan) -> Tree {
        if !self.joins.has(plan) {
            return self.relation(plan, None);
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let conditions = split_conjunction(&filter.predicate);
                self.other.extend(conditions.into_iter().cloned());
                self.take(&filter.input)
            }
            LogicalPlan::Projection(projection) => self.take(&projection.input),
            LogicalPlan::Join(join) => match Follower::of(join) {
                Some((left, right, follower)) => {
                    let left = self.take(left);
                    Tree::join(left, self.relation(right, Some(follower)))
                }
                None => self.inner(join),
            },
            _ => self.relation(plan, None),
        }
    }

    fn inner(&mut self, join: &Join) -> Tree {
        self.equal.extend(join.on.iter().cloned());
        let conditions = join.filter.iter().flat_map(split_conjunction);
        self.other.extend(conditions.cloned());
        let left = self.take(&join.left);
        Tree::join(left, self.take(&join.right))
    }

    fn relation(&mut self, plan: &LogicalPlan, follower: Option<Follower>) -> Tree {
        self.relations.push(plan.clone());
        self.followers.push(follower);
        Tree::Leaf(self.relations.len() - 1)
    }

    /// True if a column of a relation that is seen by its own join alone may be taken for one of another relation.
    fn is_ambiguous(&self) -> bool {
        let hidden = |number: usize| {
            let follower = self.followers[number].as_ref();
            follower.is_some_and(|follower| !follower.is_shown())
        };
        let hidden = (0..self.relations.len()).filter(|number| hidden(*number));
        hidden.into_iter().any(|number| {
            let columns = self.relations[number].schema().columns();
            let others = self.relations.iter().enumerate();
            let mut others = others.filter(|(other, _)| *other != number);
            others.any(|(_, other)| columns.iter().any(|c| other.schema().has_column(c)))
        })
    }

    /// Finds out which relations each follower's condition is about.
    fn find_needs(&mut self) -> DfResult<()> {
        for number in 0..self.relations.len() {
            let Some(follower) = &self.followers[number] else {
                continue;
            };
            let own = self.relations[number].schema();
            let columns = follower.exprs().flat_map(Expr::column_refs);
            let mut needs = 0;
            for column in columns.filter(|column| !own.has_column(column)) {
                needs |= 1 << relation_of(column, &self.relations, &self.followers)?;
            }
            if let Some(follower) = &mut self.followers[number] {
                follower.needs = needs;
            }
        }
        Ok(())
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
        set_of(expr, &self.relations, &self.followers)
    }
}

/// The relations that an expression is about.
fn set_of(expr: &Expr, relations: &[LogicalPlan], followers: &[Option<Follower>]) -> DfResult<Set> {
    let mut set = 0;
    for column in expr.column_refs() {
        set |= 1 << relation_of(column, relations, followers)?;
    }
    Ok(set)
}

/// The relation that a column is of, as joins of others see it.
fn relation_of(
    column: &Column,
    relations: &[LogicalPlan],
    followers: &[Option<Follower>],
) -> DfResult<usize> {
    let mut seen = relations.iter().zip(followers);
    let found = seen.position(|(relation, follower)| {
        let is_shown = follower.as_ref().is_none_or(Follower::is_shown);
        is_shown && relation.schema().has_column(column)
    });
    found.ok_or_else(|| internal_datafusion_err!("Q16: {column} is of no relation"))
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

/// True for conditions that are evaluated where they stand.
pub(super) fn is_tied(expr: &Expr) -> bool {
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
