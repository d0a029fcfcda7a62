//! Programs as text: a dump of the nodes, MySQL-like text for EXPLAIN, and SQL that a MySQL server
//! evaluates to the same value.

use std::fmt::Write;

use perigee_value::{ColumnType, Datum, date, format_double, format_value, time};

use crate::{Arithmetic, Comparison, DateField, Node, NodeId, Program, Type};

/// Length at which a text for people ends: nodes that are used more than once are written each
/// time, so that the text could grow without bound.
const MAX_DISPLAY: usize = 4096;

/// Constants of an IN list that a text for people shows.
const SHOWN_IN_LIST: usize = 16;

/// Whom the text is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// People: short.
    Explain,
    /// A MySQL server: exact types.
    Sql,
}

impl Program {
    /// One line per node: `%2 = greater %0 %1`.
    #[must_use]
    pub fn dump(&self) -> String {
        let mut out = String::new();
        for (index, node) in self.nodes.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "%{index} = {}", dump_node(node));
        }
        out
    }

    /// The program as EXPLAIN shows it, in MySQL's style: `((t.a >= DATE'1994-01-01') and ...)`.
    /// `names[i]` is the name of column `i`.
    #[must_use]
    pub fn display<S: AsRef<str>>(&self, names: &[S]) -> String {
        self.render(names, Style::Explain)
    }

    /// SQL whose value on a MySQL server in strict mode is the program's value. Casts that fail
    /// here (out of range) give a warning there.
    #[must_use]
    pub fn to_sql<S: AsRef<str>>(&self, names: &[S]) -> String {
        self.render(names, Style::Sql)
    }

    fn render<S: AsRef<str>>(&self, names: &[S], style: Style) -> String {
        let mut renderer = Renderer {
            program: self,
            names,
            style,
            out: String::new(),
        };
        renderer.node(self.root());
        renderer.out
    }
}

fn dump_node(node: &Node) -> String {
    let ids = |ids: &[NodeId]| {
        ids.iter()
            .map(|id| format!(" %{}", id.0))
            .collect::<String>()
    };
    match node {
        Node::Column { index, ty } => format!("column {index} {ty}"),
        Node::Constant { value, ty } => format!("constant {} {ty}", constant_text(value, *ty)),
        Node::Compare { op, left, right } => {
            format!("{op:?}{}", ids(&[*left, *right])).to_lowercase()
        }
        Node::And(operands) => format!("and{}", ids(operands)),
        Node::Or(operands) => format!("or{}", ids(operands)),
        Node::Not(operand) => format!("not %{}", operand.0),
        Node::IsNull(operand) => format!("isnull %{}", operand.0),
        Node::Arithmetic {
            op,
            left,
            right,
            ty,
        } => {
            format!(
                "{} {ty}",
                format!("{op:?}{}", ids(&[*left, *right])).to_lowercase()
            )
        }
        Node::Negate(operand) => format!("negate %{}", operand.0),
        Node::Cast { operand, ty } => format!("cast %{} {ty}", operand.0),
        Node::In {
            operand,
            list,
            has_null,
        } => {
            let null = if *has_null { " or null" } else { "" };
            format!("in %{} {} constants{null}", operand.0, list.len())
        }
        Node::Like {
            operand,
            pattern,
            escape,
        } => {
            format!("like %{} {pattern:?} escape {escape:?}", operand.0)
        }
        Node::Extract { field, operand } => {
            format!("extract {} %{}", field_name(*field), operand.0)
        }
        Node::Substring {
            operand,
            start,
            length,
        } => {
            let length = length
                .map(|length| format!(" {length}"))
                .unwrap_or_default();
            format!("substring %{} {start}{length}", operand.0)
        }
        Node::Case {
            branches,
            otherwise,
            ty,
        } => {
            let mut text = "case".to_owned();
            for (condition, value) in branches {
                let _ = write!(text, " %{}:%{}", condition.0, value.0);
            }
            let otherwise = otherwise
                .map(|id| format!(" else %{}", id.0))
                .unwrap_or_default();
            format!("{text}{otherwise} {ty}")
        }
    }
}

struct Renderer<'a, S> {
    program: &'a Program,
    names: &'a [S],
    style: Style,
    out: String,
}

