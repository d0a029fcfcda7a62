//! [`Histogram`]: how the values of a column are spread, as equi-height buckets.
//!
//! A bucket ends at a value that is counted by itself, so that frequent values are known exactly as
//! well as the sample tells; what lies below it in the bucket is taken to be spread evenly. Strings
//! are kept up to [`STRING_BYTES`] bytes: values that agree in so many are one value here.

use std::cmp::Ordering;

use perigee_types::{DecodeError, Reader, Writer};
use perigee_value::{Datum, ValueRef, string};

/// Most buckets. A bucket is then 1.6 % of the values, which is about what a sample can tell
/// (`crate::analyze`), and a column's record in the catalog stays below half a page.
pub const MAX_BUCKETS: usize = 64;

/// Bytes of a string that statistics keep. With [`MAX_BUCKETS`] and what comes with each, a
/// column's record takes less than 6 KiB.
pub const STRING_BYTES: usize = 64;

/// Bytes of a string, behind what is common to both ends of a bucket, that tell where in the
/// bucket it lies: as many as a double has room for.
const POSITION_BYTES: usize = 6;

/// Some neighbouring values.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// The greatest value in it.
    pub upper: Datum,
    /// Share of the column's values that lie in it and below `upper`.
    pub below: f32,
    /// Share of the column's values that are `upper`.
    pub equal: f32,
    /// Different values in it below `upper`.
    pub distinct: f32,
}

/// The values of a column without NULLs.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The least value.
    lower: Datum,
    /// In order of their values, at least one.
    buckets: Vec<Bucket>,
}

impl Histogram {
    /// The histogram of a column with `distinct` different values, from a sample of its values in
    /// order, in at most `most` buckets; `None` without values.
    #[must_use]
    pub fn of(sample: &[Datum], distinct: u64, most: usize) -> Option<Self> {
        let lower = sample.first()?.clone();
        let runs: Vec<&[Datum]> = sample.chunk_by(is_equal).collect();
        let total = sample.len() as f64;
        let most = most.clamp(1, MAX_BUCKETS);
        // If there are few values, each has a bucket.
        let height = if runs.len() <= most {
            1
        } else {
            sample.len().div_ceil(most)
        };
        // What is in the sample once may be anywhere as often as any other value.
        let once = (1.0 / distinct.max(1) as f64).min(1.0 / total);
        let mut buckets = Vec::new();
        let (mut inside, mut between) = (0, 0);
        for (number, run) in runs.iter().enumerate() {
            if inside + run.len() < height && number + 1 < runs.len() {
                inside += run.len();
                between += 1;
                continue;
            }
            let all = (inside + run.len()) as f64 / total;
            let equal = match run.len() {
                1 => once,
                count => count as f64 / total,
            };
            buckets.push(Bucket {
                upper: run[0].clone(),
                below: (all - equal).max(0.0) as f32,
                equal: equal as f32,
                distinct: between as f32,
            });
            (inside, between) = (0, 0);
        }
        let mut histogram = Self { lower, buckets };
        histogram.scale_distinct(distinct as f64);
        Some(histogram)
    }

    /// Has the buckets say how many different values are in the column, not in the sample.
    fn scale_distinct(&mut self, distinct: f64) {
        let between: f64 = self.buckets.iter().map(|b| f64::from(b.distinct)).sum();
        let rest = distinct - self.buckets.len() as f64;
        if between > 0.0 && rest > between {
            let factor = (rest / between) as f32;
            self.buckets.iter_mut().for_each(|b| b.distinct *= factor);
        }
    }

    /// The buckets.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Share of the values that are less than `value`; `None` if it is of another type.
    #[must_use]
    pub fn below(&self, value: &Datum) -> Option<f64> {
        let value = like(value, &self.lower)?;
        let at = self.bucket_of(&value);
        let before = &self.buckets[..at];
        let whole: f64 = before.iter().map(|b| f64::from(b.below + b.equal)).sum();
        let Some(bucket) = self.buckets.get(at) else {
            return Some(1.0);
        };
        let inside = f64::from(bucket.below) * position(self.start(at), &value, &bucket.upper);
        Some((whole + inside).min(1.0))
    }

