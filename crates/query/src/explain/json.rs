//! The form of JSON: MySQL's `query_block` with `table`, `nested_loop`, `ordering_operation` and so on, and in each
//! table an object `ndp` of what storage does. Operations that MySQL's form has no place for have one of their own.

use std::collections::HashSet;
use std::fmt::Write;

use perigee_engine::catalog::shown_schema;

use super::actual::Actual;
use super::node::{Changed, Join, Matching, Node, Operation, Plan};
use crate::access::{AccessRow, Placement, TableReference};

/// A JSON value whose members keep their order.
#[derive(Clone, Debug)]
enum Json {
    Text(String),
    Number(f64),
    Bool(bool),
    List(Vec<Self>),
    Object(Object),
}

/// Names and values.
type Object = Vec<(&'static str, Json)>;

impl Plan {
    /// The JSON text, of a statement with these references to tables.
    #[must_use]
    pub fn json(&self, references: &[TableReference]) -> String {
        let mut writer = Writer {
            plan: self,
            references,
            known: HashSet::new(),
        };
        let mut text = String::new();
        print(&Json::Object(writer.statement()), 0, &mut text);
        text
    }
}

struct Writer<'p> {
    plan: &'p Plan,
    references: &'p [TableReference],
    /// Common table expressions whose plans are written already.
    known: HashSet<usize>,
}

