//! The search for the cheapest order.
//!
//! Up to [`EXHAUSTIVE`] relations that conditions connect are searched by dynamic programming over their sets; of
//! more, the two that give the fewest rows are joined again and again. Parts that nothing connects are joined last,
//! from the smallest one on.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::common::Result as DfResult;

use super::BETTER;
use super::classes::{Class, classes};
use super::estimate::{Compared, Edge, Relation, edges, only, other_share, share_of};
use super::graph::{Graph, Set, Tree};
use crate::access::exec::PageScanExec;
use crate::access::join_rule::SAFETY;
use crate::access::skew::rows_per_probe;
use crate::interrupt;

/// Most relations whose orders are all searched.
pub(super) const EXHAUSTIVE: usize = 12;

/// Putting a row into a join's table.
const BUILD: f64 = 0.1;

/// Looking for a row's partners in it.
const PROBE: f64 = 0.05;

/// A row that comes out of a join.
const OUT: f64 = 0.05;

/// The order that is expected to cost less than the one written, if there is one.
pub(super) fn better(graph: &Graph) -> DfResult<Option<Tree>> {
    let search = Search::new(graph)?;
    if !search.is_wanted() {
        return Ok(None);
    }
    if let Some(hinted) = search.hinted()? {
        return Ok((hinted != *graph.written()).then_some(hinted));
    }
    let best = search.best()?;
    let (best_cost, written) = (search.cost(&best), search.cost(graph.written()));
    Ok((best_cost < BETTER * written).then_some(best))
}

/// The sizes of everything in a graph.
pub(super) struct Search {
    pub relations: Vec<Relation>,
    edges: Vec<Edge>,
    /// Columns that are all equal.
    classes: Vec<Class>,
    /// The other conditions: their relations, and the share of rows for which they are true.
    others: Vec<(Set, f64)>,
    /// What relations that follow others need, and the rows that come of each row of these.
    followers: Vec<Option<Follows>>,
}

/// A relation that follows others.
struct Follows {
    needs: Set,
    rows: f64,
}

/// The best way known to join a set of relations.
#[derive(Clone)]
pub(super) struct Found {
    pub tree: Arc<Shape>,
    pub cost: f64,
    pub rows: f64,
}

/// A tree whose parts are shared with others.
pub(super) enum Shape {
    Leaf(usize),
    Join(Arc<Shape>, Arc<Shape>),
}

impl Shape {
    pub(super) fn tree(&self) -> Tree {
        match self {
            Self::Leaf(relation) => Tree::Leaf(*relation),
            Self::Join(left, right) => Tree::join(left.tree(), right.tree()),
        }
    }
}

impl Search {
    fn new(graph: &Graph) -> DfResult<Self> {
        let relations: Vec<_> = graph.relations().iter().map(Relation::of).collect();
        let mut edges = edges(graph, &relations)?;
        let classes = classes(&mut edges, &relations, |edge| {
            let mut followers = graph.followers.iter().enumerate();
            followers.any(|(number, follower)| {
                let needs = follower.as_ref().map(|follower| follower.needs);
                needs.is_some_and(|needs| edge.is_of(number, needs))
            })
        });
        let is_edge = |set: Set| {
            let mut edges = edges.iter();
            edges.any(|edge| edge.set() == set)
        };
        let others = graph
            .conditions
            .iter()
            .filter(|condition| condition.set.count_ones() > 1 && !is_edge(condition.set))
            .map(|condition| (condition.set, other_share(condition)))
            .collect();
        let followers = graph.followers.iter().enumerate();
        let followers = followers.map(|(number, follower)| {
            let follower = follower.as_ref()?;
            let own = |edge: &&Edge| edge.is_of(number, follower.needs);
            let shares = edges.iter().filter(own).map(|edge| edge.share);
            let filter = follower.filter.as_ref().map_or(1.0, share_of);
            let matches = relations[number].rows * filter * shares.product::<f64>();
            Some(Follows {
                needs: follower.needs,
                rows: follower.rows(matches),
            })
        });
        Ok(Self {
            followers: followers.collect(),
            relations,
            edges,
            classes,
            others,
        })
    }

    /// True unless the session wants the order of FROM, or STRAIGHT_JOIN does for one of the tables.
    fn is_wanted(&self) -> bool {
        let mut scans = self
            .relations
            .iter()
            .filter_map(|relation| relation.scan.as_ref());
        let is_free = |scan: &PageScanExec| scan.context.settings.join_order;
        scans.next().is_some_and(is_free) && scans.all(is_free)
    }

