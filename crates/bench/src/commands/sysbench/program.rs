//! Running the program sysbench and reading what it prints.

use std::process::Command;

use serde::Serialize;

use super::SysbenchOptions;
use super::server::Server;
use perigee_workload::WorkloadError;

/// How to come by the program.
const INSTALL: &str = "install it (Debian, Ubuntu: apt-get install sysbench)";

/// The program, and the tables it works on.
pub(super) struct Sysbench {
    tables: u32,
    rows: u32,
}

/// What one run printed.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Transactions a second.
    pub transactions: f64,
    /// Statements a second.
    pub statements: f64,
    /// Milliseconds within which 95 % of the transactions were done.
    pub latency_95: f64,
    /// Transactions that sysbench began anew because of a deadlock or a duplicate key.
    pub ignored_errors: u64,
}

impl Sysbench {
    /// Looks whether it is installed.
    ///
    /// # Errors
    /// If it is not; the text says how to install it.
    pub fn find(options: &SysbenchOptions) -> Result<Self, WorkloadError> {
        let version = Command::new("sysbench").arg("--version").output();
        version.map_err(WorkloadError::io(format!("cannot run sysbench; {INSTALL}")))?;
        Ok(Self {
            tables: options.tables,
            rows: options.rows,
        })
    }

    /// Makes and fills the tables.
    pub async fn prepare(&self, server: &Server) -> Result<(), WorkloadError> {
        let args = [format!("--threads={}", self.tables.min(4))];
        self.call(server, "oltp_read_write", &args, "prepare")
            .await
            .map(drop)
    }

    /// Runs a workload.
    pub async fn run(
        &self,
        server: &Server,
        workload: &str,
        threads: u32,
        seconds: u32,
    ) -> Result<Run, WorkloadError> {
        let args = [
            format!("--threads={threads}"),
            format!("--time={seconds}"),
            "--percentile=95".to_owned(),
        ];
        let text = self.call(server, workload, &args, "run").await?;
        Run::parse(&text).ok_or_else(|| {
            WorkloadError::Unexpected(format!("sysbench {workload} prints no figures:\n{text}"))
        })
    }

    async fn call(
        &self,
        server: &Server,
        workload: &str,
        args: &[String],
        command: &str,
    ) -> Result<String, WorkloadError> {
        let address = server.address();
        let mut program = Command::new("sysbench");
        program
            .arg(workload)
            .arg("--db-driver=mysql")
            .arg(format!("--mysql-host={}", address.ip()))
            .arg(format!("--mysql-port={}", address.port()))
            .args(["--mysql-user=root", "--mysql-db=sbtest"])
            .arg(format!("--tables={}", self.tables))
            .arg(format!("--table-size={}", self.rows))
            .args(args)
            .arg(command);
        let output = tokio::task::spawn_blocking(move || program.output())
            .await
            .expect("running a program does not panic")
            .map_err(WorkloadError::io(format!("cannot run sysbench; {INSTALL}")))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && !text.contains("FATAL") {
            return Ok(text);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = text.lines().chain(errors.lines()).collect();
        let about: Vec<_> = lines
            .iter()
            .filter(|l| l.contains("FATAL"))
            .take(5)
            .collect();
        Err(WorkloadError::Process(format!(
            "sysbench {workload} {command} against {} ends with {}:\n{about:#?}",
            server.name, output.status
        )))
    }
}

impl Run {
    /// Reads sysbench's summary.
    fn parse(text: &str) -> Option<Self> {
        let line = |name: &str| {
            let lines = text.lines().map(str::trim);
            lines.filter_map(|line| line.strip_prefix(name)).next_back()
        };
        // `transactions:  1234  (123.40 per sec.)`
        let rate = |name| {
            let (_, rate) = line(name)?.split_once('(')?;
            rate.split_whitespace().next()?.parse::<f64>().ok()
        };
        Some(Self {
            transactions: rate("transactions:")?,
            statements: rate("queries:")?,
            latency_95: line("95th percentile:")?.trim().parse().ok()?,
            ignored_errors: line("ignored errors:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_read() {
        let text = "SQL statistics:\n    queries performed:\n        read:    14\n\
            \x20   transactions:                        2512   (251.03 per sec.)\n\
            \x20   queries:                             50240  (5020.53 per sec.)\n\
            \x20   ignored errors:                      3      (0.30 per sec.)\n\
            Latency (ms):\n         95th percentile:                        8.43\n";
        let run = Run::parse(text).unwrap();
        assert_eq!(
            format!("{run:?}"),
            "Run { transactions: 251.03, statements: 5020.53, latency_95: 8.43, ignored_errors: 3 }"
        );
        assert!(Run::parse("FATAL: nothing").is_none());
    }
}
