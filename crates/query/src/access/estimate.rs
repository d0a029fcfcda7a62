//! How many rows a predicate lets through, from statistics: the filter factor (taurus-ndp section
//! V.B.1). Estimates only steer choices; no answer depends on them.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use perigee_engine::catalog::TableStats;
use perigee_value::Datum;

use super::convert::constant;
use crate::functions::collation::{Collated, PAD};

/// Share of rows for conditions nothing is known about.
pub(super) const UNKNOWN: f64 = 0.33;

/// Share of rows that match a LIKE pattern, or what follows its first characters.
const LIKE: f64 = 0.1;

/// Share of rows that two columns are equal in, or anything else that is no column and a constant.
const EQUAL: f64 = 0.1;

/// Escape character of LIKE without ESCAPE.
const ESCAPE: char = '\\';

/// Share of the rows of a table for which `expr`, over the table's columns, is expected to be true.
#[must_use]
pub fn filter_factor(expr: &Arc<dyn PhysicalExpr>, stats: &TableStats) -> f64 {
    let node: &dyn PhysicalExpr = &**expr;
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::And => {
                let parts: Vec<_> = split_conjunction(expr).into_iter().cloned().collect();
                conjunction_factor(&parts, stats)
            }
            Operator::Or => disjunction_factor(expr, stats),
            _ => comparison(binary, stats),
        };
    }
    if let Some(not) = node.downcast_ref::<NotExpr>() {
        return 1.0 - filter_factor(not.arg(), stats);
    }
    if let Some(in_list) = node.downcast_ref::<InListExpr>() {
        return in_list_factor(in_list, stats);
    }
    if let Some(like) = node.downcast_ref::<LikeExpr>() {
        return like_factor(like, stats);
    }
    if let Some(is_null) = node.downcast_ref::<IsNullExpr>() {
        return null_share(is_null.arg(), stats);
    }
    if let Some(is_not_null) = node.downcast_ref::<IsNotNullExpr>() {
        return 1.0 - null_share(is_not_null.arg(), stats);
    }
    UNKNOWN
}

/// True if statistics tell for which share of the rows `expr` is true: it compares a column of which something is
/// known with constants.
#[must_use]
pub fn is_certain(expr: &Arc<dyn PhysicalExpr>, stats: &TableStats) -> bool {
    let node: &dyn PhysicalExpr = &**expr;
    let is_known = |expr| column(expr).is_some_and(|column| stats.columns.len() > column);
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::And | Operator::Or => {
                is_certain(binary.left(), stats) && is_certain(binary.right(), stats)
            }
            Operator::Eq | Operator::NotEq => {
                column_against_constant(binary).is_some_and(|(c, ..)| stats.columns.len() > c)
            }
            _ => column_against_constant(binary).is_some_and(|(column, _, value)| {
                let known = stats.columns.get(column);
                known.is_some_and(|known| known.below(&value).is_some())
            }),
        };
    }
    if let Some(not) = node.downcast_ref::<NotExpr>() {
        return is_certain(not.arg(), stats);
    }
    if let Some(in_list) = node.downcast_ref::<InListExpr>() {
        let mut items = in_list.list().iter();
        return is_known(in_list.expr()) && items.all(|item| literal(item).is_some());
    }
    if let Some(like) = node.downcast_ref::<LikeExpr>() {
        return is_prefix(like) && prefix_share(like, stats).is_some();
    }
    if let Some(is_null) = node.downcast_ref::<IsNullExpr>() {
        return is_known(is_null.arg());
    }
    if let Some(is_not_null) = node.downcast_ref::<IsNotNullExpr>() {
        return is_known(is_not_null.arg());
    }
    literal(expr).is_some()
}

/// True if nothing but a string's first characters counts.
fn is_prefix(like: &LikeExpr) -> bool {
    let Some(Datum::String(pattern)) = literal(like.pattern()) else {
        return false;
    };
    let pattern = std::str::from_utf8(&pattern);
    pattern.is_ok_and(|pattern| ["", "%"].contains(&prefix_of(pattern).1))
}

/// Shares of one column each that exclude one another: their sum for each column.
#[derive(Default)]
struct Sums(Vec<(usize, f64)>);

impl Sums {
    fn add(&mut self, column: usize, share: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == column) {
            Some((_, sum)) => *sum += share,
            None => self.0.push((column, share)),
        }
    }
}

/// The share for which one of several conditions is true. Different values of one column exclude one
/// another: short IN lists are planned like that.
fn disjunction_factor(expr: &Arc<dyn PhysicalExpr>, stats: &TableStats) -> f64 {
    let (mut equal, mut none_of) = (Sums::default(), 1.0);
    let mut rest = vec![expr];
    while let Some(part) = rest.pop() {
        if let Some(or) = part.downcast_ref::<BinaryExpr>()
            && *or.op() == Operator::Or
        {
            rest.extend([or.left(), or.right()]);
            continue;
        }
        match against_value(part, Operator::Eq, stats) {
            Some((column, share)) => equal.add(column, share),
            None => none_of *= 1.0 - filter_factor(part, stats),
        }
    }
    let equal = equal
        .0
        .iter()
        .map(|(column, share)| some(*share) * stats.not_null(*column));
    1.0 - equal.fold(none_of, |none_of, share| none_of * (1.0 - share))
}

