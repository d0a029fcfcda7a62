//! How processes start, refuse to start, and stop: every refusal says what is wrong and what to do.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use perigee_testkit::tested_binary;
use perigee_workload::{Client, WorkloadError};
use tokio::task::{JoinHandle, spawn_blocking};

/// How long a process may take to serve.
const START: Duration = Duration::from_secs(30);

/// How long a process that was told to stop may take, whatever others do: 5 s for statements to
/// finish, 10 s to undo those that do not, 10 s for stores to answer, and some to spare.
const STOP: Duration = Duration::from_secs(30);

/// The roles that keep data.
const ROLES: [&str; 3] = ["serve", "log-store", "page-store"];

/// A process with its log.
struct Process {
    child: Child,
    log: PathBuf,
    ready: PathBuf,
}

impl Process {
    /// Starts `perigee` with these arguments; logs go to a file in `dir`.
    fn start(dir: &Path, arguments: &[&str]) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let log = dir.join(format!("{number}.log"));
        let ready = dir.join(format!("{number}.ready"));
        let errors = File::create(&log).unwrap();
        let child = Command::new(tested_binary(env!("CARGO_BIN_EXE_perigee")))
            .args(arguments)
            .arg("--ready-file")
            .arg(&ready)
            .current_dir(dir)
            .env_remove("PERIGEE_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .unwrap();
        Self { child, log, ready }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it serves; gives the address.
    fn address(&mut self) -> SocketAddr {
        let begin = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(&self.ready) {
                return text.parse().unwrap();
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", self.log());
            assert!(begin.elapsed() < START, "{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end.
    fn end(&mut self, limit: Duration) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < limit, "{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn terminate(&self) {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(told.success());
    }

    /// Waits for it to refuse to start; gives the last line of its log.
    fn refusal(&mut self) -> String {
        let status = self.end(START);
        assert_eq!(status.code(), Some(1), "{}", self.log());
        assert!(!self.ready.exists(), "it said that it serves");
        self.log().lines().last().unwrap().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a role on `data` at any free port.
fn start(dir: &Path, role: &str, data: &str) -> Process {
    Process::start(dir, &[role, "--data", data, "--listen", "127.0.0.1:0"])
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for role in ROLES {
        let refusal =
            Process::start(dir.path(), &[role, "--data", role, "--listen", &address]).refusal();
        let wanted = format!(
            "{address} is in use by another process; stop it or choose another address with --listen"
        );
        assert!(refusal.ends_with(&wanted), "{role}: {refusal}");
    }
}

#[test]
fn only_this_machine_is_served_unless_told_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    for (role, port) in ROLES.into_iter().zip([3306, 7201, 7301]) {
        let address = format!("127.0.0.1:{port}");
        // If somebody has the port, the refusal names the address that was tried.
        let taken = TcpStream::connect(&address).is_ok();
        let mut process = Process::start(dir.path(), &[role, "--data", role]);
        if taken {
            let refusal = process.refusal();
            assert!(
                refusal.contains(&format!("{address} is in use")),
                "{refusal}"
            );
        } else {
            assert_eq!(process.address().to_string(), address);
        }
    }
    // Other machines reach it only when root has a password.
    let arguments = ["serve", "--data", "open", "--listen", "0.0.0.0:0"];
    let refusal = Process::start(dir.path(), &arguments).refusal();
    assert!(
        refusal.contains("root has no password") && refusal.contains("ALTER USER"),
        "{refusal}"
    );
    let mut local = start(dir.path(), "serve", "open");
    let set = "ALTER USER root@localhost IDENTIFIED BY 'secret'";
    let mut client = Command::new("mariadb");
    client
        .args(["--no-defaults", "--host=127.0.0.1", "--user=root"])
        .arg(format!("--port={}", local.address().port()))
        .args(["-e", set]);
    assert!(client.status().unwrap().success());
    local.terminate();
    assert!(local.end(STOP).success());
    assert!(
        Process::start(dir.path(), &arguments)
            .address()
            .ip()
            .is_unspecified()
    );
}

#[test]
fn root_is_given_the_password_of_a_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    fs::write(&file, "first\n").unwrap();
    let listen = ["serve", "--data", "given", "--listen", "0.0.0.0:0"];
    let arguments = [&listen[..], &["--root-password-file", "password"]].concat();
    for _ in 0..2 {
        let mut server = Process::start(dir.path(), &arguments);
        let port = server.address().port();
        let mut client = Command::new("mariadb");
        client
            .args(["--no-defaults", "--host=127.0.0.1", "--user=root"])
            .args(["--password=first", &format!("--port={port}"), "-N"])
            .args(["-e", "SELECT User, Host FROM mysql.user"]);
        let shown = client.output().unwrap().stdout;
        let expected = "root\t%\nroot\tlocalhost\n";
        assert_eq!(String::from_utf8(shown).unwrap(), expected);
        // The second time it has one, and keeps it.
        fs::write(&file, "second").unwrap();
        server.terminate();
        assert!(server.end(STOP).success());
    }
    fs::write(&file, "\n").unwrap();
    let refusal = Process::start(dir.path(), &arguments).refusal();
    assert!(refusal.contains("has no password for root"), "{refusal}");
}

#[test]
fn a_data_directory_in_use_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for role in ROLES {
        let mut first = start(dir.path(), role, role);
        first.address();
        let refusal = start(dir.path(), role, role).refusal();
        let wanted = "stop it or use another directory";
        assert!(
            refusal.contains(role) && refusal.contains(" is in use by "),
            "{refusal}"
        );
        assert!(refusal.ends_with(wanted), "{refusal}");
        first.terminate();
        assert!(first.end(STOP).success(), "{}", first.log());
    }
}

#[test]
fn data_of_another_version_or_kind_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (role, store) in ["serve", "serve", "log-store", "page-store"]
        .into_iter()
        .zip(["serve/log", "serve/pages", "log-store", "page-store"])
    {
        let mut process = start(dir.path(), role, role);
        process.address();
        process.terminate();
        assert!(process.end(STOP).success(), "{}", process.log());
        let label = dir.path().join(store).join("STORE");
        let right = fs::read_to_string(&label).unwrap();
        let (kind, _) = right.trim_end().rsplit_once(' ').unwrap();
        fs::write(&label, format!("{kind} 9\n")).unwrap();
        let refusal = start(dir.path(), role, role).refusal();
        assert!(
            refusal.contains(store) && refusal.contains("version 9"),
            "{refusal}"
        );
        assert!(
            refusal.ends_with("use the program that made it, or another directory"),
            "{refusal}"
        );
        fs::write(&label, right.replace("-store", "-something")).unwrap();
        let refusal = start(dir.path(), role, role).refusal();
        assert!(refusal.contains("-something"), "{refusal}");
        // Nothing was touched: with its label back the data is served again.
        fs::write(&label, right).unwrap();
        start(dir.path(), role, role).address();
    }
    // A directory of somebody else.
    fs::create_dir_all(dir.path().join("home/log")).unwrap();
    fs::write(dir.path().join("home/log/letter.txt"), "Dear").unwrap();
    let refusal = start(dir.path(), "serve", "home").refusal();
    assert!(refusal.contains("letter.txt"), "{refusal}");
}

/// A client, after it has said hello.
async fn connect(address: SocketAddr) -> Client {
    Client::connect(address, None).await.unwrap()
}

async fn make_table(address: SocketAddr) {
    let mut client = connect(address).await;
    client.execute("CREATE DATABASE s").await.unwrap();
    client
        .execute("CREATE TABLE s.t (id INT PRIMARY KEY)")
        .await
        .unwrap();
    let rows: Vec<_> = (0..1000).map(|i| format!("({i})")).collect();
    let insert = format!("INSERT INTO s.t VALUES {}", rows.join(","));
    client.execute(&insert).await.unwrap();
    client.close().await.unwrap();
}

/// The end of a process that was told to stop.
async fn ended(mut process: Process) -> (Process, ExitStatus) {
    spawn_blocking(move || {
        let status = process.end(STOP);
        (process, status)
    })
    .await
    .unwrap()
}

/// A LOAD DATA that runs until its file ends, which has two rows so far.
async fn load_from_pipe(
    address: SocketAddr,
    dir: &Path,
) -> (JoinHandle<Result<u64, WorkloadError>>, File) {
    let path = dir.join("pipe");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let mut loader = connect(address).await;
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE s.t", path.display());
    let loading = tokio::spawn(async move { loader.execute(&load).await });
    let opened = spawn_blocking(move || File::options().write(true).open(path).unwrap());
    let mut pipe = opened.await.unwrap();
    pipe.write_all(b"5000\n5001\n").unwrap();
    (loading, pipe)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_can_finish_does() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = start(dir.path(), "serve", "data");
    let address = process.address();
    make_table(address).await;
    let (loading, mut pipe) = load_from_pipe(address, dir.path()).await;
    let mut idle = connect(address).await;
    process.terminate();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Nobody new is served, and who is idle is told.
    assert!(Client::connect(address, None).await.is_err());
    let told = idle.query("SELECT 1").await.unwrap_err().to_string();
    assert!(told.contains("1053") || told.contains("losed"), "{told}");
    pipe.write_all(b"5002\n").unwrap();
    drop(pipe);
    assert_eq!(loading.await.unwrap().unwrap(), 3);
    let (process, status) = ended(process).await;
    assert!(status.success(), "{}", process.log());
    let mut process = start(dir.path(), "serve", "data");
    let mut client = connect(process.address()).await;
    let rows = client.number("SELECT COUNT(*) FROM s.t").await.unwrap();
    assert_eq!(rows as u64, 1003);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_does_not_finish_is_undone_and_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = start(dir.path(), "serve", "data");
    let address = process.address();
    make_table(address).await;
    let mut client = connect(address).await;
    let endless = "SELECT COUNT(*) FROM s.t a, s.t b, s.t c, s.t d \
        WHERE a.id + b.id + c.id + d.id = 1";
    let running = tokio::spawn(async move { client.query(endless).await });
    let (loading, pipe) = load_from_pipe(address, dir.path()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    process.terminate();
    let told = running.await.unwrap().unwrap_err().to_string();
    assert!(told.contains("1053") && told.contains("08S01"), "{told}");
    let (process, status) = ended(process).await;
    assert!(status.success(), "{}", process.log());
    drop(pipe);
    assert!(loading.await.unwrap().is_err());
    let mut process = start(dir.path(), "serve", "data");
    let mut client = connect(process.address()).await;
    let rows = client.number("SELECT COUNT(*) FROM s.t").await.unwrap();
    assert_eq!(rows as u64, 1000);
}

#[test]
fn an_idle_connection_is_told_of_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = start(dir.path(), "serve", "data");
    let mut socket = TcpStream::connect(process.address()).unwrap();
    let mut greeting = [0; 4];
    socket.read_exact(&mut greeting).unwrap();
    process.terminate();
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    let text = String::from_utf8_lossy(&rest);
    assert!(text.contains("#08S01Server shutdown in progress"), "{text}");
    assert!(process.end(STOP).success(), "{}", process.log());
}

/// Stores end although a frontend is connected, and the frontend although they are gone.
#[test]
fn processes_of_a_cluster_stop_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut log_store = start(dir.path(), "log-store", "log");
    let mut page_store = start(dir.path(), "page-store", "pages");
    let stores = [log_store.address(), page_store.address()].map(|a| a.to_string());
    let arguments = [
        "frontend",
        "--log-store",
        &stores[0],
        "--page-store",
        &stores[1],
        "--listen",
        "127.0.0.1:0",
    ];
    let mut frontend = Process::start(dir.path(), &arguments);
    frontend.address();
    for process in [&mut page_store, &mut log_store, &mut frontend] {
        process.terminate();
        assert!(process.end(STOP).success(), "{}", process.log());
    }
    // Another frontend finds stores that are not there.
    let begin = Instant::now();
    let refusal = Process::start(dir.path(), &arguments).refusal();
    assert!(refusal.contains(&stores[0]), "{refusal}");
    assert!(begin.elapsed() < START);
}
