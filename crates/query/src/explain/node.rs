//! [`Plan`] and [`Node`]: a statement's plan as EXPLAIN tells of it.

use super::actual::Actual;
use crate::access::AccessRow;

/// What a statement changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Changed {
    /// Nothing.
    #[default]
    Nothing,
    /// Rows of these references: how it changes them, and their names.
    Read(&'static str, Vec<String>),
    /// A table that rows are inserted into.
    Inserted(&'static str, String),
}

/// A statement's plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The common table expressions that it computes once.
    pub definitions: Vec<Definition>,
    /// What delivers its rows; `None` where no query is planned.
    pub root: Option<Node>,
    /// What it does with the rows.
    pub changed: Changed,
    /// What changing them took, if that was measured.
    pub change: Option<Actual>,
}

/// A common table expression.
#[derive(Clone, Debug)]
pub struct Definition {
    /// No other one of the statement has this number.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// What its rows are made by, and, if it is recursive, those of the next step.
    pub parts: Vec<Node>,
}

/// An operation of a plan.
#[derive(Clone, Debug)]
pub struct Node {
    /// What is done.
    pub operation: Operation,
    /// Cost of it and of all below it, in microseconds.
    pub cost: f64,
    /// Rows that are expected.
    pub rows: Option<f64>,
    /// What it did, if it was measured.
    pub actual: Option<Actual>,
    /// Where its rows come from.
    pub inputs: Vec<Self>,
    /// Subqueries that are computed before it.
    pub subqueries: Vec<Self>,
}

/// What an operation does.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Reads a table.
    Access(Box<AccessRow>),
    /// Leaves out rows.
    Filter(String),
    /// Joins its inputs.
    Join(Join),
    /// Puts rows in an order; perhaps only the first ones of it.
    Sort {
        /// What they are ordered by.
        by: Vec<String>,
        /// Rows that are kept.
        limit: Option<usize>,
    },
    /// Ends after some rows.
    Limit {
        /// Rows that are delivered.
        count: Option<usize>,
        /// Rows before them that are left out.
        offset: usize,
    },
    /// Makes groups.
    Group {
        /// What rows of a group have in common.
        by: Vec<String>,
        /// What is computed of each.
        of: Vec<String>,
    },
    /// Leaves one of equal rows.
    Deduplicate(Vec<String>),
    /// Computes functions over windows.
    Window(Vec<String>),
    /// Delivers the rows of one input after the other.
    Append,
    /// Reads a common table expression, by its number and name.
    Common(usize, String),
    /// Computes a subquery for each row: what is asked of it, and which tables it reads.
    Apply(&'static str, Vec<String>),
    /// What has no parts: rows that come from no table, or several steps as one.
    Other(&'static str),
}

/// How inputs are joined.
#[derive(Clone, Debug)]
pub struct Join {
    /// How matches are found.
    pub by: Matching,
    /// What becomes of rows: `inner join`, `left join`, `semijoin`, `antijoin`.
    pub kind: &'static str,
    /// What is compared, and other conditions.
    pub on: Vec<String>,
}

/// How a join finds matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// The first input becomes a hash table, in which the rows of the second one are looked up.
    Hash,
    /// All rows of the one are compared with all rows of the other.
    Loop,
    /// The rows of the first input are looked up in an index of the second one.
    Lookup,
    /// Both are sorted.
    Merge,
    /// Storage looks up the rows of the second one in a table that is made of the first one.
    Storage,
}

impl Node {
    /// An operation about which nothing else is known.
    pub fn new(operation: Operation, inputs: Vec<Self>) -> Self {
        Self {
            operation,
            cost: inputs.iter().map(|input| input.cost).sum(),
            rows: None,
            actual: None,
            inputs,
            subqueries: Vec::new(),
        }
    }

    /// Rows that the inputs are expected to deliver.
    pub fn input_rows(&self) -> f64 {
        self.inputs.iter().filter_map(|input| input.rows).sum()
    }

    /// The table accesses in it, in the order in which they are done.
    pub fn accesses<'n>(&'n self, found: &mut Vec<&'n AccessRow>) {
        if let Operation::Access(access) = &self.operation {
            found.push(access);
        }
        for node in self.inputs.iter().chain(&self.subqueries) {
            node.accesses(found);
        }
    }

    /// Changes each table access in it.
    pub fn each_access(&mut self, change: &mut dyn FnMut(&mut AccessRow)) {
        if let Operation::Access(access) = &mut self.operation {
            change(access);
        }
        for node in self.inputs.iter_mut().chain(&mut self.subqueries) {
            node.each_access(change);
        }
    }
}

impl Plan {
    /// The table accesses of the statement.
    #[must_use]
    pub fn accesses(&self) -> Vec<&AccessRow> {
        let mut found = Vec::new();
        let parts = self.definitions.iter().flat_map(|common| &common.parts);
        for node in parts.chain(&self.root) {
            node.accesses(&mut found);
        }
        found
    }