/// For `column = constant`, or with the other operator given: the column, and the share of its
/// values that are the constant.
fn against_value(
    expr: &Arc<dyn PhysicalExpr>,
    op: Operator,
    stats: &TableStats,
) -> Option<(usize, f64)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let (column, found, value) = column_against_constant(binary)?;
    let known = stats.columns.get(column).filter(|_| found == op)?;
    Some((column, known.equal(&value)))
}

/// Product over a conjunction. A range given by two comparisons of one column counts as a range, and
/// different values that a column is not exclude one another.
#[must_use]
pub fn conjunction_factor(exprs: &[Arc<dyn PhysicalExpr>], stats: &TableStats) -> f64 {
    let mut factor = 1.0;
    let mut ranges: Vec<(usize, f64, f64)> = Vec::new(); // column, share below, share above
    let mut excluded = Sums::default();
    for expr in exprs {
        if let Some((column, share)) = against_value(expr, Operator::NotEq, stats) {
            excluded.add(column, share);
            continue;
        }
        match one_sided(expr, stats) {
            Some((column, below, above)) => match ranges.iter_mut().find(|(c, ..)| *c == column) {
                Some((_, b, a)) => (*b, *a) = (b.max(below), a.max(above)),
                None => ranges.push((column, below, above)),
            },
            None => factor *= filter_factor(expr, stats),
        }
    }
    let ranges = ranges
        .iter()
        .map(|(column, below, above)| (column, 1.0 - below - above));
    let others = excluded
        .0
        .iter()
        .map(|(column, share)| (column, 1.0 - share));
    ranges.chain(others).fold(factor, |f, (column, share)| {
        f * some(share) * stats.not_null(*column)
    })
}

/// A share that is not nothing: what statistics do not know of may have come since.
fn some(share: f64) -> f64 {
    share.clamp(1e-6, 1.0)
}

/// For `column < constant` and its like: the column, and the shares of its values cut off at either
/// end.
fn one_sided(expr: &Arc<dyn PhysicalExpr>, stats: &TableStats) -> Option<(usize, f64, f64)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let (column, op, value) = column_against_constant(binary)?;
    let known = stats.columns.get(column)?;
    let below = known.below(&value)?;
    let up_to = (below + known.equal(&value)).min(1.0);
    match op {
        Operator::Lt => Some((column, 0.0, 1.0 - below)),
        Operator::LtEq => Some((column, 0.0, 1.0 - up_to)),
        Operator::Gt => Some((column, up_to, 0.0)),
        Operator::GtEq => Some((column, below, 0.0)),
        _ => None,
    }
}

fn comparison(binary: &BinaryExpr, stats: &TableStats) -> f64 {
    let Some((column, op, value)) = column_against_constant(binary) else {
        return match binary.op() {
            Operator::Eq => EQUAL,
            Operator::NotEq => 1.0 - EQUAL,
            _ => UNKNOWN,
        };
    };
    let Some(known) = stats.columns.get(column) else {
        return UNKNOWN;
    };
    let equal = known.equal(&value);
    let share = match op {
        Operator::Eq => equal,
        Operator::NotEq => 1.0 - equal,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
            let Some(below) = known.below(&value) else {
                return UNKNOWN;
            };
            match op {
                Operator::Lt => below,
                Operator::LtEq => below + equal,
                Operator::Gt => 1.0 - below - equal,
                _ => 1.0 - below,
            }
        }
        _ => return UNKNOWN,
    };
    some(share) * stats.not_null(column)
}

fn in_list_factor(in_list: &InListExpr, stats: &TableStats) -> f64 {
    let column = column(in_list.expr());
    let known = column.and_then(|c| stats.columns.get(c));
    let one = |item: &Arc<dyn PhysicalExpr>| match (known, literal(item)) {
        (Some(known), Some(value)) => known.equal(&value),
        (Some(known), None) => 1.0 / known.distinct.max(1) as f64,
        (None, _) => UNKNOWN / 10.0,
    };
    let share = some(in_list.list().iter().map(one).sum());
    let share = match in_list.negated() {
        true => 1.0 - share,
        false => share,
    };
    share * column.map_or(1.0, |column| stats.not_null(column))
}

/// A pattern selects the strings that begin with its first characters, up to a wildcard.
fn like_factor(like: &LikeExpr, stats: &TableStats) -> f64 {
    let share = prefix_share(like, stats).unwrap_or(LIKE);
    match like.negated() {
        true => 1.0 - share,
        false => share,
    }
}

