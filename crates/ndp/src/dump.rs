//! Descriptors and batches as text, for people and for tests.

use std::fmt::Write;
use std::ops::Bound;

use perigee_expr::AggregateFunction;

use crate::batch::{AmbiguousKind, Column, NdpBatch};
use crate::chunk::Values;
use crate::{Aggregate, Descriptor, GroupMethod, Grouping, Join, JoinKind, KeyRange};

fn aggregate_lines(
    aggregate: &Aggregate,
    grouping: Grouping,
    names: &[String],
    line: &mut impl FnMut(String),
) {
    let functions = aggregate.functions.iter().map(|(function, argument)| {
        let argument = argument.as_ref().map(|argument| argument.display(names));
        let name = function_name(*function);
        format!("{name}({})", argument.as_deref().unwrap_or("*"))
    });
    line(format!("aggregate {}", list(functions)));
    if !aggregate.group_by.is_empty() {
        let keys = aggregate
            .group_by
            .iter()
            .map(|program| program.display(names));
        line(format!("group by {}", list(keys)));
    }
    if grouping != Grouping::default() {
        let Grouping { method, memory } = grouping;
        let method = match method {
            GroupMethod::Hash => "hashing",
            GroupMethod::Sort => "sorting",
        };
        let memory = memory.map_or(String::new(), |bytes| format!(" in {bytes} bytes"));
        line(format!("group by {method}{memory}"));
    }
}

/// Names of the columns of joined records: those of the scan, and `t` and a number for the table's.
fn joined_names(join: &Join) -> Vec<String> {
    let own = join.columns.iter().map(|column| format!("c{column}"));
    let table = (0..join.payload.len()).map(|column| format!("t{column}"));
    let names = std::iter::once("key".to_owned());
    names.chain(own).chain(table).collect()
}

fn join_lines(join: &Join, line: &mut impl FnMut(String)) {
    let kind = match join.kind {
        JoinKind::Inner => "inner",
        JoinKind::Left => "left",
        JoinKind::Semi => "semi",
        JoinKind::Anti => "anti",
    };
    let on = list(join.on.iter().map(|column| format!("c{column}")));
    line(format!("{kind} join with {:016x} on {on}", join.table));
    for (column, (ty, nullable)) in join.payload.iter().enumerate() {
        let null = if *nullable { "" } else { " NOT NULL" };
        line(format!("  t{column} {ty}{null}"));
    }
    if let Some(condition) = &join.condition {
        let condition = condition.display(&joined_names(join));
        line(format!("joined where {condition}"));
    }
}

impl Descriptor {
    /// The descriptor as text: one line per part, columns named `c` and their number.
    #[must_use]
    pub fn dump(&self) -> String {
        let layout = &self.layout;
        let names: Vec<String> = (0..layout.columns.len()).map(|i| format!("c{i}")).collect();
        let mut out = String::new();
        let mut line = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        let kind = if layout.is_clustered() {
            "clustered"
        } else {
            "secondary"
        };
        let order = if self.reverse { ", descending" } else { "" };
        line(format!(
            "scan {} {} {kind}{order}, watermark {}",
            self.db, self.index, self.watermark
        ));
        for (name, column) in names.iter().zip(&layout.columns) {
            let null = if column.null_bit.is_some() {
                ""
            } else {
                " NOT NULL"
            };
            line(format!("  {name} {}{null}", column.ty));
        }
        line(format!(
            "  key ({})",
            list(layout.key.iter().map(|i| format!("c{i}")))
        ));
        if self.range != KeyRange::ALL {
            let KeyRange { lower, upper } = &self.range;
            line(format!("range from {} to {}", bound(lower), bound(upper)));
        }
        if let Some(predicate) = &self.predicate {
            line(format!("where {}", predicate.display(&names)));
        }
        let names = match &self.join {
            None => names,
            Some(join) => {
                join_lines(join, &mut line);
                joined_names(join)
            }
        };
        match &self.aggregate {
            None => line(format!(
                "columns {}",
                list(
                    self.projection
                        .iter()
                        .map(|i| names[usize::from(*i)].clone())
                )
            )),
            Some(aggregate) => aggregate_lines(aggregate, self.grouping, &names, &mut line),
        }
        out
    }
}

impl NdpBatch {
    /// The batch as text: pages, columns with their encoding, ambiguous records with their place.
    #[must_use]
    pub fn dump(&self) -> String {
        let mut out = String::new();
        let what = if self.aggregated {
            "partial states"
        } else {
            "rows"
        };
        let pages = self.pages.len();
        let _ = writeln!(
            out,
            "batch of {:016x}: {pages} pages, {} {what}",
            self.descriptor, self.rows
        );
        for run in &self.pages {
            let _ = write!(out, "  page {}: {} rows", run.index, run.rows);
            let _ = match run.ambiguous {
                0 => writeln!(out),
                n => writeln!(out, ", {n} ambiguous"),
            };
        }
        for (i, column) in self.columns.iter().enumerate() {
            let _ = writeln!(out, "  column {i}: {}", describe(column));
        }
        for ambiguous in &self.ambiguous {
            let index = self.pages[ambiguous.page as usize].index;
            let kind = match ambiguous.kind {
                AmbiguousKind::Unresolved => "ambiguous",
                AmbiguousKind::Failed => "failed",
            };
            let (row, len) = (ambiguous.row, ambiguous.record.len());
            let _ = writeln!(
                out,
                "  {kind} in page {index} before row {row}: {len} bytes"
            );
        }
        out
    }
}

fn describe(column: &Column) -> String {
    let (text, nulls) = match column {
        Column::Lanes(vector) => ("not encoded".to_owned(), vector.valid.is_some()),
        Column::Chunk(chunk) => {
            let text = match &chunk.values {
                Values::Int { width, base, .. } => format!("{width} bytes above {base}"),
                Values::UInt { width, base, .. } => format!("{width} bytes above {base}, unsigned"),
                Values::Wide { width, base, .. } => format!("{width} bytes above {base}, wide"),
                Values::Double(_) => "doubles".to_owned(),
                Values::Float(_) => "floats".to_owned(),
                Values::Strings(strings) => format!("strings, {} bytes", strings.data.len()),
                Values::Dictionary { entries, .. } => format!("dictionary of {entries} strings"),
            };
            (text, chunk.valid.is_some())
        }
    };
    if nulls {
        format!("{text}, with NULL")
    } else {
        text
    }
}

fn function_name(function: AggregateFunction) -> &'static str {
    match function {
        AggregateFunction::CountAll | AggregateFunction::Count => "COUNT",
        AggregateFunction::Sum => "SUM",
        AggregateFunction::Min => "MIN",
        AggregateFunction::Max => "MAX",
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn bound(bound: &Bound<Vec<u8>>) -> String {
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    match bound {
        Bound::Unbounded => "the end".to_owned(),
        Bound::Included(prefix) => format!("{}… included", hex(prefix)),
        Bound::Excluded(prefix) => format!("{}… excluded", hex(prefix)),
    }
}
