//! Random programs against MariaDB: the same expression over the same rows, as SQL.
//!
//! The differences that remain are named in [`Difference`]; `docs/expressions.md` explains them.
//! `PERIGEE_MARIADB_PROGRAMS` sets the number of programs, `PERIGEE_SEED` the first seed.
#![allow(clippy::unwrap_used, reason = "tests")]

mod mariadb {
    pub mod mixed;
}

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use perigee_expr::arbitrary::{Generator, Options};
use perigee_expr::{Interpreter, Node, Program, Type};
use perigee_testkit::MariaDb;
use perigee_value::{
    ColumnType, Datum, RecordView, RowLayout, ValueRef, date, decimal, format_double, time,
};

/// Rows of a table.
const ROWS: usize = 8;

/// Programs over one table.
const PROGRAMS_PER_TABLE: usize = 16;

/// MySQL's default modes; MariaDB's own are fewer.
const SQL_MODE: &str = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
                        ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";

fn number_of(variable: &str, default: usize) -> usize {
    std::env::var(variable)
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(default)
}

/// Why a row may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// An implicit conversion out of range is an error here; CAST in a SELECT gives the nearest
    /// value and a warning there.
    Cast,
    /// Decimals have 38 digits here and 65 there, and intermediate results are not bounded by
    /// their stated precision there.
    DecimalDigits,
    /// An error beside NULL: here operands are evaluated before they are looked at; there some
    /// operations stop at the first NULL.
    BesideNull,
    /// There constant parts are evaluated before the rows, and some where they are not needed:
    /// an overflow in a branch that no row takes is an error.
    Eager,
    /// Minus the least BIGINT is an overflow here; there it is a DECIMAL if it is constant.
    LeastInteger,
}

struct Case {
    program: Program,
    sql: String,
    /// Value of each row as text, `None` for an error.
    expected: Vec<Option<String>>,
}

struct Table {
    name: String,
    layout: RowLayout,
    rows: Vec<Vec<Datum>>,
    cases: Vec<Case>,
}

#[test]
fn random_programs_have_mariadbs_values() {
    let dir = tempfile::tempdir().unwrap();
    let server = MariaDb::start(dir.path(), &["--innodb-buffer-pool-size=32M"])
        .expect("MariaDB is needed for this test");
    server.query("", "CREATE DATABASE t").unwrap();
    let programs = number_of("PERIGEE_MARIADB_PROGRAMS", 3000);
    let seed = number_of("PERIGEE_SEED", 1) as u64;
    let tables: Vec<Table> = (0..programs.div_ceil(PROGRAMS_PER_TABLE))
        .map(|i| table(&format!("t{i}"), seed + i as u64))
        .collect();
    run(&server, &tables.iter().map(create).collect::<String>());
    let whole: Vec<String> = all_cases(&tables)
        .map(|(table, case)| format!("SELECT {} FROM {} ORDER BY id", case.sql, table.name))
        .collect();
    let answers = ask(&server, &whole);

    // A statement that fails says nothing about its other rows: ask for each alone.
    let failed: Vec<usize> = (0..whole.len()).filter(|i| answers[*i].is_err()).collect();
    let cases: Vec<(&Table, &Case)> = all_cases(&tables).collect();
    let single: Vec<String> = failed
        .iter()
        .flat_map(|i| {
            let (table, case) = cases[*i];
            (0..ROWS)
                .map(move |row| format!("SELECT {} FROM {} WHERE id = {row}", case.sql, table.name))
        })
        .collect();
    let single_answers = ask(&server, &single);

    let mut report = Report::default();
    for (i, (table, case)) in cases.iter().enumerate() {
        for row in 0..ROWS {
            let got = match failed.iter().position(|f| *f == i) {
                Some(at) => single_answers[at * ROWS + row]
                    .as_ref()
                    .map(|rows| &rows[0]),
                None => answers[i].as_ref().map(|rows| &rows[row]),
            };
            report.row(table, case, row, got);
        }
    }
    report.check();
}

fn all_cases(tables: &[Table]) -> impl Iterator<Item = (&Table, &Case)> {
    tables
        .iter()
        .flat_map(|table| table.cases.iter().map(move |case| (table, case)))
}

