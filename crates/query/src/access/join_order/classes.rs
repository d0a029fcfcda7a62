//! Columns of several relations that equalities say are all equal: their frequent values meet.
//!
//! Visits and orders that are joined to the key of customers are more pairs than either equality by itself lets expect if those
//! who visit often order often: of a key all values are equally frequent.

use std::cell::RefCell;
use std::collections::HashMap;

use super::estimate::{Edge, Relation};
use super::graph::Set;
use crate::access::skew::{Found, Meeting, Spread};

/// Such columns: three at least, each of another relation.
pub(super) struct Class {
    set: Set,
    members: Vec<Member>,
    /// Its equalities, by their relations, each with the share of pairs for which it is true.
    edges: Vec<(Set, f64)>,
    meeting: Meeting,
    /// The shares of sets that are known.
    known: RefCell<HashMap<Set, f64>>,
}

struct Member {
    relation: usize,
    column: u16,
    spread: Spread,
}

/// A relation and the number of a column of its table.
type Place = (usize, u16);

/// The classes that edges between relations make, but for those that are `left_out`.
pub(super) fn classes(
    edges: &mut [Edge],
    relations: &[Relation],
    left_out: impl Fn(&Edge) -> bool,
) -> Vec<Class> {
    let mut groups: Vec<(Vec<Place>, Vec<usize>)> = Vec::new();
    for (number, edge) in edges.iter().enumerate() {
        let mut scans = edge.relations.iter().map(|number| &relations[*number].scan);
        let is_of_tables = scans.all(Option::is_some);
        let Some(ends) = edge.ends().filter(|_| is_of_tables && !left_out(edge)) else {
            continue;
        };
        let touches =
            |(places, _): &(Vec<Place>, Vec<usize>)| ends.iter().any(|end| places.contains(end));
        let (touched, rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(touches);
        let (mut places, mut numbers) = (ends.to_vec(), vec![number]);
        for (more, connected) in touched {
            places.extend(more);
            numbers.extend(connected);
        }
        places.sort_unstable();
        places.dedup();
        groups = rest;
        groups.push((places, numbers));
    }
    let mut classes = Vec::new();
    for (places, numbers) in groups {
        let own = numbers.iter().map(|number| &edges[*number]);
        let Some(class) = Class::of(&places, own, relations) else {
            continue;
        };
        classes.push(class);
        for number in numbers {
            edges[number].in_class = true;
        }
    }
    classes
}

impl Edge {
    /// The two columns that it is about, if it is about no more.
    fn ends(&self) -> Option<[Place; 2]> {
        let [[one, other]] = &self.compared[..] else {
            return None;
        };
        let [of_one, of_other] = self.relations;
        Some([(of_one, one.column?), (of_other, other.column?)])
    }
}

impl Class {
    fn of<'e>(
        places: &[Place],
        edges: impl Iterator<Item = &'e Edge>,
        relations: &[Relation],
    ) -> Option<Self> {
        let set: Set = places
            .iter()
            .fold(0, |set, (relation, _)| set | (1 << relation));
        // Of two columns their edge knows all.
        if places.len() < 3 || set.count_ones() as usize != places.len() {
            return None;
        }
        let members = places.iter().map(|(relation, column)| {
            let spread = relations[*relation].spread(*column)?;
            Some(Member {
                relation: *relation,
                column: *column,
                spread,
            })
        });
        let members: Vec<_> = members.collect::<Option<_>>()?;
        let spreads: Vec<_> = members.iter().map(|member| &member.spread).collect();
        Some(Self {
            set,
            meeting: Meeting::of(&spreads)?,
            members,
            edges: edges.map(|edge| (edge.set(), edge.share)).collect(),
            known: RefCell::default(),
        })
    }

    /// Share of the combinations of rows of a set's relations for which its equalities are true.
    pub fn share(&self, set: Set) -> f64 {
        let set = set & self.set;
        if set.count_ones() < 2 {
            return 1.0;
        }
        if let Some(known) = self.known.borrow().get(&set) {
            return *known;
        }
        let (mut share, mut left) = (1.0, set);
        while left != 0 {
            let part = self.connected(1 << left.trailing_zeros(), set);
            share *= self.share_of_part(part);
            left &= !part;
        }
        self.known.borrow_mut().insert(set, share);
        share
    }

    /// The relations of a set that equalities inside of it connect with one of them.
    fn connected(&self, one: Set, set: Set) -> Set {
        let mut part = one;
        loop {
            let inside = self.edges.iter().filter(|(edge, _)| edge & !set == 0);
            let more = inside
                .filter(|(edge, _)| edge & part != 0)
                .fold(part, |part, (edge, _)| part | edge);
            if more == part {
                return part;
            }
            part = more;
        }
    }

    fn share_of_part(&self, part: Set) -> f64 {
        match part.count_ones() {
            1 => 1.0,
            2 => {
                let mut edges = self.edges.iter();
                edges
                    .find(|(edge, _)| *edge == part)
                    .map_or(1.0, |(_, share)| *share)
            }
            _ => {
                let members = self.members.iter().enumerate();
                let inside = members.filter(|(_, member)| part & (1 << member.relation) != 0);
                self.meeting.same(inside.map(|(number, _)| number))
            }
        }
    }

    /// What looking up the values of a set's rows in the class's column of a relation finds, and that column: if more than one
    /// of the set is in the class.
    pub fn found(&self, outer: Set, inner: usize) -> Option<(u16, Found)> {
        let member = self
            .members
            .iter()
            .find(|member| member.relation == inner)?;
        if (outer & self.set).count_ones() < 2 {
            return None;
        }
        let met = self.share(outer | (1 << inner)) / self.share(outer).max(f64::MIN_POSITIVE);
        Some((member.column, member.spread.found(met.min(1.0))))
    }
}
