//! What the paper reports (taurus-ndp section VII), to stand beside our figures.
//!
//! Only values that its text states in numbers; "over 90 %" is kept as 90.

/// Reductions that NDP brought a query in the paper, in per cent; negative is an increase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reduction {
    /// Network traffic (Fig. 7).
    pub bytes: Option<f64>,
    /// CPU time on the SQL node (Fig. 7).
    pub cpu: Option<f64>,
    /// Run time (Fig. 8).
    pub time: Option<f64>,
}

/// The paper's totals over the 22 queries: traffic, CPU, run time.
pub const TOTAL: Reduction = Reduction {
    bytes: Some(63.0),
    cpu: Some(50.0),
    time: Some(28.0),
};

/// What the paper's text says of a query.
#[must_use]
pub fn reduction(query: usize) -> Reduction {
    let of = |bytes, cpu, time| Reduction { bytes, cpu, time };
    match query {
        4 => of(Some(16.0), None, Some(-12.0)),
        6 => of(Some(99.0), Some(91.0), None),
        9 => of(Some(62.0), Some(42.0), None),
        10 => of(Some(90.0), Some(73.0), None),
        11 | 17 | 19 | 20 => of(Some(0.0), Some(0.0), None),
        12 => of(Some(90.0), Some(85.0), None),
        14 => of(Some(95.0), Some(89.0), None),
        15 => of(Some(98.0), Some(91.0), Some(80.0)),
        16 => of(Some(90.0), Some(63.0), None),
        18 => of(Some(80.0), Some(67.0), None),
        _ => Reduction::default(),
    }
}

/// Further reduction of run time from PQ (Fig. 9), in per cent, where the text says what it is: of the
/// seven queries that it helps six are near the most that 16 workers can save, and Q15 at half of it.
/// The text names these.
pub const PQ_ON_TOP_OF_NDP: [(&str, f64); 5] = [
    ("Q1", 93.75),
    ("Q4", 93.75),
    ("Q5", 93.75),
    ("Q15", 46.9),
    ("Q19", 93.75),
];

/// The micro-benchmark's queries (Listing 5, and Q1 and Q6 of TPC-H). The bound of Q002 is scaled
/// to the data: the paper's 10,000 suppliers are one in a thousand of its 1 TB database.
#[must_use]
pub fn micro_queries(scale: f64, queries: &[(usize, String)]) -> Vec<(String, String)> {
    let tpch = |number| {
        let found = queries.iter().find(|(n, _)| *n == number);
        found
            .map(|(_, sql)| sql.clone())
            .expect("Q1 and Q6 are among the queries")
    };
    let suppliers = ((10_000.0 * scale) / 1_000.0).max(1.0) as u64;
    let count = "SELECT COUNT(*) FROM lineitem";
    vec![
        ("Q0".to_owned(), count.to_owned()),
        (
            "Q001".to_owned(),
            format!("{count} WHERE l_shipdate < DATE '1998-07-01'"),
        ),
        (
            "Q002".to_owned(),
            format!("{count} WHERE l_suppkey <= {suppliers}"),
        ),
        ("Q1".to_owned(), tpch(1)),
        ("Q6".to_owned(), tpch(6)),
    ]
}
