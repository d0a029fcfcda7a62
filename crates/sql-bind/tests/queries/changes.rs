//! The rows that statements change or lock: they deliver the keys of the rows of tables that they are made of.

use perigee_sql_bind::Result;
use perigee_sql_bind::query::{Assigned, Change, Operator, Origin, Rows, bind_change};
use sqlparser::ast::{AssignmentTarget, Statement};
use sqlparser::dialect::MySqlDialect;
use sqlparser::parser::Parser;

use crate::catalog::{Session, bound, catalog};

/// The keys of the first tables of a FROM.
fn keys(tables: usize) -> Vec<Origin> {
    let key = |reference| Origin {
        reference,
        column: 0,
    };
    (0..tables).map(key).collect()
}

/// An UPDATE of these tables, bound, with the rows that are needed.
fn changed(sql: &str, tables: usize, session: &Session) -> Result<Change> {
    let parsed = Parser::parse_sql(&MySqlDialect {}, sql).unwrap();
    let Statement::Update(update) = &parsed[0] else {
        panic!("no UPDATE: {sql}");
    };
    let assigned = update.assignments.iter().map(|one| Assigned {
        column: match &one.target {
            AssignmentTarget::ColumnName(name) => name,
            AssignmentTarget::Tuple(_) => panic!("several columns: {sql}"),
        },
        value: Some(&one.value),
        is_told: true,
    });
    let rows = Rows {
        from: std::slice::from_ref(&update.table),
        selection: update.selection.as_ref(),
        order: None,
        limit: update.limit.as_ref(),
        hints: &[],
    };
    let assigned: Vec<_> = assigned.collect();
    let mut change = bind_change(&rows, &assigned, session, session)?;
    change.query.check().unwrap();
    change.narrow(&keys(tables));
    change.query.check().unwrap();
    Ok(change)
}

#[test]
fn rows_deliver_the_keys_of_their_tables() {
    let session = catalog();
    for (sql, tables, columns) in [
        ("SELECT a FROM t ORDER BY b LIMIT 3", 1, 2),
        ("SELECT id, a FROM t", 1, 2),
        (
            "SELECT a + 1 FROM t JOIN u USING (id) WHERE d IN (SELECT v FROM s)",
            2,
            3,
        ),
        ("SELECT c FROM t RIGHT JOIN u ON a = c", 2, 3),
        (
            "SELECT ROW_NUMBER() OVER (ORDER BY a), (SELECT MAX(v) FROM s WHERE s.id = a) FROM t",
            1,
            3,
        ),
        (
            "WITH c AS (SELECT 1 AS x), d AS (SELECT c.x FROM c, c AS e) SELECT a FROM t",
            1,
            2,
        ),
    ] {
        let mut query = bound(sql, &session).unwrap();
        let places = query.deliver(&keys(tables), "key").unwrap();
        query.check().unwrap();
        assert_eq!(query.body.columns.len(), columns, "{sql}");
        for (place, key) in places.into_iter().zip(keys(tables)) {
            assert_eq!(query.body.columns[place].origin, Some(key), "{sql}");
        }
    }
    for sql in [
        "SELECT COUNT(*) FROM t",
        "SELECT DISTINCT a FROM t",
        "SELECT a FROM t GROUP BY a",
        "SELECT a FROM t UNION SELECT c FROM u",
    ] {
        let mut query = bound(sql, &session).unwrap();
        assert!(query.deliver(&keys(1), "key").is_none(), "{sql}");
    }
}

#[test]
fn the_limit_over_all_rows_is_taken_off() {
    let session = catalog();
    for (sql, limit) in [
        ("SELECT a FROM t ORDER BY b LIMIT 1, 3", Some((1, Some(3)))),
        ("SELECT a FROM t LIMIT 2", Some((0, Some(2)))),
        (
            "SELECT a FROM t WHERE a > (SELECT c FROM u LIMIT 1) ORDER BY b",
            None,
        ),
    ] {
        let mut query = bound(sql, &session).unwrap();
        assert_eq!(query.without_limit(), limit, "{sql}");
        assert_eq!(query.without_limit(), None, "{sql}");
        query.check().unwrap();
    }
}

#[test]
fn values_stand_over_the_narrowed_rows() {
    let session = catalog();
    let sql = "UPDATE t JOIN u ON a = c SET b = b + c, d = (SELECT MAX(f) FROM m WHERE m.id = t.b) WHERE t.id > 3";
    let change = changed(sql, 2, &session).unwrap();
    // Both keys, b, c, and what the subquery gives.
    assert_eq!(change.query.body.columns.len(), 5);
    let of_t = |column| Origin {
        reference: 0,
        column,
    };
    let width = change.query.body.columns.len();
    for value in &change.values {
        let places = value.places();
        assert!(places.iter().all(|place| *place < width), "{sql}");
    }
    let b = change.place_of(of_t(2)).unwrap();
    assert!(change.values[0].places().contains(&b));
    assert!(change.place_of(of_t(1)).is_none());
}

#[test]
fn subqueries_depend_on_what_was_assigned_before() {
    let session = catalog();
    let arguments = |sql: &str| {
        let change = changed(sql, 1, &session).unwrap();
        let mut found = Vec::new();
        let mut relation = &change.query.body;
        loop {
            relation = match &relation.operator {
                Operator::Project { input, .. } => input,
                Operator::Apply(apply) => {
                    found.extend(apply.arguments.iter().map(ToString::to_string));
                    &apply.input
                }
                _ => break found,
            };
        }
    };
    let subquery = "(SELECT MAX(f) FROM m WHERE m.id = t.a)";
    for (assignments, expected) in [
        (format!("b = {subquery}, a = 1"), "#1"),
        (format!("a = 1, b = {subquery}"), "stored(1)"),
        (
            format!("b = b + 1, a = b * 2, b = {subquery}"),
            "stored((stored((#2 + 1)) * 2))",
        ),
        (format!("a = (SELECT 1), b = {subquery}"), "stored(#3)"),
    ] {
        let found = arguments(&format!("UPDATE t SET {assignments}"));
        assert_eq!(found, [expected], "{assignments}");
    }
    let sql = format!("UPDATE t SET a = RAND(), b = {subquery}");
    assert_eq!(changed(&sql, 1, &session).unwrap_err().number(), 1235);
}

#[test]
fn changes_have_errors() {
    let session = catalog();
    for (sql, number) in [
        ("UPDATE t SET a = nope", 1054),
        ("UPDATE t SET a = 1 WHERE nope", 1054),
        ("UPDATE nope SET a = 1", 1146),
        ("UPDATE t SET a = COUNT(*)", 1111),
        ("UPDATE t SET a = ROW_NUMBER() OVER ()", 3593),
        ("UPDATE t JOIN u SET a = id", 1052),
        ("UPDATE t SET a = (SELECT 1, 2)", 1241),
    ] {
        let error = changed(sql, 1, &session).unwrap_err();
        assert_eq!(error.number(), number, "{sql}: {error}");
    }
}