fn table(name: &str, seed: u64) -> Table {
    let options = Options {
        as_mariadb: true,
        ..Options::default()
    };
    let mut generator = Generator::with_options(seed, options);
    let layout = generator.layout();
    let records: Vec<Vec<u8>> = (0..ROWS).map(|_| generator.record(&layout)).collect();
    let rows = records
        .iter()
        .map(|r| RecordView::new(&layout, r).row().unwrap())
        .collect();
    let names: Vec<String> = (0..layout.columns.len()).map(|i| format!("c{i}")).collect();
    let cases = (0..PROGRAMS_PER_TABLE)
        .map(|i| {
            let (program, sql) = if i % 2 == 0 {
                let program = generator.program(&layout);
                let sql = program.to_sql(&names);
                (program, sql)
            } else {
                let seed = seed * PROGRAMS_PER_TABLE as u64 + i as u64;
                mariadb::mixed::program(&mut generator, &layout, seed)
            };
            let interpreter = Interpreter::new(&program, &layout);
            let ty = program.result_type();
            let expected = records
                .iter()
                .map(|record| interpreter.record(record).ok().map(|value| text(value, ty)))
                .collect();
            let sql = shown(&sql, ty);
            Case {
                program,
                sql,
                expected,
            }
        })
        .collect();
    Table {
        name: name.to_owned(),
        layout,
        rows,
        cases,
    }
}

/// The expression in a form whose text shows all of its value.
fn shown(sql: &str, ty: Type) -> String {
    match ty {
        Type::String | Type::Collated(_) => format!("HEX({sql})"),
        Type::DateTime => format!("CAST({sql} AS DATETIME(6))"),
        Type::Time => format!("CAST({sql} AS TIME(6))"),
        Type::Double => format!("CAST({sql} AS DOUBLE)"),
        _ => sql.to_owned(),
    }
}

/// What MariaDB prints for it.
fn text(value: ValueRef<'_>, ty: Type) -> String {
    let mut out = String::new();
    match value {
        ValueRef::Null => out.push_str("NULL"),
        ValueRef::Bool(v) => out.push_str(if v { "1" } else { "0" }),
        ValueRef::Int(v) => write!(out, "{v}").unwrap(),
        ValueRef::UInt(v) => write!(out, "{v}").unwrap(),
        ValueRef::Decimal(v) => decimal::format(v, ty.scale(), &mut out),
        // MariaDB does not print the sign of a negative zero; MySQL does.
        ValueRef::Double(v) => format_double(if v == 0.0 { 0.0 } else { v }, &mut out),
        ValueRef::Date(v) => date::format_day(v, &mut out),
        ValueRef::DateTime(v) => date::format_micros(v, 6, &mut out),
        ValueRef::Time(v) => time::format_time(v, 6, &mut out),
        ValueRef::String(v) => v.iter().for_each(|byte| write!(out, "{byte:02X}").unwrap()),
        ValueRef::Wide(_) | ValueRef::Overflow(_) => panic!("no expression has such a value"),
    }
    out
}

fn create(table: &Table) -> String {
    let mut sql = format!("CREATE TABLE {} (id INT PRIMARY KEY", table.name);
    for (i, column) in table.layout.columns.iter().enumerate() {
        write!(sql, ", c{i} {} NULL", column.ty).unwrap();
        if let Some(collation) = column.ty.collation() {
            write!(sql, " COLLATE {}", collation.name()).unwrap();
        }
    }
    sql.push_str(") ENGINE=MEMORY;\n");
    for (id, row) in table.rows.iter().enumerate() {
        write!(sql, "INSERT INTO {} VALUES ({id}", table.name).unwrap();
        for (value, column) in row.iter().zip(&table.layout.columns) {
            sql.push_str(", ");
            sql.push_str(&literal(value, column.ty));
        }
        sql.push_str(");\n");
    }
    sql
}

fn literal(value: &Datum, ty: ColumnType) -> String {
    match value {
        Datum::Null => "NULL".into(),
        Datum::Double(v) => format!("{v:e}"),
        Datum::String(v) => {
            let hex: String = v.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("_utf8mb4 X'{hex}'")
        }
        _ => {
            let mut text = String::new();
            perigee_value::format_value(ty, value.as_ref(), &mut text);
            format!("'{text}'")
        }
    }
}

/// Runs statements that must succeed.
fn run(server: &MariaDb, sql: &str) {
    let (_, errors) = client(server, sql, false);
    assert_eq!(errors, "");
}

