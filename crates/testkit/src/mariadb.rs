//! A private MariaDB server: the engine that answers and speed are compared with.
//!
//! It has its own data directory and listens on a Unix socket only, so any number can run beside
//! each other and beside a server of the machine. Root has no password.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take to make its data directory and to start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server; dropping it kills it and leaves its directory.
#[derive(Debug)]
pub struct MariaDb {
    dir: PathBuf,
    child: Child,
}

impl MariaDb {
    /// Makes a data directory under `dir` if there is none, and starts a server on it with further
    /// arguments, for example `--innodb-buffer-pool-size=4G`.
    ///
    /// # Errors
    /// If MariaDB is not installed or does not start; the text says what to do.
    pub fn start(dir: &Path, args: &[&str]) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let dir = dir.canonicalize()?;
        let data = dir.join("data");
        // Its scratch files have names that repeat from one server to another.
        let scratch = dir.join("tmp");
        fs::create_dir_all(&scratch)?;
        let scratch = format!("--tmpdir={}", scratch.display());
        if !data.join("mysql").exists() {
            install(&data, &scratch)?;
        }
        let log = File::create(dir.join("mariadbd.log"))?;
        let child = Command::new(program(&["/usr/sbin/mariadbd", "mariadbd"]))
            .arg("--no-defaults")
            .arg("--user=root")
            .arg(format!("--datadir={}", data.display()))
            .arg(scratch)
            .arg(format!("--socket={}", socket_of(&dir).display()))
            .arg(format!("--pid-file={}", dir.join("pid").display()))
            .args([
                "--skip-networking",
                "--local-infile=1",
                "--character-set-server=utf8mb4",
            ])
            .arg("--collation-server=utf8mb4_bin")
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|e| missing("mariadbd", &e))?;
        let mut server = Self { dir, child };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The socket it listens on.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket_of(&self.dir)
    }

    /// Its data directory.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Runs SQL through the command line client and returns what it prints: tab-separated values,
    /// one row a line, without a header.
    ///
    /// # Errors
    /// If the client is not installed or the server answers with an error, which the text quotes.
    pub fn query(&self, schema: &str, sql: &str) -> io::Result<String> {
        let output = self
            .client()
            .args(["--batch", "--raw", "-N", "-e", sql, schema])
            .output();
        let output = output.map_err(|e| missing("mariadb", &e))?;
        success(output, sql).map(|out| String::from_utf8_lossy(&out).into_owned())
    }

    /// The command line client, connected to this server.
    #[must_use]
    pub fn client(&self) -> Command {
        let mut command = Command::new(program(&["mariadb", "mysql"]));
        command
            .arg("--no-defaults")
            .arg(format!("--socket={}", self.socket().display()))
            .args([
                "--user=root",
                "--local-infile=1",
                "--default-character-set=utf8mb4",
            ]);
        command
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < START_LIMIT {
            if self.query("", "SELECT 1").is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                let log = self.dir.join("mariadbd.log");
                let text = format!("mariadbd ends with {status}, see {}", log.display());
                return Err(io::Error::other(text));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "mariadbd does not start in time",
        ))
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn install(data: &Path, scratch: &str) -> io::Result<()> {
    let output = Command::new(program(&[
        "mariadb-install-db",
        "/usr/bin/mysql_install_db",
    ]))
    .arg("--no-defaults")
    .arg(format!("--datadir={}", data.display()))
    .arg(scratch)
    .args([
        "--user=root",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ])
    .output()
    .map_err(|e| missing("mariadb-install-db", &e))?;
    success(output, "mariadb-install-db").map(drop)
}

fn success(output: Output, what: &str) -> io::Result<Vec<u8>> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{what}: {}", error.trim())))
}

fn missing(program: &str, error: &io::Error) -> io::Error {
    let hint = "install MariaDB (scripts/install-test-peers does)";
    io::Error::new(
        error.kind(),
        format!("cannot run {program}: {error}; {hint}"),
    )
}

fn program(candidates: &[&'static str]) -> &'static str {
    let found = candidates
        .iter()
        .find(|c| c.starts_with('/') && Path::new(c).exists());
    found.copied().unwrap_or_else(|| {
        candidates
            .iter()
            .find(|c| !c.starts_with('/'))
            .expect("a bare name is among them")
    })
}

fn socket_of(dir: &Path) -> PathBuf {
    dir.join("sock")
}
