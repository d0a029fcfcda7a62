//! Conditions that select ranges of keys: lists of values and of intervals of one column, or of several.

use super::expressions::{Expressions, Typed};
use super::tables::{
    Kind, big_literal, bits_literal, day_literal, decimal_literal, fine_literal, literal_of,
    span_literal, time_literal, year_literal,
};

impl Expressions<'_> {
    /// A condition that names ranges of one column of the scope, and perhaps of a second one.
    pub fn ranges(&mut self) -> String {
        let (column, kind) = self.ranged_column();
        let column = self.perhaps_computed(column, kind);
        let one = self.ranges_of(&column, kind);
        match self.rng.between(0, 5) {
            0 => format!("NOT ({one})"),
            1..=3 => one,
            _ => {
                let (column, kind) = self.ranged_column();
                let other = self.ranges_of(&column, kind);
                let op = *self.rng.choose(&["AND", "AND", "OR"]);
                format!("({one} {op} {other})")
            }
        }
    }

    /// Any column, a BIT, too.
    fn ranged_column(&mut self) -> Typed {
        let bits = self.column(&[Kind::Bit]).filter(|_| self.rng.chance(9));
        bits.unwrap_or_else(|| self.any_column())
    }

    /// The column, or an expression of it that a key of `t` may have.
    fn perhaps_computed(&mut self, column: String, kind: Kind) -> String {
        match kind {
            Kind::Int if self.rng.chance(3) => format!("ABS({column})"),
            Kind::Text | Kind::Ci if self.rng.chance(3) => format!("UPPER({column})"),
            _ => column,
        }
    }

    fn ranges_of(&mut self, column: &str, kind: Kind) -> String {
        let parts: Vec<_> = (0..self.rng.between(1, 4))
            .map(|_| self.range_of(column, kind))
            .collect();
        match &parts[..] {
            [one] => one.clone(),
            _ => format!("({})", parts.join(" OR ")),
        }
    }

    fn range_of(&mut self, column: &str, kind: Kind) -> String {
        let value = |e: &mut Self| e.constant(kind, column.ends_with(".id"));
        let (a, b) = (value(self), value(self));
        match self.rng.between(0, 9) {
            0..=2 => {
                let items: Vec<_> = (0..self.rng.between(1, 6))
                    .map(|_| match self.rng.chance(12) {
                        true => "NULL".to_owned(),
                        false => value(self),
                    })
                    .collect();
                format!("{column} IN ({})", items.join(", "))
            }
            3..=4 => format!("{column} BETWEEN {a} AND {b}"),
            5 => format!("({column} > {a} AND {column} <= {b})"),
            6 => format!("{column} IS NULL"),
            7 => format!("{column} <=> {a}"),
            _ => {
                let op = *self.rng.choose(&["=", "=", "<", "<=", ">", ">=", "<>"]);
                format!("{column} {op} {a}")
            }
        }
    }

    /// A constant that a column of this kind is compared with, sometimes one beyond its values.
    fn constant(&mut self, kind: Kind, is_id: bool) -> String {
        let beyond = self.rng.chance(15);
        match kind {
            Kind::Int if beyond => (*self.rng.choose(&[
                "2147483648",
                "-2147483649",
                "9223372036854775807",
                "2.5",
                "1e3",
            ]))
            .to_owned(),
            Kind::Int if is_id => self.rng.between(-1, 310).to_string(),
            Kind::Int => self.rng.between(-4, 12).to_string(),
            Kind::Decimal if self.rng.chance(3) => big_literal(self.rng),
            Kind::Decimal => decimal_literal(self.rng.between(-2000, 2000), 2),
            Kind::Fine => fine_literal(self.rng),
            Kind::Double => format!("{}e0", self.rng.between(-40, 40) as f64 / 4.0),
            Kind::Date if beyond => "'9999-12-31'".to_owned(),
            Kind::Date => day_literal(self.rng),
            Kind::DateTime if beyond => "'1000-01-01 00:00:00'".to_owned(),
            Kind::DateTime => time_literal(self.rng),
            Kind::Time => span_literal(self.rng),
            Kind::Year => year_literal(self.rng),
            Kind::Bit => bits_literal(self.rng),
            Kind::Text | Kind::Ci if beyond => "''".to_owned(),
            Kind::Text | Kind::Ci => literal_of(self.rng, kind),
        }
    }
}
