//! The tree as text, an operator a line, for tests and for people.

use std::fmt::{self, Display, Formatter, Write};

use perigee_expr::scalar::Scalar;

use super::{
    Aggregate, AggregateFunction, Applied, Apply, Bound, Column, Distance, Frame, FrameUnits, Join,
    JoinKind, Operator, Quantifier, Query, Relation, SetOperation, SortKey, Table, Window,
    WindowFunction,
};

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("rows of ")?;
        list(&self.body.columns, f)?;
        writeln!(f)?;
        self.body.print(0, f)?;
        for lock in &self.locks {
            writeln!(
                f,
                "lock {:?} for {:?}, {:?}",
                lock.tables, lock.strength, lock.wait
            )?;
        }
        for hint in &self.hints {
            writeln!(f, "hint {hint:?}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning {}: {}", warning.number, warning.text)?;
        }
        Ok(())
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.print(0, f)
    }
}

impl Display for Column {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(table) = &self.table {
            write!(f, "{table}.")?;
        }
        f.write_str(&self.name)?;
        match self.ty.column {
            Some(column) => write!(f, " {column}")?,
            None => f.write_str(" null")?,
        }
        match self.ty.nullable {
            true => Ok(()),
            false => f.write_str(" not null"),
        }
    }
}

impl Relation {
    fn print(&self, depth: usize, f: &mut Formatter<'_>) -> fmt::Result {
        stacker::maybe_grow(RED_ZONE, STACK, || {
            write!(f, "{:1$}", "", 2 * depth)?;
            self.operator(f)?;
            writeln!(f)?;
            match &self.operator {
                Operator::With { definitions, body } => {
                    for definition in definitions {
                        write!(f, "{:1$}", "", 2 * depth + 2)?;
                        let (number, name) = (definition.number, &definition.name);
                        let all = if definition.all { " all" } else { "" };
                        match &definition.step {
                            None => writeln!(f, "define {number} {name}")?,
                            Some(_) => writeln!(f, "define {number} {name} recursive{all}")?,
                        }
                        definition.base.print(depth + 2, f)?;
                        if let Some(step) = &definition.step {
                            step.print(depth + 2, f)?;
                        }
                    }
                    body.print(depth + 1, f)
                }
                _ => {
                    let mut inputs = self.inputs().into_iter();
                    inputs.try_for_each(|input| input.print(depth + 1, f))
                }
            }
        })
    }

    fn operator(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.operator {
            Operator::One => f.write_str("one row"),
            Operator::Table(table) => table.fmt(f),
            Operator::JsonTable { document, .. } => write!(f, "json table {document}"),
            Operator::Values(rows) => {
                f.write_str("values")?;
                for (number, row) in rows.iter().enumerate() {
                    f.write_str(if number == 0 { " (" } else { ", (" })?;
                    list(row, f)?;
                    f.write_char(')')?;
                }
                Ok(())
            }
            Operator::Filter { predicate, .. } => write!(f, "filter {predicate}"),
            Operator::Project { expressions, .. } => self.project(expressions, f),
            Operator::Join(join) => join.fmt(f),
            Operator::Aggregate {
                keys,
                aggregates,
                rollup,
                ..
            } => {
                f.write_str("aggregate")?;
                if !keys.is_empty() {
                    f.write_str(" by ")?;
                    list(keys, f)?;
                }
                if *rollup {
                    f.write_str(" with rollup")?;
                }
                if !aggregates.is_empty() {
                    f.write_str(": ")?;
                    list(aggregates, f)?;
                }
                Ok(())
            }
            Operator::Window { functions, .. } => {
                f.write_str("window ")?;
                list(functions, f)
            }
            Operator::Sort { keys, .. } => {
                f.write_str("sort ")?;
                list(keys, f)
            }
            Operator::Limit { skip, fetch, .. } => {
                f.write_str("limit")?;
                if let Some(fetch) = fetch {
                    write!(f, " {fetch}")?;
                }
                match skip {
                    0 => Ok(()),
                    skip => write!(f, " skip {skip}"),
                }
            }
            Operator::Distinct { .. } => f.write_str("distinct"),
            Operator::Set { operation, all, .. } => {
                f.write_str(match operation {
                    SetOperation::Union => "union",
                    SetOperation::Intersect => "intersect",
                    SetOperation::Except => "except",
                })?;
                f.write_str(if *all { " all" } else { "" })
            }
            Operator::Apply(apply) => apply.fmt(f),
            Operator::With { .. } => f.write_str("with"),
            Operator::Shared(number) => write!(f, "shared {number}"),
        }
    }

