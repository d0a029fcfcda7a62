//! PyMySQL; what it checks is in `checks.py`.

use std::process::Command;

use crate::{Served, peer, run_checks};

#[test]
fn pymysql() {
    let served = Served::start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/checks.py");
    run_checks(
        Command::new(peer("python/bin/python"))
            .args([script, &served.port()])
            .arg(served.dir.path()),
    );
}