    /// The common table expression of a number.
    pub(super) fn definition(&self, number: usize) -> Option<&Definition> {
        self.definitions
            .iter()
            .find(|common| common.number == number)
    }
}

impl Operation {
    /// What the tree says of it.
    pub fn title(&self) -> String {
        match self {
            Self::Access(access) => access_title(access),
            Self::Filter(condition) => format!("Filter: {condition}"),
            Self::Join(join) => join.title(),
            Self::Sort { by, limit: None } => format!("Sort: {}", by.join(", ")),
            Self::Sort { by, limit } => {
                let limit = limit.unwrap_or_default();
                let by = by.join(", ");
                format!("Sort: {by}, limit input to {limit} row(s) per chunk")
            }
            Self::Limit { count, offset: 0 } => {
                format!("Limit: {} row(s)", count.unwrap_or_default())
            }
            Self::Limit { count, offset } => match count {
                Some(count) => format!("Limit/Offset: {count}/{offset} row(s)"),
                None => format!("Offset: {offset} row(s)"),
            },
            Self::Group { by, of } if by.is_empty() => format!("Aggregate: {}", of.join(", ")),
            Self::Group { by, of } => {
                format!("Group aggregate: {} by {}", of.join(", "), by.join(", "))
            }
            Self::Deduplicate(by) => format!("Remove duplicates from input by {}", by.join(", ")),
            Self::Window(functions) => format!("Window aggregate: {}", functions.join(", ")),
            Self::Append => "Append".to_owned(),
            Self::Common(_, name) => format!("Table scan on {name}"),
            Self::Apply(what, tables) if tables.is_empty() => {
                format!("{what} of a subquery (dependent; run for each row)")
            }
            Self::Apply(what, tables) => format!(
                "{what} of a subquery on {} (dependent; run for each row)",
                tables.join(", ")
            ),
            Self::Other(what) => (*what).to_owned(),
        }
    }
}

impl Join {
    fn title(&self) -> String {
        let Self { by, kind, on } = self;
        let on = on.join(" and ");
        let how = match by {
            Matching::Hash => kind.replace("join", "hash join"),
            Matching::Merge => kind.replace("join", "merge join"),
            Matching::Storage => format!("{kind} in storage"),
            Matching::Loop | Matching::Lookup => format!("nested loop {kind}"),
        };
        // `semijoin` is one word.
        let how = how.replace("semihash join", "hash semijoin");
        let how = how.replace("antihash join", "hash antijoin");
        let how = how.replace("semimerge join", "merge semijoin");
        let how = how.replace("antimerge join", "merge antijoin");
        let mut chars = how.chars();
        let first = chars.next().map(|first| first.to_ascii_uppercase());
        let title: String = first.into_iter().chain(chars).collect();
        match on.is_empty() {
            true => title,
            false => format!("{title} ({on})"),
        }
    }
}

/// What the tree says of an access.
fn access_title(access: &AccessRow) -> String {
    let AccessRow { table, .. } = access;
    let covering = if access.is_covered() { "covering " } else { "" };
    let key = access.key.as_deref().unwrap_or_default();
    let pairs = access.key_parts.iter().zip(&access.reference);
    let pairs: Vec<_> = pairs
        .map(|(part, value)| format!("{part} = {value}"))
        .collect();
    let pairs = pairs.join(", ");
    let mut title = match access.access_type {
        "ALL" => format!("Table scan on {table}"),
        "index" => format!("{covering}index scan on {table} using {key}"),
        "range" => format!(
            "{covering}index range scan on {table} using {key} over ({})",
            access.key_parts.join(", ")
        ),
        "ref" => format!("{covering}index lookup on {table} using {key} ({pairs})"),
        _ => format!("Single-row {covering}index lookup on {table} using {key} ({pairs})"),
    };
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    if access.backwards {
        title.push_str(" (reverse)");
    }
    if let Some(condition) = &access.condition {
        let how = match access.near.condition {
            true => "pushed NDP condition",
            false => "condition",
        };
        title.push_str(&format!(", with {how}: {condition}"));
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_are_called_as_mysql_calls_them() {
        let title = |by, kind| {
            let on = vec!["(a = b)".to_owned()];
            Join { by, kind, on }.title()
        };
        assert_eq!(
            title(Matching::Hash, "inner join"),
            "Inner hash join ((a = b))"
        );
        assert_eq!(title(Matching::Hash, "semijoin"), "Hash semijoin ((a = b))");
        assert_eq!(title(Matching::Hash, "antijoin"), "Hash antijoin ((a = b))");
        assert_eq!(
            title(Matching::Lookup, "left join"),
            "Nested loop left join ((a = b))"
        );
        assert_eq!(
            title(Matching::Storage, "semijoin"),
            "Semijoin in storage ((a = b))"
        );
    }
}