    /// Share of the values that are `value`; `None` if it is of another type.
    #[must_use]
    pub fn equal(&self, value: &Datum) -> Option<f64> {
        let value = like(value, &self.lower)?;
        let at = self.bucket_of(&value);
        let Some(bucket) = self.buckets.get(at) else {
            return Some(0.0);
        };
        if is_equal(&bucket.upper, &value) {
            return Some(f64::from(bucket.equal));
        }
        if compare(value.as_ref(), self.lower.as_ref()) == Ordering::Less {
            return Some(0.0);
        }
        Some(f64::from(bucket.below) / f64::from(bucket.distinct).max(1.0))
    }

    /// The bucket that a value lies in; behind the last one if it is greater than all.
    fn bucket_of(&self, value: &Datum) -> usize {
        let less = |b: &Bucket| compare(b.upper.as_ref(), value.as_ref()) == Ordering::Less;
        self.buckets.partition_point(less)
    }

    /// The value that a bucket begins behind.
    fn start(&self, bucket: usize) -> &Datum {
        match bucket.checked_sub(1) {
            Some(before) => &self.buckets[before].upper,
            None => &self.lower,
        }
    }

    /// Appends the wire form.
    pub(crate) fn encode(&self, w: &mut Writer) {
        self.lower.encode(w);
        w.u16(self.buckets.len() as u16);
        for bucket in &self.buckets {
            bucket.upper.encode(w);
            w.u32(bucket.below.to_bits())
                .u32(bucket.equal.to_bits())
                .u32(bucket.distinct.to_bits());
        }
    }

    /// Reads what [`Histogram::encode`] wrote.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let lower = Datum::decode(r)?;
        let mut buckets = Vec::new();
        for _ in 0..r.u16()? {
            let upper = Datum::decode(r)?;
            let mut share = || Ok::<_, DecodeError>(f32::from_bits(r.u32()?));
            buckets.push(Bucket {
                upper,
                below: share()?,
                equal: share()?,
                distinct: share()?,
            });
        }
        if buckets.is_empty() {
            return Err(DecodeError::new("histogram without buckets"));
        }
        Ok(Self { lower, buckets })
    }
}

/// Where between two values one lies, 0 to 1, if values are spread evenly.
#[must_use]
pub(super) fn position(low: &Datum, value: &Datum, high: &Datum) -> f64 {
    let numbers = match (low, value, high) {
        (Datum::String(low), Datum::String(value), Datum::String(high)) => {
            let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
            let of = |text: &[u8]| text_number(text, common);
            Some((of(low), of(value), of(high)))
        }
        _ => number(low)
            .zip(number(value))
            .zip(number(high))
            .map(|((low, value), high)| (low, value, high)),
    };
    let Some((low, value, high)) = numbers else {
        return 0.5;
    };
    if high <= low {
        return f64::from(u8::from(value > low));
    }
    ((value - low) / (high - low)).clamp(0.0, 1.0)
}

/// Some bytes of a text, padded with spaces as the collation does, as a number.
fn text_number(text: &[u8], from: usize) -> f64 {
    let byte = |at: usize| f64::from(*text.get(from + at).unwrap_or(&b' '));
    (0..POSITION_BYTES).fold(0.0, |number, at| number * 256.0 + byte(at))
}

fn number(value: &Datum) -> Option<f64> {
    Some(match value {
        Datum::Int(v) | Datum::DateTime(v) | Datum::Time(v) => *v as f64,
        Datum::UInt(v) => *v as f64,
        Datum::Decimal(v) => *v as f64,
        Datum::Wide(v) => v.units().to_f64(0),
        Datum::Double(v) => *v,
        Datum::Date(v) => f64::from(*v),
        Datum::Bool(v) => f64::from(u8::from(*v)),
        _ => return None,
    })
}

