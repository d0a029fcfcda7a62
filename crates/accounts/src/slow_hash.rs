//! [`SlowHash`]: what MySQL keeps of a password for `caching_sha2_password`: thousands of rounds of SHA-256 with a salt,
//! the scheme of `crypt` that begins with `$5$`, so that who reads it has to try passwords slowly.

use sha2::{Digest as _, Sha256};

/// Begins its text.
const MARK: &str = "$A$";

/// Bytes of a salt.
const SALT: usize = 20;

/// Characters of a digest.
const DIGEST: usize = 43;

/// Rounds that the text counts as one.
const ROUNDS_IN_ONE: u32 = 1000;

/// Least and most rounds, in thousands, as in MySQL.
const ROUNDS: std::ops::RangeInclusive<u16> = 5..=4095;

/// Longest password that is tried, as in MySQL: the work grows with its length.
const MAX_PASSWORD: usize = 256;

/// The 64 digits of a digest.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The order in which a digest writes bytes: three make four digits, the last two three.
const ORDER: [[usize; 3]; 10] = [
    [0, 10, 20],
    [21, 1, 11],
    [12, 22, 2],
    [3, 13, 23],
    [24, 4, 14],
    [15, 25, 5],
    [6, 16, 26],
    [27, 7, 17],
    [18, 28, 8],
    [9, 19, 29],
];

/// A salted hash that takes long to compute.
#[derive(Clone, PartialEq, Eq)]
pub struct SlowHash {
    /// Thousands of rounds.
    rounds: u16,
    salt: [u8; SALT],
    digest: [u8; DIGEST],
}

impl SlowHash {
    /// Bytes of its form in records.
    pub(crate) const LEN: usize = 2 + SALT + DIGEST;

