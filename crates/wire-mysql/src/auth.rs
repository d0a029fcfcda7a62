//! Proving a password without sending it: `mysql_native_password` and `caching_sha2_password`.
//!
//! Both compare a scramble made from the password and the connection's nonce against a double hash
//! that the server keeps. `caching_sha2_password` in MySQL keeps a slow salted hash on disk and the
//! double hash only in a cache, and needs the password itself (through TLS or RSA) to fill the
//! cache; here the double hash is what most accounts hold, so that the fast exchange suffices. Accounts
//! that came from MySQL with a slow hash need the full one, through TLS, until the double hash is known.
//!
//! Comparisons take the same time wherever the first difference is.

use std::fmt;

use rand::Rng as _;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::session::{Account, AccountName, Verifiers};

/// Bytes of a nonce.
pub(crate) const NONCE: usize = 20;

/// A method of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// `mysql_native_password`: two rounds of SHA-1.
    NativePassword,
    /// `caching_sha2_password`: two rounds of SHA-256, the default since MySQL 8.
    CachingSha2Password,
}

impl AuthMethod {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NativePassword => "mysql_native_password",
            Self::CachingSha2Password => "caching_sha2_password",
        }
    }

    /// The method of this name.
    #[must_use]
    pub fn by_name(name: &[u8]) -> Option<Self> {
        [Self::NativePassword, Self::CachingSha2Password]
            .into_iter()
            .find(|method| method.name().as_bytes() == name)
    }
}

/// A fresh nonce: printable ASCII, because clients treat it as a NUL-terminated string.
pub(crate) fn nonce() -> [u8; NONCE] {
    let mut rng = rand::rng();
    // '$' separates fields in the stored form of MySQL's own hashes and is avoided as there.
    std::array::from_fn(|_| {
        loop {
            let byte = rng.random_range(0x21..0x7F);
            if byte != b'$' {
                break byte;
            }
        }
    })
}

impl Account {
    /// An account that logs in without a password, and only so.
    #[must_use]
    pub fn without_password() -> Self {
        Self::of(None)
    }

    fn of(verifiers: Option<Verifiers>) -> Self {
        Self {
            name: AccountName::default(),
            locked: false,
            expired: false,
            verifiers,
        }
    }

    /// An account whose password has this double hash by SHA-1, for `mysql_native_password` only.
    #[must_use]
    pub fn with_native(hash: [u8; 20]) -> Self {
        Self::of(Some(Verifiers {
            native: Some(hash),
            sha2: None,
            slow: false,
        }))
    }

    /// An account whose password has this double hash by SHA-256, for `caching_sha2_password` only.
    #[must_use]
    pub fn with_sha2(hash: [u8; 32]) -> Self {
        Self::of(Some(Verifiers {
            native: None,
            sha2: Some(hash),
            slow: false,
        }))
    }

    /// An account of which a slow hash is kept, for `caching_sha2_password` only: the client has to send the password,
    /// encrypted, which [`crate::Authenticator::check_password`] checks.
    #[must_use]
    pub fn with_slow_hash() -> Self {
        Self::of(Some(Verifiers {
            native: None,
            sha2: None,
            slow: true,
        }))
    }

    /// True if only the password itself can be checked.
    pub(crate) fn needs_password(&self, method: AuthMethod) -> bool {
        let is_slow = self.verifiers.as_ref().is_some_and(|kept| kept.slow);
        is_slow && method == AuthMethod::CachingSha2Password
    }

    /// The account with a name.
    #[must_use]
    pub fn named(mut self, user: &str, host: &str) -> Self {
        self.name = AccountName {
            user: user.to_owned(),
            host: host.to_owned(),
        };
        self
    }