    /// Rows of some relations joined: the same in whatever order.
    pub(super) fn rows(&self, set: Set) -> f64 {
        let inside = |part: Set| part & !set == 0;
        let relations = self.relations.iter().zip(&self.followers).enumerate();
        let all: f64 = relations
            .filter(|(number, _)| inside(1 << number))
            .map(|(_, (relation, follows))| match follows {
                Some(follows) => follows.rows,
                None => relation.rows,
            })
            .product();
        let edges = self.edges.iter().filter(|edge| inside(edge.set()));
        let edges = edges.filter(|edge| !edge.in_class && !self.is_followers(edge));
        let others = self.others.iter().filter(|(part, _)| inside(*part));
        let share: f64 = edges
            .map(|edge| edge.share)
            .chain(self.classes.iter().map(|class| class.share(set)))
            .chain(others.map(|(_, share)| *share))
            .product();
        (all * share).max(1.0)
    }

    /// True if an edge is a part of the condition by which a relation follows the other one.
    fn is_followers(&self, edge: &Edge) -> bool {
        let is_of = |number: usize| {
            let follows = self.followers[number].as_ref();
            follows.is_some_and(|follows| edge.is_of(number, follows.needs))
        };
        edge.relations.into_iter().any(is_of)
    }

    /// What a set needs to be joined, if it is a relation that follows others.
    pub(super) fn needs(&self, set: Set) -> Option<Set> {
        Some(self.followers[only(set)?].as_ref()?.needs)
    }

    /// How two sets can be joined.
    fn way(&self, left: Set, right: Set) -> Option<Way> {
        match (self.needs(left), self.needs(right)) {
            (None, None) => Some(Way::Inner),
            (None, Some(needs)) if needs & !left == 0 => Some(Way::RightFollows),
            (Some(needs), None) if needs & !right == 0 => Some(Way::LeftFollows),
            _ => None,
        }
    }

    /// True if a condition connects two sets that can be joined.
    pub(super) fn connects(&self, left: Set, right: Set) -> bool {
        match self.way(left, right) {
            None => return false,
            Some(Way::Inner) => {}
            Some(_) => return true,
        }
        let both = |set: Set| set & left != 0 && set & right != 0 && set & !(left | right) == 0;
        let mut others = self.others.iter();
        self.edges.iter().any(|edge| both(edge.set())) || others.any(|(set, _)| both(*set))
    }

    pub(super) fn leaf(&self, relation: usize) -> Found {
        Found {
            tree: Arc::new(Shape::Leaf(relation)),
            cost: self.relations[relation].scan_cost(),
            rows: self.relations[relation].rows,
        }
    }

    /// Some relations and another one, in this order.
    pub(super) fn behind(&self, (left, of_left): (&Found, Set), next: usize, rows: f64) -> Found {
        let right = self.leaf(next);
        let joined = self.joined((left, of_left), (&right, 1 << next), rows);
        Found {
            tree: Arc::new(Shape::Join(left.tree.clone(), right.tree)),
            ..joined
        }
    }

    fn joined(
        &self,
        (left, of_left): (&Found, Set),
        (right, of_right): (&Found, Set),
        rows: f64,
    ) -> Found {
        let (build, probe) = (left.rows.min(right.rows), left.rows.max(right.rows));
        let mut cost = left.cost + right.cost + BUILD * build + PROBE * probe;
        let way = self.way(of_left, of_right).unwrap_or(Way::Inner);
        // A row that follows is looked up, and no row is looked up for it.
        let looked_up = [
            (way != Way::LeftFollows).then_some(((left, of_left), of_right)),
            (way != Way::RightFollows).then_some(((right, of_right), of_left)),
        ];
        for ((outer, of_outer), of_inner) in looked_up.into_iter().flatten() {
            if let Some(lookups) =
                only(of_inner).and_then(|inner| self.lookups(outer.rows, of_outer, inner))
            {
                cost = cost.min(outer.cost + lookups);
            }
        }
        // The smaller side first, whose rows a hash join keeps; what follows comes behind.
        let is_in_place = match way {
            Way::Inner => left.rows <= right.rows,
            Way::RightFollows => true,
            Way::LeftFollows => false,
        };
        let (first, second) = match is_in_place {
            true => (left, right),
            false => (right, left),
        };
        Found {
            tree: Arc::new(Shape::Join(first.tree.clone(), second.tree.clone())),
            cost: cost + OUT * rows,
            rows,
        }
    }

