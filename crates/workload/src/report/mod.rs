//! Reports: one HTML file without references to anything outside it.

mod figure;

use std::fmt::Write;

use crate::sequence::Named;
use crate::{Cost, WorkloadError, paper};

pub use figure::{Hue, Series, figure};

/// One query measured with NDP off and on.
#[derive(Clone, Debug)]
pub struct Pair {
    /// How it is called, for example `Q6`.
    pub name: String,
    /// Its number in TPC-H, if it is one of the 22.
    pub number: Option<usize>,
    /// Without NDP.
    pub off: Cost,
    /// With NDP.
    pub on: Cost,
}

impl Pair {
    /// Reduction by NDP in per cent of a figure.
    fn reduction(&self, figure: impl Fn(&Cost) -> f64) -> f64 {
        reduction(figure(&self.off), figure(&self.on))
    }
}

/// Runs of queries without and with NDP, side by side.
#[must_use]
pub fn pairs(
    queries: &[Named],
    numbers: impl Iterator<Item = Option<usize>>,
    off: &[(String, Cost)],
    on: &[(String, Cost)],
) -> Vec<Pair> {
    let costs = off.iter().zip(on);
    let named = queries.iter().zip(numbers).zip(costs);
    named
        .map(|((query, number), (off, on))| Pair {
            name: query.0.clone(),
            number,
            off: off.1,
            on: on.1,
        })
        .collect()
}

/// By how many per cent `on` is below `off`.
#[must_use]
pub fn reduction(off: f64, on: f64) -> f64 {
    if off > 0.0 {
        100.0 * (1.0 - on / off)
    } else {
        0.0
    }
}

/// Sum over all pairs.
#[must_use]
pub fn total(pairs: &[Pair]) -> Pair {
    let (mut off, mut on) = (Cost::default(), Cost::default());
    for pair in pairs {
        off.add(&pair.off);
        on.add(&pair.on);
    }
    Pair {
        name: "all".to_owned(),
        number: None,
        off,
        on,
    }
}

/// The demo's report.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn html(scale: f64, micro: &[Pair], tpch: &[Pair]) -> Result<String, WorkloadError> {
    let mut out = String::from(HEAD);
    let _ = write!(
        out,
        "<h1>Perigee: TPC-H with near-data processing off and on</h1>\
         <p>Scale {scale}; one frontend, one Log Store and two Page Stores as processes on one \
         machine; each mode from a cold start. {}</p>",
        summary(tpch)
    );
    out += &off_and_on(micro, tpch)?;
    table(&mut out, micro);
    table(&mut out, tpch);
    out.push_str(END);
    Ok(out)
}

/// The totals of the 22 queries in a sentence, with the paper's.
#[must_use]
pub fn summary(tpch: &[Pair]) -> String {
    let all = total(tpch);
    format!(
        "Over the 22 queries NDP ships <b>{:.1} %</b> fewer bytes and uses <b>{:.1} %</b> less CPU \
         in the frontend; run time falls by <b>{:.1} %</b>. The paper (100 GB, a cluster) has 63 %, \
         50 % and 28 %.",
        all.reduction(|c| c.bytes as f64),
        all.reduction(|c| c.cpu),
        all.reduction(|c| c.seconds),
    )
}

/// Figures 5, 7 and 8.
///
/// # Errors
/// If one cannot be drawn.
pub fn off_and_on(micro: &[Pair], tpch: &[Pair]) -> Result<String, WorkloadError> {
    let bytes = |c: &Cost| c.bytes as f64;
    let paper = |pair: &Pair| pair.number.map(paper::reduction).unwrap_or_default();
    let grey = "Grey: the paper's value where its text states one.";
    let mut out = beside_paper(
        "Fig. 5: network read reduction of the micro-benchmark",
        "The paper gives no numbers: COUNT(*) and Q6 negligible traffic, Q1 reduced considerably.",
        micro,
        |pair| pair.reduction(bytes),
        |_| None,
    )?;
    out += &beside_paper(
        "Fig. 7: network traffic reduction",
        grey,
        tpch,
        |pair| pair.reduction(bytes),
        |pair| paper(pair).bytes,
    )?;
    out += &beside_paper(
        "Fig. 7: frontend CPU reduction",
        grey,
        tpch,
        |pair| pair.reduction(|c| c.cpu),
        |pair| paper(pair).cpu,
    )?;
    out += &beside_paper(
        "Fig. 8: run time reduction",
        &format!("{grey} Below zero: slower with NDP."),
        tpch,
        |pair| pair.reduction(|c| c.seconds),
        |pair| paper(pair).time,
    )?;
    Ok(out)
}

/// A figure of a reduction in per cent, ours beside the paper's.
fn beside_paper(
    title: &str,
    caption: &str,
    pairs: &[Pair],
    ours: impl Fn(&Pair) -> f64,
    theirs: impl Fn(&Pair) -> Option<f64>,
) -> Result<String, WorkloadError> {
    let names: Vec<_> = pairs.iter().map(|pair| pair.name.clone()).collect();
    let series = [
        Series {
            name: "Perigee",
            hue: Hue::Blue,
            values: pairs.iter().map(|pair| Some(ours(pair))).collect(),
        },
        Series {
            name: "paper",
            hue: Hue::Grey,
            values: pairs.iter().map(theirs).collect(),
        },
    ];
    figure(title, caption, &names, &series)
}

/// How a page begins.
pub const HEAD: &str = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
<title>Perigee: near-data processing</title><style>\
body{font-family:sans-serif;max-width:64em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:2em 0;font-variant-numeric:tabular-nums}\
td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}\
th:first-child,td:first-child{text-align:left}figure{margin:2em 0}\
figcaption{color:#555;font-size:90%}</style></head><body>";

/// How a page ends.
pub const END: &str = "</body></html>\n";

/// A table of what each query cost.
pub fn table(out: &mut String, pairs: &[Pair]) {
    out.push_str(
        "<table><tr><th>query<th>bytes off<th>bytes on<th>change<th>pages off<th>pages on\
         <th>CPU off<th>CPU on<th>change<th>time off<th>time on<th>change</tr>",
    );
    for pair in pairs.iter().chain([&total(pairs)]) {
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{:+.1} %<td>{}<td>{}<td>{:.3} s<td>{:.3} s<td>{:+.1} %\
             <td>{:.3} s<td>{:.3} s<td>{:+.1} %</tr>",
            pair.name,
            pair.off.bytes,
            pair.on.bytes,
            -pair.reduction(|c| c.bytes as f64),
            pair.off.pages,
            pair.on.pages,
            pair.off.cpu,
            pair.on.cpu,
            -pair.reduction(|c| c.cpu),
            pair.off.seconds,
            pair.on.seconds,
            -pair.reduction(|c| c.seconds),
        );
    }
    out.push_str("</table>");
}
