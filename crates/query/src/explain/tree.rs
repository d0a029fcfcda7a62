//! The form of a tree: a line an operation, in MySQL's words, and below an access what storage does of it.

use std::collections::HashSet;
use std::fmt::Write;

use super::actual::Actual;
use super::node::{Changed, Matching, Node, Operation, Plan};
use crate::access::{AccessRow, NearData};

/// Counters that are not those of one access: an access is one scan, and samples are taken before there is one.
const OF_OTHERS: [&str; 5] = [
    "scans",
    "samples",
    "pages_sampled",
    "key_batches",
    "keys_fetched",
];

impl Plan {
    /// The tree.
    #[must_use]
    pub fn tree(&self) -> String {
        let mut tree = Tree {
            plan: self,
            out: String::new(),
            known: HashSet::new(),
        };
        let depth = tree.change();
        match &self.root {
            Some(root) => tree.node(root, depth),
            None => tree.line(depth, "Rows fetched before execution"),
        }
        tree.out
    }

    /// What each table access did, a counter a line.
    #[must_use]
    pub fn counters(&self) -> String {
        let mut out = String::new();
        for access in self.accesses() {
            counters(access, &mut out);
        }
        out
    }
}

struct Tree<'p> {
    plan: &'p Plan,
    out: String,
    /// Common table expressions whose plans are shown already.
    known: HashSet<usize>,
}

impl Tree<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.out, "{:width$}-> {text}", "", width = 4 * depth);
    }

    /// What the statement does with the rows; gives the depth of what delivers them.
    fn change(&mut self) -> usize {
        let mut text = match &self.plan.changed {
            Changed::Nothing => return 0,
            Changed::Read("UPDATE", names) => {
                format!("Update {} (buffered)", names.join(" (buffered), "))
            }
            Changed::Read(_, names) => {
                format!("Delete from {} (buffered)", names.join(" (buffered), "))
            }
            Changed::Inserted("REPLACE", name) => format!("Replace into {name}"),
            Changed::Inserted(_, name) => format!("Insert into {name}"),
        };
        text.push_str(&did(self.plan.change.as_ref()));
        self.line(0, &text);
        1
    }

    fn node(&mut self, node: &Node, depth: usize) {
        let mut text = node.operation.title();
        if let Some(rows) = node.rows {
            let _ = write!(text, "  (cost={} rows={rows:.0})", cost(node.cost));
        } else if node.cost > 0.0 {
            let _ = write!(text, "  (cost={})", cost(node.cost));
        }
        text.push_str(&did(node.actual.as_ref()));
        self.line(depth, &text);
        if let Operation::Access(access) = &node.operation {
            for near in near(access) {
                let _ = writeln!(self.out, "{:width$}{near}", "", width = 4 * depth + 7);
            }
        }
        if let Operation::Common(number, name) = &node.operation {
            self.common(*number, name, depth + 1);
        }
        match &node.operation {
            // What is looked up comes first, as in MySQL.
            Operation::Join(join) if join.by != Matching::Lookup && node.inputs.len() == 2 => {
                self.node(&node.inputs[1], depth + 1);
                let aside = match join.by {
                    Matching::Hash => Some("Hash"),
                    Matching::Storage => Some("Table for the join in storage"),
                    _ => None,
                };
                if let Some(aside) = aside {
                    self.line(depth + 1, aside);
                }
                self.node(&node.inputs[0], depth + 1 + usize::from(aside.is_some()));
            }
            _ => node
                .inputs
                .iter()
                .for_each(|input| self.node(input, depth + 1)),
        }
        for subquery in &node.subqueries {
            self.line(depth + 1, "Select (subquery; run only once)");
            self.node(subquery, depth + 2);
        }
    }

    /// The plan of a common table expression, where it is read first.
    fn common(&mut self, number: usize, name: &str, depth: usize) {
        let plan = self.plan;
        let Some(definition) = plan.definition(number) else {
            return self.line(depth, &format!("Materialize CTE {name}"));
        };
        if !self.known.insert(number) {
            let text = format!("Materialize CTE {name} if needed (query plan printed elsewhere)");
            return self.line(depth, &text);
        }
        let is_recursive = definition.parts.len() > 1;
        let what = if is_recursive { "recursive CTE" } else { "CTE" };
        self.line(depth, &format!("Materialize {what} {name}"));
        for (number, part) in definition.parts.iter().enumerate() {
            match number {
                0 => self.node(part, depth + 1),
                _ => {
                    self.line(depth + 1, "Repeat until convergence");
                    self.node(part, depth + 2);
                }
            }
        }
    }
}

