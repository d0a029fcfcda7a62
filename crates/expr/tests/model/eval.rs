//! The meaning of programs, written from the documentation and not from the interpreter.

use std::cmp::Ordering;

use perigee_expr::{Arithmetic, Comparison, DateField, Node, NodeId, Program, Type};
use perigee_testkit::Big;
use perigee_value::{Collation, Datum, ValueRef};

/// Values as the model sees them; decimals and integers are one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(i128),
    Double(f64),
    Text(String),
    /// Days, and microseconds of the day.
    Time(i64, i64),
    /// Microseconds, of a TIME.
    Span(i64),
}

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

impl Value {
    pub fn of(value: ValueRef<'_>, ty: Type) -> Self {
        match (value, ty) {
            (ValueRef::Null, _) => Self::Null,
            (ValueRef::Bool(v), Type::Bool) => Self::Bool(v),
            (ValueRef::Int(v), Type::Int) => Self::Number(v.into()),
            (ValueRef::UInt(v), Type::UInt) => Self::Number(v.into()),
            (ValueRef::Decimal(v), Type::Decimal { .. }) => Self::Number(v),
            (ValueRef::Double(v), Type::Double) => Self::Double(v),
            (ValueRef::Date(v), Type::Date) => Self::Time(v.into(), 0),
            (ValueRef::DateTime(v), Type::DateTime) => {
                Self::Time(v.div_euclid(DAY), v.rem_euclid(DAY))
            }
            (ValueRef::Time(v), Type::Time) => Self::Span(v),
            (ValueRef::String(v), Type::String | Type::Collated(_)) => {
                Self::Text(String::from_utf8(v.to_vec()).unwrap())
            }
            (value, ty) => panic!("{value:?} is not a {ty}"),
        }
    }
}

/// The program's value, or `None` for an error.
pub fn evaluate(program: &Program, row: &[Datum]) -> Option<Value> {
    Model {
        program,
        row,
        types: program.types(),
    }
    .node(program.root())
}

struct Model<'a> {
    program: &'a Program,
    row: &'a [Datum],
    types: Vec<Type>,
}

