//! The clients that people come with, each against the real binary: the `mariadb` command line,
//! PyMySQL, MySQL Connector/Python and MySQL Connector/J. A missing client fails these tests: a protocol that no real client
//! was tried on is not tested.
#![allow(clippy::unwrap_used, reason = "test code")]

mod connector_j;
mod connector_python;
mod interrupt;
mod mariadb;
mod memory;
mod pymysql;
mod vanish;
mod worst;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use perigee_testkit::tested_binary;
use perigee_workload::Embedded;
use tempfile::TempDir;

/// A server of a test's own, with a directory for the client's files.
struct Served {
    server: Embedded,
    dir: TempDir,
}

impl Served {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
        let server = Embedded::start(&binary, dir.path(), &[]).unwrap();
        Self { server, dir }
    }

    fn port(&self) -> String {
        self.server.address().port().to_string()
    }

    /// A file that a client can send; gives its path.
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// A file of `target/test-peers`, where `scripts/install-test-peers` puts the clients.
fn peer(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/test-peers")
        .join(name);
    let path = path.as_path();
    assert!(
        path.exists(),
        "{} is missing; scripts/install-test-peers installs it",
        path.display()
    );
    path.to_owned()
}

/// Runs a client to its end.
fn output(command: &mut Command) -> Output {
    let program = command.get_program().to_owned();
    command.output().unwrap_or_else(|e| {
        panic!("cannot run {program:?}: {e}; scripts/install-test-peers installs it")
    })
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a program that checks by itself what it sees, part by part, and says so in its last line.
fn run_checks(command: &mut Command) {
    let output = output(command);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && out.ends_with("all checks passed\n"),
        "{}\n{out}\n{err}",
        output.status
    );
}
