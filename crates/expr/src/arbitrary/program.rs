//! Random programs: nodes are made bottom up for a wanted type, with every operation that gives
//! it, and are shared now and then.

use std::cmp::Ordering;

use perigee_value::{ColumnType, Datum, RowLayout};
use rand::Rng;
use rand::rngs::StdRng;

use super::generator::Options;
use super::values;
use crate::operations::order_of;
use crate::validate::layout_columns;
use crate::{Arithmetic, Comparison, DateField, Node, NodeId, Program, Type};

const COMPARISONS: [Comparison; 7] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
    Comparison::NullSafeEqual,
];

const FIELDS: [DateField; 7] = [
    DateField::Year,
    DateField::Quarter,
    DateField::Month,
    DateField::Day,
    DateField::Hour,
    DateField::Minute,
    DateField::Second,
];

/// Nesting of random programs, well within the limit.
const MAX_DEPTH: usize = 8;

pub(super) struct ProgramGenerator<'a> {
    rng: &'a mut StdRng,
    columns: Vec<(u16, Type)>,
    options: Options,
    nodes: Vec<Node>,
    types: Vec<Type>,
}

impl<'a> ProgramGenerator<'a> {
    pub(super) fn new(rng: &'a mut StdRng, layout: &RowLayout, options: Options) -> Self {
        let usable = layout_columns(layout).into_iter().zip(0..);
        let columns = usable
            .filter_map(|(ty, index)| Some((index, ty?)))
            .collect();
        Self {
            rng,
            columns,
            options,
            nodes: Vec::new(),
            types: Vec::new(),
        }
    }

