//! Conditions on key columns, and the parts of an index that they select: computed from the values
//! each time a statement is run.
//!
//! Only conditions whose meaning is that of the index's order are taken: equality of integers and
//! strings, ranges of integers, each with constants of the column's own kind, lists of them, and
//! alternatives between such conditions. The rest goes the ordinary way.

use std::ops::Bound;

use perigee_engine::catalog::Table;
use perigee_engine::scan::{KeySpan, KeySpans};
use perigee_value::{Collation, ColumnType, Datum, ValueRef, key};
use sqlparser::ast::{BinaryOperator, Expr};

use super::names::Names;
use super::operand::{Operand, Parameters};

/// Most alternatives that a WHERE may have: a planner is worth its time for more.
const MOST_ALTERNATIVES: usize = 256;

/// A comparison of a column with a value.
#[derive(Clone, Debug)]
struct Condition {
    column: u16,
    op: Comparison,
    operand: Operand,
}

/// How; the column is on the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    /// Bounded below; true if the bound itself is outside.
    Above(bool),
    /// Bounded above; true if the bound itself is outside.
    Below(bool),
}

/// The parts of an index that a WHERE selects.
#[derive(Debug)]
pub(super) struct KeyTemplate {
    /// Index number in [`Table::indexes`].
    pub(super) index: usize,
    /// One part each; they may overlap.
    parts: Vec<Part>,
    /// All key columns have one value and no other row may have the same.
    pub(super) is_row: bool,
}

/// A part of an index.
#[derive(Debug, Default)]
struct Part {
    /// Values of the leading key columns.
    equal: Vec<(KeyColumn, Operand)>,
    /// Bounds of the next one, and whether they are outside.
    lower: Option<(Operand, bool)>,
    upper: Option<(Operand, bool)>,
    /// The column that the bounds are of.
    ranged: Option<KeyColumn>,
}

#[derive(Clone, Copy, Debug)]
struct KeyColumn {
    column: u16,
    ty: ColumnType,
    nullable: bool,
}

impl KeyTemplate {
    /// The template of a WHERE that one index answers completely.
    pub(super) fn new(
        table: &Table,
        names: &Names<'_>,
        selection: &Expr,
        parameters: &Parameters,
    ) -> Option<Self> {
        let alternatives = Conditions { names, parameters }.alternatives(selection)?;
        let is_visible = |index: &usize| match index.checked_sub(1) {
            Some(number) => !table.def.indexes[number].invisible,
            None => true,
        };
        let indexes = (0..table.indexes.len()).filter(is_visible);
        let mut templates = indexes.filter_map(|index| Self::over(table, index, &alternatives));
        let first = templates.next()?;
        if first.is_row {
            return Some(first);
        }
        // One row is less than several; the clustered index needs no second look.
        Some(templates.find(|template| template.is_row).unwrap_or(first))
    }

    fn over(table: &Table, number: usize, alternatives: &[Vec<Condition>]) -> Option<Self> {
        let index = &table.indexes[number];
        let parts = alternatives.iter();
        let parts = parts.map(|conditions| Part::over(table, number, conditions));
        let parts = parts.collect::<Option<Vec<_>>>()?;
        let is_row =
            index.unique && matches!(&parts[..], [only] if only.equal.len() == index.key_columns);
        Some(Self {
            index: number,
            parts,
            is_row,
        })
    }

    /// Columns that have one value in all parts.
    pub(super) fn is_equal(&self, column: u16) -> bool {
        matches!(&self.parts[..], [only] if only.is_equal(column))
    }

    /// The values of the key's columns, encoded, if there is one part and they are compared for equality;
    /// as [`KeyTemplate::spans`].
    pub(super) fn bytes(&self, parameters: &[Datum]) -> Option<Vec<u8>> {
        match &self.parts[..] {
            [only] => only.bytes(parameters),
            _ => None,
        }
    }

    /// The parts of the index, for these parameters; `None` if a value is of another kind than its
    /// column, or NULL.
    pub(super) fn spans(&self, parameters: &[Datum]) -> Option<KeySpans> {
        let spans = self.parts.iter().map(|part| part.span(parameters));
        spans.collect::<Option<Vec<_>>>().map(KeySpans::union)
    }
}

