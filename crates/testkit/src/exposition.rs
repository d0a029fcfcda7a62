//! A reader of Prometheus' text exposition format that refuses what Prometheus would, and what breaks
//! the rules that its tools check: a type and a meaning for every family, counters that end in
//! `_total`, histograms whose buckets add up.
//!
//! Written against the description of the format, not against our writer of it.

use std::collections::BTreeMap;

/// Labels of a sample, by name.
pub type Labels = BTreeMap<String, String>;

/// What a text in the exposition format says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition {
    /// Type of each family.
    pub types: BTreeMap<String, String>,
    /// Meaning of each family.
    pub help: BTreeMap<String, String>,
    /// Samples by name and labels.
    pub samples: BTreeMap<(String, Labels), f64>,
}

impl Exposition {
    /// Reads a text.
    ///
    /// # Errors
    /// The first line that is wrong and why, or the family that is.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line does not end".to_owned());
        }
        let mut read = Self::default();
        let mut family = None;
        for line in text.lines() {
            read.line(line, &mut family)
                .map_err(|why| format!("{why}: {line}"))?;
        }
        read.check()?;
        Ok(read)
    }

    /// The value of the only sample with a name and these labels among its own; `None` if there is
    /// not exactly one.
    #[must_use]
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut found = self.all(name, labels);
        match (found.next(), found.next()) {
            (Some(value), None) => Some(value),
            _ => None,
        }
    }

    /// Sum of the samples with a name and these labels among their own.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.all(name, labels).sum()
    }

    fn all(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = f64> {
        let fits = move |own: &Labels| {
            let mut wanted = labels.iter();
            wanted.all(|(label, value)| own.get(*label).is_some_and(|v| v == value))
        };
        self.samples
            .iter()
            .filter(move |((own, with), _)| own == name && fits(with))
            .map(|(_, value)| *value)
    }

    fn line(&mut self, line: &str, family: &mut Option<String>) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix('#') {
            return self.comment(comment, family);
        }
        if line.is_empty() {
            return Ok(());
        }
        let mut rest = Rest(line);
        let name = rest.name(':')?;
        let labels = rest.labels()?;
        let value = rest
            .0
            .strip_prefix(' ')
            .ok_or("no space before the value")?;
        let value = number(value)?;
        let of = family.as_deref().ok_or("a sample without a type")?;
        let is_histogram = self.types.get(of).is_some_and(|t| t == "histogram");
        let own = match (name.strip_prefix(of), is_histogram) {
            (Some("_bucket"), true) => labels.contains_key("le"),
            (Some("_sum" | "_count"), true) | (Some(""), false) => !labels.contains_key("le"),
            _ => false,
        };
        if !own {
            return Err(format!("a sample among those of {of}"));
        }
        if self.samples.insert((name, labels), value).is_some() {
            return Err("the same sample twice".to_owned());
        }
        Ok(())
    }

    /// A HELP or TYPE line begins a family; its samples follow it without others in between.
    fn comment(&mut self, comment: &str, family: &mut Option<String>) -> Result<(), String> {
        let mut words = comment.trim_start().splitn(3, ' ');
        let (kind, name) = (words.next(), words.next().unwrap_or_default());
        let text = words.next().unwrap_or_default().to_owned();
        let twice = match kind {
            Some("HELP") => self.help.insert(name.to_owned(), text).is_some(),
            Some("TYPE") => {
                let known = ["counter", "gauge", "histogram", "summary", "untyped"];
                if !known.contains(&text.as_str()) {
                    return Err("an unknown type".to_owned());
                }
                *family = Some(name.to_owned());
                self.types.insert(name.to_owned(), text).is_some()
            }
            _ => return Ok(()),
        };
        let mut rest = Rest(name);
        if rest.name(':')? != name {
            return Err("no name of a family".to_owned());
        }
        match twice {
            true => Err("a family twice".to_owned()),
            false => Ok(()),
        }
    }

    /// What holds of whole families.
    fn check(&self) -> Result<(), String> {
        for (name, kind) in &self.types {
            if self.help.get(name).is_none_or(String::is_empty) {
                return Err(format!("{name} does not say what it means"));
            }
            if (kind == "counter") != name.ends_with("_total") {
                return Err(format!("{name} is a {kind}"));
            }
            let reserved = ["_count", "_sum", "_bucket"];
            if reserved.iter().any(|end| name.ends_with(end)) {
                return Err(format!("{name} has an ending of histograms"));
            }
            if kind == "counter" && self.all(name, &[]).any(|v| v.is_nan() || v < 0.0) {
                return Err(format!("{name} counts down"));
            }
            if kind == "histogram" {
                self.check_histogram(name)?;
            }
        }
        match self
            .help
            .keys()
            .find(|name| !self.types.contains_key(*name))
        {
            Some(name) => Err(format!("{name} has no type")),
            None => Ok(()),
        }
    }

    fn check_histogram(&self, name: &str) -> Result<(), String> {
        let bucket = format!("{name}_bucket");
        let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for ((own, labels), value) in &self.samples {
            if *own == bucket {
                let mut others = labels.clone();
                let bound = others.remove("le").unwrap_or_default();
                let bound = number(&bound).map_err(|why| format!("{name}: {why}"))?;
                series.entry(others).or_default().push((bound, *value));
            }
        }
        for (labels, mut buckets) in series {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            if buckets.windows(2).any(|pair| pair[0].1 > pair[1].1) {
                return Err(format!("{name}: buckets are not cumulative"));
            }
            let last = buckets.last().filter(|(bound, _)| bound.is_infinite());
            let all = last.ok_or_else(|| format!("{name}: no bucket for all"))?.1;
            let key = |end: &str| (format!("{name}{end}"), labels.clone());
            if self.samples.get(&key("_count")) != Some(&all) {
                return Err(format!("{name}: the count is not that of all buckets"));
            }
            if !self.samples.contains_key(&key("_sum")) {
                return Err(format!("{name}: no sum"));
            }
        }
        Ok(())
    }
}