/// Runs SELECTs and gives the lines that each answers, or its error.
fn ask(server: &MariaDb, statements: &[String]) -> Vec<Result<Vec<String>, String>> {
    let mut sql = String::new();
    for (i, statement) in statements.iter().enumerate() {
        writeln!(sql, "SELECT '#{i}';\n{statement};").unwrap();
    }
    let (output, errors) = client(server, &sql, true);
    let mut answers = vec![Ok(Vec::new()); statements.len()];
    let mut current = 0;
    for line in output.lines() {
        match (line.strip_prefix('#'), &mut answers) {
            (Some(number), _) => current = number.parse().unwrap(),
            (None, answers) => answers[current].as_mut().unwrap().push(line.to_owned()),
        }
    }
    // "ERROR 1690 (22003) at line 7: ...": the script has one line before the statements, then two
    // for each.
    for error in errors.lines().filter(|line| line.starts_with("ERROR")) {
        let line = error
            .split_once(" at line ")
            .unwrap()
            .1
            .split_once(':')
            .unwrap()
            .0;
        answers[(line.parse::<usize>().unwrap() - 2) / 2] = Err(error.to_owned());
    }
    answers
}

fn client(server: &MariaDb, sql: &str, force: bool) -> (String, String) {
    let mut command = server.client();
    command
        .args(["--batch", "--raw", "-N", "t"])
        .args(force.then_some("--force"));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let script = format!(
        "SET SESSION sql_mode='{SQL_MODE}', time_zone='+00:00'; SET NAMES utf8mb4 COLLATE utf8mb4_bin;\n{sql}"
    );
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[derive(Default)]
struct Report {
    equal: usize,
    both_fail: usize,
    differences: BTreeMap<Difference, usize>,
    wrong: Vec<String>,
}

impl Report {
    fn row(&mut self, table: &Table, case: &Case, row: usize, got: Result<&String, &String>) {
        let mut known = |difference| *self.differences.entry(difference).or_default() += 1;
        match (&case.expected[row], got) {
            (Some(expected), Ok(got)) if expected == got => self.equal += 1,
            (None, Err(_)) => self.both_fail += 1,
            (None, Ok(_)) if difference(&case.program).is_some() => {
                known(difference(&case.program).unwrap());
            }
            (Some(_), Err(error)) if error.contains("ERROR 1690") && is_lazy(&case.program) => {
                known(Difference::Eager);
            }
            (expected, got) => self.wrong.push(format!(
                "{}\n{}row {:?}\n  here {expected:?}, there {got:?}",
                case.sql,
                case.program.dump(),
                table.rows[row]
            )),
        }
    }

    fn check(&self) {
        let known: usize = self.differences.values().sum();
        let rows = self.equal + self.both_fail + known + self.wrong.len();
        println!(
            "{rows} rows: {} equal, {} fail in both, {:?}, {} wrong",
            self.equal,
            self.both_fail,
            self.differences,
            self.wrong.len()
        );
        let mut shown = self.wrong.clone();
        shown.dedup_by(|a, b| a.lines().next() == b.lines().next());
        for wrong in shown.iter().take(10) {
            println!("\n{wrong}");
        }
        assert!(self.wrong.is_empty(), "{} rows differ", self.wrong.len());
        assert!(
            self.equal * 10 > rows * 7,
            "most rows have a value that is compared"
        );
    }
}

/// True if a row may need only a part of the program.
fn is_lazy(program: &Program) -> bool {
    let lazy = |node: &Node| matches!(node, Node::And(_) | Node::Or(_) | Node::Case { .. });
    program.nodes.iter().any(lazy)
}

/// Why the program may fail here and not there.
fn difference(program: &Program) -> Option<Difference> {
    let types = program.types();
    let casts = program.nodes.iter().any(|node| {
        matches!(
            node,
            Node::Cast {
                ty: Type::Int | Type::UInt | Type::Decimal { .. },
                ..
            }
        )
    });
    let decimals = program.nodes.iter().zip(&types).any(|(node, ty)| {
        matches!(
            (node, ty),
            (
                Node::Arithmetic { .. } | Node::Negate(_),
                Type::Decimal { .. }
            )
        )
    });
    let nulls = program
        .nodes
        .iter()
        .any(|node| matches!(node, Node::Compare { .. } | Node::Arithmetic { .. }));
    let least = program.nodes.iter().any(|node| {
        let operand = if let Node::Negate(id) = node {
            program.node(*id)
        } else {
            node
        };
        matches!(
            operand,
            Node::Constant {
                value: Datum::Int(i64::MIN),
                ..
            }
        )
    });
    if casts {
        Some(Difference::Cast)
    } else if decimals {
        Some(Difference::DecimalDigits)
    } else if least {
        Some(Difference::LeastInteger)
    } else if nulls {
        Some(Difference::BesideNull)
    } else {
        None
    }
}
