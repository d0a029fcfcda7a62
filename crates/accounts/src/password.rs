//! What is kept of a password: the double hash that its plugin checks a client's proof with.

use std::fmt;
use std::fmt::Write as _;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::SlowHash;

/// A method of proving a password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plugin {
    /// `mysql_native_password`: two rounds of SHA-1.
    NativePassword,
    /// `caching_sha2_password`: two rounds of SHA-256; the default.
    #[default]
    CachingSha2Password,
}

impl Plugin {
    /// MySQL's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NativePassword => "mysql_native_password",
            Self::CachingSha2Password => "caching_sha2_password",
        }
    }

    /// The plugin of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let plugins = [Self::NativePassword, Self::CachingSha2Password];
        plugins.into_iter().find(|plugin| plugin.name() == name)
    }

    /// Begins the text of a double hash; MySQL's own for SHA-256 are slow hashes, which begin otherwise.
    fn mark(self) -> &'static str {
        match self {
            Self::NativePassword => "*",
            Self::CachingSha2Password => "$double-sha256$",
        }
    }
}

/// What checks a password.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// There is no password: only an empty one is right.
    Empty(Plugin),
    /// SHA1(SHA1(password)).
    Native([u8; 20]),
    /// SHA256(SHA256(password)).
    Sha2([u8; 32]),
    /// MySQL's slow hash.
    Slow(SlowHash),
}

impl Default for Credential {
    fn default() -> Self {
        Self::Empty(Plugin::default())
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_empty() { "empty" } else { "secret" };
        write!(f, "{} ({kind})", self.plugin().name())
    }
}

impl Credential {
    /// Checks this password by a plugin; an empty one is no password.
    #[must_use]
    pub fn of_password(plugin: Plugin, password: &str) -> Self {
        match plugin {
            _ if password.is_empty() => Self::Empty(plugin),
            Plugin::NativePassword => Self::Native(Sha1::digest(Sha1::digest(password)).into()),
            Plugin::CachingSha2Password => {
                Self::Sha2(Sha256::digest(Sha256::digest(password)).into())
            }
        }
    }

    /// Of the text that [`Credential::text`] gives; `None` if it is not one of the plugin's.
    #[must_use]
    pub fn from_text(plugin: Plugin, text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Empty(plugin));
        }
        if let (Plugin::CachingSha2Password, Some(hash)) = (plugin, SlowHash::from_text(text)) {
            return Some(Self::Slow(hash));
        }
        let hash = text.strip_prefix(plugin.mark())?;
        match plugin {
            Plugin::NativePassword => from_hex(hash).map(Self::Native),
            Plugin::CachingSha2Password => from_hex(hash).map(Self::Sha2),
        }
    }

    /// What remembers a password that a slow hash was found to be of.
    #[must_use]
    pub fn double_sha256(password: &[u8]) -> [u8; 32] {
        Sha256::digest(Sha256::digest(password)).into()
    }

    /// What is kept, as text: MySQL's `authentication_string`.
    #[must_use]
    pub fn text(&self) -> String {
        let hash: &[u8] = match self {
            Self::Empty(_) => return String::new(),
            Self::Native(hash) => hash,
            Self::Sha2(hash) => hash,
            Self::Slow(hash) => return hash.text(),
        };
        let mut text = self.plugin().mark().to_owned();
        for byte in hash {
            let _ = write!(text, "{byte:02X}");
        }
        text
    }

    /// The plugin that checks it.
    #[must_use]
    pub fn plugin(&self) -> Plugin {
        match self {
            Self::Empty(plugin) => *plugin,
            Self::Native(_) => Plugin::NativePassword,
            Self::Sha2(_) | Self::Slow(_) => Plugin::CachingSha2Password,
        }
    }

    /// True if there is no password.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty(_))
    }
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        // `from_str_radix` takes a sign, too.
        if digits.starts_with('+') {
            return None;
        }
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_native_text_is_mysqls() {
        // SELECT PASSWORD('password') in MySQL 5.7 and MariaDB.
        let credential = Credential::of_password(Plugin::NativePassword, "password");
        assert_eq!(
            credential.text(),
            "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"
        );
    }

    #[test]
    fn what_is_kept_comes_back_from_its_text_and_is_not_printed() {
        for plugin in [Plugin::NativePassword, Plugin::CachingSha2Password] {
            for password in ["", "secret", "p\u{e4}ss"] {
                let credential = Credential::of_password(plugin, password);
                let text = credential.text();
                assert_eq!(
                    Credential::from_text(plugin, &text).as_ref(),
                    Some(&credential)
                );
                assert_eq!(credential.plugin(), plugin);
                assert_eq!(credential.is_empty(), password.is_empty());
                assert!(text.is_empty() || !format!("{credential:?}").contains(&text));
            }
            assert_eq!(Plugin::by_name(plugin.name()), Some(plugin));
        }
        let slow = "$A$005$abcdefghijabcdefghijc2RhZ2hzZGdoc2RnaHNkZ2hzZGdoc2RnaHNkZ2hzZGc";
        let credential = Credential::from_text(Plugin::CachingSha2Password, slow).unwrap();
        assert_eq!(credential.text(), slow);
        assert!(!format!("{credential:?}").contains("abc") && !credential.is_empty());
        assert_eq!(Credential::from_text(Plugin::NativePassword, slow), None);
        let signed = format!("*{}", "+1".repeat(20));
        assert_eq!(Credential::from_text(Plugin::NativePassword, &signed), None);
    }

    proptest! {
        #[test]
        fn any_text_can_be_asked(text: String) {
            let _ = Credential::from_text(Plugin::NativePassword, &text);
            let _ = Credential::from_text(Plugin::CachingSha2Password, &format!("$double-sha256${text}"));
        }
    }
}