impl Writer<'_> {
    fn statement(&mut self) -> Object {
        let plan = self.plan;
        let mut block = vec![("select_id", Json::Number(1.0))];
        if let Some(root) = &plan.root {
            let cost = vec![("query_cost", number(root.cost))];
            block.push(("cost_info", Json::Object(cost)));
        }
        match &plan.changed {
            Changed::Nothing => {}
            Changed::Read(kind, names) => {
                let names = names.iter().cloned().map(Json::Text).collect();
                let how = if *kind == "UPDATE" {
                    "update"
                } else {
                    "delete"
                };
                block.push((how, Json::List(names)));
            }
            Changed::Inserted(kind, name) => {
                let how = if *kind == "REPLACE" {
                    "replace"
                } else {
                    "insert"
                };
                let mut table = vec![(how, Json::Bool(true))];
                table.push(("table_name", Json::Text(name.clone())));
                table.push(("access_type", text("ALL")));
                block.push(("table", Json::Object(table)));
            }
        }
        block.extend(actual(plan.change.as_ref()));
        let Some(root) = &plan.root else {
            return vec![("query_block", Json::Object(block))];
        };
        match plan.changed {
            Changed::Inserted(..) => {
                let from = self.node(root);
                block.push(("insert_from", Json::Object(vec![from])));
            }
            _ => block.push(self.node(root)),
        }
        if matches!(block.last(), Some(("message", _))) && self.plan.accesses().is_empty() {
            let at = block.len() - 1;
            block[at].1 = text("No tables used");
        }
        vec![("query_block", Json::Object(block))]
    }

    /// A node under the name that MySQL has for what it is.
    fn node(&mut self, node: &Node) -> (&'static str, Json) {
        let (name, mut object) = match &node.operation {
            Operation::Access(access) => ("table", self.table(access, node)),
            Operation::Join(join) => return self.join(join, node),
            Operation::Filter(condition) => ("filter", vec![("condition", text(condition))]),
            Operation::Sort { by, limit } => {
                let mut sort = vec![("using_filesort", Json::Bool(true)), ("by", texts(by))];
                sort.extend(limit.map(|limit| ("limit", Json::Number(limit as f64))));
                ("ordering_operation", sort)
            }
            Operation::Limit { count, offset } => {
                let count = count.map(|count| ("count", Json::Number(count as f64)));
                let offset = ("offset", Json::Number(*offset as f64));
                ("limit", count.into_iter().chain([offset]).collect())
            }
            Operation::Group { by, of } => {
                let mut group = vec![
                    ("using_temporary_table", Json::Bool(!by.is_empty())),
                    ("using_filesort", Json::Bool(false)),
                    ("functions", texts(of)),
                ];
                if !by.is_empty() {
                    group.push(("by", texts(by)));
                }
                ("grouping_operation", group)
            }
            Operation::Deduplicate(by) => {
                let temporary = ("using_temporary_table", Json::Bool(true));
                ("duplicates_removal", vec![temporary, ("by", texts(by))])
            }
            Operation::Window(functions) => ("windowing", vec![("functions", texts(functions))]),
            Operation::Append => ("union_result", Vec::new()),
            Operation::Common(number, name) => {
                let mut table = vec![("table_name", text(name)), ("access_type", text("ALL"))];
                table.push(("materialized_from_subquery", self.common(*number)));
                ("table", table)
            }
            Operation::Apply(what, tables) => {
                let subquery = vec![
                    ("dependent", Json::Bool(true)),
                    ("cacheable", Json::Bool(true)),
                    ("gives", text(what)),
                    ("tables", texts(tables)),
                ];
                (
                    "attached_subqueries",
                    vec![("subquery", Json::Object(subquery))],
                )
            }
            Operation::Other(what) if node.inputs.is_empty() => return ("message", text(what)),
            Operation::Other(what) => ("operation", vec![("name", text(what))]),
        };
        if !matches!(node.operation, Operation::Access(_)) {
            object.extend(estimate(node));
            object.extend(actual(node.actual.as_ref()));
        }
        self.inputs(node, &mut object);
        (name, Json::Object(object))
    }

    /// What a node's rows come from.
    fn inputs(&mut self, node: &Node, object: &mut Object) {
        match &node.inputs[..] {
            [] => {}
            [one] => object.push(self.node(one)),
            several => {
                let several = several.iter().map(|input| {
                    let block = vec![self.node(input)];
                    Json::Object(vec![("query_block", Json::Object(block))])
                });
                let several = several.collect();
                object.push(("query_specifications", Json::List(several)));
            }
        }
        if node.subqueries.is_empty() {
            return;
        }
        let subqueries = node.subqueries.iter().map(|subquery| {
            let block = Json::Object(vec![self.node(subquery)]);
            Json::Object(vec![
                ("dependent", Json::Bool(false)),
                ("cacheable", Json::Bool(true)),
                ("query_block", block),
            ])
        });
        let subqueries = subqueries.collect();
        object.push(("optimized_away_subqueries", Json::List(subqueries)));
    }

    /// A join: its tables in the order in which they are read. Joins below it on the same side are part of the list.
    fn join(&mut self, join: &Join, node: &Node) -> (&'static str, Json) {
        let mut tables = Vec::new();
        for (number, input) in node.inputs.iter().enumerate() {
            let (name, mut json) = self.node(input);
            if let (0, "nested_loop", Json::List(below)) = (number, name, &mut json) {
                tables.append(below);
                continue;
            }
            let mut member = vec![(name, json)];
            if number > 0 {
                let mut how = vec![
                    ("type", text(join.kind)),
                    ("algorithm", text(algorithm(join.by))),
                ];
                if !join.on.is_empty() {
                    how.push(("condition", text(&join.on.join(" and "))));
                }
                how.extend(estimate(node));
                how.extend(actual(node.actual.as_ref()));
                member.push(("join", Json::Object(how)));
            }
            tables.push(Json::Object(member));
        }
        ("nested_loop", Json::List(tables))
    }

    /// The plan of a common table expression, where it is read first.
    fn common(&mut self, number: usize) -> Json {
        let mut object = vec![
            ("using_temporary_table", Json::Bool(true)),
            ("cacheable", Json::Bool(true)),
        ];
        let plan = self.plan;
        if let Some(definition) = plan.definition(number)
            && self.known.insert(number)
        {
            if definition.parts.len() > 1 {
                object.push(("recursive", Json::Bool(true)));
            }
            let parts = definition.parts.iter();
            let parts: Vec<_> = parts
                .map(|part| Json::Object(vec![("query_block", self.block(part))]))
                .collect();
            match <[Json; 1]>::try_from(parts) {
                Ok([Json::Object(one)]) => object.extend(one),
                Ok([other]) => object.push(("query_block", other)),
                Err(several) => object.push(("query_specifications", Json::List(several))),
            }
        } else {
            let name = plan.definition(number).map_or("", |one| one.name.as_str());
            object.push(("sharing_temporary_table_with", text(name)));
        }
        Json::Object(object)
    }

    fn block(&mut self, node: &Node) -> Json {
        Json::Object(vec![self.node(node)])
    }

    fn table(&self, access: &AccessRow, node: &Node) -> Object {
        let reference = self.references.iter().find(|r| r.alias == access.table);
        let mut table = vec![("table_name", text(&access.table))];
        if let Some(reference) = reference {
            table.push(("select_id", Json::Number(reference.select as f64)));
            let schema = shown_schema(&reference.schema);
            table.push(("schema_name", text(schema)));
        }
        table.push(("access_type", text(access.access_type)));
        if !access.possible_keys.is_empty() {
            table.push(("possible_keys", texts(&access.possible_keys)));
        }
        table.extend(access.key.as_ref().map(|key| ("key", text(key))));
        if !access.key_parts.is_empty() {
            table.push(("used_key_parts", texts(&access.key_parts)));
        }
        if !access.reference.is_empty() {
            table.push(("ref", texts(&access.reference)));
        }
        let rows = access.rows as f64;
        table.push(("rows_examined_per_scan", Json::Number(rows)));
        let produced = node.rows.unwrap_or(rows * access.filtered / 100.0);
        table.push(("rows_produced_per_join", Json::Number(produced.round())));
        table.push(("filtered", Json::Text(format!("{:.2}", access.filtered))));
        if access.is_covered() {
            table.push(("using_index", Json::Bool(true)));
        }
        if access.backwards {
            table.push(("backward_index_scan", Json::Bool(true)));
        }
        let cost = vec![
            ("read_cost", number(access.cost.unwrap_or(node.cost))),
            ("prefix_cost", number(node.cost)),
        ];
        table.push(("cost_info", Json::Object(cost)));
        table.push(("used_columns", texts(&access.columns)));
        if let Some(condition) = &access.condition {
            table.push(("attached_condition", text(condition)));
        }
        table.push(("ndp", Json::Object(near(access))));
        table.extend(actual(node.actual.as_ref()));
        if !access.counters.is_empty() {
            let counters = access.counters.iter();
            let counters = counters.map(|(name, value)| (*name, Json::Number(*value as f64)));
            table.push(("counters", Json::Object(counters.collect())));
        }
        table
    }
}

