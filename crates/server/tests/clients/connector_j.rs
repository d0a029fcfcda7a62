//! MySQL Connector/J; what it checks is in `Checks.java`.

use std::process::Command;

use crate::{Served, peer, run_checks};

#[test]
fn connector_j() {
    let served = Served::start();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/Checks.java");
    run_checks(
        Command::new("java")
            .arg("-ea")
            .arg("-cp")
            .arg(peer("mysql-connector-j-9.5.0.jar"))
            .args([program, &served.port()])
            .arg(served.dir.path()),
    );
}
