//! Comparing answers: what is compared of them, and how their differences are shown.

use perigee_testkit::MariaDb;
use perigee_value::Collation;
use perigee_workload::{Client, Rows, WorkloadError};

use super::queries::{Compared, Order, Query};

/// MySQL's error for what a server does not do.
pub const NOT_SUPPORTED: u16 = 1235;

/// MySQL's default modes; MariaDB's own are fewer.
const SQL_MODE: &str = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
                        ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";

/// A number from the environment.
pub fn number_of(variable: &str, default: usize) -> usize {
    let text = std::env::var(variable).ok();
    text.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// The number of the error that a server answered with.
pub fn errno(error: &WorkloadError) -> u16 {
    let code = error.code();
    code.unwrap_or_else(|| panic!("no answer of a server: {error}"))
}

/// An answer in the form that is compared: cells cut or rounded where that is allowed, rows in an
/// order of their own where theirs is open.
pub fn normal(rows: &Rows, query: &Query) -> Rows {
    let cell = |(cell, compared): (&Option<String>, &Compared)| {
        let text = cell.as_ref()?;
        Some(match compared {
            Compared::Exactly | Compared::ExactlyCi => text.clone(),
            Compared::AsDouble => match text.parse::<f64>() {
                Ok(v) if v != 0.0 => format!("{v:.8e}"),
                Ok(_) => "0".to_owned(),
                Err(_) => text.clone(),
            },
            Compared::AsCollated => text.trim_end_matches(' ').to_owned(),
            Compared::AsWeights => {
                let form = Collation::UTF8MB4_UNICODE_520_CI.form(text.as_bytes());
                String::from_utf8_lossy(&form).into_owned()
            }
        })
    };
    let row = |row: &Vec<Option<String>>| row.iter().zip(&query.columns).map(cell).collect();
    let mut rows: Rows = rows.iter().map(row).collect();
    if query.order != Order::Rows {
        rows.sort();
    }
    rows
}

/// MySQL's error for a number that is out of range.
const OUT_OF_RANGE: u16 = 1690;

/// The greatest DECIMAL(65,30). MariaDB cuts a DECIMAL with more integer digits to it, where another branch of a CASE or
/// UNION has 30 digits after the decimal point; here the value keeps its digits, or is an error where it cannot.
const GREATEST: &str = "99999999999999999999999999999999999.999999999999999999999999999999";

/// True if an answer of MariaDB has values that it cut.
pub fn is_cut(
    query: &Query,
    ours: &Result<Rows, WorkloadError>,
    theirs: &Result<Rows, WorkloadError>,
) -> bool {
    let is_greatest = |cell: &Option<String>| {
        let cell = cell.as_deref().unwrap_or_default();
        cell.trim_start_matches('-') == GREATEST
    };
    let text = [query.made.as_deref().unwrap_or_default(), &query.sql];
    let has = |column: &str| text.iter().any(|sql| sql.contains(column));
    // Two values that it cuts are one.
    let counts_mixed =
        text[1].contains("COUNT(DISTINCT") && mentions(text[1], "e") && mentions(text[1], "w");
    match (ours, theirs) {
        (Ok(_), Ok(_)) if counts_mixed => true,
        (_, Ok(theirs)) if theirs.iter().flatten().any(is_greatest) => true,
        (Err(ours), Ok(_)) => errno(ours) == OUT_OF_RANGE && has(".big") && has(".fine"),
        _ => false,
    }
}

/// True if a statement names a column.
fn mentions(sql: &str, column: &str) -> bool {
    sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|word| word == column)
}

/// The magnitude of the greatest values of the column `big`.
const GREATEST_BIG: f64 = 1e40;

/// MySQL's error for a constant that is no time and is compared with times.
const NO_TIME: u16 = 1525;

/// True if a constant of the statement is no time and is compared with times: an error as in MySQL, and a warning in
/// MariaDB.
pub fn is_no_time(
    query: &Query,
    ours: &Result<Rows, WorkloadError>,
    theirs: &Result<Rows, WorkloadError>,
) -> bool {
    let (Err(ours), Ok(_)) = (ours, theirs) else {
        return false;
    };
    let text = ours.to_string();
    let constant = text.split_once("value: '").map(|(_, rest)| rest);
    let constant = constant
        .and_then(|rest| rest.rsplit_once('\''))
        .map(|(text, _)| text);
    let constant = constant.unwrap_or_default().trim_end_matches('\'');
    errno(ours) == NO_TIME && query.sql.contains(&format!("'{constant}'"))
}