impl Part {
    fn over(table: &Table, number: usize, conditions: &[Condition]) -> Option<Self> {
        let index = &table.indexes[number];
        let mut part = Self::default();
        let mut taken = 0;
        for position in &index.layout.key[..index.key_columns] {
            let column = index.columns[usize::from(*position)];
            let def = table.def.columns.get(usize::from(column))?;
            let key_column = KeyColumn {
                column,
                ty: def.ty,
                nullable: def.nullable,
            };
            let own = conditions.iter().filter(|c| c.column == column);
            let mut count = 0;
            for condition in own {
                taken += 1;
                count += 1;
                part.add(key_column, condition)?;
            }
            match (count, part.is_equal(column)) {
                (0, _) | (_, false) => break,
                (1, true) => {}
                // Equal to two values, or bounded besides.
                _ => return None,
            }
        }
        (taken == conditions.len() && taken > 0).then_some(part)
    }

    fn add(&mut self, column: KeyColumn, condition: &Condition) -> Option<()> {
        let operand = condition.operand.clone();
        match condition.op {
            Comparison::Equal if self.ranged.is_none() && is_comparable(column.ty) => {
                self.equal.push((column, operand));
                return Some(());
            }
            Comparison::Above(strict) if self.lower.is_none() => {
                self.lower = Some((operand, strict));
            }
            Comparison::Below(strict) if self.upper.is_none() => {
                self.upper = Some((operand, strict));
            }
            _ => return None,
        }
        self.ranged = Some(column);
        is_integer(column.ty).then_some(())
    }

    fn is_equal(&self, column: u16) -> bool {
        self.equal.iter().any(|(equal, _)| equal.column == column)
    }

    fn bytes(&self, parameters: &[Datum]) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(16);
        for (column, operand) in &self.equal {
            column.encode(operand.value(parameters)?, &mut bytes)?;
        }
        Some(bytes)
    }

    fn span(&self, parameters: &[Datum]) -> Option<KeySpan> {
        let prefix = self.bytes(parameters)?;
        let Some(column) = self.ranged else {
            return Some(KeySpan::prefix(&prefix));
        };
        let bound = |operand: &Operand| {
            let mut bytes = prefix.clone();
            column.encode(operand.value(parameters)?, &mut bytes)?;
            Some(bytes)
        };
        let (mut lower, mut upper) = (prefix.clone(), prefix.clone());
        let (mut lower_strict, mut upper_strict) = (false, false);
        if let Some((operand, strict)) = &self.lower {
            (lower, lower_strict) = (bound(operand)?, *strict);
        } else if column.nullable {
            // NULL comes first and is not below anything.
            key::encode_part(column.ty, true, ValueRef::Null, &mut lower).ok()?;
            lower_strict = true;
        }
        if let Some((operand, strict)) = &self.upper {
            (upper, upper_strict) = (bound(operand)?, *strict);
        }
        Some(KeySpan::from_bounds(
            edge(&lower, lower_strict),
            edge(&upper, upper_strict),
        ))
    }
}

fn edge(prefix: &[u8], strict: bool) -> Bound<&[u8]> {
    match (prefix.is_empty(), strict) {
        (true, _) => Bound::Unbounded,
        (false, true) => Bound::Excluded(prefix),
        (false, false) => Bound::Included(prefix),
    }
}

impl KeyColumn {
    fn encode(self, value: ValueRef<'_>, out: &mut Vec<u8>) -> Option<()> {
        let value = match (self.ty, value) {
            (ty, ValueRef::Int(v)) if is_integer(ty) && ty.is_unsigned() => {
                ValueRef::UInt(u64::try_from(v).ok()?)
            }
            (
                ColumnType::Int {
                    unsigned: false, ..
                },
                ValueRef::UInt(v),
            ) => ValueRef::Int(i64::try_from(v).ok()?),
            (ty, ValueRef::Int(_) | ValueRef::UInt(_)) if is_integer(ty) => value,
            (ty, ValueRef::String(_)) if ty.is_string() => value,
            _ => return None,
        };
        key::encode_part(self.ty, self.nullable, value, out).ok()
    }
}