impl<S: AsRef<str>> Renderer<'_, S> {
    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Writes parts in parentheses.
    fn group(&mut self, parts: impl FnOnce(&mut Self)) {
        self.text("(");
        parts(self);
        self.text(")");
    }

    fn binary(&mut self, left: NodeId, operator: &str, right: NodeId) {
        self.group(|r| {
            r.node(left);
            let _ = write!(r.out, " {operator} ");
            r.node(right);
        });
    }

    /// A quotient or remainder of decimals. There it can be a negative zero, which is not equal to
    /// zero.
    fn plus_zero(&mut self, left: NodeId, operator: &str, right: NodeId) {
        self.group(|r| {
            r.binary(left, operator, right);
            r.text(" + 0");
        });
    }

    fn node(&mut self, id: NodeId) {
        if self.style == Style::Explain && self.out.len() > MAX_DISPLAY {
            self.text("...");
            return;
        }
        let program = self.program;
        match program.node(id) {
            Node::Column { index, .. } => match self.names.get(usize::from(*index)) {
                Some(name) => self.out.push_str(name.as_ref()),
                None => {
                    let _ = write!(self.out, "#{index}");
                }
            },
            Node::Constant { value, ty } => self.constant(value, *ty),
            Node::Compare { op, left, right } => self.binary(*left, comparison(*op), *right),
            Node::And(operands) => self.junction(operands, " and "),
            Node::Or(operands) => self.junction(operands, " or "),
            Node::Not(operand) => self.not(*operand),
            Node::IsNull(operand) => self.group(|r| {
                r.node(*operand);
                r.text(" is null");
            }),
            Node::Arithmetic {
                op: Arithmetic::Divide,
                left,
                right,
                ty,
            } if self.style == Style::Sql && *ty != Type::Double => {
                // Inside an expression MySQL keeps more digits than its result shows.
                self.text("cast(");
                self.plus_zero(*left, "/", *right);
                let _ = write!(self.out, " as {})", cast_name(*ty));
            }
            Node::Arithmetic {
                op: Arithmetic::Modulo,
                left,
                right,
                ty: Type::Decimal { .. },
            } if self.style == Style::Sql => {
                self.plus_zero(*left, "%", *right);
            }
            Node::Arithmetic {
                op, left, right, ..
            } => {
                self.binary(*left, arithmetic(*op), *right);
            }
            Node::Negate(operand) => self.group(|r| {
                r.text("-");
                r.group(|r| r.node(*operand));
            }),
            Node::Cast { operand, ty } if ty.is_string() => {
                self.group(|r| {
                    r.node(*operand);
                    r.collate(*ty);
                });
            }
            Node::Cast { operand, ty } => {
                self.text("cast(");
                self.node(*operand);
                let _ = write!(self.out, " as {})", cast_name(*ty));
            }
            Node::In {
                operand,
                list,
                has_null,
            } => self.in_list(*operand, list, *has_null, false),
            Node::Like {
                operand,
                pattern,
                escape,
            } => {
                self.like(*operand, pattern, *escape, false);
            }
            Node::Extract { field, operand } => {
                let _ = write!(self.out, "extract({} from ", field_name(*field));
                self.node(*operand);
                self.text(")");
            }
            Node::Substring {
                operand,
                start,
                length,
            } => {
                self.text("substr(");
                self.node(*operand);
                let _ = write!(self.out, ",{start}");
                if let Some(length) = length {
                    let _ = write!(self.out, ",{length}");
                }
                self.text(")");
            }
            Node::Case {
                branches,
                otherwise,
                ..
            } => self.case(branches, *otherwise),
        }
    }

    fn junction(&mut self, operands: &[NodeId], operator: &str) {
        self.group(|r| {
            for (index, operand) in operands.iter().enumerate() {
                r.text(if index > 0 { operator } else { "" });
                r.node(*operand);
            }
        });
    }

    fn not(&mut self, operand: NodeId) {
        let program = self.program;
        match program.node(operand) {
            Node::IsNull(inner) => self.group(|r| {
                r.node(*inner);
                r.text(" is not null");
            }),
            Node::In {
                operand,
                list,
                has_null,
            } => self.in_list(*operand, list, *has_null, true),
            Node::Like {
                operand,
                pattern,
                escape,
            } => self.like(*operand, pattern, *escape, true),
            _ => self.group(|r| {
                r.text("not ");
                r.node(operand);
            }),
        }
    }

    fn in_list(&mut self, operand: NodeId, list: &[Datum], has_null: bool, negated: bool) {
        let ty = self.program.types()[usize::from(operand.0)];
        let shown = if self.style == Style::Sql {
            list.len()
        } else {
            SHOWN_IN_LIST
        };
        self.group(|r| {
            r.node(operand);
            r.text(if negated { " not in (" } else { " in (" });
            for (index, value) in list.iter().take(shown).enumerate() {
                r.text(if index > 0 { "," } else { "" });
                r.constant(value, ty);
            }
            if list.len() > shown {
                let _ = write!(r.out, ",... {} more", list.len() - shown);
            }
            r.text(if has_null { ",NULL)" } else { ")" });
        });
    }

    fn like(&mut self, operand: NodeId, pattern: &str, escape: char, negated: bool) {
        let ty = self.program.types()[usize::from(operand.0)];
        self.group(|r| {
            r.node(operand);
            r.text(if negated { " not like " } else { " like " });
            r.string(pattern.as_bytes(), ty);
            if r.style == Style::Sql || escape != '\\' {
                r.text(" escape ");
                r.text(&quote(escape.to_string().as_bytes()));
            }
        });
    }

    fn case(&mut self, branches: &[(NodeId, NodeId)], otherwise: Option<NodeId>) {
        self.group(|r| {
            r.text("case");
            for (condition, value) in branches {
                r.text(" when ");
                r.node(*condition);
                r.text(" then ");
                r.node(*value);
            }
            if let Some(value) = otherwise {
                r.text(" else ");
                r.node(value);
            }
            r.text(" end");
        });
    }

    fn constant(&mut self, value: &Datum, ty: Type) {
        if self.style == Style::Explain {
            let text = constant_text(value, ty);
            return self.text(&text);
        }
        match (value, ty) {
            (Datum::Null, Type::Bool) => self.text("NULL"),
            (Datum::Null, ty) => self.group(|r| {
                let _ = write!(r.out, "cast(NULL as {})", cast_name(ty));
                r.collate(ty);
            }),
            (Datum::Int(i64::MIN), _) => {
                let _ = write!(self.out, "cast('{}' as signed)", i64::MIN);
            }
            (Datum::UInt(v), _) => {
                let _ = write!(self.out, "cast({v} as unsigned)");
            }
            (Datum::Double(v), _) => {
                let _ = write!(self.out, "({v:e})");
            }
            (Datum::String(v), _) => self.string(v, ty),
            _ => {
                let mut text = constant_text(value, ty);
                if matches!(ty, Type::Decimal { scale: 0, .. }) {
                    // Without the point it would be an integer.
                    text.push('.');
                }
                self.group(|r| r.text(&text));
            }
        }
    }

    /// The collation of a string.
    fn collate(&mut self, ty: Type) {
        if let Some(collation) = ty.collation() {
            let _ = write!(self.out, " collate {}", collation.name());
        }
    }

    fn string(&mut self, text: &[u8], ty: Type) {
        if self.style == Style::Explain {
            let quoted = quote(text);
            return self.text(&quoted);
        }
        // The collation of a bare literal would be the server's default.
        self.group(|r| {
            r.text("_utf8mb4 X'");
            for byte in text {
                let _ = write!(r.out, "{byte:02x}");
            }
            r.text("'");
            r.collate(ty);
        });
    }
}