impl Model<'_> {
    fn ty(&self, id: NodeId) -> Type {
        self.types[usize::from(id.0)]
    }

    fn node(&self, id: NodeId) -> Option<Value> {
        Some(match self.program.node(id) {
            Node::Column { index, ty } => Value::of(self.row[usize::from(*index)].as_ref(), *ty),
            Node::Constant { value, ty } => Value::of(value.as_ref(), *ty),
            Node::Compare { op, left, right } => {
                compare(*op, self.ty(*left), self.node(*left)?, self.node(*right)?)
            }
            Node::And(operands) => self.all(operands, false)?,
            Node::Or(operands) => self.all(operands, true)?,
            Node::Not(operand) => match self.node(*operand)? {
                Value::Bool(v) => Value::Bool(!v),
                other => other,
            },
            Node::IsNull(operand) => Value::Bool(self.node(*operand)? == Value::Null),
            Node::Arithmetic {
                op,
                left,
                right,
                ty,
            } => {
                let types = (self.ty(*left), self.ty(*right));
                match (self.node(*left)?, self.node(*right)?) {
                    (Value::Null, _) | (_, Value::Null) => Value::Null,
                    (Value::Double(a), Value::Double(b)) => double_arithmetic(*op, a, b)?,
                    (Value::Number(a), Value::Number(b)) => {
                        exact_arithmetic(*op, &Big::new(a), &Big::new(b), types, *ty)?
                    }
                    other => panic!("{other:?}"),
                }
            }
            Node::Negate(operand) => match self.node(*operand)? {
                Value::Number(v) => bounded(&Big::new(v).negated(), self.ty(*operand))?,
                Value::Double(v) => Value::Double(-v),
                other => other,
            },
            Node::Cast { operand, ty } => cast(self.node(*operand)?, self.ty(*operand), *ty)?,
            Node::In {
                operand,
                list,
                has_null,
            } => {
                let (value, ty) = (self.node(*operand)?, self.ty(*operand));
                let mut result = Value::Bool(false);
                for item in list {
                    let item = Value::of(item.as_ref(), ty);
                    match compare(Comparison::Equal, ty, value.clone(), item) {
                        Value::Bool(false) => {}
                        other => result = other,
                    }
                }
                if *has_null && result == Value::Bool(false) {
                    Value::Null
                } else {
                    result
                }
            }
            Node::Like {
                operand,
                pattern,
                escape,
            } => match self.node(*operand)? {
                Value::Text(text) => {
                    let (text, pattern): (Vec<char>, Vec<char>) =
                        (text.chars().collect(), pattern.chars().collect());
                    let ty = self.ty(*operand);
                    let alike = |a: &char, b: &char| alike(*a, ty) == alike(*b, ty);
                    Value::Bool(like(&text, &pattern, *escape, &alike))
                }
                other => other,
            },
            Node::Extract { field, operand } => match self.node(*operand)? {
                Value::Time(day, micros) => Value::Number(extract(*field, day, micros).into()),
                other => other,
            },
            Node::Substring {
                operand,
                start,
                length,
            } => match self.node(*operand)? {
                Value::Text(text) => Value::Text(substring(&text, *start, *length)),
                other => other,
            },
            Node::Case {
                branches,
                otherwise,
                ..
            } => {
                for (condition, value) in branches {
                    if self.node(*condition)? == Value::Bool(true) {
                        return self.node(*value);
                    }
                }
                match otherwise {
                    Some(value) => self.node(*value)?,
                    None => Value::Null,
                }
            }
        })
    }

    fn all(&self, operands: &[NodeId], stop: bool) -> Option<Value> {
        let mut unknown = false;
        for operand in operands {
            match self.node(*operand)? {
                Value::Bool(v) if v == stop => return Some(Value::Bool(stop)),
                Value::Null => unknown = true,
                _ => {}
            }
        }
        Some(if unknown {
            Value::Null
        } else {
            Value::Bool(!stop)
        })
    }
}

/// What a character of a string of type `ty` is alike for LIKE: those of the tests' alphabet.
fn alike(c: char, ty: Type) -> char {
    let collation = ty.collation().unwrap();
    let distinguishes = [
        Collation::UTF8MB4_BIN,
        Collation::UTF8MB4_0900_AS_CS,
        Collation::UTF8MB4_0900_BIN,
    ];
    match c {
        _ if distinguishes.contains(&collation) => c,
        'é' => 'E',
        'ß' if collation == Collation::UTF8MB4_GENERAL_CI => 'S',
        '\u{10000}'.. if collation == Collation::UTF8MB4_GENERAL_CI => '\u{fffd}',
        _ => c.to_ascii_uppercase(),
    }
}

/// The order of two texts of the tests' alphabet.
fn order(a: &str, b: &str, ty: Type) -> Ordering {
    let collation = ty.collation().unwrap();
    let len = a.chars().count().max(b.chars().count());
    let padded = |text: &str| match collation.pads() {
        true => format!("{text:len$}"),
        false => text.to_owned(),
    };
    let (a, b) = (padded(a), padded(b));
    if collation == Collation::UTF8MB4_BIN || collation == Collation::UTF8MB4_0900_BIN {
        return a.cmp(&b);
    }
    if collation == Collation::UTF8MB4_GENERAL_CI {
        let weights = |text: &str| text.chars().map(|c| alike(c, ty)).collect();
        let (a, b): (Vec<char>, Vec<char>) = (weights(&a), weights(&b));
        return a.cmp(&b);
    }
    let before_900 = [
        Collation::UTF8MB4_UNICODE_CI,
        Collation::UTF8MB4_UNICODE_520_CI,
    ];
    let alphabet = match before_900.contains(&collation) {
        true => BEFORE_900,
        false => SINCE_900,
    };
    let rank = |c: char| alphabet.chars().position(|other| other == c).unwrap();
    let letters = |text: &str| -> Vec<char> { text.replace('ß', "ss").chars().collect() };
    let primary = |text: &str| -> Vec<usize> {
        let plain = letters(text).into_iter().map(|c| match c {
            'é' | 'E' => 'e',
            // Version 4.0.0 has one weight for all of these.
            '🚀' if collation == Collation::UTF8MB4_UNICODE_CI => '😀',
            c => c.to_ascii_lowercase(),
        });
        plain.map(rank).collect()
    };
    let first = primary(&a).cmp(&primary(&b));
    match collation == Collation::UTF8MB4_0900_AS_CS {
        true => first.then_with(|| collation.compare(a.as_bytes(), b.as_bytes())),
        false => first,
    }
}

