//! A cluster of real processes on loopback: one Log Store, some Page Stores, one frontend.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Client, Link, WorkloadError};

/// How long a process may take until it serves: recovery of a large store reads its log.
const START_LIMIT: Duration = Duration::from_secs(120);

/// How long a process may take to stop when asked.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The `perigee` binary.
    pub binary: PathBuf,
    /// Directory for data, logs and ready files of all processes.
    pub dir: PathBuf,
    /// Number of Page Stores.
    pub page_stores: usize,
    /// Further arguments of the frontend, for example `--buffer-pool`.
    pub frontend_args: Vec<String>,
    /// Further arguments of each Page Store.
    pub page_store_args: Vec<String>,
    /// What lies between the frontend and the stores; loopback if `None`.
    pub link: Option<Arc<Link>>,
}

impl ClusterOptions {
    /// Two Page Stores, no further arguments, on loopback.
    #[must_use]
    pub fn new(binary: PathBuf, dir: PathBuf) -> Self {
        Self {
            binary,
            dir,
            page_stores: 2,
            frontend_args: Vec::new(),
            page_store_args: Vec::new(),
            link: None,
        }
    }
}

/// A running cluster; dropping it kills every process.
pub struct Cluster {
    options: ClusterOptions,
    log_store: Process,
    page_stores: Vec<Process>,
    frontend: Process,
}

/// One process that is everything (`perigee serve`); dropping it kills it.
pub struct Embedded {
    process: Process,
}

impl Embedded {
    /// Starts it on `dir` with further arguments and waits until it serves.
    ///
    /// # Errors
    /// If it does not start; the text names its log file.
    pub fn start(binary: &Path, dir: &Path, args: &[String]) -> Result<Self, WorkloadError> {
        fs::create_dir_all(dir).map_err(WorkloadError::io(format!("create {}", dir.display())))?;
        let options = ClusterOptions::new(binary.to_owned(), dir.to_owned());
        let data = dir.join("serve").to_string_lossy().into_owned();
        let mut all = vec!["serve".to_owned(), "--data".to_owned(), data];
        all.extend(args.iter().cloned());
        Ok(Self {
            process: Process::start(&options, "serve", &all, None)?,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.process.address
    }

    /// A new connection.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub async fn client(&self, schema: Option<&str>) -> Result<Client, WorkloadError> {
        Client::connect(self.process.address, schema).await
    }

    /// CPU time the process has used, user and system, as the kernel counts it.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn cpu(&self) -> Result<Duration, WorkloadError> {
        self.process.cpu()
    }

    /// Resident memory of the process in bytes: now and at its peak.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn memory(&self) -> Result<(u64, u64), WorkloadError> {
        self.process.memory()
    }

    /// Makes the present resident memory the peak, so that [`Embedded::memory`] gives that of what follows.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn reset_peak(&self) -> Result<(), WorkloadError> {
        self.process.reset_peak()
    }

    /// Its process id.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pid(&self) -> Result<u32, WorkloadError> {
        self.process.pid()
    }

    /// Stops it in the orderly way.
    ///
    /// # Errors
    /// If it does not end in time or ends with an error.
    pub fn stop(&mut self) -> Result<(), WorkloadError> {
        self.process.stop()
    }
}

/// Names a process of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The Log Store.
    LogStore,
    /// A Page Store, by its number.
    PageStore(usize),
    /// The frontend.
    Frontend,
}

