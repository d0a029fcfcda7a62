//! The `perigee-bench` binary: command line, logging, runtime.

mod cli;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tikv_jemallocator::Jemalloc;
use tracing_subscriber::EnvFilter;

/// The server's: peers that run in this process shall not have a slower one.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let filter = EnvFilter::try_from_env("PERIGEE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start threads: {e}"))
        .and_then(|runtime| runtime.block_on(cli::run(cli)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            tracing::error!("{message}");
            ExitCode::FAILURE
        }
    }
}
