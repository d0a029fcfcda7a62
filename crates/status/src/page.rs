//! The page for people: one HTML document without anything from elsewhere and without scripts.
//!
//! Single figures are lists; figures with the same labels are one table, a row for each combination of
//! labels and a column for each figure.

use std::fmt::Write;

use crate::number::shown;
use crate::{Family, Report, Section};

/// Media type of the page.
pub(crate) const MEDIA_TYPE: &str = "text/html; charset=utf-8";

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--soft:#888;--head:#8881}\
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1.5rem}\
h1{font-size:1.6rem;margin:0 0 .2rem}h2{font-size:1.3rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.3rem 0 .3rem}\
p{color:var(--soft);margin:.2rem 0 1rem}.bad{color:#c22;font-weight:600}\
.wide{overflow-x:auto}\
table{border-collapse:collapse;margin:.3rem 0 1rem;font-variant-numeric:tabular-nums}\
th,td{border-bottom:1px solid var(--line);padding:.22rem .9rem .22rem .4rem;vertical-align:top}\
th{font-weight:400;text-align:left}thead th{background:var(--head);font-weight:600}\
td{text-align:right}td.text{text-align:left}\
tbody tr:hover{background:var(--head)}";

/// How many seconds a page that refreshes itself may be left, at most.
const MOST_REFRESH: u32 = 3600;

/// The page. `query` is what the address has behind its question mark.
pub(crate) fn page(report: &Report, health: &Result<(), String>, query: Option<&str>) -> String {
    let mut out = String::with_capacity(16 << 10);
    let title = escaped(&report.title);
    let refresh = refresh(query);
    out.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    if let Some(seconds) = refresh {
        let _ = writeln!(out, "<meta http-equiv=\"refresh\" content=\"{seconds}\">");
    }
    out.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n");
    let _ = writeln!(out, "<title>{title} · Perigee</title>");
    let _ = writeln!(out, "<style>{STYLE}</style>\n</head>\n<body>");
    let _ = writeln!(out, "<h1>Perigee {title}</h1>");
    let other = match refresh {
        Some(_) => "<a href=\"/\">stop refreshing</a>",
        None => "<a href=\"/?refresh=5\">refresh every 5 s</a>",
    };
    let _ = writeln!(
        out,
        "<p><a href=\"/metrics\">metrics</a> · <a href=\"/healthz\">health</a> · {other}</p>"
    );
    if let Err(why) = health {
        let _ = writeln!(out, "<p class=\"bad\">Out of work: {}</p>", escaped(why));
    }
    out.push_str("<table>\n");
    for (name, value) in &report.facts {
        let (name, value) = (escaped(name), escaped(value));
        let _ = writeln!(
            out,
            "<tr><th>{name}</th><td class=\"text\">{value}</td></tr>"
        );
    }
    out.push_str("</table>\n");
    let mut role = "";
    for of in report.metrics.sections() {
        if of.role != role {
            role = of.role;
            let _ = writeln!(out, "<h2>{}</h2>", escaped(role));
        }
        section(&mut out, of);
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// Seconds after which the reader wants the page anew: `refresh=5`.
fn refresh(query: Option<&str>) -> Option<u32> {
    let mut parameters = query?.split('&');
    let seconds = parameters.find_map(|parameter| parameter.strip_prefix("refresh="))?;
    let seconds: u32 = seconds.parse().ok()?;
    (1..=MOST_REFRESH).contains(&seconds).then_some(seconds)
}

fn section(out: &mut String, section: &Section) {
    if section.title != section.role {
        let _ = writeln!(out, "<h3>{}</h3>", escaped(section.title));
    }
    let mut shown: Vec<&[&str]> = Vec::new();
    for family in &section.families {
        if shown.contains(&family.labels) {
            continue;
        }
        shown.push(family.labels);
        let alike = section
            .families
            .iter()
            .filter(|f| f.labels == family.labels);
        let alike: Vec<_> = alike.collect();
        match family.labels {
            [] => list(out, &alike),
            labels => table(out, labels, &alike),
        }
    }
}

/// Single figures, a line each.
fn list(out: &mut String, families: &[&Family]) {
    out.push_str("<table>\n");
    for family in families {
        for sample in &family.samples {
            let _ = writeln!(
                out,
                "<tr title=\"{}\"><th>{}</th><td>{}</td></tr>",
                escaped(family.name),
                escaped(family.help),
                escaped(&shown(family.name, &sample.value))
            );
        }
    }
    out.push_str("</table>\n");
}

/// Figures with the same labels, a column each.
fn table(out: &mut String, labels: &[&str], families: &[&Family]) {
    let mut rows: Vec<&[String]> = Vec::new();
    for sample in families.iter().flat_map(|family| &family.samples) {
        if !rows.contains(&sample.labels.as_slice()) {
            rows.push(&sample.labels);
        }
    }
    out.push_str("<div class=\"wide\"><table>\n<thead><tr>");
    for label in labels {
        let _ = write!(out, "<th>{}</th>", escaped(label));
    }
    let titles = titles(families);
    for (family, title) in families.iter().zip(&titles) {
        let (hint, title) = (escaped(family.help), escaped(title));
        let _ = write!(out, "<th title=\"{hint}\">{title}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for label in row {
            let _ = write!(out, "<td class=\"text\">{}</td>", escaped(label));
        }
        for family in families {
            let sample = family.samples.iter().find(|sample| sample.labels == row);
            let value = sample.map(|sample| shown(family.name, &sample.value));
            let _ = write!(out, "<td>{}</td>", escaped(&value.unwrap_or_default()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// Titles of columns: what tells the names apart, or what a single one means.
fn titles(families: &[&Family]) -> Vec<String> {
    let [first, rest @ ..] = families else {
        return Vec::new();
    };
    if rest.is_empty() {
        return vec![first.help.to_owned()];
    }
    let mut words: Vec<_> = first.name.split('_').collect();
    for family in rest {
        let same = words.iter().zip(family.name.split('_'));
        let same = same.take_while(|(a, b)| **a == *b).count();
        words.truncate(same);
    }
    let title = |family: &&Family| {
        let name = family.name.strip_suffix("_total").unwrap_or(family.name);
        let own: Vec<_> = name.split('_').skip(words.len()).collect();
        match own.is_empty() {
            true => family.help.to_owned(),
            false => own.join(" "),
        }
    };
    families.iter().map(title).collect()
}

/// Text as it may stand in an element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::{Kind, Metrics, Value};

    use super::*;

    fn report() -> Report {
        let mut metrics = Metrics::default();
        let rows = |values: [u64; 2]| {
            let slices = ["0", "<b>"].map(|slice| vec!["1".to_owned(), slice.to_owned()]);
            slices.into_iter().zip(values.map(Value::Integer))
        };
        let labels = &["db", "slice"];
        metrics
            .section("Slices & more")
            .add(
                "p_slice_persistent_lsn",
                "LSN",
                Kind::Gauge,
                labels,
                rows([7, 8]),
            )
            .add(
                "p_slice_disk_bytes",
                "On disk",
                Kind::Gauge,
                labels,
                rows([2048, 0]),
            )
            .counter("p_reads_total", "Pages read", 12_345_u64)
            .counters(
                "p_declined_total",
                "Pages declined",
                &["reason"],
                [("busy", 3_u64)],
            );
        Report {
            title: "Page Store".to_owned(),
            facts: vec![("directory", "/srv/<pages>".to_owned())],
            metrics: metrics.of_role("Page <Store>"),
        }
    }

    #[test]
    fn figures_with_the_same_labels_are_one_table() {
        let page = page(&report(), &Ok(()), None);
        for wanted in [
            "<h1>Perigee Page Store</h1>",
            "<h2>Page &lt;Store&gt;</h2>\n<h3>Slices &amp; more</h3>",
            "<th>db</th><th>slice</th><th title=\"LSN\">persistent lsn</th><th title=\"On disk\">disk bytes</th>",
            "<td class=\"text\">0</td><td>7</td><td>2.0 KiB</td>",
            "<td class=\"text\">&lt;b&gt;</td><td>8</td><td>0 B</td>",
            "<tr title=\"p_reads_total\"><th>Pages read</th><td>12,345</td></tr>",
            "<th>reason</th><th title=\"Pages declined\">Pages declined</th>",
            "<td class=\"text\">busy</td><td>3</td>",
            "<td class=\"text\">/srv/&lt;pages&gt;</td>",
        ] {
            assert!(page.contains(wanted), "{wanted} is not in\n{page}");
        }
        assert!(!page.contains("Out of work") && !page.contains("http-equiv"));
        assert!(!page.contains("<script") && !page.contains("http://"));
    }

    #[test]
    fn health_and_refreshing_are_shown() {
        let failed = Err("the disk is <full>".to_owned());
        let shown = page(&report(), &failed, Some("a=b&refresh=10"));
        assert!(shown.contains("Out of work: the disk is &lt;full&gt;"));
        assert!(shown.contains("<meta http-equiv=\"refresh\" content=\"10\">"));
        for query in [
            "refresh=0",
            "refresh=3601",
            "refresh=1;url=x",
            "refresh",
            "",
        ] {
            let shown = page(&report(), &Ok(()), Some(query));
            assert!(!shown.contains("http-equiv"), "{query}");
        }
    }
}
