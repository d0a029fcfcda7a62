//! Figures as people read them: with a unit, which the name of the figure ends in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Histogram, Value};

/// A value of the figure `name`.
pub(crate) fn shown(name: &str, value: &Value) -> String {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match value {
        Value::Histogram(histogram) => distribution(histogram),
        Value::Integer(n) if name.ends_with("_bytes") => bytes(*n),
        Value::Integer(n) => grouped(*n),
        Value::Real(seconds) if name.ends_with("_start_time_seconds") => since(*seconds),
        Value::Real(seconds) if name.ends_with("_seconds") => time(*seconds),
        Value::Real(number) => format!("{number:.3}"),
    }
}

/// A whole number with its digits in groups.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of bytes.
fn bytes(n: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut amount = n as f64;
    let mut unit = None;
    for name in units {
        if amount < 1024.0 {
            break;
        }
        (amount, unit) = (amount / 1024.0, Some(name));
    }
    match unit {
        None => format!("{n} B"),
        Some(unit) => format!("{amount:.1} {unit}"),
    }
}

/// A duration in seconds.
fn time(seconds: f64) -> String {
    let whole = seconds as u64;
    match seconds {
        0.0 => "0 s".to_owned(),
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        _ if whole < 3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ if whole < 86_400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// How long ago a moment is, given in seconds since 1970.
fn since(moment: f64) -> String {
    let moment = Duration::try_from_secs_f64(moment).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let ago = now.unwrap_or_default().saturating_sub(moment);
    format!("{} ago", time(ago.as_secs().max(1) as f64))
}

/// A distribution of durations: number, mean, and two quantiles by the bounds that they lie below.
fn distribution(histogram: &Histogram) -> String {
    let count = histogram.count();
    if count == 0 {
        return "none".to_owned();
    }
    let mean = time(histogram.sum / count as f64);
    let (half, most) = (quantile(histogram, 0.5), quantile(histogram, 0.99));
    format!("{}, mean {mean}, half {half}, 99 % {most}", grouped(count))
}

fn quantile(histogram: &Histogram, share: f64) -> String {
    let wanted = share * histogram.count() as f64;
    let mut so_far = 0;
    for (bound, count) in histogram.bounds.iter().zip(&histogram.counts) {
        so_far += count;
        if so_far as f64 >= wanted {
            return format!("≤ {}", time(*bound));
        }
    }
    match histogram.bounds.last() {
        Some(bound) => format!("> {}", time(*bound)),
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_names() {
        for (name, value, text) in [
            ("a_total", Value::Integer(1_234_567), "1,234,567"),
            ("a", Value::Integer(999), "999"),
            ("a_bytes", Value::Integer(1023), "1023 B"),
            ("a_bytes_total", Value::Integer(1536), "1.5 KiB"),
            ("a_bytes", Value::Integer(u64::MAX), "16.0 EiB"),
            ("a_seconds_total", Value::Real(0.0), "0 s"),
            ("a_seconds", Value::Real(0.000_004_2), "4.2 µs"),
            ("a_seconds", Value::Real(0.25), "250.0 ms"),
            ("a_seconds", Value::Real(59.0), "59.00 s"),
            ("a_seconds", Value::Real(3725.0), "1 h 2 min"),
            ("a_seconds", Value::Real(200_000.0), "2 d 7 h"),
            ("a_ratio", Value::Real(0.12345), "0.123"),
        ] {
            assert_eq!(shown(name, &value), text, "{name}");
        }
        assert_eq!(
            shown("a_start_time_seconds", &Value::Real(1e18)),
            "1.00 s ago"
        );
    }

    #[test]
    fn distributions_are_summed_up() {
        let bounds = &[0.001, 0.01];
        let of = |counts: &[u64]| Histogram {
            bounds,
            counts: counts.to_vec(),
            sum: 0.5,
        };
        let shown = |counts| shown("a_seconds", &Value::Histogram(of(counts)));
        assert_eq!(shown(&[]), "none");
        assert_eq!(
            shown(&[98, 1, 1]),
            "100, mean 5.0 ms, half ≤ 1.0 ms, 99 % ≤ 10.0 ms"
        );
        assert_eq!(
            shown(&[0, 0, 100]),
            "100, mean 5.0 ms, half > 10.0 ms, 99 % > 10.0 ms"
        );
    }
}
