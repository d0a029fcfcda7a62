//! Cycles in the graph: which phenomenon each strongly connected component shows, with a short cycle.
//!
//! A component is reported once, as the phenomenon that the weakest level forbids. Among the cycles of
//! a component a short one is looked for from a few beginnings only: enough for a person to read.

use std::collections::{HashMap, VecDeque};

use crate::graph::{Dependency, Graph, Kinds, NonAdjacent, Only};
use crate::level::Phenomenon;
use crate::scc::{Components, NONE, View, components};

/// Beginnings from which a short cycle is looked for in a component.
const BEGINNINGS: usize = 64;

/// Nodes that a search for a short cycle may visit: a component can be the whole history.
const VISITS: usize = 10_000;

/// A cycle: each step's node, and the edge by which it is left.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    pub phenomenon: Phenomenon,
    pub steps: Vec<(u32, usize)>,
}

/// Finds a cycle for each component that has one.
pub(crate) fn find(graph: &Graph) -> Vec<Cycle> {
    let mut found = Vec::new();
    let writes = Only {
        graph,
        kinds: Kinds::WRITES,
    };
    let g0 = components(&writes);
    report(&mut found, &writes, &g0, |_| Phenomenon::G0);

    let flow = Only {
        graph,
        kinds: Kinds::FLOW,
    };
    let g1c = components(&flow);
    let with_read = |component| through(&flow, graph, &g1c, component, Dependency::Wr);
    for component in 0..g1c.members.len() {
        if let Some(steps) = with_read(component) {
            let phenomenon = Phenomenon::G1c;
            found.push(Cycle { phenomenon, steps });
        }
    }

    snapshots(&mut found, graph, &g1c);
    write_skew(&mut found, graph);
    found
}

fn report(
    found: &mut Vec<Cycle>,
    view: &impl View,
    components: &Components,
    phenomenon: impl Fn(&[(u32, usize)]) -> Phenomenon,
) {
    for component in 0..components.members.len() {
        let steps = shortest(view, components, component);
        let phenomenon = phenomenon(&steps);
        found.push(Cycle { phenomenon, steps });
    }
}

/// Cycles that snapshots exclude and that have anti-dependencies.
fn snapshots(found: &mut Vec<Cycle>, graph: &Graph, flow: &Components) {
    let view = NonAdjacent { graph };
    let all = components(&view);
    let only_flow = Only {
        graph,
        kinds: Kinds::FLOW,
    };
    for (component, members) in all.members.iter().enumerate() {
        // One anti-dependency, and a way back without any.
        let inside = |node: u32| {
            all.of[2 * node as usize] == component as u32
                || all.of[2 * node as usize + 1] == component as u32
        };
        let single = anti_dependencies(graph, members.iter().map(|n| n / 2), &inside)
            .take(BEGINNINGS)
            .filter_map(|(from, edge)| {
                let to = graph.edge(edge).to;
                closed((from, edge), path(&only_flow, to, from, &inside, VISITS))
            })
            .min_by_key(Vec::len);
        if let Some(steps) = single {
            let phenomenon = Phenomenon::GSingle;
            found.push(Cycle { phenomenon, steps });
            continue;
        }
        // Reported already, as a cycle without anti-dependencies.
        let first = members[0] / 2;
        if flow.of[first as usize] != NONE {
            continue;
        }
        let steps = shortest(&view, &all, component);
        let steps = steps.iter().map(|(node, edge)| (node / 2, *edge)).collect();
        let phenomenon = Phenomenon::GNonadjacent;
        found.push(Cycle { phenomenon, steps });
    }
}

/// Cycles that only adjacent anti-dependencies close.
fn write_skew(found: &mut Vec<Cycle>, graph: &Graph) {
    let view = Only {
        graph,
        kinds: Kinds::ALL,
    };
    let all = components(&view);
    for component in 0..all.members.len() {
        let steps = shortest(&view, &all, component);
        let is_rw = |(_, edge): &(u32, usize)| graph.edge(*edge).kind == Dependency::Rw;
        let mut ring = steps.iter().zip(steps.iter().cycle().skip(1));
        if ring.any(|(a, b)| is_rw(a) && is_rw(b)) {
            let phenomenon = Phenomenon::G2Item;
            found.push(Cycle { phenomenon, steps });
        }
    }
}

