//! The 22 queries with the validation parameters of the specification.

/// A query as its file has it.
#[derive(Clone, Copy, Debug)]
struct Query {
    /// 1 to 22.
    number: usize,
    /// Its text.
    sql: &'static str,
}

macro_rules! query_list {
    ($($number:literal $file:literal),* $(,)?) => {
        [$(Query {
            number: $number,
            sql: include_str!(concat!("../../queries/", $file, ".sql")),
        }),*]
    };
}

const QUERIES: [Query; 22] = query_list![
    1 "q01", 2 "q02", 3 "q03", 4 "q04", 5 "q05", 6 "q06", 7 "q07", 8 "q08", 9 "q09", 10 "q10",
    11 "q11", 12 "q12", 13 "q13", 14 "q14", 15 "q15", 16 "q16", 17 "q17", 18 "q18", 19 "q19",
    20 "q20", 21 "q21", 22 "q22",
];

/// The queries for a scale factor. Q11's fraction is 0.0001 / scale, as the specification asks.
#[must_use]
pub fn queries(scale: f64) -> Vec<(usize, String)> {
    let fraction = format!("{:.10}", 0.0001 / scale);
    QUERIES
        .iter()
        .map(|query| {
            (
                query.number,
                query.sql.trim().replace("{q11_fraction}", &fraction),
            )
        })
        .collect()
}