impl Cluster {
    /// Starts all processes and waits until each serves.
    ///
    /// # Errors
    /// If one does not start; the text names its log file.
    pub fn start(options: ClusterOptions) -> Result<Self, WorkloadError> {
        fs::create_dir_all(&options.dir).map_err(WorkloadError::io(format!(
            "create {}",
            options.dir.display()
        )))?;
        let link = options.link.clone();
        let args = store_args(&options, "log-store");
        let log_store = Process::start(&options, "log-store", &args, link.clone())?;
        let mut page_stores = Vec::new();
        for number in 0..options.page_stores {
            let name = format!("page-store-{number}");
            let mut args = store_args(&options, &name);
            args[0] = "page-store".to_owned();
            args.extend(options.page_store_args.iter().cloned());
            page_stores.push(Process::start(&options, &name, &args, link.clone())?);
        }
        let args = role_args(&options, &log_store, &page_stores);
        let frontend = Process::start(&options, "frontend", &args, None)?;
        Ok(Self {
            options,
            log_store,
            page_stores,
            frontend,
        })
    }

    /// Where the frontend listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.frontend.address
    }

    /// A new connection to the frontend.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub async fn client(&self, schema: Option<&str>) -> Result<Client, WorkloadError> {
        Client::connect(self.address(), schema).await
    }

    /// CPU time the frontend has used, user and system, as the kernel counts it.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn frontend_cpu(&self) -> Result<Duration, WorkloadError> {
        self.cpu(Role::Frontend)
    }

    /// CPU time a process has used, user and system, as the kernel counts it.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn cpu(&self, role: Role) -> Result<Duration, WorkloadError> {
        self.process(role).cpu()
    }

    /// Resident memory of the frontend in bytes, as the kernel counts it: now and at its peak.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn frontend_memory(&self) -> Result<(u64, u64), WorkloadError> {
        self.frontend.memory()
    }

    /// Bytes of all files under the data directory of a role.
    #[must_use]
    pub fn disk_bytes(&self, role: Role) -> u64 {
        tree_bytes(&self.options.dir.join(self.process(role).name.as_str()))
    }

    /// Kills a process without warning (`kill -9`).
    ///
    /// # Errors
    /// If it cannot be killed.
    pub fn kill(&mut self, role: Role) -> Result<(), WorkloadError> {
        self.process_mut(role).kill()
    }

    /// Has a process stand still (`SIGSTOP`): its sockets stay open, and nobody gets an answer.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause(&self, role: Role) -> Result<(), WorkloadError> {
        self.process(role).signal(libc::SIGSTOP)
    }

    /// Ends [`Cluster::pause`].
    ///
    /// # Errors
    /// If it does not run.
    pub fn go_on(&self, role: Role) -> Result<(), WorkloadError> {
        self.process(role).signal(libc::SIGCONT)
    }

    /// The system's number of a process.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pid(&self, role: Role) -> Result<u32, WorkloadError> {
        self.process(role).pid()
    }

    /// True once a process has ended by itself, with an error.
    ///
    /// # Errors
    /// If it ended in good order, or nobody can tell.
    pub fn has_failed(&mut self, role: Role) -> Result<bool, WorkloadError> {
        self.process_mut(role).has_failed()
    }

    /// Stops a process in the orderly way and waits for its end.
    ///
    /// # Errors
    /// If it does not end in time or ends with an error.
    pub fn stop(&mut self, role: Role) -> Result<(), WorkloadError> {
        self.process_mut(role).stop()
    }

    /// Starts a killed or stopped process again, on the same data and at the same address.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self, role: Role) -> Result<(), WorkloadError> {
        let options = self.options.clone();
        self.process_mut(role).restart(&options)
    }

    /// The frontend's further arguments.
    #[must_use]
    pub fn frontend_args(&self) -> &[String] {
        &self.options.frontend_args
    }

    /// Restarts the frontend with other arguments.
    ///
    /// # Errors
    /// If it does not stop or start.
    pub fn restart_frontend_with(&mut self, args: Vec<String>) -> Result<(), WorkloadError> {
        self.frontend.stop()?;
        self.options.frontend_args = args;
        self.frontend.args = role_args(&self.options, &self.log_store, &self.page_stores);
        let options = self.options.clone();
        self.frontend.restart(&options)
    }

    fn process(&self, role: Role) -> &Process {
        match role {
            Role::LogStore => &self.log_store,
            Role::PageStore(number) => &self.page_stores[number],
            Role::Frontend => &self.frontend,
        }
    }

    fn process_mut(&mut self, role: Role) -> &mut Process {
        match role {
            Role::LogStore => &mut self.log_store,
            Role::PageStore(number) => &mut self.page_stores[number],
            Role::Frontend => &mut self.frontend,
        }
    }
}