/// Anti-dependencies between nodes that are `inside`, from these nodes.
fn anti_dependencies<'a>(
    graph: &'a Graph,
    nodes: impl Iterator<Item = u32> + 'a,
    inside: &'a impl Fn(u32) -> bool,
) -> impl Iterator<Item = (u32, usize)> + 'a {
    nodes.flat_map(move |node| {
        graph
            .edges(node)
            .map(move |edge| (node, edge))
            .filter(move |(_, edge)| {
                let edge = graph.edge(*edge);
                edge.kind == Dependency::Rw && inside(edge.to)
            })
    })
}

/// A short cycle of a component through an edge of a kind, if it has such an edge.
fn through(
    view: &Only<'_>,
    graph: &Graph,
    components: &Components,
    component: usize,
    kind: Dependency,
) -> Option<Vec<(u32, usize)>> {
    let inside = |node: u32| components.of[node as usize] == component as u32;
    let edges = components.members[component].iter().flat_map(|node| {
        let edges = graph.edges(*node).map(move |edge| (*node, edge));
        edges.filter(|(_, edge)| graph.edge(*edge).kind == kind && inside(graph.edge(*edge).to))
    });
    let edges: Vec<_> = edges.take(BEGINNINGS).collect();
    let close = |(from, edge): &(u32, usize), visits| {
        let to = graph.edge(*edge).to;
        closed((*from, *edge), path(view, to, *from, &inside, visits))
    };
    let short = edges.iter().filter_map(|first| close(first, VISITS));
    let short = short.min_by_key(Vec::len);
    short.or_else(|| close(edges.first()?, usize::MAX))
}

/// The cycle that begins with a step and goes on with others, if there are others.
fn closed(first: (u32, usize), rest: Option<Vec<(u32, usize)>>) -> Option<Vec<(u32, usize)>> {
    let mut steps = vec![first];
    steps.extend(rest?);
    Some(steps)
}

/// The shortest of the cycles of a component that are found from a few beginnings.
fn shortest(view: &impl View, components: &Components, component: usize) -> Vec<(u32, usize)> {
    let members = &components.members[component];
    let inside = |node: u32| components.of[node as usize] == component as u32;
    let beginnings = members
        .iter()
        .step_by(members.len().div_ceil(BEGINNINGS).max(1));
    let from = |begin: &u32, visits| {
        let leaving = view.edges(*begin).filter_map(|edge| {
            let to = view.target(*begin, edge).filter(|to| inside(*to))?;
            closed((*begin, edge), path(view, to, *begin, &inside, visits))
        });
        leaving.take(4).min_by_key(Vec::len)
    };
    beginnings
        .filter_map(|begin| from(begin, VISITS))
        .min_by_key(Vec::len)
        .or_else(|| from(&members[0], usize::MAX))
        .expect("every node of a component is on a cycle")
}

/// The shortest way from one node to another over nodes that are `inside`, of which it visits so many
/// at most: each node that is left, and by which edge.
fn path(
    view: &impl View,
    from: u32,
    to: u32,
    inside: &impl Fn(u32) -> bool,
    visits: usize,
) -> Option<Vec<(u32, usize)>> {
    let mut came: HashMap<u32, (u32, usize)> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        if node == to {
            let mut steps = Vec::new();
            let mut at = to;
            while at != from {
                let (before, edge) = came[&at];
                steps.push((before, edge));
                at = before;
            }
            steps.reverse();
            return Some(steps);
        }
        if came.len() > visits {
            return None;
        }
        for edge in view.edges(node) {
            let Some(next) = view.target(node, edge) else {
                continue;
            };
            if next != from && inside(next) && !came.contains_key(&next) {
                came.insert(next, (node, edge));
                queue.push_back(next);
            }
        }
    }
    None
}
