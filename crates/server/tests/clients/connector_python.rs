//! MySQL Connector/Python; what it checks is in `prepared.py`.

use std::process::Command;

use crate::{Served, peer, run_checks};

#[test]
fn connector_python() {
    let served = Served::start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/prepared.py");
    run_checks(Command::new(peer("python/bin/python")).args([script, &served.port()]));
}