/// A value in the type of another one, if it has one there; strings as far as they are kept.
pub(super) fn like(value: &Datum, other: &Datum) -> Option<Datum> {
    Some(match (value, other) {
        (Datum::String(text), Datum::String(_)) => Datum::String(cut(text).to_vec()),
        (Datum::Int(v), Datum::UInt(_)) => Datum::UInt(u64::try_from(*v).unwrap_or(0)),
        (Datum::UInt(v), Datum::Int(_)) => Datum::Int(i64::try_from(*v).unwrap_or(i64::MAX)),
        (Datum::Int(_) | Datum::UInt(_), Datum::Double(_)) => Datum::Double(number(value)?),
        (Datum::Int(_), Datum::Int(_))
        | (Datum::UInt(_), Datum::UInt(_))
        | (Datum::Decimal(_), Datum::Decimal(_))
        | (Datum::Wide(_), Datum::Wide(_))
        | (Datum::Double(_), Datum::Double(_))
        | (Datum::Date(_), Datum::Date(_))
        | (Datum::DateTime(_), Datum::DateTime(_))
        | (Datum::Time(_), Datum::Time(_))
        | (Datum::Bool(_), Datum::Bool(_)) => value.clone(),
        _ => return None,
    })
}

/// What of a string is kept: whole characters, if it is text.
#[must_use]
pub(crate) fn cut(text: &[u8]) -> &[u8] {
    if text.len() <= STRING_BYTES {
        return text;
    }
    let continues = |byte: u8| byte & 0xc0 == 0x80;
    let characters = (STRING_BYTES - 3..=STRING_BYTES).rev();
    let end = characters.into_iter().find(|end| !continues(text[*end]));
    &text[..end.unwrap_or(STRING_BYTES)]
}

/// A value as far as it is kept.
#[must_use]
pub(crate) fn kept(value: ValueRef<'_>) -> Datum {
    match value {
        ValueRef::String(text) => Datum::String(cut(text).to_vec()),
        other => other.to_datum(),
    }
}

fn is_equal(a: &Datum, b: &Datum) -> bool {
    compare(a.as_ref(), b.as_ref()) == Ordering::Equal
}

