//! Random expressions over the columns in scope, typed loosely, so that most of them are valid.
//!
//! Left out is what differs from MySQL by decision (`docs/sql.md`, `docs/expressions.md`), quotients
//! inside of expressions for example; and what MariaDB gets wrong: `3 BETWEEN x AND y` as a condition
//! (it finds no rows), ASCII of two bytes beside decimals (it cuts 195 to 99.9999).

use super::tables::{
    Kind, big_literal, bits_literal, day_literal, decimal_literal, fine_literal, literal_of,
    some_literal, span_literal, year_literal,
};
use perigee_testkit::Rng;

/// An expression and what it is.
pub type Typed = (String, Kind);

/// Makes expressions over the columns in scope.
pub struct Expressions<'a> {
    pub rng: &'a mut Rng,
    /// Columns with their qualified names.
    pub scope: Vec<Typed>,
    /// Whether there may be subqueries in conditions: they stand in WHERE only, one in the other
    /// they do not.
    pub subqueries: bool,
}

impl Expressions<'_> {
    pub fn column(&mut self, kinds: &[Kind]) -> Option<Typed> {
        let fitting: Vec<_> = self
            .scope
            .iter()
            .filter(|(_, k)| kinds.contains(k))
            .collect();
        if fitting.is_empty() {
            return None;
        }
        Some((*self.rng.choose(&fitting)).clone())
    }

    /// A column of one of these kinds, which there is.
    pub fn column_of(&mut self, kinds: &[Kind]) -> Typed {
        self.column(kinds)
            .expect("the tables have columns of every kind")
    }

    /// Any column but a BIT.
    pub fn any_column(&mut self) -> Typed {
        let scope = std::mem::take(&mut self.scope);
        let shown: Vec<_> = scope
            .iter()
            .filter(|(_, kind)| *kind != Kind::Bit)
            .collect();
        let column = (*self.rng.choose(&shown)).clone();
        self.scope = scope;
        column
    }

    /// Any expression.
    pub fn any(&mut self, depth: u32) -> Typed {
        match self.rng.between(0, 9) {
            0..=3 => self.number(depth),
            4..=6 => {
                let kind = self.text_kind();
                (self.text_of(kind, depth), kind)
            }
            7 => (self.date(depth), Kind::Date),
            8 => self.time(),
            9 if self.rng.chance(2) => self.span(),
            9 if self.rng.chance(2) => (self.fine(), Kind::Fine),
            9 => self.choice(),
            _ => (format!("({})", self.condition(depth)), Kind::Int),
        }
    }

    /// A value of kinds that have a common type: numbers of several scales, dates, or any of these and texts.
    pub fn branch(&mut self, kinds: &[Kind]) -> Typed {
        match *self.rng.choose(kinds) {
            Kind::Decimal if self.rng.chance(2) => self.number_literal(),
            Kind::Text => (self.text(0), Kind::Text),
            Kind::Date => (self.date(0), Kind::Date),
            kind => self.column(&[kind]).unwrap_or_else(|| match kind {
                Kind::DateTime => (self.date(0), Kind::Date),
                Kind::Fine => (fine_literal(self.rng), Kind::Fine),
                _ => self.number_literal(),
            }),
        }
    }

    /// Kinds of values that a choice or a UNION has, and what its result is.
    pub fn branches(&mut self) -> (&'static [Kind], Kind) {
        *self.rng.choose(&[
            (&[Kind::Int, Kind::Decimal, Kind::Fine][..], Kind::Decimal),
            (&[Kind::Date, Kind::DateTime][..], Kind::DateTime),
            (
                &[
                    Kind::Int,
                    Kind::Decimal,
                    Kind::Text,
                    Kind::Date,
                    Kind::DateTime,
                ][..],
                Kind::Text,
            ),
        ])
    }

    /// One of several values of different kinds, with which nothing is computed.
    pub fn choice(&mut self) -> Typed {
        let (kinds, _) = self.branches();
        let condition = self.condition(0);
        let parts: Vec<Typed> = (0..3).map(|_| self.branch(kinds)).collect();
        let [a, b, c] = [0, 1, 2].map(|at: usize| parts[at].0.clone());
        let is_number = |kind: Kind| matches!(kind, Kind::Int | Kind::Decimal | Kind::Fine);
        let kind = match parts.iter().all(|(_, kind)| is_number(*kind)) {
            true => Kind::Decimal,
            false if parts.iter().all(|(_, kind)| *kind == Kind::Date) => Kind::Date,
            false => Kind::Text,
        };
        let text = match self.rng.between(0, 4) {
            0 => format!("IF({condition}, {a}, {b})"),
            1 => format!("CASE WHEN {condition} THEN {a} WHEN {b} IS NULL THEN {c} ELSE {b} END"),
            2 => format!("COALESCE({a}, {b}, {c})"),
            3 => format!("IFNULL({a}, {b})"),
            _ => format!("CASE WHEN {condition} THEN NULL ELSE IF({a} IS NULL, {b}, {c}) END"),
        };
        (text, kind)
    }

    fn number_literal(&mut self) -> Typed {
        match self.rng.between(0, 5) {
            0 => ("0".into(), Kind::Int),
            1..=3 => (self.rng.between(-2, 7).to_string(), Kind::Int),
            4 => (
                decimal_literal(self.rng.between(-300, 300), 2),
                Kind::Decimal,
            ),
            _ => (decimal_literal(self.rng.between(-30, 30), 1), Kind::Decimal),
        }
    }

    /// A number: Int, Decimal or, seldom, Double.
    pub fn number(&mut self, depth: u32) -> Typed {
        let kinds: &[Kind] = if self.rng.chance(8) {
            &[Kind::Double]
        } else {
            &[Kind::Int, Kind::Decimal]
        };
        if depth == 0 || self.rng.chance(4) {
            let column = self.column(kinds).filter(|_| !self.rng.chance(4));
            return column.unwrap_or_else(|| self.number_literal());
        }
        let below = depth - 1;
        match self.rng.between(0, 15) {
            0..=3 => {
                let (left, l) = self.number(below);
                let (right, r) = self.number(below);
                let op = *self.rng.choose(&["+", "-"]);
                (format!("({left} {op} {right})"), wider(l, r))
            }
            4..=5 => {
                let (left, l) = self.number(below);
                let (right, r) = self.number_literal();
                (format!("({left} * {right})"), wider(l, r))
            }
            6 => {
                let (left, right) = (self.integer(below), self.integer(0));
                let op = *self.rng.choose(&["DIV", "%", "MOD"]);
                (format!("({left} {op} {right})"), Kind::Int)
            }
            7 => {
                let (inner, kind) = self.number(below);
                (format!("(- {inner})"), kind)
            }
            8 => {
                let (inner, kind) = self.number(below);
                // Of a DOUBLE these have a number of decimals there, which quotients inherit.
                let function = match kind {
                    Kind::Double => "ABS",
                    _ => *self.rng.choose(&["ABS", "FLOOR", "CEIL", "ROUND"]),
                };
                (format!("{function}({inner})"), kind)
            }
            9 => {
                let kind = self.text_kind();
                let text = self.text_of(kind, below);
                match self.rng.between(0, 3) {
                    0 => {
                        let what = self.text_of(kind, 0);
                        let from = self.rng.between(-1, 4);
                        let text = match self.rng.chance(2) {
                            true => format!("INSTR({text}, {what})"),
                            // From a position on MariaDB never finds the empty string.
                            false => {
                                let what = some_literal(self.rng, kind);
                                format!("LOCATE({what}, {text}, {from})")
                            }
                        };
                        (text, Kind::Int)
                    }
                    _ => {
                        let function = *self.rng.choose(&["LENGTH", "CHAR_LENGTH"]);
                        (format!("{function}({text})"), Kind::Int)
                    }
                }
            }
            10 => {
                let date = self.date(below);
                let field = *self.rng.choose(&["YEAR", "MONTH", "DAY", "QUARTER"]);
                let text = match self.rng.chance(2) {
                    true => format!("EXTRACT({field} FROM {date})"),
                    false => format!("{field}({date})"),
                };
                (text, Kind::Int)
            }
            11 if self.rng.chance(3) => {
                let field = *self.rng.choose(&["HOUR", "MINUTE", "SECOND"]);
                let span = self.column(&[Kind::Time, Kind::DateTime]);
                let span = span.map_or_else(|| "TIME '-25:01:59'".to_owned(), |(text, _)| text);
                (format!("{field}({span})"), Kind::Int)
            }
            11 if self.rng.chance(3) => match self.column(&[Kind::Bit]) {
                Some((bits, _)) => {
                    let forms = ["CAST($ AS SIGNED)", "BIT_COUNT($)", "LENGTH($)", "ORD($)"];
                    (self.rng.choose(&forms).replace('$', &bits), Kind::Int)
                }
                None => self.number_literal(),
            },
            11 if self.rng.chance(3) => match self.column(&[Kind::Year]) {
                Some((year, _)) => (format!("({year} + {})", self.rng.between(-3, 3)), Kind::Int),
                None => self.number_literal(),
            },
            11 => {
                let (from, to) = (self.date(below), self.date(0));
                (format!("DATEDIFF({from}, {to})"), Kind::Int)
            }
            12 => {
                let ((a, l), (b, r)) = (self.exact(below), self.exact(0));
                // The digits of a quotient would be by what the values happen to have.
                if a.contains(".big") != b.contains(".big") {
                    return (a, l);
                }
                let function = *self.rng.choose(&["COALESCE", "IFNULL"]);
                (format!("{function}({a}, {b})"), wider(l, r))
            }
            13 => {
                let condition = self.condition(below);
                let (a, b) = (self.integer(below), self.integer(0));
                match self.rng.between(0, 2) {
                    0 => (format!("IF({condition}, {a}, {b})"), Kind::Int),
                    1 => (
                        format!("CASE WHEN {condition} THEN {a} ELSE {b} END"),
                        Kind::Int,
                    ),
                    _ => (format!("CASE WHEN {condition} THEN {a} END"), Kind::Int),
                }
            }
            14 => {
                let (operand, a, b) = (self.integer(0), self.integer(0), self.integer(0));
                let text = format!("CASE {operand} WHEN {a} THEN 1 WHEN {b} THEN 2 ELSE 3 END");
                (text, Kind::Int)
            }
            _ => {
                let (inner, _) = self.exact(below);
                (format!("CAST({inner} AS DECIMAL(14,3))"), Kind::Decimal)
            }
        }
    }

    fn exact(&mut self, depth: u32) -> Typed {
        loop {
            let (text, kind) = self.number(depth);
            if kind != Kind::Double {
                return (text, kind);
            }
        }
    }

    /// An integer.
    pub fn integer(&mut self, depth: u32) -> String {
        loop {
            let (text, kind) = self.number(depth);
            if kind == Kind::Int {
                return text;
            }
        }
    }

    /// A quotient, for places where nothing computes with it.
    pub fn quotient(&mut self) -> Typed {
        let ((left, l), (right, r)) = (self.number(1), self.number(0));
        (
            format!("{left} / {right}"),
            wider(wider(l, r), Kind::Decimal),
        )
    }

    /// Either kind of strings.
    fn text_kind(&mut self) -> Kind {
        *self.rng.choose(&[Kind::Text, Kind::Ci])
    }

    /// A string that compares by code points.
    pub fn text(&mut self, depth: u32) -> String {
        self.text_of(Kind::Text, depth)
    }

    /// A string of this kind.
    fn text_of(&mut self, kind: Kind, depth: u32) -> String {
        if depth == 0 || self.rng.chance(3) {
            let column = self.column(&[kind]).filter(|_| !self.rng.chance(4));
            return column.map_or_else(|| literal_of(self.rng, kind), |(text, _)| text);
        }
        let below = depth - 1;
        let inner = self.text_of(kind, below);
        match self.rng.between(0, 10) {
            0 => format!("CONCAT({inner}, {})", self.text_of(kind, 0)),
            1 => format!("CONCAT({inner}, {})", self.integer(0)),
            2 => {
                let (from, length) = (self.rng.between(-3, 4), self.rng.between(-1, 3));
                match self.rng.chance(2) {
                    true => format!("SUBSTRING({inner}, {from}, {length})"),
                    false => format!("SUBSTRING({inner} FROM {from})"),
                }
            }
            3 => format!("UPPER({inner})"),
            4 => format!("LOWER({inner})"),
            5 => {
                let function = *self.rng.choose(&["TRIM", "LTRIM", "RTRIM", "REVERSE"]);
                format!("{function}({inner})")
            }
            6 => {
                let function = *self.rng.choose(&["LEFT", "RIGHT"]);
                format!("{function}({inner}, {})", self.rng.between(-1, 3))
            }
            7 => format!("REPLACE({inner}, 'a', {})", literal_of(self.rng, kind)),
            8 => {
                let function = *self.rng.choose(&["LPAD", "RPAD"]);
                format!("{function}({inner}, {}, 'xy')", self.rng.between(0, 6))
            }
            9 => {
                let condition = self.condition(below);
                format!(
                    "CASE WHEN {condition} THEN {inner} ELSE {} END",
                    self.text_of(kind, 0)
                )
            }
            _ => {
                let function = *self.rng.choose(&["COALESCE", "IFNULL", "NULLIF"]);
                format!("{function}({inner}, {})", self.text_of(kind, 0))
            }
        }
    }

    /// A DATE.
    pub fn date(&mut self, depth: u32) -> String {
        if depth > 0 && self.rng.chance(3) {
            let date = self.date(depth - 1);
            let (op, unit) = (
                *self.rng.choose(&["+", "-"]),
                *self
                    .rng
                    .choose(&["DAY", "MONTH", "YEAR", "WEEK", "QUARTER"]),
            );
            return format!(
                "({date} {op} INTERVAL {} {unit})",
                self.rng.between(-40, 40)
            );
        }
        let column = self.column(&[Kind::Date]).filter(|_| !self.rng.chance(4));
        column.map_or_else(
            || format!("DATE {}", day_literal(self.rng)),
            |(text, _)| text,
        )
    }

    fn time(&mut self) -> Typed {
        match self.column(&[Kind::DateTime]) {
            Some((column, kind)) if self.rng.chance(2) => {
                let unit = *self.rng.choose(&["HOUR", "MINUTE", "SECOND", "DAY"]);
                let count = self.rng.between(-100, 100);
                (format!("{column} + INTERVAL {count} {unit}"), kind)
            }
            Some(column) => column,
            None => (self.date(0), Kind::Date),
        }
    }

    /// A number with 30 digits behind the point.
    pub fn fine(&mut self) -> String {
        let Some((column, _)) = self.column(&[Kind::Fine]) else {
            return fine_literal(self.rng);
        };
        let (number, _) = self.number_literal();
        match self.rng.between(0, 7) {
            0 => format!("({column} + {number})"),
            1 => format!("({number} - {column})"),
            2 => format!("ABS({column})"),
            3 => format!("({column} % 7)"),
            4 => format!("(- {column})"),
            5 => format!("ROUND({column}, {})", self.rng.between(-2, 20)),
            _ => column,
        }
    }

    /// A TIME or a YEAR.
    fn span(&mut self) -> Typed {
        let kind = *self.rng.choose(&[Kind::Time, Kind::Time, Kind::Year]);
        match self.column(&[kind]) {
            Some(column) => column,
            None => (format!("TIME {}", span_literal(self.rng)), Kind::Time),
        }
    }

    /// A condition on a TIME or a YEAR.
    fn span_condition(&mut self, op: &str) -> String {
        let (span, kind) = self.span();
        let value = |rng: &mut Rng| match kind {
            Kind::Year => year_literal(rng),
            _ => span_literal(rng),
        };
        let (a, b) = (value(self.rng), value(self.rng));
        match self.rng.between(0, 5) {
            0 => format!("{span} IN ({a}, {b})"),
            1 => format!("{span} BETWEEN {a} AND {b}"),
            _ => format!("{span} {op} {a}"),
        }
    }

    /// A condition on a BIT.
    fn bits_condition(&mut self, op: &str) -> String {
        let bits = self.some_column(Kind::Bit, "5");
        let (a, b) = (bits_literal(self.rng), bits_literal(self.rng));
        match self.rng.between(0, 5) {
            0 => format!("{bits} IN ({a}, {b})"),
            1 => format!("{bits} BETWEEN {a} AND {b}"),
            2 => format!("{bits} {} {a}", self.rng.choose(&["&", "|", "^"])),
            3 => format!("({bits} IS NOT NULL AND {bits})"),
            _ => format!("{bits} {op} {a}"),
        }
    }

    /// A condition.
    pub fn condition(&mut self, depth: u32) -> String {
        if depth > 0 && self.rng.chance(3) {
            let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.rng.between(0, 5) {
                0..=1 => format!("({a} AND {b})"),
                2..=3 => format!("({a} OR {b})"),
                4 => format!("NOT ({a})"),
                _ => format!("({a} XOR {b})"),
            };
        }
        let below = depth.saturating_sub(1);
        let op = *self.rng.choose(&["=", "<>", "<", "<=", ">", ">=", "<=>"]);
        match self.rng.between(0, 13) {
            0..=2 => {
                let ((a, _), (b, _)) = (self.number(below), self.number(0));
                // MariaDB looks for -1 in a key where -0.9 is compared with its column.
                let a = match a.parse::<f64>() {
                    Ok(number) => number.trunc().to_string(),
                    Err(_) => a,
                };
                let b = match self.rng.chance(9) {
                    true => big_literal(self.rng),
                    false => b,
                };
                format!("{a} {op} {b}")
            }
            3 if self.rng.chance(6) => {
                let column = self.some_column(Kind::Text, "'1'");
                format!("{column} {op} {}", self.rng.between(0, 12))
            }
            3..=4 => {
                let kind = self.text_kind();
                // Of columns of both kinds code points decide.
                let other = match self.rng.chance(6) {
                    true => self.text_kind(),
                    false => kind,
                };
                let (a, b) = (self.text_of(kind, below), self.text_of(other, 0));
                if self.rng.chance(6) {
                    let column = self.some_column(kind, "'a'");
                    let (low, high) = (literal_of(self.rng, kind), literal_of(self.rng, kind));
                    return format!("{column} BETWEEN {low} AND {high}");
                }
                format!("{a} {op} {b}")
            }
            5 => format!("{} {op} {}", self.date(below), self.date(0)),
            6 if self.rng.chance(3) => {
                let other = match self.rng.chance(2) {
                    true => self.fine(),
                    false => self.number(below).0,
                };
                format!("{} {op} {other}", self.fine())
            }
            6 if self.rng.chance(3) => self.bits_condition(op),
            6 if self.rng.chance(2) => self.span_condition(op),
            6 => match self.column(&[Kind::Date]) {
                Some((column, _)) => format!("{column} {op} {}", day_literal(self.rng)),
                None => "1 = 1".into(),
            },
            7 => {
                let (a, low, high) = (
                    self.number(below).0,
                    self.number_literal().0,
                    self.number_literal().0,
                );
                let not = if self.rng.chance(3) { "NOT " } else { "" };
                format!("{a} {not}BETWEEN {low} AND {high}")
            }
            8 => {
                let items: Vec<String> = (0..self.rng.between(1, 4))
                    .map(|_| match self.rng.chance(9) {
                        true => "NULL".into(),
                        false => self.rng.between(-2, 8).to_string(),
                    })
                    .collect();
                let not = if self.rng.chance(3) { "NOT " } else { "" };
                format!("{} {not}IN ({})", self.number(below).0, items.join(", "))
            }
            9 => {
                let kind = self.text_kind();
                let items: Vec<String> = (0..self.rng.between(1, 4))
                    .map(|_| literal_of(self.rng, kind))
                    .collect();
                let not = if self.rng.chance(3) { "NOT " } else { "" };
                let text = self.text_of(kind, below);
                format!("{text} {not}IN ({})", items.join(", "))
            }
            10..=11 => {
                let patterns = [
                    "'a%'",
                    "'%b'",
                    "'_'",
                    "'a'",
                    "'%'",
                    "'a\\\\%b'",
                    "'%a_%'",
                    "''",
                    "'%Ä%'",
                    "'S_'",
                    "'😀'",
                ];
                let pattern = *self.rng.choose(&patterns);
                let not = if self.rng.chance(3) { "NOT " } else { "" };
                let kind = self.text_kind();
                format!("{} {not}LIKE {pattern}", self.text_of(kind, below))
            }
            12 => {
                let (column, _) = self.any_column();
                let not = if self.rng.chance(2) { "NOT " } else { "" };
                format!("{column} IS {not}NULL")
            }
            _ => self.subquery(),
        }
    }

    fn some_column(&mut self, kind: Kind, otherwise: &str) -> String {
        let column = self.column(&[kind]);
        column.map_or_else(|| otherwise.to_owned(), |(text, _)| text)
    }

    fn subquery(&mut self) -> String {
        if !self.subqueries {
            return "1 = 1".into();
        }
        let not = if self.rng.chance(3) { "NOT " } else { "" };
        let a = self.some_column(Kind::Int, "1");
        let condition = self.inner_condition();
        match self.rng.between(0, 6) {
            0..=1 => {
                let column = *self.rng.choose(&["k", "n"]);
                format!("{a} {not}IN (SELECT {column} FROM s WHERE {condition})")
            }
            2..=3 => {
                let (kind, column) = *self.rng.choose(&[(Kind::Text, "name"), (Kind::Ci, "ci")]);
                let v = self.some_column(kind, "'a'");
                let correlated = match self.rng.chance(3) {
                    true => format!("i.k = {a}"),
                    false => "1 = 1".into(),
                };
                format!(
                    "{v} {not}IN (SELECT i.{column} FROM s i WHERE {correlated} AND {condition})"
                )
            }
            4..=5 => format!("{not}EXISTS (SELECT * FROM s i WHERE i.k = {a} AND {condition})"),
            _ => format!("{a} > (SELECT MIN(n) FROM s WHERE {condition})"),
        }
    }

    /// A condition over the columns of a subquery's own table.
    fn inner_condition(&mut self) -> String {
        let columns = super::tables::S
            .iter()
            .map(|c| (c.name.to_owned(), c.kind))
            .collect();
        let mut inner = Expressions {
            rng: &mut *self.rng,
            scope: columns,
            subqueries: false,
        };
        inner.condition(1)
    }
}

fn wider(left: Kind, right: Kind) -> Kind {
    match (left, right) {
        (Kind::Double, _) | (_, Kind::Double) => Kind::Double,
        (Kind::Decimal, _) | (_, Kind::Decimal) => Kind::Decimal,
        _ => Kind::Int,
    }
}
