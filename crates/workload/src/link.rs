//! A network of a limited rate between frontend and storage: the stores run in a network namespace
//! of their own, behind a pair of virtual interfaces with a token bucket at either end.
//!
//! Needs root and iproute2. Dropping a link removes all of it.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::{fmt, io, thread};

use crate::WorkloadError;

/// How often the kernel refills a bucket, at least: a bucket holds what goes through in between.
const REFILLS_PER_SECOND: u64 = 250;

/// Least size of a bucket, in bytes: some of the packets of 64 KiB that interfaces are given.
const LEAST_BUCKET: u64 = 512 << 10;

/// How long a packet may wait in a bucket's queue.
const QUEUE: &str = "50ms";

/// Bits a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rate(pub u64);

impl Rate {
    /// So many Gbit/s.
    #[must_use]
    pub const fn gigabits(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Gbit/s", self.0 as f64 / 1e9)
    }
}

/// The link.
#[derive(Debug)]
pub struct Link {
    namespace: String,
    /// The interface on the frontend's side, and the one on that of the stores.
    interfaces: [String; 2],
    addresses: [Ipv4Addr; 2],
}

impl Link {
    /// Makes a link whose rate is not limited.
    ///
    /// # Errors
    /// If this process may not, or a tool is missing: the text says which.
    pub fn new() -> Result<Self, WorkloadError> {
        let id = std::process::id();
        // A network of four addresses for each process that has a link at a time.
        let network = (id % 0x4000) * 4;
        let address =
            |host| Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 231, 0, 0)) + network + host);
        let link = Self {
            namespace: format!("perigee-{id}"),
            interfaces: [format!("pf{id}"), format!("ps{id}")],
            addresses: [address(1), address(2)],
        };
        let [front, store] = &link.interfaces;
        run(&["ip", "netns", "add", &link.namespace])?;
        run(&[
            "ip",
            "link",
            "add",
            front,
            "type",
            "veth",
            "peer",
            "name",
            store,
            "netns",
            &link.namespace,
        ])?;
        let networks = link.addresses.map(|address| format!("{address}/30"));
        for side in [0, 1] {
            let interface = &link.interfaces[side];
            link.on(
                side,
                &["ip", "address", "add", &networks[side], "dev", interface],
            )?;
            link.on(side, &["ip", "link", "set", interface, "up"])?;
        }
        link.on(1, &["ip", "link", "set", "lo", "up"])?;
        Ok(link)
    }

    /// Limits the rate in both directions.
    ///
    /// # Errors
    /// If the kernel has no token buckets.
    pub fn limit(&self, Rate(rate): Rate) -> Result<(), WorkloadError> {
        let bucket = (rate / 8 / REFILLS_PER_SECOND)
            .max(LEAST_BUCKET)
            .to_string();
        let rate = format!("{rate}bit");
        for (side, interface) in self.interfaces.iter().enumerate() {
            self.on(
                side,
                &[
                    "tc", "qdisc", "replace", "dev", interface, "root", "tbf", "rate", &rate,
                    "burst", &bucket, "latency", QUEUE,
                ],
            )?;
        }
        Ok(())
    }

    /// Where stores listen.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.addresses[1]
    }

    /// The command that runs a program on the side of the stores.
    #[must_use]
    pub fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace])
            .arg(program);
        command
    }

    /// Listens on the side of the stores, at any port.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn listen(&self) -> Result<TcpListener, WorkloadError> {
        let namespace = PathBuf::from("/run/netns").join(&self.namespace);
        let address = self.address();
        // A socket stays in the namespace in which its thread was when it was made.
        let listen = move || -> io::Result<TcpListener> {
            let namespace = File::open(namespace)?;
            // SAFETY: the descriptor is open, and only this thread moves, which ends below.
            let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            if entered != 0 {
                return Err(io::Error::last_os_error());
            }
            TcpListener::bind((address, 0))
        };
        let listener = thread::spawn(listen).join();
        listener
            .expect("the thread does not panic")
            .map_err(WorkloadError::io("listen behind the limited network"))
    }

    /// Runs a command on one side.
    fn on(&self, side: usize, command: &[&str]) -> Result<(), WorkloadError> {
        match side {
            0 => run(command),
            _ => run(&[&["ip", "netns", "exec", self.namespace.as_str()], command].concat()),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Interfaces of a namespace go with it, and their peers with them.
        if let Err(error) = run(&["ip", "netns", "delete", &self.namespace]) {
            tracing::warn!("a network namespace stays: {error}");
        }
    }
}

fn run(command: &[&str]) -> Result<(), WorkloadError> {
    let what = || format!("run `{}`", command.join(" "));
    let output = Command::new(command[0])
        .args(&command[1..])
        .output()
        .map_err(WorkloadError::io(what()))?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(WorkloadError::Process(format!(
        "{}: {}",
        what(),
        error.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_shown_in_gigabits() {
        assert_eq!(Rate::gigabits(10).to_string(), "10 Gbit/s");
        assert_eq!(Rate(2_500_000_000).to_string(), "2.5 Gbit/s");
    }
}
