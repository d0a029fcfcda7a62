//! Strongly connected components (Tarjan 1972) of a view of a graph, without recursion, so that a
//! component may be as long as the history.

use std::ops::Range;

/// A graph as a search sees it: nodes by number, the edges of a node as places that may be hidden.
pub(crate) trait View {
    /// How many nodes there are.
    fn nodes(&self) -> usize;
    /// Places of the edges that leave a node.
    fn edges(&self, node: u32) -> Range<usize>;
    /// Where an edge of the node leads, unless this view hides it.
    fn target(&self, node: u32, edge: usize) -> Option<u32>;
}

/// Not met yet, or in no component of more than one node.
pub(crate) const NONE: u32 = u32::MAX;

/// The components of at least two nodes, and for each node the number of its component or [`NONE`].
pub(crate) struct Components {
    pub of: Vec<u32>,
    pub members: Vec<Vec<u32>>,
}

struct Tarjan<'a, V> {
    view: &'a V,
    next: u32,
    index: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    found: Components,
}

/// Finds them.
pub(crate) fn components(view: &impl View) -> Components {
    let nodes = view.nodes();
    let mut tarjan = Tarjan {
        view,
        next: 0,
        index: vec![NONE; nodes],
        low: vec![0; nodes],
        on_stack: vec![false; nodes],
        stack: Vec::new(),
        found: Components {
            of: vec![NONE; nodes],
            members: Vec::new(),
        },
    };
    for root in 0..nodes as u32 {
        if tarjan.index[root as usize] == NONE {
            tarjan.visit(root);
        }
    }
    tarjan.found
}

impl<V: View> Tarjan<'_, V> {
    fn visit(&mut self, root: u32) {
        let mut path = vec![(root, self.enter(root))];
        while let Some((node, edges)) = path.last_mut() {
            let node = *node;
            let Some(edge) = edges.next() else {
                path.pop();
                if let Some((parent, _)) = path.last() {
                    let low = self.low[node as usize];
                    self.lower(*parent, low);
                }
                self.leave(node);
                continue;
            };
            let Some(target) = self.view.target(node, edge) else {
                continue;
            };
            if self.index[target as usize] == NONE {
                path.push((target, self.enter(target)));
            } else if self.on_stack[target as usize] {
                let index = self.index[target as usize];
                self.lower(node, index);
            }
        }
    }

    fn enter(&mut self, node: u32) -> Range<usize> {
        self.index[node as usize] = self.next;
        self.low[node as usize] = self.next;
        self.next += 1;
        self.on_stack[node as usize] = true;
        self.stack.push(node);
        self.view.edges(node)
    }

    fn lower(&mut self, node: u32, to: u32) {
        let low = &mut self.low[node as usize];
        *low = (*low).min(to);
    }

    /// Takes a component off the stack if `node` is its root.
    fn leave(&mut self, node: u32) {
        if self.low[node as usize] != self.index[node as usize] {
            return;
        }
        let below = self.stack.iter().rposition(|n| *n == node);
        let members = self
            .stack
            .split_off(below.expect("a node that is visited is on the stack"));
        for member in &members {
            self.on_stack[*member as usize] = false;
        }
        if members.len() > 1 {
            let number = self.found.members.len() as u32;
            for member in &members {
                self.found.of[*member as usize] = number;
            }
            self.found.members.push(members);
        }
    }
}
