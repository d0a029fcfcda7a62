//! TLS: the server's certificate and key, and what a client is told of an encrypted connection. A client turns a
//! connection to TLS after the greeting, before it says who it is; [`stream`] is what follows.
//!
//! TLS 1.2 and 1.3 are spoken. Clients are not asked for certificates.

mod stream;

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ProtocolVersion, ServerConfig, ServerConnection};

pub(crate) use stream::{HandshakeError, TlsStream};

/// The versions spoken, as the variable `tls_version` lists them.
pub const TLS_VERSIONS: &str = "TLSv1.2,TLSv1.3";

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The first text has no certificate in PEM form.
    #[error("there is no certificate in PEM form in it")]
    NoCertificate,
    /// The second text has no private key in PEM form.
    #[error("there is no private key in PEM form in it (PKCS #8, PKCS #1 or SEC 1)")]
    NoKey,
    /// The certificate is damaged.
    #[error("the certificate is damaged: {0}")]
    Damaged(pem::Error),
    /// The key does not fit the certificate, or is of a kind that is not supported.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(rustls::Error),
}

impl TlsError {
    /// True if the key is to blame, and not the certificate.
    #[must_use]
    pub fn is_of_key(&self) -> bool {
        matches!(self, Self::NoKey)
    }
}

/// A certificate with its key, ready to serve. Clones are the same.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(certificate and key)")
    }
}

impl Tls {
    /// Takes a chain of certificates, the server's own first, and its private key, both in PEM form.
    ///
    /// # Errors
    /// If there is none in them, or they do not fit each other.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(TlsError::Damaged)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(TlsError::Unusable)?;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// The server's side of a new connection.
    fn connection(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config))
    }
}

/// How a connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsInfo {
    /// `TLSv1.2` or `TLSv1.3`: the status variable `Ssl_version`.
    pub version: &'static str,
    /// The cipher suite by OpenSSL's name, which clients know: `Ssl_cipher`.
    pub cipher: String,
}

impl TlsInfo {
    fn of(connection: &ServerConnection) -> Self {
        let suite = connection.negotiated_cipher_suite();
        let name = suite.map_or_else(String::new, |suite| format!("{:?}", suite.suite()));
        Self {
            version: match connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher: openssl_name(&name),
        }
    }
}

/// OpenSSL's name of a cipher suite that has this name in the standards.
fn openssl_name(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let rest = name.strip_prefix("TLS_").unwrap_or(name);
    rest.replace("_WITH", "")
        .replace("AES_128", "AES128")
        .replace("AES_256", "AES256")
        .replace("_POLY1305_SHA256", "_POLY1305")
        .replace('_', "-")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn cipher_suites_have_the_names_that_clients_know() {
        for (name, shown) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
            (
                "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "ECDHE-ECDSA-AES128-GCM-SHA256",
            ),
            (
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
                "ECDHE-RSA-CHACHA20-POLY1305",
            ),
        ] {
            assert_eq!(openssl_name(name), shown);
        }
    }

    #[test]
    fn what_is_no_certificate_or_no_key_is_refused_with_a_reason() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let tls = |certificate: &str, key: &str| {
            Tls::from_pem(certificate.as_bytes(), key.as_bytes())
                .map(|tls| format!("{tls:?}"))
                .map_err(|error| (error.is_of_key(), error.to_string()))
        };
        assert_eq!(
            tls(&certificate, &key).unwrap(),
            "Tls(certificate and key)",
            "a key is never printed"
        );
        for (certificate, key, of_key, reason) in [
            ("", &*key, false, "no certificate"),
            ("hello", &*key, false, "no certificate"),
            (&*key, &*key, false, "no certificate"),
            (&*certificate, "", true, "no private key"),
            (&*certificate, &*certificate, true, "no private key"),
            (
                &*certificate,
                &*other.signing_key.serialize_pem(),
                false,
                "cannot be used",
            ),
            (
                "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
                &*key,
                false,
                "damaged",
            ),
        ] {
            let (is_of_key, text) = tls(certificate, key).unwrap_err();
            assert!(text.contains(reason), "{text}: {reason}");
            assert_eq!(is_of_key, of_key, "{text}");
        }
    }
}