    pub(super) fn generate(mut self, ty: Type) -> Program {
        let root = self.node(ty, 0);
        // A shared or leaf node may not be the last one.
        if usize::from(root.0) + 1 < self.nodes.len() {
            self.nodes.truncate(usize::from(root.0) + 1);
        }
        Program { nodes: self.nodes }
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.types
            .push(crate::program::node_type(&node, &self.types));
        self.nodes.push(node);
        NodeId((self.nodes.len() - 1) as u16)
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.rng.random_range(0..items.len())]
    }

    fn node(&mut self, ty: Type, depth: usize) -> NodeId {
        if depth > 0 && self.rng.random_bool(0.08) {
            let same: Vec<usize> = (0..self.nodes.len())
                .filter(|index| self.types[*index] == ty)
                .collect();
            if !same.is_empty() {
                return NodeId(self.pick(&same) as u16);
            }
        }
        let full = depth >= MAX_DEPTH || self.nodes.len() >= self.options.nodes;
        if full || self.rng.random_bool(0.1 * depth as f64) {
            return self.leaf(ty);
        }
        match ty {
            Type::Bool => self.truth(depth + 1),
            Type::Int | Type::UInt => self.integer(ty, depth + 1),
            Type::Decimal { precision, scale } => self.decimal(precision, scale, depth + 1),
            Type::Double => self.double(depth + 1),
            Type::DateTime if self.rng.random_bool(0.4) => {
                let operand = self.node(Type::Date, depth + 1);
                self.push(Node::Cast { operand, ty })
            }
            Type::String | Type::Collated(_) if self.rng.random_bool(0.15) => {
                let other = self.other_string(ty);
                let operand = self.node(other, depth + 1);
                self.push(Node::Cast { operand, ty })
            }
            Type::String | Type::Collated(_) if self.rng.random_bool(0.5) => {
                let operand = self.node(ty, depth + 1);
                let start = self.rng.random_range(-6..6);
                let length = self
                    .rng
                    .random_bool(0.7)
                    .then(|| self.rng.random_range(-1..6));
                self.push(Node::Substring {
                    operand,
                    start,
                    length,
                })
            }
            Type::Date | Type::DateTime | Type::Time | Type::String | Type::Collated(_)
                if self.rng.random_bool(0.4) =>
            {
                self.case(ty, depth + 1)
            }
            _ => self.leaf(ty),
        }
    }

    fn leaf(&mut self, ty: Type) -> NodeId {
        let fitting: Vec<(u16, Type)> = self
            .columns
            .iter()
            .copied()
            .filter(|(_, column)| *column == ty)
            .collect();
        if !fitting.is_empty() && self.rng.random_bool(0.75) {
            let (index, ty) = self.pick(&fitting);
            return self.push(Node::Column { index, ty });
        }
        self.constant(ty)
    }

    fn constant(&mut self, ty: Type) -> NodeId {
        let value = if self.rng.random_bool(0.08) {
            Datum::Null
        } else {
            values::constant(self.rng, ty)
        };
        self.push(Node::Constant { value, ty })
    }

    /// A type that a column has, or any.
    fn operand_type(&mut self) -> Type {
        if !self.columns.is_empty() && self.rng.random_bool(0.75) {
            let columns = self.columns.clone();
            return self.pick(&columns).1;
        }
        match self.rng.random_range(0..9) {
            0 => Type::Int,
            1 => Type::UInt,
            2 => values::decimal_type(self.rng),
            3 => Type::Double,
            4 => Type::Date,
            5 => Type::DateTime,
            6 => Type::Time,
            7 => self.collated(),
            _ => Type::String,
        }
    }

    /// Strings of a collation other than `utf8mb4_bin`.
    fn collated(&mut self) -> Type {
        Type::Collated(values::collation(self.rng, self.options.as_mariadb))
    }

    /// Strings of another collation.
    fn other_string(&mut self, ty: Type) -> Type {
        match ty {
            Type::String => self.collated(),
            _ => Type::String,
        }
    }

    fn truth(&mut self, depth: usize) -> NodeId {
        match self.rng.random_range(0..14) {
            0..5 => {
                let ty = if self.rng.random_bool(0.05) {
                    Type::Bool
                } else {
                    self.operand_type()
                };
                let left = self.node(ty, depth);
                let ty = self.comparable_type(ty);
                let right = self.node(ty, depth);
                let op = self.pick(&COMPARISONS);
                self.push(Node::Compare { op, left, right })
            }
            5 | 6 => {
                let operands = self.truths(depth);
                self.push(Node::And(operands))
            }
            7 | 8 => {
                let operands = self.truths(depth);
                self.push(Node::Or(operands))
            }
            9 => {
                let operand = self.node(Type::Bool, depth);
                self.push(Node::Not(operand))
            }
            10 => {
                let ty = self.operand_type();
                let operand = self.node(ty, depth);
                self.push(Node::IsNull(operand))
            }
            11 => self.in_list(depth),
            12 => {
                let ty = match self.rng.random_bool(0.5) {
                    true => Type::String,
                    false => self.collated(),
                };
                let operand = self.node(ty, depth);
                let pattern = values::pattern(self.rng);
                self.push(Node::Like {
                    operand,
                    pattern,
                    escape: '|',
                })
            }
            _ => self.case(Type::Bool, depth),
        }
    }

    fn truths(&mut self, depth: usize) -> Vec<NodeId> {
        let count = self.rng.random_range(1..4);
        (0..count).map(|_| self.node(Type::Bool, depth)).collect()
    }

    /// For decimals another precision of the same scale.
    fn comparable_type(&mut self, ty: Type) -> Type {
        match ty {
            Type::Decimal { scale, .. } => Type::Decimal {
                precision: self.rng.random_range(scale.max(1)..=38),
                scale,
            },
            _ => ty,
        }
    }

    fn in_list(&mut self, depth: usize) -> NodeId {
        let ty = self.operand_type();
        let operand = self.node(ty, depth);
        let count = self.rng.random_range(1..9);
        let mut list: Vec<Datum> = (0..count).map(|_| values::constant(self.rng, ty)).collect();
        let order = |a: &Datum, b: &Datum| order_of(ty, a.as_ref(), b.as_ref());
        list.sort_by(order);
        list.dedup_by(|a, b| order(a, b) == Ordering::Equal);
        let has_null = self.rng.random_bool(0.2);
        self.push(Node::In {
            operand,
            list,
            has_null,
        })
    }

    fn case(&mut self, ty: Type, depth: usize) -> NodeId {
        let branches = (0..self.rng.random_range(1..3))
            .map(|_| (self.node(Type::Bool, depth), self.node(ty, depth)))
            .collect();
        let otherwise = self.rng.random_bool(0.7).then(|| self.node(ty, depth));
        self.push(Node::Case {
            branches,
            otherwise,
            ty,
        })
    }

    fn binary(&mut self, op: Arithmetic, operands: (Type, Type), ty: Type, depth: usize) -> NodeId {
        let left = self.node(operands.0, depth);
        let right = self.node(operands.1, depth);
        self.push(Node::Arithmetic {
            op,
            left,
            right,
            ty,
        })
    }

    fn integer(&mut self, ty: Type, depth: usize) -> NodeId {
        match self.rng.random_range(0..10) {
            0..4 => {
                let op = self.pick(&[
                    Arithmetic::Add,
                    Arithmetic::Subtract,
                    Arithmetic::Multiply,
                    Arithmetic::IntDivide,
                    Arithmetic::Modulo,
                ]);
                self.binary(op, (ty, ty), ty, depth)
            }
            // In MySQL the result is unsigned only if an operand is, and decimals are not.
            4 if ty == Type::Int || !self.options.as_mariadb => {
                let left = values::decimal_type(self.rng);
                let right = self.comparable_type(left);
                self.binary(Arithmetic::IntDivide, (left, right), ty, depth)
            }
            5 if ty == Type::Int => {
                let operand = self.node(ty, depth);
                self.push(Node::Negate(operand))
            }
            6 if ty == Type::Int => {
                let of = self.pick(&[Type::Date, Type::DateTime]);
                let operand = self.node(of, depth);
                let field = self.pick(&FIELDS);
                self.push(Node::Extract { field, operand })
            }
            7 | 8 => {
                let other = if ty == Type::Int {
                    Type::UInt
                } else {
                    Type::Int
                };
                let decimal = values::decimal_type(self.rng);
                let from = self.pick(&[other, decimal, Type::Double]);
                let from = if ty == Type::Int && self.rng.random_bool(0.3) {
                    Type::Bool
                } else {
                    from
                };
                let operand = self.node(from, depth);
                self.push(Node::Cast { operand, ty })
            }
            9 => self.case(ty, depth),
            _ => self.leaf(ty),
        }
    }

    fn decimal(&mut self, precision: u8, scale: u8, depth: usize) -> NodeId {
        let ty = Type::Decimal { precision, scale };
        let mut same_scale = || {
            let most = self.rng.random_range(scale.max(1)..=38);
            Type::Decimal {
                precision: most,
                scale,
            }
        };
        let operands = (same_scale(), same_scale());
        match self.rng.random_range(0..12) {
            0..3 => {
                let op = self.pick(&[Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Modulo]);
                self.binary(op, operands, ty, depth)
            }
            3..5 => {
                let (a, b) = self.factor_scales(scale);
                let (left, right) = (self.decimal_of(a), self.decimal_of(b));
                self.binary(Arithmetic::Multiply, (left, right), ty, depth)
            }
            5 => {
                let integers = (Type::Int, Type::Int);
                self.binary(Arithmetic::Divide, integers, ty, depth)
            }
            6 => {
                let (dividend, divisor) = (
                    self.rng.random_range(0..=scale),
                    self.rng.random_range(0..=4),
                );
                let (left, right) = (self.decimal_of(dividend), self.decimal_of(divisor));
                self.binary(Arithmetic::Divide, (left, right), ty, depth)
            }
            7 => {
                let operand = self.node(ty, depth);
                self.push(Node::Negate(operand))
            }
            8 | 9 => {
                let other = values::decimal_type(self.rng);
                let from = self.pick(&[other, other, Type::Int, Type::UInt, Type::Double]);
                let operand = self.node(from, depth);
                self.push(Node::Cast { operand, ty })
            }
            10 => self.case(ty, depth),
            _ => self.leaf(ty),
        }
    }

    /// Scales of two factors whose product has this scale.
    fn factor_scales(&mut self, scale: u8) -> (u8, u8) {
        if scale == ColumnType::MAX_SCALE && !self.options.as_mariadb {
            return (
                self.rng.random_range(15..=30),
                self.rng.random_range(15..=30),
            );
        }
        let a = self.rng.random_range(0..=scale);
        (a, scale - a)
    }

    fn decimal_of(&mut self, scale: u8) -> Type {
        let least = scale.max(1);
        let most = if self.rng.random_bool(0.8) {
            least.max(18)
        } else {
            38
        };
        Type::Decimal {
            precision: self.rng.random_range(least..=most),
            scale,
        }
    }

    fn double(&mut self, depth: usize) -> NodeId {
        match self.rng.random_range(0..8) {
            0..4 => {
                let op = self.pick(&[
                    Arithmetic::Add,
                    Arithmetic::Subtract,
                    Arithmetic::Multiply,
                    Arithmetic::Divide,
                    Arithmetic::Modulo,
                ]);
                self.binary(op, (Type::Double, Type::Double), Type::Double, depth)
            }
            4 => {
                let operand = self.node(Type::Double, depth);
                self.push(Node::Negate(operand))
            }
            5 | 6 => {
                let decimal = values::decimal_type(self.rng);
                let from = self.pick(&[Type::Int, Type::UInt, decimal]);
                let operand = self.node(from, depth);
                self.push(Node::Cast {
                    operand,
                    ty: Type::Double,
                })
            }
            _ => self.case(Type::Double, depth),
        }
    }
}