    /// Of MySQL's text: `$A$`, thousands of rounds in three hexadecimal digits, `$`, salt, digest.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (rounds, rest) = text.strip_prefix(MARK)?.split_once('$')?;
        if rounds.len() != 3 || !rounds.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let rounds = u16::from_str_radix(rounds, 16).ok()?;
        let (salt, digest) = rest.as_bytes().split_at_checked(SALT)?;
        Self::of(rounds, salt, digest)
    }

    fn of(rounds: u16, salt: &[u8], digest: &[u8]) -> Option<Self> {
        let is_salt = |byte: &u8| byte.is_ascii() && !matches!(byte, 0 | b'$');
        let is_valid = ROUNDS.contains(&rounds)
            && salt.iter().all(is_salt)
            && digest.iter().all(|digit| DIGITS.contains(digit));
        is_valid.then_some(Self {
            rounds,
            salt: salt.try_into().ok()?,
            digest: digest.try_into().ok()?,
        })
    }

    /// MySQL's text.
    #[must_use]
    pub fn text(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (salt, digest) = (text(&self.salt), text(&self.digest));
        format!("{MARK}{:03X}${salt}{digest}", self.rounds)
    }

    pub(crate) fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..2].copy_from_slice(&self.rounds.to_le_bytes());
        bytes[2..2 + SALT].copy_from_slice(&self.salt);
        bytes[2 + SALT..].copy_from_slice(&self.digest);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let rounds = u16::from_le_bytes([bytes[0], bytes[1]]);
        Self::of(rounds, &bytes[2..2 + SALT], &bytes[2 + SALT..])
    }

    /// True for the password. Takes milliseconds on purpose.
    #[must_use]
    pub fn matches(&self, password: &[u8]) -> bool {
        if password.is_empty() || password.len() > MAX_PASSWORD {
            return false;
        }
        let rounds = u32::from(self.rounds) * ROUNDS_IN_ONE;
        let found = digest(password, &self.salt, rounds);
        let differ = found.iter().zip(&self.digest);
        differ.fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

/// So many bytes of a hash, over and over.
fn repeated(hash: &[u8; 32], len: usize) -> Vec<u8> {
    hash.iter().copied().cycle().take(len).collect()
}

/// The digest of a password.
fn digest(password: &[u8], salt: &[u8], rounds: u32) -> [u8; DIGEST] {
    let hash = |parts: &[&[u8]]| -> [u8; 32] {
        let all = parts
            .iter()
            .fold(Sha256::new(), |all, part| all.chain_update(part));
        all.finalize().into()
    };
    let both = hash(&[password, salt, password]);
    let mut first = Sha256::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(repeated(&both, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        match bits & 1 {
            0 => first.update(password),
            _ => first.update(both),
        }
        bits >>= 1;
    }
    let mut last: [u8; 32] = first.finalize().into();
    let of_password = password.repeat(password.len());
    let of_password = repeated(&hash(&[&of_password]), password.len());
    let of_salt = salt.repeat(16 + usize::from(last[0]));
    let of_salt = repeated(&hash(&[&of_salt]), salt.len());
    for round in 0..rounds {
        let is_odd = round & 1 != 0;
        let mut next = Sha256::new();
        next.update(if is_odd { &of_password[..] } else { &last[..] });
        if round % 3 != 0 {
            next.update(&of_salt);
        }
        if round % 7 != 0 {
            next.update(&of_password);
        }
        next.update(if is_odd { &last[..] } else { &of_password[..] });
        last = next.finalize().into();
    }
    in_digits(&last)
}

fn in_digits(hash: &[u8; 32]) -> [u8; DIGEST] {
    let mut digits = [0; DIGEST];
    let mut places = digits.iter_mut();
    let mut put = |mut number: u32, count: usize| {
        for place in places.by_ref().take(count) {
            *place = DIGITS[(number & 63) as usize];
            number >>= 6;
        }
    };
    let of = |byte: usize, shift: u32| u32::from(hash[byte]) << shift;
    for [a, b, c] in ORDER {
        put(of(a, 16) | of(b, 8) | of(c, 0), 4);
    }
    put(of(31, 8) | of(30, 0), 3);
    digits
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn digests_are_those_of_crypt() {
        // The test vectors of the scheme's author.
        for (password, salt, rounds, expected) in [
            (
                "Hello world!",
                "saltstring",
                5000,
                "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
            ),
            (
                "Hello world!",
                "saltstringsaltst",
                10_000,
                "3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
            ),
            (
                "This is just a test",
                "toolongsaltstrin",
                5000,
                "Un/5jzAHMgOGZ5.mWJpuVolil07guHPvOW8mGRcvxa5",
            ),
        ] {
            let found = digest(password.as_bytes(), salt.as_bytes(), rounds);
            assert_eq!(str::from_utf8(&found).unwrap(), expected, "{password}");
        }
        // MySQL's salts are longer; an example of hashcat.
        let salt = [
            0xF9, 0xCC, 0x98, 0xCE, 0x08, 0x89, 0x29, 0x24, 0xF5, 0x0A, 0x21, 0x3B, 0x6B, 0xC5,
            0x71, 0xA2, 0xC1, 0x17, 0x78, 0xC5,
        ];
        let found = digest(b"hashcat", &salt, 5000);
        let expected = "bTy95Y99eAME1dwEkHOA1ndHGBWz.1bxSSRkuTXFGV/";
        assert_eq!(str::from_utf8(&found).unwrap(), expected);
    }

    #[test]
    fn texts_come_back_and_passwords_are_checked() {
        let salt = b"abc'\\\x01\x7Fefghijklmnopq";
        let salt: [u8; SALT] = salt[..SALT].try_into().unwrap();
        let hash = SlowHash {
            rounds: 5,
            salt,
            digest: digest(b"secret", &salt, 5000),
        };
        let text = hash.text();
        assert!(text.starts_with("$A$005$abc'"));
        assert!(SlowHash::from_text(&text).is_some_and(|found| found == hash));
        assert!(SlowHash::from_bytes(&hash.to_bytes()).is_some_and(|found| found == hash));
        assert!(hash.matches(b"secret") && !hash.matches(b"Secret") && !hash.matches(b""));
        assert!(!hash.matches(&[b'x'; MAX_PASSWORD + 1]));
        for wrong in ["", "$A$", "$A$004$x", "$A$005$", "$A$0055$x", "$A$+05$x"] {
            assert!(SlowHash::from_text(wrong).is_none(), "{wrong}");
        }
        let shorter = &text[..text.len() - 1];
        assert!(SlowHash::from_text(shorter).is_none());
        assert!(SlowHash::from_text(&format!("{text}x")).is_none());
        assert!(SlowHash::from_text(&format!("{shorter}!")).is_none());
        assert!(SlowHash::from_text(&text.replace("$005", "$001")).is_none());
    }
}