/// A constant as people read it.
fn constant_text(value: &Datum, ty: Type) -> String {
    let mut text = String::new();
    match value {
        Datum::Null => text.push_str("NULL"),
        Datum::Bool(v) => text.push_str(if *v { "true" } else { "false" }),
        Datum::Decimal(_) => {
            let column = ColumnType::Decimal {
                precision: 38,
                scale: ty.scale(),
            };
            format_value(column, value.as_ref(), &mut text);
        }
        Datum::Double(v) => format_double(*v, &mut text),
        Datum::Date(_) => {
            text.push_str("DATE'");
            format_value(ColumnType::Date, value.as_ref(), &mut text);
            text.push('\'');
        }
        Datum::Time(v) => {
            text.push_str("TIME'");
            time::format_time(*v, if v % 1_000_000 == 0 { 0 } else { 6 }, &mut text);
            text.push('\'');
        }
        Datum::DateTime(v) => {
            text.push_str("TIMESTAMP'");
            date::format_micros(*v, if v % 1_000_000 == 0 { 0 } else { 6 }, &mut text);
            text.push('\'');
        }
        Datum::String(v) => text = quote(v),
        Datum::Int(_) | Datum::UInt(_) | Datum::Wide(_) | Datum::Overflow(_) => {
            format_value(ColumnType::Double, value.as_ref(), &mut text)
        }
    }
    text
}