fn cost(cost: f64) -> String {
    match cost < 100.0 {
        true => format!("{cost:.2}"),
        false => format!("{cost:.0}"),
    }
}

/// What an operation did.
fn did(actual: Option<&Actual>) -> String {
    match actual {
        None => String::new(),
        Some(Actual { loops: 0, .. }) => " (never executed)".to_owned(),
        Some(Actual {
            first,
            last,
            rows,
            loops,
        }) => format!(" (actual time={first:.3}..{last:.3} rows={rows:.0} loops={loops})"),
    }
}

/// What storage does of an access and what that costs, why it does not do the rest, and what came of it.
fn near(access: &AccessRow) -> Vec<String> {
    let NearData {
        condition,
        columns,
        join,
        aggregate,
        filters,
        limit,
        key_batches,
        reasons,
        placement,
        residual,
        ..
    } = &access.near;
    let mut parts = Vec::new();
    parts.extend(condition.then(|| "condition".to_owned()));
    parts.extend(columns.then(|| format!("columns ({})", access.columns.join(", "))));
    parts.extend(join.clone());
    parts.extend(aggregate.map(|sorts| match sorts {
        true => "aggregate, groups sorted".to_owned(),
        false => "aggregate".to_owned(),
    }));
    parts.extend(filters.clone());
    parts.extend(limit.map(|limit| format!("limit {limit}")));
    parts.extend(key_batches.then(|| "key batches".to_owned()));
    let mut lines = Vec::new();
    let mut line = match parts.is_empty() {
        true => format!("NDP not used: {}", reasons.join("; ")),
        false => format!("NDP: {}", parts.join("; ")),
    };
    if !parts.is_empty() && !reasons.is_empty() {
        let _ = write!(line, "; not pushed: {}", reasons.join(", "));
    }
    if let Some(placement) = placement {
        let (with, without) = (placement.storage.total(), placement.frontend.total());
        let _ = write!(line, "; cost {with:.0} with NDP, {without:.0} without");
    }
    lines.push(line);
    for (columns, reason) in residual {
        lines.push(format!("condition on {columns} not pushed: {reason}"));
    }
    if let Some(why) = access.not_joined {
        lines.push(format!("not joined with a table: {why}"));
    }
    lines.extend(shipped(access));
    lines
}

/// Pages and bytes of an access that ran.
fn shipped(access: &AccessRow) -> Option<String> {
    let value = |name: &str| access.counters.iter().find(|c| c.0 == name).map(|c| c.1);
    let (read, shipped) = (value("bytes_read_in_storage")?, value("bytes_shipped")?);
    let pushed = value("pages_pushed").unwrap_or_default();
    let pool = value("pages_from_pool").unwrap_or_default();
    Some(format!(
        "NDP pages={pushed} bytes read in storage={read} bytes shipped={shipped}; pages from the buffer pool={pool}"
    ))
}

fn counters(access: &AccessRow, out: &mut String) {
    let key = access.key.as_deref().unwrap_or("-");
    let _ = writeln!(
        out,
        "{}: {} by {key}, {} rows expected; {}",
        access.table,
        access.access_type,
        access.rows,
        access.extra()
    );
    let counters = access.counters.iter();
    for (name, value) in counters.filter(|(name, _)| !OF_OTHERS.contains(name)) {
        let _ = writeln!(out, "    {name}: {value}");
    }
    for filter in &access.filters {
        let _ = writeln!(out, "    {filter}");
    }
    if access.counters.iter().any(|(name, _)| *name == "lookups") {
        return; // joins compile for each request
    }
    let code = if access.compiled {
        "compiled"
    } else {
        "interpreted"
    };
    let _ = writeln!(out, "    code: {code}");
}
