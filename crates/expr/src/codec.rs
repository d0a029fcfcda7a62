//! Wire form of programs (`docs/format/expression.md`). Decoding checks limits before it
//! allocates; whether the nodes form a valid program is the validator's question.

use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::{Collation, Datum};

use crate::limits::{MAX_IN_LIST, MAX_NODES, MAX_OPERANDS, MAX_PATTERN, MAX_STRING};
use crate::{Arithmetic, Comparison, DateField, Node, NodeId, Program, Type};

/// Version of the wire form and of the meaning of operations. A store that does not know it
/// declines the work. A program is written in the first version that has all it needs.
pub const PROGRAM_VERSION: u16 = 3;

/// First version with strings of `utf8mb4_general_ci`.
const GENERAL_CI_VERSION: u16 = 2;

/// First version with strings of any collation.
const COLLATIONS_VERSION: u16 = 3;

const COLUMN: u8 = 1;
const CONSTANT: u8 = 2;
const COMPARE: u8 = 3;
const AND: u8 = 4;
const OR: u8 = 5;
const NOT: u8 = 6;
const IS_NULL: u8 = 7;
const ARITHMETIC: u8 = 8;
const NEGATE: u8 = 9;
const CAST: u8 = 10;
const IN: u8 = 11;
const LIKE: u8 = 12;
const EXTRACT: u8 = 13;
const SUBSTRING: u8 = 14;
const CASE: u8 = 15;

/// Operators by wire number, which is the index plus one.
const COMPARISONS: [Comparison; 7] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
    Comparison::NullSafeEqual,
];
const ARITHMETICS: [Arithmetic; 6] = [
    Arithmetic::Add,
    Arithmetic::Subtract,
    Arithmetic::Multiply,
    Arithmetic::Divide,
    Arithmetic::IntDivide,
    Arithmetic::Modulo,
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

impl Program {
    /// Appends the wire form.
    pub fn encode(&self, w: &mut Writer) {
        w.u16(version(&self.nodes)).u16(self.nodes.len() as u16);
        for node in &self.nodes {
            encode_node(node, w);
        }
    }

    /// Reads what [`Program::encode`] wrote. The result is not validated: see [`Program::check`].
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let written = r.u16()?;
        if !(1..=PROGRAM_VERSION).contains(&written) {
            return Err(DecodeError::new("expression: version"));
        }
        let count = usize::from(r.u16()?);
        if count == 0 || count > MAX_NODES {
            return Err(DecodeError::new("expression: number of nodes"));
        }
        let nodes = (0..count)
            .map(|_| decode_node(r))
            .collect::<Result<Vec<_>, _>>()?;
        if version(&nodes) != written {
            return Err(DecodeError::new("expression: version"));
        }
        Ok(Self { nodes })
    }
}

/// First version that has all that a program needs.
fn version(nodes: &[Node]) -> u16 {
    let needed = nodes.iter().map(|node| match node {
        Node::Column { ty, .. }
        | Node::Constant { ty, .. }
        | Node::Arithmetic { ty, .. }
        | Node::Cast { ty, .. }
        | Node::Case { ty, .. } => match ty {
            Type::Collated(Collation::UTF8MB4_GENERAL_CI) => GENERAL_CI_VERSION,
            Type::Collated(_) => COLLATIONS_VERSION,
            _ => 1,
        },
        _ => 1,
    });
    needed.max().unwrap_or(1)
}

/// Wire number of an operator.
fn number<T: PartialEq>(table: &[T], item: &T) -> u8 {
    let index = table.iter().position(|entry| entry == item);
    index.expect("the table has every operator") as u8 + 1
}

fn from_number<T: Copy>(table: &[T], r: &mut Reader<'_>) -> Result<T, DecodeError> {
    let index = usize::from(r.u8()?).checked_sub(1);
    let item = index.and_then(|index| table.get(index));
    item.copied()
        .ok_or(DecodeError::new("expression: operator"))
}

fn encode_type(ty: Type, w: &mut Writer) {
    w.u8(ty.tag());
    match ty {
        Type::Decimal { precision, scale } => {
            w.u8(precision).u8(scale);
        }
        Type::Collated(collation) if collation != Collation::UTF8MB4_GENERAL_CI => {
            w.u16(collation.0);
        }
        _ => {}
    }
}