/// Order of two values of one type.
#[must_use]
pub(crate) fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    match (a, b) {
        (ValueRef::Int(a), ValueRef::Int(b))
        | (ValueRef::DateTime(a), ValueRef::DateTime(b))
        | (ValueRef::Time(a), ValueRef::Time(b)) => a.cmp(&b),
        (ValueRef::UInt(a), ValueRef::UInt(b)) => a.cmp(&b),
        (ValueRef::Decimal(a), ValueRef::Decimal(b)) => a.cmp(&b),
        (ValueRef::Wide(a), ValueRef::Wide(b)) => a.cmp(&b),
        (ValueRef::Double(a), ValueRef::Double(b)) => a.total_cmp(&b),
        (ValueRef::Date(a), ValueRef::Date(b)) => a.cmp(&b),
        (ValueRef::Bool(a), ValueRef::Bool(b)) => a.cmp(&b),
        (ValueRef::String(a), ValueRef::String(b)) => string::compare(a, b),
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(values: impl IntoIterator<Item = i64>) -> Vec<Datum> {
        let mut values: Vec<i64> = values.into_iter().collect();
        values.sort_unstable();
        values.into_iter().map(Datum::Int).collect()
    }

    /// Largest difference between what the histogram says of the sample and what is true.
    fn worst(values: &[Datum], distinct: u64) -> (f64, f64) {
        let histogram = Histogram::of(values, distinct, MAX_BUCKETS).expect("there are values");
        let total = values.len() as f64;
        let (mut below, mut equal) = (0.0, 0.0);
        for value in values {
            let order = |v: &&Datum| compare(v.as_ref(), value.as_ref());
            let less = values.iter().filter(|v| order(v) == Ordering::Less).count();
            let same = values
                .iter()
                .filter(|v| order(v) == Ordering::Equal)
                .count();
            let said = histogram.below(value).expect("it is of the type");
            below = f64::max(below, (said - less as f64 / total).abs());
            let said = histogram.equal(value).expect("it is of the type");
            equal = f64::max(equal, (said - same as f64 / total).abs());
        }
        (below, equal)
    }

    #[test]
    fn few_values_are_told_exactly() {
        let values = ints((0..1000).map(|i| if i < 900 { 7 } else { i % 10 }));
        let (below, equal) = worst(&values, 10);
        assert!(below < 1e-6 && equal < 1e-6, "{below} {equal}");
    }

    #[test]
    fn skewed_values_are_told_within_a_bucket() {
        // About as Zipf has it: value i comes 2000 / i times.
        let values = ints((1..400_i64).flat_map(|i| std::iter::repeat_n(i * i, 2000 / i as usize)));
        let (below, equal) = worst(&values, 399);
        let bucket = 1.0 / MAX_BUCKETS as f64;
        assert!(below <= bucket && equal <= bucket, "{below} {equal}");
    }

    #[test]
    fn strings_lie_behind_their_common_prefix() {
        let text = |n: i64| Datum::String(format!("customer#{n:09}").into_bytes());
        let mut values: Vec<_> = (0..3000).map(text).collect();
        values.sort_by(|a, b| compare(a.as_ref(), b.as_ref()));
        let (below, equal) = worst(&values, 3000);
        assert!(below < 0.02 && equal < 0.001, "{below} {equal}");
        let long = Datum::String("x".repeat(500).into_bytes());
        let same = Histogram::of(&[kept(long.as_ref())], 1, 8).expect("a value");
        assert_eq!(
            (same.below(&long), same.equal(&long)),
            (Some(0.0), Some(1.0))
        );
    }

    #[test]
    fn values_outside_are_nowhere_and_other_types_are_not_compared() {
        let histogram = Histogram::of(&ints(10..5000), 4990, 16).expect("there are values");
        let int = Datum::Int;
        assert_eq!(histogram.below(&int(3)), Some(0.0));
        assert_eq!(histogram.equal(&int(3)), Some(0.0));
        assert_eq!(histogram.below(&int(9999)), Some(1.0));
        assert_eq!(histogram.equal(&int(9999)), Some(0.0));
        assert_eq!(histogram.below(&Datum::Date(3)), None);
        assert!(
            histogram
                .below(&Datum::UInt(2500))
                .is_some_and(|b| (b - 0.5).abs() < 0.01)
        );
        assert!(histogram.buckets().len() <= 16);
        assert_eq!(Histogram::of(&[], 0, 16), None);
    }

    #[test]
    fn a_sample_stands_for_all_values() {
        // 1 % of a million different values.
        let histogram = Histogram::of(&ints((0..10_000).map(|i| i * 100)), 1_000_000, 64);
        let histogram = histogram.expect("there are values");
        for value in [0, 37, 4_200, 999_900, 500_000] {
            let equal = histogram.equal(&Datum::Int(value)).expect("an integer");
            assert!((0.3e-6..3e-6).contains(&equal), "{value}: {equal}");
        }
    }

    #[test]
    fn wire_forms_come_back_and_texts_are_cut_between_characters() {
        let values: Vec<_> = (0..200)
            .map(|n| Datum::String(format!("{n:03}{}", "é".repeat(100)).into_bytes()))
            .map(|value| kept(value.as_ref()))
            .collect();
        for value in &values {
            let Datum::String(text) = value else { panic!() };
            assert!(text.len() <= STRING_BYTES && std::str::from_utf8(text).is_ok());
        }
        let histogram = Histogram::of(&values, 200, MAX_BUCKETS).expect("there are values");
        let mut w = Writer::new();
        histogram.encode(&mut w);
        let bytes = w.into_bytes();
        assert!(bytes.len() < 6 << 10, "{}", bytes.len());
        let mut r = Reader::new(&bytes, "histogram");
        assert_eq!(Histogram::decode(&mut r), Ok(histogram));
        for cut in 0..bytes.len() {
            assert!(Histogram::decode(&mut Reader::new(&bytes[..cut], "histogram")).is_err());
        }
    }
}
