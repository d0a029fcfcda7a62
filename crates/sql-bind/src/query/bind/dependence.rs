//! Functional dependence: which columns of a row have one value wherever some others have one value.

use std::collections::{HashMap, HashSet};

use perigee_expr::Comparison;
use perigee_expr::scalar::{Domain, Node, Scalar};

use super::super::{Join, JoinKind, Operator, Relation};

/// Dependences between columns of a relation, by their places.
#[derive(Default)]
pub(super) struct Dependences(Vec<Dependence>);

/// Where the columns of `of` have one value, so have those of `on`.
#[derive(Clone)]
struct Dependence {
    of: Vec<usize>,
    on: Vec<usize>,
}

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

impl Dependences {
    /// Those of a relation.
    pub fn of(relation: &Relation) -> Self {
        stacker::maybe_grow(RED_ZONE, STACK, || Self::found(relation))
    }

    fn found(relation: &Relation) -> Self {
        match &relation.operator {
            Operator::Table(table) => {
                let all: Vec<usize> = (0..relation.columns.len()).collect();
                let keys = table.definition.unique_keys.iter();
                let keys = keys.map(|key| Dependence {
                    of: key.clone(),
                    on: all.clone(),
                });
                Self(keys.collect())
            }
            Operator::Filter { input, predicate } => {
                let mut all = Self::of(input);
                all.equal_of(predicate, |_| true);
                all
            }
            Operator::Join(join) => Self::of_join(join),
            Operator::Project { input, expressions } => Self::of(input).projected(expressions),
            Operator::Aggregate {
                keys,
                rollup: false,
                ..
            } => Self(vec![Dependence {
                of: (0..keys.len()).collect(),
                on: (0..relation.columns.len()).collect(),
            }]),
            Operator::Sort { input, .. }
            | Operator::Limit { input, .. }
            | Operator::Distinct { input }
            | Operator::Window { input, .. } => Self::of(input),
            Operator::Apply(apply) => Self::of(&apply.input),
            Operator::With { body, .. } => Self::of(body),
            _ => Self::default(),
        }
    }

    /// The columns that some decide, and these.
    pub fn decided_by(&self, columns: impl IntoIterator<Item = usize>) -> HashSet<usize> {
        let mut decided: HashSet<usize> = columns.into_iter().collect();
        loop {
            let before = decided.len();
            for Dependence { of, on } in &self.0 {
                if of.iter().all(|column| decided.contains(column)) {
                    decided.extend(on);
                }
            }
            if decided.len() == before {
                return decided;
            }
        }
    }

    fn of_join(join: &Join) -> Self {
        let width = join.left.columns.len();
        let mut all = Self::of(&join.left);
        let mut right = Self::of(&join.right);
        for Dependence { of, on } in &mut right.0 {
            of.iter_mut().chain(on).for_each(|column| *column += width);
        }
        match (join.kind, &join.on) {
            (JoinKind::Inner, on) => {
                all.0.extend(right.0);
                if let Some(on) = on {
                    all.equal_of(on, |_| true);
                }
            }
            (JoinKind::Left, on) => {
                let count = join.right.columns.len();
                all.0
                    .extend(on.iter().filter_map(|on| right.of_left(on, width, count)));
                // What has one value whatever the row is has NULL, too, where there is no partner.
                right.0.retain(|one| !one.of.is_empty());
                all.0.extend(right.0);
            }
        }
        all
    }

    /// The columns of a LEFT JOIN's condition decide those of the right operand if at most one of its rows is a partner.
    fn of_left(&self, on: &Scalar, width: usize, count: usize) -> Option<Dependence> {
        let mut equal = Self(self.0.clone());
        equal.equal_of(on, |place| place >= width);
        let mut of = HashSet::new();
        on.visit(&mut |part| {
            if let Node::Column(place) = part.node {
                of.insert(place);
            }
            true
        });
        of.retain(|place| *place < width);
        let decided = equal.decided_by(of.iter().copied());
        let on: Vec<usize> = (width..width + count).collect();
        let is_decided = on.iter().all(|place| decided.contains(place));
        is_decided.then(|| Dependence {
            of: of.into_iter().collect(),
            on,
        })
    }

    /// The equalities of a condition, as far as they decide columns that are wanted.
    fn equal_of(&mut self, condition: &Scalar, wanted: impl Fn(usize) -> bool + Copy) {
        match &condition.node {
            Node::And(all) => all.iter().for_each(|one| self.equal_of(one, wanted)),
            Node::Compare(Comparison::Equal, domain, both) if is_exact(*domain) => {
                for [one, other] in [[&both[0], &both[1]], [&both[1], &both[0]]] {
                    let Node::Column(on) = one.node else {
                        continue;
                    };
                    let of = match other.node {
                        Node::Column(of) => vec![of],
                        Node::Constant(_) | Node::Parameter(_) => Vec::new(),
                        _ => continue,
                    };
                    if wanted(on) {
                        self.0.push(Dependence { of, on: vec![on] });
                    }
                }
            }
            _ => {}
        }
    }

    fn projected(self, expressions: &[Scalar]) -> Self {
        let mut places = HashMap::new();
        for (at, expression) in expressions.iter().enumerate() {
            if let Node::Column(column) = expression.node {
                places.entry(column).or_insert(at);
            }
        }
        let place = |column: usize| places.get(&column).copied();
        let mut all = Vec::new();
        for Dependence { of, on } in self.0 {
            let of: Option<Vec<usize>> = of.into_iter().map(place).collect();
            if let Some(of) = of {
                let on = on.into_iter().filter_map(place).collect();
                all.push(Dependence { of, on });
            }
        }
        // What is computed of decided columns only is decided.
        for (at, expression) in expressions.iter().enumerate() {
            let mut of = Some(Vec::new());
            expression.visit(&mut |part| {
                match part.node {
                    Node::Column(column) => match (&mut of, place(column)) {
                        (Some(of), Some(place)) => of.push(place),
                        _ => of = None,
                    },
                    _ if !part.is_deterministic() => of = None,
                    _ => {}
                }
                true
            });
            if let Some(of) = of.filter(|of| !of.contains(&at)) {
                all.push(Dependence { of, on: vec![at] });
            }
        }
        Self(all)
    }
}

/// True if values that are equal in a domain are the same value.
fn is_exact(domain: Domain) -> bool {
    match domain {
        Domain::Exact | Domain::Double | Domain::Bytes | Domain::Moment | Domain::Time => true,
        Domain::Text(collation) => collation == perigee_value::Collation::UTF8MB4_BIN,
    }
}