fn decode_type(r: &mut Reader<'_>) -> Result<Type, DecodeError> {
    Ok(match r.u8()? {
        1 => Type::Bool,
        2 => Type::Int,
        3 => Type::UInt,
        4 => Type::Decimal {
            precision: r.u8()?,
            scale: r.u8()?,
        },
        5 => Type::Double,
        6 => Type::Date,
        7 => Type::DateTime,
        8 => Type::String,
        9 => Type::Time,
        10 => Type::Collated(Collation::UTF8MB4_GENERAL_CI),
        11 => match Collation(r.u16()?) {
            Collation::UTF8MB4_GENERAL_CI => return Err(DecodeError::new("expression: type")),
            collation if collation.has_form() => Type::Collated(collation),
            _ => return Err(DecodeError::new("expression: collation")),
        },
        _ => return Err(DecodeError::new("expression: type")),
    })
}

fn decode_id(r: &mut Reader<'_>) -> Result<NodeId, DecodeError> {
    r.u16().map(NodeId)
}

fn decode_flag(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("expression: flag")),
    }
}

/// A count of at most `most`.
fn decode_count(r: &mut Reader<'_>, most: usize) -> Result<usize, DecodeError> {
    let count = r.u32()? as usize;
    if count > most {
        Err(DecodeError::new("expression: list too long"))
    } else {
        Ok(count)
    }
}

fn decode_datum(r: &mut Reader<'_>) -> Result<Datum, DecodeError> {
    match Datum::decode(r)? {
        Datum::String(text) if text.len() > MAX_STRING => {
            Err(DecodeError::new("expression: string too long"))
        }
        value => Ok(value),
    }
}

fn encode_ids(ids: &[NodeId], w: &mut Writer) {
    w.u32(ids.len() as u32);
    for id in ids {
        w.u16(id.0);
    }
}

fn decode_ids(r: &mut Reader<'_>) -> Result<Vec<NodeId>, DecodeError> {
    let count = decode_count(r, MAX_OPERANDS)?;
    (0..count).map(|_| decode_id(r)).collect()
}

fn encode_node(node: &Node, w: &mut Writer) {
    match node {
        Node::Column { index, ty } => {
            w.u8(COLUMN).u16(*index);
            encode_type(*ty, w);
        }
        Node::Constant { value, ty } => {
            w.u8(CONSTANT);
            encode_type(*ty, w);
            value.encode(w);
        }
        Node::Compare { op, left, right } => {
            w.u8(COMPARE)
                .u8(number(&COMPARISONS, op))
                .u16(left.0)
                .u16(right.0);
        }
        Node::And(operands) => encode_ids(operands, w.u8(AND)),
        Node::Or(operands) => encode_ids(operands, w.u8(OR)),
        Node::Not(operand) => {
            w.u8(NOT).u16(operand.0);
        }
        Node::IsNull(operand) => {
            w.u8(IS_NULL).u16(operand.0);
        }
        Node::Arithmetic {
            op,
            left,
            right,
            ty,
        } => {
            w.u8(ARITHMETIC)
                .u8(number(&ARITHMETICS, op))
                .u16(left.0)
                .u16(right.0);
            encode_type(*ty, w);
        }
        Node::Negate(operand) => {
            w.u8(NEGATE).u16(operand.0);
        }
        Node::Cast { operand, ty } => {
            w.u8(CAST).u16(operand.0);
            encode_type(*ty, w);
        }
        Node::In {
            operand,
            list,
            has_null,
        } => {
            w.u8(IN)
                .u16(operand.0)
                .u8(u8::from(*has_null))
                .u32(list.len() as u32);
            for value in list {
                value.encode(w);
            }
        }
        Node::Like {
            operand,
            pattern,
            escape,
        } => {
            w.u8(LIKE)
                .u16(operand.0)
                .u32(u32::from(*escape))
                .str(pattern);
        }
        Node::Extract { field, operand } => {
            w.u8(EXTRACT).u8(number(&FIELDS, field)).u16(operand.0);
        }
        Node::Substring {
            operand,
            start,
            length,
        } => {
            w.u8(SUBSTRING)
                .u16(operand.0)
                .u64(*start as u64)
                .u8(u8::from(length.is_some()));
            w.u64(length.unwrap_or(0) as u64);
        }
        Node::Case {
            branches,
            otherwise,
            ty,
        } => {
            w.u8(CASE);
            encode_type(*ty, w);
            w.u32(branches.len() as u32);
            for (condition, value) in branches {
                w.u16(condition.0).u16(value.0);
            }
            w.u8(u8::from(otherwise.is_some()))
                .u16(otherwise.map_or(0, |id| id.0));
        }
    }
}

