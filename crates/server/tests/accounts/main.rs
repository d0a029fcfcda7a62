//! Accounts and TLS through the clients that people come with: logins, privileges, restarts, encryption. Where MariaDB
//! means the same, it is given the same statements, and its errors have the same numbers.
#![allow(clippy::unwrap_used, reason = "test code")]

mod columns;
mod life;
mod privileges;
mod roles;
mod tls;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use perigee_testkit::tested_binary;
use perigee_workload::Embedded;
use tempfile::TempDir;

/// A server of a test's own.
struct Served {
    server: Option<Embedded>,
    dir: TempDir,
    arguments: Vec<String>,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut served = Self {
            server: None,
            dir: tempfile::tempdir().unwrap(),
            arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
        };
        served.restart();
        served
    }

    /// Kills the server, if it runs, and starts it again.
    fn restart(&mut self) {
        drop(self.server.take());
        let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
        let server = Embedded::start(&binary, self.dir.path(), &self.arguments).unwrap();
        self.server = Some(server);
    }

    fn port(&self) -> u16 {
        self.server.as_ref().unwrap().address().port()
    }

    /// The `mariadb` command line as a user.
    fn mariadb(&self, user: &str, password: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("mariadb");
        command
            .args(["--no-defaults", "--host=127.0.0.1", "--batch", "--raw"])
            .args(["--skip-column-names", "--default-character-set=utf8mb4"])
            .arg(format!("--port={}", self.port()))
            .arg(format!("--user={user}"))
            .arg(format!("--password={password}"))
            .args(arguments)
            .env_remove("MYSQL_PWD")
            .stdin(Stdio::null());
        command
    }

    /// What a user's statements print, or the error that they end with.
    fn try_as(&self, user: &str, password: &str, sql: &str) -> Result<String, String> {
        answer(&mut self.mariadb(user, password, &["-e", sql]))
    }

    /// What root's statements print; root has no password.
    fn root(&self, sql: &str) -> String {
        self.try_as("root", "", sql).unwrap()
    }
}

fn run(command: &mut Command) -> Output {
    let program = command.get_program().to_owned();
    command.output().unwrap_or_else(|e| {
        panic!("cannot run {program:?}: {e}; scripts/install-test-peers installs it")
    })
}

/// What a client prints, or what it complains of.
fn answer(command: &mut Command) -> Result<String, String> {
    let output = run(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

/// The number and the state of the error that a client shows.
fn number_of(error: &str) -> String {
    let start = error.find("ERROR ").unwrap_or_else(|| panic!("{error}"));
    let rest = &error[start + 6..];
    let end = rest.find(')').unwrap_or_else(|| panic!("{error}"));
    rest[..=end].to_owned()
}

/// A file of `target/test-peers`, where `scripts/install-test-peers` puts the clients.
fn peer(name: &str) -> PathBuf {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-peers");
    let path = peers.join(name);
    let shown = path.display();
    assert!(
        path.exists(),
        "{shown} is missing; scripts/install-test-peers installs it"
    );
    path
}
