//! The `perigee` binary: command line, logging, runtime. What it starts is in `node`, `workload` and `transfer`.

mod cli;
mod files;
mod inspect;
mod memory;
mod size;
mod transfer;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

/// What is logged unless PERIGEE_LOG says otherwise; the compiler would print every function it makes.
const LOGGED: &str = "info,cranelift_jit=warn,cranelift_codegen=warn";

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let filter = EnvFilter::try_from_env("PERIGEE_LOG").unwrap_or_else(|_| EnvFilter::new(LOGGED));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    if let Err(e) = files::raise_limit() {
        tracing::warn!("the limit of open files cannot be raised: {e}");
    }
    match cli::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            tracing::error!("{message}");
            ExitCode::FAILURE
        }
    }
}
