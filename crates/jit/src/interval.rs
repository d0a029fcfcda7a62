//! Ranges of integers: what the compiler knows of a number before it sees a record.
//!
//! A range decides whether a number fits a 64-bit register and whether an operation needs an
//! overflow check. It includes both ends and may be too wide, never too narrow.

use perigee_expr::Type;
use perigee_value::date::{MAX_DAY, MAX_MICROS, ZERO_DAY, ZERO_MICROS};
use perigee_value::time::MAX_TIME;

/// All integers from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub low: i128,
    pub high: i128,
}

/// Every `i64`.
pub(crate) const ALL_I64: Interval = Interval {
    low: i64::MIN as i128,
    high: i64::MAX as i128,
};

/// Every `u64`.
pub(crate) const ALL_U64: Interval = Interval {
    low: 0,
    high: u64::MAX as i128,
};

/// Days of DATE.
const ALL_DAYS: Interval = Interval {
    low: ZERO_DAY as i128,
    high: MAX_DAY as i128,
};

/// Microseconds of DATETIME.
const ALL_MICROS: Interval = Interval {
    low: ZERO_MICROS as i128,
    high: MAX_MICROS as i128,
};

/// Microseconds of TIME.
const ALL_TIMES: Interval = Interval {
    low: -MAX_TIME as i128,
    high: MAX_TIME as i128,
};

impl Interval {
    pub(crate) fn exactly(value: i128) -> Self {
        Self {
            low: value,
            high: value,
        }
    }

    /// The values that `ty` allows; doubles and strings have none that matter.
    pub(crate) fn of_type(ty: Type) -> Self {
        match ty {
            Type::Bool => Self { low: 0, high: 1 },
            Type::Int => ALL_I64,
            Type::UInt => ALL_U64,
            Type::Decimal { precision, .. } => Self::of_digits(precision),
            Type::Date => ALL_DAYS,
            Type::DateTime => ALL_MICROS,
            Type::Time => ALL_TIMES,
            Type::Double | Type::String | Type::Collated(_) => Self::exactly(0),
        }
    }

    /// Numbers of at most so many decimal digits.
    pub(crate) fn of_digits(digits: u8) -> Self {
        let high = 10_i128.pow(u32::from(digits.min(38))) - 1;
        Self { low: -high, high }
    }

    /// Integers of so many bytes.
    pub(crate) fn of_bytes(bytes: u8, unsigned: bool) -> Self {
        let bits = 8 * u32::from(bytes);
        if unsigned {
            Self {
                low: 0,
                high: (1_i128 << bits) - 1,
            }
        } else {
            Self {
                low: -(1_i128 << (bits - 1)),
                high: (1_i128 << (bits - 1)) - 1,
            }
        }
    }

    pub(crate) fn is_within(self, other: Self) -> bool {
        other.low <= self.low && self.high <= other.high
    }

    pub(crate) fn fits_i64(self) -> bool {
        self.is_within(ALL_I64)
    }

    pub(crate) fn contains(self, value: i128) -> bool {
        self.low <= value && value <= self.high
    }

    /// The part of both.
    pub(crate) fn intersect(self, other: Self) -> Self {
        let low = self.low.max(other.low);
        let high = self.high.min(other.high);
        // Two ranges that share nothing: the value is always an error. Any range will do.
        if low > high {
            other
        } else {
            Self { low, high }
        }
    }

    /// The smallest range around both.
    pub(crate) fn hull(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// Sums, or `None` if one may leave an `i128`.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        let low = self.low.checked_add(other.low)?;
        Some(Self {
            low,
            high: self.high.checked_add(other.high)?,
        })
    }

    /// Differences, or `None` if one may leave an `i128`.
    pub(crate) fn subtract(self, other: Self) -> Option<Self> {
        let low = self.low.checked_sub(other.high)?;
        Some(Self {
            low,
            high: self.high.checked_sub(other.low)?,
        })
    }

    /// Products, or `None` if one may leave an `i128`.
    pub(crate) fn multiply(self, other: Self) -> Option<Self> {
        let corners = [
            self.low.checked_mul(other.low)?,
            self.low.checked_mul(other.high)?,
            self.high.checked_mul(other.low)?,
            self.high.checked_mul(other.high)?,
        ];
        let low = corners.iter().copied().min()?;
        Some(Self {
            low,
            high: corners.iter().copied().max()?,
        })
    }

    /// Quotients by a positive number, rounded in any direction.
    pub(crate) fn divide(self, divisor: i128) -> Self {
        Self {
            low: self.low / divisor - 1,
            high: self.high / divisor + 1,
        }
    }

    pub(crate) fn negate(self) -> Option<Self> {
        Self::exactly(0).subtract(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_enclose_all_results() {
        let a = Interval { low: -3, high: 7 };
        let b = Interval { low: -5, high: 2 };
        let (mut sum, mut product) = (Interval::exactly(0), Interval::exactly(0));
        for x in -3..=7 {
            for y in -5..=2 {
                assert!(a.add(b).is_some_and(|r| r.contains(x + y)));
                assert!(a.subtract(b).is_some_and(|r| r.contains(x - y)));
                assert!(a.multiply(b).is_some_and(|r| r.contains(x * y)));
                sum = sum.hull(Interval::exactly(x + y));
                product = product.hull(Interval::exactly(x * y));
            }
        }
        assert_eq!((a.add(b), a.multiply(b)), (Some(sum), Some(product)));
        assert_eq!(a.negate(), Some(Interval { low: -7, high: 3 }));
        assert_eq!(Interval::exactly(i128::MIN).negate(), None);
    }

    #[test]
    fn types_have_their_ranges() {
        assert!(Interval::of_digits(18).fits_i64());
        assert!(!Interval::of_digits(19).fits_i64());
        assert_eq!(Interval::of_bytes(8, false), ALL_I64);
        assert_eq!(Interval::of_bytes(8, true), ALL_U64);
        assert!(Interval::of_type(Type::DateTime).fits_i64());
    }
}
