//! Sizes on the command line: `128MiB`, `1GiB`, `16K`, `4096`.

use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(format!("{unit:?} is no unit; use KiB, MiB, GiB or TiB")),
        };
        let number: u64 = number
            .parse()
            .map_err(|_| format!("{text:?} is not a size"))?;
        number
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or_else(|| format!("{text} is too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("16K", 16 << 10),
            ("3GiB", 3 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "12 parsecs", "-1", "99999999999T"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