fn store_args(options: &ClusterOptions, name: &str) -> Vec<String> {
    let dir = options.dir.join(name).to_string_lossy().into_owned();
    [name, "--data", dir.as_str()].map(str::to_owned).to_vec()
}

fn role_args(options: &ClusterOptions, log: &Process, pages: &[Process]) -> Vec<String> {
    let mut args = vec!["frontend".to_owned()];
    args.extend(["--log-store".to_owned(), log.address.to_string()]);
    for page_store in pages {
        args.extend(["--page-store".to_owned(), page_store.address.to_string()]);
    }
    args.extend(options.frontend_args.iter().cloned());
    args
}

/// A process, its name and how to start it again.
struct Process {
    name: String,
    args: Vec<String>,
    address: SocketAddr,
    /// It runs at the far end of this.
    link: Option<Arc<Link>>,
    child: Option<Child>,
}

impl Process {
    fn start(
        options: &ClusterOptions,
        name: &str,
        args: &[String],
        link: Option<Arc<Link>>,
    ) -> Result<Self, WorkloadError> {
        let here = link
            .as_ref()
            .map_or(Ipv4Addr::LOCALHOST, |link| link.address());
        let mut process = Self {
            name: name.to_owned(),
            args: args.to_vec(),
            address: SocketAddr::from((here, 0)),
            link,
            child: None,
        };
        process.restart(options)?;
        Ok(process)
    }

    /// Starts the process at its last address (at first, any free port) and waits until it says
    /// where it serves.
    fn restart(&mut self, options: &ClusterOptions) -> Result<(), WorkloadError> {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let path = |suffix| options.dir.join(format!("{}.{suffix}", self.name));
        let (ready, log) = (path("ready"), path("log"));
        let _ = fs::remove_file(&ready);
        let what = format!("open {}", log.display());
        let output = File::options()
            .append(true)
            .create(true)
            .open(&log)
            .map_err(WorkloadError::io(what))?;
        let errors = output
            .try_clone()
            .map_err(WorkloadError::io("duplicate a file handle"))?;
        let mut command = match &self.link {
            Some(link) => link.command(&options.binary),
            None => Command::new(&options.binary),
        };
        let child = command
            .args(&self.args)
            .arg("--listen")
            .arg(self.address.to_string())
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(WorkloadError::io(format!(
                "start {}",
                options.binary.display()
            )))?;
        self.child = Some(child);
        self.address = self.wait_until_ready(&ready, &log)?;
        Ok(())
    }

