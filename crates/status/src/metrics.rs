//! [`Metrics`]: the figures of a process in sections, each with its name and what it means.
//!
//! Names follow Prometheus' conventions: `perigee_<role>_<what>_<unit>`, base units (bytes, seconds),
//! counters end in `_total`. The page takes the unit from the name.

use std::time::Duration;

/// What kind of figure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often values fell into ranges.
    Histogram,
}

impl Kind {
    /// Prometheus' word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// How often values fell into ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds of the ranges, ascending; the last range has none.
    pub bounds: &'static [f64],
    /// Values in each range: one more than there are bounds, or none at all.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: f64,
}

impl Histogram {
    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number, exactly.
    Integer(u64),
    /// Any other number.
    Real(f64),
    /// A distribution.
    Histogram(Histogram),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Integer(value as u64)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Seconds.
impl From<Duration> for Value {
    fn from(value: Duration) -> Self {
        Self::Real(value.as_secs_f64())
    }
}

/// One figure of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Values of the family's labels.
    pub labels: Vec<String>,
    /// The figure.
    pub value: Value,
}

/// Figures of one name, one for each combination of labels that there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Name for machines.
    pub name: &'static str,
    /// What it means, for people; one line.
    pub help: &'static str,
    /// Kind of all its figures.
    pub kind: Kind,
    /// Names of the labels; none if it is a single figure.
    pub labels: &'static [&'static str],
    /// The figures.
    pub samples: Vec<Sample>,
}

/// Families about one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Whose figures they are: a role, if the process has several.
    pub role: &'static str,
    /// The subject.
    pub title: &'static str,
    /// The families, in the order in which they are shown.
    pub families: Vec<Family>,
}

/// All figures of a process. Built in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    sections: Vec<Section>,
}

impl Metrics {
    /// The sections.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// All families.
    pub fn families(&self) -> impl Iterator<Item = &Family> {
        self.sections.iter().flat_map(|section| &section.families)
    }

    /// Begins a section, to which what follows belongs.
    pub fn section(&mut self, title: &'static str) -> &mut Self {
        self.sections.push(Section {
            role: "",
            title,
            families: Vec::new(),
        });
        self
    }

    /// Adds what another list has.
    pub fn append(&mut self, other: Self) -> &mut Self {
        self.sections.extend(other.sections);
        self
    }

    /// The list as that of a role.
    #[must_use]
    pub fn of_role(mut self, role: &'static str) -> Self {
        for section in &mut self.sections {
            section.role = role;
        }
        self
    }

    /// Adds a counter.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        value: impl Into<Value>,
    ) -> &mut Self {
        self.add(name, help, Kind::Counter, &[], [(Vec::new(), value.into())])
    }

    /// Adds a gauge.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        value: impl Into<Value>,
    ) -> &mut Self {
        self.add(name, help, Kind::Gauge, &[], [(Vec::new(), value.into())])
    }

    /// Adds a histogram.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        value: Histogram,
    ) -> &mut Self {
        let value = Value::Histogram(value);
        self.add(name, help, Kind::Histogram, &[], [(Vec::new(), value)])
    }

    /// Adds counters that differ in one label.
    pub fn counters<V: Into<Value>>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static [&'static str; 1],
        values: impl IntoIterator<Item = (&'static str, V)>,
    ) -> &mut Self {
        let values = values
            .into_iter()
            .map(|(label, value)| (vec![label.to_owned()], value.into()));
        self.add(name, help, Kind::Counter, label, values)
    }

    /// Adds a family.
    ///
    /// # Panics
    /// If a figure has another number of labels than the family, or no section was begun.
    pub fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: Kind,
        labels: &'static [&'static str],
        values: impl IntoIterator<Item = (Vec<String>, Value)>,
    ) -> &mut Self {
        let sample = |(values, value): (Vec<String>, Value)| {
            assert!(values.len() == labels.len(), "M1: labels of {name}");
            Sample {
                labels: values,
                value,
            }
        };
        let family = Family {
            name,
            help,
            kind,
            labels,
            samples: values.into_iter().map(sample).collect(),
        };
        let section = self.sections.last_mut();
        let section = section.expect("M2: figures belong to a section");
        section.families.push(family);
        self
    }
}