/// True for columns that integers are compared with as they are.
fn is_integer(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Int { .. } | ColumnType::Bit { .. })
}

/// True for columns whose values can be compared for equality by their keys.
fn is_comparable(ty: ColumnType) -> bool {
    is_integer(ty)
        || (matches!(ty, ColumnType::Char { .. } | ColumnType::Varchar { .. })
            && ty.collation().is_some_and(Collation::is_text))
}

/// Reads conditions from a WHERE.
struct Conditions<'a> {
    names: &'a Names<'a>,
    parameters: &'a Parameters,
}

impl Conditions<'_> {
    /// The alternatives of a condition, each a conjunction; `None` if it has others, or too many.
    fn alternatives(&self, expr: &Expr) -> Option<Vec<Vec<Condition>>> {
        match expr {
            Expr::Nested(inner) => self.alternatives(inner),
            Expr::BinaryOp {
                op: BinaryOperator::And,
                ..
            } => {
                let mut all = vec![Vec::new()];
                for part in spine(expr, &BinaryOperator::And)? {
                    let of_part = self.alternatives(part)?;
                    if all.len() * of_part.len() > MOST_ALTERNATIVES {
                        return None;
                    }
                    let with = |one: &Vec<Condition>| -> Vec<Vec<Condition>> {
                        let both = of_part.iter().map(|other| [&one[..], other].concat());
                        both.collect()
                    };
                    all = all.iter().flat_map(with).collect();
                }
                Some(all)
            }
            Expr::BinaryOp {
                op: BinaryOperator::Or,
                ..
            } => {
                let mut all = Vec::new();
                for part in spine(expr, &BinaryOperator::Or)? {
                    all.extend(self.alternatives(part)?);
                }
                (all.len() <= MOST_ALTERNATIVES).then_some(all)
            }
            Expr::InList {
                expr,
                list,
                negated: false,
            } if list.len() <= MOST_ALTERNATIVES => {
                let column = self.names.column(expr)?;
                let equal = |item| Some(vec![self.condition(column, Comparison::Equal, item)?]);
                list.iter().map(equal).collect()
            }
            Expr::BinaryOp { left, op, right } => {
                let op = match op {
                    BinaryOperator::Eq => Comparison::Equal,
                    BinaryOperator::Gt => Comparison::Above(true),
                    BinaryOperator::GtEq => Comparison::Above(false),
                    BinaryOperator::Lt => Comparison::Below(true),
                    BinaryOperator::LtEq => Comparison::Below(false),
                    _ => return None,
                };
                let condition = match (self.names.column(left), self.names.column(right)) {
                    (Some(column), None) => self.condition(column, op, right),
                    (None, Some(column)) => self.condition(column, op.turned(), left),
                    _ => None,
                };
                Some(vec![vec![condition?]])
            }
            Expr::Between {
                expr,
                negated: false,
                low,
                high,
            } => {
                let column = self.names.column(expr)?;
                Some(vec![vec![
                    self.condition(column, Comparison::Above(false), low)?,
                    self.condition(column, Comparison::Below(false), high)?,
                ]])
            }
            _ => None,
        }
    }

    fn condition(&self, column: u16, op: Comparison, operand: &Expr) -> Option<Condition> {
        Some(Condition {
            column,
            op,
            operand: self.parameters.operand(operand)?,
        })
    }
}

/// The operands of a chain of one operator, from left to right; `None` if they are too many.
fn spine<'e>(expr: &'e Expr, of: &BinaryOperator) -> Option<Vec<&'e Expr>> {
    let mut operands = Vec::new();
    let mut left = expr;
    while let Expr::BinaryOp {
        left: next,
        op,
        right,
    } = left
        && op == of
    {
        operands.push(right.as_ref());
        left = next;
        if operands.len() > MOST_ALTERNATIVES {
            return None;
        }
    }
    operands.push(left);
    operands.reverse();
    Some(operands)
}

impl Comparison {
    /// The comparison with its sides exchanged.
    fn turned(self) -> Self {
        match self {
            Self::Equal => Self::Equal,
            Self::Above(strict) => Self::Below(strict),
            Self::Below(strict) => Self::Above(strict),
        }
    }
}
