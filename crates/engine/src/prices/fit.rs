//! How far the running system is from reference costs.

/// Share by which what was learned before counts less at each observation.
const FORGOTTEN: f64 = 0.05;

/// How many observations the reference costs are worth.
const PRIOR: f64 = 0.02;

/// Limits of a factor: a part that no observation tells apart from the others does not run away.
const LEAST: f64 = 0.05;
const MOST: f64 = 20.0;

/// Factors of the parts of a cost: a linear regression of what work took on what it should take by reference, which
/// forgets, and stays near 1 where observations say nothing.
///
/// Errors are relative to the reference, so that long work does not count more than short work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit<const N: usize> {
    products: [[f64; N]; N],
    sums: [f64; N],
    factors: [f64; N],
    is_new: bool,
}

impl<const N: usize> Default for Fit<N> {
    fn default() -> Self {
        Self {
            products: [[0.0; N]; N],
            sums: [0.0; N],
            factors: [1.0; N],
            is_new: true,
        }
    }
}

impl<const N: usize> Fit<N> {
    /// The factor of each part; `None` before anything was learned.
    pub fn factors(&self) -> Option<[f64; N]> {
        (!self.is_new).then_some(self.factors)
    }

    /// Learns from work whose parts should have taken `reference` and that took `measured` altogether.
    pub fn learn(&mut self, reference: [f64; N], measured: f64) {
        let expected: f64 = reference.iter().sum();
        if !(measured > 0.0 && expected > 0.0 && (measured + expected).is_finite()) {
            return;
        }
        // An outlier says that there is something else, not by how much.
        let times = (measured / expected).clamp(LEAST, MOST);
        let parts = reference.map(|part| part / expected);
        for (row, part) in parts.iter().enumerate() {
            for (column, other) in parts.iter().enumerate() {
                let product = &mut self.products[row][column];
                *product = *product * (1.0 - FORGOTTEN) + part * other;
            }
            self.sums[row] = self.sums[row] * (1.0 - FORGOTTEN) + part * times;
        }
        self.is_new = false;
        self.factors = self.solved().map(|factor| factor.clamp(LEAST, MOST));
    }

    /// Solves the normal equations, to which the prior is added, by elimination. The matrix is positive
    /// definite, so no row needs to be exchanged.
    fn solved(&self) -> [f64; N] {
        let (mut left, mut right) = (self.products, self.sums);
        for row in 0..N {
            left[row][row] += PRIOR;
            right[row] += PRIOR;
        }
        for pivot in 0..N {
            let (above, below) = left.split_at_mut(pivot + 1);
            let above = &above[pivot];
            for (row, values) in below.iter_mut().enumerate() {
                let times = values[pivot] / above[pivot];
                for (value, other) in values.iter_mut().zip(above) {
                    *value -= times * other;
                }
                right[pivot + 1 + row] -= times * right[pivot];
            }
        }
        for row in (0..N).rev() {
            let known: f64 = (row + 1..N).map(|k| left[row][k] * right[k]).sum();
            right[row] = (right[row] - known) / left[row][row];
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 0.1
    }

    #[test]
    fn parts_that_vary_are_told_apart() {
        let mut fit = Fit::default();
        for n in 0..200 {
            let (pages, records) = (f64::from(100 + n % 7 * 50), f64::from(100 + n % 5 * 90));
            fit.learn([pages, records, 0.0], 3.0 * pages + 0.5 * records);
        }
        let [pages, records, unused] = fit.factors;
        assert!(is_near(pages, 3.0) && is_near(records, 0.5), "{fit:?}");
        assert!(is_near(unused, 1.0), "{fit:?}");
    }

    #[test]
    fn parts_that_do_not_vary_change_together() {
        let mut fit = Fit::default();
        for _ in 0..100 {
            fit.learn([10.0, 10.0], 40.0);
        }
        let [a, b] = fit.factors;
        assert!(is_near(a, 2.0) && is_near(b, 2.0), "{fit:?}");
    }

    #[test]
    fn what_was_is_forgotten_and_nonsense_is_not_learned() {
        let mut fit = Fit::default();
        for measured in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            fit.learn([1.0], measured);
            fit.learn([0.0], 1.0);
        }
        assert_eq!(fit, Fit::default());
        for _ in 0..100 {
            fit.learn([1.0], 10.0);
        }
        assert!(is_near(fit.factors[0], 10.0), "{fit:?}");
        for _ in 0..100 {
            fit.learn([1.0], 2.0);
        }
        assert!(is_near(fit.factors[0], 2.0), "{fit:?}");
        fit.learn([1.0], 1e12);
        assert!(fit.factors[0] < 3.0, "{fit:?}");
    }
}