    fn project(&self, expressions: &[Scalar], f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("project ")?;
        for (number, (expression, column)) in expressions.iter().zip(&*self.columns).enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(f, "{separator}{expression}")?;
            if !column.name.is_empty() {
                write!(f, " as {}", column.name)?;
            }
        }
        Ok(())
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "table {}.{}", self.schema, self.name)?;
        if self.alias != self.name {
            write!(f, " as {}", self.alias)?;
        }
        for hint in &self.index_hints {
            write!(f, " {:?} {:?}", hint.kind, hint.indexes)?;
        }
        for (kind, wanted) in &self.hints {
            write!(f, " {kind:?} {wanted}")?;
        }
        Ok(())
    }
}

impl Display for Join {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.kind, &self.on) {
            (JoinKind::Inner, None) => "cross join",
            (JoinKind::Inner, Some(_)) => "inner join",
            (JoinKind::Left, _) => "left join",
        })?;
        if self.straight {
            f.write_str(" straight")?;
        }
        match &self.on {
            Some(on) => write!(f, " on {on}"),
            None => Ok(()),
        }
    }
}

impl Display for Apply {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("apply ")?;
        match &self.applied {
            Applied::Row => f.write_str("row")?,
            Applied::Exists => f.write_str("exists")?,
            Applied::Lateral { outer: false } => f.write_str("lateral")?,
            Applied::Lateral { outer: true } => f.write_str("lateral outer")?,
            Applied::Quantified {
                quantifier,
                comparison,
                operands,
            } => {
                for (number, (left, domain)) in operands.iter().enumerate() {
                    let separator = if number == 0 { "" } else { ", " };
                    write!(f, "{separator}{left} by {domain}")?;
                }
                let quantifier = match quantifier {
                    Quantifier::Any => "any",
                    Quantifier::All => "all",
                };
                write!(f, " {comparison:?} {quantifier}")?;
            }
        }
        if self.arguments.is_empty() {
            return Ok(());
        }
        f.write_str(" of ")?;
        list(&self.arguments, f)
    }
}

impl Display for SortKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let descending = if self.descending { " desc" } else { "" };
        write!(f, "{}{descending}", self.scalar)
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.function.name())?;
        if self.distinct {
            f.write_str("distinct ")?;
        }
        match &self.function {
            AggregateFunction::CountRows => f.write_char('*')?,
            AggregateFunction::Grouping(keys) => write!(f, "{keys:?}")?,
            _ => list(&self.arguments, f)?,
        }
        if !self.order.is_empty() {
            f.write_str(" order by ")?;
            list(&self.order, f)?;
        }
        if let AggregateFunction::GroupConcat { separator, .. } = &self.function {
            write!(f, " separator '{}'", separator.escape_default())?;
        }
        f.write_char(')')
    }
}

impl Display for Window {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.function.name())?;
        match self.function {
            WindowFunction::Aggregate(AggregateFunction::CountRows) => f.write_char('*')?,
            _ => list(&self.arguments, f)?,
        }
        f.write_str(") over (")?;
        let mut separator = "";
        if !self.partition.is_empty() {
            f.write_str("partition by ")?;
            list(&self.partition, f)?;
            separator = " ";
        }
        if !self.order.is_empty() {
            write!(f, "{separator}order by ")?;
            list(&self.order, f)?;
            separator = " ";
        }
        if let Some(frame) = &self.frame {
            write!(f, "{separator}{frame}")?;
        }
        f.write_char(')')
    }
}

impl Display for Frame {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let units = match self.units {
            FrameUnits::Rows => "rows",
            FrameUnits::Range => "range",
        };
        write!(f, "{units} between {} and {}", self.start, self.end)
    }
}

impl Display for Bound {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnboundedPreceding => f.write_str("unbounded preceding"),
            Self::Preceding(distance) => write!(f, "{distance} preceding"),
            Self::CurrentRow => f.write_str("current row"),
            Self::Following(distance) => write!(f, "{distance} following"),
            Self::UnboundedFollowing => f.write_str("unbounded following"),
        }
    }
}

impl Display for Distance {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows}"),
            Self::Number(number) => f.write_str(number),
            Self::Interval(count, unit) => write!(f, "{count} × {unit}"),
        }
    }
}

fn list(all: &[impl Display], f: &mut Formatter<'_>) -> fmt::Result {
    for (number, one) in all.iter().enumerate() {
        let separator = if number == 0 { "" } else { ", " };
        write!(f, "{separator}{one}")?;
    }
    Ok(())
}