    fn wait_until_ready(&mut self, ready: &Path, log: &Path) -> Result<SocketAddr, WorkloadError> {
        let begin = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(ready)
                && let Ok(address) = text.trim().parse()
            {
                return Ok(address);
            }
            let child = self.child.as_mut().expect("just started");
            let ended = child
                .try_wait()
                .map_err(WorkloadError::io("wait for a process"))?;
            if let Some(status) = ended {
                self.child = None;
                return Err(self.failure(&format!("ended with {status}"), log));
            }
            if begin.elapsed() > START_LIMIT {
                return Err(self.failure("does not serve in time", log));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn failure(&self, what: &str, log: &Path) -> WorkloadError {
        let text = fs::read_to_string(log).unwrap_or_default();
        let tail: Vec<_> = text.lines().rev().take(5).collect();
        let tail: Vec<_> = tail.into_iter().rev().collect();
        WorkloadError::Process(format!(
            "{} {what}; the end of {}:\n{}",
            self.name,
            log.display(),
            tail.join("\n")
        ))
    }

    fn kill(&mut self) -> Result<(), WorkloadError> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        child
            .kill()
            .map_err(WorkloadError::io(format!("kill {}", self.name)))?;
        child
            .wait()
            .map_err(WorkloadError::io(format!("wait for {}", self.name)))?;
        Ok(())
    }

    fn stop(&mut self) -> Result<(), WorkloadError> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let pid = child.id() as libc::pid_t;
        // SAFETY: `pid` is a child of ours that has not been waited for, so it names that process.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let begin = Instant::now();
        while begin.elapsed() < STOP_LIMIT {
            match child
                .try_wait()
                .map_err(WorkloadError::io("wait for a process"))?
            {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let text = format!("{} ended with {status}", self.name);
                    return Err(WorkloadError::Process(text));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        self.child = Some(child);
        Err(WorkloadError::Process(format!(
            "{} does not stop",
            self.name
        )))
    }

    fn pid(&self) -> Result<u32, WorkloadError> {
        let pid = self.child.as_ref().map(Child::id);
        pid.ok_or_else(|| WorkloadError::Process(format!("{} does not run", self.name)))
    }

    fn signal(&self, signal: libc::c_int) -> Result<(), WorkloadError> {
        let pid = self.pid()? as libc::pid_t;
        // SAFETY: `pid` is a child of ours that has not been waited for, so it names that process.
        match unsafe { libc::kill(pid, signal) } {
            0 => Ok(()),
            _ => {
                let what = WorkloadError::io(format!("signal {}", self.name));
                Err(what(std::io::Error::last_os_error()))
            }
        }
    }

    fn has_failed(&mut self) -> Result<bool, WorkloadError> {
        let Some(child) = &mut self.child else {
            return Ok(true);
        };
        let ended = child
            .try_wait()
            .map_err(WorkloadError::io("wait for a process"))?;
        let Some(status) = ended else {
            return Ok(false);
        };
        self.child = None;
        match status.success() {
            true => Err(WorkloadError::Process(format!("{} ended", self.name))),
            false => Ok(true),
        }
    }

    fn cpu(&self) -> Result<Duration, WorkloadError> {
        let stat = self.proc_file("stat")?;
        // Fields after the command's closing parenthesis; user and system time are 14 and 15.
        let fields: Vec<_> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ticks = |i: usize| {
            fields
                .get(i)
                .and_then(|f| f.parse::<u64>().ok())
                .unwrap_or(0)
        };
        // SAFETY: sysconf reads a constant of the system.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        Ok(Duration::from_secs_f64(
            (ticks(11) + ticks(12)) as f64 / per_second,
        ))
    }

    fn memory(&self) -> Result<(u64, u64), WorkloadError> {
        let status = self.proc_file("status")?;
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace()
                .nth(1)?
                .parse::<u64>()
                .ok()
                .map(|kib| kib << 10)
        };
        Ok((field("VmRSS:").unwrap_or(0), field("VmHWM:").unwrap_or(0)))
    }

    fn reset_peak(&self) -> Result<(), WorkloadError> {
        // The kernel's number for "the peak of resident memory".
        fs::write(self.proc_path("clear_refs"), "5").map_err(WorkloadError::io(format!(
            "reset the peak of {}",
            self.name
        )))
    }

    fn proc_file(&self, name: &str) -> Result<String, WorkloadError> {
        fs::read_to_string(self.proc_path(name)).map_err(WorkloadError::io(format!(
            "read the {name} of {}",
            self.name
        )))
    }

    fn proc_path(&self, name: &str) -> String {
        let pid = self.child.as_ref().map_or(0, Child::id);
        format!("/proc/{pid}/{name}")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn tree_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => tree_bytes(&entry.path()),
            // Blocks, not length: files are preallocated, and holes take nothing.
            Ok(metadata) => 512 * metadata.blocks(),
            Err(_) => 0,
        })
        .sum()
}
