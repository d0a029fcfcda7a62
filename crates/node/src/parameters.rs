//! The parameters of a prepared statement: values of the protocol as values of SQL.

use perigee_query as query;
use perigee_value::date::{Civil, TimeOfDay};
use perigee_wire_mysql as wire;

/// Checks a value and gives it its type.
pub(crate) fn parameter(value: &wire::Parameter<'_>) -> query::Result<query::Parameter> {
    use query::Parameter as P;
    match *value {
        wire::Parameter::Null => Ok(P::NULL),
        wire::Parameter::Int(v) => Ok(P::int(v)),
        wire::Parameter::UInt(v) => Ok(P::unsigned(v)),
        // As the double of the same value, as MySQL takes it.
        wire::Parameter::Float(v) => P::double(f64::from(v)),
        wire::Parameter::Double(v) => P::double(v),
        wire::Parameter::Decimal(text) => P::decimal(text),
        wire::Parameter::Text(text) => Ok(P::text(text)),
        wire::Parameter::Bytes(bytes) => Ok(P::bytes(bytes)),
        wire::Parameter::Date(day) => P::date(civil(day)),
        wire::Parameter::DateTime(day, time) => {
            let time = TimeOfDay {
                hour: time.hours,
                minute: time.minutes,
                second: time.seconds,
                micros: time.micros,
            };
            P::datetime(civil(day), time)
        }
        wire::Parameter::Time {
            negative,
            days,
            time,
        } => {
            let hours = u64::from(days) * 24 + u64::from(time.hours);
            P::time(negative, hours, time.minutes, time.seconds, time.micros)
        }
    }
}

fn civil(day: wire::Day) -> Civil {
    Civil {
        year: i32::from(day.year),
        month: day.month,
        day: day.day,
    }
}
