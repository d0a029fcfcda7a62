//! Values of TIMESTAMP columns, which are points in time in UTC, from and to what sessions see, which are names in their
//! time zones.

use crate::zone::{Meant, Zone};
use crate::{ColumnType, Datum, ValueError, ValueErrorKind, format_value, parse_text};

impl ColumnType {
    /// The value of the type that a text stands for in a time zone.
    ///
    /// # Errors
    /// Those of [`parse_text`]; `Incorrect` for a time that the zone skips.
    pub fn parse_in(self, text: &[u8], zone: Zone) -> Result<Datum, ValueError> {
        match self {
            Self::Timestamp { fsp } if !zone.is_utc() => {
                let local = parse_text(Self::DateTime { fsp }, text);
                let local = local.map_err(|error| ValueError { ty: self, ..error })?;
                self.stamp(local, zone, || text.to_vec())
            }
            _ => parse_text(self, text),
        }
    }

    /// A value of another type as a value of this one, in a time zone.
    ///
    /// # Errors
    /// Those of [`Self::coerce`]; `Incorrect` for a time that the zone skips.
    pub fn coerce_in(self, value: Datum, from: Self, zone: Zone) -> Result<Datum, ValueError> {
        match (from, self) {
            _ if zone.is_utc() => self.coerce(value, from),
            (Self::Timestamp { .. }, Self::Timestamp { .. }) => self.coerce(value, from),
            (Self::Timestamp { fsp }, _) => {
                self.coerce(value.local_in(zone), Self::DateTime { fsp })
            }
            (_, Self::Timestamp { fsp }) => {
                let local = Self::DateTime { fsp }.coerce(value, from);
                let local = local.map_err(|error| ValueError { ty: self, ..error })?;
                let shown = || {
                    let mut shown = String::new();
                    format_value(self, local.as_ref(), &mut shown);
                    shown.into_bytes()
                };
                self.stamp(local.clone(), zone, shown)
            }
            _ => self.coerce(value, from),
        }
    }

    /// A DATETIME of a zone as a TIMESTAMP; an error shows it as `shown` does.
    fn stamp(
        self,
        local: Datum,
        zone: Zone,
        shown: impl FnOnce() -> Vec<u8>,
    ) -> Result<Datum, ValueError> {
        let Datum::DateTime(micros) = local else {
            return Ok(local);
        };
        match zone.meant(micros) {
            Meant::One(utc) | Meant::Twice(utc) if self.has_micros(utc) => Ok(Datum::DateTime(utc)),
            _ => Err(ValueError::new(ValueErrorKind::Incorrect, self, &shown())),
        }
    }
}

impl Datum {
    /// A point in time of UTC as it is called in a zone; anything else as it is.
    #[must_use]
    pub fn local_in(self, zone: Zone) -> Self {
        match self {
            Self::DateTime(utc) => Self::DateTime(zone.local(utc)),
            other => other,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_stored_in_utc() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let stamp = ColumnType::Timestamp { fsp: 0 };
        let moment = ColumnType::DateTime { fsp: 0 };
        let shown = |ty: ColumnType, value: &Datum| {
            let mut shown = String::new();
            format_value(ty, value.as_ref(), &mut shown);
            shown
        };
        let summer = stamp.parse_in(b"2024-06-01 12:00:00", berlin).unwrap();
        assert_eq!(shown(stamp, &summer), "2024-06-01 10:00:00");
        let local = moment.coerce_in(summer.clone(), stamp, berlin).unwrap();
        assert_eq!(shown(moment, &local), "2024-06-01 12:00:00");
        assert_eq!(stamp.coerce_in(local, moment, berlin), Ok(summer.clone()));
        assert_eq!(stamp.coerce_in(summer.clone(), stamp, berlin), Ok(summer));
        let first = stamp.parse_in(b"1970-01-01 01:00:01", berlin);
        assert_eq!(first, Ok(Datum::DateTime(1_000_000)));
        for wrong in [
            "1970-01-01 01:00:00",
            "2024-03-31 02:30:00",
            "2038-01-19 04:14:08",
        ] {
            let error = stamp.parse_in(wrong.as_bytes(), berlin).unwrap_err();
            assert_eq!((error.ty, error.kind), (stamp, ValueErrorKind::Incorrect));
            assert_eq!(error.value, wrong);
        }
    }
}
