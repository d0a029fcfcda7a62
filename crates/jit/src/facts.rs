//! What is known of each node before code is made: type, whether it can be NULL or an error, and
//! the range of its numbers.

use perigee_expr::{Arithmetic, Comparison, DateField, Node, NodeId, Program, Type};
use perigee_value::date::DAY_MICROS;
use perigee_value::{Datum, RowLayout};

use crate::JitError;
use crate::access::ColumnAccess;
use crate::interval::Interval;

/// Facts of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fact {
    pub ty: Type,
    /// May be NULL.
    pub nullable: bool,
    /// Evaluation may be an error, here or in an operand.
    pub fails: bool,
    /// Range of the value if it is an integer, a decimal (in units) or a date.
    pub range: Interval,
}

impl Fact {
    /// True if the value is a number in a 64-bit register; wider ones take 128 bits.
    pub(crate) fn is_narrow(&self) -> bool {
        self.ty == Type::UInt || self.range.fits_i64()
    }
}

/// Facts of all nodes and the columns that they read.
pub(crate) struct Facts {
    nodes: Vec<Fact>,
    /// Access of each column node, by node.
    columns: Vec<Option<ColumnAccess>>,
    /// First node that reads the same column, else the node itself.
    canonical: Vec<NodeId>,
}

impl Facts {
    /// Facts of a validated program.
    pub(crate) fn new(program: &Program, layout: &RowLayout) -> Result<Self, JitError> {
        let mut facts = Self {
            nodes: Vec::new(),
            columns: Vec::new(),
            canonical: Vec::new(),
        };
        for ((id, node), ty) in program.nodes.iter().enumerate().zip(program.types()) {
            let access = match node {
                Node::Column { index, .. } => Some(ColumnAccess::new(layout, *index)?),
                _ => None,
            };
            let fact = facts.fact(node, ty, access.as_ref());
            let twin = access.and_then(|a| facts.columns.iter().position(|c| *c == Some(a)));
            facts.canonical.push(NodeId(twin.unwrap_or(id) as u16));
            facts.columns.push(access);
            facts.nodes.push(fact);
        }
        Ok(facts)
    }

    pub(crate) fn of(&self, node: NodeId) -> &Fact {
        &self.nodes[usize::from(node.0)]
    }

    /// Access of a column node.
    pub(crate) fn column(&self, node: NodeId) -> &ColumnAccess {
        self.columns[usize::from(node.0)]
            .as_ref()
            .expect("only column nodes are asked for")
    }

    /// The node that stands for all that have the same value.
    pub(crate) fn canonical(&self, node: NodeId) -> NodeId {
        self.canonical[usize::from(node.0)]
    }

    fn fact(&self, node: &Node, ty: Type, access: Option<&ColumnAccess>) -> Fact {
        let mut own = Fact {
            ty,
            nullable: false,
            fails: false,
            range: Interval::exactly(0),
        };
        node.for_each_operand(|operand| {
            own.nullable |= self.of(operand).nullable;
            own.fails |= self.of(operand).fails;
        });
        let range = Interval::of_type(own.ty);
        match node {
            Node::Column { .. } => {
                let access = access.expect("columns have an access");
                Fact {
                    nullable: access.null.is_some(),
                    range: access.range,
                    ..own
                }
            }
            Node::Constant { value, .. } => {
                let range = integer(value).map_or(range, Interval::exactly);
                Fact {
                    nullable: *value == Datum::Null,
                    range,
                    ..own
                }
            }
            Node::Compare {
                op: Comparison::NullSafeEqual,
                ..
            }
            | Node::IsNull(_) => Fact {
                nullable: false,
                range,
                ..own
            },
            Node::Compare { .. } | Node::And(_) | Node::Or(_) | Node::Not(_) => {
                Fact { range, ..own }
            }
            Node::In { has_null, .. } => Fact {
                nullable: own.nullable || *has_null,
                range,
                ..own
            },
            Node::Like { .. } | Node::Substring { .. } => Fact { range, ..own },
            Node::Arithmetic {
                op, left, right, ..
            } => self.arithmetic(*op, *left, *right, own),
            Node::Negate(_) if own.ty == Type::Double => own,
            Node::Negate(operand) => {
                let exact = self.of(*operand).range.negate();
                own.narrowed(exact)
            }
            Node::Cast { operand, .. } => self.cast(*operand, own),
            Node::Extract { field, .. } => Fact {
                range: field_range(*field),
                ..own
            },
            Node::Case {
                branches,
                otherwise,
                ..
            } => self.case(branches, *otherwise, own),
        }
    }

