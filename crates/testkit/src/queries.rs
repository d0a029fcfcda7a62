//! Random SELECT statements over the tables of [`QUERY_TABLES`].

use crate::Rng;

/// The statements that make these tables, with some rows.
pub const QUERY_TABLES: &str = "CREATE DATABASE test; USE test;
CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a BIGINT, b BIGINT);
CREATE TABLE u (id BIGINT NOT NULL PRIMARY KEY, c BIGINT, d BIGINT);
CREATE TABLE s (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(20), w VARCHAR(20) COLLATE utf8mb4_general_ci);
CREATE TABLE m (id BIGINT NOT NULL PRIMARY KEY, price DECIMAL(10,2), day DATE, f DOUBLE);
INSERT INTO t VALUES (1, 2, NULL), (2, 2, 5), (3, NULL, 1), (5, 1, 3);
INSERT INTO u VALUES (1, 3, 2), (2, NULL, 2), (4, 5, NULL);
INSERT INTO s VALUES (1, 'x', 'y'), (3, NULL, 'x'), (7, 'z', NULL);
INSERT INTO m VALUES (1, 2.50, '2020-01-02', 2), (2, NULL, '2021-03-04', 3), (4, 7.00, NULL, NULL);";

/// Tables and their columns.
const TABLES: &[(&str, &[&str])] = &[
    ("t", &["id", "a", "b"]),
    ("u", &["id", "c", "d"]),
    ("s", &["id", "v", "w"]),
    ("m", &["id", "price", "day", "f"]),
];

/// A query that is being made up.
pub struct QueryGenerator {
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

impl QueryGenerator {
    /// Queries of a seed.
    #[must_use]
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