/// The tests' alphabet by primary weights, each of one character.
const BEFORE_900: &str = "\t _%€abces😀🚀";
const SINCE_900: &str = "\t _%😀🚀€abces";

fn compare(op: Comparison, ty: Type, left: Value, right: Value) -> Value {
    let order = match (&left, &right) {
        (Value::Null, Value::Null) if op == Comparison::NullSafeEqual => Ordering::Equal,
        (Value::Null, _) | (_, Value::Null) if op == Comparison::NullSafeEqual => Ordering::Less,
        (Value::Null, _) | (_, Value::Null) => return Value::Null,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => a.cmp(b),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b).unwrap(),
        (Value::Time(a, b), Value::Time(c, d)) => (a, b).cmp(&(c, d)),
        (Value::Span(a), Value::Span(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => order(a, b, ty),
        other => panic!("{other:?}"),
    };
    Value::Bool(match op {
        Comparison::Equal | Comparison::NullSafeEqual => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    })
}

/// A number within its type, else an error.
fn bounded(value: &Big, ty: Type) -> Option<Value> {
    let number = value.to_i128();
    match ty {
        Type::Int => i64::try_from(number?).ok().map(|v| Value::Number(v.into())),
        Type::UInt => u64::try_from(number?).ok().map(|v| Value::Number(v.into())),
        Type::Decimal { precision, .. } if value.digit_count() <= usize::from(precision) => {
            Some(Value::Number(number?))
        }
        _ => None,
    }
}

fn exact_arithmetic(
    op: Arithmetic,
    a: &Big,
    b: &Big,
    types: (Type, Type),
    ty: Type,
) -> Option<Value> {
    use Arithmetic::{Add, Divide, IntDivide, Modulo, Multiply, Subtract};
    if b.is_zero() && matches!(op, Divide | IntDivide | Modulo) {
        return Some(Value::Null);
    }
    let result = match op {
        Add => a.plus(b),
        Subtract => a.plus(&b.negated()),
        Multiply => a
            .times(b)
            .rescaled(types.0.scale() + types.1.scale(), ty.scale()),
        Divide => {
            let (from, by, to) = (types.0.scale(), types.1.scale(), ty.scale());
            // As many groups of nine digits as both operands have, and one more if that leaves
            // less than four digits beyond their scales.
            let mut groups = from.div_ceil(9) + by.div_ceil(9);
            if groups * 9 < from + by + 4 {
                groups += 1;
            }
            let long = a.shifted(usize::from(by + 9 * groups - from)).divided(b).0;
            long.rescaled(9 * groups, to)
        }
        IntDivide => a.divided(b).0,
        Modulo => a.divided(b).1,
    };
    bounded(&result, ty)
}

fn double_arithmetic(op: Arithmetic, a: f64, b: f64) -> Option<Value> {
    let value = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        _ if b == 0.0 => return Some(Value::Null),
        Arithmetic::Divide => a / b,
        Arithmetic::Modulo => a % b,
        Arithmetic::IntDivide => panic!("DIV of doubles"),
    };
    value.is_finite().then_some(Value::Double(value))
}