/// A string literal, quotes and backslashes doubled.
fn quote(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text)
        .replace('\\', "\\\\")
        .replace('\'', "''");
    format!("'{text}'")
}

fn comparison(op: Comparison) -> &'static str {
    match op {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
        Comparison::NullSafeEqual => "<=>",
    }
}

fn arithmetic(op: Arithmetic) -> &'static str {
    match op {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::IntDivide => "DIV",
        Arithmetic::Modulo => "%",
    }
}

fn field_name(field: DateField) -> &'static str {
    match field {
        DateField::Year => "year",
        DateField::Quarter => "quarter",
        DateField::Month => "month",
        DateField::Day => "day",
        DateField::Hour => "hour",
        DateField::Minute => "minute",
        DateField::Second => "second",
    }
}

/// The type as CAST names it.
fn cast_name(ty: Type) -> String {
    match ty {
        Type::Bool | Type::Int => "signed".into(),
        Type::UInt => "unsigned".into(),
        Type::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        Type::Double => "double".into(),
        Type::Date => "date".into(),
        Type::DateTime => "datetime(6)".into(),
        Type::Time => "time(6)".into(),
        Type::String | Type::Collated(_) => "char".into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::Builder;

    #[test]
    fn texts_of_a_predicate() {
        let mut b = Builder::over_values(&[Type::Date, Type::Int, Type::String]);
        let (day, number, text) = (
            b.column(0).unwrap(),
            b.column(1).unwrap(),
            b.column(2).unwrap(),
        );
        let low = b.date(8766).unwrap();
        let ge = b.compare(Comparison::GreaterOrEqual, day, low).unwrap();
        let is_in = b.in_list(
            number,
            &[(Datum::Int(3), Type::Int), (Datum::Int(1), Type::Int)],
        );
        let like = b.like(text, "it's%", '\\').unwrap();
        let not = b.not(like).unwrap();
        let and = b.and(vec![ge, is_in.unwrap(), not]).unwrap();
        let program = b.finish(and).unwrap();
        assert_eq!(
            program.display(&["t.day", "t.n", "t.s"]),
            "((t.day >= DATE'1994-01-01') and (t.n in (1,3)) and (t.s not like 'it''s%'))"
        );
        assert_eq!(
            program.dump(),
            "%0 = column 0 DATE\n%1 = column 1 BIGINT\n%2 = column 2 VARCHAR\n\
             %3 = constant DATE'1994-01-01' DATE\n%4 = greaterorequal %0 %3\n\
             %5 = in %1 2 constants\n%6 = like %2 \"it's%\" escape '\\\\'\n%7 = not %6\n\
             %8 = and %4 %5 %7\n"
        );
        assert_eq!(
            program.to_sql(&["d", "n", "s"]),
            "((d >= (DATE'1994-01-01')) and (n in ((1),(3))) and \
             (s not like (_utf8mb4 X'6974277325' collate utf8mb4_bin) \
             escape '\\\\'))"
        );
    }

    #[test]
    fn shared_nodes_do_not_explode() {
        let mut b = Builder::over_values(&[Type::Double]);
        let mut node = b.column(0).unwrap();
        for _ in 0..200 {
            node = b.arithmetic(Arithmetic::Add, node, node).unwrap();
        }
        let text = b.finish(node).unwrap().display(&["x"]);
        assert!(text.len() < 2 * MAX_DISPLAY, "{}", text.len());
    }
}