    /// Cost of looking up the rows of a table for each of so many rows of a set, if an index has them and that is what
    /// would be done.
    fn lookups(&self, rows: f64, outer: Set, inner: usize) -> Option<f64> {
        let scan = self.relations[inner].scan.as_ref()?;
        let mut compared: Vec<Compared> = Vec::new();
        for edge in &self.edges {
            let side = edge.relations.iter().position(|n| *n == inner);
            if let Some(side) = side.filter(|side| outer & (1 << edge.relations[1 - side]) != 0) {
                compared.extend(edge.compared.iter().map(|sides| sides[side]));
            }
        }
        let classes = self.classes.iter();
        for (column, found) in classes.filter_map(|class| class.found(outer, inner)) {
            let sides = compared
                .iter_mut()
                .filter(|side| side.column == Some(column));
            sides.for_each(|side| side.found = Some(found));
        }
        let model = scan.cost_model();
        let indexes = scan.table.indexes.iter().enumerate();
        let hinted = scan.context.settings.indexes;
        let indexes = indexes.filter(|(number, _)| hinted.allows(*number));
        let costs = indexes.filter_map(|(number, index)| {
            let key = index.layout.key[..index.key_columns].iter();
            let key = key.map(|place| index.columns[usize::from(*place)]);
            let with = |column| compared.iter().find(|side| side.column == Some(column));
            let found: Vec<_> = key.map_while(with).map(|side| side.found).collect();
            if found.is_empty() {
                return None;
            }
            let matches = rows_per_probe(&scan.stats, index, &found);
            Some(model.lookups(number, number > 0, rows, matches))
        });
        let lookups = costs.reduce(f64::min)?;
        (SAFETY * lookups <= scan.cost()).then_some(lookups)
    }

    /// Cost of an order.
    fn cost(&self, tree: &Tree) -> f64 {
        self.measured(tree).cost
    }

    fn measured(&self, tree: &Tree) -> Found {
        match tree {
            Tree::Leaf(relation) => self.leaf(*relation),
            Tree::Join(left, right) => {
                let rows = self.rows(tree.set());
                let sets = [left.set(), right.set()];
                let (left, right) = (self.measured(left), self.measured(right));
                self.joined((&left, sets[0]), (&right, sets[1]), rows)
            }
        }
    }

    /// The best order found.
    fn best(&self) -> DfResult<Tree> {
        let mut parts = Vec::new();
        for set in self.components() {
            parts.push(match set.count_ones() as usize <= EXHAUSTIVE {
                true => (self.exhaustive(set)?, set),
                false => (self.greedy(set)?, set),
            });
        }
        parts.sort_by(|(a, _), (b, _)| b.rows.total_cmp(&a.rows));
        let (mut all, mut set) = parts.pop().expect("there are relations");
        while let Some((part, of_part)) = parts.pop() {
            let rows = self.rows(set | of_part);
            all = self.joined((&all, set), (&part, of_part), rows);
            set |= of_part;
        }
        Ok(all.tree.tree())
    }

    /// The largest sets that conditions connect.
    fn components(&self) -> Vec<Set> {
        let mut components: Vec<Set> = (0..self.relations.len()).map(|n| 1 << n).collect();
        let edges = self.edges.iter().map(Edge::set);
        let others = self.others.iter().map(|(set, _)| *set);
        let followers = self.followers.iter().enumerate();
        let followers =
            followers.filter_map(|(number, follows)| Some(follows.as_ref()?.needs | (1 << number)));
        for connected in edges.chain(others).chain(followers) {
            let (touched, rest): (Vec<Set>, Vec<Set>) =
                components.iter().partition(|part| **part & connected != 0);
            components = rest;
            components.push(touched.into_iter().fold(0, |all, part| all | part));
        }
        components
    }

