//! Exact sums of doubles: the sum of the same terms is the same in whatever order they come, on however many
//! workers, and it is the double nearest to the true sum.
//!
//! The sum is kept as an expansion (Shewchuk, "Adaptive precision floating-point arithmetic", 1997): doubles whose
//! bits do not overlap, in rising order, which together are the exact sum. Most sums need two or three of them.
//! Terms from 2^960 on are kept apart, scaled down, so that no step leaves the range of doubles.

/// Magnitude from which a term is kept apart.
const LARGE: f64 = f64::from_bits((1023 + 960) << 52);

/// What such a term is multiplied by, and its inverse.
const SCALE: f64 = f64::from_bits((1023 - 128) << 52);
const UNSCALE: f64 = f64::from_bits((1023 + 128) << 52);

/// An exact sum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExactSum {
    /// Of the terms below [`LARGE`].
    parts: Vec<f64>,
    /// Of the others, times [`SCALE`].
    large: Vec<f64>,
}

impl ExactSum {
    /// Adds a term.
    pub fn add(&mut self, term: f64) {
        // The sum of parts may grow beyond the limit as well; then it is divided among both.
        match term.abs() < LARGE {
            true => grow(&mut self.parts, term),
            false => grow(&mut self.large, term * SCALE),
        }
        if self.parts.last().is_some_and(|most| most.abs() >= LARGE) {
            let most = self.parts.pop().unwrap_or_default();
            grow(&mut self.large, most * SCALE);
        }
    }

    /// Takes a term out.
    pub fn subtract(&mut self, term: f64) {
        self.add(-term);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        for part in &other.parts {
            self.add(*part);
        }
        for part in &other.large {
            grow(&mut self.large, *part);
        }
    }

    /// The double nearest to the sum; infinite if it is beyond the range.
    #[must_use]
    pub fn value(&self) -> f64 {
        if self.large.iter().all(|part| *part == 0.0) {
            return nearest(&self.parts);
        }
        // What is lost of parts so small lies far behind the last bit of the sum.
        let mut all = self.large.clone();
        for part in &self.parts {
            grow(&mut all, part * SCALE);
        }
        nearest(&all) * UNSCALE
    }

    /// Bytes that it takes beside itself.
    #[must_use]
    pub fn size(&self) -> usize {
        size_of::<f64>() * (self.parts.capacity() + self.large.capacity())
    }

    /// The sum as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let count = self.parts.len() as u16; // the exponents of doubles have room for some 40
        let mut bytes = count.to_le_bytes().to_vec();
        for part in self.parts.iter().chain(&self.large) {
            bytes.extend(part.to_le_bytes());
        }
        bytes
    }

    /// The sum whose bytes these are, if they are.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk::<2>()?;
        let (parts, []) = rest.as_chunks::<8>() else {
            return None;
        };
        let mut parts: Vec<f64> = parts.iter().map(|part| f64::from_le_bytes(*part)).collect();
        let count = usize::from(u16::from_le_bytes(*count));
        let large = (count <= parts.len()).then(|| parts.split_off(count))?;
        Some(Self { parts, large })
    }
}

/// Adds a term to an expansion.
fn grow(parts: &mut Vec<f64>, mut term: f64) {
    let mut kept = 0;
    for at in 0..parts.len() {
        let part = parts[at];
        let (more, less) = match term.abs() < part.abs() {
            true => (part, term),
            false => (term, part),
        };
        let sum = more + less;
        // No value is infinite or not a number; of a damaged page one may be.
        if !sum.is_finite() {
            parts.clear();
            parts.push(f64::INFINITY);
            return;
        }
        let rest = less - (sum - more);
        if rest != 0.0 {
            parts[kept] = rest;
            kept += 1;
        }
        term = sum;
    }
    parts.truncate(kept);
    parts.push(term);
}

/// The double nearest to the sum of an expansion; of two the even one.
fn nearest(parts: &[f64]) -> f64 {
    let Some((last, lower)) = parts.split_last() else {
        return 0.0;
    };
    let (mut sum, mut rest) = (*last, 0.0);
    let mut below = lower;
    while let Some((part, others)) = below.split_last() {
        below = others;
        let before = sum;
        sum = before + part;
        rest = part - (sum - before);
        if rest != 0.0 {
            break;
        }
    }
    // Halfway between two doubles, what is below decides.
    if let Some(next) = below.last()
        && ((rest < 0.0 && *next < 0.0) || (rest > 0.0 && *next > 0.0))
    {
        let doubled = rest * 2.0;
        let other = sum + doubled;
        if doubled == other - sum {
            sum = other;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_testkit::Rng;

    fn sum(terms: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        terms.iter().for_each(|term| sum.add(*term));
        sum.value()
    }

    #[test]
    fn sums_are_the_nearest_double() {
        let half = 2_f64.powi(-53);
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1e100, 1.0, -1e100, 1e-100]), 1.0);
        assert_eq!(sum(&[1.0, half]), 1.0);
        assert_eq!(sum(&[1.0, half, 1e-300]), 1.0 + f64::EPSILON);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(sum(&[1e308, 1e308, -1e308, -1e308, 5e-324]), 5e-324);
        assert!(sum(&[f64::MAX, f64::MAX]).is_infinite());
        assert_eq!(sum(&[LARGE / 2.0, LARGE / 2.0, -LARGE]), 0.0);
    }

    #[test]
    fn no_order_and_no_division_of_the_terms_changes_the_sum() {
        let mut rng = Rng(7);
        for _ in 0..200 {
            let mut terms: Vec<f64> = (0..50)
                .map(|_| rng.between(-999, 999) as f64 * 10_f64.powi(rng.between(-30, 30) as i32))
                .collect();
            let expected = sum(&terms);
            for at in (1..terms.len()).rev() {
                terms.swap(at, rng.between(0, at as i64) as usize);
            }
            let (left, right) = terms.split_at(rng.between(0, 50) as usize);
            let mut merged = ExactSum::default();
            for part in [left, right] {
                let mut sum = ExactSum::default();
                part.iter().for_each(|term| sum.add(*term));
                merged.merge(&ExactSum::from_bytes(&sum.to_bytes()).expect("its bytes"));
            }
            assert_eq!(merged.value(), expected);
            right.iter().for_each(|term| merged.subtract(*term));
            assert_eq!(merged.value(), sum(left));
        }
        assert_eq!(ExactSum::from_bytes(&[1, 0]), None);
    }

    #[test]
    fn terms_that_are_no_values_take_no_room() {
        for term in [f64::NAN, f64::INFINITY, -f64::INFINITY] {
            let mut sum = ExactSum::default();
            for _ in 0..100 {
                sum.add(1.5);
                sum.add(term);
            }
            assert!(sum.size() < 200, "{} bytes", sum.size());
            assert!(!sum.value().is_finite());
        }
    }
}