    fn arithmetic(&self, op: Arithmetic, left: NodeId, right: NodeId, own: Fact) -> Fact {
        let (a, b) = (self.of(left).range, self.of(right).range);
        match op {
            Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply
                if own.ty == Type::Double =>
            {
                Fact { fails: true, ..own }
            }
            Arithmetic::Add => own.narrowed(a.add(b)),
            Arithmetic::Subtract => own.narrowed(a.subtract(b)),
            Arithmetic::Multiply => own.narrowed(a.multiply(b)),
            Arithmetic::Divide | Arithmetic::IntDivide | Arithmetic::Modulo => Fact {
                nullable: true,
                fails: true,
                range: Interval::of_type(own.ty),
                ..own
            },
        }
    }

    fn cast(&self, operand: NodeId, own: Fact) -> Fact {
        let from = self.of(operand);
        let exact = match (from.ty, own.ty) {
            (from, to) if from.is_string() || to.is_string() => return own,
            (Type::Double, Type::Double) => None,
            (_, Type::Double) => return own,
            (Type::Double, _) => None,
            (Type::Date, Type::DateTime) => from
                .range
                .multiply(Interval::exactly(i128::from(DAY_MICROS))),
            (from_ty, to_ty) => rescaled(from.range, from_ty.scale(), to_ty.scale()),
        };
        own.narrowed(exact)
    }

    fn case(&self, branches: &[(NodeId, NodeId)], otherwise: Option<NodeId>, own: Fact) -> Fact {
        let values = branches.iter().map(|(_, value)| *value).chain(otherwise);
        let mut nullable = otherwise.is_none();
        let mut range: Option<Interval> = None;
        for value in values {
            let fact = self.of(value);
            nullable |= fact.nullable;
            range = Some(range.map_or(fact.range, |r| r.hull(fact.range)));
        }
        Fact {
            nullable,
            range: range.unwrap_or(Interval::of_type(own.ty)),
            ..own
        }
    }
}

impl Fact {
    /// The fact of an operation whose exact result lies in `exact` (`None`: beyond 128 bits or
    /// not known) and that is an error outside its type.
    fn narrowed(self, exact: Option<Interval>) -> Fact {
        let all = Interval::of_type(self.ty);
        match exact {
            Some(exact) if exact.is_within(all) => Fact {
                range: exact,
                ..self
            },
            Some(exact) => Fact {
                range: exact.intersect(all),
                fails: true,
                ..self
            },
            None => Fact {
                range: all,
                fails: true,
                ..self
            },
        }
    }
}

fn rescaled(range: Interval, from: u8, to: u8) -> Option<Interval> {
    if to >= from {
        range.multiply(Interval::exactly(10_i128.pow(u32::from(to - from))))
    } else {
        Some(range.divide(10_i128.pow(u32::from(from - to))))
    }
}

fn field_range(field: DateField) -> Interval {
    let high = match field {
        DateField::Year => 9999,
        DateField::Quarter => 4,
        DateField::Month => 12,
        DateField::Day => 31,
        DateField::Hour => 23,
        DateField::Minute | DateField::Second => 59,
    };
    Interval { low: 0, high }
}

/// The integer that a constant is in a register, if it is one.
pub(crate) fn integer(value: &Datum) -> Option<i128> {
    Some(match value {
        Datum::Int(v) | Datum::DateTime(v) | Datum::Time(v) => i128::from(*v),
        Datum::UInt(v) => i128::from(*v),
        Datum::Decimal(v) => *v,
        Datum::Date(v) => i128::from(*v),
        Datum::Bool(v) => i128::from(*v),
        Datum::Null | Datum::Wide(_) | Datum::Double(_) | Datum::String(_) | Datum::Overflow(_) => {
            return None;
        }
    })
}