fn prefix_share(like: &LikeExpr, stats: &TableStats) -> Option<f64> {
    let column = column(like.expr()).filter(|_| !like.case_insensitive())?;
    let known = stats.columns.get(column)?;
    let Datum::String(pattern) = literal(like.pattern())? else {
        return None;
    };
    let (prefix, rest) = prefix_of(std::str::from_utf8(&pattern).ok()?);
    // Histograms are about forms.
    let function = like.expr().downcast_ref::<ScalarFunctionExpr>();
    let collation = function.and_then(|function| Collated::alike_of(function.fun()));
    let prefix = match collation {
        Some(collation) => collation.form_prefix(prefix.as_bytes()).into_owned(),
        None => prefix.into_bytes(),
    };
    let value = Datum::String(prefix.clone());
    let share = match rest {
        "" => known.equal(&value),
        _ if prefix.is_empty() => return None,
        rest => {
            let after = Datum::String(after_prefix(&prefix)?);
            let share = known.below(&after)? - known.below(&value)?;
            match rest {
                "%" => share,
                _ => share * LIKE,
            }
        }
    };
    Some(some(share) * stats.not_null(column))
}

/// The characters of a pattern before its first wildcard, and what follows them.
pub(super) fn prefix_of(pattern: &str) -> (String, &str) {
    let mut prefix = String::new();
    let mut characters = pattern.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '%' | '_' => return (prefix, &pattern[at..]),
            ESCAPE => prefix.extend(characters.next().map(|(_, escaped)| escaped)),
            c => prefix.push(c),
        }
    }
    (prefix, "")
}

/// The least string behind all that begin with `prefix`.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < 0xff)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

/// Share of an index's entries that have certain values in their leading columns: as many as any other
/// values have, but for what is known of each column: the share of its values that are those, and by how
/// much that is to be multiplied to be 1 on average.
#[must_use]
pub fn equal_share(average: f64, columns: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut share, mut most) = (average, 1.0_f64);
    for (alone, times) in columns {
        share *= alone * times;
        most = most.min(alone);
    }
    share.min(most)
}

fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<Datum> {
    let literal = expr.downcast_ref::<Literal>()?;
    constant(literal.value()).map(|(value, _)| value)
}

/// `column op constant`, turned round if it is written the other way.
#[must_use]
pub fn column_against_constant(binary: &BinaryExpr) -> Option<(usize, Operator, Datum)> {
    if let (Some(column), Some(value)) = (column(binary.left()), literal(binary.right())) {
        return Some((column, *binary.op(), value));
    }
    let (Some(column), Some(value)) = (column(binary.right()), literal(binary.left())) else {
        return None;
    };
    Some((column, binary.op().swap()?, value))
}

/// The column that an expression is, trailing spaces and weights or not.
#[must_use]
pub fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>()
        && (function.name() == PAD || Collated::is(function.fun()))
    {
        return column(&function.args()[0]);
    }
    expr.downcast_ref::<Column>().map(Column::index)
}

fn null_share(expr: &Arc<dyn PhysicalExpr>, stats: &TableStats) -> f64 {
    match column(expr).and_then(|c| stats.columns.get(c)) {
        Some(column) if stats.rows > 0 => column.nulls as f64 / stats.rows as f64,
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use perigee_engine::catalog::{ColumnStats, Histogram};

    use super::*;

    #[test]
    fn patterns_are_cut_at_their_first_wildcard() {
        for (pattern, prefix, rest) in [
            ("abc%", "abc", "%"),
            ("a_c", "a", "_c"),
            ("%c", "", "%c"),
            ("abc", "abc", ""),
            (r"a\%b%c", "a%b", "%c"),
            (r"a\\_", r"a\", "_"),
        ] {
            assert_eq!(prefix_of(pattern), (prefix.to_owned(), rest), "{pattern}");
        }
        assert_eq!(after_prefix(b"abc"), Some(b"abd".to_vec()));
        assert_eq!(after_prefix(&[b'a', 0xff]), Some(b"b".to_vec()));
        assert_eq!(after_prefix(&[0xff]), None);
    }

    #[test]
    fn keys_of_several_columns_are_as_frequent_as_their_values() {
        // 7 in nine of ten rows, 100 other values in the rest.
        let mut sample = vec![Datum::Int(7); 9000];
        sample.extend((0..1000).map(|n| Datum::Int(1000 + n % 100)));
        let column = ColumnStats {
            distinct: 101,
            histogram: Histogram::of(&sample, 101, 64),
            ..ColumnStats::default()
        };
        let stats = TableStats {
            rows: 10_000,
            columns: vec![column.clone(), column],
            leaf_pages: vec![100],
        };
        let average = 1.0 / 10_000.0;
        let share = |values: &[i64]| {
            let values = values.iter().map(|value| Datum::Int(*value)).enumerate();
            let columns = values.map(|(column, value)| {
                let known = &stats.columns[column];
                (some(known.equal(&value)), known.distinct as f64)
            });
            equal_share(average, columns)
        };
        assert!((share(&[7]) - 0.9 * 101.0 * average).abs() < 1e-9);
        assert!(share(&[7, 7]) > 0.8 && share(&[7, 7]) <= 0.9);
        assert!(share(&[1001, 1001]) < average);
        // Nothing is known of any column.
        assert_eq!(equal_share(average, std::iter::empty()), average);
    }
}