    /// An account with this password, for every method; an empty one is no password.
    #[must_use]
    pub fn with_password(password: &str) -> Self {
        if password.is_empty() {
            return Self::without_password();
        }
        Self::of(Some(Verifiers {
            native: Some(Sha1::digest(Sha1::digest(password)).into()),
            sha2: Some(Sha256::digest(Sha256::digest(password)).into()),
            slow: false,
        }))
    }

    /// An account nobody can log in to. Stands for a user that does not exist, so that the exchange
    /// looks the same.
    pub(crate) fn decoy() -> Self {
        let mut native = [0; 20];
        let mut sha2 = [0; 32];
        rand::rng().fill(&mut native);
        rand::rng().fill(&mut sha2);
        Self::of(Some(Verifiers {
            native: Some(native),
            sha2: Some(sha2),
            slow: false,
        }))
    }

    /// True if the password can be proved by a method.
    pub(crate) fn knows(&self, method: AuthMethod) -> bool {
        match (&self.verifiers, method) {
            (None, _) => true,
            (Some(kept), AuthMethod::NativePassword) => kept.native.is_some(),
            (Some(kept), AuthMethod::CachingSha2Password) => kept.sha2.is_some() || kept.slow,
        }
    }

    /// The method that a client is asked to use whose own the account does not know.
    pub(crate) fn method(&self) -> AuthMethod {
        match self.knows(AuthMethod::CachingSha2Password) {
            true => AuthMethod::CachingSha2Password,
            false => AuthMethod::NativePassword,
        }
    }

