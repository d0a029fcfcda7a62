//! Random SQL over columns of mixed types, built both as text and through the builder, which must
//! infer MySQL's types and make MySQL's implicit conversions.

use perigee_expr::arbitrary::Generator;
use perigee_expr::{Arithmetic, Builder, Comparison, DateField, ExprError, NodeId, Program, Type};
use perigee_value::{ColumnType, Datum, RowLayout};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::literal;

/// One part of an expression in both forms.
#[derive(Clone)]
struct Part {
    id: NodeId,
    sql: String,
}

const ARITHMETIC: [(Arithmetic, &str); 6] = [
    (Arithmetic::Add, "+"),
    (Arithmetic::Subtract, "-"),
    (Arithmetic::Multiply, "*"),
    (Arithmetic::Divide, "/"),
    (Arithmetic::IntDivide, "DIV"),
    (Arithmetic::Modulo, "%"),
];

const COMPARISONS: [(Comparison, &str); 7] = [
    (Comparison::Equal, "="),
    (Comparison::NotEqual, "<>"),
    (Comparison::Less, "<"),
    (Comparison::LessOrEqual, "<="),
    (Comparison::Greater, ">"),
    (Comparison::GreaterOrEqual, ">="),
    (Comparison::NullSafeEqual, "<=>"),
];

/// A random program and its SQL.
pub fn program(generator: &mut Generator, layout: &RowLayout, seed: u64) -> (Program, String) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut b = Builder::new(layout);
    let mut parts: Vec<Part> = (0..layout.columns.len() as u16)
        .map(|i| Part {
            id: b.column(i).unwrap(),
            sql: format!("c{i}"),
        })
        .collect();
    for _ in 0..4 {
        let column = &layout.columns[rng.random_range(0..layout.columns.len())];
        parts.extend(constant(&mut b, generator, column.ty));
    }
    let mut last = parts[0].clone();
    for _ in 0..rng.random_range(3..20) {
        if let Ok(part) = step(&mut b, &mut rng, &parts)
            && part.sql.len() < 1500
            && b.as_constant(part.id).is_none()
        {
            last = part.clone();
            parts.push(part);
        }
    }
    (b.finish(last.id).unwrap(), last.sql)
}

/// A literal with the type that MySQL gives it.
fn constant(b: &mut Builder, generator: &mut Generator, ty: ColumnType) -> Option<Part> {
    let value = generator.value(ty);
    let mut sql = literal(&value, ty);
    let id = match (&value, ty) {
        // Unsigned literals are signed unless they are large.
        (Datum::UInt(v), _) if i64::try_from(*v).is_ok() => {
            sql = v.to_string();
            b.int(*v as i64)
        }
        (Datum::Int(v), _) if *v != i64::MIN => {
            sql = format!("({v})");
            b.int(*v)
        }
        (Datum::Decimal(v), ColumnType::Decimal { scale: 1.., .. }) => {
            sql = format!("({})", sql.trim_matches('\''));
            b.decimal(*v, ty_scale(ty))
        }
        (Datum::Double(_), _) => {
            sql = format!("({sql})");
            b.constant(value, Type::Double)
        }
        (Datum::Date(v), _) => {
            sql = format!("DATE{sql}");
            b.date(*v)
        }
        (Datum::Time(_), _) => {
            sql = format!("TIME{sql}");
            b.constant(value, Type::Time)
        }
        (Datum::DateTime(_), _) => {
            sql = format!("TIMESTAMP{sql}");
            b.constant(value, Type::DateTime)
        }
        (Datum::String(_), _) => {
            let collation = ty.collation().unwrap().name();
            sql = format!("({sql} COLLATE {collation})");
            b.constant(value, Type::of(ty))
        }
        _ => return None,
    };
    Some(Part { id: id.ok()?, sql })
}

fn ty_scale(ty: ColumnType) -> u8 {
    Type::of(ty).scale()
}

fn cast(sql: &str, ty: Type) -> String {
    match ty {
        Type::Decimal { precision, scale } => {
            format!("CAST({sql} AS DECIMAL({precision},{scale}))")
        }
        _ => sql.to_owned(),
    }
}

/// The part with exactly the digits of its type.
fn exact(b: &Builder, part: &Part) -> String {
    cast(&part.sql, b.ty(part.id))
}

fn step(b: &mut Builder, rng: &mut StdRng, parts: &[Part]) -> Result<Part, ExprError> {
    // Recent parts more often, so that expressions grow.
    let pick = |rng: &mut StdRng| {
        let from = if rng.random_bool(0.5) {
            parts.len().saturating_sub(3)
        } else {
            0
        };
        parts[rng.random_range(from..parts.len())].clone()
    };
    let (x, y, z) = (pick(rng), pick(rng), pick(rng));
    let (id, sql) = match rng.random_range(0..16) {
        0..6 => {
            let (op, text) = ARITHMETIC[rng.random_range(0..6)];
            let id = b.arithmetic(op, x.id, y.id)?;
            let sql = format!("({} {text} {})", x.sql, y.sql);
            match (op, b.ty(id)) {
                // Inside an expression MySQL keeps more digits of a quotient than it shows; and
                // its digits depend on those that the values happen to have (1 or 1.00 in a CASE).
                (Arithmetic::Divide, ty @ Type::Decimal { .. }) => {
                    let sql = format!("({} / {} + 0)", exact(b, &x), exact(b, &y));
                    (id, cast(&sql, ty))
                }
                // A remainder can be a negative zero, which is not equal to zero there.
                (Arithmetic::Modulo, Type::Decimal { .. }) => (id, format!("({sql} + 0)")),
                _ => (id, sql),
            }
        }
        6..9 => {
            let (op, text) = COMPARISONS[rng.random_range(0..7)];
            (
                b.compare(op, x.id, y.id)?,
                format!("({} {text} {})", x.sql, y.sql),
            )
        }
        9 => (
            b.and(vec![x.id, y.id])?,
            format!("({} AND {})", x.sql, y.sql),
        ),
        10 => (b.or(vec![x.id, y.id])?, format!("({} OR {})", x.sql, y.sql)),
        11 => (b.not(x.id)?, format!("(NOT {})", x.sql)),
        12 => (b.negate(x.id)?, format!("(-{})", x.sql)),
        13 => {
            let sql = format!("(CASE WHEN {} THEN {} ELSE {} END)", x.sql, y.sql, z.sql);
            (b.case(&[(x.id, y.id)], Some(z.id))?, sql)
        }
        14 => {
            let sql = format!("({} BETWEEN {} AND {})", x.sql, y.sql, z.sql);
            (b.between(x.id, y.id, z.id)?, sql)
        }
        _ if rng.random_bool(0.5) => (
            b.coalesce(&[x.id, y.id])?,
            format!("COALESCE({}, {})", x.sql, y.sql),
        ),
        _ => (
            b.extract(DateField::Quarter, x.id)?,
            format!("QUARTER({})", x.sql),
        ),
    };
    // What is not valid (too deep, dates as numbers, ...) is not used further.
    b.clone().finish(id)?;
    // MariaDB goes on to 38 digits behind the point.
    if b.ty(id).scale() == ColumnType::MAX_SCALE {
        return Err(ExprError::NodeCount(0));
    }
    Ok(Part { id, sql })
}
