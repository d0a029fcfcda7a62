//! Figures as Prometheus reads them: the text exposition format, version 0.0.4.

use std::fmt::Write;

use crate::{Histogram, Metrics, Sample, Value};

/// Media type of the format.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All figures in the text exposition format.
#[must_use]
pub fn exposition(metrics: &Metrics) -> String {
    let mut out = String::new();
    for family in metrics.families() {
        let name = family.name;
        let help = escaped(family.help, false);
        let _ = writeln!(out, "# HELP {name} {help}");
        let _ = writeln!(out, "# TYPE {name} {}", family.kind.name());
        for Sample { labels, value } in &family.samples {
            let labels: Vec<_> = family
                .labels
                .iter()
                .copied()
                .zip(labels.iter().map(String::as_str))
                .collect();
            match value {
                Value::Integer(value) => line(&mut out, name, "", &labels, value),
                Value::Real(value) => line(&mut out, name, "", &labels, &real(*value)),
                Value::Histogram(histogram) => buckets(&mut out, name, &labels, histogram),
            }
        }
    }
    out
}

/// A histogram: each bucket counts what is at or below its bound.
fn buckets(out: &mut String, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
    let mut so_far = 0;
    for (bound, count) in histogram.bounds.iter().zip(&histogram.counts) {
        so_far += count;
        let bound = real(*bound);
        let labels = [labels, &[("le", bound.as_str())]].concat();
        line(out, name, "_bucket", &labels, &so_far);
    }
    let all = [labels, &[("le", "+Inf")]].concat();
    line(out, name, "_bucket", &all, &histogram.count());
    line(out, name, "_sum", labels, &real(histogram.sum));
    line(out, name, "_count", labels, &histogram.count());
}

fn line(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: &[(&str, &str)],
    value: &dyn std::fmt::Display,
) {
    let _ = write!(out, "{name}{suffix}");
    for (i, (label, text)) in labels.iter().enumerate() {
        let before = if i == 0 { '{' } else { ',' };
        let _ = write!(out, "{before}{label}=\"{}\"", escaped(text, true));
    }
    let end = if labels.is_empty() { "" } else { "}" };
    let _ = writeln!(out, "{end} {value}");
}

/// A number as the format writes it.
fn real(value: f64) -> String {
    if value.is_infinite() {
        let sign = if value > 0.0 { '+' } else { '-' };
        format!("{sign}Inf")
    } else {
        value.to_string()
    }
}

/// Text with what ends a line, or a label's value, escaped.
fn escaped(text: &str, quotes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::Kind;

    use super::*;

    #[test]
    fn the_format_to_the_letter() {
        let mut metrics = Metrics::default();
        metrics
            .section("Work")
            .counter("requests_total", "Requests: a \\ and\na line", 7_u64)
            .gauge("load_ratio", "Load", 0.25)
            .counters(
                "declined_total",
                "Declined",
                &["reason"],
                [("busy", 1_u64), ("page", 0)],
            )
            .add(
                "slice_lsn",
                "LSN",
                Kind::Gauge,
                &["db", "slice"],
                [(
                    vec!["a\"b\\c\nd".to_owned(), "2".to_owned()],
                    Value::Integer(u64::MAX),
                )],
            )
            .histogram(
                "sync_seconds",
                "Syncs",
                Histogram {
                    bounds: &[0.001, 0.5],
                    counts: vec![2, 1, 1],
                    sum: 3.25,
                },
            );
        let expected = r#"# HELP requests_total Requests: a \\ and\na line
# TYPE requests_total counter
requests_total 7
# HELP load_ratio Load
# TYPE load_ratio gauge
load_ratio 0.25
# HELP declined_total Declined
# TYPE declined_total counter
declined_total{reason="busy"} 1
declined_total{reason="page"} 0
# HELP slice_lsn LSN
# TYPE slice_lsn gauge
slice_lsn{db="a\"b\\c\nd",slice="2"} 18446744073709551615
# HELP sync_seconds Syncs
# TYPE sync_seconds histogram
sync_seconds_bucket{le="0.001"} 2
sync_seconds_bucket{le="0.5"} 3
sync_seconds_bucket{le="+Inf"} 4
sync_seconds_sum 3.25
sync_seconds_count 4
"#;
        assert_eq!(exposition(&metrics), expected);
    }

    #[test]
    fn numbers_that_are_none_and_histograms_of_nothing() {
        let text: Vec<_> = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-9]
            .map(real)
            .into();
        assert_eq!(text, ["+Inf", "-Inf", "NaN", "0.000000001"]);
        let mut metrics = Metrics::default();
        metrics
            .section("")
            .histogram("h", "H", Histogram::default());
        let text = exposition(&metrics);
        assert!(text.ends_with("h_bucket{le=\"+Inf\"} 0\nh_sum 0\nh_count 0\n"));
    }
}