/// What is left of a line.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// A name: letters, digits, `_` and one more character, not beginning with a digit.
    fn name(&mut self, also: char) -> Result<String, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == also;
        let end = self.0.find(|c| !fits(c)).unwrap_or(self.0.len());
        let (name, rest) = self.0.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err("no name".to_owned());
        }
        self.0 = rest;
        Ok(name.to_owned())
    }

    fn labels(&mut self) -> Result<Labels, String> {
        let mut labels = Labels::new();
        let Some(rest) = self.0.strip_prefix('{') else {
            return Ok(labels);
        };
        self.0 = rest;
        loop {
            if let Some(rest) = self.0.strip_prefix('}') {
                self.0 = rest;
                return Ok(labels);
            }
            let name = self.name('_')?;
            let rest = self
                .0
                .strip_prefix("=\"")
                .ok_or("a label without a value")?;
            self.0 = rest;
            let value = self.quoted()?;
            if labels.insert(name, value).is_some() {
                return Err("a label twice".to_owned());
            }
            match self.0.strip_prefix(',') {
                Some(rest) => self.0 = rest,
                None if self.0.starts_with('}') => {}
                None => return Err("labels that do not end".to_owned()),
            }
        }
    }

    /// The value of a label up to its closing quote.
    fn quoted(&mut self) -> Result<String, String> {
        let mut value = String::new();
        let mut chars = self.0.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.0 = &self.0[at + 1..];
                    return Ok(value);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c @ ('\\' | '"'))) => value.push(c),
                    _ => return Err("an unknown escape".to_owned()),
                },
                c => value.push(c),
            }
        }
        Err("a value that does not end".to_owned())
    }
}

fn number(text: &str) -> Result<f64, String> {
    match text {
        "+Inf" => Ok(f64::INFINITY),
        "-Inf" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        // Rust would also take words that the format does not know.
        text if text.contains(|c: char| c.is_ascii_alphabetic() && c != 'e') => {
            Err("no number".to_owned())
        }
        text => text.parse().map_err(|_| "no number".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    const GOOD: &str = "# HELP a_total A\n# TYPE a_total counter\n\
        a_total{b=\"c\\\"\\\\\\nd\",e=\"\"} 12\na_total{b=\"x\",e=\"\"} 1.5e1\n\
        # HELP h_seconds H\n# TYPE h_seconds histogram\n\
        h_seconds_bucket{le=\"0.1\"} 1\nh_seconds_bucket{le=\"+Inf\"} 3\n\
        h_seconds_sum 2.5\nh_seconds_count 3\n";

    #[test]
    fn what_is_right_is_read() {
        let read = Exposition::parse(GOOD).unwrap();
        assert_eq!(read.get("a_total", &[("b", "c\"\\\nd")]), Some(12.0));
        assert_eq!(read.get("a_total", &[]), None, "there are two");
        assert_eq!(read.sum("a_total", &[("e", "")]), 27.0);
        assert_eq!(read.get("h_seconds_count", &[]), Some(3.0));
        assert_eq!(read.types["h_seconds"], "histogram");
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for (from, to) in [
            ("# HELP a_total A\n", ""),
            ("# TYPE a_total counter\n", ""),
            ("# TYPE a_total counter", "# TYPE a_total count"),
            ("# TYPE a_total counter", "# TYPE a_total gauge"),
            ("a_total{b=\"x\",e=\"\"} 1.5e1", "b_total 1"),
            (
                "a_total{b=\"x\",e=\"\"}",
                "a_total{b=\"c\\\"\\\\\\nd\",e=\"\"}",
            ),
            ("a_total{b=\"x\",e=\"\"}", "a_total{b=\"x\",b=\"\"}"),
            ("a_total{b=\"x\",e=\"\"}", "a_total{b=\"x\",e=\"}"),
            ("a_total{b=\"x\",e=\"\"}", "a_total{b=\"\\x\",e=\"\"}"),
            ("a_total{b=\"x\",e=\"\"}", "a_total{1b=\"x\"}"),
            ("1.5e1", "fifteen"),
            ("1.5e1", "inf"),
            ("1.5e1", "-1"),
            ("h_seconds_sum 2.5\n", ""),
            ("h_seconds_count 3", "h_seconds_count 2"),
            ("{le=\"0.1\"} 1", "{le=\"0.1\"} 4"),
            ("h_seconds_bucket{le=\"+Inf\"} 3\n", ""),
            ("h_seconds_count 3\n", "h_seconds_count 3"),
        ] {
            let wrong = GOOD.replacen(from, to, 1);
            assert_ne!(wrong, GOOD, "{from}");
            assert!(Exposition::parse(&wrong).is_err(), "{wrong}");
        }
    }
}
