//! [`Zone`]: what points in time in UTC are called in a time zone, and which ones names mean.

use std::fmt;

use chrono::offset::Offset;
use chrono::{DateTime, NaiveDateTime, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

use crate::date::{ZERO_MICROS, is_valid_micros};

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// A time zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Zone {
    /// UTC.
    #[default]
    Utc,
    /// So many seconds ahead of UTC, not 0.
    Offset(i32),
    /// A zone of the IANA time zone database.
    Named(Tz),
}

/// When a statement began, and the time zone of its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Microseconds since 1970 in UTC.
    pub utc: i64,
    /// The session's time zone.
    pub zone: Zone,
}

impl Now {
    /// What the time is called in the zone, as microseconds since 1970 there.
    #[must_use]
    pub fn local(self) -> i64 {
        self.zone.local(self.utc)
    }
}

/// The points in time that a name such as 02:30 means in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// One.
    One(i64),
    /// The name comes twice, since clocks were set back; the earlier point.
    Twice(i64),
    /// Clocks were set forward over the name; the point at which they were, with the name's fraction of a second.
    Skipped(i64),
}

impl Zone {
    /// The zone of a name: `SYSTEM`, `UTC`, one of the time zone database in upper or lower case, or an offset of
    /// -13:59 to +14:00. The server's own zone is UTC.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name.starts_with(['+', '-']) {
            return offset(name);
        }
        if name.eq_ignore_ascii_case("SYSTEM") {
            return Some(Self::Utc);
        }
        let zone = name.parse().ok().or_else(|| {
            let mut known = TZ_VARIANTS.iter();
            known
                .find(|zone| zone.name().eq_ignore_ascii_case(name))
                .copied()
        })?;
        Some(match zone {
            Tz::UTC | Tz::Etc__UTC => Self::Utc,
            zone => Self::Named(zone),
        })
    }

    /// The normal form of a zone's name; `None` if there is no such zone.
    #[must_use]
    pub fn normal_name(name: &str) -> Option<String> {
        let zone = Self::named(name)?;
        Some(match zone {
            Self::Utc if name.starts_with(['+', '-']) => "+00:00".to_owned(),
            Self::Utc => name.to_ascii_uppercase(),
            zone => zone.to_string(),
        })
    }

    /// True for UTC, in which points in time are called what they are stored as.
    #[must_use]
    pub const fn is_utc(self) -> bool {
        matches!(self, Self::Utc)
    }

    /// What a point in time, in microseconds since 1970 in UTC, is called in the zone, as microseconds since 1970 there.
    /// 0000-00-00 is called so everywhere.
    #[must_use]
    pub fn local(self, utc: i64) -> i64 {
        if utc == ZERO_MICROS {
            return utc;
        }
        utc.saturating_add(self.ahead(utc) * SECOND)
    }

    /// Seconds by which the zone is ahead of UTC at a point in time.
    fn ahead(self, utc: i64) -> i64 {
        match self {
            Self::Utc => 0,
            Self::Offset(seconds) => seconds.into(),
            Self::Named(zone) => naive(utc).map_or(0, |utc| {
                let offset = zone.offset_from_utc_datetime(&utc);
                offset.fix().local_minus_utc().into()
            }),
        }
    }

    /// The point in time that a name of the zone means.
    #[must_use]
    pub fn meant(self, local: i64) -> Meant {
        let zone = match self {
            _ if !is_valid_micros(local) => return Meant::One(local),
            Self::Utc => return Meant::One(local),
            Self::Offset(seconds) => return Meant::One(local - i64::from(seconds) * SECOND),
            Self::Named(zone) => zone,
        };
        let Some(name) = naive(local) else {
            return Meant::One(local);
        };
        let utc = |offset: chrono::FixedOffset| {
            local.saturating_sub(i64::from(offset.local_minus_utc()) * SECOND)
        };
        let found = zone.offset_from_local_datetime(&name);
        match found.map(|offset| utc(offset.fix())) {
            chrono::MappedLocalTime::Single(utc) => Meant::One(utc),
            chrono::MappedLocalTime::Ambiguous(one, other) => Meant::Twice(one.min(other)),
            chrono::MappedLocalTime::None => Meant::Skipped(self.set_forward(local)),
        }
    }

    /// The point in time that a name of the zone means: the first of two, and that of the change for a skipped one.
    #[must_use]
    pub fn utc(self, local: i64) -> i64 {
        match self.meant(local) {
            Meant::One(utc) | Meant::Twice(utc) | Meant::Skipped(utc) => utc,
        }
    }

    /// The second at which clocks were set forward over a name, with the name's fraction.
    fn set_forward(self, local: i64) -> i64 {
        /// More than any zone is ahead of UTC or behind it.
        const FAR: i64 = 2 * 86_400;
        let name = local.div_euclid(SECOND);
        // The first second that is called later than the name.
        let (mut before, mut after) = (name - FAR, name + FAR);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            match middle + self.ahead(middle * SECOND) > name {
                true => after = middle,
                false => before = middle,
            }
        }
        after * SECOND + local.rem_euclid(SECOND)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utc => f.write_str("UTC"),
            Self::Offset(seconds) => {
                let sign = if *seconds < 0 { '-' } else { '+' };
                let minutes = seconds.unsigned_abs() / 60;
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
            Self::Named(zone) => f.write_str(zone.name()),
        }
    }
}