/// True if answers differ in sums of doubles only, by what adding one after the other rounds off where terms cancel each
/// other; sums are exact here until the end.
pub fn is_rounded_sum(
    query: &Query,
    ours: &Result<Rows, WorkloadError>,
    theirs: &Result<Rows, WorkloadError>,
) -> bool {
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
        return false;
    };
    let (ours, theirs) = (normal(ours, query), normal(theirs, query));
    let number = |cell: &Option<String>| cell.as_ref().and_then(|text| text.parse::<f64>().ok());
    // The digits that are lost are those of the greatest term.
    let least = match mentions(&query.sql, "big") {
        true => 1e-16 * GREATEST_BIG,
        false => 1e-12,
    };
    let is_near = |one: &Option<String>, other: &Option<String>| match (number(one), number(other))
    {
        _ if one == other => true,
        (Some(one), Some(other)) => (one - other).abs() <= (1e-5 * other.abs()).max(least),
        _ => false,
    };
    let sums = query.sql.contains("SUM(") || query.sql.contains("AVG(");
    let doubles = query
        .columns
        .iter()
        .any(|compared| matches!(compared, Compared::AsDouble));
    sums && doubles
        && ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(one, other)| {
            let columns = query.columns.iter().zip(one).zip(other);
            columns
                .into_iter()
                .all(|((compared, one), other)| match compared {
                    Compared::AsDouble => is_near(one, other),
                    _ => one == other,
                })
        })
}

/// True if a statement compares an integer column with a fraction, which MariaDB rounds where the column is of a key that it
/// looks up: it finds the rows of -1 with `k = -0.61`.
pub fn is_rounded_key(
    query: &Query,
    ours: &Result<Rows, WorkloadError>,
    theirs: &Result<Rows, WorkloadError>,
) -> bool {
    const INTEGERS: [&str; 6] = ["k", "l", "id", "a", "n", "g"];
    if ours.is_err() || theirs.is_err() {
        return false;
    }
    let words: Vec<&str> = query.sql.split_whitespace().collect();
    words.windows(3).any(|three| {
        let column = three[0].trim_start_matches('(').rsplit('.').next();
        let number = three[2].trim_matches(['(', ')', ',']);
        let fraction = number.split_once('.').map(|(_, digits)| digits);
        INTEGERS.contains(&column.unwrap_or_default())
            && matches!(three[1], "=" | "<=>" | "IN")
            && fraction
                .is_some_and(|digits| digits.bytes().any(|digit| (b'1'..=b'9').contains(&digit)))
    })
}

/// True if answers differ in the year 0 only, which is 0 here where it becomes a text, and there in MIN and MAX of all
/// rows; so one more row may be a duplicate.
pub fn is_year_of_branch(
    query: &Query,
    ours: &Result<Rows, WorkloadError>,
    theirs: &Result<Rows, WorkloadError>,
) -> bool {
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
        return false;
    };
    let short = |cell: &Option<String>| match cell.as_deref() {
        Some("0000") => Some("0".to_owned()),
        _ => cell.clone(),
    };
    let made = query.made.as_deref().unwrap_or_default();
    let is_set = [made, &query.sql].iter().any(|sql| sql.contains(" UNION "));
    let shortened = |rows: &Rows| -> Rows {
        let rows = rows.iter().map(|row| row.iter().map(short).collect());
        let mut rows = normal(&rows.collect(), query);
        if is_set {
            rows.dedup();
        }
        rows
    };
    let has_year = mentions(&query.sql, "y") || mentions(made, "y");
    has_year && shortened(ours) == shortened(theirs)
}

/// The columns that rows are sorted by, in the order in which they came; strings that are equal in
/// their collation may come in any order.
pub fn keys(rows: &Rows, query: &Query) -> Rows {
    let Order::Columns(count) = query.order else {
        return Vec::new();
    };
    let unordered = Query {
        sql: String::new(),
        columns: query
            .columns
            .iter()
            .map(|c| match c {
                Compared::Exactly => Compared::AsCollated,
                Compared::ExactlyCi => Compared::AsWeights,
                other => *other,
            })
            .collect(),
        order: Order::Rows,
        made: None,
    };
    let mut keys = normal(rows, &unordered);
    keys.iter_mut().for_each(|row| row.truncate(count));
    keys
}

/// The first rows of an answer.
pub fn shown(rows: &Rows) -> String {
    let mut out = String::new();
    for row in rows.iter().take(8) {
        let cells: Vec<_> = row.iter().map(|c| c.as_deref().unwrap_or("NULL")).collect();
        out.push_str(&format!("    |{}|\n", cells.join("|")));
    }
    if rows.len() > 8 {
        out.push_str(&format!("    … {} rows\n", rows.len()));
    }
    out
}

/// A connection to MariaDB that means what MySQL means by its defaults.
pub async fn mariadb_client(server: &MariaDb) -> Client {
    let mut client = Client::connect_socket(&server.socket(), None)
        .await
        .unwrap();
    for set in [
        format!("SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00'"),
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin".to_owned(),
        // Its materialized NOT IN overlooks NULLs of the subquery.
        "SET optimizer_switch = 'materialization=off'".to_owned(),
    ] {
        client.execute(&set).await.unwrap();
    }
    client
}
