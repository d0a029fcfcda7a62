//! Statements that grow: each shape for a size, and through which doors it is sent.

/// A shape of statements.
pub struct Shape {
    pub name: &'static str,
    /// Terms at size 1: what applications send without thinking about it.
    pub terms: usize,
    pub text: fn(usize) -> String,
    /// True if it can be prepared.
    pub preparable: bool,
}

const fn shape(name: &'static str, terms: usize, text: fn(usize) -> String) -> Shape {
    Shape {
        name,
        terms,
        text,
        preparable: true,
    }
}

fn nested(before: &str, inner: &str, after: &str, terms: usize) -> String {
    format!("{}{inner}{}", before.repeat(terms), after.repeat(terms))
}

/// `a, b, c` of so many.
fn list(terms: usize, item: impl Fn(usize) -> String) -> String {
    (0..terms).map(item).collect::<Vec<_>>().join(",")
}

fn ctes(terms: usize, reads: fn(usize) -> String) -> String {
    let first = "WITH c0 AS (SELECT 1 AS x)".to_owned();
    let rest = (1..=terms).map(|i| format!(", c{i} AS (SELECT {}", reads(i - 1)));
    let rest: String = rest.collect();
    format!("{first}{rest} SELECT COUNT(*) FROM c{terms}")
}

/// All shapes. The table `t` has columns `id`, `a`, `b` and `s`.
pub fn all() -> Vec<Shape> {
    vec![
        shape("OR", 100, |n| {
            format!("SELECT id FROM t WHERE a = 1{}", " OR b = 2".repeat(n))
        }),
        shape("AND", 100, |n| {
            format!("SELECT id FROM t WHERE a = 1{}", " AND b > 0".repeat(n))
        }),
        shape("AND and OR", 100, |n| {
            let terms = " OR a = 3 AND b BETWEEN 1 AND 2 OR NOT s = 'x'".repeat(n / 3);
            format!("SELECT id FROM t WHERE a = 1{terms}")
        }),
        shape("UPDATE with OR", 100, |n| {
            format!("UPDATE t SET b = b WHERE a = -1{}", " OR a = -2".repeat(n))
        }),
        shape("DELETE with AND", 100, |n| {
            format!("DELETE FROM t WHERE a = -1{}", " AND b <> 2".repeat(n))
        }),
        shape("UNION ALL", 10, |n| {
            format!("SELECT 1{}", " UNION ALL SELECT 2".repeat(n))
        }),
        shape("UNION", 10, |n| {
            format!("SELECT a FROM t{}", " UNION SELECT b FROM t".repeat(n))
        }),
        shape("constants added", 100, |n| {
            format!("SELECT 1{}", "+1".repeat(n))
        }),
        shape("columns added", 100, |n| {
            format!("SELECT a{} AS x FROM t", "+b".repeat(n))
        }),
        shape("comparisons of comparisons", 50, |n| {
            format!("SELECT a{} AS x FROM t", " = b".repeat(n))
        }),
        shape("parentheses", 20, |n| {
            format!("SELECT {}", nested("(", "1", ")", n))
        }),
        shape("minus signs", 20, |n| format!("SELECT {}1", "- ".repeat(n))),
        shape("nested CASE", 10, |n| {
            let inner = nested("CASE WHEN a = 1 THEN 1 ELSE ", "2", " END", n);
            format!("SELECT {inner} AS x FROM t")
        }),
        shape("nested CASE of a CASE", 5, |n| {
            let inner = nested("CASE ", "a", " WHEN 1 THEN 2 WHEN 2 THEN 1 END", n);
            format!("SELECT {inner} AS x FROM t")
        }),
        shape("nested BETWEEN", 5, |n| {
            let inner = nested("(", "a", " BETWEEN 0 AND 1)", n);
            format!("SELECT id FROM t WHERE {inner}")
        }),
        shape("long CASE", 100, |n| {
            let branches = " WHEN b = 3 THEN 4".repeat(n);
            format!("SELECT CASE{branches} END AS x FROM t")
        }),
        shape("nested functions", 20, |n| {
            format!("SELECT {} AS x FROM t", nested("CONCAT('x', ", "s", ")", n))
        }),
        shape("nested subqueries", 5, |n| {
            nested("SELECT a FROM t WHERE a IN (", "SELECT 1", ")", n)
        }),
        shape("nested derived tables", 5, |n| {
            nested("SELECT * FROM (", "SELECT 1 AS x", ") d", n)
        }),
        shape("a chain of CTEs", 10, |n| {
            ctes(n, |i| format!("x FROM c{i})"))
        }),
        shape("CTEs that double", 4, |n| {
            ctes(n, |i| format!("p.x FROM c{i} p, c{i} q)"))
        }),
        shape("joins", 5, |n| {
            let joins = (1..=n).map(|i| format!(" JOIN t t{i} ON t{i}.id = t{}.id", i - 1));
            let joins: String = joins.collect();
            format!("SELECT COUNT(*) FROM t t0{joins}")
        }),
        shape("columns", 100, |n| {
            format!("SELECT {} FROM t LIMIT 1", list(n, |_| "a".to_owned()))
        }),
        shape("literals", 100, |n| {
            format!("SELECT {}", list(n, |i| i.to_string()))
        }),
        shape("aggregates", 20, |n| {
            let sums = list(n, |i| format!("SUM(a + {i})"));
            format!("SELECT {sums} FROM t")
        }),
        shape("IN", 1000, |n| {
            let items = list(n, |i| i.to_string());
            format!("SELECT COUNT(*) FROM t WHERE b IN ({items})")
        }),
        shape("IN of several types", 20, |n| {
            let items = list(n, |i| format!("{i}, '{i}', a + {i}"));
            format!("SELECT COUNT(*) FROM t WHERE b IN ({items})")
        }),
        shape("rows IN a list", 20, |n| {
            let items = list(n, |i| format!("({i}, {i})"));
            format!("SELECT COUNT(*) FROM t WHERE (a, b) IN ({items})")
        }),
        shape("LIKE", 20, |n| {
            let pattern = "%a_".repeat(n);
            format!("SELECT COUNT(*) FROM t WHERE s LIKE '{pattern}'")
        }),
        shape("a LIKE pattern that is no constant", 20, |n| {
            let pattern = "%x".repeat(n);
            format!("SELECT COUNT(*) FROM t WHERE s LIKE CONCAT('{pattern}', s, '%')")
        }),
        shape("a long literal", 10_000, |n| {
            format!("SELECT LENGTH('{}')", "x".repeat(n))
        }),
        shape("INSERT", 1000, |n| {
            let rows = list(n, |_| "(1, 'abc', 2.5)".to_owned());
            format!("INSERT INTO big (a, s, d) VALUES {rows}")
        }),
        shape("ORDER BY", 10, |n| {
            format!(
                "SELECT id FROM t ORDER BY {}",
                list(n, |i| format!("a + {i}"))
            )
        }),
        shape("GROUP BY", 10, |n| {
            format!(
                "SELECT COUNT(*) FROM t GROUP BY {}",
                list(n, |i| format!("a + {i}"))
            )
        }),
    ]
}
