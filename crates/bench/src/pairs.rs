//! Judging two interleaved series of times on a noisy machine.

/// Two-sided 95 % points of Student's t distribution for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// What interleaved pairs of times `(base, other)`, in seconds, say of `other / base`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Comparison {
    /// Geometric mean of the ratios.
    pub ratio: f64,
    /// Lower end of its 95 % confidence interval.
    pub low: f64,
    /// Upper end of its 95 % confidence interval.
    pub high: f64,
    /// Mean of `other - base` in seconds.
    pub difference: f64,
}

impl Comparison {
    /// Compares the series.
    ///
    /// # Panics
    /// If there are fewer than two pairs, or a time is not positive.
    #[must_use]
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        assert!(pairs.len() > 1, "two pairs at least");
        assert!(
            pairs.iter().all(|(a, b)| *a > 0.0 && *b > 0.0),
            "times are positive"
        );
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let t = T_95.get(logs.len() - 2).copied().unwrap_or(1.96);
        let half = t * (variance / n).sqrt();
        Self {
            ratio: mean.exp(),
            low: (mean - half).exp(),
            high: (mean + half).exp(),
            difference: pairs.iter().map(|(a, b)| b - a).sum::<f64>() / n,
        }
    }

    /// As [`Comparison::of`] for many short runs: with the median of the ratios, which the few that were
    /// disturbed do not move, and its interval by the ranks of the ratios.
    ///
    /// # Panics
    /// As [`Comparison::of`].
    #[must_use]
    pub fn by_median(pairs: &[(f64, f64)]) -> Self {
        let mut ratios: Vec<f64> = pairs.iter().map(|(a, b)| b / a).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let (n, middle) = (ratios.len() as f64, ratios.len() / 2);
        let rank = (0.98 * n.sqrt()).ceil() as usize;
        Self {
            ratio: ratios[middle],
            low: ratios[middle.saturating_sub(rank)],
            high: ratios[(middle + rank).min(ratios.len() - 1)],
            ..Self::of(pairs)
        }
    }

    /// True if `other` is slower beyond doubt: the ratio's lower bound is above 1.02 and the
    /// difference above 3 ms.
    #[must_use]
    pub fn is_slower(&self) -> bool {
        self.low > 1.02 && self.difference > 0.003
    }
}

/// Geometric mean.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_series_are_not_slower_and_doubled_ones_are() {
        let noise = [1.0, 1.05, 0.97, 1.02, 0.99, 1.01, 1.04, 0.96, 1.0, 1.03];
        let equal: Vec<_> = noise
            .iter()
            .zip(noise.iter().rev())
            .map(|(a, b)| (*a, *b))
            .collect();
        let comparison = Comparison::of(&equal);
        assert!((comparison.ratio - 1.0).abs() < 0.02 && !comparison.is_slower());
        let doubled: Vec<_> = equal.iter().map(|(a, b)| (*a, 2.0 * b)).collect();
        let comparison = Comparison::of(&doubled);
        assert!(comparison.is_slower() && comparison.low < 2.0 && comparison.high > 2.0);
        let tiny: Vec<_> = doubled.iter().map(|(a, b)| (a / 1e4, b / 1e4)).collect();
        assert!(
            !Comparison::of(&tiny).is_slower(),
            "a tenth of a millisecond does not count"
        );
    }

    #[test]
    fn the_median_finds_one_per_cent_among_disturbed_runs() {
        let run = |i: usize| match i % 7 {
            0 => 3.0,
            n => 1.0 + 0.01 * n as f64,
        };
        let pairs: Vec<_> = (0..1000).map(|i| (run(i), 1.01 * run(i * 5 + 3))).collect();
        let comparison = Comparison::by_median(&pairs);
        assert!((comparison.ratio - 1.01).abs() < 0.005, "{comparison:?}");
        assert!(comparison.low <= 1.01 && comparison.high >= 1.01);
        assert!(comparison.high - comparison.low < 0.02, "{comparison:?}");
    }

    #[test]
    fn geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        assert!((geometric_mean(&[4.0, 0.25]) - 1.0).abs() < 1e-12);
    }
}
