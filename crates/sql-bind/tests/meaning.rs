//! What the binder decides, as its expressions print themselves: domains of comparisons, conversions, types.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::sync::Arc;

use perigee_expr::functions::Value as Truth;
use perigee_expr::scalar::{Context, Nowhere};
use perigee_sql_bind::{BindError, Binder, ColumnOf, Environment, ListItem, ListItems, Result};
use perigee_sql_type::SqlType;
use perigee_value::{Collation, ColumnType, Members, MembersKind};
use sqlparser::ast::{Expr, Ident};
use sqlparser::dialect::MySqlDialect;
use sqlparser::parser::Parser;

/// A row of a table of one column of each kind.
struct Table(Vec<(&'static str, SqlType)>);

fn table() -> Table {
    let varchar = |collation| {
        SqlType::of(ColumnType::Varchar {
            chars: 20,
            collation,
        })
    };
    let members = Members::new(vec!["x".into(), "y".into()], Collation::UTF8MB4_BIN).unwrap();
    let set = vec!["x".into(), "y".into()];
    let set = Members::of(MembersKind::Set, set, Collation::UTF8MB4_BIN).unwrap();
    Table(vec![
        ("i", SqlType::int()),
        ("u", SqlType::uint()),
        (
            "d",
            SqlType::of(ColumnType::Decimal {
                precision: 5,
                scale: 2,
            }),
        ),
        ("f", SqlType::of(ColumnType::Double)),
        ("s", varchar(Collation::UTF8MB4_BIN)),
        ("c", varchar(Collation::UTF8MB4_GENERAL_CI)),
        ("b", varchar(Collation::BINARY)),
        ("day", SqlType::of(ColumnType::Date)),
        ("at", SqlType::of(ColumnType::DateTime { fsp: 0 })),
        ("t", SqlType::of(ColumnType::Time { fsp: 0 })),
        ("y", SqlType::of(ColumnType::Year)),
        ("e", SqlType::of_members(Arc::new(members))),
        ("bit", SqlType::of(ColumnType::Bit { bits: 12 })),
        ("has", SqlType::of_members(Arc::new(set))),
    ])
}

impl Environment for Table {
    fn column(&self, name: &[Ident]) -> Result<ColumnOf> {
        let name = &name[name.len() - 1].value;
        let place = self.0.iter().position(|(known, _)| known == name);
        let place = place.ok_or_else(|| BindError::UnknownColumn(name.clone()))?;
        let ty = self.0[place].1.clone();
        Ok(ColumnOf { place, ty })
    }

    fn variable(&self, _: Option<&str>, name: &str) -> Result<Expr> {
        Err(BindError::NotSupported(name.to_owned()))
    }

    fn session_function(&self, _: &str) -> Option<Expr> {
        None
    }

    fn long_list(&self, name: &str) -> Option<ListItems<'_>> {
        let items = match name {
            "integers" => [-7, 3, 0, 94].map(ListItem::Integer).to_vec(),
            "texts" => ["A", "3", "a ", "3.0", "-7x"].map(text).to_vec(),
            "days" => ["2020-01-31", "1999-1-1"].map(text).to_vec(),
            _ => return None,
        };
        Some(Box::new(items.into_iter()))
    }

    fn now(&self) -> perigee_value::Now {
        perigee_value::Now::default()
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

fn text(text: &'static str) -> ListItem<'static> {
    ListItem::Text(text.into())
}

/// The expression as it prints itself, and its type.
fn meaning(sql: &str) -> String {
    let mut parser = Parser::new(&MySqlDialect {}).try_with_sql(sql).unwrap();
    let expr = parser.parse_expr().unwrap();
    match Binder::new(&table()).expression(&expr) {
        Ok(scalar) => {
            let ty = scalar
                .ty
                .column
                .map_or("null".to_owned(), |ty| ty.to_string());
            format!("{scalar} : {ty}")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn meanings() {
    let cases = [
        ("bit = 65", "(#12 = 65 by exact) : bigint"),
        ("bit = x'41'", "(#12 = 65 by exact) : bigint"),
        (
            "IF(i, bit, bit)",
            "case when (#0 <> 0 by exact) then #12 else #12 end : bit(12)",
        ),
        ("has = 3", "(number(#13) = 3 by exact) : bigint"),
        ("i = 1", "(#0 = 1 by exact) : bigint"),
        ("i = '7'", "(#0 = 7 by exact) : bigint"),
        ("i = '7x'", "(#0::double = 7e0 by double) : bigint"),
        ("s = 7", "(#4::double = 7e0 by double) : bigint"),
        ("s = c", "(#4 = #5 by utf8mb4_bin) : bigint"),
        ("c = 'a'", "(#5 = 'a' by utf8mb4_general_ci) : bigint"),
        ("s = b", "(#4::bytes = #6 by bytes) : bigint"),
        (
            "day = '2020-01-31'",
            "(#7::datetime = '2020-01-31 00:00:00' by datetime) : bigint",
        ),
        ("day = 'x'", "incorrect DATE value: x"),
        ("at > day", "(#8 > #7::datetime by datetime) : bigint"),
        ("y = 94", "(#10 = 1994 by exact) : bigint"),
        ("e = 1", "(number(#11) = 1 by exact) : bigint"),
        ("e = 'x'", "(#11 = 'x' by utf8mb4_bin) : bigint"),
        (
            "i IN (1, 2, NULL)",
            "(#0 in (1, 2, null) by exact) : bigint",
        ),
        (
            "i IN (1, 's')",
            "((#0 = 1 by exact) or (#0::double = 0e0 by double)) : bigint",
        ),
        ("i IN (integers)", "(#0 in (4 values) by exact) : bigint"),
        (
            "c IN (texts)",
            "(#5 in (4 values) by utf8mb4_general_ci) : bigint",
        ),
        (
            "i IN (texts)",
            "((#0::double in (3 values) by double) or (#0 in (1 values) by exact)) : bigint",
        ),
        (
            "day IN (days)",
            "(#7::datetime in (2 values) by datetime) : bigint",
        ),
        ("day IN (texts)", "incorrect DATE value: A"),
        ("(i, s) IN (integers)", "operand should contain 2 columns"),
        ("i IN (nowhere)", "unknown column nowhere"),
        ("d + 1 / 3", "(#2 + (1 / 3)) : decimal(8,4)"),
        ("ROUND(2 / 3, 8)", "round((2 / 3), 8) : decimal(10,8)"),
        ("ABS(2 / 3)", "abs((2 / 3), 0) : decimal(5,4)"),
        ("i + u", "(#0 + #1) : bigint unsigned"),
        ("-u", "-#1 : bigint"),
        (
            "IF(i, d, 0)",
            "case when (#0 <> 0 by exact) then #2 else cast(0 as decimal(5,2)) end : decimal(5,2)",
        ),
        (
            "COALESCE(i, s)",
            "coalesce(cast(#0 as char), #4) : varchar(20)",
        ),
        ("s LIKE 'a%'", "(#4 like 'a%' by utf8mb4_bin) : bigint"),
        (
            "day + INTERVAL 1 MONTH",
            "(cast(#7 as date) + cast(1 as signed) × 1 months) : date",
        ),
        ("NOT i", "not (#0 <> 0 by exact) : bigint"),
        (
            "UPPER(c) = 'A'",
            "(upper(#5) = 'A' by utf8mb4_general_ci) : bigint",
        ),
        (
            "(i, s) = (1, 'a')",
            "((#0 = 1 by exact) and (#4 = 'a' by utf8mb4_bin)) : bigint",
        ),
        ("(i, s)", "operand should contain 1 columns"),
        ("nowhere", "unknown column nowhere"),
    ];
    let wrong: Vec<_> = cases
        .iter()
        .filter(|(sql, expected)| meaning(sql) != *expected)
        .map(|(sql, expected)| format!("{sql}\n  is       {}\n  expected {expected}", meaning(sql)))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A long list has the answer of the list that is written out, for operands of every type.
#[test]
fn a_long_list_means_what_its_parts_mean() {
    let lists = [
        ("integers", "(-7, 3, 0, 94)"),
        ("texts", "('A', '3', 'a ', '3.0', '-7x')"),
        ("days", "('2020-01-31', '1999-1-1')"),
    ];
    let bind = |text: &str| {
        let mut parser = Parser::new(&MySqlDialect {}).try_with_sql(text).unwrap();
        let expr = parser.parse_expr().unwrap();
        Binder::new(&table()).expression(&expr)
    };
    let operands = "NULL, 3, -7, 94, 3.0, 3.5, 3e0, -0e0, 18446744073709551615, 'a', 'A', '3', '', 'ä', X'41', \
        DATE '2020-01-31', TIMESTAMP '1999-01-01 00:00:00', CAST('3' AS JSON), CAST('\"a\"' AS JSON), \
        'a' COLLATE utf8mb4_general_ci, TIME '00:00:03', TRUE";
    let mut found = 0;
    for (name, list) in lists {
        for operand in operands.split(',') {
            for not in ["", "NOT"] {
                let of = |list: &str| {
                    let bound = bind(&format!("{operand} {not} IN {list}"));
                    bound.map(|bound| {
                        bound
                            .evaluate(&[], &Context::new(&Nowhere))
                            .unwrap()
                            .into_owned()
                    })
                };
                let (long, short) = (of(&format!("({name})")), of(list));
                assert_eq!(long, short, "{operand} {not} IN {list}");
                found += usize::from(not.is_empty() && long == Ok(Truth::truth(true)));
            }
        }
    }
    assert!(found > 15, "{found}");
}

#[test]
fn long_and_deep_expressions_are_bound_in_linear_time() {
    let chain = |op: &str| vec!["i"; 100_000].join(op);
    for op in ["+", " OR ", " AND "] {
        let text = chain(op);
        let mut parser = Parser::new(&MySqlDialect {})
            .with_recursion_limit(1 << 20)
            .try_with_sql(&text)
            .unwrap();
        let expr = stacker::grow(1 << 30, || parser.parse_expr().unwrap());
        let begin = std::time::Instant::now();
        let scalar = Binder::new(&table()).expression(&expr).unwrap();
        assert!(
            begin.elapsed().as_secs() < 20,
            "{op} took {:?}",
            begin.elapsed()
        );
        drop(scalar);
        stacker::grow(1 << 30, || drop(expr));
    }
}

/// An operand that an expression names once and needs several times neither doubles the expression nor its evaluation,
/// however deep that goes on.
#[test]
fn what_stands_in_several_places_is_there_once() {
    const DEPTH: usize = 60;
    let forms: [fn(&str) -> String; 6] = [
        |x| format!("CASE {x} WHEN 1 THEN 2 WHEN 2 THEN 1 END"),
        |x| format!("({x} BETWEEN 0 AND 1)"),
        |x| format!("NULLIF({x}, 3)"),
        |x| format!("({x} IN (1, 's', NULL))"),
        |x| format!("(({x}, 1) < (1, 2))"),
        |x| format!("NOT {x}"),
    ];
    let bind = |text: &str| {
        let mut parser = Parser::new(&MySqlDialect {})
            .with_recursion_limit(1 << 20)
            .try_with_sql(text)
            .unwrap();
        let expr = stacker::grow(1 << 30, || parser.parse_expr().unwrap());
        Binder::new(&table()).expression(&expr).unwrap()
    };
    for form in forms {
        let text = (0..DEPTH).fold("1".to_owned(), |inner, _| form(&inner));
        let scalar = bind(&text);
        let mut nodes = 0;
        scalar.visit(&mut |_| {
            nodes += 1;
            true
        });
        assert!(nodes <= 24 * DEPTH, "{nodes} nodes of {text}");
        scalar.evaluate(&[], &Context::new(&Nowhere)).unwrap();
        assert!(scalar.is_same(&bind(&text)), "{text}");
    }
}
