//! Values on their way into columns, as far as nothing can go wrong; what does not fit goes the
//! ordinary way, where it is an error or a warning. Whatever depends on the time zone comes here in UTC only.

use perigee_engine::catalog::ColumnDef;
use perigee_value::{ColumnType, Datum, ValueRef, Zone, decimal};

/// Types of integers outside of columns.
const fn bigint(unsigned: bool) -> ColumnType {
    ColumnType::Int { bytes: 8, unsigned }
}

/// A value as a value of a column.
pub(super) fn stored(value: ValueRef<'_>, column: &ColumnDef) -> Option<Datum> {
    match (column.ty, value) {
        (_, ValueRef::Null) => column.nullable.then_some(Datum::Null),
        (_, ValueRef::String(text)) => {
            let parsed = column.parse(text, Zone::Utc).ok();
            // Whether 0000-00-00 is a date depends on `sql_mode`.
            parsed.filter(|value| !value.is_zero_date())
        }
        (
            ColumnType::Date
            | ColumnType::DateTime { .. }
            | ColumnType::Timestamp { .. }
            | ColumnType::Time { .. },
            _,
        ) => None,
        (_, ValueRef::Int(v)) => column.coerce(Datum::Int(v), bigint(false), Zone::Utc).ok(),
        (_, ValueRef::UInt(v)) => column.coerce(Datum::UInt(v), bigint(true), Zone::Utc).ok(),
        _ => None,
    }
}

/// A column's value with an integer added or subtracted, as a value of the column.
pub(super) fn changed(
    current: ValueRef<'_>,
    change: ValueRef<'_>,
    subtract: bool,
    column: &ColumnDef,
) -> Option<Datum> {
    let sum = match (current, change) {
        (ValueRef::Null, ValueRef::Int(_)) => ValueRef::Null,
        (ValueRef::Int(a), ValueRef::Int(b)) => {
            let sum = if subtract {
                a.checked_sub(b)
            } else {
                a.checked_add(b)
            };
            ValueRef::Int(sum?)
        }
        (ValueRef::UInt(a), ValueRef::Int(b)) => {
            let b = u64::try_from(b).ok()?;
            let sum = if subtract {
                a.checked_sub(b)
            } else {
                a.checked_add(b)
            };
            ValueRef::UInt(sum?)
        }
        (ValueRef::Decimal(a), ValueRef::Int(b)) => {
            let ColumnType::Decimal { precision, scale } = column.ty else {
                return None;
            };
            let b = i128::from(b).checked_mul(decimal::pow10(scale))?;
            let sum = if subtract {
                a.checked_sub(b)
            } else {
                a.checked_add(b)
            };
            return sum
                .filter(|sum| decimal::fits(*sum, precision))
                .map(Datum::Decimal);
        }
        _ => return None,
    };
    stored(sum, column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_value::Collation;

    fn column(ty: ColumnType, nullable: bool) -> ColumnDef {
        ColumnDef {
            nullable,
            ..ColumnDef::new("c", ty)
        }
    }

    const TINY: ColumnType = ColumnType::Int {
        bytes: 1,
        unsigned: true,
    };

    #[test]
    fn what_fits_is_stored_and_nothing_else() {
        let text = ColumnType::Char {
            chars: 2,
            collation: Collation::UTF8MB4_BIN,
        };
        let string = |text: &'static [u8]| ValueRef::String(text);
        let store = |value, ty| stored(value, &column(ty, false));
        assert_eq!(store(ValueRef::Int(255), TINY), Some(Datum::UInt(255)));
        assert_eq!(store(ValueRef::Int(256), TINY), None);
        assert_eq!(store(ValueRef::Int(-1), TINY), None);
        assert_eq!(store(string(b"7"), TINY), Some(Datum::UInt(7)));
        assert_eq!(store(string(b"7x"), TINY), None);
        assert_eq!(
            store(string(b"ab "), text),
            Some(Datum::String(b"ab".to_vec()))
        );
        assert_eq!(store(string(b"abc"), text), None);
        assert_eq!(
            store(ValueRef::Int(-1), text),
            Some(Datum::String(b"-1".to_vec()))
        );
        assert_eq!(store(ValueRef::Int(20_240_101), ColumnType::Date), None);
        assert_eq!(store(ValueRef::Null, text), None);
        assert_eq!(
            stored(ValueRef::Null, &column(text, true)),
            Some(Datum::Null)
        );
    }

    #[test]
    fn sums_stay_in_their_column() {
        let (one, many) = (ValueRef::Int(1), ValueRef::Int(300));
        let tiny = column(TINY, true);
        let change = |value, by, subtract| changed(value, by, subtract, &tiny);
        assert_eq!(
            change(ValueRef::UInt(254), one, false),
            Some(Datum::UInt(255))
        );
        assert_eq!(change(ValueRef::UInt(255), one, false), None);
        assert_eq!(change(ValueRef::UInt(0), one, true), None);
        assert_eq!(change(ValueRef::UInt(9), many, false), None);
        assert_eq!(change(ValueRef::UInt(9), ValueRef::Int(-1), false), None);
        assert_eq!(change(ValueRef::Null, one, false), Some(Datum::Null));
        let money = ColumnType::Decimal {
            precision: 5,
            scale: 2,
        };
        let money = column(money, false);
        let change = |value, by| changed(ValueRef::Decimal(value), by, true, &money);
        assert_eq!(change(150, one), Some(Datum::Decimal(50)));
        assert_eq!(change(-99_999, one), None);
    }
}
