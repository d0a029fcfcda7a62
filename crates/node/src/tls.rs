//! The certificate that a frontend shows to MySQL clients: files that it is told, or one that it makes and signs
//! itself at the first start. A process with a data directory keeps it there; a frontend apart makes one for as long
//! as it runs.
//!
//! The key's file is readable by its owner only, and the certificate appears last: where it is, the key is too.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use perigee_wire_mysql::{Tls, TlsError};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use crate::{NodeError, TlsSettings};

/// Names of the files in a data directory, those that MySQL uses.
const CERTIFICATE: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";

/// What to do about files that were named.
const NAMED: &str = "choose others with --tls-cert and --tls-key";

/// What to do about files that were made here.
const MADE: &str = "remove it, and a new one is made at the next start";

/// A certificate in use, and where it lies.
pub(crate) struct Certificate {
    pub(crate) tls: Tls,
    /// Of the certificate and its key; `None` if it is kept in memory only.
    pub(crate) files: Option<(PathBuf, PathBuf)>,
}

/// The certificate that the settings say; `dir` is the data directory, if the process has one.
///
/// # Errors
/// [`NodeError::Certificate`] if the files cannot be read or used, [`NodeError::File`] if new ones cannot be written.
pub(crate) fn certificate(
    settings: &TlsSettings,
    dir: Option<&Path>,
    host: &str,
) -> Result<Option<Certificate>, NodeError> {
    match (settings, dir) {
        (TlsSettings::Off, _) => Ok(None),
        (TlsSettings::Files { certificate, key }, _) => read(certificate, key, NAMED).map(Some),
        (TlsSettings::Own, None) => {
            let (certificate, key) = make(host)?;
            let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes());
            let tls = tls.map_err(NodeError::component)?;
            Ok(Some(Certificate { tls, files: None }))
        }
        (TlsSettings::Own, Some(dir)) => {
            let (certificate, key) = (dir.join(CERTIFICATE), dir.join(KEY));
            if !(certificate.exists() && key.exists()) {
                keep(&certificate, &key, host)?;
            }
            read(&certificate, &key, MADE).map(Some)
        }
    }
}

fn read(certificate: &Path, key: &Path, hint: &'static str) -> Result<Certificate, NodeError> {
    let unusable = |path: &Path, cause: String| NodeError::Certificate {
        path: path.to_owned(),
        cause,
        hint,
    };
    let contents = |path: &Path| fs::read(path).map_err(|e| unusable(path, e.to_string()));
    let (chain, secret) = (contents(certificate)?, contents(key)?);
    let tls = Tls::from_pem(&chain, &secret).map_err(|error: TlsError| {
        let path = if error.is_of_key() { key } else { certificate };
        unusable(path, error.to_string())
    })?;
    Ok(Certificate {
        tls,
        files: Some((certificate.to_owned(), key.to_owned())),
    })
}

/// A certificate that signs itself and its key, in PEM form.
fn make(host: &str) -> Result<(String, String), NodeError> {
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    if host.is_ascii() && host != "localhost" {
        names.push(host.to_owned());
    }
    let mut params = CertificateParams::new(names).map_err(NodeError::component)?;
    params.distinguished_name = DistinguishedName::new();
    let name = "Perigee, signed by itself";
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().map_err(NodeError::component)?;
    let certificate = params.self_signed(&key).map_err(NodeError::component)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Makes a certificate and writes it to files.
fn keep(certificate: &Path, key: &Path, host: &str) -> Result<(), NodeError> {
    let (public, secret) = make(host)?;
    match fs::remove_file(certificate) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(unwritten(certificate, e)),
        _ => {}
    }
    if let Some(dir) = key.parent() {
        fs::create_dir_all(dir).map_err(|e| unwritten(dir, e))?;
    }
    write(key, &secret, 0o600)?;
    write(certificate, &public, 0o644)?;
    tracing::info!(certificate = %certificate.display(), "made a TLS certificate that signs itself");
    Ok(())
}

/// Writes a file that appears as a whole, with this mode from the beginning.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), NodeError> {
    let new = path.with_extension("new");
    let written = || -> io::Result<()> {
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    written().map_err(|e| unwritten(path, e))
}

fn unwritten(path: &Path, cause: io::Error) -> NodeError {
    NodeError::File {
        path: path.to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_certificate_is_made_once_and_its_key_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let own = || {
            certificate(&TlsSettings::Own, Some(&data), "db1")
                .unwrap()
                .unwrap()
        };
        let (certificate, key) = own().files.unwrap();
        let mode = fs::metadata(&key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let before = fs::read(&certificate).unwrap();
        own();
        assert_eq!(fs::read(&certificate).unwrap(), before, "it is kept");
        fs::remove_file(&key).unwrap();
        own();
        assert_ne!(
            fs::read(&certificate).unwrap(),
            before,
            "without a key it is no use"
        );
    }

    #[test]
    fn without_a_directory_it_is_in_memory_and_off_is_off() {
        let own = certificate(&TlsSettings::Own, None, "localhost").unwrap();
        assert!(own.unwrap().files.is_none());
        assert!(
            certificate(&TlsSettings::Off, None, "localhost")
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_bad_file_is_named_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (public, secret) = make("localhost").unwrap();
        let (good, key) = (file("good.pem", &public), file("key.pem", &secret));
        let (bad, absent) = (file("bad.pem", "nothing"), dir.path().join("absent.pem"));
        for (certificate_file, key_file, named) in [
            (&bad, &key, "bad.pem"),
            (&good, &bad, "bad.pem"),
            (&absent, &key, "absent.pem"),
        ] {
            let settings = TlsSettings::Files {
                certificate: certificate_file.clone(),
                key: key_file.clone(),
            };
            let Err(error) = certificate(&settings, None, "localhost") else {
                panic!("{named} is taken")
            };
            let text = error.to_string();
            assert!(
                text.contains(named) && text.contains("--tls-cert"),
                "{text}"
            );
        }
    }
}
