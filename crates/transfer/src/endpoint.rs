//! Where a server is: `mysql://user:password@host:port/schema,schema`.

use std::path::Path;
use std::str::FromStr;

use mysql_async::{Opts, OptsBuilder};

use crate::TransferError;

/// Greatest packet that is taken from a server: its own limit may be as large.
const PACKET: usize = 1 << 30;

/// A server, the account to log in with, and the schemas that a URL names.
#[derive(Clone, Debug)]
pub struct Endpoint {
    opts: Opts,
    schemas: Vec<String>,
    place: String,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let form = "use mysql://user:password@host:port/schema; other characters than letters and digits in the password \
                    are percent-encoded, and a Unix socket is given as mysql://user@localhost/schema?socket=/path";
        let opts =
            Opts::from_url(url).map_err(|e| format!("this is no URL of a server ({e}); {form}"))?;
        let names = opts.db_name().unwrap_or_default();
        let schemas = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let schemas: Vec<_> = schemas.map(str::to_owned).collect();
        let place = match opts.socket() {
            Some(socket) => socket.to_owned(),
            None => format!("{}:{}", opts.ip_or_hostname(), opts.tcp_port()),
        };
        let opts = OptsBuilder::from_opts(opts)
            .db_name(None::<String>)
            .prefer_socket(false)
            .max_allowed_packet(Some(PACKET))
            .wait_timeout(Some(2_592_000));
        Ok(Self {
            opts: opts.into(),
            schemas,
            place,
        })
    }
}

impl Endpoint {
    /// The same server with the password that a file holds, whose last line end does not count.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn with_password_file(self, path: &Path) -> Result<Self, TransferError> {
        let text = std::fs::read_to_string(path)
            .map_err(TransferError::file(format!("read {}", path.display())))?;
        let password = text.trim_end_matches(['\n', '\r']).to_owned();
        let opts = OptsBuilder::from_opts(self.opts).pass(Some(password));
        Ok(Self {
            opts: opts.into(),
            ..self
        })
    }

    /// The schemas that the URL names.
    pub(crate) fn schemas(&self) -> &[String] {
        &self.schemas
    }

    /// The server without account and password, for messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn opts(&self) -> &Opts {
        &self.opts
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]
    use super::*;

    #[test]
    fn a_url_names_server_account_and_schemas() {
        let found: Endpoint = "mysql://ann:p%40ss@db.example:3307/shop,stock"
            .parse()
            .unwrap();
        assert_eq!(found.place(), "db.example:3307");
        assert_eq!(found.schemas(), ["shop", "stock"]);
        assert_eq!(found.opts().user(), Some("ann"));
        assert_eq!(found.opts().pass(), Some("p@ss"));
        let found: Endpoint = "mysql://root@localhost/d?socket=/run/s.sock"
            .parse()
            .unwrap();
        assert_eq!(found.place(), "/run/s.sock");
        let found: Endpoint = "mysql://root@127.0.0.1".parse().unwrap();
        assert_eq!(found.place(), "127.0.0.1:3306");
        assert!(found.schemas().is_empty());
        for wrong in ["", "shop", "postgres://h/d", "mysql:h"] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