fn cast(value: Value, from: Type, to: Type) -> Option<Value> {
    match value {
        Value::Null | Value::Time(..) | Value::Span(_) => Some(value),
        Value::Bool(v) => Some(Value::Number(v.into())),
        Value::Number(v) if to == Type::Double => {
            // The decimal text of the number, read as a double.
            Some(Value::Double(
                format!("{v}e-{}", from.scale()).parse().unwrap(),
            ))
        }
        Value::Number(v) => bounded(&Big::new(v).rescaled(from.scale(), to.scale()), to),
        Value::Double(v) => {
            if let Type::Decimal { scale, .. } = to {
                return bounded(&shortest_decimal(v, scale), to);
            }
            let floor = v.floor();
            let rounded = match (v - floor).partial_cmp(&0.5).unwrap() {
                Ordering::Less => floor,
                Ordering::Greater => floor + 1.0,
                Ordering::Equal if floor % 2.0 == 0.0 => floor,
                Ordering::Equal => floor + 1.0,
            };
            (rounded.abs() < 1e30).then(|| bounded(&Big::new(rounded as i128), to))?
        }
        // To another collation.
        Value::Text(_) => Some(value),
    }
}

/// The decimal form of as few digits as read back as the same double, rounded to units of
/// 10^-scale.
fn shortest_decimal(value: f64, scale: u8) -> Big {
    let mut texts = (0..17).map(|digits| format!("{value:.digits$e}"));
    let text = texts.find(|text| text.parse() == Ok(value)).unwrap();
    let (mantissa, exponent) = text.split_once('e').unwrap();
    let fraction = mantissa
        .split_once('.')
        .map_or(0, |(_, digits)| digits.len() as i64);
    let digits: i128 = mantissa.replace('.', "").parse().unwrap();
    // digits * 10^shift units
    let shift = exponent.parse::<i64>().unwrap() - fraction + i64::from(scale);
    let zeros = shift.unsigned_abs() as usize;
    if shift >= 0 {
        Big::new(digits).shifted(zeros)
    } else {
        Big::new(digits).divided_round(&Big::new(1).shifted(zeros))
    }
}

fn like(
    text: &[char],
    pattern: &[char],
    escape: char,
    alike: &dyn Fn(&char, &char) -> bool,
) -> bool {
    let first = |c| text.first().is_some_and(|first| alike(first, c));
    match pattern {
        [] => text.is_empty(),
        [e, c, rest @ ..] if *e == escape => first(c) && like(&text[1..], rest, escape, alike),
        ['%', rest @ ..] if escape != '%' => {
            (0..=text.len()).any(|skip| like(&text[skip..], rest, escape, alike))
        }
        ['_', rest @ ..] if escape != '_' => {
            !text.is_empty() && like(&text[1..], rest, escape, alike)
        }
        [c, rest @ ..] => first(c) && like(&text[1..], rest, escape, alike),
    }
}

fn substring(text: &str, start: i64, length: Option<i64>) -> String {
    let chars: Vec<char> = text.chars().collect();
    let count = chars.len() as i64;
    let first = if start < 0 { count + start } else { start - 1 };
    if start == 0 || first < 0 {
        return String::new();
    }
    let end = length.map_or(count, |length| first + length);
    (0..count)
        .filter(|i| (first..end).contains(i))
        .map(|i| chars[i as usize])
        .collect()
}

/// Counts years from 1970 one by one.
fn extract(field: DateField, day: i64, micros: i64) -> i64 {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut year, mut rest) = (1970, day);
    while rest < 0 {
        year -= 1;
        rest += if leap(year) { 366 } else { 365 };
    }
    while rest >= if leap(year) { 366 } else { 365 } {
        rest -= if leap(year) { 366 } else { 365 };
        year += 1;
    }
    let lengths = [
        31,
        if leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 1;
    for length in lengths {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    let seconds = micros / 1_000_000;
    match field {
        DateField::Year => year,
        DateField::Quarter => (month - 1) / 3 + 1,
        DateField::Month => month,
        DateField::Day => rest + 1,
        DateField::Hour => seconds / 3600,
        DateField::Minute => seconds / 60 % 60,
        DateField::Second => seconds % 60,
    }
}