    /// The best of all orders of a set without cross products, as far as conditions of two relations connect it.
    fn exhaustive(&self, set: Set) -> DfResult<Found> {
        let relations: Vec<usize> = (0..self.relations.len())
            .filter(|n| set & (1 << n) != 0)
            .collect();
        // Bit i of a number stands for the i-th of these.
        let spread = |numbers: usize| -> Set {
            let bits = relations.iter().enumerate();
            bits.filter(|(i, _)| numbers & (1 << i) != 0)
                .fold(0, |set, (_, relation)| set | (1 << relation))
        };
        let count = 1 << relations.len();
        let sets: Vec<Set> = (0..count).map(spread).collect();
        let mut best: Vec<Option<Found>> = vec![None; count];
        for numbers in 1_usize..count {
            if numbers.is_power_of_two() {
                let relation = relations[numbers.trailing_zeros() as usize];
                best[numbers] = Some(self.leaf(relation));
                continue;
            }
            if numbers.is_multiple_of(64) {
                interrupt::check_df()?;
            }
            let rows = self.rows(sets[numbers]);
            let mut left = (numbers - 1) & numbers;
            let mut found: Option<Found> = None;
            while left > numbers & !left {
                let right = numbers & !left;
                if let (Some(one), Some(other)) = (&best[left], &best[right])
                    && self.connects(sets[left], sets[right])
                {
                    let joined = self.joined((one, sets[left]), (other, sets[right]), rows);
                    if found.as_ref().is_none_or(|found| joined.cost < found.cost) {
                        found = Some(joined);
                    }
                }
                left = (left - 1) & numbers;
            }
            best[numbers] = found;
        }
        match best.pop().flatten() {
            Some(found) => Ok(found),
            // Conditions of three relations and more connect it.
            None => self.greedy(set),
        }
    }

    /// Joins the two parts that give the fewest rows, again and again.
    fn greedy(&self, set: Set) -> DfResult<Found> {
        let relations = (0..self.relations.len()).filter(|n| set & (1 << n) != 0);
        let mut parts: Vec<Part> = relations.map(|n| (self.leaf(n), 1 << n)).collect();
        // What joining each part with each of those before it gives.
        let mut pairs: Vec<Vec<Pair>> = (0..parts.len())
            .map(|n| {
                parts[..n]
                    .iter()
                    .map(|other| self.pair(&parts[n], other))
                    .collect()
            })
            .collect();
        while parts.len() > 1 {
            interrupt::check_df()?;
            let all = pairs.iter().enumerate();
            let all =
                all.flat_map(|(a, row)| row.iter().enumerate().map(move |(b, pair)| (pair, a, b)));
            let least = all.min_by(|(one, ..), (other, ..)| one.order(other));
            let Some((&Pair { rows, .. }, a, b)) = least else {
                break;
            };
            // `b` comes before `a`, so that taking `a` leaves it in its place.
            let (left, of_left) = forget(&mut parts, &mut pairs, a);
            let (right, of_right) = forget(&mut parts, &mut pairs, b);
            let joined = self.joined((&left, of_left), (&right, of_right), rows);
            let part = (joined, of_left | of_right);
            pairs.push(parts.iter().map(|other| self.pair(&part, other)).collect());
            parts.push(part);
        }
        Ok(parts.pop().expect("there are relations").0)
    }

    fn pair(&self, (_, one): &Part, (_, other): &Part) -> Pair {
        Pair {
            is_impossible: self.way(*one, *other).is_none(),
            crosses: !self.connects(*one, *other),
            rows: self.rows(one | other),
        }
    }
}

/// Some relations, and how they are joined.
type Part = (Found, Set);

/// What joining two parts gives.
struct Pair {
    /// One follows relations that are not in the other.
    is_impossible: bool,
    /// No condition connects them.
    crosses: bool,
    rows: f64,
}

impl Pair {
    fn order(&self, other: &Self) -> Ordering {
        let possible = self.is_impossible.cmp(&other.is_impossible);
        let connected = possible.then(self.crosses.cmp(&other.crosses));
        connected.then(self.rows.total_cmp(&other.rows))
    }
}

/// Takes a part out, with what it gives with others.
fn forget(parts: &mut Vec<Part>, pairs: &mut Vec<Vec<Pair>>, part: usize) -> Part {
    pairs.remove(part);
    for row in &mut pairs[part..] {
        row.remove(part);
    }
    parts.remove(part)
}

/// How two sets are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Inner,
    /// The first one is a relation that follows the second one,
    LeftFollows,
    /// or the other way round.
    RightFollows,
}

impl Edge {
    /// True if it is between a relation and one of those that it needs.
    fn is_of(&self, follower: usize, needs: Set) -> bool {
        let [one, other] = self.relations;
        (one == follower && needs & (1 << other) != 0)
            || (other == follower && needs & (1 << one) != 0)
    }

    pub(super) fn set(&self) -> Set {
        self.relations
            .iter()
            .fold(0, |set, relation| set | (1 << relation))
    }
}

impl Relation {
    fn scan_cost(&self) -> f64 {
        self.scan
            .as_ref()
            .map_or(OUT * self.rows, |scan| scan.cost())
    }
}