fn naive(micros: i64) -> Option<NaiveDateTime> {
    let seconds = micros.div_euclid(SECOND);
    DateTime::from_timestamp(seconds, 0).map(|moment| moment.naive_utc())
}

/// `+hh:mm` and `-hh:mm`, of one digit or two.
fn offset(name: &str) -> Option<Zone> {
    let (sign, rest) = match name.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, name.strip_prefix('+')?),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |text: &str| -> Option<i32> {
        let is_plain = text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_plain)
    };
    let minutes = number(hours)? * 60 + number(minutes).filter(|minutes| *minutes < 60)?;
    let fits = minutes <= 14 * 60 && sign * minutes > -14 * 60;
    Some(match sign * minutes * 60 {
        _ if !fits => return None,
        0 => Zone::Utc,
        seconds => Zone::Offset(seconds),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{ColumnType, Datum, parse_text};

    fn micros(text: &str) -> i64 {
        match parse_text(ColumnType::DateTime { fsp: 6 }, text.as_bytes()) {
            Ok(Datum::DateTime(micros)) => micros,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn names_are_mysqls() {
        for (name, normal) in [
            ("SYSTEM", Some("SYSTEM")),
            ("utc", Some("UTC")),
            ("-0:00", Some("+00:00")),
            ("+5:3", Some("+05:03")),
            ("+14:00", Some("+14:00")),
            ("-13:59", Some("-13:59")),
            ("europe/BERLIN", Some("Europe/Berlin")),
            ("CET", Some("CET")),
            ("+14:01", None),
            ("-14:00", None),
            ("5:00", None),
            ("+05", None),
            ("+05:60", None),
            ("+005:00", None),
            ("+:", None),
            ("", None),
            ("Europe", None),
        ] {
            assert_eq!(Zone::normal_name(name).as_deref(), normal, "{name}");
        }
    }

    #[test]
    fn clocks_are_set_back_and_forward() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let meant = |local| berlin.meant(micros(local));
        let noon = Meant::One(micros("2024-06-01 10:00:00"));
        assert_eq!(meant("2024-06-01 12:00:00"), noon);
        let twice = Meant::Twice(micros("2024-10-27 00:30:00.25"));
        assert_eq!(meant("2024-10-27 02:30:00.25"), twice);
        let skipped = Meant::Skipped(micros("2024-03-31 01:00:00.75"));
        assert_eq!(meant("2024-03-31 02:30:00.75"), skipped);
        for utc in ["2024-10-27 00:30:00", "2024-10-27 01:30:00"] {
            assert_eq!(berlin.local(micros(utc)), micros("2024-10-27 02:30:00"));
        }
        assert_eq!(berlin.utc(ZERO_MICROS), ZERO_MICROS);
        assert_eq!(berlin.local(ZERO_MICROS), ZERO_MICROS);
    }

    #[test]
    fn what_has_one_name_is_found_by_it() {
        let zones = [
            "Australia/Lord_Howe",
            "America/St_Johns",
            "Asia/Kolkata",
            "-13:59",
        ];
        for zone in zones.map(|name| Zone::named(name).unwrap()) {
            // A point in every 25 minutes of three years.
            let start = micros("2020-01-01 00:00:07");
            for utc in (0..63_000).map(|step| start + step * 1500 * SECOND) {
                match zone.meant(zone.local(utc)) {
                    Meant::One(found) => assert_eq!(found, utc, "{zone}"),
                    Meant::Twice(first) => assert!(first <= utc, "{zone}"),
                    Meant::Skipped(_) => panic!("{zone}: {utc} has a name"),
                }
            }
        }
    }
}