    /// True if `response` to `nonce` proves the password.
    pub(crate) fn accepts(&self, method: AuthMethod, nonce: &[u8; NONCE], response: &[u8]) -> bool {
        match &self.verifiers {
            None => is_empty_password(response),
            Some(kept) => match method {
                AuthMethod::NativePassword => {
                    let kept = kept.native.as_ref();
                    kept.is_some_and(|kept| native_matches(kept, nonce, response))
                }
                AuthMethod::CachingSha2Password => {
                    let kept = kept.sha2.as_ref();
                    kept.is_some_and(|kept| sha2_matches(kept, nonce, response))
                }
            },
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.verifiers.is_some() {
            "with password"
        } else {
            "without password"
        };
        write!(f, "Account({kind})")
    }
}

/// True if the client has no password to prove: it sends nothing, or only a NUL.
pub(crate) fn is_empty_password(response: &[u8]) -> bool {
    matches!(response, [] | [0])
}

/// response = SHA1(password) XOR SHA1(nonce, kept), where kept = SHA1(SHA1(password)).
fn native_matches(kept: &[u8; 20], nonce: &[u8; NONCE], response: &[u8]) -> bool {
    let Ok(response) = <[u8; 20]>::try_from(response) else {
        return false;
    };
    let mask: [u8; 20] = Sha1::new()
        .chain_update(nonce)
        .chain_update(kept)
        .finalize()
        .into();
    same(Sha1::digest(xor(response, mask)).as_slice(), kept)
}

/// response = SHA256(password) XOR SHA256(kept, nonce), where kept = SHA256(SHA256(password)).
fn sha2_matches(kept: &[u8; 32], nonce: &[u8; NONCE], response: &[u8]) -> bool {
    let Ok(response) = <[u8; 32]>::try_from(response) else {
        return false;
    };
    let mask: [u8; 32] = Sha256::new()
        .chain_update(kept)
        .chain_update(nonce)
        .finalize()
        .into();
    same(Sha256::digest(xor(response, mask)).as_slice(), kept)
}

fn xor<const N: usize>(a: [u8; N], b: [u8; N]) -> [u8; N] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

/// The response a client makes; for tests that play the client.
#[cfg(test)]
pub(crate) fn scramble(method: AuthMethod, password: &str, nonce: &[u8; NONCE]) -> Vec<u8> {
    match method {
        AuthMethod::NativePassword => {
            let once: [u8; 20] = Sha1::digest(password).into();
            let twice = Sha1::digest(once);
            let mask: [u8; 20] = Sha1::new()
                .chain_update(nonce)
                .chain_update(twice)
                .finalize()
                .into();
            xor(once, mask).to_vec()
        }
        AuthMethod::CachingSha2Password => {
            let once: [u8; 32] = Sha256::digest(password).into();
            let twice = Sha256::digest(once);
            let mask: [u8; 32] = Sha256::new()
                .chain_update(twice)
                .chain_update(nonce)
                .finalize()
                .into();
            xor(once, mask).to_vec()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const METHODS: [AuthMethod; 2] = [AuthMethod::NativePassword, AuthMethod::CachingSha2Password];

    #[test]
    fn the_right_password_and_no_other_is_accepted() {
        let account = Account::with_password("s\u{e9}same");
        for method in METHODS {
            let nonce = nonce();
            assert!(account.accepts(method, &nonce, &scramble(method, "s\u{e9}same", &nonce)));
            assert!(!account.accepts(method, &nonce, &scramble(method, "sesame", &nonce)));
            assert!(!account.accepts(method, &nonce, b""));
            assert!(!account.accepts(method, &nonce, &[0]));
            let other = scramble(method, "s\u{e9}same", b"abcdefghijklmnopqrst");
            assert!(
                !account.accepts(method, &nonce, &other),
                "an old response is useless"
            );
        }
    }

    #[test]
    fn an_account_without_a_password_takes_none() {
        let account = Account::with_password("");
        assert_eq!(account, Account::without_password());
        for method in METHODS {
            let nonce = nonce();
            assert!(account.accepts(method, &nonce, b""));
            assert!(account.accepts(method, &nonce, &[0]));
            assert!(!account.accepts(method, &nonce, &scramble(method, "x", &nonce)));
        }
    }

    #[test]
    fn an_account_of_one_method_knows_no_other() {
        let both = Account::with_password("secret");
        let kept = both.verifiers.clone().expect("it has a password");
        let (native, sha2) = (kept.native.expect("both"), kept.sha2.expect("both"));
        for (account, own) in [
            (Account::with_native(native), AuthMethod::NativePassword),
            (Account::with_sha2(sha2), AuthMethod::CachingSha2Password),
        ] {
            assert_eq!(account.method(), own);
            for method in METHODS {
                let nonce = nonce();
                let proof = scramble(method, "secret", &nonce);
                assert_eq!(account.knows(method), method == own);
                assert_eq!(account.accepts(method, &nonce, &proof), method == own);
            }
        }
    }

    #[test]
    fn nobody_enters_a_decoy() {
        for method in METHODS {
            let nonce = nonce();
            assert!(!Account::decoy().accepts(method, &nonce, b""));
            assert!(!Account::decoy().accepts(method, &nonce, &scramble(method, "", &nonce)));
        }
    }

    #[test]
    fn the_kept_native_hash_is_what_mysql_shows() {
        // SELECT PASSWORD('password') in MySQL 5.7 and MariaDB.
        let account = Account::with_password("password");
        let hex: String = account
            .verifiers
            .iter()
            .flat_map(|kept| kept.native.into_iter().flatten())
            .map(|b| format!("{b:02X}"))
            .collect();
        assert_eq!(hex, "2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19");
    }

    #[test]
    fn nonces_are_printable_and_differ() {
        let (a, b) = (nonce(), nonce());
        assert!(a.iter().all(|c| c.is_ascii_graphic() && *c != b'$'));
        assert_ne!(a, b);
    }

    #[test]
    fn an_account_does_not_print_its_hashes() {
        assert_eq!(
            format!("{:?}", Account::with_password("x")),
            "Account(with password)"
        );
    }

    proptest! {
        #[test]
        fn random_responses_never_panic_nor_pass(response: Vec<u8>) {
            let account = Account::with_password("x");
            for method in METHODS {
                prop_assert!(!account.accepts(method, &nonce(), &response));
            }
        }
    }
}
