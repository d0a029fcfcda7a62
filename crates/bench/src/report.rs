//! The demo's report: one HTML file without references to anything outside it.

use std::fmt::Write;

use plotters::prelude::*;

use crate::{BenchError, Cost, paper};

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

/// The report as HTML.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn html(scale: f64, micro: &[Pair], tpch: &[Pair]) -> Result<String, BenchError> {
    let mut out = String::from(HEAD);
    let all = total(tpch);
    let _ = write!(
        out,
        "<h1>Perigee: TPC-H with near-data processing off and on</h1>\
         <p>Scale {scale}; one frontend, one Log Store and two Page Stores as processes on one \
         machine; each mode from a cold start. Over the 22 queries NDP ships <b>{:.1} %</b> fewer \
         bytes and uses <b>{:.1} %</b> less CPU in the frontend; run time falls by <b>{:.1} %</b>. \
         The paper (100 GB, a cluster) has 63 %, 50 % and 28 %.</p>",
        all.reduction(|c| c.bytes as f64),
        all.reduction(|c| c.cpu),
        all.reduction(|c| c.seconds),
    );
    let bytes = |c: &Cost| c.bytes as f64;
    let paper = |pair: &Pair| pair.number.map(paper::reduction).unwrap_or_default();
    out += &figure(
        "Fig. 5: network read reduction of the micro-benchmark",
        "The paper gives no numbers: COUNT(*) and Q6 negligible traffic, Q1 reduced considerably.",
        micro,
        |pair| pair.reduction(bytes),
        |_| None,
    )?;
    out += &figure(
        "Fig. 7: network traffic reduction",
        "Grey: the paper's value where its text states one.",
        tpch,
        |pair| pair.reduction(bytes),
        |pair| paper(pair).bytes,
    )?;
    out += &figure(
        "Fig. 7: frontend CPU reduction",
        "Grey: the paper's value where its text states one.",
        tpch,
        |pair| pair.reduction(|c| c.cpu),
        |pair| paper(pair).cpu,
    )?;
    out += &figure(
        "Fig. 8: run time reduction",
        "Grey: the paper's value where its text states one. Below zero: slower with NDP.",
        tpch,
        |pair| pair.reduction(|c| c.seconds),
        |pair| paper(pair).time,
    )?;
    table(&mut out, micro);
    table(&mut out, tpch);
    out.push_str("</body></html>\n");
    Ok(out)
}

const HEAD: &str = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
<title>Perigee: NDP off and on</title><style>\
body{font-family:sans-serif;max-width:64em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:2em 0;font-variant-numeric:tabular-nums}\
td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}\
th:first-child,td:first-child{text-align:left}figure{margin:2em 0}\
figcaption{color:#555;font-size:90%}</style></head><body>";

fn table(out: &mut String, pairs: &[Pair]) {
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

/// A bar chart of a reduction in per cent, ours beside the paper's.
fn figure(
    title: &str,
    caption: &str,
    pairs: &[Pair],
    ours: impl Fn(&Pair) -> f64,
    theirs: impl Fn(&Pair) -> Option<f64>,
) -> Result<String, BenchError> {
    let values: Vec<_> = pairs
        .iter()
        .map(|pair| (ours(pair), theirs(pair)))
        .collect();
    let mut svg = String::new();
    draw(&mut svg, title, pairs, &values)
        .map_err(|e| BenchError::Unexpected(format!("cannot draw {title}: {e}")))?;
    Ok(format!(
        "<figure>{svg}<figcaption>{caption}</figcaption></figure>"
    ))
}

fn draw(
    svg: &mut String,
    title: &str,
    pairs: &[Pair],
    values: &[(f64, Option<f64>)],
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (960, 320)).into_drawing_area();
    let all = values
        .iter()
        .flat_map(|(ours, theirs)| [Some(*ours), *theirs])
        .flatten();
    let least = all.fold(0.0, f64::min).max(-100.0);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(50)
        .build_cartesian_2d((0..pairs.len()).into_segmented(), least..100.0)?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(i) | SegmentValue::Exact(i) => pairs
            .get(*i)
            .map_or(String::new(), |pair| pair.name.clone()),
        SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(pairs.len())
        .x_label_formatter(&name)
        .y_desc("reduction, %")
        .draw()?;
    let bar = |i: usize, value: f64, color: RGBColor, (left, right): (u32, u32)| {
        let from = (SegmentValue::Exact(i), 0.0);
        let to = (SegmentValue::Exact(i + 1), value.clamp(least, 100.0));
        let mut bar = Rectangle::new([from, to], color.filled());
        bar.set_margin(0, 0, left, right);
        bar
    };
    let width = 850 / pairs.len().max(1) as u32;
    for (i, (ours, theirs)) in values.iter().enumerate() {
        let split = if theirs.is_some() {
            width / 2
        } else {
            width / 6
        };
        chart.draw_series([bar(i, *ours, RGBColor(31, 119, 180), (width / 6, split))])?;
        if let Some(theirs) = theirs {
            chart.draw_series([bar(
                i,
                *theirs,
                RGBColor(150, 150, 150),
                (width / 2, width / 6),
            )])?;
        }
    }
    root.present()?;
    Ok(())
}