fn decode_node(r: &mut Reader<'_>) -> Result<Node, DecodeError> {
    Ok(match r.u8()? {
        COLUMN => Node::Column {
            index: r.u16()?,
            ty: decode_type(r)?,
        },
        CONSTANT => {
            let ty = decode_type(r)?;
            Node::Constant {
                value: decode_datum(r)?,
                ty,
            }
        }
        COMPARE => Node::Compare {
            op: from_number(&COMPARISONS, r)?,
            left: decode_id(r)?,
            right: decode_id(r)?,
        },
        AND => Node::And(decode_ids(r)?),
        OR => Node::Or(decode_ids(r)?),
        NOT => Node::Not(decode_id(r)?),
        IS_NULL => Node::IsNull(decode_id(r)?),
        ARITHMETIC => Node::Arithmetic {
            op: from_number(&ARITHMETICS, r)?,
            left: decode_id(r)?,
            right: decode_id(r)?,
            ty: decode_type(r)?,
        },
        NEGATE => Node::Negate(decode_id(r)?),
        CAST => Node::Cast {
            operand: decode_id(r)?,
            ty: decode_type(r)?,
        },
        IN => {
            let (operand, has_null) = (decode_id(r)?, decode_flag(r)?);
            let count = decode_count(r, MAX_IN_LIST)?;
            let list = (0..count)
                .map(|_| decode_datum(r))
                .collect::<Result<_, _>>()?;
            Node::In {
                operand,
                list,
                has_null,
            }
        }
        LIKE => decode_like(r)?,
        EXTRACT => Node::Extract {
            field: from_number(&FIELDS, r)?,
            operand: decode_id(r)?,
        },
        SUBSTRING => {
            let (operand, start) = (decode_id(r)?, r.u64()? as i64);
            let length = match (decode_flag(r)?, r.u64()? as i64) {
                (true, length) => Some(length),
                (false, 0) => None,
                (false, _) => return Err(DecodeError::new("expression: absent length")),
            };
            Node::Substring {
                operand,
                start,
                length,
            }
        }
        CASE => {
            let ty = decode_type(r)?;
            let count = decode_count(r, MAX_OPERANDS)?;
            let branches = (0..count)
                .map(|_| Ok((decode_id(r)?, decode_id(r)?)))
                .collect::<Result<_, DecodeError>>()?;
            let otherwise = match (decode_flag(r)?, decode_id(r)?) {
                (true, id) => Some(id),
                (false, NodeId(0)) => None,
                (false, _) => return Err(DecodeError::new("expression: absent operand")),
            };
            Node::Case {
                branches,
                otherwise,
                ty,
            }
        }
        _ => return Err(DecodeError::new("expression: operation")),
    })
}

fn decode_like(r: &mut Reader<'_>) -> Result<Node, DecodeError> {
    let operand = decode_id(r)?;
    let escape = char::from_u32(r.u32()?).ok_or(DecodeError::new("expression: escape"))?;
    let pattern = r.str()?;
    if pattern.len() > MAX_PATTERN {
        return Err(DecodeError::new("expression: pattern too long"));
    }
    Ok(Node::Like {
        operand,
        pattern: pattern.to_owned(),
        escape,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::arbitrary::Generator;
    use proptest::prelude::*;

    fn encoded(program: &Program) -> Vec<u8> {
        let mut w = Writer::new();
        program.encode(&mut w);
        w.into_bytes()
    }

    fn decoded(bytes: &[u8]) -> Result<Program, DecodeError> {
        let mut r = Reader::new(bytes, "expression");
        let program = Program::decode(&mut r)?;
        r.finish()?;
        Ok(program)
    }

    #[test]
    fn another_version_is_refused() {
        let program = Program {
            nodes: vec![Node::Constant {
                value: Datum::Int(1),
                ty: Type::Int,
            }],
        };
        let mut bytes = encoded(&program);
        assert_eq!(decoded(&bytes), Ok(program));
        for version in [0, 2, 3] {
            bytes[0] = version;
            assert!(decoded(&bytes).is_err(), "{version}");
        }
        let by_weights = Program {
            nodes: vec![Node::Constant {
                value: Datum::Null,
                ty: Type::Collated(Collation::UTF8MB4_GENERAL_CI),
            }],
        };
        let mut bytes = encoded(&by_weights);
        assert_eq!(bytes[0], 2);
        assert_eq!(decoded(&bytes), Ok(by_weights));
        bytes[0] = 1;
        assert!(
            decoded(&bytes).is_err(),
            "readers of version 1 do not know it"
        );
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(seed: u64) {
            let mut generator = Generator::new(seed);
            let layout = generator.layout();
            let program = generator.program(&layout);
            let bytes = encoded(&program);
            prop_assert_eq!(decoded(&bytes).unwrap(), program);
        }
    }
}
