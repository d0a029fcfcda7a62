//! Random queries: whatever is bound holds together.

use perigee_testkit::Rng;

use crate::catalog::{Session, bound, catalog};

/// Tables and their columns.
const TABLES: &[(&str, &[&str])] = &[
    ("t", &["id", "a", "b"]),
    ("u", &["id", "c", "d"]),
    ("s", &["id", "v", "w"]),
    ("m", &["id", "price", "day", "f"]),
];

/// Queries of a run.
const QUERIES: usize = 5_000;

/// A query that is being made up.
pub struct Generator {
    /// No LIMIT, whose rows are not known without an order; no ROLLUP and no windows.
    pub plain: bool,
    rng: Rng,
    /// Names so far.
    names: usize,
    /// Columns that may be named, those of the queries around it first.
    columns: Vec<Vec<String>>,
    /// Common table expressions with their columns.
    commons: Vec<(String, Vec<String>)>,
}

/// Where an expression stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Row,
    Group,
    Window,
}

impl Generator {
    /// Queries of a seed.
    pub fn new(seed: u64, plain: bool) -> Self {
        Self {
            plain,
            rng: Rng(seed),
            names: 0,
            columns: Vec::new(),
            commons: Vec::new(),
        }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    fn below(&mut self, n: i64) -> i64 {
        self.rng.between(0, n - 1)
    }

    /// A query with so many columns.
    pub fn query(&mut self, width: usize, depth: usize) -> String {
        let commons = self.commons.len();
        let mut with = String::new();
        if depth > 0 && self.rng.chance(6) {
            let (name, columns) = (self.name(), vec![self.name(), self.name()]);
            let query = self.query(2, depth - 1);
            with = format!("WITH {name} ({}) AS ({query}) ", columns.join(", "));
            self.commons.push((name, columns));
        }
        let mut text = self.select(width, depth);
        if depth > 0 && self.rng.chance(8) {
            let operation = *self
                .rng
                .choose(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
            let other = self.select(width, depth - 1);
            let name = self.name();
            let columns: Vec<_> = (0..width)
                .map(|column| format!("{name}_{column}"))
                .collect();
            let columns = columns.join(", ");
            // sqlparser does not read a query that begins with a parenthesis everywhere.
            let first = format!("WITH {name} ({columns}) AS ({text}) SELECT * FROM {name}");
            text = format!("SELECT * FROM ({first}) {name} {operation} ({other})");
            if self.rng.chance(3) && !self.plain {
                text += " ORDER BY 1 LIMIT 3";
            }
        }
        self.commons.truncate(commons);
        with + &text
    }

    fn select(&mut self, width: usize, depth: usize) -> String {
        self.columns.push(Vec::new());
        let from = self.from(depth);
        let grouped = self.rng.chance(3);
        let place = match (grouped, self.rng.chance(5)) {
            (true, _) => Place::Group,
            (false, true) => Place::Window,
            (false, false) => Place::Row,
        };
        let filter = match self.rng.chance(2) {
            true => format!(" WHERE {}", self.condition(Place::Row, depth)),
            false => String::new(),
        };
        let key = self.column();
        let (group, having) = match grouped && self.rng.chance(2) {
            true => {
                let rollup = if self.rng.chance(4) && !self.plain {
                    " WITH ROLLUP"
                } else {
                    ""
                };
                let having = self.condition(place, depth.min(1));
                (
                    format!(" GROUP BY {key}{rollup}"),
                    format!(" HAVING {having}"),
                )
            }
            false => (String::new(), String::new()),
        };
        let items: Vec<String> = (0..width)
            .map(|_| match self.rng.chance(4) && grouped {
                true => key.clone(),
                false => self.expr(place, depth),
            })
            .collect();
        let order = match self.rng.chance(3) {
            true => format!(" ORDER BY 0 + {} DESC, 1", self.expr(place, depth.min(1))),
            false => String::new(),
        };
        let distinct = if self.rng.chance(6) { "DISTINCT " } else { "" };
        let limit = if self.rng.chance(4) && !self.plain {
            " LIMIT 2, 5"
        } else {
            ""
        };
        self.columns.pop();
        let items = items.join(", ");
        format!("SELECT {distinct}{items} FROM {from}{filter}{group}{having}{order}{limit}")
    }

    fn from(&mut self, depth: usize) -> String {
        let mut text = self.table(depth);
        for _ in 0..self.below(3) {
            let join = *self
                .rng
                .choose(&[" CROSS JOIN ", " JOIN ", " LEFT JOIN ", " RIGHT JOIN "]);
            let right = self.table(depth);
            text = format!("{text}{join}{right}");
            if join != " CROSS JOIN " {
                // Only the operands are seen: the first column of the last table is one.
                let last = self.columns.last().and_then(|all| all.last()).cloned();
                let condition = match (depth > 0 && self.rng.chance(6), last) {
                    (true, Some(last)) => {
                        let query = self.query(1, depth - 1);
                        format!("{last} IN ({query})")
                    }
                    (_, Some(last)) => format!("{last} > 1"),
                    (_, None) => "1".to_owned(),
                };
                text = format!("{text} ON {condition}");
            }
        }
        text
    }

    fn table(&mut self, depth: usize) -> String {
        let alias = self.name();
        let common = self.commons.len() as i64;
        let (text, columns) = match self.below(4) {
            0 if depth > 0 => {
                let columns = vec![self.name(), self.name()];
                // What stands beside a derived table is not seen in it.
                let own = self.columns.pop();
                let query = self.query(2, depth - 1);
                self.columns.extend(own);
                let names = columns.join(", ");
                // MariaDB has lists of names in WITH only.
                let text =
                    format!("(WITH {alias} ({names}) AS ({query}) SELECT * FROM {alias}) {alias}");
                (text, columns)
            }
            1 if common > 0 => {
                let at = self.below(common) as usize;
                let (name, columns) = self.commons[at].clone();
                (format!("{name} {alias}"), columns)
            }
            _ => {
                let (name, columns) = *self.rng.choose(TABLES);
                let columns = columns.iter().map(|column| (*column).to_owned());
                (format!("{name} {alias}"), columns.collect())
            }
        };
        if let Some(known) = self.columns.last_mut() {
            known.extend(columns.iter().map(|column| format!("{alias}.{column}")));
        }
        text
    }

    /// A column of this query, or now and then of one around it.
    fn column(&mut self) -> String {
        let levels = self.columns.len();
        let level = match levels > 1 && self.rng.chance(4) {
            true => self.below(levels as i64) as usize,
            false => levels - 1,
        };
        match &self.columns[level][..] {
            [] => "1".to_owned(),
            columns => {
                let columns = columns.to_vec();
                self.rng.choose(&columns).clone()
            }
        }
    }

    fn condition(&mut self, place: Place, depth: usize) -> String {
        match self.below(8) {
            0 if depth > 0 => format!("EXISTS ({})", self.query(1, depth - 1)),
            1 if depth > 0 => {
                let not = if self.rng.chance(2) { "NOT " } else { "" };
                let left = self.expr(place, 0);
                format!("{left} {not}IN ({})", self.query(1, depth - 1))
            }
            2 if depth > 0 => {
                let left = self.expr(place, 0);
                format!("{left} >= ALL ({})", self.query(1, depth - 1))
            }
            3 if depth > 0 => {
                let (a, b) = (self.expr(place, 0), self.expr(place, 0));
                format!("({a}, {b}) IN ({})", self.query(2, depth - 1))
            }
            4 if depth > 0 => {
                let (a, b) = (
                    self.condition(place, depth - 1),
                    self.condition(place, depth - 1),
                );
                format!("({a} AND {b})")
            }
            5 => format!("{} IS NULL", self.expr(place, depth)),
            _ => format!("{} < {}", self.expr(place, depth), self.expr(place, depth)),
        }
    }

    fn expr(&mut self, place: Place, depth: usize) -> String {
        if place == Place::Group && self.rng.chance(2) {
            let inner = self.expr(Place::Row, depth.min(1));
            return match self.below(6) {
                0 => "COUNT(*)".to_owned(),
                1 if !self.plain => format!("GROUP_CONCAT(DISTINCT {inner} ORDER BY 1)"),
                2 => format!("AVG({inner})"),
                3 => format!("MAX({inner})"),
                _ => format!("SUM({inner})"),
            };
        }
        if place == Place::Window && !self.plain && self.rng.chance(3) {
            let inner = self.expr(Place::Row, depth.min(1));
            let key = self.column();
            return match self.below(3) {
                0 => format!("RANK() OVER (PARTITION BY {key} ORDER BY {inner})"),
                1 => format!("LAG({inner}) OVER (ORDER BY {key})"),
                _ => format!("SUM({inner}) OVER (ORDER BY {key} ROWS 2 PRECEDING)"),
            };
        }
        match self.below(9) {
            0 => self.below(100).to_string(),
            1 => "'x'".to_owned(),
            2 if depth > 0 => format!("({} + {})", self.expr(place, depth - 1), self.column()),
            3 if depth > 0 => format!("({})", self.query(1, depth - 1)),
            4 if depth > 0 => {
                let when = self.condition(place, depth - 1);
                let (a, b) = (self.expr(place, depth - 1), self.column());
                format!("CASE WHEN {when} THEN {a} ELSE {b} END")
            }
            _ => self.column(),
        }
    }
}

/// Errors that such queries may have: what is not grouped, or stands where it may not, or does not compare.
const MAY_FAIL: &[u16] = &[1055, 1056, 1111, 1140, 1235, 1525, 3065, 3593, 3594];

#[test]
fn what_is_bound_holds_together() {
    let mut session: Session = catalog();
    let mut count = 0;
    for seed in 0..QUERIES {
        let mut generator = Generator::new(seed as u64, false);
        let sql = generator.query(2, 3);
        session.only_full_group_by = seed % 4 == 0;
        match bound(&sql, &session) {
            Ok(query) => {
                count += 1;
                if let Err(fault) = query.check() {
                    panic!("seed {seed}: {sql}\n{fault}\nof\n{query}");
                }
            }
            Err(error) => {
                assert!(
                    // HAVING names what the select list or GROUP BY has.
                    error.number() == 1054 && sql.contains(" HAVING ")
                        || MAY_FAIL.contains(&error.number()),
                    "seed {seed}: {sql}\n{error}"
                );
            }
        }
    }
    assert!(count > QUERIES / 3, "only {count} queries were bound");
}