/// What storage does of an access.
fn near(access: &AccessRow) -> Object {
    let near = &access.near;
    let mut object = vec![("used", Json::Bool(near.any || near.key_batches))];
    if near.condition {
        object.push(("condition", Json::Bool(true)));
    }
    if near.columns {
        object.push(("columns", texts(&access.columns)));
    }
    object.extend(near.join.as_ref().map(|join| ("join", text(join))));
    if let Some(sorts) = near.aggregate {
        object.push(("aggregate", text(if sorts { "sort" } else { "hash" })));
    }
    if !near.filters.is_empty() {
        object.push(("filters", texts(&near.filters)));
    }
    let limit = near.limit.map(|limit| Json::Number(limit as f64));
    object.extend(limit.map(|limit| ("limit", limit)));
    if near.key_batches {
        object.push(("key_batches", Json::Bool(true)));
    }
    if !near.reasons.is_empty() {
        object.push(("not_pushed", texts(&near.reasons)));
    }
    if !near.residual.is_empty() {
        let residual = near.residual.iter().map(|(columns, reason)| {
            let residual = vec![("columns", text(columns)), ("reason", text(reason))];
            Json::Object(residual)
        });
        object.push(("residual_conditions", Json::List(residual.collect())));
    }
    if let Some(why) = access.not_joined {
        object.push(("not_joined", text(why)));
    }
    if let Some(Placement { frontend, storage }) = near.placement {
        let cost = vec![
            ("with_ndp", number(storage.total())),
            ("without_ndp", number(frontend.total())),
        ];
        object.push(("cost_info", Json::Object(cost)));
    }
    object
}

fn algorithm(by: Matching) -> &'static str {
    match by {
        Matching::Hash => "hash",
        Matching::Merge => "merge",
        Matching::Loop => "nested_loop",
        Matching::Lookup => "index_lookup",
        Matching::Storage => "storage",
    }
}

fn estimate(node: &Node) -> Object {
    let mut object: Object = node
        .rows
        .map(|rows| ("estimated_rows", Json::Number(rows.round())))
        .into_iter()
        .collect();
    let cost = vec![("prefix_cost", number(node.cost))];
    object.push(("cost_info", Json::Object(cost)));
    object
}

/// What an operation did; nothing if it was not measured.
fn actual(actual: Option<&Actual>) -> Option<(&'static str, Json)> {
    let Actual {
        first,
        last,
        rows,
        loops,
    } = actual?;
    let milliseconds = |time: &f64| Json::Number((time * 1e3).round() / 1e3);
    let object = vec![
        ("first_row_ms", milliseconds(first)),
        ("last_row_ms", milliseconds(last)),
        ("rows", Json::Number(rows.round())),
        ("loops", Json::Number(*loops as f64)),
    ];
    Some(("actual", Json::Object(object)))
}

fn text(text: &str) -> Json {
    Json::Text(text.to_owned())
}

fn texts(texts: &[String]) -> Json {
    Json::List(texts.iter().map(|one| text(one)).collect())
}

/// A cost, a text with two decimals as in MySQL.
fn number(cost: f64) -> Json {
    Json::Text(format!("{cost:.2}"))
}

fn print(json: &Json, depth: usize, out: &mut String) {
    match json {
        Json::Text(text) => quoted(text, out),
        Json::Number(number) if number.is_finite() => {
            let _ = write!(out, "{number}");
        }
        Json::Number(_) => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::List(items) => {
            let each = |item: &Json, out: &mut String| print(item, depth + 1, out);
            enclosed(('[', ']'), items, depth, out, each);
        }
        Json::Object(members) => {
            let each = |(name, value): &(&str, Json), out: &mut String| {
                quoted(name, out);
                out.push_str(": ");
                print(value, depth + 1, out);
            };
            enclosed(('{', '}'), members, depth, out, each);
        }
    }
}

fn enclosed<T>(
    (open, close): (char, char),
    items: &[T],
    depth: usize,
    out: &mut String,
    each: impl Fn(&T, &mut String),
) {
    out.push(open);
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        let _ = write!(out, "\n{:width$}", "", width = 2 * (depth + 1));
        each(item, out);
    }
    if !items.is_empty() {
        let _ = write!(out, "\n{:width$}", "", width = 2 * depth);
    }
    out.push(close);
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_texts_is_escaped() {
        let json = Json::Object(vec![
            ("a", text("\"\\\n\u{1}ä")),
            ("b", Json::List(Vec::new())),
            ("c", Json::Number(f64::NAN)),
        ]);
        let mut out = String::new();
        print(&json, 0, &mut out);
        let expected = "{\n  \"a\": \"\\\"\\\\\\n\\u0001ä\",\n  \"b\": [],\n  \"c\": null\n}";
        assert_eq!(out, expected);
    }
}
